//===- MaskIntervals.cpp - Closed forms of a tile's attended pairs --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Projects the pairs that a predicate keeps, and the pairs that it masks, on
// one dimension: the other one, and quotients of both, are eliminated.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskAnalysis.h"
#include "mlir/Analysis/Presburger/Simplex.h"
#include "mlir/IR/BuiltinTypeInterfaces.h"
#include "llvm/Support/SaveAndRestore.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::presburger;

/// Cases of a predicate beyond which it is not analysed as it is, and beyond
/// which parts of a widened one are left out.
static constexpr size_t maxCases = 48, maxWidenedCases = 16;

/// Inequalities beyond which none is combined with others.
static constexpr int64_t maxCombinations = 512, maxRows = 96;

/// Work of one projection, in operations on coefficients. An operation takes
/// about 2 ns.
static constexpr int64_t maxEliminationWork = 40'000'000,
                         maxBoundWork = 20'000'000;

/// Quotients of an index beyond which no pair out of bounds is looked for: the
/// search may take time that is exponential in their number.
static constexpr unsigned maxSampledQuotients = 12;

//===----------------------------------------------------------------------===//
// Conjunctions
//===----------------------------------------------------------------------===//

IntegerPolyhedron MaskAnalysis::getPolyhedron(ArrayRef<LinearForm> rows,
                                              SmallVectorImpl<unsigned> &used) {
  for (const LinearForm &row : rows)
    for (auto [variable, coefficient] : llvm::enumerate(row.coefficients))
      if (coefficient != 0)
        used.push_back(variable);
  llvm::sort(used);
  used.erase(llvm::unique(used), used.end());
  IntegerPolyhedron result(PresburgerSpace::getSetSpace(used.size()));
  for (const LinearForm &form : rows) {
    SmallVector<int64_t> row;
    for (unsigned variable : used)
      row.push_back(form.get(variable));
    row.push_back(form.constant);
    result.addInequality(row);
  }
  return result;
}

void MaskAnalysis::addDefinitions(Conjunction &rows) {
  SmallVector<bool> isUsed(variables.size());
  auto use = [&](const LinearForm &form) {
    for (auto [variable, coefficient] : llvm::enumerate(form.coefficients))
      if (coefficient != 0)
        isUsed[variable] = true;
  };
  for (const LinearForm &row : rows)
    use(row);
  // A quotient depends only on variables before it.
  for (unsigned index = variables.size(); index-- > 0;) {
    const Variable &variable = variables[index];
    if (!isUsed[index] || variable.kind != VariableKind::Floor)
      continue;
    use(variable.form);
    LinearForm rest = variable.form - getForm(index) * variable.divisor;
    rows.push_back(rest);
    rows.push_back(rest * -1 + (variable.divisor - 1));
  }
  for (const LinearForm &fact : facts) {
    auto coefficients = llvm::enumerate(fact.coefficients);
    if (llvm::all_of(coefficients, [&](auto term) {
          return term.value() == 0 || isUsed[term.index()];
        }))
      rows.push_back(fact);
  }
}

/// Divides by the greatest common divisor; returns false for a row that always
/// holds.
static bool normalize(LinearForm &row) {
  int64_t divisor = 0;
  for (int64_t coefficient : row.coefficients)
    divisor = std::gcd(divisor, coefficient);
  if (divisor == 0)
    return row.constant < 0;
  for (int64_t &coefficient : row.coefficients)
    coefficient /= divisor;
  row.constant = llvm::divideFloorSigned(row.constant, divisor);
  return true;
}

bool MaskAnalysis::isEmpty(ArrayRef<LinearForm> rows) {
  if (budget->isExhausted())
    return false;
  // As multiples of the tile number, rows can be tightened to integers.
  Conjunction tight;
  for (LinearForm row : rows) {
    if (int64_t coefficient = tileSize == 0 ? 0 : row.get(first)) {
      row.coefficients[first] = 0;
      row.add(number, coefficient * tileSize);
    }
    if (!normalize(row))
      continue;
    if (row.isConstant())
      return true;
    tight.push_back(std::move(row));
  }
  addDefinitions(tight);
  SmallVector<unsigned> used;
  IntegerPolyhedron polyhedron = getPolyhedron(tight, used);
  // Each row may take a change of basis, which touches all coefficients.
  int64_t numRows = tight.size(), numColumns = used.size() + 1;
  if (!budget->spend(numRows * numRows * numColumns))
    return false;
  return polyhedron.isObviouslyEmpty() || Simplex(polyhedron).isEmpty();
}

