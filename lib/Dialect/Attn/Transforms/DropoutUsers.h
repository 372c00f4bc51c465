//===- DropoutUsers.h - Attentions that drop the same weights ---*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which attentions drop the same weights, and which products run before them.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DROPOUTUSERS_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DROPOUTUSERS_H

#include "attn/Dialect/Attn/IR/AttnOps.h"

#include <string>

namespace mlir::attn {

/// Attentions and gradients of one block that make the same decisions, in the
/// order in which they run.
struct DropoutUsers {
  DropoutAttr dropout;
  Value seed, offset;
  /// Batch entries, heads, queries and keys.
  std::array<int64_t, 4> sizes;
  /// What these are sizes of.
  Value query, key;
  SmallVector<AttentionOpInterface> ops;

  Location getLoc() const { return ops.front()->getLoc(); }
  int64_t getNumHeads() const { return sizes[1]; }
  /// The layout that gains most: that of gradients, if there are any, which
  /// take the longest.
  MaskLayout getLayout() const;
};

/// All operations in `root` on tensors that make decisions.
SmallVector<DropoutUsers> collectDropoutUsers(Operation *root);

/// The products of the block of `users` beside which decisions for them can be
/// made, nearest first: those that run before, with nothing in between that may
/// write memory, and before which `needed` can be computed. If there are none,
/// `reason` says why.
SmallVector<MatmulOp> findProductsBefore(const DropoutUsers &users,
                                         ArrayRef<Value> needed,
                                         std::string &reason);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DROPOUTUSERS_H
