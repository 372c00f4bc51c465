//===- RecomputePlan.h - What to save and what to recompute --*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The choice between saving and recomputing values, on a graph without IR.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_AUTODIFF_RECOMPUTEPLAN_H
#define ATTN_AUTODIFF_RECOMPUTEPLAN_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallVector.h"

#include <limits>
#include <optional>

namespace mlir::attn {

/// Operations, in order, and the values that they compute from others. Costs
/// are times in any unit; impossible choices cost infinity.
struct RecomputeGraph {
  static constexpr double never = std::numeric_limits<double>::infinity();

  struct Op {
    /// The cost of recomputing all results.
    double cost;
    /// The values that the operation uses.
    SmallVector<unsigned, 4> inputs;
  };
  struct Value {
    /// The operation that computes the value; none if it is available anyway.
    std::optional<unsigned> op;
    double saveCost = 0;
    int64_t bytes = 0;
  };

  SmallVector<Op> ops;
  SmallVector<Value> values;
  /// Values that must be available in the end.
  SmallVector<unsigned> needed;
};

/// Values to save and operations to run again.
struct RecomputePlan {
  llvm::BitVector saved;
  llvm::BitVector recomputed;
  double cost = 0;
  int64_t bytes = 0;
  /// No plan within the budget costs less; `cost` if the plan is known to be
  /// the best one.
  double bound = 0;
};

/// The plan of the least cost that saves at most `budget` bytes, if there is a
/// plan. Without a budget it is found as a minimum cut. With a budget it is
/// found by branch and bound. The bound of a branch is the Lagrangian
/// relaxation: a minimum cut with the price of a byte at which cuts cross the
/// budget. After about `maxWork` visits of edges the search stops and returns
/// the best plan so far, with the lower bound of the open branches. Costs are
/// rounded to 2^-40 of their sum.
std::optional<RecomputePlan>
planRecompute(const RecomputeGraph &graph,
              std::optional<int64_t> budget = std::nullopt,
              uint64_t maxWork = 400'000'000);

/// The plan that saves the fewest bytes, at whatever cost, if there is a plan.
std::optional<RecomputePlan> planLeastSaved(const RecomputeGraph &graph);

} // namespace mlir::attn

#endif // ATTN_AUTODIFF_RECOMPUTEPLAN_H
