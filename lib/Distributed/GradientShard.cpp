//===- GradientShard.cpp - The gradient of attention of one rank ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In a ring, the gradients of keys and values follow them: a rank receives the
// sum of all ranks before it one step later than the keys, adds its own part
// and sends the sum on. From the last rank that needs the keys, it goes back to
// their owner.
//
//===----------------------------------------------------------------------===//

#include "HeadExchange.h"
#include "RankTensors.h"
#include "ShardEmitter.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Emits the gradient of attention of one rank.
class GradientShard : public ShardEmitter {
public:
  GradientShard(OpBuilder &builder, AttentionGradOp grad,
                ChunkPlacement placement, Value rank, const HeadGroup &group)
      : ShardEmitter(builder, grad, placement, rank, group), grad(grad),
        queryGrads(placement.chunksPerRank),
        captureGrads(grad.getDcaptures().size()) {}

  Values emitWhole(Value key, Value value) override;
  Values emitHeads(ArrayRef<RingStep> steps) override;

private:
  Values emitComputation(const RingStep &step, bool isLast) override;
  bool hasTransfer(const RingStep &step) override { return step.number != 0; }
  Values emitTransfer(const RingStep &step) override;
  void finishStep(const RingStep &step, ValueRange computed,
                  ValueRange transferred) override;
  Values emitRingResults(const RingStep &last) override;
  Values getRows() override;
  PairValues emitPairDestinations() override;
  SmallVector<APFloat> getNothing() override {
    return {APFloat::getZero(APFloat::IEEEsingle())};
  }
  Values emitPair(ValueRange rows, KeyValues keys, const ShardPlace &place,
                  bool isFirst, ValueRange destinations,
                  ValueRange before) override;
  Values emitTotal(ArrayRef<Values> terms) override;
  Values emitResults(ArrayRef<Values> ofQueries,
                     ArrayRef<Values> ofKeys) override;

  /// A new f32 tensor for the gradient of `like`.
  Value emitAccumulator(Value like) {
    return emitEmpty(b, getTensorType(like).clone(b.getF32Type()), like);
  }
  /// `destination`, filled with zeros if rows may belong to no sequence.
  Value emitCleared(Value destination) {
    return grad.hasSequences() ? emitZeros(b, destination) : destination;
  }
  /// A new tensor, cleared, with the dynamic sizes of `like`.
  Value emitNewRows(RankedTensorType type, Value like) {
    if (!grad.hasSequences())
      return emitEmpty(b, type, like);
    return emitCleared(emitAllocation(b, type, like));
  }
  /// A new f32 tensor, cleared, for the gradients of all rows of `like`.
  Value emitTotal(Value like) {
    return emitNewRows(getTensorType(like).clone(b.getF32Type()), like);
  }
  /// New f32 tensors, filled with zeros, for the gradients of captured tensors,
  /// of which ranks have all elements.
  Values emitCaptureZeros();
  /// The gradients of captured tensors from `ofRank`, the terms of this rank.
  Values emitCaptures(ValueRange ofRank);
  /// The gradients with `getRows` of all tensors with rows of queries, in
  /// `destinations`.
  Values emitGradient(function_ref<Value(Value)> getRows, KeyValues keys,
                      const ShardPlace &place, ValueRange destinations);
  /// The gradients of `step` with the queries of one slot and the keys of one,
  /// and 0 on ranks that do not attend.
  Values emitPartial(const RingStep &step, int64_t querySlot, int64_t keySlot);
  /// The sum of `whole`, gradients of all keys, over all ranks: the part of
  /// this rank.
  Value emitReduceScatter(Value whole);

  /// The gradients that travel, and `parts` of this rank for each slot. In the
  /// first step, these are all there is.
  KeyValues emitWithParts(ArrayRef<KeyValues> parts);
  /// Sends gradients from the last holders of `step` to their owners. Gives the
  /// gradients of the rows that travel.
  KeyValues emitReturn(const RingStep &step);
  /// Takes such gradients of this rank's keys and values.
  void takeReturned(KeyValues rows) {
    returned = {emitWithSentRows(returned.key, rows.key),
                emitWithSentRows(returned.value, rows.value)};
  }

  AttentionGradOp grad;
  /// The gradients of the queries of each slot, of the steps before.
  Values queryGrads;
  /// The gradients of captured tensors, of the steps before.
  Values captureGrads;
  /// The gradients of the keys and values that this rank had in `previous`,
  /// without ranks that come later in the ring.
  KeyValues travelling;
  const RingStep *previous = nullptr;
  /// The gradients of this rank's keys and values, once they have come back.
  KeyValues returned;
};
} // namespace

std::unique_ptr<ShardEmitter>
attn::createGradientShard(OpBuilder &builder, AttentionGradOp op,
                          ChunkPlacement placement, Value rank,
                          const HeadGroup &group) {
  return std::make_unique<GradientShard>(builder, op, placement, rank, group);
}

