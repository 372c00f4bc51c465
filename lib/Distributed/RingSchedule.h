//===- RingSchedule.h - Steps of ring attention -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which ranks compute and communicate in which step of ring attention.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_RINGSCHEDULE_H
#define ATTN_LIB_DISTRIBUTED_RINGSCHEDULE_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "llvm/ADT/BitVector.h"

namespace mlir::attn {

/// For each chunk of queries, the chunks of keys that they may attend to.
using ReachableChunks = SmallVector<llvm::BitVector>;

/// The chunks of keys that some query of a chunk may attend to, if queries and
/// keys of `op`, of the whole, are cut into `ranks` chunks. All of them where
/// lengths are dynamic.
ReachableChunks findReachableChunks(AttentionOp op, int64_t ranks);

/// A step of ring attention: rank `r` has the chunk of keys number `r - step`,
/// modulo the number of ranks. Both sets are of ranks.
struct RingStep {
  int64_t number = 0;
  /// Receive their chunk before the step, from the previous rank.
  llvm::BitVector receivers;
  /// Attend to their chunk.
  llvm::BitVector attending;

  /// The ranks that send their chunk of the step before to the next rank.
  llvm::BitVector getSenders() const;
};

/// The steps of ring attention up to the last one in which a rank attends. In
/// the first one, ranks have their own chunks, and all of them attend.
SmallVector<RingStep> scheduleRing(const ReachableChunks &reachable);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_RINGSCHEDULE_H
