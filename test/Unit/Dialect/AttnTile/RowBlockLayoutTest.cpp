//===- RowBlockLayoutTest.cpp - Tests of the layout of register tiles -----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates the code that the layout emits for every thread, and checks that
// each element of a tile belongs to exactly one register of one thread.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "gtest/gtest.h"

#include <map>
#include <set>
#include <vector>

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
struct Tile {
  int64_t warps, rows, columns;
};

class RowBlockLayoutTest : public ::testing::TestWithParam<Tile> {
protected:
  RowBlockLayoutTest() {
    context.loadDialect<arith::ArithDialect, AttnTileDialect>();
    layout = RowBlockLayoutAttr::get(&context, GetParam().warps);
  }

  /// The constant that `value` folds to.
  static Attribute evaluate(Value value) {
    Operation *op = value.getDefiningOp();
    SmallVector<Attribute> operands;
    for (Value operand : op->getOperands())
      operands.push_back(evaluate(operand));
    SmallVector<OpFoldResult> results;
    EXPECT_TRUE(succeeded(op->fold(operands, results)));
    if (results.empty())
      return {};
    if (auto attribute = dyn_cast<Attribute>(results.front()))
      return attribute;
    return evaluate(cast<Value>(results.front()));
  }

  /// Rows and columns of a thread's registers.
  struct Positions {
    SmallVector<int64_t> rows;
    SmallVector<int64_t> columns;
  };

  Positions getPositions(int64_t thread) {
    OpBuilder builder(&context);
    Location loc = builder.getUnknownLoc();
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    builder.setInsertionPointToStart(module->getBody());
    Value index = arith::ConstantIntOp::create(builder, loc, thread, 32);
    auto getInt = [](Value value) {
      return cast<IntegerAttr>(evaluate(value)).getInt();
    };
    int64_t baseRow = getInt(layout.emitBaseRow(builder, loc, index));
    int64_t baseColumn = getInt(layout.emitBaseColumn(builder, loc, index));
    Positions positions;
    for (int64_t r = 0; r < layout.getRowRegisters(GetParam().rows); ++r)
      positions.rows.push_back(baseRow + layout.getRowOffset(r));
    int64_t columns = GetParam().columns;
    for (int64_t c = 0; c < layout.getColumnRegisters(columns); ++c)
      positions.columns.push_back(baseColumn + layout.getColumnOffset(c));
    return positions;
  }

  MLIRContext context;
  RowBlockLayoutAttr layout;
};

TEST_P(RowBlockLayoutTest, EachElementHasOneOwner) {
  auto [warps, rows, columns] = GetParam();
  ASSERT_TRUE(layout.supports({rows, columns}));
  ASSERT_EQ(layout.getNumThreads(), warps * 32);
  std::vector<int> owners(rows * columns);
  for (int64_t thread = 0; thread < layout.getNumThreads(); ++thread) {
    Positions positions = getPositions(thread);
    for (int64_t row : positions.rows)
      for (int64_t column : positions.columns) {
        ASSERT_TRUE(0 <= row && row < rows) << row;
        ASSERT_TRUE(0 <= column && column < columns) << column;
        ++owners[row * columns + column];
      }
  }
  for (auto [element, count] : llvm::enumerate(owners))
    ASSERT_EQ(count, 1) << "row " << element / columns << ", column "
                        << element % columns;
}

/// Registers are pairs of neighbours, which 16-bit tiles rely on.
TEST_P(RowBlockLayoutTest, NeighboursArePaired) {
  Positions positions = getPositions(/*thread=*/5);
  ASSERT_EQ(positions.columns.size() % 2, 0u);
  for (size_t c = 0; c < positions.columns.size(); c += 2) {
    EXPECT_EQ(positions.columns[c] % 2, 0);
    EXPECT_EQ(positions.columns[c] + 1, positions.columns[c + 1]);
  }
}

/// The exchanges reach exactly the threads that own the same rows.
TEST_P(RowBlockLayoutTest, ShufflesReachTheRow) {
  std::map<int64_t, std::set<int64_t>> owners;
  std::vector<Positions> positions;
  for (int64_t thread = 0; thread < layout.getNumThreads(); ++thread) {
    positions.push_back(getPositions(thread));
    for (int64_t row : positions.back().rows)
      owners[row].insert(thread);
  }
  EXPECT_EQ(owners.size(), static_cast<size_t>(GetParam().rows));
  for (int64_t thread = 0; thread < layout.getNumThreads(); ++thread) {
    std::set<int64_t> reached = {thread};
    for (int64_t mask : layout.getRowShuffles()) {
      std::set<int64_t> next = reached;
      for (int64_t other : reached)
        next.insert(other ^ mask);
      reached = next;
    }
    for (int64_t other : reached)
      EXPECT_EQ(other / 32, thread / 32);
    for (int64_t row : positions[thread].rows)
      EXPECT_EQ(owners[row], reached) << "row " << row;
  }
}

/// A value per row is held by the threads that own the row, in the order of
/// their rows.
TEST_P(RowBlockLayoutTest, RowVectors) {
  EXPECT_TRUE(layout.supports({GetParam().rows}));
  EXPECT_TRUE(layout.supports({GetParam().rows, 1}));
  EXPECT_EQ(layout.getColumnRegisters(1), 1);
}

TEST_P(RowBlockLayoutTest, OtherShapesAreNotSupported) {
  auto [warps, rows, columns] = GetParam();
  EXPECT_FALSE(layout.supports({}));
  EXPECT_FALSE(layout.supports({rows + 8, columns}));
  EXPECT_FALSE(layout.supports({rows, columns + 4}));
  EXPECT_FALSE(layout.supports({1, rows, columns}));
}

INSTANTIATE_TEST_SUITE_P(Shapes, RowBlockLayoutTest,
                         ::testing::Values(Tile{1, 16, 8}, Tile{1, 48, 24},
                                           Tile{2, 32, 64}, Tile{2, 64, 72},
                                           Tile{4, 64, 176}, Tile{4, 128, 64},
                                           Tile{4, 192, 8}, Tile{8, 128, 128},
                                           Tile{8, 256, 40}, Tile{12, 192, 96},
                                           Tile{3, 96, 256}),
                         [](const ::testing::TestParamInfo<Tile> &info) {
                           return "warps" + std::to_string(info.param.warps) +
                                  "_" + std::to_string(info.param.rows) + "x" +
                                  std::to_string(info.param.columns);
                         });
} // namespace
