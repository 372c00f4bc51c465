//===- DifferentiateScalars.cpp - Gradients of scalar operations ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Models of DifferentiableOpInterface for arith, math, scf.if and the elements
// of tensors, which occur in score_mod regions and bodies of linalg operations.
// Where a function has no derivative, at the corners of a maximum or an
// absolute value, the derivative from one side is used.
//
//===----------------------------------------------------------------------===//

#include "Differentiation.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVectorExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

static constexpr double pi = 3.14159265358979323846;
static constexpr double ln2 = 0.69314718055994530942;
static constexpr double ln10 = 2.30258509299404568402;

namespace {
/// Emits arithmetic in the type of one gradient, and adds the resulting
/// gradients.
class Emitter {
public:
  Emitter(OpBuilder &builder, Operation *op, Value gradient,
          GradientState &state)
      : gradient(gradient), b(op->getLoc(), builder), state(state) {}

  /// Adds the value that `make` emits to the gradient of `operand`, if it is
  /// needed.
  void add(Value operand, function_ref<Value()> make) {
    if (state.isActive(operand))
      state.addGradient(b, b.getLoc(), operand, make());
  }

  /// `value` in the type of the gradient.
  Value cast(Value value) {
    return convertFloat(b, b.getLoc(), value, getElementTypeOrSelf(gradient));
  }
  /// `value` in the element type of `type`, if that is wider.
  Value widen(Value value, Type type) {
    Type element = getElementTypeOrSelf(type);
    if (element.getIntOrFloatBitWidth() <=
        getElementTypeOrSelf(value).getIntOrFloatBitWidth())
      return value;
    return convertFloat(b, b.getLoc(), value, element);
  }
  Value constant(double value) {
    Type type = gradient.getType();
    return constant(type, FloatAttr::get(getElementTypeOrSelf(type), value));
  }
  /// An integer of `type`.
  Value constant(Type type, int64_t value) {
    return constant(type, IntegerAttr::get(getElementTypeOrSelf(type), value));
  }
  Value add2(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
  Value neg(Value x) { return arith::NegFOp::create(b, x); }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, condition, x, y);
  }
  Value compare(arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, predicate, x, y);
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, predicate, x, y);
  }
  /// An integer in the type of the gradient.
  Value castInteger(Value value) {
    return arith::SIToFPOp::create(b, gradient.getType(), value);
  }
  template <typename OpTy>
  Value create(Value x) {
    return OpTy::create(b, x);
  }
  template <typename OpTy>
  Value create(Value x, Value y) {
    return OpTy::create(b, x, y);
  }

  Value gradient;

private:
  /// `element`, as often as the gradient has elements.
  Value constant(Type type, TypedAttr element) {
    auto shaped = dyn_cast<ShapedType>(type);
    if (!shaped)
      return arith::ConstantOp::create(b, element);
    if (!shaped.hasStaticShape())
      return emitFilled(b, b.getLoc(), gradient, element);
    return arith::ConstantOp::create(b,
                                     DenseElementsAttr::get(shaped, element));
  }

  ImplicitLocOpBuilder b;
  GradientState &state;
};
} // namespace

//===----------------------------------------------------------------------===//
// Rules: one overload for each operation
//===----------------------------------------------------------------------===//

static void emitRule(arith::AddFOp op, Emitter &e) {
  e.add(op.getLhs(), [&] { return e.gradient; });
  e.add(op.getRhs(), [&] { return e.gradient; });
}

static void emitRule(arith::SubFOp op, Emitter &e) {
  e.add(op.getLhs(), [&] { return e.gradient; });
  e.add(op.getRhs(), [&] { return e.neg(e.gradient); });
}

static void emitRule(arith::MulFOp op, Emitter &e) {
  e.add(op.getLhs(), [&] { return e.mul(e.gradient, e.cast(op.getRhs())); });
  e.add(op.getRhs(), [&] { return e.mul(e.gradient, e.cast(op.getLhs())); });
}

static void emitRule(arith::DivFOp op, Emitter &e) {
  e.add(op.getLhs(), [&] { return e.div(e.gradient, e.cast(op.getRhs())); });
  e.add(op.getRhs(), [&] {
    Value quotient = e.div(e.cast(op.getResult()), e.cast(op.getRhs()));
    return e.neg(e.mul(e.gradient, quotient));
  });
}

static void emitRule(arith::NegFOp op, Emitter &e) {
  e.add(op.getOperand(), [&] { return e.neg(e.gradient); });
}

