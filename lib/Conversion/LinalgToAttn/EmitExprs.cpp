//===- EmitExprs.cpp - Expressions as code of regions ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes expressions of elements as scalar code of the position of a pair.
//
//===----------------------------------------------------------------------===//

#include "MatchMatmuls.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

/// With more operations for a pair, an expression is read from memory.
static constexpr unsigned maxComputed = 16;
/// The same for expressions that do not depend on both positions, which take
/// little memory.
static constexpr unsigned maxComputedOfRow = 4;

DenseMap<unsigned, Value> attn::emitCoordinates(OpBuilder &builder,
                                                Location loc,
                                                const AttentionCoordinates &at,
                                                ValueRange positions) {
  DenseMap<unsigned, Value> values;
  if (at.batch)
    values[*at.batch] = positions[0];
  Value rest = positions[1];
  for (unsigned head : llvm::reverse(at.heads)) {
    if (head == at.heads.front()) {
      values[head] = rest;
      break;
    }
    Value size = arith::ConstantIndexOp::create(builder, loc, at.sizes[head]);
    values[head] = arith::RemUIOp::create(builder, loc, rest, size);
    rest = arith::DivUIOp::create(builder, loc, rest, size);
  }
  if (at.query)
    values[*at.query] = positions[2];
  values[at.key] = positions[3];
  return values;
}

Value ExprEmitter::emitIndex(AffineExpr expr) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return arith::ConstantIndexOp::create(builder, loc, constant.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return coordinates.at(dim.getPosition());
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value lhs = emitIndex(binary.getLHS());
  Value rhs = emitIndex(binary.getRHS());
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return arith::AddIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::Mul:
    return arith::MulIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::FloorDiv:
    return arith::DivUIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::Mod:
    return arith::RemUIOp::create(builder, loc, lhs, rhs);
  default:
    llvm_unreachable("indices are made of no other expressions");
  }
}

Value ExprEmitter::convert(Value value, Type type) {
  auto from = dyn_cast<FloatType>(value.getType());
  if (!from || from == type)
    return value;
  if (from.getWidth() < cast<FloatType>(type).getWidth())
    return arith::ExtFOp::create(builder, loc, type, value);
  return arith::TruncFOp::create(builder, loc, type, value);
}

Value ExprEmitter::emitElement(Value tensor, ArrayRef<AffineExpr> indices) {
  SmallVector<Value> values;
  for (AffineExpr index : indices)
    values.push_back(emitIndex(index));
  return tensor::ExtractOp::create(builder, loc, tensor, values);
}

bool ExprEmitter::isCheaperToRead(const Expr *expr) {
  if (!expr->value)
    return false;
  bool usesMatmul = false, reads = false, isSlow = false;
  unsigned count = 0;
  walkExpr(expr, [&](const Expr *part) {
    usesMatmul |= part == match.matmul;
    reads |=
        part->kind == Expr::Kind::Element ||
        (part->kind == Expr::Kind::Captured && isa<ShapedType>(part->type));
    if (part->kind != Expr::Kind::Operation)
      return;
    ++count;
    isSlow |= isa<math::MathDialect>(part->op->getDialect()) ||
              isa<arith::DivFOp>(part->op);
  });
  if (usesMatmul)
    return false;
  const AttentionCoordinates &at = match.at;
  // The expression may be an element of a tensor of pairs, and depend on less.
  auto isUnused = [&](unsigned dim) {
    return !usesCoordinate(expr, [&](unsigned used) { return used == dim; });
  };
  for (AffineExpr index : expr->indices)
    if (index.isFunctionOfDim(at.key) && isUnused(at.key))
      return false;
  bool isOfPair =
      usesCoordinate(expr, [&](unsigned dim) { return at.isKey(dim); }) &&
      usesCoordinate(expr, [&](unsigned dim) { return at.isQuery(dim); });
  if (isOfPair)
    return isSlow || count > maxComputed;
  return reads && (isSlow || count > maxComputedOfRow);
}

Value ExprEmitter::emit(const Expr *expr) {
  if (Value known = values.lookup(expr))
    return known;
  auto compute = [&]() -> Value {
    switch (expr->kind) {
    case Expr::Kind::Constant:
      return arith::ConstantOp::create(builder, loc, expr->constant);
    case Expr::Kind::Index:
      return emitIndex(expr->index);
    case Expr::Kind::Captured:
      return convert(expr->value, expr->type);
    case Expr::Kind::Element:
      return convert(emitElement(expr->value, expr->indices), expr->type);
    case Expr::Kind::Operation:
      break;
    }
    if (isCheaperToRead(expr))
      return convert(emitElement(expr->value, expr->indices), expr->type);
    SmallVector<Value> operands;
    for (const Expr *operand : expr->operands)
      operands.push_back(emit(operand));
    // Elements of a tensor are read in the tensor's own type.
    Type type = isa<tensor::ExtractOp>(expr->op)
                    ? getElementTypeOrSelf(operands.front().getType())
                    : expr->type;
    OperationState state(loc, expr->op->getName(), operands, type,
                         expr->op->getAttrs());
    return convert(builder.create(state)->getResult(0), expr->type);
  };
  Value value = compute();
  values[expr] = value;
  return value;
}

Value ExprEmitter::emit(ArrayRef<PairCondition> conditions) {
  Value result;
  for (const PairCondition &part : conditions) {
    Value condition = emit(part.condition);
    if (isa<FloatType>(condition.getType())) {
      Value zero = arith::ConstantOp::create(
          builder, loc, builder.getZeroAttr(condition.getType()));
      condition = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE,
                                        condition, zero);
    }
    if (part.isNegated) {
      Value yes = arith::ConstantIntOp::create(builder, loc, 1, 1);
      condition = arith::XOrIOp::create(builder, loc, condition, yes);
    }
    result =
        result
            ? arith::AndIOp::create(builder, loc, result, condition).getResult()
            : condition;
  }
  return result;
}
