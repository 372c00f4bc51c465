//===- KernelDropout.h - Dropout in tiled programs --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the writers of tiled programs share of dropout.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_KERNELDROPOUT_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_KERNELDROPOUT_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {

/// Reports the effective p of decisions that a kernel at `loc` makes.
void reportDropout(Location loc, DropoutAttr dropout);

/// The dropout of an operation, if it has any.
class KernelDropout {
public:
  explicit KernelDropout(AttentionOpInterface op) : op(op) {}

  explicit operator bool() const { return op.hasDropout(); }

  /// Fails if the tiles of `schedule` cut decision words.
  LogicalResult check(ScheduleAttrInterface schedule) const;

  /// Reports the effective p of decisions that are made.
  void report() const {
    if (isMade())
      reportDropout(op.getLoc(), op.getDropoutAttr());
  }

  /// Adds the operands that kernels must be given: those that are no constants.
  void addOperands(SetVector<Value> &operands) const;

  /// What the decisions of a batch entry and head are made of, or read from.
  struct Source {
    /// Random numbers.
    SmallVector<Value, 4> stream;
    /// Packed decisions, and the indices of those of the entry and head.
    Value mask, batch, head;
  };

  /// Emits the source of a batch entry and head, in a kernel whose operands
  /// `captured` maps.
  Source emitSource(OpBuilder &builder, const IRMapping &captured, Value batch,
                    Value head) const;

  /// Whether decisions are made of random numbers.
  bool isMade() const { return op.getDropoutAttr() != nullptr; }

  /// Emits what stores the random stream of a batch entry and head in `streams`
  /// if `isFirst`, and what reads it from there.
  void emitStoreStream(OpBuilder &builder, const IRMapping &captured,
                       Value batch, Value head, Value isFirst,
                       Value streams) const;
  Source emitLoadStream(OpBuilder &builder, Value batch, Value head,
                        Value streams) const;

  /// Where a tile has the words of its decisions: rows are queries or, if it is
  /// transposed, keys; threads may read all words of their rows themselves.
  enum class WordPlacement { Shared, Transposed, Whole };

  /// Emits the decisions of a tile of `shape`. Null if there is no dropout.
  Value emitDecisions(OpBuilder &builder, const Source &source,
                      Value firstQuery, Value firstKey, ArrayRef<int64_t> shape,
                      WordPlacement placement) const;

  /// Emits the tile with zeros where `decisions` drops; `tile` if there is no
  /// dropout. What is kept is left to be divided by `getKeepProbability`.
  Value emitDrop(OpBuilder &builder, Value tile, Value decisions,
                 bool areWeights) const;

  /// One without dropout.
  double getKeepProbability() const { return op.getKeepProbability(); }

private:
  // Interfaces have no constant methods.
  mutable AttentionOpInterface op;
};

/// Emits the seed or offset `state`, in a kernel whose operands `captured`
/// maps.
Value emitRngState(OpBuilder &builder, Value state, const IRMapping &captured);

/// What the program of a mask of decisions needs: the mask, and the seed and
/// offset as far as they are no constants.
SmallVector<Value> getMaskOperands(DropoutMaskOp op);

/// Writes a program that makes the decisions of `op`: a loop over its work
/// items. `arguments` stand for the operands of `getMaskOperands`.
void writeMaskProgram(OpBuilder &builder, DropoutMaskOp op,
                      ValueRange arguments);

/// How many words a work item of that program has; `mask` stands for the mask.
Value emitWordsOfItem(OpBuilder &builder, DropoutMaskOp op, Value mask);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_KERNELDROPOUT_H
