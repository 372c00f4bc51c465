//===- MatchLinearAttention.cpp - Linear attention in linalg --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A weight is split into its factors. One is an element of the matmul of
// queries and keys. The others must be conditions that make up the causal mask,
// exponentials of differences, or functions of the query or of the key alone.
//
//===----------------------------------------------------------------------===//

#include "MatchLinearAttention.h"
#include "MatchAttention.h"
#include "attn/Analysis/MaskAlgebra.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Interfaces/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

/// Weights with more factors, nested ones included, are not decomposed.
static constexpr unsigned maxFactors = 64;

/// An exponent of at most this masks: its exponential is 0 in f32.
static constexpr double maskedExponent = -1e4;

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

bool LinearAttentionMatcher::isOfPair(const Expr *expr) {
  return !isIndependentOfKey(expr) && !isIndependentOfQuery(expr);
}

bool LinearAttentionMatcher::splitWeight(const Expr *weight, bool isInverse) {
  if (++numVisited > maxFactors)
    return false;
  if (std::optional<double> number = getConstantFloat(weight)) {
    result.scale *= isInverse ? 1 / *number : *number;
    return true;
  }
  if (weight->isa<arith::NegFOp>()) {
    result.scale = -result.scale;
    return splitWeight(weight->operands[0], isInverse);
  }
  if (weight->isa<arith::MulFOp>() || weight->isa<arith::DivFOp>()) {
    bool isQuotient = weight->isa<arith::DivFOp>();
    return splitWeight(weight->operands[0], isInverse) &&
           splitWeight(weight->operands[1], isInverse != isQuotient);
  }
  if (!isInverse) {
    if (auto part = getZeroOrElse(weight))
      return addCondition(part->first) && splitWeight(part->second, isInverse);
    if (std::optional<PairCondition> condition = getZeroOrOne(weight))
      return addCondition(*condition);
  }
  factors.push_back({weight, isInverse ? LinearFactor::Kind::Inverse
                                       : LinearFactor::Kind::Plain});
  return true;
}

/// The condition that `condition` is the negation of, if it is one.
static const Expr *getNegated(const Expr *condition) {
  if (!condition->isa<arith::XOrIOp>())
    return nullptr;
  for (unsigned i : {0, 1}) {
    const Expr *other = condition->operands[i];
    if (other->kind == Expr::Kind::Constant && other->type.isInteger(1) &&
        !cast<IntegerAttr>(other->constant).getValue().isZero())
      return condition->operands[1 - i];
  }
  return nullptr;
}

bool LinearAttentionMatcher::addCondition(const PairCondition &condition) {
  if (++numVisited > maxFactors)
    return false;
  const Expr *expr = condition.condition;
  if (const Expr *inner = getNegated(expr))
    return addCondition({inner, !condition.isNegated});
  // Conjunctions, also as negated disjunctions.
  bool isConjunction = expr->type.isInteger(1) &&
                       (condition.isNegated ? expr->isa<arith::OrIOp>()
                                            : expr->isa<arith::AndIOp>());
  if (isConjunction)
    return addCondition({expr->operands[0], condition.isNegated}) &&
           addCondition({expr->operands[1], condition.isNegated});
  if (isOfPair(expr))
    conditions.push_back(condition);
  else if (!isIndependentOfKey(expr))
    result.keyConditions.push_back(condition);
  else
    result.queryConditions.push_back(condition);
  return true;
}

LogicalResult LinearAttentionMatcher::matchScores() {
  for (auto [number, factor] : llvm::enumerate(factors)) {
    const Expr *expr = factor.expr;
    if (factor.kind != LinearFactor::Kind::Plain ||
        expr->kind != Expr::Kind::Element || isIndependentOfKey(expr))
      continue;
    auto op = expr->value.getDefiningOp<linalg::LinalgOp>();
    if (!isMatmul(op))
      continue;
    if (failed(matchQueriesAndKeys(op, expr)))
      return failure();
    if (!result.matmul)
      continue;
    factors.erase(factors.begin() + number);
    return success();
  }
  for (const LinearFactor &factor : factors)
    if (factor.expr->kind == Expr::Kind::Operation &&
        !hasExponential(factor.expr) && changesScores(factor.expr))
      return fail("the weights are no multiples of the scores, which '" +
                  factor.expr->op->getName().getStringRef() + "' changes");
  return failure();
}

