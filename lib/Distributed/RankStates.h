//===- RankStates.h - States of linear attention of ranks -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Carries a state of linear attention, or its gradient, over the ranks. All
// ranks have the same numbers and add in the same order, so that what all of
// them compute has the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_RANKSTATES_H
#define ATTN_LIB_DISTRIBUTED_RANKSTATES_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::attn {

/// The effect of the tokens of each rank on a state: they multiply it, and add
/// a state of their own.
struct StateMaps {
  /// The states that ranks add, `[ranks, B, H, Dk, Dv]`.
  Value added;
  /// The logarithms of the factors of rows of a state: `[ranks, B, H]`,
  /// `[ranks, B, H, Dk]`, or `[H]` if they are the same on all ranks. Null if
  /// the factors are 1, or matrices.
  Value logDecays;
  /// The matrices that the delta rule multiplies a state by, from the left,
  /// `[ranks, B, H, Dk, Dk]`; else null.
  Value matrices;
};

/// Which ranks see the tokens of which other ranks.
enum class RankOrder {
  /// A rank sees the ranks before it.
  Causal,
  /// Gradients go from a rank to the ranks before it.
  ReverseCausal,
  /// A rank sees all others, in the order of their numbers.
  Full
};

/// Emits states by the maps of the ranks, of which `rank` is this one.
class RankScan {
public:
  RankScan(ImplicitLocOpBuilder &b, const StateMaps &maps, RankOrder order,
           int64_t ranks, Value rank);

  /// The state that the ranks that this one sees make of `first`.
  Value emitSeen(Value first);
  /// The state that all ranks make of `first`, where the ones that this rank
  /// sees make `seen` of it.
  Value emitTotal(Value first, Value seen);

private:
  Value emitLoop(Value state, Value begin, Value end);
  /// The state that the tokens of one rank make of `state`.
  Value emitNext(Value state, Value ofRank);
  Value emitProduct(Value matrix, Value state);

  ImplicitLocOpBuilder &b;
  StateMaps maps;
  RankOrder order;
  /// The numbers of the first and the last rank, and of this one in the order
  /// of the loops.
  Value zero, last, own;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_RANKSTATES_H
