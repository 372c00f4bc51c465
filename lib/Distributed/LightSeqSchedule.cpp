//===- LightSeqSchedule.cpp - Steps with as much work on all ranks --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two ranks `a` and `b = a + distance` have two pairs of chunks: `(b, a)` and
// `(a, b)`. Rank `b` can compute one of them in the step of `distance`, rank
// `a` one in the step of `ranks - distance`. If the mask reaches both, each
// rank computes the one with its own queries. If it reaches one, the schedule
// is free to choose the rank.
//
//===----------------------------------------------------------------------===//

#include "LightSeqSchedule.h"

#include <deque>

using namespace mlir;
using namespace mlir::attn;

std::optional<ChunkPair> LightSeqStep::getPair(int64_t rank) const {
  int64_t ranks = owners.size(), other = (rank + ranks - distance) % ranks;
  if (owners.test(rank))
    return ChunkPair{rank, other};
  if (helpers.test(rank))
    return ChunkPair{other, rank};
  return std::nullopt;
}

llvm::BitVector LightSeqStep::getSources(const llvm::BitVector &set) const {
  int64_t ranks = set.size();
  llvm::BitVector sources(ranks);
  for (unsigned rank : set.set_bits())
    sources.set((rank + ranks - distance) % ranks);
  return sources;
}

namespace {
/// Assigns pairs of chunks to ranks.
class LightSeqScheduler {
public:
  explicit LightSeqScheduler(const ReachableChunks &reachable);

  SmallVector<LightSeqStep> schedule();

private:
  /// Whether the mask reaches `(query, key)` and not `(key, query)`.
  bool isFree(int64_t query, int64_t key) const {
    return reachable[query].test(key) && !reachable[key].test(query);
  }
  void assign(int64_t query, int64_t key, int64_t rank);
  void assignDistance(int64_t distance);
  bool relieve(int64_t rank);
  bool relieveBusiest();
  SmallVector<LightSeqStep> getSteps() const;

  const ReachableChunks &reachable;
  int64_t ranks;
  /// Pairs of queries of other ranks, by the rank that computes them and the
  /// one whose queries they are.
  ReachableChunks helped;
  /// The number of pairs that each rank computes.
  SmallVector<int64_t> numPairs;
};
} // namespace

LightSeqScheduler::LightSeqScheduler(const ReachableChunks &reachable)
    : reachable(reachable), ranks(reachable.size()),
      helped(ranks, llvm::BitVector(ranks)), numPairs(ranks) {}

/// Lets `rank`, of the query or the key, compute a pair.
void LightSeqScheduler::assign(int64_t query, int64_t key, int64_t rank) {
  ++numPairs[rank];
  if (rank != query)
    helped[rank].set(query);
}

/// Assigns the pairs that are free in the steps of `distance` and of `ranks -
/// distance` so that there is one step for all of them, with few helpers.
void LightSeqScheduler::assignDistance(int64_t distance) {
  SmallVector<ChunkPair> owned, others;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    int64_t source = (rank + ranks - distance) % ranks;
    if (isFree(rank, source))
      owned.push_back({rank, source});
    if (isFree(source, rank))
      others.push_back({source, rank});
  }
  // Half the number of ranks is a distance of both pairs of two ranks.
  bool isHalf = 2 * distance == ranks;
  if (isHalf)
    others.clear();
  if (owned.size() < others.size())
    std::swap(owned, others);
  for (ChunkPair pair : owned)
    assign(pair.query, pair.key, pair.query);
  for (ChunkPair pair : others)
    assign(pair.query, pair.key, pair.key);
}

/// Makes `rank` compute a pair less, and another one that computes two pairs
/// less than `rank` one more, by moving free pairs from rank to rank. Fails if
/// there is no such rank.
bool LightSeqScheduler::relieve(int64_t rank) {
  int64_t few = numPairs[rank] - 2;
  SmallVector<int64_t> previous(ranks, -1);
  previous[rank] = rank;
  std::deque<int64_t> queue = {rank};
  // Whether `from` computes a free pair with `to`.
  auto canMove = [&](int64_t from, int64_t to) {
    return helped[from].test(to) ||
           (isFree(from, to) && !helped[to].test(from));
  };
  for (; !queue.empty(); queue.pop_front()) {
    int64_t from = queue.front();
    for (int64_t to = 0; to < ranks; ++to) {
      if (previous[to] >= 0 || !canMove(from, to))
        continue;
      previous[to] = from;
      queue.push_back(to);
      if (numPairs[to] > few)
        continue;
      --numPairs[rank];
      ++numPairs[to];
      for (int64_t end = to; end != rank; end = previous[end]) {
        int64_t begin = previous[end];
        if (helped[begin].test(end))
          helped[begin].reset(end);
        else
          helped[end].set(begin);
      }
      return true;
    }
  }
  return false;
}

/// Makes the busiest ranks compute fewer pairs. Fails, and changes nothing, if
/// one of them cannot.
bool LightSeqScheduler::relieveBusiest() {
  ReachableChunks helpedBefore = helped;
  SmallVector<int64_t> numBefore = numPairs;
  int64_t most = *llvm::max_element(numPairs);
  for (int64_t rank = 0; rank < ranks; ++rank)
    if (numPairs[rank] == most && !relieve(rank)) {
      helped = std::move(helpedBefore);
      numPairs = std::move(numBefore);
      return false;
    }
  return true;
}

SmallVector<LightSeqStep> LightSeqScheduler::schedule() {
  // All ranks attend to their own keys; pairs in both directions are not free.
  for (int64_t rank = 0; rank < ranks; ++rank) {
    numPairs[rank] = 1;
    for (int64_t source = 0; source < ranks; ++source)
      if (source != rank && reachable[rank].test(source) &&
          reachable[source].test(rank))
        ++numPairs[rank];
  }
  for (int64_t distance = 1; 2 * distance <= ranks; ++distance)
    assignDistance(distance);
  while (relieveBusiest())
    ;
  return getSteps();
}

SmallVector<LightSeqStep> LightSeqScheduler::getSteps() const {
  SmallVector<LightSeqStep> steps;
  for (int64_t distance = 0; distance < ranks; ++distance) {
    LightSeqStep step(ranks, distance);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      int64_t source = (rank + ranks - distance) % ranks;
      bool isReached = distance == 0 || reachable[rank].test(source);
      if (helped[rank].test(source))
        step.helpers.set(rank);
      else if (isReached && !helped[source].test(rank))
        step.owners.set(rank);
    }
    if (step.owners.any() || step.helpers.any())
      steps.push_back(std::move(step));
  }
  return steps;
}

SmallVector<LightSeqStep>
attn::scheduleLightSeq(const ReachableChunks &reachable) {
  return LightSeqScheduler(reachable).schedule();
}
