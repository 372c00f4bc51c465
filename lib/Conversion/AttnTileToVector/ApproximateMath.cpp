//===- ApproximateMath.cpp - Math functions as polynomials ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Math functions on vectors, so that no scalar call remains in a vectorised
// loop. All but exp2 come from upstream, which expands exp2 to exp and so loses
// accuracy in proportion to the argument.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/AttnTileToVector/AttnTileToVector.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <limits>

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNAPPROXIMATEMATHPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;

namespace {
/// exp2(x) = 2^n * exp2(f) with n the integer next to x. exp2(f) on [-1/2, 1/2]
/// is a polynomial of degree six, minimax in relative error (2e-9); 2^n is
/// added to its exponent.
struct ExpandExp2 : OpRewritePattern<math::Exp2Op> {
  using Base::Base;

  LogicalResult matchAndRewrite(math::Exp2Op op,
                                PatternRewriter &rewriter) const override {
    Type type = op.getType();
    if (!getElementTypeOrSelf(type).isF32())
      return rewriter.notifyMatchFailure(op, "not on f32");
    if (auto vector = dyn_cast<VectorType>(type);
        !vector && isa<ShapedType>(type))
      return rewriter.notifyMatchFailure(op, "neither scalar nor vector");

    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type intType = b.getI32Type();
    if (auto vector = dyn_cast<VectorType>(type))
      intType = vector.clone(intType);
    auto constant = [&](float value) -> Value {
      TypedAttr attr = b.getF32FloatAttr(value);
      if (auto vector = dyn_cast<VectorType>(type))
        attr = DenseElementsAttr::get(vector, attr);
      return arith::ConstantOp::create(b, attr);
    };
    auto intConstant = [&](int32_t value) -> Value {
      TypedAttr attr = b.getI32IntegerAttr(value);
      if (auto vector = dyn_cast<VectorType>(intType))
        attr = DenseElementsAttr::get(vector, attr);
      return arith::ConstantOp::create(b, attr);
    };

    Value x = op.getOperand();
    // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
    constexpr float shift = 12582912.0f;
    Value shifted = arith::AddFOp::create(b, x, constant(shift));
    Value n = arith::SubFOp::create(b, shifted, constant(shift));
    Value f = arith::SubFOp::create(b, x, n);

    constexpr float coefficients[] = {0.00015353361959569156f,
                                      0.0013398873852565885f,
                                      0.00961843691766262f,
                                      0.055503323674201965f,
                                      0.24022647738456726f,
                                      0.6931471824645996f,
                                      1.0f};
    Value p = constant(coefficients[0]);
    for (float coefficient : ArrayRef<float>(coefficients).drop_front())
      p = math::FmaOp::create(b, p, f, constant(coefficient));

    Value bits = arith::BitcastOp::create(b, intType, shifted);
    Value exponent = arith::ShLIOp::create(b, bits, intConstant(23));
    Value scaled = arith::AddIOp::create(
        b, arith::BitcastOp::create(b, intType, p).getResult(), exponent);
    Value result = arith::BitcastOp::create(b, type, scaled);

    // A NaN fails both comparisons; the polynomial has passed it on.
    Value small = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x,
                                        constant(-126.0f));
    result = arith::SelectOp::create(b, small, constant(0.0f), result);
    Value large = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, x,
                                        constant(128.0f));
    rewriter.replaceOpWithNewOp<arith::SelectOp>(
        op, large, constant(std::numeric_limits<float>::infinity()), result);
    return success();
  }
};

struct ApproximateMath
    : attn::impl::AttnApproximateMathPassBase<ApproximateMath> {
  using Base::Base;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    attn::populateExpandExp2Patterns(patterns);
    auto others = [](StringRef name) {
      return name != math::Exp2Op::getOperationName();
    };
    populateMathPolynomialApproximationPatterns(patterns, others);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace

void mlir::attn::populateExpandExp2Patterns(RewritePatternSet &patterns) {
  patterns.add<ExpandExp2>(patterns.getContext());
}
