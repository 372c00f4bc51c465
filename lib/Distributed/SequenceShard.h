//===- SequenceShard.h - Packed sequences of one rank -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks have rows of tensors of packed sequences, whose boundaries are
// positions in the whole. A shard, some rows of queries and of keys, has
// boundaries of its own, and its masks and regions see the positions within
// whole sequences.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_SEQUENCESHARD_H
#define ATTN_LIB_DISTRIBUTED_SEQUENCESHARD_H

#include "RingSchedule.h"
#include "StripedShard.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::attn {

/// Why `op`, which may have `sequences`, cannot be distributed over ranks that
/// have chunks by `placement`; empty if it can.
std::string whyNotShardSequences(AttentionOpInterface op,
                                 ChunkPlacement placement);

/// Why no method can distribute `op`, which may have `sequences`; empty if one
/// can.
inline std::string whyNotShardSequences(AttentionOpInterface op) {
  return whyNotShardSequences(op, ChunkPlacement::ofGroups(1, 1));
}

/// `findReachableChunks` for packed sequences, which may begin anywhere.
ReachableChunks findReachableChunksOfSequences(AttentionOpInterface op,
                                               int64_t chunks);

/// For each of `chunks` chunks of queries, the chunks of keys of which they
/// attend to all keys of the same sequence. `queries` and `keys` are the
/// lengths of the whole.
ReachableChunks findFullChunksOfSequences(AttentionOpInterface op,
                                          int64_t queries, int64_t keys,
                                          int64_t chunks);

/// The mask of `op`, aligned to the bottom right corner, if it is causal or a
/// window, nothing else decides which pairs attend, and queries and keys have
/// the same boundaries: then it depends on distances between rows alone. Null
/// otherwise, and with `isBefore` if it keeps keys behind a query.
MaskAttrInterface getMaskOfDistances(AttentionOpInterface op, bool isBefore);

/// Whether a region of `op` uses the position of the query or the key, or the
/// head.
bool usesRowsInRegions(AttentionOpInterface op, bool hasMaskMod);
bool usesHeadInRegions(AttentionOpInterface op);

/// Some rows of the whole, which has `total`: `length` rows that are `stride`
/// apart, from row `first` on.
struct ShardRows {
  Value first, length, total;
  int64_t stride = 1;
};

/// Emits the boundaries within `rows` of sequences with `boundaries` in the
/// whole. Sequences that have no row there are empty. Ones that are out of
/// bounds of the whole stay so on some rank, the one with its first or last
/// rows unless rows are apart: attention reports them.
Value emitBoundariesInRows(ImplicitLocOpBuilder &b, Value boundaries,
                           const ShardRows &rows);

/// Emits `boundaries` that end at row `end` of the whole.
Value emitBoundariesUpTo(ImplicitLocOpBuilder &b, Value boundaries, Value end);

/// Emits, for each sequence, the position within it of its first row among
/// `rows`.
Value emitFirstPositions(ImplicitLocOpBuilder &b, Value boundaries,
                         const ShardRows &rows);

/// Emits, for each sequence, 1 if its first row among `rows` is before its
/// first row among `others`, and 0 otherwise. Both are `stride` apart.
Value emitRowsBefore(ImplicitLocOpBuilder &b, Value boundaries,
                     const ShardRows &rows, const ShardRows &others);

/// Where the rows of a tensor are in the whole: row `i` is row `first + i *
/// stride`. If `half` is not null, rows from number `half` on are rows
/// `second + i`.
struct RowPlace {
  Value first, half = nullptr, second = nullptr;
  int64_t stride = 1;
};

/// Emits `value` in the type of `destination`: the rows that belong to a
/// sequence of `boundaries`, or of lengths if `layout` says so. Other rows keep
/// the contents of `destination`.
Value emitInSequences(ImplicitLocOpBuilder &b, Value value, Value destination,
                      Value boundaries, SequenceLayout layout,
                      const RowPlace &place);

/// Emits entry `at` of `tensor`, of positions, as an index. The analysis of
/// masks relies on the largest position.
Value emitPositionEntry(OpBuilder &builder, Location loc, Value tensor,
                        Value at);

/// The first positions of a shard; null is 0.
struct FirstPositions {
  Value query, key, head;
};

/// Where a shard is in the whole attention.
struct ShardPlace {
  /// The operand `positions`; null if it makes no difference. Of sequences, for
  /// random numbers alone.
  Value positions = nullptr;
  /// Where a dropout mask of the whole has the part of the shard: the first
  /// query, key and head; null is 0.
  FirstPositions first = {};
  /// The boundaries of sequences within the shard; null if they are the same as
  /// in the whole.
  Value querySequences = nullptr, keySequences = nullptr;
  /// The position within its sequence of each sequence's first query and key,
  /// and the number of the first head, where masks or regions see other ones
  /// than the shard has.
  Value firstQueries = nullptr, firstKeys = nullptr, firstHead = nullptr;
  /// The distance in the whole of neighboring rows of a sequence, which masks
  /// and regions see.
  int64_t rowDistance = 1;
  /// A mask of the positions that masks and regions see, instead of the mask,
  /// unless null.
  MaskAttrInterface mask = nullptr;
  /// Whether the mask keeps all pairs.
  bool isFull = false;
  /// A mask of positions within the shard instead of the mask, unless null.
  MaskAttrInterface localMask = nullptr;
  /// The positions that regions see, and the mask without `localMask`, if ranks
  /// have every n-th position.
  std::optional<Stripe> stripe = std::nullopt;
};

/// Makes `shard`, a copy of an attention or a gradient, the shard at `place`.
void assignPlace(Operation *shard, const ShardPlace &place);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_SEQUENCESHARD_H
