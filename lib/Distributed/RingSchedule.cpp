//===- RingSchedule.cpp - Steps of ring attention -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RingSchedule.h"
#include "SequenceShard.h"
#include "attn/Analysis/MaskTiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

#include <optional>
#include <queue>
#include <utility>

using namespace mlir;
using namespace mlir::attn;

/// Work of the analysis of all pairs of chunks, in operations on coefficients.
static constexpr int64_t maxWork = int64_t(1) << 31;

namespace {
/// The chunks from number `begin` up to, but not including, number `end`.
struct ChunkInterval {
  int64_t begin, end;

  int64_t size() const { return end - begin; }
  /// Two halves; one interval of a single chunk.
  SmallVector<ChunkInterval, 2> split() const {
    if (size() == 1)
      return {*this};
    int64_t middle = begin + size() / 2;
    return {{begin, middle}, {middle, end}};
  }
};

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

  void restrict(MaskAnalysis &analysis, ChunkInterval of) const {
    analysis.restrict(isAtLeast[of.begin]);
    analysis.restrict(isBefore[of.end - 1]);
  }
};

/// Finds the pairs of chunks in which a predicate may hold. Most masks decide
/// about many neighboring pairs alike: rectangles of pairs are analysed as one,
/// and cut into parts unless the predicate holds in all or none of their pairs.
class ChunkFinder {
public:
  ChunkFinder(const MaskAnalysis::Positions &positions, int64_t chunks,
              ChunkPredicate restrict, const ReachableChunks *candidates);

  ReachableChunks find();

private:
  /// Pairs of chunks of some queries and of some keys.
  using Rectangle = std::pair<ChunkInterval, ChunkInterval>;

  bool hasCandidates(ChunkInterval ofQueries, ChunkInterval ofKeys) const;
  /// Whether it is proved that the predicate, or its negation, holds for none
  /// of the positions.
  bool isNever(ChunkInterval ofQueries, ChunkInterval ofKeys, bool negated);
  void visit(Rectangle pairs);

  const MaskAnalysis::Positions &positions;
  int64_t chunks;
  ChunkPredicate restrict;
  const ReachableChunks *candidates;
  std::optional<ChunkConditions> ofQuery, ofKey;
  WorkBudget total{maxWork};
  ReachableChunks reachable;
  /// Rectangles in the order in which they are visited: large ones first, which
  /// prove most if work ends early.
  std::queue<Rectangle> waiting;
};
} // namespace

ChunkFinder::ChunkFinder(const MaskAnalysis::Positions &positions,
                         int64_t chunks, ChunkPredicate restrict,
                         const ReachableChunks *candidates)
    : positions(positions), chunks(chunks), restrict(restrict),
      candidates(candidates), reachable(chunks, llvm::BitVector(chunks, true)) {
  Value first = positions.query;
  Location loc = first.getLoc();
  OpBuilder builder(loc.getContext());
  builder.setInsertionPointToEnd(first.getParentBlock());
  auto emitConditions = [&](std::optional<ChunkConditions> &conditions,
                            Value position, Value length) {
    conditions.emplace(builder, loc, position, *getConstantIntValue(length),
                       chunks);
  };
  emitConditions(ofQuery, positions.query, positions.queryLength);
  emitConditions(ofKey, positions.key, positions.keyLength);
}

bool ChunkFinder::hasCandidates(ChunkInterval ofQueries,
                                ChunkInterval ofKeys) const {
  if (!candidates)
    return true;
  for (int64_t query = ofQueries.begin; query < ofQueries.end; ++query)
    if ((*candidates)[query].find_first_in(ofKeys.begin, ofKeys.end) >= 0)
      return true;
  return false;
}

bool ChunkFinder::isNever(ChunkInterval ofQueries, ChunkInterval ofKeys,
                          bool negated) {
  MaskAnalysis analysis(positions, /*budget=*/nullptr, &total);
  restrict(analysis, negated);
  ofQuery->restrict(analysis, ofQueries);
  ofKey->restrict(analysis, ofKeys);
  return analysis.isNever();
}

ReachableChunks ChunkFinder::find() {
  waiting.push({{0, chunks}, {0, chunks}});
  while (!waiting.empty() && !total.isExhausted()) {
    visit(waiting.front());
    waiting.pop();
  }
  return std::move(reachable);
}

