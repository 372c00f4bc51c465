//===- AttnTileToVector.cpp - Tiled programs on the host ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile of scores or accumulators is larger than the vector registers of a
// CPU. So a tile becomes a buffer on the stack, or an expression over buffers:
// chains of elementwise operations are evaluated piece by piece of a row where
// their value is needed. Contractions become loops over register blocks of
// vector accumulators (Goto and van de Geijn 2008). Row vectors stay vector
// values.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/AttnTileToVector/AttnTileToVector.h"
#include "TileEmitter.h"
#include "attn-runtime/attn_runtime.h"
#include "attn/Analysis/BoundedReads.h"
#include "attn/Conversion/LaunchToRuntime/RuntimeCalls.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KVTileIterator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::attn {
#define GEN_PASS_DEF_CONVERTATTNTILETOVECTORPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn_tile;

LogicalResult TileEmitter::emitBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(emitOp(op)))
      return failure();
  return success();
}

LogicalResult TileEmitter::emitOp(Operation &op) {
  b.setLoc(op.getLoc());
  if (auto forOp = dyn_cast<scf::ForOp>(op))
    return emitFor(forOp);
  if (auto forall = dyn_cast<scf::ForallOp>(op))
    return emitForall(forall);
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return emitReduce(reduce), success();
  if (auto compact = dyn_cast<WarpCompactOp>(op))
    return emitWarpCompact(compact), success();
  if (auto each = dyn_cast<ThreadForOp>(op))
    return emitEach(each), success();
  if (auto assume = dyn_cast<AssumeUpperBoundOp>(op)) {
    mapping.map(assume.getResult(),
                arith::MinSIOp::create(b, lookup(assume.getValue()),
                                       lookup(assume.getBound()))
                    .getResult());
    return success();
  }
  if (auto ifOp = dyn_cast<scf::IfOp>(op))
    return emitIf(ifOp);
  if (auto load = dyn_cast<LoadOp>(op))
    return emitLoad(load);
  if (auto store = dyn_cast<StoreOp>(op))
    return emitStore(store);
  if (auto packed = dyn_cast<BulkReduceAddOp>(op))
    return emitBulkReduceAdd(packed);
  if (auto packed = dyn_cast<StoreFragmentsOp>(op))
    return emitStoreFragments(packed);
  if (auto packed = dyn_cast<LoadFragmentsOp>(op))
    return emitLoadFragments(packed);
  if (auto map = dyn_cast<MapOp>(op))
    return emitMap(map);
  if (auto mask = dyn_cast<MaskOp>(op))
    return emitMask(mask), success();
  if (auto scatter = dyn_cast<ScatterAddOp>(op))
    return emitScatterAdd(scatter), success();
  if (auto keepMask = dyn_cast<GenerateKeepMaskOp>(op))
    return emitGenerateKeepMask(keepMask), success();
  if (auto keepMask = dyn_cast<LoadKeepMaskOp>(op))
    return emitLoadKeepMask(keepMask), success();
  if (auto dropout = dyn_cast<DropoutOp>(op))
    return emitDropout(dropout), success();
  if (auto subtract = dyn_cast<SubtractRowsOp>(op))
    return emitSubtractRows(subtract), success();
  if (auto sum = dyn_cast<PartialSumOp>(op))
    return emitPartialSum(sum);
  if (auto contract = dyn_cast<vector::ContractionOp>(op))
    return emitContraction(contract);
  if (auto reduction = dyn_cast<vector::MultiDimReductionOp>(op))
    return emitReduction(reduction);

  auto isTile = [](Value value) { return getTileType(value) != nullptr; };
  if (llvm::any_of(op.getResults(), isTile) ||
      llvm::any_of(op.getOperands(), isTile)) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      return emitConstant(constant);
    if (auto cast = dyn_cast<vector::ShapeCastOp>(op))
      return emitShapeCast(cast);
    if (auto broadcast = dyn_cast<vector::BroadcastOp>(op))
      return emitBroadcast(broadcast);
    if (OpTrait::hasElementwiseMappableTraits(&op))
      return emitElementwise(op);
    return op.emitOpError("has no form for the host");
  }
  if (isa<AttnTileDialect>(op.getDialect()) || op.getNumRegions() != 0)
    return op.emitOpError("has no form for the host");
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return emitRead(load), success();
  b.clone(op, mapping);
  return success();
}

LogicalResult TileEmitter::emitKernel(KernelOp kernel, func::FuncOp function) {
  Block *entry = function.addEntryBlock();
  mapping.map(kernel.getArguments(), entry->getArguments());
  bufferBlock = entry;
  b.setInsertionPointToStart(entry);
  if (failed(emitBlock(kernel.getBody().front())))
    return failure();
  func::ReturnOp::create(b);
  return success();
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct ConvertAttnTileToVector
    : attn::impl::ConvertAttnTileToVectorPassBase<ConvertAttnTileToVector> {
  using Base::Base;

  void runOnOperation() override {
    if (vectorBits < 64 || !llvm::isPowerOf2_64(vectorBits)) {
      getOperation().emitError("'vector-bits' must be a power of two of at "
                               "least 64 (was ")
          << vectorBits << ")";
      return signalPassFailure();
    }
    Registers registers{vectorBits / 32, numRegisters};
    SmallVector<KernelOp> kernels;
    SmallVector<LaunchOp> launches;
    getOperation().walk([&](Operation *op) {
      if (auto kernel = dyn_cast<KernelOp>(op))
        kernels.push_back(kernel);
      else if (auto launch = dyn_cast<LaunchOp>(op))
        launches.push_back(launch);
    });
    IRRewriter rewriter(&getContext());
    for (KernelOp kernel : kernels)
      if (failed(convertKernel(rewriter, kernel, registers)))
        return signalPassFailure();
    getOperation().walk([&](ErrorFlagOp op) {
      // `attn-return-statuses` returns the status.
      rewriter.setInsertionPoint(op);
      auto function = op->getParentOfType<FunctionOpInterface>();
      attn::RuntimeMemRef word = attn::emitErrorFlag(
          rewriter, op.getLoc(), getOperation(),
          cast<MemRefType>(op.getWord().getType()), ATTNRT_KIND_HOST,
          &function.getFunctionBody().front());
      rewriter.replaceOp(op, word.memref);
    });
    for (LaunchOp launch : launches) {
      if (!launch.getGrid().empty()) {
        launch.emitOpError("must have no grid for the host");
        return signalPassFailure();
      }
      rewriter.setInsertionPoint(launch);
      rewriter.replaceOpWithNewOp<func::CallOp>(
          launch, launch.getKernel(), TypeRange(), launch.getKernelOperands());
    }
  }

private:
  LogicalResult convertKernel(IRRewriter &rewriter, KernelOp kernel,
                              Registers registers) {
    kernel.walk(
        [&](KVTileIteratorOp op) { expandKVTileIterator(rewriter, op); });
    rewriter.setInsertionPoint(kernel);
    auto function =
        func::FuncOp::create(rewriter, kernel.getLoc(), kernel.getSymName(),
                             kernel.getFunctionType());
    function.setPrivate();
    if (failed(TileEmitter(rewriter, kernel.getLoc(), registers)
                   .emitKernel(kernel, function)))
      return failure();
    rewriter.eraseOp(kernel);

    RewritePatternSet patterns(&getContext());
    vector::populateVectorTransposeLoweringPatterns(
        patterns, vector::VectorTransposeLowering::Shuffle16x16);
    return applyPatternsGreedily(function, std::move(patterns));
  }
};
} // namespace
