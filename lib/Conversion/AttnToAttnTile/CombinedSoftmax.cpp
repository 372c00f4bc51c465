//===- CombinedSoftmax.cpp - Softmax over parts of the keys ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the softmax over all keys, from results for parts of them.
//
//===----------------------------------------------------------------------===//

#include "CombinedSoftmax.h"
#include "attn/Dialect/AttnTile/IR/TileProgramBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::attn;

CombinedSoftmax::State CombinedSoftmax::emitInit() {
  return {f32(-infinity), f32(0), f32(0)};
}

CombinedSoftmax::State CombinedSoftmax::emitInit(Value lse, Value output) {
  Value isEmpty = isLowest(lse), zero = f32(0);
  return {lse, select(isEmpty, zero, f32(1)), select(isEmpty, zero, output)};
}

/// exp(x), where x may be -inf.
Value CombinedSoftmax::exp(Value x) {
  return math::Exp2Op::create(
      b, arith::MulFOp::create(b, x, f32(log2e)).getResult());
}

Value CombinedSoftmax::isLowest(Value maximum) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, maximum,
                               f32(-infinity));
}

/// The reference, or 0 if no part has keys: differences are not NaN.
Value CombinedSoftmax::emitFinite(Value reference) {
  return select(isLowest(reference), f32(0), reference);
}

/// exp(maximum - finite) * sum, where `sum` counts as 0 if `isEmpty`.
Value CombinedSoftmax::emitWeightOf(Value maximum, Value finite, Value isEmpty,
                                    Value sum) {
  Value factor = exp(arith::SubFOp::create(b, maximum, finite));
  return arith::MulFOp::create(b, factor, select(isEmpty, f32(0), sum));
}

Value CombinedSoftmax::emitWeight(const State &state, Value maximum,
                                  Value sum) {
  return emitWeightOf(maximum, emitFinite(state.reference), isLowest(maximum),
                      sum);
}

CombinedSoftmax::State CombinedSoftmax::emitCombine(const State &state,
                                                    int64_t numSplits) {
  // The loads of all splits are in flight at once.
  SmallVector<Value> maxima, rowSums, outputs;
  for (int64_t split = 0; split < numSplits; ++split) {
    Value maximum = element.loadStatistic(split, SplitMax);
    if (Value exists = element.emitExists(split))
      maximum = select(exists, maximum, f32(-infinity));
    maxima.push_back(maximum);
    rowSums.push_back(element.loadStatistic(split, SplitSum));
    outputs.push_back(element.loadOutput(split));
  }
  Value reference = state.reference;
  for (Value maximum : maxima)
    reference = arith::MaxNumFOp::create(b, reference, maximum);
  Value zero = f32(0);
  Value finite = emitFinite(reference);
  Value factor = exp(arith::SubFOp::create(b, state.reference, finite));
  Value rowSum = arith::MulFOp::create(b, state.rowSum, factor);
  Value acc = arith::MulFOp::create(b, state.acc, factor);
  for (auto [maximum, sum, output] :
       llvm::zip_equal(maxima, rowSums, outputs)) {
    // The buffers of a split without keys may hold any row sum and any values.
    Value isEmpty = isLowest(maximum);
    Value weight = emitWeightOf(maximum, finite, isEmpty, sum);
    rowSum = arith::AddFOp::create(b, rowSum, weight);
    Value held = select(isEmpty, zero, output);
    acc = math::FmaOp::create(b, weight, held, acc);
  }
  return {reference, rowSum, acc};
}

Value CombinedSoftmax::emitOutput(const State &state) {
  Value zero = f32(0);
  Value isNone =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, state.rowSum, zero);
  return select(isNone, zero,
                arith::DivFOp::create(b, state.acc, state.rowSum));
}

Value CombinedSoftmax::emitLogSumExp(const State &state) {
  Value log = math::LogOp::create(b, state.rowSum);
  return arith::AddFOp::create(b, state.reference, log);
}
