//===- RegionInterpreter.cpp - Values of regions --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One function for each kind of scalar operation.
//
//===----------------------------------------------------------------------===//

#include "RegionInterpreter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn::fuzz;

/// Relative and absolute errors of functions on the host, and of their
/// arguments' conversions.
static constexpr double kFunctionError = 0x1p-18;
static constexpr double kFunctionFloor = 0x1p-22;
/// Beyond this argument, sine and cosine have no promised accuracy.
static constexpr double kLargestAngle = 0x1p50;
/// Derivatives are written by the compiler, with operations of their own.
static constexpr double kSlopeRoundings = 64;

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

static uint64_t getUnsigned(int64_t value, unsigned width) {
  return width == 64 ? value : value & ((uint64_t(1) << width) - 1);
}

static int64_t getSigned(uint64_t bits, unsigned width) {
  return llvm::SignExtend64(bits, width);
}

/// A quotient and a remainder that are defined for all operands.
static int64_t divideSigned(int64_t a, int64_t b, unsigned width) {
  if (b == 0)
    return a;
  return b == -1 ? getSigned(0 - uint64_t(a), width) : a / b;
}

static int64_t remainderSigned(int64_t a, int64_t b) {
  if (b == 0)
    return a;
  return b == -1 ? 0 : a % b;
}

static int64_t divideFloor(int64_t a, int64_t b, unsigned width) {
  bool inexact = b != 0 && remainderSigned(a, b) != 0;
  return divideSigned(a, b, width) - (inexact && (a < 0) != (b < 0));
}

static int64_t divideCeil(int64_t a, int64_t b, unsigned width) {
  bool inexact = b != 0 && remainderSigned(a, b) != 0;
  return divideSigned(a, b, width) + (inexact && (a < 0) == (b < 0));
}

static bool compareIntegers(arith::CmpIPredicate predicate, int64_t a,
                            int64_t b) {
  uint64_t ua = a, ub = b;
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return a == b;
  case arith::CmpIPredicate::ne:
    return a != b;
  case arith::CmpIPredicate::slt:
    return a < b;
  case arith::CmpIPredicate::sle:
    return a <= b;
  case arith::CmpIPredicate::sgt:
    return a > b;
  case arith::CmpIPredicate::sge:
    return a >= b;
  case arith::CmpIPredicate::ult:
    return ua < ub;
  case arith::CmpIPredicate::ule:
    return ua <= ub;
  case arith::CmpIPredicate::ugt:
    return ua > ub;
  case arith::CmpIPredicate::uge:
    return ua >= ub;
  }
  llvm_unreachable("unknown predicate");
}

/// The result of an operation on two integers of `width` bits, as 64 bits of
/// which the lowest count. Nothing for other operations.
static std::optional<uint64_t> combineIntegers(Operation *op, int64_t a,
                                               int64_t b, unsigned width) {
  uint64_t ua = getUnsigned(a, width), ub = getUnsigned(b, width);
  using Result = std::optional<uint64_t>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](arith::AddIOp) { return Result(ua + ub); })
      .Case([&](arith::SubIOp) { return Result(ua - ub); })
      .Case([&](arith::MulIOp) { return Result(ua * ub); })
      .Case([&](arith::AndIOp) { return Result(ua & ub); })
      .Case([&](arith::OrIOp) { return Result(ua | ub); })
      .Case([&](arith::XOrIOp) { return Result(ua ^ ub); })
      .Case([&](arith::MinSIOp) { return Result(std::min(a, b)); })
      .Case([&](arith::MaxSIOp) { return Result(std::max(a, b)); })
      .Case([&](arith::MinUIOp) { return Result(std::min(ua, ub)); })
      .Case([&](arith::MaxUIOp) { return Result(std::max(ua, ub)); })
      .Case([&](arith::DivSIOp) { return Result(divideSigned(a, b, width)); })
      .Case([&](arith::RemSIOp) { return Result(remainderSigned(a, b)); })
      .Case(
          [&](arith::FloorDivSIOp) { return Result(divideFloor(a, b, width)); })
      .Case([&](arith::CeilDivSIOp) { return Result(divideCeil(a, b, width)); })
      .Case([&](arith::DivUIOp) { return Result(ub == 0 ? ua : ua / ub); })
      .Case([&](arith::RemUIOp) { return Result(ub == 0 ? ua : ua % ub); })
      .Case([&](arith::CeilDivUIOp) {
        return Result(ub == 0 ? ua : ua / ub + (ua % ub != 0));
      })
      .Case([&](arith::ShLIOp) { return Result(ub >= width ? 0 : ua << ub); })
      .Case([&](arith::ShRUIOp) { return Result(ub >= width ? 0 : ua >> ub); })
      .Case([&](arith::ShRSIOp) {
        return Result(a >> std::min<uint64_t>(ub, width - 1));
      })
      .Default([](Operation *) { return Result(); });
}

