//===- LightSeqShard.cpp - One rank of a balanced schedule ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In each step, some ranks compute with their own queries and the keys of
// another rank, and others with their own keys and the queries of another rank.
// While they do, ranks send the chunks of the next step, and the results of the
// step before that belong to other ranks: results of queries that a helper
// had, and results of keys that went to the owner of the queries.
//
//===----------------------------------------------------------------------===//

#include "LightSeqShard.h"
#include "RankTensors.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace mlir::attn;

namespace mlir::attn {
/// Emits the steps with the operations of a shard.
class LightSeqEmitter {
public:
  explicit LightSeqEmitter(ShardEmitter &shard) : shard(shard), b(shard.b) {}

  SmallVector<Value> emit(ArrayRef<LightSeqStep> steps);

private:
  using Values = ShardEmitter::Values;
  using PairValues = ShardEmitter::PairValues;

  /// Chunks of other ranks, for the present step.
  struct Chunks {
    Values keys, rows;
  };
  /// What the computation of a step gives: results of this rank's queries and
  /// keys, which replace or follow the ones of the steps before, and results
  /// for other ranks.
  struct Computed {
    PairValues own, others;
    /// The total of results that ranks have got back, if they are added up.
    Values returned;
  };

  void emitStep(const LightSeqStep &step, const LightSeqStep *next);
  Computed emitComputation(const LightSeqStep &step, bool isLast);
  /// The results of the pairs that owners compute, or helpers. Pairs of owners
  /// go on from `before` unless that is empty.
  PairValues emitPairs(const LightSeqStep &step, bool helps, ValueRange before);
  /// The first positions of the queries and the keys of a pair.
  ShardPlace emitPositions(const LightSeqStep &step, bool helps, Value query,
                           Value key);
  /// Emits where the pairs of packed sequences of `step` are, before anything
  /// that runs concurrently or on some ranks alone.
  void emitPlacesInSequences(const LightSeqStep &step);
  /// The total of `terms` and `added`, of the present step; `added` if it comes
  /// alone.
  Values emitTerm(ArrayRef<Values> terms, const Values &added, bool isLast);
  Chunks emitChunks(const LightSeqStep &next);

  /// Destinations for results that come back. Ranks that get none have the
  /// contents of no results there.
  PairValues emitReturnDestinations();
  Values emitNothing(ValueRange like, const llvm::BitVector &senders,
                     ArrayRef<APFloat> nothing);
  /// Sends the results of the step before to the ranks that they belong to.
  PairValues emitReturns(const PairValues &destinations);
  Values emitReturn(ValueRange sent, const llvm::BitVector &senders,
                    ValueRange destinations);
  bool hasReturns() const {
    return !pending.ofQueries.empty() || !pending.ofKeys.empty();
  }
  void addReturned(const PairValues &returned);
  void goOn(const Computed &computed);
  /// Whether results of this rank's queries go on from the ones before.
  bool goesOn() const { return shard.doPairsGoOn(); }
  /// The results of this rank's queries from which they go on.
  Values getBefore() const {
    return goesOn() && !ofQueries.empty() ? ofQueries.front() : Values();
  }

  ShardEmitter &shard;
  ImplicitLocOpBuilder &b;
  Chunks chunks;
  /// Where the pairs of packed sequences of the present step are that owners
  /// compute, and helpers.
  ShardPlace ownersPlace, helpersPlace;
  /// The results of this rank's queries and keys, of some pairs each. If
  /// results of queries go on, the first one is of all pairs of this rank, and
  /// the others have come back from other ranks.
  SmallVector<Values> ofQueries, ofKeys;
  /// Results of `previous` that belong to other ranks.
  PairValues pending;
  const LightSeqStep *previous = nullptr;
};
} // namespace mlir::attn

SmallVector<Value> attn::emitLightSeq(ShardEmitter &shard,
                                      ArrayRef<LightSeqStep> steps) {
  return LightSeqEmitter(shard).emit(steps);
}

