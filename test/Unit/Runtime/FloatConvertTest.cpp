//===- FloatConvertTest.cpp - Tests of bf16 and f16 conversions -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exhaustive where the narrow format allows it.
//
//===----------------------------------------------------------------------===//

#include "FloatConvert.h"

#include "gtest/gtest.h"

#include <limits>

using namespace attnrt;

namespace {

/// The format under test as a pair of functions.
struct Format {
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
  uint16_t (*narrowDouble)(double);
  uint16_t infinity;
};

const Format Formats[] = {
    {bf16ToFloat, floatToBf16, doubleToBf16, 0x7f80},
    {f16ToFloat, floatToF16, doubleToF16, 0x7c00},
};

class FloatConvert : public ::testing::TestWithParam<Format> {};

} // namespace

TEST_P(FloatConvert, RoundTripOfEveryValue) {
  const Format &format = GetParam();
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    auto value = static_cast<uint16_t>(bits);
    float wide = format.widen(value);
    if ((value & 0x7fff) > format.infinity) {
      EXPECT_TRUE(std::isnan(wide));
      EXPECT_TRUE(std::isnan(format.widen(format.narrow(wide))));
      continue;
    }
    EXPECT_EQ(format.narrow(wide), value);
    EXPECT_EQ(format.narrowDouble(wide), value);
  }
}

TEST_P(FloatConvert, RoundsToNearestEven) {
  const Format &format = GetParam();
  constexpr float Infinity = std::numeric_limits<float>::infinity();
  for (uint16_t value = 0; value + 1 < format.infinity; ++value) {
    double low = format.widen(value);
    double high = format.widen(value + 1);
    double middle = (low + high) / 2;
    uint16_t even = value % 2 == 0 ? value : value + 1;
    ASSERT_EQ(format.narrowDouble(middle), even) << value;
    ASSERT_EQ(format.narrowDouble(-middle), even | 0x8000) << value;
    double above = std::nextafter(middle, high);
    double below = std::nextafter(middle, low);
    ASSERT_EQ(format.narrowDouble(above), value + 1) << value;
    ASSERT_EQ(format.narrowDouble(below), value) << value;
    auto middleFloat = static_cast<float>(middle);
    if (middleFloat == middle) {
      ASSERT_EQ(format.narrow(middleFloat), even) << value;
      ASSERT_EQ(format.narrow(std::nextafter(middleFloat, Infinity)), value + 1)
          << value;
      ASSERT_EQ(format.narrow(std::nextafter(middleFloat, -Infinity)), value)
          << value;
    }
  }
}

TEST_P(FloatConvert, Extremes) {
  const Format &format = GetParam();
  float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(format.narrow(infinity), format.infinity);
  EXPECT_EQ(format.narrow(-infinity), format.infinity | 0x8000);
  EXPECT_EQ(format.narrowDouble(infinity), format.infinity);
  EXPECT_EQ(format.narrow(std::numeric_limits<float>::max()), format.infinity);
  EXPECT_EQ(format.narrowDouble(1e300), format.infinity);
  EXPECT_EQ(format.narrowDouble(-1e300), format.infinity | 0x8000);
  EXPECT_EQ(format.narrow(0.0f), 0);
  EXPECT_EQ(format.narrow(-0.0f), 0x8000);
  EXPECT_EQ(format.narrowDouble(1e-300), 0);
  EXPECT_EQ(format.narrow(1e-45f), 0);
}

namespace {
/// An 8-bit format, stated by its parameters.
struct Format8 {
  float (*widen)(uint8_t);
  uint8_t (*narrow)(float);
  uint8_t (*narrowDouble)(double);
  int mantissaBits, bias;
  /// What follows the largest finite number.
  uint8_t beyond;
  bool hasInfinity;

  /// The value of finite bits by definition.
  double getValue(uint8_t bits) const {
    int exponent = (bits & 0x7f) >> mantissaBits;
    int mantissa = bits & ((1 << mantissaBits) - 1);
    double magnitude = exponent == 0
                           ? std::ldexp(mantissa, 1 - bias - mantissaBits)
                           : std::ldexp((1 << mantissaBits) + mantissa,
                                        exponent - bias - mantissaBits);
    return bits & 0x80 ? -magnitude : magnitude;
  }
};

const Format8 Formats8[] = {
    {f8ToFloat<Float8::E4M3>, floatToF8<Float8::E4M3>, doubleToF8<Float8::E4M3>,
     3, 7, 0x7f, false},
    {f8ToFloat<Float8::E5M2>, floatToF8<Float8::E5M2>, doubleToF8<Float8::E5M2>,
     2, 15, 0x7c, true},
};

class Float8Convert : public ::testing::TestWithParam<Format8> {};
} // namespace

TEST_P(Float8Convert, EveryValue) {
  const Format8 &format = GetParam();
  for (int bits = 0; bits < 256; ++bits) {
    auto value = static_cast<uint8_t>(bits);
    float wide = format.widen(value);
    if ((value & 0x7f) < format.beyond) {
      EXPECT_EQ(wide, format.getValue(value)) << bits;
      EXPECT_EQ(std::signbit(wide), bits >= 0x80) << bits;
      EXPECT_EQ(format.narrow(wide), value) << bits;
      EXPECT_EQ(format.narrowDouble(wide), value) << bits;
    } else if (format.hasInfinity && (value & 0x7f) == format.beyond) {
      EXPECT_TRUE(std::isinf(wide)) << bits;
      EXPECT_EQ(format.narrow(wide), value) << bits;
    } else {
      EXPECT_TRUE(std::isnan(wide)) << bits;
      EXPECT_TRUE(std::isnan(format.widen(format.narrow(wide)))) << bits;
    }
  }
}

TEST_P(Float8Convert, RoundsToNearestEven) {
  const Format8 &format = GetParam();
  for (int bits = 0; bits < format.beyond; ++bits) {
    auto value = static_cast<uint8_t>(bits);
    auto next = static_cast<uint8_t>(bits + 1);
    // Beyond the largest number, rounding goes on as if there were more.
    double low = format.getValue(value), high = format.getValue(next);
    double middle = (low + high) / 2;
    uint8_t even = bits % 2 == 0 ? value : next;
    EXPECT_EQ(format.narrowDouble(middle), even) << bits;
    EXPECT_EQ(format.narrowDouble(-middle), even | 0x80) << bits;
    EXPECT_EQ(format.narrow(static_cast<float>(middle)), even) << bits;
    EXPECT_EQ(format.narrowDouble(std::nextafter(middle, high)), next) << bits;
    EXPECT_EQ(format.narrowDouble(std::nextafter(middle, low)), value) << bits;
  }
}

TEST_P(Float8Convert, Extremes) {
  const Format8 &format = GetParam();
  float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(format.narrow(infinity), format.beyond);
  EXPECT_EQ(format.narrow(-infinity), format.beyond | 0x80);
  EXPECT_EQ(format.narrowDouble(1e300), format.beyond);
  EXPECT_EQ(format.narrow(-0.0f), 0x80);
  EXPECT_EQ(format.narrow(1e-45f), 0);
  EXPECT_EQ(format.narrowDouble(-1e-300), 0x80);
}

INSTANTIATE_TEST_SUITE_P(Formats, Float8Convert, ::testing::ValuesIn(Formats8));

INSTANTIATE_TEST_SUITE_P(Formats, FloatConvert, ::testing::ValuesIn(Formats));
