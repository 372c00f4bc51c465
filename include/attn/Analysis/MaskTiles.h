//===- MaskTiles.h - Code for what a tile attends --------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the closed forms that `MaskAnalysis` derives.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_MASKTILES_H
#define ATTN_ANALYSIS_MASKTILES_H

#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Region.h"

namespace mlir::attn {

/// The mask of one batch entry and head: a mask attribute and a mask_mod region
/// with the arguments (batch, head, query, key) that yields an `i1`. Each may
/// be absent.
struct ScoreMask {
  MaskAttrInterface mask;
  Region *maskMod = nullptr;
  Value batch, head;
  Value queryLength, keyLength;
};

/// The predicate of a mask in a block of its own.
class PredicateBlock {
public:
  PredicateBlock(Location loc, const ScoreMask &mask);

  const MaskAnalysis::Positions &getPositions() { return positions; }
  /// Null if every pair is attended.
  Value getPredicate() { return predicate; }
  /// Its arguments are the positions. It also uses the values that the mask
  /// captures.
  Block *getBlock() { return &region.front(); }

private:
  Region region;
  MaskAnalysis::Positions positions;
  Value predicate;
};

/// A range `[begin, end)` of tiles or positions, which may be empty.
struct IndexRange {
  Value begin;
  Value end;
};

/// The tiles to visit, each in one range: partial tiles, in which some pair may
/// be masked out or which reach beyond the number of keys, and full tiles.
/// Ranges of one kind are in descending order.
struct TileRanges {
  SmallVector<IndexRange> masked;
  SmallVector<IndexRange> full;
};

/// Emits the tiles to visit for one tile of size `tileSize` in dimension `dim`,
/// whose first position is `first`, a multiple of its size. Visited tiles have
/// size `streamedTileSize` in the other dimension. Sets `isLimited` if more
/// work for the analysis could give fewer tiles. The work counts for `total`,
/// if given.
TileRanges emitTileRanges(OpBuilder &builder, Location loc,
                          const ScoreMask &mask, MaskDim dim, Value first,
                          int64_t tileSize, int64_t streamedTileSize,
                          bool *isLimited = nullptr,
                          WorkBudget *total = nullptr);

/// Whether closed forms give the tiles of the mask of `op`: its parts are
/// piecewise affine, their analysis stays within its budget, and few ranges
/// hold the tiles of a row.
bool hasClosedFormTiles(AttentionOpInterface op);

/// Reports that the mask of a kernel took too much work to analyse.
void reportLimitedTiles(Location loc);

/// Reports that the mask took too much work to analyse for each of the
/// schedules among which one is chosen.
void reportLimitedEstimates(Location loc);

/// The tiles of several ranges as the steps of one loop, range after range.
class TileIteration {
public:
  /// Each range is iterated from its last tile to its first one if
  /// `isDescending`, else from the first to the last.
  explicit TileIteration(bool isDescending) : isDescending(isDescending) {}

  /// Adds the tiles of `ranges`, which are in descending order. `firstStep` is
  /// the number of steps so far; returns the number including the new ones.
  Value add(ImplicitLocOpBuilder &b, ArrayRef<IndexRange> ranges,
            Value firstStep);

  /// Emits the tile that a step visits.
  Value emitTile(ImplicitLocOpBuilder &b, Value step) const;

  /// Number of parts from which each step selects one.
  size_t getNumParts() const { return parts.size(); }

private:
  /// From `firstStep` on, step `t` visits tile `base + t`, or `base - t` in
  /// descending order.
  struct Part {
    Value firstStep, base;
  };

  bool isDescending;
  SmallVector<Part> parts;
  /// The end of the last added range, in the direction of iteration.
  Value streamedTo;
};

/// The positions that one position in dimension `dim` attends in the other
/// dimension, as ranges within the length that may overlap. Absent if they are
/// not known exactly or are more than `maxRanges`. A null `begin` means zero.
std::optional<SmallVector<IndexRange>>
emitAttendedRanges(OpBuilder &builder, Location loc, const ScoreMask &mask,
                   MaskDim dim, Value position, unsigned maxRanges);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_MASKTILES_H
