//===- WorkItemList.h - Work items of sequences ----------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The work-item list of sequences of different lengths, one work item for each
// query tile or kv tile, or for each split of the keys of a query tile. A small
// kernel writes it, since only the device knows the lengths. The kernels of an
// attention or its gradient iterate over it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_WORKITEMLIST_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_WORKITEMLIST_H

#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// The tiles to list.
struct SequenceTiles {
  /// Whether they are query or kv tiles, and their number of rows.
  MaskDim rows;
  int64_t size;
  /// How many rows past the end of a sequence its tiles must cover, at least.
  int64_t extra;
  /// The schedule of the kernel that writes the list, and the end of its name.
  ScheduleAttrInterface preparation;
  StringRef suffix;
  /// With balanced splits of the keys of query tiles: the rows of a query,
  /// which are more than one where a tile packs the heads of a group; keys of a
  /// kv tile, which is not split; work items to aim at for each head, or 0 for
  /// no splits; and how many kv tiles of a split are so few that half as many
  /// work items are better.
  int64_t rowsOfQuery = 1, keyTile = 0, splitTarget = 0, fewKVTiles = 0;
};

/// Whether the splits of the keys of each query tile are work items of a list.
bool listsSplits(AttentionOpInterface attention);

/// A work item of the list: where its sequence is stored and how long it is.
struct ListedWorkItem {
  Value sequence;
  /// The position of the first row of the tile.
  Value first;
  Value queryLength, keyLength;
  /// The row at which the tile is stored in its own tensors, and at which the
  /// sequence begins in the other ones.
  Value queryRow, keyRow;
  /// The split of the keys, and the number of splits of its tile, whose work
  /// items follow one another. Null if the list has no splits.
  Value split, numSplits;
  /// Of a tile with several splits: the number of the first one among the
  /// splits of all of these tiles.
  Value firstPart;
};

/// The lists of sequences, which the caller frees.
struct SequenceLists {
  /// The work items, a row of i32 for each.
  Value workItems;
  /// If the list has splits: the tiles with several ones, a row of i32, and how
  /// many splits these have at most.
  Value splitTiles;
  int64_t maxParts = 0;
};

/// Writes the kernel that lists the work items of `op`, and its launch before
/// it.
SequenceLists listSequences(RewriterBase &rewriter, AttentionOpInterface op,
                            const SequenceTiles &tiles, SymbolTable &symbols);

/// Emits the number of work items in a list.
Value emitNumListedWorkItems(ImplicitLocOpBuilder &builder, Value workItemList);

/// Emits the number of tiles with several splits.
Value emitNumSplitTiles(ImplicitLocOpBuilder &builder, Value splitTiles);

/// Emits the work item of the first split of tile `number` of `splitTiles`.
ListedWorkItem emitSplitTile(ImplicitLocOpBuilder &builder, Value workItemList,
                             Value splitTiles, Value number);

/// Emits work item `number` of a list, with its split if `isSplit`.
ListedWorkItem emitListedWorkItem(ImplicitLocOpBuilder &builder,
                                  Value workItemList, Value number,
                                  bool isSplit = false);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_WORKITEMLIST_H
