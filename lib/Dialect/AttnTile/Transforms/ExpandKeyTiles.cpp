//===- ExpandKeyTiles.cpp - Expansion of key tile ranges ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns the range of keys that a mask gives for a tile of queries into the
// steps of the loop over key tiles.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/Transforms/KeyTiles.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Transforms/FoldUtils.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEEXPANDKEYTILESPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
/// Emits the arithmetic before one operation.
class KeyTilesExpander {
public:
  KeyTilesExpander(RewriterBase &rewriter, KeyTilesOp op)
      : b(op.getLoc(), rewriter), op(op), zero(index(0)), one(index(1)) {}

  /// Emits `last`, `lead`, `full` and `count`.
  SmallVector<Value, 4> expand();

private:
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  Value clamp(Value value, Value low, Value high) {
    value = arith::MaxSIOp::create(b, value, low);
    return arith::MinSIOp::create(b, value, high);
  }
  /// The tile that holds `key`, which is not negative.
  Value floorTile(Value key) {
    return arith::DivUIOp::create(b, key, index(op.getKeyTile()));
  }
  /// The first tile that holds no key before `key`, which is not negative.
  Value ceilTile(Value key) {
    return floorTile(arith::AddIOp::create(b, key, index(op.getKeyTile() - 1)));
  }

  ImplicitLocOpBuilder b;
  KeyTilesOp op;
  Value zero, one;
};
} // namespace

SmallVector<Value, 4> KeyTilesExpander::expand() {
  Value keyLength = op.getKeyLength();
  attn::KeyRange range{};
  if (attn::MaskAttrInterface mask = op.getMaskAttr()) {
    Value end =
        arith::AddIOp::create(b, op.getFirstQuery(), index(op.getQueryTile()));
    end = arith::MinSIOp::create(b, end, op.getQueryLength());
    Value lastQuery = arith::SubIOp::create(b, end, one);
    range = mask.emitKeyRange(
        b, b.getLoc(),
        {op.getFirstQuery(), lastQuery, op.getQueryLength(), keyLength});
    // Bounds are only good for ranges that are not empty.
    for (Value *bound :
         {&range.begin, &range.fullBegin, &range.fullEnd, &range.end})
      if (*bound)
        *bound = clamp(*bound, zero, keyLength);
  }

  Value endTile = ceilTile(range.end ? range.end : keyLength);
  Value tiles = endTile;
  if (range.begin)
    tiles = arith::SubIOp::create(b, endTile, floorTile(range.begin));
  Value count = arith::MaxSIOp::create(b, tiles, one);
  Value last = arith::SubIOp::create(
      b, arith::MaxSIOp::create(b, endTile, one).getResult(), one);
  if (op.getOpaque())
    return {last, count, count, count};

  Value fullEnd = range.fullEnd;
  if (!fullEnd)
    fullEnd = range.end ? range.end : keyLength;
  Value behindFull = arith::SubIOp::create(b, endTile, floorTile(fullEnd));
  Value lead = clamp(behindFull, one, count);

  Value fullBegin = range.fullBegin ? range.fullBegin : range.begin;
  if (!fullBegin)
    return {last, lead, count, count};
  Value fromFull = arith::SubIOp::create(b, endTile, ceilTile(fullBegin));
  return {last, lead, clamp(fromFull, lead, count), count};
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
  SmallVector<Value, 4> results = KeyTilesExpander(rewriter, op).expand();
  rewriter.setListener(listener);
  rewriter.replaceOp(op, results);

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
