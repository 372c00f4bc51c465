//===- RowFactors.cpp - Factors of the rows of a tile --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Recognises tiles that are vectors broadcast along columns.
//
//===----------------------------------------------------------------------===//

#include "RowFactors.h"

using namespace mlir;
using namespace mlir::attn_tile;

std::optional<RowFactors> attn_tile::getRowFactors(Value tile) {
  auto broadcast = tile.getDefiningOp<vector::BroadcastOp>();
  if (!broadcast)
    return std::nullopt;
  auto column = broadcast.getSource().getDefiningOp<vector::ShapeCastOp>();
  if (!column || column.getSourceVectorType().getRank() != 1)
    return std::nullopt;
  return RowFactors{column.getSource(), column, broadcast};
}
