//===- TargetInfo.h - What a GPU target provides --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface between the lowering of kernels and one GPU architecture:
// sizes, and how staged tiles, barriers and matrix products are written in its
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
  /// Barriers of the stage; what they are belongs to the target.
  Value full;
  Value empty;
};

/// A stage that consumers pack, and that two threads of idle warps add in turn:
/// each every other tile, as it takes longer than a step until an addition is
/// complete and has been counted.
struct TurnStage {
  static constexpr int64_t numThreads = 2;

  /// First byte of the stage, and of the barriers of the first thread. Those of
  /// the second one follow.
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
  /// Index of the warpgroup within its role, `i32`, equal in all threads of a
  /// warp and known to be.
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
  /// Bytes of a number that warps tell others something by.
  static constexpr int64_t numberBytes = 4;

  virtual ~TargetInfo();

  /// Name on command lines and in artifacts, and what LLVM calls the chip.
  virtual StringRef getName() const = 0;
  /// Features of LLVM's NVPTX back end, such as "+ptx90".
  virtual StringRef getFeatures() const = 0;
  /// The first version of PTX that has the architecture, times 10.
  virtual int64_t getMinPTXVersion() const = 0;
  /// Whether later architectures run code for this one, if it is kept as PTX.
  virtual bool isForwardCompatible() const { return false; }
  /// Whether a kernel can begin while the one before it runs.
  virtual bool hasEarlyLaunches() const { return false; }
  /// Whether groups can form clusters.
  virtual bool hasClusters() const { return false; }

  //===--------------------------------------------------------------------===//
  // Capacities
  //===--------------------------------------------------------------------===//

  /// Shared memory that one group may use, in bytes.
  virtual int64_t getSharedMemoryBytes() const = 0;
  /// 32-bit registers of one multiprocessor.
  virtual int64_t getRegisters() const {
    return attn_tile::multiprocessorRegisters;
  }

  //===--------------------------------------------------------------------===//
  // Staged tiles
  //===--------------------------------------------------------------------===//

  /// Checks that a tile can be staged; the error names what is in the way.
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

  /// Prepares the barriers of one stage; run by one thread. `byThreads` says
  /// that threads read the stage themselves, not products. The groups of a
  /// cluster fill it together, if `cluster` is more than 1.
  virtual void emitInitBarriers(OpBuilder &builder, Location loc,
                                const StagedTile &stage,
                                const StageThreads &threads, bool byThreads,
                                int64_t cluster) const = 0;
  /// Makes prepared barriers known to all threads of a cluster of `cluster`
  /// groups; run by all of them.
  virtual void emitInitDone(OpBuilder &builder, Location loc,
                            int64_t cluster) const = 0;
  /// Waits, at the end of a kernel, until no other group of the cluster
  /// accesses memory of this one.
  virtual void emitClusterDone(OpBuilder &, Location) const {}

  /// Waits until the stage is empty; `parity` is that of the use, from 0.
  virtual void emitAcquire(OpBuilder &builder, Location loc,
                           const StagedTile &stage, Value parity,
                           attn_tile::BufferType type) const = 0;
  /// Starts the copy of a tile. `source` is what the source of the copy was
  /// converted to.
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
  /// Clears the rows of a full stage from `firstRow` on, before any product
  /// reads it. Run by all threads that read the stage.
  virtual void emitClear(OpBuilder &builder, Location loc,
                         const StagedTile &stage, attn_tile::BufferType type,
                         Value firstRow,
                         const ThreadPosition &position) const = 0;
  /// Gives the stage back, which threads have read themselves or products, to
  /// all groups of the cluster that fill it, once the f32 registers `after`
  /// have been computed.
  virtual void emitRelease(OpBuilder &builder, Location loc,
                           const StagedTile &stage, bool byThreads,
                           ValueRange after, int64_t cluster,
                           const ThreadPosition &position) const = 0;

  //===--------------------------------------------------------------------===//
  // Matrix products
  //===--------------------------------------------------------------------===//

