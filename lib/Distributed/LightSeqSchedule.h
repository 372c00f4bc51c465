//===- LightSeqSchedule.h - Steps with as much work on all ranks *- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The balanced schedule of DISTFLASHATTN (Li et al. 2023): a rank that would be
// idle in a step of a ring computes with the queries of another rank.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_LIGHTSEQSCHEDULE_H
#define ATTN_LIB_DISTRIBUTED_LIGHTSEQSCHEDULE_H

#include "RingSchedule.h"

#include <optional>

namespace mlir::attn {

/// The chunks of queries and of keys that a rank attends with, and to.
struct ChunkPair {
  int64_t query, key;
};

/// The most results of queries that a rank has got back before it adds them up:
/// each takes memory, and each sum is written and read again.
inline constexpr int64_t maxReturnedResults = 4;

/// A step, in which each rank `r` computes one pair of chunks at most. The
/// other chunk than its own is of rank `r - distance`, modulo the number of
/// ranks.
struct LightSeqStep {
  int64_t distance = 0;
  /// The ranks that attend with their own queries, to keys that they receive.
  llvm::BitVector owners;
  /// The ranks that attend to their own keys, with queries that they receive.
  llvm::BitVector helpers;

  LightSeqStep(int64_t ranks, int64_t distance)
      : distance(distance), owners(ranks), helpers(ranks) {}

  /// The pair that `rank` computes, if there is one.
  std::optional<ChunkPair> getPair(int64_t rank) const;
  /// The ranks whose chunks ranks of `set` compute with.
  llvm::BitVector getSources(const llvm::BitVector &set) const;
};

/// The steps in which ranks with one chunk each compute all `reachable` pairs,
/// each of them once. In the first one, they attend to their own keys. Of the
/// schedules in which a rank computes each pair of its own queries or of its
/// own keys, it is one with the least pairs of the busiest rank.
SmallVector<LightSeqStep> scheduleLightSeq(const ReachableChunks &reachable);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_LIGHTSEQSCHEDULE_H
