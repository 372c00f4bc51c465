//===- DifferentiableOpInterface.cpp - Differentiation --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Accumulates gradients, and visits operations from last to first.
//
//===----------------------------------------------------------------------===//

#include "attn/Interfaces/DifferentiableOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mlir::attn;

#include "attn/Interfaces/DifferentiableOpInterface.cpp.inc"

GradientState::~GradientState() = default;

bool attn::isDifferentiableType(Type type) {
  return isa<FloatType>(getElementTypeOrSelf(type)) &&
         (isa<FloatType, VectorType, RankedTensorType>(type));
}

void GradientState::propagateActivity(Operation *op) {
  auto isUsedActive = [&] {
    if (llvm::any_of(op->getOperands(),
                     [&](Value value) { return isActive(value); }))
      return true;
    SetVector<Value> captured;
    getUsedValuesDefinedAbove(op->getRegions(), captured);
    return llvm::any_of(captured, [&](Value value) { return isActive(value); });
  };
  if (!isUsedActive())
    return;
  for (Value result : op->getResults())
    if (isDifferentiableType(result.getType()))
      setActive(result);
}

Type attn::getGradientType(Type type) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  if (!element || element.getWidth() > 8)
    return type;
  Type f32 = Float32Type::get(type.getContext());
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped ? Type(shaped.clone(f32)) : f32;
}

Value attn::emitFilled(OpBuilder &builder, Location loc, Value like,
                       TypedAttr value) {
  Value init = tensor::EmptyOp::create(
      builder, loc, tensor::getMixedSizes(builder, loc, like), value.getType());
  Value element = arith::ConstantOp::create(builder, loc, value);
  return linalg::FillOp::create(builder, loc, element, init).getResult(0);
}

Value attn::convertFloat(OpBuilder &builder, Location loc, Value value,
                         Type element) {
  Type from = getElementTypeOrSelf(value.getType());
  if (from == element)
    return value;
  auto convertScalar = [&](OpBuilder &b, Value scalar, Type to) -> Value {
    if (from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth())
      return arith::ExtFOp::create(b, loc, to, scalar);
    // bf16 and f16 have no conversion to one another.
    if (from.getIntOrFloatBitWidth() == element.getIntOrFloatBitWidth())
      scalar = arith::ExtFOp::create(b, loc, b.getF32Type(), scalar);
    return arith::TruncFOp::create(b, loc, to, scalar);
  };
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  if (!tensor) {
    Type to = element;
    if (auto shaped = dyn_cast<ShapedType>(value.getType()))
      to = shaped.clone(element);
    return convertScalar(builder, value, to);
  }
  Value init = tensor::EmptyOp::create(
      builder, loc, tensor::getMixedSizes(builder, loc, value), element);
  AffineMap map = builder.getMultiDimIdentityMap(tensor.getRank());
  SmallVector<utils::IteratorType> iterators(tensor.getRank(),
                                             utils::IteratorType::parallel);
  auto generic = linalg::GenericOp::create(
      builder, loc, init.getType(), value, init, ArrayRef<AffineMap>{map, map},
      iterators, [&](OpBuilder &b, Location, ValueRange args) {
        linalg::YieldOp::create(b, loc, convertScalar(b, args[0], element));
      });
  return generic.getResult(0);
}

/// The sum of two gradients of one value, in the wider of their types.
static Value addUp(OpBuilder &builder, Location loc, Value lhs, Value rhs) {
  Type left = getElementTypeOrSelf(lhs), right = getElementTypeOrSelf(rhs);
  if (left.getIntOrFloatBitWidth() < right.getIntOrFloatBitWidth())
    lhs = convertFloat(builder, loc, lhs, right);
  else
    rhs = convertFloat(builder, loc, rhs, left);
  if (!isa<TensorType>(lhs.getType()))
    return arith::AddFOp::create(builder, loc, lhs, rhs);
  Value init = tensor::EmptyOp::create(builder, loc,
                                       tensor::getMixedSizes(builder, loc, lhs),
                                       getElementTypeOrSelf(lhs));
  return linalg::AddOp::create(builder, loc, ValueRange{lhs, rhs}, init)
      .getResult(0);
}

void GradientState::addGradient(OpBuilder &builder, Location loc, Value value,
                                Value gradient) {
  if (!isActive(value))
    return;
  if (isa<TensorType>(value.getType()))
    gradient =
        convertFloat(builder, loc, gradient,
                     getElementTypeOrSelf(getGradientType(value.getType())));
  Value &sum = gradients[value];
  sum = sum ? addUp(builder, loc, sum, gradient) : gradient;
}

LogicalResult GradientState::addElementGradient(OpBuilder &builder,
                                                Operation *op, Value tensor,
                                                ValueRange indices,
                                                Value gradient) {
  if (!isActive(tensor))
    return success();
  Location loc = op->getLoc();
  Type element = getElementTypeOrSelf(getGradientType(tensor.getType()));
  Value zeros =
      emitFilled(builder, loc, tensor, builder.getFloatAttr(element, 0));
  gradient = convertFloat(builder, loc, gradient, element);
  addGradient(builder, loc, tensor,
              tensor::InsertOp::create(builder, loc, gradient, zeros, indices));
  return success();
}

Operation *attn::prepareForGradient(RewriterBase &rewriter, Operation *op,
                                    GradientState &state) {
  state.propagateActivity(op);
  if (llvm::none_of(op->getResults(),
                    [&](Value result) { return state.isActive(result); }))
    return op;
  auto interface = dyn_cast<DifferentiableOpInterface>(op);
  if (!interface)
    return op;
  Operation *prepared = interface.prepareForGradient(rewriter);
  state.propagateActivity(prepared);
  return prepared;
}

LogicalResult attn::emitGradients(OpBuilder &builder, ArrayRef<Operation *> ops,
                                  GradientState &state) {
  for (Operation *op : llvm::reverse(ops)) {
    if (llvm::none_of(op->getResults(), [&](Value result) {
          return state.isActive(result) && state.getGradient(result);
        }))
      continue;
    auto interface = dyn_cast<DifferentiableOpInterface>(op);
    if (!interface)
      return op->emitError("cannot differentiate '")
             << op->getName()
             << "': it does not implement DifferentiableOpInterface";
    if (failed(interface.emitGradients(builder, state)))
      return failure();
  }
  return success();
}
