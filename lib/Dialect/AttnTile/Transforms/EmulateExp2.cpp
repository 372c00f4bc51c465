//===- EmulateExp2.cpp - Some exponentials by polynomials -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Divides the exponentials of tiles between the special function units and
// polynomials.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEEMULATEEXP2PASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
struct EmulateExp2Pattern : OpRewritePattern<math::Exp2Op> {
  EmulateExp2Pattern(MLIRContext *context, int64_t sixteenths,
                     Pass::Statistic &numEmulated)
      : OpRewritePattern(context), sixteenths(sixteenths),
        numEmulated(numEmulated) {}

  LogicalResult matchAndRewrite(math::Exp2Op op,
                                PatternRewriter &rewriter) const override {
    auto type = dyn_cast<VectorType>(op.getType());
    if (!type || type.getRank() != 2)
      return rewriter.notifyMatchFailure(op, "not a tile");
    if (!type.getElementType().isF32())
      return rewriter.notifyMatchFailure(op, "not f32");
    rewriter.replaceOpWithNewOp<EmulateExp2Op>(op, type, op.getOperand(),
                                               sixteenths);
    ++numEmulated;
    return success();
  }

  int64_t sixteenths;
  Pass::Statistic &numEmulated;
};

struct AttnTileEmulateExp2Pass
    : KernelPass<AttnTileEmulateExp2Pass,
                 attn_tile::impl::AttnTileEmulateExp2PassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain,
                                        KernelPhase::Specialized};

  void runOnKernel() {
    if (sixteenths < 1 || sixteenths > 16) {
      getOperation().emitError("'sixteenths' must be from 1 to 16 (was ")
          << sixteenths.getValue() << ")";
      return signalPassFailure();
    }
    RewritePatternSet patterns(&getContext());
    patterns.add<EmulateExp2Pattern>(&getContext(), sixteenths, numEmulated);
    walkAndApplyPatterns(getOperation(), std::move(patterns));
  }
};
} // namespace
