//===- Reference.cpp - Attention by its definition ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Scores, softmax, outputs and gradients row by row. Every number is an
// interval that holds what a kernel may compute: dot products and sums in f32
// in any order, exponentials relative to a running maximum, probabilities and
// score gradients rounded to the dtype of the inputs.
//
//===----------------------------------------------------------------------===//

#include "Reference.h"
#include "TensorInterpreter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn::fuzz;

/// Relative error of an exponential, and of its exponent for each unit of
/// distance from the maximum: the factor log2(e) of the distance is rounded,
/// and tiles rescale one another's sums.
static constexpr double kExponentialError = 0x1p-18;
static constexpr double kDistanceError = 0x1p-20;
/// Exponents of the maximum itself are rounded, up to maxima of 2^14 in base 2
/// where scores may be large.
static constexpr double kMaximumError = 0x1p-22;
static constexpr double kLargestRoundedMaximum = 0x1p14;
/// Beyond this, neither scores of 16-bit inputs nor the log-sum-exp of
/// gradients determine probabilities.
static constexpr double kLargestScore = 0x1p24;
/// Scores of 16-bit inputs up to this one may be treated like scores without a
/// score_mod.
static constexpr double kLargestPlainScore = 0x1p26;

//===----------------------------------------------------------------------===//
// Rounding
//===----------------------------------------------------------------------===//

namespace {
/// The rounding of a type of floats: relative, and absolute where numbers are
/// subnormal.
struct Rounding {
  double relative, absolute, largest;
};
} // namespace

static Rounding getRounding(Type type) {
  if (type.isBF16())
    return {0x1p-9, 0x1p-134, 0x1.FEp127};
  if (type.isF16())
    return {0x1p-12, 0x1p-25, 65504};
  // Probabilities are E4M3 for inputs of both types, and multiplied by a power
  // of two, so that few are subnormal.
  if (isFloat8(type))
    return {0x1p-5, 0x1p-19, 448};
  return {kRoundoff, kTiny, FLT_MAX};
}

/// `x` after it is rounded to `type`. What may be rounded to infinity may be
/// it.
static Interval roundTo(Interval x, Type type) {
  if (!x.isKnown())
    return x;
  Rounding rounding = getRounding(type);
  // An f16 has 11 bits; one more rounding leaves room for f32 before it.
  double unit = 2 * rounding.relative;
  auto getEnd = [&](double end, int sign) {
    // Infinity is exact; the sum of both infinities is not a number.
    double error = std::isinf(end) ? 0 : std::fabs(end) * unit;
    return end + sign * (error + 2 * rounding.absolute);
  };
  Interval result = {getEnd(x.low, -1), getEnd(x.high, 1)};
  if (result.high >= rounding.largest)
    result.high = kInfinity;
  if (result.low <= -rounding.largest)
    result.low = -kInfinity;
  return result;
}

namespace {
/// A sum of products in f32, in any order.
class Sum {
public:
  /// Adds `a * b`, which a matmul multiplies in f32 if `isF32`.
  void addProduct(Interval a, Interval b, bool isF32,
                  const Accuracy &accuracy) {
    Interval product = a * b;
    if (isF32)
      product =
          widen(product, accuracy.product * product.magnitude() +
                             accuracy.factor * (a.magnitude() + b.magnitude()));
    add(product, accuracy);
  }
  void add(Interval x, const Accuracy &accuracy) {
    unit = accuracy.roundingsPerTerm * kRoundoff;
    total = total + x;
    magnitude += x.magnitude();
    ++count;
  }
  /// The sum, with `roundings` roundings more than one for each term. Unknown
  /// if an intermediate result may be infinite.
  Interval get(double roundings = 8) const {
    if (!total.isKnown() || !(magnitude * 4 < FLT_MAX))
      return Interval::unknown();
    double terms = count + roundings;
    return widen(total, terms * (unit * magnitude + kSmallestNormal));
  }
  double getMagnitude() const { return magnitude; }

private:
  Interval total = 0;
  double magnitude = 0, unit = 0;
  int64_t count = 0;
};

/// Queries and keys that attend to one another, without padding.
struct Sequence {
  /// The number that masks and regions see, and the batch entry that holds it.
  int64_t number, entry;
  int64_t firstQuery, numQueries, firstKey, numKeys;
};

/// A pair of a query and a key.
struct Pair {
  /// The score before and after the `score_mod` region; the derivative of the
  /// latter by the former.
  Interval input, score, slope = 1;
  /// The largest factor of a gradient on its way through the region, and the
  /// sum of the factors of errors where it is subnormal.
  double largestSlope = 1, sumOfSlopes = 0;
  /// Whether the pair may and whether it must attend.
  bool mayAttend = false, mustAttend = false;
  /// Factor of the probability after dropout.
  double dropout = 1;
};

/// What attention and its gradient have in common.
class Rows {
public:
  Rows(AttentionOpInterface op, const TensorMap &tensors,
       const Accuracy &accuracy);

  std::vector<Sequence> getSequences();
  int64_t getNumHeads() const { return query.shape[1]; }
  int64_t getKeyHead(int64_t head);
  bool hasIdentity();
  double getIdentity(int64_t head);

  /// The pairs of one query with all keys.
  std::vector<Pair> getPairs(const Sequence &sequence, int64_t head, int64_t i);

  /// The probability that dropout keeps a pair; 1 without dropout.
  double getKeepProbability();
  bool hasDropout() { return op.getDropoutMask() || op.getDropoutAttr(); }

