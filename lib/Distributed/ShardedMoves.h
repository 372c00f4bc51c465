//===- ShardedMoves.h - Operations that move chunks of a rank ---*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How operations around linear attention that are none of linalg's loops
// compute on chunks: casts, concatenations and slices of rows, and softmax.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_SHARDEDMOVES_H
#define ATTN_LIB_DISTRIBUTED_SHARDEDMOVES_H

#include "RankTensors.h"

namespace mlir::attn {

/// An operation whose tensors all have the dimension of positions, and keep it
/// as it is.
class ShardedMove {
public:
  /// Whether `op` may be such an operation, if it has operands with chunks.
  static bool isKnown(Operation *op);
  /// Fails, with an error, if `op` does not keep positions.
  static FailureOr<ShardedMove> get(Operation *op);

  /// Whether ranks have a chunk of `operand`: of all tensors.
  static bool isChunked(OpOperand &operand) {
    return isa<RankedTensorType>(operand.get().getType());
  }
  /// Whether `operand` is a destination, which may be new.
  static bool isDestination(OpOperand &operand);
  /// The number of positions that an operation on a slice names; null if there
  /// is none, or if it is static.
  Value getLength() const;
  /// The operation on chunks of one of `ranks` ranks. Its operands have become
  /// chunks, except for new destinations.
  Value emit(OpBuilder &builder, int64_t ranks) const;

private:
  explicit ShardedMove(Operation *op) : op(op) {}

  Operation *op;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_SHARDEDMOVES_H
