//===- AttnToLoops.cpp - Attention to plain loops -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes attention as plain loops in f64: for each row the scores and their
// maximum, then the sum of the exponentials and of the weighted values.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/AttnToLoops/AttnToLoops.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"

#include <limits>

namespace mlir::attn {
#define GEN_PASS_DEF_CONVERTATTNTOLOOPSPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Writes the loops of one attention.
class LoopWriter {
public:
  LoopWriter(OpBuilder &builder, AttentionOp attention,
             const IRMapping &mapping);

  void write(Value rowStep);

private:
  using BodyFn = function_ref<SmallVector<Value>(Value iv, ValueRange args)>;

  /// The row that is being written. Buffers hold f64 values.
  struct Row {
    /// Where it is stored, and where its sequence's keys begin.
    Value batch, head, keyHead, queryRow, firstKeyRow;
    /// Where it is in its sequence: what regions and masks see.
    Value sequence, query, queryLength, keyLength;
    Value queryBuffer, scoreBuffer, outBuffer;
  };

  /// Writes a row if it belongs to a sequence.
  void writeStoredRow(Value batch, Value head, Value queryRow);
  void writeRow(Row row);
  /// The number of the packed sequence that holds `queryRow`; that of sequences
  /// if none does.
  Value findSequence(Value queryRow);
  Value loadIndex(Value memref, Value i) {
    Value element = memref::LoadOp::create(b, memref, i);
    return arith::IndexCastOp::create(b, b.getIndexType(), element);
  }
  Value writeScores(const Row &row);
  Value writeSums(const Row &row, Value rowMax);
  void writeResults(const Row &row, Value rowMax, Value rowSum);
  Value emitScore(const Row &row, Value key);
  /// Where key number `key` of the row's sequence is stored.
  Value getKeyRow(const Row &row, Value key) {
    return b.createOrFold<arith::AddIOp>(row.firstKeyRow, key);
  }
  /// Whether (row, key) attends; null if all pairs do.
  Value emitKeep(const Row &row, Value key);

  Value lookup(Value value) { return mapping.lookupOrDefault(value); }
  Value inlineRegion(Region &region, ValueRange arguments);
  SmallVector<Value> loop(Value bound, ValueRange inits, BodyFn body);
  Value size(Value memref, int64_t dim);
  Value allocate(Value length);
  Value load(Value memref, ValueRange indices);
  void store(Value value, Value memref, ValueRange indices);
  Value fma(Value lhs, Value rhs, Value acc);
  Value constant(double value) {
    return arith::ConstantOp::create(b, b.getF64FloatAttr(value));
  }
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }

  ImplicitLocOpBuilder b;
  AttentionOp attention;
  IRMapping mapping;
  Value zero, one, minusInfinity;
  Value query, key, value, out, lse;
  Value querySequences, keySequences;
  /// Number of packed sequences.
  Value numPacked;
  Value storedQueries, storedKeys, queryHeadDim, valueHeadDim;
};
} // namespace

LoopWriter::LoopWriter(OpBuilder &builder, AttentionOp attention,
                       const IRMapping &mapping)
    : b(attention.getLoc(), builder), attention(attention), mapping(mapping) {
  query = lookup(attention.getQuery());
  key = lookup(attention.getKey());
  value = lookup(attention.getValue());
  out = lookup(attention.getOut());
  if (attention.getLse())
    lse = lookup(attention.getLse());
  if (attention.hasSequences()) {
    querySequences = lookup(attention.getQuerySequences());
    keySequences = lookup(attention.getKeySequences());
  }
}

