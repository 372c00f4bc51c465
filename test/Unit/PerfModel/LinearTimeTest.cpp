//===- LinearTimeTest.cpp - Tests of the time of linear attention ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Estimates for work and schedules that differ in one property.
// benchmarks/calibrate.py tests their accuracy.
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/LinearTime.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Dialect/AttnTile/Transforms/ScheduleInterfaceImpl.h"
#include "mlir/AsmParser/AsmParser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
class LinearTimeTest : public ::testing::Test {
protected:
  LinearTimeTest() {
    DialectRegistry registry;
    registry.insert<AttnDialect, attn_tile::AttnTileDialect>();
    attn_tile::registerScheduleInterfaceExternalModels(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    device = getDeviceModel("h200", *getKnownDevice("h200"), "");
    work.heads = 16;
    work.keyHeadDim = work.valueHeadDim = 64;
    work.elementBytes = 2;
    work.entries = 8;
    work.tokens = 4096;
    work.isCausal = true;
  }

  SmallVector<KernelTime> estimate(StringRef schedule) {
    Attribute attribute =
        parseAttribute(("#attn_tile." + schedule).str(), &context);
    EXPECT_TRUE(attribute);
    return estimateLinear(attribute, work, device);
  }

  /// Kernels of chunks of 64 tokens, with `more` parameters.
  SmallVector<KernelTime> estimateChunks(StringRef more = "") {
    return estimate(("linear_warp_specialized<chunk = 64, value_tile = 64, "
                     "stages = 3" +
                     more + ">")
                        .str());
  }

  static SmallVector<StringRef> getNames(ArrayRef<KernelTime> kernels) {
    return llvm::map_to_vector(
        kernels, [](const KernelTime &kernel) { return kernel.name; });
  }

  MLIRContext context;
  DeviceModel device;
  LinearWork work;
};

using Names = SmallVector<StringRef>;

TEST_F(LinearTimeTest, AWorkItemGoesThroughItsChunks) {
  SmallVector<KernelTime> kernels = estimateChunks();
  EXPECT_EQ(getNames(kernels), Names({"outputs"}));
  // 128 work items, one for each SM.
  EXPECT_EQ(kernels[0].numSteps, 64);
  EXPECT_EQ(kernels[0].numWorkItems, 1);
  work.entries = 16;
  EXPECT_EQ(estimateChunks()[0].numSteps, 128);
  EXPECT_EQ(estimateChunks()[0].numWorkItems, 2);
}

TEST_F(LinearTimeTest, FewHeadsSplitTheirChunks) {
  work.entries = 1;
  work.tokens = 8192;
  SmallVector<KernelTime> kernels = estimateChunks(", split_work_items = 132");
  EXPECT_EQ(getNames(kernels), Names({"states", "starts", "outputs"}));
  // Eight splits of 128 chunks.
  EXPECT_EQ(kernels[0].numSteps, 16);
  EXPECT_EQ(kernels[2].numSteps, 16);
  EXPECT_LT(kernels[0].step, kernels[2].step);
  // Without a mask tokens see the last state.
  work.isCausal = false;
  EXPECT_EQ(getNames(estimateChunks(", split_work_items = 132")),
            Names({"outputs"}));
}

TEST_F(LinearTimeTest, TwoCtasShareAnSM) {
  work.entries = 16;
  SmallVector<KernelTime> one = estimateChunks();
  SmallVector<KernelTime> two = estimateChunks(", ctas_per_sm = 2");
  EXPECT_EQ(two[0].numSteps, one[0].numSteps / 2);
  EXPECT_GT(two[0].step, one[0].step);
  EXPECT_LT(two[0].step, 2 * one[0].step);
  // A work item for each SM gains nothing, and pays for the memory.
  work.entries = 8;
  EXPECT_GE(getSeconds(estimateChunks(", ctas_per_sm = 2")),
            getSeconds(estimateChunks()));
}

TEST_F(LinearTimeTest, LongChunksHaveFewerAndLongerSteps) {
  SmallVector<KernelTime> kernels = estimate(
      "linear_warp_specialized<chunk = 128, value_tile = 64, stages = 2>");
  EXPECT_EQ(kernels[0].numSteps, 32);
  EXPECT_GT(kernels[0].step, estimateChunks()[0].step);
}

TEST_F(LinearTimeTest, DecaysHaveKernelsAndLongerSteps) {
  double plain = estimateChunks()[0].step;
  work.hasDecay = true;
  SmallVector<KernelTime> kernels = estimateChunks();
  EXPECT_EQ(getNames(kernels),
            Names({"log-decays", "outputs", "large decays"}));
  EXPECT_GT(kernels[1].step, plain);
}

TEST_F(LinearTimeTest, GradientsShareStatesOfEqualHeadDims) {
  work.entries = 1;
  work.isGradient = true;
  EXPECT_EQ(llvm::count(getNames(estimateChunks(", split_work_items = 132")),
                        "states"),
            3);
  work.sharesStarts = true;
  EXPECT_EQ(getNames(estimateChunks(", split_work_items = 132")),
            Names({"states", "starts", "outputs", "states", "starts", "outputs",
                   "outputs"}));
}

TEST_F(LinearTimeTest, StatesThatAreGivenAreMoved) {
  double memory = estimateChunks()[0].memory;
  work.stateOperands = 2;
  EXPECT_GT(estimateChunks()[0].memory, memory);
}

constexpr llvm::StringLiteral pairs =
    "linear_pairs<pairs = #attn_tile.linear_multistage<chunk = 64, "
    "value_tile = 64, stages = 2, warps = 4>, chunks = "
    "#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, "
    "stages = 2>, narrow = #attn_tile.linear_warp_specialized<chunk = 64, "
    "value_tile = 16, stages = 2>, narrow_work_items = 132>";

TEST_F(LinearTimeTest, PairMatricesHaveKernelsOfAllChunks) {
  work.hasBeta = true;
  SmallVector<KernelTime> kernels = estimate(pairs);
  EXPECT_EQ(getNames(kernels), Names({"pairs", "outputs"}));
  // 8192 chunks, three of which an SM has at a time.
  EXPECT_EQ(kernels[0].numSteps, 63);
  double inverse = kernels[0].step;
  work.hasBeta = false;
  work.hasElementDecay = true;
  kernels = estimate(pairs);
  EXPECT_EQ(getNames(kernels),
            Names({"log-decays", "pairs", "large decays", "outputs"}));
  EXPECT_NE(kernels[1].step, inverse);
}

TEST_F(LinearTimeTest, FewHeadsHaveNarrowTiles) {
  work.hasBeta = true;
  double wide = estimate(pairs)[1].mma;
  work.entries = 2;
  EXPECT_LT(estimate(pairs)[1].mma, wide);
}

TEST_F(LinearTimeTest, TokensFollowOneAnother) {
  constexpr llvm::StringLiteral recurrent = "linear_recurrent<value_tile = 32>";
  work.stateOperands = 2;
  work.tokens = 1;
  double first = getSeconds(estimate(recurrent));
  EXPECT_LT(first, getSeconds(estimateChunks()));
  work.tokens = 3;
  double third = getSeconds(estimate(recurrent));
  work.tokens = 5;
  EXPECT_NEAR(getSeconds(estimate(recurrent)) - third, third - first,
              1e-3 * first);
  work.tokens = 64;
  EXPECT_GT(getSeconds(estimate(recurrent)), getSeconds(estimateChunks()));
}

TEST_F(LinearTimeTest, ChoicesAreMadeByWorkItems) {
  std::string choice =
      "by_work_items<more_than = 100, at_most = 128, within = "
      "#attn_tile.linear_warp_specialized<chunk = 128, value_tile = 64, "
      "stages = 2>, otherwise = #attn_tile.linear_warp_specialized<chunk = 64, "
      "value_tile = 64, stages = 3>>";
  EXPECT_EQ(estimate(choice)[0].numSteps, 32);
  work.entries = 6;
  EXPECT_EQ(estimate(choice)[0].numSteps, 64);
}

TEST_F(LinearTimeTest, OtherKernelsAndDevicesHaveNoModel) {
  EXPECT_TRUE(estimate("scalar").empty());
  device.mmaFlopsPerCycle16b = 0;
  EXPECT_TRUE(estimateChunks().empty());
}
} // namespace
