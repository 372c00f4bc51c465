//===- HeadSources.h - Sources of views of heads ----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Follows keys or values back through transpositions, reshapes, slices,
// broadcasts and concatenations along the head dim, to the tensors that have
// their elements, in any order of these operations.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_FUSION_HEADSOURCES_H
#define ATTN_LIB_FUSION_HEADSOURCES_H

#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/SmallVector.h"

#include <array>
#include <optional>
#include <utility>

namespace mlir::tensor {
class ExtractSliceOp;
} // namespace mlir::tensor

namespace mlir::attn {

/// Coordinates of an element of heads, `[B, H, S, D]`.
enum HeadCoordinate : unsigned { Batch, Head, Position, HeadDim };

/// An index of a dimension of a tensor, as a sum of coordinates. Coordinates of
/// size one are left out.
struct HeadIndex {
  struct Term {
    HeadCoordinate coordinate;
    /// Dynamic: the number of positions.
    int64_t stride;

    bool operator==(const Term &other) const {
      return coordinate == other.coordinate && stride == other.stride;
    }
  };

  bool operator==(const HeadIndex &other) const {
    return offset == other.offset && terms == other.terms;
  }
  bool operator!=(const HeadIndex &other) const { return !(*this == other); }

  /// The stride of `coordinate`, 0 if it is not used.
  int64_t getStride(HeadCoordinate coordinate) const;
  void add(const HeadIndex &other);

  int64_t offset = 0;
  /// By the order of coordinates.
  SmallVector<Term, 2> terms;
};

/// The source of elements `[begin, end)` of the head dim.
struct HeadPart {
  bool isUsedByHead() const;

  int64_t begin = 0, end = 0;
  /// The element at `indices` is the element of heads at the coordinates.
  /// `source` is no known view, or does not depend on the head.
  Value source;
  SmallVector<HeadIndex> indices;
  /// The operations between, users first.
  SmallVector<Operation *> views;
};

/// The sources of `heads`, of type `[B, H, S, D]`.
class HeadSources {
public:
  explicit HeadSources(Value heads);

  /// Sorted by the head dim.
  ArrayRef<HeadPart> getParts() const { return parts; }
  /// Whether there is a static size of `coordinate`, which is 1.
  bool isSingle(HeadCoordinate coordinate) const {
    return sizes[coordinate] == 1;
  }
  int64_t getSize(HeadCoordinate coordinate) const { return sizes[coordinate]; }
  /// A size that needs none of the views; null if it is not known.
  OpFoldResult getMixedSize(HeadCoordinate coordinate) const {
    return mixedSizes[coordinate];
  }
  /// The index that is `coordinate` itself.
  HeadIndex getIndex(HeadCoordinate coordinate) const;

private:
  void trace(HeadPart part);
  /// Replaces `part.source` by the tensor that it is a view of; false if it is
  /// none.
  bool step(HeadPart &part);
  /// Follows both operands of a concatenation, in `part` and by `trace`.
  bool stepIntoParts(HeadPart &part);
  /// Traces `part` restricted to `[begin, end)` of the head dim.
  void traceRange(HeadPart part, Value source, int64_t dim, int64_t begin,
                  int64_t end, int64_t shift);

  std::optional<SmallVector<HeadIndex>>
  linearize(ArrayRef<HeadIndex> indices, RankedTensorType large,
            ArrayRef<ReassociationIndices> groups,
            ArrayRef<OpFoldResult> largeSizes);
  std::optional<SmallVector<HeadIndex>>
  delinearize(const HeadPart &part, RankedTensorType large,
              ArrayRef<ReassociationIndices> groups);
  /// The quotient and the remainder of an index of `part`, divided by `size`,
  /// where the remainder is known to be less than `size`.
  std::optional<std::pair<HeadIndex, HeadIndex>>
  divide(const HeadPart &part, const HeadIndex &index, int64_t size) const;
  /// The indices of `part` in the source of a slice.
  std::optional<SmallVector<HeadIndex>>
  getSlicedIndices(const HeadPart &part, tensor::ExtractSliceOp slice);
  void noteSize(const HeadIndex &index, OpFoldResult size);

  std::array<int64_t, 4> sizes;
  std::array<OpFoldResult, 4> mixedSizes;
  SmallVector<HeadPart> parts;
};

} // namespace mlir::attn

#endif // ATTN_LIB_FUSION_HEADSOURCES_H
