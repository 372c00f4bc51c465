//===- CapacityTest.cpp - Tests of the capacity solver --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/Capacity.h"
#include "mlir/IR/Builders.h"
#include "gtest/gtest.h"

using namespace mlir::attn;

static Capacity makeCapacity() {
  Capacity capacity;
  capacity.registers = 200;
  capacity.launchedRegisters = 168;
  capacity.sharedBytes = 1000;
  capacity.namedBarriers = 8;
  return capacity;
}

// Each resource is exceeded by one more than there is, and not by all of it.
TEST(CapacityTest, NamesTheResource) {
  Capacity capacity = makeCapacity();
  CapacityNeed need;
  need.registers = 200;
  need.mmaRegisters = 168;
  need.sharedBytes = 1000;
  need.namedBarriers = 8;
  EXPECT_FALSE(capacity.findExceeded(need));
  EXPECT_EQ(capacity.getLoad(need), 1);
  auto exceeded = [&](auto change) {
    CapacityNeed more = need;
    change(more);
    EXPECT_FALSE(capacity.fits(more));
    EXPECT_GT(capacity.getLoad(more), 1);
    return capacity.findExceeded(more);
  };
  EXPECT_EQ(exceeded([](CapacityNeed &n) { n.registers += 1; }),
            Resource::Registers);
  EXPECT_EQ(exceeded([](CapacityNeed &n) { n.mmaRegisters += 1; }),
            Resource::Registers);
  EXPECT_EQ(exceeded([](CapacityNeed &n) { n.sharedBytes += 1; }),
            Resource::SharedMemory);
  EXPECT_EQ(exceeded([](CapacityNeed &n) { n.namedBarriers += 1; }),
            Resource::Barriers);
}

TEST(CapacityTest, FindsTheLargestTile) {
  Capacity capacity = makeCapacity();
  auto find = [&](double registers, double bytes, int64_t most) {
    return findLargestTile(capacity, 16, most, [&](int64_t tile) {
      CapacityNeed need;
      need.registers = registers * double(tile);
      need.sharedBytes = bytes * double(tile);
      return need;
    });
  };
  LargestTile byRegisters = find(2, 0, 256);
  EXPECT_EQ(byRegisters.size, 96);
  EXPECT_EQ(byRegisters.limit, "registers");
  LargestTile byBytes = find(0, 20, 256);
  EXPECT_EQ(byBytes.size, 48);
  EXPECT_EQ(byBytes.limit, "shared memory");
  LargestTile byShape = find(0.1, 1, 256);
  EXPECT_EQ(byShape.size, 256);
  EXPECT_EQ(byShape.limit, "instruction shape");
  EXPECT_EQ(find(20, 0, 256).size, 0);
}

// Two CTAs of half of the registers and of the shared memory share an SM.
TEST(CapacityTest, CountsCtas) {
  DeviceFigures device = *getKnownDevice("a100");
  CapacityNeed need;
  need.registers = 128;
  EXPECT_EQ(countCtasPerSm(need, 256, device), 2);
  EXPECT_EQ(countCtasPerSm(need, 128, device), 4);
  need.sharedBytes = double(device.sharedBytes);
  EXPECT_EQ(countCtasPerSm(need, 128, device), 1);
  need.sharedBytes =
      double(device.sharedBytes + reservedCtaBytes) / 2 - reservedCtaBytes;
  EXPECT_EQ(countCtasPerSm(need, 128, device), 2);
  need.registers = 300;
  EXPECT_EQ(countCtasPerSm(need, 128, device), 2);
  need.sharedBytes = 2 * double(device.sharedBytes);
  EXPECT_EQ(countCtasPerSm(need, 128, device), 1);
}

TEST(CapacityTest, CountsStages) {
  EXPECT_EQ(countStages(1000, 100, 300), 3);
  EXPECT_EQ(countStages(1000, 100, 901), 0);
  EXPECT_EQ(countStages(100, 1000, 10), 0);
  DeviceFigures device = *getKnownDevice("h200");
  EXPECT_EQ(getTileBytes(device), device.sharedBytes - barrierBytes);
  EXPECT_EQ(getTileBytes(device, 2), device.sharedBytes / 2 - barrierBytes);
}

TEST(CapacityTest, CountsBytesOfElements) {
  mlir::MLIRContext context;
  mlir::Builder builder(&context);
  mlir::Location loc = builder.getUnknownLoc();
  mlir::Block block;
  auto count = [&](mlir::Type element) {
    auto type = mlir::RankedTensorType::get({4, 8}, element);
    return getElementBytes(block.addArgument(type, loc));
  };
  EXPECT_EQ(count(builder.getBF16Type()), 2);
  EXPECT_EQ(count(builder.getF32Type()), 4);
  EXPECT_EQ(count(builder.getI8Type()), 1);
  EXPECT_EQ(count(builder.getI1Type()), 1);
}
