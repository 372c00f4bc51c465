//===- ScheduleCandidates.h - Schedules that fit a device ------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions that choose a schedule, in addition to `getScheduleCandidates`.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_SCHEDULING_SCHEDULECANDIDATES_H
#define ATTN_LIB_SCHEDULING_SCHEDULECANDIDATES_H

#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "attn/Scheduling/ForwardSchedules.h"

namespace mlir::attn {

using attn_tile::warpgroupRows;

/// Schedules of the kernels of a gradient on the host.
SmallVector<ScheduleCandidate>
getGradScheduleCandidates(AttentionGradOp op, const DeviceFigures &device);

/// The schedule of a kernel on the host that maps rows without matmuls.
ScheduleAttrInterface getHostMapSchedule(MapHeadsOp op,
                                         const DeviceFigures &device);

/// Ranges of tiles that `mask` keeps where a tile of `rowTile` rows along `dim`
/// stays. Each step of the tile iteration selects among them.
size_t countTileRanges(Operation *op, MaskAttrInterface mask, MaskDim dim,
                       int64_t rowTile, int64_t columnTile);

/// Schedules of the kernels of a gradient on `target`, a GPU; `std::nullopt` if
/// none fit. The dQ accumulator takes at most `dqWorkspaceBytes` bytes, if that
/// is not negative, where a dQ ring buffer is possible.
std::optional<ScheduleChoice>
chooseGradientSchedule(AttentionGradOp op, StringRef target,
                       const DeviceFigures &device, int64_t dqWorkspaceBytes);

/// The same for kernels in which all warps copy and compute.
std::optional<ScheduleChoice>
chooseMultistageGradient(AttentionGradOp op, const DeviceFigures &device);

/// Seconds of all kernels of a gradient with `schedule`, by its model.
/// `assumptions` replace unknown lengths, by default with the lengths at which
/// attention is timed. `std::nullopt` if there are no figures for an estimate.
std::optional<double> estimateGradient(AttentionGradOp op, Attribute schedule,
                                       const DeviceFigures &device,
                                       CostAssumptions assumptions = {
                                           /*dynamicSize=*/4096,
                                           /*dynamicBatch=*/4});

/// The schedules with the largest tiles, from `candidates` or others. If there
/// is a second one, it is for at least `bound` queries.
SmallVector<ScheduleCandidate>
getLargestSchedules(AttentionOp op, StringRef target,
                    const DeviceFigures &device,
                    ArrayRef<ScheduleCandidate> candidates, int64_t &bound);

} // namespace mlir::attn

#endif // ATTN_LIB_SCHEDULING_SCHEDULECANDIDATES_H
