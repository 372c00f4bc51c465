//===- OnlineSoftmax.cpp - The reduction over keys of attention -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The online softmax (Milakov and Gimelshein 2018; Dao et al. 2022). The state
// of a row is the maximum of its scores and, relative to the maximum, the row
// sum of the probabilities, in parts, and the accumulator of P times the
// values. A partial result with log-sum-exp m begins the state with the
// maximum m, the row sum 1 and its output. CombinedSoftmax.h combines the
// results of KV splits.
//
//===----------------------------------------------------------------------===//

#include "CombinedSoftmax.h"
#include "PackGQA.h"
#include "attn/Analysis/ScoreRange.h"
#include "attn/Conversion/AttnToAttnTile/StreamingOpInterfaceImpl.h"
#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>
#include <optional>

using namespace mlir;
using namespace mlir::attn;
using attn_tile::CombinedElement;
using attn_tile::StreamedTile;

/// Parts of a row sum, a divisor of the columns of a key tile.
static constexpr int64_t numPartialSums = 8;
/// How far the maximum of a row may exceed its reference, as a power of two:
/// probabilities stay below 2^8, far from the limits of f16 and of a row sum
/// in f32. Where exponent bits are cleared, the reference is raised this far
/// above the maximum.
static constexpr double maxExponentGrowth = 8;
/// The largest absolute exponent of two of a row maximum for which kernels with
/// unbounded scores use the fused multiply-subtract. Its rounding error is at
/// most 2^-11.
static constexpr double maxFusedExponent = 1 << 14;
/// Bounds of absolute scores: the largest input scores that kernels of 16-bit
/// inputs support without a score_mod, and the largest that a score_mod may
/// return (docs/Numerics.md). The exponents of two of such row maxima are off
/// by less than 4.
static constexpr double maxPlainScore = 1 << 24, maxBoundedScore = 1 << 26;

/// Probabilities that are rounded to E4M3 are multiplied by a power of two, so
/// that most are above 2^-6, its least normal number. With this growth of
/// maxima they are at most 2^8, the largest power of two below 448, its largest
/// number. Conditional rescaling divides it between both.
static constexpr int maxFloat8Exponent = 8, float8Growth = 4;

/// Probabilities that are rounded to f16 for values of 8 bits are multiplied by
/// a power of two, so that few of those are lost that bf16 would keep. With the
/// growth of maxima they are at most 2^15, the largest power of two below
/// infinity.
static constexpr int maxFloat16Exponent = 15;

/// The row result of attention.
static constexpr unsigned lseResult = 0;

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

namespace {
/// The state of the rows of a query tile.
struct RowState {
  explicit RowState(ValueRange values)
      : rowMax(values[0]), rowSums(values[1]), acc(values[2]) {}
  RowState(Value rowMax, Value rowSums, Value acc)
      : rowMax(rowMax), rowSums(rowSums), acc(acc) {}

  SmallVector<Value> getValues() const { return {rowMax, rowSums, acc}; }

  Value rowMax, rowSums, acc;
};

/// Emits the online softmax of a query tile.
class TileSoftmax {
public:
  TileSoftmax(AttentionOp attention, StreamedTile &tile);