/// Whether an operation takes its operands as unsigned numbers, so that the
/// result of negative ones depends on the width of `index`.
static bool dependsOnWidth(Operation *op) {
  return isa<arith::DivUIOp, arith::RemUIOp, arith::CeilDivUIOp, arith::ShRUIOp,
             arith::ShLIOp, arith::ShRSIOp>(op);
}

Scalar RegionInterpreter::evaluateInteger(Operation *op, unsigned width,
                                          bool isIndex) {
  int64_t a = get(op->getOperand(0)).integer;
  int64_t b = op->getNumOperands() > 1 ? get(op->getOperand(1)).integer : 0;
  for (Value operand : op->getOperands())
    if (!get(operand).isKnownInteger)
      return Scalar();
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return Scalar::getInteger(
        compareIntegers(compare.getPredicate(), a, b) ? -1 : 0);
  if (isa<arith::ExtUIOp, arith::IndexCastUIOp>(op)) {
    Type from = op->getOperand(0).getType();
    if (from.isIndex() && a < 0)
      return Scalar();
    a = getUnsigned(a, from.isIndex() ? 64 : from.getIntOrFloatBitWidth());
  }
  std::optional<uint64_t> bits = a;
  if (!isa<arith::ExtUIOp, arith::ExtSIOp, arith::TruncIOp, arith::IndexCastOp,
           arith::IndexCastUIOp>(op))
    bits = combineIntegers(op, a, b, width);
  if (!bits)
    llvm::report_fatal_error("the reference does not know " +
                             op->getName().getStringRef());
  int64_t result = getSigned(*bits, width);
  // Arithmetic on `index` has at least 32 bits.
  if (isIndex && (!llvm::isInt<32>(result) ||
                  (dependsOnWidth(op) && (a < 0 || b < 0 || b > 31))))
    return Scalar();
  return Scalar::getInteger(result);
}

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

Scalar RegionInterpreter::addFloats(const Scalar &a, const Scalar &b) {
  Interval sum = a.real + b.real;
  // The sum may be computed in parts, together with the dot product.
  double error =
      roundings * kRoundoff * (a.real.magnitude() + b.real.magnitude());
  return Scalar::getReal(roundF32(widen(roundF32(sum), error)),
                         roundF32(a.slope + b.slope, kSlopeRoundings));
}

/// A function of one float whose derivative is `slope`.
static Scalar applyFunction(const Scalar &x, Interval value, Interval slope) {
  return Scalar::getReal(
      value, widen(roundF32(slope * x.slope, kSlopeRoundings),
                   kFunctionError *
                       (x.slope.magnitude() + (slope * x.slope).magnitude())));
}

template <typename Function>
static Interval applyApproximate(Function function, Interval x) {
  return applyRising(function, x, kFunctionError, kFunctionFloor);
}

/// exp(factor * x). The error of the exponent grows with it.
static Interval applyExponential(Interval x, double factor) {
  auto getEnd = [&](double end, int sign) {
    double error = kFunctionError + std::fabs(end) * 0x1p-22;
    return std::exp(factor * end) * (1 + sign * error) + sign * 0x1p-120;
  };
  if (!x.isKnown())
    return x;
  // Far below, the exponential is zero.
  x = max(x, -1000);
  return roundF32({getEnd(x.low, -1), getEnd(x.high, 1)});
}

/// `function` with slopes between -1 and 1.
template <typename Function>
static Interval applyWave(Function function, Interval x) {
  if (!x.isKnown() || x.magnitude() > kLargestAngle)
    return Interval::unknown();
  Interval value = widen(function(x.middle()), (x.high - x.low) / 2 + 0x1p-16);
  return max(min(value, 1 + kFunctionError), -1 - kFunctionError);
}

static double getSine(double x) { return std::sin(x); }
static double getCosine(double x) { return std::cos(x); }

