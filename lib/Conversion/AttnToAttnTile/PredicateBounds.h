//===- PredicateBounds.h - Bounds of a predicate in a tile -----*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bounds of a predicate over all pairs of a tile. Values that depend on the
// query alone or on the key alone are evaluated for each row and each column.
// For values that depend on both, interval arithmetic combines the smallest and
// largest of these values. So a tile takes as many evaluations as it has rows
// and columns, not pairs. Values that are read for each pair of blocks of
// positions are evaluated for each pair of blocks.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PREDICATEBOUNDS_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PREDICATEBOUNDS_H

#include "attn/Analysis/MaskTiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {

/// A predicate, emitted in parts: code that depends on the query, on the key,
/// on both and on neither.
class PredicateBounds {
public:
  /// Positions of one dimension of a tile; `last` is one of them.
  struct Positions {
    Value first, last, count;
  };
  /// Whether the predicate is known to hold for all pairs, and whether it may
  /// hold for any pair.
  struct Result {
    Value all, any;
  };

  PredicateBounds(ImplicitLocOpBuilder &builder, PredicateBlock &block);

  /// Emits the values that are the same for all pairs. `mapping` maps captures,
  /// batch and head to values of the kernel.
  void emitUniform(const IRMapping &mapping);

  /// Emits bounds of the predicate in a tile.
  Result emit(const Positions &queries, const Positions &keys);

  /// Emits the number of pairs for which the predicate holds, of all queries
  /// and of `count` keys from `firstKey` on.
  Value emitCount(Value firstKey, Value count);

  /// Whether pairs of blocks are evaluated. If so, bounds are nearly exact.
  bool hasCells() const { return !cells.empty(); }

  /// Whether only pairs of blocks are evaluated. One thread does that quickly,
  /// so threads need not divide the work.
  bool isSerial() const { return hasCells() && leaves.empty(); }

private:
  /// Positions whose values are the same: the value depends on the quotients of
  /// the query and the key by these; 0 for a value that does not depend on one.
  struct CellSize {
    int64_t query = 0, key = 0;
  };

  /// The positions that a value depends on, as a set.
  enum Dependence : unsigned { Nothing = 0, Query = 1, Key = 2, Both = 3 };

  /// Bounds of a value in the tile. An `i1` is surely true if `low` is, and
  /// surely false if `high` is. Other integers are at least `low` and at most
  /// `high`, of 64 bits, if `isKnown` (null for true).
  struct Bounds {
    Value low, high, isKnown;
  };

  /// Clones those operations that depend on `dependence` alone.
  void clone(unsigned dependence, IRMapping &mapping);
  bool isMonotonic(Value value);
  CellSize getCellSize(Operation *op);
  bool isCell(Value value);
  bool needsCells(Value value);
  void addLeaves(Value value);
  void emitLeaves(Dependence side);
  void emitCells(Value value);
  /// Adds the numbers whose smallest and largest values are bounds of `leaf`.
  void yieldBounds(Value leaf, Value value, SmallVectorImpl<Value> &yielded);
  static void addKinds(Value leaf,
                       SmallVectorImpl<vector::CombiningKind> &kinds);
  /// Consumes the bounds of `leaf` from the reduction results.
  void takeBounds(Value leaf, ResultRange::iterator &next);
  /// Emits a reduction, over the numbers below `count`, of the results of
  /// `body`; by one thread if `isSerial`.
  ResultRange emitReduction(Value count, ArrayRef<vector::CombiningKind> kinds,
                            function_ref<SmallVector<Value>(Value)> body);

  Bounds get(Value value);
  Bounds getUncached(Value value);
  Bounds getUnknown(Type type);
  Bounds getFixed(Value value);
  Bounds combine(Operation *op);
  Bounds combineBooleans(Operation *op);
  Bounds compare(Operation *op);
  /// Bounds `[low, high]` of the result of an operation on operands with
  /// bounds, which must be within 32 bits to be known.
  Bounds narrow(Value low, Value high, ArrayRef<Bounds> operands);

  template <typename OpTy>
  Value create(Value lhs, Value rhs) {
    return b.createOrFold<OpTy>(lhs, rhs);
  }
  Value isLess(Value lhs, Value rhs);
  Value isAtMost(Value lhs, Value rhs);
  Value invert(Value condition);
  /// The conjunction of two known-conditions; null stands for true.
  Value both(Value lhs, Value rhs);
  Value constant(int64_t value);
  Value boolean(bool value);
  Value select(Value condition, Value yes, Value no) {
    return b.createOrFold<arith::SelectOp>(condition, yes, no);
  }

  ImplicitLocOpBuilder &b;
  PredicateBlock &block;
  /// Values that depend on neither position.
  IRMapping uniform;
  Positions queries, keys;
  DenseMap<Value, unsigned> dependences;
  /// Values that depend on one side and whose bounds are needed.
  SetVector<Value> leaves;
  /// Values that depend on both and are evaluated for pairs of blocks.
  SetVector<Value> cells;
  DenseMap<Value, CellSize> cellSizes;
  DenseMap<Value, Bounds> bounds;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PREDICATEBOUNDS_H
