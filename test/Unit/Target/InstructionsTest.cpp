//===- InstructionsTest.cpp - PTX of the methods of targets ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Calls each method of a target that emits code, in a kernel of its own, and
// checks the lines of PTX that come out. Methods that take an operation are
// called by the lowering of a kernel. Where there is an assembler, each kernel
// is assembled, too.
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Pipelines.h"
#include "attn/InitAllDialects.h"
#include "attn/Target/CUDAToolkit.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <string>
#include <vector>

using namespace mlir;
using namespace mlir::attn;
using attn_tile::BufferType;

namespace {
/// The values of a kernel that emitted code may use.
struct KernelValues {
  OpBuilder &builder;
  Location loc;
  /// A stage: its address and its barriers.
  StagedTile stage;
  /// Numbers, `i32`, and a pointer to global memory.
  Value number, other, pointer;
  /// Four f32.
  SmallVector<Value> floats;

  /// The position of a thread in a CTA of `numThreads`.
  ThreadPosition at(int64_t numThreads) const {
    return {number, other, other, numThreads};
  }
};

class InstructionsTest : public ::testing::Test {
protected:
  InstructionsTest() {
    DialectRegistry registry;
    registerCompilerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    registerAllTargets();
  }

  /// Compiles the kernels of a module to PTX, and assembles them.
  std::string compile(OwningOpRef<ModuleOp> module, StringRef target) {
    if (!findPtxas().empty()) {
      OwningOpRef<ModuleOp> copy = module->clone();
      serialize(*copy, target, "cubin");
    }
    return serialize(*module, target, "ptx");
  }

  /// The PTX of a kernel with the code that `emit` emits.
  std::string
  emit(StringRef target,
       function_ref<void(const TargetInfo &, KernelValues &)> emit) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
      gpu.module @kernels {
        llvm.func @kernel(%stage: i32, %full: i32, %empty: i32, %number: i32,
                          %other: i32, %pointer: !llvm.ptr<1>, %a: f32,
                          %b: f32, %c: f32, %d: f32)
            attributes {gpu.kernel, nvvm.kernel,
                        nvvm.reqntid = array<i32: 128>} {
          llvm.return
        }
      })",
                                                               &context);
    auto kernel = *module->getOps<gpu::GPUModuleOp>().begin();
    auto function = *kernel.getOps<LLVM::LLVMFuncOp>().begin();
    Block &body = function.getBody().front();
    OpBuilder builder(body.getTerminator());
    auto arguments = body.getArguments();
    KernelValues values = {builder,
                           function.getLoc(),
                           {arguments[0], arguments[1], arguments[2]},
                           arguments[3],
                           arguments[4],
                           arguments[5],
                           SmallVector<Value>(arguments.drop_front(6))};
    emit(*lookupTargetInfo(target), values);
    return compile(std::move(module), target);
  }

  /// The PTX of an `attn_tile.kernel`.
  std::string lower(StringRef target, StringRef kernel) {
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(kernel, &context);
    EXPECT_TRUE(module);
    return module ? compile(std::move(module), target) : "";
  }

  MLIRContext context;

private:
  static std::string serialize(ModuleOp module, StringRef target,
                               StringRef format) {
    PassManager pm(module.getContext());
    NVVMPipelineOptions options;
    options.target = target.str();
    options.format = format.str();
    buildNVVMPipeline(pm, options);
    EXPECT_TRUE(succeeded(pm.run(module)));
    std::string text;
    module.walk([&](gpu::BinaryOp binary) {
      for (auto object : binary.getObjects().getAsRange<gpu::ObjectAttr>())
        text += object.getObject().getValue();
    });
    return text;
  }
};
} // namespace

/// Expects `lines` in `ptx`, in this order.
static void expectLines(const std::string &ptx,
                        const std::vector<std::string> &lines) {
  size_t from = 0;
  for (const std::string &line : lines) {
    size_t found = ptx.find(line, from);
    if (found == std::string::npos) {
      ADD_FAILURE() << "no line '" << line << "' in its place in\n" << ptx;
      return;
    }
    from = found + line.size();
  }
}

/// How often `line` is in `ptx`.
static int count(StringRef ptx, StringRef line) { return ptx.count(line); }

static BufferType getTile(MLIRContext &context, int64_t rows, int64_t columns) {
  return BufferType::get(&context, {rows, columns},
                         BFloat16Type::get(&context));
}

