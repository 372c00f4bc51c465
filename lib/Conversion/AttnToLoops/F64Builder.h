//===- F64Builder.h - Arithmetic of reference code -------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arithmetic in f64 on elements of memrefs.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOLOOPS_F64BUILDER_H
#define ATTN_LIB_CONVERSION_ATTNTOLOOPS_F64BUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

namespace mlir::attn {

class F64Builder {
protected:
  F64Builder(Location loc, OpBuilder &builder, const IRMapping &mapping)
      : b(loc, builder), mapping(mapping) {}

  Value get(Value operand) {
    return operand ? mapping.lookupOrDefault(operand) : Value();
  }
  SmallVector<Value> get(ValueRange operands) {
    return llvm::map_to_vector(operands, [&](Value v) { return get(v); });
  }
  Value index(int64_t number) {
    return arith::ConstantIndexOp::create(b, number);
  }
  Value constant(double number) {
    return arith::ConstantOp::create(b, b.getF64FloatAttr(number));
  }
  Value size(Value memref, int64_t dim) {
    return b.createOrFold<memref::DimOp>(memref, dim);
  }
  Value load(Value memref, ValueRange at) {
    Value element = memref::LoadOp::create(b, memref, at);
    return convertScalarToDtype(b, b.getLoc(), element, b.getF64Type(),
                                /*isUnsignedCast=*/false);
  }
  void store(Value element, Value memref, ValueRange at) {
    element = convertScalarToDtype(b, b.getLoc(), element,
                                   getElementTypeOrSelf(memref.getType()),
                                   /*isUnsignedCast=*/false);
    memref::StoreOp::create(b, element, memref, at);
  }
  Value add(Value lhs, Value rhs) { return arith::AddFOp::create(b, lhs, rhs); }
  Value sub(Value lhs, Value rhs) { return arith::SubFOp::create(b, lhs, rhs); }
  Value mul(Value lhs, Value rhs) { return arith::MulFOp::create(b, lhs, rhs); }

  ImplicitLocOpBuilder b;
  const IRMapping &mapping;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOLOOPS_F64BUILDER_H