  RowState emitInitState();
  RowState emitStep(Value scores, const RowState &state);
  void emitFinalize(const RowState &state);
  void emitFinalizeSplit(const RowState &state);

private:
  /// The state of no keys but the sinks.
  RowState emitEmptyState();
  /// The same with a sink for each row, and the accumulator `acc`.
  RowState emitInitStateOfRows(Value acc);
  /// Adds the partial result from which the attention goes on to a state of
  /// sinks, if there are any; where `isOnlySplit` holds, if it is not null.
  RowState emitStateOfResult(const RowState &state, Value isOnlySplit);
  /// The reference of exponents after a step: `rowMax`, or with conditional
  /// rescaling often the one before.
  Value emitReference(Value rowMax, Value oldReference);
  /// The exponents of two of the probabilities of `scores`, and the rescale
  /// factor when row maxima grow from `oldMax` to `newMax`, which are finite.
  std::pair<Value, Value> emitExponents(Value scores, Value oldMax,
                                        Value newMax);
  /// The row sum of each row, and the output of the softmax.
  std::pair<Value, Value> emitOutput(const RowState &state);
  Value emitScaledMax(const RowState &state);
  /// `scaledMax`, or the log-sum-exp of the partial result where it is the
  /// maximum: division by the factor of scores and multiplication would round
  /// it.
  Value emitMaxOfResult(const RowState &state, Value scaledMax);
  /// A log-sum-exp as the maximum of the elements of a tile of scores.
  Value emitUnscaled(Value lse) {
    return arith::MulFOp::create(
        b, lse,
        splat(tile.queryTile, 1 / tile.scoreFactor, tile.factors.scoreInverse));
  }
  /// A number times a scalar of `StreamedTile::factors`, or the `constant` if
  /// there are none.
  Value splat(ArrayRef<int64_t> shape, double constant, Value scalar,
              double number = 1) {
    if (!scalar)
      return b.splat(shape, constant);
    if (number != 1)
      scalar = arith::MulFOp::create(b, scalar, b.scalar(number));
    return vector::BroadcastOp::create(b, b.f32Vector(shape), scalar);
  }
  /// The factor from elements of a tile of scores to scores.
  Value splatScoreFactor() {
    return splat(tile.queryTile, tile.scoreFactor, tile.factors.score);
  }
  /// The factor from elements of a tile of scores to exponents of two.
  Value splatExponentScale(ArrayRef<int64_t> shape) {
    return splat(shape, exponentScale, tile.factors.exponent);
  }
  /// The element of a tile of scores whose exponent of two is `exponent`.
  Value splatOfExponent(double exponent) {
    return splat(tile.queryTile, exponent / exponentScale,
                 tile.factors.exponentInverse, exponent);
  }
  Value emitRowSum(Value partialSums) {
    Value sum = vector::MultiDimReductionOp::create(
        b, partialSums, b.splat(tile.queryTile, 0), ArrayRef<bool>{false, true},
        vector::CombiningKind::ADD);
    if (shift == 0)
      return sum;
    return arith::MulFOp::create(
        b, sum, b.splat(tile.queryTile, std::ldexp(1.0, -shift)));
  }
  /// What one sink adds to each partial sum.
  double getPartOfSink() const {
    return std::ldexp(1.0, shift) / numPartialSums;
  }
  /// The element type that probabilities are rounded to.
  Type getProbabilityType(Value values);
  /// Repeats a row vector along `columns` columns.
  Value broadcastRows(Value rows, int64_t columns) {
    return b.broadcast(rows, {tile.queryTile, columns});
  }

  AttentionOp attention;
  StreamedTile &tile;
  TileProgramBuilder &b;
  bool isRescaleConditional;
  /// Whether inputs or a score_mod can make scores beyond `maxBoundedScore`.
  bool mayScoresBeLarge;
  /// Whether dropout clears bits of the exponents of probabilities.
  bool clearsExponents;
  /// exp(score) is exp2(exponentScale * x) of the element x of a tile, if
  /// `StreamedTile::factors` has no factor.
  double exponentScale;
  /// The type to which values of 8 bits are extended, if they are.
  Type extendedValue;
  /// Each probability of a tile, and each row sum, is multiplied by 2^shift.
  int shift = 0;
  /// How far maxima may exceed their reference, as a power of two.
  double maxGrowth = maxExponentGrowth;
};
} // namespace

