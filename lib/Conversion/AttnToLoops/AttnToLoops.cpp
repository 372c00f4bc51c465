//===- AttnToLoops.cpp - Attention to plain loops -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes attention as plain loops in f64. For each row: the scores and their
// maximum, then the sum of the exponentials and of the exponentials times
// values.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/AttnToLoops/AttnToLoops.h"
#include "LoopEmitter.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Attn/IR/Float8.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::attn {
#define GEN_PASS_DEF_CONVERTATTNTOLOOPSPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Writes the loops of one attention.
class LoopWriter : public LoopEmitter {
public:
  LoopWriter(OpBuilder &builder, AttentionOp attention,
             const IRMapping &mapping)
      : LoopEmitter(builder, attention, mapping),
        out(lookup(attention.getOut())) {
    if (attention.getLse())
      lse = lookup(attention.getLse());
    if (attention.getStateOut()) {
      stateOut = lookup(attention.getStateOut());
      stateLse = lookup(attention.getStateLse());
    }
    if (attention.getSinks())
      sinks = lookup(attention.getSinks());
    if (attention.getIdentity())
      identity = lookup(attention.getIdentity());
  }

  void write(Value rowStep);

private:
  /// The row to write. Buffers hold f64 values.
  struct Row {
    /// The row's position, without a key.
    LoopPair pair;
    Value queryBuffer, scoreBuffer, outBuffer;
    /// The log-sum-exp of the state from which the row goes on, and the sink's
    /// score, which take part in the sum, or -inf.
    Value state, sink;
  };

  void writeRow(const LoopPair &pair);
  /// The pair of the row and key `key` of its sequence.
  LoopPair getPair(const Row &row, Value key) {
    LoopPair pair = row.pair;
    pair.key = key;
    std::tie(pair.keyEntry, pair.keyRow) =
        getKeyPlace(pair.batch, pair.sequence, key);
    return pair;
  }
  void writeQueries(const Row &row);
  Value writeScores(const Row &row);
  /// Emits exp(exponent - rowMax), or 0 where `exponent` is -inf.
  Value emitWeight(Value exponent, Value rowMax);
  Value writeRowSum(const Row &row, Value rowMax);
  void writeResults(const Row &row, Value rowMax, Value rowSum);

  /// Emits the result of the row with the identity; `result` is element `d` of
  /// the head dim without it.
  Value mixIdentity(const Row &row, Value result, Value d);

  Value out, lse, stateOut, stateLse, sinks, identity;
};
} // namespace

void LoopWriter::write(Value rowStep) {
  scf::ParallelOp::create(
      b, ValueRange{zero, zero, zero},
      ValueRange{size(query, 0), size(query, 1), storedQueries},
      ValueRange{one, one, rowStep},
      [&](OpBuilder &, Location, ValueRange ids) {
        forSequenceOf(ids[0], ids[2], /*isQueryRow=*/true,
                      [&](const LoopSequence &sequence, Value position) {
                        LoopPair pair;
                        pair.batch = ids[0];
                        pair.head = ids[1];
                        pair.heads = emitKeyValueHeads(ids[1]);
                        pair.queryRow = ids[2];
                        pair.sequence = sequence;
                        pair.query = position;
                        writeRow(pair);
                      });
      });
}

void LoopWriter::writeRow(const LoopPair &pair) {
  Row row;
  row.pair = pair;
  row.queryBuffer = allocate(qkHeadDim);
  row.scoreBuffer = allocate(pair.sequence.keyLength);
  row.outBuffer = allocate(vHeadDim);
  row.sink = sinks ? load(sinks, pair.head) : minusInfinity;
  row.state = stateLse ? load(stateLse, {pair.batch, pair.head, pair.queryRow})
                       : minusInfinity;

  Value rowMax = writeScores(row);
  Value rowSum = writeRowSum(row, rowMax);
  writeResults(row, rowMax, rowSum);

  for (Value buffer : {row.queryBuffer, row.scoreBuffer, row.outBuffer})
    memref::DeallocOp::create(b, buffer);
}

