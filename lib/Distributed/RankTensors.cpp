//===- RankTensors.cpp - Tensors of ranks, and their total ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankTensors.h"
#include "RingSchedule.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::attn;
using utils::IteratorType;

RankedTensorType attn::getChunkType(RankedTensorType type, int64_t ranks) {
  SmallVector<int64_t> shape(type.getShape());
  int64_t &length = shape[getPositionDim(type)];
  if (!ShapedType::isDynamic(length))
    length /= ranks;
  return type.clone(shape);
}

/// Emits the sizes of the dynamic dimensions of `type`: the sizes of `like`
/// from number `offset` on.
static SmallVector<Value> emitDynamicSizes(ImplicitLocOpBuilder &b,
                                           RankedTensorType type, Value like,
                                           int64_t offset = 0) {
  SmallVector<Value> sizes;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.isDynamicDim(dim))
      sizes.push_back(tensor::DimOp::create(b, like, dim + offset));
  return sizes;
}

Value attn::emitEmpty(ImplicitLocOpBuilder &b, RankedTensorType type,
                      Value like) {
  return tensor::EmptyOp::create(b, type, emitDynamicSizes(b, type, like));
}

Value attn::emitAllocation(ImplicitLocOpBuilder &b, RankedTensorType type,
                           Value like) {
  return bufferization::AllocTensorOp::create(b, type,
                                              emitDynamicSizes(b, type, like));
}

Value attn::emitZeros(ImplicitLocOpBuilder &b, Value destination) {
  Value zero = arith::ConstantOp::create(
      b, b.getZeroAttr(getElementTypeOrSelf(destination)));
  return linalg::FillOp::create(b, zero, destination).getResult(0);
}

Value attn::emitChunkDestination(ImplicitLocOpBuilder &b, Value destination,
                                 Value like, int64_t ranks) {
  if (!destination.getDefiningOp<tensor::EmptyOp>())
    return destination;
  return emitEmpty(b, getChunkType(getTensorType(destination), ranks), like);
}

Value attn::emitEmptyChunk(ImplicitLocOpBuilder &b, tensor::EmptyOp empty,
                           int64_t ranks) {
  RankedTensorType type = empty.getType();
  SmallVector<Value> sizes(empty.getDynamicSizes());
  int64_t dim = getPositionDim(type);
  // A constant is the length of the whole.
  if (type.isDynamicDim(dim)) {
    Value &length = sizes[type.getDynamicDimIndex(dim)];
    if (std::optional<int64_t> number = getConstantIntValue(length))
      length = arith::ConstantIndexOp::create(b, *number / ranks);
  }
  return tensor::EmptyOp::create(b, getChunkType(type, ranks), sizes);
}

Value attn::emitGathered(ImplicitLocOpBuilder &b, int64_t ranks, Value part) {
  RankedTensorType type = getTensorType(part);
  SmallVector<Value> sizes = emitDynamicSizes(b, type, part);
  SmallVector<int64_t> shape = {ranks};
  llvm::append_range(shape, type.getShape());
  Value received =
      tensor::EmptyOp::create(b, shape, type.getElementType(), sizes);
  return AllGatherOp::create(b, received.getType(), part, received).getResult();
}

Value attn::emitPart(ImplicitLocOpBuilder &b, Value parts,
                     OpFoldResult number) {
  RankedTensorType type = getTensorType(parts);
  type = RankedTensorType::get(type.getShape().drop_front(),
                               type.getElementType());
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, b.getLoc(), parts);
  SmallVector<OpFoldResult> offsets(sizes.size(), b.getIndexAttr(0));
  SmallVector<OpFoldResult> strides(sizes.size(), b.getIndexAttr(1));
  offsets.front() = number;
  sizes.front() = b.getIndexAttr(1);
  return tensor::ExtractSliceOp::create(b, type, parts, offsets, sizes,
                                        strides);
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

static SmallVector<int64_t> getShape(ArrayRef<OpFoldResult> sizes) {
  SmallVector<int64_t> shape;
  for (OpFoldResult size : sizes)
    shape.push_back(getConstantIntValue(size).value_or(ShapedType::kDynamic));
  return shape;
}

/// Groups of `rank` dimensions, of which `dim` and `dim + 1` are one group.
static SmallVector<ReassociationIndices> getGroupsWithPair(int64_t rank,
                                                           int64_t dim) {
  SmallVector<ReassociationIndices> groups;
  for (int64_t i = 0; i < rank; ++i) {
    groups.push_back({i});
    if (i == dim)
      groups.back().push_back(++i);
  }
  return groups;
}

/// Groups of dimensions, each with one that is not of size 1.
static SmallVector<ReassociationIndices>
getGroupsOfUnits(ArrayRef<int64_t> shape) {
  SmallVector<ReassociationIndices> groups(1);
  bool isComplete = false;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    if (isComplete && size != 1) {
      groups.emplace_back();
      isComplete = false;
    }
    groups.back().push_back(dim);
    isComplete |= size != 1;
  }
  return groups;
}