/// Replaces `values` by the first of `results`, which are dropped.
static void replace(MutableArrayRef<Value> values, ValueRange &results) {
  llvm::copy(results.take_front(values.size()), values.begin());
  results = results.drop_front(values.size());
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

ShardPlace LightSeqEmitter::emitPositions(const LightSeqStep &step, bool helps,
                                          Value query, Value key) {
  if (shard.op.hasSequences())
    return helps ? helpersPlace : ownersPlace;
  auto multiply = [&](Value lhs, Value rhs) {
    return b.createOrFold<arith::MulIOp>(lhs, rhs);
  };
  Value other = shard.emitRank(-step.distance),
        ranks = shard.index(shard.placement.ranks);
  Value queries = shard.emitLength(query), keys = shard.emitLength(key);
  FirstPositions first;
  first.query = multiply(helps ? other : shard.rank, queries);
  first.key = multiply(helps ? shard.rank : other, keys);
  return shard.emitPositions(first, multiply(queries, ranks),
                             multiply(keys, ranks));
}

void LightSeqEmitter::emitPlacesInSequences(const LightSeqStep &step) {
  if (!shard.op.hasSequences())
    return;
  ShardEmitter::ChunksOfRanks chunksOfRanks{step.distance};
  if (step.owners.any())
    ownersPlace = shard.emitPlaceInSequences(chunksOfRanks, step.owners);
  chunksOfRanks.helps = true;
  if (step.helpers.any())
    helpersPlace = shard.emitPlaceInSequences(chunksOfRanks, step.helpers);
}

LightSeqEmitter::PairValues LightSeqEmitter::emitPairs(const LightSeqStep &step,
                                                       bool helps,
                                                       ValueRange before) {
  PairValues results = shard.emitPairDestinations();
  SmallVector<APFloat> nothing = shard.getNothing();
  nothing.append(results.ofKeys.size(),
                 APFloat::getZero(APFloat::IEEEsingle()));
  Values destinations = results.ofQueries;
  llvm::append_range(destinations, results.ofKeys);
  Values rows = helps ? chunks.rows : shard.getRows();
  ShardEmitter::KeyValues keys = shard.keys;
  if (!helps && step.distance != 0)
    keys = {chunks.keys[0], chunks.keys[1]};
  Values values = shard.emitIfMember(
      helps ? step.helpers : step.owners, ValueRange(destinations).getTypes(),
      [&] {
        ShardPlace place = emitPositions(step, helps, rows.front(), keys.key);
        return shard.emitPair(rows, keys, place,
                              /*isFirst=*/step.distance == 0, destinations,
                              before);
      },
      [&] {
        return before.empty() ? shard.emitFilled(destinations, nothing)
                              : shard.emitCopied(before, destinations);
      });
  ValueRange rest = values;
  replace(results.ofQueries, rest);
  replace(results.ofKeys, rest);
  return results;
}

LightSeqEmitter::Values LightSeqEmitter::emitTerm(ArrayRef<Values> terms,
                                                  const Values &added,
                                                  bool isLast) {
  SmallVector<Values> all;
  if (!isLast)
    all.append(terms.begin(), terms.end());
  if (!added.empty())
    all.push_back(added);
  return all.size() > 1 ? shard.emitTotal(all) : added;
}

LightSeqEmitter::Computed
LightSeqEmitter::emitComputation(const LightSeqStep &step, bool isLast) {
  PairValues owned, helped;
  if (step.owners.any())
    owned = emitPairs(step, /*helps=*/false, getBefore());
  if (step.helpers.any())
    helped = emitPairs(step, /*helps=*/true, /*before=*/{});
  Values ofOwnKeys = helped.ofKeys;
  // In the first step, ranks have their own keys.
  if (step.distance == 0)
    std::swap(ofOwnKeys, owned.ofKeys);
  Computed computed = {{owned.ofQueries, emitTerm(ofKeys, ofOwnKeys, isLast)},
                       {helped.ofQueries, owned.ofKeys},
                       {}};
  if (!goesOn())
    computed.own.ofQueries = emitTerm(ofQueries, owned.ofQueries, isLast);
  else if (!isLast && int64_t(ofQueries.size()) > maxReturnedResults)
    computed.returned = shard.emitTotal(ArrayRef(ofQueries).drop_front());
  return computed;
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

LightSeqEmitter::Chunks LightSeqEmitter::emitChunks(const LightSeqStep &next) {
  auto exchange = [&](ValueRange sent, const llvm::BitVector &receivers) {
    return receivers.none()
               ? Values()
               : shard.emitExchange(sent, next.getSources(receivers), receivers,
                                    next.distance);
  };
  Values keys = exchange({shard.keys.key, shard.keys.value}, next.owners);
  return {keys, exchange(shard.getRows(), next.helpers)};
}

LightSeqEmitter::Values
LightSeqEmitter::emitNothing(ValueRange like, const llvm::BitVector &senders,
                             ArrayRef<APFloat> nothing) {
  Values filled;
  if (senders.all())
    return filled;
  for (auto [value, content] : llvm::zip_equal(like, nothing)) {
    Value scalar = arith::ConstantFloatOp::create(b, b.getF32Type(), content);
    Value empty = emitAllocation(b, getTensorType(value), value);
    filled.push_back(linalg::FillOp::create(b, scalar, empty).getResult(0));
  }
  return filled;
}

LightSeqEmitter::PairValues LightSeqEmitter::emitReturnDestinations() {
  if (!hasReturns())
    return {};
  SmallVector<APFloat> zeros(pending.ofKeys.size(),
                             APFloat::getZero(APFloat::IEEEsingle()));
  PairValues destinations;
  if (!pending.ofQueries.empty())
    destinations.ofQueries =
        emitNothing(pending.ofQueries, previous->helpers, shard.getNothing());
  destinations.ofKeys = emitNothing(pending.ofKeys, previous->owners, zeros);
  return destinations;
}

LightSeqEmitter::Values
LightSeqEmitter::emitReturn(ValueRange sent, const llvm::BitVector &senders,
                            ValueRange destinations) {
  if (sent.empty())
    return {};
  return shard.emitExchange(sent, senders, previous->getSources(senders),
                            -previous->distance, destinations);
}

LightSeqEmitter::PairValues
LightSeqEmitter::emitReturns(const PairValues &destinations) {
  if (!hasReturns())
    return {};
  Values queries =
      emitReturn(pending.ofQueries, previous->helpers, destinations.ofQueries);
  return {queries,
          emitReturn(pending.ofKeys, previous->owners, destinations.ofKeys)};
}

void LightSeqEmitter::addReturned(const PairValues &returned) {
  if (!returned.ofQueries.empty())
    ofQueries.push_back(returned.ofQueries);
  if (!returned.ofKeys.empty())
    ofKeys.push_back(returned.ofKeys);
}

/// Takes results of this rank's queries that contain the ones before.
void LightSeqEmitter::goOn(const Computed &computed) {
  if (!computed.returned.empty()) {
    ofQueries.truncate(1);
    ofQueries.push_back(computed.returned);
  }
  if (computed.own.ofQueries.empty())
    return;
  if (ofQueries.empty())
    ofQueries.emplace_back();
  ofQueries.front() = computed.own.ofQueries;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

void LightSeqEmitter::emitStep(const LightSeqStep &step,
                               const LightSeqStep *next) {
  Computed computed;
  Chunks received;
  PairValues returned, destinations = emitReturnDestinations();
  emitPlacesInSequences(step);
  auto compute = [&] {
    computed = emitComputation(step, /*isLast=*/!next);
    Values values;
    for (const PairValues &pair : {computed.own, computed.others}) {
      llvm::append_range(values, pair.ofQueries);
      llvm::append_range(values, pair.ofKeys);
    }
    llvm::append_range(values, computed.returned);
    return values;
  };
  auto communicate = [&] {
    if (next)
      received = emitChunks(*next);
    returned = emitReturns(destinations);
    Values values = received.keys;
    llvm::append_range(values, received.rows);
    llvm::append_range(values, returned.ofQueries);
    llvm::append_range(values, returned.ofKeys);
    return values;
  };
  if (next || hasReturns()) {
    auto [first, second] = shard.emitOverlap(compute, communicate);
    ValueRange ofFirst = first, ofSecond = second;
    for (PairValues *pair : {&computed.own, &computed.others}) {
      replace(pair->ofQueries, ofFirst);
      replace(pair->ofKeys, ofFirst);
    }
    replace(computed.returned, ofFirst);
    for (Values *values : {&received.keys, &received.rows, &returned.ofQueries,
                           &returned.ofKeys})
      replace(*values, ofSecond);
  } else {
    compute();
  }
  auto take = [&](SmallVector<Values> &terms, const Values &term) {
    if (term.empty())
      return;
    if (next)
      terms.clear();
    terms.push_back(term);
  };
  if (goesOn())
    goOn(computed);
  else
    take(ofQueries, computed.own.ofQueries);
  take(ofKeys, computed.own.ofKeys);
  addReturned(returned);
  pending = computed.others;
  previous = &step;
  chunks = received;
}

SmallVector<Value> LightSeqEmitter::emit(ArrayRef<LightSeqStep> steps) {
  int64_t ranks = shard.placement.ranks;
  // A ring writes the results of one step in place.
  if (steps.size() == 1)
    return shard.emitRing(
        scheduleRing(ReachableChunks(ranks, llvm::BitVector(ranks)),
                     shard.placement),
        /*sent=*/std::nullopt);
  for (const LightSeqStep &step : steps.drop_back())
    emitStep(step, &step + 1);
  emitStep(steps.back(), /*next=*/nullptr);
  addReturned(emitReturns(emitReturnDestinations()));
  return shard.emitResults(ofQueries, ofKeys);
}

//===----------------------------------------------------------------------===//
// Remarks
//===----------------------------------------------------------------------===//

void attn::reportLightSeq(AttentionOpInterface op,
                          ArrayRef<LightSeqStep> steps) {
  int64_t ranks = steps.front().owners.size();
  int64_t numPairs = 0, numKeys = 0, numQueries = 0;
  SmallVector<int64_t> ofRank(ranks);
  for (const LightSeqStep &step : steps) {
    for (int64_t rank = 0; rank < ranks; ++rank)
      ofRank[rank] += step.getPair(rank) ? 1 : 0;
    numPairs += step.owners.count() + step.helpers.count();
    numKeys += step.distance == 0 ? 0 : step.owners.count();
    numQueries += step.helpers.count();
  }
  bool isGradient = isa<AttentionGradOp>(op.getOperation());
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "balanced schedule of " << ranks << " ranks: " << steps.size()
         << " steps; of " << ranks * ranks
         << " pairs of chunks, ranks attend to " << numPairs
         << ", one of them to " << *llvm::max_element(ofRank)
         << ", and send keys " << numKeys << " times, queries " << numQueries
         << " times, results "
         << (isGradient ? numKeys + numQueries : numQueries) << " times";
  auto options =
      remark::RemarkOpts::name("shard").category("attn-shard-attention");
  remark::passed(op.getLoc(), options) << text;
  if (ShapedType::isDynamic(getDimSize(op.getQuery(), sequenceDim)) ||
      ShapedType::isDynamic(getDimSize(op.getKey(), sequenceDim)))
    remark::missed(op.getLoc(), options)
        << "no step is left out and no rank helps, since lengths are dynamic";
}
