//===- ShardEmitter.cpp - The computation of one rank ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShardEmitter.h"
#include "RankTensors.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::attn;

ShardEmitter::ShardEmitter(OpBuilder &builder, AttentionOpInterface op,
                           ChunkPlacement placement, Value rank,
                           const HeadGroup &group)
    : b(op.getLoc(), builder), op(op), placement(placement), rank(rank),
      group(group), keys{op.getKey(), op.getValue()},
      querySequences(placement.chunksPerRank) {
  b.setInsertionPoint(op);
}

std::unique_ptr<ShardEmitter> attn::createShardEmitter(OpBuilder &builder,
                                                       AttentionOpInterface op,
                                                       ChunkPlacement placement,
                                                       Value rank,
                                                       const HeadGroup &group) {
  if (auto grad = dyn_cast<AttentionGradOp>(op.getOperation()))
    return createGradientShard(builder, grad, placement, rank, group);
  return createAttentionShard(builder, cast<AttentionOp>(op.getOperation()),
                              placement, rank, group);
}

bool attn::needsPositions(AttentionOpInterface op) {
  auto isUsed = [](BlockArgument argument) { return !argument.use_empty(); };
  Region &scoreMod = op.getScoreMod();
  bool scoreHasPositions =
      !scoreMod.empty() &&
      llvm::any_of(scoreMod.getArguments().drop_front(), isUsed);
  if (op.hasDropout() || scoreHasPositions || !op.getMaskMod().empty())
    return true;
  MaskAttrInterface mask = op.getMaskAttr();
  if (!mask)
    return false;
  auto causal = dyn_cast<CausalAttr>(mask);
  return !causal || causal.getAlignment() != MaskAlignment::BottomRight ||
         getDimSize(op.getQuery(), sequenceDim) != 1;
}

//===----------------------------------------------------------------------===//
// Ranks and positions
//===----------------------------------------------------------------------===//

