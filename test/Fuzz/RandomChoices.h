//===- RandomChoices.h - Choices by the bytes of an input -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The bytes of an input as a sequence of choices. When they are used up, random
// numbers that begin with a hash of the bytes follow. Without an input, all
// choices are random numbers.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_FUZZ_RANDOMCHOICES_H
#define ATTN_TEST_FUZZ_RANDOMCHOICES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/xxhash.h"

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <random>

namespace mlir::attn::fuzz {

class RandomChoices {
public:
  explicit RandomChoices(llvm::ArrayRef<uint8_t> bytes)
      : bytes(bytes), random(llvm::xxh3_64bits(bytes)) {}
  explicit RandomChoices(uint64_t seed) : random(seed) {}

  /// A number below `bound`, which is at least 1.
  uint64_t below(uint64_t bound) { return next() % bound; }
  /// A number from `low` to `high`.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(high - low + 1));
  }
  /// True once in `count` times.
  bool onceIn(uint64_t count) { return below(count) == 0; }
  /// A number from 0 to 1.
  double fraction() { return std::ldexp(double(random() >> 11), -53); }
  uint64_t word() { return random(); }

  template <typename Range>
  auto pick(const Range &range) {
    return *std::next(range.begin(),
                      below(std::distance(range.begin(), range.end())));
  }
  template <typename T>
  T pick(std::initializer_list<T> list) {
    return *std::next(list.begin(), below(list.size()));
  }

private:
  uint64_t next() {
    if (bytes.empty())
      return random();
    uint64_t byte = bytes.front();
    bytes = bytes.drop_front();
    return byte;
  }

  llvm::ArrayRef<uint8_t> bytes;
  std::mt19937_64 random;
};

} // namespace mlir::attn::fuzz

#endif // ATTN_TEST_FUZZ_RANDOMCHOICES_H
