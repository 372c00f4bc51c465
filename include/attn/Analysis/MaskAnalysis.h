//===- MaskAnalysis.h - Closed forms of what masks keep ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Derives, from the code of a predicate on (batch, head, query, key), which
// keys a tile of queries attends, and which queries attend a tile of keys: as
// intervals whose bounds are closed forms of the tile's position and of values
// known at run time. The code is made of integer arithmetic and logic; parts of
// it that are not piecewise affine make the answer looser, never wrong.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_MASKANALYSIS_H
#define ATTN_ANALYSIS_MASKANALYSIS_H

#include "mlir/Analysis/Presburger/IntegerRelation.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

#include <string>
#include <vector>

namespace mlir::attn {

/// A linear function of the variables of an analysis. Coefficients beyond the
/// last one are zero.
struct LinearForm {
  SmallVector<int64_t, 8> coefficients;
  int64_t constant = 0;

  int64_t get(unsigned variable) const {
    return variable < coefficients.size() ? coefficients[variable] : 0;
  }
  void add(unsigned variable, int64_t coefficient);
  bool isConstant() const;
  bool operator==(const LinearForm &other) const;
};

/// Arithmetic, exact on the forms' coefficients.
LinearForm operator*(LinearForm form, int64_t factor);
LinearForm operator+(LinearForm lhs, const LinearForm &rhs);
LinearForm operator+(LinearForm form, int64_t constant);
LinearForm operator-(const LinearForm &lhs, const LinearForm &rhs);

/// A predicate as and/or over inequalities `form >= 0`. An unknown part may be
/// true or false anywhere, and so may its negation.
struct Formula {
  enum class Kind { True, False, Unknown, AtLeastZero, And, Or };
  Kind kind = Kind::True;
  LinearForm form;
  std::vector<Formula> parts;
};

/// True where `formula` is false; what is unknown stays so.
Formula negate(Formula formula);

/// The values `x` of one dimension with `x >= form / divisor` for all `lower`,
/// `x <= form / divisor` for all `upper`, and none at all unless all `guards`
/// are at least zero. The forms are of variables that are known for a tile.
struct Interval {
  struct Bound {
    LinearForm form;
    int64_t divisor;
  };
  SmallVector<Bound> lower;
  SmallVector<Bound> upper;
  SmallVector<LinearForm> guards;
  /// Whether the interval holds no value that the predicate does not.
  bool isExact = true;
};

/// A dimension of the score matrix.
enum class MaskDim { Query, Key };

/// A part of a predicate that is not piecewise affine.
struct NotAffine {
  Location loc;
  std::string reason;
};

/// The analysis of one predicate.
class MaskAnalysis {
public:
  /// The values that stand for positions and lengths in the code that is
  /// analysed; `queryLength` and `keyLength` need not be of the same region.
  struct Positions {
    Value batch, head, query, key;
    Value queryLength, keyLength;
  };

  explicit MaskAnalysis(const Positions &positions);

  /// Restricts the predicate to where `predicate`, an `i1`, is true, or false
  /// if `negated`.
  void restrict(Value predicate, bool negated = false);

  /// `predicate`, an `i1`, as a formula.
  Formula getFormula(Value predicate);

  /// Whether no pair within the lengths is known to be kept.
  bool isNever();

  /// Where an index is not one of a dimension.
  struct OutOfBounds {
    int64_t batch, head, query, key;
    int64_t index;
  };
  /// A pair within static lengths that is kept and for which `index` is
  /// negative or not less than `size`. Absent if none is known for certain:
  /// such as where the index or the predicate depends on data.
  std::optional<OutOfBounds> findOutOfBounds(Value index, int64_t size,
                                             int64_t numBatches,
                                             int64_t numHeads);

  /// A position and the number of positions of a dimension.
  LinearForm getPosition(MaskDim dim) {
    return getForm(dim == MaskDim::Query ? queryVariable : keyVariable);
  }
  LinearForm getLength(MaskDim dim) {
    return dim == MaskDim::Query ? queryLength : keyLength;
  }

  /// Says that a tile is `[first, last]` in dimension `dim`, where `first` is a
  /// multiple of `size` and `last` is the smaller of `first + size - 1` and the
  /// last position. With a size of one, `last` is `first`. To be called once.
  void setTile(MaskDim dim, int64_t size);

  /// The positions in the other dimension for which some pair of the tile is
  /// attended, as a union of intervals that may overlap.
  std::vector<Interval> getAttended();

  /// The same for which some pair of the tile is not attended. Positions at or
  /// beyond the length of the dimension may be in the intervals or not.
  std::vector<Interval> getMasked();

  /// Whether positions in tiles of `size` that meet both intervals may exist.
  bool mayShareTile(const Interval &lhs, const Interval &rhs, int64_t size);

