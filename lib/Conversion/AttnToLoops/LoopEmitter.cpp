//===- LoopEmitter.cpp - Loops of attention in f64 ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Scores, masks, regions and arithmetic of the loops of attention.
//
//===----------------------------------------------------------------------===//

#include "LoopEmitter.h"
#include "attn/Analysis/BoundedReads.h"
#include "attn/Dialect/Attn/IR/KeepMaskLayout.h"
#include "attn/Dialect/Attn/IR/ShardPositions.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

LoopEmitter::LoopEmitter(OpBuilder &builder, AttentionOpInterface attention,
                         const IRMapping &mapping)
    : b(attention.getLoc(), builder), attention(attention), mapping(mapping),
      addressing(attention.getAddressing()) {
  zero = index(0);
  one = index(1);
  minusInfinity = constant(-std::numeric_limits<double>::infinity());
  query = lookup(attention.getQuery());
  key = lookup(attention.getKey());
  value = lookup(attention.getValue());
  storedQueries = size(query, 2);
  Value pageTable = attention.getPageTable();
  storedKeys = addressing.emitMaxKeys(b, b.getLoc(), key,
                                      pageTable ? lookup(pageTable) : Value());
  qkHeadDim = size(query, 3);
  vHeadDim = size(value, 3);
  if (attention.getDropoutAttr()) {
    auto read = [&](Value state) -> Value {
      state = lookup(state);
      if (!isa<MemRefType>(state.getType()))
        return state;
      return memref::LoadOp::create(b, state, ValueRange());
    };
    seed = read(attention.getSeed());
    offset = read(attention.getOffset());
  }
  if (Value mask = attention.getDropoutMask())
    dropoutMask = lookup(mask);
  if (Value shard = attention.getPositions())
    positions = lookup(shard);
  if (!addressing.isListed())
    return;
  querySequences = lookup(attention.getQuerySequences());
  keySequences = lookup(attention.getKeySequences());
  if (addressing.packsQueries())
    numPacked = arith::SubIOp::create(b, size(querySequences, 0), one);
}

Value LoopEmitter::findSequence(Value bounds, Value row) {
  auto isHeldBy = [&](Value s) -> Value {
    Value next = arith::AddIOp::create(b, s, one);
    Value begins = arith::CmpIOp::create(b, arith::CmpIPredicate::sle,
                                         loadIndex(bounds, s), row);
    Value ends = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, row,
                                       loadIndex(bounds, next));
    return arith::AndIOp::create(b, begins, ends);
  };
  return loop(numPacked, numPacked, [&](Value s, ValueRange args) {
    Value held = isHeldBy(s);
    return SmallVector<Value>{
        arith::SelectOp::create(b, held, s, args[0]).getResult()};
  })[0];
}

void LoopEmitter::forSequenceOf(
    Value batch, Value row, bool isQueryRow,
    function_ref<void(const LoopSequence &, Value)> body) {
  LoopSequence sequence = {batch, zero, zero, storedQueries, storedKeys};
  if (Value lengths = attention.getKeyLengths()) {
    SequenceRows rows =
        addressing.emitRows(b, b.getLoc(), lookup(lengths), storedKeys, batch);
    sequence.keyLength =
        arith::SelectOp::create(b, rows.isValid, rows.length, zero);
  }
  if (!addressing.isListed())
    return body(sequence, row);

  bool isPacked = addressing.packsQueries();
  Value exists;
  if (isPacked) {
    sequence.number =
        findSequence(isQueryRow ? querySequences : keySequences, row);
    exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                   sequence.number, numPacked);
  } else {
    sequence.queryLength = loadIndex(querySequences, batch);
    sequence.keyLength = loadIndex(keySequences, batch);
    exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, row,
                                   isQueryRow ? sequence.queryLength
                                              : sequence.keyLength);
  }
  scf::IfOp::create(b, exists, [&](OpBuilder &, Location) {
    Value position = row;
    if (isPacked) {
      Value next = arith::AddIOp::create(b, sequence.number, one);
      auto setSide = [&](Value bounds, Value &first, Value &length) {
        first = loadIndex(bounds, sequence.number);
        length = arith::SubIOp::create(b, loadIndex(bounds, next), first);
      };
      setSide(querySequences, sequence.firstQueryRow, sequence.queryLength);
      if (addressing.hasEntries())
        sequence.keyLength = loadIndex(keySequences, sequence.number);
      else
        setSide(keySequences, sequence.firstKeyRow, sequence.keyLength);
      position = arith::SubIOp::create(
          b, row, isQueryRow ? sequence.firstQueryRow : sequence.firstKeyRow);
    }
    body(sequence, position);
    scf::YieldOp::create(b);
  });
}

