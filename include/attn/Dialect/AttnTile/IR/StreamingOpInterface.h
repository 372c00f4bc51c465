//===- StreamingOpInterface.h - Reductions over keys ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What operations with StreamingOpInterface may ask of their kernels.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_STREAMINGOPINTERFACE_H
#define ATTN_DIALECT_ATTNTILE_IR_STREAMINGOPINTERFACE_H

#include "attn/Dialect/AttnTile/IR/TileProgramBuilder.h"
#include "mlir/IR/PatternMatch.h"

#include <optional>

namespace mlir::attn_tile {

/// The factors of scores of a work item, scalars of f32 that are positive, with
/// their inverses. All are null where the factor is a constant.
struct ScoreFactors {
  explicit operator bool() const { return bool(score); }

  /// From the elements of a tile of scores to scores, and to exponents of two.
  Value score, exponent;
  Value scoreInverse, exponentInverse;
};

/// The query tile of a work item. Tiles of f32 have the head dim of the values
/// rounded up, and scores are tiles of `queryTile` by `keyTile`.
class StreamedTile {
public:
  StreamedTile(attn::TileProgramBuilder &b) : b(b) {}
  virtual ~StreamedTile();

  /// The argument of the kernel for a reduction operand.
  virtual Value getArgument(Value operand) = 0;
  /// The tile, or the rows, of a reduction operand of the shape of the output,
  /// or of a row result, as f32; zero where `emitIsOnlySplit` does not hold.
  virtual Value loadOperand(Value operand) = 0;

  /// In a step: the tile of values, which has zeros beyond the last key. It is
  /// the right-hand side of a contraction of the form `valueForm`. Values of 8
  /// bits of wider queries are extended to `element`, or to the type of the
  /// queries.
  virtual Value loadValues(Type element = nullptr) = 0;
  /// In a step: a tile of scores, of the element type of the values, with zeros
  /// where dropout drops. Kept elements remain to be divided by the keep
  /// probability. `areBelowTwo` says that all elements are.
  virtual Value emitDrop(Value tile, bool areBelowTwo) = 0;

  /// Adds `factor`, a scalar, times the value of the key at the position of
  /// each query, aligned to the bottom right corner; zero where there is no
  /// such key.
  virtual Value addValuesAtQueries(Value tile, Value factor) = 0;
  /// Whether a KV split has no keys of its own, an `i1`.
  virtual Value emitIsSplitEmpty() = 0;
  /// Where splits are listed: whether the query tile has no other split, an
  /// `i1`, so that the results of this one are final. Null otherwise.
  virtual Value emitIsOnlySplit() = 0;
  /// Stores a tile of f32 as the output.
  virtual void storeOutput(Value tile) = 0;
  /// Stores an f32 for each row as a row result, or as a statistic of a split.
  virtual void storeRows(unsigned index, Value rows) = 0;

  /// Emits all code of the kernel.
  attn::TileProgramBuilder &b;
  attn::ScheduleAttrInterface schedule;
  int64_t queryTile = 0, keyTile = 0, vHeadDim = 0;
  attn::ContractForm valueForm = attn::ContractForm::Plain;
  /// A score is this, which is positive, times the element of a tile of scores;
  /// or the factor of `factors`, if there are any.
  double scoreFactor = 1;
  ScoreFactors factors;
  /// The query head, or the GQA group whose query heads are packed, and the row
  /// of the first query in its tensors.
  Value head, firstQueryRow;
  /// The number of the KV split; null without split-KV.
  Value split;
  /// The values of `emitPrepared`.
  SmallVector<Value> prepared;
};

/// An element of the output whose KV splits are combined.
class CombinedElement {
public:
  CombinedElement(ImplicitLocOpBuilder &b) : b(b) {}
  virtual ~CombinedElement();

