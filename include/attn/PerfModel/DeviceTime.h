//===- DeviceTime.h - Launches, memory and clock rate ----------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What all models of GPU kernels share: the time of a launch, the rate of
// memory, and the clock rate under load.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PERFMODEL_DEVICETIME_H
#define ATTN_PERFMODEL_DEVICETIME_H

#include "attn/PerfModel/Calibration.h"

namespace mlir::attn {

/// Cycles from the launch of a kernel to full speed, and from there to its end,
/// for `work` cycles of work at full speed; 0 if it waits for memory.
double getLaunchCycles(double work, const Calibration &fit);

/// The factor by which power throttling lengthens `seconds` of MMAs.
double getThrottling(double seconds, const Calibration &fit);

/// Reads alone are faster than reads and writes.
enum class Traffic { Read, ReadAndWrite };

/// Seconds to move `bytes` between memory and the SMs.
double getMemorySeconds(double bytes, Traffic traffic,
                        const DeviceModel &device);

} // namespace mlir::attn

#endif // ATTN_PERFMODEL_DEVICETIME_H