/// Stores the queries of the row, after the query region.
void LoopWriter::writeQueries(const Row &row) {
  SmallVector<Value> at = {row.pair.batch, row.pair.head, row.pair.queryRow};
  auto loadAt = [&](Value d) {
    SmallVector<Value> indices(at);
    indices.push_back(d);
    return load(query, indices);
  };
  Region &region = cast<AttentionOp>(attention.getOperation()).getQueryRegion();
  Value square;
  if (!region.empty()) {
    Value sum = emitDot(query, at, query, at, qkHeadDim);
    Value headDim = arith::UIToFPOp::create(
        b, b.getF64Type(),
        arith::IndexCastOp::create(b, b.getI64Type(), qkHeadDim).getResult());
    square = truncToF32(arith::DivFOp::create(b, sum, headDim));
  }
  loop(qkHeadDim, {}, [&](Value d, ValueRange) -> SmallVector<Value> {
    Value element = loadAt(d);
    if (square)
      element = extToF64(inlineRegion(
          region, {truncToF32(element), square, at[0], at[1], at[2], d}));
    store(element, row.queryBuffer, d);
    return {};
  });
}

/// Stores the scores of the row, -inf where masked. Returns their maximum, to
/// which the sink and the state contribute.
Value LoopWriter::writeScores(const Row &row) {
  writeQueries(row);
  auto writeScore = [&](Value j, ValueRange args) -> SmallVector<Value> {
    LoopPair pair = getPair(row, j);
    auto emitPairScore = [&]() -> Value {
      Value product =
          emitDot(row.queryBuffer, {}, key,
                  {pair.keyEntry, pair.heads.key, pair.keyRow}, qkHeadDim);
      Value scale = constant(attention.getScaleOrDefault());
      return emitScore(pair, arith::MulFOp::create(b, product, scale));
    };
    Value score;
    if (Value keep = emitMaskMod(pair)) {
      auto choice = scf::IfOp::create(
          b, keep,
          [&](OpBuilder &, Location) {
            scf::YieldOp::create(b, emitPairScore());
          },
          [&](OpBuilder &, Location) {
            scf::YieldOp::create(b, minusInfinity);
          });
      score = choice.getResult(0);
    } else {
      score = emitPairScore();
    }
    store(score, row.scoreBuffer, j);
    return {arith::MaximumFOp::create(b, args[0], score)};
  };
  Value initial = row.sink;
  if (stateLse)
    initial = arith::MaximumFOp::create(b, initial, row.state);
  return loop(row.pair.sequence.keyLength, initial, writeScore)[0];
}

Value LoopWriter::emitWeight(Value exponent, Value rowMax) {
  Value weight = math::ExpOp::create(
      b, arith::SubFOp::create(b, exponent, rowMax).getResult());
  Value isNone = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, exponent,
                                       minusInfinity);
  return arith::SelectOp::create(b, isNone, constant(0), weight);
}

/// Writes the unnormalised output to the buffer of the row. Returns the sum
/// that normalises it.
Value LoopWriter::writeRowSum(const Row &row, Value rowMax) {
  Value zeroF64 = constant(0), initial = zeroF64, ofState, hasState;
  if (stateOut) {
    initial = ofState = emitWeight(row.state, rowMax);
    hasState = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, row.state,
                                     minusInfinity);
  }
  loop(vHeadDim, {}, [&](Value d, ValueRange) -> SmallVector<Value> {
    Value element = zeroF64;
    if (stateOut) {
      Value held =
          load(stateOut, {row.pair.batch, row.pair.head, row.pair.queryRow, d});
      element = arith::SelectOp::create(
          b, hasState, arith::MulFOp::create(b, ofState, held).getResult(),
          zeroF64);
    }
    store(element, row.outBuffer, d);
    return {};
  });
  auto addKey = [&](Value j, ValueRange args) -> SmallVector<Value> {
    LoopPair pair = getPair(row, j);
    Value score = load(row.scoreBuffer, j);
    // An unordered comparison keeps NaN scores.
    Value attended = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, score,
                                           minusInfinity);
    auto choice = scf::IfOp::create(
        b, attended,
        [&](OpBuilder &, Location) {
          Value p = math::ExpOp::create(
              b, arith::SubFOp::create(b, score, rowMax).getResult());
          Value weight = emitDropout(pair, p);
          loop(vHeadDim, {}, [&](Value d, ValueRange) {
            Value v =
                load(value, {pair.keyEntry, pair.heads.value, pair.keyRow, d});
            store(fma(weight, v, load(row.outBuffer, d)), row.outBuffer, d);
            return SmallVector<Value>();
          });
          scf::YieldOp::create(
              b, arith::AddFOp::create(b, args[0], p).getResult());
        },
        [&](OpBuilder &, Location) { scf::YieldOp::create(b, args[0]); });
    return {choice.getResult(0)};
  };
  if (sinks)
    initial = arith::AddFOp::create(b, initial, emitWeight(row.sink, rowMax));
  return loop(row.pair.sequence.keyLength, initial, addKey)[0];
}

