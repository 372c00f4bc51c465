//===- TargetInfo.h - What a GPU target provides ---------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface between the lowering of kernels and one GPU architecture:
// sizes, and how staged tiles, barriers and matmuls are written in its
// instructions. Everything that depends on the architecture is behind it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_TARGETINFO_H
#define ATTN_TARGET_TARGETINFO_H

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/IR/Builders.h"

#include <memory>

namespace mlir::attn {

/// A staged tile after lowering: addresses in shared memory, as `i32`.
struct StagedTile {
  /// First byte of the stage.
  Value address;
  /// Barriers of the stage; their layout depends on the target.
  Value full;
  Value empty;
};

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

/// How many threads fill the stages of a kernel, and how many read them. Where
/// there are no roles, all threads do both.
struct StageThreads {
  int64_t producers;
  int64_t consumers;
};

/// Where the code that is being emitted runs.
struct ThreadPosition {
  /// Index of the thread within its role, `i32`.
  Value thread;
  /// Index of the warpgroup within its role, `i32`, and known to be uniform in
  /// each warp.
  Value warpgroup;
  /// Index of the warp within its role, likewise.
  Value warp;
  /// Threads of the role.
  int64_t numThreads;
};

/// One GPU architecture. Methods that emit code put it at the builder's
/// insertion point; `i32` is the type of all addresses and positions.
class TargetInfo {
public:
  /// Bytes of a warp's progress counter (see `emitInitCompleted`).
  static constexpr int64_t numberBytes = 4;

  virtual ~TargetInfo();

  /// Name on command lines and in artifacts, and LLVM's name of the chip.
  virtual StringRef getName() const = 0;
  /// The first version of PTX that has the architecture, times 10.
  virtual int64_t getMinPTXVersion() const = 0;
  /// Whether later architectures run code for this one, if it is kept as PTX.
  virtual bool isForwardCompatible() const { return false; }
  /// Whether a kernel can begin while the kernel before it runs (programmatic
  /// dependent launch).
  virtual bool hasEarlyLaunches() const { return false; }
  /// Whether CTAs can form clusters.
  virtual bool hasClusters() const { return false; }

  //===--------------------------------------------------------------------===//
  // Capacities
  //===--------------------------------------------------------------------===//

  /// Shared memory that one CTA may use, in bytes.
  virtual int64_t getSharedMemoryBytes() const = 0;
  /// 32-bit registers of one SM.
  virtual int64_t getRegisters() const { return attn_tile::smRegisters; }

  //===--------------------------------------------------------------------===//
  // Staged tiles
  //===--------------------------------------------------------------------===//

  /// Checks that a tile can be staged; the error gives the reason.
  virtual LogicalResult
  verifyStagedTile(attn_tile::BufferType type,
                   function_ref<InFlightDiagnostic()> emitError) const = 0;
  /// Bytes that a staged tile takes, padding included, where stages of the same
  /// type follow one another from an address of `getStageAlignment` on.
  virtual int64_t getStageBytes(attn_tile::BufferType type) const = 0;
  virtual int64_t getStageAlignment() const = 0;
  /// Bytes of the barriers of one stage: full and empty, in this order, in
  /// halves of equal size.
  virtual int64_t getBarrierBytes() const = 0;

  /// Whether one thread of a producer role does all of its work.
  virtual bool isProducerSingleThread() const = 0;

  /// Initialises the barriers of one stage; run by one thread. `byThreads` says
  /// that threads, not MMAs, read the stage. The CTAs of a cluster fill it
  /// together, if `cluster` is more than 1.
  virtual void emitInitBarriers(OpBuilder &builder, Location loc,
                                const StagedTile &stage,
                                const StageThreads &threads, bool byThreads,
                                int64_t cluster) const = 0;
  /// Makes initialised barriers visible to all threads of a cluster of
  /// `cluster` CTAs; run by all of them.
  virtual void emitInitDone(OpBuilder &builder, Location loc,
                            int64_t cluster) const = 0;
  /// Waits, at the end of a kernel, until no other CTA of the cluster accesses
  /// shared memory of this one.
  virtual void emitClusterDone(OpBuilder &, Location) const {}