Value ShardEmitter::index(int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

Value ShardEmitter::emitRank(int64_t offset) {
  if (offset == 0)
    return rank;
  int64_t ranks = placement.ranks;
  Value sum = arith::AddIOp::create(b, rank, index((offset + ranks) % ranks));
  return arith::RemUIOp::create(b, sum, index(ranks));
}

Value ShardEmitter::emitChunk(Value of, int64_t slot) {
  if (slot == 0)
    return of;
  return arith::SubIOp::create(b, index(placement.getChunk(0, slot)), of);
}

Value ShardEmitter::emitContains(const llvm::BitVector &set) {
  if (set.all())
    return nullptr;
  // As intervals: few masks give more than one.
  Value contained;
  for (int begin = set.find_first(); begin >= 0;) {
    int end = set.find_next_unset(begin);
    Value inside;
    auto compare = [&](arith::CmpIPredicate predicate, int64_t bound) {
      Value holds = arith::CmpIOp::create(b, predicate, rank, index(bound));
      inside = inside ? arith::AndIOp::create(b, inside, holds) : holds;
    };
    if (begin > 0)
      compare(arith::CmpIPredicate::uge, begin);
    if (end >= 0)
      compare(arith::CmpIPredicate::ult, end);
    contained = contained ? arith::OrIOp::create(b, contained, inside) : inside;
    begin = end < 0 ? -1 : set.find_next(end);
  }
  return contained;
}

ShardPlace ShardEmitter::emitPositions(const FirstPositions &first,
                                       Value numQueries, Value numKeys) {
  Value zero = arith::ConstantIntOp::create(b, 0, 32);
  auto word = [&](Value value) {
    return value ? b.createOrFold<arith::IndexCastOp>(b.getI32Type(), value)
                 : zero;
  };
  ShardPlace place;
  place.first = first;
  place.positions = tensor::FromElementsOp::create(
      b, ValueRange{word(first.query), word(first.key), zero, word(first.head),
                    word(numQueries), word(numKeys)});
  return place;
}

ShardPlace ShardEmitter::emitWholePositions(Value key) {
  if (op.hasSequences())
    return emitWholeInSequences();
  Value queries = emitLength(op.getQuery());
  Value numQueries =
      b.createOrFold<arith::MulIOp>(queries, index(placement.ranks));
  FirstPositions first;
  first.query = b.createOrFold<arith::MulIOp>(rank, queries);
  return emitPositions(first, numQueries, emitLength(key));
}

ShardPlace ShardEmitter::emitHeadPositions(const HeadGroup &ranks, Value query,
                                           Value key) {
  if (op.hasSequences()) {
    ShardPlace place;
    place.localMask = op.getMaskAttr();
    if (usesHeadInRegions(op))
      place.firstHead = emitFirstHead(ranks);
    if (op.hasDropout())
      place.first.head = emitFirstHead(ranks);
    if (op.getDropoutAttr())
      place.positions =
          emitPositions(place.first, emitLength(query), emitLength(key))
              .positions;
    return place;
  }
  auto isEmpty = [](Region &region) { return region.empty(); };
  bool isSame = llvm::all_of(op->getRegions(), isEmpty);
  if (!op.hasDropout() && isSame)
    return {};
  FirstPositions first;
  first.head = emitFirstHead(ranks);
  if (op.getDropoutMask() && isSame) {
    ShardPlace place;
    place.first = first;
    return place;
  }
  return emitPositions(first, emitLength(query), emitLength(key));
}

ShardPlace ShardEmitter::emitSegmentPositions() {
  if (op.hasSequences())
    return emitSegmentInSequences();
  if (!needsPositions(op))
    return {};
  Value numKeys = emitLength(op.getKey());
  FirstPositions first;
  first.key = b.createOrFold<arith::MulIOp>(rank, numKeys);
  return emitPositions(
      first, emitLength(op.getQuery()),
      b.createOrFold<arith::MulIOp>(numKeys, index(placement.ranks)));
}

ShardPlace ShardEmitter::emitPositions(const RingStep &step, Value query,
                                       int64_t querySlot, Value key,
                                       int64_t keySlot) {
  if (op.hasSequences())
    return places[querySlot * placement.chunksPerRank + keySlot];
  if (placement.isStriped)
    return emitStripedPlace(step, query, key);
  auto multiply = [&](Value lhs, Value rhs) {
    return b.createOrFold<arith::MulIOp>(lhs, rhs);
  };
  // A rank has all rows of its own chunk.
  Value queries = emitLength(query);
  Value numKeys = emitLength(sentRows ? op.getKey() : key);
  Value chunks = index(placement.getNumChunks());
  FirstPositions first;
  first.query = multiply(emitChunk(rank, querySlot), queries);
  first.key = multiply(emitChunk(emitRank(-step.number), keySlot), numKeys);
  if (sentRows && step.number != 0)
    first.key =
        b.createOrFold<arith::AddIOp>(first.key, index(sentRows->first));
  if (group.ranks > 1)
    first.head = group.emitFirstHead(b, getDimSize(op.getQuery(), headsDim));
  return emitPositions(first, multiply(queries, chunks),
                       multiply(numKeys, chunks));
}

ShardPlace ShardEmitter::emitStripedPlace(const RingStep &step, Value query,
                                          Value key) {
  StripedMask mask = getStripedMask(op, step.number, placement.ranks);
  ShardPlace place;
  place.localMask = mask.mask;
  bool seesRows = (op.getMaskAttr() && !mask.mask) ||
                  usesRowsInRegions(op, /*hasMaskMod=*/true);
  // The positions of an attention alone are its rows.
  if (step.number == 0 && !seesRows && mask.firstQuery == 0)
    return place;
  FirstPositions first;
  if (mask.firstQuery != 0)
    first.query = index(mask.firstQuery);
  if (step.number != 0) {
    Value isBefore = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, rank,
                                           index(step.number));
    first.key = arith::SelectOp::create(b, isBefore, index(1), index(0));
  }
  place.positions =
      emitPositions(first, emitLength(query), emitLength(key)).positions;
  if (!seesRows)
    return place;
  Value ranks = index(placement.ranks);
  auto getWhole = [&](Value tensor) {
    return b.createOrFold<arith::MulIOp>(emitLength(tensor), ranks);
  };
  auto word = [&](Value value) {
    return b.createOrFold<arith::IndexCastOp>(b.getI32Type(), value);
  };
  Stripe stripe{placement.ranks,   step.number,     mask.firstQuery,
                /*whole=*/nullptr, getWhole(query), getWhole(key)};
  stripe.whole = tensor::FromElementsOp::create(
      b, ValueRange{word(rank), word(stripe.queries), word(stripe.keys)});
  place.stripe = stripe;
  return place;
}