void ChunkFinder::visit(Rectangle pairs) {
  auto [ofQueries, ofKeys] = pairs;
  if (!hasCandidates(ofQueries, ofKeys))
    return;
  // Few pairs are not worth the work of their rectangle.
  int64_t numPairs = ofQueries.size() * ofKeys.size();
  bool isAnalysed = numPairs == 1 || numPairs > 4;
  if (isAnalysed && isNever(ofQueries, ofKeys, /*negated=*/false)) {
    for (int64_t query = ofQueries.begin; query < ofQueries.end; ++query)
      for (int64_t key = ofKeys.begin; key < ofKeys.end; ++key)
        if (!candidates || (*candidates)[query].test(key))
          reachable[query].reset(key);
    return;
  }
  if (numPairs == 1 ||
      (isAnalysed && isNever(ofQueries, ofKeys, /*negated=*/true)))
    return;
  for (ChunkInterval query : ofQueries.split())
    for (ChunkInterval key : ofKeys.split())
      waiting.push({query, key});
}

ReachableChunks attn::findChunksOf(const MaskAnalysis::Positions &positions,
                                   int64_t chunks, ChunkPredicate restrict,
                                   const ReachableChunks *candidates) {
  return ChunkFinder(positions, chunks, restrict, candidates).find();
}

ReachableChunks attn::findReachableChunks(AttentionOpInterface op,
                                          int64_t chunks,
                                          const ReachableChunks *candidates) {
  ReachableChunks reachable(chunks, llvm::BitVector(chunks, true));
  if (op.hasSequences())
    return candidates ? reachable : findReachableChunksOfSequences(op, chunks);
  int64_t queries = getDimSize(op.getQuery(), sequenceDim);
  int64_t keys = getDimSize(op.getKey(), sequenceDim);
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
  return findChunksOf(
      predicate.getPositions(), chunks,
      [&](MaskAnalysis &analysis, bool negated) {
        analysis.restrict(predicate.getPredicate(), negated);
      },
      candidates);
}

bool RingStep::hasAttention(int64_t querySlot) const {
  for (int64_t keySlot = 0; keySlot < chunksPerRank; ++keySlot)
    if (getAttending(querySlot, keySlot).any())
      return true;
  return false;
}

bool RingStep::isAttended(int64_t keySlot) const {
  for (int64_t querySlot = 0; querySlot < chunksPerRank; ++querySlot)
    if (getAttending(querySlot, keySlot).any())
      return true;
  return false;
}

llvm::BitVector RingStep::getAttending() const {
  llvm::BitVector all(receivers.size());
  for (const llvm::BitVector &ranks : attending)
    all |= ranks;
  return all;
}

llvm::BitVector RingStep::getSenders() const {
  llvm::BitVector senders(receivers.size());
  for (unsigned rank : receivers.set_bits())
    senders.set((rank + receivers.size() - 1) % receivers.size());
  return senders;
}

llvm::BitVector RingStep::getOwnersOfLast() const {
  llvm::BitVector owners(lastHolders.size());
  for (unsigned rank : lastHolders.set_bits())
    owners.set((rank + lastHolders.size() - number) % lastHolders.size());
  return owners;
}

/// Finds the ranks at which keys end their way in each of `steps`.
static void findLastHolders(MutableArrayRef<RingStep> steps) {
  for (auto [number, step] : llvm::enumerate(steps)) {
    step.lastHolders = step.receivers;
    if (number == 0)
      step.lastHolders.set();
    if (number + 1 < steps.size())
      step.lastHolders.reset(steps[number + 1].getSenders());
  }
}

/// Finds the ranks that attend in `step`.
static void findAttending(RingStep &step, const ReachableChunks &reachable,
                          ChunkPlacement placement) {
  int64_t ranks = placement.ranks, slots = placement.chunksPerRank;
  step.attending.assign(slots * slots, llvm::BitVector(ranks));
  for (int64_t query = 0; query < slots; ++query)
    for (int64_t key = 0; key < slots; ++key)
      for (int64_t rank = 0; rank < ranks; ++rank) {
        int64_t source = (rank + ranks - step.number) % ranks;
        bool isOwn = step.number == 0 && query == key;
        if (isOwn || reachable[placement.getChunk(rank, query)].test(
                         placement.getChunk(source, key)))
          step.getAttending(query, key).set(rank);
      }
}

SmallVector<RingStep> attn::scheduleRing(const ReachableChunks &reachable,
                                         ChunkPlacement placement) {
  SmallVector<RingStep> steps(placement.ranks);
  // A rank receives keys that it attends to, or that the next rank receives
  // from it: the last step comes first.
  for (int64_t number = placement.ranks; number-- > 0;) {
    RingStep &step = steps[number];
    step.number = number;
    step.chunksPerRank = placement.chunksPerRank;
    step.receivers.resize(placement.ranks);
    findAttending(step, reachable, placement);
    if (number == 0)
      break;
    step.receivers = step.getAttending();
    if (number + 1 < placement.ranks)
      step.receivers |= steps[number + 1].getSenders();
  }
  while (steps.back().getAttending().none())
    steps.pop_back();
  findLastHolders(steps);
  return steps;
}
