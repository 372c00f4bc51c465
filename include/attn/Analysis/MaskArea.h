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

namespace mlir::attn {

/// Pairs that attend in one head of `op`, by its named mask. The keep region is
/// taken to keep all pairs: it may depend on data. Up to 512 rows are counted
/// exactly; of more, as many are taken, at equal distances.
double countAttendedPairs(AttentionOpInterface op,
                          const CostAssumptions &assumptions);

/// Tiles of `queryTile` times `keyTile` that hold such pairs; of more than 128
/// rows of tiles, as many are taken.
double countVisitedTiles(AttentionOpInterface op, int64_t queryTile,
                         int64_t keyTile, const CostAssumptions &assumptions);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_MASKAREA_H
