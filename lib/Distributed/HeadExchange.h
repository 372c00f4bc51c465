//===- HeadExchange.h - Heads for positions ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exchanges of DeepSpeed-Ulysses (Jacobs et al. 2023): ranks of a group that
// have a part of its positions of all heads get all of them of some heads.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_HEADEXCHANGE_H
#define ATTN_LIB_DISTRIBUTED_HEADEXCHANGE_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::attn {

/// The heads that each of `ranks` ranks gets of `heads`, one of which is a
/// multiple of the other: one that several ranks get if there are fewer heads.
inline int64_t getHeadsOfRank(int64_t heads, int64_t ranks) {
  return heads % ranks == 0 ? heads / ranks : 1;
}

/// Neighboring ranks that exchange heads for positions, and this one of them.
struct HeadGroup {
  int64_t ranks = 1;
  /// The number of this rank in the group.
  Value number;
  /// The first rank of the group; null if all ranks are in it.
  Value first;

  /// The group of `rank`, one of `allRanks` ranks.
  static HeadGroup emit(ImplicitLocOpBuilder &b, int64_t ranks,
                        int64_t allRanks, Value rank);

  /// The first of the heads that this rank has, `heads` of each.
  Value emitFirstHead(ImplicitLocOpBuilder &b, int64_t heads) const;
};

/// Emits the heads of this rank, `[B, getHeadsOfRank(H), S, ...]`. Each rank of
/// `group` has `chunk`, `[B, H, S / ranks, ...]`.
Value emitHeadsOfRank(ImplicitLocOpBuilder &b, const HeadGroup &group,
                      Value chunk);

/// Emits the chunk of this rank, `[B, numHeads, S / ranks, ...]`. Each rank of
/// `group` has `heads`, `[B, getHeadsOfRank(numHeads), S, ...]`. If several
/// ranks have parts of a head, these are f32, and are added up in the order of
/// ranks.
Value emitChunkOfRank(ImplicitLocOpBuilder &b, const HeadGroup &group,
                      Value heads, int64_t numHeads);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_HEADEXCHANGE_H
