//===- TraversalTest.cpp - Tests of traversals of work items --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the traversals that `attn-tile-set-traversal` writes, for many shapes
// and numbers of CTAs: each work item must be visited once, and pairs must
// balance the work of a causal mask.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "attn/PerfModel/BusiestSM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
struct Shape {
  int64_t batches, heads, tiles;
};

/// The work items of one CTA, in order.
using Items = std::vector<std::array<int64_t, 3>>;

class TraversalTest : public ::testing::Test {
protected:
  TraversalTest() {
    context
        .loadDialect<arith::ArithDialect, scf::SCFDialect, AttnTileDialect>();
    context.allowUnregisteredDialects();
  }

  /// Writes the traversal of a kernel whose loop bounds are its arguments.
  void writeIteration(TraversalKind kind, int64_t interleave = 1,
                      bool inOrder = false, int64_t lastWorkItems = 0) {
    module = parseSourceString<ModuleOp>(R"mlir(
      attn_tile.kernel @items(%b: index, %h: index, %n: index) {
        scf.forall (%i, %j, %k) in (%b, %h, %n) {
          "test.visit"(%i, %j, %k) : (index, index, index) -> ()
        }
        attn_tile.return
      })mlir",
                                         &context);
    ASSERT_TRUE(module);
    PassManager manager(&context);
    AttnTileSetTraversalPassOptions options;
    options.kind = kind;
    options.interleave = interleave;
    options.inOrder = inOrder;
    options.lastWorkItems = lastWorkItems;
    manager.addPass(createAttnTileSetTraversalPass(options));
    ASSERT_TRUE(succeeded(manager.run(*module)));
  }

  Items run(const Shape &shape, int64_t program, int64_t programs);
  void checkVisits(const Shape &shape, int64_t programs,
                   std::vector<Items> &groups);

  MLIRContext context;
  OwningOpRef<ModuleOp> module;

private:
  void runBlock(Block &block, int64_t program, int64_t programs);
  int64_t get(Value value) {
    return cast<IntegerAttr>(values.lookup(value)).getInt();
  }

  DenseMap<Value, Attribute> values;
  Items visited;
};
} // namespace

void TraversalTest::runBlock(Block &block, int64_t program, int64_t programs) {
  Builder builder(&context);
  for (Operation &op : block) {
    if (isa<ProgramIdOp>(op)) {
      values[op.getResult(0)] = builder.getIndexAttr(program);
    } else if (isa<NumProgramsOp>(op)) {
      values[op.getResult(0)] = builder.getIndexAttr(programs);
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      for (int64_t i = get(loop.getLowerBound()),
                   end = get(loop.getUpperBound());
           i < end; ++i) {
        values[loop.getInductionVar()] = builder.getIndexAttr(i);
        runBlock(*loop.getBody(), program, programs);
      }
    } else if (op.getName().getStringRef() == "test.visit") {
      visited.push_back({get(op.getOperand(0)), get(op.getOperand(1)),
                         get(op.getOperand(2))});
    } else if (op.getNumResults() != 0) {
      SmallVector<Attribute> operands;
      for (Value operand : op.getOperands())
        operands.push_back(values.lookup(operand));
      SmallVector<OpFoldResult> results;
      ASSERT_TRUE(succeeded(op.fold(operands, results)) && !results.empty())
          << op.getName().getStringRef().str();
      auto value = dyn_cast<Value>(results[0]);
      values[op.getResult(0)] =
          value ? values.lookup(value) : cast<Attribute>(results[0]);
    }
  }
}

Items TraversalTest::run(const Shape &shape, int64_t program,
                         int64_t programs) {
  Builder builder(&context);
  auto kernel = *module->getOps<KernelOp>().begin();
  Block &body = kernel.getBody().front();
  values.clear();
  visited.clear();
  for (auto [argument, size] :
       llvm::zip(body.getArguments(),
                 std::array{shape.batches, shape.heads, shape.tiles}))
    values[argument] = builder.getIndexAttr(size);
  runBlock(body, program, programs);
  return visited;
}

/// Runs all CTAs and expects every work item exactly once.
void TraversalTest::checkVisits(const Shape &shape, int64_t programs,
                                std::vector<Items> &groups) {
  SCOPED_TRACE(::testing::Message()
               << shape.batches << "x" << shape.heads << "x" << shape.tiles
               << " work items, " << programs << " CTAs");
  std::map<std::array<int64_t, 3>, int64_t> count;
  groups.clear();
  for (int64_t program = 0; program < programs; ++program) {
    groups.push_back(run(shape, program, programs));
    for (auto &item : groups.back())
      ++count[item];
  }
  EXPECT_EQ(count.size(), size_t(shape.batches * shape.heads * shape.tiles));
  for (auto &[item, times] : count) {
    EXPECT_EQ(times, 1);
    EXPECT_TRUE(item[0] >= 0 && item[0] < shape.batches);
    EXPECT_TRUE(item[1] >= 0 && item[1] < shape.heads);
    EXPECT_TRUE(item[2] >= 0 && item[2] < shape.tiles);
  }
}

