//===- HostPipeline.cpp - Pipelines for the host --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pipeline from kernels to the LLVM dialect.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/AttnTileToVector/AttnTileToVector.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::attn;

void mlir::attn::buildHostKernelPipeline(OpPassManager &pm,
                                         const HostLoweringOptions &options) {
  ConvertAttnTileToVectorPassOptions vectorOptions;
  vectorOptions.vectorBits = options.vectorBits;
  vectorOptions.numRegisters = options.numRegisters;
  pm.addPass(createConvertAttnTileToVectorPass(vectorOptions));
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createLoopInvariantCodeMotionPass());
  if (options.parallel)
    pm.addPass(createAttnOutlineParallelPass());
  pm.addPass(createAttnApproximateMathPass());
}

void mlir::attn::buildHostToLLVMPipeline(OpPassManager &pm) {
  pm.addPass(createAttnExpandFloat8Pass());
  // Not every processor, and not every C library, supports bf16 arithmetic and
  // rounding.
  arith::ArithEmulateUnsupportedFloatsOptions emulate;
  emulate.sourceTypeStrs = {"bf16"};
  emulate.targetTypeStr = "f32";
  pm.addPass(arith::createArithEmulateUnsupportedFloats(emulate));
  pm.addNestedPass<func::FuncOp>(createConvertVectorToSCFPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createConvertMathToLLVMPass());
  // This splits vectors where the C library has only scalar functions.
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createConvertVectorToLLVMPass());
  arith::ArithExpandOpsPassOptions expand;
  expand.includeBf16 = true;
  pm.addPass(arith::createArithExpandOpsPass(expand));
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addNestedPass<LLVM::LLVMFuncOp>(createAttnBF16ToI16Pass());
}

void mlir::attn::buildHostLoweringPipeline(OpPassManager &pm,
                                           const HostLoweringOptions &options) {
  buildHostKernelPipeline(pm, options);
  buildHostToLLVMPipeline(pm);
}

void mlir::attn::registerHostLoweringPipeline() {
  registerPipeline<HostLoweringOptions>(
      "attn-host-lowering-pipeline",
      "Lower kernels and functions to the LLVM dialect for the host",
      buildHostLoweringPipeline);
}