/// The gradient of a choice goes to the operand that was chosen.
static void emitChoice(Value condition, Value lhs, Value rhs, Emitter &e) {
  Value zero = e.constant(0);
  e.add(lhs, [&] { return e.select(condition, e.gradient, zero); });
  e.add(rhs, [&] { return e.select(condition, zero, e.gradient); });
}

/// Of equal operands, the first is chosen.
template <typename OpTy>
static void emitExtremum(OpTy op, arith::CmpFPredicate predicate, Emitter &e) {
  Value condition = e.compare(predicate, op.getLhs(), op.getRhs());
  emitChoice(condition, op.getLhs(), op.getRhs(), e);
}

static void emitRule(arith::MaximumFOp op, Emitter &e) {
  emitExtremum(op, arith::CmpFPredicate::OGE, e);
}
static void emitRule(arith::MaxNumFOp op, Emitter &e) {
  emitExtremum(op, arith::CmpFPredicate::OGE, e);
}
static void emitRule(arith::MinimumFOp op, Emitter &e) {
  emitExtremum(op, arith::CmpFPredicate::OLE, e);
}
static void emitRule(arith::MinNumFOp op, Emitter &e) {
  emitExtremum(op, arith::CmpFPredicate::OLE, e);
}

static void emitRule(arith::SelectOp op, Emitter &e) {
  emitChoice(op.getCondition(), op.getTrueValue(), op.getFalseValue(), e);
}

/// Gradients of scalars may be wider than the scalars.
static void emitRule(arith::ExtFOp op, Emitter &e) {
  e.add(op.getIn(), [&] { return e.gradient; });
}
/// A value computed in a wider type has a gradient of that type.
static void emitRule(arith::TruncFOp op, Emitter &e) {
  e.add(op.getIn(), [&] { return e.widen(e.gradient, op.getIn().getType()); });
}

static void emitRule(math::FmaOp op, Emitter &e) {
  e.add(op.getA(), [&] { return e.mul(e.gradient, e.cast(op.getB())); });
  e.add(op.getB(), [&] { return e.mul(e.gradient, e.cast(op.getA())); });
  e.add(op.getC(), [&] { return e.gradient; });
}

/// The derivative of |x| at 0 is 0.
static void emitRule(math::AbsFOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    Value x = e.cast(op.getOperand()), zero = e.constant(0);
    Value sign = e.create<math::CopySignOp>(e.constant(1), x);
    Value isZero = e.compare(arith::CmpFPredicate::OEQ, x, zero);
    return e.mul(e.gradient, e.select(isZero, zero, sign));
  });
}

/// The sign is the sign of `x` times the sign of `y`, if `x` is not 0.
static void emitRule(math::CopySignOp op, Emitter &e) {
  e.add(op.getLhs(), [&] {
    Value one = e.constant(1);
    Value from = e.create<math::CopySignOp>(one, e.cast(op.getLhs()));
    Value to = e.create<math::CopySignOp>(one, e.cast(op.getRhs()));
    return e.mul(e.gradient, e.mul(from, to));
  });
}

static void emitRule(math::ExpOp op, Emitter &e) {
  e.add(op.getOperand(),
        [&] { return e.mul(e.gradient, e.cast(op.getResult())); });
}

static void emitRule(math::Exp2Op op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    return e.mul(e.gradient, e.mul(e.cast(op.getResult()), e.constant(ln2)));
  });
}

static void emitRule(math::ExpM1Op op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    return e.mul(e.gradient, e.add2(e.cast(op.getResult()), e.constant(1)));
  });
}

static void emitRule(math::LogOp op, Emitter &e) {
  e.add(op.getOperand(),
        [&] { return e.div(e.gradient, e.cast(op.getOperand())); });
}

static void emitRule(math::Log1pOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    return e.div(e.gradient, e.add2(e.cast(op.getOperand()), e.constant(1)));
  });
}

static void emitRule(math::Log2Op op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    return e.div(e.gradient, e.mul(e.cast(op.getOperand()), e.constant(ln2)));
  });
}

static void emitRule(math::Log10Op op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    return e.div(e.gradient, e.mul(e.cast(op.getOperand()), e.constant(ln10)));
  });
}

static void emitRule(math::SqrtOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    return e.div(e.mul(e.gradient, e.constant(0.5)), e.cast(op.getResult()));
  });
}

static void emitRule(math::RsqrtOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    Value ratio = e.div(e.cast(op.getResult()), e.cast(op.getOperand()));
    return e.mul(e.gradient, e.mul(ratio, e.constant(-0.5)));
  });
}

static void emitRule(math::CbrtOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    Value root = e.cast(op.getResult());
    return e.div(e.gradient, e.mul(e.mul(root, root), e.constant(3)));
  });
}