Value LoopWriter::mixIdentity(const Row &row, Value result, Value d) {
  const LoopSequence &sequence = row.pair.sequence;
  Value weight = load(identity, row.pair.head);
  Value rest = arith::SubFOp::create(b, constant(1), weight);
  result = arith::MulFOp::create(b, rest, result);
  Value shift =
      arith::SubIOp::create(b, sequence.keyLength, sequence.queryLength);
  LoopPair pair = getPair(row, arith::AddIOp::create(b, row.pair.query, shift));
  // The unsigned comparison also catches negative positions.
  Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, pair.key,
                                       sequence.keyLength);
  auto choice = scf::IfOp::create(
      b, exists,
      [&](OpBuilder &, Location) {
        Value v = load(value, {pair.batch, pair.heads.value, pair.keyRow, d});
        scf::YieldOp::create(b, fma(weight, v, result));
      },
      [&](OpBuilder &, Location) { scf::YieldOp::create(b, result); });
  return choice.getResult(0);
}

/// A row with nothing to attend has a sum of zero.
void LoopWriter::writeResults(const Row &row, Value rowMax, Value rowSum) {
  auto op = cast<AttentionOp>(attention.getOperation());
  Value zeroF64 = constant(0);
  Value empty =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, rowSum, zeroF64);
  loop(vHeadDim, {}, [&](Value d, ValueRange) -> SmallVector<Value> {
    Value quotient = arith::DivFOp::create(b, load(row.outBuffer, d), rowSum);
    Value result = arith::SelectOp::create(b, empty, zeroF64, quotient);
    if (identity)
      result = mixIdentity(row, result, d);
    if (Region &region = op.getEpilogue(); !region.empty())
      result =
          extToF64(inlineRegion(region, {truncToF32(result), row.pair.batch,
                                         row.pair.head, row.pair.queryRow, d}));
    // References have outputs of f64, which saturate as the output does.
    Type element = getElementTypeOrSelf(op.getOut());
    if (isFloat8(element))
      result = emitSaturated(b, b.getLoc(), result, cast<FloatType>(element));
    store(result, out, {row.pair.batch, row.pair.head, row.pair.queryRow, d});
    return {};
  });
  if (!lse)
    return;
  Value log = math::LogOp::create(b, rowSum);
  Value sum = arith::AddFOp::create(b, rowMax, log);
  Value result = arith::SelectOp::create(b, empty, minusInfinity, sum);
  store(result, lse, {row.pair.batch, row.pair.head, row.pair.queryRow});
}

void attn::writeAttentionLoops(OpBuilder &builder, AttentionOp attention,
                               const IRMapping &mapping, Value rowStep) {
  LoopWriter(builder, attention, mapping).write(rowStep);
}

LogicalResult attn::writeLoops(OpBuilder &builder,
                               AttentionOpInterface attention,
                               const IRMapping &mapping, Value rowStep) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(attention)
      .Case([&](AttentionOp op) {
        writeAttentionLoops(builder, op, mapping, rowStep);
        return success();
      })
      .Case([&](AttentionGradOp op) {
        return writeAttentionGradLoops(builder, op, mapping, rowStep);
      })
      .Default([](Operation *op) {
        return op->emitOpError("cannot be written as loops");
      });
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct ConvertAttnToLoopsPass
    : public attn::impl::ConvertAttnToLoopsPassBase<ConvertAttnToLoopsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<AttentionOpInterface> attentions;
    getOperation()->walk(
        [&](AttentionOpInterface op) { attentions.push_back(op); });
    IRRewriter rewriter(&getContext());
    for (AttentionOpInterface op : attentions) {
      if (!op.isBufferized()) {
        op->emitOpError("must be bufferised before it is converted to loops");
        return signalPassFailure();
      }
      rewriter.setInsertionPoint(op);
      Value one = arith::ConstantIndexOp::create(rewriter, op.getLoc(), 1);
      if (failed(writeLoops(rewriter, op, IRMapping(), one)))
        return signalPassFailure();
      rewriter.eraseOp(op);
      ++numLowered;
    }
  }
};
} // namespace
