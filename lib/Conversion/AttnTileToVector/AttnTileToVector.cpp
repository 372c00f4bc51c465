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
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/TypeSwitch.h"

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

void TileEmitter::emitAssumeUpperBound(AssumeUpperBoundOp op) {
  mapping.map(op.getResult(), arith::MinSIOp::create(b, lookup(op.getValue()),
                                                     lookup(op.getBound()))
                                  .getResult());
}

LogicalResult TileEmitter::emitOp(Operation &op) {
  b.setLoc(op.getLoc());
  auto done = [] { return success(); };
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](scf::ForOp op) { return emitFor(op); })
      .Case([&](scf::ForallOp op) { return emitForall(op); })
      .Case([&](scf::IfOp op) { return emitIf(op); })
      .Case([&](LoadOp op) { return emitLoad(op); })
      .Case([&](StoreOp op) { return emitStore(op); })
      .Case([&](BulkReduceAddOp op) { return emitBulkReduceAdd(op); })
      .Case([&](StoreFragmentsOp op) { return emitStoreFragments(op); })
      .Case([&](LoadFragmentsOp op) { return emitLoadFragments(op); })
      .Case([&](MapOp op) { return emitMap(op); })
      .Case([&](PartialSumOp op) { return emitPartialSum(op); })
      .Case([&](vector::ContractionOp op) { return emitContraction(op); })
      .Case([&](vector::MultiDimReductionOp op) { return emitReduction(op); })
      .Case([&](ReduceOp op) { return emitReduce(op), done(); })
      .Case([&](WarpCompactOp op) { return emitWarpCompact(op), done(); })
      .Case([&](ThreadForOp op) { return emitEach(op), done(); })
      .Case([&](AssumeUpperBoundOp op) {
        return emitAssumeUpperBound(op), done();
      })
      .Case([&](MaskOp op) { return emitMask(op), done(); })
      .Case([&](ScatterAddOp op) { return emitScatterAdd(op), done(); })
      .Case([&](GenerateKeepMaskOp op) {
        return emitGenerateKeepMask(op), done();
      })
      .Case([&](LoadKeepMaskOp op) { return emitLoadKeepMask(op), done(); })
      .Case([&](DropoutOp op) { return emitDropout(op), done(); })
      .Case([&](SubtractRowsOp op) { return emitSubtractRows(op), done(); })
      .Case([&](RescaleOp op) { return emitRescale(op), done(); })
      .Default([&](Operation *) { return emitOther(op); });
}

LogicalResult TileEmitter::emitOther(Operation &op) {
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

  static constexpr PhaseContract phases{KernelPhase::Plain, KernelPhase::Plain};

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
      if (failed(verifyExpectedPhase(kernel, getArgument(), phases)) ||
          failed(convertKernel(rewriter, kernel, registers)))
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
