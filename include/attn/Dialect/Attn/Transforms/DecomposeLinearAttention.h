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

/// Replaces each `attn.linear_attention` in `root` that is not plain by plain
/// ones and operations around them (`attn-decompose-linear-attention`). Returns
/// how many there were, or fails with a diagnostic.
FailureOr<int64_t> decomposeLinearAttention(RewriterBase &rewriter,
                                            Operation *root);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_DECOMPOSELINEARATTENTION_H