TileSoftmax::TileSoftmax(AttentionOp attention, StreamedTile &tile)
    : attention(attention), tile(tile), b(tile.b),
      isRescaleConditional(tile.schedule.isRescaleConditional()),
      exponentScale(tile.scoreFactor * log2e) {
  AttentionOpInterface interface(attention);
  // f16 probabilities would lose bits below the reference.
  clearsExponents = interface.hasDropout() &&
                    getElementTypeOrSelf(attention.getValue()).isBF16();
  Region &scoreMod = attention.getScoreMod();
  Type element = getElementTypeOrSelf(attention.getQuery());
  if (isFloat8(element)) {
    maxGrowth = isRescaleConditional ? float8Growth : 0;
    shift = maxFloat8Exponent - int(maxGrowth);
  } else if (isFloat8(getElementTypeOrSelf(attention.getValue())) &&
             !element.isF32()) {
    // Extending 8 bits to f16 is cheaper than to bf16, which needs f32.
    extendedValue = b.getF16Type();
    shift = maxFloat16Exponent - (isRescaleConditional ? int(maxGrowth) : 0);
  }
  // Added to large maxima, `shift` would be rounded, and probabilities would
  // exceed their type.
  bool isE5M2 = isa<Float8E5M2Type>(element) ||
                (isFloat8(element) &&
                 isa<Float8E5M2Type>(getElementTypeOrSelf(attention.getKey())));
  mayScoresBeLarge =
      element.isF32() || isE5M2 || (tile.factors && shift != 0) ||
      (!tile.factors && !scoreMod.empty() &&
       !isScoreBounded(scoreMod, maxPlainScore, maxBoundedScore));
}

RowState TileSoftmax::emitInitState() {
  RowState state = emitEmptyState();
  if (!attention.getStateOut())
    return state;
  Value isOnlySplit = tile.emitIsOnlySplit();
  // The partial result is combined with splits later.
  if (tile.split && !isOnlySplit)
    return state;
  return emitStateOfResult(state, isOnlySplit);
}

RowState TileSoftmax::emitStateOfResult(const RowState &state,
                                        Value isOnlySplit) {
  Value lowest = b.splat(tile.queryTile, -infinity);
  Value zero = b.splat(tile.queryTile, 0);
  Value lse = tile.loadOperand(attention.getStateLse());
  if (isOnlySplit)
    lse = arith::SelectOp::create(b, isOnlySplit, lse, lowest);
  Value exists =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, lse, lowest);
  Value output = tile.loadOperand(attention.getStateOut());
  // The accumulator is relative to the keep probability.
  double keep = AttentionOpInterface(attention).getKeepProbability();
  Value factor = b.splat(tile.queryTile, std::ldexp(keep, shift));
  Value part = b.splat(tile.queryTile, getPartOfSink());
  Value rowMax = emitUnscaled(lse), rowSums;
  if (attention.getSinks()) {
    // Both are relative to the larger one, or to 0 if neither exists.
    Value newMax = arith::MaxNumFOp::create(b, rowMax, state.rowMax);
    Value isNone =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, newMax, lowest);
    Value reference = arith::SelectOp::create(b, isNone, zero, newMax);
    auto emitWeight = [&](Value rows) -> Value {
      Value difference = arith::SubFOp::create(b, rows, reference);
      Value scaled = arith::MulFOp::create(b, difference,
                                           splatExponentScale(tile.queryTile));
      return math::Exp2Op::create(b, scaled);
    };
    Value weight = emitWeight(rowMax);
    factor = arith::MulFOp::create(b, factor, weight);
    part = arith::MulFOp::create(b, part, weight);
    rowSums = arith::MulFOp::create(
        b, state.rowSums,
        broadcastRows(emitWeight(state.rowMax), numPartialSums));
    rowMax = newMax;
  }
  // The output of a row without keys may be anything.
  Value isHeld = arith::CmpFOp::create(
      b, arith::CmpFPredicate::UNE, broadcastRows(lse, tile.vHeadDim),
      b.splat({tile.queryTile, tile.vHeadDim}, -infinity));
  Value acc =
      arith::MulFOp::create(b, output, broadcastRows(factor, tile.vHeadDim));
  acc = arith::SelectOp::create(b, isHeld, acc, state.acc);
  part = broadcastRows(arith::SelectOp::create(b, exists, part, zero),
                       numPartialSums);
  rowSums =
      rowSums ? arith::AddFOp::create(b, rowSums, part).getResult() : part;
  return {rowMax, rowSums, acc};
}

