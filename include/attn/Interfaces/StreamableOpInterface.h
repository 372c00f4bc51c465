//===- StreamableOpInterface.h - Axes cut into pieces --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The axes of an operation, and how results of pieces combine to the result of
// the whole.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERFACES_STREAMABLEOPINTERFACE_H
#define ATTN_INTERFACES_STREAMABLEOPINTERFACE_H

#include "attn/Interfaces/CostOpInterface.h"
#include "mlir/IR/OpDefinition.h"

#include <optional>
#include <string>

namespace mlir::attn {

/// How pieces of an axis depend on one another.
enum class AxisLaw {
  /// Not at all: a piece of the results depends on a piece of the operands.
  Map,
  /// Results are states that are carried from piece to piece and can be merged.
  Merge,
  /// A result needs all pieces at once.
  Whole,
};

/// An axis of an operation.
struct OpAxis {
  static OpAxis map(int64_t size, StringRef name = "") {
    return {name.str(), size, AxisLaw::Map, ""};
  }
  static OpAxis merge(int64_t size, StringRef how, StringRef name = "") {
    return {name.str(), size, AxisLaw::Merge, how.str()};
  }
  static OpAxis whole(int64_t size, StringRef why, StringRef name = "") {
    return {name.str(), size, AxisLaw::Whole, why.str()};
  }

  /// Name, or empty.
  std::string name;
  /// May be dynamic.
  int64_t size;
  AxisLaw law;
  /// How states merge, or why the axis cannot be cut, as in "accumulates ...".
  std::string text;
};

/// The axis that each dimension of a tensor is indexed by, as its number, or
/// none.
using DimAxes = SmallVector<std::optional<unsigned>>;

/// A tile that an operation holds in registers while it iterates.
struct HeldTile {
  /// Its axes, by number.
  SmallVector<unsigned> axes;
  int64_t elementBytes;
};

/// The reason why a softmax is streamable. The state of a row is the maximum of
/// its scores and, relative to the maximum, the sum of the exponentials and the
/// accumulator weighted by them (Milakov and Gimelshein 2018).
inline constexpr llvm::StringLiteral onlineSoftmaxLemma =
    "online softmax: merge of (max, sum, accumulator)";

/// The text of diagnostics where an operation would be streamable by `lemma` in
/// another form: "(missing lemma '...')".
std::string describeMissingLemma(StringRef lemma);

} // namespace mlir::attn

#include "attn/Interfaces/StreamableOpInterface.h.inc"

#endif // ATTN_INTERFACES_STREAMABLEOPINTERFACE_H
