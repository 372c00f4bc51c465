//===- Toy.h - A mask and a schedule of another dialect -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOY_H
#define TOY_H

#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "mlir/IR/Dialect.h"

#include "ToyDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "ToyAttrs.h.inc"

#endif // TOY_H
