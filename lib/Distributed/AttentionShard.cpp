//===- AttentionShard.cpp - The attention of one rank ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HeadExchange.h"
#include "RankTensors.h"
#include "ShardEmitter.h"
#include "attn/Dialect/Attn/IR/AttnMergeOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/STLExtras.h"

#include <limits>
#include <tuple>

using namespace mlir;
using namespace mlir::attn;

/// The most partial results that are merged at once.
static constexpr size_t maxMerged = 16;

namespace {
/// Emits the attention of one rank.
class AttentionShard : public ShardEmitter {
public:
  AttentionShard(OpBuilder &builder, AttentionOp attention,
                 ChunkPlacement placement, Value rank, const HeadGroup &group);

  Values emitWhole(Value key, Value value) override;
  Values emitHeads(ArrayRef<RingStep> steps) override;
  Values emitSegments() override;

private:
  /// Results of attention to some keys.
  struct Partial {
    Value out, lse;
  };

  static Values getValues(Partial partial) {
    Values values = {partial.out};
    if (partial.lse)
      values.push_back(partial.lse);
    return values;
  }
  static SmallVector<Partial> getPartials(ArrayRef<Values> values) {
    return llvm::map_to_vector(
        values, [](const Values &of) { return Partial{of[0], of[1]}; });
  }

  Values emitComputation(const RingStep &step, bool isLast) override;
  void finishStep(const RingStep &step, ValueRange computed,
                  ValueRange transferred) override;
  Values emitRingResults(const RingStep &) override {
    return getValues(results);
  }
  Values getRows() override { return {attention.getQuery()}; }
  PairValues emitPairDestinations() override;
  SmallVector<APFloat> getNothing() override;
  bool doPairsGoOn() const override { return true; }
  Values emitPair(ValueRange rows, KeyValues keys, const ShardPlace &place,
                  bool isFirst, ValueRange destinations,
                  ValueRange before) override;
  Values emitTotal(ArrayRef<Values> terms) override;
  Values emitResults(ArrayRef<Values> ofQueries, ArrayRef<Values>) override;

  RankedTensorType getOutType() {
    return RankedTensorType::get(slotShape, b.getF32Type());
  }
  RankedTensorType getLseType() {
    return RankedTensorType::get(ArrayRef(slotShape).drop_back(),
                                 b.getF32Type());
  }
  /// A new destination for partial results of one slot.
  Partial emitPartialDestination();
  /// The destination of the results of `slot`.
  Partial emitResults(int64_t slot);

  /// Attention that goes on from `before` if there are such results.
  Partial emitAttention(Value query, KeyValues keys, const ShardPlace &place,
                        Partial destination, Value sinks, Partial before = {});
  /// `destination` with the results of no keys if it is new and rows may belong
  /// to no sequence.
  Partial emitCleared(Partial destination);
  /// The merged results, in `destination`.
  Partial emitMergedRows(ArrayRef<Partial> partials, Partial destination);
  /// The results of the queries of `slot` so far, in `destination`.
  Partial emitKept(Partial before, Partial destination, int64_t slot);
  /// The sinks of the heads of this rank of `ranks`; null if there are none.
  Value emitSinksOfRank(const HeadGroup &ranks);

  /// The numbers of keys that this rank has of the sequences of a KV cache;
  /// null if all keys count.
  Value emitLengthsOfRank();
  /// The results of no keys but the sinks.
  Partial emitPartialOfSinks();
  /// The results of all ranks, of which this one has `partial`.
  SmallVector<Partial> emitGatheredPartials(Partial partial);
  Partial emitMerge(ArrayRef<Partial> partials, Partial destination);

  /// The results of `step` with the queries of one slot and the keys of one. It
  /// goes on from `before` if there are such results.
  Partial emitPartial(const RingStep &step, int64_t querySlot, int64_t keySlot,
                      Partial destination, Partial before = {});
  /// The same, and `before` on ranks that do not attend.
  Partial emitPartialIfAttending(const RingStep &step, int64_t querySlot,
                                 int64_t keySlot, Partial destination,
                                 Partial before);
  /// The slots of keys to which some ranks attend in `step` with the queries of
  /// `slot`, in the order in which attention goes on.
  SmallVector<int64_t> orderKeySlots(const RingStep &step, int64_t slot) const;
  /// The results of the steps up to `step` with the queries of `slot`. They go
  /// to `destination`.
  Partial emitSlotOfStep(const RingStep &step, int64_t slot,
                         Partial destination);
  /// The results of all steps, of which `step` is the last one.
  void emitLastStep(const RingStep &step);

