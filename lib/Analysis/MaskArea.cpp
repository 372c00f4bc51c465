//===- MaskArea.cpp - How much of the scores a mask leaves ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates named masks at some rows.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <array>
#include <vector>

using namespace mlir;
using namespace mlir::attn;

/// Calls `visit` for at most `most` of `[0, size)`, at equal distances, with
/// how many each of them stands for.
static void forEachSample(int64_t size, int64_t most,
                          function_ref<void(int64_t, double)> visit) {
  int64_t samples = std::min(size, most);
  for (int64_t i = 0; i < samples; ++i)
    visit((2 * i + 1) * size / (2 * samples), double(size) / double(samples));
}

static std::pair<int64_t, int64_t>
getLengths(AttentionOpInterface op, const CostAssumptions &assumptions) {
  return {assumptions.getSize(getDimSize(op.getQuery(), 2)),
          assumptions.getSize(getDimSize(op.getKey(), 2))};
}

double attn::countAttendedPairs(AttentionOpInterface op,
                                const CostAssumptions &assumptions) {
  constexpr int64_t mostRows = 512;
  auto [rows, columns] = getLengths(op, assumptions);
  MaskAttrInterface mask = op.getMaskAttr();
  if (!mask)
    return double(rows) * double(columns);
  double pairs = 0;
  forEachSample(
      rows, mostRows,
      [&, rows = rows, columns = columns](int64_t row, double weight) {
        int64_t attended = 0;
        for (int64_t column = 0; column < columns; ++column)
          attended += mask.isAttended(row, column, rows, columns);
        pairs += weight * double(attended);
      });
  return pairs;
}

VisitedTiles::VisitedTiles(AttentionOpInterface op,
                           const CostAssumptions &assumptions)
    : op(op), assumptions(assumptions) {
  std::tie(queries, keys) = getLengths(op, assumptions);
}

int64_t VisitedTiles::getRows(int64_t queryTile) const {
  return llvm::divideCeil(queries, queryTile);
}

ArrayRef<VisitedTiles::Row> VisitedTiles::getSampledRows(int64_t queryTile) {
  constexpr int64_t mostRows = 16;
  std::vector<Row> &samples = rows[queryTile];
  if (!samples.empty())
    return samples;
  MaskAttrInterface mask = op.getMaskAttr();
  auto sample = [&](int64_t rowTile, double weight) {
    int64_t first = rowTile * queryTile;
    int64_t last = std::min(first + queryTile, queries) - 1;
    Row row{weight, std::vector<int32_t>(keys + 1),
            std::vector<int32_t>(keys + 1)};
    for (int64_t key = 0; key < keys; ++key) {
      auto isAttended = [&](int64_t query) {
        return mask.isAttended(query, key, queries, keys);
      };
      std::array<int64_t, 3> rows = {first, (first + last) / 2, last};
      row.attendedBefore[key + 1] =
          row.attendedBefore[key] + llvm::any_of(rows, isAttended);
      row.fullBefore[key + 1] =
          row.fullBefore[key] + llvm::all_of(rows, isAttended);
    }
    samples.push_back(std::move(row));
  };
  int64_t rowTiles = getRows(queryTile);
  forEachSample(rowTiles, mostRows, sample);
  if (rowTiles > mostRows)
    sample(rowTiles - 1, 0);
  return samples;
}

TileCounts VisitedTiles::count(int64_t queryTile, int64_t keyTile) {
  TileCounts counts;
  if (!op.getMaskAttr()) {
    // The last keys may fill a part of their tile.
    counts.most = llvm::divideCeil(keys, keyTile);
    counts.mostMasked = keys % keyTile != 0;
    double rowTiles = double(getRows(queryTile));
    counts.total = rowTiles * double(counts.most);
    counts.masked = rowTiles * double(counts.mostMasked);
    return counts;
  }
  for (const Row &row : getSampledRows(queryTile)) {
    int64_t visited = 0, masked = 0;
    for (int64_t key = 0; key < keys; key += keyTile) {
      int64_t end = std::min(key + keyTile, keys);
      if (row.attendedBefore[end] == row.attendedBefore[key])
        continue;
      ++visited;
      masked += row.fullBefore[end] - row.fullBefore[key] < keyTile;
    }
    counts.total += row.weight * double(visited);
    counts.masked += row.weight * double(masked);
    counts.most = std::max(counts.most, visited);
    counts.mostMasked = std::max(counts.mostMasked, masked);
  }
  return counts;
}
