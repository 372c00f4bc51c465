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
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;
using utils::IteratorType;

RankedTensorType attn::getChunkType(RankedTensorType type, int64_t ranks) {
  SmallVector<int64_t> shape(type.getShape());
  if (!ShapedType::isDynamic(shape[sequenceDim]))
    shape[sequenceDim] /= ranks;
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

Value attn::emitGathered(ImplicitLocOpBuilder &b, int64_t ranks, Value part) {
  RankedTensorType type = getTensorType(part);
  SmallVector<Value> sizes = emitDynamicSizes(b, type, part);
  SmallVector<int64_t> shape = {ranks};
  llvm::append_range(shape, type.getShape());
  Value received =
      tensor::EmptyOp::create(b, shape, type.getElementType(), sizes);
  return AllGatherOp::create(b, received.getType(), part, received).getResult();
}

Value attn::emitSumOfParts(ImplicitLocOpBuilder &b, Value parts) {
  auto type = RankedTensorType::get(
      getTensorType(parts).getShape().drop_front(), b.getF32Type());
  Value empty = tensor::EmptyOp::create(
      b, type, emitDynamicSizes(b, type, parts, /*offset=*/1));
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  Value zeros = linalg::FillOp::create(b, zero, empty).getResult(0);
  AffineMap ofParts = b.getMultiDimIdentityMap(type.getRank() + 1);
  SmallVector<IteratorType> loops(type.getRank() + 1, IteratorType::parallel);
  loops.front() = IteratorType::reduction;
  auto sum = linalg::GenericOp::create(
      b, type, parts, zeros,
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
