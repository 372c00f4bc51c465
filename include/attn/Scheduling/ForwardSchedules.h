//===- ForwardSchedules.h - Schedules of forward kernels -------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Derives the schedules that an attention can have on a target, and chooses one
// of them.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SCHEDULING_FORWARDSCHEDULES_H
#define ATTN_SCHEDULING_FORWARDSCHEDULES_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "attn/Interfaces/Target.h"
#include "attn/PerfModel/Calibration.h"
#include "attn/PerfModel/Capacity.h"
#include "attn/PerfModel/Derivation.h"
#include "attn/Scheduling/ScheduleDatabase.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>
#include <utility>

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::attn {

/// Adds the dialects whose attributes are schedules. Passes that evaluate
/// schedules depend on them.
void registerScheduleDialects(DialectRegistry &registry);

/// The largest N of an MMA instruction, and the step of N.
inline constexpr int64_t maxKeyTileMma = 256;
inline constexpr int64_t keyTileUnit = 16;

/// The number of queries from which a mask bitmap takes too much memory: one
/// bit for each query and key.
inline constexpr int64_t maxMaskBitQueries = 65536;

/// Whether a kernel before can evaluate the mask of `attention` to a bitmap,
/// once for all heads, without taking too much memory.
bool canReadMaskBits(AttentionOpInterface attention);

/// Why kernels of `target` cannot write an output of 8 bits of `attention`;
/// `std::nullopt` if they can.
std::optional<std::string> whyNotWriteFloat8(AttentionOp attention,
                                             const Target &target);

/// The bounds on the key tile of a GPU kernel. Each thread holds its part of
/// the scores in f32, of the probabilities (P) and of the output. Shared memory
/// holds query tiles, and stages of key and value tiles.
struct KeyTileBounds {
  int64_t qkHeadDim = 0;
  int64_t vHeadDim = 0;
  /// `vHeadDim`, if it is a part of the head dim (`head_dim_tile`), else 0.
  int64_t headDimTile = 0;
  /// Bytes of an element that is multiplied, and of elements of keys and values
  /// in memory, if they are converted.
  int64_t elementBytes = 0;
  std::optional<int64_t> convertedBytes;
  /// Rows of a query tile, and the threads that hold them.
  int64_t queryTile = 0;
  int64_t threads = 0;
  /// Stages of the key and value pipes, and of the query pipe.
  int64_t stages = 2;
  int64_t queryStages = 1;
  /// Whether values are columns of staged keys, and have no stages.
  bool stagesKeysAlone = false;
  /// Whether a stage of values has a row for each column of the values.
  bool transposesValues = false;
  /// Whether the second MMA (PV) reads P from shared memory and not from
  /// registers.
  bool sharesProbabilities = false;
  /// Bytes that a score_mod loads and holds in registers for each score.
  int64_t scoreBytes = 0;
  /// Element bytes of each array that a score_mod reads through pipes, one tile
  /// for each tile of scores, and the stages of these pipes.
  SmallVector<int64_t> stagedScoreBytes;
  int64_t scoreStages = 0;
  /// Registers of a thread for tiles; registers of a thread that an MMA may use
  /// at most, if bounded; and bytes of shared memory for tiles.
  int64_t registers = 0;
  std::optional<int64_t> launchedRegisters;
  int64_t sharedBytes = 0;
  int64_t maxKeyTile = maxKeyTileMma;

  /// What a key tile is a multiple of: keys of a step of the second MMA.
  int64_t getKeyTileUnit() const;
  /// Bytes of an element of a staged tile of keys or values.
  int64_t getKeyBytes() const { return convertedBytes.value_or(elementBytes); }
  double getRegisters(int64_t keyTile) const;
  /// Registers of a thread that the MMAs need at least to be assembled.
  int64_t getMmaRegisters(int64_t keyTile) const;
  int64_t getSharedBytes(int64_t keyTile) const;
};

/// The largest key tile within `bounds`, 0 if there is none, and the resource
/// that limits it.
LargestTile getLargestKeyTile(const KeyTileBounds &bounds);

/// The bounds for a CTA on Hopper: registers of a thread for tiles, by the
/// number of consumer warpgroups, and shared memory of `device`.
KeyTileBounds getConsumerBounds(int64_t consumers, const DeviceFigures &device);

/// A schedule of one kernel that fits the capacities.
struct ScheduleCandidate {
  ScheduleAttrInterface schedule;
  int64_t keyTile = 0;
  /// Whether the queries of the next work item are loaded early.
  bool preloadsQueries = false;
  /// The resource that limits the key tile.
  std::string limit;
};

/// At most `most` schedules that fit, fastest by the model first; without a
/// model, the ones with the largest tiles. Unknown lengths are assumed to be
/// typical.
SmallVector<ScheduleCandidate> getBestSchedules(AttentionOp op,
                                                const Target &target,
                                                const DeviceModel &device,
                                                size_t most);

/// A schedule, and why it was chosen.
struct ScheduleChoice {
  /// An attribute of `ScheduleAttrInterface`, or a choice between some.
  Attribute schedule;
  std::string reason;
};

/// Chooses a schedule for `op` on `target`: the fastest by the model of its
/// kernel or, where there is no model, the one with the largest tiles.
/// `std::nullopt` if none fits.
std::optional<ScheduleChoice> chooseForwardSchedule(AttentionOp op,
                                                    const Target &target,
                                                    const DeviceModel &device);

/// Chooses a schedule by measured times; `std::nullopt` if there are none for
/// `op`, or none for a matching length. Reports on `op` a database entry that
/// is no schedule for it.
FailureOr<std::optional<ScheduleChoice>>
chooseMeasuredSchedule(AttentionOp op, const Target &target, StringRef device,
                       const ScheduleDatabase &database);

} // namespace mlir::attn

#endif // ATTN_SCHEDULING_FORWARDSCHEDULES_H
