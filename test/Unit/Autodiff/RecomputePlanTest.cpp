//===- RecomputePlanTest.cpp - What to save and what to recompute ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares plans with the best of all selections of values to save.
//
//===----------------------------------------------------------------------===//

#include "attn/Autodiff/RecomputePlan.h"
#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// The cost of saving `saved`, a set of values as bits, and computing what else
/// is needed; infinite if that is impossible or exceeds the budget.
double getCost(const RecomputeGraph &graph, unsigned saved,
               std::optional<int64_t> budget) {
  double cost = 0;
  int64_t bytes = 0;
  for (auto [index, value] : llvm::enumerate(graph.values))
    if (saved >> index & 1) {
      cost += value.saveCost;
      bytes += value.bytes;
    }
  if (budget && bytes > *budget)
    return RecomputeGraph::never;
  llvm::BitVector recomputed(graph.ops.size());
  SmallVector<unsigned> work(graph.needed);
  while (!work.empty()) {
    unsigned value = work.pop_back_val();
    std::optional<unsigned> op = graph.values[value].op;
    if ((saved >> value & 1) || !op || recomputed[*op])
      continue;
    recomputed.set(*op);
    cost += graph.ops[*op].cost;
    llvm::append_range(work, graph.ops[*op].inputs);
  }
  return cost;
}

/// The least cost of all selections.
double getLeastCost(const RecomputeGraph &graph,
                    std::optional<int64_t> budget) {
  double least = RecomputeGraph::never;
  for (unsigned saved = 0; saved < 1u << graph.values.size(); ++saved)
    least = std::min(least, getCost(graph, saved, budget));
  return least;
}

unsigned getSavedBits(const RecomputePlan &plan) {
  unsigned saved = 0;
  for (unsigned index : plan.saved.set_bits())
    saved |= 1u << index;
  return saved;
}

/// A random graph of up to ten values, of which the first is available.
RecomputeGraph makeGraph(std::mt19937 &random) {
  auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  RecomputeGraph graph;
  graph.values.push_back({std::nullopt, 0, 0});
  unsigned numValues = pick(2, 10);
  while (graph.values.size() < numValues) {
    RecomputeGraph::Op op;
    op.cost = pick(0, 9) == 0 ? RecomputeGraph::never : pick(0, 20);
    for (int i = 0, e = pick(1, 3); i < e; ++i)
      op.inputs.push_back(pick(0, graph.values.size() - 1));
    graph.ops.push_back(op);
    for (int i = 0, e = pick(1, 2); i < e && graph.values.size() < numValues;
         ++i) {
      double save = pick(0, 9) == 0 ? RecomputeGraph::never : pick(0, 15);
      graph.values.push_back({graph.ops.size() - 1, save, pick(1, 30)});
    }
  }
  for (int i = 0, e = pick(1, 4); i < e; ++i)
    graph.needed.push_back(pick(0, numValues - 1));
  return graph;
}

TEST(RecomputePlanTest, AgreesWithAllSelections) {
  std::mt19937 random(0);
  unsigned numBlockMasks = 0;
  for (unsigned round = 0; round < 600; ++round) {
    RecomputeGraph graph = makeGraph(random);
    for (std::optional<int64_t> budget :
         {std::optional<int64_t>(), std::optional<int64_t>(0),
          std::optional<int64_t>(25), std::optional<int64_t>(60)}) {
      double least = getLeastCost(graph, budget);
      std::optional<RecomputePlan> plan = planRecompute(graph, budget);
      ASSERT_EQ(plan.has_value(), least != RecomputeGraph::never)
          << "round " << round;
      if (!plan)
        continue;
      ++numBlockMasks;
      EXPECT_DOUBLE_EQ(plan->cost, least) << "round " << round;
      EXPECT_DOUBLE_EQ(plan->bound, least) << "round " << round;
      EXPECT_DOUBLE_EQ(getCost(graph, getSavedBits(*plan), budget), least)
          << "round " << round;
    }
  }
  EXPECT_GT(numBlockMasks, 1000u);
}

