//===- ExpandPositions.cpp - Positions of shards as code ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes the offsets of a shard part of its mask and its regions.
//
//===----------------------------------------------------------------------===//

#include "FunctionArguments.h"
#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/IR/ShardPositions.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/Attn/Transforms/RegionPositions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNEXPANDPOSITIONSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

static_assert(kLargestShardPosition <= kLargestSymbol,
              "closed forms must be correct for all entries");

/// The coordinates in the larger attention of `at`, (batch, head, query, key)
/// of a shard.
static MaskPosition emitGlobal(OpBuilder &builder, Location loc,
                               Value positions, ValueRange at) {
  auto add = [&](Value position, ShardPosition offset) {
    return emitGlobalPosition(builder, loc, positions, offset, position);
  };
  return {add(at[0], ShardPosition::FirstBatch),
          add(at[1], ShardPosition::FirstHead),
          add(at[2], ShardPosition::FirstQuery),
          add(at[3], ShardPosition::FirstKey),
          emitShardPosition(builder, loc, positions, ShardPosition::NumQueries),
          emitShardPosition(builder, loc, positions, ShardPosition::NumKeys)};
}

static void expand(RewriterBase &rewriter, AttentionOpInterface op) {
  Value positions = op.getPositions();
  // Callers cannot tell the positions from the code that replaces them.
  auto func = op->getParentOfType<FunctionOpInterface>();
  if (BlockArgument argument = getFunctionArgument(func, positions))
    nameArgument(rewriter, func, argument, "positions");
  replacePositions(rewriter, op, [&](OpBuilder &builder, ValueRange at) {
    return emitGlobal(builder, op.getLoc(), positions, at);
  });
  rewriter.modifyOpInPlace(op, [&] {
    if (op.getDropoutAttr())
      op.setDropoutOnly(true);
    else
      op.getPositionsMutable().clear();
  });
}

namespace {
struct AttnExpandPositionsPass
    : attn::impl::AttnExpandPositionsPassBase<AttnExpandPositionsPass> {
  using Base::Base;

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](AttentionOpInterface op) {
      if (!op.isShard())
        return;
      expand(rewriter, op);
      ++numShards;
    });
  }
};
} // namespace
