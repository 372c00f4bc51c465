//===- LinearAttentionChunk.h - Chunks of linear attention ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Linear attention computes a chunk of tokens at a time, with the state before
// it: the decays between tokens of a chunk, scores of queries and keys with
// these decays, and the step from a state to the next one, which the kernels
// for outputs and for gradients share.
//
// The decay between two tokens is the exponential of the sum of the log-decays
// after the first of them. Such a sum is always a contraction of log-decays
// with a matrix of zeros and ones, never a difference. So exponents are not
// positive, and a large log-decay does not cancel the others.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARATTENTIONCHUNK_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARATTENTIONCHUNK_H

#include "ElementDecays.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::attn {

/// The arguments of a kernel that outputs and gradients both need.
struct LinearAttentionInputs {
  /// Null if there is none.
  Value query, key, value, logDecay, beta, initialState, sequences, fault;
  double scale;
  int64_t chunk;
  /// Query heads that share a head.
  int64_t keyGroup, valueGroup;
};

/// Tiles of the tokens of one chunk, and their decays.
class LinearAttentionChunk {
public:
  /// The step from the state before a chunk to the one after it. Tiles
  /// are null without the operand that they are of.
  struct Step {
    /// Decays from before the chunk to each token, and from each token to the
    /// end, in the shape of keys; of the whole chunk, in the state's shape.
    Value fromStart, toEnd, whole;
    /// Keys with decays from before the chunk, and to its end.
    Value keyFromStart, keyToEnd;
    /// With the delta rule: scores of keys and keys, and values less the ones
    /// that the state holds for their keys.
    Value keyScores, residual;
    /// With the delta rule: the factors of tokens, and the inverse of the
    /// triangular matrix.
    Value beta, inverse;
    /// The values that the state takes: the `u` of the operation.
    Value update;
    Value state;
  };

  /// `state` is the number of given states: `batch`, or a sequence.
  LinearAttentionChunk(TileProgramBuilder &b,
                       const LinearAttentionInputs &inputs, Value state,
                       Value batch, Value head);

  /// Begins the chunk whose first token is `first`.
  void begin(Value first, bool hasQueries, bool hasDecay);

  /// Emits the step from `state`, the one before the chunk.
  Step emitStep(Value state);

  /// The dot products of rows of `lhs` and of rows of `rhs` up to the same one,
  /// with the decay between them. Other elements are zero. `isStrict` leaves
  /// out pairs of the same row.
  Value emitScores(Value lhs, Value rhs, bool isStrict);

  struct ScoreGradients {
    Value lhs, rhs, logDecay;
  };
  /// The gradients of `emitScores` from the gradient of its result, which is
  /// zero where the result is.
  ScoreGradients emitScoreGradients(Value gradient, Value lhs, Value rhs);

  /// The gradient of log-decays from decayed tiles times their gradients, for
  /// decays from before the chunk or to its end.
  Value emitDecayGradient(Value decayed, bool isFromStart);

  /// Adds up the gradients of decays along the head dim, if there is one decay
  /// for all of it.
  Value sumOfHeadDim(Value tile);

  /// Keeps elements for which `keeps` holds, and makes others zero.
  Value select(Value tile, PairFn keeps) { return selectPairs(b, tile, keeps); }
  /// A tile of ones where `isOne` holds and zeros elsewhere.
  Value emitOnes(ArrayRef<int64_t> shape, PairFn isOne);
  Value sumRows(Value tile);
  Value exp(Value tile) { return math::ExpOp::create(b, tile); }
  Value add(Value lhs, Value rhs) { return arith::AddFOp::create(b, lhs, rhs); }
  Value mul(Value lhs, Value rhs) { return arith::MulFOp::create(b, lhs, rhs); }
  Value zeros(ArrayRef<int64_t> shape) { return b.splat(shape, 0); }
  Value contract(Value lhs, Value rhs, Value acc, ContractForm form) {
    return b.contract(lhs, rhs, acc, form);
  }
  /// Loads rows of the chunk as f32.
  Value loadRows(Value source, Value head, int64_t columns);
  /// Loads an f32 for each token.
  Value loadVector(Value source);
  /// Loads a given state.
  Value loadState(Value source);
  Value isPresent(Value row);
  Value compare(arith::CmpIPredicate predicate, Value lhs, Value rhs) {
    return arith::CmpIOp::create(b, predicate, lhs, rhs);
  }

  TileProgramBuilder &b;
  const LinearAttentionInputs &inputs;
  Value state, batch, head;
  int64_t rows, keyDim, valueDim;
  /// Columns of tiles of log-decays: the head dim, or one for all of it.
  int64_t decayDim;
  Value first, query, key, value;

private:
  Value loadLogDecays();
  void checkLogDecays(Value tile);
  /// The exponentials of `matrix` times the log-decays.
  Value emitDecays(Value matrix);
  /// The decays between all pairs of tokens of the chunk; null if elements of
  /// the head dim have their own.
  Value getDecayMatrix();
  Value emitDecayMatrixGradient(Value decayed);
  Value emitIdentity();
  Value emitInverse(Value matrix);
  Value emitLevelMatrix(Value level);
  Value selectLevel(Value level, Value tile);
  Value selectLower(Value tile, bool isStrict);
  Value contractRows(Value lhs, Value rhs);
  /// Repeats decays along the head dim, if there is one for all of it.
  Value repeatToHeadDim(Value tile);
  SmallVector<Value> forLevels(
      ValueRange inits,
      function_ref<SmallVector<Value>(Value level, ValueRange args)> body);

  /// Log-decays, a row for each token; null without decay.
  Value logDecays;
  /// The result of `getDecayMatrix`, once it is emitted.
  Value decayMatrix;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARATTENTIONCHUNK_H
