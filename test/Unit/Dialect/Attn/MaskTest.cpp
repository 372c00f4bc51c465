//===- MaskTest.cpp - Tests of the mask interface -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks what masks promise through MaskAttrInterface: the code that they emit
// is evaluated by folding and compared with `isAttended` on each pair.
//
//===----------------------------------------------------------------------===//

#include "EmittedFunction.h"
#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <random>

using namespace mlir;
using namespace mlir::attn;

namespace {

struct Lengths {
  int64_t query, key;
};

/// All small lengths, and some larger ones.
std::vector<Lengths> getLengths() {
  std::vector<Lengths> all;
  for (int64_t query = 1; query <= 5; ++query)
    for (int64_t key = 1; key <= 5; ++key)
      all.push_back({query, key});
  std::mt19937 random(0);
  std::uniform_int_distribution<int64_t> length(1, 40);
  for (int i = 0; i < 12; ++i)
    all.push_back({length(random), length(random)});
  return all;
}

class MaskTest : public ::testing::TestWithParam<const char *> {
protected:
  MaskTest() {
    context.loadDialect<AttnDialect>();
    mask = cast<MaskAttrInterface>(parseAttribute(GetParam(), &context));
  }

  bool isAttended(Lengths lengths, int64_t query, int64_t key) {
    return mask.isAttended(query, key, lengths.query, lengths.key);
  }

  /// Whether a query in [first, last] attends to `key`.
  bool isAttendedByAny(Lengths lengths, int64_t first, int64_t last,
                       int64_t key) {
    for (int64_t i = first; i <= std::min(last, lengths.query - 1); ++i)
      if (isAttended(lengths, i, key))
        return true;
    return false;
  }

  /// Whether all queries in [first, last] attend to `key`.
  bool isAttendedByAll(Lengths lengths, int64_t first, int64_t last,
                       int64_t key) {
    for (int64_t i = first; i <= std::min(last, lengths.query - 1); ++i)
      if (!isAttended(lengths, i, key))
        return false;
    return true;
  }

  MLIRContext context;
  MaskAttrInterface mask;
};

/// Diagonal bands promise more than other masks.
using BandTest = MaskTest;

} // namespace

TEST_P(MaskTest, PredicateAgreesWithIsAttended) {
  EmittedFunction function(SmallVector<Type>(6, IndexType::get(&context)));
  MaskPosition at{function.getArgument(0), function.getArgument(1),
                  function.getArgument(2), function.getArgument(3),
                  function.getArgument(4), function.getArgument(5)};
  Value keep = mask.emitPredicate(function.getBuilder(), function.getLoc(), at);
  ASSERT_TRUE(keep.getType().isInteger(1));
  for (Lengths lengths : getLengths())
    for (int64_t i = 0; i < lengths.query; ++i)
      for (int64_t j = 0; j < lengths.key; ++j) {
        function.run({0, 0, i, j, lengths.query, lengths.key});
        ASSERT_EQ(function.get(keep) != 0, isAttended(lengths, i, j))
            << "query " << i << " of " << lengths.query << ", key " << j
            << " of " << lengths.key;
      }
}

/// Bands know their constant value whenever there is one.
TEST_P(BandTest, ConstantValueIsExact) {
  for (Lengths lengths : getLengths()) {
    bool any = false, all = true;
    for (int64_t j = 0; j < lengths.key; ++j) {
      any |= isAttendedByAny(lengths, 0, lengths.query - 1, j);
      all &= isAttendedByAll(lengths, 0, lengths.query - 1, j);
    }
    std::optional<bool> expected;
    if (any == all)
      expected = any;
    EXPECT_EQ(mask.getConstantValue(lengths.query, lengths.key), expected)
        << lengths.query << " queries, " << lengths.key << " keys";
  }
}

/// Other masks may not know it, but are not wrong about it.
TEST_P(MaskTest, ConstantValueIsRight) {
  for (Lengths lengths : getLengths()) {
    std::optional<bool> value =
        mask.getConstantValue(lengths.query, lengths.key);
    if (!value)
      continue;
    for (int64_t i = 0; i < lengths.query; ++i)
      for (int64_t j = 0; j < lengths.key; ++j)
        EXPECT_EQ(isAttended(lengths, i, j), *value)
            << lengths.query << " queries, " << lengths.key << " keys";
  }
}

static const char *const bands[] = {
    "#attn.causal",
    "#attn.causal<alignment = top_left>",
    "#attn.sliding_window<left = 0>",
    "#attn.sliding_window<left = 3, alignment = top_left>",
    "#attn.sliding_window<right = 2>",
    "#attn.sliding_window<right = 0, alignment = top_left>",
    "#attn.sliding_window<left = 0, right = 0>",
    "#attn.sliding_window<left = 4, right = 0>",
    "#attn.sliding_window<left = 4, right = 0, alignment = top_left>",
    "#attn.sliding_window<left = 2, right = 7>",
    "#attn.sliding_window<left = 2, right = 7, alignment = top_left>",
    "#attn.sliding_window<left = 1073741823, right = 1073741823>"};

INSTANTIATE_TEST_SUITE_P(Bands, MaskTest, ::testing::ValuesIn(bands));
INSTANTIATE_TEST_SUITE_P(Bands, BandTest, ::testing::ValuesIn(bands));
INSTANTIATE_TEST_SUITE_P(
    Masks, MaskTest,
    ::testing::Values(
        "#attn.prefix_lm<length = 0>", "#attn.prefix_lm<length = 7>",
        "#attn.prefix_lm<length = 3, alignment = top_left>",
        "#attn.dilated_window<left = 6, right = 4, dilation = 2>",
        "#attn.dilated_window<left = 9, right = 0, dilation = 3, alignment = "
        "top_left>",
        "#attn.dilated_window<left = 3, right = 3, dilation = 1>",
        "#attn.local_blocks<size = 4, before = 0, after = 0>",
        "#attn.local_blocks<size = 3, after = 0>",
        "#attn.local_blocks<size = 3, before = 1>", "#attn.none",
        "#attn.local_blocks<size = 5, before = 1, after = 2, alignment = "
        "top_left>",
        "#attn.global_tokens<count = 0>", "#attn.global_tokens<count = 3>",
        "#attn.and<#attn.causal, #attn.local_blocks<size = 4, before = 0, "
        "after = 0>>",
        "#attn.or<#attn.global_tokens<count = 2>, #attn.sliding_window<left = "
        "2, right = 1>>",
        "#attn.not<#attn.causal>",
        "#attn.and<#attn.causal, #attn.not<#attn.sliding_window<left = 1, "
        "right = 1>>>"));