static const Shape shapes[] = {{1, 1, 1},  {1, 1, 2}, {2, 3, 1},  {1, 3, 5},
                               {3, 2, 4},  {2, 5, 7}, {1, 2, 16}, {4, 4, 9},
                               {1, 7, 12}, {2, 8, 24}};

TEST_F(TraversalTest, VisitsEachWorkItemOnce) {
  std::vector<Items> groups;
  const std::pair<TraversalKind, int64_t> walks[] = {
      {TraversalKind::Persistent, 0},
      {TraversalKind::Persistent, 1},
      {TraversalKind::Persistent, 3},
      {TraversalKind::Paired, 1}};
  for (auto [kind, interleave] : walks) {
    SCOPED_TRACE(stringifyTraversalKind(kind).str());
    writeIteration(kind, interleave);
    for (const Shape &shape : shapes)
      for (int64_t programs : {1, 2, 3, 5, 7, 8, 11, 30})
        checkVisits(shape, programs, groups);
  }
}

TEST_F(TraversalTest, VisitsEachWorkItemOnceInOrder) {
  std::vector<Items> groups;
  for (TraversalKind kind :
       {TraversalKind::Persistent, TraversalKind::Paired}) {
    SCOPED_TRACE(stringifyTraversalKind(kind).str());
    writeIteration(kind, /*interleave=*/1, /*inOrder=*/true);
    for (const Shape &shape : shapes)
      for (int64_t programs : {1, 2, 3, 5, 7, 8, 11, 30})
        checkVisits(shape, programs, groups);
  }
}

TEST_F(TraversalTest, VisitsEachWorkItemOnceWithLastWorkItems) {
  std::vector<Items> groups;
  for (int64_t lastWorkItems : {1, 12, 64, 1000}) {
    writeIteration(TraversalKind::Paired, /*interleave=*/1, /*inOrder=*/true,
                   lastWorkItems);
    for (const Shape &shape : shapes)
      for (int64_t programs : {1, 2, 3, 5, 7, 8, 11, 30})
        checkVisits(shape, programs, groups);
  }
}

/// The work of the CTA with the most steps.
static attn_tile::SMWork countBusiest(ArrayRef<Items> groups,
                                      ArrayRef<attn::RowCounts> rows) {
  attn_tile::SMWork busiest;
  for (const Items &items : groups) {
    attn_tile::SMWork sm;
    for (const auto &item : items) {
      sm.steps += rows[item[2]].visited;
      sm.masked += rows[item[2]].masked;
      ++sm.workItems;
    }
    if (std::tuple(sm.steps, sm.workItems, sm.masked) >
        std::tuple(busiest.steps, busiest.workItems, busiest.masked))
      busiest = sm;
  }
  return busiest;
}

// The performance model deals out work items as the kernel does.
TEST_F(TraversalTest, TheModelKnowsTheBusiestCta) {
  std::vector<Items> groups;
  auto check = [&](const Shape &shape, int64_t programs, int64_t interleave) {
    checkVisits(shape, programs, groups);
    std::vector<attn::RowCounts> rows;
    for (int64_t row = 0; row < shape.tiles; ++row)
      rows.push_back({row + 1, row % 3});
    attn_tile::SMWork expected = countBusiest(groups, rows);
    std::optional<attn_tile::SMWork> found = attn_tile::findBusiestSM(
        rows, double(shape.batches * shape.heads), programs, interleave);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->steps, expected.steps);
    EXPECT_EQ(found->masked, expected.masked);
    EXPECT_EQ(found->workItems, expected.workItems);
  };
  for (int64_t interleave : {0, 1, 3, 8}) {
    SCOPED_TRACE(interleave);
    writeIteration(TraversalKind::Persistent, interleave);
    for (const Shape &shape : shapes)
      for (int64_t programs : {1, 2, 3, 5, 7, 8, 11, 30})
        check(shape, programs, interleave);
    // Causal windows of 1024 keys at 1024 queries.
    check({16, 10, 8}, /*programs=*/132, interleave);
  }
  // Without rows, or with too many of them, the model takes the mean.
  EXPECT_FALSE(attn_tile::findBusiestSM({}, 1, 132, 1));
  EXPECT_FALSE(attn_tile::findBusiestSM({{1, 0}}, 1e6, 132, 1));
}

// CTAs that begin together have consecutive work items, which start with the
// last tile of a head.
TEST_F(TraversalTest, RoundsAreInOrder) {
  std::vector<Items> groups;
  writeIteration(TraversalKind::Persistent, /*interleave=*/1, /*inOrder=*/true);
  for (const Shape &shape : shapes) {
    for (int64_t programs : {1, 3, 8}) {
      checkVisits(shape, programs, groups);
      for (int64_t program = 0; program < programs; ++program) {
        for (auto [round, item] : llvm::enumerate(groups[program])) {
          int64_t head = item[0] * shape.heads + item[1];
          int64_t number = (head + 1) * shape.tiles - 1 - item[2];
          EXPECT_EQ(number, int64_t(round) * programs + program);
        }
      }
    }
  }
}