/// Whether `expr` is a function of scores of as many queries as keys.
bool LinearAttentionMatcher::changesScores(const Expr *expr) {
  bool found = false;
  walkExpr(expr, [&](const Expr *part) {
    if (found || part->kind != Expr::Kind::Element || isIndependentOfKey(part))
      return;
    auto op = part->value.getDefiningOp<linalg::LinalgOp>();
    if (!isMatmul(op) || failed(matchQueriesAndKeys(op, part)))
      return;
    found = result.matmul && haveEqualLengths();
    result.matmul = nullptr;
  });
  reason.clear();
  return found;
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

/// Whether `leaf` is an element of a constant tensor that is not zero where the
/// key is at most the query.
static bool isCausalConstant(const Expr *leaf, const AttentionCoordinates &at,
                             bool isNegated) {
  DenseElementsAttr constant;
  if (leaf->kind != Expr::Kind::Element ||
      !matchPattern(leaf->value, m_Constant(&constant)))
    return false;
  MLIRContext *context = leaf->value.getContext();
  std::optional<unsigned> rows, columns;
  for (auto [dim, index] : llvm::enumerate(leaf->indices)) {
    if (at.query && index == getAffineDimExpr(*at.query, context))
      rows = dim;
    else if (index == getAffineDimExpr(at.key, context))
      columns = dim;
    else if (constant.getType().getDimSize(dim) != 1)
      return false;
  }
  if (!rows || !columns || *rows > *columns)
    return false;
  int64_t numKeys = constant.getType().getDimSize(*columns);
  auto isCausal = [&](int64_t position, bool isKept) {
    return isKept == (position % numKeys <= position / numKeys);
  };
  int64_t position = 0;
  if (isa<IntegerType>(constant.getElementType()))
    return llvm::all_of(constant.getValues<APInt>(), [&](const APInt &value) {
      return isCausal(position++, value.isZero() == isNegated);
    });
  if (!isa<FloatType>(constant.getElementType()) || isNegated)
    return false;
  return llvm::all_of(constant.getValues<APFloat>(), [&](const APFloat &value) {
    return isCausal(position++, !value.isZero()) &&
           (value.isZero() || value.isExactlyValue(1.0));
  });
}

namespace {
/// Conditions of a pair as predicates in one scope, next to the causal mask.
class PairScope {
public:
  explicit PairScope(const LinearAttentionMatch &match)
      : match(match), scope(match.secondMatmul->getContext(),
                            getLength(match.at.query), getLength(match.at.key)),
        causal(getPredicate(nullptr)) {}

  /// Whether `condition` holds wherever the causal mask does.
  bool isImplied(const PairCondition &condition) {
    return scope.isNever(
        {{causal}, {getPredicate(&condition), /*isNegated=*/true}});
  }

  /// Whether all conditions together hold nowhere else.
  bool implyCausal(ArrayRef<PairCondition> conditions) {
    SmallVector<MaskScope::Literal> literals = {{causal, /*isNegated=*/true}};
    for (const PairCondition &condition : conditions)
      literals.push_back({getPredicate(&condition)});
    return scope.isNever(literals);
  }

private:
  int64_t getLength(std::optional<unsigned> coordinate) const {
    int64_t size = coordinate ? match.at.sizes[*coordinate] : 1;
    return size == 0 ? ShapedType::kDynamic : size;
  }

  /// The condition as a predicate, or the causal mask for null.
  Value getPredicate(const PairCondition *condition) {
    Region region;
    Block &block = region.emplaceBlock();
    Location loc = match.secondMatmul->getLoc();
    OpBuilder builder(match.secondMatmul->getContext());
    builder.setInsertionPointToEnd(&block);
    for (unsigned i = 0; i < 4; ++i)
      block.addArgument(builder.getIndexType(), loc);
    Value predicate;
    if (condition) {
      DenseMap<unsigned, Value> coordinates =
          emitCoordinates(builder, loc, match.at, block.getArguments());
      predicate =
          ExprEmitter(builder, loc, match, coordinates).emit({*condition});
    } else {
      predicate =
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle,
                                block.getArgument(3), block.getArgument(2));
    }
    YieldOp::create(builder, loc, predicate);
    return scope.clonePredicate(region);
  }

  const LinearAttentionMatch &match;
  MaskScope scope;
  Value causal;
};
} // namespace

