//===- MergeToLoops.cpp - Merges to plain loops ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes merges of partial results, and their gradients, as loops in f64.
//
//===----------------------------------------------------------------------===//

#include "MergeToLoops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Arithmetic in f64 on elements of memrefs, for one row.
class MergeLoopWriter {
public:
  template <typename OpTy>
  MergeLoopWriter(OpBuilder &builder, OpTy op, const IRMapping &mapping)
      : b(op.getLoc(), builder), mapping(mapping),
        partialOuts(get(op.getPartialOuts())),
        partialLses(get(op.getPartialLses())) {}

  void write(MergeOp op);
  void write(MergeGradOp op);

private:
  SmallVector<Value> get(ValueRange operands) {
    return llvm::map_to_vector(
        operands, [&](Value v) { return mapping.lookupOrDefault(v); });
  }
  Value constant(double number) {
    return arith::ConstantOp::create(b, b.getF64FloatAttr(number));
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
  Value select(Value condition, Value yes, Value no) {
    return arith::SelectOp::create(b, condition, yes, no);
  }
  Value isLowest(Value value) {
    return arith::CmpFOp::create(
        b, arith::CmpFPredicate::OEQ, value,
        constant(-std::numeric_limits<double>::infinity()));
  }
  /// Runs `body` for each row of dimensions 0 to 2 of `like`.
  void forRows(Value like, function_ref<void(ArrayRef<Value>)> body);
  /// Runs `body` for each element of the head dim; it takes and returns totals.
  SmallVector<Value> forHeadDim(
      ArrayRef<Value> row, ValueRange sums,
      function_ref<SmallVector<Value>(ArrayRef<Value>, ValueRange)> body);
  /// Computes the factors of the partial results of a row; returns its
  /// log-sum-exp.
  Value emitWeights(ArrayRef<Value> row);

  ImplicitLocOpBuilder b;
  const IRMapping &mapping;
  SmallVector<Value> partialOuts, partialLses, weights;
};
} // namespace

void MergeLoopWriter::forRows(Value like,
                              function_ref<void(ArrayRef<Value>)> body) {
  OpBuilder::InsertionGuard guard(b);
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  SmallVector<Value> row;
  for (int64_t dim = 0; dim < 3; ++dim) {
    Value size = b.createOrFold<memref::DimOp>(like, dim);
    auto loop = scf::ForOp::create(b, zero, size, one);
    b.setInsertionPointToStart(loop.getBody());
    row.push_back(loop.getInductionVar());
  }
  body(row);
}

SmallVector<Value> MergeLoopWriter::forHeadDim(
    ArrayRef<Value> row, ValueRange sums,
    function_ref<SmallVector<Value>(ArrayRef<Value>, ValueRange)> body) {
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value size = b.createOrFold<memref::DimOp>(partialOuts.front(), 3);
  auto loop = scf::ForOp::create(b, zero, size, one, sums);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> at(row);
  at.push_back(loop.getInductionVar());
  SmallVector<Value> next = body(at, loop.getRegionIterArgs());
  if (!sums.empty())
    scf::YieldOp::create(b, next);
  return loop.getResults();
}

Value MergeLoopWriter::emitWeights(ArrayRef<Value> row) {
  SmallVector<Value> lses = llvm::map_to_vector(
      partialLses, [&](Value lse) { return load(lse, row); });
  Value largest = lses.front();
  for (Value lse : llvm::drop_begin(lses))
    largest = arith::MaximumFOp::create(b, largest, lse);
  Value isNone = isLowest(largest);
  Value reference = select(isNone, constant(0), largest);
  weights.clear();
  Value total = constant(0);
  for (Value lse : lses) {
    weights.push_back(math::ExpOp::create(b, sub(lse, reference)));
    total = add(total, weights.back());
  }
  Value divisor = select(isNone, constant(1), total);
  for (Value &weight : weights)
    weight = arith::DivFOp::create(b, weight, divisor);
  Value log = math::LogOp::create(b, divisor);
  return add(largest, log);
}

void MergeLoopWriter::write(MergeOp op) {
  Value out = mapping.lookupOrDefault(op.getOut());
  forRows(out, [&](ArrayRef<Value> row) {
    Value lse = emitWeights(row);
    if (op.getLse())
      store(lse, mapping.lookupOrDefault(op.getLse()), row);
    forHeadDim(row, {}, [&](ArrayRef<Value> at, ValueRange) {
      Value sum = constant(0);
      for (auto [weight, partialOut] : llvm::zip_equal(weights, partialOuts))
        sum = add(sum, mul(weight, load(partialOut, at)));
      store(sum, out, at);
      return SmallVector<Value>();
    });
  });
}

void MergeLoopWriter::write(MergeGradOp op) {
  Value dout = mapping.lookupOrDefault(op.getDout());
  SmallVector<Value> outs = get(op.getDpartialOuts());
  SmallVector<Value> lses = get(op.getDpartialLses());
  forRows(dout, [&](ArrayRef<Value> row) {
    emitWeights(row);
    SmallVector<Value> zeros(weights.size(), constant(0));
    auto addProducts = [&](ArrayRef<Value> at, ValueRange sums) {
      Value gradient = load(dout, at);
      SmallVector<Value> next;
      for (auto [weight, sum, partialOut, out] :
           llvm::zip_equal(weights, sums, partialOuts, outs)) {
        next.push_back(add(sum, mul(gradient, load(partialOut, at))));
        store(mul(weight, gradient), out, at);
      }
      return next;
    };
    SmallVector<Value> products = forHeadDim(row, zeros, addProducts);
    Value mean = constant(0);
    for (auto [weight, product] : llvm::zip_equal(weights, products))
      mean = add(mean, mul(weight, product));
    if (op.getDlse())
      mean = sub(mean, load(mapping.lookupOrDefault(op.getDlse()), row));
    for (auto [weight, product, lse] : llvm::zip_equal(weights, products, lses))
      store(mul(weight, sub(product, mean)), lse, row);
  });
}

void attn::writeMergeLoops(OpBuilder &builder, MergeOp op,
                           const IRMapping &mapping) {
  MergeLoopWriter(builder, op, mapping).write(op);
}

void attn::writeMergeGradLoops(OpBuilder &builder, MergeGradOp op,
                               const IRMapping &mapping) {
  MergeLoopWriter(builder, op, mapping).write(op);
}
