//===- DropoutTime.h - Estimates of the time of dropout --------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The time of dropout whose keep masks are generated in the kernels of
// attention, before them, or concurrently with matmuls. docs/cost-model.md has
// the formulas.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SCHEDULING_DROPOUTTIME_H
#define ATTN_SCHEDULING_DROPOUTTIME_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "attn/Interfaces/Target.h"
#include "attn/PerfModel/Calibration.h"

#include <optional>
#include <string>

namespace mlir::attn {

/// Seconds that attentions with the same keep masks take, together with the
/// matmuls before them.
struct DropoutTimes {
  double inKernel = 0;
  /// A kernel generates the keep mask before; absent if it cannot be read.
  std::optional<double> sequential;
  /// One kernel for the nearest matmul and the keep mask; absent without
  /// matmuls and on targets without such kernels.
  std::optional<double> fused;
  double maskBytes = 0;

  /// As text, in microseconds.
  std::string describe() const;
};

/// Seconds of a matmul alone.
double estimateMatmul(MatmulOp op, const DeviceModel &device,
                      const CostAssumptions &assumptions);

/// Estimates for `ops`, which have the same dropout and sizes, and `matmuls`,
/// which run before them, nearest first.
DropoutTimes estimateDropout(ArrayRef<AttentionOpInterface> ops,
                             ArrayRef<MatmulOp> matmuls, const Target &target,
                             const DeviceModel &device,
                             const CostAssumptions &assumptions);

} // namespace mlir::attn

#endif // ATTN_SCHEDULING_DROPOUTTIME_H
