//===- AttnQuantizeOp.h - Tensors of 8 bits ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The quantization of tensors to 8 bits, with scales.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNQUANTIZEOP_H
#define ATTN_DIALECT_ATTN_IR_ATTNQUANTIZEOP_H

#include "attn/Dialect/Attn/IR/AttnOps.h"

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnQuantizeOp.h.inc"

#endif // ATTN_DIALECT_ATTN_IR_ATTNQUANTIZEOP_H
