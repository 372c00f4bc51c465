//===- MergeToLoops.h - Merges to plain loops -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes merges of partial results, and their gradients, as loops in f64.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOLOOPS_MERGETOLOOPS_H
#define ATTN_LIB_CONVERSION_ATTNTOLOOPS_MERGETOLOOPS_H

#include "attn/Dialect/Attn/IR/AttnMergeOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::attn {

/// Writes loops that compute the bufferised `op` in f64. Operands are looked up
/// in `mapping`, which may map an output to a memref of another float type.
void writeMergeLoops(OpBuilder &builder, MergeOp op, const IRMapping &mapping);
void writeMergeGradLoops(OpBuilder &builder, MergeGradOp op,
                         const IRMapping &mapping);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOLOOPS_MERGETOLOOPS_H
