//===- KVTileIteratorTest.cpp - Tests of the expansion of key tile ranges -===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expands `attn_tile.kv_tile_iterator` with constant operands for many shapes
// and compares the steps with the pairs that the masks keep.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/Transforms/KVTileIterator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/FoldUtils.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

namespace {
struct Shape {
  int64_t queryLength, keyLength, queryTile, keyTile;
};

struct Steps {
  /// The tile that each step visits.
  SmallVector<int64_t> tiles;
  int64_t masked;
  /// Whether there is none, or only one of another split.
  bool isEmpty;
};

class KVTileIteratorTest : public ::testing::Test {
protected:
  KVTileIteratorTest() {
    context.loadDialect<arith::ArithDialect, AttnDialect, AttnTileDialect>();
  }

  /// Expands the operation for the queries from `firstQuery` and reads the
  /// constants that it folds to.
  Steps expand(MaskAttrInterface mask, bool hasRegion, const Shape &shape,
               int64_t firstQuery,
               std::optional<std::pair<int64_t, int64_t>> part = std::nullopt) {
    IRRewriter rewriter(&context);
    Location loc = rewriter.getUnknownLoc();
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    rewriter.setInsertionPointToStart(module->getBody());
    auto index = [&](int64_t value) -> Value {
      return arith::ConstantIndexOp::create(rewriter, loc, value);
    };
    Value zero = index(0);
    auto tiles = KVTileIteratorOp::create(
        rewriter, loc, zero, zero, index(firstQuery), shape.queryTile,
        shape.keyTile, index(shape.queryLength), index(shape.keyLength), mask);
    if (hasRegion)
      addRegion(rewriter, tiles);
    if (part) {
      rewriter.setInsertionPoint(tiles);
      tiles.getSplitMutable().assign(index(part->first));
      tiles.getSplitsMutable().assign(index(part->second));
    }
    rewriter.setInsertionPointAfter(tiles);
    Value isEmpty = IsSplitEmptyOp::create(rewriter, loc, tiles.getTiles());
    SmallVector<Value> values = {
        tiles.getMasked(), tiles.getCount(),
        arith::IndexCastUIOp::create(rewriter, loc, rewriter.getIndexType(),
                                     isEmpty)};
    for (int64_t step = 0; step * shape.keyTile < shape.keyLength; ++step)
      values.push_back(
          KVTileAtOp::create(rewriter, loc, tiles.getTiles(), index(step)));
    auto user = UnrealizedConversionCastOp::create(
        rewriter, loc, TypeRange(rewriter.getIndexType()), values);
    expandKVTileIterator(rewriter, tiles);
    SmallVector<int64_t> constants;
    OperationFolder folder(&context);
    for (Operation &op : llvm::make_early_inc_range(*module->getBody()))
      (void)folder.tryToFold(&op);
    for (Value operand : user.getOperands()) {
      std::optional<int64_t> value = getConstantIntValue(operand);
      EXPECT_TRUE(value.has_value());
      constants.push_back(value.value_or(-1));
    }
    int64_t count = constants[1];
    EXPECT_LE(1, count);
    EXPECT_LE(count, static_cast<int64_t>(constants.size()) - 3);
    Steps steps;
    steps.masked = constants[0];
    steps.isEmpty = constants[2] != 0;
    steps.tiles.append(constants.begin() + 3, constants.begin() + 3 + count);
    return steps;
  }

  /// Adds a region that keeps everything, which the expansion does not know: it
  /// is not affine.
  static void addRegion(OpBuilder &builder, KVTileIteratorOp tiles) {
    OpBuilder::InsertionGuard guard(builder);
    Location loc = tiles.getLoc();
    SmallVector<Type> types(4, builder.getIndexType());
    SmallVector<Location> locs(4, loc);
    Block *body = builder.createBlock(&tiles.getMaskMod(), {}, types, locs);
    Value product = arith::MulIOp::create(builder, loc, body->getArgument(2),
                                          body->getArgument(3));
    Value query = body->getArgument(2);
    Value keep = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge,
                                       product, query);
    keep = arith::OrIOp::create(builder, loc, keep,
                                arith::CmpIOp::create(builder, loc,
                                                      arith::CmpIPredicate::slt,
                                                      product, query)
                                    .getResult());
    attn_tile::YieldOp::create(builder, loc, keep);
  }

  void check(MaskAttrInterface mask, bool hasRegion, const Shape &shape,
             int64_t firstQuery);
  void checkMask(MaskAttrInterface mask);

  MLIRContext context;
};

