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

#ifndef ATTN_PERFMODEL_ROOFLINE_H
#define ATTN_PERFMODEL_ROOFLINE_H

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Interfaces/CostOpInterface.h"

namespace mlir::attn {

/// The device that `op` is compiled for: the `attn.device` of its module, or
/// the default device of `target`; null if the target is unknown.
DeviceAttr getDevice(Operation *op, StringRef target);

/// Operations per second of a unit of the whole device, or bytes per second of
/// a level; 0 if nothing is bounded by it. Peak rates are from data sheets,
/// sustained rates are reached by large kernels.
double getPeakRate(const DeviceFigures &device, ExecutionUnit unit);
double getPeakRate(const DeviceFigures &device, MemoryLevel level);
double getSustainedRate(const DeviceFigures &device, ExecutionUnit unit);
double getSustainedRate(const DeviceFigures &device, MemoryLevel level);

/// The ridge point of matmuls on 16-bit elements: the arithmetic intensity, in
/// FLOP per byte of the device's memory, from which MMAs and not memory are the
/// bound, at peak rates.
double getRidge(const DeviceFigures &device);

/// The time of work if everything overlaps, and its bottleneck.
struct RooflineEstimate {
  double seconds = 0;
  /// Name of the unit or level that is used for the longest time, or "launch".
  StringRef bound = "launch";
};

RooflineEstimate estimate(const OpCost &cost, const DeviceFigures &device);

/// Elements that one head of tiled attention must move between a memory level
/// with room for `capacity` elements and the next larger one, for `queries` and
/// `keys` of head dim `headDim`: `4 * queries * keys * headDim^2 / capacity + 2
/// * queries * headDim` (FlashAttention on a Napkin, Abbott and Zardini 2025).
/// A query tile and its output tile fill the level, keys and values are
/// streamed.
double getLeastTransfer(double queries, double keys, double headDim,
                        double capacity);

} // namespace mlir::attn

#endif // ATTN_PERFMODEL_ROOFLINE_H
