//===- DecomposeLinearAttention.h - Parts around the recurrence -*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Feature maps, normalizers and masks of linear attention as other operations.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_TRANSFORMS_DECOMPOSELINEARATTENTION_H
#define ATTN_DIALECT_ATTN_TRANSFORMS_DECOMPOSELINEARATTENTION_H

#include "attn/Dialect/Attn/IR/AttnLinearOps.h"

namespace mlir {
class RewriterBase;
} // namespace mlir

namespace mlir::attn {

/// Replaces `op`, which is not plain, by plain linear attention and operations
/// around it, or fails with a diagnostic. With `resetLocalBlocks`, log-decays
/// end states before each local block of a causal operation; else local blocks
/// become batch entries.
LogicalResult decomposeLinearAttention(RewriterBase &rewriter,
                                       LinearAttentionOp op,
                                       bool resetLocalBlocks);

/// Applies the feature map of `op` to its queries and keys by operations before
/// it, and leaves the rest of `op` as it is, or fails with a diagnostic.
LogicalResult hoistFeature(RewriterBase &rewriter, LinearAttentionOp op);

/// Decomposes each `attn.linear_attention` in `root` that is not plain
/// (`attn-decompose-linear-attention`). Returns how many there were, or fails
/// with a diagnostic.
FailureOr<int64_t> decomposeAllLinearAttention(RewriterBase &rewriter,
                                               Operation *root,
                                               bool resetLocalBlocks = false);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_DECOMPOSELINEARATTENTION_H