void LoopWriter::write(Value rowStep) {
  zero = index(0);
  one = index(1);
  minusInfinity = constant(-std::numeric_limits<double>::infinity());
  storedQueries = size(query, 2);
  storedKeys = size(key, 2);
  if (attention.getSequenceLayout() == SequenceLayout::Packed)
    numPacked = arith::SubIOp::create(b, size(querySequences, 0), one);
  queryHeadDim = size(query, 3);
  valueHeadDim = size(value, 3);
  scf::ParallelOp::create(
      b, ValueRange{zero, zero, zero},
      ValueRange{size(query, 0), size(query, 1), storedQueries},
      ValueRange{one, one, rowStep},
      [&](OpBuilder &, Location, ValueRange ids) {
        writeStoredRow(ids[0], ids[1], ids[2]);
      });
}

Value LoopWriter::findSequence(Value queryRow) {
  auto isHeldBy = [&](Value s) -> Value {
    Value next = arith::AddIOp::create(b, s, one);
    Value begins = arith::CmpIOp::create(
        b, arith::CmpIPredicate::sle, loadIndex(querySequences, s), queryRow);
    Value ends = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, queryRow,
                                       loadIndex(querySequences, next));
    return arith::AndIOp::create(b, begins, ends);
  };
  return loop(numPacked, numPacked, [&](Value s, ValueRange args) {
    Value held = isHeldBy(s);
    return SmallVector<Value>{
        arith::SelectOp::create(b, held, s, args[0]).getResult()};
  })[0];
}

void LoopWriter::writeStoredRow(Value batch, Value head, Value queryRow) {
  Row row;
  row.batch = row.sequence = batch;
  row.head = head;
  row.queryRow = row.query = queryRow;
  row.firstKeyRow = zero;
  row.keyHead = head;
  if (attention.getGroupSize() != 1)
    row.keyHead =
        arith::DivUIOp::create(b, head, index(attention.getGroupSize()));
  if (!attention.hasSequences()) {
    row.queryLength = storedQueries;
    row.keyLength = storedKeys;
    return writeRow(row);
  }

  bool isPacked = attention.getSequenceLayout() == SequenceLayout::Packed;
  Value exists;
  if (isPacked) {
    row.sequence = findSequence(queryRow);
    exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, row.sequence,
                                   numPacked);
  } else {
    row.queryLength = loadIndex(querySequences, batch);
    row.keyLength = loadIndex(keySequences, batch);
    exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, queryRow,
                                   row.queryLength);
  }
  scf::IfOp::create(b, exists, [&](OpBuilder &, Location) {
    if (isPacked) {
      Value next = arith::AddIOp::create(b, row.sequence, one);
      Value firstQueryRow = loadIndex(querySequences, row.sequence);
      row.query = arith::SubIOp::create(b, queryRow, firstQueryRow);
      row.queryLength = arith::SubIOp::create(
          b, loadIndex(querySequences, next), firstQueryRow);
      row.firstKeyRow = loadIndex(keySequences, row.sequence);
      row.keyLength = arith::SubIOp::create(b, loadIndex(keySequences, next),
                                            row.firstKeyRow);
    }
    writeRow(row);
    scf::YieldOp::create(b);
  });
}

void LoopWriter::writeRow(Row row) {
  row.queryBuffer = allocate(queryHeadDim);
  row.scoreBuffer = allocate(row.keyLength);
  row.outBuffer = allocate(valueHeadDim);

  Value rowMax = writeScores(row);
  Value rowSum = writeSums(row, rowMax);
  writeResults(row, rowMax, rowSum);

  for (Value buffer : {row.queryBuffer, row.scoreBuffer, row.outBuffer})
    memref::DeallocOp::create(b, buffer);
}

/// Stores the scores of the row, -inf where masked. Returns their maximum.
Value LoopWriter::writeScores(const Row &row) {
  loop(queryHeadDim, {}, [&](Value d, ValueRange) -> SmallVector<Value> {
    store(load(query, {row.batch, row.head, row.queryRow, d}), row.queryBuffer,
          d);
    return {};
  });
  auto writeScore = [&](Value j, ValueRange args) -> SmallVector<Value> {
    Value score;
    if (Value keep = emitKeep(row, j)) {
      auto choice = scf::IfOp::create(
          b, keep,
          [&](OpBuilder &, Location) {
            scf::YieldOp::create(b, emitScore(row, j));
          },
          [&](OpBuilder &, Location) {
            scf::YieldOp::create(b, minusInfinity);
          });
      score = choice.getResult(0);
    } else {
      score = emitScore(row, j);
    }
    store(score, row.scoreBuffer, j);
    return {arith::MaximumFOp::create(b, args[0], score)};
  };
  return loop(row.keyLength, minusInfinity, writeScore)[0];
}

