//===- MatchDropout.cpp - Dropout of attention probabilities --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decomposes P into a softmax and its factors: keep masks of dropout and the
// number that compensates for them, in any order.
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

/// The largest relative difference between the factor of kept probabilities and
/// one over the keep probability, which is stored in f32.
static constexpr double maxFactorError = 0x1p-16;

/// P with more factors, nested ones included, is not decomposed.
static constexpr unsigned maxFactors = 64;

/// The `i1` that the integer `expr` extends, or null.
static const Expr *getBoolean(const Expr *expr) {
  while (expr->isa<arith::ExtUIOp>())
    expr = expr->operands.front();
  return expr->type.isInteger(1) ? expr : nullptr;
}

std::optional<PairCondition> attn::getZeroOrOne(const Expr *expr) {
  if (expr->isa<arith::UIToFPOp>() || expr->isa<arith::SIToFPOp>()) {
    const Expr *integer = expr->operands.front();
    // A signed conversion makes -1 of a true i1.
    if (expr->isa<arith::SIToFPOp>() && integer->type.isInteger(1))
      return std::nullopt;
    if (const Expr *condition = getBoolean(integer))
      return PairCondition{condition};
    return std::nullopt;
  }
  if (expr->isa<arith::SubFOp>() &&
      getConstantFloat(expr->operands.front()) == 1.0)
    if (std::optional<PairCondition> dropped =
            getZeroOrOne(expr->operands.back()))
      return PairCondition{dropped->condition, !dropped->isNegated};
  return std::nullopt;
}

std::optional<std::pair<PairCondition, const Expr *>>
attn::getZeroOrElse(const Expr *select) {
  if (!select->isa<arith::SelectOp>())
    return std::nullopt;
  auto [condition, yes, no] =
      std::tuple(select->operands[0], select->operands[1], select->operands[2]);
  if (getConstantFloat(no) == 0.0)
    return std::pair(PairCondition{condition, /*isNegated=*/false}, yes);
  if (getConstantFloat(yes) == 0.0)
    return std::pair(PairCondition{condition, /*isNegated=*/true}, no);
  return std::nullopt;
}

/// Whether `expr` is an element of a tensor, perhaps converted to float.
static bool isRead(const Expr *expr) {
  if (expr->isa<arith::UIToFPOp>() || expr->isa<arith::SIToFPOp>())
    expr = expr->operands.front();
  return expr->kind == Expr::Kind::Element;
}

LogicalResult AttentionMatcher::addDropoutFactor(const Expr *factor,
                                                 ProbabilityFactors &factors) {
  if (std::optional<PairCondition> kept = getZeroOrOne(factor)) {
    result.dropoutKept.push_back(*kept);
    return success();
  }
  if (factor->kind == Expr::Kind::Captured)
    return fail("the attention probabilities are multiplied after the softmax "
                "by a value that is not constant");
  if (assumed.dropoutMasks && isRead(factor)) {
    result.dropoutKept.push_back({factor});
    return success();
  }
  std::string name =
      factor->kind == Expr::Kind::Operation
          ? ("'" + factor->op->getName().getStringRef() + "'").str()
          : getProducerName(factor->value);
  return fail("the attention probabilities are multiplied after the softmax, "
              "as dropout does, but by numbers of " +
              name + " that are not known to be 0 and 1");
}

LogicalResult
AttentionMatcher::splitProbabilities(const Expr *probabilities, bool isInverse,
                                     ProbabilityFactors &factors) {
  if (++factors.numVisited > maxFactors)
    return fail("the attention probabilities have too many factors");
  if (std::optional<double> number = getConstantFloat(probabilities)) {
    factors.number *= isInverse ? 1 / *number : *number;
    return success();
  }
  if (probabilities->isa<arith::MulFOp>() ||
      probabilities->isa<arith::DivFOp>()) {
    bool isQuotient = probabilities->isa<arith::DivFOp>();
    return success(
        succeeded(splitProbabilities(probabilities->operands[0], isInverse,
                                     factors)) &&
        succeeded(splitProbabilities(probabilities->operands[1],
                                     isInverse != isQuotient, factors)));
  }
  if (isInverse) {
    factors.denominators.push_back(probabilities);
    return success();
  }
  if (auto part = getZeroOrElse(probabilities)) {
    result.dropoutKept.push_back(part->first);
    return splitProbabilities(part->second, isInverse, factors);
  }
  if (!hasExponential(probabilities))
    return addDropoutFactor(probabilities, factors);
  bool isSoftmax = probabilities->kind == Expr::Kind::Element ||
                   probabilities->isa<math::ExpOp>() ||
                   probabilities->isa<math::Exp2Op>();
  if (!isSoftmax)
    return fail(
        "the attention probabilities are changed after the softmax by '" +
        probabilities->op->getName().getStringRef() + "'");
  if (factors.numerator)
    return fail("the attention probabilities are a product of exponentials");
  factors.numerator = probabilities;
  return success();
}

LogicalResult AttentionMatcher::matchDropout(double number) {
  if (result.dropoutKept.empty()) {
    if (number == 1)
      return success();
    return fail(llvm::formatv("the attention probabilities are multiplied by "
                              "{0} after the softmax, and none are dropped",
                              number)
                    .str());
  }
  result.dropProbability = float(1 - 1 / number);
  double factor = 1 / (1 - double(result.dropProbability));
  // Written so that NaN is an error.
  if (result.dropProbability >= 0 && result.dropProbability < 1 &&
      std::abs(factor / number - 1) <= maxFactorError)
    return success();
  return fail(
      llvm::formatv("the attention probabilities that dropout keeps are "
                    "multiplied by {0}, which is not one over a probability",
                    number)
          .str());
}
