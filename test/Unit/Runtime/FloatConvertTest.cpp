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

INSTANTIATE_TEST_SUITE_P(Formats, FloatConvert, ::testing::ValuesIn(Formats));
