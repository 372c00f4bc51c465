//===- MaskAlgebraTest.cpp - Tests of the simplification of masks ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Simplifies thousands of random masks and compares them with the originals,
// pair by pair; finds names for the code of random masks likewise.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskAlgebra.h"
#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace mlir::attn;

namespace {
class MaskAlgebraTest : public ::testing::TestWithParam<unsigned> {
protected:
  MaskAlgebraTest() : random(GetParam()) {
    context.loadDialect<arith::ArithDialect, AttnDialect>();
  }

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  }

  std::optional<int64_t> pickSide() {
    return pick(0, 2) == 0 ? std::nullopt : std::optional(pick(0, 9));
  }

  MaskAttrInterface makeSingle() {
    auto alignment =
        pick(0, 2) ? MaskAlignment::BottomRight : MaskAlignment::TopLeft;
    std::optional<int64_t> left = pickSide(), right = pickSide();
    if (!left && !right)
      left = 3;
    switch (pick(0, 7)) {
    case 0:
      return CausalAttr::get(&context, alignment);
    case 1:
    case 2:
      return SlidingWindowAttr::get(&context, left, right, alignment);
    case 3:
      return PrefixLMAttr::get(&context, pick(0, 8), alignment);
    case 4:
      return DilatedWindowAttr::get(&context, pick(0, 9), pick(0, 5),
                                    pick(1, 4), alignment);
    case 5:
      return GlobalTokensAttr::get(&context, pick(0, 4));
    case 6:
      return pick(0, 9) ? MaskAttrInterface(GlobalTokensAttr::get(&context, 2))
                        : NoneAttr::get(&context);
    default:
      return LocalBlocksAttr::get(&context, pick(1, 5), left, right, alignment);
    }
  }

  MaskAttrInterface makeMask(int depth) {
    if (depth == 0 || pick(0, 5) == 0)
      return makeSingle();
    if (pick(0, 3) == 0)
      return NotAttr::get(&context, makeMask(depth - 1));
    SmallVector<MaskAttrInterface> parts;
    for (int64_t i = 0, e = pick(1, 3); i < e; ++i)
      parts.push_back(makeMask(depth - 1));
    if (pick(0, 1))
      return AndAttr::get(&context, parts);
    return OrAttr::get(&context, parts);
  }

  /// Checks that `actual`, where null keeps all pairs, is `expected`.
  void check(MaskAttrInterface expected, MaskAttrInterface actual,
             int64_t queryLength, int64_t keyLength) {
    for (int64_t query = 0; query < queryLength; ++query) {
      for (int64_t key = 0; key < keyLength; ++key) {
        bool isKept =
            !actual || actual.isAttended(query, key, queryLength, keyLength);
        ASSERT_EQ(expected.isAttended(query, key, queryLength, keyLength),
                  isKept)
            << print(expected) << " became " << print(actual) << " at " << query
            << ", " << key << " of " << queryLength << " x " << keyLength;
      }
    }
  }

  void checkAllLengths(MaskAttrInterface expected, MaskAttrInterface actual) {
    for (auto [query, key] : lengths)
      check(expected, actual, query, key);
  }

  static std::string print(MaskAttrInterface mask) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    if (mask)
      stream << mask;
    return mask ? text : "no mask";
  }

  static size_t count(MaskAttrInterface mask) {
    size_t result = 0;
    if (mask)
      mask.walk([&](MaskAttrInterface) { ++result; });
    return result;
  }

  MLIRContext context;
  std::mt19937 random;
  const std::vector<std::pair<int64_t, int64_t>> lengths = {
      {1, 1}, {1, 7}, {7, 1}, {6, 6}, {5, 13}, {13, 5}, {17, 17}};
};
} // namespace

TEST_P(MaskAlgebraTest, SimplifiedMasksKeepTheSamePairs) {
  size_t before = 0, after = 0;
  for (int i = 0; i < 60; ++i) {
    MaskAttrInterface mask = makeMask(pick(0, 3));
    bool isStatic = pick(0, 1);
    auto [query, key] = lengths[pick(0, lengths.size() - 1)];
    MaskScope scope(&context, isStatic ? query : ShapedType::kDynamic,
                    isStatic ? key : ShapedType::kDynamic);
    MaskAttrInterface simplified = simplifyMask(scope, mask);
    if (isStatic)
      check(mask, simplified, query, key);
    else
      checkAllLengths(mask, simplified);
    if (simplified)
      ASSERT_EQ(simplifyMask(scope, simplified), simplified) << print(mask);
    before += count(mask);
    after += count(simplified);
  }
  EXPECT_LT(after, before * 2 / 3);
}

TEST_P(MaskAlgebraTest, ConstantsOfStaticLengthsAreFound) {
  for (int i = 0; i < 60; ++i) {
    MaskAttrInterface mask = makeSingle();
    // Of strides only the bounds are seen: proofs are over the rationals.
    if (isa<DilatedWindowAttr>(mask))
      continue;
    auto [query, key] = lengths[pick(0, lengths.size() - 1)];
    MaskScope scope(&context, query, key);
    bool isAny = false, isAll = true;
    for (int64_t row = 0; row < query; ++row) {
      for (int64_t column = 0; column < key; ++column) {
        bool isKept = mask.isAttended(row, column, query, key);
        isAny |= isKept;
        isAll &= isKept;
      }
    }
    MaskAttrInterface simplified = simplifyMask(scope, mask);
    EXPECT_EQ(isAll, !simplified)
        << print(mask) << " of " << query << " x " << key;
    EXPECT_EQ(!isAny, simplified && isa<NoneAttr>(simplified)) << print(mask);
  }
}

TEST_P(MaskAlgebraTest, NamesAreThoseOfThePredicate) {
  size_t numNamed = 0;
  for (int i = 0; i < 60; ++i) {
    MaskAttrInterface mask = makeMask(pick(0, 2));
    bool isStatic = pick(0, 1);
    auto [query, key] = lengths[pick(0, lengths.size() - 1)];
    MaskScope scope(&context, isStatic ? query : ShapedType::kDynamic,
                    isStatic ? key : ShapedType::kDynamic);
    MaskAttrInterface name = scope.recognize(scope.getPredicate(mask));
    if (!name)
      continue;
    ++numNamed;
    if (isStatic)
      check(mask, name, query, key);
    else
      checkAllLengths(mask, name);
  }
  EXPECT_GT(numNamed, 20u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, MaskAlgebraTest,
                         ::testing::Range<unsigned>(0, 20));
