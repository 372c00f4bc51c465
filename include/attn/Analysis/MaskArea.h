//===- MaskArea.h - How much of the scores a mask leaves -------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts of attended pairs and of visited tiles.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_MASKAREA_H
#define ATTN_ANALYSIS_MASKAREA_H

#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "llvm/ADT/SmallVector.h"

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace mlir::attn {

/// Pairs that attend in one head of `op`, by its named mask. The mask_mod
/// region is assumed to keep all pairs: it may depend on data. If there are
/// more than 512 rows, 512 equidistant ones are counted. Within a row, closed
/// forms are exact. Where they decide nothing, ranges of up to 1024 keys are
/// counted exactly, and 1024 keys of longer ranges are sampled.
double countAttendedPairs(AttentionOpInterface op,
                          const CostAssumptions &assumptions);

/// The visited tiles of one row of tiles, as ranges `[begin, end)` of tile
/// indices that are not empty: masked and full tiles.
struct TileRow {
  using Range = std::pair<int64_t, int64_t>;
  SmallVector<Range> masked, full;
};

/// Visited tiles of one row of tiles, and the masked ones among them.
struct RowCounts {
  int64_t visited = 0, masked = 0;
};

/// Tiles of scores that a kernel visits.
struct TileCounts {
  /// All visited tiles in one head, and the masked ones among them.
  double total = 0;
  double masked = 0;
  /// The same counts in the row with the most visited or partial tiles.
  int64_t most = 0;
  int64_t mostMasked = 0;
  /// The counts of each row; empty where not all rows have been counted.
  std::vector<RowCounts> rows;
};

/// The tiles that kernels visit, found by evaluating the kernels' own code for
/// one batch entry and head, with static or assumed sizes. The number and the
/// length of sequences are the ones assumed for dynamic sizes.
class VisitedTiles {
public:
  /// The work of analyses counts for `shared`, if given, else for a budget of
  /// this object. Once it is exhausted, all tiles count as partial.
  VisitedTiles(AttentionOpInterface op, const CostAssumptions &assumptions,
               int64_t batch = 0, int64_t head = 0,
               std::shared_ptr<WorkBudget> shared = nullptr);

  /// A budget for all analyses of one attention.
  static std::shared_ptr<WorkBudget> createBudget();

  /// Whether more work would have made counts more precise.
  bool isLimited() const { return budget->isExhausted(); }

  /// Makes the assumed sizes examples of sizes that are known only at run time:
  /// other lengths, and other numbers of heads, are as likely.
  void setTypicalSizes() { areSizesTypical = true; }
  /// Whether kernels run with these sizes, rather than with ones like them.
  bool areSizesExact() const { return !areSizesTypical; }

  AttentionOpInterface getOp() const { return op; }
  /// Query heads of all batch entries or sequences.
  double getNumHeads() const;
  /// Queries and keys of one head.
  int64_t getNumQueries() const { return queries; }
  int64_t getNumKeys() const { return keys; }
  /// Rows of tiles of `queryTile` queries in one head.
  int64_t getNumRows(int64_t queryTile) const;

  /// All rows of tiles; `std::nullopt` if the visited tiles depend on values
  /// that are known only at run time.
  std::optional<std::vector<TileRow>> getRows(int64_t queryTile,
                                              int64_t keyTile) const;
  /// The rows of these numbers alone.
  std::optional<std::vector<TileRow>>
  getRows(int64_t queryTile, int64_t keyTile, ArrayRef<int64_t> numbers) const;

  /// Counts the tiles that the rows visit. A row belongs to a query tile, or to
  /// a key tile if `dim` says so. `attn.tile_density`, if present, gives the
  /// counts. Otherwise a mask_mod region that depends on run-time values, and a
  /// mask that reads operands, are assumed to keep all pairs. If there are more
  /// than 1024 rows, 1024 equidistant ones and the last one are counted.
  const TileCounts &count(int64_t queryTile, int64_t keyTile,
                          MaskDim dim = MaskDim::Query) const;

private:
  TileCounts compute(int64_t queryTile, int64_t keyTile, MaskDim dim) const;

  AttentionOpInterface op;
  CostAssumptions assumptions;
  int64_t batch, head;
  int64_t queries, keys;
  bool areSizesTypical = false;
  std::shared_ptr<WorkBudget> budget;
  /// What has been counted, by the tiles and the dimension.
  mutable std::map<std::tuple<int64_t, int64_t, MaskDim>, TileCounts> counted;
};

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_MASKAREA_H
