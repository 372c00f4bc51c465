//===- RingSchedule.h - Steps of ring attention -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which ranks compute and communicate in which step of ring attention.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_RINGSCHEDULE_H
#define ATTN_LIB_DISTRIBUTED_RINGSCHEDULE_H

#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::attn {

/// The dimension of positions in queries, keys, values and results.
inline constexpr int64_t sequenceDim = 2;
/// The dimension of positions of tensors of `type` that have chunks: of ones
/// with few dimensions, the last.
inline int64_t getPositionDim(ShapedType type) {
  return std::min(sequenceDim, type.getRank() - 1);
}
/// The dimension of heads.
inline constexpr int64_t headsDim = 1;

/// Which chunks of positions ranks have.
struct ChunkPlacement {
  int64_t ranks;
  /// 1: rank `r` has chunk `r`. 2: it also has chunk `2 * ranks - 1 - r`, so
  /// that with a causal mask all ranks attend to as many pairs (zigzag).
  int64_t chunksPerRank = 1;
  /// Whether ranks have chunks of keys alone, and all of them all queries.
  bool allHaveQueries = false;
  /// Whether ranks compute for one another (lightseq).
  bool isBalanced = false;
  /// Whether rank `r` has every position `i * ranks + r` instead of a chunk of
  /// neighbors (striped). Its chunks are numbered as ranks are.
  bool isStriped = false;
  /// Groups of as many neighboring ranks exchange heads for positions: all
  /// ranks (Ulysses), or groups that are the members of a ring (USP). The
  /// chunks of a member, one behind the other, are cut into equal parts for its
  /// ranks.
  int64_t ulyssesDegree = 1;

  /// Groups of `ulyssesDegree` ranks: one group, or a zigzag ring of them.
  static ChunkPlacement ofGroups(int64_t ranks, int64_t ulyssesDegree) {
    ChunkPlacement placement{ranks};
    placement.chunksPerRank = ranks == ulyssesDegree ? 1 : 2;
    placement.ulyssesDegree = ulyssesDegree;
    return placement;
  }

  int64_t getNumChunks() const { return ranks * chunksPerRank; }
  /// Which chunks the members of the ring have.
  ChunkPlacement getRing() const {
    ChunkPlacement ring = *this;
    ring.ranks /= ulyssesDegree;
    ring.ulyssesDegree = 1;
    return ring;
  }
  /// The chunk number `slot` of `rank`.
  int64_t getChunk(int64_t rank, int64_t slot) const {
    return slot == 0 ? rank : 2 * ranks - 1 - rank;
  }
};

/// For each chunk of queries, the chunks of keys that they may attend to.
using ReachableChunks = SmallVector<llvm::BitVector>;

/// The chunks of keys that some query of a chunk may attend to, if queries and
/// keys of `op`, of the whole, are cut into `chunks` chunks. All of them where
/// lengths are dynamic.
/// With `candidates`, other pairs are not analysed, and count as reachable.
ReachableChunks
findReachableChunks(AttentionOpInterface op, int64_t chunks,
                    const ReachableChunks *candidates = nullptr);

/// Restricts an analysis to where a predicate holds, or where it does not if
/// `negated`.
using ChunkPredicate = function_ref<void(MaskAnalysis &analysis, bool negated)>;

/// The pairs of chunks for which it is not proved that the predicate of
/// `restrict` holds nowhere. Queries and keys of `positions`, whose lengths are
/// constants, are cut into `chunks` chunks each. Operations are emitted before
/// the end of the block of positions. With `candidates`, the predicate is taken
/// to hold somewhere in other pairs.
ReachableChunks findChunksOf(const MaskAnalysis::Positions &positions,
                             int64_t chunks, ChunkPredicate restrict,
                             const ReachableChunks *candidates = nullptr);

/// A step of ring attention: rank `r` has the keys of rank `r - number`, modulo
/// the number of ranks. All sets are of ranks.
struct RingStep {
  int64_t number = 0;
  int64_t chunksPerRank = 1;
  /// Receive their keys before the step, from the previous rank.
  llvm::BitVector receivers;
  /// Have keys in the step that do not go on to the next rank.
  llvm::BitVector lastHolders;
  /// Attend with their queries of a slot to their keys of a slot.
  SmallVector<llvm::BitVector> attending;

  llvm::BitVector &getAttending(int64_t querySlot, int64_t keySlot) {
    return attending[querySlot * chunksPerRank + keySlot];
  }
  const llvm::BitVector &getAttending(int64_t querySlot,
                                      int64_t keySlot) const {
    return attending[querySlot * chunksPerRank + keySlot];
  }
  /// Whether some rank attends with its queries of `querySlot`.
  bool hasAttention(int64_t querySlot) const;
  /// Whether some rank attends to its keys of `keySlot`.
  bool isAttended(int64_t keySlot) const;
  /// The ranks that attend at all.
  llvm::BitVector getAttending() const;
  /// The ranks that send their keys of the step before to the next rank.
  llvm::BitVector getSenders() const;
  /// The ranks whose keys end their way at the last holders.
  llvm::BitVector getOwnersOfLast() const;
  /// Whether keys end their way in the step at ranks that do not own them.
  bool hasReturn() const { return number != 0 && lastHolders.any(); }
};

/// The steps of ring attention up to the last one in which a rank attends. In
/// the first one, ranks have their own keys, and all of them attend to the keys
/// of the same slot.
SmallVector<RingStep> scheduleRing(const ReachableChunks &reachable,
                                   ChunkPlacement placement);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_RINGSCHEDULE_H
