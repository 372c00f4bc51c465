//===- MatchMasks.cpp - Masks in scores -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Removes large negative numbers from scores and makes them conditions under
// which pairs are kept.
//
//===----------------------------------------------------------------------===//

#include "MatchAttention.h"
#include "attn/Analysis/MaskAlgebra.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

/// A score of at most this is taken to mean that the pair does not attend.
static constexpr double maskedScore = -1e4;

/// Whether `expr` is a number that masks pairs.
static bool isMasked(const Expr *expr) {
  std::optional<double> number = getConstantFloat(expr);
  return number && *number <= maskedScore;
}

namespace {
/// Removes the masks from scores.
class MaskMatcher {
public:
  /// Which numbers may mask.
  enum class Numbers { All, OfPositions, Infinite };

  MaskMatcher(ElementExprs &exprs, const Expr *matmul, Numbers numbers)
      : exprs(exprs), matmul(matmul), numbers(numbers) {}

  /// Returns the scores without masks, and adds the conditions to `maskMod`.
  const Expr *strip(const Expr *expr);

  SmallVector<PairCondition> maskMod;
  /// Whether a mask is finite, so that it affects rows without kept pairs.
  bool hasFinite = false;

private:
  const Expr *stripSelect(const Expr *expr);
  const Expr *stripSum(const Expr *expr);
  const Expr *stripMaximum(const Expr *expr);
  bool addCondition(const Expr *condition, bool isNegated, const Expr *number);
  /// Adds the condition under which `expr` is 0 instead of masking.
  bool addAddend(const Expr *expr);
  bool addFactor(const Expr *factor, const Expr *number);
  bool usesMatmul(const Expr *expr) const;

  ElementExprs &exprs;
  const Expr *matmul;
  Numbers numbers;
};
} // namespace

bool MaskMatcher::usesMatmul(const Expr *expr) const {
  bool found = false;
  walkExpr(expr, [&](const Expr *part) { found |= part == matmul; });
  return found;
}

/// Whether `expr` is a function of coordinates only.
static bool isOfPositions(const Expr *expr) {
  bool result = true;
  walkExpr(expr, [&](const Expr *part) {
    result &= part->kind != Expr::Kind::Element;
    // This excludes reads of tensors.
    result &=
        part->kind != Expr::Kind::Captured || part->type.isIntOrIndexOrFloat();
  });
  return result;
}

bool MaskMatcher::addCondition(const Expr *condition, bool isNegated,
                               const Expr *number) {
  if (!condition->type.isInteger(1) || usesMatmul(condition))
    return false;
  if (!std::isinf(*getConstantFloat(number))) {
    if (numbers == Numbers::Infinite ||
        (numbers == Numbers::OfPositions && !isOfPositions(condition)))
      return false;
    hasFinite = true;
  }
  maskMod.push_back({condition, isNegated});
  return true;
}

bool MaskMatcher::addFactor(const Expr *factor, const Expr *number) {
  if (factor->isa<arith::UIToFPOp>())
    return addCondition(factor->operands.front(), /*isNegated=*/true, number);
  if (factor->isa<arith::SubFOp>() &&
      getConstantFloat(factor->operands.front()) == 1.0 &&
      factor->operands[1]->isa<arith::UIToFPOp>())
    return addCondition(factor->operands[1]->operands.front(),
                        /*isNegated=*/false, number);
  return false;
}

bool MaskMatcher::addAddend(const Expr *expr) {
  if (expr->isa<arith::SelectOp>()) {
    auto [condition, yes, no] =
        std::tuple(expr->operands[0], expr->operands[1], expr->operands[2]);
    if (isMasked(no) && getConstantFloat(yes) == 0.0)
      return addCondition(condition, /*isNegated=*/false, no);
    if (isMasked(yes) && getConstantFloat(no) == 0.0)
      return addCondition(condition, /*isNegated=*/true, yes);
    return false;
  }
  if (expr->isa<arith::AddFOp>()) {
    // Masks may be added to each other first.
    size_t count = maskMod.size();
    if (addAddend(expr->operands[0]) && addAddend(expr->operands[1]))
      return true;
    maskMod.truncate(count);
    return false;
  }
  if (!expr->isa<arith::MulFOp>())
    return false;
  for (unsigned i : {0, 1})
    if (isMasked(expr->operands[i]) &&
        !std::isinf(*getConstantFloat(expr->operands[i])))
      return addFactor(expr->operands[1 - i], expr->operands[i]);
  return false;
}

