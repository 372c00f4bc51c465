//===- ExpandFloat8.cpp - Conversions of 8-bit floats ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversions between f32 and the 8-bit formats E4M3 and E5M2 (Micikevicius et
// al. 2022) as integer operations: LLVM has no 8-bit float types.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

#include <cmath>

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNEXPANDFLOAT8PASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;

namespace {
/// An 8-bit format: a sign, an exponent and a mantissa.
struct Float8 {
  int mantissaBits, bias;
  /// The bits of the largest finite number, without the sign.
  int largest;
  /// Whether the next number is infinity, and not NaN.
  bool hasInfinity;

  /// The exponent of the distance of subnormal numbers.
  int getSubnormalExponent() const { return 1 - bias - mantissaBits; }
  /// Mantissa bits that f32 has more.
  int getShift() const { return 23 - mantissaBits; }

  static std::optional<Float8> get(Type type) {
    if (isa<Float8E4M3FNType>(type))
      return Float8{3, 7, 0x7e, /*hasInfinity=*/false};
    if (isa<Float8E5M2Type>(type))
      return Float8{2, 15, 0x7b, /*hasInfinity=*/true};
    return std::nullopt;
  }
};

/// The bits of an 8-bit NaN, without the sign.
constexpr int nanBits = 0x7f;
/// The bits of the infinity of f32, and of its largest exponent.
constexpr int f32Infinity = 0x7f800000;

/// Emits operations on scalars or vectors that all have the shape of one value.
class Emitter : public ImplicitLocOpBuilder {
public:
  Emitter(Location loc, OpBuilder &builder, Type like)
      : ImplicitLocOpBuilder(loc, builder), like(like) {}

  /// A scalar type, or vectors of it.
  Type get(Type element) const {
    if (auto vector = dyn_cast<VectorType>(like))
      return vector.clone(element);
    return element;
  }
  Value integer(int64_t value) {
    return createScalarOrSplatConstant(*this, getLoc(), get(getI32Type()),
                                       value);
  }
  Value number(float value) {
    return createScalarOrSplatConstant(*this, getLoc(), get(getF32Type()),
                                       APFloat(value));
  }
  Value toBits(Value value) {
    return arith::BitcastOp::create(*this, get(getI32Type()), value);
  }
  Value toFloat(Value bits) {
    return arith::BitcastOp::create(*this, get(getF32Type()), bits);
  }
  template <typename OpTy>
  Value emit(Value lhs, Value rhs) {
    return OpTy::create(*this, lhs, rhs);
  }
  Value compare(arith::CmpIPredicate predicate, Value lhs, int64_t rhs) {
    return arith::CmpIOp::create(*this, predicate, lhs, integer(rhs));
  }
  Value select(Value condition, Value ifTrue, Value ifFalse) {
    return arith::SelectOp::create(*this, condition, ifTrue, ifFalse);
  }

private:
  Type like;
};

/// Extensions are exact. Exponents of normal numbers get the bias of f32;
/// subnormal numbers are multiples of a power of two. No step meets a subnormal
/// f32, which the mode of the processor may flush.
struct ExpandExtF : OpRewritePattern<arith::ExtFOp> {
  ExpandExtF(MLIRContext *context, bool scalars)
      : OpRewritePattern(context), scalars(scalars) {}

  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const override {
    if (scalars && isa<ShapedType>(op.getType()))
      return rewriter.notifyMatchFailure(op, "not a scalar");
    std::optional<Float8> format =
        Float8::get(getElementTypeOrSelf(op.getIn()));
    if (!format)
      return rewriter.notifyMatchFailure(op, "not of E4M3 or E5M2");
    Emitter b(op.getLoc(), rewriter, op.getType());
    Value byte = arith::BitcastOp::create(b, b.get(b.getI8Type()), op.getIn());
    Value bits = arith::ExtUIOp::create(b, b.get(b.getI32Type()), byte);
    Value sign = b.emit<arith::ShLIOp>(
        b.emit<arith::AndIOp>(bits, b.integer(0x80)), b.integer(24));
    Value magnitude = b.emit<arith::AndIOp>(bits, b.integer(0x7f));

    Value wide =
        b.emit<arith::ShLIOp>(magnitude, b.integer(format->getShift()));
    Value normal = b.emit<arith::AddIOp>(
        wide, b.integer(int64_t(127 - format->bias) << 23));
    Value multiple =
        arith::UIToFPOp::create(b, b.get(b.getF32Type()), magnitude);
    Value subnormal = b.toBits(b.emit<arith::MulFOp>(
        multiple, b.number(std::ldexp(1.0F, format->getSubnormalExponent()))));
    Value isSubnormal = b.compare(arith::CmpIPredicate::ult, magnitude,
                                  int64_t(1) << format->mantissaBits);
    Value result = b.select(isSubnormal, subnormal, normal);
    // The mantissa of a NaN is kept, and is 0 for infinity.
    Value isFinite =
        b.compare(arith::CmpIPredicate::ule, magnitude, format->largest);
    result = b.select(isFinite, result,
                      b.emit<arith::OrIOp>(wide, b.integer(f32Infinity)));

    Value extended = b.toFloat(b.emit<arith::OrIOp>(result, sign));
    Type element = getElementTypeOrSelf(op.getType());
    if (element.getIntOrFloatBitWidth() > 32)
      extended = arith::ExtFOp::create(b, op.getType(), extended);
    else if (!element.isF32())
      extended = arith::TruncFOp::create(b, op.getType(), extended);
    rewriter.replaceOp(op, extended);
    return success();
  }

private:
  bool scalars;
};

/// Rounds to nearest even. Numbers beyond the largest one become infinity, or
/// NaN in E4M3, which has none.
struct ExpandTruncF : OpRewritePattern<arith::TruncFOp> {
  ExpandTruncF(MLIRContext *context, bool scalars)
      : OpRewritePattern(context), scalars(scalars) {}

  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    if (scalars && isa<ShapedType>(op.getType()))
      return rewriter.notifyMatchFailure(op, "not a scalar");
    std::optional<Float8> format =
        Float8::get(getElementTypeOrSelf(op.getType()));
    if (!format)
      return rewriter.notifyMatchFailure(op, "not to E4M3 or E5M2");
    Type source = getElementTypeOrSelf(op.getIn());
    if (source.getIntOrFloatBitWidth() > 32)
      return rewriter.notifyMatchFailure(op, "would be rounded twice");
    Emitter b(op.getLoc(), rewriter, op.getType());
    Value in = op.getIn();
    if (!source.isF32())
      in = arith::ExtFOp::create(b, b.get(b.getF32Type()), in);
    Value bits = b.toBits(in);
    Value magnitude = b.emit<arith::AndIOp>(bits, b.integer(0x7fffffff));
    Value result = b.select(b.compare(arith::CmpIPredicate::ult, magnitude,
                                      int64_t(128 - format->bias) << 23),
                            emitSubnormal(b, *format, magnitude),
                            emitNormal(b, *format, magnitude));