/// The most work of a CTA over the mean, where query tile `q` costs `q + 1`.
static double getImbalance(const std::vector<Items> &groups) {
  int64_t most = 0, total = 0;
  for (const Items &items : groups) {
    int64_t work = 0;
    for (auto &item : items)
      work += item[2] + 1;
    most = std::max(most, work);
    total += work;
  }
  return double(most) * groups.size() / total;
}

TEST_F(TraversalTest, PairsShareTheWorkOut) {
  writeIteration(TraversalKind::Paired);
  std::vector<Items> groups;
  // As many CTAs as SMs of an H200 or an H100 PCIe; 16 heads of 16384 queries,
  // 32 heads, and short sequences.
  for (int64_t programs : {132, 114}) {
    for (const Shape &shape :
         {Shape{1, 16, 128}, Shape{1, 32, 128}, Shape{1, 32, 86},
          Shape{2, 16, 64}, Shape{8, 16, 16}, Shape{2, 32, 43}}) {
      checkVisits(shape, programs, groups);
      EXPECT_LE(getImbalance(groups), 1.04)
          << shape.heads << " heads, " << shape.tiles << " tiles, " << programs
          << " groups";
    }
  }
}

// CTAs end at about the same time although their number does not divide the
// pairs: 64 batches of 16 heads of 1024 queries are 31.03 waves on an H200.
TEST_F(TraversalTest, LastWorkItemsShareTheLastRoundsOut) {
  std::vector<Items> groups;
  const std::pair<Shape, double> shapes[] = {
      {{64, 16, 8}, 1.005}, {{16, 32, 8}, 1.015}, {{16, 16, 8}, 1.005},
      {{8, 16, 16}, 1.02},  {{8, 16, 15}, 1.035}, {{4, 16, 32}, 1.025},
      {{3, 5, 9}, 1.77},    {{5, 16, 24}, 1.025}};
  for (auto [shape, expected] : shapes) {
    SCOPED_TRACE(::testing::Message()
                 << shape.batches << "x" << shape.heads << "x" << shape.tiles);
    writeIteration(TraversalKind::Paired, /*interleave=*/1, /*inOrder=*/true);
    checkVisits(shape, /*programs=*/132, groups);
    double inOrder = getImbalance(groups);
    writeIteration(TraversalKind::Paired, /*interleave=*/1, /*inOrder=*/true,
                   /*lastWorkItems=*/528);
    checkVisits(shape, /*programs=*/132, groups);
    EXPECT_LE(getImbalance(groups), expected);
    EXPECT_LT(getImbalance(groups), inOrder);
  }
}

// No work item of earlier heads begins after one of the last heads, and no more
// heads than allowed are last ones.
TEST_F(TraversalTest, LastWorkItemsAreOfTheLastHeads) {
  std::vector<Items> groups;
  const Shape shape = {64, 16, 8};
  for (int64_t lastWorkItems : {100, 271, 272, 528}) {
    SCOPED_TRACE(lastWorkItems);
    writeIteration(TraversalKind::Paired, /*interleave=*/1, /*inOrder=*/true,
                   lastWorkItems);
    checkVisits(shape, /*programs=*/132, groups);
    int64_t first = shape.batches * shape.heads;
    if (lastWorkItems >= 272)
      first -= 34;
    for (const Items &items : groups) {
      int64_t head = 0;
      for (auto &item : items) {
        int64_t next = item[0] * shape.heads + item[1];
        if (head >= first)
          EXPECT_GE(next, first);
        else
          EXPECT_GE(next, head);
        head = next;
      }
    }
  }
}

// Tiles in the middle go to CTAs with less work in the last partial wave.
TEST_F(TraversalTest, MiddlesBalanceTheLastRound) {
  writeIteration(TraversalKind::Paired);
  std::vector<Items> groups;
  checkVisits({1, 32, 43}, /*programs=*/132, groups);
  EXPECT_LE(getImbalance(groups), 1.07);
  checkVisits({1, 16, 43}, /*programs=*/132, groups);
  EXPECT_LE(getImbalance(groups), 1.15);
  checkVisits({1, 4, 9}, /*programs=*/12, groups);
  EXPECT_LE(getImbalance(groups), 1.14);
}

TEST_F(TraversalTest, PairsAreNeverWorseThanWholeRounds) {
  writeIteration(TraversalKind::Paired);
  std::vector<Items> groups;
  for (const Shape &shape : shapes) {
    if (shape.tiles % 2 != 0)
      continue;
    for (int64_t programs : {1, 2, 3, 5, 7, 8, 11, 30}) {
      checkVisits(shape, programs, groups);
      int64_t pairs = shape.batches * shape.heads * shape.tiles / 2;
      double rounds = (pairs + programs - 1) / programs;
      EXPECT_LE(getImbalance(groups), rounds * programs / pairs + 1e-9);
    }
  }
}
