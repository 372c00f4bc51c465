//===- ShardedRows.h - Operations on rows of a rank -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How operations of linalg compute on chunks: rows, or the sum of rows, such as
// the gradient of sinks.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_SHARDEDROWS_H
#define ATTN_LIB_DISTRIBUTED_SHARDEDROWS_H

#include "RankTensors.h"
#include "RingSchedule.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace mlir::attn {

/// An operation of linalg with a loop over the positions of chunks.
class ShardedRows {
public:
  /// Finds the loop from `chunked`, an operand of `op` or the destination of a
  /// result that has chunks. Fails, with an error, if other operands use
  /// positions in another way. The body may read positions.
  static FailureOr<ShardedRows> get(linalg::LinalgOp op, OpOperand &chunked,
                                    ChunkPlacement placement);

  /// Whether ranks have a chunk of `operand`, or of the result that goes there.
  bool isChunked(OpOperand &operand);
  /// The operation on chunks of the rank that computes. Its operands have
  /// become chunks, except for new destinations. Returns the results.
  SmallVector<Value> emit(OpBuilder &builder, RankOfGroup group);

private:
  ShardedRows(linalg::LinalgOp op, unsigned loop, ChunkPlacement placement)
      : op(op), loop(loop), placement(placement) {}

  LogicalResult verifyOperand(OpOperand &operand);
  LogicalResult verifySum(OpOperand &init);
  void emitPositions(ImplicitLocOpBuilder &b, linalg::LinalgOp chunk,
                     RankOfGroup group);

  linalg::LinalgOp op;
  /// The number of the loop over positions.
  unsigned loop;
  ChunkPlacement placement;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_SHARDEDROWS_H
