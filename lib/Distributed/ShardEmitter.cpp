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

using namespace mlir;
using namespace mlir::attn;

static RankedTensorType getTensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

ShardEmitter::ShardEmitter(OpBuilder &builder, AttentionOp op, int64_t ranks,
                           Value rank)
    : b(op.getLoc(), builder), op(op), ranks(ranks), rank(rank),
      outShape(getTensorType(op.getOut()).getShape()) {
  b.setInsertionPoint(op);
  auto isKept = [](Value destination) {
    return !destination.getDefiningOp<tensor::EmptyOp>();
  };
  if (!isKept(op.getOut()) && !ShapedType::isDynamic(outShape[2]))
    outShape[2] /= ranks;
  Type elementType = getTensorType(op.getOut()).getElementType();
  results.out =
      isKept(op.getOut()) ? op.getOut() : emitEmpty(getOutType(elementType));
  if (op.getLse())
    results.lse = isKept(op.getLse()) ? op.getLse() : emitEmpty(getLseType());
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
  Value sum = arith::AddIOp::create(b, rank, index((offset + ranks) % ranks));
  return arith::RemUIOp::create(b, sum, index(ranks));
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

Value ShardEmitter::emitPositions(Value firstKey, Value key,
                                  int64_t chunksOfKey) {
  Value queries = emitLength(op.getQuery()), keys = emitLength(key);
  Value zero = arith::ConstantIntOp::create(b, 0, 32);
  auto word = [&](Value value) {
    return b.createOrFold<arith::IndexCastOp>(b.getI32Type(), value);
  };
  auto multiply = [&](Value lhs, Value rhs) {
    return word(b.createOrFold<arith::MulIOp>(lhs, rhs));
  };
  return tensor::FromElementsOp::create(
      b, ValueRange{multiply(rank, queries), word(firstKey), zero, zero,
                    multiply(queries, index(ranks)),
                    multiply(keys, index(chunksOfKey))});
}

Value ShardEmitter::emitLength(Value tensor) {
  return b.createOrFold<tensor::DimOp>(tensor, 2);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

RankedTensorType ShardEmitter::getOutType(Type elementType) {
  return RankedTensorType::get(outShape, elementType);
}

RankedTensorType ShardEmitter::getLseType() {
  return RankedTensorType::get(ArrayRef(outShape).drop_back(), b.getF32Type());
}

Value ShardEmitter::emitEmpty(RankedTensorType type, Value like) {
  SmallVector<Value> sizes;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.isDynamicDim(dim))
      sizes.push_back(
          tensor::DimOp::create(b, like ? like : op.getQuery(), dim));
  return tensor::EmptyOp::create(b, type, sizes);
}

ShardEmitter::Partial ShardEmitter::emitDestination() {
  return {emitEmpty(getOutType(b.getF32Type())), emitEmpty(getLseType())};
}

ShardEmitter::Partial ShardEmitter::emitAttention(Chunk chunk, Value positions,
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
  shard.getKeyMutable().assign(chunk.key);
  shard.getValueMutable().assign(chunk.value);
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
  SmallVector<int64_t> shape = {ranks};
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
  Value positions = emitPositions(index(0), key, /*chunksOfKey=*/1);
  return getValues(
      emitAttention({key, value}, positions, results, /*hasSinks=*/true));
}

//===----------------------------------------------------------------------===//
// Ring attention
//===----------------------------------------------------------------------===//

ShardEmitter::Partial ShardEmitter::emitPartial(const RingStep &step,
                                                Chunk chunk,
                                                Partial destination) {
  Value firstKey = b.createOrFold<arith::MulIOp>(emitRank(-step.number),
                                                 emitLength(chunk.key));
  Value positions = emitPositions(firstKey, chunk.key, ranks);
  // A sink counts once.
  return emitAttention(chunk, positions, destination,
                       /*hasSinks=*/step.number == 0);
}

ShardEmitter::Partial ShardEmitter::emitPartialIfAttending(const RingStep &step,
                                                           Chunk chunk) {
  Partial destination = emitDestination();
  Value attends = emitContains(step.attending);
  if (!attends)
    return emitPartial(step, chunk, destination);
  SmallVector<Type> types = {destination.out.getType(),
                             destination.lse.getType()};
  auto branch = scf::IfOp::create(b, types, attends, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  Partial partial = emitPartial(step, chunk, destination);
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

ShardEmitter::Partial ShardEmitter::emitStep(const RingStep &step, Chunk chunk,
                                             Partial before,
                                             Partial destination) {
  if (step.number == 0)
    return emitPartial(step, chunk, destination);
  // Ranks that do not attend merge, too: they would wait for others anyway, and
  // the memory of results does not depend on the ranks that attend.
  Partial partial = emitPartialIfAttending(step, chunk);
  return emitMerge({before, partial}, destination);
}

ShardEmitter::Chunk ShardEmitter::emitExchange(const RingStep &step,
                                               Chunk chunk) {
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
  Value key = exchange(chunk.key);
  return {key, exchange(chunk.value)};
}

std::pair<ShardEmitter::Partial, ShardEmitter::Chunk>
ShardEmitter::emitOverlap(const RingStep &step, const RingStep &next,
                          Chunk chunk, Partial before) {
  OperationState state(b.getLoc(), OverlapOp::getOperationName(), ValueRange(),
                       {getOutType(b.getF32Type()), getLseType(),
                        chunk.key.getType(), chunk.value.getType()});
  state.getOrAddProperties<OverlapOp::Properties>().kind =
      OverlapKindAttr::get(b.getContext(), OverlapKind::Streams);
  Block *computation = &state.addRegion()->emplaceBlock();
  Block *communication = &state.addRegion()->emplaceBlock();
  Operation *overlap = b.create(state);
  b.setInsertionPointToEnd(computation);
  Partial after = emitStep(step, chunk, before, emitDestination());
  OverlapYieldOp::create(b, ValueRange{after.out, after.lse});
  b.setInsertionPointToEnd(communication);
  Chunk received = emitExchange(next, chunk);
  OverlapYieldOp::create(b, ValueRange{received.key, received.value});
  b.setInsertionPointAfter(overlap);
  return {{overlap->getResult(0), overlap->getResult(1)},
          {overlap->getResult(2), overlap->getResult(3)}};
}

SmallVector<Value> ShardEmitter::emitRing(ArrayRef<RingStep> steps) {
  Chunk chunk = {op.getKey(), op.getValue()};
  Partial state;
  for (const RingStep &step : steps.drop_back()) {
    const RingStep &next = steps[step.number + 1];
    if (step.attending.none())
      chunk = emitExchange(next, chunk);
    else
      std::tie(state, chunk) = emitOverlap(step, next, chunk, state);
  }
  return getValues(emitStep(steps.back(), chunk, state, results));
}