RowState TileSoftmax::emitEmptyState() {
  Value acc = b.splat({tile.queryTile, tile.vHeadDim}, 0);
  if (!attention.getSinks())
    return {b.splat(tile.queryTile, -infinity),
            b.splat({tile.queryTile, numPartialSums}, 0), acc};

  if (tile.schedule.packsGqa())
    return emitInitStateOfRows(acc);

  // A sink contributes exp(0) to the row sum, relative to its own score, and
  // nothing to the output.
  Value sink =
      b.loadHeadScalar(tile.getArgument(attention.getSinks()), tile.head);
  Value lowest = b.scalar(-infinity);
  Value exists =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, sink, lowest);
  if (tile.split) {
    // Only the first KV split counts it.
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                          tile.split, b.index(0));
    sink = arith::SelectOp::create(b, isFirst, sink, lowest);
    exists = arith::AndIOp::create(b, exists, isFirst);
  }
  Value part = arith::SelectOp::create(b, exists, b.scalar(getPartOfSink()),
                                       b.scalar(0));
  Value inverse =
      tile.factors ? tile.factors.scoreInverse : b.scalar(1 / tile.scoreFactor);
  Value score = arith::MulFOp::create(b, sink, inverse);
  return {vector::BroadcastOp::create(b, b.f32Vector(tile.queryTile), score),
          vector::BroadcastOp::create(
              b, b.f32Vector({tile.queryTile, numPartialSums}), part),
          acc};
}

RowState TileSoftmax::emitInitStateOfRows(Value acc) {
  Value sinks = tile.getArgument(attention.getSinks());
  Value sink =
      b.extend(b.load(tile.queryTile, sinks, {tile.head, tile.firstQueryRow}));
  Value lowest = b.splat(tile.queryTile, -infinity);
  if (tile.split) {
    // Only the first KV split counts it.
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                          tile.split, b.index(0));
    sink = arith::SelectOp::create(b, isFirst, sink, lowest);
  }
  Value exists =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, sink, lowest);
  Value part = arith::SelectOp::create(b, exists,
                                       b.splat(tile.queryTile, getPartOfSink()),
                                       b.splat(tile.queryTile, 0));
  return {emitUnscaled(sink), broadcastRows(part, numPartialSums), acc};
}

Value TileSoftmax::emitReference(Value rowMax, Value oldReference) {
  if (!isRescaleConditional)
    return rowMax;
  // Any reference that keeps exponents in range is as good as the maximum. The
  // old reference stays until the maximum has grown by more than a threshold,
  // so that most steps rescale by one. Clearing exponent bits needs a reference
  // that no score exceeds, so a new one is raised above the maximum.
  Value most = splatOfExponent(maxGrowth);
  Value limit = oldReference, next = rowMax;
  if (clearsExponents)
    next = arith::AddFOp::create(b, rowMax, most);
  else
    limit = arith::AddFOp::create(b, oldReference, most);
  Value grew =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, rowMax, limit);
  return arith::SelectOp::create(b, grew, next, oldReference);
}

RowState TileSoftmax::emitStep(Value scores, const RowState &state) {
  Value rowMax = vector::MultiDimReductionOp::create(
      b, scores, state.rowMax, ArrayRef<bool>{false, true},
      vector::CombiningKind::MAXNUMF);
  rowMax = emitReference(rowMax, state.rowMax);

  // A row with nothing attended so far has a maximum of -inf; its exponents
  // are taken relative to 0 instead, so that no inf - inf arises.
  Value empty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, rowMax,
                                      b.splat(tile.queryTile, -infinity));
  Value finiteMax =
      arith::SelectOp::create(b, empty, b.splat(tile.queryTile, 0), rowMax);
  auto [exponent, alpha] = emitExponents(scores, state.rowMax, finiteMax);
  Value probabilities = math::Exp2Op::create(b, exponent);

  Value oldSums = arith::MulFOp::create(b, state.rowSums,
                                        broadcastRows(alpha, numPartialSums));
  Value rowSums = attn_tile::PartialSumOp::create(b, probabilities, oldSums);

  Value oldAcc =
      arith::MulFOp::create(b, state.acc, broadcastRows(alpha, tile.vHeadDim));
  // Values after the sequence are zero: P = 0 times a NaN or infinity is NaN.
  Value values = tile.loadValues(extendedValue);
  Type element = getProbabilityType(values);
  // Dropout is for elements of 16 bits or more.
  if (!isFloat8(element))
    probabilities = b.round(probabilities, element);
  bool areBelowTwo = !isRescaleConditional && shift == 0;
  probabilities = tile.emitDrop(probabilities, areBelowTwo || clearsExponents);
  probabilities = b.round(probabilities, element);
  Value acc = b.contract(probabilities, values, oldAcc, tile.valueForm);
  return {rowMax, rowSums, acc};
}

