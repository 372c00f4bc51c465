//===- RoundToBF16.cpp - Rounding that processors may lack ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions that LLVM calls to round to bf16 for a processor without
// instructions for it. The libraries of GCC have them from version 13 on only.
//
//===----------------------------------------------------------------------===//

#include "attn-runtime/attn_runtime.h"

#include <cmath>
#include <cstdint>
#include <cstring>

/// Rounds `value` to the nearest bf16, to an even one if two are as near. A
/// bf16 is returned in the low half of the register of a float.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" ATTNRT_EXPORT __attribute__((weak)) float __truncsfbf2(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  constexpr uint32_t quietBit = 0x400000;
  if (value != value)
    bits |= quietBit;
  else
    bits += 0x7fff + (bits >> 16 & 1);
  bits >>= 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

/// The same of an f64. It is rounded to an odd f32 first where it is none, so
/// that the second rounding sees on which side of a bf16 it lies (Boldo and
/// Melquiond 2008).
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" ATTNRT_EXPORT __attribute__((weak)) float
__truncdfbf2(double value) {
  // NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
  float rounded = static_cast<float>(value);
  double back = rounded;
  uint32_t bits;
  std::memcpy(&bits, &rounded, sizeof(bits));
  if (value == value && back != value && (bits & 1) == 0) {
    bool isAbove = std::fabs(back) > std::fabs(value);
    bits += isAbove ? -1 : 1;
    std::memcpy(&rounded, &bits, sizeof(rounded));
  }
  return __truncsfbf2(rounded);
}
