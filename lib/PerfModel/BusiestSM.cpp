//===- BusiestSM.cpp - The SM with the most steps -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Distributes work items to SMs as kernels do (`WorkItemIteration`). Rows of
// tiles differ in length under masks, and how evenly SMs share them depends on
// the number of SMs, rows and heads: some numbers give an SM long rows in each
// round.
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/BusiestSM.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <tuple>

using namespace mlir;
using namespace mlir::attn_tile;

/// The row of tiles of work item `item`. Rows are visited from the last one to
/// the first one.
static int64_t getRow(int64_t item, int64_t numRows, int64_t combinations,
                      int64_t interleave) {
  int64_t together =
      interleave == 0 ? combinations : std::min(interleave, combinations);
  int64_t section = item / (numRows * together);
  int64_t width = std::min(together, combinations - section * together);
  return numRows - 1 - (item - section * numRows * together) / width;
}

std::optional<SMWork> attn_tile::findBusiestSM(ArrayRef<attn::RowCounts> rows,
                                               double combinations,
                                               int64_t programs,
                                               int64_t interleave) {
  constexpr double maxWorkItems = 1 << 16;
  auto numRows = int64_t(rows.size());
  if (rows.empty() || combinations * double(numRows) > maxWorkItems)
    return std::nullopt;
  int64_t total = int64_t(combinations) * numRows;
  SmallVector<SMWork> sms(programs);
  for (int64_t item = 0; item < total; ++item) {
    // Every other round is in reverse order.
    int64_t round = item / programs, place = item % programs;
    int64_t width = std::min(programs, total - round * programs);
    SMWork &sm = sms[round % 2 == 0 ? place : width - 1 - place];
    const attn::RowCounts &row =
        rows[getRow(item, numRows, int64_t(combinations), interleave)];
    sm.steps += row.visited;
    sm.masked += row.masked;
    ++sm.workItems;
  }
  auto rank = [](const SMWork &sm) {
    return std::tuple(sm.steps, sm.workItems, sm.masked);
  };
  return *llvm::max_element(
      sms, [&](const SMWork &a, const SMWork &b) { return rank(a) < rank(b); });
}
