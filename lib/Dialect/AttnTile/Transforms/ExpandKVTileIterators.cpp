//===- ExpandKVTileIterators.cpp - Expand key tile ranges -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns the key ranges that a mask leaves for a tile of queries into the steps
// of the loop over key tiles: ranges of tiles, one after the other.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/AttnTile/Transforms/KVTileIterator.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Transforms/FoldUtils.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEEXPANDKVTILEITERATORSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
/// Emits the index arithmetic of one KV tile iterator.
class KVTileIteratorExpander {
public:
  KVTileIteratorExpander(RewriterBase &rewriter, KVTileIteratorOp op)
      : b(op.getLoc(), rewriter), op(op), zero(index(0)), one(index(1)) {}

  /// Emits the number of masked steps and the number of all steps.
  std::pair<Value, Value> expand();
  /// Emits `count`, or one where the tiles are not needed.
  Value emitIfNeeded(Value count) {
    if (!op.getNeeded())
      return count;
    return arith::SelectOp::create(b, op.getNeeded(), count, one);
  }

  /// Emits, before `at`, the tile that its step visits.
  Value emitTile(KVTileAtOp at);

  /// Emits, before `isEmpty`, whether the split has no step.
  Value emitIsEmpty(IsSplitEmptyOp isEmpty);

private:
  /// The same as `expand`, but for all splits together.
  std::pair<Value, Value> expandWhole();
  /// Restricts an iterator of `masked` and `count` steps to its split.
  std::pair<Value, Value> takeSplit(Value masked, Value count);
  /// The same as `expandWhole`, for tiles that an earlier kernel has listed.
  std::pair<Value, Value> expandList();
  Value emitListedTile(Value step);
  /// Loads an entry of the row of the list.
  Value loadEntry(Value column) {
    SmallVector<Value> indices(op.getRow());
    indices.push_back(column);
    Value entry = memref::LoadOp::create(b, op.getList(), indices);
    return arith::IndexCastOp::create(b, b.getIndexType(), entry);
  }

  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  ImplicitLocOpBuilder b;
  KVTileIteratorOp op;
  Value zero, one;
  attn::TileIteration walk{/*isDescending=*/true};
  /// Number of partial tiles in a list, and the column of its first full one.
  Value listedMasked, lastColumn;
  /// The first step of the split, and the step after its last one.
  Value splitBegin, splitEnd;
};
} // namespace

std::pair<Value, Value> KVTileIteratorExpander::expandList() {
  listedMasked = loadEntry(zero);
  lastColumn = arith::SubIOp::create(
      b, memref::DimOp::create(b, op.getList(), 3).getResult(), one);
  Value count = arith::MaxSIOp::create(b, loadEntry(one), one);
  Value masked = arith::MaxSIOp::create(b, listedMasked, one);
  return {arith::MinSIOp::create(b, masked, count), count};
}

Value KVTileIteratorExpander::emitListedTile(Value step) {
  Value isMasked =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, step, listedMasked);
  Value fromStart = arith::AddIOp::create(b, step, index(2));
  Value full = arith::SubIOp::create(b, step, listedMasked);
  Value fromEnd = arith::SubIOp::create(b, lastColumn, full);
  return loadEntry(arith::SelectOp::create(b, isMasked, fromStart, fromEnd));
}

std::pair<Value, Value> KVTileIteratorExpander::expand() {
  auto [masked, count] = expandWhole();
  return op.getSplit() ? takeSplit(masked, count) : std::pair(masked, count);
}

std::pair<Value, Value> KVTileIteratorExpander::takeSplit(Value masked,
                                                          Value count) {
  // `count` is at least one, so every split begins at a step that exists, even
  // if the split is empty.
  auto emitBound = [&](Value part) -> Value {
    return arith::DivUIOp::create(
        b, arith::MulIOp::create(b, count, part).getResult(), op.getSplits());
  };
  splitBegin = emitBound(op.getSplit());
  splitEnd = emitBound(arith::AddIOp::create(b, op.getSplit(), one));
  Value steps = arith::MaxSIOp::create(
      b, arith::SubIOp::create(b, splitEnd, splitBegin).getResult(), one);
  if (masked == count)
    return {steps, steps};
  Value maskedSteps = arith::MaxSIOp::create(
      b, arith::SubIOp::create(b, masked, splitBegin).getResult(), one);
  return {arith::MinSIOp::create(b, maskedSteps, steps), steps};
}