bool LinearAttentionMatcher::isImplied(const PairCondition &condition) {
  return result.isCausal && PairScope(result).isImplied(condition);
}

LogicalResult LinearAttentionMatcher::checkCausal() {
  if (conditions.empty()) {
    if (!exponents.empty())
      return fail("weights that decay need the causal mask");
    return success();
  }
  result.isCausal = true;
  bool isByConstant = false;
  llvm::erase_if(conditions, [&](const PairCondition &condition) {
    bool isCausal =
        isCausalConstant(condition.condition, result.at, condition.isNegated);
    isByConstant |= isCausal;
    return isCausal;
  });
  PairScope scope(result);
  bool isCausal = llvm::all_of(conditions, [&](const PairCondition &condition) {
    return scope.isImplied(condition);
  });
  if (isCausal && (isByConstant || scope.implyCausal(conditions)))
    return success();
  return fail("the mask is not known to be the causal one, 'key <= query'");
}

//===----------------------------------------------------------------------===//
// Decays
//===----------------------------------------------------------------------===//

namespace {
/// `query * i + key * j + constant` for a pair (i, j).
struct AffinePosition {
  double query = 0, key = 0, constant = 0;

  AffinePosition scaled(double factor) const {
    return {query * factor, key * factor, constant * factor};
  }
  AffinePosition plus(const AffinePosition &other) const {
    return {query + other.query, key + other.key, constant + other.constant};
  }
  bool isConstant() const { return query == 0 && key == 0; }
};
} // namespace

static std::optional<AffinePosition>
getAffinePosition(AffineExpr index, const AttentionCoordinates &at) {
  if (auto constant = dyn_cast<AffineConstantExpr>(index))
    return AffinePosition{0, 0, double(constant.getValue())};
  if (auto dim = dyn_cast<AffineDimExpr>(index)) {
    if (at.isQuery(dim.getPosition()))
      return AffinePosition{1, 0, 0};
    if (at.isKey(dim.getPosition()))
      return AffinePosition{0, 1, 0};
    return std::nullopt;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(index);
  if (!binary || (index.getKind() != AffineExprKind::Add &&
                  index.getKind() != AffineExprKind::Mul))
    return std::nullopt;
  auto lhs = getAffinePosition(binary.getLHS(), at);
  auto rhs = getAffinePosition(binary.getRHS(), at);
  if (!lhs || !rhs)
    return std::nullopt;
  if (index.getKind() == AffineExprKind::Add)
    return lhs->plus(*rhs);
  if (!rhs->isConstant())
    return std::nullopt;
  return lhs->scaled(rhs->constant);
}

/// `expr` as an affine function of the positions, if it is one.
static std::optional<AffinePosition>
getAffinePosition(const Expr *expr, const AttentionCoordinates &at) {
  if (expr->kind == Expr::Kind::Index)
    return getAffinePosition(expr->index, at);
  if (expr->kind == Expr::Kind::Constant) {
    if (auto number = dyn_cast<FloatAttr>(expr->constant))
      return AffinePosition{0, 0, number.getValueAsDouble()};
    return AffinePosition{0, 0,
                          double(cast<IntegerAttr>(expr->constant).getInt())};
  }
  if (expr->kind != Expr::Kind::Operation)
    return std::nullopt;
  SmallVector<AffinePosition> operands;
  for (const Expr *operand : expr->operands) {
    std::optional<AffinePosition> position = getAffinePosition(operand, at);
    if (!position)
      return std::nullopt;
    operands.push_back(*position);
  }
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::SIToFPOp,
          arith::UIToFPOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(
          expr->op))
    return operands[0];
  if (isa<arith::NegFOp>(expr->op))
    return operands[0].scaled(-1);
  if (isa<arith::AddIOp, arith::AddFOp>(expr->op))
    return operands[0].plus(operands[1]);
  if (isa<arith::SubIOp, arith::SubFOp>(expr->op))
    return operands[0].plus(operands[1].scaled(-1));
  if (!isa<arith::MulIOp, arith::MulFOp>(expr->op))
    return std::nullopt;
  for (unsigned i : {0, 1})
    if (operands[i].isConstant())
      return operands[1 - i].scaled(operands[i].constant);
  return std::nullopt;
}