  /// Waits until the stage is empty; `parity` is the parity of the number of
  /// its use, from 0.
  virtual void emitAcquire(OpBuilder &builder, Location loc,
                           const StagedTile &stage, Value parity,
                           attn_tile::BufferType type) const = 0;
  /// Starts the copy of a tile. `source` is the converted source of the copy.
  virtual LogicalResult emitCopy(OpBuilder &builder, attn_tile::CopyOp op,
                                 ValueRange source, ValueRange indices,
                                 const StagedTile &stage,
                                 const ThreadPosition &position) const = 0;
  /// Announces the copies of the stage.
  virtual void emitCommit(OpBuilder &builder, Location loc,
                          const StagedTile &stage) const = 0;
  /// Waits until the stage is full.
  virtual void emitWait(OpBuilder &builder, Location loc,
                        const StagedTile &stage, Value parity) const = 0;
  /// Zeroes the rows of a full stage from `firstRow` on, before any MMA reads
  /// it. Run by all threads that read the stage.
  virtual void emitClear(OpBuilder &builder, Location loc,
                         const StagedTile &stage, attn_tile::BufferType type,
                         Value firstRow,
                         const ThreadPosition &position) const = 0;
  /// Releases a stage, which threads or MMAs have read, to all CTAs of the
  /// cluster that fill it, once the f32 registers `after` have been computed.
  virtual void emitRelease(OpBuilder &builder, Location loc,
                           const StagedTile &stage, bool byThreads,
                           ValueRange after, int64_t cluster,
                           const ThreadPosition &position) const = 0;

  //===--------------------------------------------------------------------===//
  // Local stores and reductions
  //===--------------------------------------------------------------------===//

  /// Writes the registers of a tile to a stage and waits until all threads of
  /// the role have done so; then MMAs may read it. With a single stage, waits
  /// for all threads before writing as well.
  virtual LogicalResult emitLocalStore(OpBuilder &builder,
                                       attn_tile::LocalStoreOp op,
                                       ValueRange tile, const StagedTile &stage,
                                       const ThreadPosition &position) const;
  /// Transposes an 8x8 block of 16-bit values, of which lane `4 * i + q` of a
  /// warp holds columns `2 * q` and `2 * q + 1` of row `i` as one word.
  virtual Value emitTransposeBlock(OpBuilder &builder, Location loc,
                                   Value word) const;
  /// Adds four f32 values to consecutive ones in global memory, each addition
  /// being atomic.
  virtual void emitAtomicAdd(OpBuilder &builder, Location loc, Value address,
                             ValueRange values) const;
  /// Writes the values of a warp to its part of a stage, once earlier
  /// `emitBulkAdd` have read it. The first four values of all lanes come first,
  /// then the next four of all lanes. If `ordered` is given, waits instead
  /// until `emitOrderedReduceAdd` has read the previous tile. Returns failure
  /// if the target cannot.
  virtual LogicalResult emitStageFragments(OpBuilder &, Location, Value stage,
                                           Value lane, ValueRange values,
                                           const OrderedStage *ordered) const {
    return failure();
  }
  /// Initialises the barriers of a stage that `warps` warps write fragments to.
  virtual void emitInitOrderedStages(OpBuilder &, Location, Value barriers,
                                     int64_t warps) const {}
  /// Signals that the fragments of the warp are in the stage.
  virtual void emitCommitFragments(OpBuilder &, Location, const OrderedStage &,
                                   Value lane) const {}
  /// Emits the ordered accumulation, which idle warps run; `firstWarp` is the
  /// first of them. One thread waits until the semaphore `semaphore` in global
  /// memory is `number` and the tile is in the stage. It adds the `bytes` of
  /// the tile to global memory from `address` on, releases the stage and
  /// increments the semaphore.
  virtual void emitOrderedReduceAdd(OpBuilder &, Location, const OrderedStage &,
                                    Value address, Value semaphore,
                                    Value number, int64_t firstWarp,
                                    int64_t bytes) const {}
  /// Starts to add the fragments that `emitStageFragments` has written,
  /// `registers` values of each lane, to consecutive values in global memory,
  /// from `address` on.
  virtual void emitBulkAdd(OpBuilder &, Location, Value address, Value stage,
                           Value lane, int64_t registers) const {}
  /// Stores a tile, `values` of each thread, through the stages of a pipe, of
  /// which `stages` is the first.
  virtual LogicalResult emitStoreThrough(OpBuilder &builder,
                                         attn_tile::StoreThroughOp op,
                                         ValueRange values, ValueRange dest,
                                         ValueRange indices, Value stages,
                                         const ThreadPosition &position) const;
  /// Waits, at the end of a kernel, until stages have been read by
  /// `emitBulkAdd` and `emitStoreThrough`.
  virtual void emitBulkDone(OpBuilder &, Location) const {}
  //===--------------------------------------------------------------------===//
  // Semaphores
  //===--------------------------------------------------------------------===//

