//===- ConditionalRescale.cpp - Allow rescaling by one to be skipped ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns the rescaling of accumulators into `attn_tile.rescale`, which may be
// skipped.
//
//===----------------------------------------------------------------------===//

#include "RowFactors.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILECONDITIONALRESCALEPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

/// Whether `value` is the result of an MMA: of this step, or of the previous
/// one if a loop carries it.
static bool isMma(Value value) {
  if (value.getDefiningOp<MmaWaitOp>())
    return true;
  auto argument = dyn_cast<BlockArgument>(value);
  auto loop = argument
                  ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp())
                  : scf::ForOp();
  if (!loop || argument == loop.getInductionVar())
    return false;
  return loop.getTiedLoopYieldedValue(argument)
      ->get()
      .getDefiningOp<MmaWaitOp>();
}

/// Whether a loop carries the result of `op`, or an MMA takes it as its
/// accumulator.
static bool isAccumulator(Operation *op) {
  if (!op->hasOneUse())
    return false;
  auto start = dyn_cast<MmaStartOp>(*op->user_begin());
  return isa<scf::YieldOp>(*op->user_begin()) ||
         (start && start.getAcc() == op->getResult(0));
}

namespace {
struct ConditionalRescale : OpRewritePattern<arith::MulFOp> {
  ConditionalRescale(MLIRContext *context, Pass::Statistic &numRescales)
      : OpRewritePattern(context), numRescales(numRescales) {}

  LogicalResult matchAndRewrite(arith::MulFOp op,
                                PatternRewriter &rewriter) const override {
    if (!isAccumulator(op))
      return rewriter.notifyMatchFailure(op, "not an accumulator");
    Value mma = op.getLhs(), other = op.getRhs();
    if (!isMma(mma))
      std::swap(mma, other);
    if (!isMma(mma))
      return rewriter.notifyMatchFailure(op,
                                         "no operand is the result of an MMA");
    std::optional<RowFactors> factors = getRowFactors(other);
    if (!factors)
      return rewriter.notifyMatchFailure(op, "not a factor for each row");
    rewriter.replaceOpWithNewOp<RescaleOp>(op, op.getType(), mma,
                                           factors->rows);
    ++numRescales;
    return success();
  }

  Pass::Statistic &numRescales;
};

struct AttnTileConditionalRescalePass
    : KernelPass<AttnTileConditionalRescalePass,
                 attn_tile::impl::AttnTileConditionalRescalePassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain,
                                        KernelPhase::Specialized};

  void runOnKernel() {
    RewritePatternSet patterns(&getContext());
    patterns.add<ConditionalRescale>(&getContext(), numRescales);
    walkAndApplyPatterns(getOperation(), std::move(patterns));
  }
};
} // namespace
