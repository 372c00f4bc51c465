//===- MatmulToLoops.cpp - Matmuls to plain loops -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes matmuls as plain loops: each element is a sum in f64, then the
// epilogue in f32.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/BoundedReads.h"
#include "attn/Conversion/AttnToLoops/AttnToLoops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Writes the loops of one matmul.
class MatmulLoopWriter {
public:
  MatmulLoopWriter(OpBuilder &builder, MatmulOp op, const IRMapping &mapping)
      : b(op.getLoc(), builder), op(op), mapping(mapping),
        lhs(mapping.lookupOrDefault(op.getLhs())),
        rhs(mapping.lookupOrDefault(op.getRhs())),
        out(mapping.lookupOrDefault(op.getOut())) {}

  void write();

private:
  Value size(Value memref, int64_t dim) {
    return b.createOrFold<memref::DimOp>(memref, dim);
  }
  /// `value`, a float, in another float type.
  Value convert(Value value, Type type) {
    return convertScalarToDtype(b, b.getLoc(), value, type,
                                /*isUnsignedCast=*/false);
  }
  /// Loads an element of an input, with `depth` as its contracted index.
  Value load(Value input, Value batch, Value other, Value depth,
             bool isDepthLast);
  Value writeSum(Value batch, Value row, Value column);
  Value writeEpilogue(Value sum, Value batch, Value row, Value column);

  ImplicitLocOpBuilder b;
  MatmulOp op;
  IRMapping mapping;
  Value lhs, rhs, out;
};
} // namespace

Value MatmulLoopWriter::load(Value input, Value batch, Value other, Value depth,
                             bool isDepthLast) {
  SmallVector<Value> indices = {other, depth};
  if (!isDepthLast)
    std::swap(indices[0], indices[1]);
  if (MatmulOp::isBatched(input))
    indices.insert(indices.begin(), batch);
  return convert(memref::LoadOp::create(b, input, indices), b.getF64Type());
}

Value MatmulLoopWriter::writeSum(Value batch, Value row, Value column) {
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value init = arith::ConstantOp::create(b, b.getF64FloatAttr(0));
  auto loop = scf::ForOp::create(
      b, zero, size(lhs, op.getLhsDepthDim()), one, init,
      [&](OpBuilder &, Location, Value depth, ValueRange sums) {
        Value product = arith::MulFOp::create(
            b,
            load(lhs, batch, row, depth, /*isDepthLast=*/!op.getTransposeLhs()),
            load(rhs, batch, column, depth,
                 /*isDepthLast=*/op.getTransposeRhs()));
        Value sum = arith::AddFOp::create(b, sums[0], product);
        scf::YieldOp::create(b, sum);
      });
  return loop.getResult(0);
}

Value MatmulLoopWriter::writeEpilogue(Value sum, Value batch, Value row,
                                      Value column) {
  Region &region = op.getEpilogue();
  if (region.empty())
    return sum;
  IRMapping inner = mapping;
  inner.map(region.getArguments(),
            ValueRange{convert(sum, b.getF32Type()), batch, row, column});
  for (Operation &nested : region.front().without_terminator())
    cloneBounded(b, nested, inner);
  auto yield = cast<attn::YieldOp>(region.front().getTerminator());
  return inner.lookupOrDefault(yield.getValue());
}

void MatmulLoopWriter::write() {
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  bool isBatched = MatmulOp::isBatched(out);
  SmallVector<Value> sizes;
  for (int64_t dim = 0, rank = 2 + isBatched; dim < rank; ++dim)
    sizes.push_back(size(out, dim));
  SmallVector<Value> zeros(sizes.size(), zero), ones(sizes.size(), one);
  scf::ParallelOp::create(
      b, zeros, sizes, ones, [&](OpBuilder &, Location, ValueRange ids) {
        Value batch = isBatched ? ids.front() : zero;
        ValueRange at = ids.take_back(2);
        Value sum = writeSum(batch, at[0], at[1]);
        Value result = writeEpilogue(sum, batch, at[0], at[1]);
        memref::StoreOp::create(
            b, convert(result, getElementTypeOrSelf(out.getType())), out, ids);
      });
}

void attn::writeMatmulLoops(OpBuilder &builder, MatmulOp op,
                            const IRMapping &mapping) {
  MatmulLoopWriter(builder, op, mapping).write();
}
