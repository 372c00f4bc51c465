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
#include "F64Builder.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Merges rows one after another.
class MergeLoopWriter : F64Builder {
public:
  template <typename OpTy>
  MergeLoopWriter(OpBuilder &builder, OpTy op, const IRMapping &mapping)
      : F64Builder(op.getLoc(), builder, mapping),
        partialOuts(get(op.getPartialOuts())),
        partialLses(get(op.getPartialLses())) {}

  void write(MergeOp op);
  void write(MergeGradOp op);

private:
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
