//===- AttentionGradToLoops.cpp - Gradient of attention to plain loops ----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the gradient of attention as plain loops in f64, once over queries and
// once over keys, so that each element is written by one iteration.
//
//===----------------------------------------------------------------------===//

#include "LoopEmitter.h"
#include "attn/Analysis/BoundedReads.h"
#include "attn/Conversion/AttnToLoops/AttnToLoops.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Writes the loops of one gradient.
class GradLoopWriter : public LoopEmitter {
public:
  GradLoopWriter(OpBuilder &builder, AttentionGradOp grad,
                 const IRMapping &mapping)
      : LoopEmitter(builder, grad, mapping), grad(grad),
        out(lookup(grad.getOut())), lse(lookup(grad.getLse())),
        dout(lookup(grad.getDout())), dquery(lookup(grad.getDquery())),
        dkey(lookup(grad.getDkey())), dvalue(lookup(grad.getDvalue())) {
    if (grad.getDlse())
      dlse = lookup(grad.getDlse());
    if (grad.getIdentity())
      identity = lookup(grad.getIdentity());
  }

  void write(Value rowStep);

private:
  /// The contributions of a pair: its probability after dropout and the scaled
  /// gradient of its score.
  struct Weights {
    Value p, dx;
  };
  using UseFn = function_ref<void(const Weights &)>;

  /// The gradients that a loop over the rows of keys and values writes.
  struct KeyValueGrads {
    bool ofKeys, ofValues;
  };

  void writeQueryRow(Value batch, Value head, const LoopSequence &sequence,
                     Value position);
  void writeKeyRows(Value rowStep, KeyValueGrads grads);
  /// `shared` is a key head, or a value head if only values have gradients.
  void writeKeyRow(Value batch, Value shared, const LoopSequence &sequence,
                   Value position, KeyValueGrads grads);
  /// Adds the contributions of the queries of `head` to key `position`. Null
  /// buffers get none.
  void addQueriesOfHead(Value batch, Value head, const LoopSequence &sequence,
                        Value position, Value keyBuffer, Value valueBuffer);
  LoopPair getPair(Value batch, Value head, KeyValueHeads heads,
                   const LoopSequence &sequence, Value query, Value key) {
    return {batch,
            head,
            heads,
            getRow(sequence.firstQueryRow, query),
            /*keyEntry=*/batch,
            getRow(sequence.firstKeyRow, key),
            sequence,
            query,
            key};
  }
  /// Emits the code of `use` for the contributions of the pair, if it attends.
  void emitPair(const LoopPair &pair, Value delta, bool accumulate, UseFn use);
  Value emitScoreGrad(const LoopPair &pair, Value score, Value ds,
                      bool accumulate);
  void lowerAccumulate(AccumulateOp op);
  /// `dot(dout, out) - dlse` of a row, where `out` is the output of the
  /// softmax, without the identity, times its factor.
  Value emitDelta(const LoopPair &pair);
  /// Multiplies by the factor `1 - identity` of the softmax, if there is an
  /// identity.
  Value emitRest(Value weight, Value head) {
    if (!identity)
      return weight;
    Value rest = arith::SubFOp::create(b, constant(1), load(identity, head));
    return arith::MulFOp::create(b, rest, weight);
  }
  /// The key position that the identity assigns to query `position`, and
  /// whether it exists; or the query position of a key if not `isQuery`.
  std::pair<Value, Value> emitOwn(const LoopSequence &sequence, Value position,
                                  bool isQuery);
  /// Emits `buffer[d] += weight * source[indices, d]`.
  void addScaled(Value weight, Value source, ValueRange indices, Value buffer,
                 Value length);
  Value allocateZeros(Value length);
  void storeRow(Value buffer, Value target, ValueRange indices, Value length);

  AttentionGradOp grad;
  Value out, lse, dout, dlse, dquery, dkey, dvalue, identity;
};
} // namespace

