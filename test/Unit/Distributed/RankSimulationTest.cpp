//===- RankSimulationTest.cpp - Schedules of ranks by hand ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares simulated times with schedules that were computed by hand, and with
// closed forms.
//
//===----------------------------------------------------------------------===//

#include "attn/Distributed/RankSimulation.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

#include <chrono>
#include <numeric>

using namespace mlir::attn;

/// All ranks on one host: `bytesPerSecond` and `latency` of messages.
static RankLinks getHostLinks(double bytesPerSecond, double latency = 0) {
  RankLinks links;
  links.local = links.network = {bytesPerSecond, latency};
  return links;
}

/// Hosts of two ranks: 100 bytes per second and 1 s inside, 10 and 5 between.
static RankLinks getTwoLevelLinks() {
  RankLinks links;
  links.local = {100, 1};
  links.network = {10, 5};
  links.hostRanks = 2;
  return links;
}

/// A ring of `ranks` ranks, each of which sends `bytes` to the next one in all
/// steps but the last, while it computes as long as `getSeconds` says.
static RankPrograms
makeRing(int64_t ranks, double bytes,
         llvm::function_ref<double(int64_t rank, int64_t step)> getSeconds) {
  RankPrograms programs(ranks);
  for (int64_t step = 0; step < ranks; ++step) {
    for (int64_t rank = 0; rank < ranks; ++rank)
      programs.addStep(rank, getSeconds(rank, step));
    for (int64_t rank = 0; step + 1 < ranks && rank < ranks; ++rank)
      programs.addMessage(rank, (rank + 1) % ranks, bytes);
  }
  return programs;
}

static double getPathSeconds(const RankTimeline &timeline) {
  return std::accumulate(timeline.criticalPath.begin(),
                         timeline.criticalPath.end(), 0.0,
                         [](double sum, const PathSegment &segment) {
                           return sum + segment.seconds;
                         });
}

TEST(RankSimulation, nothingToDo) {
  RankTimeline timeline = simulateRanks(RankPrograms(3), getHostLinks(1));
  EXPECT_EQ(timeline.getSeconds(), 0);
  EXPECT_EQ(timeline.getHiddenShare(), 1);
  EXPECT_EQ(timeline.getImbalance(), 1);
  EXPECT_TRUE(timeline.criticalPath.empty());
}

// Messages of 2 s are hidden behind 3 s of computation: n * 3 s.
TEST(RankSimulation, ringWithMoreComputation) {
  RankPrograms ring = makeRing(4, 20, [](int64_t, int64_t) { return 3.0; });
  RankTimeline timeline = simulateRanks(ring, getHostLinks(10));
  EXPECT_DOUBLE_EQ(timeline.getSeconds(), 12);
  EXPECT_DOUBLE_EQ(timeline.getHiddenShare(), 1);
  EXPECT_DOUBLE_EQ(timeline.getImbalance(), 1);
  EXPECT_DOUBLE_EQ(timeline.getCriticalComputation(), 12);
  for (const RankTimes &times : timeline.ranks) {
    EXPECT_DOUBLE_EQ(times.computation, 12);
    EXPECT_DOUBLE_EQ(times.transfer, 6);
    EXPECT_DOUBLE_EQ(times.exposed, 0);
    EXPECT_DOUBLE_EQ(times.getWaiting(), 0);
  }
}

// Messages of 1 + 4 s take longer than 3 s of computation: (n - 1) * 5 s + 3 s.
// Of each 5 s, 3 are hidden.
TEST(RankSimulation, ringWithMoreCommunication) {
  RankPrograms ring = makeRing(4, 40, [](int64_t, int64_t) { return 3.0; });
  RankTimeline timeline = simulateRanks(ring, getHostLinks(10, /*latency=*/1));
  EXPECT_DOUBLE_EQ(timeline.getSeconds(), 3 * 5 + 3);
  EXPECT_DOUBLE_EQ(timeline.getHiddenShare(), 3.0 / 5);
  EXPECT_DOUBLE_EQ(timeline.getCriticalComputation(), 3);
  for (const RankTimes &times : timeline.ranks) {
    EXPECT_DOUBLE_EQ(times.transfer, 15);
    EXPECT_DOUBLE_EQ(times.exposed, 6);
    EXPECT_DOUBLE_EQ(times.getWaiting(), 0);
  }
}