  /// The f32 values that a KV split has stored. `split` counts the splits that
  /// are combined at a time.
  virtual Value loadStatistic(int64_t split, unsigned index) = 0;
  virtual Value loadOutput(int64_t split) = 0;
  /// Whether there is such a split, an `i1`; null if there is. If not, another
  /// split's results are loaded.
  virtual Value emitExists(int64_t split) = 0;
  /// The element, or the entry of its row, of an operand of
  /// `getCombinedOperands` that has the shape of the output, or of a row
  /// result, as f32.
  virtual Value loadOperand(Value operand) = 0;
  /// Stores an f32 as the element of the output.
  virtual void storeOutput(Value value) = 0;
  /// Stores the f32 that `emit` emits as a row result.
  virtual void storeRow(unsigned index, function_ref<Value()> emit) = 0;

  /// Emits all code of the kernel.
  ImplicitLocOpBuilder &b;
};

/// The operands and destinations of the gradient of a reduction over keys,
/// besides queries, keys and values.
struct GradOperands {
  /// The output of the reduction, a result for each row, and their gradients.
  /// The row result and its gradient are null if there is none.
  Value output, rowResult, outputGrad, rowResultGrad;
  /// For each query head, the factor with which values at the positions of the
  /// queries are part of the output; null if they are not.
  Value identity;
  /// The gradients of queries, keys and values, and of captured tensors.
  Value queryGrad, keyGrad, valueGrad;
  SmallVector<Value> captureGrads;
  /// The derivative of the `score_mod` region; null if there is none.
  Region *scoreModGrad = nullptr;
  /// Whether results must be the same in each run.
  bool isDeterministic = false;
  /// Whether dQ can be accumulated in order.
  bool canOrderDq = false;
  /// Whether F and dS can be computed from tiles of scores and of dF to which
  /// the values of rows have been added (`RowAdditions`).
  bool canAddRows = false;
};

/// To which tiles the stored values of rows are added by the MMAs of these
/// tiles, as their first accumulators. The values are then read before the MMA
/// starts, into registers that its result takes.
struct RowAdditions {
  /// The value of `storeRowOfFactors` to the elements of a tile of scores.
  bool scores = false;
  /// The value of `storeRowOfGrads` to the elements of dF. Never without
  /// `scores`.
  bool factorGrads = false;
};

/// A query tile of the kernel that prepares the other kernels of a gradient.
class GradRows {
public:
  GradRows(attn::TileProgramBuilder &b) : b(b) {}
  virtual ~GradRows();

  /// Whether each row is a query, as `i1`.
  virtual Value emitExists() = 0;
  /// Stores an f32 for each row, for `emitFactors` and for `emitScoreGrad`.
  virtual void storeRowOfFactors(Value rows) = 0;
  virtual void storeRowOfGrads(Value rows) = 0;

  /// Emits all code of the kernel.
  attn::TileProgramBuilder &b;
  int64_t queryTile = 0;
  /// To what the stored values are added, and the factor of a tile of scores,
  /// as in `GradTile`.
  RowAdditions additions;
  double scoreFactor = 1;
  /// A row result and its gradient, each null if there is none.
  Value rowResult, rowResultGrad;
  /// Tiles of f32: the output of the reduction, and the gradient of the output.
  Value output, outputGrad;
  /// The factor with which the output of the reduction contributes to the
  /// output of the operation; null for 1.
  Value share;
};

/// A tile of scores in a step of a gradient.
struct GradTile {
  /// Emits all code of the kernel.
  attn::TileProgramBuilder &b;
  SmallVector<int64_t> shape;
  /// A score is this, which is positive, times the element of a tile of scores.
  double scoreFactor;
  /// Whether scores of rows that are no queries may be infinite or NaN. Their
  /// factors must be zero.
  bool mayPaddingBeInfinite;
  /// The values of rows that tiles have been given; the interface gets none for
  /// these.
  RowAdditions additions = {};
};

} // namespace mlir::attn_tile

#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h.inc"

#endif // ATTN_DIALECT_ATTNTILE_IR_STREAMINGOPINTERFACE_H
