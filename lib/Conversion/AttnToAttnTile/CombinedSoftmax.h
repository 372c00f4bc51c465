//===- CombinedSoftmax.h - Softmax over parts of the keys -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The softmax over all keys, from results for parts of them: KV splits, and
// partial results of attention.
//
// Part s has the output out_s of its own softmax, its row maximum m_s and its
// row sum l_s of exp(score - m_s). The softmax over all keys is
//
//   m   = max over parts s of m_s
//   l   = sum over parts s of exp(m_s - m) * l_s
//   out = sum over parts s of exp(m_s - m) * l_s * out_s / l
//   lse = m + log(l)
//
// (FlashDecoding, Dao et al. 2023). For KV splits, a log-sum-exp alone would
// lose the sum next to a large maximum.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_COMBINEDSOFTMAX_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_COMBINEDSOFTMAX_H

#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <limits>

namespace mlir::attn {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// The statistics of a part: `m` and `l`.
enum SplitStatistic : unsigned { SplitMax, SplitSum, NumSplitStatistics };

/// Emits the softmax over all keys for one element of the output.
class CombinedSoftmax {
public:
  explicit CombinedSoftmax(attn_tile::CombinedElement &element)
      : element(element), b(element.b) {}

  /// The row sum, and the accumulator of probabilities times values, both
  /// relative to exp(reference).
  struct State {
    Value reference, rowSum, acc;
  };

  State emitInit();
  /// Emits the state of a part whose log-sum-exp is `lse`, as if it were the
  /// only one.
  State emitInit(Value lse, Value output);
  State emitCombine(const State &state, int64_t numSplits);
  /// Emits `out`, and `lse`.
  Value emitOutput(const State &state);
  Value emitLogSumExp(const State &state);
  /// Emits the weight exp(m_s - m) * l_s of a part whose statistics are
  /// `maximum` and `sum`; 0 if it has no keys.
  Value emitWeight(const State &state, Value maximum, Value sum);

  /// Emits whether `maximum` says that a part has no keys.
  Value isLowest(Value maximum);

private:
  Value f32(double value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
  }
  Value select(Value condition, Value yes, Value no) {
    return arith::SelectOp::create(b, condition, yes, no);
  }
  Value emitFinite(Value reference);
  Value exp(Value x);
  Value emitWeightOf(Value maximum, Value finite, Value isEmpty, Value sum);

  attn_tile::CombinedElement &element;
  ImplicitLocOpBuilder &b;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_COMBINEDSOFTMAX_H
