//===- RecomputePlan.cpp - Choice of values to save and to recompute ------===//
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
// A budget of bytes gets a price. The least cut where each byte costs the price
// more, less the price of the budget, is no dearer than any plan within the
// budget. This bound is greatest at the price where the cuts change from more
// bytes than the budget to fewer. The search branches on a value that only one
// of these two cuts saves.
//
//===----------------------------------------------------------------------===//

#include "attn/Autodiff/RecomputePlan.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <vector>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Costs and prices are integers, so that cuts are exact: a cost has
/// `priceBits` binary places for prices of a byte below one unit.
__extension__ using Amount = __int128;
constexpr unsigned costBits = 40, priceBits = 24;
constexpr Amount unlimited = Amount(1) << 120;

/// Maximum flow by blocking flows (Dinic 1970). Capacities may grow in between.
class FlowNetwork {
public:
  FlowNetwork(unsigned numNodes, uint64_t &work)
      : firstEdge(numNodes, -1), work(&work) {}

  /// Returns the number of the edge.
  unsigned addEdge(unsigned from, unsigned to, Amount capacity) {
    unsigned number = edges.size();
    edges.push_back({to, firstEdge[from], capacity});
    firstEdge[from] = int(number);
    edges.push_back({from, firstEdge[to], 0});
    firstEdge[to] = int(number + 1);
    return number;
  }

  void growCapacity(unsigned edge, Amount amount) {
    edges[edge].capacity += amount;
  }

  /// Returns the nodes on the side of `source` of a minimum cut, or nothing if
  /// each cut has an edge of unlimited capacity.
  std::optional<llvm::BitVector> cut(unsigned source, unsigned sink) {
    while (findLevels(source, sink))
      if (!addBlockingFlow(source, sink))
        return std::nullopt;
    llvm::BitVector side(firstEdge.size());
    for (auto [node, level] : llvm::enumerate(levels))
      if (level >= 0)
        side.set(node);
    return side;
  }

private:
  struct Edge {
    unsigned to;
    /// The next edge from the same node, or -1.
    int next;
    Amount capacity;
  };

  /// Numbers the nodes by their distance. Returns whether `sink` is reached.
  bool findLevels(unsigned source, unsigned sink) {
    levels.assign(firstEdge.size(), -1);
    levels[source] = 0;
    queue.assign(1, source);
    for (unsigned i = 0; i < queue.size(); ++i)
      for (int e = firstEdge[queue[i]]; e >= 0; e = edges[e].next) {
        ++*work;
        if (edges[e].capacity == 0 || levels[edges[e].to] >= 0)
          continue;
        levels[edges[e].to] = levels[queue[i]] + 1;
        queue.push_back(edges[e].to);
      }
    return levels[sink] >= 0;
  }

  /// Fills all shortest paths. Returns whether all of them have a limit.
  bool addBlockingFlow(unsigned source, unsigned sink) {
    current = firstEdge;
    path.clear();
    unsigned node = source;
    while (true) {
      if (node == sink) {
        std::optional<unsigned> next = fillPath();
        if (!next)
          return false;
        node = *next;
        continue;
      }
      if (int e = findEdge(node); e >= 0) {
        path.push_back(e);
        node = edges[e].to;
        continue;
      }
      if (path.empty())
        return true;
      levels[node] = -1;
      node = edges[path.pop_back_val() ^ 1].to;
    }
  }

  /// Adds the flow that `path` has room for, and shortens the path to the edges
  /// before the first full one. Returns the node where it ends then, or nothing
  /// if the path has no limit.
  std::optional<unsigned> fillPath() {
    Amount flow = unlimited;
    for (int e : path)
      flow = std::min(flow, edges[e].capacity);
    if (flow >= unlimited / 2)
      return std::nullopt;
    unsigned firstFull = path.size();
    for (auto [index, e] : llvm::enumerate(path)) {
      ++*work;
      if (edges[e].capacity < unlimited / 2)
        edges[e].capacity -= flow;
      if (edges[e ^ 1].capacity < unlimited / 2)
        edges[e ^ 1].capacity += flow;
      if (edges[e].capacity == 0)
        firstFull = std::min<unsigned>(firstFull, index);
    }
    path.resize(firstFull + 1);
    return edges[path.pop_back_val() ^ 1].to;
  }

  /// The next edge from `node` that has room and leads to the next level, or
  /// -1.
  int findEdge(unsigned node) {
    int &e = current[node];
    while (e >= 0 && (edges[e].capacity == 0 ||
                      levels[edges[e].to] != levels[node] + 1)) {
      ++*work;
      e = edges[e].next;
    }
    return e;
  }