//===----------------------------------------------------------------------===//
// sm_80
//===----------------------------------------------------------------------===//

TEST_F(InstructionsTest, SM80Barriers) {
  std::string ptx =
      emit("sm_80", [&](const TargetInfo &target, KernelValues &at) {
        target.emitInitBarriers(at.builder, at.loc, at.stage, {128, 64},
                                /*byThreads=*/false, /*cluster=*/1);
        target.emitInitDone(at.builder, at.loc, /*cluster=*/1);
        target.emitAcquire(at.builder, at.loc, at.stage, at.number,
                           getTile(context, 64, 64));
        target.emitCommit(at.builder, at.loc, at.stage);
        target.emitWait(at.builder, at.loc, at.stage, at.number);
        target.emitRelease(at.builder, at.loc, at.stage, /*byThreads=*/false,
                           {}, /*cluster=*/1, at.at(128));
      });
  expectLines(ptx, {".target sm_80", ", 128;", "mbarrier.init.shared.b64",
                    ", 64;", "mbarrier.init.shared.b64", "bar.sync \t0",
                    "mbarrier.test_wait.parity.shared.b64 done",
                    "cp.async.mbarrier.arrive.noinc.shared.b64",
                    "mbarrier.test_wait.parity.shared.b64 done",
                    "mbarrier.arrive.shared.b64 state"});
}

TEST_F(InstructionsTest, SM80Clear) {
  std::string ptx =
      emit("sm_80", [&](const TargetInfo &target, KernelValues &at) {
        target.emitClear(at.builder, at.loc, at.stage, getTile(context, 64, 64),
                         /*firstRow=*/at.other, at.at(128));
      });
  expectLines(ptx, {"st.shared.v4.b32", "bar.sync \t0"});
}

TEST_F(InstructionsTest, SM80KeepsRegistersAndResults) {
  std::string ptx = emit("sm_80", [&](const TargetInfo &target,
                                      KernelValues &at) {
    target.emitSetRegisters(at.builder, at.loc, 240, 168);
    EXPECT_EQ(target.emitMmaWait(at.builder, at.loc, at.floats, 0), at.floats);
    EXPECT_FALSE(target.getClusters());
    EXPECT_FALSE(target.getBulkReductions());
    EXPECT_FALSE(target.getSemaphores());
    EXPECT_FALSE(target.getOrderedAccumulation());
  });
  EXPECT_EQ(count(ptx, "setmaxnreg"), 0);
  EXPECT_EQ(count(ptx, "bar.sync"), 0);
}

TEST_F(InstructionsTest, SM80AtomicAdd) {
  std::string ptx =
      emit("sm_80", [&](const TargetInfo &target, KernelValues &at) {
        target.emitAtomicAdd(at.builder, at.loc, at.pointer, at.floats);
      });
  EXPECT_EQ(count(ptx, "global.add.f32"), 4);
}

