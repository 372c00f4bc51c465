//===- OrderedAccumulationTest.cpp - Tests of the order of additions ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the dkdv kernel with ordered dQ accumulation, for many shapes and
// numbers of CTAs, as far as it computes with indices. The additions to a query
// tile must wait for the semaphore values 0, 1, 2 and so on, once for each key
// tile that it attends; and CTAs that all wait must come to an end.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "attn/Dialect/AttnTile/Transforms/ScheduleInterfaceImpl.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <map>

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
struct Shape {
  int64_t heads, queries, keys;
};

enum class Lengths { Static, Dynamic };

/// An addition of a tile of keys to one of queries.
struct Addition {
  /// Batch entry, head and first row of the tile of queries.
  std::array<int64_t, 3> tile;
  int64_t turn;
};

class OrderedAccumulationTest : public ::testing::Test {
protected:
  OrderedAccumulationTest() {
    DialectRegistry registry;
    registerScheduleInterfaceExternalModels(registry);
    context.appendDialectRegistry(registry);
    context.loadDialect<arith::ArithDialect, attn::AttnDialect, AttnTileDialect,
                        func::FuncDialect, math::MathDialect,
                        memref::MemRefDialect, scf::SCFDialect,
                        vector::VectorDialect>();
  }

  void writeKernel(const Shape &shape, StringRef mask, int64_t queryTile,
                   int64_t queryParts, Lengths lengths);
  /// The additions of a CTA, in order.
  std::vector<Addition> run(int64_t program, int64_t programs);
  void checkOrder(const Shape &shape, StringRef mask, int64_t queryTile,
                  int64_t queryParts, Lengths lengths);
  void checkOrder(const Shape &shape, StringRef mask) {
    for (Lengths lengths : {Lengths::Static, Lengths::Dynamic}) {
      checkOrder(shape, mask, /*queryTile=*/32, /*queryParts=*/1, lengths);
      if (mask.empty())
        checkOrder(shape, mask, /*queryTile=*/48, /*queryParts=*/1, lengths);
      checkOrder(shape, mask, /*queryTile=*/64, /*queryParts=*/1, lengths);
      checkOrder(shape, mask, /*queryTile=*/128, /*queryParts=*/2, lengths);
    }
  }

private:
  void runBlock(Block &block);
  int64_t getLength(memref::DimOp dim);
  /// The values of `operands`, if all are known.
  std::optional<SmallVector<Attribute>> getAll(ValueRange operands);
  int64_t get(Value value) {
    Attribute known = values.lookup(value);
    EXPECT_TRUE(known);
    return known ? cast<IntegerAttr>(known).getInt() : 0;
  }
  void setIndex(Value value, int64_t index) {
    values[value] = Builder(&context).getIndexAttr(index);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Shape shape;
  int64_t program = 0, programs = 1;
  DenseMap<Value, Attribute> values;
  std::vector<Addition> additions;
};
} // namespace

void OrderedAccumulationTest::writeKernel(const Shape &shape, StringRef mask,
                                          int64_t queryTile, int64_t queryParts,
                                          Lengths lengths) {
  this->shape = shape;
  auto write = [&](const char *format, int64_t length) {
    return llvm::formatv(format, shape.heads,
                         lengths == Lengths::Static ? std::to_string(length)
                                                    : "?")
        .str();
  };
  std::string query = write("memref<2x{0}x{1}x128xbf16>", shape.queries);
  std::string key = write("memref<2x{0}x{1}x128xbf16>", shape.keys);
  std::string row = write("memref<2x{0}x{1}xf32>", shape.queries);
  StringRef traversal = mask.empty() ? "persistent" : "paired";
  auto text = llvm::formatv(
      R"mlir(
      func.func @f(%q: {0}, %k: {1}, %lse: {2}) {{
        attn.attention_grad
            ins(%q, %k, %k, %q, %lse, %q : {0}, {1}, {1}, {0}, {2}, {0})
            outs(%q, %k, %k : {0}, {1}, {1}) {3}
            schedule(#attn_tile.gradient<
                preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64,
                                             stages = 2, warps = 8>,
                dkdv = #attn_tile.key_stationary<query_tile = {4},
                    key_tile = 128, stages = 4, consumers = 2,
                    traversal = {5}, query_parts = {6}, ordered_dq = true>>)
            deterministic
        return
      })mlir",
      query, key, row, mask, queryTile, traversal, queryParts);
  module = parseSourceString<ModuleOp>(text.str(), &context);
  ASSERT_TRUE(module);
  PassManager manager(&context);
  manager.addPass(attn::createConvertAttnToAttnTilePass());
  AttnTileSetTraversalPassOptions options;
  options.kind =
      mask.empty() ? TraversalKind::Persistent : TraversalKind::Paired;
  options.inOrder = true;
  manager.addPass(createAttnTileSetTraversalPass(options));
  ASSERT_TRUE(succeeded(manager.run(*module)));
}

int64_t OrderedAccumulationTest::getLength(memref::DimOp dim) {
  // Only lengths of operands are dynamic.
  EXPECT_EQ(dim.getConstantIndex(), 2);
  unsigned number = cast<BlockArgument>(dim.getSource()).getArgNumber();
  auto kernel = dim->getParentOfType<KernelOp>();
  int64_t length = 0;
  module->walk([&](LaunchOp launch) {
    if (launch.getKernel().getLeafReference() != kernel.getSymName())
      return;
    auto argument = dyn_cast<BlockArgument>(launch.getKernelOperands()[number]);
    ASSERT_TRUE(argument);
    length = argument.getArgNumber() == 0 ? shape.queries : shape.keys;
  });
  return length;
}