bool MaskAnalysis::implies(ArrayRef<LinearForm> rows, const LinearForm &row) {
  Conjunction negated(rows);
  negated.push_back(row * -1 + -1);
  return isEmpty(negated);
}

bool MaskAnalysis::isKnownAtLeastZero(const LinearForm &form) {
  return implies(getTileContext(), form);
}

FailureOr<SmallVector<MaskAnalysis::Conjunction>>
MaskAnalysis::expand(const Formula &formula, bool negated,
                     const Conjunction &context, bool mayWiden) {
  FailureOr<SmallVector<Conjunction>> result = failure();
  if (!budget->isExhausted())
    result = expandKind(formula, negated, context, mayWiden);
  if (failed(result) && mayWiden)
    return SmallVector<Conjunction>{context};
  return result;
}

static size_t getMaxCases(bool mayWiden) {
  return mayWiden ? maxWidenedCases : maxCases;
}

FailureOr<SmallVector<MaskAnalysis::Conjunction>>
MaskAnalysis::expandEach(const Formula &formula, bool negated,
                         ArrayRef<Conjunction> contexts, bool mayWiden) {
  SmallVector<Conjunction> result;
  for (const Conjunction &context : contexts) {
    FailureOr<SmallVector<Conjunction>> cases =
        expand(formula, negated, context, mayWiden);
    if (failed(cases))
      return failure();
    llvm::append_range(result, *cases);
    if (result.size() > getMaxCases(mayWiden))
      return failure();
  }
  return result;
}

FailureOr<SmallVector<MaskAnalysis::Conjunction>>
MaskAnalysis::expandUnion(ArrayRef<Formula> parts, bool negated,
                          const Conjunction &context, bool mayWiden) {
  SmallVector<Conjunction> result;
  for (const Formula &part : parts) {
    FailureOr<SmallVector<Conjunction>> cases =
        expandEach(part, negated, context, mayWiden);
    if (failed(cases))
      return failure();
    llvm::append_range(result, *cases);
  }
  return result;
}

FailureOr<SmallVector<MaskAnalysis::Conjunction>>
MaskAnalysis::expandIntersection(ArrayRef<Formula> parts, bool negated,
                                 const Conjunction &context, bool mayWiden) {
  SmallVector<Conjunction> result = {context};
  for (const Formula &part : parts) {
    FailureOr<SmallVector<Conjunction>> cases =
        expandEach(part, negated, result, mayWiden);
    if (succeeded(cases))
      result = std::move(*cases);
    else if (!mayWiden)
      return failure();
  }
  return result;
}

