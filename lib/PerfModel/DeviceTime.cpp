//===- DeviceTime.cpp - Launches, memory and clock rate -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/DeviceTime.h"
#include "attn/PerfModel/Roofline.h"

using namespace mlir;
using namespace mlir::attn;

double attn::getLaunchCycles(double work, const Calibration &fit) {
  return work > 0 ? fit.stream + fit.ramp * work / (work + fit.rampHalf)
                  : fit.stream;
}

double attn::getThrottling(double seconds, const Calibration &fit) {
  double milliseconds = seconds * 1e3;
  return 1 + fit.throttling * milliseconds / (milliseconds + fit.throttlingMs);
}

double attn::getMemorySeconds(double bytes, Traffic traffic,
                              const DeviceModel &device) {
  double rate = getSustainedRate(device, MemoryLevel::Memory);
  if (traffic == Traffic::Read)
    rate *= device.calibration.readRate;
  return bytes / rate;
}
