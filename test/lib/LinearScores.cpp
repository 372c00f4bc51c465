//===- LinearScores.cpp - Attention without a softmax ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An operation that gets kernels, with KV splits or not, by
// StreamingOpInterface and AttentionOpInterface alone. Its state is one
// accumulator. It may have a KV addressing of its own, which kernels ask for
// the rows of sequences, and where each row is stored.
//
//===----------------------------------------------------------------------===//

#include "TestAttn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;
using namespace test_attn;
using attn::TileProgramBuilder;
using attn_tile::CombinedElement;
using attn_tile::StreamedTile;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

SmallVector<attn::AttentionOperand> LinearScoresOp::getShapedOperands() {
  using attn::HeadDimKind;
  return {{"query", "q", getQuery(), true, HeadDimKind::Query},
          {"key", "k", getKey(), false, HeadDimKind::Query},
          {"value", "v", getValue(), false, HeadDimKind::Value},
          {"out", "out", getOut(), true, HeadDimKind::Value}};
}

int64_t LinearScoresOp::getFlopsPerPair() {
  return 2 * (attn::getDimSize(getKey(), 3) + attn::getDimSize(getValue(), 3));
}

attn::KVAddressingAttrInterface LinearScoresOp::getAddressing() {
  if (attn::KVAddressingAttrInterface addressing = getKvAddressingAttr())
    return addressing;
  return attn::getOperandAddressing(*this);
}

LogicalResult LinearScoresOp::verify() {
  if (attn::KVAddressingAttrInterface addressing = getKvAddressingAttr())
    return addressing.verifyOperands(*this);
  return success();
}

SmallVector<attn::DescribedOperand> LinearScoresOp::getNamedOperands() {
  SmallVector<attn::DescribedOperand> operands;
  for (const attn::AttentionOperand &operand : getShapedOperands())
    operands.push_back({operand.value, operand.argumentName.str()});
  operands.push_back({getKeyLengths(), "key_lengths"});
  return operands;
}

SmallVector<attn::EqualOperandSizes> LinearScoresOp::getEqualSizes() {
  SmallVector<attn::SizeOfOperand> batches;
  for (Value operand : getOperands())
    batches.emplace_back(operand, 0);
  return {{"batch", batches},
          {"queries", {{getQuery(), 2}, {getOut(), 2}}},
          {"keys", {{getKey(), 2}, {getValue(), 2}}}};
}

//===----------------------------------------------------------------------===//
// The reduction over keys
//===----------------------------------------------------------------------===//

SmallVector<Value> LinearScoresOp::emitInitState(StreamedTile &tile) {
  return {tile.b.splat({tile.queryTile, tile.vHeadDim}, 0)};
}

SmallVector<Value> LinearScoresOp::emitStep(StreamedTile &tile, Value scores,
                                            ValueRange state) {
  TileProgramBuilder &b = tile.b;
  SmallVector<int64_t> shape = {tile.queryTile, tile.keyTile};
  Value isMasked = arith::CmpFOp::create(
      b, arith::CmpFPredicate::OEQ, scores,
      b.splat(shape, -std::numeric_limits<double>::infinity()));
  Value kept = arith::SelectOp::create(b, isMasked, b.splat(shape, 0), scores);
  Value values = tile.loadValues();
  kept = b.round(kept, getElementTypeOrSelf(values.getType()));
  return {b.contract(kept, values, state[0], tile.valueForm)};
}

/// The sum is linear in the scores, so that their factor is applied last.
static Value emitScaled(StreamedTile &tile, Value sum) {
  return arith::MulFOp::create(
      tile.b, sum,
      tile.b.splat({tile.queryTile, tile.vHeadDim}, tile.scoreFactor));
}

void LinearScoresOp::emitFinalize(StreamedTile &tile, ValueRange state) {
  tile.storeOutput(emitScaled(tile, state[0]));
}

//===----------------------------------------------------------------------===//
// KV splits
//===----------------------------------------------------------------------===//

std::optional<std::string> LinearScoresOp::whyNotSplitKV() {
  return std::nullopt;
}

void LinearScoresOp::emitFinalizeSplit(StreamedTile &tile, ValueRange state) {
  Value none = tile.b.splat({tile.queryTile, tile.vHeadDim}, 0);
  tile.storeOutput(arith::SelectOp::create(tile.b, tile.emitIsSplitEmpty(),
                                           none, emitScaled(tile, state[0])));
}

static Value emitZero(CombinedElement &element) {
  return arith::ConstantOp::create(element.b, element.b.getF32FloatAttr(0));
}

