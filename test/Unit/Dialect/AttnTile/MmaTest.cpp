//===- MmaTest.cpp - Tests of MMA instructions ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares MMA attributes with the PTX ISA, and their fragments with the layout
// of accumulators.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "attn/Dialect/Attn/IR/DeviceFigures.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Dialect/AttnTile/IR/AttnTileParameters.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "gtest/gtest.h"

#include <string>

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
class MmaTest : public ::testing::Test {
protected:
  MmaTest() {
    context
        .loadDialect<arith::ArithDialect, attn::AttnDialect, AttnTileDialect>();
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
      error = diagnostic.str();
      return success();
    });
  }

  MmaAttrInterface getSync(Type multiplicand, int64_t terms = 1) {
    return cast<MmaAttrInterface>(
        Attribute(MmaSyncAttr::get(&context, multiplicand, terms)));
  }
  MmaAttrInterface getWgmma(Type multiplicand) {
    return cast<MmaAttrInterface>(
        Attribute(WgmmaAttr::get(&context, multiplicand)));
  }
  SmallVector<MmaAttrInterface> getAll() {
    Type bf16 = builder.getBF16Type(), f16 = builder.getF16Type();
    Type tf32 = FloatTF32Type::get(&context);
    Type e4m3 = Float8E4M3FNType::get(&context);
    return {getSync(bf16),  getSync(f16),  getSync(tf32), getSync(tf32, 3),
            getWgmma(bf16), getWgmma(f16), getWgmma(e4m3)};
  }

  MLIRContext context;
  Builder builder{&context};
  std::string error;
};

/// Shapes of PTX: m16n8k16, m16n8k8, m64nNk16 and m64nNk32.
TEST_F(MmaTest, Shapes) {
  Type bf16 = builder.getBF16Type(), tf32 = FloatTF32Type::get(&context);
  Type e4m3 = Float8E4M3FNType::get(&context);
  struct Expected {
    MmaAttrInterface mma;
    int64_t rows, columns, depth, threads, bytes, terms;
    bool shared;
  };
  for (const Expected &e :
       {Expected{getSync(bf16), 16, 8, 16, 32, 2, 1, false},
        Expected{getSync(tf32), 16, 8, 8, 32, 4, 1, false},
        Expected{getSync(tf32, 3), 16, 8, 8, 32, 4, 3, false},
        Expected{getWgmma(bf16), 64, 256, 16, 128, 2, 1, true},
        Expected{getWgmma(e4m3), 64, 256, 32, 128, 1, 1, true}}) {
    EXPECT_EQ(e.mma.getRows(), e.rows);
    EXPECT_EQ(e.mma.getMaxColumns(), e.columns);
    EXPECT_EQ(e.mma.getDepth(), e.depth);
    EXPECT_EQ(e.mma.getNumThreads(), e.threads);
    EXPECT_EQ(e.mma.getElementBytes(), e.bytes);
    EXPECT_EQ(e.mma.getNumTerms(), e.terms);
    EXPECT_EQ(e.mma.readsSharedMemory(), e.shared);
    // wgmma reads the columns of 16-bit elements alone.
    EXPECT_EQ(e.mma.supportsMNMajor(), e.bytes != 1);
    EXPECT_TRUE(e.mma.getAccumulatorType().isF32());
  }
  EXPECT_TRUE(getSync(tf32).getElementType().isF32());
  EXPECT_TRUE(getSync(tf32).getMultiplicandType().isTF32());
}

/// Each contracted index belongs to one lane of a quad.
TEST_F(MmaTest, FragmentsCoverTheDepth) {
  for (MmaAttrInterface mma : getAll()) {
    std::vector<int> owners(mma.getDepth());
    for (int64_t lane = 0; lane < 4; ++lane)
      for (int64_t index : mma.getFragmentIndices(lane)) {
        ASSERT_LT(index, mma.getDepth());
        ++owners[index];
      }
    for (int count : owners)
      EXPECT_EQ(count, 1);
  }
}

/// An accumulator is a left-hand side without an exchange between lanes: the
/// layout of tiles gives a lane the columns that the instruction expects.
TEST_F(MmaTest, FragmentsAreAccumulators) {
  auto layout = RowBlockLayoutAttr::get(&context, /*warps=*/4);
  for (MmaAttrInterface mma : getAll())
    for (int64_t lane = 0; lane < 4; ++lane) {
      SmallVector<int64_t> columns;
      int64_t base = 2 * lane;
      for (int64_t c = 0; c < layout.getColumnRegisters(mma.getDepth()); ++c)
        columns.push_back(base + layout.getColumnOffset(c));
      EXPECT_EQ(mma.getFragmentIndices(lane), columns);
    }
}

/// Three terms take three times as long; f32 elements twice as long as
/// 16-bit ones.
TEST_F(MmaTest, Rates) {
  attn::DeviceFigures device = *attn::getKnownDevice("a100");
  Type tf32 = FloatTF32Type::get(&context);
  double half = getSync(builder.getF16Type()).getFlopsPerCycle(device);
  EXPECT_EQ(half, 2048);
  EXPECT_EQ(getSync(tf32).getFlopsPerCycle(device), half / 2);
  EXPECT_EQ(getSync(tf32, 3).getFlopsPerCycle(device), half / 6);
  device = *attn::getKnownDevice("h200");
  Type e4m3 = Float8E4M3FNType::get(&context);
  half = getWgmma(builder.getF16Type()).getFlopsPerCycle(device);
  EXPECT_EQ(getWgmma(e4m3).getFlopsPerCycle(device), 2 * half);
}

TEST_F(MmaTest, Verifies) {
  Location loc = UnknownLoc::get(&context);
  auto emit = [&] { return emitError(loc); };
  Type f16 = builder.getF16Type(), f32 = builder.getF32Type();
  EXPECT_TRUE(failed(MmaSyncAttr::verify(emit, f32, 1)));
  EXPECT_EQ(error, "'multiplicand' must be bf16, f16 or tf32 (was 'f32')");
  EXPECT_TRUE(failed(MmaSyncAttr::verify(emit, f16, 3)));
  EXPECT_EQ(error, "'terms' must be 1 for 'f16' (was 3)");
  EXPECT_TRUE(
      failed(MmaSyncAttr::verify(emit, FloatTF32Type::get(&context), 2)));
  EXPECT_EQ(error, "'terms' must be 1 or 3 for 'tf32' (was 2)");
  EXPECT_TRUE(failed(WgmmaAttr::verify(emit, FloatTF32Type::get(&context))));
  EXPECT_EQ(error, "'multiplicand' must be bf16, f16, f8E4M3FN or f8E5M2 (was "
                   "'tf32')");
}

/// Fragments of PTX for m64k32: a lane has four neighbouring indices of the
/// first 16 and of the last 16. They are its columns of the accumulator.
TEST_F(MmaTest, IndicesOfElementsOf8Bits) {
  MmaAttrInterface mma = getWgmma(Float8E4M3FNType::get(&context));
  for (int64_t lane = 0; lane < 4; ++lane) {
    SmallVector<int64_t> elements;
    for (int64_t half : {0, 16})
      for (int64_t i = 0; i < 4; ++i)
        elements.push_back(getElementOfIndex(half + 4 * lane + i));
    EXPECT_EQ(mma.getFragmentIndices(lane), elements);
  }
}
} // namespace
