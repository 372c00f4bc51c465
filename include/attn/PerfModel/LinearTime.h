//===- LinearTime.h - Estimates of the time of linear attention *- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model of the kernels of linear attention on GPUs, calibrated with
// measurements. See docs/cost-model.md.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PERFMODEL_LINEARTIME_H
#define ATTN_PERFMODEL_LINEARTIME_H

#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "attn/PerfModel/Calibration.h"

namespace mlir::attn {

struct CostAssumptions;

/// What the time of linear attention, or of its gradient, depends on besides
/// the schedule.
struct LinearWork {
  int64_t heads = 0, keyHeadDim = 0, valueHeadDim = 0, elementBytes = 0;
  /// How many of the initial and the final states there are.
  int64_t stateOperands = 0;
  /// Batch entries, or packed sequences, and the tokens of each.
  int64_t entries = 0, tokens = 0;
  /// Log-decays are of heads or tokens, or of key elements.
  bool hasDecay = false, hasElementDecay = false;
  /// Log-decays that a kernel for few tokens reads for each token.
  bool readsDecay = false;
  bool hasBeta = false, isCausal = false;
  bool isGradient = false;
  /// Whether log-decays of heads or tokens have a gradient.
  bool hasDecayGradient = false;
  /// Whether gradients of keys and values have the same states before splits.
  bool sharesStarts = false;

  static LinearWork get(LinearAttentionOp op,
                        const CostAssumptions &assumptions);
  static LinearWork get(LinearAttentionGradOp op,
                        const CostAssumptions &assumptions);

  /// States of all entries and heads, and their tokens.
  double countStates() const { return double(entries * heads); }
  double countTokens() const { return countStates() * double(tokens); }
};

/// The times of the kernels of linear attention, or of its gradient, with
/// `schedule`; empty for other operations.
SmallVector<KernelTime> estimateLinear(Attribute schedule, Operation *op,
                                       const CostAssumptions &assumptions,
                                       const DeviceModel &device);

/// The times of the kernels with `schedule`, in the order in which they run;
/// empty if there is no model of them.
SmallVector<KernelTime> estimateLinear(Attribute schedule,
                                       const LinearWork &work,
                                       const DeviceModel &device);

} // namespace mlir::attn

#endif // ATTN_PERFMODEL_LINEARTIME_H
