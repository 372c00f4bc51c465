//===- ShardedRows.cpp - Operations on rows of a rank ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShardedRows.h"
#include "RankTensors.h"
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

/// Checks that positions are the second last loop index of an operand alone.
LogicalResult ShardedRows::verifyOperand(OpOperand &operand) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
    bool isPosition = expr == getAffineDimExpr(loop, op.getContext());
    if (expr.isFunctionOfDim(loop) && (!isPosition || dim != sequenceDim))
      return op.emitOpError("must use positions, which are distributed over "
                            "ranks, in dimension ")
             << sequenceDim << " of operand #" << operand.getOperandNumber()
             << " alone (its indexing map is " << AffineMapAttr::get(map)
             << ")";
  }
  return success();
}

LogicalResult ShardedRows::verifyBody() {
  WalkResult walk = op->walk([&](linalg::IndexOp index) {
    return index.getDim() == loop ? WalkResult::interrupt()
                                  : WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return op.emitOpError("must not read its position, which is distributed "
                          "over ranks");
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

FailureOr<ShardedRows> ShardedRows::get(linalg::LinalgOp op,
                                        OpOperand &chunked) {
  AffineMap map = op.getMatchingIndexingMap(&chunked);
  auto expr = dyn_cast<AffineDimExpr>(map.getResult(sequenceDim));
  if (!expr)
    return op.emitOpError("must have a loop over dimension ")
           << sequenceDim << " of operand #" << chunked.getOperandNumber()
           << ", which is distributed over ranks (its indexing map is "
           << AffineMapAttr::get(map) << ")";
  ShardedRows rows(op, expr.getPosition());
  if (failed(rows.verifyBody()))
    return failure();
  for (OpOperand &operand : op->getOpOperands())
    if (failed(rows.verifyOperand(operand)))
      return failure();
  for (OpOperand &init : op.getDpsInitsMutable())
    if (!rows.isChunked(init) && failed(rows.verifySum(init)))
      return failure();
  return rows;
}

SmallVector<Value> ShardedRows::emit(OpBuilder &builder, int64_t ranks) {
  ImplicitLocOpBuilder b(op.getLoc(), builder);
  b.setInsertionPoint(op);
  SmallVector<Value> operands(op->getOperands());
  for (OpOperand &init : op.getDpsInitsMutable())
    if (auto empty = init.get().getDefiningOp<tensor::EmptyOp>();
        empty && isChunked(init))
      operands[init.getOperandNumber()] = tensor::EmptyOp::create(
          b, getChunkType(empty.getType(), ranks), empty.getDynamicSizes());
  ValueRange inits =
      ValueRange(operands).slice(op.getNumDpsInputs(), op.getNumDpsInits());
  Operation *chunk = clone(b, op.getOperation(), inits.getTypes(), operands);
  SmallVector<Value> results(chunk->getResults());
  for (auto [result, init] : llvm::zip_equal(results, op.getDpsInitsMutable()))
    if (!isChunked(init))
      result = emitSumOfParts(b, emitGathered(b, ranks, result));
  return results;
}
