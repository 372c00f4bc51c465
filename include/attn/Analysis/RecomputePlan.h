//===- RecomputePlan.h - What to save and what to recompute --*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The choice between saving values and computing them again, on a graph without
// IR.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_RECOMPUTEPLAN_H
#define ATTN_ANALYSIS_RECOMPUTEPLAN_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallVector.h"

#include <limits>
#include <optional>

namespace mlir::attn {

/// Operations, in order, and the values that they compute from others. Costs
/// are times in any unit; what cannot be done costs infinity.
struct RecomputeGraph {
  static constexpr double never = std::numeric_limits<double>::infinity();

  struct Op {
    /// What it costs to compute all results again.
    double cost;
    /// Values that are used.
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
  /// Values that must be there in the end.
  SmallVector<unsigned> needed;
};

/// Values to save and operations to run again.
struct RecomputePlan {
  llvm::BitVector saved;
  llvm::BitVector recomputed;
  double cost = 0;
  int64_t bytes = 0;
};

/// The plan of the least cost that saves at most `budget` bytes, if there is a
/// plan. Without a budget it is found as a minimum cut. With one, cuts for
/// prices of a byte bound the cost of branches of a search that is exact but
/// for graphs on which it takes more than `maxNodes` steps; then it is the best
/// plan found.
std::optional<RecomputePlan>
planRecompute(const RecomputeGraph &graph,
              std::optional<int64_t> budget = std::nullopt,
              unsigned maxNodes = 2000);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_RECOMPUTEPLAN_H