// Contiguous parts of a causal mask, with free messages: rank r attends in its
// steps 0 to r, at 2 s each, and nobody waits for the last rank but the last
// rank itself.
TEST(RankSimulation, contiguousCausalRing) {
  int64_t ranks = 5;
  RankPrograms programs(ranks);
  for (int64_t step = 0; step < ranks; ++step) {
    for (int64_t rank = step; rank < ranks; ++rank)
      programs.addStep(rank, 2);
    // Keys go on to ranks that attend to them.
    for (int64_t rank = step + 1; rank < ranks; ++rank)
      programs.addMessage(rank - 1, rank, 1);
  }
  RankTimeline timeline = simulateRanks(programs, getHostLinks(1e30));
  EXPECT_DOUBLE_EQ(timeline.getSeconds(), 2.0 * ranks);
  for (int64_t rank = 0; rank < ranks; ++rank)
    EXPECT_DOUBLE_EQ(timeline.ranks[rank].finish, 2.0 * (rank + 1));
  // 5 * 2 s over a mean of 3 * 2 s.
  EXPECT_DOUBLE_EQ(timeline.getImbalance(), 5.0 / 3);
}

// Rank 0 takes 10 s for its first step. Its neighbors wait for it in their
// second step, from 1 to 10 s, and rank 2 for them in its third one.
TEST(RankSimulation, slowRankDelaysChain) {
  RankPrograms ring = makeRing(4, 0, [](int64_t rank, int64_t step) {
    return rank == 0 && step == 0 ? 10.0 : 1.0;
  });
  RankTimeline timeline = simulateRanks(ring, getHostLinks(1));
  double finish[] = {13, 12, 11, 12};
  for (auto [times, expected] : llvm::zip_equal(timeline.ranks, finish)) {
    EXPECT_DOUBLE_EQ(times.finish, expected);
    EXPECT_DOUBLE_EQ(times.transfer, 0);
  }
  EXPECT_DOUBLE_EQ(timeline.ranks[2].getWaiting(), 11 - 4);
  EXPECT_DOUBLE_EQ(timeline.getCriticalComputation(), 13);
  for (const PathSegment &segment : timeline.criticalPath)
    EXPECT_EQ(segment.rank, 0);
}

// A rank sends to two others at a time: its port serves one after the other.
TEST(RankSimulation, portServesOneMessageAfterAnother) {
  RankPrograms programs(3);
  for (int64_t rank = 0; rank < 3; ++rank)
    programs.addStep(rank, 0);
  programs.addMessage(0, 1, 30);
  programs.addMessage(0, 2, 20);
  RankTimeline timeline =
      simulateRanks(programs, getHostLinks(10, /*latency=*/1));
  EXPECT_DOUBLE_EQ(timeline.ranks[1].finish, 3 + 1);
  EXPECT_DOUBLE_EQ(timeline.ranks[2].finish, 3 + 2 + 1);
  EXPECT_DOUBLE_EQ(timeline.ranks[0].finish, 6);
  ASSERT_EQ(timeline.criticalPath.size(), 2u);
  EXPECT_DOUBLE_EQ(timeline.criticalPath[0].seconds, 3);
  EXPECT_DOUBLE_EQ(timeline.criticalPath[1].seconds, 3);
}

// Two directions of a link do not disturb each other; two messages to one rank
// do.
TEST(RankSimulation, directionsAreIndependent) {
  RankPrograms programs(3);
  for (int64_t rank = 0; rank < 3; ++rank)
    programs.addStep(rank, 0);
  programs.addMessage(0, 1, 10);
  programs.addMessage(1, 0, 10);
  EXPECT_DOUBLE_EQ(simulateRanks(programs, getHostLinks(10)).getSeconds(), 1);
  programs.addMessage(2, 1, 10);
  EXPECT_DOUBLE_EQ(simulateRanks(programs, getHostLinks(10)).getSeconds(), 2);
}

// A message waits until both ranks have begun: rank 1 begins at 4 s.
TEST(RankSimulation, messageWaitsForReceiver) {
  RankPrograms programs(2);
  programs.addStep(1, 4);
  programs.addStep(0, 1);
  programs.addStep(1, 0);
  programs.addMessage(0, 1, 20);
  RankTimeline timeline = simulateRanks(programs, getHostLinks(10));
  EXPECT_DOUBLE_EQ(timeline.ranks[0].finish, 6);
  EXPECT_DOUBLE_EQ(timeline.ranks[0].exposed, 2);
  EXPECT_DOUBLE_EQ(timeline.ranks[0].getWaiting(), 3);
  ASSERT_EQ(timeline.criticalPath.size(), 2u);
  EXPECT_TRUE(timeline.criticalPath[0].isComputation);
  EXPECT_EQ(timeline.criticalPath[0].rank, 1);
  EXPECT_FALSE(timeline.criticalPath[1].isComputation);
  EXPECT_EQ(timeline.criticalPath[1].rank, 0);
}

