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
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

/// Calls `count` for at most `most` of `[0, size)`, at equal distances, and
/// returns the sum of its results, scaled to all of them.
static double sumOver(int64_t size, int64_t most,
                      function_ref<int64_t(int64_t)> count) {
  int64_t samples = std::min(size, most);
  if (samples == 0)
    return 0;
  double sum = 0;
  for (int64_t i = 0; i < samples; ++i)
    sum += double(count((2 * i + 1) * size / (2 * samples)));
  return sum * double(size) / double(samples);
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
  return sumOver(rows, mostRows,
                 [&, rows = rows, columns = columns](int64_t row) {
                   int64_t attended = 0;
                   for (int64_t column = 0; column < columns; ++column)
                     attended += mask.isAttended(row, column, rows, columns);
                   return attended;
                 });
}

double attn::countVisitedTiles(AttentionOpInterface op, int64_t queryTile,
                               int64_t keyTile,
                               const CostAssumptions &assumptions) {
  constexpr int64_t mostTiles = 128;
  auto [rows, columns] = getLengths(op, assumptions);
  int64_t rowTiles = llvm::divideCeil(rows, queryTile);
  int64_t columnTiles = llvm::divideCeil(columns, keyTile);
  MaskAttrInterface mask = op.getMaskAttr();
  if (!mask)
    return double(rowTiles) * double(columnTiles);
  // Masks change slowly from row to row: ends and middle stand for all rows.
  auto isVisited = [&, rows = rows, columns = columns](int64_t rowTile,
                                                       int64_t columnTile) {
    int64_t first = rowTile * queryTile;
    int64_t last = std::min(first + queryTile, rows) - 1;
    int64_t begin = columnTile * keyTile;
    for (int64_t row : {first, (first + last) / 2, last})
      for (int64_t column = begin, end = std::min(begin + keyTile, columns);
           column < end; ++column)
        if (mask.isAttended(row, column, rows, columns))
          return true;
    return false;
  };
  return sumOver(rowTiles, mostTiles, [&](int64_t rowTile) {
    int64_t visited = 0;
    for (int64_t columnTile = 0; columnTile < columnTiles; ++columnTile)
      visited += isVisited(rowTile, columnTile);
    return visited;
  });
}
