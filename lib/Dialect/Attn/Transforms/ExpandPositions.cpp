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
#include "MaskMod.h"
#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/IR/ShardPositions.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
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

/// The offsets of the arguments (batch, head, query, key) of a region.
static constexpr ShardPosition offsetEntries[] = {
    ShardPosition::FirstBatch, ShardPosition::FirstHead,
    ShardPosition::FirstQuery, ShardPosition::FirstKey};

/// Adds the offsets to the arguments of `block` from number `first` on. Returns
/// the global coordinates.
static SmallVector<Value> addOffsets(RewriterBase &rewriter, Location loc,
                                     Block &block, unsigned first,
                                     Value positions) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPointToStart(&block);
  SmallVector<Value> sums;
  for (auto [number, entry] : llvm::enumerate(offsetEntries)) {
    BlockArgument argument = block.getArgument(first + number);
    Value offset = emitShardPosition(rewriter, loc, positions, entry);
    auto sum = arith::AddIOp::create(rewriter, loc, argument, offset);
    rewriter.replaceAllUsesExcept(argument, sum, sum);
    sums.push_back(sum);
  }
  return sums;
}

/// Erases operations of `block` whose results are not used.
static void eraseUnused(RewriterBase &rewriter, Block &block) {
  SmallVector<Operation *> ops(
      llvm::make_pointer_range(block.without_terminator()));
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      rewriter.eraseOp(op);
}

/// Makes `region`, with arguments (batch, head, query, key) from number `first`
/// on, see global coordinates.
static void expandRegion(RewriterBase &rewriter, Location loc, Region &region,
                         unsigned first, Value positions) {
  if (region.empty())
    return;
  addOffsets(rewriter, loc, region.front(), first, positions);
  eraseUnused(rewriter, region.front());
}

/// Moves the named mask into the mask_mod region, at global coordinates.
static void expandMask(RewriterBase &rewriter, AttentionOpInterface op,
                       Value positions) {
  MaskAttrInterface mask = op.getMaskAttr();
  Region &region = op.getMaskMod();
  Location loc = op.getLoc();
  if (!mask)
    return expandRegion(rewriter, loc, region, /*first=*/0, positions);
  addToMaskMod(rewriter, op, mask, [&](Block &block) -> MaskPosition {
    SmallVector<Value> at =
        addOffsets(rewriter, loc, block, /*first=*/0, positions);
    Value queries =
        emitShardPosition(rewriter, loc, positions, ShardPosition::NumQueries);
    Value keys =
        emitShardPosition(rewriter, loc, positions, ShardPosition::NumKeys);
    return {at[0], at[1], at[2], at[3], queries, keys};
  });
  eraseUnused(rewriter, region.front());
  rewriter.modifyOpInPlace(op, [&] { op.removeMaskAttr(); });
}

static void expand(RewriterBase &rewriter, AttentionOpInterface op) {
  Value positions = op.getPositions();
  // Callers cannot tell the positions from the code that replaces them.
  auto func = op->getParentOfType<FunctionOpInterface>();
  if (BlockArgument argument = getFunctionArgument(func, positions))
    nameArgument(rewriter, func, argument, "positions");
  expandMask(rewriter, op, positions);
  expandRegion(rewriter, op.getLoc(), op.getScoreMod(), /*first=*/1, positions);
  if (auto grad = dyn_cast<AttentionGradOp>(op.getOperation()))
    expandRegion(rewriter, op.getLoc(), grad.getScoreModGrad(), /*first=*/2,
                 positions);
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