TEST_F(InstructionsTest, SM80CopyAndMma) {
  std::string ptx = lower("sm_80", R"(
    attn_tile.kernel @kernel(%m: memref<?x64xbf16>, %row: index,
                             %out: memref<64x64xf32>)
        attributes {layout = #attn_tile.row_blocks<warps = 4>} {
      %c0 = arith.constant 0 : index
      %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
      %a = attn_tile.acquire %p[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
      attn_tile.copy %m[%row, %c0] to %a
          : memref<?x64xbf16> to !attn_tile.buffer<64x64xbf16>
      attn_tile.commit %a : !attn_tile.buffer<64x64xbf16>
      %b = attn_tile.wait %p[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
      %s = attn_tile.mma_start %b, %b transpose_rhs
          : !attn_tile.buffer<64x64xbf16>, !attn_tile.buffer<64x64xbf16>
          -> !attn_tile.pending<vector<64x64xf32>>
      %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
      attn_tile.release %b : !attn_tile.buffer<64x64xbf16>
      attn_tile.store %r, %out[%c0, %c0]
          : vector<64x64xf32>, memref<64x64xf32>
      attn_tile.return
    })");
  // 64 threads copy eight rows at a time, 16 bytes each.
  EXPECT_EQ(count(ptx, "cp.async.cg.shared.global"), 4);
  // A warp has 16 of the rows, eight blocks of eight columns, four steps.
  EXPECT_EQ(count(ptx, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
            8 * 4);
  expectLines(ptx, {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", "mma.sync"});
}

TEST_F(InstructionsTest, SM80ReadsRows) {
  std::string ptx = lower("sm_80", R"(
    attn_tile.kernel @kernel(%i: index, %out: memref<32x32xf32>)
        attributes {layout = #attn_tile.row_blocks<warps = 2>} {
      %c0 = arith.constant 0 : index
      %p = attn_tile.create_pipe : !attn_tile.pipe<1x32xf32, stages = 1>
      %b = attn_tile.wait %p[%i] : !attn_tile.pipe<1x32xf32, stages = 1>
      %r = attn_tile.read %b : !attn_tile.buffer<1x32xf32> -> vector<1x32xf32>
      attn_tile.release %b : !attn_tile.buffer<1x32xf32>
      %x = vector.broadcast %r : vector<1x32xf32> to vector<32x32xf32>
      attn_tile.store %x, %out[%c0, %c0]
          : vector<32x32xf32>, memref<32x32xf32>
      attn_tile.return
    })");
  EXPECT_EQ(count(ptx, "ld.shared.v2"), 4);
}

TEST_F(InstructionsTest, SM80ConvertsTilesOf8Bits) {
  std::string ptx = lower("sm_80", R"(
    attn_tile.kernel @kernel(%i: index, %out: memref<64x128xf32>)
        attributes {layout = #attn_tile.row_blocks<warps = 4>} {
      %k = attn_tile.create_pipe : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
      %p = attn_tile.create_pipe : !attn_tile.pipe<64x128xbf16, stages = 1>
      %b = attn_tile.wait %k[%i] : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
      %c = attn_tile.local_convert %b in %p[%i]
          : !attn_tile.buffer<64x128xf8E4M3FN>,
            !attn_tile.pipe<64x128xbf16, stages = 1>
      attn_tile.release %b : !attn_tile.buffer<64x128xf8E4M3FN>
      attn_tile.return
    })");
  // 128 threads convert 16 elements at a time, two in each multiply-add.
  EXPECT_EQ(count(ptx, "ld.shared.v4.b32"), 4);
  EXPECT_EQ(count(ptx, "fma.rn.bf16x2"), 4 * 8);
  EXPECT_EQ(count(ptx, "st.shared.v4.b32"), 8);
  expectLines(ptx, {"mbarrier.test_wait.parity.shared.b64", "ld.shared.v4.b32",
                    "bar.sync \t0", "st.shared.v4.b32", "bar.sync \t0",
                    "mbarrier.arrive.shared.b64"});
}

TEST_F(InstructionsTest, SM80StoresAndReadsTiles) {
  std::string ptx = lower("sm_80", R"(
    attn_tile.kernel @kernel(%i: index)
        attributes {layout = #attn_tile.row_blocks<warps = 4>} {
      %p = attn_tile.create_pipe : !attn_tile.pipe<128x32xbf16, stages = 2>
      %q = attn_tile.create_pipe : !attn_tile.pipe<128x32xbf16, stages = 2>
      %b = attn_tile.wait %p[%i] : !attn_tile.pipe<128x32xbf16, stages = 2>
      %r = attn_tile.read %b
          : !attn_tile.buffer<128x32xbf16> -> vector<128x32xbf16>
      %c = attn_tile.local_store %r in %q[%i]
          : vector<128x32xbf16>, !attn_tile.pipe<128x32xbf16, stages = 2>
      attn_tile.release %b : !attn_tile.buffer<128x32xbf16>
      attn_tile.return
    })");
  // A warp has 32 of the rows: two blocks of 16 rows, two of 16 columns, and
  // four words of each.
  EXPECT_EQ(count(ptx, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"), 4);
  EXPECT_EQ(count(ptx, "st.shared.b32"), 16);
  expectLines(ptx, {"ldmatrix.sync.aligned", "st.shared.b32", "bar.sync \t0"});
}

/// A matmul whose left-hand side is in registers.
static constexpr StringLiteral mmaOfRegisters = R"(
    attn_tile.kernel @kernel(%i: index, %out: memref<64x32xf32>)
        attributes {layout = #attn_tile.row_blocks<warps = 4>} {
      %c0 = arith.constant 0 : index
      %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xf16, stages = 1>
      %a = arith.constant dense<1.0> : vector<64x64xf16>
      %b = attn_tile.wait %p[%i] : !attn_tile.pipe<64x32xf16, stages = 1>
      %s = attn_tile.mma_start %a, %b
          : vector<64x64xf16>, !attn_tile.buffer<64x32xf16>
          -> !attn_tile.pending<vector<64x32xf32>>
      %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x32xf32>>
      attn_tile.release %b : !attn_tile.buffer<64x32xf16>
      attn_tile.store %r, %out[%c0, %c0]
          : vector<64x32xf32>, memref<64x32xf32>
      attn_tile.return
    })";

TEST_F(InstructionsTest, SM80MmaOfRegisters) {
  std::string ptx = lower("sm_80", mmaOfRegisters);
  // Four steps, and four blocks of eight columns.
  EXPECT_EQ(count(ptx, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"),
            4 * 2);
  EXPECT_EQ(count(ptx, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
            4 * 4);
  EXPECT_EQ(count(ptx, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"), 0);
}

// Kernels that multiply f32 are the same on later architectures.
TEST_F(InstructionsTest, MmasOfF32AreOfThreeTerms) {
  StringRef kernel = R"(
    attn_tile.kernel @kernel(%i: index, %out: memref<64x32xf32>)
        attributes {layout = #attn_tile.row_blocks<warps = 4>} {
      %c0 = arith.constant 0 : index
      %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xf32, stages = 1>
      %q = attn_tile.create_pipe : !attn_tile.pipe<32x32xf32, stages = 1>
      %a = attn_tile.wait %p[%i] : !attn_tile.pipe<64x32xf32, stages = 1>
      %b = attn_tile.wait %q[%i] : !attn_tile.pipe<32x32xf32, stages = 1>
      %s = attn_tile.mma_start %a, %b transpose_rhs
          : !attn_tile.buffer<64x32xf32>, !attn_tile.buffer<32x32xf32>
          -> !attn_tile.pending<vector<64x32xf32>>
      %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x32xf32>>
      attn_tile.release %a : !attn_tile.buffer<64x32xf32>
      attn_tile.release %b : !attn_tile.buffer<32x32xf32>
      attn_tile.store %r, %out[%c0, %c0]
          : vector<64x32xf32>, memref<64x32xf32>
      attn_tile.return
    })";
  for (StringRef target : {"sm_80", "sm_90a"}) {
    SCOPED_TRACE(target.str());
    std::string ptx = lower(target, kernel);
    EXPECT_EQ(count(ptx, (".target " + target).str()), 1);
    // Four steps of eight columns, four blocks of columns, three terms.
    EXPECT_EQ(count(ptx, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"),
              4 * 4 * 3);
    EXPECT_EQ(count(ptx, "wgmma"), 0);
    expectLines(ptx, {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", "mma.sync"});
  }
}

TEST_F(InstructionsTest, SM80TransposesBlocks) {
  std::string ptx =
      emit("sm_80", [&](const TargetInfo &target, KernelValues &at) {
        Value word = target.emitTransposeBlock(at.builder, at.loc, at.number);
        LLVM::StoreOp::create(at.builder, at.loc, word, at.pointer);
      });
  expectLines(ptx, {"movmatrix.sync.aligned.m8n8.trans.b16", "st.global"});
}

//===----------------------------------------------------------------------===//
// sm_90a
//===----------------------------------------------------------------------===//

TEST_F(InstructionsTest, SM90aBarriers) {
  std::string ptx =
      emit("sm_90a", [&](const TargetInfo &target, KernelValues &at) {
        target.emitInitBarriers(at.builder, at.loc, at.stage, {1, 256},
                                /*byThreads=*/false, /*cluster=*/1);
        target.emitInitDone(at.builder, at.loc, /*cluster=*/1);
        target.emitAcquire(at.builder, at.loc, at.stage, at.number,
                           getTile(context, 64, 64));
        target.emitCommit(at.builder, at.loc, at.stage);
        target.emitWait(at.builder, at.loc, at.stage, at.number);
        target.emitRelease(at.builder, at.loc, at.stage, /*byThreads=*/false,
                           {}, /*cluster=*/1, at.at(256));
      });
  // A stage has 64 * 64 values of two bytes.
  expectLines(ptx,
              {".target sm_90a", ", 1;", "mbarrier.init.shared::cta.b64",
               ", 2;", "mbarrier.init.shared::cta.b64",
               "fence.mbarrier_init.release.cluster", "bar.sync \t0",
               "mbarrier.try_wait.parity", "8192",
               "mbarrier.arrive.expect_tx.shared::cta.b64 _",
               "mbarrier.try_wait.parity", "mbarrier.arrive.shared::cta.b64"});
}

TEST_F(InstructionsTest, SM90aClusters) {
  std::string ptx =
      emit("sm_90a", [&](const TargetInfo &target, KernelValues &at) {
        ASSERT_TRUE(target.getClusters());
        target.emitInitDone(at.builder, at.loc, /*cluster=*/2);
        target.emitRelease(at.builder, at.loc, at.stage, /*byThreads=*/false,
                           {}, /*cluster=*/2, at.at(256));
        target.getClusters()->emitClusterDone(at.builder, at.loc);
      });
  expectLines(ptx, {"fence.mbarrier_init.release.cluster",
                    "barrier.cluster.arrive.aligned",
                    "barrier.cluster.wait.aligned", "mapa.shared::cluster.u32",
                    "mbarrier.arrive.shared::cluster.b64 _",
                    "barrier.cluster.arrive;", "barrier.cluster.wait;"});
}

TEST_F(InstructionsTest, SM90aClear) {
  std::string ptx =
      emit("sm_90a", [&](const TargetInfo &target, KernelValues &at) {
        target.emitClear(at.builder, at.loc, at.stage, getTile(context, 64, 64),
                         /*firstRow=*/at.other, at.at(128));
      });
  expectLines(
      ptx, {"st.shared.v4.b32", "fence.proxy.async.shared::cta", "bar.sync"});
}

TEST_F(InstructionsTest, SM90aRegisters) {
  std::string ptx =
      emit("sm_90a", [&](const TargetInfo &target, KernelValues &at) {
        target.emitSetRegisters(at.builder, at.loc, 240, 168);
        target.emitSetRegisters(at.builder, at.loc, 24, 168);
      });
  expectLines(ptx, {"setmaxnreg.inc.sync.aligned.u32 \t240;",
                    "setmaxnreg.dec.sync.aligned.u32 \t24;"});
}

TEST_F(InstructionsTest, SM90aMmaWait) {
  std::string ptx =
      emit("sm_90a", [&](const TargetInfo &target, KernelValues &at) {
        target.emitMmaWait(at.builder, at.loc, {}, /*newer=*/2);
      });
  expectLines(ptx, {"wgmma.wait_group.sync.aligned 2;"});
}

TEST_F(InstructionsTest, SM90aAdditions) {
  std::string ptx =
      emit("sm_90a", [&](const TargetInfo &target, KernelValues &at) {
        const BulkReductionTarget *bulk = target.getBulkReductions();
        ASSERT_TRUE(bulk);
        target.emitAtomicAdd(at.builder, at.loc, at.pointer, at.floats);
        bulk->emitStageFragments(at.builder, at.loc, at.stage.address,
                                 at.number, at.floats, /*ordered=*/nullptr);
        bulk->emitBulkAdd(at.builder, at.loc, at.pointer, at.stage.address,
                          at.number, /*registers=*/4);
        bulk->emitBulkDone(at.builder, at.loc);
      });
  // 32 lanes of four values of four bytes.
  expectLines(ptx, {"red.global.add.v4.f32", "cp.async.bulk.wait_group.read 0;",
                    "st.shared.v4.f32", "fence.proxy.async.shared::cta;",
                    "@first cp.reduce.async.bulk.global.shared::cta.bulk_group"
                    ".add.f32",
                    "512;", "cp.async.bulk.commit_group;",
                    "cp.async.bulk.wait_group 0;"});
}

TEST_F(InstructionsTest, SM90aSemaphores) {
  std::string ptx =
      emit("sm_90a", [&](const TargetInfo &target, KernelValues &at) {
        const SemaphoreTarget *semaphores = target.getSemaphores();
        ASSERT_TRUE(semaphores);
        OpBuilder &b = at.builder;
        Value lane = at.number, numbers = at.stage.full;
        semaphores->emitInitCompleted(b, at.loc, numbers, /*warps=*/2);
        semaphores->emitSemaphoreAdd(b, at.loc, at.pointer, lane, 30,
                                     /*hasAdded=*/false);
        semaphores->emitSemaphoreRelease(b, at.loc, numbers, at.other, lane);
        semaphores->emitSemaphoreAddReleased(b, at.loc, at.pointer, lane, 240,
                                             numbers, at.other, /*warps=*/2);
        semaphores->emitSemaphoreWait(b, at.loc, at.pointer, at.other, lane);
      });
  expectLines(ptx, {"st.shared.u32", "st.shared.u32", "fence.proxy.async;",
                    "@first red.release.gpu.global.add.s32", "30;",
                    "cp.async.bulk.wait_group 0;",
                    "@first red.release.cta.shared::cta.add.u32 [number], 1;",
                    "ld.acquire.cta.shared::cta.s32 found", "240;",
                    "ld.acquire.gpu.global.s32"});
}

TEST_F(InstructionsTest, SM90aDqCopies) {
  std::string ptx =
      emit("sm_90a", [&](const TargetInfo &target, KernelValues &at) {
        const SemaphoreTarget *semaphores = target.getSemaphores();
        OpBuilder &b = at.builder;
        semaphores->emitStartDqCopy(b, at.loc, at.stage.address, at.pointer,
                                    /*count=*/2, /*distance=*/512);
        semaphores->emitAwaitDqCopies(b, at.loc);
        SmallVector<Value> values = semaphores->emitReadAndClearDq(
            b, at.loc, at.stage.address, at.pointer);
        ASSERT_EQ(values.size(), 4u);
        target.emitAtomicAdd(b, at.loc, at.pointer, values);
      });
  EXPECT_EQ(count(ptx, "cp.async.cg.shared.global"), 2);
  expectLines(ptx, {"cp.async.wait_all", "ld.shared.v4", "st.global.v4",
                    "red.global.add.v4.f32"});
}

TEST_F(InstructionsTest, SM90aOrderedAccumulation) {
  std::string ptx =
      emit("sm_90a", [&](const TargetInfo &target, KernelValues &at) {
        const OrderedAccumulationTarget *ordered =
            target.getOrderedAccumulation();
        ASSERT_TRUE(ordered);
        OpBuilder &b = at.builder;
        OrderedStage stage = {at.stage.address, at.stage.full, at.other};
        ordered->emitInitOrderedStages(b, at.loc, at.stage.full, /*warps=*/8);
        target.getBulkReductions()->emitStageFragments(
            b, at.loc, at.stage.address, at.number, at.floats, &stage);
        ordered->emitCommitFragments(b, at.loc, stage, at.number);
        ordered->emitOrderedReduceAdd(b, at.loc, stage, at.pointer, at.pointer,
                                      at.number, /*firstWarp=*/1,
                                      /*bytes=*/4096);
      });
  EXPECT_EQ(count(ptx, "mbarrier.init.shared::cta.b64"), 4);
  expectLines(ptx,
              {"mbarrier.try_wait.parity.shared::cta.b64", "st.shared.v4.f32",
               "@first mbarrier.arrive.shared::cta.b64 _",
               "ld.acquire.gpu.global.s32 found",
               "cp.reduce.async.bulk.global.shared::cta.bulk_group"
               ".add.f32",
               "4096;", "red.release.gpu.global.add.s32"});
}

TEST_F(InstructionsTest, SM90aCopyReadAndLocalStore) {
  std::string ptx = lower("sm_90a", R"(
    attn_tile.kernel @kernel(%map: !attn_tile.tensor_map<2, 64x64xbf16>,
                             %out: memref<128x64xf32>)
        attributes {layout = #attn_tile.row_blocks<warps = 8>} {
      %c0 = arith.constant 0 : index
      %p = attn_tile.create_pipe : !attn_tile.pipe<128x64xbf16, stages = 1>
      %q = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
      attn_tile.role producer warpgroups(1) registers(24) {
        %a = attn_tile.acquire %q[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
        attn_tile.copy %map[%c0, %c0] to %a
            : !attn_tile.tensor_map<2, 64x64xbf16>
            to !attn_tile.buffer<64x64xbf16>
        attn_tile.commit %a : !attn_tile.buffer<64x64xbf16>
      }
      attn_tile.role consumer warpgroups(2) registers(240) {
        %ones = arith.constant dense<1.0> : vector<128x64xbf16>
        %l = attn_tile.local_store %ones in %p[%c0]
            : vector<128x64xbf16>, !attn_tile.pipe<128x64xbf16, stages = 1>
        %b = attn_tile.wait %q[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
        %s = attn_tile.mma_start %l, %b transpose_rhs
            : !attn_tile.buffer<128x64xbf16>, !attn_tile.buffer<64x64xbf16>
            -> !attn_tile.pending<vector<128x64xf32>>
        %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<128x64xf32>>
        attn_tile.release %b : !attn_tile.buffer<64x64xbf16>
        attn_tile.store %r, %out[%c0, %c0]
            : vector<128x64xf32>, memref<128x64xf32>
      }
      attn_tile.return
    })");
  expectLines(ptx, {"setmaxnreg", "stmatrix.sync.aligned.m8n8.x4.shared.b16",
                    "fence.proxy.async.shared::cta;", "bar.sync",
                    "wgmma.fence.sync.aligned"});
  EXPECT_EQ(count(ptx, "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"),
            4);
  EXPECT_EQ(count(ptx, "cp.async.bulk.tensor.2d.shared::cluster.global"), 1);
}

TEST_F(InstructionsTest, SM90aReadsTiles) {
  std::string ptx = lower("sm_90a", R"(
    attn_tile.kernel @kernel(%out: memref<64x32xf32>)
        attributes {layout = #attn_tile.row_blocks<warps = 4>} {
      %c0 = arith.constant 0 : index
      %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xf32, stages = 1>
      %b = attn_tile.wait %p[%c0] : !attn_tile.pipe<64x32xf32, stages = 1>
      %r = attn_tile.read %b : !attn_tile.buffer<64x32xf32> -> vector<64x32xf32>
      attn_tile.release %b : !attn_tile.buffer<64x32xf32>
      attn_tile.store %r, %out[%c0, %c0] : vector<64x32xf32>, memref<64x32xf32>
      attn_tile.return
    })");
  EXPECT_EQ(count(ptx, "ld.shared.v2.f32"), 8);
}

TEST_F(InstructionsTest, SM90aStoresThroughStages) {
  std::string ptx = lower("sm_90a", R"(
    attn_tile.kernel @kernel(%map: !attn_tile.tensor_map<2, 64x64xbf16>)
        attributes {layout = #attn_tile.row_blocks<warps = 4>} {
      %c0 = arith.constant 0 : index
      %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
      %t = arith.constant dense<1.0> : vector<64x64xbf16>
      attn_tile.store_through %p, %t to %map[%c0, %c0]
          : !attn_tile.pipe<64x64xbf16, stages = 1>, vector<64x64xbf16>
          to !attn_tile.tensor_map<2, 64x64xbf16>
      attn_tile.return
    })");
  expectLines(ptx,
              {"cp.async.bulk.wait_group.read 0;",
               "stmatrix.sync.aligned.m8n8.x4.shared.b16",
               "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group",
               "cp.async.bulk.commit_group", "cp.async.bulk.wait_group 0;"});
}

TEST_F(InstructionsTest, SM90aTransposesBlocks) {
  std::string ptx =
      emit("sm_90a", [&](const TargetInfo &target, KernelValues &at) {
        Value word = target.emitTransposeBlock(at.builder, at.loc, at.number);
        LLVM::StoreOp::create(at.builder, at.loc, word, at.pointer);
      });
  expectLines(ptx, {"movmatrix.sync.aligned.m8n8.trans.b16", "st.global"});
}

TEST_F(InstructionsTest, SM90aConvertsTilesOf8Bits) {
  std::string ptx = lower("sm_90a", R"(
    attn_tile.kernel @kernel(%i: index, %n: index)
        attributes {layout = #attn_tile.row_blocks<warps = 4>} {
      %k = attn_tile.create_pipe : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
      %p = attn_tile.create_pipe : !attn_tile.pipe<64x128xbf16, stages = 1>
      %b = attn_tile.wait %k[%i] : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
      %c = attn_tile.local_convert %b in %p[%i] within(%i of %n)
          : !attn_tile.buffer<64x128xf8E4M3FN>,
            !attn_tile.pipe<64x128xbf16, stages = 1>
      attn_tile.release %b : !attn_tile.buffer<64x128xf8E4M3FN>
      attn_tile.return
    })");
  // 128 threads convert 16 elements at a time, two in each instruction. Rows
  // after the last one become zero.
  EXPECT_EQ(count(ptx, "ld.shared.v4.b32"), 4);
  EXPECT_EQ(count(ptx, "cvt.rn.f16x2.e4m3x2"), 4 * 8);
  EXPECT_EQ(count(ptx, "cvt.rn.bf16x2.f32"), 4 * 8);
  expectLines(ptx, {"mbarrier.try_wait.parity", "ld.shared.v4.b32", "bar.sync",
                    "st.shared.v4.b32", "@clears st.shared.v4.b32",
                    "fence.proxy.async.shared::cta;", "bar.sync",
                    "mbarrier.arrive.shared::cta.b64"});
}

TEST_F(InstructionsTest, SM90aConvertsThroughPipes) {
  std::string ptx = lower("sm_90a", R"(
    attn_tile.kernel @kernel(%i: index)
        attributes {layout = #attn_tile.row_blocks<warps = 4>} {
      %k = attn_tile.create_pipe : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
      %p = attn_tile.create_pipe : !attn_tile.pipe<64x128xbf16, stages = 1>
      attn_tile.auxiliary_warps registers(72) {
        %b = attn_tile.wait %k[%i]
            : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
        attn_tile.convert %b to %p[%i]
            : !attn_tile.buffer<64x128xf8E4M3FN>,
              !attn_tile.pipe<64x128xbf16, stages = 1>
        attn_tile.release %b : !attn_tile.buffer<64x128xf8E4M3FN>
      }
      attn_tile.role producer warpgroups(1) registers(72) {
      }
      attn_tile.role consumer warpgroups(1) registers(168) {
        %c = attn_tile.wait %p[%i] : !attn_tile.pipe<64x128xbf16, stages = 1>
        attn_tile.release %c : !attn_tile.buffer<64x128xbf16>
      }
      attn_tile.return
    })");
  // Three idle warps empty the source and fill the result, which one warpgroup
  // reads.
  expectLines(ptx, {", 3;", "mbarrier.init.shared::cta.b64", ", 3;",
                    "mbarrier.init.shared::cta.b64", ", 1;",
                    "mbarrier.init.shared::cta.b64"});
  expectLines(ptx,
              {"setmaxnreg.dec", "mbarrier.try_wait.parity", "ld.shared.v4.b32",
               "mbarrier.try_wait.parity", "st.shared.v4.b32",
               "fence.proxy.async.shared::cta;", "bar.warp.sync",
               "@first mbarrier.arrive.shared::cta.b64 _"});
}

TEST_F(InstructionsTest, SM90aMmaOfRegisters) {
  std::string ptx = lower("sm_90a", mmaOfRegisters);
  expectLines(ptx, {"wgmma.fence.sync.aligned",
                    "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16",
                    "wgmma.commit_group.sync.aligned",
                    "wgmma.wait_group.sync.aligned"});
  EXPECT_EQ(count(ptx, "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16"),
            4);
}

TEST_F(InstructionsTest, SM90aMmaOf8Bits) {
  std::string ptx = lower("sm_90a", R"(
    attn_tile.kernel @kernel(%i: index, %out: memref<64x64xf32>)
        attributes {layout = #attn_tile.row_blocks<warps = 4>} {
      %c0 = arith.constant 0 : index
      %p = attn_tile.create_pipe : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
      %b = attn_tile.wait %p[%i] : !attn_tile.pipe<64x128xf8E4M3FN, stages = 1>
      %s = attn_tile.mma_start %b, %b transpose_rhs
          : !attn_tile.buffer<64x128xf8E4M3FN>,
            !attn_tile.buffer<64x128xf8E4M3FN>
          -> !attn_tile.pending<vector<64x64xf32>>
      %r = attn_tile.mma_wait %s : !attn_tile.pending<vector<64x64xf32>>
      attn_tile.release %b : !attn_tile.buffer<64x128xf8E4M3FN>
      attn_tile.store %r, %out[%c0, %c0]
          : vector<64x64xf32>, memref<64x64xf32>
      attn_tile.return
    })");
  // A step has 32 elements of 8 bits.
  EXPECT_EQ(count(ptx, "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3"),
            4);
}
