//===- HeadMaps.h - Functions of elements of heads --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tiles of rows of channels that go through a region.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_HEADMAPS_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_HEADMAPS_H

#include "TileProgramBuilder.h"

namespace mlir::attn {

/// A tile of rows of one head and all their channels.
struct RowTile {
  /// f32.
  Value tile;
  Value batch, head, firstRow;
  /// Rows that there are, from position 0 on, and channels, which the tile may
  /// have more of.
  Value numRows;
  int64_t numChannels;
};

/// What `region`, the body of attn.map_heads or the query region of attention,
/// makes of a tile.
Value emitHeadMap(TileProgramBuilder &b, Region &region, const RowTile &rows,
                  const IRMapping &captured);

/// What `region`, the epilogue of attention, makes of a tile.
Value emitEpilogue(TileProgramBuilder &b, Region &region, const RowTile &rows,
                   const IRMapping &captured);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_HEADMAPS_H
