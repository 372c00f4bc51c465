//===- DeviceFigures.h - What a device can do ------------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Capacities and rates of a device: the figures of `#attn.device`.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_DEVICEFIGURES_H
#define ATTN_DIALECT_ATTN_IR_DEVICEFIGURES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>

namespace mlir::attn {

/// Capacities and rates of a device. Rates of units are per cycle and SM. A
/// rate of 0 says that the device lacks the unit, or that the figure is not
/// known: nothing is bounded by it.
struct DeviceFigures {
  int64_t sms = 0;
  /// Clock of the SMs under load.
  int64_t clockMHz = 0;

  /// Floating point operations of MMAs with f32 accumulation, by the width of
  /// an element in bits; a multiplication and an addition are two.
  int64_t mmaFlopsPerCycle32b = 0;
  int64_t mmaFlopsPerCycle16b = 0;
  int64_t mmaFlopsPerCycle8b = 0;
  /// f32 additions, multiplications or both at once.
  int64_t fma = 0;
  /// exp2, log2, sqrt, tanh and the like.
  int64_t special = 0;
  /// 32-bit integer addition and logic.
  int64_t integer = 0;
  /// 32-bit multiplications with a 64-bit result, or their high halves.
  int64_t wideMultiply = 0;

  /// 32-bit registers of an SM.
  int64_t registers = 0;
  /// Shared memory that one CTA can have, in bytes.
  int64_t sharedBytes = 0;
  /// Bytes per cycle of one SM.
  int64_t sharedBytesPerCycle = 0;
  int64_t l2Bytes = 0;
  /// Bytes per cycle of the whole device.
  int64_t l2BytesPerCycle = 0;
  int64_t memoryBytes = 0;
  /// In 10^9 bytes per second, of reading and writing together.
  int64_t memoryGBps = 0;
  /// To other devices of the same host, in 10^9 bytes per second, both
  /// directions together, and the time of a message without contents.
  int64_t linkGBps = 0;
  int64_t linkNs = 0;
  /// Devices of a host; 0 if one host has all of them.
  int64_t hostDevices = 0;
  /// The same rate and time from one device to devices of other hosts.
  int64_t networkGBps = 0;
  int64_t networkNs = 0;
  /// Launch overhead of a kernel.
  int64_t launchNs = 0;

  /// Percent of the MMA and memory rates that large kernels sustain, and of the
  /// rates of links and networks that large messages do.
  int64_t mmaPercent = 100;
  int64_t memoryPercent = 100;
  int64_t linkPercent = 100;

  bool operator==(const DeviceFigures &other) const;
  bool operator!=(const DeviceFigures &other) const {
    return !(*this == other);
  }
};

llvm::hash_code hash_value(const DeviceFigures &figures);

/// The built-in figures of a device: a100, h100, h200, b200 or host.
std::optional<DeviceFigures> getKnownDevice(llvm::StringRef name);

/// Names that `getKnownDevice` knows.
llvm::ArrayRef<llvm::StringLiteral> getKnownDeviceNames();

/// The keywords of figures in `#attn.device`.
llvm::SmallVector<llvm::StringRef> getDeviceFigureNames();

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_DEVICEFIGURES_H
