//===- ScoreRangeTest.cpp - How large scores can become -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranges of the scores of common score_mods.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/ScoreRange.h"
#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <string>

using namespace mlir;
using namespace mlir::attn;

namespace {
struct Expected {
  const char *name;
  const char *body;
  bool isBounded;
  /// Whether the score is finite for queries after the last one.
  bool isFinite;
};

class ScoreRangeTest : public testing::TestWithParam<Expected> {};

TEST_P(ScoreRangeTest, IsBounded) {
  const Expected &expected = GetParam();
  MLIRContext context;
  context.loadDialect<arith::ArithDialect, AttnDialect, func::FuncDialect,
                      math::MathDialect, tensor::TensorDialect>();
  std::string tensor = "tensor<1x4x128x64xbf16>";
  std::string text =
      "func.func @f(%q: " + tensor + ", %o: " + tensor +
      ", %slopes: tensor<4xf32>) -> " + tensor +
      " {\n%0 = attn.attention ins(%q, %q, %q : " + tensor + ", " + tensor +
      ", " + tensor + ") outs(%o : " + tensor +
      ") score_mod {\n^bb0(%s: f32, %b: index, %h: index, %i: index, %j: "
      "index):\n" +
      expected.body + "\nattn.yield %r : f32\n} -> " + tensor +
      "\nreturn %0 : " + tensor + "\n}\n";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  module->walk([&](AttentionOp op) {
    EXPECT_EQ(isScoreBounded(op.getScoreMod(), /*given=*/100, /*bound=*/400),
              expected.isBounded);
    EXPECT_EQ(isFiniteForPadding(op.getScoreMod()), expected.isFinite);
  });
}

INSTANTIATE_TEST_SUITE_P(
    ScoreMods, ScoreRangeTest,
    testing::Values(
        Expected{"same",
                 "%c = arith.constant 1.0 : f32\n"
                 "%r = arith.mulf %s, %c : f32",
                 true, true},
        Expected{"doubled", "%r = arith.addf %s, %s : f32", true, true},
        Expected{"squared", "%r = arith.mulf %s, %s : f32", false, true},
        Expected{"soft_cap",
                 "%c = arith.constant 50.0 : f32\n"
                 "%x = arith.divf %s, %c : f32\n%t = math.tanh %x : f32\n"
                 "%r = arith.mulf %t, %c : f32",
                 true, true},
        Expected{"large_cap",
                 "%c = arith.constant 1.0e10 : f32\n%t = math.tanh %s : f32\n"
                 "%r = arith.mulf %t, %c : f32",
                 false, true},
        Expected{"alibi",
                 "%x = tensor.extract %slopes[%h] : tensor<4xf32>\n"
                 "%r = arith.addf %s, %x : f32",
                 false, true},
        Expected{"masked_by_infinity",
                 "%c = arith.constant 0xFF800000 : f32\n"
                 "%k = arith.cmpi sge, %i, %j : index\n"
                 "%r = arith.select %k, %s, %c : f32",
                 true, true},
        Expected{"masked_by_number",
                 "%c = arith.constant -1.0e10 : f32\n"
                 "%k = arith.cmpi sge, %i, %j : index\n"
                 "%r = arith.select %k, %s, %c : f32",
                 false, true},
        Expected{"small_number",
                 "%c = arith.constant -300.0 : f32\n"
                 "%k = arith.cmpi sge, %i, %j : index\n"
                 "%r = arith.select %k, %s, %c : f32",
                 true, true},
        Expected{"clamped",
                 "%c = arith.constant 30.0 : f32\n%n = arith.negf %c : f32\n"
                 "%x = tensor.extract %slopes[%h] : tensor<4xf32>\n"
                 "%y = arith.addf %s, %x : f32\n"
                 "%z = arith.maximumf %y, %n : f32\n"
                 "%r = arith.minimumf %z, %c : f32",
                 false, true},
        Expected{"divided_by_zero",
                 "%c = arith.constant 0.0 : f32\n"
                 "%r = arith.divf %s, %c : f32",
                 false, false},
        Expected{"divided_by_position",
                 "%n = arith.index_cast %i : index to i32\n"
                 "%x = arith.sitofp %n : i32 to f32\n"
                 "%r = arith.divf %s, %x : f32",
                 false, false},
        Expected{"multiplied_by_position",
                 "%n = arith.index_cast %i : index to i32\n"
                 "%x = arith.sitofp %n : i32 to f32\n"
                 "%r = arith.mulf %s, %x : f32",
                 false, true},
        Expected{"read_by_query",
                 "%x = tensor.extract %slopes[%i] : tensor<4xf32>\n"
                 "%r = arith.addf %s, %x : f32",
                 false, false},
        Expected{"divided_by_element",
                 "%x = tensor.extract %slopes[%h] : tensor<4xf32>\n"
                 "%r = arith.divf %s, %x : f32",
                 false, true},
        Expected{"logarithm_of_element",
                 "%x = tensor.extract %slopes[%j] : tensor<4xf32>\n"
                 "%y = math.log %x : f32\n"
                 "%r = arith.addf %s, %y : f32",
                 false, true},
        Expected{"sine_of_infinity",
                 "%c = arith.constant 1.0 : f32\n"
                 "%x = arith.divf %c, %s : f32\n"
                 "%r = math.sin %x : f32",
                 true, false},
        Expected{"logarithm", "%r = math.log %s : f32", false, false},
        Expected{"infinity_added",
                 "%c = arith.constant 0xFF800000 : f32\n"
                 "%r = arith.addf %s, %c : f32",
                 false, false}),
    [](const auto &info) { return info.param.name; });
} // namespace
