//===- Random.h - Reproducible inputs ---------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A counter-based generator of test data. An element's value depends on the
// seed, the number of the argument and the element's row-major index alone: not
// on memory order, dtype (but for its rounding), threads or machine. It needs
// integer operations and one exact conversion only, so that another program, in
// any language, can make the same inputs:
//
//   splitmix(x):  x ^= x >> 30;  x *= 0xbf58476d1ce4e5b9
//                 x ^= x >> 27;  x *= 0x94d049bb133111eb
//                 x ^= x >> 31                              (64-bit, wrapping)
//   key         = splitmix(splitmix(seed + G) + (argument + 1) * G)
//   word(i, k)  = splitmix(key + (3 * i + k + 1) * G)      for k = 0, 1, 2
//   normal(i)   = (sum of the twelve 16-bit parts of the words - 393210) /
//   65536 uniform(i)  = (word(i, 0) >> 11) / 2^53
//
// with G = 0x9e3779b97f4a7c15. `normal` has mean 0, variance 1 (less 2^-32) and
// values in (-6, 6).
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_RUNTIME_SUPPORT_RANDOM_H
#define ATTN_LIB_RUNTIME_SUPPORT_RANDOM_H

#include "HostTensor.h"

namespace attnrt {

/// The values of one argument.
class RandomStream {
public:
  RandomStream(uint64_t seed, uint64_t argument);

  double normal(int64_t index) const;
  double uniform(int64_t index) const;

private:
  uint64_t word(int64_t index, int part) const;

  uint64_t key;
};

/// How the elements of an argument are made.
struct Fill {
  enum class Kind {
    /// normal(i) * a
    Normal,
    /// a + (b - a) * uniform(i), rounded down for integers
    Uniform,
    /// a
    Constant,
    /// i, row-major
    Iota
  };
  Kind kind = Kind::Normal;
  double a = 1;
  double b = 1;
};

/// The default contents of an argument: normal values if it is floating point,
/// fair coins if it is i1, zeros if it is an integer (which are valid as ids,
/// indices and offsets, whatever their range).
Fill getDefaultFill(int32_t dtype);

/// Parses "normal", "normal:SCALE", "uniform:LOW:HIGH", "zeros", "ones",
/// "const:VALUE" or "iota".
int32_t parseFill(const std::string &text, Fill &fill);

/// Sets all elements.
void fillTensor(HostTensor &tensor, const Fill &fill,
                const RandomStream &stream);

} // namespace attnrt

#endif // ATTN_LIB_RUNTIME_SUPPORT_RANDOM_H
