//===- MaskTiles.h - Code for what a tile attends ---------------*- C++ -*-===//
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

/// What decides which pairs attend: a mask attribute and a region with the
/// arguments (batch, head, query, key) that yields an `i1`, each of which may
/// be absent, for one batch and head.
struct ScoreMask {
  MaskAttrInterface mask;
  Region *keep = nullptr;
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
  /// Refers to values that the mask refers to, beside its arguments, which are
  /// the positions.
  Block *getBlock() { return &region.front(); }

private:
  Region region;
  MaskAnalysis::Positions positions;
  Value predicate;
};

/// Numbers `[begin, end)`, which may be none, of tiles or positions.
struct IndexRange {
  Value begin;
  Value end;
};

/// The tiles to visit, each in one range: those in which some pair may be
/// masked or that reach beyond the number of keys, and those in which none is.
/// Ranges of one kind are in descending order.
struct TileRanges {
  SmallVector<IndexRange> masked;
  SmallVector<IndexRange> full;
};

/// Emits the tiles of size `walkedSize` that the tile of size `tileSize` whose
/// first position in dimension `dim` is `first`, a multiple of its size, has to
/// visit in the other dimension. What could not be analysed is added to
/// `notAffine`.
TileRanges emitTileRanges(OpBuilder &builder, Location loc,
                          const ScoreMask &mask, MaskDim dim, Value first,
                          int64_t tileSize, int64_t walkedSize,
                          std::vector<NotAffine> *notAffine = nullptr);

/// The tiles of ranges as the steps of a loop, those of one range after those
/// of another.
class TileWalk {
public:
  /// Each range is walked from its last tile to its first one if
  /// `isDescending`, else the other way round.
  explicit TileWalk(bool isDescending) : isDescending(isDescending) {}

  /// Adds the tiles of `ranges`, which are in descending order. `firstStep` is
  /// the number of steps before; returns that of steps with them.
  Value add(ImplicitLocOpBuilder &b, ArrayRef<IndexRange> ranges,
            Value firstStep);

  /// Emits the tile that a step visits.
  Value emitTile(ImplicitLocOpBuilder &b, Value step) const;

  /// Parts between which a step selects.
  size_t getNumParts() const { return parts.size(); }

private:
  /// Step `t` of those from `firstStep` on visits tile `base + t`, or
  /// `base - t` in a descending walk.
  struct Part {
    Value firstStep, base;
  };

  bool isDescending;
  SmallVector<Part> parts;
  /// Where the range that was last added ended.
  Value walkedTo;
};

/// The positions that one position in dimension `dim` attends in the other one,
/// as ranges that may overlap, within the length. Absent if they are not known
/// exactly or more than `maxRanges`. A `begin` of null stands for zero.
std::optional<SmallVector<IndexRange>>
emitAttendedRanges(OpBuilder &builder, Location loc, const ScoreMask &mask,
                   MaskDim dim, Value position, unsigned maxRanges);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_MASKTILES_H
