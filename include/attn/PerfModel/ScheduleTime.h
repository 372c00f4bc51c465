//===- ScheduleTime.h - Estimates of the time of kernels -------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Models of kernels, calibrated with measurements.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PERFMODEL_SCHEDULETIME_H
#define ATTN_PERFMODEL_SCHEDULETIME_H

#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/PerfModel/Calibration.h"

namespace mlir::attn_tile {

/// The times of the kernels of attention, in the order in which they run. See
/// docs/cost-model.md for the model and its accuracy.
SmallVector<attn::KernelTime> estimateForward(WarpSpecializedAttr schedule,
                                              const attn::VisitedTiles &tiles,
                                              const attn::DeviceModel &device);

/// The time of a kernel with one role.
attn::KernelTime estimateMultistage(MultistageAttr schedule,
                                    const attn::VisitedTiles &tiles,
                                    const attn::DeviceModel &device);

/// The time of attention on a host, and the times of the kernels of a gradient
/// on a host.
attn::KernelTime estimateSequential(SequentialAttr schedule,
                                    const attn::VisitedTiles &tiles,
                                    const attn::DeviceModel &device);
SmallVector<attn::KernelTime>
estimateSequentialGradient(const attn::GradSchedules &schedules,
                           const attn::VisitedTiles &tiles,
                           const attn::DeviceModel &device);

/// The number of KV splits that `convert-attn-to-attn-tile` makes.
double countSplits(int64_t splitKVWorkItems, double wholeWorkItems,
                   const attn::TileCounts &counts);

/// The times of the kernels of a gradient, in the order in which they run.
SmallVector<attn::KernelTime> estimateGradient(GradientAttr schedule,
                                               const attn::VisitedTiles &tiles,
                                               const attn::DeviceModel &device);

} // namespace mlir::attn_tile

#endif // ATTN_PERFMODEL_SCHEDULETIME_H
