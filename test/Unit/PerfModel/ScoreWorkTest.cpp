//===- ScoreWorkTest.cpp - What is computed for each score ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts of common score_mods, as docs/Architecture.md has them.
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/ScoreWork.h"
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
  double instructions, special, ahead, loads, bytes, gathers;
};

class ScoreWorkTest : public testing::TestWithParam<Expected> {};

TEST_P(ScoreWorkTest, Counts) {
  const Expected &expected = GetParam();
  MLIRContext context;
  context.loadDialect<arith::ArithDialect, AttnDialect, func::FuncDialect,
                      math::MathDialect, tensor::TensorDialect>();
  std::string tensor = "tensor<1x4x128x64xbf16>";
  std::string text =
      "func.func @f(%q: " + tensor + ", %o: " + tensor +
      ", %slopes: tensor<4xf32>, %bias: tensor<4x128x128xbf16>, %row: "
      "tensor<128xf32>, %table: tensor<255xf32>, %paths: tensor<128x128xi32>) "
      "-> " +
      tensor + " {\n%0 = attn.attention ins(%q, %q, %q : " + tensor + ", " +
      tensor + ", " + tensor + ") outs(%o : " + tensor +
      ") score_mod {\n^bb0(%s: f32, %b: index, %h: index, %i: index, %j: "
      "index):\n" +
      expected.body + "\nattn.yield %r : f32\n} -> " + tensor +
      "\nreturn %0 : " + tensor + "\n}\n";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  ScoreWork work;
  module->walk(
      [&](AttentionOp op) { work = countScoreWork(op.getScoreMod()); });
  EXPECT_EQ(work.instructions, expected.instructions);
  EXPECT_EQ(work.special, expected.special);
  EXPECT_EQ(work.ahead, expected.ahead);
  EXPECT_EQ(work.loads, expected.loads);
  EXPECT_EQ(work.bytes, expected.bytes);
  EXPECT_EQ(work.gathers, expected.gathers);
}

INSTANTIATE_TEST_SUITE_P(
    Changes, ScoreWorkTest,
    testing::Values(
        Expected{"factor",
                 "%t = tensor.extract %slopes[%h] : tensor<4xf32>\n"
                 "%r = arith.mulf %s, %t : f32",
                 1, 0, 0, 0, 0, 0},
        Expected{"softcap",
                 "%c = arith.constant 30.0 : f32\n"
                 "%u = arith.divf %s, %c : f32\n"
                 "%t = math.tanh %u : f32\n"
                 "%r = arith.mulf %t, %c : f32",
                 2, 1, 0, 0, 0, 0},
        Expected{"slope",
                 "%t = tensor.extract %slopes[%h] : tensor<4xf32>\n"
                 "%d = arith.subi %j, %i : index\n"
                 "%e = arith.index_cast %d : index to i32\n"
                 "%f = arith.sitofp %e : i32 to f32\n"
                 "%a = arith.mulf %f, %t : f32\n"
                 "%r = arith.addf %s, %a : f32",
                 0, 0, 1, 0, 0, 0},
        Expected{"bias",
                 "%x = tensor.extract %bias[%h, %i, %j] : "
                 "tensor<4x128x128xbf16>\n"
                 "%y = arith.extf %x : bf16 to f32\n"
                 "%r = arith.addf %s, %y : f32",
                 0, 0, 1, 1, 2, 0},
        // Each key is shared by two queries of a thread, and queries by all
        // keys.
        Expected{"key",
                 "%x = tensor.extract %row[%j] : tensor<128xf32>\n"
                 "%r = arith.addf %s, %x : f32",
                 0, 0, 0, 0.5, 2, 0},
        Expected{"query",
                 "%x = tensor.extract %row[%i] : tensor<128xf32>\n"
                 "%r = arith.addf %s, %x : f32",
                 0, 0, 0, 0, 0, 0},
        Expected{"distance",
                 "%c = arith.constant 127 : index\n"
                 "%d = arith.subi %j, %i : index\n"
                 "%e = arith.minsi %d, %c : index\n"
                 "%p = arith.addi %e, %c : index\n"
                 "%x = tensor.extract %table[%p] : tensor<255xf32>\n"
                 "%r = arith.addf %s, %x : f32",
                 0, 0, 2, 1, 4, 0},
        Expected{"path",
                 "%x = tensor.extract %paths[%i, %j] : tensor<128x128xi32>\n"
                 "%p = arith.index_cast %x : i32 to index\n"
                 "%y = tensor.extract %table[%p] : tensor<255xf32>\n"
                 "%r = arith.addf %s, %y : f32",
                 0, 0, 1, 2, 8, 1}),
    [](const testing::TestParamInfo<Expected> &info) {
      return std::string(info.param.name);
    });

static Calibration getCalibration() {
  return getDeviceModel("h200", *getKnownDevice("h200"), "").calibration;
}

TEST(ScoreWork, KeepMasksThatAreReadTakeNoGenerator) {
  RngWork none, much;
  much.integer = 100;
  much.wideMultiply = 20;
  constexpr int64_t headDimSum = 256;
  const Calibration fit = getCalibration();
  for (bool isGradient : {false, true}) {
    auto get = [&](KeepMaskSource source, const RngWork &work) {
      return getKeepMaskCycles(source, work, headDimSum, isGradient, fit);
    };
    EXPECT_EQ(get(KeepMaskSource::Loaded, none),
              get(KeepMaskSource::Loaded, much));
    EXPECT_LT(get(KeepMaskSource::Generated, none),
              get(KeepMaskSource::Generated, much));
  }
}

// Products hide instructions, but not wide multiplications.
TEST(ScoreWork, KeepMasksDependOnMatmuls) {
  RngWork integer, wide;
  integer.integer = 100;
  wide.wideMultiply = 20;
  constexpr int64_t few = 128, many = 256, more = 512;
  const Calibration fit = getCalibration();
  auto get = [&](const RngWork &work, int64_t headDimSum) {
    return getKeepMaskCycles(KeepMaskSource::Generated, work, headDimSum,
                             /*isGradient=*/false, fit);
  };
  EXPECT_GT(get(integer, few), get(integer, many));
  EXPECT_LT(get(wide, few), get(wide, many));
  EXPECT_EQ(get(integer, many), get(integer, more));
  EXPECT_EQ(get(wide, many), get(wide, more));
}
} // namespace
