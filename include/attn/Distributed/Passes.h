//===- Passes.h - Shards on several ranks -----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Constructors and registration: passes that distribute attention over ranks.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DISTRIBUTED_PASSES_H
#define ATTN_DISTRIBUTED_PASSES_H

#include "attn/Support/PassOptions.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::attn {

/// How ranks get the keys and values of one another.
enum class ShardMethod {
  /// All of them at once.
  AllGather,
  /// The keys of one rank after another, from a neighbor.
  Ring,
  /// The same, with chunks from both ends of the sequence on each rank.
  Zigzag,
  /// A ring in which each rank has every position number `ranks`.
  Striped,
  /// The keys of one rank in a step, or its queries, of which the results are
  /// returned.
  LightSeq,
  /// All of them for some of the heads.
  Ulysses,
  /// Those of some of the heads, in a ring of groups of ranks.
  Usp,
  /// None: ranks have the same queries, and merge their results.
  DistAttention,
  /// The one with the least estimated time.
  Auto
};

/// The most ranks of a group.
inline constexpr int64_t maxRanks = 1024;

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "attn/Distributed/Passes.h.inc"

} // namespace mlir::attn

#endif // ATTN_DISTRIBUTED_PASSES_H
