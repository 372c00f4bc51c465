//===- RegisterBlocks.h - Register blocking of matmuls --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Register blocking of matmuls of tiles on a CPU core. Code generation and the
// cost model share it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_REGISTERBLOCKS_H
#define ATTN_DIALECT_ATTNTILE_IR_REGISTERBLOCKS_H

#include <cstdint>

namespace mlir::attn_tile {

/// The vector registers of the target.
struct Registers {
  int64_t lanes;
  int64_t count;
};

/// The registers of a core that has `lanes` 32-bit lanes in all its vector
/// registers together: at least 16 registers of at most 512 bits. SSE has 64
/// lanes, AVX2 128 and AVX-512 512.
Registers getVectorRegisters(int64_t lanes);

/// A block of accumulators that stays in registers: `rows` times `pieces`
/// vectors of `lanes` elements.
struct RegisterBlock {
  int64_t rows, pieces, lanes;
};

/// The register block for a result of `rows` rows and `columns` columns, both
/// of which it divides: the block with the most multiplications per load.
RegisterBlock getRegisterBlock(Registers registers, int64_t rows,
                               int64_t columns);

/// Tiles are moved and transposed in blocks of this many rows and columns.
inline constexpr int64_t moveBlock = 16;

} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_IR_REGISTERBLOCKS_H
