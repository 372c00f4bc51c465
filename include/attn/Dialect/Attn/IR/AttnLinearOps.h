//===- AttnLinearOps.h - Linear attention -----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Linear attention and its gradient.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNLINEAROPS_H
#define ATTN_DIALECT_ATTN_IR_ATTNLINEAROPS_H

#include "attn/Dialect/Attn/IR/AttnOps.h"

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnLinearOps.h.inc"

namespace mlir::attn {

/// Whether the rows of `state`, `[B, H, Dk, Dv]` of f32, can begin at multiples
/// of 16 bytes. Rows of a view of a normalizer's state cannot: that state has
/// one column more than values.
bool mayHaveAlignedRows(Value state);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_ATTNLINEAROPS_H
