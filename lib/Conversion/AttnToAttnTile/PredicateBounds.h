//===- PredicateBounds.h - What a predicate is in a tile --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bounds of a predicate over all pairs of a tile. What depends on the query
// alone or on the key alone is evaluated for each row and each column; what
// depends on both follows from the smallest and largest of these values by
// interval arithmetic. So a tile takes as many evaluations as it has rows and
// columns, not as many as it has pairs. What is read for each pair of blocks of
// positions is evaluated for each pair of blocks.
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

/// A predicate, as code that is emitted in the parts that depend on the query,
/// on the key, on both and on neither.
class PredicateBounds {
public:
  /// Positions of one dimension of a tile; `last` is one of them.
  struct Positions {
    Value first, last, count;
  };
  /// Whether the predicate holds for all pairs and for any pair, as far as that
  /// is known.
  struct Result {
    Value all, any;
  };

  PredicateBounds(ImplicitLocOpBuilder &builder, PredicateBlock &block);

  /// Emits what the predicate refers to for all pairs. `mapping` holds the
  /// values of the kernel that stand for that, and for its batch and head.
  void emitUniform(const IRMapping &mapping);

  /// Emits bounds of the predicate in a tile.
  Result emit(const Positions &queries, const Positions &keys);

  /// Emits the number of pairs for which the predicate holds, of all queries
  /// and of `count` keys from `firstKey` on.
  Value emitCount(Value firstKey, Value count);

  /// Whether pairs of blocks are evaluated. Then bounds leave little open.
  bool hasCells() const { return !cells.empty(); }

  /// Whether nothing but pairs of blocks is evaluated. That takes one thread
  /// little time, so that threads need not share it.
  bool isSerial() const { return hasCells() && leaves.empty(); }

private:
  /// Positions whose values are the same: the value depends on the quotients of
  /// the query and the key by these; 0 for a value that does not depend on one.
  struct CellSize {
    int64_t query = 0, key = 0;
  };

  /// What a value depends on, as a set.
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
  /// Takes the bounds of `leaf` from the next of the results.
  void takeBounds(Value leaf, ResultRange::iterator &next);
  /// Emits combinations, over the numbers below `count`, of what `body` gives:
  /// by one thread if `isSerial`.
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
  /// The condition, if what the bounds say is known; null stands for true.
  Value both(Value lhs, Value rhs);
  Value constant(int64_t value);
  Value boolean(bool value);
  Value select(Value condition, Value yes, Value no) {
    return b.createOrFold<arith::SelectOp>(condition, yes, no);
  }

  ImplicitLocOpBuilder &b;
  PredicateBlock &block;
  /// What depends on neither.
  IRMapping uniform;
  Positions queries, keys;
  DenseMap<Value, unsigned> dependences;
  /// Values that depend on one side, of which bounds are needed.
  SetVector<Value> leaves;
  /// Values that depend on both and are evaluated for pairs of blocks.
  SetVector<Value> cells;
  DenseMap<Value, CellSize> cellSizes;
  DenseMap<Value, Bounds> bounds;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PREDICATEBOUNDS_H
