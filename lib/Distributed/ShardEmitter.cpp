//===- ShardEmitter.cpp - The attention of one rank -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShardEmitter.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "attn/Dialect/Attn/IR/AttnMergeOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::attn;

static RankedTensorType getTensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

ShardEmitter::ShardEmitter(OpBuilder &builder, AttentionOp op,
                           ChunkPlacement placement, Value rank)
    : b(op.getLoc(), builder), op(op), placement(placement), rank(rank) {
  b.setInsertionPoint(op);
  // Destinations with contents have become chunks of this rank.
  auto getOrReplace = [&](Value destination) -> Value {
    if (!destination.getDefiningOp<tensor::EmptyOp>())
      return destination;
    RankedTensorType type = getTensorType(destination);
    SmallVector<int64_t> shape(type.getShape());
    if (!ShapedType::isDynamic(shape[sequenceDim]))
      shape[sequenceDim] /= placement.ranks;
    return emitEmpty(type.clone(shape), op.getQuery());
  };
  results.out = getOrReplace(op.getOut());
  if (op.getLse())
    results.lse = getOrReplace(op.getLse());
  slotShape.assign(getTensorType(results.out).getShape());
  if (!ShapedType::isDynamic(slotShape[sequenceDim]))
    slotShape[sequenceDim] /= placement.chunksPerRank;
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

Value ShardEmitter::emitPositions(Value firstQuery, Value firstKey,
                                  Value numQueries, Value numKeys) {
  Value zero = arith::ConstantIntOp::create(b, 0, 32);
  auto word = [&](Value value) {
    return b.createOrFold<arith::IndexCastOp>(b.getI32Type(), value);
  };
  return tensor::FromElementsOp::create(
      b, ValueRange{word(firstQuery), word(firstKey), zero, zero,
                    word(numQueries), word(numKeys)});
}

Value ShardEmitter::emitLength(Value tensor) {
  return b.createOrFold<tensor::DimOp>(tensor, sequenceDim);
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

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

RankedTensorType ShardEmitter::getOutType() {
  return RankedTensorType::get(slotShape, b.getF32Type());
}

RankedTensorType ShardEmitter::getLseType() {
  return RankedTensorType::get(ArrayRef(slotShape).drop_back(), b.getF32Type());
}

Value ShardEmitter::emitEmpty(RankedTensorType type, Value like) {
  SmallVector<Value> sizes;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.isDynamicDim(dim))
      sizes.push_back(tensor::DimOp::create(b, like, dim));
  return tensor::EmptyOp::create(b, type, sizes);
}

ShardEmitter::Partial ShardEmitter::emitDestination() {
  auto isDynamic = [](int64_t size) { return ShapedType::isDynamic(size); };
  Value like = op.getQuery();
  if (llvm::any_of(slotShape, isDynamic))
    like = emitSlot(like, /*slot=*/0);
  return {emitEmpty(getOutType(), like), emitEmpty(getLseType(), like)};
}

ShardEmitter::Partial ShardEmitter::emitResults(int64_t slot) {
  return {emitSlot(results.out, slot),
          results.lse ? emitSlot(results.lse, slot) : Value()};
}

ShardEmitter::Partial ShardEmitter::emitAttention(Value query, KeyValues keys,
                                                  Value positions,
                                                  Partial destination,
                                                  bool hasSinks) {
  SmallVector<Type> types = {destination.out.getType()};
  if (destination.lse)
    types.push_back(destination.lse.getType());
  OperationState state(op.getLoc(), AttentionOp::getOperationName(),
                       op->getOperands(), types, op->getAttrs());
  for (Region &region : op->getRegions()) {
    IRMapping mapping;
    region.cloneInto(state.addRegion(), mapping);
  }
  auto shard = cast<AttentionOp>(b.create(state));
  shard.getQueryMutable().assign(query);
  shard.getKeyMutable().assign(keys.key);
  shard.getValueMutable().assign(keys.value);
  shard.getOutMutable().assign(destination.out);
  shard.getLseMutable().clear();
  if (destination.lse)
    shard.getLseMutable().assign(destination.lse);
  shard.getPositionsMutable().assign(positions);
  if (!hasSinks)
    shard.getSinksMutable().clear();
  return {shard->getResult(0), destination.lse ? shard->getResult(1) : Value()};
}

ShardEmitter::Partial ShardEmitter::emitMerge(ArrayRef<Partial> partials,
                                              Partial destination) {
  SmallVector<Value> outs, lses;
  for (const Partial &partial : partials) {
    outs.push_back(partial.out);
    lses.push_back(partial.lse);
  }
  SmallVector<Type> types = {destination.out.getType()};
  if (destination.lse)
    types.push_back(destination.lse.getType());
  auto merge = MergeOp::create(b, types, outs, lses, destination.out,
                               destination.lse, /*schedule=*/nullptr);
  return {merge->getResult(0), destination.lse ? merge->getResult(1) : Value()};
}

//===----------------------------------------------------------------------===//
// All keys at once
//===----------------------------------------------------------------------===//

Value ShardEmitter::emitAllGather(Value chunk) {
  RankedTensorType type = getTensorType(chunk);
  Type elementType = type.getElementType();
  SmallVector<Value> sizes;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.isDynamicDim(dim))
      sizes.push_back(tensor::DimOp::create(b, chunk, dim));
  SmallVector<int64_t> shape = {placement.ranks};
  llvm::append_range(shape, type.getShape());
  Value received = tensor::EmptyOp::create(b, shape, elementType, sizes);
  Value parts =
      AllGatherOp::create(b, received.getType(), chunk, received).getResult();
  // Parts become neighbors in the dimension of positions.
  SmallVector<int64_t> permutation = {1, 2, 0, 3, 4};
  SmallVector<int64_t> ordered = {shape[1], shape[2], shape[0], shape[3],
                                  shape[4]};
  Value destination = tensor::EmptyOp::create(b, ordered, elementType, sizes);
  Value transposed =
      linalg::TransposeOp::create(b, parts, destination, permutation)
          .getResult()[0];
  SmallVector<ReassociationIndices> groups = {{0}, {1}, {2, 3}, {4}};
  return tensor::CollapseShapeOp::create(b, transposed, groups);
}

