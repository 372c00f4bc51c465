//===- MaskIntervals.cpp - Closed forms of what a tile attends ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Projects the pairs that a predicate keeps, and those that it does not, on one
// dimension: the other one, and quotients of both, are eliminated.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskAnalysis.h"
#include "mlir/Analysis/Presburger/Simplex.h"
#include "mlir/IR/BuiltinTypeInterfaces.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::presburger;

/// Cases of a predicate beyond which it is not analysed.
static constexpr size_t maxConjunctions = 48;

//===----------------------------------------------------------------------===//
// Conjunctions
//===----------------------------------------------------------------------===//

IntegerPolyhedron MaskAnalysis::getPolyhedron(ArrayRef<LinearForm> rows,
                                              bool withDefinitions) {
  unsigned numVariables = variables.size();
  IntegerPolyhedron result(PresburgerSpace::getSetSpace(numVariables));
  auto addRow = [&](const LinearForm &form) {
    SmallVector<int64_t> row;
    for (unsigned i = 0; i < numVariables; ++i)
      row.push_back(form.get(i));
    row.push_back(form.constant);
    result.addInequality(row);
  };
  for (const LinearForm &row : rows)
    addRow(row);
  if (!withDefinitions)
    return result;
  for (const LinearForm &fact : facts)
    addRow(fact);
  for (auto [index, variable] : llvm::enumerate(variables)) {
    if (variable.kind != VariableKind::Floor)
      continue;
    LinearForm rest = variable.form - getForm(index) * variable.divisor;
    addRow(rest);
    addRow(rest * -1 + (variable.divisor - 1));
  }
  return result;
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
  // As multiples of the number of the tile, rows can be tightened to integers.
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
  IntegerPolyhedron polyhedron = getPolyhedron(tight, /*withDefinitions=*/true);
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
                     const Conjunction &context) {
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
    if (!isUnion)
      result.push_back(context);
    for (const Formula &part : formula.parts) {
      SmallVector<Conjunction> next;
      auto expandIn = [&](const Conjunction &rows) {
        FailureOr<SmallVector<Conjunction>> cases = expand(part, negated, rows);
        if (failed(cases))
          return failure();
        llvm::append_range(next, *cases);
        return success(next.size() <= maxConjunctions);
      };
      if (isUnion) {
        if (failed(expandIn(context)))
          return failure();
        llvm::append_range(result, next);
        continue;
      }
      for (const Conjunction &rows : result)
        if (failed(expandIn(rows)))
          return failure();
      result = std::move(next);
    }
    break;
  }
  }
  llvm::erase_if(result,
                 [&](const Conjunction &rows) { return isEmpty(rows); });
  if (result.size() > maxConjunctions)
    return failure();
  return result;
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