  AttentionOp attention;
  /// The shape of the output of one slot.
  SmallVector<int64_t> slotShape;
  /// Where the results go; there may be no log-sum-exp.
  Partial results;
  /// The results of the steps before with the queries of each slot.
  SmallVector<Partial, 2> state;
};
} // namespace

std::unique_ptr<ShardEmitter>
attn::createAttentionShard(OpBuilder &builder, AttentionOp op,
                           ChunkPlacement placement, Value rank,
                           const HeadGroup &group) {
  return std::make_unique<AttentionShard>(builder, op, placement, rank, group);
}

AttentionShard::AttentionShard(OpBuilder &builder, AttentionOp attention,
                               ChunkPlacement placement, Value rank,
                               const HeadGroup &group)
    : ShardEmitter(builder, attention, placement, rank, group),
      attention(attention), state(placement.chunksPerRank) {
  Value query = attention.getQuery();
  results.out = emitDestination(attention.getOut(), query);
  if (Value lse = attention.getLse())
    results.lse = emitDestination(lse, query);
  RankedTensorType type = getTensorType(results.out);
  slotShape.assign(type.getShape());
  if (!ShapedType::isDynamic(slotShape[sequenceDim]))
    slotShape[sequenceDim] /= placement.chunksPerRank;
}

AttentionShard::Partial AttentionShard::emitPartialDestination() {
  auto isDynamic = [](int64_t size) { return ShapedType::isDynamic(size); };
  Value like = attention.getQuery();
  if (llvm::any_of(slotShape, isDynamic))
    like = emitSlot(like, /*slot=*/0);
  // A step has destinations of several pairs, of which CSE would make one.
  return {emitAllocation(b, getOutType(), like),
          emitAllocation(b, getLseType(), like)};
}

AttentionShard::Partial AttentionShard::emitResults(int64_t slot) {
  return {emitSlot(results.out, slot),
          results.lse ? emitSlot(results.lse, slot) : Value()};
}

static void assignOptional(MutableOperandRange operand, Value value) {
  operand.clear();
  if (value)
    operand.assign(value);
}

AttentionShard::Partial
AttentionShard::emitAttention(Value query, KeyValues keys,
                              const ShardPlace &place, Partial destination,
                              Value sinks, Partial before) {
  Values outs = getValues(destination);
  auto shard = cast<AttentionOp>(emitCopy(ValueRange(outs).getTypes()));
  shard.getQueryMutable().assign(query);
  shard.getKeyMutable().assign(keys.key);
  shard.getValueMutable().assign(keys.value);
  shard.getOutMutable().assign(destination.out);
  assignOptional(shard.getLseMutable(), destination.lse);
  assignOptional(shard.getStateOutMutable(), before.out);
  assignOptional(shard.getStateLseMutable(), before.lse);
  assignOptional(shard.getSinksMutable(), sinks);
  assignPlace(shard, place);
  return {shard->getResult(0), destination.lse ? shard->getResult(1) : Value()};
}

AttentionShard::Partial AttentionShard::emitMerge(ArrayRef<Partial> partials,
                                                  Partial destination) {
  Values outs, lses;
  for (const Partial &partial : partials) {
    outs.push_back(partial.out);
    lses.push_back(partial.lse);
  }
  Values inits = getValues(destination);
  auto merge = MergeOp::create(b, ValueRange(inits).getTypes(), outs, lses,
                               destination.out, destination.lse,
                               /*schedule=*/nullptr);
  return {merge->getResult(0), destination.lse ? merge->getResult(1) : Value()};
}

AttentionShard::Partial AttentionShard::emitCleared(Partial destination) {
  if (!attention.hasSequences() || !isNew(destination.out))
    return destination;
  Partial cleared = destination;
  cleared.out = emitZeros(b, destination.out);
  const llvm::fltSemantics &f32 = APFloat::IEEEsingle();
  Value nothing = arith::ConstantFloatOp::create(
      b, b.getF32Type(), APFloat::getInf(f32, /*Negative=*/true));
  if (destination.lse)
    cleared.lse =
        linalg::FillOp::create(b, nothing, destination.lse).getResult(0);
  return cleared;
}

