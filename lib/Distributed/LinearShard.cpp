//===- LinearShard.cpp - Linear attention of one rank ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What linear attention and its gradient have in common: the states of ranks.
// A state that the tokens of a rank add up to is the final state of linear
// attention from 0. The output of that operation is not used. It could be
// corrected by the queries times the state before them, but only after it has
// been rounded, and with the log-decays added up for each token: so the
// operation runs again, from that state.
//
//===----------------------------------------------------------------------===//

#include "LinearShard.h"
#include "RingSchedule.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;
using utils::IteratorType;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

bool attn::isLinearAttention(Operation *op) {
  return isa<LinearAttentionOp, LinearAttentionGradOp>(op);
}

/// Adds an optional operand if it has tokens: one log-decay a head has none.
static void addOptional(SmallVectorImpl<ShardedOperand> &operands,
                        StringRef name, MutableOperandRange range) {
  for (OpOperand &operand : range)
    if (cast<ShapedType>(operand.get().getType()).getRank() > sequenceDim)
      operands.push_back({name, &operand});
}

template <typename OpTy>
static SmallVector<ShardedOperand> getSharedOperands(OpTy op) {
  SmallVector<ShardedOperand> operands = {{"query", &op.getQueryMutable()},
                                          {"key", &op.getKeyMutable()},
                                          {"value", &op.getValueMutable()}};
  addOptional(operands, "log_decay", op.getLogDecayMutable());
  addOptional(operands, "beta", op.getBetaMutable());
  return operands;
}

SmallVector<ShardedOperand> attn::getTokenOperands(Operation *op) {
  if (auto attention = dyn_cast<LinearAttentionOp>(op)) {
    SmallVector<ShardedOperand> operands = getSharedOperands(attention);
    operands.push_back({"out", &attention.getOutMutable()});
    return operands;
  }
  auto grad = cast<LinearAttentionGradOp>(op);
  SmallVector<ShardedOperand> operands = getSharedOperands(grad);
  operands.append({{"dout", &grad.getDoutMutable()},
                   {"dquery", &grad.getDqueryMutable()},
                   {"dkey", &grad.getDkeyMutable()},
                   {"dvalue", &grad.getDvalueMutable()}});
  addOptional(operands, "dlog_decay", grad.getDlogDecayMutable());
  addOptional(operands, "dbeta", grad.getDbetaMutable());
  return operands;
}

std::unique_ptr<LinearShard> attn::createLinearShard(OpBuilder &builder,
                                                     Operation *op,
                                                     RankOfGroup group,
                                                     KnownStateMaps &known) {
  if (auto grad = dyn_cast<LinearAttentionGradOp>(op))
    return createLinearGradientShard(builder, grad, group, known);
  return createLinearAttentionShard(builder, cast<LinearAttentionOp>(op), group,
                                    known);
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

RankedTensorType LinearShard::getStateType(int64_t columns) {
  ArrayRef<int64_t> shape = getTensorType(inputs.query).getShape();
  return RankedTensorType::get({shape[0], shape[1], shape[3], columns},
                               b.getF32Type());
}

Value LinearShard::emitNoState() {
  RankedTensorType type = getStateType(getDimSize(inputs.value, 3));
  return emitZeros(b, emitEmpty(b, type, inputs.query));
}

Value LinearShard::emitGiven(Value state) {
  if (!state)
    return emitNoState();
  RankedTensorType type = getStateType(getDimSize(inputs.value, 3));
  return b.createOrFold<tensor::CastOp>(type, state);
}

Value LinearShard::emitFinalState(Value key, Value value, Value initial) {
  Value query = inputs.query;
  int64_t columns = getDimSize(value, 3);
  SmallVector<int64_t> shape(getTensorType(query).getShape());
  shape.back() = columns;
  Value out = emitEmpty(b, getTensorType(query).clone(shape), query);
  Value state = emitEmpty(b, getStateType(columns), query);
  auto attention = LinearAttentionOp::create(
      b, TypeRange{out.getType(), state.getType()}, query, key, value,
      inputs.logDecay, inputs.beta, initial, out, state, inputs.causal,
      inputs.scale, inputs.chunk, inputs.precision, /*schedule=*/nullptr);
  return attention->getResult(1);
}

/// A log-decay as kernels count it: at most 0, and at least the exponent of a
/// decay below all normal f32.
static Value clampLogDecay(OpBuilder &builder, Location loc, Value decay) {
  constexpr float least = -126;
  auto constant = [&](float value) -> Value {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getF32FloatAttr(value));
  };
  decay = arith::MinimumFOp::create(builder, loc, decay, constant(0));
  return arith::MaximumFOp::create(builder, loc, decay, constant(least));
}

