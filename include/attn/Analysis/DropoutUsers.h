//===- DropoutUsers.h - Attentions with the same keep mask ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds attentions with the same keep mask, and matmuls that run before them.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_DROPOUTUSERS_H
#define ATTN_ANALYSIS_DROPOUTUSERS_H

#include "attn/Dialect/Attn/IR/AttnOps.h"

#include <string>

namespace mlir::attn {

/// Attentions and gradients of one block that have the same keep mask, in the
/// order in which they run.
struct DropoutUsers {
  DropoutAttr dropout;
  /// `positions` is null unless the attentions are shards.
  Value seed, offset, positions;
  /// Batch entries, heads, queries and keys.
  std::array<int64_t, 4> sizes;
  /// The values that have these sizes.
  Value query, key;
  SmallVector<AttentionOpInterface> ops;

  Location getLoc() const { return ops.front()->getLoc(); }
  int64_t getNumHeads() const { return sizes[1]; }
  /// The layout that gains most: the one of gradients, if there are any, which
  /// take the longest.
  MaskLayout getLayout() const;
};

/// All operations in `root` on tensors that generate keep masks.
SmallVector<DropoutUsers> collectDropoutUsers(Operation *root);

/// The matmuls of the block of `users` that can run concurrently with the
/// generation of their keep mask, nearest first. They run before `users`,
/// nothing in between may write memory, and `needed` can be computed before
/// them. If there are none, `reason` says why.
SmallVector<MatmulOp> findMatmulsBefore(const DropoutUsers &users,
                                        ArrayRef<Value> needed,
                                        std::string &reason);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_DROPOUTUSERS_H