std::pair<Value, Value>
LoopEmitter::getKeyPlace(Value batch, const LoopSequence &sequence, Value key) {
  Value row = getRow(sequence.firstKeyRow, key);
  // Packed queries are in one batch entry, but not their keys in a cache.
  if (addressing.packsQueries() && addressing.hasEntries())
    batch = sequence.number;
  if (!attention.getPageTable())
    return {batch, row};
  Value pageSize = index(addressing.getPageSize());
  Value number = arith::DivUIOp::create(b, row, pageSize);
  Value page = memref::LoadOp::create(b, lookup(attention.getPageTable()),
                                      ValueRange{batch, number});
  page = arith::IndexCastOp::create(b, b.getIndexType(), page);
  // Entries are read as unsigned: no entry, even a wrong one, leaves the pool.
  Value last = arith::SubIOp::create(b, size(this->key, 0), one);
  return {arith::MinUIOp::create(b, page, last),
          arith::RemUIOp::create(b, row, pageSize)};
}

KeyValueHeads LoopEmitter::emitKeyValueHeads(Value head) {
  if (Value map = attention.getHeadMap()) {
    // Entries are read as unsigned: no entry, even a wrong one, leaves the
    // keys.
    Value last = index(attention.getNumKeyHeads() - 1);
    Value shared =
        arith::MinUIOp::create(b, loadIndex(lookup(map), head), last);
    return {shared, shared};
  }
  return attention.emitKeyValueHeads(b, b.getLoc(), head);
}

LoopPair LoopEmitter::getGlobalPair(const LoopPair &pair) {
  auto read = [&](ShardPosition entry) {
    return emitShardPosition(b, b.getLoc(), positions, entry);
  };
  auto add = [&](Value value, ShardPosition offset) {
    return emitGlobalPosition(b, b.getLoc(), positions, offset, value);
  };
  LoopPair global = pair;
  global.sequence.number = add(pair.sequence.number, ShardPosition::FirstBatch);
  global.head = add(pair.head, ShardPosition::FirstHead);
  global.query = add(pair.query, ShardPosition::FirstQuery);
  global.key = add(pair.key, ShardPosition::FirstKey);
  global.sequence.queryLength = read(ShardPosition::NumQueries);
  global.sequence.keyLength = read(ShardPosition::NumKeys);
  return global;
}

Value LoopEmitter::emitScore(const LoopPair &stored, Value score) {
  if (attention.getScoreMod().empty())
    return score;
  LoopPair pair = getMaskedPair(stored);
  Value changed = inlineRegion(attention.getScoreMod(),
                               {truncToF32(score), pair.sequence.number,
                                pair.head, pair.query, pair.key});
  return extToF64(changed);
}

Value LoopEmitter::emitMaskMod(const LoopPair &stored) {
  if (!attention.getMaskAttr() && attention.getMaskMod().empty())
    return Value();
  LoopPair pair = getMaskedPair(stored);
  Value keep;
  if (MaskAttrInterface mask = attention.getMaskAttr())
    keep = mask.emitPredicate(b, b.getLoc(),
                              {pair.sequence.number, pair.head, pair.query,
                               pair.key, pair.sequence.queryLength,
                               pair.sequence.keyLength});
  if (attention.getMaskMod().empty())
    return keep;
  Value kept =
      inlineRegion(attention.getMaskMod(),
                   {pair.sequence.number, pair.head, pair.query, pair.key});
  return keep ? arith::AndIOp::create(b, keep, kept).getResult() : kept;
}