  /// Whether CTAs can signal progress to other CTAs by semaphores.
  virtual bool hasSemaphores() const { return false; }
  /// Adds `amount` to a semaphore in global memory, once the stores of the
  /// warp, and its additions by `emitBulkAdd` if `hasAdded`, are visible to
  /// waiting threads.
  virtual void emitSemaphoreAdd(OpBuilder &, Location, Value address,
                                Value lane, int64_t amount,
                                bool hasAdded) const {}
  /// Initialises the progress counters by which `emitSemaphoreRelease` signals
  /// `emitSemaphoreAddReleased`: 32 bits for each of `warps` warps, in place of
  /// the barriers of a stage. Run by one thread.
  virtual void emitInitCompleted(OpBuilder &, Location, Value numbers,
                                 int64_t warps) const {}
  /// Waits until the additions of the warp by `emitBulkAdd` are complete, and
  /// increments its progress counter.
  virtual void emitSemaphoreRelease(OpBuilder &, Location, Value numbers,
                                    Value warp, Value lane) const {}
  /// Waits until the progress counters of all `warps` warps are greater than
  /// `position`, and adds `amount` to a semaphore in global memory.
  virtual void emitSemaphoreAddReleased(OpBuilder &, Location, Value address,
                                        Value lane, int64_t amount,
                                        Value numbers, Value position,
                                        int64_t warps) const {}
  /// Waits until a semaphore has reached `number`. Run by a warp if `lane` is
  /// given, else by a single thread.
  virtual void emitSemaphoreWait(OpBuilder &, Location, Value address,
                                 Value number, Value lane) const {}
  /// Starts `count` copies of 16 bytes, `distance` bytes apart, of accumulated
  /// dQ from global to shared memory.
  virtual void emitStartDqCopy(OpBuilder &, Location, Value stage,
                               Value address, int64_t count,
                               int64_t distance) const {}
  /// Waits for these copies of the thread.
  virtual void emitAwaitDqCopies(OpBuilder &, Location) const {}
  /// Reads four f32 values of a copy, and zeroes their source in global memory.
  virtual SmallVector<Value>
  emitReadAndClearDq(OpBuilder &, Location, Value stage, Value address) const {
    return {};
  }

  //===--------------------------------------------------------------------===//
  // MMAs
  //===--------------------------------------------------------------------===//

  /// Registers of a thread that an MMA needs at least to be assembled; 0 if
  /// every thread has enough.
  virtual int64_t getMmaRegisters(attn_tile::MmaStartOp) const { return 0; }
  /// Starts an MMA. `lhs` is a staged tile's three values or the registers of a
  /// tile, `acc` is empty or the accumulator's registers. Returns the registers
  /// of the result, which must not be accessed before `emitMmaWait`.
  virtual FailureOr<SmallVector<Value>>
  emitMmaStart(OpBuilder &builder, attn_tile::MmaStartOp op, ValueRange lhs,
               const StagedTile &rhs, ValueRange acc,
               const ThreadPosition &position) const = 0;
  /// Waits for all MMAs but the `newer` last ones. `pending` are the registers
  /// of the result that is waited for, or empty.
  virtual SmallVector<Value> emitMmaWait(OpBuilder &builder, Location loc,
                                         ValueRange pending,
                                         int64_t newer) const = 0;

  //===--------------------------------------------------------------------===//
  // Roles
  //===--------------------------------------------------------------------===//

  /// Sets the number of registers of each thread of the role; `before` is the
  /// number that it has.
  virtual void emitSetRegisters(OpBuilder &builder, Location loc,
                                int64_t registers, int64_t before) const = 0;

  //===--------------------------------------------------------------------===//
  // Staged tiles that threads read
  //===--------------------------------------------------------------------===//

  /// Reads a thread's fragment of a full stage with several rows.
  virtual FailureOr<SmallVector<Value>>
  emitRead(OpBuilder &builder, attn_tile::ReadOp op, const StagedTile &stage,
           const ThreadPosition &position) const;
};

/// The target of that name, or null.
std::unique_ptr<TargetInfo> createTargetInfo(StringRef name);

} // namespace mlir::attn

#endif // ATTN_TARGET_TARGETINFO_H
