//===- SequentialTimeTest.cpp - Tests of the time of kernels on a host ----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Estimates of `#attn_tile.sequential` for devices and tiles that differ in one
// property. benchmarks/calibrate.py tests their accuracy.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Dialect/AttnTile/IR/AttnTileParameters.h"
#include "attn/Dialect/AttnTile/Transforms/ScheduleInterfaceImpl.h"
#include "attn/PerfModel/Calibration.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
class SequentialTimeTest : public ::testing::Test {
protected:
  SequentialTimeTest() {
    DialectRegistry registry;
    registry
        .insert<AttnDialect, attn_tile::AttnTileDialect, func::FuncDialect>();
    attn_tile::registerScheduleInterfaceExternalModels(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    device = getDeviceModel("host", *getKnownDevice("host"), "");
    device.sms = 1;
  }

  /// The kernels of attention of `queries` queries and as many keys of two
  /// heads, or of its gradient.
  SmallVector<KernelTime> estimate(int64_t queries, int64_t queryTile,
                                   int64_t keyTile, StringRef mask = "",
                                   bool isGradient = false) {
    std::string tensor = "tensor<1x2x" + std::to_string(queries) + "x64xf32>";
    std::string row = "tensor<1x2x" + std::to_string(queries) + "xf32>";
    std::string forward = "attn.attention ins(%t, %t, %t : " + tensor + ", " +
                          tensor + ", " + tensor + ") outs(%t : " + tensor +
                          ")" + mask.str() + " -> " + tensor;
    std::string gradient =
        "attn.attention_grad ins(%t, %t, %t, %t, %r, %t : " + tensor + ", " +
        tensor + ", " + tensor + ", " + tensor + ", " + row + ", " + tensor +
        ") outs(%t, %t, %t : " + tensor + ", " + tensor + ", " + tensor + ")" +
        mask.str() + " -> " + tensor + ", " + tensor + ", " + tensor;
    std::string text = "func.func @f(%t: " + tensor + ", %r: " + row +
                       ") {\n  %0" + (isGradient ? ":3" : "") + " = " +
                       (isGradient ? gradient : forward) + "\n  return\n}\n";
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    SmallVector<KernelTime> kernels;
    if (!module)
      return kernels;
    attn_tile::SequentialParameters parameters;
    parameters.queryTile = queryTile;
    parameters.keyTile = keyTile;
    auto schedule =
        cast<ScheduleAttrInterface>(Attribute(parameters.get(&context)));
    module->walk([&](AttentionOpInterface op) {
      kernels =
          schedule.estimateKernels(VisitedTiles(op, CostAssumptions()), device);
    });
    return kernels;
  }

  MLIRContext context;
  DeviceModel device;
  OwningOpRef<ModuleOp> module;
};

// Matmuls alone take no less than the units need for them.
TEST_F(SequentialTimeTest, TakesNoLessThanUnits) {
  for (int64_t queryTile : {1, 4, 16, 64})
    for (int64_t keyTile : {16, 64, 128}) {
      SmallVector<KernelTime> kernels = estimate(512, queryTile, keyTile);
      ASSERT_EQ(kernels.size(), 1u);
      double least =
          double(queryTile * keyTile * (64 + 64)) / double(device.fma);
      EXPECT_GE(kernels[0].mma, least);
      EXPECT_GE(kernels[0].step, kernels[0].mma + kernels[0].exponentials);
    }
}

// Tiles count as the mask leaves them: 8 of 8 in each row, or 1 to 8.
TEST_F(SequentialTimeTest, CountsTiles) {
  KernelTime full = estimate(512, 64, 64).front();
  EXPECT_EQ(full.numWorkItems, 2 * 8);
  EXPECT_EQ(full.numSteps, 2 * 8 * 8);
  EXPECT_EQ(full.numMasked, 0);
  KernelTime causal = estimate(512, 64, 64, " mask(#attn.causal)").front();
  EXPECT_EQ(causal.numSteps, 2 * 36);
  EXPECT_EQ(causal.numMasked, 2 * 8);
  EXPECT_GT(causal.mask, 0);
  EXPECT_LT(causal.getSeconds(), full.getSeconds());
}

// Large tiles are better for many queries, tiles of one row for one query; rows
// that do not exist are computed all the same.
TEST_F(SequentialTimeTest, TilesMatter) {
  auto seconds = [&](int64_t queries, int64_t queryTile) {
    return getSeconds(estimate(queries, queryTile, 64));
  };
  EXPECT_LT(seconds(1024, 64), seconds(1024, 16));
  EXPECT_LT(seconds(1024, 16), seconds(1024, 4));
  EXPECT_LT(2 * seconds(1, 1), seconds(1, 16));
}

// Two cores take half of the time, a third one has no work during the last work
// items; wider vectors take less, and a smaller cache more.
TEST_F(SequentialTimeTest, DevicesMatter) {
  auto seconds = [&]() { return getSeconds(estimate(512, 64, 32)); };
  double one = seconds();
  device.sms = 2;
  device.l2Bytes *= 2;
  EXPECT_NEAR(seconds(), one / 2, 0.01 * one);
  device.sms = 3;
  EXPECT_GT(seconds(), one / 3);
  device = getDeviceModel("host", *getKnownDevice("host"), "");
  device.sms = 1;
  device.registers = 512;
  EXPECT_LT(seconds(), one);
  device = getDeviceModel("host", *getKnownDevice("host"), "");
  device.sms = 1;
  device.sharedBytes /= 4;
  EXPECT_GT(seconds(), one);
}

// Three kernels: the dkdv kernel has one matmul more than the dq kernel.
TEST_F(SequentialTimeTest, EstimatesGradients) {
  SmallVector<KernelTime> kernels =
      estimate(512, 64, 64, " mask(#attn.causal)", /*isGradient=*/true);
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(kernels[0].name, "preprocess");
  EXPECT_EQ(kernels[0].numSteps, 0);
  EXPECT_EQ(kernels[1].name, "dkdv");
  EXPECT_EQ(kernels[1].numSteps, 2 * 36);
  EXPECT_EQ(kernels[2].name, "dq");
  EXPECT_NEAR(kernels[1].mma / kernels[2].mma, 4.0 / 3, 1e-6);
  EXPECT_GT(getSeconds(kernels),
            getSeconds(estimate(512, 64, 64, " mask(#attn.causal)")));
}
} // namespace