void GradLoopWriter::write(Value rowStep) {
  // Gradients of captures are accumulated along with the rows of queries, so
  // all of these must run.
  Value queryStep = grad.getDcaptures().empty() ? rowStep : one;
  scf::ParallelOp::create(
      b, ValueRange{zero, zero, zero},
      ValueRange{size(query, 0), size(query, 1), storedQueries},
      ValueRange{one, one, queryStep},
      [&](OpBuilder &, Location, ValueRange ids) {
        forSequenceOf(ids[0], ids[2], /*isQueryRow=*/true,
                      [&](const LoopSequence &sequence, Value position) {
                        writeQueryRow(ids[0], ids[1], sequence, position);
                      });
      });
  if (grad.getNumKeyHeads() == grad.getNumValueHeads())
    return writeKeyRows(rowStep, {/*ofKeys=*/true, /*ofValues=*/true});
  writeKeyRows(rowStep, {/*ofKeys=*/true, /*ofValues=*/false});
  writeKeyRows(rowStep, {/*ofKeys=*/false, /*ofValues=*/true});
}

void GradLoopWriter::writeKeyRows(Value rowStep, KeyValueGrads grads) {
  Value heads = size(grads.ofKeys ? key : value, 1);
  scf::ParallelOp::create(
      b, ValueRange{zero, zero, zero},
      ValueRange{size(key, 0), heads, storedKeys},
      ValueRange{one, one, rowStep},
      [&](OpBuilder &, Location, ValueRange ids) {
        forSequenceOf(ids[0], ids[2], /*isQueryRow=*/false,
                      [&](const LoopSequence &sequence, Value position) {
                        writeKeyRow(ids[0], ids[1], sequence, position, grads);
                      });
      });
}

void GradLoopWriter::writeQueryRow(Value batch, Value head,
                                   const LoopSequence &sequence,
                                   Value position) {
  KeyValueHeads heads = emitKeyValueHeads(head);
  Value row = getRow(sequence.firstQueryRow, position);
  Value delta =
      emitDelta(getPair(batch, head, heads, sequence, position, /*key=*/zero));
  Value buffer = allocateZeros(qkHeadDim);
  loop(sequence.keyLength, {}, [&](Value j, ValueRange) -> SmallVector<Value> {
    LoopPair pair = getPair(batch, head, heads, sequence, position, j);
    emitPair(pair, delta, /*accumulate=*/true, [&](const Weights &weights) {
      addScaled(weights.dx, key, {batch, heads.key, pair.keyRow}, buffer,
                qkHeadDim);
    });
    return {};
  });
  storeRow(buffer, dquery, {batch, head, row}, qkHeadDim);
  memref::DeallocOp::create(b, buffer);
}

void GradLoopWriter::writeKeyRow(Value batch, Value shared,
                                 const LoopSequence &sequence, Value position,
                                 KeyValueGrads grads) {
  Value row = getRow(sequence.firstKeyRow, position);
  Value keyBuffer = grads.ofKeys ? allocateZeros(qkHeadDim) : Value();
  Value valueBuffer = grads.ofValues ? allocateZeros(vHeadDim) : Value();
  int64_t numShared =
      grads.ofKeys ? grad.getNumKeyHeads() : grad.getNumValueHeads();
  Value group = index(grad.getNumQueryHeads() / numShared);
  Value firstHead = arith::MulIOp::create(b, shared, group);
  loop(group, {}, [&](Value g, ValueRange) -> SmallVector<Value> {
    Value head = arith::AddIOp::create(b, firstHead, g);
    addQueriesOfHead(batch, head, sequence, position, keyBuffer, valueBuffer);
    return {};
  });
  if (keyBuffer)
    storeRow(keyBuffer, dkey, {batch, shared, row}, qkHeadDim);
  if (valueBuffer)
    storeRow(valueBuffer, dvalue, {batch, shared, row}, vHeadDim);
  for (Value buffer : {keyBuffer, valueBuffer})
    if (buffer)
      memref::DeallocOp::create(b, buffer);
}

