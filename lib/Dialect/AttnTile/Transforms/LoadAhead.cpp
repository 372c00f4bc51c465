//===- LoadAhead.cpp - Load tiles to registers one step ahead -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile that a step loads to registers, such as a bias of its scores, is
// loaded in the step before, once its registers are free.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILELOADAHEADPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

/// Collects what `value` depends on in the body of `loop`, in order; fails if
/// that is more than pure computation on the induction variable.
static LogicalResult collectSlice(scf::ForOp loop, Value value,
                                  SetVector<Operation *> &slice) {
  if (loop.isDefinedOutsideOfLoop(value) || value == loop.getInductionVar())
    return success();
  Operation *def = value.getDefiningOp();
  if (!def || def->getBlock() != loop.getBody() || !isPure(def) ||
      def->getNumRegions() != 0)
    return failure();
  for (Value operand : def->getOperands())
    if (failed(collectSlice(loop, operand, slice)))
      return failure();
  slice.insert(def);
  return success();
}

namespace {
/// A load, and what its indices are computed by.
struct AheadLoad {
  LoadOp load;
  SetVector<Operation *> slice;

  /// Emits the load of the step `iv`.
  Value emit(OpBuilder &builder, scf::ForOp loop, Value iv) {
    IRMapping mapping;
    mapping.map(loop.getInductionVar(), iv);
    for (Operation *op : slice)
      builder.clone(*op, mapping);
    return builder.clone(*load.getOperation(), mapping)->getResult(0);
  }
};

struct AttnTileLoadAheadPass
    : attn_tile::impl::AttnTileLoadAheadPassBase<AttnTileLoadAheadPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    IRRewriter rewriter(&getContext());
    for (scf::ForOp loop : loops)
      rewrite(rewriter, loop);
  }

private:
  void rewrite(RewriterBase &rewriter, scf::ForOp loop) {
    SmallVector<AheadLoad> loads;
    for (auto load : loop.getBody()->getOps<LoadOp>()) {
      AheadLoad ahead{load, {}};
      if (!load.getPosition() &&
          cast<VectorType>(load.getResult().getType()).getRank() == 2 &&
          loop.isDefinedOutsideOfLoop(load.getSource()) &&
          llvm::all_of(load.getIndices(), [&](Value index) {
            return succeeded(collectSlice(loop, index, ahead.slice));
          }))
        loads.push_back(ahead);
    }
    if (loads.empty())
      return;
    numLoads += loads.size();

    rewriter.setInsertionPoint(loop);
    SmallVector<Value> first, next;
    for (AheadLoad &ahead : loads)
      first.push_back(ahead.emit(rewriter, loop, loop.getLowerBound()));
    for (AheadLoad &ahead : loads) {
      // Not before the registers are free.
      Operation *last = ahead.load;
      for (Operation *user : ahead.load.getResult().getUsers()) {
        Operation *ancestor = loop.getBody()->findAncestorOpInBlock(*user);
        if (last->isBeforeInBlock(ancestor))
          last = ancestor;
      }
      rewriter.setInsertionPointAfter(last);
      Value iv = arith::AddIOp::create(rewriter, ahead.load.getLoc(),
                                       loop.getInductionVar(), loop.getStep());
      next.push_back(ahead.emit(rewriter, loop, iv));
    }
    auto yieldNext = [&](OpBuilder &, Location, ArrayRef<BlockArgument> args) {
      for (auto [ahead, arg] : llvm::zip_equal(loads, args)) {
        LoadOp load = ahead.load;
        rewriter.replaceAllUsesWith(load.getResult(), arg);
      }
      return next;
    };
    if (failed(loop.replaceWithAdditionalYields(
            rewriter, first, /*replaceInitOperandUsesInLoop=*/false,
            yieldNext)))
      return signalPassFailure();
    for (AheadLoad &ahead : loads)
      rewriter.eraseOp(ahead.load);
  }
};
} // namespace