Value attn::emitSplit(ImplicitLocOpBuilder &b, Value value, int64_t dim,
                      int64_t parts) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, b.getLoc(), value);
  if (std::optional<int64_t> size = getConstantIntValue(sizes[dim])) {
    sizes[dim] = b.getIndexAttr(*size / parts);
  } else {
    Value count = arith::ConstantIndexOp::create(b, parts);
    sizes[dim] =
        arith::DivUIOp::create(b, cast<Value>(sizes[dim]), count).getResult();
  }
  sizes.insert(sizes.begin() + dim, b.getIndexAttr(parts));
  return tensor::ExpandShapeOp::create(
      b, getTensorType(value).clone(getShape(sizes)), value,
      getGroupsWithPair(sizes.size(), dim), sizes);
}

Value attn::emitMerged(ImplicitLocOpBuilder &b, Value value, int64_t dim) {
  return tensor::CollapseShapeOp::create(
      b, value, getGroupsWithPair(getTensorType(value).getRank(), dim));
}

Value attn::emitTransposed(ImplicitLocOpBuilder &b, Value value,
                           ArrayRef<int64_t> permutation) {
  ArrayRef<int64_t> shape = getTensorType(value).getShape();
  SmallVector<OpFoldResult> sizes = applyPermutation(
      tensor::getMixedSizes(b, b.getLoc(), value), permutation);
  SmallVector<int64_t> others(permutation);
  llvm::erase_if(others, [&](int64_t dim) { return shape[dim] == 1; });
  if (llvm::is_sorted(others)) {
    SmallVector<int64_t> permuted = applyPermutation(shape, permutation);
    Value units =
        tensor::CollapseShapeOp::create(b, value, getGroupsOfUnits(shape));
    return tensor::ExpandShapeOp::create(
        b, getTensorType(value).clone(permuted), units,
        getGroupsOfUnits(permuted), sizes);
  }
  Value destination =
      tensor::EmptyOp::create(b, sizes, getTensorType(value).getElementType());
  return linalg::TransposeOp::create(b, value, destination, permutation)
      .getResult()[0];
}

//===----------------------------------------------------------------------===//
// Exchanges and sums
//===----------------------------------------------------------------------===//

Value attn::emitExchanged(ImplicitLocOpBuilder &b, Value parts) {
  Value received = emitEmpty(b, getTensorType(parts), parts);
  return AllToAllOp::create(b, parts.getType(), parts, received).getResult();
}

Value attn::emitSumOfParts(ImplicitLocOpBuilder &b, Value parts) {
  auto type = RankedTensorType::get(
      getTensorType(parts).getShape().drop_front(), b.getF32Type());
  Value empty = tensor::EmptyOp::create(
      b, type, emitDynamicSizes(b, type, parts, /*offset=*/1));
  AffineMap ofParts = b.getMultiDimIdentityMap(type.getRank() + 1);
  SmallVector<IteratorType> loops(type.getRank() + 1, IteratorType::parallel);
  loops.front() = IteratorType::reduction;
  auto sum = linalg::GenericOp::create(
      b, type, parts, emitZeros(b, empty),
      ArrayRef<AffineMap>{ofParts, ofParts.dropResult(0)}, loops,
      [](OpBuilder &body, Location loc, ValueRange arguments) {
        Value result =
            arith::AddFOp::create(body, loc, arguments[1], arguments[0]);
        linalg::YieldOp::create(body, loc, result);
      });
  return sum.getResult(0);
}

Value attn::emitSum(ImplicitLocOpBuilder &b, ValueRange terms) {
  if (terms.size() == 1)
    return terms.front();
  // Into the first term: it is read nowhere else.
  RankedTensorType type = getTensorType(terms.front());
  SmallVector<AffineMap> maps(terms.size(),
                              b.getMultiDimIdentityMap(type.getRank()));
  SmallVector<IteratorType> loops(type.getRank(), IteratorType::parallel);
  auto sum = linalg::GenericOp::create(
      b, type, terms.drop_front(), terms.front(), maps, loops,
      [](OpBuilder &body, Location loc, ValueRange arguments) {
        Value result = arguments.back();
        for (Value term : arguments.drop_back())
          result = arith::AddFOp::create(body, loc, result, term);
        linalg::YieldOp::create(body, loc, result);
      });
  return sum.getResult(0);
}

Value attn::emitRounded(ImplicitLocOpBuilder &b, Value value,
                        Value destination) {
  RankedTensorType type = getTensorType(destination);
  // The destination may have static sizes where the value has dynamic ones.
  RankedTensorType sized = getTensorType(value).clone(type.getShape());
  if (sized != value.getType())
    value = tensor::CastOp::create(b, sized, value);
  if (type == sized) {
    // A slice is inserted again, wherever it is.
    Operation *source = destination.getDefiningOp();
    if (isa_and_present<tensor::EmptyOp, tensor::ExtractSliceOp>(source))
      return value;
    return bufferization::MaterializeInDestinationOp::create(b, type, value,
                                                             destination)
        .getResult();
  }
  SmallVector<AffineMap> maps(2, b.getMultiDimIdentityMap(type.getRank()));
  SmallVector<IteratorType> loops(type.getRank(), IteratorType::parallel);
  auto rounded = linalg::GenericOp::create(
      b, type, value, destination, maps, loops,
      [&](OpBuilder &body, Location loc, ValueRange arguments) {
        Value result = arguments.front();
        if (!type.getElementType().isF32())
          result =
              arith::TruncFOp::create(body, loc, type.getElementType(), result);
        linalg::YieldOp::create(body, loc, result);
      });
  return rounded.getResult(0);
}
