//===- Roofline.h - Time of operations on a device -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Roofline estimates (Williams, Waterman and Patterson 2009), with a roof for
// each execution unit and each level of memory.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_ROOFLINE_H
#define ATTN_ANALYSIS_ROOFLINE_H

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Interfaces/CostOpInterface.h"

namespace mlir::attn {

/// The device that `op` is compiled for: the `attn.device` of the module it is
/// or is in, or the one that stands for `target`; null if the target is
/// unknown.
DeviceAttr getDevice(Operation *op, StringRef target);

/// Operations per second of a unit of the whole device, or bytes per second of
/// a level; 0 if nothing is bounded by it. Sustained rates are what large
/// kernels reach, the others those of data sheets.
double getPeakRate(const DeviceFigures &device, ExecutionUnit unit);
double getPeakRate(const DeviceFigures &device, MemoryLevel level);
double getSustainedRate(const DeviceFigures &device, ExecutionUnit unit);
double getSustainedRate(const DeviceFigures &device, MemoryLevel level);

/// Intensity, in FLOP per byte of the device's memory, from which products of
/// 16-bit elements and not that memory are the bound, at peak rates.
double getRidge(const DeviceFigures &device);

/// How long work takes if everything overlaps, and what it waits for.
struct RooflineEstimate {
  double seconds = 0;
  /// Name of the unit or level that is used for the longest time, or "launch".
  StringRef bound = "launch";
};

RooflineEstimate estimate(const OpCost &cost, const DeviceFigures &device);

/// Elements that one head of tiled attention must move between a level with
/// room for `capacity` elements and the one behind it, for `queries` and `keys`
/// of `headDim` channels: `4 * queries * keys * headDim^2 / capacity + 2 *
/// queries * headDim` (FlashAttention on a Napkin, Abbott and Zardini 2025). A
/// tile of queries and as many channels of output fill the level, keys and
/// values pass by.
double getLeastTransfer(double queries, double keys, double headDim,
                        double capacity);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_ROOFLINE_H
