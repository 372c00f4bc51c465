//===- ItemWalks.h - Orders in which groups visit work items ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What one group visits of the work items of a kernel, and in which order.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ITEMWALKS_H
#define ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ITEMWALKS_H

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/OpDefinition.h"

#include <functional>

namespace mlir::attn_tile {

/// Shorthand for index arithmetic that folds constants.
struct IndexBuilder : ImplicitLocOpBuilder {
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(*this, value);
  }
  Value add(Value lhs, Value rhs) {
    return createOrFold<arith::AddIOp>(lhs, rhs);
  }
  Value sub(Value lhs, Value rhs) {
    return createOrFold<arith::SubIOp>(lhs, rhs);
  }
  Value mul(Value lhs, Value rhs) {
    return createOrFold<arith::MulIOp>(lhs, rhs);
  }
  Value div(Value lhs, Value rhs) {
    return createOrFold<arith::DivUIOp>(lhs, rhs);
  }
  Value rem(Value lhs, Value rhs) {
    return createOrFold<arith::RemUIOp>(lhs, rhs);
  }
  Value min(Value lhs, Value rhs) {
    return createOrFold<arith::MinUIOp>(lhs, rhs);
  }
};

/// The product of `sizes`.
Value emitProduct(IndexBuilder &builder, ArrayRef<OpFoldResult> sizes);

/// Emits the induction variables of work item number `item`. The last one
/// counts down, since the last query tiles have the most work under a causal
/// mask; `interleave` combinations of the others are walked together.
SmallVector<Value> emitItem(IndexBuilder &builder, Value item,
                            ArrayRef<OpFoldResult> sizes, int64_t interleave);

/// Emits how many of the numbers `[0, total)` are `program` plus a multiple of
/// `programs`.
Value emitShare(IndexBuilder &builder, Value total, Value program,
                Value programs);

/// What walks over the items: groups, or clusters of them that have the same
/// items but for the last dimension of the loop.
struct Walkers {
  Value emitId(IndexBuilder &builder) const {
    if (cluster > 1)
      return ClusterIdOp::create(builder);
    return ProgramIdOp::create(builder, 0);
  }
  Value emitCount(IndexBuilder &builder) const {
    if (cluster > 1)
      return NumClustersOp::create(builder);
    return NumProgramsOp::create(builder, 0);
  }

  int64_t cluster;
};

/// What one group walks over: the number of its items, and how to find each.
struct Walk {
  Value count;
  std::function<SmallVector<Value>(IndexBuilder &, Value)> emitIndices;

  static Walk overItems(IndexBuilder &builder, const Walkers &walkers,
                        ArrayRef<OpFoldResult> sizes, int64_t interleave,
                        bool isInOrder = false);
  static Walk overPairs(IndexBuilder &builder, const Walkers &walkers,
                        ArrayRef<OpFoldResult> sizes);
  static Walk overPairsInOrder(IndexBuilder &builder, const Walkers &walkers,
                               ArrayRef<OpFoldResult> sizes, int64_t lastItems);
  static Walk overNeighbours(IndexBuilder &builder, const Walkers &walkers,
                             ArrayRef<OpFoldResult> sizes, int64_t interleave);
};

} // namespace mlir::attn_tile

#endif // ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ITEMWALKS_H
