//===- FusibleOpInterface.cpp - Fusion with attention ---------------------===//
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

#include "attn/Interfaces/FusibleOpInterface.h"

#include "attn/Interfaces/FusibleOpInterface.cpp.inc"

using namespace mlir::attn;

ElementSource::~ElementSource() = default;