AttentionShard::Partial
AttentionShard::emitMergedRows(ArrayRef<Partial> partials,
                               Partial destination) {
  if (!attention.hasSequences() || isNew(destination.out))
    return emitMerge(partials, destination);
  Partial merged;
  merged.out = emitEmpty(b, getTensorType(destination.out), destination.out);
  if (destination.lse)
    merged.lse = emitEmpty(b, getTensorType(destination.lse), destination.lse);
  merged = emitMerge(partials, merged);
  merged.out = emitQueryRows(merged.out, destination.out);
  if (destination.lse)
    merged.lse = emitQueryRows(merged.lse, destination.lse);
  return merged;
}

AttentionShard::Partial
AttentionShard::emitKept(Partial before, Partial destination, int64_t slot) {
  auto emitRows = [&](Value value, Value destination) -> Value {
    bool keepsRows = attention.hasSequences() && !isNew(destination);
    return keepsRows || value.getType() != destination.getType()
               ? emitQueryRows(value, destination, slot)
               : emitCopied(value, destination).front();
  };
  return {emitRows(before.out, destination.out),
          destination.lse ? emitRows(before.lse, destination.lse) : Value()};
}

AttentionShard::Values AttentionShard::emitWhole(Value key, Value value) {
  return getValues(emitAttention(attention.getQuery(), {key, value},
                                 emitWholePositions(key), results,
                                 attention.getSinks()));
}

Value AttentionShard::emitSinksOfRank(const HeadGroup &ranks) {
  Value sinks = attention.getSinks();
  if (!sinks)
    return nullptr;
  int64_t heads = getTensorType(sinks).getDimSize(0) / ranks.ranks;
  return tensor::ExtractSliceOp::create(
      b, sinks, OpFoldResult(emitFirstHead(ranks)),
      OpFoldResult(b.getIndexAttr(heads)), OpFoldResult(b.getIndexAttr(1)));
}

AttentionShard::Values AttentionShard::emitHeads(ArrayRef<RingStep> steps) {
  HeadGroup ranks = emitHeadGroup();
  auto exchange = [&](Value chunk) { return emitHeadsOfRank(b, ranks, chunk); };
  Value query = exchange(attention.getQuery());
  KeyValues ofHeads = {exchange(keys.key), exchange(keys.value)};
  RankedTensorType outType = getTensorType(results.out);
  SmallVector<int64_t> shape(getTensorType(query).getShape().drop_back());
  Partial destination;
  if (results.lse)
    destination.lse =
        emitEmpty(b, RankedTensorType::get(shape, b.getF32Type()), query);
  shape.push_back(outType.getShape().back());
  destination.out = emitEmpty(b, outType.clone(shape), query);
  // Steps of a ring have positions of their own.
  ShardPlace place;
  if (steps.empty())
    place = emitHeadPositions(ranks, query, ofHeads.key);
  // So do their destinations.
  Partial cleared = steps.empty() ? emitCleared(destination) : destination;
  Values ofRank = getValues(
      emitAttention(query, ofHeads, place, cleared, emitSinksOfRank(ranks)));
  if (!steps.empty())
    ofRank = emitRingOfHeads(ofRank.front().getDefiningOp(), ranks, steps);
  int64_t heads = getDimSize(attention.getQuery(), headsDim);
  Values chunks;
  for (auto [value, result] : llvm::zip_equal(ofRank, getValues(results)))
    chunks.push_back(
        emitQueryRows(emitChunkOfRank(b, ranks, value, heads), result));
  return chunks;
}

//===----------------------------------------------------------------------===//
// Segments of keys
//===----------------------------------------------------------------------===//

Value AttentionShard::emitLengthsOfRank() {
  Value lengths = attention.getKeyLengths();
  if (!lengths)
    return nullptr;
  RankedTensorType type = getTensorType(lengths);
  auto word = [&](Value value) {
    return b.createOrFold<arith::IndexCastOp>(b.getI32Type(), value);
  };
  Value capacity = emitLength(keys.key);
  Value first = word(b.createOrFold<arith::MulIOp>(rank, capacity));
  // Lengths below 0 or above the number of keys stay so on a rank that has the
  // first or the last keys: attention reports them.
  auto bound = [&](int64_t number, Value bound, int32_t none) -> Value {
    Value isLast =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rank, index(number));
    Value unbounded = arith::ConstantIntOp::create(b, none, 32);
    return arith::SelectOp::create(b, isLast, unbounded, bound);
  };
  Value least = bound(0, arith::ConstantIntOp::create(b, 0, 32),
                      std::numeric_limits<int32_t>::min());
  Value most = bound(placement.ranks - 1, word(capacity),
                     std::numeric_limits<int32_t>::max());
  SmallVector<AffineMap> maps(2, b.getMultiDimIdentityMap(1));
  auto ofRank = linalg::GenericOp::create(
      b, type, lengths, emitEmpty(b, type, lengths), maps,
      utils::IteratorType::parallel,
      [&](OpBuilder &body, Location loc, ValueRange arguments) {
        Value rest = arith::SubIOp::create(body, loc, arguments.front(), first);
        Value length = arith::MaxSIOp::create(body, loc, rest, least);
        length = arith::MinSIOp::create(body, loc, length, most);
        linalg::YieldOp::create(body, loc, length);
      });
  return ofRank.getResult(0);
}

