//===- ShardPositions.h - Global positions of a shard -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The entries of the `positions` operand, which place a shard in a larger
// attention.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_SHARDPOSITIONS_H
#define ATTN_DIALECT_ATTN_IR_SHARDPOSITIONS_H

#include "mlir/IR/Builders.h"

namespace mlir::attn {

/// The entries of `positions`.
enum class ShardPosition : int64_t {
  /// Global positions of the first query and key.
  FirstQuery,
  FirstKey,
  /// Global numbers of the first batch entry and query head.
  FirstBatch,
  FirstHead,
  /// Numbers of queries and keys of the larger attention.
  NumQueries,
  NumKeys
};

/// The largest entry of `positions`: two of them add up to a 32-bit integer.
inline constexpr int64_t kLargestShardPosition = (int64_t(1) << 28) - 1;

/// Emits entry `entry` of `positions`, a tensor or a memref, as an `index` from
/// 0 to `kLargestShardPosition`.
Value emitShardPosition(OpBuilder &builder, Location loc, Value positions,
                        ShardPosition entry);

/// Emits `position`, an `index` of the shard, plus the offset `entry`.
Value emitGlobalPosition(OpBuilder &builder, Location loc, Value positions,
                         ShardPosition entry, Value position);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_SHARDPOSITIONS_H