std::optional<SmallVector<Attribute>>
OrderedAccumulationTest::getAll(ValueRange operands) {
  SmallVector<Attribute> known;
  for (Value operand : operands) {
    known.push_back(values.lookup(operand));
    if (!known.back())
      return std::nullopt;
  }
  return known;
}

void OrderedAccumulationTest::runBlock(Block &block) {
  for (Operation &op : block) {
    if (isa<ProgramIdOp>(op)) {
      setIndex(op.getResult(0), program);
    } else if (isa<NumProgramsOp>(op)) {
      setIndex(op.getResult(0), programs);
    } else if (auto dim = dyn_cast<memref::DimOp>(op)) {
      setIndex(dim, getLength(dim));
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      // Loops carry tiles here, whose values are not needed.
      for (int64_t i = get(loop.getLowerBound()),
                   end = get(loop.getUpperBound()), step = get(loop.getStep());
           i < end; i += step) {
        setIndex(loop.getInductionVar(), i);
        runBlock(*loop.getBody());
      }
    } else if (auto add = dyn_cast<BulkReduceAddOp>(op)) {
      SmallVector<int64_t> tile;
      for (Value index : add.getSemaphoreIndices())
        tile.push_back(get(index));
      ASSERT_EQ(tile.size(), 3u);
      additions.push_back({{tile[0], tile[1], tile[2]}, get(add.getOrdinal())});
    } else if (op.getNumRegions() == 0 && op.getNumResults() == 1) {
      SmallVector<OpFoldResult> results;
      std::optional<SmallVector<Attribute>> operands = getAll(op.getOperands());
      if (!operands || failed(op.fold(*operands, results)) || results.empty())
        continue;
      auto value = dyn_cast<Value>(results[0]);
      values[op.getResult(0)] =
          value ? values.lookup(value) : cast<Attribute>(results[0]);
    }
  }
}

std::vector<Addition> OrderedAccumulationTest::run(int64_t program,
                                                   int64_t programs) {
  this->program = program;
  this->programs = programs;
  values.clear();
  additions.clear();
  auto kernels = module->getOps<KernelOp>();
  auto ofKeys = llvm::find_if(kernels, [](KernelOp kernel) {
    return kernel.getSymName() == "f_grad_dkdv_kernel";
  });
  EXPECT_NE(ofKeys, kernels.end());
  runBlock((*ofKeys).getBody().front());
  return additions;
}

/// How many tiles of `keyTile` keys the queries `[first, end)` attend.
static int64_t countAttended(const Shape &shape, StringRef mask, int64_t first,
                             int64_t end, int64_t keyTile) {
  if (mask.empty())
    return llvm::divideCeil(shape.keys, keyTile);
  int64_t shift = mask.contains("top_left") ? 0 : shape.keys - shape.queries;
  int64_t last = std::min(end, shape.queries) - 1 + shift;
  int64_t keys = std::clamp<int64_t>(last + 1, 0, shape.keys);
  return llvm::divideCeil(keys, keyTile);
}

void OrderedAccumulationTest::checkOrder(const Shape &shape, StringRef mask,
                                         int64_t queryTile, int64_t queryParts,
                                         Lengths lengths) {
  writeKernel(shape, mask, queryTile, queryParts, lengths);
  for (int64_t programs : {1, 2, 3, 5, 8, 13, 132}) {
    SCOPED_TRACE(::testing::Message()
                 << shape.heads << " heads, " << shape.queries << " queries, "
                 << shape.keys << " keys, " << programs << " groups "
                 << mask.str());
    std::vector<std::vector<Addition>> groups;
    std::map<std::array<int64_t, 3>, int64_t> expected;
    for (int64_t program = 0; program < programs; ++program) {
      groups.push_back(run(program, programs));
      for (const Addition &addition : groups.back())
        expected[addition.tile] =
            countAttended(shape, mask, addition.tile[2],
                          addition.tile[2] + queryTile, /*keyTile=*/128);
    }
    int64_t attending = 0;
    for (int64_t row = 0; row < shape.queries; row += queryTile)
      attending += countAttended(shape, mask, row, row + queryTile, 128) > 0;
    EXPECT_EQ(expected.size(), size_t(2 * shape.heads * attending));

    // Each CTA waits until its next addition is due.
    std::map<std::array<int64_t, 3>, int64_t> added;
    std::vector<size_t> done(groups.size());
    for (bool goesOn = true; goesOn;) {
      goesOn = false;
      for (auto [group, next] : llvm::zip_equal(groups, done)) {
        while (next < group.size() &&
               added[group[next].tile] == group[next].turn) {
          ++added[group[next].tile];
          ++next;
          goesOn = true;
        }
      }
    }
    for (auto [group, next] : llvm::zip_equal(groups, done))
      EXPECT_EQ(next, group.size()) << "a group waits for ever";
    EXPECT_EQ(added, expected);
  }
}

static const Shape shapes[] = {{1, 64, 128},  {1, 1, 128},    {2, 200, 333},
                               {1, 65, 1},    {3, 512, 512},  {1, 130, 3000},
                               {1, 1024, 1},  {2, 1000, 777}, {1, 777, 1000},
                               {5, 640, 640}, {1, 2048, 1920}};

TEST_F(OrderedAccumulationTest, AllPairs) {
  for (const Shape &shape : shapes)
    checkOrder(shape, "");
}

TEST_F(OrderedAccumulationTest, Causal) {
  for (const Shape &shape : shapes)
    checkOrder(shape, "mask(#attn.causal)");
}

TEST_F(OrderedAccumulationTest, CausalFromTheTopLeft) {
  for (const Shape &shape : shapes)
    checkOrder(shape, "mask(#attn.causal<alignment = top_left>)");
}
