//===- MaskPredicate.cpp - Predicates as piecewise affine formulas --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the code of a predicate as a formula over inequalities of positions,
// of values that do not depend on them, and of quotients by constants.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::attn;

/// Larger coefficients and constants are not analysed: smaller ones can be
/// multiplied and added without overflow.
static constexpr int64_t maxCoefficient = int64_t(1) << 40;

/// Cases of an integer that are told apart.
static constexpr size_t maxPieces = 8;

/// Inequalities of a formula beyond which it counts as unknown: exclusive ors
/// and selections double them.
static constexpr size_t maxFormulaSize = 512;

/// Operations of which each has the one before as an operand: the recursion
/// that follows them must not exceed the stack.
static constexpr unsigned maxDepth = 256;

/// Work of all questions about a predicate but its projections.
static constexpr int64_t maxQuestionWork = 40'000'000;

//===----------------------------------------------------------------------===//
// Linear forms and formulas
//===----------------------------------------------------------------------===//

void LinearForm::add(unsigned variable, int64_t coefficient) {
  if (variable >= coefficients.size())
    coefficients.resize(variable + 1);
  coefficients[variable] += coefficient;
}

bool LinearForm::isConstant() const {
  return llvm::all_of(coefficients, [](int64_t c) { return c == 0; });
}

bool LinearForm::operator==(const LinearForm &other) const {
  size_t size = std::max(coefficients.size(), other.coefficients.size());
  for (size_t i = 0; i < size; ++i)
    if (get(i) != other.get(i))
      return false;
  return constant == other.constant;
}

LinearForm attn::operator*(LinearForm form, int64_t factor) {
  for (int64_t &coefficient : form.coefficients)
    coefficient *= factor;
  form.constant *= factor;
  return form;
}

LinearForm attn::operator+(LinearForm lhs, const LinearForm &rhs) {
  for (auto [variable, coefficient] : llvm::enumerate(rhs.coefficients))
    lhs.add(variable, coefficient);
  lhs.constant += rhs.constant;
  return lhs;
}

LinearForm attn::operator+(LinearForm form, int64_t constant) {
  form.constant += constant;
  return form;
}

LinearForm attn::operator-(const LinearForm &lhs, const LinearForm &rhs) {
  return lhs + rhs * -1;
}

static bool isSmall(const LinearForm &form) {
  auto small = [](int64_t value) {
    return -maxCoefficient < value && value < maxCoefficient;
  };
  return small(form.constant) && llvm::all_of(form.coefficients, small);
}

static Formula getConstant(bool value) {
  Formula result;
  result.kind = value ? Formula::Kind::True : Formula::Kind::False;
  return result;
}

static Formula getUnknown() {
  Formula result;
  result.kind = Formula::Kind::Unknown;
  return result;
}

/// `form >= 0`.
static Formula atLeastZero(LinearForm form) {
  if (form.isConstant())
    return getConstant(form.constant >= 0);
  Formula result;
  result.kind = Formula::Kind::AtLeastZero;
  result.form = std::move(form);
  return result;
}

/// The conjunction or disjunction of two formulas.
static Formula combine(Formula::Kind kind, Formula lhs, Formula rhs) {
  bool isAnd = kind == Formula::Kind::And;
  Formula::Kind neutral = isAnd ? Formula::Kind::True : Formula::Kind::False;
  Formula::Kind absorbing = isAnd ? Formula::Kind::False : Formula::Kind::True;
  if (lhs.kind == neutral || rhs.kind == absorbing)
    return rhs;
  if (rhs.kind == neutral || lhs.kind == absorbing)
    return lhs;
  Formula result;
  result.kind = kind;
  result.size = lhs.size + rhs.size;
  result.setParts({std::move(lhs), std::move(rhs)});
  return result;
}

static Formula conjoin(Formula lhs, Formula rhs) {
  return combine(Formula::Kind::And, std::move(lhs), std::move(rhs));
}

static Formula disjoin(Formula lhs, Formula rhs) {
  return combine(Formula::Kind::Or, std::move(lhs), std::move(rhs));
}