AttentionShard::Partial AttentionShard::emitPartialOfSinks() {
  Partial partial = emitPartialDestination();
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  partial.out = linalg::FillOp::create(b, zero, partial.out).getResult(0);
  AffineMap ofHeads = AffineMap::get(3, 0, b.getAffineDimExpr(headsDim));
  SmallVector<utils::IteratorType> loops(3, utils::IteratorType::parallel);
  auto broadcast = linalg::GenericOp::create(
      b, partial.lse.getType(), attention.getSinks(), partial.lse,
      ArrayRef<AffineMap>{ofHeads, b.getMultiDimIdentityMap(3)}, loops,
      [&](OpBuilder &body, Location loc, ValueRange arguments) {
        Value sink = arguments.front();
        if (!sink.getType().isF32())
          sink = arith::ExtFOp::create(body, loc, body.getF32Type(), sink);
        linalg::YieldOp::create(body, loc, sink);
      });
  partial.lse = broadcast.getResult(0);
  return partial;
}

SmallVector<AttentionShard::Partial>
AttentionShard::emitGatheredPartials(Partial partial) {
  Value outs = emitGathered(b, placement.ranks, partial.out);
  Value lses = emitGathered(b, placement.ranks, partial.lse);
  SmallVector<Partial> partials;
  for (int64_t number = 0; number < placement.ranks; ++number)
    partials.push_back({emitPart(b, outs, b.getIndexAttr(number)),
                        emitPart(b, lses, b.getIndexAttr(number))});
  return partials;
}