Value LoopEmitter::emitIsKept(const LoopPair &stored) {
  Location loc = b.getLoc();
  // A keep mask that is read belongs to the shard.
  bool isGlobal = positions && attention.getDropoutAttr();
  LoopPair pair = isGlobal ? getGlobalPair(stored) : stored;
  auto toWord = [&](Value position) -> Value {
    return arith::IndexCastOp::create(b, b.getI32Type(), position);
  };
  Value query = toWord(pair.query), key = toWord(pair.key);
  if (DropoutAttr dropout = attention.getDropoutAttr()) {
    RngBlock<Value> stream = dropout.emitStream(
        b, loc, seed, offset, pair.sequence.number, pair.head);
    return dropout.emitIsKept(b, loc, stream, query, key);
  }
  KeepBitPlace at = emitKeepBitPlace(b, loc, query, key);
  auto toIndex = [&](Value word) -> Value {
    return arith::IndexCastOp::create(b, b.getIndexType(), word);
  };
  SmallVector<Value> indices = {pair.sequence.number, pair.head,
                                toIndex(at.queryWord), toIndex(at.keyWord)};
  if (attention.getMaskLayout() == MaskLayout::Columns)
    std::swap(indices[2], indices[3]);
  Value word = memref::LoadOp::create(b, dropoutMask, indices);
  return emitKeepBit(b, loc, word, at.bit);
}

Value LoopEmitter::emitDropout(const LoopPair &pair, Value weight) {
  if (!attention.hasDropout())
    return weight;
  Value kept = emitIsKept(pair);
  Value scaled = arith::MulFOp::create(
      b, weight, constant(1 / attention.getKeepProbability()));
  return arith::SelectOp::create(b, kept, scaled, constant(0));
}

Value LoopEmitter::emitDot(Value lhs, ValueRange lhsIndices, Value rhs,
                           ValueRange rhsIndices, Value length) {
  auto multiply = [&](Value d, ValueRange args) -> SmallVector<Value> {
    SmallVector<Value> lhsAt(lhsIndices), rhsAt(rhsIndices);
    lhsAt.push_back(d);
    rhsAt.push_back(d);
    Value r = load(rhs, rhsAt);
    return {fma(load(lhs, lhsAt), r, args[0])};
  };
  return loop(length, constant(0), multiply)[0];
}

Value LoopEmitter::inlineRegion(Region &region, ValueRange arguments) {
  IRMapping inner = mapping;
  inner.map(region.getArguments(), arguments);
  for (Operation &op : region.front().without_terminator())
    cloneBounded(b, op, inner);
  auto yield = cast<attn::YieldOp>(region.front().getTerminator());
  return inner.lookupOrDefault(yield.getValue());
}

Value LoopEmitter::loadIndex(Value memref, Value i) {
  Value element = memref::LoadOp::create(b, memref, i);
  return arith::IndexCastOp::create(b, b.getIndexType(), element);
}

SmallVector<Value> LoopEmitter::loop(Value bound, ValueRange inits,
                                     BodyFn body) {
  auto loop =
      scf::ForOp::create(b, zero, bound, one, inits,
                         [&](OpBuilder &, Location, Value iv, ValueRange args) {
                           scf::YieldOp::create(b, body(iv, args));
                         });
  return loop.getResults();
}

Value LoopEmitter::size(Value memref, int64_t dim) {
  auto type = cast<MemRefType>(memref.getType());
  if (!type.isDynamicDim(dim))
    return index(type.getDimSize(dim));
  return memref::DimOp::create(b, memref, index(dim));
}

Value LoopEmitter::allocate(Value length) {
  auto type = MemRefType::get({ShapedType::kDynamic}, b.getF64Type());
  return memref::AllocOp::create(b, type, length);
}

Value LoopEmitter::load(Value memref, ValueRange indices) {
  return extToF64(memref::LoadOp::create(b, memref, indices));
}

void LoopEmitter::store(Value value, Value memref, ValueRange indices) {
  Type type = cast<MemRefType>(memref.getType()).getElementType();
  if (!type.isF64())
    value = arith::TruncFOp::create(b, type, value);
  memref::StoreOp::create(b, value, memref, indices);
}

Value LoopEmitter::fma(Value lhs, Value rhs, Value acc) {
  auto flags = arith::FastMathFlagsAttr::get(
      b.getContext(),
      arith::FastMathFlags::reassoc | arith::FastMathFlags::contract);
  Value product = arith::MulFOp::create(b, lhs, rhs, flags);
  return arith::AddFOp::create(b, acc, product, flags);
}

Value LoopEmitter::truncToF32(Value value) {
  return arith::TruncFOp::create(b, b.getF32Type(), value);
}

Value LoopEmitter::extToF64(Value value) {
  if (value.getType().isF64())
    return value;
  return arith::ExtFOp::create(b, b.getF64Type(), value);
}
