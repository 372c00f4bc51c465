//===- SkipRescale.cpp - Allow rescaling by one to be skipped -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns the rescaling of accumulators into an operation that may be skipped.
//
//===----------------------------------------------------------------------===//

#include "RowFactors.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILESKIPRESCALEPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

/// Whether `value` is what a product gives: in this step, or in the one before
/// and carried by a loop.
static bool isProduct(Value value) {
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

/// Whether `op` is carried by a loop, or is the accumulator of a product.
static bool isAccumulator(Operation *op) {
  if (!op->hasOneUse())
    return false;
  auto start = dyn_cast<MmaStartOp>(*op->user_begin());
  return isa<scf::YieldOp>(*op->user_begin()) ||
         (start && start.getAcc() == op->getResult(0));
}

namespace {
struct SkipRescale : OpRewritePattern<arith::MulFOp> {
  SkipRescale(MLIRContext *context, Pass::Statistic &numRescales)
      : OpRewritePattern(context), numRescales(numRescales) {}

  LogicalResult matchAndRewrite(arith::MulFOp op,
                                PatternRewriter &rewriter) const override {
    if (!isAccumulator(op))
      return rewriter.notifyMatchFailure(op, "not an accumulator");
    Value product = op.getLhs(), other = op.getRhs();
    if (!isProduct(product))
      std::swap(product, other);
    if (!isProduct(product))
      return rewriter.notifyMatchFailure(op, "no operand is a product");
    std::optional<RowFactors> factors = getRowFactors(other);
    if (!factors)
      return rewriter.notifyMatchFailure(op, "not a factor for each row");
    rewriter.replaceOpWithNewOp<RescaleOp>(op, op.getType(), product,
                                           factors->rows);
    ++numRescales;
    return success();
  }

  Pass::Statistic &numRescales;
};

struct AttnTileSkipRescalePass
    : public attn_tile::impl::AttnTileSkipRescalePassBase<
          AttnTileSkipRescalePass> {
  using Base::Base;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<SkipRescale>(&getContext(), numRescales);
    walkAndApplyPatterns(getOperation(), std::move(patterns));
  }
};
} // namespace