Value ShardEmitter::emitLength(Value tensor) {
  return b.createOrFold<tensor::DimOp>(tensor, sequenceDim);
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

/// Whether the mask or a region of a shard at `place` sees positions.
static bool seesRows(AttentionOpInterface op, const ShardPlace &place) {
  bool isLocal = place.isFull || place.localMask;
  return (op.getMaskAttr() && !isLocal) ||
         usesRowsInRegions(op, /*hasMaskMod=*/!place.isFull);
}

ShardEmitter::SlotSequences
ShardEmitter::emitSequencesInRows(Value boundaries, const ShardRows &rows,
                                  bool seesRows) {
  SlotSequences result = {emitBoundariesInRows(b, boundaries, rows), nullptr};
  if (seesRows)
    result.firstPositions = emitFirstPositions(b, boundaries, rows);
  return result;
}

ShardRows ShardEmitter::emitRowsOfSlot(Value tensor, Value of, int64_t slot) {
  Value length = b.createOrFold<arith::DivUIOp>(emitLength(tensor),
                                                index(placement.chunksPerRank));
  Value total =
      b.createOrFold<arith::MulIOp>(length, index(placement.getNumChunks()));
  if (placement.isStriped)
    return {of, length, total, /*stride=*/placement.ranks};
  return {b.createOrFold<arith::MulIOp>(emitChunk(of, slot), length), length,
          total};
}

ShardPlace ShardEmitter::emitWholeInSequences() {
  ShardPlace place;
  if (placement.ranks == 1)
    return place;
  ShardRows rows = emitRowsOfSlot(op.getQuery(), rank, /*slot=*/0);
  // Without the keys behind them, the last queries of a sequence are at its
  // last keys.
  place.localMask = getMaskOfDistances(op, /*isBefore=*/true);
  if (place.localMask)
    place.keySequences = emitBoundariesUpTo(
        b, op.getKeySequences(),
        b.createOrFold<arith::AddIOp>(rows.first, rows.length));
  SlotSequences queries =
      emitSequencesInRows(op.getQuerySequences(), rows, seesRows(op, place));
  place.querySequences = queries.boundaries;
  place.firstQueries = queries.firstPositions;
  return place;
}

ShardPlace ShardEmitter::emitSegmentInSequences() {
  ShardPlace place;
  if (placement.ranks == 1)
    return place;
  ShardRows rows = emitRowsOfSlot(op.getKey(), rank, /*slot=*/0);
  SlotSequences segment =
      emitSequencesInRows(op.getKeySequences(), rows, seesRows(op, place));
  place.keySequences = segment.boundaries;
  place.firstKeys = segment.firstPositions;
  return place;
}

bool ShardEmitter::isFull(const ChunksOfRanks &chunks,
                          const llvm::BitVector &attending) {
  // Ranks that are striped have rows of all parts of the mask.
  auto getWhole = [&](Value tensor) {
    int64_t length = getDimSize(tensor, sequenceDim);
    bool isKnown = !ShapedType::isDynamic(length) && !placement.isStriped;
    return isKnown ? length * placement.ranks : ShapedType::kDynamic;
  };
  if (fullChunks.empty())
    fullChunks = findFullChunksOfSequences(op, getWhole(op.getQuery()),
                                           getWhole(op.getKey()),
                                           placement.getNumChunks());
  int64_t ranks = placement.ranks;
  return llvm::all_of(attending.set_bits(), [&](int64_t rank) {
    int64_t other = (rank + ranks - chunks.distance) % ranks;
    int64_t query = chunks.helps ? other : rank;
    int64_t key = chunks.helps ? rank : other;
    return fullChunks[placement.getChunk(query, chunks.querySlot)].test(
        placement.getChunk(key, chunks.keySlot));
  });
}

void ShardEmitter::chooseMaskInSequences(const ChunksOfRanks &chunks,
                                         const RowsOfRanks &rows,
                                         ShardPlace &place) {
  MaskAttrInterface mask = getMaskOfDistances(op, /*isBefore=*/false);
  if (!mask)
    return;
  // Queries and keys of the same rows are as far from one another as in the
  // whole.
  bool isOwn = chunks.distance == 0 && chunks.querySlot == chunks.keySlot;
  if (!placement.isStriped) {
    int64_t queries = getDimSize(op.getQuery(), sequenceDim);
    if (isOwn && !ShapedType::isDynamic(queries) &&
        queries == getDimSize(op.getKey(), sequenceDim))
      place.localMask = mask;
    return;
  }
  StripedMask ofRows = getStripedMask(op, chunks.distance, placement.ranks);
  if (isOwn) {
    place.localMask = ofRows.mask;
  } else if (ofRows.firstQuery == 0 &&
             !usesRowsInRegions(op, /*hasMaskMod=*/true)) {
    place.mask = ofRows.mask;
    place.firstKeys =
        emitRowsBefore(b, op.getKeySequences(), rows.queries, rows.keys);
  }
}

ShardPlace
ShardEmitter::emitPlaceInSequences(const ChunksOfRanks &chunks,
                                   const llvm::BitVector &attending) {
  Value other = emitRank(-chunks.distance);
  RowsOfRanks rows{
      emitRowsOfSlot(op.getQuery(), chunks.helps ? other : rank,
                     chunks.querySlot),
      emitRowsOfSlot(op.getKey(), chunks.helps ? rank : other, chunks.keySlot)};
  ShardPlace place;
  place.isFull = isFull(chunks, attending);
  if (!place.isFull)
    chooseMaskInSequences(chunks, rows, place);
  bool sees = !place.mask && seesRows(op, place);
  // Those of this rank are the same in all steps.
  SlotSequences ofOther;
  SlotSequences &queriesOfSlot =
      chunks.helps ? ofOther : querySequences[chunks.querySlot];
  if (!queriesOfSlot.boundaries)
    queriesOfSlot =
        emitSequencesInRows(op.getQuerySequences(), rows.queries, sees);
  if (sees && !queriesOfSlot.firstPositions)
    queriesOfSlot.firstPositions =
        emitFirstPositions(b, op.getQuerySequences(), rows.queries);
  SlotSequences keysOfSlot =
      emitSequencesInRows(op.getKeySequences(), rows.keys, sees);
  place.querySequences = queriesOfSlot.boundaries;
  place.keySequences = keysOfSlot.boundaries;
  if (sees) {
    place.firstQueries = queriesOfSlot.firstPositions;
    place.firstKeys = keysOfSlot.firstPositions;
    place.rowDistance = rows.queries.stride;
  }
  if (group.ranks > 1 && usesHeadInRegions(op))
    place.firstHead =
        group.emitFirstHead(b, getDimSize(op.getQuery(), headsDim));
  return place;
}

void ShardEmitter::emitPlacesInSequences(const RingStep &step) {
  int64_t slots = placement.chunksPerRank;
  places.assign(slots * slots, ShardPlace());
  if (!op.hasSequences() || placement.getNumChunks() == 1)
    return;
  for (int64_t query = 0; query < slots; ++query)
    for (int64_t key = 0; key < slots; ++key)
      if (const llvm::BitVector &attending = step.getAttending(query, key);
          attending.any())
        places[query * slots + key] =
            emitPlaceInSequences({step.number, query, key}, attending);
}

RowPlace ShardEmitter::emitRowPlace(Value length, int64_t slot) {
  auto multiply = [&](Value lhs, Value rhs) {
    return b.createOrFold<arith::MulIOp>(lhs, rhs);
  };
  if (placement.isStriped)
    return {rank, /*half=*/nullptr, /*second=*/nullptr,
            /*stride=*/placement.ranks};
  if (placement.ulyssesDegree == 1 || placement.chunksPerRank == 1)
    return {multiply(emitChunk(rank, slot), length)};
  // A rank has an equal part of both chunks of its group, one behind the other.
  Value degree = index(placement.ulyssesDegree);
  Value ofRank = multiply(arith::RemUIOp::create(b, rank, degree), length);
  Value chunk = b.createOrFold<arith::DivUIOp>(multiply(length, degree),
                                               index(placement.chunksPerRank));
  Value group = arith::DivUIOp::create(b, rank, degree);
  Value last = index(placement.getRing().getChunk(0, /*slot=*/1) - 1);
  auto getFirst = [&](Value chunksBefore) -> Value {
    return arith::AddIOp::create(b, ofRank, multiply(chunksBefore, chunk));
  };
  return {getFirst(group), arith::SubIOp::create(b, chunk, ofRank),
          getFirst(arith::SubIOp::create(b, last, group))};
}

Value ShardEmitter::emitRows(Value value, Value destination, Value boundaries,
                             int64_t slot) {
  RowPlace place = emitRowPlace(emitLength(destination), slot);
  if (boundaries == op.getQuerySequences() && placement.allHaveQueries)
    place = {index(0)};
  return emitInSequences(b, value, destination, boundaries,
                         *op.getSequenceLayout(), place);
}

bool ShardEmitter::isNew(Value destination) {
  // Slots of a new tensor are written one after another.
  for (Operation *op = destination.getDefiningOp(); op;
       op = destination.getDefiningOp()) {
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
      destination = slice.getSource();
    else if (auto slice = dyn_cast<tensor::InsertSliceOp>(op))
      destination = slice.getDest();
    else
      break;
  }
  return isa_and_present<tensor::EmptyOp, bufferization::AllocTensorOp>(
      destination.getDefiningOp());
}

Value ShardEmitter::emitQueryRows(Value value, Value destination,
                                  int64_t slot) {
  if (!op.hasSequences() || isNew(destination))
    return emitRounded(b, value, destination);
  return emitRows(value, destination, op.getQuerySequences(), slot);
}

Value ShardEmitter::emitKeyRows(Value value, Value destination) {
  if (!op.hasSequences() || isNew(destination))
    return emitRounded(b, value, destination);
  if (placement.ulyssesDegree > 1)
    return emitRows(value, destination, op.getKeySequences(), /*slot=*/0);
  for (int64_t slot = 0; slot < placement.chunksPerRank; ++slot) {
    Value rows = emitRows(emitSlot(value, slot), emitSlot(destination, slot),
                          op.getKeySequences(), slot);
    destination = emitWithSlot(destination, rows, slot);
  }
  return destination;
}

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

Value ShardEmitter::emitFirstHead(const HeadGroup &ranks) {
  int64_t heads = getDimSize(op.getQuery(), headsDim);
  return ranks.emitFirstHead(b, heads / ranks.ranks);
}

ShardEmitter::Values ShardEmitter::emitRingOfHeads(Operation *ofHeads,
                                                   const HeadGroup &ranks,
                                                   ArrayRef<RingStep> steps) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(ofHeads);
  Value number = arith::DivUIOp::create(b, rank, index(ranks.ranks));
  Values results = createShardEmitter(b, cast<AttentionOpInterface>(ofHeads),
                                      placement.getRing(), number, ranks)
                       ->emitRing(steps, /*sent=*/std::nullopt);
  // The ring has destinations of its own.
  Values inits = cast<DestinationStyleOpInterface>(ofHeads).getDpsInits();
  ofHeads->erase();
  for (Value init : inits)
    if (init.use_empty())
      init.getDefiningOp()->erase();
  return results;
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

SmallVector<OpFoldResult> ShardEmitter::getSlotSizes(Value tensor) {
  SmallVector<OpFoldResult> sizes =
      tensor::getMixedSizes(b, b.getLoc(), tensor);
  sizes[sequenceDim] = getAsOpFoldResult(b.createOrFold<arith::DivUIOp>(
      emitLength(tensor), index(placement.chunksPerRank)));
  return sizes;
}

SmallVector<OpFoldResult> ShardEmitter::getSlotOffsets(Value tensor,
                                                       int64_t slot) {
  SmallVector<OpFoldResult> offsets(getTensorType(tensor).getRank(),
                                    b.getIndexAttr(0));
  if (slot != 0)
    offsets[sequenceDim] = getSlotSizes(tensor)[sequenceDim];
  return offsets;
}

Value ShardEmitter::emitSlot(Value tensor, int64_t slot) {
  if (placement.chunksPerRank == 1)
    return tensor;
  SmallVector<OpFoldResult> strides(getTensorType(tensor).getRank(),
                                    b.getIndexAttr(1));
  return tensor::ExtractSliceOp::create(b, tensor, getSlotOffsets(tensor, slot),
                                        getSlotSizes(tensor), strides);
}

Value ShardEmitter::emitWithSlot(Value tensor, Value chunk, int64_t slot) {
  if (placement.chunksPerRank == 1)
    return chunk;
  SmallVector<OpFoldResult> strides(getTensorType(tensor).getRank(),
                                    b.getIndexAttr(1));
  return tensor::InsertSliceOp::create(b, chunk, tensor,
                                       getSlotOffsets(tensor, slot),
                                       getSlotSizes(tensor), strides);
}

namespace {
/// The slice of the rows `rows` of a tensor.
struct RowSlice {
  SmallVector<OpFoldResult> offsets, sizes, strides;

  RowSlice(ImplicitLocOpBuilder &b, Value tensor, ChunkRows rows)
      : sizes(tensor::getMixedSizes(b, b.getLoc(), tensor)) {
    offsets.assign(sizes.size(), b.getIndexAttr(0));
    strides.assign(sizes.size(), b.getIndexAttr(1));
    offsets[sequenceDim] = b.getIndexAttr(rows.first);
    sizes[sequenceDim] = b.getIndexAttr(rows.size);
  }
};
} // namespace

Value ShardEmitter::emitSentRows(Value chunk) {
  if (!sentRows)
    return chunk;
  RowSlice slice(b, chunk, *sentRows);
  return tensor::ExtractSliceOp::create(b, chunk, slice.offsets, slice.sizes,
                                        slice.strides);
}

Value ShardEmitter::emitWithSentRows(Value chunk, Value rows) {
  if (!sentRows)
    return rows;
  RowSlice slice(b, chunk, *sentRows);
  return tensor::InsertSliceOp::create(b, rows, chunk, slice.offsets,
                                       slice.sizes, slice.strides);
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

Value ShardEmitter::emitDestination(Value destination, Value like) {
  // A member of a ring of groups has destinations for its own positions.
  bool isWhole = placement.allHaveQueries || group.ranks > 1;
  int64_t ranks = isWhole ? 1 : placement.ranks;
  return emitChunkDestination(b, destination, like, ranks);
}

Operation *ShardEmitter::emitCopy(TypeRange results) {
  OperationState state(op.getLoc(), op->getName().getStringRef(),
                       op->getOperands(), results, op->getAttrs());
  for (Region &region : op->getRegions()) {
    IRMapping mapping;
    region.cloneInto(state.addRegion(), mapping);
  }
  return b.create(state);
}

ShardEmitter::Values
ShardEmitter::emitIfMember(const llvm::BitVector &set, TypeRange types,
                           function_ref<Values()> emit,
                           function_ref<Values()> emitOther) {
  Value isMember = emitContains(set);
  if (!isMember)
    return emit();
  auto branch = scf::IfOp::create(b, types, isMember, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, emit());
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, emitOther());
  return branch.getResults();
}

ShardEmitter::Values ShardEmitter::emitFilled(ValueRange destinations,
                                              ArrayRef<APFloat> contents) {
  Values filled;
  for (auto [destination, value] : llvm::zip_equal(destinations, contents)) {
    Value scalar = arith::ConstantFloatOp::create(b, b.getF32Type(), value);
    filled.push_back(
        linalg::FillOp::create(b, scalar, destination).getResult(0));
  }
  return filled;
}

ShardEmitter::Values ShardEmitter::emitCopied(ValueRange values,
                                              ValueRange destinations) {
  Values copied;
  for (auto [value, destination] : llvm::zip_equal(values, destinations))
    copied.push_back(bufferization::MaterializeInDestinationOp::create(
                         b, destination.getType(), value, destination)
                         .getResult());
  return copied;
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

Value ShardEmitter::emitAllGather(Value chunk) {
  Value parts = emitGathered(b, placement.ranks, chunk);
  // Parts become neighbors in the dimension of positions.
  return emitMerged(b, emitTransposed(b, parts, {1, 2, 0, 3, 4}), sequenceDim);
}

ShardEmitter::Values
ShardEmitter::emitExchange(ValueRange sent, const llvm::BitVector &senders,
                           const llvm::BitVector &receivers, int64_t distance,
                           ValueRange destinations) {
  auto select = [&](const llvm::BitVector &set, int64_t offset) -> Value {
    Value peer = emitRank(offset);
    if (group.ranks > 1)
      peer = arith::AddIOp::create(
          b, arith::MulIOp::create(b, peer, index(group.ranks)), group.number);
    Value isMember = emitContains(set);
    return isMember ? arith::SelectOp::create(b, isMember, peer, index(kNoRank))
                    : peer;
  };
  Value to = select(senders, distance), from = select(receivers, -distance);
  Values received;
  for (auto [number, value] : llvm::enumerate(sent)) {
    Value destination = destinations.empty()
                            ? emitEmpty(b, getTensorType(value), value)
                            : destinations[number];
    received.push_back(
        SendRecvOp::create(b, value.getType(), value, to, from, destination)
            .getResult());
  }
  return received;
}

std::pair<ShardEmitter::Values, ShardEmitter::Values>
ShardEmitter::emitOverlap(function_ref<Values()> first,
                          function_ref<Values()> second) {
  OperationState state(b.getLoc(), OverlapOp::getOperationName());
  state.getOrAddProperties<OverlapOp::Properties>().kind =
      OverlapKindAttr::get(b.getContext(), OverlapKind::Streams);
  auto emitRegion = [&](function_ref<Values()> emit) -> size_t {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(&state.addRegion()->emplaceBlock());
    Values yielded = emit();
    OverlapYieldOp::create(b, yielded);
    llvm::append_range(state.types, ValueRange(yielded).getTypes());
    return yielded.size();
  };
  size_t numFirst = emitRegion(first);
  emitRegion(second);
  ResultRange results = b.create(state)->getResults();
  return {Values(results.take_front(numFirst)),
          Values(results.drop_front(numFirst))};
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

void ShardEmitter::emitStep(const RingStep &step, const RingStep *next) {
  emitPlacesInSequences(step);
  auto compute = [&] { return emitComputation(step, /*isLast=*/!next); };
  KeyValues sent = keys;
  if (next && step.number == 0)
    sent = emitSentRows(keys);
  auto communicate = [&] {
    Values received;
    if (next)
      received = emitExchange({sent.key, sent.value}, next->getSenders(),
                              next->receivers, /*distance=*/1);
    llvm::append_range(received, emitTransfer(step));
    return received;
  };
  bool computes = step.getAttending().any();
  bool communicates = next || hasTransfer(step);
  Values computed, received;
  if (computes && communicates)
    std::tie(computed, received) = emitOverlap(compute, communicate);
  else if (computes)
    computed = compute();
  else
    received = communicate();
  ValueRange transferred = received;
  if (next) {
    keys = {received[0], received[1]};
    transferred = transferred.drop_front(2);
  }
  finishStep(step, computed, transferred);
}

SmallVector<Value> ShardEmitter::emitRing(ArrayRef<RingStep> steps,
                                          std::optional<ChunkRows> sent) {
  sentRows = sent;
  for (const RingStep &step : steps.drop_back())
    emitStep(step, &steps[step.number + 1]);
  emitStep(steps.back(), /*next=*/nullptr);
  return emitRingResults(steps.back());
}