FailureOr<SmallVector<MaskAnalysis::Conjunction>>
MaskAnalysis::expandKind(const Formula &formula, bool negated,
                         const Conjunction &context, bool mayWiden) {
  SmallVector<Conjunction> result;
  switch (formula.kind) {
  case Formula::Kind::True:
  case Formula::Kind::False:
    if ((formula.kind == Formula::Kind::True) != negated)
      result.push_back(context);
    break;
  case Formula::Kind::Unknown:
    result.push_back(context);
    break;
  case Formula::Kind::AtLeastZero:
    result.push_back(context);
    result.back().push_back(negated ? formula.form * -1 + -1 : formula.form);
    break;
  case Formula::Kind::And:
  case Formula::Kind::Or: {
    bool isUnion = (formula.kind == Formula::Kind::Or) != negated;
    FailureOr<SmallVector<Conjunction>> cases =
        isUnion ? expandUnion(formula.getParts(), negated, context, mayWiden)
                : expandIntersection(formula.getParts(), negated, context,
                                     mayWiden);
    if (failed(cases))
      return failure();
    result = std::move(*cases);
    break;
  }
  }
  llvm::erase_if(result,
                 [&](const Conjunction &rows) { return isEmpty(rows); });
  if (result.size() > getMaxCases(mayWiden))
    return failure();
  return result;
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

bool MaskAnalysis::isFreeOfData() {
  unsigned batch = getSymbol(positions.batch);
  unsigned head = getSymbol(positions.head);
  for (auto [number, variable] : llvm::enumerate(variables))
    if (variable.kind == VariableKind::Value && number != batch &&
        number != head)
      return false;
  return true;
}

std::optional<MaskAnalysis::OutOfBounds>
MaskAnalysis::findPair(Conjunction rows, const LinearForm &index) {
  addDefinitions(rows);
  SmallVector<unsigned> used;
  IntegerPolyhedron polyhedron = getPolyhedron(rows, used);
  auto isQuotient = [&](unsigned variable) {
    return variables[variable].kind == VariableKind::Floor;
  };
  if (budget->isExhausted() ||
      llvm::count_if(used, isQuotient) > maxSampledQuotients) {
    limited = true;
    return std::nullopt;
  }
  std::optional<SmallVector<DynamicAPInt, 8>> sample =
      polyhedron.findIntegerSample();
  if (!sample)
    return std::nullopt;
  auto get = [&](unsigned variable) -> int64_t {
    const unsigned *place = llvm::lower_bound(used, variable);
    if (place == used.end() || *place != variable)
      return 0;
    return int64_t((*sample)[place - used.begin()]);
  };
  int64_t value = index.constant;
  for (auto [variable, coefficient] : llvm::enumerate(index.coefficients))
    if (coefficient != 0)
      value += coefficient * get(variable);
  return OutOfBounds{get(getSymbol(positions.batch)),
                     get(getSymbol(positions.head)), get(queryVariable),
                     get(keyVariable), value};
}

std::optional<MaskAnalysis::OutOfBounds>
MaskAnalysis::findOutOfBounds(Value index, int64_t size, int64_t numBatches,
                              int64_t numHeads) {
  FailureOr<Pieces> pieces = getPieces(index);
  // No pair is certain in parts that are not understood: data may be such that
  // there is none.
  if (failed(pieces) || !notAffine.empty() || !isFreeOfData())
    return std::nullopt;

  Conjunction within = getPositionContext();
  // There may be only one batch entry.
  if (ShapedType::isDynamic(numBatches))
    numBatches = 1;
  within.push_back(getForm(getSymbol(positions.batch)) * -1 + (numBatches - 1));
  within.push_back(getForm(getSymbol(positions.head)) * -1 + (numHeads - 1));
  for (const Piece &piece : *pieces) {
    Formula both;
    both.kind = Formula::Kind::And;
    both.setParts({formula, piece.guard});
    for (const LinearForm &outside :
         {piece.form * -1 + -1, piece.form + -size}) {
      Conjunction context = within;
      context.push_back(outside);
      FailureOr<SmallVector<Conjunction>> cases =
          expand(both, /*negated=*/false, context);
      if (failed(cases))
        continue;
      for (Conjunction &rows : *cases)
        if (std::optional<OutOfBounds> found =
                findPair(std::move(rows), piece.form))
          return found;
    }
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

void MaskAnalysis::setTile(MaskDim dim, int64_t size) {
  tiled = dim == MaskDim::Query ? queryVariable : keyVariable;
  streamed = dim == MaskDim::Query ? keyVariable : queryVariable;
  tileSize = size;
  first = addVariable({VariableKind::First});
  last = addVariable({VariableKind::Last});
  number = addVariable({VariableKind::Internal});
}

MaskAnalysis::Conjunction MaskAnalysis::getPositionContext() {
  Conjunction rows = facts;
  for (unsigned dim : {queryVariable, keyVariable}) {
    rows.push_back(getForm(dim));
    rows.push_back(getLength(dim) - getForm(dim) + -1);
  }
  return rows;
}

MaskAnalysis::Conjunction MaskAnalysis::getTileContext() {
  Conjunction rows;
  LinearForm firstForm = getForm(first), lastForm = getForm(last);
  LinearForm multiple = firstForm - getForm(number) * tileSize;
  rows.push_back(multiple);
  rows.push_back(multiple * -1);
  rows.push_back(firstForm);
  rows.push_back(lastForm - firstForm);
  rows.push_back(firstForm - lastForm + (tileSize - 1));
  rows.push_back(getLength(tiled) - lastForm + -1);
  return rows;
}

MaskAnalysis::Conjunction MaskAnalysis::getPairContext(bool isBounded) {
  Conjunction rows;
  rows.push_back(getForm(tiled) - getForm(first));
  rows.push_back(getForm(last) - getForm(tiled));
  rows.push_back(getForm(streamed));
  if (isBounded)
    rows.push_back(getLength(streamed) - getForm(streamed) + -1);
  return rows;
}

//===----------------------------------------------------------------------===//
// Elimination
//===----------------------------------------------------------------------===//

void MaskAnalysis::divideRows(Conjunction &rows, unsigned variable) {
  // `c * x >= e` with a known `e` bounds `x` by an integer: then the
  // coefficient is one, and combining the row with others loses nothing.
  for (LinearForm &row : rows) {
    int64_t coefficient = row.get(variable);
    if (coefficient == 0 || std::abs(coefficient) == 1)
      continue;
    LinearForm rest = row;
    rest.coefficients[variable] = 0;
    if (isLocal(rest))
      continue;
    row = getFloor(rest, std::abs(coefficient));
    row.add(variable, coefficient > 0 ? 1 : -1);
  }
}

/// The inequality `values * sign >= 0` of variables `used`; absent if a number
/// is too large.
static std::optional<LinearForm>
makeRow(ArrayRef<DynamicAPInt> values, ArrayRef<unsigned> used, int64_t sign) {
  constexpr int64_t limit = int64_t(1) << 50;
  if (llvm::any_of(values, [](const DynamicAPInt &value) {
        return value > limit || value < -limit;
      }))
    return std::nullopt;
  LinearForm row;
  for (auto [index, value] : llvm::enumerate(values.drop_back()))
    if (value != 0)
      row.add(used[index], int64_t(value) * sign);
  row.constant = int64_t(values.back()) * sign;
  return row;
}

LogicalResult MaskAnalysis::eliminate(Conjunction &rows, unsigned variable,
                                      bool &isExact) {
  divideRows(rows, variable);
  auto hasUnits = [&](int64_t sign) {
    return llvm::all_of(rows, [&](const LinearForm &row) {
      return row.get(variable) * sign <= 1;
    });
  };
  isExact &= hasUnits(1) || hasUnits(-1);

  auto count = [&](int64_t sign) -> int64_t {
    return llvm::count_if(rows, [&](const LinearForm &row) {
      return row.get(variable) * sign > 0;
    });
  };
  SmallVector<unsigned> used = {variable};
  IntegerPolyhedron polyhedron = getPolyhedron(rows, used);
  int64_t numCombinations = count(1) * count(-1);
  int64_t numColumns = used.size() + 1;
  if (numCombinations > maxCombinations ||
      !budget->spend(numCombinations * numCombinations * numColumns))
    return failure();
  polyhedron.projectOut(llvm::lower_bound(used, variable) - used.begin());
  used.erase(llvm::lower_bound(used, variable));
  rows.clear();
  auto addRow = [&](ArrayRef<DynamicAPInt> values, int64_t sign) {
    std::optional<LinearForm> row = makeRow(values, used, sign);
    if (!row)
      isExact = false;
    else if (normalize(*row) && !llvm::is_contained(rows, *row))
      rows.push_back(std::move(*row));
  };
  for (unsigned i = 0, e = polyhedron.getNumInequalities(); i < e; ++i)
    addRow(polyhedron.getInequality(i), 1);
  for (unsigned i = 0, e = polyhedron.getNumEqualities(); i < e; ++i) {
    addRow(polyhedron.getEquality(i), 1);
    addRow(polyhedron.getEquality(i), -1);
  }
  return success(int64_t(rows.size()) <= maxRows);
}

LogicalResult MaskAnalysis::eliminateLocals(Conjunction &rows, bool &isExact) {
  // The quotients that the rows need, with their definitions.
  SmallVector<unsigned> quotients;
  for (unsigned i = variables.size(); i-- > 0;) {
    const Variable &variable = variables[i];
    if (variable.kind != VariableKind::Floor || !variable.isLocal ||
        llvm::all_of(rows,
                     [&](const LinearForm &row) { return row.get(i) == 0; }))
      continue;
    LinearForm rest = variable.form - getForm(i) * variable.divisor;
    rows.push_back(rest);
    rows.push_back(rest * -1 + (variable.divisor - 1));
    quotients.push_back(i);
  }
  if (failed(eliminate(rows, tiled, isExact)))
    return failure();
  for (unsigned quotient : llvm::reverse(quotients))
    if (failed(eliminate(rows, quotient, isExact)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

/// Whether coefficients can be multiplied, and a few of the results added,
/// without overflow.
static bool isFactor(const LinearForm &form) {
  auto isSmall = [](int64_t value) {
    return std::abs(value) <= int64_t(1) << 28;
  };
  return isSmall(form.constant) && llvm::all_of(form.coefficients, isSmall);
}

bool MaskAnalysis::isOfTile(const LinearForm &form) {
  for (auto [variable, coefficient] : llvm::enumerate(form.coefficients)) {
    if (coefficient == 0 || variable == tiled || !variables[variable].isLocal)
      continue;
    if (variable == streamed || !isFactor(variables[variable].form) ||
        !isOfTile(variables[variable].form))
      return false;
  }
  return true;
}

/// The largest or smallest value of `form`, a form of the tile, there by
/// interval arithmetic.
LinearForm MaskAnalysis::getExtreme(const LinearForm &form, bool isLargest) {
  LinearForm result;
  result.constant = form.constant;
  for (auto [variable, coefficient] : llvm::enumerate(form.coefficients)) {
    if (coefficient == 0)
      continue;
    bool isLast = isLargest == (coefficient > 0);
    if (variable == tiled) {
      result.add(isLast ? last : first, coefficient);
    } else if (!variables[variable].isLocal) {
      result.add(variable, coefficient);
    } else {
      Variable quotient = variables[variable];
      LinearForm bound =
          getFloor(getExtreme(quotient.form, isLast), quotient.divisor);
      result = result + bound * coefficient;
    }
  }
  return result;
}

/// A quotient of positions in `row`: preferably one whose bound cancels another
/// term, then one of a remainder, then the last.
std::optional<MaskAnalysis::Quotient>
MaskAnalysis::chooseQuotient(const LinearForm &row) {
  std::optional<Quotient> result;
  auto takesTermAway = [&](const Variable &quotient, int64_t coefficient) {
    for (auto [term, factor] : llvm::enumerate(quotient.form.coefficients))
      if (factor != 0 && row.get(term) != 0 &&
          row.get(term) * quotient.divisor + coefficient * factor == 0)
        return true;
    return false;
  };
  auto hasRemainder = [&](const LinearForm &form) {
    auto isQuotient = [&](unsigned term) {
      return variables[term].kind == VariableKind::Floor;
    };
    for (auto [term, factor] : llvm::enumerate(form.coefficients))
      if (factor < 0 && isQuotient(term))
        return true;
    return false;
  };
  for (auto [variable, coefficient] : llvm::enumerate(row.coefficients)) {
    const Variable &quotient = variables[variable];
    if (coefficient == 0 || quotient.kind != VariableKind::Floor ||
        !quotient.isLocal)
      continue;
    unsigned rank = takesTermAway(quotient, coefficient) ? 2
                    : hasRemainder(quotient.form)        ? 1
                                                         : 0;
    if (!result || rank >= result->rank)
      result = {unsigned(variable), rank};
  }
  return result;
}

/// A row that follows from `row` and has no local variable but the iterated
/// position. Monotonic quotients of the tile become their values at its ends if
/// `byEnds`; others become fractions. Absent if the row says nothing.
std::optional<LinearForm> MaskAnalysis::boundRow(LinearForm row, bool byEnds) {
  while (std::optional<Quotient> chosen = chooseQuotient(row)) {
    auto [variable, rank] = *chosen;
    const Variable quotient = variables[variable];
    int64_t coefficient = row.get(variable), divisor = quotient.divisor;
    LinearForm divisorForm;
    divisorForm.constant = divisor;
    if (!isFactor(row) || !isFactor(quotient.form) || !isFactor(divisorForm))
      return std::nullopt;
    row.coefficients[variable] = 0;
    if (byEnds && rank == 0 && isOfTile(quotient.form)) {
      LinearForm end =
          getFloor(getExtreme(quotient.form, coefficient > 0), divisor);
      if (!isFactor(end))
        return std::nullopt;
      row = row + end * coefficient;
    } else {
      // (form - divisor + 1) / divisor <= quotient <= form / divisor
      LinearForm bound = quotient.form;
      if (coefficient < 0)
        bound = bound + (1 - divisor);
      row = row * divisor + bound * coefficient;
    }
    if (!normalize(row))
      return std::nullopt;
  }
  if (int64_t coefficient = row.get(tiled)) {
    row.coefficients[tiled] = 0;
    row.add(coefficient > 0 ? last : first, coefficient);
  }
  if (!isFactor(row) || !normalize(row))
    return std::nullopt;
  return row;
}

void MaskAnalysis::boundLocals(Conjunction &rows) {
  Conjunction bounded;
  for (const LinearForm &row : rows) {
    for (bool byEnds : {true, false}) {
      std::optional<LinearForm> bound = boundRow(row, byEnds);
      if (bound && !llvm::is_contained(bounded, *bound))
        bounded.push_back(std::move(*bound));
    }
  }
  rows = std::move(bounded);
}

//===----------------------------------------------------------------------===//
// Intervals
//===----------------------------------------------------------------------===//

void MaskAnalysis::dropImplied(Conjunction &rows) {
  Conjunction context = getTileContext();
  for (unsigned i = 0; i < rows.size();) {
    Conjunction others = context;
    for (unsigned j = 0; j < rows.size(); ++j)
      if (i != j)
        others.push_back(rows[j]);
    if (implies(others, rows[i]))
      rows.erase(rows.begin() + i);
    else
      ++i;
  }
}

FailureOr<Interval> MaskAnalysis::getInterval(Conjunction rows,
                                              Projection projection) {
  Interval result;
  if (projection == Projection::Bound) {
    boundLocals(rows);
    result.isExact = false;
  } else if (failed(eliminateLocals(rows, result.isExact))) {
    return failure();
  }
  // Rows that follow from the others, or from facts about all tiles, say
  // nothing. Guards go first.
  std::sort(rows.begin(), rows.end(),
            [&](const LinearForm &lhs, const LinearForm &rhs) {
              return (lhs.get(streamed) == 0) > (rhs.get(streamed) == 0);
            });
  dropImplied(rows);
  for (LinearForm &row : rows) {
    int64_t coefficient = row.get(streamed);
    if (coefficient == 0) {
      result.guards.push_back(row);
      continue;
    }
    row.coefficients[streamed] = 0;
    if (coefficient > 0)
      result.lower.push_back({row * -1, coefficient});
    else
      result.upper.push_back({row, -coefficient});
  }
  return result;
}

void MaskAnalysis::dropContained(std::vector<Interval> &intervals) {
  unsigned position = getScratch(0);
  auto isWithin = [&](const Interval &inner, const Interval &outer) {
    Conjunction context = getTileContext();
    llvm::append_range(context, getRows(inner, position));
    return llvm::all_of(getRows(outer, position), [&](const LinearForm &row) {
      return implies(context, row);
    });
  };
  for (unsigned i = 0; i < intervals.size();) {
    bool isRedundant = false;
    for (unsigned j = 0; j < intervals.size() && !isRedundant; ++j)
      isRedundant = i != j && isWithin(intervals[i], intervals[j]);
    if (isRedundant)
      intervals.erase(intervals.begin() + i);
    else
      ++i;
  }
}

FailureOr<std::vector<Interval>> MaskAnalysis::project(bool negated,
                                                       Projection projection) {
  bool isBound = projection == Projection::Bound;
  WorkBudget work(isBound ? maxBoundWork : maxEliminationWork, total);
  llvm::SaveAndRestore useBudget(budget, &work);
  Conjunction context = getPairContext(/*isBounded=*/!negated);
  llvm::append_range(context, getTileContext());
  FailureOr<SmallVector<Conjunction>> cases =
      expand(formula, negated, context, /*mayWiden=*/isBound);
  if (failed(cases))
    return failure();
  std::vector<Interval> intervals;
  for (const Conjunction &rows : *cases) {
    FailureOr<Interval> interval = getInterval(rows, projection);
    if (failed(interval))
      return failure();
    bool isUnknown = formula.kind == Formula::Kind::Unknown;
    interval->isExact &= notAffine.empty() && !isUnknown;
    intervals.push_back(std::move(*interval));
  }
  // Intervals within others are left out.
  dropContained(intervals);
  if (work.isExhausted())
    return failure();
  return intervals;
}

std::vector<Interval> MaskAnalysis::getIntervals(bool negated) {
  for (Projection projection : {Projection::Eliminate, Projection::Bound}) {
    FailureOr<std::vector<Interval>> intervals = project(negated, projection);
    if (succeeded(intervals))
      return std::move(*intervals);
    limited = true;
  }
  // Any position may be attended.
  addNotAffine(positions.query.getLoc(),
               "the predicate takes too much work to analyse");
  Interval all;
  all.isExact = false;
  LinearForm begin;
  all.lower.push_back({begin, 1});
  if (!negated)
    all.upper.push_back({getLength(streamed) + -1, 1});
  return {all};
}

std::vector<Interval> MaskAnalysis::getAttended() {
  return getIntervals(/*negated=*/false);
}

std::vector<Interval> MaskAnalysis::getMasked() {
  return getIntervals(/*negated=*/true);
}

//===----------------------------------------------------------------------===//
// Questions about intervals
//===----------------------------------------------------------------------===//

unsigned MaskAnalysis::getScratch(unsigned index) {
  while (scratch.size() <= index)
    scratch.push_back(addVariable({VariableKind::Internal}));
  return scratch[index];
}

MaskAnalysis::Conjunction MaskAnalysis::getRows(const Interval &interval,
                                                unsigned variable) {
  Conjunction rows(interval.guards);
  for (auto &[form, divisor] : interval.lower)
    rows.push_back(getForm(variable) * divisor - form);
  for (auto &[form, divisor] : interval.upper)
    rows.push_back(form - getForm(variable) * divisor);
  return rows;
}

/// The conditions for `position` to be in `interval` in tile number `tile`.
MaskAnalysis::Conjunction MaskAnalysis::getTileRows(const Interval &interval,
                                                    unsigned tile,
                                                    unsigned position,
                                                    int64_t size) {
  Conjunction rows = getRows(interval, position);
  LinearForm begin = getForm(tile) * size, end = begin + (size - 1);
  rows.push_back(getForm(position) - begin);
  rows.push_back(end - getForm(position));
  // These follow, but have integer bounds for the tile.
  for (auto &[form, divisor] : interval.lower)
    rows.push_back(end * divisor - form);
  for (auto &[form, divisor] : interval.upper)
    rows.push_back(form - begin * divisor);
  return rows;
}

bool MaskAnalysis::mayLieInOneTile(const Interval &lhs, const Interval &rhs,
                                   int64_t size) {
  unsigned tile = getScratch(0);
  Conjunction rows = getTileContext();
  llvm::append_range(rows, getTileRows(lhs, tile, getScratch(1), size));
  llvm::append_range(rows, getTileRows(rhs, tile, getScratch(2), size));
  return !isEmpty(rows);
}

bool MaskAnalysis::mayLieBetween(const Interval &interval,
                                 const Interval *before, const Interval *behind,
                                 int64_t size) {
  unsigned tile = getScratch(0);
  Conjunction rows = getTileContext();
  llvm::append_range(rows, getTileRows(interval, tile, getScratch(1), size));
  LinearForm begin = getForm(tile) * size;
  LinearForm end = begin + (size - 1);
  // The last position of an interval is its smallest upper bound: a tile behind
  // the interval is behind one of these bounds.
  SmallVector<Conjunction> cases = {rows};
  if (before) {
    SmallVector<Conjunction> next;
    for (auto &[form, divisor] : before->upper)
      for (Conjunction &old : cases) {
        next.push_back(old);
        next.back().push_back(begin * divisor - form + -1);
      }
    cases = std::move(next);
  }
  if (behind) {
    SmallVector<Conjunction> next;
    for (auto &[form, divisor] : behind->lower)
      for (Conjunction &old : cases) {
        next.push_back(old);
        next.back().push_back(form - end * divisor + -1);
      }
    cases = std::move(next);
  }
  return llvm::any_of(cases,
                      [&](const Conjunction &rows) { return !isEmpty(rows); });
}

bool MaskAnalysis::mayStartBefore(const Interval &lhs, const Interval &rhs) {
  unsigned left = getScratch(0), right = getScratch(1);
  Conjunction rows = getTileContext();
  llvm::append_range(rows, getRows(lhs, left));
  llvm::append_range(rows, getRows(rhs, right));
  return llvm::any_of(lhs.lower, [&](const Interval::Bound &bound) {
    Conjunction isBefore = rows;
    isBefore.push_back(bound.form - getForm(right) * bound.divisor + -1);
    return !isEmpty(isBefore);
  });
}

bool MaskAnalysis::mayBeEmpty(const Interval &interval) {
  Conjunction context = getTileContext();
  for (const LinearForm &guard : interval.guards)
    if (!implies(context, guard))
      return true;
  for (auto &[low, lowDivisor] : interval.lower) {
    for (auto &[high, highDivisor] : interval.upper) {
      if (lowDivisor != 1 && highDivisor != 1)
        return true;
      if (!implies(context, high * lowDivisor - low * highDivisor))
        return true;
    }
  }
  return false;
}