static Scalar evaluateUnary(Operation *op, const Scalar &x,
                            const Accuracy &accuracy) {
  Interval real = x.real;
  return llvm::TypeSwitch<Operation *, Scalar>(op)
      .Case([&](arith::NegFOp) { return Scalar::getReal(-real, -x.slope); })
      .Case([&](math::AbsFOp) {
        Interval sign = real.low > 0    ? Interval(1)
                        : real.high < 0 ? Interval(-1)
                                        : Interval(-1, 1);
        return Scalar::getReal(abs(real), x.slope * sign);
      })
      .Case([&](math::ExpOp) {
        Interval value = applyExponential(real, 1);
        return applyFunction(x, value, value);
      })
      .Case([&](math::Exp2Op) {
        Interval value = applyExponential(real, M_LN2);
        return applyFunction(x, value, value * Interval(M_LN2));
      })
      .Case([&](math::TanhOp) {
        Interval value = applyRising([](double v) { return std::tanh(v); },
                                     real, accuracy.tanh, kFunctionFloor);
        return applyFunction(x, value, Interval(1) - abs(value) * abs(value));
      })
      .Case([&](math::SqrtOp) {
        if (!(real.low >= 0))
          return Scalar::unknownReal();
        Interval value = applyRising([](double v) { return std::sqrt(v); },
                                     real, kFunctionError, 0);
        // The derivative at zero is infinite.
        return applyFunction(x, value,
                             real.low > kSmallestNormal ? Interval(0.5) / value
                                                        : Interval::unknown());
      })
      .Case([&](math::LogOp) {
        if (!(real.low >= kSmallestNormal))
          return Scalar::unknownReal();
        Interval value =
            applyApproximate([](double v) { return std::log(v); }, real);
        return applyFunction(x, value, Interval(1) / real);
      })
      .Case([&](math::SinOp) {
        return applyFunction(x, applyWave(getSine, real),
                             applyWave(getCosine, real));
      })
      .Case([&](math::CosOp) {
        return applyFunction(x, applyWave(getCosine, real),
                             -applyWave(getSine, real));
      })
      .Case([&](math::FloorOp) {
        return Scalar::getReal(
            applyRising([](double v) { return std::floor(v); }, real, 0, 0),
            x.slope * Interval(0));
      })
      .Case([&](math::CeilOp) {
        return Scalar::getReal(
            applyRising([](double v) { return std::ceil(v); }, real, 0, 0),
            x.slope * Interval(0));
      })
      .Case([&](arith::ExtFOp) { return x; })
      .Default([&](Operation *) -> Scalar {
        llvm::report_fatal_error("the reference does not know " +
                                 op->getName().getStringRef());
      });
}

/// The larger of two floats.
static Scalar getLarger(const Scalar &a, const Scalar &b) {
  Interval slope = hull(a.slope, b.slope);
  if (a.real.low > b.real.high)
    slope = a.slope;
  else if (b.real.low > a.real.high)
    slope = b.slope;
  return Scalar::getReal(max(a.real, b.real), slope);
}

static Scalar negate(const Scalar &x) {
  return Scalar::getReal(-x.real, -x.slope);
}

static Scalar multiply(const Scalar &a, const Scalar &b,
                       const Accuracy &accuracy) {
  double error = 0;
  if (a.isConverted)
    error += accuracy.position * b.real.magnitude();
  if (b.isConverted)
    error += accuracy.position * a.real.magnitude();
  return Scalar::getReal(
      roundF32(widen(a.real * b.real, error), 4),
      roundF32(a.slope * b.real + b.slope * a.real, kSlopeRoundings));
}

static Scalar divide(const Scalar &a, const Scalar &b) {
  Interval value = roundF32(a.real / b.real, 4);
  // The gradients of both operands are rounded, and may overflow, before they
  // are added.
  Interval quotient = roundF32(value / b.real, kSlopeRoundings);
  Interval slope = roundF32(a.slope / b.real, kSlopeRoundings) -
                   roundF32(b.slope * quotient, kSlopeRoundings);
  return Scalar::getReal(value, roundF32(slope, kSlopeRoundings));
}

Scalar RegionInterpreter::compareFloats(Operation *op) {
  Interval a = get(op->getOperand(0)).real, b = get(op->getOperand(1)).real;
  if (!a.isKnown() || !b.isKnown())
    return Scalar();
  bool less = a.high<b.low, greater = a.low> b.high;
  bool equal = a.isExact() && b.isExact() && a.low == b.low;
  if (!less && !greater && !equal)
    return Scalar();
  auto answer = [](bool value) { return Scalar::getInteger(value ? -1 : 0); };
  switch (cast<arith::CmpFOp>(op).getPredicate()) {
  case arith::CmpFPredicate::OEQ:
  case arith::CmpFPredicate::UEQ:
    return answer(equal);
  case arith::CmpFPredicate::ONE:
  case arith::CmpFPredicate::UNE:
    return answer(!equal);
  case arith::CmpFPredicate::OLT:
  case arith::CmpFPredicate::ULT:
    return answer(less);
  case arith::CmpFPredicate::OLE:
  case arith::CmpFPredicate::ULE:
    return answer(less || equal);
  case arith::CmpFPredicate::OGT:
  case arith::CmpFPredicate::UGT:
    return answer(greater);
  case arith::CmpFPredicate::OGE:
  case arith::CmpFPredicate::UGE:
    return answer(greater || equal);
  default:
    return Scalar();
  }
}

