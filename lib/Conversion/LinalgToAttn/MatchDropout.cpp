//===- MatchDropout.cpp - Dropout of weights ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes weights apart into a softmax and what multiplies it: decisions of
// dropout and the number that makes up for them, in any order.
//
//===----------------------------------------------------------------------===//

#include "MatchAttention.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::attn;

/// How far, relatively, the factor of kept weights may be from one over the
/// probability to keep them, which is stored in f32.
static constexpr double maxFactorError = 0x1p-16;

/// Factors, and products of them, beyond which weights are not taken apart.
static constexpr unsigned maxFactors = 64;

/// The `i1` that the integer `expr` is, or null.
static const Expr *getBoolean(const Expr *expr) {
  while (expr->isa<arith::ExtUIOp>())
    expr = expr->operands.front();
  return expr->type.isInteger(1) ? expr : nullptr;
}

/// The condition under which `expr` is 1 and else 0, if it is known to be
/// either.
static std::optional<KeepCondition> getZeroOrOne(const Expr *expr) {
  if (expr->isa<arith::UIToFPOp>() || expr->isa<arith::SIToFPOp>()) {
    const Expr *integer = expr->operands.front();
    // As a signed number an i1 is -1.
    if (expr->isa<arith::SIToFPOp>() && integer->type.isInteger(1))
      return std::nullopt;
    if (const Expr *condition = getBoolean(integer))
      return KeepCondition{condition};
    return std::nullopt;
  }
  if (expr->isa<arith::SubFOp>() &&
      getConstantFloat(expr->operands.front()) == 1.0)
    if (std::optional<KeepCondition> dropped =
            getZeroOrOne(expr->operands.back()))
      return KeepCondition{dropped->condition, !dropped->isNegated};
  return std::nullopt;
}

/// The condition under which `select` is not zero, and what it is there.
static std::optional<std::pair<KeepCondition, const Expr *>>
getZeroOrElse(const Expr *select) {
  if (!select->isa<arith::SelectOp>())
    return std::nullopt;
  auto [condition, yes, no] =
      std::tuple(select->operands[0], select->operands[1], select->operands[2]);
  if (getConstantFloat(no) == 0.0)
    return std::pair(KeepCondition{condition, /*isNegated=*/false}, yes);
  if (getConstantFloat(yes) == 0.0)
    return std::pair(KeepCondition{condition, /*isNegated=*/true}, no);
  return std::nullopt;
}

/// Whether `expr` is an element of a tensor, or that as another type.
static bool isRead(const Expr *expr) {
  if (expr->isa<arith::UIToFPOp>() || expr->isa<arith::SIToFPOp>())
    expr = expr->operands.front();
  return expr->kind == Expr::Kind::Element;
}

LogicalResult AttentionMatcher::addDropoutFactor(const Expr *factor,
                                                 WeightFactors &factors) {
  if (std::optional<KeepCondition> kept = getZeroOrOne(factor)) {
    result.kept.push_back(*kept);
    return success();
  }
  if (factor->kind == Expr::Kind::Captured)
    return fail("the weights are multiplied after the softmax by what is no "
                "constant");
  if (assumed.dropoutMasks && isRead(factor)) {
    result.kept.push_back({factor});
    return success();
  }
  std::string name =
      factor->kind == Expr::Kind::Operation
          ? ("'" + factor->op->getName().getStringRef() + "'").str()
          : getProducerName(factor->value);
  return fail("the weights are multiplied after the softmax, as dropout does, "
              "but by numbers of " +
              name + " that are not known to be 0 and 1");
}

LogicalResult AttentionMatcher::splitWeights(const Expr *weights,
                                             bool isInverse,
                                             WeightFactors &factors) {
  if (++factors.numVisited > maxFactors)
    return fail("the weights have too many factors");
  if (std::optional<double> number = getConstantFloat(weights)) {
    factors.number *= isInverse ? 1 / *number : *number;
    return success();
  }
  if (weights->isa<arith::MulFOp>() || weights->isa<arith::DivFOp>()) {
    bool isQuotient = weights->isa<arith::DivFOp>();
    return success(
        succeeded(splitWeights(weights->operands[0], isInverse, factors)) &&
        succeeded(splitWeights(weights->operands[1], isInverse != isQuotient,
                               factors)));
  }
  if (isInverse) {
    factors.denominators.push_back(weights);
    return success();
  }
  if (auto part = getZeroOrElse(weights)) {
    result.kept.push_back(part->first);
    return splitWeights(part->second, isInverse, factors);
  }
  if (!hasExponential(weights))
    return addDropoutFactor(weights, factors);
  bool isSoftmax = weights->kind == Expr::Kind::Element ||
                   weights->isa<math::ExpOp>() || weights->isa<math::Exp2Op>();
  if (!isSoftmax)
    return fail("the weights are changed after the softmax by '" +
                weights->op->getName().getStringRef() + "'");
  if (factors.numerator)
    return fail("the weights are a product of exponentials");
  factors.numerator = weights;
  return success();
}

LogicalResult AttentionMatcher::matchDropout(double number) {
  if (result.kept.empty()) {
    if (number == 1)
      return success();
    return fail(llvm::formatv("the weights are multiplied by {0} after the "
                              "softmax, and none are dropped",
                              number)
                    .str());
  }
  result.dropProbability = float(1 - 1 / number);
  double factor = 1 / (1 - double(result.dropProbability));
  // Written so that NaN is an error.
  if (result.dropProbability >= 0 && result.dropProbability < 1 &&
      std::abs(factor / number - 1) <= maxFactorError)
    return success();
  return fail(llvm::formatv("the weights that dropout keeps are multiplied by "
                            "{0}, which is not one over a probability",
                            number)
                  .str());
}
