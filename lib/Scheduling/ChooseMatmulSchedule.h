//===- ChooseMatmulSchedule.h - Schedules of matmuls ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Derives the tile shapes of matmuls from the capacities of the target.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_SCHEDULING_CHOOSEMATMULSCHEDULE_H
#define ATTN_LIB_SCHEDULING_CHOOSEMATMULSCHEDULE_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Interfaces/Target.h"
#include "attn/PerfModel/Calibration.h"

namespace mlir::attn {

/// The schedule of `op` on `target` if it has none.
ScheduleAttrInterface getMatmulSchedule(MatmulOp op, const Target &target,
                                        const DeviceModel &device);

/// Gives `op` a schedule for `target`, or checks the schedule that it has.
/// Emits a diagnostic on failure.
LogicalResult chooseMatmulSchedule(MatmulOp op, const Target &target,
                                   const DeviceModel &device);

} // namespace mlir::attn

#endif // ATTN_LIB_SCHEDULING_CHOOSEMATMULSCHEDULE_H
