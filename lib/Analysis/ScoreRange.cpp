//===- ScoreRange.cpp - How large scores can become -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Interval arithmetic on the scalar code of a score_mod.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/ScoreRange.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// The numbers from `low` to `high`, and perhaps -inf, which masks a pair.
struct Bounds {
  double low, high;
};

/// What is known of the inputs of a region.
struct Inputs {
  /// A bound of the absolute value of the score.
  double score;
  /// A bound of values that depend neither on the score nor on the query;
  /// infinity if there is none. If there is, a value without a range may be
  /// infinite or NaN.
  double constants = std::numeric_limits<double>::infinity();

  bool boundsConstants() const { return std::isfinite(constants); }
};

/// Ranges of the values of one region; a value without one can be anything.
class RangeAnalysis {
public:
  RangeAnalysis(Region &region, const Inputs &inputs)
      : inputs(inputs), score(region.getArgument(0)),
        query(region.getArgument(3)) {
    ranges[score] = {-inputs.score, inputs.score};
    for (Operation &op : region.front().without_terminator())
      if (op.getNumResults() == 1)
        if (std::optional<Bounds> range = visit(&op))
          ranges[op.getResult(0)] = *range;
  }

  std::optional<Bounds> lookup(Value value) const {
    FloatAttr constant;
    if (matchPattern(value, m_Constant(&constant))) {
      double number = constant.getValueAsDouble();
      return std::isfinite(number) ? std::optional(Bounds{number, number})
                                   : std::nullopt;
    }
    auto known = ranges.find(value);
    return known == ranges.end() ? std::nullopt : std::optional(known->second);
  }

private:
  std::optional<Bounds> visit(Operation *op) const;
  /// The range of the four results of `fn` on the ends of both operands.
  std::optional<Bounds> combine(Operation *op,
                                double (*fn)(double, double)) const;

  /// Whether `value` is the same for all scores and queries, and has a bound
  /// therefore.
  bool isBoundedConstant(Value value) const {
    return inputs.boundsConstants() && !varies(value);
  }
  bool varies(Value value) const {
    Operation *definition = value.getDefiningOp();
    if (!definition)
      return value == score || value == query;
    return definition->getNumRegions() != 0 ||
           llvm::any_of(definition->getOperands(),
                        [&](Value operand) { return varies(operand); });
  }

  Inputs inputs;
  Value score, query;
  llvm::DenseMap<Value, Bounds> ranges;
};
} // namespace

static double add(double a, double b) { return a + b; }
static double subtract(double a, double b) { return a - b; }
static double multiply(double a, double b) { return a * b; }
static double divide(double a, double b) { return a / b; }
static double smaller(double a, double b) { return std::min(a, b); }
static double larger(double a, double b) { return std::max(a, b); }

std::optional<Bounds>
RangeAnalysis::combine(Operation *op, double (*fn)(double, double)) const {
  std::optional<Bounds> a = lookup(op->getOperand(0));
  std::optional<Bounds> b = lookup(op->getOperand(1));
  if (!a || !b)
    return std::nullopt;
  auto [low, high] = std::minmax({fn(a->low, b->low), fn(a->low, b->high),
                                  fn(a->high, b->low), fn(a->high, b->high)});
  return Bounds{low, high};
}

std::optional<Bounds> RangeAnalysis::visit(Operation *op) const {
  using Result = std::optional<Bounds>;
  if (isa<FloatType>(op->getResult(0).getType()) &&
      isBoundedConstant(op->getResult(0)))
    return Bounds{-inputs.constants, inputs.constants};
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case<arith::AddFOp>([&](auto) { return combine(op, add); })
      .Case<arith::SubFOp>([&](auto) { return combine(op, subtract); })
      .Case<arith::MulFOp>([&](auto) { return combine(op, multiply); })
      .Case<arith::MinimumFOp, arith::MinNumFOp>(
          [&](auto) { return combine(op, smaller); })
      .Case<arith::MaximumFOp, arith::MaxNumFOp>(
          [&](auto) { return combine(op, larger); })
      .Case<arith::NegFOp>([&](auto negation) -> Result {
        Result range = lookup(negation.getOperand());
        return range ? Result({-range->high, -range->low}) : std::nullopt;
      })
      .Case<math::TanhOp, math::SinOp, math::CosOp, math::ErfOp>(
          [&](auto function) {
            bool isKnown = lookup(function.getOperand()).has_value();
            return isKnown || !inputs.boundsConstants() ? Result({-1, 1})
                                                        : std::nullopt;
          })
      .Case<math::AbsFOp>([&](auto abs) -> Result {
        Result range = lookup(abs.getOperand());
        if (!range)
          return std::nullopt;
        return Bounds{0, std::max(std::abs(range->low), std::abs(range->high))};
      })
      .Case<arith::DivFOp>([&](auto division) -> Result {
        Result dividend = lookup(division.getLhs());
        Result divisor = lookup(division.getRhs());
        if (divisor && divisor->low == divisor->high)
          return divisor->low != 0 ? combine(op, divide) : std::nullopt;
        if (!dividend || !isBoundedConstant(division.getRhs()))
          return std::nullopt;
        // The inverse is the same for all scores and queries, too.
        double largest =
            std::max(std::abs(dividend->low), std::abs(dividend->high)) *
            inputs.constants;
        return Bounds{-largest, largest};
      })
      .Case<arith::SelectOp>([&](auto select) -> Result {
        Result a = lookup(select.getTrueValue());
        Result b = lookup(select.getFalseValue());
        if (matchPattern(select.getTrueValue(), m_NegInfFloat()))
          return b;
        if (matchPattern(select.getFalseValue(), m_NegInfFloat()))
          return a;
        if (!a || !b)
          return std::nullopt;
        return Bounds{std::min(a->low, b->low), std::max(a->high, b->high)};
      })
      .Case<arith::SIToFPOp, arith::UIToFPOp>([](auto conversion) -> Result {
        unsigned width = conversion.getIn().getType().getIntOrFloatBitWidth();
        return Bounds{-std::ldexp(1.0, width), std::ldexp(1.0, width)};
      })
      .Case<arith::ExtFOp>(
          [&](auto extension) { return lookup(extension.getIn()); })
      .Default(Result());
}

/// The range of the score that `region` yields.
static std::optional<Bounds> getScoreRange(Region &region,
                                           const Inputs &inputs) {
  auto yield = cast<YieldOp>(region.front().getTerminator());
  return RangeAnalysis(region, inputs).lookup(yield.getValue());
}

bool attn::isScoreBounded(Region &region, double given, double bound) {
  std::optional<Bounds> range = getScoreRange(region, {given});
  return range && range->low >= -bound && range->high <= bound;
}

bool attn::isFiniteForPadding(Region &region) {
  // Products of a few of them do not overflow.
  constexpr double moderate = 0x1p30;
  std::optional<Bounds> range = getScoreRange(region, {moderate, moderate});
  constexpr double largest = std::numeric_limits<float>::max();
  return range && range->low >= -largest && range->high <= largest;
}