SmallVector<Value> ShardEmitter::emitWhole(Value key, Value value) {
  Value queries = emitLength(op.getQuery());
  Value numQueries =
      b.createOrFold<arith::MulIOp>(queries, index(placement.ranks));
  Value positions = emitPositions(b.createOrFold<arith::MulIOp>(rank, queries),
                                  index(0), numQueries, emitLength(key));
  return getValues(emitAttention(op.getQuery(), {key, value}, positions,
                                 results, /*hasSinks=*/true));
}

//===----------------------------------------------------------------------===//
// Ring attention
//===----------------------------------------------------------------------===//

ShardEmitter::Partial ShardEmitter::emitPartial(const RingStep &step,
                                                KeyValues keys,
                                                int64_t querySlot,
                                                int64_t keySlot,
                                                Partial destination) {
  Value query = emitSlot(op.getQuery(), querySlot);
  KeyValues ofSlot = {emitSlot(keys.key, keySlot),
                      emitSlot(keys.value, keySlot)};
  auto multiply = [&](Value lhs, Value rhs) {
    return b.createOrFold<arith::MulIOp>(lhs, rhs);
  };
  Value queries = emitLength(query), numKeys = emitLength(ofSlot.key);
  Value chunks = index(placement.getNumChunks());
  Value positions = emitPositions(
      multiply(emitChunk(rank, querySlot), queries),
      multiply(emitChunk(emitRank(-step.number), keySlot), numKeys),
      multiply(queries, chunks), multiply(numKeys, chunks));
  // A sink counts once.
  bool hasSinks = step.number == 0 && querySlot == keySlot;
  return emitAttention(query, ofSlot, positions, destination, hasSinks);
}