  std::vector<Edge> edges;
  std::vector<int> firstEdge, current, levels;
  std::vector<unsigned> queue;
  SmallVector<int> path;
  uint64_t *work;
};

/// The state of a value in a branch of the search.
enum class Choice { Open, Save, Recompute };

/// A plan, with its cost in units.
struct Cut {
  llvm::BitVector saved;
  llvm::BitVector recomputed;
  Amount cost = 0;
  int64_t bytes = 0;
};

class Branch;

/// Searches for the best plan within a budget.
class Planner {
public:
  Planner(const RecomputeGraph &graph, std::optional<int64_t> budget,
          uint64_t maxWork);

  std::optional<RecomputePlan> run();
  std::optional<RecomputePlan> runLeastSaved();

private:
  friend class Branch;

  /// Returns a lower bound of the cost of the branch's plans. `price` is where
  /// the search for the best price starts.
  Amount search(Amount price, Amount lowerBound);
  /// Finds a cut of more bytes than the budget, and one within it. Returns a
  /// bound of the branch's plans instead, if that ends the search.
  std::optional<Amount> findFirstCuts(Branch &branch, Amount price,
                                      Amount &lowerBound, Cut &over,
                                      Cut &under);
  /// The price at which both cuts cost the same is the best one, or there is a
  /// cut that costs less there. Returns false if no plan of the branch can be
  /// better than the best one so far.
  bool findBestPrice(Branch &branch, Amount &price, Amount &lowerBound,
                     Cut &over, Cut &under);
  /// Bounds the cost of the branch's plans by the cost of a cut. Returns
  /// whether none of them can be better than the best one so far.
  bool isDearer(const Cut &cut, Amount price, Amount &lowerBound) const;
  RecomputePlan getPlan(const Cut &cut, Amount bound);
  void offer(const Cut &cut) {
    if (cut.bytes <= *budget && (!best || cut.cost < best->cost))
      best = cut;
  }
  /// Costs are whole units.
  static Amount roundUp(Amount cost) {
    Amount unit = Amount(1) << priceBits;
    return (cost + unit - 1) / unit * unit;
  }
  Amount toUnits(double cost) const {
    return cost == RecomputeGraph::never
               ? unlimited
               : Amount(std::llround(std::ldexp(cost, scale))) << priceBits;
  }

  const RecomputeGraph &graph;
  std::optional<int64_t> budget;
  uint64_t maxWork, work = 0;
  int scale = 0;
  SmallVector<Amount> opCosts, saveCosts;
  /// Values that may be needed and are not free, and operations that make them.
  llvm::BitVector relevantValues, relevantOps;
  SmallVector<Choice> choices;
  int64_t decidedBytes = 0;
  std::optional<Cut> best;
};

/// The cuts of one branch of the search.
class Branch {
public:
  explicit Branch(Planner &planner) : planner(planner), base(build()) {}

  /// The cheapest plan where a byte costs `price`.
  std::optional<Cut> solve(Amount price) {
    // Flows for a lower price stay flows.
    if (!last || lastPrice > price)
      reset();
    for (auto [value, edge] : saveEdges)
      last->growCapacity(edge, (price - lastPrice) *
                                   planner.graph.values[value].bytes);
    lastPrice = price;
    std::optional<llvm::BitVector> side = last->cut(source, sink);
    return side ? std::optional<Cut>(getCut(*side)) : std::nullopt;
  }

  /// A plan of the fewest bytes.
  std::optional<Cut> solveLeastSaved() {
    FlowNetwork network = build(/*ofBytes=*/true);
    std::optional<llvm::BitVector> side = network.cut(source, sink);
    return side ? std::optional<Cut>(getCut(*side)) : std::nullopt;
  }

private:
  void reset() {
    last = base;
    lastPrice = 0;
  }

