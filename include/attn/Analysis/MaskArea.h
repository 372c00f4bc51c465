//===- MaskArea.h - How much of the scores a mask leaves -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts of attended pairs and of the tiles that hold them.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_MASKAREA_H
#define ATTN_ANALYSIS_MASKAREA_H

#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <utility>
#include <vector>

namespace mlir::attn {

/// Pairs that attend in one head of `op`, by its named mask. The keep region is
/// taken to keep all pairs: it may depend on data. Up to 512 rows are counted;
/// of more, as many are taken, at equal distances. Of a row what closed forms
/// say is exact; of what they leave open, each range of up to 1024 keys is
/// counted, and of more, as many keys are asked about.
double countAttendedPairs(AttentionOpInterface op,
                          const CostAssumptions &assumptions);

/// Numbers of tiles of one row of tiles, as ranges `[begin, end)` that are not
/// empty: those with code for masks, and the others.
struct TileRow {
  using Range = std::pair<int64_t, int64_t>;
  SmallVector<Range> masked, full;
};

/// Tiles of scores that a kernel visits.
struct TileCounts {
  /// In one head, and those of them that have code for masks.
  double total = 0;
  double masked = 0;
  /// The same in the row of tiles that has most of each.
  int64_t most = 0;
  int64_t mostMasked = 0;
};

/// The tiles that kernels visit: what the code that they find them with gives
/// for one batch and head, of sizes that are static or assumed. Sequences are
/// taken to be as many, and as long, as is assumed of dynamic sizes.
class VisitedTiles {
public:
  VisitedTiles(AttentionOpInterface op, const CostAssumptions &assumptions,
               int64_t batch = 0, int64_t head = 0);

  AttentionOpInterface getOp() const { return op; }
  /// Query heads of all batch entries or sequences.
  double getNumHeads() const;
  /// Queries and keys of one head.
  int64_t getNumQueries() const { return queries; }
  int64_t getNumKeys() const { return keys; }
  /// Rows of tiles of `queryTile` queries in one head.
  int64_t getNumRows(int64_t queryTile) const;

  /// All rows of tiles; `std::nullopt` if what they visit depends on values
  /// that are known at run time alone.
  std::optional<std::vector<TileRow>> getRows(int64_t queryTile,
                                              int64_t keyTile) const;

  /// Counts what the rows visit, each of which is a tile of queries, or with
  /// `dim` a tile of keys: what `attn.tile_density` says, if it is there. A
  /// keep region that depends on such values, and a mask that reads operands,
  /// are taken to keep all pairs otherwise. Of more than 1024 rows as many are
  /// counted, at equal distances, and the last one.
  TileCounts count(int64_t queryTile, int64_t keyTile,
                   MaskDim dim = MaskDim::Query) const;

private:
  AttentionOpInterface op;
  CostAssumptions assumptions;
  int64_t batch, head;
  int64_t queries, keys;
};

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_MASKAREA_H