    int64_t beyond = format->largest + 1;
    result = b.emit<arith::MinUIOp>(result, b.integer(beyond));
    if (format->hasInfinity)
      result =
          b.select(b.compare(arith::CmpIPredicate::ugt, magnitude, f32Infinity),
                   b.integer(nanBits), result);
    Value sign = b.emit<arith::AndIOp>(
        b.emit<arith::ShRUIOp>(bits, b.integer(24)), b.integer(0x80));
    Value byte = arith::TruncIOp::create(b, b.get(b.getI8Type()),
                                         b.emit<arith::OrIOp>(result, sign));
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), byte);
    return success();
  }

private:
  /// Adding half of the last place, less one for even numbers, carries into the
  /// exponent where it must.
  static Value emitNormal(Emitter &b, const Float8 &format, Value magnitude) {
    int shift = format.getShift();
    Value last = b.emit<arith::AndIOp>(
        b.emit<arith::ShRUIOp>(magnitude, b.integer(shift)), b.integer(1));
    Value half =
        b.emit<arith::AddIOp>(last, b.integer((int64_t(1) << (shift - 1)) - 1));
    Value rounded = b.emit<arith::ShRUIOp>(
        b.emit<arith::AddIOp>(magnitude, half), b.integer(shift));
    return b.emit<arith::SubIOp>(
        rounded, b.integer(int64_t(127 - format.bias) << format.mantissaBits));
  }

  /// The last place of an f32 this large is the distance of subnormal numbers,
  /// which the addition counts in the low bits.
  static Value emitSubnormal(Emitter &b, const Float8 &format,
                             Value magnitude) {
    float large = std::ldexp(1.0F, 23 + format.getSubnormalExponent());
    Value sum = b.emit<arith::AddFOp>(b.toFloat(magnitude), b.number(large));
    return b.emit<arith::SubIOp>(b.toBits(sum), b.toBits(b.number(large)));
  }

  bool scalars;
};

struct ExpandFloat8 : attn::impl::AttnExpandFloat8PassBase<ExpandFloat8> {
  using Base::Base;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ExpandExtF, ExpandTruncF>(&getContext(), scalars);
    walkAndApplyPatterns(getOperation(), std::move(patterns));
  }
};
} // namespace
