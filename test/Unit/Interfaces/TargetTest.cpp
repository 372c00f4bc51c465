//===- TargetTest.cpp - Registry of targets -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registers a target from outside of the project, finds it by name, and chooses
// schedules for it.
//
//===----------------------------------------------------------------------===//

#include "attn/Interfaces/Target.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/InitAllDialects.h"
#include "attn/Scheduling/Passes.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

#include <thread>
#include <vector>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// An architecture whose kernels are those of sm_80, for f16 and small heads.
class ToyTarget : public Target {
public:
  explicit ToyTarget(StringRef device = "a100") : device(device) {}

  StringRef getName() const override { return "sm_86"; }
  StringRef getDefaultDevice() const override { return device; }
  KernelScheduleKind getKernelScheduleKind() const override {
    return KernelScheduleKind::Multistage;
  }
  bool supportsElementType(Type type) const override { return type.isF16(); }
  StringRef describeElementTypes() const override { return "f16"; }
  int64_t getHeadDimUnit() const override { return 16; }
  int64_t getMaxHeadDim() const override { return 64; }

private:
  StringRef device;
};

class TargetTest : public ::testing::Test {
protected:
  TargetTest() {
    DialectRegistry registry;
    attn::registerAllDialects(registry);
    registry.insert<func::FuncDialect, tensor::TensorDialect>();
    context.appendDialectRegistry(registry);
    registerTarget(std::make_unique<ToyTarget>());
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
      errors.push_back(diagnostic.str());
      return success();
    });
  }

  /// Chooses schedules for an attention on `type` with the toy target.
  LogicalResult choose(StringRef type) {
    std::string text = llvm::formatv(R"(
      func.func @f(%q: tensor<{0}>, %o: tensor<{0}>) -> tensor<{0}> {{
        %0 = attn.attention ins(%q, %q, %q : tensor<{0}>, tensor<{0}>,
                                             tensor<{0}>)
                            outs(%o : tensor<{0}>) -> tensor<{0}>
        return %0 : tensor<{0}>
      })",
                                     type);
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return failure();
    PassManager pm(&context);
    ChooseSchedulePassOptions options;
    options.target = "sm_86";
    pm.addNestedPass<func::FuncOp>(createChooseSchedulePass(options));
    return pm.run(*module);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::vector<std::string> errors;
};

TEST_F(TargetTest, FindsByName) {
  for (StringRef name : {"host", "sm_80", "sm_86", "sm_90a"}) {
    const Target *target = lookupTarget(name);
    ASSERT_NE(target, nullptr) << name.str();
    EXPECT_EQ(target->getName(), name);
    EXPECT_EQ(isGPUTarget(name), name != "host");
  }
  EXPECT_EQ(lookupTarget("sm_8"), nullptr);
  EXPECT_FALSE(isGPUTarget("sm_8"));
}

TEST_F(TargetTest, FindsByComputeCapability) {
  auto find = [](int major, int minor) {
    const Target *target = findTarget({major, minor});
    return target ? target->getName() : "none";
  };
  // Kernels for sm_90a have instructions that no later GPU has. The toy target
  // is for no GPU.
  EXPECT_EQ(find(9, 0), "sm_90a");
  EXPECT_EQ(find(8, 0), "sm_80");
  EXPECT_EQ(find(8, 9), "sm_80");
  EXPECT_EQ(find(10, 0), "sm_80");
  EXPECT_EQ(find(7, 5), "none");
}

TEST_F(TargetTest, Describes) {
  EXPECT_EQ(describeTargets(), "host, sm_80, sm_86 or sm_90a");
  EXPECT_EQ(describeGPUTargets(), "sm_80, sm_86 or sm_90a");
  EXPECT_EQ(describeTargets(KernelScheduleKind::Multistage), "sm_80 or sm_86");
  EXPECT_EQ(describeTargets(KernelScheduleKind::WarpSpecialized), "sm_90a");
}

TEST_F(TargetTest, KeepsTheFirstOfAName) {
  const Target *first = lookupTarget("sm_86");
  registerTarget(std::make_unique<ToyTarget>("h100"));
  EXPECT_EQ(lookupTarget("sm_86"), first);
  EXPECT_EQ(lookupTarget("sm_86")->getDefaultDevice(), "a100");
}

TEST_F(TargetTest, ReportsUnknownNames) {
  OwningOpRef<ModuleOp> empty = ModuleOp::create(UnknownLoc::get(&context));
  EXPECT_TRUE(failed(lookupTarget(*empty, "sm_8")));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0],
            "unknown target 'sm_8' (expected host, sm_80, sm_86 or sm_90a)");
  // The toy has no instructions.
  EXPECT_TRUE(failed(lookupTargetInfo(*empty, "host")));
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[1], "unknown GPU architecture 'host' (expected sm_80, sm_86 "
                       "or sm_90a)");
}

TEST_F(TargetTest, RegistersFromThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([] {
      for (int j = 0; j < 100; ++j) {
        registerAllTargets();
        EXPECT_NE(lookupTarget("sm_90a"), nullptr);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(getTargets().size(), 4u);
}

TEST_F(TargetTest, ChoosesSchedules) {
  ASSERT_TRUE(succeeded(choose("2x4x512x64xf16")));
  module->walk([](AttentionOp op) {
    EXPECT_TRUE(isa<attn_tile::MultistageAttr>(op.getScheduleAttr()));
  });
}

TEST_F(TargetTest, ChecksElementsAndHeads) {
  EXPECT_TRUE(failed(choose("2x4x512x64xbf16")));
  ASSERT_FALSE(errors.empty());
  EXPECT_NE(errors[0].find("element type on sm_86 must be f16 (was 'bf16')"),
            std::string::npos)
      << errors[0];
  errors.clear();
  EXPECT_TRUE(failed(choose("2x4x512x72xf16")));
  ASSERT_FALSE(errors.empty());
  EXPECT_NE(errors[0].find("query head dim on sm_86 must be a multiple of 16 "
                           "and at most 64 (was 72)"),
            std::string::npos)
      << errors[0];
}
} // namespace