void KVTileIteratorTest::check(MaskAttrInterface mask, bool hasRegion,
                               const Shape &shape, int64_t firstQuery) {
  Steps steps = expand(mask, hasRegion, shape, firstQuery);
  int64_t numTiles = (shape.keyLength + shape.keyTile - 1) / shape.keyTile;
  int64_t count = steps.tiles.size();
  ASSERT_LE(1, steps.masked);
  ASSERT_LE(steps.masked, count);
  if (hasRegion)
    ASSERT_EQ(steps.masked, count);
  SmallVector<int64_t> stepOfTile(numTiles, -1);
  for (auto [step, tile] : llvm::enumerate(steps.tiles)) {
    ASSERT_LE(0, tile);
    ASSERT_LT(tile, numTiles);
    EXPECT_EQ(stepOfTile[tile], -1) << "tile " << tile << " is visited twice";
    stepOfTile[tile] = step;
  }

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
    int64_t step = stepOfTile[tile];
    bool visited = step >= 0;
    bool unmasked = step >= steps.masked;
    if (any)
      EXPECT_TRUE(visited) << "tile " << tile;
    if (unmasked)
      EXPECT_TRUE(all) << "tile " << tile;
    // Nothing that could be skipped is visited or masked.
    if (!any && count > 1)
      EXPECT_FALSE(visited) << "tile " << tile;
    if (all && step != 0 && !hasRegion)
      EXPECT_TRUE(unmasked) << "tile " << tile;
  }
}

void KVTileIteratorTest::checkMask(MaskAttrInterface mask) {
  for (int64_t queryLength : {1, 5, 8})
    for (int64_t keyLength : {1, 4, 9, 16})
      for (int64_t queryTile : {1, 3, 4})
        for (int64_t keyTile : {1, 4, 5})
          for (int64_t first = 0; first < queryLength; first += queryTile)
            for (bool hasRegion : {false, true}) {
              Shape shape{queryLength, keyLength, queryTile, keyTile};
              SCOPED_TRACE(::testing::Message()
                           << "lengths " << queryLength << "x" << keyLength
                           << ", tile " << queryTile << "x" << keyTile
                           << ", first query " << first);
              check(mask, hasRegion, shape, first);
            }
}

TEST_F(KVTileIteratorTest, NoMask) { checkMask(nullptr); }

TEST_F(KVTileIteratorTest, Causal) {
  for (MaskAlignment alignment :
       {MaskAlignment::BottomRight, MaskAlignment::TopLeft})
    checkMask(CausalAttr::get(&context, alignment));
}

TEST_F(KVTileIteratorTest, SlidingWindow) {
  std::optional<int64_t> none;
  std::pair<std::optional<int64_t>, std::optional<int64_t>> windows[] = {
      {0, 0}, {2, 0}, {0, 3}, {4, 1}, {5, none}, {none, 2}, {100, 100}};
  for (MaskAlignment alignment :
       {MaskAlignment::BottomRight, MaskAlignment::TopLeft})
    for (auto [left, right] : windows)
      checkMask(SlidingWindowAttr::get(&context, left, right, alignment));
}

/// Splits of an iteration visit its steps one after the other.
TEST_F(KVTileIteratorTest, Shares) {
  Attribute masks[] = {
      nullptr, CausalAttr::get(&context, MaskAlignment::BottomRight),
      SlidingWindowAttr::get(&context, 2, 1, MaskAlignment::BottomRight)};
  for (Attribute attribute : masks) {
    auto mask = dyn_cast_if_present<MaskAttrInterface>(attribute);
    for (int64_t keyLength : {1, 4, 17, 32})
      for (int64_t parts : {1, 2, 3, 5, 40}) {
        Shape shape{8, keyLength, 4, 4};
        SCOPED_TRACE(::testing::Message()
                     << keyLength << " keys, " << parts << " parts");
        Steps whole = expand(mask, /*hasRegion=*/false, shape, 4);
        SmallVector<int64_t> tiles;
        for (int64_t part = 0; part < parts; ++part) {
          Steps share = expand(mask, /*hasRegion=*/false, shape, 4,
                               std::pair(part, parts));
          EXPECT_LE(1, share.masked);
          if (share.isEmpty) {
            EXPECT_EQ(share.tiles.size(), 1u);
            continue;
          }
          // Tiles with code for masks come first in the iteration.
          for (int64_t step = share.masked, e = share.tiles.size(); step < e;
               ++step)
            EXPECT_GE(int64_t(tiles.size()) + step, whole.masked);
          tiles.append(share.tiles);
        }
        EXPECT_EQ(tiles, whole.tiles);
      }
  }
}

/// With one bound alone, tiles follow one another and a step needs no
/// selection.
TEST_F(KVTileIteratorTest, TilesInOrder) {
  IRRewriter rewriter(&context);
  Location loc = rewriter.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  rewriter.setInsertionPointToStart(module->getBody());
  Value operand = UnrealizedConversionCastOp::create(
                      rewriter, loc, rewriter.getIndexType(), ValueRange())
                      .getResult(0);
  auto tiles =
      KVTileIteratorOp::create(rewriter, loc, operand, operand, operand, 4, 4,
                               operand, operand, CausalAttr::get(&context, {}));
  Value tile =
      KVTileAtOp::create(rewriter, loc, tiles.getTiles(), tiles.getMasked());
  auto user = UnrealizedConversionCastOp::create(
      rewriter, loc, TypeRange(rewriter.getIndexType()),
      ValueRange{tiles.getMasked(), tiles.getCount(), tile});
  expandKVTileIterator(rewriter, tiles);
  EXPECT_NE(user.getOperand(0), user.getOperand(1));
  EXPECT_TRUE(user.getOperand(2).getDefiningOp<arith::SubIOp>());
  EXPECT_TRUE(module->getOps<arith::SelectOp>().empty());
}
} // namespace
