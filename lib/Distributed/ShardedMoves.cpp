//===- ShardedMoves.cpp - Operations that move chunks of a rank -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShardedMoves.h"
#include "RingSchedule.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"

using namespace mlir;
using namespace mlir::attn;

bool ShardedMove::isKnown(Operation *op) {
  return isa<bufferization::MaterializeInDestinationOp, tensor::CastOp,
             tensor::ConcatOp, tensor::ExtractSliceOp, tensor::InsertSliceOp,
             linalg::SoftmaxOp>(op) &&
         op->getNumResults() == 1;
}

/// The dimension along which `op` combines elements.
static std::optional<int64_t> getCombinedDim(Operation *op) {
  if (auto concat = dyn_cast<tensor::ConcatOp>(op))
    return concat.getDim();
  if (auto softmax = dyn_cast<linalg::SoftmaxOp>(op))
    return softmax.getDimension();
  return std::nullopt;
}

/// The tensor of which `op` reads or writes a slice.
static Value getWhole(OffsetSizeAndStrideOpInterface op) {
  if (auto extract = dyn_cast<tensor::ExtractSliceOp>(*op))
    return extract.getSource();
  return cast<tensor::InsertSliceOp>(*op).getDest();
}

/// Whether `size` is the size of `tensor`; other values than constants are
/// looked at later.
static bool isWholeSize(OpFoldResult size, Value tensor, int64_t dim) {
  std::optional<int64_t> number = getConstantIntValue(size);
  RankedTensorType type = getTensorType(tensor);
  if (!type.isDynamicDim(dim))
    return number == type.getDimSize(dim);
  if (!number)
    return true;
  using Bounds = ValueBoundsConstraintSet;
  FailureOr<bool> isEqual =
      Bounds::areEqual(Bounds::Variable(tensor, dim), Bounds::Variable(size));
  return succeeded(isEqual) && *isEqual;
}

/// Whether `op` has all positions, as far as static sizes tell, in the same
/// dimension of the slice and of the whole.
static bool keepsPositions(OffsetSizeAndStrideOpInterface op) {
  RankedTensorType whole = getTensorType(getWhole(op));
  int64_t dim = getPositionDim(whole);
  llvm::SmallBitVector dropped =
      isa<tensor::ExtractSliceOp>(*op)
          ? cast<tensor::ExtractSliceOp>(*op).getDroppedDims()
          : cast<tensor::InsertSliceOp>(*op).getDroppedDims();
  int first = dropped.find_first();
  if (first >= 0 && (first <= dim || whole.getRank() <= sequenceDim))
    return false;
  return isWholeSize(op.getMixedSizes()[dim], getWhole(op), dim) &&
         isZeroInteger(op.getMixedOffsets()[dim]) &&
         isOneInteger(op.getMixedStrides()[dim]);
}

FailureOr<ShardedMove> ShardedMove::get(Operation *op) {
  int64_t dim = getPositionDim(cast<ShapedType>(op->getResult(0).getType()));
  bool isKept = getCombinedDim(op) != dim;
  if (auto slice = dyn_cast<OffsetSizeAndStrideOpInterface>(op))
    isKept = keepsPositions(slice);
  if (!isKept)
    return op->emitOpError("must leave positions, which are distributed over "
                           "ranks, as they are in dimension ")
           << dim;
  return ShardedMove(op);
}

bool ShardedMove::isDestination(OpOperand &operand) {
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(operand.getOwner()))
    return &operand == &insert.getDestMutable();
  if (auto write = dyn_cast<bufferization::MaterializeInDestinationOp>(
          operand.getOwner()))
    return &operand == &write.getDestMutable();
  auto op = dyn_cast<DestinationStyleOpInterface>(operand.getOwner());
  return op && op.isDpsInit(&operand);
}

Value ShardedMove::getLength() const {
  auto slice = dyn_cast<OffsetSizeAndStrideOpInterface>(op);
  if (!slice)
    return {};
  int64_t dim = getPositionDim(getTensorType(getWhole(slice)));
  OpFoldResult length = slice.getMixedSizes()[dim];
  return getConstantIntValue(length) ? Value() : cast<Value>(length);
}

Value ShardedMove::emit(OpBuilder &builder, int64_t ranks) const {
  ImplicitLocOpBuilder b(op->getLoc(), builder);
  b.setInsertionPoint(op);
  SmallVector<Value> operands(op->getOperands());
  for (OpOperand &operand : op->getOpOperands())
    if (auto empty = operand.get().getDefiningOp<tensor::EmptyOp>();
        empty && isDestination(operand))
      operands[operand.getOperandNumber()] = emitEmptyChunk(b, empty, ranks);
  RankedTensorType type = getTensorType(op->getResult(0));
  auto slice = dyn_cast<OffsetSizeAndStrideOpInterface>(op);
  if (!slice)
    return clone(b, op, getChunkType(type, ranks), operands)->getResult(0);
  // Lengths of chunks are not the ones that the operation names.
  SmallVector<OpFoldResult> offsets = slice.getMixedOffsets();
  SmallVector<OpFoldResult> sizes = slice.getMixedSizes();
  SmallVector<OpFoldResult> strides = slice.getMixedStrides();
  int64_t dim = getPositionDim(getTensorType(getWhole(slice)));
  sizes[dim] = tensor::getMixedSize(b, b.getLoc(), operands[0], dim);
  if (isa<tensor::ExtractSliceOp>(op))
    return tensor::ExtractSliceOp::create(b, getChunkType(type, ranks),
                                          operands[0], offsets, sizes, strides);
  return tensor::InsertSliceOp::create(b, operands[0], operands[1], offsets,
                                       sizes, strides);
}
