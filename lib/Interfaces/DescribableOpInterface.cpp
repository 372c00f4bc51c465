//===- DescribableOpInterface.cpp - Operands for callers ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The generated methods of the interface.
//
//===----------------------------------------------------------------------===//

#include "attn/Interfaces/DescribableOpInterface.h"

#include "attn/Interfaces/DescribableOpInterface.cpp.inc"
