//===- ExpandPowers.cpp - Powers as multiplications and functions ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Upstream's patterns for powers. Upstream's pass for `math.fpowi` makes
// `math.powf` of all powers; it has none for constant exponents.
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNEXPANDPOWERSPASS
#include "attn/Compiler/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;

namespace {
struct AttnExpandPowersPass
    : public attn::impl::AttnExpandPowersPassBase<AttnExpandPowersPass> {
  using Base::Base;

  void runOnOperation() override {
    RewritePatternSet ofConstants(&getContext());
    populateMathAlgebraicSimplificationPatterns(ofConstants);
    apply(std::move(ofConstants));
    RewritePatternSet ofOthers(&getContext());
    math::populateExpansionPatterns(ofOthers, {"fpowi"});
    apply(std::move(ofOthers));
  }

private:
  void apply(RewritePatternSet &&patterns) {
    SmallVector<Operation *> powers;
    getOperation()->walk([&](Operation *op) {
      if (isa<math::PowFOp, math::FPowIOp>(op))
        powers.push_back(op);
    });
    GreedyRewriteConfig config;
    config.setStrictness(GreedyRewriteStrictness::ExistingAndNewOps);
    (void)applyOpPatternsGreedily(powers, std::move(patterns), config);
  }
};
} // namespace
