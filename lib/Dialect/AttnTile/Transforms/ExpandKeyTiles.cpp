//===- ExpandKeyTiles.cpp - Expansion of key tile ranges ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns the range of keys that a mask gives for a tile of queries into the
// steps of the loop over key tiles: ranges of tiles, one after the other.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/AttnTile/Transforms/KeyTiles.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Transforms/FoldUtils.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEEXPANDKEYTILESPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
/// Emits the arithmetic of one walk.
class KeyTilesExpander {
public:
  KeyTilesExpander(RewriterBase &rewriter, KeyTilesOp op)
      : b(op.getLoc(), rewriter), op(op), zero(index(0)), one(index(1)) {}

  /// Emits the number of masked steps and of all.
  std::pair<Value, Value> expand();
  /// Emits `count`, or one where the tiles are not needed.
  Value emitIfNeeded(Value count) {
    if (!op.getNeeded())
      return count;
    return arith::SelectOp::create(b, op.getNeeded(), count, one);
  }

  /// Emits the tile that the step of `at` visits, before it.
  Value emitTile(TileAtOp at);

  /// Emits whether there is no step, before `isEmpty`.
  Value emitIsEmpty(WalkIsEmptyOp isEmpty);

private:
  /// The same as `expand` for the whole walk.
  std::pair<Value, Value> expandWhole();
  /// Leaves the steps of the share of a walk with so many steps.
  std::pair<Value, Value> takeShare(Value masked, Value count);
  /// The same for tiles that have been listed.
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
  KeyTilesOp op;
  Value zero, one;
  attn::TileWalk walk{/*isDescending=*/true};
  /// Number of masked tiles in a list, and the column of its first full one.
  Value listedMasked, lastColumn;
  /// Of a share, its first step and the one after its last.
  Value shareBegin, shareEnd;
};
} // namespace

std::pair<Value, Value> KeyTilesExpander::expandList() {
  listedMasked = loadEntry(zero);
  lastColumn = arith::SubIOp::create(
      b, memref::DimOp::create(b, op.getList(), 3).getResult(), one);
  Value count = arith::MaxSIOp::create(b, loadEntry(one), one);
  Value masked = arith::MaxSIOp::create(b, listedMasked, one);
  return {arith::MinSIOp::create(b, masked, count), count};
}

Value KeyTilesExpander::emitListedTile(Value step) {
  Value isMasked =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, step, listedMasked);
  Value fromStart = arith::AddIOp::create(b, step, index(2));
  Value full = arith::SubIOp::create(b, step, listedMasked);
  Value fromEnd = arith::SubIOp::create(b, lastColumn, full);
  return loadEntry(arith::SelectOp::create(b, isMasked, fromStart, fromEnd));
}

std::pair<Value, Value> KeyTilesExpander::expand() {
  auto [masked, count] = expandWhole();
  return op.getPart() ? takeShare(masked, count) : std::pair(masked, count);
}

std::pair<Value, Value> KeyTilesExpander::takeShare(Value masked, Value count) {
  // There is a step for the first share at least, so that all of them begin at
  // one that exists.
  auto emitBound = [&](Value part) -> Value {
    return arith::DivUIOp::create(
        b, arith::MulIOp::create(b, count, part).getResult(), op.getParts());
  };
  shareBegin = emitBound(op.getPart());
  shareEnd = emitBound(arith::AddIOp::create(b, op.getPart(), one));
  Value steps = arith::MaxSIOp::create(
      b, arith::SubIOp::create(b, shareEnd, shareBegin).getResult(), one);
  if (masked == count)
    return {steps, steps};
  Value maskedSteps = arith::MaxSIOp::create(
      b, arith::SubIOp::create(b, masked, shareBegin).getResult(), one);
  return {arith::MinSIOp::create(b, maskedSteps, steps), steps};
}

Value KeyTilesExpander::emitIsEmpty(WalkIsEmptyOp isEmpty) {
  b.setInsertionPoint(isEmpty);
  if (!op.getPart())
    return arith::ConstantIntOp::create(b, 0, 1);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, shareBegin,
                               shareEnd);
}

std::pair<Value, Value> KeyTilesExpander::expandWhole() {
  if (op.getList())
    return expandList();
  attn::ScoreMask mask = {op.getMaskAttr(),    &op.getKeep(),
                          op.getBatch(),       op.getHead(),
                          op.getQueryLength(), op.getKeyLength()};
  attn::TileRanges ranges = attn::emitTileRanges(
      b, b.getLoc(), mask, attn::MaskDim::Query, op.getFirstQuery(),
      op.getQueryTile(), op.getKeyTile());
  Value masked = walk.add(b, ranges.masked, zero);
  Value count = walk.add(b, ranges.full, masked);
  count = arith::MaxSIOp::create(b, count, one);
  if (ranges.full.empty())
    return {count, count};
  masked = arith::MaxSIOp::create(b, masked, one);
  return {arith::MinSIOp::create(b, masked, count), count};
}

Value KeyTilesExpander::emitTile(TileAtOp at) {
  b.setInsertionPoint(at);
  Value step = at.getStep();
  if (shareBegin)
    step = arith::AddIOp::create(b, shareBegin, step);
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

void mlir::attn_tile::expandKeyTiles(RewriterBase &rewriter, KeyTilesOp op) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  OpBuilder::Listener *listener = rewriter.getListener();
  CreatedOps created(listener);
  rewriter.setListener(&created);
  KeyTilesExpander expander(rewriter, op);
  auto [masked, count] = expander.expand();
  bool isAllMasked = masked == count;
  count = expander.emitIfNeeded(count);
  masked = isAllMasked ? count : expander.emitIfNeeded(masked);
  for (Operation *user : llvm::make_early_inc_range(op.getTiles().getUsers())) {
    if (auto isEmpty = dyn_cast<WalkIsEmptyOp>(user)) {
      rewriter.replaceOp(isEmpty, expander.emitIsEmpty(isEmpty));
      continue;
    }
    auto tileAt = cast<TileAtOp>(user);
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
struct ExpandKeyTiles
    : attn_tile::impl::AttnTileExpandKeyTilesPassBase<ExpandKeyTiles> {
  using Base::Base;

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation().walk([&](KeyTilesOp op) { expandKeyTiles(rewriter, op); });
  }
};
} // namespace
