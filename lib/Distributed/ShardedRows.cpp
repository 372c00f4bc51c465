//===- ShardedRows.cpp - Operations on rows of a rank ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShardedRows.h"
#include "RingSchedule.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

bool ShardedRows::isChunked(OpOperand &operand) {
  return op.getMatchingIndexingMap(&operand).isFunctionOfDim(loop);
}

/// The dimension of positions of `operand`, which has dimensions.
static int64_t getPositionDimOf(OpOperand &operand) {
  return getPositionDim(cast<ShapedType>(operand.get().getType()));
}

/// Checks that positions are the dimension of positions of an operand alone.
LogicalResult ShardedRows::verifyOperand(OpOperand &operand) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
    bool isPosition = expr == getAffineDimExpr(loop, op.getContext());
    if (expr.isFunctionOfDim(loop) &&
        (!isPosition || int64_t(dim) != getPositionDimOf(operand)))
      return op.emitOpError("must use positions, which are distributed over "
                            "ranks, in dimension ")
             << getPositionDimOf(operand) << " of operand #"
             << operand.getOperandNumber() << " alone (its indexing map is "
             << AffineMapAttr::get(map) << ")";
  }
  return success();
}

/// Checks that the result that goes to `init` is a sum over positions: then it
/// is the sum of the results of ranks.
LogicalResult ShardedRows::verifySum(OpOperand &init) {
  unsigned number = init.getOperandNumber() - op.getNumDpsInputs();
  SmallVector<Operation *> combiners;
  auto fill = init.get().getDefiningOp<linalg::FillOp>();
  bool isSum = fill && matchPattern(fill.value(), m_AnyZeroFloat()) &&
               getElementTypeOrSelf(init.get()).isF32() &&
               matchReduction(op.getRegionOutputArgs(), number, combiners) &&
               combiners.size() == 1;
  if (isSum) {
    Operation *combiner = combiners.front();
    bool isDifference =
        isa<arith::SubFOp>(combiner) &&
        combiner->getOperand(0) == op.getRegionOutputArgs()[number];
    isSum = isa<arith::AddFOp>(combiner) || isDifference;
  }
  if (isSum)
    return success();
  return op.emitOpError("result #")
         << number
         << " must be a sum in f32 that starts from 0, since it reduces "
            "positions, which are distributed over ranks";
}

FailureOr<ShardedRows> ShardedRows::get(linalg::LinalgOp op, OpOperand &chunked,
                                        ChunkPlacement placement) {
  AffineMap map = op.getMatchingIndexingMap(&chunked);
  auto expr = dyn_cast<AffineDimExpr>(map.getResult(getPositionDimOf(chunked)));
  if (!expr)
    return op.emitOpError("must have a loop over dimension ")
           << getPositionDimOf(chunked) << " of operand #"
           << chunked.getOperandNumber()
           << ", which is distributed over ranks (its indexing map is "
           << AffineMapAttr::get(map) << ")";
  ShardedRows rows(op, expr.getPosition(), placement);
  for (OpOperand &operand : op->getOpOperands())
    if (failed(rows.verifyOperand(operand)))
      return failure();
  for (OpOperand &init : op.getDpsInitsMutable())
    if (!rows.isChunked(init) && failed(rows.verifySum(init)))
      return failure();
  return rows;
}

/// Lets the body of `chunk` read positions in the whole.
void ShardedRows::emitPositions(ImplicitLocOpBuilder &b, linalg::LinalgOp chunk,
                                RankOfGroup group) {
  SmallVector<linalg::IndexOp> positions;
  chunk->walk([&](linalg::IndexOp index) {
    if (index.getDim() == loop)
      positions.push_back(index);
  });
  if (positions.empty())
    return;
  // The verifier of linalg wants equal sizes of all operands with the loop.
  auto *operand = llvm::find_if(op->getOpOperands(), [&](OpOperand &operand) {
    return isChunked(operand);
  });
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(chunk);
  Value length = b.createOrFold<tensor::DimOp>(
      chunk->getOperand(operand->getOperandNumber()),
      getPositionDimOf(*operand));
  auto index = [&](int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  };
  auto multiply = [&](Value lhs, Value rhs) {
    return b.createOrFold<arith::MulIOp>(lhs, rhs);
  };
  // Member `m` of a zigzag ring has chunk `2 * members - 1 - m` behind chunk
  // `m`, and each of its ranks has a part of these rows.
  Value first, half, second, ofRank, stride;
  if (placement.isStriped) {
    first = group.rank;
    stride = index(placement.ranks);
  } else if (placement.chunksPerRank == 2) {
    Value degree = index(placement.ulyssesDegree);
    Value member = b.createOrFold<arith::DivUIOp>(group.rank, degree);
    ofRank =
        multiply(b.createOrFold<arith::RemUIOp>(group.rank, degree), length);
    half = b.createOrFold<arith::DivUIOp>(multiply(length, degree), index(2));
    Value before = arith::SubIOp::create(
        b, index(2 * placement.getRing().ranks - 2), member);
    first = multiply(member, half);
    second = multiply(before, half);
  } else {
    first = multiply(group.rank, length);
  }
  for (linalg::IndexOp row : positions) {
    SmallVector<OpOperand *> uses(llvm::make_pointer_range(row->getUses()));
    b.setInsertionPointAfter(row);
    Value ofMember = row, offset = first;
    if (half) {
      ofMember = b.createOrFold<arith::AddIOp>(row, ofRank);
      Value isFirst =
          arith::CmpIOp::create(b, arith::CmpIPredicate::ult, ofMember, half);
      offset = arith::SelectOp::create(b, isFirst, first, second);
    }
    if (stride)
      ofMember = arith::MulIOp::create(b, row, stride);
    Value position = arith::AddIOp::create(b, ofMember, offset);
    for (OpOperand *use : uses)
      use->set(position);
  }
}

SmallVector<Value> ShardedRows::emit(OpBuilder &builder, RankOfGroup group) {
  ImplicitLocOpBuilder b(op.getLoc(), builder);
  b.setInsertionPoint(op);
  SmallVector<Value> operands(op->getOperands());
  for (OpOperand &init : op.getDpsInitsMutable())
    if (auto empty = init.get().getDefiningOp<tensor::EmptyOp>();
        empty && isChunked(init))
      operands[init.getOperandNumber()] = emitEmptyChunk(b, empty, group.ranks);
  ValueRange inits =
      ValueRange(operands).slice(op.getNumDpsInputs(), op.getNumDpsInits());
  Operation *chunk = clone(b, op.getOperation(), inits.getTypes(), operands);
  emitPositions(b, cast<linalg::LinalgOp>(chunk), group);
  SmallVector<Value> results(chunk->getResults());
  for (auto [result, init] : llvm::zip_equal(results, op.getDpsInitsMutable()))
    if (!isChunked(init))
      result = emitSumOfParts(b, emitGathered(b, group.ranks, result));
  return results;
}
