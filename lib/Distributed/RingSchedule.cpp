//===- RingSchedule.cpp - Steps of ring attention -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RingSchedule.h"
#include "attn/Analysis/MaskTiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::attn;

/// Work of the analysis of all pairs of chunks, in operations on coefficients.
/// With 1024 ranks, a causal mask takes less.
static constexpr int64_t maxWork = int64_t(1) << 31;

namespace {
/// The conditions that a position is in each of the chunks of a dimension.
struct ChunkConditions {
  SmallVector<Value> isAtLeast, isBefore;

  ChunkConditions(OpBuilder &builder, Location loc, Value position,
                  int64_t length, int64_t chunks) {
    int64_t size = length / chunks;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      auto compare = [&](arith::CmpIPredicate predicate, int64_t bound) {
        Value constant = arith::ConstantIndexOp::create(builder, loc, bound);
        return arith::CmpIOp::create(builder, loc, predicate, position,
                                     constant);
      };
      isAtLeast.push_back(compare(arith::CmpIPredicate::sge, chunk * size));
      isBefore.push_back(
          compare(arith::CmpIPredicate::slt, (chunk + 1) * size));
    }
  }

  void restrict(MaskAnalysis &analysis, int64_t chunk) const {
    analysis.restrict(isAtLeast[chunk]);
    analysis.restrict(isBefore[chunk]);
  }
};
} // namespace

ReachableChunks attn::findReachableChunks(AttentionOp op, int64_t ranks) {
  ReachableChunks reachable(ranks, llvm::BitVector(ranks, true));
  int64_t queries = getDimSize(op.getQuery(), 2);
  int64_t keys = getDimSize(op.getKey(), 2);
  if (ShapedType::isDynamic(queries) || ShapedType::isDynamic(keys))
    return reachable;
  Location loc = op.getLoc();
  Block lengths;
  OpBuilder builder(op.getContext());
  builder.setInsertionPointToStart(&lengths);
  ScoreMask mask;
  mask.mask = op.getMaskAttr();
  mask.maskMod = &op.getMaskMod();
  mask.queryLength = arith::ConstantIndexOp::create(builder, loc, queries);
  mask.keyLength = arith::ConstantIndexOp::create(builder, loc, keys);
  PredicateBlock predicate(loc, mask);
  if (!predicate.getPredicate())
    return reachable;
  builder.setInsertionPointToEnd(predicate.getBlock());
  const MaskAnalysis::Positions &positions = predicate.getPositions();
  ChunkConditions ofQuery(builder, loc, positions.query, queries, ranks);
  ChunkConditions ofKey(builder, loc, positions.key, keys, ranks);
  WorkBudget total(maxWork);
  for (int64_t query = 0; query < ranks; ++query)
    for (int64_t key = 0; key < ranks; ++key) {
      MaskAnalysis analysis(positions, /*budget=*/nullptr, &total);
      analysis.restrict(predicate.getPredicate());
      ofQuery.restrict(analysis, query);
      ofKey.restrict(analysis, key);
      if (analysis.isNever())
        reachable[query].reset(key);
    }
  return reachable;
}

llvm::BitVector RingStep::getSenders() const {
  llvm::BitVector senders(receivers.size());
  for (unsigned rank : receivers.set_bits())
    senders.set((rank + receivers.size() - 1) % receivers.size());
  return senders;
}

SmallVector<RingStep> attn::scheduleRing(const ReachableChunks &reachable) {
  auto ranks = static_cast<int64_t>(reachable.size());
  SmallVector<RingStep> steps(ranks);
  // A rank receives a chunk that it attends to, or that the next rank receives
  // from it: the last step comes first.
  for (int64_t number = ranks - 1; number >= 0; --number) {
    RingStep &step = steps[number];
    step.number = number;
    step.receivers.resize(ranks);
    step.attending.resize(ranks, /*t=*/number == 0);
    for (int64_t rank = 0; rank < ranks; ++rank)
      if (reachable[rank].test((rank + ranks - number) % ranks))
        step.attending.set(rank);
    if (number == 0)
      break;
    step.receivers = step.attending;
    if (number + 1 < ranks)
      step.receivers |= steps[number + 1].getSenders();
  }
  while (steps.back().attending.none())
    steps.pop_back();
  return steps;
}
