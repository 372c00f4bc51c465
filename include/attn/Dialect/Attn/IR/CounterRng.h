//===- CounterRng.h - Counter-based random number generators ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The generators, as templates on the kind of word: numbers, or SSA values of
// emitted code. `Ops` implements their arithmetic; `NumberOps` does so for
// numbers.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_COUNTERRNG_H
#define ATTN_DIALECT_ATTN_IR_COUNTERRNG_H

#include <array>
#include <cstdint>
#include <utility>

namespace mlir::attn {

/// The golden ratio and the square root of three less one, of which multiples
/// are added to keys from round to round.
constexpr uint32_t weyl0 = 0x9E3779B9;
constexpr uint32_t weyl1 = 0xBB67AE85;

/// Philox4x32 (Salmon et al. 2011).
template <typename Word, typename Ops>
std::array<Word, 4> philox4x32(Ops ops, std::array<Word, 2> key,
                               std::array<Word, 4> counter, unsigned rounds) {
  auto [x0, x1, x2, x3] = counter;
  for (uint32_t round = 0; round < rounds; ++round) {
    auto [low0, high0] = ops.multiply(x0, 0xD2511F53);
    auto [low1, high1] = ops.multiply(x2, 0xCD9E8D57);
    x0 = ops.bitXor(ops.bitXor(high1, x1), ops.add(key[0], round * weyl0));
    x1 = low1;
    x2 = ops.bitXor(ops.bitXor(high0, x3), ops.add(key[1], round * weyl1));
    x3 = low0;
  }
  return {x0, x1, x2, x3};
}

/// Threefry4x32 (Salmon et al. 2011).
template <typename Word, typename Ops>
std::array<Word, 4> threefry4x32(Ops ops, std::array<Word, 4> key,
                                 std::array<Word, 4> counter, unsigned rounds) {
  constexpr unsigned rotations[8][2] = {{10, 26}, {11, 21}, {13, 27}, {23, 5},
                                        {6, 20},  {17, 11}, {25, 10}, {18, 20}};
  constexpr uint32_t parity = 0x1BD11BDA;
  Word extended = ops.bitXor(
      ops.bitXor(ops.bitXor(key[0], key[1]), ops.bitXor(key[2], key[3])),
      parity);
  auto getKey = [&](unsigned i) { return i % 5 == 4 ? extended : key[i % 5]; };

  std::array<Word, 4> x = counter;
  auto injectKey = [&](uint32_t number) {
    for (unsigned i = 0; i < 4; ++i)
      x[i] = ops.add(x[i], getKey(number + i));
    x[3] = ops.add(x[3], number);
  };
  injectKey(0);
  for (unsigned round = 0; round < rounds; ++round) {
    // Pairs are (0, 1) and (2, 3) in even rounds, (0, 3) and (2, 1) in odd
    // ones.
    unsigned partner = round % 2 == 0 ? 1 : 3;
    for (unsigned pair : {0, 1}) {
      Word &first = x[2 * pair], &second = x[pair == 0 ? partner : 4 - partner];
      first = ops.add(first, second);
      second =
          ops.bitXor(ops.rotateLeft(second, rotations[round % 8][pair]), first);
    }
    if (round % 4 == 3)
      injectKey(round / 4 + 1);
  }
  return x;
}

/// Rounds of the permutation of Chaskey (Mouha et al. 2014), each with the key
/// schedule of Philox.
template <typename Word, typename Ops>
std::array<Word, 4> arx4x32(Ops ops, std::array<Word, 2> key,
                            std::array<Word, 4> counter, unsigned rounds) {
  auto [x0, x1, x2, x3] = counter;
  for (uint32_t round = 0; round < rounds; ++round) {
    x0 = ops.add(ops.add(x0, x1), ops.add(key[0], round * weyl0));
    x1 = ops.bitXor(ops.rotateLeft(x1, 5), x0);
    x0 = ops.rotateLeft(x0, 16);
    x2 = ops.add(ops.add(x2, x3), ops.add(key[1], round * weyl1));
    x3 = ops.bitXor(ops.rotateLeft(x3, 8), x2);
    x0 = ops.add(x0, x3);
    x3 = ops.bitXor(ops.rotateLeft(x3, 13), x0);
    x2 = ops.add(x2, x1);
    x1 = ops.bitXor(ops.rotateLeft(x1, 7), x2);
    x2 = ops.rotateLeft(x2, 16);
  }
  return {x0, x1, x2, x3};
}

/// The arithmetic of numbers.
struct NumberOps {
  uint32_t add(uint32_t a, uint32_t b) { return a + b; }
  uint32_t bitXor(uint32_t a, uint32_t b) { return a ^ b; }
  uint32_t bitAnd(uint32_t a, uint32_t b) { return a & b; }
  uint32_t bitOr(uint32_t a, uint32_t b) { return a | b; }
  uint32_t shiftLeft(uint32_t a, unsigned n) { return a << n; }
  uint32_t shiftRight(uint32_t a, unsigned n) { return a >> n; }
  uint32_t constant(uint32_t, uint32_t number) { return number; }
  uint32_t rotateLeft(uint32_t a, unsigned n) { return a << n | a >> (32 - n); }
  std::pair<uint32_t, uint32_t> multiply(uint32_t a, uint32_t b) {
    uint64_t product = uint64_t(a) * b;
    return {static_cast<uint32_t>(product),
            static_cast<uint32_t>(product >> 32)};
  }
};

/// A word of which only the defining instruction matters: an addition or logic,
/// which could take one more operand, or any other instruction.
enum class CountedWord { Other, Sum, Logic };

/// Counts instructions of GPUs, which add three numbers in one, and combine
/// three by logic. Additions to a key are computed once and not counted.
struct CountOps {
  int64_t &integer;
  int64_t &wideMultiply;

  CountedWord count(CountedWord a, CountedWord b, CountedWord kind) {
    // An operand of the same kind takes this one in.
    if (a == kind || b == kind)
      return CountedWord::Other;
    ++integer;
    return kind;
  }
  CountedWord add(CountedWord a, CountedWord b) {
    return count(a, b, CountedWord::Sum);
  }
  CountedWord add(CountedWord, uint32_t) { return CountedWord::Other; }
  CountedWord bitXor(CountedWord a, CountedWord b) {
    return count(a, b, CountedWord::Logic);
  }
  CountedWord bitXor(CountedWord a, uint32_t) { return a; }
  CountedWord bitAnd(CountedWord a, CountedWord b) { return bitXor(a, b); }
  CountedWord bitOr(CountedWord a, CountedWord b) { return bitXor(a, b); }
  CountedWord shift() {
    ++integer;
    return CountedWord::Other;
  }
  CountedWord shiftLeft(CountedWord, unsigned) { return shift(); }
  CountedWord shiftRight(CountedWord, unsigned) { return shift(); }
  CountedWord rotateLeft(CountedWord, unsigned) { return shift(); }
  CountedWord constant(CountedWord, uint32_t) { return CountedWord::Other; }
  std::pair<CountedWord, CountedWord> multiply(CountedWord, uint32_t) {
    ++wideMultiply;
    return {CountedWord::Other, CountedWord::Other};
  }
};

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_COUNTERRNG_H