// All messages of an all-to-all, in one step, take as long as the closed form.
TEST(RankSimulation, allToAllIsClosedForm) {
  for (const RankLinks &links : {getHostLinks(10, 2), getTwoLevelLinks()}) {
    int64_t ranks = 6;
    RankPrograms programs(ranks);
    for (int64_t rank = 0; rank < ranks; ++rank)
      programs.addStep(rank, 0);
    for (int64_t distance = 1; distance < ranks; ++distance)
      for (int64_t rank = 0; rank < ranks; ++rank)
        programs.addMessage(rank, (rank + distance) % ranks, 30);
    EXPECT_DOUBLE_EQ(simulateRanks(programs, links).getSeconds(),
                     getAllToAllSeconds(links, ranks, 30));
  }
  // Five messages of 3 s; four messages of 3 s to other hosts.
  EXPECT_DOUBLE_EQ(getAllToAllSeconds(getHostLinks(10, 2), 6, 30), 2 + 5 * 3);
  EXPECT_DOUBLE_EQ(getAllToAllSeconds(getTwoLevelLinks(), 6, 30), 5 + 4 * 3);
  EXPECT_DOUBLE_EQ(getAllToAllSeconds(getTwoLevelLinks(), 1, 30), 0);
}

// Of four ranks of other hosts, each of two ranks receives two copies.
TEST(RankSimulation, allGatherSharesNetwork) {
  EXPECT_DOUBLE_EQ(getAllGatherSeconds(getHostLinks(10, 2), 6, 30), 2 + 5 * 3);
  EXPECT_DOUBLE_EQ(getAllGatherSeconds(getTwoLevelLinks(), 6, 30), 5 + 2 * 3);
  // Inside of a host, NVLink alone counts.
  EXPECT_DOUBLE_EQ(getAllGatherSeconds(getTwoLevelLinks(), 2, 30), 1 + 0.3);
}

// The ring of neighbors waits for the network wherever it leaves a host.
TEST(RankSimulation, ringAcrossHosts) {
  RankPrograms ring = makeRing(4, 10, [](int64_t, int64_t) { return 0.0; });
  // 5 + 10 / 10 s between hosts, three times.
  EXPECT_DOUBLE_EQ(simulateRanks(ring, getTwoLevelLinks()).getSeconds(), 18);
}

TEST(RankSimulation, collectiveWaitsForAll) {
  RankPrograms programs(3);
  for (int64_t rank = 0; rank < 3; ++rank) {
    programs.addStep(rank, double(rank + 1));
    programs.addStep(rank, 1);
  }
  programs.addCollective({0, 1, 2}, 4);
  RankTimeline timeline = simulateRanks(programs, getHostLinks(1));
  // The last rank begins at 3 s.
  for (const RankTimes &times : timeline.ranks) {
    EXPECT_DOUBLE_EQ(times.finish, 7);
    EXPECT_DOUBLE_EQ(times.transfer, 4);
  }
  // Rank 2 computes while the others' exchange begins, rank 0 has computed.
  EXPECT_DOUBLE_EQ(timeline.ranks[0].exposed, 4);
  EXPECT_DOUBLE_EQ(timeline.ranks[2].exposed, 3);
}

// The critical path of a ring with uneven times fills the whole time.
TEST(RankSimulation, criticalPathIsContiguous) {
  RankPrograms ring = makeRing(16, 40, [](int64_t rank, int64_t step) {
    return double((rank * 7 + step * 5) % 9);
  });
  RankTimeline timeline =
      simulateRanks(ring, getHostLinks(10, /*latency=*/0.5));
  double end = 0;
  for (const PathSegment &segment : timeline.criticalPath) {
    EXPECT_DOUBLE_EQ(segment.begin, end);
    end = segment.begin + segment.seconds;
  }
  EXPECT_DOUBLE_EQ(end, timeline.getSeconds());
  EXPECT_DOUBLE_EQ(getPathSeconds(timeline), timeline.getSeconds());
}

// A million messages: the time is exact, and takes well under a second.
TEST(RankSimulation, manyRanks) {
  auto start = std::chrono::steady_clock::now();
  RankPrograms ring = makeRing(1024, 20, [](int64_t, int64_t) { return 3.0; });
  RankTimeline timeline = simulateRanks(ring, getHostLinks(10));
  std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - start;
  EXPECT_DOUBLE_EQ(timeline.getSeconds(), 3 * 1024);
  // Generous, for busy machines.
  EXPECT_LT(passed.count(), 10);
  RecordProperty("milliseconds", int(passed.count() * 1e3));
}