ShardEmitter::Partial
ShardEmitter::emitPartialIfAttending(const RingStep &step, KeyValues keys,
                                     int64_t querySlot, int64_t keySlot,
                                     Partial destination) {
  Value attends = emitContains(step.getAttending(querySlot, keySlot));
  if (!attends)
    return emitPartial(step, keys, querySlot, keySlot, destination);
  SmallVector<Type> types = {destination.out.getType(),
                             destination.lse.getType()};
  auto branch = scf::IfOp::create(b, types, attends, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  Partial partial = emitPartial(step, keys, querySlot, keySlot, destination);
  scf::YieldOp::create(b, ValueRange{partial.out, partial.lse});
  b.setInsertionPointToStart(branch.elseBlock());
  auto fill = [&](Value tensor, const APFloat &value) {
    Value scalar = arith::ConstantFloatOp::create(b, b.getF32Type(), value);
    return linalg::FillOp::create(b, scalar, tensor).getResult(0);
  };
  const llvm::fltSemantics &f32 = APFloat::IEEEsingle();
  Value nothing = fill(destination.out, APFloat::getZero(f32));
  Value noKey = fill(destination.lse, APFloat::getInf(f32, /*Negative=*/true));
  scf::YieldOp::create(b, ValueRange{nothing, noKey});
  return {branch.getResult(0), branch.getResult(1)};
}

ShardEmitter::Partial ShardEmitter::emitStep(const RingStep &step,
                                             KeyValues keys, int64_t slot,
                                             Partial before,
                                             Partial destination) {
  SmallVector<int64_t> keySlots;
  for (int64_t keySlot = 0; keySlot < placement.chunksPerRank; ++keySlot)
    if (step.getAttending(slot, keySlot).any())
      keySlots.push_back(keySlot);
  // In the first step, all ranks attend to the keys of the same slot.
  if (!before.out && keySlots.size() == 1)
    return emitPartial(step, keys, slot, keySlots.front(), destination);
  // Ranks that do not attend merge, too: they would wait for others anyway, and
  // the memory of results does not depend on the ranks that attend.
  SmallVector<Partial> partials;
  if (before.out)
    partials.push_back(before);
  for (int64_t keySlot : keySlots)
    partials.push_back(
        emitPartialIfAttending(step, keys, slot, keySlot, emitDestination()));
  return emitMerge(partials, destination);
}

ShardEmitter::KeyValues ShardEmitter::emitExchange(const RingStep &step,
                                                   KeyValues keys) {
  auto select = [&](const llvm::BitVector &set, int64_t offset) -> Value {
    Value peer = emitRank(offset);
    Value isMember = emitContains(set);
    return isMember ? arith::SelectOp::create(b, isMember, peer, index(kNoRank))
                    : peer;
  };
  Value to = select(step.getSenders(), 1), from = select(step.receivers, -1);
  auto exchange = [&](Value sent) -> Value {
    Value received = emitEmpty(getTensorType(sent), sent);
    return SendRecvOp::create(b, sent.getType(), sent, to, from, received)
        .getResult();
  };
  Value key = exchange(keys.key);
  return {key, exchange(keys.value)};
}

void ShardEmitter::emitOverlap(const RingStep &step, const RingStep &next,
                               KeyValues &keys, State &state) {
  SmallVector<int64_t> slots;
  SmallVector<Type> types;
  for (int64_t slot = 0; slot < placement.chunksPerRank; ++slot)
    if (step.hasAttention(slot)) {
      slots.push_back(slot);
      types.append({getOutType(), getLseType()});
    }
  types.append({keys.key.getType(), keys.value.getType()});
  OperationState opState(b.getLoc(), OverlapOp::getOperationName(),
                         ValueRange(), types);
  opState.getOrAddProperties<OverlapOp::Properties>().kind =
      OverlapKindAttr::get(b.getContext(), OverlapKind::Streams);
  Block *computation = &opState.addRegion()->emplaceBlock();
  Block *communication = &opState.addRegion()->emplaceBlock();
  Operation *overlap = b.create(opState);
  b.setInsertionPointToEnd(computation);
  SmallVector<Value> yielded;
  for (int64_t slot : slots)
    llvm::append_range(
        yielded,
        getValues(emitStep(step, keys, slot, state[slot], emitDestination())));
  OverlapYieldOp::create(b, yielded);
  b.setInsertionPointToEnd(communication);
  KeyValues received = emitExchange(next, keys);
  OverlapYieldOp::create(b, ValueRange{received.key, received.value});
  b.setInsertionPointAfter(overlap);
  ResultRange rest = overlap->getResults();
  for (int64_t slot : slots) {
    state[slot] = {rest[0], rest[1]};
    rest = rest.drop_front(2);
  }
  keys = {rest[0], rest[1]};
}

SmallVector<Value> ShardEmitter::emitRing(ArrayRef<RingStep> steps) {
  KeyValues keys = {op.getKey(), op.getValue()};
  State state(placement.chunksPerRank);
  for (const RingStep &step : steps.drop_back()) {
    const RingStep &next = steps[step.number + 1];
    if (step.getAttending().none())
      keys = emitExchange(next, keys);
    else
      emitOverlap(step, next, keys, state);
  }
  for (int64_t slot = 0; slot < placement.chunksPerRank; ++slot) {
    Partial last =
        emitStep(steps.back(), keys, slot, state[slot], emitResults(slot));
    results.out = emitWithSlot(results.out, last.out, slot);
    if (results.lse)
      results.lse = emitWithSlot(results.lse, last.lse, slot);
  }
  return getValues(results);
}