Scalar RegionInterpreter::evaluateFloat(Operation *op) {
  Scalar a = get(op->getOperand(0));
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op)) {
    if (!a.isKnownInteger)
      return Scalar();
    unsigned width = op->getOperand(0).getType().getIntOrFloatBitWidth();
    double value = isa<arith::UIToFPOp>(op)
                       ? double(getUnsigned(a.integer, width))
                       : double(a.integer);
    Scalar converted = Scalar::getReal(double(float(value)));
    converted.isConverted = true;
    return converted;
  }
  if (op->getNumOperands() == 1)
    return evaluateUnary(op, a, accuracy);
  Scalar b = get(op->getOperand(1));
  return llvm::TypeSwitch<Operation *, Scalar>(op)
      .Case([&](arith::AddFOp) { return addFloats(a, b); })
      .Case([&](arith::SubFOp) { return addFloats(a, negate(b)); })
      .Case([&](arith::MulFOp) { return multiply(a, b, accuracy); })
      .Case([&](arith::DivFOp) { return divide(a, b); })
      .Case([&](arith::MaximumFOp) { return getLarger(a, b); })
      .Case([&](arith::MinimumFOp) {
        return negate(getLarger(negate(a), negate(b)));
      })
      .Default([&](Operation *) -> Scalar {
        llvm::report_fatal_error("the reference does not know " +
                                 op->getName().getStringRef());
      });
}

//===----------------------------------------------------------------------===//
// Others
//===----------------------------------------------------------------------===//

/// `taken`, next to a branch that is not taken. That one has a gradient of
/// zero, whose product with an infinite derivative is not a number.
static Scalar chooseBranch(Scalar taken, const Scalar &other) {
  if (!other.slope.isFinite())
    taken.slope = Interval::unknown();
  return taken;
}

Scalar RegionInterpreter::evaluateSelect(Operation *op) {
  Scalar condition = get(op->getOperand(0));
  Scalar yes = get(op->getOperand(1)), no = get(op->getOperand(2));
  if (condition.isKnownInteger)
    return condition.integer ? chooseBranch(yes, no) : chooseBranch(no, yes);
  if (isa<FloatType>(op->getResult(0).getType()))
    return Scalar::getReal(hull(yes.real, no.real), hull(yes.slope, no.slope));
  bool same =
      yes.isKnownInteger && no.isKnownInteger && yes.integer == no.integer;
  return same ? yes : Scalar();
}

/// Whether a read in a score_mod or an epilogue is part of a tile: its last
/// indices are the query and the key, or the query.
static bool isReadOfTile(Operation *op) {
  Block *block = op->getBlock();
  if (block->getNumArguments() == 0 ||
      !isa<FloatType>(block->getArgument(0).getType()))
    return false;
  ArrayRef<BlockArgument> arguments = block->getArguments();
  Value query = *std::prev(arguments.end(), 2), key = arguments.back();
  OperandRange indices = op->getOperands().drop_front();
  if (indices.empty())
    return false;
  return indices.back() == query ||
         (indices.size() > 1 && indices.back() == key &&
          indices.drop_back().back() == query);
}

Scalar RegionInterpreter::evaluateRead(Operation *op) {
  Value source = op->getOperand(0);
  const DenseElements &elements = tensors.find(source)->second;
  SmallVector<int64_t> index;
  bool isInside = true;
  for (auto [operand, size] :
       llvm::zip_equal(op->getOperands().drop_front(), elements.shape)) {
    Scalar at = get(operand);
    if (!at.isKnownInteger)
      return Scalar();
    // Indices out of bounds, taken as unsigned, become the last one.
    bool inBounds = at.integer >= 0 && at.integer < size;
    index.push_back(inBounds ? at.integer : size - 1);
    isInside &= inBounds;
  }
  if (elements.size() == 0)
    return elements.isFloat ? Scalar::getReal(0.0) : Scalar::getInteger(0);
  int64_t position = elements.getPosition(index);
  if (!isInside && accuracy.readsZeroOutside && isReadOfTile(op)) {
    if (elements.isFloat)
      return Scalar::getReal(hull(elements.reals[position], 0.0));
    if (elements.integers[position] != 0)
      return Scalar();
  }
  return elements.isFloat ? Scalar::getReal(elements.reals[position])
                          : Scalar::getInteger(elements.integers[position]);
}

