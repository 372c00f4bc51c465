//===- WorkItemIteration.h - Orders of work items ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The work items of a kernel that one CTA visits, and their order.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_WORKITEMITERATION_H
#define ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_WORKITEMITERATION_H

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

/// Emits all `sizes` multiplied together.
Value emitProduct(IndexBuilder &builder, ArrayRef<OpFoldResult> sizes);

/// Emits the induction variables of work item number `item`. The last one
/// counts down, since the last query tiles have the most work under a causal
/// mask; `interleave` combinations of the others are visited together.
SmallVector<Value> emitWorkItem(IndexBuilder &builder, Value item,
                                ArrayRef<OpFoldResult> sizes,
                                int64_t interleave);

/// Emits how many of the numbers `[0, total)` are `program` plus a multiple of
/// `programs`.
Value emitShare(IndexBuilder &builder, Value total, Value program,
                Value programs);

/// The units that visit work items: CTAs, or clusters of CTAs whose work items
/// differ in the last dimension of the loop.
struct Programs {
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

/// The work items of one CTA: their number, and how to find each.
struct WorkItemIteration {
  Value count;
  std::function<SmallVector<Value>(IndexBuilder &, Value)> emitIndices;

  static WorkItemIteration overWorkItems(IndexBuilder &builder,
                                         const Programs &ctas,
                                         ArrayRef<OpFoldResult> sizes,
                                         int64_t interleave,
                                         bool isInOrder = false);
  static WorkItemIteration overPairs(IndexBuilder &builder,
                                     const Programs &ctas,
                                     ArrayRef<OpFoldResult> sizes);
  static WorkItemIteration overPairsInOrder(IndexBuilder &builder,
                                            const Programs &ctas,
                                            ArrayRef<OpFoldResult> sizes,
                                            int64_t lastWorkItems);
  static WorkItemIteration overNeighbours(IndexBuilder &builder,
                                          const Programs &ctas,
                                          ArrayRef<OpFoldResult> sizes,
                                          int64_t interleave);
};

} // namespace mlir::attn_tile

#endif // ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_WORKITEMITERATION_H
