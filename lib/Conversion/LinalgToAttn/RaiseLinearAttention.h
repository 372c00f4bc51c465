//===- RaiseLinearAttention.h - Linear attention from linalg ---*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the matches of `LinearAttentionMatcher` as `attn.linear_attention`.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_LINALGTOATTN_RAISELINEARATTENTION_H
#define ATTN_LIB_CONVERSION_LINALGTOATTN_RAISELINEARATTENTION_H

#include "MatchLinearAttention.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::attn {

/// Raises `op`, and all operations that add up weights of the same scores, so
/// that no scores are left. Returns how many became linear attention; fails
/// with a `reason`, or without one if `op` does not look like linear attention.
FailureOr<unsigned> raiseLinearAttention(RewriterBase &rewriter,
                                         linalg::LinalgOp op,
                                         const Target &target,
                                         std::string &reason);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_LINALGTOATTN_RAISELINEARATTENTION_H
