//===- TargetCapabilities.h - What some GPUs can do ------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Optional parts of a GPU target: an architecture has an object for each of its
// capabilities. An operation whose capability is missing is an error that names
// it, never a wrong kernel.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_TARGETCAPABILITIES_H
#define ATTN_TARGET_TARGETCAPABILITIES_H

#include "mlir/IR/Builders.h"

namespace mlir::attn_tile {
class ConvertOp;
} // namespace mlir::attn_tile

namespace mlir::attn {

struct StagedTile;
struct ThreadPosition;

/// A stage of dQ tiles for ordered accumulation. Consumers write fragments to
/// it, and two threads of idle warps alternate in adding its tiles to global
/// memory. Two, because an addition completes and releases the semaphore only
/// after more than one step.
struct OrderedStage {
  static constexpr int64_t numThreads = 2;

  /// First byte of the stage, and of the barriers of the first thread. The
  /// barriers of the second thread follow.
  Value address, barriers;
  /// The number of the tile.
  Value position;
};

/// CTAs form clusters and access the shared memory of one another.
class ClusterTarget {
public:
  virtual ~ClusterTarget() = default;

  /// Waits, at the end of a kernel, until no other CTA of the cluster accesses
  /// shared memory of this one.
  virtual void emitClusterDone(OpBuilder &, Location) const = 0;
};

/// Threads add whole tiles from shared to global memory by bulk operations.
class BulkReductionTarget {
public:
  virtual ~BulkReductionTarget() = default;

  /// Writes the values of a warp to its part of a stage, once earlier
  /// `emitBulkAdd` have read it. The first four values of all lanes come first,
  /// then the next four of all lanes. If `ordered` is given, waits instead
  /// until `emitOrderedReduceAdd` has read the previous tile.
  virtual void emitStageFragments(OpBuilder &, Location, Value stage,
                                  Value lane, ValueRange values,
                                  const OrderedStage *ordered) const = 0;
  /// Starts to add the fragments that `emitStageFragments` has written,
  /// `registers` values of each lane, to consecutive values in global memory,
  /// from `address` on.
  virtual void emitBulkAdd(OpBuilder &, Location, Value address, Value stage,
                           Value lane, int64_t registers) const = 0;
  /// Waits, at the end of a kernel, until stages have been read by
  /// `emitBulkAdd` and `emitStoreThrough`.
  virtual void emitBulkDone(OpBuilder &, Location) const = 0;
};

/// CTAs signal progress to other CTAs by semaphores in global memory.
class SemaphoreTarget {
public:
  virtual ~SemaphoreTarget() = default;

  /// Adds `amount` to a semaphore in global memory, once the stores of the
  /// warp, and its additions by `emitBulkAdd` if `hasAdded`, are visible to
  /// waiting threads.
  virtual void emitSemaphoreAdd(OpBuilder &, Location, Value address,
                                Value lane, int64_t amount,
                                bool hasAdded) const = 0;
  /// Initialises the progress counters by which `emitSemaphoreRelease` signals
  /// `emitSemaphoreAddReleased`: 32 bits for each of `warps` warps, in place of
  /// the barriers of a stage. Run by one thread.
  virtual void emitInitCompleted(OpBuilder &, Location, Value numbers,
                                 int64_t warps) const = 0;
  /// Waits until the additions of the warp by `emitBulkAdd` are complete, and
  /// increments its progress counter.
  virtual void emitSemaphoreRelease(OpBuilder &, Location, Value numbers,
                                    Value warp, Value lane) const = 0;
  /// Waits until the progress counters of all `warps` warps are greater than
  /// `position`, and adds `amount` to a semaphore in global memory.
  virtual void emitSemaphoreAddReleased(OpBuilder &, Location, Value address,
                                        Value lane, int64_t amount,
                                        Value numbers, Value position,
                                        int64_t warps) const = 0;
  /// Waits until a semaphore has reached `number`. Run by a warp if `lane` is
  /// given, else by a single thread.
  virtual void emitSemaphoreWait(OpBuilder &, Location, Value address,
                                 Value number, Value lane) const = 0;
  /// Starts `count` copies of 16 bytes, `distance` bytes apart, of accumulated
  /// dQ from global to shared memory.
  virtual void emitStartDqCopy(OpBuilder &, Location, Value stage,
                               Value address, int64_t count,
                               int64_t distance) const = 0;
  /// Waits for these copies of the thread.
  virtual void emitAwaitDqCopies(OpBuilder &, Location) const = 0;
  /// Reads four f32 values of a copy, and zeroes their source in global memory.
  virtual SmallVector<Value> emitReadAndClearDq(OpBuilder &, Location,
                                                Value stage,
                                                Value address) const = 0;
};

/// Idle warps add the dQ tiles of all CTAs to global memory in an order that
/// semaphores keep, so that gradients are deterministic.
class OrderedAccumulationTarget {
public:
  virtual ~OrderedAccumulationTarget() = default;

  /// Initialises the barriers of a stage that `warps` warps write fragments to.
  virtual void emitInitOrderedStages(OpBuilder &, Location, Value barriers,
                                     int64_t warps) const = 0;
  /// Signals that the fragments of the warp are in the stage.
  virtual void emitCommitFragments(OpBuilder &, Location, const OrderedStage &,
                                   Value lane) const = 0;
  /// Emits the ordered accumulation, which idle warps run; `firstWarp` is the
  /// first of them. One thread waits until the semaphore `semaphore` in global
  /// memory is `number` and the tile is in the stage. It adds the `bytes` of
  /// the tile to global memory from `address` on, releases the stage and
  /// increments the semaphore.
  virtual void emitOrderedReduceAdd(OpBuilder &, Location, const OrderedStage &,
                                    Value address, Value semaphore,
                                    Value number, int64_t firstWarp,
                                    int64_t bytes) const = 0;
};

/// Warps convert staged tiles of 8 bits while other warps multiply.
class TileConversionTarget {
public:
  virtual ~TileConversionTarget() = default;

  /// Initialises the barriers of a stage that `warps` warps fill, and that MMAs
  /// of `consumers` threads read. Run by one thread.
  virtual void emitInitConverted(OpBuilder &, Location, const StagedTile &stage,
                                 int64_t warps, int64_t consumers) const = 0;
  /// Converts the thread's part of a full stage `source` of 8-bit elements to a
  /// stage `result` of 16-bit ones, once that is empty, and announces it. Rows
  /// from `numRows` on, if given, become zero. `parity` is the parity of the
  /// number of the use of `result`, from 0.
  virtual LogicalResult emitConvert(OpBuilder &, attn_tile::ConvertOp op,
                                    const StagedTile &source,
                                    const StagedTile &result, Value parity,
                                    Value numRows,
                                    const ThreadPosition &position) const = 0;
};

} // namespace mlir::attn

#endif // ATTN_TARGET_TARGETCAPABILITIES_H
