//===- RegionVectorizer.h - Scalar regions on vectors -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Applies the scalar region of a map or mask to consecutive elements of a row.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTILETOVECTOR_REGIONVECTORIZER_H
#define ATTN_LIB_CONVERSION_ATTNTILETOVECTOR_REGIONVECTORIZER_H

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::attn_tile {

/// Elements `(query, key)` to `(query, key + lanes - 1)` of a tile of scores,
/// with `query` within its length and `key` of any value; or, of a transposed
/// tile, `(query, key)` to `(query + lanes - 1, key)` with `key` within its
/// length.
struct RowPiece {
  Value batch, head, query, key;
  bool transposed;
  /// Length of the sequence along which the lanes lie.
  Value laneLength;
  int64_t lanes;

  /// Position of the first lane along its sequence.
  Value getFirst() const { return transposed ? query : key; }
  /// Makes a buffer of `lanes` values that lives as long as the work item.
  llvm::function_ref<Value(Type elementType)> makeBuffer;
};

/// Emits the block `body` for each lane of `at`, and returns the yielded values
/// as a vector. The arguments of `body` are any number of elements and the
/// position (batch, head, query, key). `elements` holds the elements of all
/// lanes. `captured` maps values defined outside of the block.
///
/// Lanes past their length have any value, and no memory is read for them.
/// Elementwise operations become vector operations, and reads of consecutive
/// elements become vector reads. A block with any other operation is run once
/// for each lane.
Value vectorizeRegion(ImplicitLocOpBuilder &b, Block &body, ValueRange elements,
                      const RowPiece &at, const IRMapping &captured);

} // namespace mlir::attn_tile

#endif // ATTN_LIB_CONVERSION_ATTNTILETOVECTOR_REGIONVECTORIZER_H
