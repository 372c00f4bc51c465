//===- FittingSchedules.h - Schedules that fit a device --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the choice of a schedule needs beyond `getFittingSchedules`.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_FITTINGSCHEDULES_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_FITTINGSCHEDULES_H

#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/Attn/Transforms/ForwardSchedules.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"

namespace mlir::attn {

using attn_tile::warpgroupRows;

/// Schedules of the kernels of a gradient on the host.
SmallVector<FittingSchedule>
getFittingGradSchedules(AttentionGradOp op, const DeviceFigures &device);

/// The schedule of a kernel on the host that maps rows without products.
ScheduleAttrInterface getHostMapSchedule(MapHeadsOp op,
                                         const DeviceFigures &device);

/// Ranges of tiles that `mask` leaves, among which a step of the walk over them
/// selects, where tiles of `rowTile` rows along `dim` stay.
size_t countTileRanges(Operation *op, MaskAttrInterface mask, MaskDim dim,
                       int64_t rowTile, int64_t columnTile);

/// Schedules of the kernels of a gradient on `target`, a GPU; `std::nullopt` if
/// none fit. Sums of the gradients of queries take no more than `sumBudget`
/// bytes, if it is not negative, where a ring can have them.
std::optional<ScheduleChoice>
chooseGradientSchedule(AttentionGradOp op, StringRef target,
                       const DeviceFigures &device, int64_t sumBudget);

/// The same of kernels all of whose warps copy and compute.
std::optional<ScheduleChoice>
chooseMultistageGradient(AttentionGradOp op, const DeviceFigures &device);

/// Seconds of all kernels of a gradient with `schedule`, by its model; lengths
/// that are not known are as many as attention is timed with. `std::nullopt` if
/// there are no figures for an estimate.
std::optional<double> estimateGradient(AttentionGradOp op, Attribute schedule,
                                       const DeviceFigures &device,
                                       CostAssumptions assumptions = {
                                           /*dynamicSize=*/4096,
                                           /*dynamicBatch=*/4});

/// Those with the largest tiles, of `fitting` or others. If there is a second
/// one, it is for at least `bound` queries.
SmallVector<FittingSchedule>
getLargestSchedules(AttentionOp op, StringRef target,
                    const DeviceFigures &device,
                    ArrayRef<FittingSchedule> fitting, int64_t &bound);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_FITTINGSCHEDULES_H