static void emitRule(math::SinOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    return e.mul(e.gradient, e.create<math::CosOp>(e.cast(op.getOperand())));
  });
}

static void emitRule(math::CosOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    Value sine = e.create<math::SinOp>(e.cast(op.getOperand()));
    return e.neg(e.mul(e.gradient, sine));
  });
}

static void emitRule(math::TanOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    Value tangent = e.cast(op.getResult());
    Value slope = e.add2(e.mul(tangent, tangent), e.constant(1));
    return e.mul(e.gradient, slope);
  });
}

static void emitRule(math::AtanOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    Value x = e.cast(op.getOperand());
    return e.div(e.gradient, e.add2(e.mul(x, x), e.constant(1)));
  });
}

/// `(1 - x) * (1 + x)`, which is accurate where `1 - x * x` is small.
static Value emitOneMinusSquare(Value x, Emitter &e) {
  Value one = e.constant(1);
  return e.mul(e.sub(one, x), e.add2(one, x));
}

static void emitRule(math::AsinOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    Value square = emitOneMinusSquare(e.cast(op.getOperand()), e);
    return e.div(e.gradient, e.create<math::SqrtOp>(square));
  });
}

static void emitRule(math::AcosOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    Value square = emitOneMinusSquare(e.cast(op.getOperand()), e);
    return e.neg(e.div(e.gradient, e.create<math::SqrtOp>(square)));
  });
}

static void emitRule(math::AtanhOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    return e.div(e.gradient, emitOneMinusSquare(e.cast(op.getOperand()), e));
  });
}

static void emitRule(math::AsinhOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    Value x = e.cast(op.getOperand());
    Value square = e.add2(e.mul(x, x), e.constant(1));
    return e.div(e.gradient, e.create<math::SqrtOp>(square));
  });
}

static void emitRule(math::AcoshOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    Value x = e.cast(op.getOperand()), one = e.constant(1);
    Value square = e.mul(e.sub(x, one), e.add2(x, one));
    return e.div(e.gradient, e.create<math::SqrtOp>(square));
  });
}

/// The angle of the point `(x, y)`.
static void emitRule(math::Atan2Op op, Emitter &e) {
  Value y = e.cast(op.getLhs()), x = e.cast(op.getRhs());
  Value square = e.add2(e.mul(x, x), e.mul(y, y));
  e.add(op.getLhs(), [&] { return e.mul(e.gradient, e.div(x, square)); });
  e.add(op.getRhs(),
        [&] { return e.neg(e.mul(e.gradient, e.div(y, square))); });
}

static void emitRule(math::SinhOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    return e.mul(e.gradient, e.create<math::CoshOp>(e.cast(op.getOperand())));
  });
}

static void emitRule(math::CoshOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    return e.mul(e.gradient, e.create<math::SinhOp>(e.cast(op.getOperand())));
  });
}

static void emitRule(math::TanhOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    Value tangent = e.cast(op.getResult());
    Value slope = e.sub(e.constant(1), e.mul(tangent, tangent));
    return e.mul(e.gradient, slope);
  });
}

static void emitRule(math::ErfOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    Value x = e.cast(op.getOperand());
    Value bell = e.create<math::ExpOp>(e.neg(e.mul(x, x)));
    return e.mul(e.gradient, e.mul(bell, e.constant(2 / std::sqrt(pi))));
  });
}

static void emitRule(math::ErfcOp op, Emitter &e) {
  e.add(op.getOperand(), [&] {
    Value x = e.cast(op.getOperand());
    Value bell = e.create<math::ExpOp>(e.neg(e.mul(x, x)));
    return e.mul(e.gradient, e.mul(bell, e.constant(-2 / std::sqrt(pi))));
  });
}

/// The remainder is the dividend less a whole number of divisors.
static void emitRule(arith::RemFOp op, Emitter &e) {
  e.add(op.getLhs(), [&] { return e.gradient; });
  e.add(op.getRhs(), [&] {
    Value whole = e.sub(e.cast(op.getResult()), e.cast(op.getLhs()));
    return e.mul(e.gradient, e.div(whole, e.cast(op.getRhs())));
  });
}

/// The derivative by the exponent is 0 where the base is 0.
static void emitRule(math::PowFOp op, Emitter &e) {
  Value base = e.cast(op.getLhs()), exponent = e.cast(op.getRhs());
  e.add(op.getLhs(), [&] {
    Value power = e.create<math::PowFOp>(base, e.sub(exponent, e.constant(1)));
    return e.mul(e.gradient, e.mul(exponent, power));
  });
  e.add(op.getRhs(), [&] {
    Value zero = e.constant(0);
    Value slope = e.mul(e.cast(op.getResult()), e.create<math::LogOp>(base));
    Value isZero = e.compare(arith::CmpFPredicate::OEQ, base, zero);
    return e.mul(e.gradient, e.select(isZero, zero, slope));
  });
}

