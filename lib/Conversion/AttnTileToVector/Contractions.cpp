//===- Contractions.cpp - Contractions of tiles on the host ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Contractions as loops over register blocks of vector accumulators (Goto and
// van de Geijn 2008).
//
//===----------------------------------------------------------------------===//

#include "TileEmitter.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::attn_tile;

/// Whether the accumulator of `op` is the carried value `argument`, or an
/// elementwise function of it, and nothing else reads that value.
static bool isOnlyAccumulatedIn(vector::ContractionOp op,
                                BlockArgument argument) {
  Value value = op.getAcc();
  if (value == argument)
    return argument.hasOneUse();
  Operation *def = value.getDefiningOp();
  return def && def->getBlock() == op->getBlock() && value.hasOneUse() &&
         OpTrait::hasElementwiseMappableTraits(def) && argument.hasOneUse() &&
         llvm::is_contained(def->getOperands(), argument);
}

/// The carried value of a loop that `op` adds to, if nothing else uses it; null
/// if there is none.
static BlockArgument getUpdated(vector::ContractionOp op) {
  if (!op.getResult().hasOneUse())
    return nullptr;
  auto yield = dyn_cast<scf::YieldOp>(*op.getResult().user_begin());
  auto loop = yield ? dyn_cast<scf::ForOp>(yield->getParentOp()) : nullptr;
  if (!loop || yield->getBlock() != op->getBlock())
    return nullptr;
  BlockArgument carried =
      loop.getRegionIterArg(op.getResult().use_begin()->getOperandNumber());
  return isOnlyAccumulatedIn(op, carried) ? carried : nullptr;
}

SmallVector<Value> TileEmitter::emitProducts(Value lhs, Value rhs,
                                             int64_t depth,
                                             const RegisterBlock &block,
                                             Value row, Value column) {
  // The tile is accumulated from 0, and then added: with thousands of keys,
  // roundings of a single long sum would exceed the contract of
  // docs/Numerics.md.
  auto pieceType = VectorType::get(block.lanes, b.getF32Type());
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(pieceType));
  SmallVector<Value> init(block.rows * block.pieces, zero);
  auto inner = scf::ForOp::create(b, index(0), index(depth), index(1), init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(inner.getBody());
  Value step = inner.getInductionVar();
  SmallVector<Value> sums(inner.getRegionIterArgs());
  SmallVector<Value> pieces;
  for (int64_t p = 0; p < block.pieces; ++p)
    pieces.push_back(vector::LoadOp::create(
        b, pieceType, rhs, ValueRange{step, add(column, p * block.lanes)}));
  for (int64_t r = 0; r < block.rows; ++r) {
    Value value = memref::LoadOp::create(b, lhs, ValueRange{add(row, r), step});
    Value wide = vector::BroadcastOp::create(b, pieceType, value);
    for (int64_t p = 0; p < block.pieces; ++p) {
      Value &sum = sums[r * block.pieces + p];
      sum = vector::FMAOp::create(b, wide, pieces[p], sum);
    }
  }
  scf::YieldOp::create(b, sums);
  return SmallVector<Value>(inner.getResults());
}

LogicalResult TileEmitter::emitContraction(vector::ContractionOp op) {
  VectorType type = dyn_cast<VectorType>(op.getResultType());
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  AffineExpr m, n, k;
  bindDims(op.getContext(), m, n, k);
  auto is = [&](AffineMap map, AffineExpr first, AffineExpr second) {
    return map.getResults() == ArrayRef<AffineExpr>{first, second};
  };
  bool transposeLhs = is(maps[0], k, m), transposeRhs = is(maps[1], n, k);
  if (!type || type.getRank() != 2 || !type.getElementType().isF32() ||
      op.getKind() != vector::CombiningKind::ADD ||
      !(transposeLhs || is(maps[0], m, k)) ||
      !(transposeRhs || is(maps[1], k, n)) || !is(maps[2], m, n))
    return op.emitOpError("must be an MMA of two tiles into f32 for the host");

  Value lhs =
      transposeLhs ? getTransposedBuffer(op.getLhs()) : getBuffer(op.getLhs());
  Value rhs =
      transposeRhs ? getTransposedBuffer(op.getRhs()) : getBuffer(op.getRhs());
  // The carried accumulator of a loop is updated in place.
  Value result;
  if (BlockArgument carried = getUpdated(op))
    result = tiles.lookup(carried).buffer;
  if (!result)
    result = makeBuffer(type.getShape(), type.getElementType());

  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  int64_t depth = getTileType(op.getLhs()).getDimSize(transposeLhs ? 0 : 1);
  RegisterBlock block = getRegisterBlock(registers, rows, columns);
  int64_t lanes = block.lanes;
  Tile acc = tiles.lookup(op.getAcc());
  loop(columns, block.pieces * lanes, [&](Value column) {
    loop(rows, block.rows, [&](Value row) {
      SmallVector<Value> sums =
          emitProducts(lhs, rhs, depth, block, row, column);
      for (int64_t r = 0; r < block.rows; ++r)
        for (int64_t p = 0; p < block.pieces; ++p) {
          Value rowIndex = add(row, r), columnIndex = add(column, p * lanes);
          Value sum = arith::AddFOp::create(
              b, acc.emitPiece(rowIndex, columnIndex, lanes),
              sums[r * block.pieces + p]);
          vector::StoreOp::create(b, sum, result,
                                  ValueRange{rowIndex, columnIndex});
        }
    });
  });
  setBuffer(op.getResult(), result);
  return success();
}
