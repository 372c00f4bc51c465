//===- LightSeqScheduleTest.cpp - Pairs of chunks of a balanced schedule --===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LightSeqSchedule.h"
#include "gtest/gtest.h"

#include <functional>
#include <random>

using namespace mlir;
using namespace mlir::attn;

namespace {
using IsReached = std::function<bool(int64_t query, int64_t key)>;

/// What ranks do in all steps.
struct Work {
  int64_t numSteps, mostPairs, numHelped;
};

/// The pairs that all steps compute.
class Pairs {
public:
  explicit Pairs(int64_t ranks)
      : ranks(ranks), counts(ranks, SmallVector<int64_t>(ranks)),
        ofRanks(ranks) {}

  /// Adds the pair of `rank`, which must have one of its chunks. The other one
  /// is of the rank that sends.
  void add(const LightSeqStep &step, int64_t rank) {
    std::optional<ChunkPair> pair = step.getPair(rank);
    EXPECT_EQ(pair.has_value(),
              step.owners.test(rank) || step.helpers.test(rank));
    if (!pair)
      return;
    ++counts[pair->query][pair->key];
    ++ofRanks[rank];
    int64_t other = step.owners.test(rank) ? pair->key : pair->query;
    numHelped += step.helpers.test(rank) ? 1 : 0;
    EXPECT_EQ(pair->query + pair->key, rank + other);
    EXPECT_EQ((other + step.distance) % ranks, rank);
    llvm::BitVector set(ranks);
    set.set(rank);
    EXPECT_EQ(step.getSources(set).find_first(), other);
  }
  /// Checks that ranks compute each reachable pair once, besides the pairs of
  /// their own chunks.
  void check(const ReachableChunks &reachable) const {
    for (int64_t query = 0; query < ranks; ++query)
      for (int64_t key = 0; key < ranks; ++key)
        EXPECT_EQ(counts[query][key],
                  query == key || reachable[query].test(key) ? 1 : 0);
  }
  int64_t getMost() const { return *llvm::max_element(ofRanks); }
  int64_t getNumHelped() const { return numHelped; }

private:
  int64_t ranks, numHelped = 0;
  SmallVector<SmallVector<int64_t>> counts;
  SmallVector<int64_t> ofRanks;
};
} // namespace

static ReachableChunks getReachable(int64_t ranks, const IsReached &isReached) {
  ReachableChunks reachable(ranks, llvm::BitVector(ranks));
  for (int64_t query = 0; query < ranks; ++query)
    for (int64_t key = 0; key < ranks; ++key)
      if (isReached(query, key))
        reachable[query].set(key);
  return reachable;
}

/// Checks the steps of a schedule.
static Work check(const ReachableChunks &reachable) {
  int64_t ranks = reachable.size(), last = -1;
  SmallVector<LightSeqStep> steps = scheduleLightSeq(reachable);
  EXPECT_EQ(steps.front().distance, 0);
  EXPECT_TRUE(steps.front().owners.all());
  Pairs pairs(ranks);
  for (const LightSeqStep &step : steps) {
    EXPECT_LT(last, step.distance);
    last = step.distance;
    EXPECT_FALSE(step.owners.anyCommon(step.helpers));
    for (int64_t rank = 0; rank < ranks; ++rank)
      pairs.add(step, rank);
  }
  pairs.check(reachable);
  return {int64_t(steps.size()), pairs.getMost(), pairs.getNumHelped()};
}

/// The least pairs of the busiest rank, by trying all ways to compute free
/// pairs.
static int64_t findLeast(const ReachableChunks &reachable) {
  int64_t ranks = reachable.size();
  SmallVector<int64_t> numPairs(ranks, 1);
  SmallVector<ChunkPair> free;
  for (int64_t a = 0; a < ranks; ++a)
    for (int64_t b = 0; b < ranks; ++b) {
      if (a == b || !reachable[a].test(b))
        continue;
      if (reachable[b].test(a))
        ++numPairs[a];
      else
        free.push_back({a, b});
    }
  int64_t least = ranks * ranks;
  for (int64_t ways = 0; ways < int64_t(1) << free.size(); ++ways) {
    SmallVector<int64_t> counts = numPairs;
    for (auto [number, pair] : llvm::enumerate(free))
      ++counts[(ways >> number) & 1 ? pair.query : pair.key];
    least = std::min(least, *llvm::max_element(counts));
  }
  return least;
}

