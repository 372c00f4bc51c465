//===- DeviceFigures.h - Rates of devices --------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a device can do in a second, for roofline estimates.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_DEVICEFIGURES_H
#define ATTN_ANALYSIS_DEVICEFIGURES_H

#include "mlir/Support/LLVM.h"

#include <optional>

namespace mlir {
class Operation;
class Type;
} // namespace mlir

namespace mlir::attn {

/// Sustained rates of a device.
struct DeviceFigures {
  double bytesPerSecond;
  /// Operations of matrix products of 16-bit elements, and all others.
  double productFlops;
  double otherFlops;
  /// What each kernel takes beside its work.
  double launchSeconds;
};

/// The figures of a target, if it is known.
std::optional<DeviceFigures> getDeviceFigures(StringRef target);

/// Bytes of a tensor, of no other type; dynamic sizes are `dynamicSize`.
int64_t getTensorBytes(Type type, int64_t dynamicSize);

/// The time that `op`, on tensors, takes as a kernel of its own: that of its
/// arithmetic or that of moving its operands and results, whichever is longer.
double estimateSeconds(Operation *op, const DeviceFigures &figures,
                       int64_t dynamicSize);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_DEVICEFIGURES_H
