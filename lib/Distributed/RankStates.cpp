//===- RankStates.cpp - States of linear attention of ranks ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankStates.h"
#include "RankTensors.h"
#include "RingSchedule.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;
using utils::IteratorType;

RankScan::RankScan(ImplicitLocOpBuilder &b, const StateMaps &maps,
                   RankOrder order, int64_t ranks, Value rank)
    : b(b), maps(maps), order(order),
      zero(arith::ConstantIndexOp::create(b, 0)),
      last(arith::ConstantIndexOp::create(b, ranks - 1)), own(rank) {
  if (order == RankOrder::ReverseCausal)
    own = arith::SubIOp::create(b, last, rank);
}

Value RankScan::emitSeen(Value state) {
  state = emitLoop(state, zero, own);
  if (order != RankOrder::Full)
    return state;
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value next = arith::AddIOp::create(b, own, one);
  return emitLoop(state, next, arith::AddIOp::create(b, last, one));
}

Value RankScan::emitTotal(Value state, Value seen) {
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value end = arith::AddIOp::create(b, last, one);
  if (order == RankOrder::Full)
    return emitLoop(state, zero, end);
  return emitLoop(seen, own, end);
}

Value RankScan::emitLoop(Value state, Value begin, Value end) {
  Value one = arith::ConstantIndexOp::create(b, 1);
  auto loop = scf::ForOp::create(b, begin, end, one, state);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value ofRank = loop.getInductionVar();
  if (order == RankOrder::ReverseCausal)
    ofRank = arith::SubIOp::create(b, last, ofRank);
  Value next = emitNext(loop.getRegionIterArg(0), ofRank);
  scf::YieldOp::create(b, next);
  return loop.getResult(0);
}

Value RankScan::emitProduct(Value matrix, Value state) {
  // Loops are batch entries, heads, rows, columns, and the sum.
  constexpr unsigned row = 2, column = 3, sum = 4;
  auto getMap = [&](unsigned first, unsigned second) {
    return AffineMap::getMultiDimMapWithTargets(5, {0, 1, first, second},
                                                b.getContext());
  };
  // Gradients take the transposed matrices.
  bool isTransposed = order == RankOrder::ReverseCausal;
  AffineMap ofMatrix = isTransposed ? getMap(sum, row) : getMap(row, sum);
  SmallVector<IteratorType> loops(5, IteratorType::parallel);
  loops.back() = IteratorType::reduction;
  Value zeros = emitZeros(b, emitEmpty(b, getTensorType(state), state));
  auto product = linalg::GenericOp::create(
      b, state.getType(), ValueRange{matrix, state}, zeros,
      ArrayRef<AffineMap>{ofMatrix, getMap(sum, column), getMap(row, column)},
      loops, [](OpBuilder &body, Location loc, ValueRange arguments) {
        Value term =
            arith::MulFOp::create(body, loc, arguments[0], arguments[1]);
        Value result = arith::AddFOp::create(body, loc, arguments[2], term);
        linalg::YieldOp::create(body, loc, result);
      });
  return product.getResult(0);
}

Value RankScan::emitNext(Value state, Value ofRank) {
  SmallVector<Value> terms = {emitPart(b, maps.added, ofRank)};
  AffineMap whole = b.getMultiDimIdentityMap(4);
  SmallVector<AffineMap> indexing = {whole, whole};
  if (maps.matrices) {
    Value matrix = emitPart(b, maps.matrices, ofRank);
    terms.push_back(emitProduct(matrix, state));
    indexing.push_back(whole);
  } else if (Value decays = maps.logDecays) {
    bool isOfHeads = getTensorType(decays).getRank() == 1;
    terms.push_back(isOfHeads ? decays : emitPart(b, decays, ofRank));
    AffineMap ofHeads = AffineMap::get(4, 0, b.getAffineDimExpr(headsDim));
    indexing.insert(indexing.begin() + 1,
                    isOfHeads ? ofHeads
                              : whole.getMajorSubMap(
                                    getTensorType(terms.back()).getRank()));
  }
  auto next = linalg::GenericOp::create(
      b, state.getType(), terms, state, indexing,
      SmallVector<IteratorType>(4, IteratorType::parallel),
      [&](OpBuilder &body, Location loc, ValueRange arguments) {
        Value kept = arguments.back();
        if (maps.matrices) {
          kept = arguments[1];
        } else if (maps.logDecays) {
          Value decay = math::ExpOp::create(body, loc, arguments[1]);
          kept = arith::MulFOp::create(body, loc, decay, kept);
        }
        Value result = arith::AddFOp::create(body, loc, kept, arguments[0]);
        linalg::YieldOp::create(body, loc, result);
      });
  return next.getResult(0);
}