  /// What may be left of a dropped pair's probability `p`, divided by the
  /// probability that dropout keeps a pair.
  Interval getDropped(Interval p) {
    if (!p.isKnown())
      return p;
    double left = inputType.isBF16() ? accuracy.droppedProbability : 0;
    // Without a log-sum-exp of its scores, a row's probabilities exceed 2.
    if (left > 0 && p.high >= 2)
      left = p.high;
    return {0, std::min(p.high, left) / getKeepProbability()};
  }

  /// Whether scores may be any numbers of f32, without a limit for 16-bit
  /// inputs.
  bool takesAnyScore() const { return anyScore; }

  /// The error of an exponent at `distance` from the maximum.
  double getExponentError(double maximum, double distance);

  /// The largest sink, and the largest term that is added to a score of 16-bit
  /// inputs: both are divided by the scale (docs/Numerics.md).
  double getLargestAdded() const {
    return (anyScore ? FLT_MAX : kLargestScore) *
           std::min(1.0, std::fabs(scale)) / 2;
  }

  /// The element `[sequence.entry, head, row, d]` of `elements`.
  static double read(const DenseElements &elements, const Sequence &sequence,
                     int64_t head, int64_t row, int64_t d) {
    return elements.reals[elements.getPosition({sequence.entry, head, row, d})];
  }
  const DenseElements &get(Value value) const {
    return tensors.find(value)->second;
  }

  AttentionOpInterface op;
  const TensorMap &tensors;
  const Accuracy &accuracy;
  const DenseElements &query, &key, &value;
  Type inputType;
  double scale;

private:
  Interval getDot(const Sequence &sequence, int64_t head, int64_t i, int64_t j);
  /// The place of `pair` in the larger attention that this one is a shard of.
  MaskPair getGlobal(const MaskPair &pair);
  bool isDropped(const MaskPair &pair);
  void applyRegions(const MaskPair &at, Pair &pair);

  RegionInterpreter interpreter;
  SmallVector<const DenseElements *> reads;
  bool anyScore;
};
} // namespace

/// Whether `value` is a constant, or computed of constants alone.
static bool isConstant(Value value) {
  Operation *definition = value.getDefiningOp();
  return definition && !isa<tensor::ExtractOp>(definition) &&
         llvm::all_of(definition->getOperands(), isConstant);
}

/// Whether `value` may be `score` times a constant, which then is a part of the
/// scale, after operations are folded.
static bool isScaledScore(Value value, Value score) {
  if (value == score)
    return true;
  Operation *definition = value.getDefiningOp();
  if (!definition)
    return false;
  auto isScaled = [&](Value operand) { return isScaledScore(operand, score); };
  if (isa<arith::SelectOp>(definition))
    return llvm::any_of(definition->getOperands().drop_front(), isScaled);
  return isa<arith::MulFOp, arith::DivFOp, arith::NegFOp, arith::AddFOp,
             arith::SubFOp, arith::MaximumFOp, arith::MinimumFOp, arith::ExtFOp,
             arith::TruncFOp>(definition) &&
         llvm::any_of(definition->getOperands(), isScaled) &&
         llvm::all_of(definition->getOperands(), [&](Value operand) {
           return isScaled(operand) || isConstant(operand);
         });
}

/// Whether a region does more with a score than to scale it.
static bool changesScores(Region &scoreMod) {
  if (scoreMod.empty())
    return false;
  Block &block = scoreMod.front();
  return !isScaledScore(block.getTerminator()->getOperand(0),
                        block.getArgument(0));
}

/// How often sums in regions may be rounded more than once: 16-bit inputs add
/// terms before the dot product.
static double countAddedRoundings(AttentionOpInterface op) {
  auto type = cast<ShapedType>(op.getQuery().getType());
  return type.getElementType().isF32() ? 4 : type.getDimSize(3) + 8;
}

Rows::Rows(AttentionOpInterface op, const TensorMap &tensors,
           const Accuracy &accuracy)
    : op(op), tensors(tensors), accuracy(accuracy), query(get(op.getQuery())),
      key(get(op.getKey())), value(get(op.getValue())),
      inputType(getElementTypeOrSelf(op.getQuery().getType())),
      scale(1 / std::sqrt(double(query.shape[3]))),
      interpreter(tensors, countAddedRoundings(op), accuracy),
      anyScore(inputType.isF32() || changesScores(op.getScoreMod())) {
  if (auto given = op.getScale())
    scale = given->convertToFloat();
  for (Value operand : op.getMaskReads())
    reads.push_back(&get(operand));
}

std::vector<Sequence> Rows::getSequences() {
  std::vector<Sequence> sequences;
  int64_t numQueries = query.shape[2], numKeys = key.shape[2];
  if (!op.getSequenceLayout()) {
    for (int64_t b = 0; b < query.shape[0]; ++b)
      sequences.push_back({b, b, 0, numQueries, 0, numKeys});
    return sequences;
  }
  ArrayRef<int64_t> q = get(op.getQuerySequences()).integers;
  ArrayRef<int64_t> k = get(op.getKeySequences()).integers;
  if (*op.getSequenceLayout() == SequenceLayout::Padded) {
    for (int64_t b = 0; b < query.shape[0]; ++b)
      sequences.push_back({b, b, 0, q[b], 0, k[b]});
    return sequences;
  }
  for (size_t n = 0; n + 1 < q.size(); ++n)
    sequences.push_back(
        {int64_t(n), 0, q[n], q[n + 1] - q[n], k[n], k[n + 1] - k[n]});
  return sequences;
}

int64_t Rows::getKeyHead(int64_t head) {
  if (Value map = op.getHeadMap())
    return get(map).integers[head];
  return head / (query.shape[1] / key.shape[1]);
}