  /// Writes the registers of a tile to a stage and waits until all threads of
  /// the role have; then products may read it. With one stage, waits for them
  /// before writing as well.
  virtual LogicalResult emitShare(OpBuilder &builder, attn_tile::ShareOp op,
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
  /// `emitBulkAdd` have read it: first those of all lanes for the first four
  /// values, then for the next four. If `turns` are given, it waits instead
  /// until `emitAddInTurn` has read what was there before. Returns failure if
  /// the target cannot.
  virtual LogicalResult emitPack(OpBuilder &, Location, Value stage, Value lane,
                                 ValueRange values,
                                 const TurnStage *turns) const {
    return failure();
  }
  /// Initialises the barriers of a stage which `warps` warps pack.
  virtual void emitInitTurns(OpBuilder &, Location, Value barriers,
                             int64_t warps) const {}
  /// Tells that what the warp has packed is there.
  virtual void emitPublish(OpBuilder &, Location, const TurnStage &,
                           Value lane) const {}
  /// What idle warps, of which `firstWarp` is the first one, do: one thread
  /// waits until it is the turn of the tile, that is until the counter in
  /// global memory is `number`, and until the tile is there, adds it, which has
  /// `bytes`, to what lies from `address` on, gives the stage back and counts.
  virtual void emitAddInTurn(OpBuilder &, Location, const TurnStage &,
                             Value address, Value counter, Value number,
                             int64_t firstWarp, int64_t bytes) const {}
  /// Starts to add what `emitPack` has written, `registers` values of each
  /// lane, to consecutive ones in global memory, from `address` on.
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
  // Counters
  //===--------------------------------------------------------------------===//

  /// Whether groups can count what they have done for others to wait for.
  virtual bool hasCounters() const { return false; }
  /// Adds `amount` to a counter in global memory once what the warp has stored,
  /// and added by `emitBulkAdd` if `hasAdded`, is seen by who waits for that.
  virtual void emitCount(OpBuilder &, Location, Value address, Value lane,
                         int64_t amount, bool hasAdded) const {}
  /// Prepares what `emitComplete` tells `emitCountCompleted` by, a number of 32
  /// bits for each of `warps` warps, which take the place of the barriers of a
  /// stage; run by one thread.
  virtual void emitInitCompleted(OpBuilder &, Location, Value numbers,
                                 int64_t warps) const {}
  /// Waits until what the warp has added by `emitBulkAdd` is there, and says
  /// so.
  virtual void emitComplete(OpBuilder &, Location, Value numbers, Value warp,
                            Value lane) const {}
  /// Waits until each of `warps` warps has said more often than `position`
  /// times that it is complete, and adds `amount` to a counter in global
  /// memory.
  virtual void emitCountCompleted(OpBuilder &, Location, Value address,
                                  Value lane, int64_t amount, Value numbers,
                                  Value position, int64_t warps) const {}
  /// Waits until a counter has reached `number`: a warp whose lane is given, or
  /// a single thread.
  virtual void emitAwaitCount(OpBuilder &, Location, Value address,
                              Value number, Value lane) const {}
  /// Starts to copy `count` times 16 bytes, which others have added to, to
  /// shared memory, `distance` bytes apart from one another.
  virtual void emitStartTake(OpBuilder &, Location, Value stage, Value address,
                             int64_t count, int64_t distance) const {}
  /// Waits for these copies of the thread.
  virtual void emitAwaitTakes(OpBuilder &, Location) const {}
  /// Reads four f32 values of a copy, and leaves zeros where they came from.
  virtual SmallVector<Value> emitTake(OpBuilder &, Location, Value stage,
                                      Value address) const {
    return {};
  }

  //===--------------------------------------------------------------------===//
  // Products
  //===--------------------------------------------------------------------===//

  /// Registers of a thread without which no instruction of a product can be
  /// assembled; 0 if every thread has enough.
  virtual int64_t getProductRegisters(attn_tile::MmaStartOp) const { return 0; }
  /// Starts a product. `lhs` is a staged tile's three values or the registers
  /// of a tile, `acc` is empty or the accumulator's registers. Returns the
  /// registers of the result, not to be touched before `emitMmaWait`.
  virtual FailureOr<SmallVector<Value>>
  emitMmaStart(OpBuilder &builder, attn_tile::MmaStartOp op, ValueRange lhs,
               const StagedTile &rhs, ValueRange acc,
               const ThreadPosition &position) const = 0;
  /// Waits for a product, or those before one that has no registers yet, after
  /// which `newer` others have been started.
  virtual SmallVector<Value> emitMmaWait(OpBuilder &builder, Location loc,
                                         ValueRange pending,
                                         int64_t newer) const = 0;

  //===--------------------------------------------------------------------===//
  // Roles
  //===--------------------------------------------------------------------===//

  /// Sets what each thread of the role may use; `before` is what it has.
  virtual void emitSetRegisters(OpBuilder &builder, Location loc,
                                int64_t registers, int64_t before) const = 0;

  //===--------------------------------------------------------------------===//
  // Staged tiles that threads read
  //===--------------------------------------------------------------------===//

  /// Reads what a thread holds of a full stage with several rows.
  virtual FailureOr<SmallVector<Value>>
  emitRead(OpBuilder &builder, attn_tile::ReadOp op, const StagedTile &stage,
           const ThreadPosition &position) const;
};

/// The target of that name, or null.
std::unique_ptr<TargetInfo> createTargetInfo(StringRef name);

} // namespace mlir::attn

#endif // ATTN_TARGET_TARGETINFO_H
