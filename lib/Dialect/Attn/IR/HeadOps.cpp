//===- HeadOps.cpp - Operations on heads ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers and effects of attn.rope, attn.rms_norm and attn.map_heads.
//
//===----------------------------------------------------------------------===//

#include "RegionVerifier.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::attn;

/// Checks that the number of heads and the head dim are known.
static LogicalResult verifyHeads(Operation *op, StringRef name,
                                 ShapedType type) {
  if (!type.isDynamicDim(1) && !type.isDynamicDim(3))
    return success();
  return op->emitOpError("number of heads and head dim of '")
         << name << "' must be static (was " << type << ")";
}

//===----------------------------------------------------------------------===//
// RopeOp
//===----------------------------------------------------------------------===//

LogicalResult RopeOp::reifyResultShapes(OpBuilder &builder,
                                        ReifiedRankedShapedTypeDims &shapes) {
  shapes.push_back(tensor::getMixedSizes(builder, getLoc(), getSource()));
  return success();
}

LogicalResult RopeOp::verify() {
  RankedTensorType source = getSource().getType(), cos = getCos().getType();
  if (getSin().getType() != cos)
    return emitOpError("'sin' must have the type of 'cos', ")
           << cos << " (was " << getSin().getType() << ")";
  if (cos.getRank() != 2 && cos.getRank() != 3)
    return emitOpError("tables must have 2 or 3 dimensions (have ")
           << cos.getRank() << ")";
  if (failed(verifyHeads(*this, "source", source)))
    return failure();
  int64_t headDim = source.getShape().back();
  if (ShapedType::isDynamic(cos.getShape().back()))
    return emitOpError("columns of tables must be static (was ") << cos << ")";
  if (getNumRotated() < 2 || getNumRotated() > headDim)
    return emitOpError("tables must have at least 1 column and at most half "
                       "the head dim of 'source', ")
           << headDim / 2 << " (have " << cos.getShape().back() << ")";
  if (cos.getRank() == 3 &&
      failed(verifyCompatibleDims({source.getDimSize(0), cos.getDimSize(0)})))
    return emitOpError("tables must have the batch size of 'source', ")
           << source.getDimSize(0) << " (have " << cos.getDimSize(0) << ")";
  return success();
}

//===----------------------------------------------------------------------===//
// RmsNormOp
//===----------------------------------------------------------------------===//

LogicalResult
RmsNormOp::reifyResultShapes(OpBuilder &builder,
                             ReifiedRankedShapedTypeDims &shapes) {
  shapes.push_back(tensor::getMixedSizes(builder, getLoc(), getSource()));
  return success();
}

LogicalResult RmsNormOp::verify() {
  if (failed(verifyHeads(*this, "source", getSource().getType())))
    return failure();
  // Written so that NaN is an error.
  if (!(getEpsilon().convertToFloat() >= 0))
    return emitOpError("'epsilon' must not be negative (was ")
           << getEpsilon().convertToFloat() << ")";
  if (!getWeight())
    return success();
  auto weight = cast<RankedTensorType>(getWeight().getType());
  int64_t headDim = getSource().getType().getShape().back();
  if (weight.getRank() != 1 ||
      failed(verifyCompatibleDims({weight.getDimSize(0), headDim})))
    return emitOpError(
               "'weight' must have one dimension, the head dim of 'source', ")
           << headDim << " (was " << weight << ")";
  return success();
}

//===----------------------------------------------------------------------===//
// MapHeadsOp
//===----------------------------------------------------------------------===//

void MapHeadsOp::getAsmBlockArgumentNames(Region &region,
                                          OpAsmSetValueNameFn setName) {
  constexpr StringLiteral names[] = {"x", "square", "b", "h", "i", "d"};
  for (auto [argument, name] : llvm::zip(region.getArguments(), names))
    setName(argument, name);
}

void MapHeadsOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (!isBufferized())
    return;
  effects.emplace_back(MemoryEffects::Read::get(), &getInMutable(),
                       SideEffects::DefaultResource::get());
  effects.emplace_back(MemoryEffects::Write::get(), &getOutMutable(),
                       SideEffects::DefaultResource::get());
}

Speculation::Speculatability MapHeadsOp::getSpeculatability() {
  return isBufferized() ? Speculation::NotSpeculatable
                        : Speculation::RecursivelySpeculatable;
}

LogicalResult
MapHeadsOp::reifyResultShapes(OpBuilder &builder,
                              ReifiedRankedShapedTypeDims &shapes) {
  if (!getResult())
    return failure();
  shapes.push_back(tensor::getMixedSizes(builder, getLoc(), getOut()));
  return success();
}

LogicalResult MapHeadsOp::verify() {
  auto in = cast<ShapedType>(getIn().getType());
  auto out = cast<ShapedType>(getOut().getType());
  if (isa<MemRefType>(in) != isBufferized())
    return emitOpError("operands must be both tensors or both memrefs, but "
                       "'out' is ")
           << out << " and 'in' is " << in;
  if (isBufferized() == static_cast<bool>(getResult()))
    return emitOpError() << "must have " << (isBufferized() ? "no" : "one")
                         << " result";
  if (failed(verifyCompatibleShape(in, out)))
    return emitOpError("'out' must have the shape of 'in', ")
           << in << " (was " << out << ")";
  return verifyHeads(*this, "in", in);
}

LogicalResult MapHeadsOp::verifyRegions() {
  Builder builder(getContext());
  Type f32 = builder.getF32Type(), index = builder.getIndexType();
  return verifyRegion(cast<DestinationStyleOpInterface>(getOperation()), "body",
                      getBody(), {f32, f32, index, index, index, index}, f32,
                      [] { return SmallVector<RegionDestination>(); });
}
