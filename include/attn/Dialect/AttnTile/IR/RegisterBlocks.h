//===- RegisterBlocks.h - Blocks of products on vectors ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How products of tiles are cut for the vector registers of a core, which both
// code and the model of its time depend on.
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

/// What a core has whose registers have so many lanes of 32 bits in all: at
/// least 16 registers, of at most 512 bits. 64, 128 and 512 lanes are those of
/// SSE, AVX2 and AVX-512.
Registers getVectorRegisters(int64_t lanes);

/// A block of sums that stays in registers: `rows` times `pieces` vectors of
/// `lanes` elements.
struct RegisterBlock {
  int64_t rows, pieces, lanes;
};

/// The block by which a product of `rows` rows and `columns` columns, both of
/// which it divides, is computed: the one with most multiplications for what
/// it loads.
RegisterBlock getRegisterBlock(Registers registers, int64_t rows,
                               int64_t columns);

/// Tiles are moved and transposed in blocks of this many rows and columns.
inline constexpr int64_t moveBlock = 16;

} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_IR_REGISTERBLOCKS_H