/// The fewest bytes that a plan saves, whatever it costs.
TEST(RecomputePlanTest, FindsTheFewestBytes) {
  std::mt19937 random(1);
  unsigned numSaving = 0;
  for (unsigned round = 0; round < 600; ++round) {
    RecomputeGraph graph = makeGraph(random);
    std::optional<RecomputePlan> plan = planLeastSaved(graph);
    std::optional<int64_t> least;
    for (unsigned saved = 0; saved < 1u << graph.values.size(); ++saved) {
      int64_t bytes = 0;
      for (auto [index, value] : llvm::enumerate(graph.values))
        bytes += saved >> index & 1 ? value.bytes : 0;
      if ((!least || bytes < *least) &&
          getCost(graph, saved, std::nullopt) != RecomputeGraph::never)
        least = bytes;
    }
    ASSERT_EQ(plan.has_value(), least.has_value()) << "round " << round;
    if (!plan)
      continue;
    EXPECT_EQ(plan->bytes, *least) << "round " << round;
    EXPECT_EQ(getCost(graph, getSavedBits(*plan), *least), plan->cost)
        << "round " << round;
    numSaving += *least > 0;
    // A budget of one byte less has no plan.
    EXPECT_TRUE(planRecompute(graph, *least)) << "round " << round;
    if (*least > 0)
      EXPECT_FALSE(planRecompute(graph, *least - 1)) << "round " << round;
  }
  EXPECT_GT(numSaving, 50u);
}

/// Layers as of a network: each of `width` values is computed from one or two
/// of the layer before, the last one from the first one of the layer as well.
/// Costs and sizes are as of kernels, in seconds and bytes; all layers are
/// alike unless `random` makes them.
RecomputeGraph makeLayers(unsigned layers, unsigned width,
                          std::mt19937 *random) {
  RecomputeGraph graph;
  graph.values.push_back({std::nullopt, 0, 0});
  auto pick = [&](double low, double high, unsigned place) {
    double share = random ? std::uniform_real_distribution<>()(*random)
                          : double(place * 7 % 11) / 11;
    return low * std::pow(high / low, share);
  };
  for (unsigned layer = 0; layer < layers; ++layer) {
    unsigned first = graph.values.size() - 1;
    for (unsigned i = 0; i < width; ++i) {
      unsigned last = graph.values.size() - 1;
      RecomputeGraph::Op op{pick(3e-6, 3e-4, i), {last}};
      if (i + 1 == width)
        op.inputs.push_back(first);
      else if (i % 3 == 2)
        op.inputs.push_back(last - 1);
      graph.ops.push_back(op);
      double bytes = std::floor(pick(1e4, 1e8, 3 * i + 1));
      graph.values.push_back(
          {graph.ops.size() - 1, bytes / 2e12, int64_t(bytes)});
      if (i % 4 != 1)
        graph.needed.push_back(graph.values.size() - 1);
    }
  }
  return graph;
}

TEST(RecomputePlanTest, AgreesWithAllSelectionsOfLayers) {
  std::mt19937 random(3);
  unsigned numLimited = 0;
  for (unsigned round = 0; round < 24; ++round) {
    RecomputeGraph graph = makeLayers(/*layers=*/1 + round % 3,
                                      /*width=*/12 / (1 + round % 3), &random);
    int64_t all = 0;
    for (const RecomputeGraph::Value &value : graph.values)
      all += value.bytes;
    double unlimited = planRecompute(graph)->cost;
    for (int64_t budget : {all / 20, all / 8, all / 4, all / 2}) {
      double least = getLeastCost(graph, budget);
      std::optional<RecomputePlan> plan = planRecompute(graph, budget);
      ASSERT_TRUE(plan);
      EXPECT_NEAR(plan->cost, least, 1e-9 * least) << "round " << round;
      EXPECT_NEAR(plan->bound, least, 1e-9 * least) << "round " << round;
      EXPECT_LE(plan->bytes, budget);
      numLimited += least > unlimited * 1.001;
    }
  }
  EXPECT_GT(numLimited, 40u);
}

