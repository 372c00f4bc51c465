//===- RooflineTest.cpp - Work, devices and time --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares estimates with figures from the literature and with enumeration.
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/Roofline.h"
#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <chrono>
#include <limits>
#include <memory>

using namespace mlir;
using namespace mlir::attn;

namespace {
TEST(Roofline, PeaksAreThoseOfDatasheets) {
  struct Expected {
    StringRef name;
    double tflops, bandwidth, ridge;
  };
  for (auto [name, tflops, bandwidth, ridge] :
       {Expected{"a100", 312, 2.039e12, 153},
        Expected{"h100", 989, 3.35e12, 295}, Expected{"h200", 989, 4.8e12, 206},
        Expected{"b200", 2250, 8e12, 281}}) {
    std::optional<DeviceFigures> device = getKnownDevice(name);
    ASSERT_TRUE(device) << name.str();
    double rate = getPeakRate(*device, ExecutionUnit::Mma16b);
    EXPECT_NEAR(rate * 1e-12, tflops, 0.005 * tflops) << name.str();
    EXPECT_EQ(getPeakRate(*device, MemoryLevel::Memory), bandwidth);
    EXPECT_NEAR(getRidge(*device), ridge, 1) << name.str();
  }
  EXPECT_FALSE(getKnownDevice("h300"));
}

TEST(Roofline, TheSlowestUnitIsTheBound) {
  DeviceFigures device = *getKnownDevice("h200");
  OpCost cost;
  cost.launches = 1;
  EXPECT_EQ(estimate(cost, device).bound, "launch");
  EXPECT_DOUBLE_EQ(estimate(cost, device).seconds, 3e-6);
  cost.bytes(MemoryLevel::Memory) = 4.8e9;
  EXPECT_EQ(estimate(cost, device).bound, "memory");
  EXPECT_NEAR(estimate(cost, device).seconds, 1e-3 / 0.83 + 3e-6, 1e-9);
  // At head dim 64, the exponentials take as long as the matmuls at their peak
  // (FlashAttention-4 states it for Blackwell): 256 FLOP for each.
  cost.operations(ExecutionUnit::Special) = 1e12;
  EXPECT_EQ(estimate(cost, device).bound, "special");
  cost.operations(ExecutionUnit::Mma16b) = 256e12;
  EXPECT_NEAR(getPeakRate(device, ExecutionUnit::Mma16b) / 256,
              getPeakRate(device, ExecutionUnit::Special), 1);
  EXPECT_EQ(estimate(cost, device).bound, "mma_16b");
}

TEST(Roofline, UnknownRatesBoundNothing) {
  DeviceFigures device = *getKnownDevice("b200");
  OpCost cost;
  cost.bytes(MemoryLevel::L2) = 1e15;
  EXPECT_EQ(estimate(cost, device).seconds, 0);
}

/// Elements that one head moves with tiles of `rows` queries: each tile of
/// queries is read and its output written once, and all keys and values pass
/// by.
double getTransfer(double queries, double keys, double headDim, double rows) {
  return 2 * queries * headDim + 2 * keys * headDim * (queries / rows);
}

TEST(LeastTransfer, IsThatOfTheLargestTileThatFits) {
  constexpr double capacity = 1 << 16;
  for (double headDim : {64, 128, 256})
    for (double length : {1 << 12, 1 << 14}) {
      double least = std::numeric_limits<double>::infinity();
      for (double rows = 1; 2 * rows * headDim <= capacity; ++rows)
        least = std::min(least, getTransfer(length, length, headDim, rows));
      EXPECT_DOUBLE_EQ(getLeastTransfer(length, length, headDim, capacity),
                       least);
    }
}

TEST(LeastTransfer, FallsFourfoldWithHalfTheBytes) {
  constexpr double bytes = 1 << 17, length = 1 << 14, headDim = 128;
  auto getQuadraticBytes = [&](double elementBytes) {
    double all =
        getLeastTransfer(length, length, headDim, bytes / elementBytes);
    return elementBytes * (all - 2 * length * headDim);
  };
  EXPECT_DOUBLE_EQ(getQuadraticBytes(2) / getQuadraticBytes(1), 4);
}

/// Counts of a mask at `queries` queries and `keys` keys, one by one. Rows are
/// tiles of `queryTile` queries, or with `isByKey` of `keyTile` keys.
TileCounts countTiles(MaskAttrInterface mask, int64_t queries, int64_t keys,
                      int64_t queryTile, int64_t keyTile, bool isByKey,
                      double &pairs) {
  int64_t numRows = isByKey ? keys : queries;
  int64_t numColumns = isByKey ? queries : keys;
  int64_t rowTile = isByKey ? keyTile : queryTile;
  int64_t columnTile = isByKey ? queryTile : keyTile;
  TileCounts counts;
  for (int64_t row = 0; row < numRows; row += rowTile) {
    int64_t inRow = 0, maskedInRow = 0;
    for (int64_t column = 0; column < numColumns; column += columnTile) {
      int64_t attended = 0;
      int64_t rowEnd = std::min(row + rowTile, numRows);
      int64_t columnEnd = std::min(column + columnTile, numColumns);
      for (int64_t i = row; i < rowEnd; ++i)
        for (int64_t j = column; j < columnEnd; ++j)
          attended += isByKey ? mask.isAttended(j, i, queries, keys)
                              : mask.isAttended(i, j, queries, keys);
      pairs += double(attended);
      inRow += attended > 0;
      // Keys beyond the last one are masked, queries beyond the last one not.
      int64_t all = keyTile * (isByKey ? columnEnd - column : rowEnd - row);
      maskedInRow += attended > 0 && attended < all;
    }
    counts.total += double(inRow);
    counts.masked += double(maskedInRow);
    counts.most = std::max(counts.most, inRow);
    counts.mostMasked = std::max(counts.mostMasked, maskedInRow);
  }
  return counts;
}

/// The attention of one head with a mask.
OwningOpRef<ModuleOp> parseMasked(MLIRContext &context, int64_t queries,
                                  int64_t keys, StringRef mask) {
  std::string q = "memref<1x1x" + std::to_string(queries) + "x64xf32>";
  std::string k = "memref<1x1x" + std::to_string(keys) + "x64xf32>";
  std::string text = "func.func @f(%q: " + q + ", %k: " + k + ", %o: " + q +
                     ") { attn.attention ins(%q, %k, %k : " + q + ", " + k +
                     ", " + k + ") outs(%o : " + q + ") mask(" + mask.str() +
                     ") return }";
  return parseSourceString<ModuleOp>(text, &context);
}

/// Counts of a mask at 300 queries and 500 keys, by the functions and one by
/// one.
void compareArea(MLIRContext &context, StringRef mask, int64_t queryTile,
                 int64_t keyTile) {
  constexpr int64_t queries = 300, keys = 500;
  OwningOpRef<ModuleOp> module = parseMasked(context, queries, keys, mask);
  ASSERT_TRUE(module) << mask.str();
  (*module)->walk([&](AttentionOpInterface op) {
    MaskAttrInterface attribute = op.getMaskAttr();
    for (MaskDim dim : {MaskDim::Query, MaskDim::Key}) {
      double pairs = 0;
      TileCounts expected = countTiles(attribute, queries, keys, queryTile,
                                       keyTile, dim == MaskDim::Key, pairs);
      EXPECT_EQ(countAttendedPairs(op, {}), pairs) << mask.str();
      TileCounts counts = VisitedTiles(op, {}).count(queryTile, keyTile, dim);
      EXPECT_EQ(counts.total, expected.total) << mask.str();
      EXPECT_EQ(counts.masked, expected.masked) << mask.str();
      EXPECT_EQ(counts.most, expected.most) << mask.str();
      EXPECT_EQ(counts.mostMasked, expected.mostMasked) << mask.str();
    }
  });
}

TEST(MaskArea, IsEmptyWithoutKeys) {
  MLIRContext context;
  context.loadDialect<AttnDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseMasked(context, 16, 0, "#attn.causal");
  ASSERT_TRUE(module);
  (*module)->walk([&](AttentionOpInterface op) {
    EXPECT_EQ(countAttendedPairs(op, {}), 0);
  });
}

TEST(MaskArea, IsThatOfAllPairs) {
  MLIRContext context;
  context.loadDialect<AttnDialect, func::FuncDialect>();
  for (StringRef mask :
       {"#attn.causal", "#attn.causal<alignment = top_left>",
        "#attn.sliding_window<left = 40, right = 0>",
        "#attn.prefix_lm<length = 100>",
        "#attn.and<#attn.causal, #attn.local_blocks<size = 128, before = 0, "
        "after = 0>>"})
    for (auto [queryTile, keyTile] :
         {std::pair<int64_t, int64_t>(128, 128), {64, 80}, {7, 13}})
      compareArea(context, mask, queryTile, keyTile);
}

TEST(MaskArea, CountsAllTilesAsPartialWithoutWork) {
  MLIRContext context;
  context.loadDialect<AttnDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseMasked(context, 256, 512, "#attn.causal");
  ASSERT_TRUE(module);
  (*module)->walk([&](AttentionOpInterface op) {
    VisitedTiles known(op, {});
    EXPECT_EQ(known.count(64, 64).total, 26);
    EXPECT_EQ(known.count(64, 64).masked, 4);
    EXPECT_FALSE(known.isLimited());
    // All analyses of an attention share a budget, and this one is spent.
    std::shared_ptr<WorkBudget> shared = VisitedTiles::createBudget();
    EXPECT_FALSE(shared->spend(std::numeric_limits<int64_t>::max()));
    VisitedTiles limited(op, {}, /*batch=*/0, /*head=*/0, shared);
    EXPECT_EQ(limited.count(64, 64).total, 32);
    EXPECT_EQ(limited.count(64, 64).masked, 32);
    EXPECT_TRUE(limited.isLimited());
  });
}

double countPairs(ModuleOp module) {
  double pairs = 0;
  module.walk(
      [&](AttentionOpInterface op) { pairs = countAttendedPairs(op, {}); });
  return pairs;
}

constexpr StringRef longMasks[] = {
    "#attn.causal",
    "#attn.causal<alignment = top_left>",
    "#attn.sliding_window<left = 1700, right = 33>",
    "#attn.prefix_lm<length = 1500>",
    "#attn.local_blocks<size = 300, before = 1, after = 0>",
    "#attn.or<#attn.global_tokens<count = 20>, #attn.sliding_window<left = 30, "
    "right = 10>>",
    "#attn.and<#attn.causal, #attn.not<#attn.sliding_window<left = 25, right = "
    "25>>>",
    "#attn.none"};

TEST(MaskArea, LongRowsAreExact) {
  MLIRContext context;
  context.loadDialect<AttnDialect, func::FuncDialect>();
  for (StringRef mask : longMasks)
    for (auto [queries, keys] :
         {std::pair<int64_t, int64_t>(77, 4999), {512, 1025}, {301, 2048}}) {
      OwningOpRef<ModuleOp> module = parseMasked(context, queries, keys, mask);
      ASSERT_TRUE(module) << mask.str();
      MaskAttrInterface attribute;
      module->walk(
          [&](AttentionOpInterface op) { attribute = op.getMaskAttr(); });
      double expected = 0;
      for (int64_t i = 0; i < queries; ++i)
        for (int64_t j = 0; j < keys; ++j)
          expected += attribute.isAttended(i, j, queries, keys);
      EXPECT_EQ(countPairs(*module), expected) << mask.str();
    }
}

// No closed form says which keys a dilated window has. Some of them are asked
// about, and their distances are not all multiples of the dilation or of a part
// of it.
TEST(MaskArea, DilatedRowsAreSampled) {
  MLIRContext context;
  context.loadDialect<AttnDialect, func::FuncDialect>();
  for (int64_t dilation : {2, 3, 4, 8, 16, 31})
    for (int64_t window : {4096, 8191, 16000}) {
      std::string mask =
          "#attn.dilated_window<left = " + std::to_string(window) +
          ", right = 0, dilation = " + std::to_string(dilation) + ">";
      constexpr int64_t queries = 512, keys = 20000;
      OwningOpRef<ModuleOp> module = parseMasked(context, queries, keys, mask);
      ASSERT_TRUE(module) << mask;
      double expected = double(queries) * double(window / dilation + 1);
      EXPECT_NEAR(countPairs(*module), expected, 0.03 * expected) << mask;
    }
}

// What is asked of a mask does not grow with the lengths: enumerating the rows
// that are taken would evaluate the predicate 5e8 times here.
TEST(MaskArea, LengthsOfAMillionTakeNoTime) {
  MLIRContext context;
  context.loadDialect<AttnDialect, func::FuncDialect>();
  constexpr int64_t length = int64_t(1) << 20;
  OwningOpRef<ModuleOp> module =
      parseMasked(context, length, length, "#attn.causal");
  ASSERT_TRUE(module);
  auto start = std::chrono::steady_clock::now();
  double pairs = countPairs(*module);
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  EXPECT_NEAR(pairs / (double(length) * double(length)), 0.5, 1e-5);
  EXPECT_LT(seconds.count(), 1);
}
} // namespace