/// The derivative of `x^0` is 0 where `x` is 0 as well.
static void emitRule(math::FPowIOp op, Emitter &e) {
  e.add(op.getLhs(), [&] {
    Value exponent = op.getRhs();
    Type type = exponent.getType();
    Value power = e.create<math::FPowIOp>(
        e.cast(op.getLhs()),
        e.create<arith::SubIOp>(exponent, e.constant(type, 1)));
    Value slope = e.mul(e.castInteger(exponent), power);
    Value isZero =
        e.compare(arith::CmpIPredicate::eq, exponent, e.constant(type, 0));
    return e.mul(e.gradient, e.select(isZero, e.constant(0), slope));
  });
}

/// Functions that are constant between jumps.
static void emitRule(math::FloorOp, Emitter &) {}
static void emitRule(math::CeilOp, Emitter &) {}
static void emitRule(math::TruncOp, Emitter &) {}
static void emitRule(math::RoundOp, Emitter &) {}
static void emitRule(math::RoundEvenOp, Emitter &) {}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

namespace {
template <typename OpTy>
struct ScalarModel
    : public DifferentiableOpInterface::ExternalModel<ScalarModel<OpTy>, OpTy> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    Emitter emitter(builder, op, state.getGradient(op->getResult(0)), state);
    emitRule(cast<OpTy>(op), emitter);
    return success();
  }
};

struct ExtractModel
    : public DifferentiableOpInterface::ExternalModel<ExtractModel,
                                                      tensor::ExtractOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto extract = cast<tensor::ExtractOp>(op);
    return state.addElementGradient(builder, op, extract.getTensor(),
                                    extract.getIndices(),
                                    state.getGradient(extract.getResult()));
  }
};

struct InsertModel
    : public DifferentiableOpInterface::ExternalModel<InsertModel,
                                                      tensor::InsertOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto insert = cast<tensor::InsertOp>(op);
    Location loc = op->getLoc();
    Value gradient = state.getGradient(insert.getResult());
    if (state.isActive(insert.getScalar()))
      state.addGradient(builder, loc, insert.getScalar(),
                        tensor::ExtractOp::create(builder, loc, gradient,
                                                  insert.getIndices()));
    if (state.isActive(insert.getDest())) {
      Value zero = arith::ConstantOp::create(
          builder, loc, builder.getZeroAttr(getElementTypeOrSelf(gradient)));
      state.addGradient(builder, loc, insert.getDest(),
                        tensor::InsertOp::create(builder, loc, zero, gradient,
                                                 insert.getIndices()));
    }
    return success();
  }
};

struct FromElementsModel
    : public DifferentiableOpInterface::ExternalModel<FromElementsModel,
                                                      tensor::FromElementsOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto tensor = cast<tensor::FromElementsOp>(op);
    Location loc = op->getLoc();
    Value gradient = state.getGradient(tensor.getResult());
    ArrayRef<int64_t> shape = tensor.getType().getShape();
    for (auto [number, element] : llvm::enumerate(tensor.getElements())) {
      if (!state.isActive(element))
        continue;
      SmallVector<Value> indices;
      for (int64_t index : delinearize(number, computeStrides(shape)))
        indices.push_back(arith::ConstantIndexOp::create(builder, loc, index));
      state.addGradient(
          builder, loc, element,
          tensor::ExtractOp::create(builder, loc, gradient, indices));
    }
    return success();
  }
};

/// Gradients within one branch. Gradients of elements are passed on to the
/// parent where it adds them to tensors outside.
class BranchState : public GradientState {
public:
  explicit BranchState(GradientState &parent) : parent(parent) {
    setDeterministic(parent.isDeterministic());
  }

  LogicalResult addElementGradient(OpBuilder &builder, Operation *op,
                                   Value tensor, ValueRange indices,
                                   Value gradient) override {
    if (addsElementsOutside())
      return parent.addElementGradient(builder, op, tensor, indices, gradient);
    return GradientState::addElementGradient(builder, op, tensor, indices,
                                             gradient);
  }
  bool addsElementsOutside() const override {
    return parent.addsElementsOutside();
  }

private:
  GradientState &parent;
};