AttentionShard::Values AttentionShard::emitSegments() {
  ShardPlace place = emitSegmentPositions();
  if (placement.ranks == 1)
    return getValues(emitAttention(attention.getQuery(), keys, place, results,
                                   attention.getSinks()));
  Value lengths = emitLengthsOfRank();
  Partial ofRank = emitAttention(attention.getQuery(), keys, place,
                                 emitCleared(emitPartialDestination()),
                                 /*sinks=*/nullptr);
  if (lengths)
    ofRank.out.getDefiningOp<AttentionOp>().getKeyLengthsMutable().assign(
        lengths);
  SmallVector<Partial> partials = emitGatheredPartials(ofRank);
  if (attention.getSinks())
    partials.push_back(emitPartialOfSinks());
  // Kernels take the memory of a few partial results each.
  while (partials.size() > maxMerged) {
    SmallVector<Partial> merged;
    for (ArrayRef<Partial> rest = partials; !rest.empty();) {
      ArrayRef<Partial> group = rest.take_front(maxMerged);
      rest = rest.drop_front(group.size());
      merged.push_back(group.size() == 1
                           ? group.front()
                           : emitMerge(group, emitPartialDestination()));
    }
    partials = merged;
  }
  return getValues(emitMergedRows(partials, results));
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

AttentionShard::Partial AttentionShard::emitPartial(const RingStep &step,
                                                    int64_t querySlot,
                                                    int64_t keySlot,
                                                    Partial destination,
                                                    Partial before) {
  Value query = emitSlot(attention.getQuery(), querySlot);
  KeyValues ofSlot = emitSlot(keys, keySlot);
  ShardPlace place = emitPositions(step, query, querySlot, ofSlot.key, keySlot);
  // A sink counts once.
  bool hasSinks = step.number == 0 && querySlot == keySlot;
  return emitAttention(query, ofSlot, place, emitCleared(destination),
                       hasSinks ? attention.getSinks() : Value(), before);
}

AttentionShard::Partial
AttentionShard::emitPartialIfAttending(const RingStep &step, int64_t querySlot,
                                       int64_t keySlot, Partial destination,
                                       Partial before) {
  Values outs = getValues(destination);
  // Ranks that do not attend copy the results so far: the memory of results
  // then does not depend on the ranks that attend.
  Values partial = emitIfMember(
      step.getAttending(querySlot, keySlot), ValueRange(outs).getTypes(),
      [&] {
        return getValues(
            emitPartial(step, querySlot, keySlot, destination, before));
      },
      [&] { return getValues(emitKept(before, destination, querySlot)); });
  return {partial.front(), destination.lse ? partial.back() : Value()};
}

SmallVector<int64_t> AttentionShard::orderKeySlots(const RingStep &step,
                                                   int64_t slot) const {
  SmallVector<int64_t> keySlots;
  for (int64_t keySlot = 0; keySlot < placement.chunksPerRank; ++keySlot)
    if (step.getAttending(slot, keySlot).any())
      keySlots.push_back(keySlot);
  // In the first step, all ranks attend to the keys of the same slot, and begin
  // with these. Later, the slots of all ranks come last: no rank copies the
  // results of the last one.
  llvm::sort(keySlots, [&](int64_t lhs, int64_t rhs) {
    auto getPlace = [&](int64_t keySlot) {
      bool begins = step.number == 0 && keySlot == slot;
      return std::tuple(!begins, step.getAttending(slot, keySlot).all(),
                        keySlot);
    };
    return getPlace(lhs) < getPlace(rhs);
  });
  return keySlots;
}

AttentionShard::Partial AttentionShard::emitSlotOfStep(const RingStep &step,
                                                       int64_t slot,
                                                       Partial destination) {
  SmallVector<int64_t> keySlots = orderKeySlots(step, slot);
  Partial before = state[slot];
  if (keySlots.empty())
    return emitKept(before, destination, slot);
  for (int64_t keySlot : keySlots)
    before = emitPartialIfAttending(
        step, slot, keySlot,
        keySlot == keySlots.back() ? destination : emitPartialDestination(),
        before);
  return before;
}

void AttentionShard::emitLastStep(const RingStep &step) {
  for (int64_t slot = 0; slot < placement.chunksPerRank; ++slot) {
    Partial last = emitSlotOfStep(step, slot, emitResults(slot));
    results.out = emitWithSlot(results.out, last.out, slot);
    if (results.lse)
      results.lse = emitWithSlot(results.lse, last.lse, slot);
  }
}

AttentionShard::Values AttentionShard::emitComputation(const RingStep &step,
                                                       bool isLast) {
  if (isLast) {
    emitLastStep(step);
    return {};
  }
  Values computed;
  for (int64_t slot = 0; slot < placement.chunksPerRank; ++slot)
    if (step.hasAttention(slot))
      llvm::append_range(computed, getValues(emitSlotOfStep(
                                       step, slot, emitPartialDestination())));
  return computed;
}

void AttentionShard::finishStep(const RingStep &step, ValueRange computed,
                                ValueRange) {
  if (computed.empty())
    return;
  for (int64_t slot = 0; slot < placement.chunksPerRank; ++slot)
    if (step.hasAttention(slot)) {
      state[slot] = {computed[0], computed[1]};
      computed = computed.drop_front(2);
    }
}

//===----------------------------------------------------------------------===//
// Pairs of chunks
//===----------------------------------------------------------------------===//

AttentionShard::PairValues AttentionShard::emitPairDestinations() {
  return {getValues(emitPartialDestination()), {}};
}

SmallVector<APFloat> AttentionShard::getNothing() {
  const llvm::fltSemantics &f32 = APFloat::IEEEsingle();
  return {APFloat::getZero(f32), APFloat::getInf(f32, /*Negative=*/true)};
}

AttentionShard::Values AttentionShard::emitPair(ValueRange rows, KeyValues keys,
                                                const ShardPlace &place,
                                                bool isFirst,
                                                ValueRange destinations,
                                                ValueRange before) {
  Partial destination = emitCleared({destinations[0], destinations[1]});
  // A sink counts once.
  return getValues(emitAttention(
      rows.front(), keys, place, destination,
      isFirst ? attention.getSinks() : Value(),
      before.empty() ? Partial() : Partial{before[0], before[1]}));
}

AttentionShard::Values AttentionShard::emitTotal(ArrayRef<Values> terms) {
  return getValues(emitMerge(getPartials(terms), emitPartialDestination()));
}

AttentionShard::Values AttentionShard::emitResults(ArrayRef<Values> ofQueries,
                                                   ArrayRef<Values>) {
  if (ofQueries.size() > 1)
    return getValues(emitMergedRows(getPartials(ofQueries), results));
  const Values &only = ofQueries.front();
  return getValues(emitKept({only[0], only[1]}, results, /*slot=*/0));
}
