//===- StreamableOpInterface.h - Axes cut into pieces --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The axes of an operation, and by which law results of pieces make those of
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

/// What pieces of an axis have to do with one another.
enum class AxisLaw {
  /// Nothing: a piece of the results follows from a piece of the operands.
  Map,
  /// Results are states that are taken from piece to piece and merge.
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

  /// What it is called, or empty.
  std::string name;
  /// May be dynamic.
  int64_t size;
  AxisLaw law;
  /// How states merge, or what is in the way: what the operation does.
  std::string text;
};

/// The axis that each dimension of a tensor is indexed by, as its number, or
/// none.
using DimAxes = SmallVector<std::optional<unsigned>>;

/// A tile that is in registers while an operation walks.
struct HeldTile {
  /// The axes that it has, by number.
  SmallVector<unsigned> axes;
  int64_t elementBytes;
};

/// What makes a softmax streamable: the state of a row is the maximum of its
/// scores, and relative to that the sum of their exponentials and what has been
/// accumulated with these as weights (Milakov and Gimelshein 2018).
inline constexpr llvm::StringLiteral onlineSoftmaxLemma =
    "online softmax: merge of (max, sum, accumulator)";

/// What diagnostics say where an operation would be streamable by `lemma`, in
/// another form: "(missing lemma '...')".
std::string describeMissingLemma(StringRef lemma);

} // namespace mlir::attn

#include "attn/Interfaces/StreamableOpInterface.h.inc"

#endif // ATTN_INTERFACES_STREAMABLEOPINTERFACE_H