static Value getIdentityOperand(AttentionOpInterface op) {
  if (auto forward = dyn_cast<AttentionOp>(op.getOperation()))
    return forward.getIdentity();
  if (auto gradient = dyn_cast<AttentionGradOp>(op.getOperation()))
    return gradient.getIdentity();
  return Value();
}

bool Rows::hasIdentity() { return getIdentityOperand(op) != Value(); }

double Rows::getIdentity(int64_t head) {
  Value identity = getIdentityOperand(op);
  return identity ? get(identity).reals[head] : 0;
}

Interval Rows::getDot(const Sequence &sequence, int64_t head, int64_t i,
                      int64_t j) {
  Sum dot;
  for (int64_t d = 0; d < query.shape[3]; ++d)
    dot.addProduct(
        read(query, sequence, head, sequence.firstQuery + i, d),
        read(key, sequence, getKeyHead(head), sequence.firstKey + j, d),
        inputType.isF32(), accuracy);
  return roundF32(dot.get() * Interval(scale), 2);
}

MaskPair Rows::getGlobal(const MaskPair &pair) {
  Value positions = op.getPositions();
  if (!positions)
    return pair;
  ArrayRef<int64_t> entries = get(positions).integers;
  return {pair.batch + entries[2],
          pair.head + entries[3],
          pair.query + entries[0],
          pair.key + entries[1],
          entries[4],
          entries[5]};
}

bool Rows::isDropped(const MaskPair &at) {
  if (Value words = op.getDropoutMask())
    return !isKeptByWords(get(words), *op.getMaskLayout(), at.batch, at.head,
                          at.query, at.key);
  if (DropoutAttr dropout = op.getDropoutAttr())
    return !isKeptByDropout(dropout, get(op.getSeed()).integers[0],
                            get(op.getOffset()).integers[0], getGlobal(at));
  return false;
}

void Rows::applyRegions(const MaskPair &at, Pair &pair) {
  SmallVector<Scalar> positions;
  for (int64_t position : {at.batch, at.head, at.query, at.key})
    positions.push_back(Scalar::getInteger(position));
  if (Region &region = op.getMaskMod(); pair.mayAttend && !region.empty()) {
    Scalar kept = interpreter.run(region.front(), positions);
    pair.mayAttend = !kept.isKnownInteger || kept.integer != 0;
    pair.mustAttend = kept.isKnownInteger && kept.integer != 0;
  }
  if (Region &region = op.getScoreMod(); pair.mayAttend && !region.empty()) {
    positions.insert(positions.begin(), Scalar::getReal(pair.input, 1));
    Scalar score = interpreter.run(region.front(), positions);
    pair.score = score.real;
    pair.slope = score.slope;
    pair.largestSlope = score.largestSlope;
    pair.sumOfSlopes = score.sumOfSlopes;
  }
  // A score of -inf is masked.
  if (!pair.score.isKnown())
    return;
  pair.mayAttend &= pair.score.high > -kInfinity;
  pair.mustAttend &=
      pair.score.low > (inputType.isF32() ? -kInfinity : -getLargestAdded());
}

double Rows::getKeepProbability() {
  if (op.getDropoutMask())
    return 1 - double(op.getDropProbability()->convertToFloat());
  DropoutAttr dropout = op.getDropoutAttr();
  if (!dropout)
    return 1;
  double threshold = std::llround(
      std::ldexp(dropout.getP().convertToDouble(), dropout.getBits()));
  return 1 - std::ldexp(threshold, -dropout.getBits());
}

std::vector<Pair> Rows::getPairs(const Sequence &sequence, int64_t head,
                                 int64_t i) {
  std::vector<Pair> pairs(sequence.numKeys);
  double keepProbability = getKeepProbability();
  for (auto [j, pair] : llvm::enumerate(pairs)) {
    MaskPair at = {sequence.number, head, i, int64_t(j), sequence.numQueries,
                   sequence.numKeys};
    MaskPair seen = op.getDropoutOnly() ? at : getGlobal(at);
    Attribute mask = op.getMaskAttr();
    pair.mayAttend = pair.mustAttend = !mask || isKeptByMask(mask, seen, reads);
    pair.input = pair.score = getDot(sequence, head, i, j);
    if (!pair.mayAttend)
      continue;
    applyRegions(seen, pair);
    pair.dropout = isDropped(at) ? 0 : 1 / keepProbability;
  }
  return pairs;
}

double Rows::getExponentError(double maximum, double distance) {
  double rounded = std::fabs(maximum);
  if (takesAnyScore() && (inputType.isF32() || rounded > kLargestPlainScore))
    rounded = std::min(rounded, kLargestRoundedMaximum);
  return kDistanceError * distance + kMaximumError * rounded +
         kExponentialError;
}

/// exp, zero where f32 has no normal number.
static double getExponential(double exponent, bool isLowest) {
  double value = std::exp(exponent);
  return isLowest && value < 2 * kSmallestNormal ? 0 : value;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
/// The softmax of a row.
struct Softmax {
  /// Exponentials of scores relative to the largest one, probabilities and the
  /// log-sum-exp.
  std::vector<Interval> exponentials, probabilities;
  Interval lse;
  /// Whether some key, or a sink, certainly takes part.
  bool isKnown = true, mayBeEmpty = true, hasSink = false;
};
} // namespace

namespace {
/// Where the largest score of a row lies. Exponentials are relative to the
/// lower end, so that some of them are at least one.
struct Maximum {
  double low = -kInfinity, high = -kInfinity;

