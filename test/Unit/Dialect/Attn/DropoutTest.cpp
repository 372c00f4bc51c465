//===- DropoutTest.cpp - Tests of generators and dropout ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the generators with published vectors, emitted code with the C++
// implementation, and keep masks with the definition in docs/rng.md.
//
//===----------------------------------------------------------------------===//

#include "EmittedFunction.h"
#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Dialect/Attn/IR/CounterRng.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

using Words = std::array<uint32_t, 4>;

namespace {

/// Digits of pi.
constexpr Words piCounter = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
constexpr Words piKey = {0xa4093822, 0x299f31d0, 0x082efa98, 0xec4e6c89};
constexpr Words zeros = {0, 0, 0, 0};
constexpr Words ones = {~0u, ~0u, ~0u, ~0u};

/// The vectors of Random123 (`kat_vectors`).
TEST(CounterRngTest, PhiloxVectors) {
  auto run = [](Words key, Words counter, unsigned rounds) {
    return philox4x32(NumberOps(), {key[0], key[1]}, counter, rounds);
  };
  EXPECT_EQ(run(zeros, zeros, 7),
            (Words{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  EXPECT_EQ(run(ones, ones, 7),
            (Words{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}));
  EXPECT_EQ(run(piKey, piCounter, 7),
            (Words{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}));
  EXPECT_EQ(run(zeros, zeros, 10),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(run(ones, ones, 10),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(run(piKey, piCounter, 10),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRngTest, ThreefryVectors) {
  auto run = [](Words key, Words counter, unsigned rounds) {
    return threefry4x32(NumberOps(), key, counter, rounds);
  };
  EXPECT_EQ(run(zeros, zeros, 13),
            (Words{0x531c7e4f, 0x39491ee5, 0x2c855a92, 0x3d6abf9a}));
  EXPECT_EQ(run(ones, ones, 13),
            (Words{0xc4189358, 0x1c9cc83a, 0xd5881c67, 0x6a0a89e0}));
  EXPECT_EQ(run(piKey, piCounter, 13),
            (Words{0x4aa71d8f, 0x734738c2, 0x431fc6a8, 0xae6debf1}));
  EXPECT_EQ(run(zeros, zeros, 20),
            (Words{0x9c6ca96a, 0xe17eae66, 0xfc10ecd4, 0x5256a7d8}));
  EXPECT_EQ(run(ones, ones, 20),
            (Words{0x2a881696, 0x57012287, 0xf6c7446e, 0xa16a6732}));
  EXPECT_EQ(run(piKey, piCounter, 20),
            (Words{0x59cd1dbb, 0xb8879579, 0x86b5d00c, 0xac8b6d84}));
}

/// Instructions for each round as docs/rng.md says, and for a word a shift and
/// two combinations, one of which is a part of a logic operation.
TEST(CounterRngTest, Counts) {
  MLIRContext context;
  context.loadDialect<AttnDialect>();
  auto philox = PhiloxAttr::get(&context, 7);
  EXPECT_EQ(philox.countBlock().integer, 14);
  EXPECT_EQ(philox.countBlock().wideMultiply, 14);
  auto arx = ArxAttr::get(&context, 6);
  EXPECT_EQ(arx.countBlock().integer, 84);
  EXPECT_EQ(arx.countBlock().wideMultiply, 0);
  auto threefry = ThreefryAttr::get(&context, 12);
  EXPECT_GE(threefry.countBlock().integer, 72);
  EXPECT_LE(threefry.countBlock().integer, 96);
  auto dropout = DropoutAttr::get(&context, APFloat(0.125), arx, 8);
  EXPECT_GE(dropout.countKeepWord().integer, 86);
  EXPECT_LE(dropout.countKeepWord().integer, 87);
}

/// Chaskey's permutation of 8 rounds has no key; with a key that undoes the
/// schedule in each round, one round at a time is that permutation.
TEST(CounterRngTest, ArxRoundIsThatOfChaskey) {
  // The permutation as it is written in the reference code of Chaskey.
  auto permute = [](Words v) {
    auto rotate = [](uint32_t x, int n) { return x << n | x >> (32 - n); };
    v[0] += v[1], v[1] = rotate(v[1], 5), v[1] ^= v[0], v[0] = rotate(v[0], 16);
    v[2] += v[3], v[3] = rotate(v[3], 8), v[3] ^= v[2];
    v[0] += v[3], v[3] = rotate(v[3], 13), v[3] ^= v[0];
    v[2] += v[1], v[1] = rotate(v[1], 7), v[1] ^= v[2], v[2] = rotate(v[2], 16);
    return v;
  };
  EXPECT_EQ(arx4x32(NumberOps(), {0, 0}, piCounter, 1), permute(piCounter));
  // The key is added to the first values of each round, with its constants.
  Words state = piCounter;
  for (uint32_t round = 0; round < 6; ++round) {
    std::array<uint32_t, 2> key = {piKey[0] + round * weyl0,
                                   piKey[1] + round * weyl1};
    state = arx4x32(NumberOps(), key, state, 1);
  }
  EXPECT_EQ(arx4x32(NumberOps(), {piKey[0], piKey[1]}, piCounter, 6), state);
}

/// Drops with each generator and resolution.
class DropoutTest : public ::testing::TestWithParam<const char *> {
protected:
  DropoutTest() {
    context.loadDialect<AttnDialect>();
    dropout = cast<DropoutAttr>(parseAttribute(GetParam(), &context));
  }

  MLIRContext context;
  DropoutAttr dropout;
};

TEST_P(DropoutTest, EmittedCodeAgrees) {
  Type i64 = IntegerType::get(&context, 64),
       i32 = IntegerType::get(&context, 32);
  Type index = IndexType::get(&context);
  EmittedFunction function({i64, i64, index, index, i32, i32});
  auto argument = [&](unsigned i) { return function.getArgument(i); };
  OpBuilder &builder = function.getBuilder();
  RngBlock<Value> stream =
      dropout.emitStream(builder, function.getLoc(), argument(0), argument(1),
                         argument(2), argument(3));
  Value word = dropout.emitKeepWord(builder, function.getLoc(), stream,
                                    argument(4), argument(5));
  const int64_t samples[][6] = {
      {0, 0, 0, 0, 0, 0},
      {42, 4, 1, 3, 77, 5},
      {-1, -1, 7, 127, 0x3fffffff, 0x7ffffff},
      {int64_t(1) << 40, int64_t(3) << 33, 0, 1, 8, 9}};
  for (const int64_t (&sample)[6] : samples) {
    function.run(sample);
    Words expected =
        dropout.computeStream(sample[0], sample[1], sample[2], sample[3]);
    for (unsigned i = 0; i < 4; ++i)
      EXPECT_EQ(function.get(stream[i]), expected[i]);
    EXPECT_EQ(function.get(word),
              dropout.computeKeepWord(expected, sample[4], sample[5]));
  }
}

/// A probability is kept if its number, made of bits of the random words of its
/// word of the keep mask, is at least the threshold.
TEST_P(DropoutTest, KeepBitsCompareNumbers) {
  Words stream = dropout.computeStream(42, 4, 1, 3);
  for (int64_t query : {0, 5, 9, 31, 1000}) {
    for (int64_t key : {0, 3, 17, 40, 5000}) {
      int64_t bit =
          key % 2 * 16 + key / 2 % 4 * 4 + key / 8 % 2 * 2 + query / 8 % 2;
      uint32_t number = 0;
      for (uint32_t i = 0; i < dropout.getBits(); ++i) {
        uint32_t counter = key / 16 * 4 + i / 4;
        uint32_t row = query / 16 * 8 + query % 8;
        Words words = dropout.getRng().computeBlock(
            {stream[0], stream[1]}, {counter, row, stream[2], stream[3]});
        number = number << 1 | (words[i % 4] >> bit & 1);
      }
      EXPECT_EQ(dropout.isKept(stream, query, key),
                number >= dropout.getThreshold());
    }
  }
}

TEST_P(DropoutTest, KeepsAsOftenAsStated) {
  Words stream = dropout.computeStream(7, 0, 0, 0);
  int64_t kept = 0, size = 256;
  for (int64_t query = 0; query < size; ++query)
    for (int64_t key = 0; key < size; ++key)
      kept += dropout.isKept(stream, query, key);
  double count = size * size, p = dropout.getDropProbability();
  double deviation = std::sqrt(count * p * (1 - p));
  EXPECT_LE(std::abs(kept - count * (1 - p)), 4 * deviation);
}

INSTANTIATE_TEST_SUITE_P(
    Dropouts, DropoutTest,
    ::testing::Values(
        "#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>, bits = 4>",
        "#attn.dropout<p = 0.1, rng = #attn.philox>",
        "#attn.dropout<p = 0.7, rng = #attn.threefry<rounds = 12>>",
        "#attn.dropout<p = 0.01, rng = #attn.threefry, bits = 16>",
        "#attn.dropout<p = 0.5, rng = #attn.arx>",
        "#attn.dropout<p = 0.9, rng = #attn.arx, bits = 16>",
        "#attn.dropout<p = 0.0, rng = #attn.arx>"));

TEST(DropoutAttrTest, BitsBeyondTheLastOneOfTheThresholdDoNotMatter) {
  MLIRContext context;
  context.loadDialect<AttnDialect>();
  auto parse = [&](StringRef text) {
    return cast<DropoutAttr>(parseAttribute(text, &context));
  };
  DropoutAttr coarse =
      parse("#attn.dropout<p = 0.125, rng = #attn.arx, bits = 4>");
  DropoutAttr fine =
      parse("#attn.dropout<p = 0.125, rng = #attn.arx, bits = 16>");
  Words stream = coarse.computeStream(1, 2, 3, 4);
  for (uint32_t row = 0; row < 64; ++row)
    EXPECT_EQ(coarse.computeKeepWord(stream, row, row / 2),
              fine.computeKeepWord(stream, row, row / 2));
}

} // namespace