const Expr *MaskMatcher::stripSelect(const Expr *expr) {
  for (bool isNegated : {false, true}) {
    const Expr *kept = expr->operands[isNegated ? 2 : 1];
    const Expr *other = expr->operands[isNegated ? 1 : 2];
    if (isMasked(other) && addCondition(expr->operands[0], isNegated, other))
      return strip(kept);
  }
  return expr;
}

const Expr *MaskMatcher::stripSum(const Expr *expr) {
  for (unsigned i : {0, 1})
    if (addAddend(expr->operands[i]))
      return strip(expr->operands[1 - i]);
  // The masks may be within the addend with the matmul.
  for (unsigned i : {0, 1}) {
    const Expr *addend = expr->operands[1 - i];
    if (usesMatmul(expr->operands[i]))
      continue;
    const Expr *inner = strip(addend);
    if (inner == addend)
      return expr;
    SmallVector<const Expr *> operands = llvm::to_vector(expr->operands);
    operands[1 - i] = inner;
    return exprs.getOperation(expr->op, operands);
  }
  return expr;
}

const Expr *MaskMatcher::stripMaximum(const Expr *expr) {
  for (unsigned i : {0, 1}) {
    if (!isMasked(expr->operands[i]))
      continue;
    if (numbers != Numbers::All)
      return expr;
    size_t count = maskMod.size();
    const Expr *inner = strip(expr->operands[1 - i]);
    if (maskMod.size() == count)
      return expr;
    hasFinite = true;
    return inner;
  }
  return expr;
}

const Expr *MaskMatcher::strip(const Expr *expr) {
  if (!usesMatmul(expr) || expr == matmul)
    return expr;
  if (expr->isa<arith::SelectOp>())
    return stripSelect(expr);
  if (expr->isa<arith::AddFOp>())
    return stripSum(expr);
  // A maximum may clamp scores at the masked score.
  if (expr->isa<arith::MaximumFOp>() || expr->isa<arith::MaxNumFOp>())
    return stripMaximum(expr);
  return expr;
}

/// Whether each row is known to keep a pair.
static bool keepsPairOfEachRow(const AttentionMatch &match,
                               ArrayRef<PairCondition> conditions) {
  MLIRContext *context = match.secondMatmul->getContext();
  const AttentionCoordinates &at = match.at;
  auto getLength = [&](std::optional<unsigned> coordinate) -> int64_t {
    int64_t size = coordinate ? at.sizes[*coordinate] : 1;
    return size == 0 ? ShapedType::kDynamic : size;
  };
  int64_t numQueries = getLength(at.query), numKeys = getLength(at.key);
  // Whether the key at this distance from the query, or from the first one,
  // is kept.
  auto keepsKey = [&](bool fromQuery, int64_t distance) {
    Region region;
    Block &block = region.emplaceBlock();
    Location loc = match.secondMatmul->getLoc();
    OpBuilder builder(context);
    builder.setInsertionPointToEnd(&block);
    for (unsigned i = 0; i < 4; ++i)
      block.addArgument(IndexType::get(context), loc);
    DenseMap<unsigned, Value> coordinates =
        emitCoordinates(builder, loc, at, block.getArguments());
    Value key = arith::ConstantIndexOp::create(builder, loc, distance);
    if (fromQuery)
      key = arith::AddIOp::create(builder, loc, block.getArgument(2), key);
    coordinates[at.key] = key;
    Value predicate =
        ExprEmitter(builder, loc, match, coordinates).emit(conditions);
    YieldOp::create(builder, loc, predicate);
    MaskScope scope(context, numQueries, numKeys);
    return scope.isNever({{scope.clonePredicate(region), /*isNegated=*/true}});
  };
  if (keepsKey(/*fromQuery=*/false, 0))
    return true;
  if (ShapedType::isDynamic(numQueries) || ShapedType::isDynamic(numKeys) ||
      numKeys < numQueries)
    return false;
  return keepsKey(/*fromQuery=*/true, 0) ||
         keepsKey(/*fromQuery=*/true, numKeys - numQueries);
}

const Expr *AttentionMatcher::matchMasks(const Expr *scores) {
  using Numbers = MaskMatcher::Numbers;
  for (Numbers numbers :
       {Numbers::All, Numbers::OfPositions, Numbers::Infinite}) {
    MaskMatcher masks(*exprs, result.matmul, numbers);
    const Expr *stripped = masks.strip(scores);
    if (masks.hasFinite && !assumed.keptRows &&
        !keepsPairOfEachRow(result, masks.maskMod))
      continue;
    result.maskMod = std::move(masks.maskMod);
    return stripped;
  }
  return scores;
}
