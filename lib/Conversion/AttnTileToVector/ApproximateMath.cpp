//===- ApproximateMath.cpp - Math functions as polynomials ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Math functions on vectors, so that no scalar call remains in a vectorised
// loop. Most come from upstream, but not exp2, sin and cos, whose upstream
// patterns lose accuracy in proportion to the argument, and rsqrt.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/AttnTileToVector/AttnTileToVector.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/MapVector.h"

#include <limits>
#include <tuple>

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNAPPROXIMATEMATHPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;

/// The most operations that are expanded in a function. LLVM compiles about 400
/// expansions per second.
static constexpr size_t maxExpanded = 1000;

/// In functions with more, the most operations of one kind that are expanded.
static constexpr size_t maxExpandedOfKind = 64;

/// A constant of a scalar or vector type.
static Value makeConstant(ImplicitLocOpBuilder &b, Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attr = isa<FloatType>(element)
                       ? TypedAttr(b.getFloatAttr(element, value))
                       : TypedAttr(b.getIntegerAttr(element, int64_t(value)));
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, Attribute(attr));
  return arith::ConstantOp::create(b, attr);
}

/// A scalar or vector type with another element type.
static Type withElement(Type type, Type element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.clone(element);
  return element;
}

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
    Type intType = withElement(type, b.getI32Type());
    auto constant = [&](float value) { return makeConstant(b, type, value); };

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
    Value exponent =
        arith::ShLIOp::create(b, bits, makeConstant(b, intType, 23));
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

/// rsqrt(x) = 1 / sqrt(x). Upstream's pattern, an estimate of AVX2, ends the
/// process on scalars.
struct ExpandRsqrt : OpRewritePattern<math::RsqrtOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(math::RsqrtOp op,
                                PatternRewriter &rewriter) const override {
    Type type = op.getType();
    if (!getElementTypeOrSelf(type).isF32())
      return rewriter.notifyMatchFailure(op, "not on f32");
    if (isa<ShapedType>(type) && !isa<VectorType>(type))
      return rewriter.notifyMatchFailure(op, "neither scalar nor vector");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value root = math::SqrtOp::create(b, op.getOperand());
    rewriter.replaceOpWithNewOp<arith::DivFOp>(op, makeConstant(b, type, 1),
                                               root);
    return success();
  }
};

/// sin(x), or cos(x) with `quadrants` 1. The argument is reduced to a quadrant
/// and a rest in [-pi/4, pi/4] in f64, with pi/2 in two parts (Cody and Waite,
/// Software Manual for the Elementary Functions, 1980), so that the error does
/// not grow with the argument, as it does with upstream's pattern. The
/// polynomials come from Cephes and have errors of 2^-24. Finite arguments
/// beyond 2^50, whose quadrant an f64 cannot hold, count as zero.
template <typename Op, int quadrants>
struct ExpandSinCos : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    Type type = op.getType();
    if (!getElementTypeOrSelf(type).isF32() ||
        (isa<ShapedType>(type) && !isa<VectorType>(type)))
      return rewriter.notifyMatchFailure(op, "neither f32 nor a vector of it");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value quadrant, rest;
    std::tie(quadrant, rest) = reduceArgument(b, op.getOperand());
    Value square = arith::MulFOp::create(b, rest, rest);
    Value sine = emitPolynomial(
        b, square, {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f});
    sine = math::FmaOp::create(b, arith::MulFOp::create(b, rest, square), sine,
                               rest);
    Value cosine =
        emitPolynomial(b, square,
                       {2.443315711809948e-5f, -1.388731625493765e-3f,
                        4.166664568298827e-2f, -0.5f, 1.0f});

    auto isBitSet = [&](int bit) {
      Value masked = arith::AndIOp::create(
          b, quadrant, makeConstant(b, quadrant.getType(), bit));
      return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, masked,
                                   makeConstant(b, quadrant.getType(), 0));
    };
    Value value = arith::SelectOp::create(b, isBitSet(1), cosine, sine);
    Value negated = arith::NegFOp::create(b, value);
    rewriter.replaceOpWithNewOp<arith::SelectOp>(op, isBitSet(2), negated,
                                                 value);
    return success();
  }

