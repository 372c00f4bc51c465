//===- AttnInterfaces.h - Interfaces of the attn dialect -------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attribute interfaces of masks and schedules, the interface of operations that
// compute attention, and the structures they exchange.
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
#include <numeric>
#include <optional>

#include "attn/Dialect/Attn/IR/AttnEnums.h.inc"

namespace mlir::attn {
class Target;
} // namespace mlir::attn

namespace mlir::attn {

struct CostAssumptions;
struct DeviceFigures;
struct MaskReads;
class AttentionOpInterface;
class VisitedTiles;

/// One (query, key) pair: the values that a mask may depend on. All have type
/// `index`.
struct MaskPosition {
  Value batch;
  Value head;
  Value query;
  Value key;
  Value queryLength;
  Value keyLength;
  /// The values that `emitTables` returned for a mask that reads operands.
  /// Without it, such a mask emits a value of which nothing is known.
  llvm::function_ref<ValueRange(Attribute)> getTables = nullptr;
  /// The row of query 0 in operands that have the rows of packed queries; null
  /// for row 0.
  Value firstQueryRow = nullptr;
};

/// The operands that masks of an attention read, and the values that their
/// tables depend on. Lengths have type `index`.
struct MaskReads {
  ValueRange operands;
  /// The queries, and the keys if their rows are positions: null for pages.
  Value query, key;
  /// How many queries and keys are stored, at least as many as any sequence
  /// has; null if only types are of interest.
  Value queryLength, keyLength;
  /// The schedule of the kernels that compute tables, with
  /// `ScheduleAttrInterface`; or null.
  Attribute schedule;
  /// Whether the queries of sequences follow each other in one batch entry.
  bool areQueriesPacked = false;
};

/// Dimensions of two operands that must have equal sizes.
struct EqualSizes {
  Value operand;
  int64_t dim;
  Value other;
  int64_t otherDim;
};

/// Attribute of function arguments: their name in the source, or for callers;
/// see the pass attn-describe-arguments.
inline constexpr llvm::StringLiteral argNameAttrName = "attn.name";

/// Attribute of function arguments: sizes that must equal sizes of other
/// arguments, as triples of a dimension, the other argument and its dimension.
inline constexpr llvm::StringLiteral equalSizesAttrName = "attn.equal_sizes";

/// The key of a random number generator, and its counter or its output.
template <typename Word>
using RngKey = std::array<Word, 2>;
template <typename Word>
using RngBlock = std::array<Word, 4>;

/// GPU instructions that generate random numbers, by execution unit.
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

/// The head dim that an operand of attention has as its last dimension: none,
/// of queries and keys, or of values.
enum class HeadDimKind { None, Query, Value };

/// An operand of attention whose sizes depend on the query, key and value:
/// `[batch, head, position]` or `[batch, head, position, head dim]`.
struct AttentionOperand {
  /// Name in diagnostics, and name of a function argument that is the operand.
  StringRef name;
  StringRef argumentName;
  Value value;
  /// Whether heads and positions count queries, not keys.
  bool isQuerySide;
  HeadDimKind headDim;

  /// Whether heads count values, not keys.
  bool hasValueHeads() const {
    return !isQuerySide && headDim == HeadDimKind::Value;
  }
};

/// An operand of attention with one entry for each query head.
struct HeadOperand {
  /// As in `AttentionOperand`.
  StringRef name;
  StringRef argumentName;
  Value value;
};

/// The heads of keys and of values that a query head attends.
struct KeyValueHeads {
  Value key, value;
};

/// The rows of a tensor that a sequence has. `isValid`, an `i1`, says whether
/// they are in the tensor.
struct SequenceRows {
  Value first, length, isValid;
};

/// Bytes that a thread of a kernel that moves rows accesses at a time, at most.
inline constexpr int64_t maxAccessBytes = 16;

/// How the threads of kernels that move rows divide chunks of neighbouring
/// elements.
struct RowDivision {
  /// Whether accesses of a thread to neighbours are aligned.
  bool isAligned = false;
  /// Whether elements are loaded before their place is known.
  bool loadsEarly = false;
  /// Chunks of a work item, and how many of them a thread moves together.
  int64_t chunks = 1, together = 1;
  /// Threads that divide a work item.
  int64_t threads = 1;
};

/// A destination and the block argument that stands for it in a region.
struct RegionDestination {
  OpOperand *destination;
  BlockArgument argument;
};

/// Whether `type` is one of the 8-bit floats E4M3 and E5M2.
inline bool isFloat8(Type type) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(type);
}

