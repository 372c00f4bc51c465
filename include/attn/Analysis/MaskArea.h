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

#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace mlir::attn {

/// Pairs that attend in one head of `op`, by its named mask. The keep region is
/// taken to keep all pairs: it may depend on data. Up to 512 rows are counted
/// exactly; of more, as many are taken, at equal distances.
double countAttendedPairs(AttentionOpInterface op,
                          const CostAssumptions &assumptions);

/// Tiles of scores that hold attended pairs.
struct TileCounts {
  /// In one head, and those of them that hold pairs that do not attend.
  double total = 0;
  double masked = 0;
  /// The same in the row of tiles that has most of each.
  int64_t most = 0;
  int64_t mostMasked = 0;
};

/// Counts tiles that hold attended pairs. Of more than 16 rows of tiles, as
/// many are taken, at equal distances, and the last one; of each, the first,
/// the last and the one in the middle stand for all rows.
class VisitedTiles {
public:
  VisitedTiles(AttentionOpInterface op, const CostAssumptions &assumptions);

  AttentionOpInterface getOp() const { return op; }
  const CostAssumptions &getAssumptions() const { return assumptions; }
  /// Rows of tiles of `queryTile` queries in one head.
  int64_t getRows(int64_t queryTile) const;
  TileCounts count(int64_t queryTile, int64_t keyTile);

private:
  /// A row of tiles, and how many rows it stands for.
  struct Row {
    double weight;
    /// For each key and the end, the number of those before it that some
    /// queries attend, and that all do.
    std::vector<int32_t> attendedBefore, fullBefore;
  };
  ArrayRef<Row> getSampledRows(int64_t queryTile);

  AttentionOpInterface op;
  CostAssumptions assumptions;
  int64_t queries, keys;
  /// By the size of a tile.
  llvm::SmallDenseMap<int64_t, std::vector<Row>> rows;
};

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_MASKAREA_H