void GradLoopWriter::addQueriesOfHead(Value batch, Value head,
                                      const LoopSequence &sequence,
                                      Value position, Value keyBuffer,
                                      Value valueBuffer) {
  KeyValueHeads heads = emitKeyValueHeads(head);
  auto addQuery = [&](Value i, ValueRange) -> SmallVector<Value> {
    LoopPair pair = getPair(batch, head, heads, sequence, i, position);
    SmallVector<Value> at = {batch, head, pair.queryRow};
    Value delta = emitDelta(pair);
    emitPair(pair, delta, /*accumulate=*/false, [&](const Weights &weights) {
      if (keyBuffer)
        addScaled(weights.dx, query, at, keyBuffer, qkHeadDim);
      if (valueBuffer)
        addScaled(weights.p, dout, at, valueBuffer, vHeadDim);
    });
    return {};
  };
  loop(sequence.queryLength, {}, addQuery);
  if (!identity || !valueBuffer)
    return;
  auto [own, exists] = emitOwn(sequence, position, /*isQuery=*/false);
  scf::IfOp::create(b, exists, [&, own = own](OpBuilder &, Location) {
    addScaled(load(identity, head), dout,
              {batch, head, getRow(sequence.firstQueryRow, own)}, valueBuffer,
              vHeadDim);
    scf::YieldOp::create(b);
  });
}

void GradLoopWriter::emitPair(const LoopPair &pair, Value delta,
                              bool accumulate, UseFn use) {
  Value scale = constant(grad.getScaleOrDefault());
  auto emitAttended = [&] {
    Value product =
        emitDot(query, {pair.batch, pair.head, pair.queryRow}, key,
                {pair.batch, pair.heads.key, pair.keyRow}, qkHeadDim);
    Value score = arith::MulFOp::create(b, product, scale);
    Value changed = emitScore(pair, score);
    // An unordered comparison keeps NaN scores.
    Value isFinite = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE,
                                           changed, minusInfinity);
    scf::IfOp::create(b, isFinite, [&](OpBuilder &, Location) {
      Value rowLse = load(lse, {pair.batch, pair.head, pair.queryRow});
      Value p = math::ExpOp::create(
          b, arith::SubFOp::create(b, changed, rowLse).getResult());
      Value dp = emitDot(dout, {pair.batch, pair.head, pair.queryRow}, value,
                         {pair.batch, pair.heads.value, pair.keyRow}, vHeadDim);
      dp = emitRest(emitDropout(pair, dp), pair.head);
      Value difference = arith::SubFOp::create(b, dp, delta);
      Value ds = arith::MulFOp::create(b, p, difference);
      Value dx = emitScoreGrad(pair, score, ds, accumulate);
      use({emitRest(emitDropout(pair, p), pair.head),
           arith::MulFOp::create(b, dx, scale)});
      scf::YieldOp::create(b);
    });
  };
  Value keep = emitMaskMod(pair);
  if (!keep)
    return emitAttended();
  scf::IfOp::create(b, keep, [&](OpBuilder &, Location) {
    emitAttended();
    scf::YieldOp::create(b);
  });
}

Value GradLoopWriter::emitScoreGrad(const LoopPair &pair, Value score, Value ds,
                                    bool accumulate) {
  Region &region = grad.getScoreModGrad();
  if (region.empty())
    return ds;
  LoopPair at = getMaskedPair(pair);
  SmallVector<Value> arguments = {truncToF32(score),  truncToF32(ds),
                                  at.sequence.number, at.head,
                                  at.query,           at.key};
  llvm::append_range(arguments, grad.getDcaptures());
  IRMapping inner = mapping;
  for (auto [argument, value] :
       llvm::zip_equal(region.getArguments(), arguments))
    inner.map(argument, lookup(value));
  SmallVector<AccumulateOp> accumulates;
  for (Operation &op : region.front().without_terminator())
    cloneBounded(b, op, inner)->walk([&](AccumulateOp nested) {
      accumulates.push_back(nested);
    });
  for (AccumulateOp op : accumulates) {
    if (accumulate)
      lowerAccumulate(op);
    op.erase();
  }
  auto yield = cast<attn::YieldOp>(region.front().getTerminator());
  return extToF64(inner.lookupOrDefault(yield.getValue()));
}

