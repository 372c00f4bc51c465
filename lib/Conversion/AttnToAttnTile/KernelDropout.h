//===- KernelDropout.h - Dropout in tiled programs -------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dropout, as the writers of tiled programs use it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_KERNELDROPOUT_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_KERNELDROPOUT_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {

/// Reports the effective drop probability of keep masks that a kernel
/// generates.
void reportDropout(Location loc, DropoutAttr dropout);

/// The dropout of an operation, if it has any.
class KernelDropout {
public:
  explicit KernelDropout(AttentionOpInterface op) : op(op) {}

  explicit operator bool() const { return op.hasDropout(); }

  /// Fails if the tiles of `schedule` would cut words of the keep mask.
  LogicalResult check(ScheduleAttrInterface schedule) const;

  /// Reports the effective drop probability if keep masks are generated.
  void report() const {
    if (isMade())
      reportDropout(op.getLoc(), op.getDropoutAttr());
  }

  /// Creates the kernel that reports positions of a shard at which words of the
  /// keep mask do not begin, if keep masks are generated for a shard.
  void checkPositions(RewriterBase &rewriter, ScheduleAttrInterface schedule,
                      SymbolTable &symbols) const;

  /// Adds the operands that kernels need; constants need no operand.
  void addOperands(SetVector<Value> &operands) const;

  /// The source of the keep mask of a batch entry and head.
  struct Source {
    /// The Philox stream, if the keep mask is generated.
    SmallVector<Value, 4> stream;
    /// The packed keep mask, if it is read, and its batch and head indices.
    Value mask, batch, head;
    /// The global positions of the first query and key of a shard, or null.
    Value firstQuery, firstKey;
  };

  /// Emits the source of a batch entry and head, in a kernel whose operands
  /// `captured` maps.
  Source emitSource(OpBuilder &builder, const IRMapping &captured, Value batch,
                    Value head) const;

  /// Whether keep masks are generated from random numbers.
  bool isMade() const { return op.getDropoutAttr() != nullptr; }

  /// Emits the code that stores the random stream of a batch entry and head in
  /// `streams` if `isFirst`, and the code that loads it.
  void emitStoreStream(OpBuilder &builder, const IRMapping &captured,
                       Value batch, Value head, Value isFirst,
                       Value streams) const;
  Source emitLoadStream(OpBuilder &builder, const IRMapping &captured,
                        Value batch, Value head, Value streams) const;

  /// How the threads of a tile hold keep-mask words. Rows are queries, or keys
  /// if transposed; with `Whole` each thread loads all words of its own rows.
  enum class WordPlacement { Shared, Transposed, Whole };

  /// Emits the keep mask of a tile of `shape`. Null if there is no dropout.
  Value emitKeepMask(OpBuilder &builder, const Source &source, Value firstQuery,
                     Value firstKey, ArrayRef<int64_t> shape,
                     WordPlacement placement) const;

  /// Emits `tile` with zeros where `keepMask` drops; `tile` if there is no
  /// dropout. The kept elements remain to be divided by `getKeepProbability`.
  Value emitDrop(OpBuilder &builder, Value tile, Value keepMask,
                 bool areBelowTwo) const;

  /// One without dropout.
  double getKeepProbability() const { return op.getKeepProbability(); }

private:
  /// The positions of the shard for which keep masks are generated, or null.
  Value getPositions() const { return isMade() ? op.getPositions() : Value(); }
  /// Emits where the shard begins, if there is one.
  void emitOffsets(OpBuilder &builder, const IRMapping &captured,
                   Source &source) const;

  // Interfaces have no constant methods.
  mutable AttentionOpInterface op;
};

/// Emits the seed or offset `state`, in a kernel whose operands `captured`
/// maps.
Value emitRngState(OpBuilder &builder, Value state, const IRMapping &captured);

/// Creates the kernel that reports, before `user`, `positions` of a shard at
/// which words of a keep mask do not begin.
void createPositionsCheck(RewriterBase &rewriter, Operation *user,
                          Value positions, ScheduleAttrInterface schedule,
                          SymbolTable &symbols);

/// The operands of the program of a dropout keep mask: the mask, the seed and
/// offset if they are not constants, and the positions of a shard.
SmallVector<Value> getMaskOperands(DropoutMaskOp op);

/// Writes a program that generates the keep mask of `op`: a loop over its work
/// items. `arguments` replace the operands of `getMaskOperands`.
void writeMaskProgram(OpBuilder &builder, DropoutMaskOp op,
                      ValueRange arguments);

/// The number of words of a work item of that program, for the memref `mask`.
Value emitWordsOfWorkItem(OpBuilder &builder, DropoutMaskOp op, Value mask);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_KERNELDROPOUT_H
