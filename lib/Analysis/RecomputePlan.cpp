//===- RecomputePlan.cpp - What to save and what to recompute -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each value that must be there is either saved or made by an operation that
// runs again, all inputs of which must then be there. As a cut between source
// and sink: "the value must be there" -> "its operation runs again" is an edge
// of the cost of saving, "the operation runs again" -> sink one of the cost of
// running it, and "it runs again" -> "its input must be there" cannot be cut.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/RecomputePlan.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <vector>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Maximum flow by shortest augmenting paths.
class FlowNetwork {
public:
  explicit FlowNetwork(unsigned numNodes) : edgesOf(numNodes) {}

  void addEdge(unsigned from, unsigned to, double capacity) {
    edgesOf[from].push_back(edges.size());
    edges.push_back({to, capacity});
    edgesOf[to].push_back(edges.size());
    edges.push_back({from, 0});
  }

  /// Returns the nodes on the side of `source` of a minimum cut, or nothing if
  /// each cut has an edge of infinite capacity.
  std::optional<llvm::BitVector> cut(unsigned source, unsigned sink) {
    while (true) {
      SmallVector<int> edgeTo(edgesOf.size(), -1);
      llvm::BitVector reached(edgesOf.size());
      reached.set(source);
      std::queue<unsigned> queue;
      queue.push(source);
      while (!queue.empty() && !reached[sink]) {
        unsigned node = queue.front();
        queue.pop();
        for (unsigned edge : edgesOf[node]) {
          if (edges[edge].capacity <= 0 || reached[edges[edge].to])
            continue;
          reached.set(edges[edge].to);
          edgeTo[edges[edge].to] = edge;
          queue.push(edges[edge].to);
        }
      }
      if (!reached[sink])
        return reached;
      double flow = RecomputeGraph::never;
      for (unsigned node = sink; node != source;
           node = edges[edgeTo[node] ^ 1].to)
        flow = std::min(flow, edges[edgeTo[node]].capacity);
      if (flow == RecomputeGraph::never)
        return std::nullopt;
      for (unsigned node = sink; node != source;
           node = edges[edgeTo[node] ^ 1].to) {
        edges[edgeTo[node]].capacity -= flow;
        edges[edgeTo[node] ^ 1].capacity += flow;
      }
    }
  }

private:
  struct Edge {
    unsigned to;
    double capacity;
  };
  std::vector<Edge> edges;
  std::vector<SmallVector<unsigned, 4>> edgesOf;
};

/// What a branch of the search has decided of a value.
enum class Decision { Open, Save, Recompute };

/// Searches for the best plan within a budget.
class Planner {
public:
  Planner(const RecomputeGraph &graph, std::optional<int64_t> budget,
          unsigned maxNodes)
      : graph(graph), budget(budget), nodesLeft(maxNodes),
        decisions(graph.values.size(), Decision::Open) {}

  std::optional<RecomputePlan> run() {
    search();
    return best;
  }

private:
  /// The best plan under the decisions where a byte costs `price`.
  std::optional<RecomputePlan> solve(double price);
  void search();

  const RecomputeGraph &graph;
  std::optional<int64_t> budget;
  unsigned nodesLeft;
  SmallVector<Decision> decisions;
  std::optional<RecomputePlan> best;
};
} // namespace

std::optional<RecomputePlan> Planner::solve(double price) {
  unsigned numValues = graph.values.size(), numOps = graph.ops.size();
  unsigned source = numValues + numOps, sink = source + 1;
  FlowNetwork network(sink + 1);
  for (auto [index, value] : llvm::enumerate(graph.values)) {
    // A decision to save is paid for below.
    if (!value.op || decisions[index] == Decision::Save)
      continue;
    double cost = decisions[index] == Decision::Recompute
                      ? RecomputeGraph::never
                      : value.saveCost + price * value.bytes;
    network.addEdge(index, numValues + *value.op, cost);
  }
  for (auto [index, op] : llvm::enumerate(graph.ops)) {
    network.addEdge(numValues + index, sink, op.cost);
    for (unsigned input : op.inputs)
      network.addEdge(numValues + index, input, RecomputeGraph::never);
  }
  for (unsigned value : graph.needed)
    network.addEdge(source, value, RecomputeGraph::never);
  std::optional<llvm::BitVector> side = network.cut(source, sink);
  if (!side)
    return std::nullopt;

  RecomputePlan plan;
  plan.saved.resize(numValues);
  plan.recomputed.resize(numOps);
  for (unsigned op = 0; op < numOps; ++op) {
    if (!(*side)[numValues + op])
      continue;
    plan.recomputed.set(op);
    plan.cost += graph.ops[op].cost;
  }
  for (auto [index, value] : llvm::enumerate(graph.values)) {
    bool isSaved = decisions[index] == Decision::Save ||
                   (value.op && (*side)[index] && !plan.recomputed[*value.op]);
    if (!isSaved)
      continue;
    plan.saved.set(index);
    plan.cost += value.saveCost;
    plan.bytes += value.bytes;
  }
  return plan;
}

void Planner::search() {
  std::optional<RecomputePlan> plan = solve(0);
  if (!plan || (best && plan->cost >= best->cost))
    return;
  if (!budget || plan->bytes <= *budget) {
    best = plan;
    return;
  }
  if (nodesLeft == 0)
    return;
  --nodesLeft;

  // Each price of a byte bounds the cost of all plans within the budget, and
  // may yield one.
  double bound = plan->cost;
  auto tryPrice = [&](double price) -> bool {
    std::optional<RecomputePlan> priced = solve(price);
    if (!priced)
      return true;
    bound =
        std::max(bound, priced->cost + price * double(priced->bytes - *budget));
    bool fits = priced->bytes <= *budget;
    if (fits && (!best || priced->cost < best->cost))
      best = priced;
    return fits;
  };
  double total = 0;
  for (const RecomputeGraph::Op &op : graph.ops)
    if (op.cost != RecomputeGraph::never)
      total += op.cost;
  double low = 0, high = total + 1;
  tryPrice(high);
  for (unsigned step = 0; step < 40; ++step) {
    double middle = low == 0 ? high / 1024 : std::sqrt(low * high);
    (tryPrice(middle) ? high : low) = middle;
    if (high <= low * 1.001)
      break;
  }
  if (best && bound >= best->cost * (1 - 1e-12))
    return;

  // Branch on the largest value that is saved and not decided.
  int chosen = -1;
  for (unsigned index : plan->saved.set_bits())
    if (decisions[index] == Decision::Open &&
        (chosen < 0 || graph.values[index].bytes > graph.values[chosen].bytes))
      chosen = index;
  if (chosen < 0)
    return;
  for (Decision decision : {Decision::Recompute, Decision::Save}) {
    decisions[chosen] = decision;
    search();
  }
  decisions[chosen] = Decision::Open;
}

std::optional<RecomputePlan> attn::planRecompute(const RecomputeGraph &graph,
                                                 std::optional<int64_t> budget,
                                                 unsigned maxNodes) {
  return Planner(graph, budget, maxNodes).run();
}