/// Writes the unnormalised output to the buffer of the row. Returns the sum
/// that normalises it.
Value LoopWriter::writeSums(const Row &row, Value rowMax) {
  Value zeroF64 = constant(0);
  loop(valueHeadDim, {}, [&](Value d, ValueRange) -> SmallVector<Value> {
    store(zeroF64, row.outBuffer, d);
    return {};
  });
  auto addKey = [&](Value j, ValueRange args) -> SmallVector<Value> {
    Value keyRow = getKeyRow(row, j);
    Value score = load(row.scoreBuffer, j);
    // Comparing unordered keeps NaN scores.
    Value attended = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, score,
                                           minusInfinity);
    auto choice = scf::IfOp::create(
        b, attended,
        [&](OpBuilder &, Location) {
          Value p = math::ExpOp::create(
              b, arith::SubFOp::create(b, score, rowMax).getResult());
          loop(valueHeadDim, {}, [&](Value d, ValueRange) {
            Value v = load(value, {row.batch, row.keyHead, keyRow, d});
            store(fma(p, v, load(row.outBuffer, d)), row.outBuffer, d);
            return SmallVector<Value>();
          });
          scf::YieldOp::create(
              b, arith::AddFOp::create(b, args[0], p).getResult());
        },
        [&](OpBuilder &, Location) { scf::YieldOp::create(b, args[0]); });
    return {choice.getResult(0)};
  };
  return loop(row.keyLength, zeroF64, addKey)[0];
}

/// A row with nothing to attend has a sum of zero.
void LoopWriter::writeResults(const Row &row, Value rowMax, Value rowSum) {
  Value zeroF64 = constant(0);
  Value empty =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, rowSum, zeroF64);
  loop(valueHeadDim, {}, [&](Value d, ValueRange) -> SmallVector<Value> {
    Value quotient = arith::DivFOp::create(b, load(row.outBuffer, d), rowSum);
    Value result = arith::SelectOp::create(b, empty, zeroF64, quotient);
    store(result, out, {row.batch, row.head, row.queryRow, d});
    return {};
  });
  if (!lse)
    return;
  Value log = math::LogOp::create(b, rowSum);
  Value sum = arith::AddFOp::create(b, rowMax, log);
  Value result = arith::SelectOp::create(b, empty, minusInfinity, sum);
  store(result, lse, {row.batch, row.head, row.queryRow});
}

Value LoopWriter::emitScore(const Row &row, Value key) {
  Value keyRow = getKeyRow(row, key);
  auto multiply = [&](Value d, ValueRange args) -> SmallVector<Value> {
    Value k = load(this->key, {row.batch, row.keyHead, keyRow, d});
    return {fma(load(row.queryBuffer, d), k, args[0])};
  };
  Value product = loop(queryHeadDim, constant(0), multiply)[0];
  Value score = arith::MulFOp::create(b, product,
                                      constant(attention.getScaleOrDefault()));
  if (attention.getScoreRegion().empty())
    return score;
  score = arith::TruncFOp::create(b, b.getF32Type(), score);
  score = inlineRegion(attention.getScoreRegion(),
                       {score, row.sequence, row.head, row.query, key});
  return arith::ExtFOp::create(b, b.getF64Type(), score);
}

