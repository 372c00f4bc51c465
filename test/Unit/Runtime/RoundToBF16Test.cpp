//===- RoundToBF16Test.cpp - Rounding that processors may lack ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers between two bf16, next to them and beyond them.
//
//===----------------------------------------------------------------------===//

#include "attn-runtime/attn_runtime.h"
#include "gtest/gtest.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" float __truncsfbf2(float value);
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" float __truncdfbf2(double value);

/// The number in the low half of `result`.
static float widen(float result) {
  uint32_t bits;
  std::memcpy(&bits, &result, sizeof(bits));
  bits <<= 16;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

static float roundDouble(double value) { return widen(__truncdfbf2(value)); }

TEST(RoundToBF16, Floats) {
  EXPECT_EQ(widen(__truncsfbf2(1.0f)), 1.0f);
  // Between 1 and 1 + 2^-7; between that and 1 + 2^-6.
  EXPECT_EQ(widen(__truncsfbf2(1 + 0x1p-8f)), 1.0f);
  EXPECT_EQ(widen(__truncsfbf2(1 + 0x1p-8f + 0x1p-20f)), 1 + 0x1p-7f);
  EXPECT_EQ(widen(__truncsfbf2(1 + 0x3p-8f)), 1 + 0x1p-6f);
}

TEST(RoundToBF16, DoublesAreRoundedOnce) {
  for (double sign : {1.0, -1.0}) {
    EXPECT_EQ(roundDouble(sign), sign);
    EXPECT_EQ(roundDouble(sign * (1 + 0x1p-8)), sign);
    // As f32 both would lie in the middle.
    EXPECT_EQ(roundDouble(sign * (1 + 0x1p-8 + 0x1p-40)), sign * (1 + 0x1p-7));
    EXPECT_EQ(roundDouble(sign * (1 + 0x3p-8 - 0x1p-40)), sign * (1 + 0x1p-7));
    EXPECT_EQ(roundDouble(sign * (1 + 0x3p-8)), sign * (1 + 0x1p-6));
  }
}

TEST(RoundToBF16, DoublesBeyondF32) {
  double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(roundDouble(infinity), infinity);
  EXPECT_EQ(roundDouble(-infinity), -infinity);
  EXPECT_EQ(roundDouble(1e300), infinity);
  EXPECT_EQ(roundDouble(-1e300), -infinity);
  EXPECT_EQ(roundDouble(1e-300), 0);
  EXPECT_TRUE(std::signbit(roundDouble(-1e-300)));
  EXPECT_TRUE(std::isnan(roundDouble(std::nan(""))));
}
