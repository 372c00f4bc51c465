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

/// Whether the rows of `state`, of f32, can begin at multiples of 16 bytes. The
/// states of a normalizer have a column more than values, and their rows do
/// not.
bool mayHaveAlignedRows(Value state);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_ATTNLINEAROPS_H