  /// Whether a tile of `size` may exist that meets `interval` and lies behind
  /// all of `before`, if given, and before all of `behind`, if given, both of
  /// which hold a position.
  bool mayLieBetween(const Interval &interval, const Interval *before,
                     const Interval *behind, int64_t size);

  /// Whether `rhs` may hold a smaller position than all of `lhs`, where both
  /// hold positions.
  bool mayStartBefore(const Interval &lhs, const Interval &rhs);

  /// Whether `interval` may hold no position.
  bool mayBeEmpty(const Interval &interval);

  /// The parts that were not understood.
  ArrayRef<NotAffine> getNotAffine() const { return notAffine; }

  /// What variables are, for those who emit code for bounds.
  enum class VariableKind {
    Query,
    Key,
    First,
    Last,
    Value,
    Floor,
    /// Of no one's concern.
    Internal
  };
  struct Variable {
    VariableKind kind;
    /// Of kind `Value`.
    mlir::Value value = nullptr;
    /// `form floordiv divisor`, of kind `Floor`.
    LinearForm form = {};
    int64_t divisor = 1;
    /// Whether it depends on the query or the key.
    bool isLocal = false;
  };
  const Variable &getVariable(unsigned variable) const {
    return variables[variable];
  }
  /// Whether `form` is at least zero for all tiles.
  bool isKnownAtLeastZero(const LinearForm &form);

private:
  /// An integer as a linear form on each of some parts of the domain.
  struct Piece {
    Formula guard;
    LinearForm form;
  };
  using Pieces = SmallVector<Piece, 2>;
  using Conjunction = SmallVector<LinearForm>;

  unsigned addVariable(Variable variable);
  LinearForm getForm(unsigned variable);
  /// `form floordiv divisor`.
  LinearForm getFloor(LinearForm form, int64_t divisor);
  unsigned getSymbol(Value value);
  bool isLocal(const LinearForm &form) const;
  bool dependsOnPosition(Value value);

  FailureOr<Formula> analyzeLogic(Operation *op);
  FailureOr<Formula> analyzeComparison(Operation *op);
  FailureOr<Pieces> getPieces(Value value);
  FailureOr<Pieces> analyzeInteger(Operation *op);
  FailureOr<Pieces> divide(Operation *op, Value lhs, Value rhs, bool truncates,
                           bool isUnsigned, bool remainder);
  FailureOr<Pieces> multiply(Operation *op, Value lhs, Value rhs);
  FailureOr<Pieces> addPieces(const Pieces &lhs, const Pieces &rhs,
                              int64_t factor);
  FailureOr<Pieces> selectLess(const Pieces &lhs, const Pieces &rhs,
                               bool smaller);
  LogicalResult checkNotNegative(Operation *op, const Pieces &pieces);
  LogicalResult fail(Operation *op, StringRef reason);

  /// The conjunctions whose union is `formula`, or its negation; none that is
  /// known to be empty.
  FailureOr<SmallVector<Conjunction>>
  expand(const Formula &formula, bool negated, const Conjunction &context);
  bool isEmpty(ArrayRef<LinearForm> rows);
  bool implies(ArrayRef<LinearForm> rows, const LinearForm &row);
  presburger::IntegerPolyhedron getPolyhedron(ArrayRef<LinearForm> rows,
                                              bool withDefinitions);
  /// What holds of all pairs within the lengths.
  Conjunction getPositionContext();
  /// What holds of all tiles.
  Conjunction getTileContext();
  /// What holds of the pairs of a tile within the lengths; without the bound on
  /// the keys (or queries) that are walked over if `isBounded` is false.
  Conjunction getPairContext(bool isBounded);
  std::vector<Interval> getIntervals(bool negated);
  Interval getInterval(Conjunction rows);
  void eliminate(Conjunction &rows, unsigned variable, bool &isExact);
  Conjunction getRows(const Interval &interval, unsigned variable);
  Conjunction getTileRows(const Interval &interval, unsigned tile,
                          unsigned position, int64_t size);
  unsigned getScratch(unsigned index);
  LinearForm getLength(unsigned dim) {
    return dim == queryVariable ? queryLength : keyLength;
  }

  Positions positions;
  SmallVector<Variable> variables;
  DenseMap<Value, unsigned> symbols;
  DenseMap<Value, bool> dependence;
  Formula formula;
  std::vector<NotAffine> notAffine;
  LinearForm queryLength, keyLength;
  Conjunction facts;
  unsigned queryVariable, keyVariable;
  /// The dimension that the tile is of, and the other one.
  unsigned tiled = 0, walked = 0, first = 0, last = 0, number = 0;
  int64_t tileSize = 0;
  SmallVector<unsigned> scratch;
};

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_MASKANALYSIS_H