TEST(LightSeqSchedule, causal) {
  for (int64_t ranks = 1; ranks <= 16; ++ranks) {
    SCOPED_TRACE(ranks);
    Work work = check(getReachable(
        ranks, [](int64_t query, int64_t key) { return key <= query; }));
    EXPECT_EQ(work.numSteps, ranks / 2 + 1);
    // On average (ranks + 1) / 2.
    EXPECT_EQ(work.mostPairs, ranks / 2 + 1);
    // Distances of more than half of the ranks.
    int64_t half = (ranks - 1) / 2;
    EXPECT_EQ(work.numHelped, half * (half + 1) / 2);
  }
}

/// The paper's figure: 8 ranks, of which rank `p` helps rank `8 - t + p` in
/// step `t` if `p < t`.
TEST(LightSeqSchedule, causalHelpers) {
  SmallVector<LightSeqStep> steps = scheduleLightSeq(
      getReachable(8, [](int64_t query, int64_t key) { return key <= query; }));
  for (int64_t t = 1; t <= 4; ++t)
    for (int64_t rank = 0; rank < 8; ++rank) {
      SCOPED_TRACE(std::to_string(t) + " " + std::to_string(rank));
      std::optional<ChunkPair> pair = steps[t].getPair(rank);
      if (t == 4 && rank < t) {
        EXPECT_FALSE(pair);
        continue;
      }
      ASSERT_TRUE(pair);
      EXPECT_EQ(pair->query, rank >= t ? rank : 8 - t + rank);
      EXPECT_EQ(pair->key, rank >= t ? rank - t : rank);
    }
}

TEST(LightSeqSchedule, full) {
  for (int64_t ranks = 1; ranks <= 9; ++ranks) {
    Work work =
        check(getReachable(ranks, [](int64_t, int64_t) { return true; }));
    EXPECT_EQ(work.numSteps, ranks);
    EXPECT_EQ(work.mostPairs, ranks);
    EXPECT_EQ(work.numHelped, 0);
  }
}

TEST(LightSeqSchedule, local) {
  Work work = check(getReachable(5, [](int64_t, int64_t) { return false; }));
  EXPECT_EQ(work.numSteps, 1);
  EXPECT_EQ(work.mostPairs, 1);
}

/// Windows need no help where more steps would be no gain.
TEST(LightSeqSchedule, windows) {
  for (int64_t width : {1, 2, 3}) {
    Work behind = check(getReachable(12, [=](int64_t query, int64_t key) {
      return key <= query && query - key <= width;
    }));
    EXPECT_EQ(behind.numSteps, width + 1);
    EXPECT_EQ(behind.numHelped, 0);
    Work ahead = check(getReachable(12, [=](int64_t query, int64_t key) {
      return key >= query && key - query <= width;
    }));
    EXPECT_EQ(ahead.numSteps, width + 1);
    EXPECT_EQ(ahead.numHelped, 0);
  }
}

/// All queries attend to the first chunk, which its rank must not attend with
/// for half of the others.
TEST(LightSeqSchedule, firstChunk) {
  Work work = check(getReachable(
      12, [](int64_t query, int64_t key) { return key == 0 || key == query; }));
  EXPECT_EQ(work.mostPairs, 2);
}

TEST(LightSeqSchedule, random) {
  std::mt19937 random(0);
  for (int64_t number = 0; number < 400; ++number) {
    SCOPED_TRACE(number);
    int64_t ranks = 1 + random() % 5;
    unsigned percent = random() % 101;
    ReachableChunks reachable = getReachable(
        ranks, [&](int64_t, int64_t) { return random() % 100 < percent; });
    EXPECT_EQ(check(reachable).mostPairs, findLeast(reachable));
  }
}

/// The most ranks of a group.
TEST(LightSeqSchedule, many) {
  Work work = check(getReachable(
      1024, [](int64_t query, int64_t key) { return key <= query; }));
  EXPECT_EQ(work.numSteps, 513);
  EXPECT_EQ(work.mostPairs, 513);
}
