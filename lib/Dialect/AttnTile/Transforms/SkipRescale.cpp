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

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILESKIPRESCALEPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

/// The vector that `value` broadcasts along columns, or null.
static Value getRowFactor(Value value) {
  auto broadcast = value.getDefiningOp<vector::BroadcastOp>();
  if (!broadcast)
    return nullptr;
  auto column = broadcast.getSource().getDefiningOp<vector::ShapeCastOp>();
  if (!column || column.getSourceVectorType().getRank() != 1)
    return nullptr;
  return column.getSource();
}

namespace {
struct SkipRescale : OpRewritePattern<arith::MulFOp> {
  SkipRescale(MLIRContext *context, Pass::Statistic &numRescales)
      : OpRewritePattern(context), numRescales(numRescales) {}

  LogicalResult matchAndRewrite(arith::MulFOp op,
                                PatternRewriter &rewriter) const override {
    if (!op->hasOneUse() || !isa<scf::YieldOp>(*op->user_begin()))
      return rewriter.notifyMatchFailure(op, "not carried by a loop");
    Value product = op.getLhs(), other = op.getRhs();
    if (!product.getDefiningOp<MmaWaitOp>())
      std::swap(product, other);
    if (!product.getDefiningOp<MmaWaitOp>())
      return rewriter.notifyMatchFailure(op, "no operand is a product");
    Value factor = getRowFactor(other);
    if (!factor)
      return rewriter.notifyMatchFailure(op, "not a factor for each row");
    rewriter.replaceOpWithNewOp<RescaleOp>(op, op.getType(), product, factor);
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