private:
  /// Horner's scheme, from the highest power.
  static Value emitPolynomial(ImplicitLocOpBuilder &b, Value x,
                              ArrayRef<float> coefficients) {
    Value sum = makeConstant(b, x.getType(), coefficients.front());
    for (float coefficient : coefficients.drop_front())
      sum = math::FmaOp::create(b, sum, x,
                                makeConstant(b, x.getType(), coefficient));
    return sum;
  }

  /// The number of right angles in the angle `x`, as an i32 of which the low
  /// two bits count, and the rest.
  static std::pair<Value, Value> reduceArgument(ImplicitLocOpBuilder &b,
                                                Value x) {
    Type wide = withElement(x.getType(), b.getF64Type());
    Value angle = arith::ExtFOp::create(b, wide, x);
    auto constant = [&](double value) { return makeConstant(b, wide, value); };
    // Zero, but NaN for infinities.
    Value nothing = arith::SubFOp::create(b, angle, angle);
    Value isLarge =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OGT,
                              math::AbsFOp::create(b, angle), constant(0x1p50));
    angle = arith::SelectOp::create(b, isLarge, nothing, angle);

    // Adding 1.5 * 2^52 rounds to an integer, which is then in the low bits.
    constexpr double shift = 0x1.8p52;
    Value shifted = math::FmaOp::create(
        b, angle, constant(0x1.45f306dc9c883p-1), constant(shift));
    Value rightAngles = arith::SubFOp::create(b, constant(shift), shifted);
    Value rest = math::FmaOp::create(b, rightAngles,
                                     constant(0x1.921fb54442d18p+0), angle);
    rest = math::FmaOp::create(b, rightAngles, constant(0x1.1a62633145c07p-54),
                               rest);

    Value bits = arith::BitcastOp::create(
        b, withElement(x.getType(), b.getI64Type()), shifted);
    Value quadrant = arith::TruncIOp::create(
        b, withElement(x.getType(), b.getI32Type()), bits);
    quadrant = arith::AddIOp::create(
        b, quadrant, makeConstant(b, quadrant.getType(), quadrants));
    return {quadrant, arith::TruncFOp::create(b, x.getType(), rest)};
  }
};

struct ApproximateMath
    : attn::impl::AttnApproximateMathPassBase<ApproximateMath> {
  using Base::Base;

  void runOnOperation() override {
    outlineMath(getOperation());
    RewritePatternSet patterns(&getContext());
    attn::populateExpandExp2Patterns(patterns);
    patterns.add<ExpandRsqrt, ExpandSinCos<math::SinOp, 0>,
                 ExpandSinCos<math::CosOp, 1>>(&getContext());
    auto others = [](StringRef name) {
      return !llvm::is_contained(
          {math::Exp2Op::getOperationName(), math::RsqrtOp::getOperationName(),
           math::SinOp::getOperationName(), math::CosOp::getOperationName()},
          name);
    };
    populateMathPolynomialApproximationPatterns(patterns, others);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }

private:
  static void outlineMath(ModuleOp module);
};
} // namespace

/// A private function that does what `op` does to its operands.
static func::FuncOp createFunction(Operation *op, SymbolTable &symbols) {
  OpBuilder builder(op->getContext());
  auto func = func::FuncOp::create(
      op->getLoc(), ("attn_" + op->getName().stripDialect()).str(),
      builder.getFunctionType(op->getOperandTypes(), op->getResultTypes()));
  func.setPrivate();
  // The function becomes one of LLVM, which has this attribute of its own.
  func->setAttr("passthrough", builder.getStrArrayAttr({"noinline"}));
  symbols.insert(func);
  Block *entry = func.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  Operation *body = builder.clone(*op);
  body->setOperands(entry->getArguments());
  func::ReturnOp::create(builder, op->getLoc(), body->getResults());
  return func;
}

/// Whether the pass expands `op` to tens of operations.
static bool isExpanded(Operation *op) {
  if (!isa_and_present<math::MathDialect>(op->getDialect()) ||
      op->getNumResults() != 1)
    return false;
  Type type = op->getResult(0).getType();
  return getElementTypeOrSelf(type).isF32() &&
         isa<VectorType, FloatType>(type) &&
         !isa<math::AbsFOp, math::CeilOp, math::CopySignOp, math::FloorOp,
              math::FmaOp, math::RoundEvenOp, math::RoundOp, math::SqrtOp,
              math::TruncOp>(op);
}

/// Makes functions of the operations that a function has very many of: one for
/// each operation, type and set of attributes.
void ApproximateMath::outlineMath(ModuleOp module) {
  using Key = std::tuple<OperationName, Type, Attribute>;
  SymbolTable symbols(module);
  llvm::DenseMap<Key, func::FuncOp> functions;
  for (auto func : llvm::to_vector(module.getOps<func::FuncOp>())) {
    llvm::MapVector<Key, SmallVector<Operation *>> kinds;
    size_t numExpanded = 0;
    func.walk([&](Operation *op) {
      if (!isExpanded(op))
        return;
      kinds[Key(op->getName(), op->getResult(0).getType(),
                op->getPropertiesAsAttribute())]
          .push_back(op);
      ++numExpanded;
    });
    if (numExpanded <= maxExpanded)
      continue;
    remark::missed(func.getLoc(), remark::RemarkOpts::name("outlined-math")
                                      .category("attn-approximate-math"))
        << ("math functions are called, not expanded in place: there are " +
            Twine(numExpanded) + ", more than " + Twine(maxExpanded))
               .str();
    for (auto &[key, ops] : kinds) {
      if (ops.size() <= maxExpandedOfKind)
        continue;
      func::FuncOp &callee = functions[key];
      if (!callee)
        callee = createFunction(ops.front(), symbols);
      for (Operation *op : ops) {
        OpBuilder builder(op);
        auto call = func::CallOp::create(builder, op->getLoc(), callee,
                                         op->getOperands());
        op->replaceAllUsesWith(call);
        op->erase();
      }
    }
  }
}

void mlir::attn::populateExpandExp2Patterns(RewritePatternSet &patterns) {
  patterns.add<ExpandExp2>(patterns.getContext());
}