Value LinearShard::emitLogDecayOfHeads() {
  Value length = b.createOrFold<tensor::DimOp>(inputs.query, sequenceDim);
  length = arith::IndexCastOp::create(b, b.getI64Type(), length);
  length = arith::SIToFPOp::create(b, b.getF32Type(), length);
  RankedTensorType type = getTensorType(inputs.logDecay);
  SmallVector<AffineMap> maps(2, b.getMultiDimIdentityMap(1));
  auto total = linalg::GenericOp::create(
      b, type, inputs.logDecay, emitEmpty(b, type, inputs.logDecay), maps,
      IteratorType::parallel,
      [&](OpBuilder &body, Location loc, ValueRange arguments) {
        Value result = arith::MulFOp::create(
            body, loc, clampLogDecay(body, loc, arguments[0]), length);
        linalg::YieldOp::create(body, loc, result);
      });
  return total.getResult(0);
}

Value LinearShard::emitLogDecayOfTokens() {
  RankedTensorType type = getTensorType(inputs.logDecay);
  SmallVector<int64_t> shape(getTensorType(inputs.query).getShape());
  shape.erase(shape.begin() + sequenceDim);
  shape.resize(type.getRank() - 1);
  AffineMap ofTokens = b.getMultiDimIdentityMap(type.getRank());
  SmallVector<IteratorType> loops(type.getRank(), IteratorType::parallel);
  loops[sequenceDim] = IteratorType::reduction;
  Value zeros = emitZeros(b, emitEmpty(b, type.clone(shape), inputs.query));
  auto total = linalg::GenericOp::create(
      b, zeros.getType(), inputs.logDecay, zeros,
      ArrayRef<AffineMap>{ofTokens, ofTokens.dropResult(sequenceDim)}, loops,
      [](OpBuilder &body, Location loc, ValueRange arguments) {
        Value sum = arith::AddFOp::create(
            body, loc, arguments[1], clampLogDecay(body, loc, arguments[0]));
        linalg::YieldOp::create(body, loc, sum);
      });
  return total.getResult(0);
}

Value LinearShard::emitMatrix() {
  // Without values, the final state is the matrix times the initial one.
  int64_t keyDim = getDimSize(inputs.query, 3);
  RankedTensorType type = getStateType(keyDim);
  auto identity = linalg::GenericOp::create(
      b, type, ValueRange(), emitEmpty(b, type, inputs.query),
      b.getMultiDimIdentityMap(4),
      SmallVector<IteratorType>(4, IteratorType::parallel),
      [&](OpBuilder &body, Location loc, ValueRange) {
        Value row = linalg::IndexOp::create(body, loc, 2);
        Value column = linalg::IndexOp::create(body, loc, 3);
        Value isEqual = arith::CmpIOp::create(
            body, loc, arith::CmpIPredicate::eq, row, column);
        Value one =
            arith::ConstantOp::create(body, loc, body.getF32FloatAttr(1));
        Value zero =
            arith::ConstantOp::create(body, loc, body.getF32FloatAttr(0));
        Value element = arith::SelectOp::create(body, loc, isEqual, one, zero);
        linalg::YieldOp::create(body, loc, element);
      });
  SmallVector<int64_t> shape(getTensorType(inputs.query).getShape());
  shape[headsDim] = 1;
  Value values = emitZeros(
      b, emitEmpty(b, getTensorType(inputs.query).clone(shape), inputs.query));
  return emitFinalState(inputs.key, values, identity.getResult(0));
}

StateMaps LinearShard::emitMaps() {
  int64_t heads = getDimSize(inputs.query, headsDim);
  Value &added = known.added[{inputs.key, inputs.value, inputs.logDecay,
                              inputs.beta, inputs.causal, heads}];
  if (!added)
    added = emitGathered(
        emitFinalState(inputs.key, inputs.value, /*initial=*/nullptr));
  Value key = inputs.beta ? inputs.key : Value();
  auto [factors, isNew] = known.factors.try_emplace(
      {key, Value(), inputs.logDecay, inputs.beta, inputs.causal, heads});
  if (isNew)
    factors->second = emitFactors();
  StateMaps maps = factors->second;
  maps.added = added;
  return maps;
}

StateMaps LinearShard::emitFactors() {
  StateMaps maps;
  if (inputs.beta)
    maps.matrices = emitGathered(emitMatrix());
  else if (inputs.logDecay && getTensorType(inputs.logDecay).getRank() == 1)
    maps.logDecays = emitLogDecayOfHeads();
  else if (inputs.logDecay)
    maps.logDecays = emitGathered(emitLogDecayOfTokens());
  return maps;
}

RankScan LinearShard::makeScan(const StateMaps &maps, bool isGradient) {
  RankOrder order = !inputs.causal ? RankOrder::Full
                    : isGradient   ? RankOrder::ReverseCausal
                                   : RankOrder::Causal;
  return RankScan(b, maps, order, group.ranks, group.rank);
}