Value LoopWriter::emitKeep(const Row &row, Value key) {
  Value keep;
  if (MaskAttrInterface mask = attention.getMaskAttr())
    keep = mask.emitPredicate(b, b.getLoc(),
                              {row.sequence, row.head, row.query, key,
                               row.queryLength, row.keyLength});
  if (attention.getKeepRegion().empty())
    return keep;
  Value kept = inlineRegion(attention.getKeepRegion(),
                            {row.sequence, row.head, row.query, key});
  return keep ? arith::AndIOp::create(b, keep, kept).getResult() : kept;
}

/// Clones the body of `region` here. Returns what it yields.
Value LoopWriter::inlineRegion(Region &region, ValueRange arguments) {
  IRMapping inner = mapping;
  inner.map(region.getArguments(), arguments);
  for (Operation &op : region.front().without_terminator())
    b.clone(op, inner);
  auto yield = cast<attn::YieldOp>(region.front().getTerminator());
  return inner.lookupOrDefault(yield.getValue());
}

/// Writes a loop from 0 to `bound`; `body` returns what it yields.
SmallVector<Value> LoopWriter::loop(Value bound, ValueRange inits,
                                    BodyFn body) {
  auto loop =
      scf::ForOp::create(b, zero, bound, one, inits,
                         [&](OpBuilder &, Location, Value iv, ValueRange args) {
                           scf::YieldOp::create(b, body(iv, args));
                         });
  return loop.getResults();
}

/// The size of a dimension, a constant if it is static.
Value LoopWriter::size(Value memref, int64_t dim) {
  auto type = cast<MemRefType>(memref.getType());
  if (!type.isDynamicDim(dim))
    return index(type.getDimSize(dim));
  return memref::DimOp::create(b, memref, index(dim));
}

Value LoopWriter::allocate(Value length) {
  auto type = MemRefType::get({ShapedType::kDynamic}, b.getF64Type());
  return memref::AllocOp::create(b, type, length);
}

/// Loads an element as an f64.
Value LoopWriter::load(Value memref, ValueRange indices) {
  Value element = memref::LoadOp::create(b, memref, indices);
  if (element.getType().isF64())
    return element;
  return arith::ExtFOp::create(b, b.getF64Type(), element);
}

/// Stores an f64, rounded to the element type.
void LoopWriter::store(Value value, Value memref, ValueRange indices) {
  Type type = cast<MemRefType>(memref.getType()).getElementType();
  if (!type.isF64())
    value = arith::TruncFOp::create(b, type, value);
  memref::StoreOp::create(b, value, memref, indices);
}

/// Emits `lhs * rhs + acc`. The order of the additions of a sum is left open,
/// so that the loop can be vectorised.
Value LoopWriter::fma(Value lhs, Value rhs, Value acc) {
  auto flags = arith::FastMathFlagsAttr::get(
      b.getContext(),
      arith::FastMathFlags::reassoc | arith::FastMathFlags::contract);
  Value product = arith::MulFOp::create(b, lhs, rhs, flags);
  return arith::AddFOp::create(b, acc, product, flags);
}

void attn::writeAttentionLoops(OpBuilder &builder, AttentionOp attention,
                               const IRMapping &mapping, Value rowStep) {
  LoopWriter(builder, attention, mapping).write(rowStep);
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct ConvertAttnToLoopsPass
    : public attn::impl::ConvertAttnToLoopsPassBase<ConvertAttnToLoopsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<AttentionOp> attentions;
    getOperation()->walk([&](AttentionOp op) { attentions.push_back(op); });
    IRRewriter rewriter(&getContext());
    for (AttentionOp op : attentions) {
      if (!op.isBufferized()) {
        op.emitOpError("must be bufferised before it is converted to loops");
        return signalPassFailure();
      }
      rewriter.setInsertionPoint(op);
      Value one = arith::ConstantIndexOp::create(rewriter, op.getLoc(), 1);
      writeAttentionLoops(rewriter, op, IRMapping(), one);
      rewriter.eraseOp(op);
      ++numLowered;
    }
  }
};
} // namespace