std::optional<MaskAnalysis::OutOfBounds>
MaskAnalysis::findOutOfBounds(Value index, int64_t size, int64_t numBatches,
                              int64_t numHeads) {
  FailureOr<Pieces> pieces = getPieces(index);
  unsigned batch = getSymbol(positions.batch);
  unsigned head = getSymbol(positions.head);
  // Of parts that are not understood no pair is certain, and data may be such
  // that there is none.
  bool isCertain = succeeded(pieces) && notAffine.empty();
  for (auto [number, variable] : llvm::enumerate(variables))
    isCertain &= variable.kind != VariableKind::Value || number == batch ||
                 number == head;
  if (!isCertain)
    return std::nullopt;

  Conjunction within = getPositionContext();
  // There may be one batch entry alone.
  if (ShapedType::isDynamic(numBatches))
    numBatches = 1;
  within.push_back(getForm(batch) * -1 + (numBatches - 1));
  within.push_back(getForm(head) * -1 + (numHeads - 1));
  for (const Piece &piece : *pieces) {
    for (const LinearForm &outside :
         {piece.form * -1 + -1, piece.form + -size}) {
      Formula both;
      both.kind = Formula::Kind::And;
      both.parts = {formula, piece.guard};
      Conjunction context = within;
      context.push_back(outside);
      FailureOr<SmallVector<Conjunction>> cases =
          expand(both, /*negated=*/false, context);
      if (failed(cases))
        continue;
      for (const Conjunction &rows : *cases) {
        std::optional<SmallVector<DynamicAPInt, 8>> sample =
            getPolyhedron(rows, /*withDefinitions=*/true).findIntegerSample();
        if (!sample)
          continue;
        auto get = [&](unsigned variable) {
          return int64_t((*sample)[variable]);
        };
        int64_t value = piece.form.constant;
        for (auto [variable, coefficient] :
             llvm::enumerate(piece.form.coefficients))
          value += coefficient * get(variable);
        return OutOfBounds{get(batch), get(head), get(queryVariable),
                           get(keyVariable), value};
      }
    }
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

void MaskAnalysis::setTile(MaskDim dim, int64_t size) {
  tiled = dim == MaskDim::Query ? queryVariable : keyVariable;
  walked = dim == MaskDim::Query ? keyVariable : queryVariable;
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
  rows.push_back(getForm(walked));
  if (isBounded)
    rows.push_back(getLength(walked) - getForm(walked) + -1);
  return rows;
}

//===----------------------------------------------------------------------===//
// Elimination
//===----------------------------------------------------------------------===//

void MaskAnalysis::eliminate(Conjunction &rows, unsigned variable,
                             bool &isExact) {
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
  auto hasUnits = [&](int64_t sign) {
    return llvm::all_of(rows, [&](const LinearForm &row) {
      return row.get(variable) * sign <= 1;
    });
  };
  isExact &= hasUnits(1) || hasUnits(-1);

  IntegerPolyhedron polyhedron = getPolyhedron(rows, /*withDefinitions=*/false);
  polyhedron.projectOut(variable);
  rows.clear();
  auto addRow = [&](ArrayRef<DynamicAPInt> values, int64_t sign) {
    LinearForm row;
    constexpr int64_t limit = int64_t(1) << 50;
    for (const DynamicAPInt &value : values) {
      if (value > limit || value < -limit) {
        isExact = false;
        return;
      }
    }
    for (auto [index, value] : llvm::enumerate(values.drop_back()))
      if (value != 0)
        row.add(index < variable ? index : index + 1, int64_t(value) * sign);
    row.constant = int64_t(values.back()) * sign;
    if (normalize(row) && !llvm::is_contained(rows, row))
      rows.push_back(std::move(row));
  };
  for (unsigned i = 0, e = polyhedron.getNumInequalities(); i < e; ++i)
    addRow(polyhedron.getInequality(i), 1);
  for (unsigned i = 0, e = polyhedron.getNumEqualities(); i < e; ++i) {
    addRow(polyhedron.getEquality(i), 1);
    addRow(polyhedron.getEquality(i), -1);
  }
}

Interval MaskAnalysis::getInterval(Conjunction rows) {
  // The quotients that the rows need, with what defines them.
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

  Interval result;
  eliminate(rows, tiled, result.isExact);
  for (unsigned quotient : llvm::reverse(quotients))
    eliminate(rows, quotient, result.isExact);

  // Rows that follow from the others say nothing; those that follow from what
  // holds of all tiles say nothing either. Guards go first.
  std::sort(rows.begin(), rows.end(),
            [&](const LinearForm &lhs, const LinearForm &rhs) {
              return (lhs.get(walked) == 0) > (rhs.get(walked) == 0);
            });
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
  for (LinearForm &row : rows) {
    int64_t coefficient = row.get(walked);
    if (coefficient == 0) {
      result.guards.push_back(row);
      continue;
    }
    row.coefficients[walked] = 0;
    if (coefficient > 0)
      result.lower.push_back({row * -1, coefficient});
    else
      result.upper.push_back({row, -coefficient});
  }
  return result;
}

std::vector<Interval> MaskAnalysis::getIntervals(bool negated) {
  Conjunction context = getPairContext(/*isBounded=*/!negated);
  llvm::append_range(context, getTileContext());
  FailureOr<SmallVector<Conjunction>> cases = expand(formula, negated, context);
  if (failed(cases)) {
    notAffine.push_back(
        {positions.query.getLoc(), "the predicate has too many cases"});
    formula = Formula();
    formula.kind = Formula::Kind::Unknown;
    cases = SmallVector<Conjunction>{context};
  }
  std::vector<Interval> intervals;
  for (const Conjunction &rows : *cases) {
    Interval interval = getInterval(rows);
    bool isUnknown = formula.kind == Formula::Kind::Unknown;
    interval.isExact &= notAffine.empty() && !isUnknown;
    intervals.push_back(std::move(interval));
  }

  // Intervals within others are left out.
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
  return intervals;
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

/// What makes `position` one of `interval` in tile number `tile`.
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

bool MaskAnalysis::mayShareTile(const Interval &lhs, const Interval &rhs,
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
  // The last position of an interval is the smallest of its upper bounds: a
  // tile behind it is behind one of them.
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
