//===- MmaSync.h - The MMA instructions of a warp -------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits mma.sync, which all GPU targets have.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TARGET_MMASYNC_H
#define ATTN_TARGET_MMASYNC_H

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/IR/Builders.h"

#include <array>

namespace mlir::attn {

/// The registers of an operand of one MMA. Elements that are split into two
/// multiplicands have the smaller ones in `low`.
struct MmaFragment {
  SmallVector<Value, 4> high, low;
};

/// The block of an accumulator that an MMA adds to.
using MmaBlock = std::array<Value, 4>;

/// How an f32 value is split into two tf32 values. The larger one is truncated,
/// which keeps all finite values finite, or rounded, for values far below the
/// largest finite one. Rounding makes the term that MMAs leave out a quarter of
/// the size, and removes its bias.
enum class TF32Split { Truncated, Rounded };

/// Rounds f32 values, given as words or as floats, to multiplicands of `mma`.
MmaFragment makeMmaFragment(OpBuilder &builder, Location loc,
                            attn_tile::MmaAttrInterface mma, ValueRange values,
                            TF32Split split = TF32Split::Truncated);

/// One MMA, which adds to `block`.
void emitMmaSync(OpBuilder &builder, Location loc,
                 attn_tile::MmaAttrInterface mma, ValueRange lhs,
                 ValueRange rhs, MmaBlock &block);

/// The parts of two fragments that an MMA multiplies and adds, smallest first.
SmallVector<std::pair<ValueRange, ValueRange>, 3>
getMmaTerms(const MmaFragment &lhs, const MmaFragment &rhs);

} // namespace mlir::attn

#endif // ATTN_TARGET_MMASYNC_H
