//===- ScoreWork.h - What is computed for each score -----------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts the work of kernels for each score other than matmuls and softmax, and
// the cost of dropout keep masks.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PERFMODEL_SCOREWORK_H
#define ATTN_PERFMODEL_SCOREWORK_H

#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "attn/PerfModel/Calibration.h"

namespace mlir::attn {

/// Work of a region of scalar code for each pair of a query and a key, in a
/// kernel whose threads hold several keys of two queries each. Values that all
/// keys share are computed outside of the loop over keys, and a position is a
/// base of the thread plus a constant of the register: neither counts.
struct ScoreWork {
  /// Instructions that depend on the score, and special function instructions.
  double instructions = 0, special = 0;
  /// Instructions that depend on positions and loaded elements, but not on the
  /// score: they run ahead, concurrently with an MMA.
  double ahead = 0;
  /// Loaded elements, their bytes, and the loads whose index was itself loaded.
  double loads = 0, bytes = 0, gathers = 0;
};

/// Counts the work of `region`, whose last two arguments are the positions of
/// the query and the key.
ScoreWork countScoreWork(Region &region);

/// The derivative of the score_mod region of `op`; null if there is none, or if
/// `op` is not a gradient.
Region *getScoreModGrad(AttentionOpInterface op);

/// Whether kernels of attention generate the dropout keep mask or load it.
enum class KeepMaskSource { Generated, Loaded };

/// Cycles of an SM that the dropout keep mask takes for each score of visited
/// tiles. `rng` is the work of one mask word. `headDimSum`, the head dims of
/// query and value together, tells how long MMAs run, which hide part of the
/// work.
double getKeepMaskCycles(KeepMaskSource source, const RngWork &rng,
                         int64_t headDimSum, bool isGradient,
                         const Calibration &fit);

/// The same for `op`; 0 if it has no dropout.
double getKeepMaskCycles(AttentionOpInterface op, bool isGradient,
                         const Calibration &fit);

} // namespace mlir::attn

#endif // ATTN_PERFMODEL_SCOREWORK_H
