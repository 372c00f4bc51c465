//===- RowFactors.h - Factors of the rows of a tile -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The online softmax multiplies each row of an accumulator by a factor of its
// own. Passes that move or skip this multiplication recognise its factors.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ROWFACTORS_H
#define ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ROWFACTORS_H

#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::attn_tile {

/// A vector with one element for each row, and its broadcast to a tile.
struct RowFactors {
  Value rows;
  /// `rows` as a column, and that column as a tile.
  vector::ShapeCastOp column;
  vector::BroadcastOp tile;
};

/// The vector that `tile` broadcasts along columns, if any.
std::optional<RowFactors> getRowFactors(Value tile);

} // namespace mlir::attn_tile

#endif // ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ROWFACTORS_H