  void include(Interval score, bool isCertain) {
    high = std::max(high, score.high);
    if (isCertain)
      low = std::max(low, score.low);
  }
  double getBase() const { return low > -kInfinity ? low : high; }
};
} // namespace

/// The exponential of a score that may be absent.
static Interval getExponential(Rows &rows, Interval score, bool isCertain,
                               const Maximum &maximum) {
  double base = maximum.getBase();
  double magnitude = std::max(std::fabs(base), std::fabs(maximum.high));
  auto getEnd = [&](double end, int sign) {
    double distance = std::max(maximum.high - end, std::fabs(end - base));
    double error = rows.getExponentError(magnitude, distance);
    // The probability of the largest score is 1 at most.
    double exponent = std::min(end, maximum.high) - base + sign * error;
    return getExponential(exponent, sign < 0);
  };
  return {isCertain && score.low > -kInfinity ? getEnd(score.low, -1) : 0,
          getEnd(score.high, 1)};
}

/// The largest score of `pairs`; nothing if it is not known.
static std::optional<Maximum> findMaximum(Rows &rows, ArrayRef<Pair> pairs,
                                          double sink) {
  double largest = rows.takesAnyScore() ? FLT_MAX : kLargestScore;
  double largestAdded = rows.getLargestAdded();
  Maximum maximum;
  if (sink != -kInfinity && !(std::fabs(sink) <= largestAdded))
    return std::nullopt;
  maximum.include(sink, true);
  for (const Pair &pair : pairs) {
    if (!pair.mayAttend) {
      // A kernel may add minus infinity to the score.
      if (!pair.input.isFinite())
        return std::nullopt;
      continue;
    }
    if (!pair.score.isKnown() || pair.score.high > largest ||
        (pair.score.low > -kInfinity && pair.score.low < -largest))
      return std::nullopt;
    if (!rows.inputType.isF32() &&
        (!(pair.input.magnitude() <= kLargestScore) ||
         pair.score.high > largestAdded))
      return std::nullopt;
    maximum.include(pair.score, pair.mustAttend);
  }
  return maximum;
}

/// Probabilities are monotone in each exponential: e / (e + the others).
static Interval getProbability(Interval own, Interval total, double sumError) {
  double othersLow = std::max(total.low - own.low, 0.0);
  // Where the subtraction cancels, nothing is known of the others.
  if (othersLow < total.low * 0x1p-40)
    othersLow = 0;
  double othersHigh =
      total.high < kInfinity
          ? std::max(total.high - own.high, 0.0) + total.high * 0x1p-40
          : kInfinity;
  double low = own.low > 0 ? own.low / (own.low + othersHigh) : 0;
  double high = 0;
  if (own.high > 0)
    high = own.high < kInfinity ? own.high / (own.high + othersLow) : 1;
  return {low * (1 - sumError), high * (1 + sumError)};
}

/// The softmax of `pairs`, and of a sink unless that is -inf.
static Softmax getSoftmax(Rows &rows, ArrayRef<Pair> pairs, double sink) {
  Softmax softmax;
  std::optional<Maximum> maximum = findMaximum(rows, pairs, sink);
  softmax.isKnown = maximum.has_value();
  softmax.hasSink = sink != -kInfinity;
  softmax.mayBeEmpty =
      !softmax.hasSink &&
      llvm::none_of(pairs, [](const Pair &pair) { return pair.mustAttend; });
  softmax.exponentials.resize(pairs.size());
  softmax.probabilities.resize(pairs.size());
  if (!maximum)
    return softmax;
  if (maximum->high == -kInfinity) {
    softmax.lse = -kInfinity;
    return softmax;
  }
  Interval total = softmax.hasSink ? getExponential(rows, sink, true, *maximum)
                                   : Interval(0);
  for (auto [pair, exponential] : llvm::zip_equal(pairs, softmax.exponentials))
    if (pair.mayAttend) {
      exponential = getExponential(rows, pair.score, pair.mustAttend, *maximum);
      total = total + exponential;
    }
  double sumError = (pairs.size() + 16) * 2 * kRoundoff;
  for (auto [pair, exponential, probability] :
       llvm::zip_equal(pairs, softmax.exponentials, softmax.probabilities)) {
    probability = getProbability(exponential, total, sumError);
    // Where no pair certainly attends, each may be the only one, however small
    // its exponential is relative to the largest one.
    if (pair.mayAttend && maximum->low == -kInfinity)
      probability = {0, 1 + sumError};
  }
  double base = maximum->getBase(), count = pairs.size() + 1;
  Interval lse = {
      total.low > 0 ? base + std::log(total.low) : -kInfinity,
      std::min(base + std::log(total.high), maximum->high + std::log(count))};
  double error =
      sumError + 0x1p-20 +
      4 * kRoundoff * std::max(std::fabs(base), std::fabs(maximum->high));
  softmax.lse = {lse.low - error, lse.high + error};
  return softmax;
}

