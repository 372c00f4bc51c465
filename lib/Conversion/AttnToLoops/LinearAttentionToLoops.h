//===- LinearAttentionToLoops.h - Plain loops -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Linear attention and its gradient as loops in f64.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOLOOPS_LINEARATTENTIONTOLOOPS_H
#define ATTN_LIB_CONVERSION_ATTNTOLOOPS_LINEARATTENTIONTOLOOPS_H

#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::attn {

/// Writes loops that compute the bufferised `op` in f64. Operands are looked up
/// in `mapping`, which may map an output to a memref of another float type.
void writeLinearAttentionLoops(OpBuilder &builder, LinearAttentionOp op,
                               const IRMapping &mapping);
void writeLinearAttentionGradLoops(OpBuilder &builder, LinearAttentionGradOp op,
                                   const IRMapping &mapping);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOLOOPS_LINEARATTENTIONTOLOOPS_H