Type TileSoftmax::getProbabilityType(Value values) {
  Type element = getElementTypeOrSelf(values.getType());
  return isFloat8(element) ? Float8E4M3FNType::get(b.getContext()) : element;
}

std::pair<Value, Value> TileSoftmax::emitExponents(Value scores, Value oldMax,
                                                   Value newMax) {
  Value factor = splatExponentScale(tile.queryTile);
  auto scale = [&](Value rows) {
    return arith::MulFOp::create(b, rows, factor).getResult();
  };
  // One fused multiply-subtract for each element.
  auto emitFused = [&](Value minuend, Value scaledMax) -> Value {
    Value negated = arith::NegFOp::create(b, scaledMax);
    if (shift != 0)
      negated =
          arith::AddFOp::create(b, negated, b.splat(tile.queryTile, shift));
    return math::FmaOp::create(
        b, minuend, splatExponentScale({tile.queryTile, tile.keyTile}),
        broadcastRows(negated, tile.keyTile));
  };
  if (!mayScoresBeLarge) {
    Value scaledMax = scale(newMax);
    Value growth = arith::SubFOp::create(b, scale(oldMax), scaledMax);
    Value alpha = math::Exp2Op::create(b, growth);
    return {emitFused(scores, scaledMax), alpha};
  }

  // The scaled maximum is rounded, the fused scaled score is not. The exponent
  // of the maximum is their difference, which a large maximum would make
  // non-zero. Large maxima are therefore subtracted first.
  Value limit = splatOfExponent(maxFusedExponent);
  Value zero = b.splat(tile.queryTile, 0);
  Value isLarge = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT,
                                        math::AbsFOp::create(b, newMax), limit);
  Value subtrahend = arith::SelectOp::create(b, isLarge, newMax, zero);
  Value shifted = attn_tile::SubtractRowsOp::create(b, subtrahend, scores);
  Value fusedMax = arith::SelectOp::create(b, isLarge, zero, newMax);
  Value growth = arith::SubFOp::create(b, oldMax, newMax);
  return {emitFused(shifted, scale(fusedMax)),
          math::Exp2Op::create(b, scale(growth))};
}

std::pair<Value, Value> TileSoftmax::emitOutput(const RowState &state) {
  Value zero = b.splat(tile.queryTile, 0);
  Value sum = emitRowSum(state.rowSums);
  Value empty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, sum, zero);
  double keep = AttentionOpInterface(attention).getKeepProbability();
  Value inverse = arith::DivFOp::create(
      b, b.splat(tile.queryTile, std::ldexp(1 / keep, -shift)), sum);
  inverse = arith::SelectOp::create(b, empty, zero, inverse);
  Value identity = tile.prepared.empty() ? Value() : tile.prepared.front();
  if (identity) {
    Value rest = arith::SubFOp::create(b, b.scalar(1), identity);
    inverse = arith::MulFOp::create(
        b, inverse,
        vector::BroadcastOp::create(b, b.f32Vector(tile.queryTile), rest));
  }
  Value output = arith::MulFOp::create(b, state.acc,
                                       broadcastRows(inverse, tile.vHeadDim));
  if (identity)
    output = tile.addValuesAtQueries(output, identity);
  return {sum, output};
}

/// Maxima are stored scaled. A row without attended keys has a maximum of -inf
/// and a sum of 0, so its log-sum-exp is -inf.
Value TileSoftmax::emitScaledMax(const RowState &state) {
  if (!tile.factors && tile.scoreFactor == 1)
    return state.rowMax;
  return arith::MulFOp::create(b, state.rowMax, splatScoreFactor());
}