/// Element `d` of the output of a row, before the `identity`.
static Interval getOutput(Rows &rows, const Sequence &sequence, int64_t keyHead,
                          ArrayRef<Pair> pairs, const Softmax &softmax,
                          int64_t d) {
  if (!softmax.isKnown)
    return Interval::unknown();
  Rounding rounding = getRounding(rows.inputType);
  Sum sum;
  // Partial sums, before the division by the row sum, must not overflow.
  double largest = 0;
  std::optional<Interval> range;
  bool isAverage = !softmax.mayBeEmpty && !softmax.hasSink;
  for (auto [j, pair] : llvm::enumerate(pairs)) {
    if (!pair.mayAttend)
      continue;
    double value =
        Rows::read(rows.value, sequence, keyHead, sequence.firstKey + j, d);
    range = range ? hull(*range, value) : Interval(value);
    // Exponentials are relative to the maximum of the tiles so far, in all or
    // in one split: the exponential of each pair may be one.
    largest +=
        rows.accuracy.largestExponential * std::fabs(value) * pair.dropout;
    isAverage &= pair.dropout == 1;
    Interval p = widen(softmax.probabilities[j],
                       softmax.probabilities[j].high * 2 * rounding.relative +
                           2 * rounding.absolute);
    sum.addProduct(p, value * pair.dropout, rows.inputType.isF32(),
                   rows.accuracy);
    if (pair.dropout == 0)
      sum.add(rows.getDropped(p) * value, rows.accuracy);
  }
  if (!(largest * 4 < FLT_MAX))
    return Interval::unknown();
  Interval result = sum.get(16);
  // Probabilities that add up to one lead to a number between the values.
  if (isAverage && range && result.isKnown()) {
    double product = rows.inputType.isF32() ? 2 * rows.accuracy.product : 0;
    Interval bounds = widen(
        *range, range->magnitude() * (2 * rounding.relative + product +
                                      (pairs.size() + 16) * 4 * kRoundoff) +
                    2 * pairs.size() * rounding.absolute * range->magnitude() +
                    pairs.size() * kSmallestNormal);
    result = {std::max(result.low, bounds.low),
              std::min(result.high, bounds.high)};
  }
  return result;
}

/// The value of the key on the diagonal of the identity, 0 if there is none.
static double getDiagonal(Rows &rows, const Sequence &sequence, int64_t keyHead,
                          int64_t i, int64_t d) {
  int64_t j = i + sequence.numKeys - sequence.numQueries;
  if (j < 0 || j >= sequence.numKeys)
    return 0;
  return Rows::read(rows.value, sequence, keyHead, sequence.firstKey + j, d);
}

/// Element `d` of the output of a row, with the `identity`.
static Interval getMixedOutput(Rows &rows, const Sequence &sequence,
                               int64_t head, int64_t i, ArrayRef<Pair> pairs,
                               const Softmax &softmax, int64_t d) {
  int64_t keyHead = rows.getKeyHead(head);
  Interval value = getOutput(rows, sequence, keyHead, pairs, softmax, d);
  if (!rows.hasIdentity())
    return value;
  double u = rows.getIdentity(head);
  double diagonal = getDiagonal(rows, sequence, keyHead, i, d);
  if (u == 1)
    return value.isFinite() ? diagonal : Interval::unknown();
  return roundF32(value * Interval(1 - u) + Interval(u * diagonal), 8);
}

ForwardResults mlir::attn::fuzz::computeForwardResults(
    AttentionGradOp op, const TensorMap &tensors, const Accuracy &accuracy) {
  Rows rows(cast<AttentionOpInterface>(op.getOperation()), tensors, accuracy);
  const DenseElements &out = rows.get(op.getOut()),
                      &lse = rows.get(op.getLse());
  ForwardResults results;
  results.out.resize(out.size());
  results.lse.resize(lse.size());
  for (const Sequence &sequence : rows.getSequences())
    for (int64_t head = 0; head < rows.getNumHeads(); ++head)
      for (int64_t i = 0; i < sequence.numQueries; ++i) {
        std::vector<Pair> pairs = rows.getPairs(sequence, head, i);
        Softmax softmax = getSoftmax(rows, pairs, -kInfinity);
        int64_t row = sequence.firstQuery + i;
        results.lse[lse.getPosition({sequence.entry, head, row})] = softmax.lse;
        for (int64_t d = 0; d < out.shape[3]; ++d)
          results.out[out.getPosition({sequence.entry, head, row, d})] =
              getMixedOutput(rows, sequence, head, i, pairs, softmax, d);
      }
  return results;
}

