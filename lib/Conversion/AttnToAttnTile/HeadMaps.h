//===- HeadMaps.h - Functions of elements of heads -------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Applies scalar regions to row tiles of a head.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_HEADMAPS_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_HEADMAPS_H

#include "attn/Dialect/AttnTile/IR/TileProgramBuilder.h"

namespace mlir::attn {

/// A tile of rows of one head, with the whole head dim or, in epilogues, a part
/// of it.
struct RowTile {
  /// f32.
  Value tile;
  Value batch, head, firstRow;
  /// The number of existing rows, from position 0 on, and the head dim; the
  /// tile may be padded beyond either.
  Value numRows;
  int64_t headDim;
  /// The first element of the head dim in the tile; null for 0.
  Value firstColumn = {};
};

/// Applies `region`, the body of attn.map_heads or the query region of
/// attention, to a tile.
Value emitHeadMap(TileProgramBuilder &b, Region &region, const RowTile &rows,
                  const IRMapping &captured);

/// Applies `region`, the epilogue of attention, to a tile.
Value emitEpilogue(TileProgramBuilder &b, Region &region, const RowTile &rows,
                   const IRMapping &captured);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_HEADMAPS_H
