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

#include "attn/Dialect/Attn/Transforms/ForwardSchedules.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"

namespace mlir::attn {

using attn_tile::warpgroupRows;

/// The schedule on the host if nothing was measured.
FittingSchedule getHostSchedule(MLIRContext *context);

/// Schedules of the kernels of a gradient on GPUs with warpgroup products;
/// `std::nullopt` if none fit.
std::optional<ScheduleChoice>
chooseGradientSchedule(AttentionGradOp op, const DeviceFigures &device);

/// Those with the largest tiles, of `fitting` or others. If there is a second
/// one, it is for at least `bound` queries.
SmallVector<FittingSchedule>
getLargestSchedules(AttentionOp op, StringRef target,
                    const DeviceFigures &device,
                    ArrayRef<FittingSchedule> fitting, int64_t &bound);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_FITTINGSCHEDULES_H