Formula attn::negate(Formula formula) {
  switch (formula.kind) {
  case Formula::Kind::True:
    return getConstant(false);
  case Formula::Kind::False:
    return getConstant(true);
  case Formula::Kind::Unknown:
    return formula;
  case Formula::Kind::AtLeastZero:
    return atLeastZero(formula.form * -1 + -1);
  case Formula::Kind::And:
    return disjoin(negate(formula.getParts()[0]),
                   negate(formula.getParts()[1]));
  case Formula::Kind::Or:
    return conjoin(negate(formula.getParts()[0]),
                   negate(formula.getParts()[1]));
  }
  llvm_unreachable("unknown kind of formula");
}

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

MaskAnalysis::MaskAnalysis(const Positions &positions, WorkBudget *shared,
                           WorkBudget *total)
    : positions(positions), ownBudget(maxQuestionWork, total),
      budget(shared ? shared : &ownBudget), total(total) {
  queryVariable = addVariable({VariableKind::Query});
  keyVariable = addVariable({VariableKind::Key});
  variables[queryVariable].isLocal = true;
  variables[keyVariable].isLocal = true;
  for (Value value : {positions.batch, positions.head})
    facts.push_back(getForm(getSymbol(value)));
  auto getLength = [&](Value value) {
    LinearForm form;
    if (APInt constant; matchPattern(value, m_ConstantInt(&constant)))
      form.constant = constant.getSExtValue();
    else
      form = getForm(getSymbol(value));
    facts.push_back(form);
    return form;
  };
  queryLength = getLength(positions.queryLength);
  keyLength = getLength(positions.keyLength);
}

unsigned MaskAnalysis::addVariable(Variable variable) {
  variables.push_back(std::move(variable));
  return variables.size() - 1;
}

LinearForm MaskAnalysis::getForm(unsigned variable) {
  LinearForm form;
  form.add(variable, 1);
  return form;
}

unsigned MaskAnalysis::getSymbol(Value value) {
  auto [it, isNew] = symbols.try_emplace(value, variables.size());
  if (isNew) {
    unsigned variable = addVariable({VariableKind::Value, value});
    if (value.getType().isInteger(1)) {
      facts.push_back(getForm(variable));
      facts.push_back(getForm(variable) * -1 + 1);
    } else if (value.getDefiningOp<arith::IndexCastUIOp>()) {
      facts.push_back(getForm(variable));
    }
  }
  return symbols[value];
}

bool MaskAnalysis::isLocal(const LinearForm &form) const {
  for (auto [variable, coefficient] : llvm::enumerate(form.coefficients))
    if (coefficient != 0 && variables[variable].isLocal)
      return true;
  return false;
}

LinearForm MaskAnalysis::getFloor(LinearForm form, int64_t divisor) {
  // Multiples of the divisor leave the quotient.
  LinearForm result, rest;
  int64_t common = divisor;
  for (auto [variable, coefficient] : llvm::enumerate(form.coefficients)) {
    if (coefficient % divisor == 0) {
      if (coefficient != 0)
        result.add(variable, coefficient / divisor);
      continue;
    }
    rest.add(variable, coefficient);
    common = std::gcd(common, coefficient);
  }
  result.constant = llvm::divideFloorSigned(form.constant, divisor);
  rest.constant = form.constant - result.constant * divisor;
  if (rest.isConstant())
    return result;
  for (int64_t &coefficient : rest.coefficients)
    coefficient /= common;
  rest.constant = llvm::divideFloorSigned(rest.constant, common);
  divisor /= common;

  auto *known = llvm::find_if(variables, [&](const Variable &variable) {
    return variable.kind == VariableKind::Floor &&
           variable.divisor == divisor && variable.form == rest;
  });
  unsigned variable = known - variables.begin();
  if (known == variables.end())
    addVariable(
        {VariableKind::Floor, /*value=*/nullptr, rest, divisor, isLocal(rest)});
  return result + getForm(variable);
}

bool MaskAnalysis::dependsOnPosition(Value value) {
  if (value == positions.query || value == positions.key)
    return true;
  if (!value.getDefiningOp())
    return false;
  // Values on the stack wait for their operands. There may be too many
  // operations for a recursion.
  SmallVector<Value> stack = {value};
  while (!stack.empty()) {
    Value current = stack.back();
    bool depends = false;
    size_t numWaiting = stack.size();
    current.getDefiningOp()->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands()) {
        if (operand == positions.query || operand == positions.key)
          depends = true;
        else if (auto it = dependence.find(operand); it != dependence.end())
          depends |= it->second;
        else if (Operation *op = operand.getDefiningOp();
                 op && !current.getDefiningOp()->isAncestor(op))
          stack.push_back(operand);
      }
    });
    if (!depends && stack.size() > numWaiting)
      continue;
    stack.truncate(numWaiting - 1);
    dependence[current] = depends;
  }
  return dependence[value];
}