  FlowNetwork build(bool ofBytes = false) {
    const RecomputeGraph &graph = planner.graph;
    unsigned numValues = graph.values.size();
    source = numValues + graph.ops.size();
    sink = source + 1;
    FlowNetwork network(sink + 1, planner.work);
    saveEdges.clear();
    for (unsigned index : planner.relevantValues.set_bits()) {
      // The final plan adds the cost of a value that the branch saves.
      Choice choice = planner.choices[index];
      if (choice == Choice::Save)
        continue;
      const RecomputeGraph::Value &value = graph.values[index];
      bool canSave =
          choice == Choice::Open && planner.saveCosts[index] < unlimited;
      Amount cost = ofBytes ? Amount(value.bytes) : planner.saveCosts[index];
      unsigned edge = network.addEdge(index, numValues + *value.op,
                                      canSave ? cost : unlimited);
      if (canSave)
        saveEdges.push_back({index, edge});
    }
    for (unsigned index : planner.relevantOps.set_bits()) {
      Amount cost = planner.opCosts[index];
      if (ofBytes && cost < unlimited)
        cost = 0;
      if (cost > 0)
        network.addEdge(numValues + index, sink, cost);
      for (unsigned input : graph.ops[index].inputs)
        if (planner.relevantValues[input])
          network.addEdge(numValues + index, input, unlimited);
    }
    for (unsigned value : graph.needed)
      if (planner.relevantValues[value])
        network.addEdge(source, value, unlimited);
    return network;
  }

  Cut getCut(const llvm::BitVector &side) {
    const RecomputeGraph &graph = planner.graph;
    unsigned numValues = graph.values.size();
    Cut cut;
    cut.saved.resize(numValues);
    cut.recomputed.resize(graph.ops.size());
    for (unsigned op : planner.relevantOps.set_bits())
      if (side[numValues + op]) {
        cut.recomputed.set(op);
        cut.cost += planner.opCosts[op];
      }
    for (unsigned index : planner.relevantValues.set_bits()) {
      const RecomputeGraph::Value &value = graph.values[index];
      if (planner.choices[index] != Choice::Save &&
          (!side[index] || cut.recomputed[*value.op]))
        continue;
      cut.saved.set(index);
      cut.cost += planner.saveCosts[index];
      cut.bytes += value.bytes;
    }
    return cut;
  }

  Planner &planner;
  unsigned source, sink;
  /// Values that may be saved, with the edges that say so.
  SmallVector<std::pair<unsigned, unsigned>> saveEdges;
  FlowNetwork base;
  std::optional<FlowNetwork> last;
  Amount lastPrice = 0;
};
} // namespace

Planner::Planner(const RecomputeGraph &graph, std::optional<int64_t> budget,
                 uint64_t maxWork)
    : graph(graph), budget(budget), maxWork(maxWork),
      relevantValues(graph.values.size()), relevantOps(graph.ops.size()),
      choices(graph.values.size(), Choice::Open) {
  double total = 0;
  auto add = [&](double cost) {
    if (cost != RecomputeGraph::never)
      total += cost;
  };
  for (const RecomputeGraph::Op &op : graph.ops)
    add(op.cost);
  for (const RecomputeGraph::Value &value : graph.values)
    add(value.saveCost);
  if (total > 0)
    scale = int(costBits) - std::ilogb(total) - 1;
  for (const RecomputeGraph::Op &op : graph.ops)
    opCosts.push_back(toUnits(op.cost));
  for (const RecomputeGraph::Value &value : graph.values)
    saveCosts.push_back(toUnits(value.saveCost));

  // Values without an operation, and free operations on free values, need no
  // choice.
  llvm::BitVector comesForNothing(graph.values.size());
  for (auto [index, value] : llvm::enumerate(graph.values))
    if (!value.op ||
        (opCosts[*value.op] == 0 &&
         llvm::all_of(graph.ops[*value.op].inputs,
                      [&](unsigned input) { return comesForNothing[input]; })))
      comesForNothing.set(index);
  SmallVector<unsigned> list(graph.needed);
  while (!list.empty()) {
    unsigned value = list.pop_back_val();
    if (comesForNothing[value] || relevantValues[value])
      continue;
    relevantValues.set(value);
    unsigned op = *graph.values[value].op;
    if (relevantOps[op])
      continue;
    relevantOps.set(op);
    llvm::append_range(list, graph.ops[op].inputs);
  }
}

RecomputePlan Planner::getPlan(const Cut &cut, Amount bound) {
  RecomputePlan plan;
  plan.saved = cut.saved;
  plan.recomputed = cut.recomputed;
  plan.bytes = cut.bytes;
  for (unsigned op : plan.recomputed.set_bits())
    plan.cost += graph.ops[op].cost;
  for (unsigned value : plan.saved.set_bits())
    plan.cost += graph.values[value].saveCost;
  plan.bound = plan.cost;
  if (bound < cut.cost)
    plan.bound -= std::ldexp(double(cut.cost - bound), -scale - int(priceBits));
  // Free values are computed again where they are used.
  SmallVector<unsigned> list(graph.needed);
  llvm::BitVector seen(graph.values.size());
  while (!list.empty()) {
    unsigned value = list.pop_back_val();
    std::optional<unsigned> op = graph.values[value].op;
    if (seen[value] || plan.saved[value] || !op)
      continue;
    seen.set(value);
    plan.recomputed.set(*op);
    llvm::append_range(list, graph.ops[*op].inputs);
  }
  return plan;
}

