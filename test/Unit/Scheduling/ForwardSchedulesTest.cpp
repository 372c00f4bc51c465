//===- ForwardSchedulesTest.cpp - Tests of derived tiles ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Scheduling/ForwardSchedules.h"
#include "attn/Dialect/Attn/IR/DeviceFigures.h"
#include "gtest/gtest.h"

#include <cstdlib>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// A tile of FlashAttention-3 for Hopper (hopper/tile_size.h): how roles are
/// dealt out there, and the key tile that its authors picked.
struct PublishedTile {
  int64_t headDim;
  int64_t elementBytes;
  int64_t consumers;
  bool sharesProbabilities;
  int64_t keyTile;
};

int64_t deriveKeyTile(const PublishedTile &published) {
  KeyTileBounds bounds =
      getConsumerBounds(published.consumers, *getKnownDevice("h100"));
  bounds.qkHeadDim = bounds.vHeadDim = published.headDim;
  bounds.elementBytes = published.elementBytes;
  bounds.sharesProbabilities = published.sharesProbabilities;
  return getLargestKeyTile(bounds).size;
}

// Capacities alone lead to the tiles that were found by hand, or next to them.
TEST(ForwardSchedules, DerivesPublishedTiles) {
  constexpr PublishedTile published[] = {
      // 16-bit elements; at head dimension 64 without and with a causal mask.
      {64, 2, 3, true, 192},
      {64, 2, 3, false, 128},
      {96, 2, 3, true, 144},
      {128, 2, 2, false, 176},
      {192, 2, 2, false, 112},
      {256, 2, 2, false, 80},
      // 8-bit elements.
      {64, 1, 3, false, 160},
      {96, 1, 3, false, 128},
      {128, 1, 2, false, 224},
      {192, 1, 2, false, 160},
      {256, 1, 2, false, 128},
  };
  int64_t numEqual = 0;
  for (const PublishedTile &tile : published) {
    int64_t derived = deriveKeyTile(tile);
    EXPECT_LE(std::abs(derived - tile.keyTile), keyTileUnit)
        << "head dimension " << tile.headDim << ", " << tile.elementBytes
        << " bytes: derived " << derived << ", published " << tile.keyTile;
    numEqual += derived == tile.keyTile;
  }
  EXPECT_GE(numEqual, 8);
}

// The resources that keep key tiles from being larger.
TEST(ForwardSchedules, NamesTheLimit) {
  KeyTileBounds bounds = getConsumerBounds(2, *getKnownDevice("h100"));
  bounds.elementBytes = 2;
  bounds.qkHeadDim = bounds.vHeadDim = 128;
  EXPECT_EQ(getLargestKeyTile(bounds).limit, "registers");
  bounds.qkHeadDim = bounds.vHeadDim = 256;
  EXPECT_EQ(getLargestKeyTile(bounds).limit, "shared memory");
  bounds.maxKeyTile = 64;
  EXPECT_EQ(getLargestKeyTile(bounds).limit, "instruction shape");
  bounds.queryStages = 3;
  EXPECT_EQ(getLargestKeyTile(bounds).size, 16);
}

// The largest tile by shared memory alone (FlashAttention on a Napkin): 192
// keys if P stays in registers, and 144 if P is in shared memory.
TEST(ForwardSchedules, CountsSharedMemory) {
  KeyTileBounds bounds = getConsumerBounds(2, *getKnownDevice("h100"));
  bounds.elementBytes = 2;
  bounds.registers = 1 << 20;
  bounds.qkHeadDim = bounds.vHeadDim = 128;
  EXPECT_EQ(getLargestKeyTile(bounds).size, 192);
  bounds.sharesProbabilities = true;
  EXPECT_EQ(getLargestKeyTile(bounds).size, 144);
}
} // namespace
