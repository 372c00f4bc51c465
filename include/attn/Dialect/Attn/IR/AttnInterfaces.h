//===- AttnInterfaces.h - Interfaces of the attn dialect -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attribute interfaces of masks and schedules, the interface of operations that
// compute attention, and the values they exchange.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNINTERFACES_H
#define ATTN_DIALECT_ATTN_IR_ATTNINTERFACES_H

#include "attn/Dialect/Attn/IR/DeviceFigures.h"
#include "mlir/IR/Attributes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/Value.h"
#include "mlir/IR/ValueRange.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "attn/Dialect/Attn/IR/AttnEnums.h.inc"

namespace mlir::attn {

struct DeviceFigures;
struct MaskReads;
class VisitedTiles;

/// One (query, key) pair and what a mask may depend on. All values have type
/// `index`.
struct MaskPosition {
  Value batch;
  Value head;
  Value query;
  Value key;
  Value queryLength;
  Value keyLength;
  /// What `emitTables` gave for a mask that reads operands. Without it, such a
  /// mask emits a value of which nothing is known.
  llvm::function_ref<ValueRange(Attribute)> getTables = nullptr;
};

/// The operands that masks of an attention read, and what tables of them
/// depend on. Lengths have type `index`.
struct MaskReads {
  ValueRange operands;
  Value query, key;
  /// The lengths; null if only types are of interest.
  Value queryLength, keyLength;
  /// Of the kernels that make tables: with `ScheduleAttrInterface`, or null.
  Attribute schedule;
};

/// A dimension of an operand that must be as large as that of another.
struct EqualSizes {
  Value operand;
  int64_t dim;
  Value other;
  int64_t otherDim;
};

/// Attribute of function arguments: what they are called in the source, or for
/// callers; see the pass attn-describe-arguments.
inline constexpr llvm::StringLiteral argNameAttrName = "attn.name";

/// Attribute of function arguments: sizes that must equal those of other
/// arguments, as triples of a dimension, the other argument and its dimension.
inline constexpr llvm::StringLiteral equalSizesAttrName = "attn.equal_sizes";

/// The key of a random number generator, and its counter or what it makes of
/// that.
template <typename Word>
using RngKey = std::array<Word, 2>;
template <typename Word>
using RngBlock = std::array<Word, 4>;

/// Instructions of a GPU that random numbers take, by the units they need.
struct RngWork {
  /// Additions, logic and rotations of 32 bits.
  int64_t integer = 0;
  /// Multiplications of 32 bits with results of 64.
  int64_t wideMultiply = 0;

  RngWork &operator+=(const RngWork &other) {
    integer += other.integer;
    wideMultiply += other.wideMultiply;
    return *this;
  }
};

/// What the channels of an operand of attention are, its last dimension.
enum class ChannelKind { None, Query, Value };

/// An operand of attention whose sizes are tied to those of the query, key and
/// value: `[batch, head, position]` and, with channels, `[.., channel]`.
struct AttentionOperand {
  /// Name in diagnostics, and that of a function argument that is passed on.
  StringRef name;
  StringRef argumentName;
  Value value;
  /// Whether heads and positions are those of queries, not of keys.
  bool isQuerySide;
  ChannelKind channels;
};

/// An operand of attention with one entry for each query head.
struct HeadOperand {
  /// As of `AttentionOperand`.
  StringRef name;
  StringRef argumentName;
  Value value;
};

/// A destination and the block argument that stands for it in a region.
struct RegionDestination {
  OpOperand *destination;
  BlockArgument argument;
};

/// The size of a dimension of a tensor or memref.
inline int64_t getDimSize(Value value, unsigned dim) {
  return cast<ShapedType>(value.getType()).getDimSize(dim);
}

/// What the time of a kernel is made of, in clocks of the multiprocessor that
/// has most to do.
struct KernelTime {
  /// What it computes, of what the operation does.
  StringRef name;
  /// Warpgroups that take turns in a step, each with a share of its products; 0
  /// of kernels that have none, as they only move memory or run on a core.
  int64_t consumers = 0;
  /// The products of a step; those of one consumer and what it computes of its
  /// scores, one after the other; the exponentials of all; and all of it side
  /// by side.
  double products = 0, chain = 0, exponentials = 0, step = 0;
  /// What a mask adds to a step, and an item of work to its steps.
  double mask = 0, item = 0;
  /// From the launch to full speed, and back.
  double launch = 0;
  double numSteps = 0, numMasked = 0, numItems = 0;
  /// What comes from memory, and the merge of shares of the keys.
  double memory = 0, merge = 0;
  double clocksPerSecond = 0;

  double getSeconds() const {
    return getWorkSeconds() + launch / clocksPerSecond;
  }
  /// What depends on the schedule.
  double getWorkSeconds() const {
    double computed = numSteps * step + numMasked * mask + numItems * item;
    return (std::max(computed, memory) + merge) / clocksPerSecond;
  }
};

/// Of kernels that run one after the other.
inline double getSeconds(ArrayRef<KernelTime> kernels) {
  double seconds = 0;
  for (const KernelTime &kernel : kernels)
    seconds += kernel.getSeconds();
  return seconds;
}
inline double getWorkSeconds(ArrayRef<KernelTime> kernels) {
  double seconds = 0;
  for (const KernelTime &kernel : kernels)
    seconds += kernel.getWorkSeconds();
  return seconds;
}

/// The schedules of the kernels of a gradient, each with
/// `ScheduleAttrInterface`.
struct GradSchedules {
  /// What is computed once for each query.
  Attribute rows;
  /// Gradients of a tile of keys, and of its values unless they have a kernel.
  Attribute keys;
  /// Gradients of the values alone; null if the kernel of the keys has them.
  Attribute values;
  /// Gradients of a tile of queries. If null, the kernel of the keys adds to
  /// these, from which the kernel of the rows makes them.
  Attribute queries;
  /// If not 0, the kernel of the keys adds them up in a ring of heads that have
  /// at least so many tiles of keys, and rounds them itself.
  int64_t ringItems = 0;
  /// Whether it adds them up in the same order each time.
  bool inTurn = false;
  /// Whether its groups work on a long tile of keys and then on a short one.
  bool inPairs = false;
};

} // namespace mlir::attn

#include "attn/Dialect/Attn/IR/AttnAttrInterfaces.h.inc"

// Attributes implement the interfaces above and are part of those below.
#define GET_ATTRDEF_CLASSES
#include "attn/Dialect/Attn/IR/AttnAttrs.h.inc"

#include "attn/Dialect/Attn/IR/AttnOpInterfaces.h.inc"

#endif // ATTN_DIALECT_ATTN_IR_ATTNINTERFACES_H
