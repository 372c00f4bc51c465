//===- Float8.cpp - Numbers of 8 bits -------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The range of the 8-bit floats E4M3 and E5M2.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/Float8.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::attn;

float attn::getLargestFloat8(FloatType type) {
  APFloat largest = APFloat::getLargest(type.getFloatSemantics());
  bool losesInfo = false;
  largest.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
  return largest.convertToFloat();
}

Value attn::emitSaturated(OpBuilder &builder, Location loc, Value value,
                          FloatType type) {
  auto constant = [&](float number) -> Value {
    TypedAttr attr =
        builder.getFloatAttr(getElementTypeOrSelf(value.getType()), number);
    if (auto shaped = dyn_cast<ShapedType>(value.getType()))
      attr = DenseElementsAttr::get(shaped, attr);
    return arith::ConstantOp::create(builder, loc, attr);
  };
  float largest = getLargestFloat8(type);
  Value below =
      arith::MinimumFOp::create(builder, loc, value, constant(largest));
  return arith::MaximumFOp::create(builder, loc, below, constant(-largest));
}

Value attn::getBeforeSaturation(Value value, FloatType type) {
  auto isNumber = [](Value operand, float number) {
    FloatAttr attr;
    return matchPattern(operand, m_Constant(&attr)) &&
           attr.getValueAsDouble() == number;
  };
  float largest = getLargestFloat8(type);
  auto above = value.getDefiningOp<arith::MaximumFOp>();
  if (!above || !isNumber(above.getRhs(), -largest))
    return {};
  auto below = above.getLhs().getDefiningOp<arith::MinimumFOp>();
  return below && isNumber(below.getRhs(), largest) ? below.getLhs() : Value();
}
