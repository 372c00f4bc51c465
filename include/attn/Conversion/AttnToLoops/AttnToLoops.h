//===- AttnToLoops.h - Attention to plain loops -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes attention as plain loops in f64. What computes with tiles is checked
// against it, so it shares no code with them.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_ATTNTOLOOPS_ATTNTOLOOPS_H
#define ATTN_CONVERSION_ATTNTOLOOPS_ATTNTOLOOPS_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::attn {

/// Writes loops that compute the rows 0, `rowStep`, 2 * `rowStep`, ... of the
/// bufferised `attention` in f64. Operands and captured values are looked up in
/// `mapping`; what stands for an output may have another float element type
/// than the output.
void writeAttentionLoops(OpBuilder &builder, AttentionOp attention,
                         const IRMapping &mapping, Value rowStep);

/// The same for the gradient: computes each `rowStep`-th row of the gradients
/// of queries, keys and values, from all rows of the operands. What regions add
/// to destinations comes from all rows. Fails, with a diagnostic, if the
/// gradient of the score region is not written out.
LogicalResult writeAttentionGradLoops(OpBuilder &builder, AttentionGradOp grad,
                                      const IRMapping &mapping, Value rowStep);

/// The same for any operation with loops.
LogicalResult writeLoops(OpBuilder &builder, AttentionOpInterface attention,
                         const IRMapping &mapping, Value rowStep);

} // namespace mlir::attn

#endif // ATTN_CONVERSION_ATTNTOLOOPS_ATTNTOLOOPS_H
