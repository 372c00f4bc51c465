//===- PeakMemoryTest.cpp - Memory of the tensors of a block --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares random blocks with a simulation that looks at each point of time for
// the buffers that are still to be read, as their generator knows them.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/PeakMemory.h"
#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "attn/PerfModel/CostOpInterfaceImpl.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <random>
#include <set>
#include <string>

using namespace mlir;
using namespace mlir::attn;

namespace {
BlockMemory measure(StringRef text) {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, AttnDialect, func::FuncDialect,
                  linalg::LinalgDialect, tensor::TensorDialect>();
  registerCostOpInterfaceExternalModels(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text.str();
  if (!module)
    return {};
  auto function = *module->getOps<func::FuncOp>().begin();
  return getBlockMemory(function.getBody().front(), CostAssumptions{});
}

/// A random function, with what its generator knows of it.
class Program {
public:
  explicit Program(std::mt19937 &random) : random(random) {
    text = "func.func @f(%v0: tensor<8x16xf32>, %v1: tensor<2x16xf32>) -> "
           "(RESULTS) {\n%zero = arith.constant 0.0 : f32\n";
    values = {{8, 2, std::nullopt}, {2, 2, std::nullopt}};
    for (int i = 0, e = pick(3, 14); i < e; ++i)
      addOperation();
    std::string returned, types;
    for (int i = 0, e = pick(1, 4); i < e; ++i) {
      unsigned value = pick(0, values.size() - 1);
      results.push_back(value);
      returned += (i ? ", " : "") + name(value);
      types += (i ? ", " : "") + type(value);
    }
    text += "return " + returned + " : " + types + "\n}\n";
    text.replace(text.find("RESULTS"), 7, types);
  }

  /// Whatever is kept, and is read at a step or later, is there.
  BlockMemory simulate() {
    BlockMemory memory;
    std::set<unsigned> owned;
    int64_t copies = 0;
    for (unsigned value : results) {
      std::optional<unsigned> buffer = values[value].buffer;
      if (!buffer || !owned.insert(*buffer).second)
        copies += bytes(value);
    }
    for (unsigned step = 0; step < reads.size(); ++step) {
      int64_t live = 0;
      for (auto [number, buffer] : llvm::enumerate(buffers)) {
        bool isThere = owned.count(number) || buffer.step == step;
        for (unsigned later = step; later < reads.size(); ++later)
          isThere |= reads[later].count(number) > 0;
        if (isThere && buffer.step <= step)
          live += buffer.bytes;
      }
      memory.peak = std::max(memory.peak, live);
    }
    for (unsigned number : owned)
      memory.kept += buffers[number].bytes;
    memory.kept += copies;
    memory.peak = std::max(memory.peak, memory.kept);
    return memory;
  }

  std::string text;

private:
  struct Value {
    unsigned rows, rank;
    std::optional<unsigned> buffer;
  };
  struct Buffer {
    int64_t bytes;
    unsigned step;
  };

  int pick(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  }
  static std::string name(unsigned value) {
    return "%v" + std::to_string(value);
  }
  std::string type(unsigned value) {
    return llvm::formatv(values[value].rank == 2 ? "tensor<{0}x16xf32>"
                                                 : "tensor<{0}x4x4xf32>",
                         values[value].rows);
  }
  int64_t bytes(unsigned value) { return int64_t(values[value].rows) * 64; }

  void addOperation() {
    unsigned operand = pick(0, values.size() - 1);
    unsigned step = reads.size(), result = values.size();
    std::set<unsigned> read;
    if (values[operand].buffer)
      read.insert(*values[operand].buffer);
    Value value = values[operand];
    if (pick(0, 2) == 0) {
      // A view.
      value.rank = 5 - value.rank;
      values.push_back(value);
      text +=
          value.rank == 3
              ? llvm::formatv("{0} = tensor.expand_shape {1} [[0], [1, 2]] "
                              "output_shape [{2}, 4, 4] : {3} into {4}\n",
                              name(result), name(operand), value.rows,
                              type(operand), type(result))
                    .str()
              : llvm::formatv("{0} = tensor.collapse_shape {1} [[0], [1, 2]] "
                              ": {2} into {3}\n",
                              name(result), name(operand), type(operand),
                              type(result))
                    .str();
      reads.push_back(read);
      return;
    }
    value.buffer = buffers.size();
    buffers.push_back({bytes(operand), step});
    values.push_back(value);
    std::string init = "%e" + std::to_string(result);
    text += init + " = tensor.empty() : " + type(operand) + "\n";
    if (pick(0, 1)) {
      // What is filled is no data of its own.
      text += llvm::formatv("{0}f = linalg.fill ins(%zero : f32) outs({0} : "
                            "{1}) -> {1}\n",
                            init, type(operand));
      init += "f";
    }
    text += llvm::formatv("{0} = linalg.exp ins({1} : {2}) outs({3} : {2}) -> "
                          "{2}\n",
                          name(result), name(operand), type(operand), init);
    reads.push_back(read);
  }

  std::mt19937 &random;
  SmallVector<Value> values;
  SmallVector<Buffer> buffers;
  SmallVector<unsigned> results;
  /// The buffers that each operation reads.
  SmallVector<std::set<unsigned>> reads;
};

TEST(PeakMemoryTest, AgreesWithASimulation) {
  std::mt19937 random(0);
  std::set<int64_t> peaks;
  for (unsigned round = 0; round < 300; ++round) {
    Program program(random);
    BlockMemory expected = program.simulate();
    BlockMemory found = measure(program.text);
    EXPECT_EQ(found.peak, expected.peak) << program.text;
    EXPECT_EQ(found.kept, expected.kept) << program.text;
    peaks.insert(found.peak);
  }
  EXPECT_GT(peaks.size(), 10u);
}

/// A view that is returned keeps its memory alive.
TEST(PeakMemoryTest, KeepsWhatViewsShow) {
  BlockMemory memory = measure(R"(
    func.func @f(%x: tensor<8x16xf32>) -> (tensor<8x4x4xf32>, tensor<8x16xf32>) {
      %e = tensor.empty() : tensor<8x16xf32>
      %y = linalg.exp ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
      %v = tensor.expand_shape %y [[0], [1, 2]] output_shape [8, 4, 4] : tensor<8x16xf32> into tensor<8x4x4xf32>
      %z = linalg.exp ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
      return %v, %z : tensor<8x4x4xf32>, tensor<8x16xf32>
    })");
  EXPECT_EQ(memory.peak, 1024);
  EXPECT_EQ(memory.kept, 1024);
}

/// Results that alias an argument, or were returned before, are copied.
TEST(PeakMemoryTest, CountsCopies) {
  BlockMemory memory = measure(R"(
    func.func @f(%x: tensor<8x16xf32>) -> (tensor<8x4x4xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
      %v = tensor.expand_shape %x [[0], [1, 2]] output_shape [8, 4, 4] : tensor<8x16xf32> into tensor<8x4x4xf32>
      %e = tensor.empty() : tensor<8x16xf32>
      %y = linalg.exp ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
      return %v, %y, %y : tensor<8x4x4xf32>, tensor<8x16xf32>, tensor<8x16xf32>
    })");
  EXPECT_EQ(memory.peak, 1536);
  EXPECT_EQ(memory.kept, 1536);
}

/// Uses in regions are uses, and constants take no memory.
TEST(PeakMemoryTest, CountsUsesInRegions) {
  BlockMemory memory = measure(R"(
    func.func @f(%x: tensor<8x16xf32>) -> tensor<16xf32> {
      %c = arith.constant 3 : index
      %d = arith.constant dense<1.0> : tensor<16x64xf32>
      %e = tensor.empty() : tensor<8x16xf32>
      %y = linalg.exp ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
      %z = linalg.exp ins(%x : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
      %w = tensor.generate {
      ^bb0(%i: index):
        %a = tensor.extract %y[%c, %i] : tensor<8x16xf32>
        tensor.yield %a : f32
      } : tensor<16xf32>
      return %w : tensor<16xf32>
    })");
  EXPECT_EQ(memory.peak, 512 + 512);
  EXPECT_EQ(memory.kept, 64);
}
} // namespace