Value TileSoftmax::emitMaxOfResult(const RowState &state, Value scaledMax) {
  int exponent = 0;
  bool isPowerOfTwo =
      !tile.factors && std::frexp(tile.scoreFactor, &exponent) == 0.5;
  if (!attention.getStateOut() || isPowerOfTwo)
    return scaledMax;
  Value lse = tile.loadOperand(attention.getStateLse());
  Value isMax = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ,
                                      state.rowMax, emitUnscaled(lse));
  return arith::SelectOp::create(b, isMax, lse, scaledMax);
}

void TileSoftmax::emitFinalize(const RowState &state) {
  auto [sum, output] = emitOutput(state);
  tile.storeOutput(output);
  if (!attention.getLse())
    return;
  Value scaledMax = emitMaxOfResult(state, emitScaledMax(state));
  Value logSum = math::LogOp::create(b, sum);
  tile.storeRows(lseResult, arith::AddFOp::create(b, scaledMax, logSum));
}

void TileSoftmax::emitFinalizeSplit(const RowState &state) {
  auto [sum, output] = emitOutput(state);
  if (attention.getSinks()) {
    // An empty split with a sink counts, but its output is zero.
    output = arith::SelectOp::create(
        b, tile.emitIsSplitEmpty(), b.splat({tile.queryTile, tile.vHeadDim}, 0),
        output);
  }
  tile.storeOutput(output);
  Value scaledMax = emitScaledMax(state);
  // An empty split iterates over another split's tile. Its results are dropped:
  // a maximum of -inf does that, unless it counts a sink.
  Value isEmpty = tile.emitIsSplitEmpty();
  if (attention.getSinks()) {
    RowState init = emitEmptyState();
    Value initialMax =
        arith::MulFOp::create(b, init.rowMax, splatScoreFactor());
    Value initialSum = emitRowSum(init.rowSums);
    scaledMax = arith::SelectOp::create(b, isEmpty, initialMax, scaledMax);
    sum = arith::SelectOp::create(b, isEmpty, initialSum, sum);
  } else {
    Value addend =
        arith::SelectOp::create(b, isEmpty, b.scalar(-infinity), b.scalar(0));
    scaledMax = arith::AddFOp::create(
        b, scaledMax,
        vector::BroadcastOp::create(b, b.f32Vector(tile.queryTile), addend)
            .getResult());
  }
  tile.storeRows(SplitMax, scaledMax);
  tile.storeRows(SplitSum, sum);
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

namespace {
struct AttentionStreaming
    : attn_tile::StreamingOpInterface::ExternalModel<AttentionStreaming,
                                                     AttentionOp> {
  LogicalResult verifyKernelSchedule(Operation *op,
                                     ScheduleAttrInterface schedule) const {
    if (schedule.getKeyTile() % numPartialSums == 0)
      return success();
    return op->emitOpError("key tile must be a multiple of ")
           << numPartialSums << " (was " << schedule.getKeyTile() << ")";
  }
  SmallVector<Value> getReductionOperands(Operation *op) const {
    SmallVector<Value> operands;
    auto attention = cast<AttentionOp>(op);
    for (Value operand : {attention.getStateOut(), attention.getStateLse(),
                          attention.getSinks(), attention.getIdentity()})
      if (operand)
        operands.push_back(operand);
    return operands;
  }
  /// Scores without a score_mod, times this, are as bounded as scores that a
  /// score_mod returns.
  std::optional<double> getMaxScoreFactor(Operation *) const {
    return maxBoundedScore / maxPlainScore;
  }
  /// The factor of the identity, if it is mixed with P.
  SmallVector<Value> emitPrepared(Operation *op, StreamedTile &tile) const {
    Value identity = cast<AttentionOp>(op).getIdentity();
    if (!identity)
      return {};
    return {tile.b.loadHeadScalar(tile.getArgument(identity), tile.head)};
  }
  /// The identity alone needs no scores, except for lse.
  Value emitNeedsKeys(Operation *op, StreamedTile &tile) const {
    if (tile.prepared.empty() || cast<AttentionOp>(op).getLse())
      return {};
    return arith::CmpFOp::create(tile.b, arith::CmpFPredicate::UNE,
                                 tile.prepared.front(), tile.b.scalar(1));
  }
  SmallVector<Value> emitInitState(Operation *op, StreamedTile &tile) const {
    return TileSoftmax(cast<AttentionOp>(op), tile).emitInitState().getValues();
  }
  SmallVector<Value> emitStep(Operation *op, StreamedTile &tile, Value scores,
                              ValueRange state) const {
    return TileSoftmax(cast<AttentionOp>(op), tile)
        .emitStep(scores, RowState(state))
        .getValues();
  }
  void emitFinalize(Operation *op, StreamedTile &tile, ValueRange state) const {
    TileSoftmax(cast<AttentionOp>(op), tile).emitFinalize(RowState(state));
  }

  std::optional<std::string> whyNotSplitKV(Operation *op) const {
    return attn::whyNotSplitKV(cast<AttentionOp>(op));
  }
  int64_t getNumSplitStatistics(Operation *) const {
    return NumSplitStatistics;
  }
  void emitFinalizeSplit(Operation *op, StreamedTile &tile,
                         ValueRange state) const {
    TileSoftmax(cast<AttentionOp>(op), tile).emitFinalizeSplit(RowState(state));
  }
  SmallVector<Value> getCombinedOperands(Operation *op) const {
    auto attention = cast<AttentionOp>(op);
    if (!attention.getStateOut())
      return {};
    return {attention.getStateOut(), attention.getStateLse()};
  }
  SmallVector<Value> emitInitCombined(Operation *op,
                                      CombinedElement &element) const {
    CombinedSoftmax softmax(element);
    auto attention = cast<AttentionOp>(op);
    if (!attention.getStateOut())
      return getValues(softmax.emitInit());
    return getValues(
        softmax.emitInit(element.loadOperand(attention.getStateLse()),
                         element.loadOperand(attention.getStateOut())));
  }
  SmallVector<Value> emitCombine(Operation *, CombinedElement &element,
                                 ValueRange state, int64_t numSplits) const {
    return getValues(
        CombinedSoftmax(element).emitCombine(getState(state), numSplits));
  }
  void emitFinalizeCombined(Operation *op, CombinedElement &element,
                            ValueRange values) const {
    CombinedSoftmax::State state = getState(values);
    element.storeOutput(CombinedSoftmax(element).emitOutput(state));
    if (!cast<AttentionOp>(op).getLse())
      return;
    element.storeRow(lseResult, [&] {
      return CombinedSoftmax(element).emitLogSumExp(state);
    });
  }

  std::optional<std::string> whyNotCluster(Operation *op) const {
    return attn::whyNotCluster(cast<AttentionOp>(op));
  }
  Region *getQueryMap(Operation *op) const {
    return getIfAny(cast<AttentionOp>(op).getQueryRegion());
  }
  Region *getOutputMap(Operation *op) const {
    return getIfAny(cast<AttentionOp>(op).getEpilogue());
  }
  Value getTileLists(Operation *op) const {
    return cast<AttentionOp>(op).getBlockMask();
  }
  std::optional<std::string> whyNotPackHeads(Operation *op) const {
    return attn::whyNotPackGqa(cast<AttentionOp>(op));
  }
  Operation *packHeads(Operation *op, RewriterBase &rewriter) const {
    return packGqa(rewriter, cast<AttentionOp>(op));
  }

private:
  static SmallVector<Value> getValues(const CombinedSoftmax::State &state) {
    return {state.reference, state.rowSum, state.acc};
  }
  static CombinedSoftmax::State getState(ValueRange values) {
    return {values[0], values[1], values[2]};
  }
  static Region *getIfAny(Region &region) {
    return region.empty() ? nullptr : &region;
  }
};
} // namespace

void attn::registerStreamingOpInterfaceExternalModels(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    AttentionOp::attachInterface<AttentionStreaming>(*context);
  });
}