/// The operands of `grad` with rows of queries.
static SmallVector<OpOperand *> getRowOperands(AttentionGradOp grad) {
  SmallVector<OpOperand *> rows = {&grad.getQueryMutable(),
                                   &grad.getOutMutable(), &grad.getLseMutable(),
                                   &grad.getDoutMutable()};
  llvm::append_range(rows, llvm::make_pointer_range(grad.getDlseMutable()));
  return rows;
}

GradientShard::Values
GradientShard::emitGradient(function_ref<Value(Value)> getRows, KeyValues keys,
                            const ShardPlace &place, ValueRange destinations) {
  auto shard = cast<AttentionGradOp>(emitCopy(destinations.getTypes()));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(shard);
  for (OpOperand *operand : getRowOperands(shard))
    operand->set(getRows(operand->get()));
  shard.getKeyMutable().assign(keys.key);
  shard.getValueMutable().assign(keys.value);
  shard.getDqueryMutable().assign(destinations[0]);
  shard.getDkeyMutable().assign(destinations[1]);
  shard.getDvalueMutable().assign(destinations[2]);
  shard.getDcapturesMutable().assign(destinations.drop_front(3));
  assignPlace(shard, place);
  return shard->getResults();
}

//===----------------------------------------------------------------------===//
// Captured tensors
//===----------------------------------------------------------------------===//

GradientShard::Values GradientShard::emitCaptureZeros() {
  Values zeros;
  for (Value like : grad.getDcaptures())
    zeros.push_back(emitZeros(b, emitAllocation(b, getTensorType(like), like)));
  return zeros;
}

GradientShard::Values GradientShard::emitCaptures(ValueRange ofRank) {
  Values results;
  for (auto [destination, part] :
       llvm::zip_equal(grad.getDcaptures(), ofRank)) {
    Value sum = part;
    if (placement.ranks > 1)
      sum = emitSumOfParts(b, emitGathered(b, placement.ranks, part));
    // Gradients are added to the contents of destinations.
    results.push_back(emitSum(b, {destination, sum}));
  }
  return results;
}

//===----------------------------------------------------------------------===//
// All keys at once
//===----------------------------------------------------------------------===//

Value GradientShard::emitReduceScatter(Value whole) {
  // The parts of ranks become neighbors in the first dimension.
  Value split = emitSplit(b, whole, sequenceDim, placement.ranks);
  Value sent = emitTransposed(b, split, {2, 0, 1, 3, 4});
  return emitSumOfParts(b, emitExchanged(b, sent));
}

GradientShard::Values GradientShard::emitWhole(Value key, Value value) {
  Value dquery = emitDestination(grad.getDquery(), grad.getQuery());
  Value dkey = emitDestination(grad.getDkey(), grad.getKey());
  Value dvalue = emitDestination(grad.getDvalue(), grad.getValue());
  Values destinations = {dquery, emitTotal(key), emitTotal(value)};
  llvm::append_range(destinations, emitCaptureZeros());
  Values whole = emitGradient([](Value rows) { return rows; }, {key, value},
                              emitWholePositions(key), destinations);
  Value keySum = emitReduceScatter(whole[1]);
  Value valueSum = emitReduceScatter(whole[2]);
  Values results = {whole[0], emitKeyRows(keySum, dkey),
                    emitKeyRows(valueSum, dvalue)};
  llvm::append_range(results, emitCaptures(ValueRange(whole).drop_front(3)));
  return results;
}

//===----------------------------------------------------------------------===//
// Heads for positions
//===----------------------------------------------------------------------===//

