//===- FloatConvert.h - 16-bit and 8-bit floats -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversions between the 16-bit and 8-bit floating point formats and float or
// double. Narrowing rounds to nearest, ties to even, and rounds once;
// infinities, signed zeros and denormals are kept, and a NaN stays a (quiet)
// NaN. E4M3 has no infinities: they, and numbers that would be rounded beyond
// 448, become NaN.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_RUNTIME_SUPPORT_FLOATCONVERT_H
#define ATTN_LIB_RUNTIME_SUPPORT_FLOATCONVERT_H

#include <cmath>
#include <cstdint>
#include <cstring>

namespace attnrt {

inline uint32_t floatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float bitsToFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float bf16ToFloat(uint16_t value) {
  return bitsToFloat(static_cast<uint32_t>(value) << 16);
}

inline uint16_t floatToBf16(float value) {
  uint32_t bits = floatBits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  // Adding just under one half rounds up all but ties; the lowest bit that
  // stays tells which way a tie goes.
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>(bits >> 16);
}

inline float f16ToFloat(uint16_t value) {
  uint32_t sign = static_cast<uint32_t>(value & 0x8000u) << 16;
  uint32_t exponent = (value >> 10) & 0x1fu;
  uint32_t mantissa = value & 0x3ffu;
  if (exponent == 0x1fu)
    return bitsToFloat(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    // A denormal: mantissa units of 2^-24, exact in float.
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return bitsToFloat(floatBits(magnitude) | sign);
  }
  return bitsToFloat(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

inline uint16_t floatToF16(float value) {
  uint32_t bits = floatBits(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  // 65520 and more round to infinity.
  if (magnitude >= 0x477ff000u)
    return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14. Adding 0.5 makes the float adder round to units of 2^-24.
    float shifted = bitsToFloat(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (floatBits(shifted) - 0x3f000000u));
  }
  magnitude += 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u) >> 13));
}

/// Narrows to float so that narrowing once more gives what rounding once would:
/// an inexact result gets an odd last bit.
inline float doubleToFloatOdd(double value) {
  float narrow = static_cast<float>(value);
  double back = narrow;
  if (back == value || value != value)
    return narrow;
  uint32_t bits = floatBits(narrow);
  if (std::isinf(narrow))
    return bitsToFloat(bits - 1);
  if (bits & 1u)
    return narrow;
  // The odd neighbour is on the other side of the value.
  bool awayFromZero = std::fabs(value) > std::fabs(back);
  return bitsToFloat(awayFromZero ? bits + 1 : bits - 1);
}

inline uint16_t doubleToBf16(double value) {
  return floatToBf16(std::isinf(value) ? static_cast<float>(value)
                                       : doubleToFloatOdd(value));
}

inline uint16_t doubleToF16(double value) {
  return floatToF16(std::isinf(value) ? static_cast<float>(value)
                                      : doubleToFloatOdd(value));
}

/// The 8-bit formats E4M3 (`f8E4M3FN`) and E5M2.
enum class Float8 { E4M3, E5M2 };

/// E5M2 is the upper byte of f16, and E4M3 has 8 exponents less below and
/// above.
template <Float8 format>
inline float f8ToFloat(uint8_t value) {
  if (format == Float8::E5M2)
    return f16ToFloat(static_cast<uint16_t>(value << 8));
  uint32_t sign = static_cast<uint32_t>(value & 0x80u) << 24;
  uint32_t exponent = (value >> 3) & 0xfu;
  uint32_t mantissa = value & 0x7u;
  if ((value & 0x7fu) == 0x7fu)
    return bitsToFloat(sign | 0x7fc00000u);
  if (exponent == 0) {
    // A denormal: mantissa units of 2^-9.
    float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return bitsToFloat(floatBits(magnitude) | sign);
  }
  return bitsToFloat(sign | ((exponent + 120u) << 23) | (mantissa << 20));
}

template <Float8 format>
inline uint8_t floatToF8(float value) {
  constexpr bool isE4M3 = format == Float8::E4M3;
  // Of E4M3 and E5M2: the bits of f32 that are dropped, the exponent of the
  // distance of denormals, and the bits of infinity or the NaN in its place.
  constexpr uint32_t shift = isE4M3 ? 20 : 21;
  constexpr uint32_t leastNormal = isE4M3 ? 0x3c800000u : 0x38800000u;
  constexpr float denormalShift = isE4M3 ? 0x1p14f : 0x1p7f;
  constexpr uint32_t infinity = isE4M3 ? 0x7fu : 0x7cu;
  uint32_t bits = floatBits(value);
  uint32_t sign = (bits >> 24) & 0x80u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude < leastNormal) {
    float shifted = bitsToFloat(magnitude) + denormalShift;
    return static_cast<uint8_t>(
        sign | (floatBits(shifted) - floatBits(denormalShift)));
  }
  magnitude += (1u << (shift - 1)) - 1 + ((magnitude >> shift) & 1u);
  uint32_t least = 1u << (23 - shift);
  uint32_t narrow = ((magnitude - leastNormal) >> shift) + least;
  return static_cast<uint8_t>(sign | (narrow < infinity ? narrow : infinity));
}

template <Float8 format>
inline uint8_t doubleToF8(double value) {
  return floatToF8<format>(std::isinf(value) ? static_cast<float>(value)
                                             : doubleToFloatOdd(value));
}

} // namespace attnrt

#endif // ATTN_LIB_RUNTIME_SUPPORT_FLOATCONVERT_H
