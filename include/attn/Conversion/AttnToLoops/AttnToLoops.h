//===- AttnToLoops.h - Attention to plain loops ----------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes attention as plain loops in f64. Tiled kernels are checked against
// these loops, so the two have no code in common.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_ATTNTOLOOPS_ATTNTOLOOPS_H
#define ATTN_CONVERSION_ATTNTOLOOPS_ATTNTOLOOPS_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::attn {

/// Writes loops that compute the rows 0, `rowStep`, 2 * `rowStep`, ... of the
/// bufferised `attention` in f64. Operands and captured values are looked up in
/// `mapping`, which may map an output to a memref of another float type.
void writeAttentionLoops(OpBuilder &builder, AttentionOp attention,
                         const IRMapping &mapping, Value rowStep);

/// The same for the gradient: computes every `rowStep`-th row of dQ, dK and dV
/// from all rows of the operands. Additions of regions to destinations come
/// from all rows. Fails, with a diagnostic, if the `score_mod` region has no
/// `score_mod_grad` region.
LogicalResult writeAttentionGradLoops(OpBuilder &builder, AttentionGradOp grad,
                                      const IRMapping &mapping, Value rowStep);

/// Writes loops that compute all elements of the bufferised matmul `op`, with
/// accumulation in f64 and the epilogue in f32.
void writeMatmulLoops(OpBuilder &builder, MatmulOp op,
                      const IRMapping &mapping);

/// The same for any operation of attention.
LogicalResult writeLoops(OpBuilder &builder, AttentionOpInterface attention,
                         const IRMapping &mapping, Value rowStep);

} // namespace mlir::attn

#endif // ATTN_CONVERSION_ATTNTOLOOPS_ATTNTOLOOPS_H