GradientShard::Values GradientShard::emitHeads(ArrayRef<RingStep> steps) {
  HeadGroup ranks = emitHeadGroup();
  auto exchange = [&](Value chunk) { return emitHeadsOfRank(b, ranks, chunk); };
  Value query = exchange(grad.getQuery());
  KeyValues ofHeads = {exchange(keys.key), exchange(keys.value)};
  auto getRows = [&](Value rows) {
    return rows == grad.getQuery() ? query : exchange(rows);
  };
  // What several ranks have of a head are terms of a sum.
  auto emitNew = [&](Value whole, Value chunk) {
    bool isSum = getDimSize(chunk, headsDim) % ranks.ranks != 0;
    RankedTensorType type = getTensorType(whole).clone(
        isSum ? b.getF32Type() : getElementTypeOrSelf(chunk));
    // Steps of a ring have destinations of their own.
    return steps.empty() ? emitNewRows(type, whole) : emitEmpty(b, type, whole);
  };
  // Steps of a ring have positions of their own, too.
  ShardPlace place;
  if (steps.empty())
    place = emitHeadPositions(ranks, query, ofHeads.key);
  Values destinations = {emitNew(query, grad.getDquery()),
                         emitNew(ofHeads.key, grad.getDkey()),
                         emitNew(ofHeads.value, grad.getDvalue())};
  llvm::append_range(destinations, emitCaptureZeros());
  Values gradients = emitGradient(getRows, ofHeads, place, destinations);
  if (!steps.empty())
    gradients =
        emitRingOfHeads(gradients.front().getDefiningOp(), ranks, steps);
  auto emitChunk = [&](int64_t number, Value destination, Value like) {
    Value chunk = emitChunkOfRank(b, ranks, gradients[number],
                                  getDimSize(like, headsDim));
    destination = emitDestination(destination, like);
    return number == 0 ? emitQueryRows(chunk, destination)
                       : emitKeyRows(chunk, destination);
  };
  Values results = {emitChunk(0, grad.getDquery(), grad.getQuery()),
                    emitChunk(1, grad.getDkey(), grad.getKey()),
                    emitChunk(2, grad.getDvalue(), grad.getValue())};
  llvm::append_range(results,
                     emitCaptures(ValueRange(gradients).drop_front(3)));
  return results;
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

GradientShard::Values GradientShard::emitPartial(const RingStep &step,
                                                 int64_t querySlot,
                                                 int64_t keySlot) {
  Value query = emitSlot(grad.getQuery(), querySlot);
  KeyValues ofSlot = emitSlot(keys, keySlot);
  Values destinations;
  for (Value like : {query, ofSlot.key, ofSlot.value})
    destinations.push_back(
        emitAllocation(b, getTensorType(like).clone(b.getF32Type()), like));
  for (Value like : grad.getDcaptures())
    destinations.push_back(emitAllocation(b, getTensorType(like), like));
  SmallVector<APFloat> zeros(destinations.size(),
                             APFloat::getZero(APFloat::IEEEsingle()));
  return emitIfMember(
      step.getAttending(querySlot, keySlot),
      ValueRange(destinations).getTypes(),
      [&] {
        ShardPlace place =
            emitPositions(step, query, querySlot, ofSlot.key, keySlot);
        auto getRows = [&](Value rows) { return emitSlot(rows, querySlot); };
        Values cleared;
        for (auto [number, value] : llvm::enumerate(destinations))
          cleared.push_back(number < 3 ? emitCleared(value)
                                       : emitZeros(b, value));
        return emitGradient(getRows, ofSlot, place, cleared);
      },
      [&] { return emitFilled(destinations, zeros); });
}

GradientShard::Values GradientShard::emitComputation(const RingStep &step,
                                                     bool) {
  int64_t slots = placement.chunksPerRank;
  // The terms of the gradients of queries, then of keys, then of values, then
  // of captured tensors.
  SmallVector<Values> terms(3 * slots + captureGrads.size());
  for (auto [number, before] : llvm::enumerate(captureGrads))
    if (before)
      terms[3 * slots + number].push_back(before);
  for (int64_t querySlot = 0; querySlot < slots; ++querySlot) {
    if (step.hasAttention(querySlot) && queryGrads[querySlot])
      terms[querySlot].push_back(queryGrads[querySlot]);
    for (int64_t keySlot = 0; keySlot < slots; ++keySlot) {
      if (step.getAttending(querySlot, keySlot).none())
        continue;
      Values partial = emitPartial(step, querySlot, keySlot);
      terms[querySlot].push_back(partial[0]);
      terms[slots + keySlot].push_back(partial[1]);
      terms[2 * slots + keySlot].push_back(partial[2]);
      for (size_t number = 0; number < captureGrads.size(); ++number)
        terms[3 * slots + number].push_back(partial[3 + number]);
    }
  }
  Values computed;
  for (const Values &ofSlot : terms)
    if (!ofSlot.empty())
      computed.push_back(emitSum(b, ofSlot));
  return computed;
}

GradientShard::KeyValues GradientShard::emitReturn(const RingStep &step) {
  llvm::BitVector owners = step.getOwnersOfLast();
  Values destinations;
  if (!owners.all()) {
    KeyValues rows = emitSentRows(returned);
    destinations = {rows.key, rows.value};
  }
  Values received =
      emitExchange({travelling.key, travelling.value}, step.lastHolders, owners,
                   /*distance=*/-step.number, destinations);
  return {received[0], received[1]};
}

GradientShard::Values GradientShard::emitTransfer(const RingStep &step) {
  if (step.number == 0)
    return {};
  Values received =
      emitExchange({travelling.key, travelling.value}, step.getSenders(),
                   step.receivers, /*distance=*/1);
  if (previous->hasReturn()) {
    KeyValues back = emitReturn(*previous);
    received.append({back.key, back.value});
  }
  return received;
}

GradientShard::KeyValues
GradientShard::emitWithParts(ArrayRef<KeyValues> parts) {
  if (!previous && parts.size() == 1)
    return parts.front();
  KeyValues totals = travelling;
  if (!previous)
    totals = {emitAccumulator(grad.getKey()), emitAccumulator(grad.getValue())};
  auto add = [&](Value sum, Value part, int64_t slot) {
    if (previous)
      part = emitSum(b, {emitSlot(sum, slot), part});
    return emitWithSlot(sum, part, slot);
  };
  for (int64_t slot = 0; slot < placement.chunksPerRank; ++slot)
    if (KeyValues part = parts[slot]; part.key)
      totals = {add(totals.key, part.key, slot),
                add(totals.value, part.value, slot)};
  return totals;
}

void GradientShard::finishStep(const RingStep &step, ValueRange computed,
                               ValueRange transferred) {
  auto take = [&]() -> Value {
    Value value = computed.front();
    computed = computed.drop_front();
    return value;
  };
  int64_t slots = placement.chunksPerRank;
  SmallVector<KeyValues> parts(slots);
  for (int64_t slot = 0; slot < slots; ++slot)
    if (step.hasAttention(slot))
      queryGrads[slot] = take();
  for (Value KeyValues::*which : {&KeyValues::key, &KeyValues::value})
    for (int64_t slot = 0; slot < slots; ++slot)
      if (step.isAttended(slot))
        parts[slot].*which = take();
  if (step.getAttending().any())
    for (Value &captureGrad : captureGrads)
      captureGrad = take();
  if (previous)
    travelling = {transferred[0], transferred[1]};
  travelling = emitWithParts(parts);
  if (!previous) {
    returned = travelling;
    travelling = emitSentRows(travelling);
  } else if (previous->hasReturn()) {
    takeReturned({transferred[2], transferred[3]});
  }
  previous = &step;
}

GradientShard::Values GradientShard::emitRingResults(const RingStep &last) {
  if (last.hasReturn())
    takeReturned(emitReturn(last));
  Value dquery = emitDestination(grad.getDquery(), grad.getQuery());
  for (auto [slot, gradient] : llvm::enumerate(queryGrads)) {
    Value rounded = emitQueryRows(gradient, emitSlot(dquery, slot), slot);
    dquery = emitWithSlot(dquery, rounded, slot);
  }
  Value dkey = emitDestination(grad.getDkey(), grad.getKey());
  Value dvalue = emitDestination(grad.getDvalue(), grad.getValue());
  Values results = {dquery, emitKeyRows(returned.key, dkey),
                    emitKeyRows(returned.value, dvalue)};
  // Members of a group have other heads: their terms are added up later.
  llvm::append_range(results, group.ranks > 1 ? captureGrads
                                              : emitCaptures(captureGrads));
  return results;
}

//===----------------------------------------------------------------------===//
// Pairs of chunks
//===----------------------------------------------------------------------===//

GradientShard::Values GradientShard::getRows() {
  Values rows;
  for (OpOperand *operand : getRowOperands(grad))
    rows.push_back(operand->get());
  return rows;
}

GradientShard::PairValues GradientShard::emitPairDestinations() {
  auto emitNew = [&](Value like) {
    return emitAllocation(b, getTensorType(like).clone(b.getF32Type()), like);
  };
  return {{emitNew(grad.getQuery())},
          {emitNew(grad.getKey()), emitNew(grad.getValue())}};
}

GradientShard::Values GradientShard::emitPair(ValueRange rows, KeyValues keys,
                                              const ShardPlace &place, bool,
                                              ValueRange destinations,
                                              ValueRange) {
  auto getNext = [&](Value) {
    Value next = rows.front();
    rows = rows.drop_front();
    return next;
  };
  auto cleared = llvm::map_to_vector(
      destinations, [&](Value value) { return emitCleared(value); });
  return emitGradient(getNext, keys, place, cleared);
}

GradientShard::Values GradientShard::emitTotal(ArrayRef<Values> terms) {
  Values totals;
  for (size_t number = 0; number < terms.front().size(); ++number) {
    Values ofNumber;
    for (const Values &term : terms)
      ofNumber.push_back(term[number]);
    totals.push_back(emitSum(b, ofNumber));
  }
  return totals;
}

GradientShard::Values GradientShard::emitResults(ArrayRef<Values> ofQueries,
                                                 ArrayRef<Values> ofKeys) {
  Value ofQuery = emitTotal(ofQueries).front();
  Values ofKey = emitTotal(ofKeys);
  return {emitQueryRows(ofQuery,
                        emitDestination(grad.getDquery(), grad.getQuery())),
          emitKeyRows(ofKey[0], emitDestination(grad.getDkey(), grad.getKey())),
          emitKeyRows(ofKey[1],
                      emitDestination(grad.getDvalue(), grad.getValue()))};
}
