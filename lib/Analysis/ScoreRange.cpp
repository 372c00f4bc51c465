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
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// The numbers from `low` to `high`, and perhaps -inf, which masks a pair.
struct Bounds {
  double low, high;
};

/// Ranges of the values of one region; a value without one can be anything.
class RangeAnalysis {
public:
  RangeAnalysis(Region &region, double given, double givenElements)
      : givenElements(givenElements) {
    ranges[region.getArgument(0)] = {-given, given};
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

  /// The range of an element of a tensor.
  std::optional<Bounds> getElementRange() const {
    return std::isfinite(givenElements)
               ? std::optional(Bounds{-givenElements, givenElements})
               : std::nullopt;
  }

  double givenElements;
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
          [](auto) { return Result({-1, 1}); })
      .Case<math::AbsFOp>([&](auto abs) -> Result {
        Result range = lookup(abs.getOperand());
        if (!range)
          return std::nullopt;
        return Bounds{0, std::max(std::abs(range->low), std::abs(range->high))};
      })
      .Case<arith::DivFOp>([&](auto division) -> Result {
        Result divisor = lookup(division.getRhs());
        bool isConstant = divisor && divisor->low == divisor->high;
        return isConstant && divisor->low != 0 ? combine(op, divide)
                                               : std::nullopt;
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
      .Case<tensor::ExtractOp, memref::LoadOp>(
          [&](auto) { return getElementRange(); })
      .Default(Result());
}

bool attn::isScoreBounded(Region &region, double given, double bound,
                          double givenElements) {
  auto yield = cast<YieldOp>(region.front().getTerminator());
  std::optional<Bounds> range =
      RangeAnalysis(region, given, givenElements).lookup(yield.getValue());
  return range && range->low >= -bound && range->high <= bound;
}
