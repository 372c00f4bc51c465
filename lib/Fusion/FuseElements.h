//===- FuseElements.h - Scalar code around attention ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns operations before and after attention into regions of it, or kernels.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_FUSION_FUSEELEMENTS_H
#define ATTN_LIB_FUSION_FUSEELEMENTS_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "attn/Interfaces/Target.h"
#include "attn/PerfModel/Calibration.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"

namespace mlir::attn {

/// The inputs for choices of fusion.
struct FusionContext {
  RewriterBase &rewriter;
  const Target &target;
  const DeviceModel &device;
  /// Whether functions of elements become regions and kernels.
  bool elements;
  CostAssumptions assumptions = {};

  /// Reports that `fused` became `what`, which saves time, or that it stays.
  void report(Operation *fused, const Twine &what, double seconds) const;
  void reportMissed(Operation *missed, const Twine &why) const;
};

/// Moves the computation of the queries of `op` to its query region, where that
/// takes less time by the model. Returns whether it did.
bool fuseQueries(const FusionContext &context, AttentionOp op);

/// Makes an operation that follows `op` part of its epilogue. Returns whether
/// it did.
bool fuseEpilogue(const FusionContext &context, AttentionOp op);

/// Replaces the computation of `operand` of `op` by one `attn.map_heads`, if it
/// is more than a copy. Returns whether it did.
bool gatherIntoMap(const FusionContext &context, AttentionOp op,
                   OpOperand &operand);

/// Replaces `attn.rope` and `attn.rms_norm` by `attn.map_heads`.
void expandHeadOps(RewriterBase &rewriter, Operation *root);

} // namespace mlir::attn

#endif // ATTN_LIB_FUSION_FUSEELEMENTS_H
