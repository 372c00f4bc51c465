//===- RoundToBF16.cpp - Rounding that processors may lack ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What LLVM calls where it keeps a bf16 in a register of a processor without
// instructions for it, as it does to put one into a vector. The libraries of
// GCC have the function from version 13 on only.
//
//===----------------------------------------------------------------------===//

#include "attn-runtime/attn_runtime.h"

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