/// The search ends, and its block mask is close to the bound.
TEST(RecomputePlanTest, PlansManyEqualLayers) {
  RecomputeGraph graph = makeLayers(/*layers=*/48, /*width=*/30, nullptr);
  int64_t all = 0;
  for (const RecomputeGraph::Value &value : graph.values)
    all += value.bytes;
  unsigned numOpen = 0;
  for (int64_t budget : {all / 50, all / 20, all / 8, all / 3}) {
    std::optional<RecomputePlan> plan =
        planRecompute(graph, budget, /*maxWork=*/20'000'000);
    ASSERT_TRUE(plan);
    EXPECT_LE(plan->bytes, budget);
    EXPECT_LE(plan->bound, plan->cost);
    EXPECT_GE(plan->bound, 0.98 * plan->cost) << budget;
    EXPECT_GE(plan->bound, planRecompute(graph)->cost);
    numOpen += plan->bound < plan->cost;
  }
  EXPECT_GT(numOpen, 0u);
}

/// What is known of plans where the search gives up early.
TEST(RecomputePlanTest, BoundsPlansOfAnUnfinishedSearch) {
  std::mt19937 random(2);
  unsigned numOpen = 0;
  for (unsigned round = 0; round < 600; ++round) {
    RecomputeGraph graph = makeGraph(random);
    for (int64_t budget : {10, 25, 60}) {
      double least = getLeastCost(graph, budget);
      std::optional<RecomputePlan> plan =
          planRecompute(graph, budget, /*maxWork=*/1);
      ASSERT_EQ(plan.has_value(), least != RecomputeGraph::never)
          << "round " << round;
      if (!plan)
        continue;
      EXPECT_LE(plan->bound, least) << "round " << round;
      EXPECT_GE(plan->cost, least) << "round " << round;
      EXPECT_LE(plan->bytes, budget) << "round " << round;
      EXPECT_DOUBLE_EQ(getCost(graph, getSavedBits(*plan), budget), plan->cost)
          << "round " << round;
      numOpen += plan->bound < plan->cost;
    }
  }
  EXPECT_GT(numOpen, 20u);
}

/// A chain of three: the last is needed.
RecomputeGraph makeChain(double save) {
  RecomputeGraph graph;
  graph.values.push_back({std::nullopt, 0, 0});
  for (unsigned i = 0; i < 3; ++i) {
    graph.ops.push_back({/*cost=*/10, {i}});
    graph.values.push_back({i, save, /*bytes=*/100});
  }
  graph.needed = {3};
  return graph;
}

TEST(RecomputePlanTest, SavesWhatIsDearToCompute) {
  std::optional<RecomputePlan> plan = planRecompute(makeChain(/*save=*/5));
  ASSERT_TRUE(plan);
  EXPECT_EQ(getSavedBits(*plan), 1u << 3);
  EXPECT_TRUE(plan->recomputed.none());
  EXPECT_EQ(plan->bytes, 100);
}

TEST(RecomputePlanTest, RecomputesWhatIsDearToSave) {
  std::optional<RecomputePlan> plan = planRecompute(makeChain(/*save=*/31));
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->saved.none());
  EXPECT_EQ(plan->recomputed.count(), 3u);
}

TEST(RecomputePlanTest, KeepsToTheBudget) {
  std::optional<RecomputePlan> plan =
      planRecompute(makeChain(/*save=*/5), /*budget=*/99);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->saved.none());
  EXPECT_EQ(plan->cost, 30);
}

TEST(RecomputePlanTest, HasNoPlanForWhatCannotBeDone) {
  RecomputeGraph graph = makeChain(/*save=*/RecomputeGraph::never);
  graph.ops[0].cost = RecomputeGraph::never;
  EXPECT_FALSE(planRecompute(graph));
}
} // namespace