/// Writes an addition atomically, since other rows may add at the same time.
void GradLoopWriter::lowerAccumulate(AccumulateOp op) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op);
  Location loc = b.getLoc();
  Value destination = op.getDestination();
  if (Value has = emitHasElements(b, loc, destination)) {
    auto ifOp = scf::IfOp::create(b, has, /*withElseRegion=*/false);
    b.setInsertionPointToStart(ifOp.thenBlock());
  }
  Type type = cast<MemRefType>(destination.getType()).getElementType();
  Value value = op.getValue();
  if (type.isF64())
    value = extToF64(value);
  SmallVector<Value> indices;
  for (auto [dim, index] : llvm::enumerate(op.getIndices()))
    indices.push_back(boundIndex(b, loc, index, destination, dim));
  memref::AtomicRMWOp::create(b, arith::AtomicRMWKind::addf, value, destination,
                              indices);
}

std::pair<Value, Value> GradLoopWriter::emitOwn(const LoopSequence &sequence,
                                                Value position, bool isQuery) {
  Value length = sequence.keyLength, other = sequence.queryLength;
  if (!isQuery)
    std::swap(length, other);
  Value own = arith::AddIOp::create(
      b, position, arith::SubIOp::create(b, length, other).getResult());
  // The unsigned comparison also catches negative positions.
  return {own,
          arith::CmpIOp::create(b, arith::CmpIPredicate::ult, own, length)};
}

Value GradLoopWriter::emitDelta(const LoopPair &pair) {
  SmallVector<Value> row = {pair.batch, pair.head, pair.queryRow};
  Value delta = emitDot(dout, row, out, row, vHeadDim);
  if (identity) {
    auto [own, exists] = emitOwn(pair.sequence, pair.query, /*isQuery=*/true);
    auto choice = scf::IfOp::create(
        b, exists,
        [&, own = own](OpBuilder &, Location) {
          Value product = emitDot(dout, row, value,
                                  {pair.batch, pair.heads.value,
                                   getRow(pair.sequence.firstKeyRow, own)},
                                  vHeadDim);
          product =
              arith::MulFOp::create(b, product, load(identity, pair.head));
          scf::YieldOp::create(
              b, arith::SubFOp::create(b, delta, product).getResult());
        },
        [&](OpBuilder &, Location) { scf::YieldOp::create(b, delta); });
    delta = choice.getResult(0);
  }
  if (!dlse)
    return delta;
  return arith::SubFOp::create(b, delta, load(dlse, row));
}

void GradLoopWriter::addScaled(Value weight, Value source, ValueRange indices,
                               Value buffer, Value length) {
  loop(length, {}, [&](Value d, ValueRange) -> SmallVector<Value> {
    SmallVector<Value> at(indices);
    at.push_back(d);
    Value element = load(source, at);
    store(fma(weight, element, load(buffer, d)), buffer, d);
    return {};
  });
}

Value GradLoopWriter::allocateZeros(Value length) {
  Value buffer = allocate(length);
  Value zeroF64 = constant(0);
  loop(length, {}, [&](Value d, ValueRange) -> SmallVector<Value> {
    store(zeroF64, buffer, d);
    return {};
  });
  return buffer;
}

void GradLoopWriter::storeRow(Value buffer, Value target, ValueRange indices,
                              Value length) {
  loop(length, {}, [&](Value d, ValueRange) -> SmallVector<Value> {
    SmallVector<Value> at(indices);
    at.push_back(d);
    store(load(buffer, d), target, at);
    return {};
  });
}

LogicalResult attn::writeAttentionGradLoops(OpBuilder &builder,
                                            AttentionGradOp grad,
                                            const IRMapping &mapping,
                                            Value rowStep) {
  if (!grad.getScoreMod().empty() && !grad.statesScoreGrad())
    return grad.emitOpError(
        "with a score_mod region must have a score_mod_grad region "
        "before it is converted to loops");
  GradLoopWriter(builder, grad, mapping).write(rowStep);
  return success();
}
