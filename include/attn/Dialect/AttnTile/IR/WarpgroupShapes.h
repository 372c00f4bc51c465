//===- WarpgroupShapes.h - Shapes that warps impose on tiles ---*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Constants of all kernels that use MMA instructions.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_WARPGROUPSHAPES_H
#define ATTN_DIALECT_ATTNTILE_IR_WARPGROUPSHAPES_H

#include <cstdint>

namespace mlir::attn_tile {

/// Threads of a warp and of a warpgroup, and rows of the MMA of one warpgroup.
inline constexpr int64_t warpThreads = 32;
inline constexpr int64_t warpgroupThreads = 128;
inline constexpr int64_t warpgroupRows = 64;
/// Rows of these that one warp has.
inline constexpr int64_t warpRows = warpgroupRows / 4;
/// The most columns of that MMA, and so of heads that a kernel computes whole.
inline constexpr int64_t maxMmaColumns = 256;
/// 16-bit elements that one MMA instruction contracts over.
inline constexpr int64_t headDimStep = 16;
/// Rows of staged tiles are padded with zeros to this many bytes.
inline constexpr int64_t columnBlockBytes = 128;

/// The element that index `index` of the contracted dimension of an MMA of
/// 8-bit elements has, whose left-hand side is the accumulator of another MMA:
/// of each 16 indices, a lane of a quad has four, and two pairs of columns of
/// the accumulator (PTX ISA, "Register fragments for wgmma.mma_async.m64k32").
constexpr int64_t getElementOfIndex(int64_t index) {
  constexpr int64_t period = 16, ofLane = 4, pair = 2, atom = 8;
  int64_t inPeriod = index % period, inLane = inPeriod % ofLane;
  return index - inPeriod + inPeriod / ofLane * pair + inLane % pair +
         inLane / pair * atom;
}

/// 32-bit registers of an SM.
inline constexpr int64_t smRegisters = 65536;

/// Registers per thread at the launch of a CTA of `threads` threads, where
/// `ctasPerSm` CTAs share an SM. `setmaxnreg` redistributes registers between
/// roles, but no instruction can have more register operands than this number
/// (ptxas, CUDA 13).
constexpr int64_t getLaunchedRegisters(int64_t threads, int64_t ctasPerSm) {
  constexpr int64_t unit = 8, most = 255;
  int64_t registers = smRegisters / (ctasPerSm * threads) / unit * unit;
  return registers < most ? registers : most;
}

/// Registers per thread that ptxas needs to assemble an MMA of a warpgroup with
/// 64 rows and `columns` columns: its accumulators, its left-hand side if that
/// is in registers, and registers that ptxas reserves. A kernel needs more than
/// any of its instructions.
constexpr int64_t getMmaRegisters(int64_t columns, bool hasLhsInRegisters) {
  constexpr int64_t reserved = 26, lhs = 4;
  return warpgroupRows * columns / warpgroupThreads +
         (hasLhsInRegisters ? lhs : 0) + reserved;
}

} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_IR_WARPGROUPSHAPES_H
