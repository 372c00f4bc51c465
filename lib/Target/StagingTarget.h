//===- StagingTarget.h - Stages behind mbarriers --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The common base of the targets whose stages have a full and an empty mbarrier
// and tiles in blocks of 128 bytes of columns.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TARGET_STAGINGTARGET_H
#define ATTN_LIB_TARGET_STAGINGTARGET_H

#include "attn/Target/TargetInfo.h"

namespace mlir::attn {

/// Bytes of a row of one swizzled block.
inline constexpr int64_t blockRowBytes = 128;

/// Selectors of `prmt` that make the low and the high two bytes of a word the
/// upper bytes of two 16-bit values.
inline constexpr std::array<StringRef, 2> upperByteSelectors = {"0x1404",
                                                                "0x3424"};

/// Columns of a block of a staged tile.
inline int64_t getBlockColumns(attn_tile::BufferType type) {
  return blockRowBytes * 8 / type.getElementType().getIntOrFloatBitWidth();
}

/// Number of blocks of a staged tile.
inline int64_t getNumBlocks(attn_tile::BufferType type) {
  return llvm::divideCeil(type.getShape()[1], getBlockColumns(type));
}

/// Bytes of one block.
inline int64_t getBlockBytes(attn_tile::BufferType type) {
  return type.getShape()[0] * blockRowBytes;
}

class StagingTarget : public TargetInfo {
public:
  // The swizzle of tiles repeats every 1024 bytes.
  int64_t getStageAlignment() const override { return 1024; }
  int64_t getBarrierBytes() const override { return 16; }
  void emitAcquire(OpBuilder &builder, Location loc, const StagedTile &stage,
                   Value parity, attn_tile::BufferType type) const override;
  void emitWait(OpBuilder &builder, Location loc, const StagedTile &stage,
                Value parity) const override;
  LogicalResult emitLocalConvert(OpBuilder &builder,
                                 attn_tile::LocalConvertOp op,
                                 const StagedTile &source,
                                 const StagedTile &result, Value numRows,
                                 const ThreadPosition &position) const override;

protected:
  /// Waits until all threads of the role have come here.
  virtual void emitRoleBarrier(OpBuilder &builder, Location loc,
                               const ThreadPosition &position) const = 0;
  /// Makes what threads have written to shared memory visible to MMAs, before
  /// a barrier.
  virtual void emitFenceBeforeMmas(OpBuilder &builder, Location loc) const {}
  /// Converts a word of four 8-bit floats of type `from` to two words of two
  /// values of type `to`, bf16 or f16.
  virtual std::array<Value, 2> emitExtendFloat8(OpBuilder &builder,
                                                Location loc, Value word,
                                                Type from, Type to) const;

  /// Converts the thread's part of a staged tile of type `from` at `source` to
  /// one of type `to` at `result`. Calls `beforeStores` between the first loads
  /// and the first stores. Rows from `numRows` on, if given, become zero. A
  /// thread has `loadsInFlight` loads of 16 bytes in flight.
  void emitConversion(OpBuilder &builder, Location loc,
                      attn_tile::BufferType from, attn_tile::BufferType to,
                      Value source, Value result, Value numRows,
                      int64_t loadsInFlight, const ThreadPosition &position,
                      function_ref<void()> beforeStores) const;

  /// The instruction that tests a barrier, up to its operands.
  virtual StringRef getWaitInstruction() const = 0;

  /// Spins until the phase of the given parity of a barrier has completed.
  void emitBarrierWait(OpBuilder &builder, Location loc, Value barrier,
                       Value parity) const;
};

} // namespace mlir::attn

#endif // ATTN_LIB_TARGET_STAGINGTARGET_H