SmallVector<Value> LinearScoresOp::emitInitCombined(CombinedElement &element) {
  return {emitZero(element)};
}

SmallVector<Value> LinearScoresOp::emitCombine(CombinedElement &element,
                                               ValueRange state,
                                               int64_t numSplits) {
  Value sum = state[0];
  for (int64_t split = 0; split < numSplits; ++split) {
    Value output = element.loadOutput(split);
    if (Value exists = element.emitExists(split))
      output =
          arith::SelectOp::create(element.b, exists, output, emitZero(element));
    sum = arith::AddFOp::create(element.b, sum, output);
  }
  return {sum};
}

void LinearScoresOp::emitFinalizeCombined(CombinedElement &element,
                                          ValueRange state) {
  element.storeOutput(state[0]);
}

//===----------------------------------------------------------------------===//
// LeftPaddedKVAttr
//===----------------------------------------------------------------------===//

static LogicalResult verifyHasLengths(Operation *op, Attribute addressing) {
  if (cast<attn::AttentionOpInterface>(op).getKeyLengths())
    return success();
  return op->emitOpError("needs 'key_lengths' for '") << addressing << "'";
}

static Value emitLength(OpBuilder &builder, Location loc, Value lengths,
                        Value sequence) {
  return arith::IndexCastOp::create(
      builder, loc, builder.getIndexType(),
      memref::LoadOp::create(builder, loc, lengths, sequence));
}

LogicalResult LeftPaddedKVAttr::verifyOperands(Operation *op) const {
  return verifyHasLengths(op, *this);
}

Value LeftPaddedKVAttr::emitMaxKeys(OpBuilder &builder, Location loc, Value key,
                                    Value) const {
  return builder.createOrFold<memref::DimOp>(loc, key, 2);
}

attn::SequenceRows LeftPaddedKVAttr::emitRows(OpBuilder &builder, Location loc,
                                              Value lengths, Value stored,
                                              Value sequence) const {
  Value length = emitLength(builder, loc, lengths, sequence);
  Value first = arith::SubIOp::create(builder, loc, stored, length);
  // The unsigned comparison also catches negative lengths.
  Value isValid = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ule,
                                        length, stored);
  return {first, length, isValid};
}

//===----------------------------------------------------------------------===//
// RingBufferKVAttr
//===----------------------------------------------------------------------===//

LogicalResult RingBufferKVAttr::verifyOperands(Operation *op) const {
  return verifyHasLengths(op, *this);
}

Value RingBufferKVAttr::emitMaxKeys(OpBuilder &builder, Location loc, Value key,
                                    Value) const {
  return builder.createOrFold<memref::DimOp>(loc, key, 2);
}

attn::SequenceRows RingBufferKVAttr::emitRows(OpBuilder &builder, Location loc,
                                              Value lengths, Value stored,
                                              Value sequence) const {
  auto compare = [&](arith::CmpIPredicate predicate, Value lhs, Value rhs) {
    return arith::CmpIOp::create(builder, loc, predicate, lhs, rhs);
  };
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  Value appended = emitLength(builder, loc, lengths, sequence);
  Value fits = compare(arith::CmpIPredicate::ule, appended, stored);
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  Value divisor = arith::MaxUIOp::create(builder, loc, stored, one);
  Value oldest = arith::RemUIOp::create(builder, loc, appended, divisor);
  Value first = arith::SelectOp::create(builder, loc, fits, zero, oldest);
  // Keys that replace others begin and end with whole pages.
  Value pageSize = arith::ConstantIndexOp::create(builder, loc, getPageSize());
  Value rest = arith::RemUIOp::create(
      builder, loc,
      arith::OrIOp::create(builder, loc, first, stored).getResult(), pageSize);
  Value isWhole = compare(arith::CmpIPredicate::eq, rest, zero);
  Value isPositive = compare(arith::CmpIPredicate::sge, appended, zero);
  Value isValid = arith::AndIOp::create(
      builder, loc, isPositive,
      arith::OrIOp::create(builder, loc, fits, isWhole).getResult());
  return {first, arith::MinUIOp::create(builder, loc, appended, stored),
          isValid};
}

Value RingBufferKVAttr::emitStoredRow(OpBuilder &builder, Location loc,
                                      Value first, Value key,
                                      Value stored) const {
  Value row = arith::AddIOp::create(builder, loc, first, key);
  Value wrapped = arith::SubIOp::create(builder, loc, row, stored);
  Value isBelow = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                        row, stored);
  return arith::SelectOp::create(builder, loc, isBelow, row, wrapped);
}
