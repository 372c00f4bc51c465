//===- HeadSources.h - What heads are views of ------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Follows keys or values back through transpositions, reshapes, slices,
// broadcasts and concatenations of channels, to the tensors that have their
// elements, whatever the order of these operations.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_HEADSOURCES_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_HEADSOURCES_H

#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/SmallVector.h"

#include <array>
#include <optional>

namespace mlir::attn {

/// Coordinates of an element of heads, `[B, H, S, D]`.
enum HeadCoordinate : unsigned { Batch, Head, Position, Channel };

/// An index of a dimension of a tensor, as a sum of coordinates. Coordinates of
/// one value are left out.
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

/// Where the channels `[begin, end)` of heads are.
struct HeadPart {
  bool isUsedByHead() const;

  int64_t begin = 0, end = 0;
  /// Its element `indices` is that of the coordinates. None of its views is
  /// known, or it does not depend on the head.
  Value source;
  SmallVector<HeadIndex> indices;
  /// The operations between, users first.
  SmallVector<Operation *> views;
};

/// The sources of `heads`, of type `[B, H, S, D]`.
class HeadSources {
public:
  explicit HeadSources(Value heads);

  /// By channels.
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
  /// Goes on from what `part.source` is a view of; false if it is none.
  bool step(HeadPart &part);
  /// Goes on with both operands of a concatenation, in `part` and by `trace`.
  bool stepIntoParts(HeadPart &part);
  /// `part` where channels are from `begin` to `end`.
  void traceRange(HeadPart part, Value source, int64_t dim, int64_t begin,
                  int64_t end, int64_t shift);

  std::optional<SmallVector<HeadIndex>>
  linearize(ArrayRef<HeadIndex> indices, RankedTensorType large,
            ArrayRef<ReassociationIndices> groups,
            ArrayRef<OpFoldResult> largeSizes);
  std::optional<SmallVector<HeadIndex>>
  delinearize(const HeadPart &part, RankedTensorType large,
              ArrayRef<ReassociationIndices> groups);
  void noteSize(const HeadIndex &index, OpFoldResult size);

  std::array<int64_t, 4> sizes;
  std::array<OpFoldResult, 4> mixedSizes;
  SmallVector<HeadPart> parts;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_HEADSOURCES_H
