//===- TestAttnOps.cpp - Operations that implement interfaces -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The square of a tensor, which can be costed, differentiated, fused and
// streamed, and a table of masks.
//
//===----------------------------------------------------------------------===//

#include "TestAttn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/OpImplementation.h"

#define GET_OP_CLASSES
#include "TestAttnOps.cpp.inc"

using namespace mlir;
using namespace test_attn;

attn::OpCost SquareOp::getCost(const attn::CostAssumptions &assumptions) {
  attn::OpCost cost;
  double bytes = attn::getShapedBytes(getResult().getType(), assumptions);
  auto type = cast<ShapedType>(getResult().getType());
  cost.operations(attn::ExecutionUnit::Fma) =
      bytes / (type.getElementTypeBitWidth() / 8.0);
  cost.bytes(attn::MemoryLevel::Memory) = 2 * bytes;
  cost.launches = 1;
  return cost;
}

/// Emits a `linalg.generic` of `inputs` with the type of the first one.
static Value
emitMap(OpBuilder &builder, Location loc, ValueRange inputs,
        function_ref<Value(OpBuilder &, Location, ValueRange)> emit) {
  Value first = inputs.front();
  auto type = cast<RankedTensorType>(first.getType());
  SmallVector<AffineMap> maps(inputs.size() + 1,
                              builder.getMultiDimIdentityMap(type.getRank()));
  SmallVector<utils::IteratorType> iterators(type.getRank(),
                                             utils::IteratorType::parallel);
  return linalg::GenericOp::create(
             builder, loc, TypeRange{type}, inputs, ValueRange{first}, maps,
             iterators,
             [&](OpBuilder &inner, Location at, ValueRange elements) {
               linalg::YieldOp::create(inner, at,
                                       emit(inner, at, elements.drop_back()));
             })
      .getResult(0);
}

LogicalResult SquareOp::emitGradients(OpBuilder &builder,
                                      attn::GradientState &state) {
  Value gradient =
      emitMap(builder, getLoc(), {getSource(), state.getGradient(getResult())},
              [](OpBuilder &inner, Location at, ValueRange elements) -> Value {
                Value twice =
                    arith::AddFOp::create(inner, at, elements[0], elements[0]);
                return arith::MulFOp::create(inner, at, twice, elements[1]);
              });
  state.addGradient(builder, getLoc(), getSource(), gradient);
  return success();
}

bool SquareOp::isElementwise() { return true; }

Value SquareOp::emitElement(OpBuilder &builder, ValueRange indices,
                            attn::ElementSource &source) {
  Value element = source.getElement(builder, getLoc(), getSource(), indices);
  if (!element)
    return {};
  return arith::MulFOp::create(builder, getLoc(), element, element);
}

SmallVector<attn::OpAxis> SquareOp::getAxes() {
  return llvm::map_to_vector(
      cast<RankedTensorType>(getResult().getType()).getShape(),
      [](int64_t size) { return attn::OpAxis::map(size); });
}

attn::DimAxes SquareOp::getDimAxes(OpOperand &operand) {
  attn::DimAxes axes;
  for (int64_t dim = 0,
               e = cast<RankedTensorType>(operand.get().getType()).getRank();
       dim < e; ++dim)
    axes.push_back(dim);
  return axes;
}
