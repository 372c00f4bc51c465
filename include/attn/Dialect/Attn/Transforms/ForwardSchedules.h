//===- ForwardSchedules.h - Schedules of forward kernels -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Derives the schedules that an attention can have on a target, and chooses
// among them.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_TRANSFORMS_FORWARDSCHEDULES_H
#define ATTN_DIALECT_ATTN_TRANSFORMS_FORWARDSCHEDULES_H

#include "attn/Analysis/Derivation.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/ScheduleDatabase.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>
#include <utility>

namespace mlir::attn {

/// Columns of the largest matrix instruction, and the step of their number.
inline constexpr int64_t maxKeyTileMma = 256;
inline constexpr int64_t keyTileUnit = 16;

/// Whether kernels on `target` take heads of this many channels.
bool isSupportedHeadDim(int64_t channels, StringRef target);

/// Queries from which on bits of pairs take too much memory: an eighth of a
/// byte for each query and key.
inline constexpr int64_t maxPairBitQueries = 65536;

/// Whether a kernel before can evaluate what the mask of `attention` cuts, once
/// for all heads, unless that takes too much memory.
bool canReadPairBits(AttentionOpInterface attention);

/// What bounds the key tile of a GPU kernel: each thread holds its part of the
/// scores in f32, of the weights made of them, and of the output; shared memory
/// holds tiles of queries, and stages of tiles of keys and values.
struct KeyTileBounds {
  int64_t queryChannels = 0;
  int64_t valueChannels = 0;
  int64_t elementBytes = 2;
  /// Rows of queries in one tile, and threads that share them.
  int64_t queryTile = 0;
  int64_t threads = 0;
  /// Stages of the key and value pipes, and of the query's.
  int64_t stages = 2;
  int64_t queryStages = 1;
  /// Whether the second product reads its weights from shared memory and not
  /// from registers.
  bool sharesWeights = false;
  /// Bytes that are read and held for each score.
  int64_t scoreBytes = 0;
  /// Bytes of an element of each array that tiles of scores are read of through
  /// pipes, and stages of these.
  SmallVector<int64_t> stagedScoreBytes;
  int64_t scoreStages = 0;
  /// Registers of a thread that may hold tiles, those that an instruction can
  /// have if there is a bound, and bytes for tiles.
  int64_t registers = 0;
  std::optional<int64_t> launchedRegisters;
  int64_t sharedBytes = 0;
  int64_t maxKeyTile = maxKeyTileMma;

  double getRegisters(int64_t keyTile) const;
  /// Registers without which no instruction of the products can be assembled.
  int64_t getProductRegisters(int64_t keyTile) const;
  int64_t getSharedBytes(int64_t keyTile) const;
};

/// The largest key tile within `bounds`, 0 if there is none, and what stopped
/// it from being larger.
std::pair<int64_t, StringRef> getLargestKeyTile(const KeyTileBounds &bounds);

/// What consumer warpgroups of a block on Hopper share: registers that each
/// thread has for tiles, by their number, and bytes of `device`.
KeyTileBounds getConsumerBounds(int64_t consumers, const DeviceFigures &device);

/// What one group of threads on `target` has room for, of any chain of
/// operations; `std::nullopt` if tiles are not bounded there.
std::optional<TileCapacities> getTileCapacities(StringRef target,
                                                const DeviceFigures &device);

/// A schedule of one kernel that fits.
struct FittingSchedule {
  ScheduleAttrInterface schedule;
  int64_t keyTile = 0;
  /// Whether the queries of the next work item are loaded early.
  bool preloadsQueries = false;
  /// What stops the key tile from being larger.
  std::string limit;
};

/// The schedules of the kernel of `op` that fit the capacities of `target`,
/// which is known. There is at least one for the host.
SmallVector<FittingSchedule> getFittingSchedules(AttentionOp op,
                                                 StringRef target,
                                                 const DeviceFigures &device);

/// The `most` schedules that fit and take least time by the model, at lengths
/// that are typical where they are not known, best first; without a model those
/// with the largest tiles.
SmallVector<FittingSchedule> getBestSchedules(AttentionOp op, StringRef target,
                                              const DeviceFigures &device,
                                              size_t most);

/// A schedule, and why it was chosen.
struct ScheduleChoice {
  /// Of `ScheduleAttrInterface`, or a choice of two.
  Attribute schedule;
  std::string reason;
};

/// Chooses for `op` on `target`: the schedule that takes least time by the
/// model of its kernel or, where there is no model, the one with the largest
/// tiles. `std::nullopt` if none fits.
std::optional<ScheduleChoice>
chooseForwardSchedule(AttentionOp op, StringRef target,
                      const DeviceFigures &device);

/// Chooses by measured times; `std::nullopt` if there are none of `op`, or none
/// of a length that is known. Reports on `op` what is no schedule for it.
FailureOr<std::optional<ScheduleChoice>>
chooseMeasuredSchedule(AttentionOp op, StringRef target, StringRef device,
                       const ScheduleDatabase &database);

/// Chooses for a gradient on the host by the model of its kernels.
std::optional<ScheduleChoice>
chooseHostGradSchedule(AttentionGradOp op, const DeviceFigures &device);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_FORWARDSCHEDULES_H
