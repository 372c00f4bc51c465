//===- WarpgroupShapes.h - Shapes that warps impose on tiles -*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is the same for all kernels with matrix instructions.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_WARPGROUPSHAPES_H
#define ATTN_DIALECT_ATTNTILE_IR_WARPGROUPSHAPES_H

#include <cstdint>

namespace mlir::attn_tile {

/// Threads of a warp and of a warpgroup, and rows of a tile that one warpgroup
/// computes.
inline constexpr int64_t warpThreads = 32;
inline constexpr int64_t warpgroupThreads = 128;
inline constexpr int64_t warpgroupRows = 64;
/// Matrix instructions contract over this many elements of 16 bits.
inline constexpr int64_t channelStep = 16;
/// Rows of staged tiles are padded with zeros to this many bytes.
inline constexpr int64_t columnBlockBytes = 128;

/// 32-bit registers of a multiprocessor.
inline constexpr int64_t multiprocessorRegisters = 65536;

/// Registers that each of `threads` threads of a group is launched with where
/// `groups` groups share a multiprocessor. Roles exchange some of them, but no
/// instruction can have more operands in registers than these (ptxas, CUDA
/// 13).
constexpr int64_t getLaunchedRegisters(int64_t threads, int64_t groups) {
  constexpr int64_t unit = 8, most = 255;
  int64_t registers =
      multiprocessorRegisters / (groups * threads) / unit * unit;
  return registers < most ? registers : most;
}

/// Registers of a thread without which an instruction of a warpgroup that makes
/// `columns` columns of 64 rows cannot be assembled: its sums, its left-hand
/// side if that is in registers, and what the assembler keeps for itself. A
/// kernel needs more than any of its instructions.
constexpr int64_t getProductRegisters(int64_t columns, bool hasLhsInRegisters) {
  constexpr int64_t reserved = 26, lhs = 4;
  return warpgroupRows * columns / warpgroupThreads +
         (hasLhsInRegisters ? lhs : 0) + reserved;
}

} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_IR_WARPGROUPSHAPES_H
