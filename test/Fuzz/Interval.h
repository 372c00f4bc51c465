//===- Interval.h - Numbers with error bounds -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Intervals that hold every number a computation in f32 may give, in whatever
// order it is done. An unknown number may be anything, also not a number.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_FUZZ_INTERVAL_H
#define ATTN_TEST_FUZZ_INTERVAL_H

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

namespace mlir::attn::fuzz {

/// Half a unit in the last place of f32, relative.
inline constexpr double kRoundoff = 0x1p-24;
/// Half of the smallest subnormal number of f32, and the smallest normal one.
inline constexpr double kTiny = 0x1p-150;
inline constexpr double kSmallestNormal = 0x1p-126;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Interval {
  double low = 0, high = 0;

  Interval() = default;
  Interval(double value) : low(value), high(value) {}
  Interval(double low, double high) : low(low), high(high) {}
  static Interval unknown() { return Interval(std::nan("")); }

  bool isKnown() const { return low <= high; }
  bool isExact() const { return low == high; }
  bool isFinite() const { return low >= -DBL_MAX && high <= DBL_MAX; }
  bool contains(double value) const { return low <= value && value <= high; }
  double magnitude() const { return std::max(std::fabs(low), std::fabs(high)); }
  double middle() const { return low / 2 + high / 2; }
};

/// The smallest interval that holds both.
inline Interval hull(Interval a, Interval b) {
  if (!a.isKnown() || !b.isKnown())
    return Interval::unknown();
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

/// `x`, or anything that differs by at most `error`.
inline Interval widen(Interval x, double error) {
  if (!x.isKnown() || !(error < kInfinity))
    return Interval::unknown();
  return {x.low - error, x.high + error};
}

/// `x` after computations that round `count` times in f32. A number beyond f32
/// is unknown.
inline Interval roundF32(Interval x, double count = 1) {
  if (!x.isKnown() || x.magnitude() > FLT_MAX)
    return Interval::unknown();
  double unit = count * kRoundoff;
  return {x.low - std::fabs(x.low) * unit - count * kTiny,
          x.high + std::fabs(x.high) * unit + count * kTiny};
}

inline Interval operator-(Interval x) { return {-x.high, -x.low}; }

inline Interval operator+(Interval a, Interval b) {
  return {a.low + b.low, a.high + b.high};
}

inline Interval operator-(Interval a, Interval b) { return a + -b; }

inline Interval operator*(Interval a, Interval b) {
  if (!a.isKnown() || !b.isKnown())
    return Interval::unknown();
  double products[] = {a.low * b.low, a.low * b.high, a.high * b.low,
                       a.high * b.high};
  for (double product : products)
    if (std::isnan(product))
      return Interval::unknown();
  return {*std::min_element(products, products + 4),
          *std::max_element(products, products + 4)};
}

inline Interval operator/(Interval a, Interval b) {
  if (!b.isKnown() || b.contains(0))
    return Interval::unknown();
  return a * Interval(1 / b.high, 1 / b.low);
}

inline Interval max(Interval a, Interval b) {
  if (!a.isKnown() || !b.isKnown())
    return Interval::unknown();
  return {std::max(a.low, b.low), std::max(a.high, b.high)};
}

inline Interval min(Interval a, Interval b) { return -max(-a, -b); }

inline Interval abs(Interval x) {
  if (!x.isKnown() || x.low >= 0)
    return x;
  return x.high <= 0 ? -x : Interval(0, x.magnitude());
}

/// A function that never falls, with a relative and an absolute error.
template <typename Function>
Interval applyRising(Function function, Interval x, double relative,
                     double absolute) {
  if (!x.isKnown())
    return x;
  double low = function(x.low), high = function(x.high);
  if (!(low <= high) || std::max(std::fabs(low), std::fabs(high)) > FLT_MAX)
    return Interval::unknown();
  return {low - std::fabs(low) * relative - absolute,
          high + std::fabs(high) * relative + absolute};
}

} // namespace mlir::attn::fuzz

#endif // ATTN_TEST_FUZZ_INTERVAL_H
