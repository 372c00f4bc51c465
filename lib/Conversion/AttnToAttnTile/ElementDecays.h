//===- ElementDecays.h - Decays of key elements by levels -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The decays between two tokens of a chunk, without a positive exponent: at
// each level, the chunk is cut into blocks of two halves. The decay between a
// token of the second half and one of the first half is the decay from the
// middle to the one times the decay from the other to the middle. Each pair of
// different tokens belongs to one level.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_ELEMENTDECAYS_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_ELEMENTDECAYS_H

#include "attn/Dialect/AttnTile/IR/TileProgramBuilder.h"

namespace mlir::attn {

using PairFn = function_ref<Value(Value row, Value column)>;

/// Keeps the elements of `tile`, of a row and a column each, for which `keeps`
/// holds, and makes others zero.
Value selectPairs(TileProgramBuilder &b, Value tile, PairFn keeps);

/// Whether a pair of tokens is of a level, whose blocks have `2^(level+1)`
/// tokens: `row` in the second and `column` in the first half of one block.
Value emitIsOfLevel(OpBuilder &builder, Location loc, Value level, Value row,
                    Value column);

/// Whether the log-decay of token `column` is between token `row` and the
/// middle of its block.
Value emitIsToMiddle(OpBuilder &builder, Location loc, Value level, Value row,
                     Value column);

/// Some columns of the log-decays of a chunk.
class ElementDecays {
public:
  /// Loads columns of log-decays, `[B, H, S, Dk]`, from `indices` on. `shape`
  /// has the tokens of a chunk and the columns. The decays are factors of
  /// values of type `element`.
  ElementDecays(TileProgramBuilder &b, Value logDecay, ValueRange indices,
                ArrayRef<int64_t> shape, Type element);

  /// Writes a loop over the levels, whose blocks have `2^(level+1)` tokens,
  /// that carries tiles.
  SmallVector<Value> forLevels(
      ValueRange inits,
      function_ref<SmallVector<Value>(Value level, ValueRange carried)> body);

  /// Emits the decays between each token and the middle of its block, `[tokens,
  /// columns]` f32.
  Value emitDecays(Value level);

  /// Keeps the elements of a matrix of pairs, `[tokens, tokens]`, that are of a
  /// level, and makes others zero.
  Value selectLevel(Value level, Value pairs);

  /// The same for the pairs of a token with itself.
  Value selectDiagonal(Value pairs);

private:
  Value emitLevelMatrix(Value level);

  TileProgramBuilder &b;
  int64_t tokens, columns;
  /// The log-decays as a sum of bf16 values, the largest one first.
  SmallVector<Value, 3> parts;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_ELEMENTDECAYS_H
