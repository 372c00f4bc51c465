//===- KeyTilesTest.cpp - Tests of the expansion of key tile ranges -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expands `attn_tile.key_tiles` with constant operands for many shapes and
// compares the steps with what the masks keep, pair by pair.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/Transforms/KeyTiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

namespace {
struct Shape {
  int64_t queryLength, keyLength, queryTile, keyTile;
};

struct Steps {
  int64_t last, lead, full, count;
};

class KeyTilesTest : public ::testing::Test {
protected:
  KeyTilesTest() {
    context.loadDialect<arith::ArithDialect, AttnDialect, AttnTileDialect>();
  }

  /// Expands the operation for the queries from `firstQuery` and reads the
  /// constants that it folds to.
  Steps expand(MaskAttrInterface mask, bool opaque, const Shape &shape,
               int64_t firstQuery) {
    IRRewriter rewriter(&context);
    Location loc = rewriter.getUnknownLoc();
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    rewriter.setInsertionPointToStart(module->getBody());
    auto index = [&](int64_t value) -> Value {
      return arith::ConstantIndexOp::create(rewriter, loc, value);
    };
    auto tiles = KeyTilesOp::create(
        rewriter, loc, index(firstQuery), shape.queryTile, shape.keyTile,
        index(shape.queryLength), index(shape.keyLength), mask, opaque);
    auto user = UnrealizedConversionCastOp::create(
        rewriter, loc, rewriter.getIndexType(), tiles.getResults());
    expandKeyTiles(rewriter, tiles);
    SmallVector<int64_t> values;
    for (Value operand : user.getOperands()) {
      std::optional<int64_t> value = getConstantIntValue(operand);
      EXPECT_TRUE(value.has_value());
      values.push_back(value.value_or(-1));
    }
    return {values[0], values[1], values[2], values[3]};
  }

  void check(MaskAttrInterface mask, bool opaque, const Shape &shape,
             int64_t firstQuery);
  void checkMask(MaskAttrInterface mask);

  MLIRContext context;
};

void KeyTilesTest::check(MaskAttrInterface mask, bool opaque,
                         const Shape &shape, int64_t firstQuery) {
  Steps steps = expand(mask, opaque, shape, firstQuery);
  int64_t numTiles = (shape.keyLength + shape.keyTile - 1) / shape.keyTile;
  ASSERT_LE(1, steps.lead);
  ASSERT_LE(steps.lead, steps.full);
  ASSERT_LE(steps.full, steps.count);
  ASSERT_LT(steps.last, numTiles);
  ASSERT_GE(steps.last - steps.count + 1, 0);
  if (opaque)
    ASSERT_EQ(steps.lead, steps.count);

  int64_t endQuery = std::min(firstQuery + shape.queryTile, shape.queryLength);
  for (int64_t tile = 0; tile < numTiles; ++tile) {
    bool any = false, all = true;
    for (int64_t query = firstQuery; query < endQuery; ++query) {
      for (int64_t k = 0; k < shape.keyTile; ++k) {
        int64_t key = tile * shape.keyTile + k;
        bool keep = key < shape.keyLength &&
                    (!mask || mask.isAttended(query, key, shape.queryLength,
                                              shape.keyLength));
        any |= keep;
        all &= keep;
      }
    }
    int64_t step = steps.last - tile;
    bool visited = step >= 0 && step < steps.count;
    bool unmasked = visited && step >= steps.lead && step < steps.full;
    if (any)
      EXPECT_TRUE(visited) << "tile " << tile;
    if (unmasked)
      EXPECT_TRUE(all) << "tile " << tile;
    // Nothing that could be skipped is visited or masked.
    if (!any && steps.count > 1)
      EXPECT_FALSE(visited) << "tile " << tile;
    if (all && step != 0 && !opaque)
      EXPECT_TRUE(unmasked) << "tile " << tile;
  }
}

void KeyTilesTest::checkMask(MaskAttrInterface mask) {
  for (int64_t queryLength : {1, 2, 5, 7, 8, 12})
    for (int64_t keyLength : {1, 3, 4, 8, 9, 16, 21})
      for (int64_t queryTile : {1, 3, 4})
        for (int64_t keyTile : {1, 4, 5})
          for (int64_t first = 0; first < queryLength; first += queryTile)
            for (bool opaque : {false, true}) {
              Shape shape{queryLength, keyLength, queryTile, keyTile};
              SCOPED_TRACE(::testing::Message()
                           << "lengths " << queryLength << "x" << keyLength
                           << ", tile " << queryTile << "x" << keyTile
                           << ", first query " << first);
              check(mask, opaque, shape, first);
            }
}

TEST_F(KeyTilesTest, NoMask) { checkMask(nullptr); }

TEST_F(KeyTilesTest, Causal) {
  for (MaskAlignment alignment :
       {MaskAlignment::BottomRight, MaskAlignment::TopLeft})
    checkMask(CausalAttr::get(&context, alignment));
}

TEST_F(KeyTilesTest, SlidingWindow) {
  std::optional<int64_t> none;
  std::pair<std::optional<int64_t>, std::optional<int64_t>> windows[] = {
      {0, 0}, {2, 0}, {0, 3}, {4, 1}, {5, none}, {none, 2}, {100, 100}};
  for (MaskAlignment alignment :
       {MaskAlignment::BottomRight, MaskAlignment::TopLeft})
    for (auto [left, right] : windows)
      checkMask(SlidingWindowAttr::get(&context, left, right, alignment));
}

/// Without a bound on the left there is no third loop.
TEST_F(KeyTilesTest, FullIsCount) {
  IRRewriter rewriter(&context);
  Location loc = rewriter.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  rewriter.setInsertionPointToStart(module->getBody());
  Value operand = UnrealizedConversionCastOp::create(
                      rewriter, loc, rewriter.getIndexType(), ValueRange())
                      .getResult(0);
  auto tiles = KeyTilesOp::create(rewriter, loc, operand, 4, 4, operand,
                                  operand, CausalAttr::get(&context, {}));
  auto user = UnrealizedConversionCastOp::create(
      rewriter, loc, rewriter.getIndexType(), tiles.getResults());
  expandKeyTiles(rewriter, tiles);
  EXPECT_EQ(user.getOperand(2), user.getOperand(3));
  EXPECT_NE(user.getOperand(1), user.getOperand(3));
}
} // namespace