/// What `select` is where it does not mask, and the condition; null if it never
/// masks.
static std::pair<const Expr *, PairCondition> getKept(const Expr *select) {
  for (bool isNegated : {false, true}) {
    std::optional<double> number =
        getConstantFloat(select->operands[isNegated ? 1 : 2]);
    if (number && *number <= maskedExponent)
      return {select->operands[isNegated ? 2 : 1],
              {select->operands[0], isNegated}};
  }
  return {nullptr, {nullptr}};
}

/// Removes masks that are added to an exponent.
const Expr *LinearAttentionMatcher::stripAddends(const Expr *exponent) {
  for (unsigned i : {0, 1}) {
    const Expr *addend = exponent->operands[i];
    if (!addend->isa<arith::SelectOp>())
      continue;
    auto [kept, condition] = getKept(addend);
    if (kept && getConstantFloat(kept) == 0.0 && addCondition(condition))
      return stripMasks(exponent->operands[1 - i]);
  }
  return exponent;
}

const Expr *LinearAttentionMatcher::stripMasks(const Expr *exponent) {
  if (exponent->isa<arith::SelectOp>()) {
    auto [kept, condition] = getKept(exponent);
    return kept && addCondition(condition) ? stripMasks(kept) : exponent;
  }
  if (exponent->isa<arith::AddFOp>())
    return stripAddends(exponent);
  if (!exponent->isa<arith::MulFOp>())
    return exponent;
  for (unsigned i : {0, 1}) {
    std::optional<double> number = getConstantFloat(exponent->operands[i]);
    if (!number || !(*number > 0) || !std::isfinite(*number))
      continue;
    SmallVector<const Expr *> operands = llvm::to_vector(exponent->operands);
    operands[1 - i] = stripMasks(operands[1 - i]);
    return exprs->getOperation(exponent->op, operands);
  }
  return exponent;
}

/// Whether `expr` is a multiple of the distance, at least 0 where the key is at
/// most the query.
static bool isDistance(const Expr *expr, const AttentionCoordinates &at) {
  std::optional<AffinePosition> position = getAffinePosition(expr, at);
  return position && position->query >= 0 &&
         position->query == -position->key && position->constant >= 0;
}

static bool isZero(const Expr *expr, const AttentionCoordinates &at) {
  std::optional<AffinePosition> position = getAffinePosition(expr, at);
  return position && position->isConstant() && position->constant == 0;
}

/// Drops what makes no difference where the key is at most the query.
const Expr *LinearAttentionMatcher::simplify(const Expr *exponent) {
  if (exponent->kind != Expr::Kind::Operation)
    return exponent;
  Operation *op = exponent->op;
  ArrayRef<const Expr *> operands = exponent->operands;
  if (isa<arith::SelectOp>(op)) {
    for (bool isNegated : {false, true})
      if (isImplied({operands[0], isNegated}))
        return simplify(operands[isNegated ? 2 : 1]);
    return exponent;
  }
  if (isa<math::AbsFOp, math::AbsIOp>(op))
    return isDistance(operands[0], result.at) ? operands[0] : exponent;
  if (isa<arith::MaxSIOp, arith::MaximumFOp, arith::MaxNumFOp>(op)) {
    for (unsigned i : {0, 1})
      if (isDistance(operands[i], result.at) &&
          isZero(operands[1 - i], result.at))
        return operands[i];
    return exponent;
  }
  SmallVector<const Expr *> simplified;
  for (const Expr *operand : operands)
    simplified.push_back(isOfPair(operand) ? simplify(operand) : operand);
  return exprs->getOperation(op, simplified);
}