Value KVTileIteratorExpander::emitIsEmpty(IsSplitEmptyOp isEmpty) {
  b.setInsertionPoint(isEmpty);
  if (!op.getSplit())
    return arith::ConstantIntOp::create(b, 0, 1);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, splitBegin,
                               splitEnd);
}

std::pair<Value, Value> KVTileIteratorExpander::expandWhole() {
  if (op.getList())
    return expandList();
  attn::ScoreMask mask = {op.getMaskAttr(),    &op.getMaskMod(),
                          op.getBatch(),       op.getHead(),
                          op.getQueryLength(), op.getKeyLength()};
  bool isLimited = false;
  attn::TileRanges ranges = attn::emitTileRanges(
      b, b.getLoc(), mask, attn::MaskDim::Query, op.getFirstQuery(),
      op.getQueryTile(), op.getKeyTile(), &isLimited);
  if (isLimited)
    attn::reportLimitedTiles(op.getLoc());
  Value masked = walk.add(b, ranges.masked, zero);
  Value count = walk.add(b, ranges.full, masked);
  count = arith::MaxSIOp::create(b, count, one);
  if (ranges.full.empty())
    return {count, count};
  masked = arith::MaxSIOp::create(b, masked, one);
  return {arith::MinSIOp::create(b, masked, count), count};
}

Value KVTileIteratorExpander::emitTile(KVTileAtOp at) {
  b.setInsertionPoint(at);
  Value step = at.getStep();
  if (splitBegin)
    step = arith::AddIOp::create(b, splitBegin, step);
  if (op.getList())
    return emitListedTile(step);
  return walk.emitTile(b, step);
}

namespace {
/// Remembers the operations that are created, in order.
struct CreatedOps : RewriterBase::ForwardingListener {
  using ForwardingListener::ForwardingListener;
  void notifyOperationInserted(Operation *op,
                               OpBuilder::InsertPoint previous) override {
    ops.push_back(op);
    ForwardingListener::notifyOperationInserted(op, previous);
  }
  SmallVector<Operation *> ops;
};
} // namespace

void mlir::attn_tile::expandKVTileIterator(RewriterBase &rewriter,
                                           KVTileIteratorOp op) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  OpBuilder::Listener *listener = rewriter.getListener();
  CreatedOps created(listener);
  rewriter.setListener(&created);
  KVTileIteratorExpander expander(rewriter, op);
  auto [masked, count] = expander.expand();
  bool isAllMasked = masked == count;
  count = expander.emitIfNeeded(count);
  masked = isAllMasked ? count : expander.emitIfNeeded(masked);
  for (Operation *user : llvm::make_early_inc_range(op.getTiles().getUsers())) {
    if (auto isEmpty = dyn_cast<IsSplitEmptyOp>(user)) {
      rewriter.replaceOp(isEmpty, expander.emitIsEmpty(isEmpty));
      continue;
    }
    auto tileAt = cast<KVTileAtOp>(user);
    rewriter.replaceOp(tileAt, expander.emitTile(tileAt));
  }
  rewriter.setListener(listener);
  rewriter.replaceAllUsesWith(op.getMasked(), masked);
  rewriter.replaceAllUsesWith(op.getCount(), count);
  rewriter.eraseOp(op);

  // Folds in the order of creation, so that constants propagate.
  OperationFolder folder(rewriter.getContext(), listener);
  for (Operation *newOp : created.ops)
    (void)folder.tryToFold(newOp);
}

namespace {
struct ExpandKVTileIterators
    : KernelPass<ExpandKVTileIterators,
                 attn_tile::impl::AttnTileExpandKVTileIteratorsPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain, KernelPhase::Final};

  void runOnKernel() {
    IRRewriter rewriter(&getContext());
    getOperation().walk(
        [&](KVTileIteratorOp op) { expandKVTileIterator(rewriter, op); });
  }
};
} // namespace