static ExpectedMap computeAttention(AttentionOp op, const TensorMap &tensors,
                                    const Accuracy &accuracy) {
  Rows rows(cast<AttentionOpInterface>(op.getOperation()), tensors, accuracy);
  const DenseElements &out = rows.get(op.getOut());
  std::vector<ExpectedElement> outputs(out.size()), lses;
  if (op.getLse())
    lses.resize(rows.get(op.getLse()).size());
  Type outType = getElementTypeOrSelf(op.getOut().getType());
  for (const Sequence &sequence : rows.getSequences())
    for (int64_t head = 0; head < rows.getNumHeads(); ++head)
      for (int64_t i = 0; i < sequence.numQueries; ++i) {
        double sink =
            op.getSinks() ? rows.get(op.getSinks()).reals[head] : -kInfinity;
        std::vector<Pair> pairs = rows.getPairs(sequence, head, i);
        Softmax softmax = getSoftmax(rows, pairs, sink);
        int64_t row = sequence.firstQuery + i;
        for (int64_t d = 0; d < out.shape[3]; ++d) {
          Interval value =
              getMixedOutput(rows, sequence, head, i, pairs, softmax, d);
          outputs[out.getPosition({sequence.entry, head, row, d})] = {
              roundTo(value, outType), true};
        }
        if (op.getLse()) {
          const DenseElements &lse = rows.get(op.getLse());
          lses[lse.getPosition({sequence.entry, head, row})] = {
              softmax.isKnown ? softmax.lse : Interval::unknown(), true};
        }
      }
  ExpectedMap expected;
  expected[op.getOut()] = std::move(outputs);
  if (op.getLse())
    expected[op.getLse()] = std::move(lses);
  return expected;
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

namespace {
class GradientReference {
public:
  GradientReference(AttentionGradOp op, const TensorMap &tensors,
                    const Accuracy &accuracy);

  ExpectedMap compute();

private:
  using Sums = std::vector<Sum>;

  void addRow(const Sequence &sequence, int64_t head, int64_t i);
  void addPair(const Sequence &sequence, int64_t head, int64_t i, int64_t j,
               const Pair &pair, Interval delta);
  /// The gradient of the probability of a pair that is kept, with the factor
  /// `kept` of its probability.
  Interval getProbabilityGradient(const Sequence &sequence, int64_t head,
                                  int64_t i, int64_t j, double kept);
  /// Adds what a masked pair, or one that the output does not depend on, may
  /// add: nothing, or zero times infinity.
  void addMaskedPair(const Sequence &sequence, int64_t head, int64_t i,
                     int64_t j, const Pair &pair, Interval delta);
  /// Adds anything to the gradients of all keys of a head: a `score_mod` that
  /// gives a query infinity or NaN may do so for queries after the last one of
  /// a tile, too.
  void forgetKeys(const Sequence &sequence, int64_t keyHead);
  /// `p[i, j]`, before dropout.
  Interval getProbability(const Pair &pair, double lse);
  Interval getDot(const DenseElements &a, int64_t rowA, const DenseElements &b,
                  int64_t rowB, int64_t headB, const Sequence &sequence,
                  int64_t head) const;
  void finish(Value destination, Sums &sums, ArrayRef<char> isWritten,
              double factor, ExpectedMap &expected);

  AttentionGradOp op;
  Rows rows;
  const DenseElements &out, &lse, &dout;
  Sums dq, dk, dv;
  std::vector<char> writtenQueries, writtenKeys, writtenValues;
};
} // namespace

GradientReference::GradientReference(AttentionGradOp op,
                                     const TensorMap &tensors,
                                     const Accuracy &accuracy)
    : op(op),
      rows(cast<AttentionOpInterface>(op.getOperation()), tensors, accuracy),
      out(rows.get(op.getOut())), lse(rows.get(op.getLse())),
      dout(rows.get(op.getDout())), dq(rows.query.size()), dk(rows.key.size()),
      dv(rows.value.size()), writtenQueries(rows.query.size()),
      writtenKeys(rows.key.size()), writtenValues(rows.value.size()) {}

Interval GradientReference::getProbability(const Pair &pair, double lse) {
  if (!pair.score.isKnown() || !(std::fabs(lse) <= kLargestScore))
    return Interval::unknown();
  auto getEnd = [&](double end, int sign) {
    double distance = std::fabs(end - lse);
    double error = rows.getExponentError(
        std::min(std::max(std::fabs(lse), std::fabs(end)), kLargestScore),
        distance);
    // No maximum is subtracted: both are rounded as they are.
    error += kMaximumError * std::max(std::fabs(lse), std::fabs(end));
    return getExponential(end - lse + sign * error, sign < 0);
  };
  double low = pair.mustAttend && pair.score.low > -kInfinity
                   ? getEnd(pair.score.low, -1)
                   : 0;
  Interval p = {low, getEnd(pair.score.high, 1)};
  return p.high * 4 < FLT_MAX ? p : Interval::unknown();
}

Interval GradientReference::getDot(const DenseElements &a, int64_t rowA,
                                   const DenseElements &b, int64_t rowB,
                                   int64_t headB, const Sequence &sequence,
                                   int64_t head) const {
  Sum dot;
  for (int64_t d = 0; d < a.shape[3]; ++d)
    dot.addProduct(Rows::read(a, sequence, head, rowA, d),
                   Rows::read(b, sequence, headB, rowB, d),
                   rows.inputType.isF32(), rows.accuracy);
  return dot.get();
}

/// `x` rounded to the type of inputs, as the operand of a matmul. The result
/// may be divided by the keep probability afterwards: subnormal numbers, which
/// are rounded by an absolute error, are rounded more coarsely then.
static Interval roundOperand(Interval x, Type type, double keepProbability) {
  x = roundTo(roundF32(x, 4), type);
  if (!x.isFinite())
    return Interval::unknown();
  return widen(x, 2 * getRounding(type).absolute / keepProbability);
}

Interval GradientReference::getProbabilityGradient(const Sequence &sequence,
                                                   int64_t head, int64_t i,
                                                   int64_t j, double kept) {
  Interval dot =
      getDot(dout, sequence.firstQuery + i, rows.value, sequence.firstKey + j,
             rows.getKeyHead(head), sequence, head);
  return dot * Interval(kept * (1 - rows.getIdentity(head)));
}

void GradientReference::addMaskedPair(const Sequence &sequence, int64_t head,
                                      int64_t i, int64_t j, const Pair &pair,
                                      Interval delta) {
  // A kernel may add minus infinity to the score. The probabilities of a row
  // without a log-sum-exp are no numbers either, and zero times one that is no
  // number is none, if the output does not depend on it.
  double rowLse = lse.reals[lse.getPosition(
      {sequence.entry, head, sequence.firstQuery + i})];
  bool hasScore = pair.input.isFinite() && !std::isnan(rowLse);
  if (pair.mayAttend)
    hasScore &= getProbability(pair, rowLse).isKnown() && pair.slope.isFinite();
  Interval dp = getProbabilityGradient(sequence, head, i, j, pair.dropout);
  double rest = 1 - rows.getIdentity(head);
  if (hasScore &&
      roundF32((dp - delta) / Interval(rest > 0 ? rest : 1)).isFinite())
    return;
  int64_t query = sequence.firstQuery + i, key = sequence.firstKey + j;
  int64_t keyHead = rows.getKeyHead(head);
  auto forget = [&](Sums &sums, const DenseElements &elements, int64_t entry,
                    int64_t head, int64_t row) {
    for (int64_t d = 0; d < elements.shape[3]; ++d)
      sums[elements.getPosition({entry, head, row, d})].add(Interval::unknown(),
                                                            rows.accuracy);
  };
  forget(dq, rows.query, sequence.entry, head, query);
  forget(dk, rows.key, sequence.entry, keyHead, key);
  if (!hasScore)
    forget(dv, rows.value, sequence.entry, keyHead, key);
}

void GradientReference::addPair(const Sequence &sequence, int64_t head,
                                int64_t i, int64_t j, const Pair &pair,
                                Interval delta) {
  int64_t keyHead = rows.getKeyHead(head);
  int64_t query = sequence.firstQuery + i, key = sequence.firstKey + j;
  double u = rows.getIdentity(head);
  double rowLse = lse.reals[lse.getPosition({sequence.entry, head, query})];
  Interval p = getProbability(pair, rowLse);
  Interval dp = getProbabilityGradient(sequence, head, i, j, pair.dropout);
  Interval difference = dp - delta;
  double error = 16 * kRoundoff * (dp.magnitude() + delta.magnitude());
  Interval ds = roundF32(p * widen(difference, error), 8);
  double keepProbability = rows.getKeepProbability();
  // With dropout, dP is multiplied by the probability as an operand of a
  // matmul, before delta is subtracted. That probability has the factor 1 - u,
  // and dP does not: the error of a subnormal one, which is absolute, grows.
  if (rows.hasDropout()) {
    Rounding rounding = getRounding(rows.inputType);
    double roundings =
        p.magnitude() * rounding.relative + rounding.absolute / (1 - u);
    ds = widen(ds, 2 * roundings * dp.magnitude());
  }
  Interval kept = p * Interval(pair.dropout);
  if (pair.dropout == 0) {
    kept = rows.getDropped(p);
    ds = ds + kept * getProbabilityGradient(sequence, head, i, j, 1);
  }
  // Kernels divide dP - delta by 1 - u, and multiply it by the probability and
  // the derivatives, one after the other.
  if (!roundF32(difference / Interval(1 - u)).isFinite() ||
      !(ds.magnitude() * pair.largestSlope * 4 < FLT_MAX))
    ds = Interval::unknown();
  Interval dscore = widen(ds * pair.slope, kSmallestNormal * pair.sumOfSlopes);
  Interval dx = roundOperand(dscore, rows.inputType, keepProbability);
  Interval weight =
      roundOperand(kept * Interval(1 - u), rows.inputType, keepProbability);
  auto add = [&](Sum &sum, Interval a, double b) {
    sum.addProduct(a, b, rows.inputType.isF32(), rows.accuracy);
  };
  for (int64_t d = 0; d < rows.query.shape[3]; ++d) {
    add(dq[rows.query.getPosition({sequence.entry, head, query, d})], dx,
        Rows::read(rows.key, sequence, keyHead, key, d));
    add(dk[rows.key.getPosition({sequence.entry, keyHead, key, d})], dx,
        Rows::read(rows.query, sequence, head, query, d));
  }
  for (int64_t d = 0; d < rows.value.shape[3]; ++d)
    add(dv[rows.value.getPosition({sequence.entry, keyHead, key, d})], weight,
        Rows::read(dout, sequence, head, query, d));
}

void GradientReference::forgetKeys(const Sequence &sequence, int64_t keyHead) {
  auto forget = [&](Sums &sums, const DenseElements &elements) {
    for (int64_t j = 0; j < sequence.numKeys; ++j)
      for (int64_t d = 0; d < elements.shape[3]; ++d)
        sums[elements.getPosition(
                 {sequence.entry, keyHead, sequence.firstKey + j, d})]
            .add(Interval::unknown(), rows.accuracy);
  };
  forget(dk, rows.key);
  forget(dv, rows.value);
}

void GradientReference::addRow(const Sequence &sequence, int64_t head,
                               int64_t i) {
  int64_t keyHead = rows.getKeyHead(head), query = sequence.firstQuery + i;
  Interval delta = getDot(dout, query, out, query, head, sequence, head);
  if (op.getDlse()) {
    const DenseElements &dlse = rows.get(op.getDlse());
    double value = dlse.reals[dlse.getPosition({sequence.entry, head, query})];
    delta = roundF32(widen(delta - Interval(value),
                           kRoundoff * (std::fabs(value) + delta.magnitude())));
  }
  int64_t diagonal = i + sequence.numKeys - sequence.numQueries;
  bool hasDiagonal =
      op.getIdentity() && diagonal >= 0 && diagonal < sequence.numKeys;
  double u = rows.getIdentity(head);
  if (hasDiagonal) {
    int64_t key = sequence.firstKey + diagonal;
    Interval own =
        getDot(dout, query, rows.value, key, keyHead, sequence, head) *
        Interval(u);
    double error = 8 * kRoundoff * (own.magnitude() + delta.magnitude());
    delta = roundF32(widen(delta - own, error));
    for (int64_t d = 0; d < rows.value.shape[3]; ++d)
      dv[rows.value.getPosition({sequence.entry, keyHead, key, d})].add(
          u * Rows::read(dout, sequence, head, query, d), rows.accuracy);
  }
  std::vector<Pair> pairs = rows.getPairs(sequence, head, i);
  double rowLse = lse.reals[lse.getPosition({sequence.entry, head, query})];
  bool isKnown = llvm::all_of(pairs, [&](const Pair &pair) {
    return !pair.mayAttend ||
           (getProbability(pair, rowLse).isKnown() && pair.slope.isFinite());
  });
  if (!isKnown)
    forgetKeys(sequence, keyHead);
  // The output of a head whose entry is 1 does not depend on scores.
  for (auto [j, pair] : llvm::enumerate(pairs))
    if (pair.mayAttend && u != 1)
      addPair(sequence, head, i, j, pair, delta);
    else
      addMaskedPair(sequence, head, i, j, pair, delta);
}

void GradientReference::finish(Value destination, Sums &sums,
                               ArrayRef<char> isWritten, double factor,
                               ExpectedMap &expected) {
  Type type = getElementTypeOrSelf(destination.getType());
  std::vector<ExpectedElement> elements;
  for (auto [sum, written] : llvm::zip_equal(sums, isWritten))
    elements.push_back(
        {roundTo(roundF32(sum.get(32) * Interval(factor), 4), type),
         written != 0});
  expected[destination] = std::move(elements);
}

/// Marks the rows of a sequence.
static void markRows(const DenseElements &elements, int64_t entry,
                     int64_t first, int64_t count,
                     std::vector<char> &isWritten) {
  for (int64_t head = 0; head < elements.shape[1]; ++head)
    for (int64_t row = first; row < first + count; ++row)
      for (int64_t d = 0; d < elements.shape[3]; ++d)
        isWritten[elements.getPosition({entry, head, row, d})] = 1;
}

ExpectedMap GradientReference::compute() {
  for (const Sequence &sequence : rows.getSequences()) {
    markRows(rows.query, sequence.entry, sequence.firstQuery,
             sequence.numQueries, writtenQueries);
    markRows(rows.key, sequence.entry, sequence.firstKey, sequence.numKeys,
             writtenKeys);
    markRows(rows.value, sequence.entry, sequence.firstKey, sequence.numKeys,
             writtenValues);
    for (int64_t head = 0; head < rows.getNumHeads(); ++head)
      for (int64_t i = 0; i < sequence.numQueries; ++i)
        addRow(sequence, head, i);
  }
  ExpectedMap expected;
  finish(op.getDquery(), dq, writtenQueries, rows.scale, expected);
  finish(op.getDkey(), dk, writtenKeys, rows.scale, expected);
  finish(op.getDvalue(), dv, writtenValues, 1, expected);
  return expected;
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

static ExpectedMap computeMatmul(MatmulOp op, const TensorMap &tensors,
                                 const Accuracy &accuracy) {
  const DenseElements &lhs = tensors.find(op.getLhs())->second;
  const DenseElements &rhs = tensors.find(op.getRhs())->second;
  const DenseElements &out = tensors.find(op.getOut())->second;
  Type outType = getElementTypeOrSelf(op.getOut().getType());
  bool isBatched = MatmulOp::isBatched(op.getOut());
  int64_t numRows = out.shape[isBatched], numColumns = out.shape[isBatched + 1];
  int64_t depth = lhs.shape[op.getLhsDepthDim()];
  bool isF32 = getElementTypeOrSelf(op.getLhs().getType()).isF32();
  RegionInterpreter interpreter(tensors, depth + 8, accuracy);
  auto read = [&](const DenseElements &matrix, int64_t b, int64_t row,
                  int64_t column, bool isTransposed) {
    SmallVector<int64_t> index = {row, column};
    if (isTransposed)
      std::swap(index[0], index[1]);
    if (matrix.shape.size() == 3)
      index.insert(index.begin(), b);
    return matrix.reals[matrix.getPosition(index)];
  };
  std::vector<ExpectedElement> elements;
  for (int64_t b = 0, e = isBatched ? out.shape[0] : 1; b < e; ++b)
    for (int64_t i = 0; i < numRows; ++i)
      for (int64_t j = 0; j < numColumns; ++j) {
        Sum sum;
        for (int64_t k = 0; k < depth; ++k)
          sum.addProduct(read(lhs, b, i, k, op.getTransposeLhs()),
                         read(rhs, b, k, j, op.getTransposeRhs()), isF32,
                         accuracy);
        Interval value = sum.get();
        if (!op.getEpilogue().empty())
          value = interpreter
                      .run(op.getEpilogue().front(),
                           {Scalar::getReal(value), Scalar::getInteger(b),
                            Scalar::getInteger(i), Scalar::getInteger(j)})
                      .real;
        elements.push_back({roundTo(value, outType), true});
      }
  ExpectedMap expected;
  expected[op.getOut()] = std::move(elements);
  return expected;
}

/// The contents of the destinations of `op`.
static ExpectedMap computeOperation(Operation *op, const TensorMap &tensors,
                                    const Accuracy &accuracy) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return computeAttention(attention, tensors, accuracy);
  if (auto gradient = dyn_cast<AttentionGradOp>(op))
    return GradientReference(gradient, tensors, accuracy).compute();
  return computeMatmul(cast<MatmulOp>(op), tensors, accuracy);
}

ExpectedMap mlir::attn::fuzz::computeReference(Operation *op,
                                               const TensorMap &tensors,
                                               const Accuracy &accuracy) {
  TensorMap all = tensors;
  addOperands(op, all);
  ExpectedMap expected = computeOperation(op, all, accuracy);
  return op->getNumResults() == 0 ? expected
                                  : computeReturned(op, all, expected);
}
