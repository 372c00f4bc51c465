//===- ScheduleTime.h - Estimates of the time of kernels -----*- C++ -*-===//
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

#ifndef ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_SCHEDULETIME_H
#define ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_SCHEDULETIME_H

#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"

namespace mlir::attn_tile {

/// The times of the kernels of attention, in the order in which they run. See
/// docs/cost-model.md for what the model is, and how well it predicts.
SmallVector<attn::KernelTime>
estimateForward(WarpSpecializedAttr schedule, const attn::VisitedTiles &tiles,
                const attn::DeviceFigures &device);

/// The time of a kernel with one role.
attn::KernelTime estimateMultistage(MultistageAttr schedule,
                                    const attn::VisitedTiles &tiles,
                                    const attn::DeviceFigures &device);

/// The time of a kernel on a host, and those of a gradient.
attn::KernelTime estimateSequential(SequentialAttr schedule,
                                    const attn::VisitedTiles &tiles,
                                    const attn::DeviceFigures &device);
SmallVector<attn::KernelTime>
estimateSequentialGradient(const attn::GradSchedules &schedules,
                           const attn::VisitedTiles &tiles,
                           const attn::DeviceFigures &device);

/// Shares of the keys, as `convert-attn-to-attn-tile` makes them.
double countShares(int64_t splitItems, double wholeItems,
                   const attn::TileCounts &counts);

/// The times of the kernels of a gradient, in the order in which they run.
SmallVector<attn::KernelTime>
estimateGradient(GradientAttr schedule, const attn::VisitedTiles &tiles,
                 const attn::DeviceFigures &device);

} // namespace mlir::attn_tile

#endif // ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_SCHEDULETIME_H
