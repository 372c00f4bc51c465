//===- RegisterBlocksTest.cpp - Tests of blocks of MMAs -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/RegisterBlocks.h"
#include "gtest/gtest.h"

using namespace mlir::attn_tile;

namespace {
// SSE, AVX2 and AVX-512, and a device without vectors.
TEST(RegisterBlocks, TellsVectorsFromLanes) {
  auto expect = [](int64_t lanes, int64_t ofOne, int64_t count) {
    Registers registers = getVectorRegisters(lanes);
    EXPECT_EQ(registers.lanes, ofOne) << lanes << " lanes";
    EXPECT_EQ(registers.count, count) << lanes << " lanes";
  };
  expect(64, 4, 16);
  expect(128, 8, 16);
  expect(512, 16, 32);
  expect(8, 1, 8);
  expect(0, 1, 0);
}

// Every MMA is cut into whole blocks, and no block spills.
TEST(RegisterBlocks, DivideMmasAndFitRegisters) {
  for (Registers registers :
       {Registers{4, 16}, Registers{8, 16}, Registers{16, 32}})
    for (int64_t rows : {1, 2, 3, 8, 16, 48, 64, 100, 256})
      for (int64_t columns : {8, 16, 24, 48, 50, 64, 96, 128, 256, 4096}) {
        RegisterBlock block = getRegisterBlock(registers, rows, columns);
        SCOPED_TRACE(testing::Message()
                     << registers.lanes << " lanes, " << rows << " x "
                     << columns << ": " << block.rows << " x " << block.pieces
                     << " of " << block.lanes);
        EXPECT_EQ(rows % block.rows, 0);
        EXPECT_EQ(columns % (block.pieces * block.lanes), 0);
        EXPECT_LE(block.lanes, registers.lanes);
        EXPECT_LE(block.rows * block.pieces + block.pieces + 1,
                  registers.count - 2);
      }
}

// The blocks that are known to be good: four vectors wide where there are 32
// registers, two where there are 16.
TEST(RegisterBlocks, MultipliesMostForWhatItLoads) {
  RegisterBlock wide = getRegisterBlock({16, 32}, 64, 64);
  EXPECT_EQ(wide.rows, 4);
  EXPECT_EQ(wide.pieces, 4);
  RegisterBlock narrow = getRegisterBlock({8, 16}, 64, 64);
  EXPECT_EQ(narrow.rows, 4);
  EXPECT_EQ(narrow.pieces, 2);
  // One row has nothing to reuse, but as many accumulators as there is room
  // for.
  RegisterBlock row = getRegisterBlock({16, 32}, 1, 128);
  EXPECT_EQ(row.rows, 1);
  EXPECT_EQ(row.pieces, 8);
  // Columns that are not whole vectors have shorter ones.
  EXPECT_EQ(getRegisterBlock({16, 32}, 16, 72).lanes, 8);
}
} // namespace