/// Adds `term` times an affine function of the positions.
void LinearAttentionMatcher::addPositions(double query, double key,
                                          double constant,
                                          const LinearTerm &term) {
  if (query == 0 && key == 0 && term.factors.empty()) {
    result.scale *= std::exp(constant);
    return;
  }
  auto *same = llvm::find_if(positions, [&](const Positions &other) {
    return other.term.factors == term.factors;
  });
  if (same == positions.end()) {
    positions.push_back({term});
    same = &positions.back();
  }
  same->query += query;
  same->key += key;
  same->constant += constant;
}

/// The operand of a product or quotient to which the others are factors of no
/// position, and `term` times these; null if there is none.
const Expr *LinearAttentionMatcher::splitFactor(const Expr *exponent,
                                                LinearTerm &term) {
  bool isQuotient = exponent->isa<arith::DivFOp>();
  bool isOfPosition =
      !isIndependentOfKey(exponent) || !isIndependentOfQuery(exponent);
  for (unsigned i : {0, 1}) {
    const Expr *factor = exponent->operands[1 - i];
    if (isQuotient && i == 1)
      return nullptr;
    if (std::optional<double> number = getConstantFloat(factor)) {
      term.number *= isQuotient ? 1 / *number : *number;
      return exponent->operands[i];
    }
    if (!isOfPosition || !isIndependentOfKey(factor) ||
        !isIndependentOfQuery(factor))
      continue;
    term.factors.push_back({factor, isQuotient ? LinearFactor::Kind::Inverse
                                               : LinearFactor::Kind::Plain});
    return exponent->operands[i];
  }
  return nullptr;
}

LogicalResult LinearAttentionMatcher::addExponent(const Expr *exponent,
                                                  LinearTerm term) {
  if (std::optional<AffinePosition> at =
          getAffinePosition(exponent, result.at)) {
    addPositions(at->query * term.number, at->key * term.number,
                 at->constant * term.number, term);
    return success();
  }
  LinearTerm negated = term;
  negated.number = -term.number;
  if (exponent->isa<arith::NegFOp>())
    return addExponent(exponent->operands[0], negated);
  bool isDifference = exponent->isa<arith::SubFOp>();
  if (exponent->isa<arith::AddFOp>() || isDifference)
    return success(succeeded(addExponent(exponent->operands[0], term)) &&
                   succeeded(addExponent(exponent->operands[1],
                                         isDifference ? negated : term)));
  if (exponent->isa<arith::MulFOp>() || exponent->isa<arith::DivFOp>())
    if (const Expr *rest = splitFactor(exponent, term))
      return addExponent(rest, term);
  if (isOfPair(exponent))
    return fail("an exponent of the weights is no difference of a value of the "
                "query and the same value of the key");
  term.position = exponent;
  (isIndependentOfKey(exponent) ? ofQuery : ofKey).push_back(term);
  return success();
}

LogicalResult LinearAttentionMatcher::addRates() {
  for (const Positions &part : positions) {
    if (part.query != -part.key)
      return fail(
          "an exponent of the weights depends on more than the distance "
          "of query and key");
    if (part.constant != 0 && !part.term.factors.empty())
      return fail("a decay is not 1 where the query is the key");
    result.scale *= std::exp(part.constant);
    if (part.query == 0)
      continue;
    if (part.term.factors.empty() && part.query > 0)
      return fail("weights grow with the distance of query and key");
    LinearTerm term = part.term;
    term.number = part.query;
    result.rates.push_back(term);
  }
  return success();
}

