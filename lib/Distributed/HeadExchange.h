//===- HeadExchange.h - Heads for positions ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exchanges of DeepSpeed-Ulysses (Jacobs et al. 2023): ranks that have a chunk
// of positions of all heads get all positions of some heads.
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

/// Emits the heads of this rank, `[B, getHeadsOfRank(H), S, ...]`. Each of
/// `ranks` ranks has `chunk`, `[B, H, S / ranks, ...]`.
Value emitHeadsOfRank(ImplicitLocOpBuilder &b, int64_t ranks, Value chunk);

/// Emits the chunk of this rank, `[B, numHeads, S / ranks, ...]`. Each of
/// `ranks` ranks has `heads`, `[B, getHeadsOfRank(numHeads), S, ...]`. If
/// several ranks have parts of a head, these are f32, and are added up in the
/// order of ranks.
Value emitChunkOfRank(ImplicitLocOpBuilder &b, int64_t ranks, Value heads,
                      int64_t numHeads);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_HEADEXCHANGE_H
