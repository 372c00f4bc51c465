//===- Pipelines.cpp - The compiler's pass pipelines ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The stages of a compilation.
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Pipelines.h"
#include "attn/Autodiff/Passes.h"
#include "attn/Compiler/Passes.h"
#include "attn/Conversion/AttnTileToVector/AttnTileToVector.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "attn/Fusion/Passes.h"
#include "attn/Scheduling/Passes.h"
#include "attn/Scheduling/ScheduleFamily.h"
#include "attn/Target/Passes.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMPass.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::attn;

bool TargetPipelineOptions::isGPU() const { return isGPUTarget(target); }

static void addCleanup(OpPassManager &pm) {
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

/// Replaces calls by the bodies of the functions that they call. Attention is
/// then recognised, differentiated and scheduled across them, and each entry of
/// an artifact plans all of its memory.
static void addInlining(OpPassManager &pm) {
  // By default, the pass would also simplify functions.
  pm.addPass(createInlinerPass(/*opPipelines=*/{}, [](OpPassManager &) {}));
}

void attn::buildRaisingPipeline(OpPassManager &pm,
                                const RaisingPipelineOptions &options) {
  addInlining(pm);
  AttnRaiseLinalgPassOptions raise;
  raise.assumeKeptRows = options.assumeKeptRows;
  raise.assumeDropoutMasks = options.assumeDropoutMasks;
  raise.target = options.target;
  pm.addPass(createAttnRaiseLinalgPass(raise));
}

void attn::buildSchedulePipeline(OpPassManager &pm,
                                 const TargetPipelineOptions &options) {
  addInlining(pm);
  AttnLoadCalibrationPassOptions calibration;
  calibration.file = options.calibration;
  calibration.target = options.target;
  pm.addPass(createAttnLoadCalibrationPass(calibration));
  pm.addPass(createAttnDecomposeLinearAttentionPass());
  if (!options.isGPU())
    pm.addPass(createAttnPadSequencesPass());
  pm.addPass(createAttnDecomposeQuantizePass());
  AttnWidenFloat8GradientsPassOptions widen;
  widen.target = options.target;
  pm.addPass(createAttnWidenFloat8GradientsPass(widen));
  // Operations that targets have no instructions or functions for.
  pm.addPass(createAttnExpandPowersPass());
  pm.addPass(createAttnDefineDivisionsPass());
  AttnRaiseMatmulPassOptions raise;
  raise.target = options.target;
  pm.addNestedPass<func::FuncOp>(createAttnRaiseMatmulPass(raise));
  pm.addPass(createAttnExpandMasksPass());
  pm.addPass(createAttnExpandPositionsPass());
  AttnReassociatePassOptions reassociate;
  reassociate.target = options.target;
  pm.addPass(createAttnReassociatePass(reassociate));
  AttnFusePassOptions fuse;
  fuse.target = options.target;
  pm.addPass(createAttnFusePass(fuse));
  pm.addPass(createAttnCheckRegionsPass());
  pm.addPass(createAttnSimplifyMasksPass());
  pm.addPass(createAttnClassifyMasksPass());
  AttnHoistRngPassOptions hoist;
  hoist.target = options.target;
  hoist.alternative = options.dropout;
  hoist.memoryBudget = options.maskBudget;
  pm.addNestedPass<func::FuncOp>(createAttnHoistRngPass(hoist));
  ChooseSchedulePassOptions choose;
  choose.target = options.target;
  choose.database = options.database;
  choose.dqWorkspaceBytes = options.dqWorkspaceBytes;
  pm.addNestedPass<func::FuncOp>(createChooseSchedulePass(choose));
  AttnCreateBlockMasksPassOptions blockMasks;
  blockMasks.outline = options.explicitBlockMasks;
  pm.addPass(createAttnCreateBlockMasksPass(blockMasks));
}

void attn::buildBufferizationPipeline(
    OpPassManager &pm, const BufferizationPipelineOptions &options) {
  pm.addPass(createAttnDecomposeLinalgPass());
  addCleanup(pm);
  pm.addPass(createAttnResultsToArgumentsPass());
  // Both branches of a condition may write the same empty tensor. The pass
  // replaces one of its uses at a time.
  pm.addPass(bufferization::createEmptyTensorEliminationPass());
  pm.addPass(bufferization::createEmptyTensorEliminationPass());
  pm.addPass(createAttnBufferizePass());
  addCleanup(pm);
  AttnDescribeArgumentsPassOptions describe;
  describe.target = options.target;
  describe.stagedAlignment =
      isGPUTarget(options.target) ? blockCopyAlignment : 0;
  pm.addPass(createAttnDescribeArgumentsPass(describe));
}

void attn::buildTilingPipeline(OpPassManager &pm,
                               const TargetPipelineOptions &options) {
  pm.addNestedPass<func::FuncOp>(createDispatchSchedulesPass());
  ConvertAttnToAttnTilePassOptions convert;
  convert.target = options.target;
  pm.addPass(createConvertAttnToAttnTilePass(convert));
  if (options.isGPU())
    pm.addPass(createConvertLinalgToAttnTilePass());
  addCleanup(pm);
  pm.addPass(attn_tile::createAttnTileDeduplicateKernelsPass());
  if (options.isGPU())
    pm.addPass(createAttnCheckDeviceMemoryPass());
}

void attn::buildKernelPipeline(OpPassManager &pm,
                               const TargetPipelineOptions &options) {
  pm.addPass(createAttnApplySchedulesPass());
  if (options.isGPU())
    pm.addNestedPass<func::FuncOp>(
        attn_tile::createAttnTileGatherAllocationsPass());
  const TargetInfo *target = lookupTargetInfo(options.target);
  if (target && target->hasEarlyLaunches())
    pm.addPass(attn_tile::createAttnTileOverlapLaunchesPass());
  pm.addNestedPass<func::FuncOp>(
      attn_tile::createAttnTilePackAllocationsPass());
  AttnLowerOverlapPassOptions lower;
  lower.target = options.target;
  pm.addNestedPass<func::FuncOp>(createAttnLowerOverlapPass(lower));
  if (options.isGPU())
    pm.addNestedPass<func::FuncOp>(
        attn_tile::createAttnTileJoinAllocationsPass());
  addCleanup(pm);
}

void attn::buildAttnToKernelPipeline(OpPassManager &pm,
                                     const TargetPipelineOptions &options) {
  buildSchedulePipeline(pm, options);
  BufferizationPipelineOptions bufferization;
  bufferization.target = options.target;
  buildBufferizationPipeline(pm, bufferization);
  buildTilingPipeline(pm, options);
  buildKernelPipeline(pm, options);
}

void attn::buildNVVMPipeline(OpPassManager &pm,
                             const NVVMPipelineOptions &options) {
  AttnTileAllocatePipesPassOptions allocate;
  allocate.targetName = options.target;
  pm.addNestedPass<attn_tile::KernelOp>(
      createAttnTileAllocatePipesPass(allocate));
  AttnExpandFloat8PassOptions expand;
  expand.scalars = true;
  pm.addPass(createAttnExpandFloat8Pass(expand));
  ConvertAttnTileToNVVMPassOptions convert;
  convert.targetName = options.target;
  pm.addPass(createConvertAttnTileToNVVMPass(convert));
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  kernels.addPass(createSCFToControlFlowPass());
  kernels.addPass(createConvertMathToLibdevicePass());
  kernels.addPass(createConvertToLLVMPass());
  kernels.addPass(createReconcileUnrealizedCastsPass());
  addCleanup(kernels);
  AttnSerializeKernelsPassOptions serialize;
  serialize.chip = options.target;
  if (options.ptxVersion)
    serialize.features = ("+ptx" + Twine(options.ptxVersion)).str();
  serialize.format = options.format;
  serialize.toolkit = options.toolkit;
  serialize.assemblerOptions = options.assemblerOptions;
  serialize.failOnSpills = options.failOnSpills;
  serialize.report = options.report;
  pm.addPass(createAttnSerializeKernelsPass(serialize));
}

void attn::buildHostPipeline(OpPassManager &pm,
                             const TargetPipelineOptions &options) {
  if (!options.isGPU()) {
    pm.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
    pm.addPass(createConvertCommToRuntimePass());
    pm.addPass(createAttnReturnStatusesPass());
  }
  if (options.isGPU()) {
    pm.addPass(createSCFToControlFlowPass());
    pm.addPass(createConvertLaunchToRuntimePass());
  }
  AttnCreateEntryPointsPassOptions entries;
  entries.target = options.target;
  pm.addPass(createAttnCreateEntryPointsPass(entries));
  pm.addPass(createUBToLLVMConversionPass());
  buildHostToLLVMPipeline(pm);
  addCleanup(pm);
  pm.addPass(createSymbolDCEPass());
}

void attn::registerPipelines() {
  registerPipeline<RaisingPipelineOptions>(
      "attn-raising-pipeline", "Find attention in linalg on tensors",
      buildRaisingPipeline);
  registerPipeline<TargetPipelineOptions>(
      "attn-schedule-pipeline", "Choose a schedule for each attention",
      buildSchedulePipeline);
  registerPipeline<BufferizationPipelineOptions>(
      "attn-bufferization-pipeline",
      "Turn functions of tensors into described functions of memrefs",
      buildBufferizationPipeline);
  registerPipeline<TargetPipelineOptions>(
      "attn-tiling-pipeline", "Turn attention into plain tiled programs",
      buildTilingPipeline);
  registerPipeline<TargetPipelineOptions>(
      "attn-kernel-pipeline", "Run the passes of each kernel's schedule",
      buildKernelPipeline);
  registerPipeline<TargetPipelineOptions>(
      "attn-to-kernel-pipeline",
      "Turn functions of tensors into finished kernels",
      buildAttnToKernelPipeline);
  registerPipeline<NVVMPipelineOptions>("attn-nvvm-pipeline",
                                        "Compile kernels for NVIDIA GPUs",
                                        buildNVVMPipeline);
  registerPipeline<TargetPipelineOptions>(
      "attn-host-pipeline",
      "Lower what runs on the host to the LLVM dialect, with C entry points",
      buildHostPipeline);
}