/// The size of a dimension of a tensor or memref.
inline int64_t getDimSize(Value value, unsigned dim) {
  return cast<ShapedType>(value.getType()).getDimSize(dim);
}

/// The parts of a kernel's time, in cycles of the SM with the most work.
struct KernelTime {
  /// The part of the operation that the kernel computes.
  StringRef name;
  /// Consumer warpgroups that alternate between MMAs and softmax in a step; 0
  /// for kernels that only move memory or run on the host.
  int64_t consumers = 0;
  /// Cycles of one step: the MMAs of all consumers; the dependent chain of one
  /// consumer, its MMAs and then its softmax; the exponentials of all
  /// consumers; and the step itself, in which these overlap.
  double mma = 0, chain = 0, exponentials = 0, step = 0;
  /// Cycles that a mask adds to a step, and that a work item adds to its steps.
  double mask = 0, workItem = 0;
  /// Ramp-up after the launch and ramp-down at the end.
  double launch = 0;
  double numSteps = 0, numMasked = 0, numWorkItems = 0;
  /// Memory traffic, and the kernel that combines KV splits.
  double memory = 0, combine = 0;
  double cyclesPerSecond = 0;

  double getSeconds() const {
    return getWorkSeconds() + launch / cyclesPerSecond;
  }
  /// The part that depends on the schedule.
  double getWorkSeconds() const {
    double computed =
        numSteps * step + numMasked * mask + numWorkItems * workItem;
    return (std::max(computed, memory) + combine) / cyclesPerSecond;
  }
};

/// The time of kernels that run one after the other.
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
  /// The `preprocess` kernel: values that are computed once for each query.
  Attribute preprocess;
  /// The `dkdv` kernel: dK of a key tile, and dV unless it has its own kernel.
  Attribute dkdv;
  /// The kernel of dV alone; null if the `dkdv` kernel computes it.
  Attribute dv;
  /// The `dq` kernel: dQ of a query tile. If null, the `dkdv` kernel adds to
  /// the dQ accumulator, which a kernel with the schedule `preprocess`
  /// converts.
  Attribute dq;
  /// If not 0, the `dkdv` kernel accumulates dQ in a ring buffer of heads with
  /// at least so many key tiles. It converts the dQ of all heads but the last
  /// ones, which a kernel with the schedule `preprocess` converts.
  int64_t dqRingDepth = 0;
  /// Whether dQ is accumulated in a fixed order (ordered accumulation).
  bool orderedDq = false;
  /// Whether CTAs of the `dkdv` kernel process a long key tile and then a short
  /// one.
  bool inPairs = false;
};

/// Emits row `key` of the rows from `first` on.
Value emitContiguousRow(OpBuilder &builder, Location loc, Value first,
                        Value key);

} // namespace mlir::attn

#include "attn/Dialect/Attn/IR/AttnAttrInterfaces.h.inc"

// Attributes implement the interfaces above and are part of those below.
#define GET_ATTRDEF_CLASSES
#include "attn/Dialect/Attn/IR/AttnAttrs.h.inc"

namespace mlir::attn {
/// How kernels find the rows of the keys and values of `op` if its operands say
/// so.
KVAddressingAttrInterface getOperandAddressing(AttentionOpInterface op);

/// Emits the key and the value head that head `head` of `numHeads` attends.
/// Both `keyHeads` and `valueHeads` divide `numHeads`.
KeyValueHeads emitSharedHeads(OpBuilder &builder, Location loc, Value head,
                              int64_t numHeads, int64_t keyHeads,
                              int64_t valueHeads);
} // namespace mlir::attn

#include "attn/Dialect/Attn/IR/AttnOpInterfaces.h.inc"

namespace mlir::attn {
/// Emits the rows of the queries of sequence `sequence`, as
/// `KVAddressingAttrInterface::emitRows` does of keys.
SequenceRows emitQueryRows(OpBuilder &builder, Location loc,
                           KVAddressingAttrInterface addressing, Value lengths,
                           Value stored, Value sequence);
} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_ATTNINTERFACES_H
