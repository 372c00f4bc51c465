//===- Capacity.h - Registers, shared memory and barriers ------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that decides whether the tiles of a kernel fit a device.
// Choosers, models of kernels and derivations say what a CTA needs; this solver
// compares it with what a CTA can have, names the resource that is exceeded,
// and finds the largest tile.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PERFMODEL_CAPACITY_H
#define ATTN_PERFMODEL_CAPACITY_H

#include "attn/Dialect/Attn/IR/DeviceFigures.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <limits>
#include <optional>

namespace mlir::attn {

/// Bytes of a 32-bit register.
inline constexpr int64_t registerBytes = 4;

/// Bytes of an element of a sum, which is f32.
inline constexpr int64_t sumBytes = 4;

/// Shared memory of a CTA that its barriers take.
inline constexpr int64_t barrierBytes = 1024;

/// Shared memory that an SM reserves for each CTA (CUDA Programming Guide,
/// compute capability 8.0 and later).
inline constexpr int64_t reservedCtaBytes = 1024;

/// The most registers that a thread can have.
inline constexpr int64_t maxThreadRegisters = 255;

/// Named barriers of a CTA (PTX ISA, bar).
inline constexpr int64_t maxNamedBarriers = 16;

/// Bytes of an element of `shaped`, a tensor, memref or vector.
int64_t getElementBytes(Value shaped);

enum class Resource { Registers, SharedMemory, Barriers };

/// As in remarks: "registers".
llvm::StringRef stringifyResource(Resource resource);

/// What the tiles of a CTA need.
struct CapacityNeed {
  /// Registers of a thread for tiles.
  double registers = 0;
  /// Registers of a thread without which an MMA cannot be assembled.
  int64_t mmaRegisters = 0;
  double sharedBytes = 0;
  int64_t namedBarriers = 0;
};

/// What the tiles of a CTA can have.
struct Capacity {
  /// Registers of a thread for tiles, and all registers of a thread at the
  /// launch.
  double registers = std::numeric_limits<double>::infinity();
  int64_t launchedRegisters = maxThreadRegisters;
  double sharedBytes = 0;
  int64_t namedBarriers = maxNamedBarriers;

  /// The first resource of which `need` takes more than there is;
  /// `std::nullopt` if it fits.
  std::optional<Resource> findExceeded(const CapacityNeed &need) const;
  bool fits(const CapacityNeed &need) const { return !findExceeded(need); }
  /// The largest ratio of a need to its capacity, by which tiles that do not
  /// fit compare.
  double getLoad(const CapacityNeed &need) const;
};

/// Shared memory of `device` for the tiles of one of `ctasPerSm` CTAs that
/// share an SM, next to its barriers.
int64_t getTileBytes(const DeviceFigures &device, int64_t ctasPerSm = 1);

/// A tile, and what limits it: "registers", "shared memory" or, if a larger
/// one would fit, "instruction shape".
struct LargestTile {
  /// 0 if none fits.
  int64_t size = 0;
  llvm::StringRef limit;
};

/// The largest multiple of `unit`, at most `most`, up to which all tiles fit.
LargestTile findLargestTile(const Capacity &capacity, int64_t unit,
                            int64_t most,
                            llvm::function_ref<CapacityNeed(int64_t)> getNeed);

/// The stages that fit next to `fixedBytes`, with `stageBytes` each.
int64_t countStages(int64_t bytes, int64_t fixedBytes, int64_t stageBytes);

/// The number of CTAs of `threads` threads, with `need` for each thread and
/// CTA, that an SM of `device` holds at a time; at least 1. The registers are
/// all those of a thread.
int64_t countCtasPerSm(const CapacityNeed &need, int64_t threads,
                       const DeviceFigures &device);

} // namespace mlir::attn

#endif // ATTN_PERFMODEL_CAPACITY_H