LogicalResult LinearAttentionMatcher::addDifferences() {
  const AttentionCoordinates &at = result.at;
  for (const LinearTerm &term : ofQuery) {
    const Expr *atKey =
        exprs->replaceCoordinate(term.position, *at.query, at.key);
    auto *same = llvm::find_if(ofKey, [&](const LinearTerm &other) {
      return other.position == atKey && other.number == -term.number &&
             other.factors == term.factors;
    });
    if (same == ofKey.end())
      break;
    ofKey.erase(same);
    result.cumulative.push_back(term);
  }
  if (result.cumulative.size() == ofQuery.size() && ofKey.empty())
    return success();
  return fail("an exponent of the weights is no difference of a value of the "
              "query and the same value of the key");
}

LogicalResult LinearAttentionMatcher::addDecays() {
  for (const Exponent &exponent : exponents)
    if (failed(addExponent(simplify(exponent.expr), exponent.term)))
      return failure();
  return success(succeeded(addRates()) && succeeded(addDifferences()));
}

/// The exponential that `factor` is: the exponent, and a multiple of it.
static std::optional<std::pair<const Expr *, LinearTerm>>
getExponent(const LinearFactor &factor) {
  const Expr *expr = factor.expr;
  LinearTerm term;
  if (factor.kind == LinearFactor::Kind::Inverse)
    term.number = -1;
  if (expr->isa<math::ExpOp>())
    return std::pair(expr->operands[0], term);
  if (expr->isa<math::Exp2Op>()) {
    term.number *= llvm::numbers::ln2;
    return std::pair(expr->operands[0], term);
  }
  if (!expr->isa<math::PowFOp>() && !expr->isa<math::FPowIOp>())
    return std::nullopt;
  const Expr *base = expr->operands[0];
  if (std::optional<double> number = getConstantFloat(base)) {
    if (!(*number > 0))
      return std::nullopt;
    term.number *= std::log(*number);
  } else {
    term.factors.push_back({base, LinearFactor::Kind::Logarithm});
  }
  return std::pair(expr->operands[1], term);
}

/// How `expr` is called in messages.
static std::string describe(const Expr *expr) {
  if (expr->kind == Expr::Kind::Operation)
    return ("the result of '" + expr->op->getName().getStringRef() + "'").str();
  if (expr->value)
    return "elements of " + getProducerName(expr->value);
  return "a value";
}

