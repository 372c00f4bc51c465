//===- BoundedReads.cpp - Reads that stay within their memrefs ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits bounds of indices, and reads of memrefs that may be empty.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/BoundedReads.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

Value attn::getLastIndex(OpBuilder &builder, Location loc, Value memref,
                         int64_t dim) {
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  Value size = builder.createOrFold<memref::DimOp>(loc, memref, dim);
  size = builder.createOrFold<arith::MaxUIOp>(loc, size, one);
  return builder.createOrFold<arith::SubIOp>(loc, size, one);
}

Value attn::boundIndex(OpBuilder &builder, Location loc, Value index,
                       Value memref, int64_t dim) {
  return builder.createOrFold<arith::MinUIOp>(
      loc, index, getLastIndex(builder, loc, memref, dim));
}

void attn::boundReads(OpBuilder &builder, Operation *op,
                      function_ref<bool(memref::LoadOp)> isMeant) {
  OpBuilder::InsertionGuard guard(builder);
  op->walk([&](memref::LoadOp load) {
    if (isMeant && !isMeant(load))
      return;
    builder.setInsertionPoint(load);
    for (auto [dim, index] : llvm::enumerate(load.getIndicesMutable()))
      index.set(boundIndex(builder, load.getLoc(), index.get(),
                           load.getMemRef(), dim));
  });
}

Value attn::emitHasElements(OpBuilder &builder, Location loc, Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  Value result;
  for (int64_t dim = 0, e = type.getRank(); dim < e; ++dim) {
    if (!type.isDynamicDim(dim) && type.getDimSize(dim) != 0)
      continue;
    Value size = builder.createOrFold<memref::DimOp>(loc, memref, dim);
    Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
    Value has = builder.createOrFold<arith::CmpIOp>(
        loc, arith::CmpIPredicate::ne, size, zero);
    result =
        result ? builder.createOrFold<arith::AndIOp>(loc, result, has) : has;
  }
  return result;
}

Value attn::readElement(OpBuilder &builder, Location loc, Value memref,
                        ValueRange indices) {
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  Value has = emitHasElements(builder, loc, memref);
  if (!has)
    return memref::LoadOp::create(builder, loc, memref, indices);
  // LLVM passes bf16 values between blocks as f32, and rounds them back by an
  // instruction that takes subnormal numbers for zero. Bits stay as they are.
  Type passed = element.isBF16() ? builder.getI16Type() : element;
  auto read = [&](OpBuilder &b, Location) {
    Value value = memref::LoadOp::create(b, loc, memref, indices);
    if (passed != element)
      value = arith::BitcastOp::create(b, loc, passed, value);
    scf::YieldOp::create(b, loc, value);
  };
  auto zero = [&](OpBuilder &b, Location) {
    Value value = arith::ConstantOp::create(b, loc, b.getZeroAttr(passed));
    scf::YieldOp::create(b, loc, value);
  };
  Value value = scf::IfOp::create(builder, loc, has, read, zero).getResult(0);
  if (passed != element)
    value = arith::BitcastOp::create(builder, loc, element, value);
  return value;
}

static Value readBounded(OpBuilder &builder, Location loc, Value memref,
                         ValueRange indices) {
  SmallVector<Value> bounded;
  for (auto [dim, index] : llvm::enumerate(indices))
    bounded.push_back(boundIndex(builder, loc, index, memref, dim));
  return readElement(builder, loc, memref, bounded);
}

Operation *attn::cloneBounded(OpBuilder &builder, Operation &op,
                              IRMapping &mapping) {
  if (auto load = dyn_cast<memref::LoadOp>(op)) {
    auto indices = llvm::map_to_vector(load.getIndices(), [&](Value index) {
      return mapping.lookupOrDefault(index);
    });
    Value element =
        readBounded(builder, op.getLoc(),
                    mapping.lookupOrDefault(load.getMemRef()), indices);
    mapping.map(load.getResult(), element);
    return element.getDefiningOp();
  }
  Operation *copy = builder.clone(op, mapping);
  SmallVector<memref::LoadOp> loads;
  copy->walk([&](memref::LoadOp load) { loads.push_back(load); });
  OpBuilder::InsertionGuard guard(builder);
  for (memref::LoadOp load : loads) {
    builder.setInsertionPoint(load);
    Value element = readBounded(builder, load.getLoc(), load.getMemRef(),
                                load.getIndices());
    load.replaceAllUsesWith(element);
    load.erase();
  }
  return copy;
}
