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
#include "attn/Interfaces/Target.h"
#include "attn/Target/TargetCapabilities.h"
#include "mlir/IR/Builders.h"

#include <algorithm>

namespace mlir::attn {

/// The converted operands of a copy of rows that are not at their index: the
/// page table and the flag of the fault, in the form of `LoweredMemRef`, and
/// the numbers of keys and pages as `i32`; or the first and the number of rows
/// that `CopyOp::getAddressing` stores, as `i32`. Otherwise all are empty.
struct CopiedRows {
  SmallVector<Value> table;
  Value numKeys, numPages;
  SmallVector<Value> fault;
  Value first, count;
};

/// A staged tile after lowering: addresses in shared memory, as `i32`.
struct StagedTile {
  /// First byte of the stage.
  Value address;
  /// Barriers of the stage; their layout depends on the target.
  Value full;
  Value empty;
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
class TargetInfo : public Target {
public:
  /// Bytes of a warp's progress counter (see `emitInitCompleted`).
  static constexpr int64_t numberBytes = 4;

  const TargetInfo *getTargetInfo() const final { return this; }
  bool supportsElementType(Type type) const override {
    return getMma(type, /*isHighest=*/true) != nullptr;
  }
  StringRef describeElementTypes() const override { return "bf16, f16 or f32"; }
  int64_t getHeadDimUnit() const override { return 8; }
  int64_t getMaxHeadDim() const override { return 576; }
  int64_t getMaxWholeHeadDim() const override {
    return std::min(getMaxHeadDim(), attn_tile::maxMmaColumns);
  }

  /// The first version of PTX that has the architecture, times 10.
  virtual int64_t getMinPTXVersion() const = 0;
  /// The instructions that `kernel` is written in: the target's own, or those
  /// of an older architecture that it runs, too.
  virtual const TargetInfo &getKernelInfo(attn_tile::KernelOp kernel) const {
    return *this;
  }

  /// The instruction of `op`: its own, or else the target's for its elements
  /// and the precision of its kernel. Reports an instruction that the target
  /// does not have.
  FailureOr<attn_tile::MmaAttrInterface>
  getMmaOf(attn_tile::MmaStartOp op) const;

  /// Whether later architectures run code for this one, if it is kept as PTX.
  virtual bool isForwardCompatible() const { return false; }
  /// Whether a kernel can begin while the kernel before it runs (programmatic
  /// dependent launch).
  virtual bool hasEarlyLaunches() const { return false; }

  //===--------------------------------------------------------------------===//
  // Optional capabilities, null if the architecture lacks them
  //===--------------------------------------------------------------------===//

  virtual const ClusterTarget *getClusters() const { return nullptr; }
  virtual const BulkReductionTarget *getBulkReductions() const {
    return nullptr;
  }
  virtual const SemaphoreTarget *getSemaphores() const { return nullptr; }
  virtual const OrderedAccumulationTarget *getOrderedAccumulation() const {
    return nullptr;
  }
  virtual const TileConversionTarget *getConversions() const { return nullptr; }

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
  /// Waits until the stage is empty; `parity` is the parity of the number of
  /// its use, from 0.
  virtual void emitAcquire(OpBuilder &builder, Location loc,
                           const StagedTile &stage, Value parity,
                           attn_tile::BufferType type) const = 0;
  /// Starts the copy of a tile. `source` is the converted source of the copy,
  /// and `rows` the converted operands of rows that are not at their index.
  virtual LogicalResult emitCopy(OpBuilder &builder, attn_tile::CopyOp op,
                                 ValueRange source, ValueRange indices,
                                 const CopiedRows &rows,
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
  /// Converts the tile of a full stage `source` of 8-bit elements to a stage
  /// `result` of 16-bit ones, after all threads of the role have reached it and
  /// until all have converted their parts; then MMAs may read it. Rows from
  /// `numRows` on, if given, become zero.
  virtual LogicalResult
  emitLocalConvert(OpBuilder &builder, attn_tile::LocalConvertOp op,
                   const StagedTile &source, const StagedTile &result,
                   Value numRows, const ThreadPosition &position) const;
  /// Transposes an 8x8 block of 16-bit values, of which lane `4 * i + q` of a
  /// warp holds columns `2 * q` and `2 * q + 1` of row `i` as one word.
  virtual Value emitTransposeBlock(OpBuilder &builder, Location loc,
                                   Value word) const;
  /// Adds four f32 values to consecutive ones in global memory, each addition
  /// being atomic.
  virtual void emitAtomicAdd(OpBuilder &builder, Location loc, Value address,
                             ValueRange values) const;
  /// Stores a tile, `values` of each thread, through the stages of a pipe, of
  /// which `stages` is the first.
  virtual LogicalResult emitStoreThrough(OpBuilder &builder,
                                         attn_tile::StoreThroughOp op,
                                         ValueRange values, ValueRange dest,
                                         ValueRange indices, Value stages,
                                         const ThreadPosition &position) const;

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

/// Registers the targets of the project: `host` and the GPU architectures.
void registerAllTargets();

/// The registered GPU architecture of that name, which is also LLVM's name of
/// the chip; null if there is none.
const TargetInfo *lookupTargetInfo(StringRef name);

/// The registered GPU architecture of that name; otherwise reports an error on
/// `op` that names the registered ones.
FailureOr<const TargetInfo *> lookupTargetInfo(Operation *op, StringRef name);

} // namespace mlir::attn

#endif // ATTN_TARGET_TARGETINFO_H