LogicalResult LinearAttentionMatcher::addFactors() {
  for (const LinearFactor &factor : factors) {
    const Expr *expr = factor.expr;
    if (!isOfPair(expr)) {
      (isIndependentOfKey(expr) ? result.queryFactors : result.keyFactors)
          .push_back(factor);
      continue;
    }
    auto exponent = getExponent(factor);
    bool isPower = exponent && !exponent->second.factors.empty();
    const Expr *base = isPower ? expr->operands[0] : nullptr;
    if (exponent &&
        (!base || (isIndependentOfKey(base) && isIndependentOfQuery(base)))) {
      auto &[inner, term] = *exponent;
      if (term.number > 0 && !isPower)
        inner = stripMasks(inner);
      exponents.push_back({term, inner});
    } else if (factor.kind == LinearFactor::Kind::Plain &&
               isCausalConstant(expr, result.at, /*isNegated=*/false)) {
      conditions.push_back({expr});
    } else {
      return fail("the scores are multiplied by " + describe(expr) +
                  ", which is no causal mask, decay, or factor of queries or "
                  "keys");
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Shapes and types
//===----------------------------------------------------------------------===//

/// Whether all uses of the result round it to the element type of queries.
bool LinearAttentionMatcher::isRounded() {
  Type type = getElementTypeOrSelf(result.query.tensor.getType());
  auto isRounding = [&](Operation *op) {
    return isa<arith::TruncFOp>(op) &&
           getElementTypeOrSelf(op->getResult(0).getType()) == type;
  };
  return llvm::all_of(matmul->getResult(0).getUses(), [&](OpOperand &use) {
    if (isRounding(use.getOwner()))
      return true;
    auto op = dyn_cast<linalg::LinalgOp>(use.getOwner());
    return op && op.isDpsInput(&use) &&
           llvm::all_of(op.getMatchingBlockArgument(&use).getUsers(),
                        isRounding);
  });
}

LogicalResult LinearAttentionMatcher::checkTypes() {
  Type type = getElementTypeOrSelf(result.query.tensor.getType());
  Type resultType = getElementTypeOrSelf(matmul->getResult(0).getType());
  std::string name;
  llvm::raw_string_ostream(name) << type;
  if (!isa<BFloat16Type, Float16Type, Float32Type>(type))
    return fail("the element type " + name + " is not supported");
  constexpr int64_t columnsOfSum = 8;
  int64_t keyHeadDim = result.at.sizes[result.at.qkHeadDimCoordinate];
  int64_t valueHeadDim = result.isSum
                             ? columnsOfSum
                             : result.at.sizes[*result.at.vHeadDimCoordinate];
  if (target.isHost()) {
    result.isWidened = type != resultType && !type.isF32();
    return success();
  }
  if (type != resultType && !result.isSum && !isRounded())
    return fail("kernels of linear attention on " + target.getName() +
                " round their result to " + name + ", and it is used as f32");
  // Tiles of f32 with more columns do not fit the shared memory of all GPUs.
  int64_t maxHeadDim = target.getMaxWholeHeadDim();
  maxHeadDim = type.isF32() ? maxHeadDim * 3 / 4 : maxHeadDim;
  for (int64_t headDim : {keyHeadDim, valueHeadDim})
    if (!target.supportsHeadDim(headDim) || headDim > maxHeadDim)
      return fail(
          llvm::formatv("kernels of linear attention on {0} do not have "
                        "the head dim {1} in {2}",
                        target.getName(), headDim, name)
              .str());
  return success();
}

LogicalResult
LinearAttentionMatcher::matchShape(std::optional<ElementRef> value) {
  const AttentionCoordinates &at = result.at;
  if (llvm::any_of(at.heads, [&](unsigned head) {
        return ShapedType::isDynamic(at.sizes[head]);
      }))
    return fail("the number of heads is not static");
  if (ShapedType::isDynamic(at.sizes[at.qkHeadDimCoordinate]) ||
      (value && ShapedType::isDynamic(at.sizes[*at.vHeadDimCoordinate])))
    return fail("the head dim is not static");
  if (failed(matchOperands(queryRef, keyRef, value, /*isLinear=*/true)))
    return failure();
  for (const AttentionOperandMatch *operand : {&result.key, &result.value})
    if (at.getNumHeads() % operand->numHeads != 0)
      return fail("the heads of keys or values do not divide those of queries");
  auto usesHead = [&](const Expr *expr) {
    return usesCoordinate(expr, [&](unsigned coordinate) {
      return llvm::is_contained(at.heads, coordinate);
    });
  };
  for (const LinearFactor &factor : result.keyFactors)
    result.hasKeyFactorsOfHeads |= usesHead(factor.expr);
  for (const PairCondition &condition : result.keyConditions)
    result.hasKeyFactorsOfHeads |= usesHead(condition.condition);
  if (value && result.hasKeyFactorsOfHeads &&
      result.value.numHeads != at.getNumHeads())
    return fail("factors of keys differ between heads that share values");
  int64_t numTokens = at.sizes[*at.query];
  int64_t headDim = at.sizes[at.qkHeadDimCoordinate];
  if (!ShapedType::isDynamic(numTokens) && numTokens <= headDim)
    return fail(
        llvm::formatv("{0} tokens are no more than the {1} elements of a "
                      "key, so that scores are less work than a state",
                      numTokens, headDim)
            .str());
  return checkTypes();
}

//===----------------------------------------------------------------------===//
// Linear attention
//===----------------------------------------------------------------------===//

LogicalResult LinearAttentionMatcher::matchWeights(const Expr *weight) {
  numVisited = 0;
  factors.clear();
  conditions.clear();
  exponents.clear();
  positions.clear();
  ofQuery.clear();
  ofKey.clear();
  const AttentionCoordinates &at = result.at;
  if (!at.query || at.sizes[*at.query] == 1)
    return failure();
  if (!splitWeight(weight, /*isInverse=*/false) || failed(matchScores()))
    return failure();
  if (failed(addFactors()) || failed(checkCausal()) || failed(addDecays()))
    return failure();
  if (!std::isfinite(float(result.scale)) || float(result.scale) == 0)
    return failure();
  if (!haveEqualLengths()) {
    if (!result.isCausal)
      return failure();
    return fail("queries and keys are not known to have the same number");
  }
  return success();
}

LogicalResult
LinearAttentionMatcher::matchMatmul(unsigned weightsOperandNumber) {
  result = LinearAttentionMatch();
  result.secondMatmul = matmul;
  FailureOr<SmallVector<AffineExpr>> loops =
      findCoordinates(weightsOperandNumber);
  if (failed(loops))
    return failure();
  exprs.emplace(matmul.getContext(), result.at.sizes);
  if (failed(matchWeights(exprs->getElement(exprs->getOperandRef(
          matmul->getOpOperand(weightsOperandNumber), *loops)))))
    return failure();
  ElementRef value = exprs->getOperandRef(
      matmul->getOpOperand(1 - weightsOperandNumber), *loops);
  // Without a mask, this may be any chain of matmuls, such as of projections.
  auto hasBatch = [&](const ElementRef &ref) {
    return !result.at.batch || llvm::any_of(ref.indices, [&](AffineExpr index) {
      return index.isFunctionOfDim(*result.at.batch);
    });
  };
  if (!result.isCausal &&
      (!hasBatch(queryRef) || !hasBatch(keyRef) || !hasBatch(value)))
    return failure();
  std::optional<double> start = getConstantFloat(exprs->getElement(
      exprs->getOperandRef(*matmul.getDpsInitOperand(0), *loops)));
  if (start != 0.0)
    return fail("the matmul with the values is added to a tensor");
  return matchShape(value);
}

LogicalResult LinearAttentionMatcher::matchSum(unsigned queryLoop) {
  result = LinearAttentionMatch();
  result.secondMatmul = matmul;
  result.isSum = true;
  FailureOr<SmallVector<AffineExpr>> loops = findSumCoordinates(queryLoop);
  if (failed(loops))
    return failure();
  exprs.emplace(matmul.getContext(), result.at.sizes);
  const Expr *sum = exprs->getYielded(matmul, 0, *loops);
  if (!sum || !sum->isa<arith::AddFOp>())
    return failure();
  bool startsFirst = getConstantFloat(sum->operands[0]).has_value();
  if (getConstantFloat(sum->operands[startsFirst ? 0 : 1]) != 0.0 ||
      failed(matchWeights(sum->operands[startsFirst ? 1 : 0])))
    return failure();
  return matchShape(std::nullopt);
}

bool LinearAttentionMatcher::isCandidate(linalg::LinalgOp op) {
  if (isMatmul(op))
    return true;
  if (!op || !op.hasPureTensorSemantics() || op.getNumReductionLoops() != 1 ||
      op->getNumResults() != 1)
    return false;
  Value yielded = op.getBlock()->getTerminator()->getOperand(0);
  return bool(yielded.getDefiningOp<arith::AddFOp>());
}

FailureOr<LinearAttentionMatch> LinearAttentionMatcher::match() {
  if (isMatmul(matmul)) {
    // Either operand may hold the weights.
    std::string firstReason;
    for (unsigned weightsOperandNumber : {0, 1}) {
      reason.clear();
      if (succeeded(matchMatmul(weightsOperandNumber)))
        return result;
      if (firstReason.empty())
        firstReason = reason;
    }
    reason = firstReason;
    return failure();
  }
  SmallVector<unsigned> parallel;
  matmul.getParallelDims(parallel);
  for (unsigned queryLoop : llvm::reverse(parallel)) {
    reason.clear();
    if (succeeded(matchSum(queryLoop)))
      return result;
  }
  return failure();
}