std::optional<RecomputePlan> Planner::run() {
  std::optional<Cut> cheapest = Branch(*this).solve(0);
  if (!cheapest)
    return std::nullopt;
  if (!budget || cheapest->bytes <= *budget)
    return getPlan(*cheapest, cheapest->cost);
  Amount bound = search(/*price=*/0, cheapest->cost);
  if (!best)
    return std::nullopt;
  return getPlan(*best, bound);
}

std::optional<RecomputePlan> Planner::runLeastSaved() {
  std::optional<Cut> cut = Branch(*this).solveLeastSaved();
  return cut ? std::optional<RecomputePlan>(getPlan(*cut, cut->cost))
             : std::nullopt;
}

bool Planner::isDearer(const Cut &cut, Amount price, Amount &lowerBound) const {
  Amount bound = cut.cost + price * (cut.bytes - *budget);
  lowerBound = std::max(lowerBound, roundUp(bound));
  return best && lowerBound >= best->cost;
}

std::optional<Amount> Planner::findFirstCuts(Branch &branch, Amount price,
                                             Amount &lowerBound, Cut &over,
                                             Cut &under) {
  std::optional<Cut> cut = branch.solve(price);
  if (!cut)
    return unlimited;
  offer(*cut);
  if (isDearer(*cut, price, lowerBound))
    return lowerBound;
  if (cut->bytes > *budget) {
    over = *cut;
    under = *branch.solveLeastSaved();
    if (under.bytes > *budget)
      return unlimited;
    offer(under);
    return std::nullopt;
  }
  under = *cut;
  over = *branch.solve(0);
  offer(over);
  if (isDearer(over, 0, lowerBound) || over.bytes <= *budget)
    return lowerBound;
  return std::nullopt;
}

bool Planner::findBestPrice(Branch &branch, Amount &price, Amount &lowerBound,
                            Cut &over, Cut &under) {
  while (work < maxWork) {
    Amount next = std::max<Amount>(under.cost - over.cost, 0) /
                  (over.bytes - under.bytes);
    if (next == price)
      break;
    price = next;
    std::optional<Cut> cut = branch.solve(price);
    offer(*cut);
    if (isDearer(*cut, price, lowerBound))
      return false;
    if (cut->cost + price * cut->bytes >= over.cost + price * over.bytes)
      break;
    (cut->bytes > *budget ? over : under) = *cut;
  }
  return true;
}

Amount Planner::search(Amount price, Amount lowerBound) {
  Cut over, under;
  {
    Branch branch(*this);
    if (std::optional<Amount> bound =
            findFirstCuts(branch, price, lowerBound, over, under))
      return *bound;
    if (!findBestPrice(branch, price, lowerBound, over, under))
      return lowerBound;
  }

  // Branch on the largest value that only one of the cuts saves.
  int chosen = -1;
  for (unsigned index : over.saved.set_bits())
    if (!under.saved[index] &&
        (chosen < 0 || graph.values[index].bytes > graph.values[chosen].bytes))
      chosen = int(index);
  Amount least = unlimited;
  int64_t bytes = graph.values[chosen].bytes;
  for (Choice choice : {Choice::Save, Choice::Recompute}) {
    int64_t more = choice == Choice::Save ? bytes : 0;
    if (decidedBytes + more > *budget)
      continue;
    if (work >= maxWork)
      return lowerBound;
    choices[chosen] = choice;
    decidedBytes += more;
    least = std::min(least, search(price, lowerBound));
    decidedBytes -= more;
    choices[chosen] = Choice::Open;
  }
  return std::max(lowerBound, least);
}

std::optional<RecomputePlan> attn::planRecompute(const RecomputeGraph &graph,
                                                 std::optional<int64_t> budget,
                                                 uint64_t maxWork) {
  return Planner(graph, budget, maxWork).run();
}

std::optional<RecomputePlan> attn::planLeastSaved(const RecomputeGraph &graph) {
  return Planner(graph, std::nullopt, /*maxWork=*/0).runLeastSaved();
}
