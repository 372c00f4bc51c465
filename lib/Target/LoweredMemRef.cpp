//===- LoweredMemRef.cpp - A memref as a kernel sees it ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits sizes, strides and addresses of memrefs.
//
//===----------------------------------------------------------------------===//

#include "attn/Target/LoweredMemRef.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::attn;

Value LoweredMemRef::getSize(OpBuilder &builder, Location loc,
                             int64_t dim) const {
  if (type.isDynamicDim(dim))
    return values[1 + dim];
  return arith::ConstantIntOp::create(builder, loc, type.getDimSize(dim), 64);
}

Value LoweredMemRef::getStride(OpBuilder &builder, Location loc,
                               int64_t dim) const {
  SmallVector<int64_t> strides;
  int64_t offset;
  bool known = succeeded(type.getStridesAndOffset(strides, offset));
  int64_t stride = known ? strides[dim] : ShapedType::kDynamic;
  if (ShapedType::isDynamic(stride))
    return values[1 + type.getRank() + dim];
  return arith::ConstantIntOp::create(builder, loc, stride, 64);
}

/// Indices of the query head and the query of a row, in place of the key head
/// and the row.
static SmallVector<Value> emitUnpacked(OpBuilder &builder, Location loc,
                                       attn_tile::PackedGQALayoutAttr layout,
                                       ValueRange indices) {
  SmallVector<Value> unpacked(indices);
  Value &head = unpacked[layout.getRows() - 1],
        &row = unpacked[layout.getRows()];
  Value size = arith::ConstantIntOp::create(builder, loc, row.getType(),
                                            layout.getGroupSize());
  Value inGroup = arith::RemUIOp::create(builder, loc, row, size);
  Value first = arith::MulIOp::create(builder, loc, head, size);
  head = arith::AddIOp::create(builder, loc, first, inGroup);
  row = arith::DivUIOp::create(builder, loc, row, size);
  return unpacked;
}

Value LoweredMemRef::emitAddress(OpBuilder &builder, Location loc,
                                 ValueRange indices) const {
  Type i64 = builder.getI64Type();
  Value offset;
  SmallVector<Value> unpacked;
  if (auto layout =
          dyn_cast<attn_tile::PackedGQALayoutAttr>(type.getLayout())) {
    unpacked = emitUnpacked(builder, loc, layout, indices);
    indices = unpacked;
  }
  for (auto [dim, index] : llvm::enumerate(indices)) {
    Value wide = arith::ExtSIOp::create(builder, loc, i64, index);
    Value stride = getStride(builder, loc, dim);
    Value term = arith::MulIOp::create(builder, loc, wide, stride);
    offset = offset
                 ? arith::AddIOp::create(builder, loc, offset, term).getResult()
                 : term;
  }
  auto global = LLVM::LLVMPointerType::get(
      builder.getContext(),
      static_cast<unsigned>(NVVM::NVVMMemorySpace::Global));
  Value base =
      LLVM::AddrSpaceCastOp::create(builder, loc, global, getPointer());
  if (!offset)
    return base;
  // LLVM has no 8-bit floats.
  Type element = type.getElementType();
  if (isFloat8(element))
    element = builder.getI8Type();
  return LLVM::GEPOp::create(builder, loc, global, element, base, offset);
}