Scalar RegionInterpreter::get(Value value) {
  auto found = values.find(value);
  if (found != values.end())
    return found->second;
  // A constant outside of the region.
  Scalar scalar = evaluate(value.getDefiningOp());
  return values[value] = scalar;
}

Scalar RegionInterpreter::evaluate(Operation *op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
      return Scalar::getReal(number.getValueAsDouble());
    return Scalar::getInteger(
        cast<IntegerAttr>(constant.getValue()).getValue().getSExtValue());
  }
  if (isa<tensor::ExtractOp, memref::LoadOp>(op))
    return evaluateRead(op);
  if (isa<arith::SelectOp>(op))
    return evaluateSelect(op);
  if (isa<arith::CmpFOp>(op))
    return compareFloats(op);
  Type type = op->getResult(0).getType();
  if (isa<FloatType>(type))
    return evaluateFloat(op);
  // Comparisons have the width of their operands.
  if (isa<arith::CmpIOp>(op))
    type = op->getOperand(0).getType();
  bool isIndex = type.isIndex();
  return evaluateInteger(op, isIndex ? 64 : type.getIntOrFloatBitWidth(),
                         isIndex && !isa<arith::CmpIOp>(op));
}

/// Whether a float depends on the score, which is the first argument.
static bool dependsOnScore(Value value, Block &block) {
  Operation *definition = value.getDefiningOp();
  if (!definition)
    return value == block.getArgument(0);
  return isa<FloatType>(value.getType()) &&
         llvm::any_of(definition->getOperands(), [&](Value operand) {
           return dependsOnScore(operand, block);
         });
}

/// A bound on the derivative of a float by an operand, in absolute value.
double RegionInterpreter::getSlope(Operation *op, Value operand) {
  Interval result = get(op->getResult(0)).real, own = get(operand).real;
  Interval slope =
      llvm::TypeSwitch<Operation *, Interval>(op)
          .Case([&](arith::MulFOp product) {
            bool isLeft = operand == product.getLhs();
            return get(isLeft ? product.getRhs() : product.getLhs()).real;
          })
          .Case([&](arith::DivFOp quotient) {
            Interval divisor = get(quotient.getRhs()).real;
            return operand == quotient.getLhs() ? Interval(1) / divisor
                                                : result / divisor;
          })
          .Case([&](math::ExpOp) { return result; })
          .Case([&](math::Exp2Op) { return result; })
          .Case([&](math::SqrtOp) { return Interval(0.5) / result; })
          .Case([&](math::LogOp) { return Interval(1) / own; })
          .Default([](Operation *) { return Interval(1); });
  return slope.isKnown() ? slope.magnitude() : kInfinity;
}

/// From the result back to the score.
void RegionInterpreter::boundSlopes(Block &block, Scalar &result) {
  llvm::DenseMap<Value, double> slopes;
  slopes[block.getTerminator()->getOperand(0)] = 1;
  double &largest = result.largestSlope;
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    auto found = slopes.find(op.getResult(0));
    if (found == slopes.end() || !isa<FloatType>(op.getResult(0).getType()))
      continue;
    double slope = found->second;
    Interval own = get(op.getResult(0)).slope;
    result.sumOfSlopes += own.isKnown() ? own.magnitude() : kInfinity;
    for (Value operand : op.getOperands())
      if (dependsOnScore(operand, block)) {
        double &sum = slopes[operand];
        sum += slope * getSlope(&op, operand);
        // A product of zero and infinity is not a number.
        largest = std::isnan(sum) ? kInfinity : std::max(largest, sum);
      }
  }
}

Scalar RegionInterpreter::run(Block &block, ArrayRef<Scalar> arguments) {
  values.clear();
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments))
    values[argument] = value;
  for (Operation &op : block.without_terminator()) {
    Scalar result = evaluate(&op);
    values[op.getResult(0)] = result;
  }
  Scalar result = get(block.getTerminator()->getOperand(0));
  if (isa<FloatType>(block.getTerminator()->getOperand(0).getType()))
    boundSlopes(block, result);
  return result;
}
