//===- StripedShard.h - Shards of every n-th position -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With Striped Attention, row `i` of rank `r` of `n` has position `i * n + r`.
// In step `t` of the ring, keys are of rank `r - t`, or `r - t + n` for ranks
// below `t`. In both cases key `j` has position `(j + d) * n + r - t`, where
// `d` is 1 for ranks below `t` and 0 for others. So masks of distances are
// masks of distances between `i` and `j + d`. With packed sequences of the same
// boundaries, rows count from the first one of a sequence on, and `d` is 1
// where the first query is before the first key.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_STRIPEDSHARD_H
#define ATTN_LIB_DISTRIBUTED_STRIPEDSHARD_H

#include "RingSchedule.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"

#include <string>

namespace mlir {
class RewriterBase;
} // namespace mlir

namespace mlir::attn {

/// Why `op` cannot be distributed over ranks that have positions by
/// `placement`, if it is striped; empty if it can.
std::string whyNotStripe(AttentionOpInterface op, ChunkPlacement placement);

/// `findReachableChunks` for the positions of `ranks` ranks.
ReachableChunks findReachableStripes(AttentionOpInterface op, int64_t ranks);

/// The mask of a step on rows of a shard instead of positions of the whole.
struct StripedMask {
  /// Null if there is no mask, or if it does not depend on distances alone.
  MaskAttrInterface mask = nullptr;
  /// The number of the first query that the mask sees: 1 where each query
  /// attends only to keys behind its own row.
  int64_t firstQuery = 0;
};

/// The mask of `op` in step `step` of a ring of `ranks` ranks. It sees numbers
/// of queries from `firstQuery` on, and numbers of keys from 1 on for ranks
/// below `step`, and from 0 on for others.
StripedMask getStripedMask(AttentionOpInterface op, int64_t step,
                           int64_t ranks);

/// The positions of a shard in a step of the ring.
struct Stripe {
  int64_t ranks, step;
  /// As in `StripedMask`.
  int64_t firstQuery;
  /// The rank and the numbers of queries and keys of the whole, `[3]` of i32.
  Value whole;
  /// These numbers; constants where they are static.
  Value queries, keys;
};

/// Makes regions of `shard`, and its mask, see positions of the whole. The
/// numbers of its first query and key are the ones of `StripedMask`.
void replacePositionsOfStripe(RewriterBase &rewriter,
                              AttentionOpInterface shard, const Stripe &stripe);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_STRIPEDSHARD_H