void MaskAnalysis::addNotAffine(Location loc, std::string reason) {
  if (llvm::none_of(notAffine, [&](const NotAffine &part) {
        return part.loc == loc && part.reason == reason;
      }))
    notAffine.push_back({loc, std::move(reason)});
}

LogicalResult MaskAnalysis::fail(Operation *op, StringRef reason) {
  std::string text = ("'" + op->getName().getStringRef() + "' " + reason).str();
  notAffine.push_back({op->getLoc(), std::move(text)});
  return failure();
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

static bool isAnalyzedType(Type type) {
  return type.isIndex() ||
         (type.isInteger() && type.getIntOrFloatBitWidth() >= 32);
}

FailureOr<MaskAnalysis::Pieces> MaskAnalysis::getPieces(Value value) {
  if (auto it = knownPieces.find(value); it != knownPieces.end()) {
    if (const std::optional<NotAffine> &reason = it->second.reason)
      addNotAffine(reason->loc, reason->reason);
    return it->second.pieces;
  }
  KnownPieces known = {computePieces(value), std::nullopt};
  if (failed(known.pieces)) {
    if (notAffine.empty())
      addNotAffine(value.getLoc(), "a value is not analysed");
    known.reason = notAffine.back();
  }
  return knownPieces.try_emplace(value, std::move(known)).first->second.pieces;
}

FailureOr<MaskAnalysis::Pieces> MaskAnalysis::computePieces(Value value) {
  auto single = [](LinearForm form) -> Pieces {
    return {Piece{Formula(), std::move(form)}};
  };
  if (value == positions.query)
    return single(getForm(queryVariable));
  if (value == positions.key)
    return single(getForm(keyVariable));
  if (APInt constant; matchPattern(value, m_ConstantInt(&constant)) &&
                      constant.getSignificantBits() <= 64) {
    LinearForm form;
    form.constant = constant.getSExtValue();
    if (isSmall(form))
      return single(form);
  }
  // A value that does not depend on the pair is a symbol if it is nothing
  // simpler.
  bool isSymbol = !dependsOnPosition(value) && isAnalyzedType(value.getType());
  size_t failures = notAffine.size();
  if (Operation *op = value.getDefiningOp();
      op && (!isSymbol || op->getBlock() == positions.query.getParentBlock())) {
    ++depth;
    FailureOr<Pieces> pieces = failure();
    if (depth > maxDepth)
      pieces = fail(op, "is nested too deep");
    else
      pieces = analyzeInteger(op);
    --depth;
    if (succeeded(pieces) || !isSymbol)
      return pieces;
  }
  if (!isSymbol) {
    addNotAffine(value.getLoc(),
                 "a value is not an integer of 32 bits or more");
    return failure();
  }
  notAffine.erase(notAffine.begin() + failures, notAffine.end());
  return single(getForm(getSymbol(value)));
}

FailureOr<MaskAnalysis::Pieces>
MaskAnalysis::addPieces(const Pieces &lhs, const Pieces &rhs, int64_t factor) {
  Pieces result;
  for (const Piece &left : lhs) {
    for (const Piece &right : rhs) {
      LinearForm form = left.form + right.form * factor;
      if (!isSmall(form) || result.size() == maxPieces ||
          left.guard.size + right.guard.size > maxFormulaSize)
        return failure();
      result.push_back({conjoin(left.guard, right.guard), form});
    }
  }
  return result;
}

FailureOr<MaskAnalysis::Pieces>
MaskAnalysis::selectLess(const Pieces &lhs, const Pieces &rhs, bool smaller) {
  Pieces result;
  for (const Piece &left : lhs) {
    for (const Piece &right : rhs) {
      if (result.size() + 2 > maxPieces ||
          left.guard.size + right.guard.size > maxFormulaSize)
        return failure();
      Formula both = conjoin(left.guard, right.guard);
      Formula isLess = atLeastZero(right.form - left.form);
      result.push_back(
          {conjoin(both, isLess), smaller ? left.form : right.form});
      result.push_back(
          {conjoin(both, negate(isLess)), smaller ? right.form : left.form});
    }
  }
  return result;
}

/// The constant that `pieces` consist of, if there is one.
template <typename Pieces>
static std::optional<int64_t> getConstantOf(const Pieces &pieces) {
  if (pieces.size() != 1 || !pieces[0].form.isConstant())
    return std::nullopt;
  return pieces[0].form.constant;
}

FailureOr<MaskAnalysis::Pieces> MaskAnalysis::multiply(Operation *op, Value lhs,
                                                       Value rhs) {
  FailureOr<Pieces> left = getPieces(lhs), right = getPieces(rhs);
  if (failed(left) || failed(right))
    return failure();
  if (getConstantOf(*left))
    std::swap(left, right);
  std::optional<int64_t> factor = getConstantOf(*right);
  if (!factor)
    return fail(op, "multiplies two values of which none is constant");
  for (Piece &piece : *left) {
    // Both factors are small, so that multiplying them does not overflow 80
    // bits.
    for (int64_t value : piece.form.coefficients)
      if (std::abs(value) >= maxCoefficient / (std::abs(*factor) + 1))
        return fail(op, "has too large a factor");
    if (std::abs(piece.form.constant) >=
        maxCoefficient / (std::abs(*factor) + 1))
      return fail(op, "has too large a factor");
    piece.form = piece.form * *factor;
  }
  return left;
}

LogicalResult MaskAnalysis::checkNotNegative(Operation *op,
                                             const Pieces &pieces) {
  for (const Piece &piece : pieces) {
    Conjunction context = getPositionContext();
    context.push_back(piece.form * -1 + -1);
    FailureOr<SmallVector<Conjunction>> cases =
        expand(piece.guard, /*negated=*/false, context);
    if (failed(cases) || !cases->empty())
      return fail(op, "is unsigned, and its operand may be negative");
  }
  return success();
}

FailureOr<MaskAnalysis::Pieces> MaskAnalysis::divide(Operation *op, Value lhs,
                                                     Value rhs, bool truncates,
                                                     bool isUnsigned,
                                                     bool remainder) {
  FailureOr<Pieces> left = getPieces(lhs), right = getPieces(rhs);
  if (failed(left) || failed(right))
    return failure();
  std::optional<int64_t> divisor = getConstantOf(*right);
  if (!divisor)
    return fail(op, "divides by a value that is not constant");
  if (*divisor <= 0)
    return fail(op, "divides by a constant that is not positive");
  if (isUnsigned && failed(checkNotNegative(op, *left)))
    return failure();
  size_t failures = notAffine.size();
  if (truncates && succeeded(checkNotNegative(op, *left)))
    truncates = false;
  notAffine.erase(notAffine.begin() + failures, notAffine.end());

  Pieces result;
  auto addQuotient = [&](Formula guard, const LinearForm &form,
                         LinearForm quotient) {
    if (remainder)
      quotient = form - quotient * *divisor;
    result.push_back({std::move(guard), std::move(quotient)});
  };
  for (const Piece &piece : *left) {
    if (result.size() + 2 > maxPieces)
      return fail(op, "has too many cases");
    if (!truncates) {
      addQuotient(piece.guard, piece.form, getFloor(piece.form, *divisor));
      continue;
    }
    Formula positive = atLeastZero(piece.form);
    addQuotient(conjoin(piece.guard, positive), piece.form,
                getFloor(piece.form, *divisor));
    addQuotient(conjoin(piece.guard, negate(positive)), piece.form,
                getFloor(piece.form * -1, *divisor) * -1);
  }
  return result;
}

double MaskAnalysis::getMagnitude(unsigned variable,
                                  bool hasSmallSymbols) const {
  const Variable &definition = variables[variable];
  switch (definition.kind) {
  case VariableKind::Value: {
    Type type = definition.value.getType();
    if (type.isIndex() || hasSmallSymbols)
      return kLargestSymbol;
    return type.isInteger(1)
               ? 1
               : std::ldexp(1.0, type.getIntOrFloatBitWidth() - 1);
  }
  case VariableKind::Floor:
    return getMagnitude(definition.form, hasSmallSymbols) / definition.divisor +
           1;
  case VariableKind::Internal:
    return std::numeric_limits<double>::infinity();
  default:
    return kLargestSymbol;
  }
}

double MaskAnalysis::getMagnitude(const LinearForm &form,
                                  bool hasSmallSymbols) const {
  double sum = std::fabs(static_cast<double>(form.constant));
  for (auto [variable, coefficient] : llvm::enumerate(form.coefficients))
    if (coefficient != 0)
      sum += std::fabs(static_cast<double>(coefficient)) *
             getMagnitude(variable, hasSmallSymbols);
  return sum;
}

bool MaskAnalysis::fits(const LinearForm &form, unsigned width,
                        bool hasSmallSymbols) const {
  return getMagnitude(form, hasSmallSymbols) < std::ldexp(1.0, width - 1);
}

FailureOr<MaskAnalysis::Pieces>
MaskAnalysis::checkWrapping(Operation *op, FailureOr<Pieces> pieces) {
  Type type = op->getResult(0).getType();
  // Arithmetic on `index` must not wrap around.
  if (failed(pieces) || type.isIndex())
    return pieces;
  unsigned width = type.getIntOrFloatBitWidth();
  for (const Piece &piece : *pieces) {
    if (fits(piece.form, width, /*hasSmallSymbols=*/false))
      continue;
    if (!mayAssumeSmallSymbols ||
        !fits(piece.form, width, /*hasSmallSymbols=*/true))
      return fail(op, "may wrap around");
    assumedSmallSymbols = true;
  }
  return pieces;
}

FailureOr<MaskAnalysis::Pieces> MaskAnalysis::analyzeSelect(Operation *op) {
  auto select = cast<arith::SelectOp>(op);
  Formula condition = getFormula(select.getCondition());
  FailureOr<Pieces> yes = getPieces(select.getTrueValue());
  FailureOr<Pieces> no = getPieces(select.getFalseValue());
  if (failed(yes) || failed(no))
    return failure();
  if (condition.kind == Formula::Kind::Unknown)
    return failure();
  Pieces result;
  for (Piece &piece : *yes)
    result.push_back({conjoin(condition, piece.guard), piece.form});
  for (Piece &piece : *no)
    result.push_back({conjoin(negate(condition), piece.guard), piece.form});
  if (result.size() > maxPieces)
    return fail(op, "has too many cases");
  return result;
}

FailureOr<MaskAnalysis::Pieces>
MaskAnalysis::analyzeZeroExtension(Operation *op, Value in) {
  if (!in.getType().isInteger(1)) {
    FailureOr<Pieces> pieces = getPieces(in);
    if (failed(pieces) || failed(checkNotNegative(op, *pieces)))
      return failure();
    return pieces;
  }
  Formula condition = getFormula(in);
  if (condition.kind == Formula::Kind::Unknown)
    return failure();
  LinearForm one;
  one.constant = 1;
  return Pieces{{condition, one}, {negate(condition), LinearForm()}};
}

FailureOr<MaskAnalysis::Pieces> MaskAnalysis::analyzeInteger(Operation *op) {
  if (!isAnalyzedType(op->getResult(0).getType()))
    return fail(op, "is narrower than 32 bits");
  auto getBoth = [&](auto combineFn) -> FailureOr<Pieces> {
    FailureOr<Pieces> lhs = getPieces(op->getOperand(0));
    FailureOr<Pieces> rhs = getPieces(op->getOperand(1));
    if (failed(lhs) || failed(rhs))
      return failure();
    FailureOr<Pieces> result = combineFn(*lhs, *rhs);
    if (failed(result))
      return fail(op, "has too many cases, or too large constants");
    return result;
  };
  auto divideBy = [&](bool truncates, bool isUnsigned, bool remainder) {
    return divide(op, op->getOperand(0), op->getOperand(1), truncates,
                  isUnsigned, remainder);
  };
  return TypeSwitch<Operation *, FailureOr<Pieces>>(op)
      .Case([&](arith::AddIOp) {
        return checkWrapping(op,
                             getBoth([&](const Pieces &lhs, const Pieces &rhs) {
                               return addPieces(lhs, rhs, 1);
                             }));
      })
      .Case([&](arith::SubIOp) {
        return checkWrapping(op,
                             getBoth([&](const Pieces &lhs, const Pieces &rhs) {
                               return addPieces(lhs, rhs, -1);
                             }));
      })
      .Case([&](arith::MulIOp mul) {
        return checkWrapping(op, multiply(op, mul.getLhs(), mul.getRhs()));
      })
      .Case([&](arith::TruncIOp trunc) {
        return checkWrapping(op, getPieces(trunc.getIn()));
      })
      .Case([&](arith::MinSIOp) {
        return getBoth([&](const Pieces &lhs, const Pieces &rhs) {
          return selectLess(lhs, rhs, /*smaller=*/true);
        });
      })
      .Case([&](arith::MaxSIOp) {
        return getBoth([&](const Pieces &lhs, const Pieces &rhs) {
          return selectLess(lhs, rhs, /*smaller=*/false);
        });
      })
      .Case([&](arith::DivSIOp) { return divideBy(true, false, false); })
      .Case([&](arith::RemSIOp) { return divideBy(true, false, true); })
      .Case([&](arith::DivUIOp) { return divideBy(false, true, false); })
      .Case([&](arith::RemUIOp) { return divideBy(false, true, true); })
      .Case([&](arith::FloorDivSIOp) { return divideBy(false, false, false); })
      .Case([&](arith::SelectOp select) { return analyzeSelect(select); })
      .Case<arith::IndexCastOp, arith::ExtSIOp>(
          [&](auto cast) -> FailureOr<Pieces> {
            return getPieces(cast.getIn());
          })
      .Case<arith::IndexCastUIOp, arith::ExtUIOp>(
          [&](auto cast) { return analyzeZeroExtension(op, cast.getIn()); })
      .Default([&](Operation *) {
        return fail(op, "is not piecewise affine in the positions");
      });
}

//===----------------------------------------------------------------------===//
// Logic
//===----------------------------------------------------------------------===//

void MaskAnalysis::restrict(Value predicate, bool negated) {
  Formula restriction = getFormula(predicate);
  formula = conjoin(formula, negated ? negate(restriction) : restriction);
}

bool MaskAnalysis::isNever() {
  FailureOr<SmallVector<Conjunction>> cases =
      expand(formula, /*negated=*/false, getPositionContext());
  return succeeded(cases) && cases->empty();
}

Formula MaskAnalysis::getFormula(Value value) {
  if (auto it = formulas.find(value); it != formulas.end())
    return it->second;
  Formula formula = computeFormula(value);
  return formulas.try_emplace(value, std::move(formula)).first->second;
}

Formula MaskAnalysis::computeFormula(Value value) {
  if (matchPattern(value, m_One()))
    return getConstant(true);
  if (matchPattern(value, m_Zero()))
    return getConstant(false);
  size_t failures = notAffine.size();
  bool isSymbol = !dependsOnPosition(value);
  if (Operation *op = value.getDefiningOp()) {
    ++depth;
    FailureOr<Formula> result = failure();
    if (depth > maxDepth)
      result = fail(op, "is nested too deep");
    else
      result = analyzeLogic(op);
    --depth;
    if (succeeded(result) && result->size > maxFormulaSize)
      result = fail(op, "has too many cases");
    if (succeeded(result))
      return *result;
  }
  if (!isSymbol)
    return getUnknown();
  notAffine.erase(notAffine.begin() + failures, notAffine.end());
  return atLeastZero(getForm(getSymbol(value)) + -1);
}

FailureOr<Formula> MaskAnalysis::analyzeLogic(Operation *op) {
  return TypeSwitch<Operation *, FailureOr<Formula>>(op)
      .Case([&](arith::AndIOp logic) {
        return conjoin(getFormula(logic.getLhs()), getFormula(logic.getRhs()));
      })
      .Case([&](arith::OrIOp logic) {
        return disjoin(getFormula(logic.getLhs()), getFormula(logic.getRhs()));
      })
      .Case([&](arith::XOrIOp logic) {
        Formula lhs = getFormula(logic.getLhs());
        Formula rhs = getFormula(logic.getRhs());
        return disjoin(conjoin(lhs, negate(rhs)), conjoin(negate(lhs), rhs));
      })
      .Case([&](arith::SelectOp select) {
        Formula condition = getFormula(select.getCondition());
        return disjoin(
            conjoin(condition, getFormula(select.getTrueValue())),
            conjoin(negate(condition), getFormula(select.getFalseValue())));
      })
      .Case([&](arith::CmpIOp) { return analyzeComparison(op); })
      .Default([&](Operation *) {
        return fail(op, "is no logic of comparisons of positions");
      });
}

bool MaskAnalysis::isLimited(unsigned variable) const {
  const Variable &definition = variables[variable];
  if (definition.kind == VariableKind::Floor)
    return llvm::any_of(llvm::enumerate(definition.form.coefficients),
                        [&](auto term) {
                          return term.value() != 0 && isLimited(term.index());
                        });
  return definition.kind == VariableKind::Value &&
         !definition.value.getType().isIndex() &&
         !definition.value.getType().isInteger(1);
}

LogicalResult MaskAnalysis::checkLimits(Operation *op, const LinearForm &form) {
  // A form with one limited symbol has the symbol's sign. A form with several,
  // or with one in a quotient, need not.
  double others = std::fabs(static_cast<double>(form.constant)) + 1;
  int64_t factor = 0;
  bool isOne = true;
  for (auto [variable, coefficient] : llvm::enumerate(form.coefficients)) {
    if (coefficient == 0)
      continue;
    if (!isLimited(variable)) {
      others += std::fabs(static_cast<double>(coefficient)) *
                getMagnitude(variable, /*hasSmallSymbols=*/true);
      continue;
    }
    isOne &= factor == 0 && variables[variable].kind == VariableKind::Value;
    factor = std::abs(coefficient);
  }
  if (factor == 0 ||
      (isOne && others < static_cast<double>(factor) * kLargestInteger))
    return success();
  if (!mayAssumeSmallSymbols)
    return fail(op, "compares integers that may be large");
  assumedSmallSymbols = true;
  return success();
}

FailureOr<Formula> MaskAnalysis::analyzeComparison(Operation *op) {
  auto compare = cast<arith::CmpIOp>(op);
  using arith::CmpIPredicate;
  CmpIPredicate predicate = compare.getPredicate();
  if (compare.getLhs().getType().isInteger(1)) {
    if (predicate != CmpIPredicate::eq && predicate != CmpIPredicate::ne)
      return fail(op, "orders logic values");
    Formula lhs = getFormula(compare.getLhs());
    Formula rhs = getFormula(compare.getRhs());
    Formula same =
        disjoin(conjoin(lhs, rhs), conjoin(negate(lhs), negate(rhs)));
    return predicate == CmpIPredicate::eq ? same : negate(same);
  }
  FailureOr<Pieces> lhs = getPieces(compare.getLhs());
  FailureOr<Pieces> rhs = getPieces(compare.getRhs());
  if (failed(lhs) || failed(rhs))
    return failure();
  bool isUnsigned =
      predicate == CmpIPredicate::ult || predicate == CmpIPredicate::ule ||
      predicate == CmpIPredicate::ugt || predicate == CmpIPredicate::uge;
  if (isUnsigned && (failed(checkNotNegative(op, *lhs)) ||
                     failed(checkNotNegative(op, *rhs))))
    return failure();

  auto getOne = [&](const LinearForm &left, const LinearForm &right) {
    switch (predicate) {
    case CmpIPredicate::eq:
    case CmpIPredicate::ne: {
      Formula same =
          conjoin(atLeastZero(left - right), atLeastZero(right - left));
      return predicate == CmpIPredicate::eq ? same : negate(same);
    }
    case CmpIPredicate::slt:
    case CmpIPredicate::ult:
      return atLeastZero(right - left + -1);
    case CmpIPredicate::sle:
    case CmpIPredicate::ule:
      return atLeastZero(right - left);
    case CmpIPredicate::sgt:
    case CmpIPredicate::ugt:
      return atLeastZero(left - right + -1);
    case CmpIPredicate::sge:
    case CmpIPredicate::uge:
      return atLeastZero(left - right);
    }
    llvm_unreachable("unknown comparison");
  };
  Formula result = getConstant(false);
  for (const Piece &left : *lhs)
    for (const Piece &right : *rhs) {
      if (failed(checkLimits(op, left.form - right.form)))
        return failure();
      result = disjoin(result, conjoin(conjoin(left.guard, right.guard),
                                       getOne(left.form, right.form)));
    }
  return result;
}