/// The branch that was taken is computed again, since its values are not known
/// outside of it, and its gradients follow.
struct IfModel
    : public DifferentiableOpInterface::ExternalModel<IfModel, scf::IfOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto branch = cast<scf::IfOp>(op);
    Location loc = op->getLoc();
    SetVector<Value> used, outer;
    getUsedValuesDefinedAbove(op->getRegions(), used);
    for (Value value : used)
      if (state.isActive(value) &&
          !(isa<TensorType>(value.getType()) && state.addsElementsOutside()))
        outer.insert(value);

    auto types =
        llvm::map_to_vector(ValueRange(outer.getArrayRef()).getTypes(),
                            [](Type type) { return getGradientType(type); });
    auto gradient = scf::IfOp::create(
        builder, loc, types, branch.getCondition(), /*addThenBlock=*/false,
        /*addElseBlock=*/false);
    for (auto [from, to] :
         llvm::zip_equal(op->getRegions(), gradient->getRegions())) {
      OpBuilder::InsertionGuard guard(builder);
      builder.createBlock(&to);
      if (failed(emitRegion(builder, branch, from, used, outer.getArrayRef(),
                            state)))
        return failure();
    }
    for (auto [value, result] : llvm::zip_equal(outer, gradient.getResults()))
      state.addGradient(builder, loc, value, result);
    return success();
  }

private:
  /// Emits the operations of `region` again, then their gradients, and yields
  /// the gradients of `outer`.
  static LogicalResult emitRegion(OpBuilder &builder, scf::IfOp branch,
                                  Region &region, const SetVector<Value> &used,
                                  ArrayRef<Value> outer,
                                  GradientState &parent) {
    Location loc = branch.getLoc();
    BranchState state(parent);
    for (Value value : used)
      if (parent.isActive(value))
        state.setActive(value);
    IRMapping mapping;
    IRRewriter rewriter(builder);
    SmallVector<Operation *> ops;
    for (Operation &op : region.front().without_terminator()) {
      Operation *clone = builder.clone(op, mapping);
      ops.push_back(attn::prepareForGradient(rewriter, clone, state));
      mapping.map(op.getResults(),
                  ops.back()->getResults().take_front(op.getNumResults()));
    }
    Operation *yield = region.front().getTerminator();
    for (auto [result, value] :
         llvm::zip_equal(branch.getResults(), yield->getOperands()))
      if (Value gradient = parent.getGradient(result))
        state.addGradient(builder, loc, mapping.lookupOrDefault(value),
                          gradient);
    if (failed(attn::emitGradients(builder, ops, state)))
      return failure();
    SmallVector<Value> results;
    for (Value value : outer) {
      Value gradient = state.getGradient(value);
      Type element = getElementTypeOrSelf(getGradientType(value.getType()));
      if (gradient)
        gradient = convertFloat(builder, loc, gradient, element);
      else if (isa<TensorType>(value.getType()))
        gradient = emitZeros(builder, loc, value, element);
      else
        gradient = arith::ConstantOp::create(
            builder, loc,
            builder.getZeroAttr(getGradientType(value.getType())));
      results.push_back(gradient);
    }
    scf::YieldOp::create(builder, loc, results);
    return success();
  }
};
} // namespace

template <typename... OpTys>
static void attachScalarModels(MLIRContext *context) {
  (OpTys::template attachInterface<ScalarModel<OpTys>>(*context), ...);
}

void attn::registerScalarGradientModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attachScalarModels<arith::AddFOp, arith::SubFOp, arith::MulFOp,
                       arith::DivFOp, arith::NegFOp, arith::MaximumFOp,
                       arith::MaxNumFOp, arith::MinimumFOp, arith::MinNumFOp,
                       arith::SelectOp, arith::ExtFOp, arith::TruncFOp,
                       arith::RemFOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attachScalarModels<
        math::FmaOp, math::AbsFOp, math::CopySignOp, math::ExpOp, math::Exp2Op,
        math::ExpM1Op, math::LogOp, math::Log1pOp, math::Log2Op, math::Log10Op,
        math::SqrtOp, math::RsqrtOp, math::CbrtOp, math::SinOp, math::CosOp,
        math::TanOp, math::AtanOp, math::SinhOp, math::CoshOp, math::TanhOp,
        math::ErfOp, math::PowFOp, math::FPowIOp, math::FloorOp, math::CeilOp,
        math::TruncOp, math::RoundOp, math::RoundEvenOp, math::AsinOp,
        math::AcosOp, math::AtanhOp, math::AsinhOp, math::AcoshOp,
        math::Atan2Op, math::ErfcOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, scf::SCFDialect *) {
    scf::IfOp::attachInterface<IfModel>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    tensor::ExtractOp::attachInterface<ExtractModel>(*context);
    tensor::InsertOp::attachInterface<InsertModel>(*context);
    tensor::FromElementsOp::attachInterface<FromElementsModel>(*context);
  });
}
