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

} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_IR_WARPGROUPSHAPES_H
