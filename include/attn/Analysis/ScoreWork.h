//===- ScoreWork.h - What is computed for each score ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts what kernels do for each score beside products and the softmax, and
// what decisions of dropout take.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_SCOREWORK_H
#define ATTN_ANALYSIS_SCOREWORK_H

#include "attn/Dialect/Attn/IR/AttnInterfaces.h"

namespace mlir::attn {

/// Work of a region of scalar code for each pair of a query and a key, in a
/// kernel whose threads hold several keys of two queries each. What pairs share
/// is computed outside of the walk over keys, and positions are a base of the
/// thread and a constant of the register: neither counts.
struct ScoreWork {
  /// Instructions on what depends on the score, and those of them of the
  /// special function unit.
  double instructions = 0, special = 0;
  /// Those that depend on positions and on what is read, but not on the score:
  /// they run ahead, beside a product.
  double ahead = 0;
  /// Elements that are read, and their bytes; of them those at a place that was
  /// read itself.
  double loads = 0, bytes = 0, gathers = 0;
};

/// Counts the work of `region`, whose last two arguments are the positions of
/// the query and the key.
ScoreWork countScoreWork(Region &region);

/// How kernels of attention get the decisions of dropout.
enum class Decisions { Made, Read };

/// Clocks of a multiprocessor for each score of the tiles that are visited, of
/// decisions that `rng` is the work of. `channels` are those of a query and of
/// a value together, which say how long products run.
double getDecisionClocks(Decisions decisions, const RngWork &rng,
                         int64_t channels, bool isGradient);

/// The same of `op`; 0 if it drops nothing.
double getDecisionClocks(AttentionOpInterface op, bool isGradient);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_SCOREWORK_H
