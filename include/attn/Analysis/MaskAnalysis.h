//===- MaskAnalysis.h - Closed forms of what masks keep --------*- C++ -*--===//
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
// known at run time. The code consists of integer arithmetic and logic; parts
// that are not piecewise affine make the answer looser, never wrong.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_MASKANALYSIS_H
#define ATTN_ANALYSIS_MASKANALYSIS_H

#include "mlir/Analysis/Presburger/IntegerRelation.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

#include <memory>
#include <optional>
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
/// true or false anywhere, and so may its negation. Copies share their parts.
struct Formula {
  enum class Kind { True, False, Unknown, AtLeastZero, And, Or };

  /// The parts of a conjunction or a disjunction.
  ArrayRef<Formula> getParts() const {
    return parts ? ArrayRef<Formula>(*parts) : ArrayRef<Formula>();
  }
  void setParts(std::vector<Formula> formulas) {
    parts = std::make_shared<const std::vector<Formula>>(std::move(formulas));
  }

  Kind kind = Kind::True;
  LinearForm form;
  /// The number of inequalities and constants in it.
  size_t size = 1;

private:
  std::shared_ptr<const std::vector<Formula>> parts;
};

/// True where `formula` is false; unknown parts stay unknown.
Formula negate(Formula formula);

/// The values `x` of one dimension with `x >= form / divisor` for all `lower`,
/// `x <= form / divisor` for all `upper`; empty unless all `guards` are at
/// least zero. The forms use variables that are known for a tile.
struct Interval {
  struct Bound {
    LinearForm form;
    int64_t divisor;
  };
  SmallVector<Bound> lower;
  SmallVector<Bound> upper;
  SmallVector<LinearForm> guards;
  /// Whether the predicate holds for all values of the interval.
  bool isExact = true;
};

/// A dimension of the score matrix.
enum class MaskDim { Query, Key };

/// A part of a predicate that is not piecewise affine, or takes too much work.
struct NotAffine {
  Location loc;
  std::string reason;
};

/// Work that one or several analyses may do, counted in operations on
/// coefficients. Unlike time, it is the same on every machine.
class WorkBudget {
public:
  /// The work counts for `total`, too, if that is given.
  explicit WorkBudget(int64_t work, WorkBudget *total = nullptr)
      : rest(work), total(total) {}

  /// Spends `work`; returns false if the budget is exceeded.
  bool spend(int64_t work) {
    rest = work > rest ? -1 : rest - work;
    if (total)
      total->spend(work);
    return !isExhausted();
  }
  bool isExhausted() const {
    return rest < 0 || (total && total->isExhausted());
  }

private:
  int64_t rest;
  WorkBudget *total;
};

/// The largest position that a closed form is correct for, and the largest
/// value of integers which do not depend on the pair and are not lengths.
inline constexpr int64_t kLargestSymbol = (int64_t(1) << 28) - 1;

/// The largest integer from which code for bounds goes on in 32 bits: sizes of
/// tiles can be added to it. It stands for larger integers, too.
inline constexpr int64_t kLargestInteger = (int64_t(1) << 30) - 1;

/// The analysis of one predicate.
class MaskAnalysis {
public:
  /// The values that are positions and lengths in the analysed code;
  /// `queryLength` and `keyLength` may come from outside of its region.
  struct Positions {
    Value batch, head, query, key;
    Value queryLength, keyLength;
  };

  /// Queries share `budget`, if given, with other analyses, and all work counts
  /// for `total`, if given. Once one is exhausted, answers are conservative:
  /// nothing is proved.
  explicit MaskAnalysis(const Positions &positions,
                        WorkBudget *budget = nullptr,
                        WorkBudget *total = nullptr);
  MaskAnalysis(const MaskAnalysis &) = delete;

  /// Assumes that integers of 32 or 64 bits which do not depend on the pair are
  /// at most `kLargestSymbol` in absolute value where arithmetic on them could
  /// wrap around. Without this, such arithmetic is not analysed. To be called
  /// before all questions.
  void assumeSmallSymbols() { mayAssumeSmallSymbols = true; }
  /// Whether an answer relies on that.
  bool hasAssumedSmallSymbols() const { return assumedSmallSymbols; }

  /// Restricts the predicate to where `predicate`, an `i1`, is true, or false
  /// if `negated`.
  void restrict(Value predicate, bool negated = false);

  /// `predicate`, an `i1`, as a formula.
  Formula getFormula(Value predicate);

  /// Whether it is proved that no pair within the lengths is kept.
  bool isNever();

  /// A pair at which an index is out of bounds of a dimension.
  struct OutOfBounds {
    int64_t batch, head, query, key;
    int64_t index;
  };
  /// A pair within static lengths that is kept and for which `index` is
  /// negative or not less than `size`. Absent if none is certain, for example
  /// because the index or the predicate depends on data.
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

  /// Declares the tile: `[first, last]` in dimension `dim`, where `first` is a
  /// multiple of `size` and `last` is the smaller of `first + size - 1` and the
  /// last position. With a size of one, `last` is `first`. To be called once.
  void setTile(MaskDim dim, int64_t size);

  /// The positions in the other dimension for which some pair of the tile is
  /// attended, as a union of intervals that may overlap.
  std::vector<Interval> getAttended();

  /// The positions in the other dimension for which some pair of the tile is
  /// not attended. Positions at or beyond the length of the dimension may be in
  /// the intervals or not.
  std::vector<Interval> getMasked();

  /// Whether one tile of `size` may hold positions of both intervals.
  bool mayLieInOneTile(const Interval &lhs, const Interval &rhs, int64_t size);

  /// Whether a tile of `size` may exist that intersects `interval` and lies
  /// after all of `before`, if given, and before all of `behind`, if given.
  /// Both intervals hold a position.
  bool mayLieBetween(const Interval &interval, const Interval *before,
                     const Interval *behind, int64_t size);

  /// Whether `rhs` may hold a smaller position than all positions of `lhs`.
  /// Both hold positions.
  bool mayStartBefore(const Interval &lhs, const Interval &rhs);

  /// Whether `interval` may hold no position.
  bool mayBeEmpty(const Interval &interval);

  /// Whether more work would have made an answer more precise.
  bool isLimited() const { return limited || budget->isExhausted(); }

  /// The parts that were not understood.
  ArrayRef<NotAffine> getNotAffine() const { return notAffine; }

  /// The meaning of a variable, from which code for bounds is emitted.
  enum class VariableKind {
    Query,
    Key,
    First,
    Last,
    Value,
    Floor,
    /// Does not occur in bounds.
    Internal
  };
  struct Variable {
    VariableKind kind;
    /// For kind `Value`.
    mlir::Value value = nullptr;
    /// For kind `Floor`: `form floordiv divisor`.
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
  /// Whether `form` and its parts fit into signed integers of `width` bits.
  /// Symbols may have any value of their type, or only small ones.
  bool fits(const LinearForm &form, unsigned width, bool hasSmallSymbols) const;
  unsigned getNumVariables() const { return variables.size(); }

private:
  /// A linear form on the part of the domain where `guard` holds. Pieces
  /// together are a piecewise affine integer.
  struct Piece {
    Formula guard;
    LinearForm form;
  };
  using Pieces = SmallVector<Piece, 2>;
  using Conjunction = SmallVector<LinearForm>;

  /// How positions and quotients of the tile are eliminated from inequalities.
  enum class Projection {
    /// By combining inequalities with one another (Fourier-Motzkin): optimal
    /// over the rationals, but the work is unbounded.
    Eliminate,
    /// By bounding each inequality by itself: little work.
    Bound
  };

  unsigned addVariable(Variable variable);
  LinearForm getForm(unsigned variable);
  /// `form floordiv divisor`.
  LinearForm getFloor(LinearForm form, int64_t divisor);
  unsigned getSymbol(Value value);
  bool isLocal(const LinearForm &form) const;
  bool dependsOnPosition(Value value);

  /// Records once that a part was not understood.
  void addNotAffine(Location loc, std::string reason);
  Formula computeFormula(Value value);
  FailureOr<Formula> analyzeLogic(Operation *op);
  FailureOr<Formula> analyzeComparison(Operation *op);
  /// Whether closed forms give `variable` another value where it is large.
  bool isLimited(unsigned variable) const;
  /// Fails if the sign of `form`, which `op` asks for, may differ where large
  /// integers are limited to `kLargestInteger`.
  LogicalResult checkLimits(Operation *op, const LinearForm &form);
  FailureOr<Pieces> getPieces(Value value);
  FailureOr<Pieces> computePieces(Value value);
  FailureOr<Pieces> analyzeInteger(Operation *op);
  FailureOr<Pieces> analyzeSelect(Operation *op);
  FailureOr<Pieces> analyzeZeroExtension(Operation *op, Value in);
  FailureOr<Pieces> divide(Operation *op, Value lhs, Value rhs, bool truncates,
                           bool isUnsigned, bool remainder);
  FailureOr<Pieces> multiply(Operation *op, Value lhs, Value rhs);
  FailureOr<Pieces> addPieces(const Pieces &lhs, const Pieces &rhs,
                              int64_t factor);
  FailureOr<Pieces> selectLess(const Pieces &lhs, const Pieces &rhs,
                               bool smaller);
  LogicalResult checkNotNegative(Operation *op, const Pieces &pieces);
  /// The result of `op` unless its arithmetic may wrap around.
  FailureOr<Pieces> checkWrapping(Operation *op, FailureOr<Pieces> pieces);
  /// The largest absolute value of a variable, and of a form and its parts.
  double getMagnitude(unsigned variable, bool hasSmallSymbols) const;
  double getMagnitude(const LinearForm &form, bool hasSmallSymbols) const;
  LogicalResult fail(Operation *op, StringRef reason);

  /// `formula`, or its negation, in disjunctive normal form, without
  /// conjunctions that are known to be empty. Fails if there are more than
  /// `maxCases`. If `mayWiden`, omits parts that cause too many cases instead,
  /// so that the union may be larger.
  FailureOr<SmallVector<Conjunction>> expand(const Formula &formula,
                                             bool negated,
                                             const Conjunction &context,
                                             bool mayWiden = false);
  FailureOr<SmallVector<Conjunction>> expandKind(const Formula &formula,
                                                 bool negated,
                                                 const Conjunction &context,
                                                 bool mayWiden);
  /// The union, or the intersection, of `parts`.
  FailureOr<SmallVector<Conjunction>> expandUnion(ArrayRef<Formula> parts,
                                                  bool negated,
                                                  const Conjunction &context,
                                                  bool mayWiden);
  FailureOr<SmallVector<Conjunction>>
  expandIntersection(ArrayRef<Formula> parts, bool negated,
                     const Conjunction &context, bool mayWiden);
  /// The cases of `formula` in each of `contexts`.
  FailureOr<SmallVector<Conjunction>> expandEach(const Formula &formula,
                                                 bool negated,
                                                 ArrayRef<Conjunction> contexts,
                                                 bool mayWiden);
  /// Whether no variable but the batch entry and the head is data.
  bool isFreeOfData();
  /// A pair within `rows`, and the value that `index` has for it.
  std::optional<OutOfBounds> findPair(Conjunction rows,
                                      const LinearForm &index);
  bool isEmpty(ArrayRef<LinearForm> rows);
  bool implies(ArrayRef<LinearForm> rows, const LinearForm &row);
  /// Adds the definitions of the quotients that `rows` refer to, and the known
  /// facts on their other variables.
  void addDefinitions(Conjunction &rows);
  /// `rows` as a polyhedron in the variables that they refer to. Sets `used` to
  /// these variables in ascending order.
  presburger::IntegerPolyhedron getPolyhedron(ArrayRef<LinearForm> rows,
                                              SmallVectorImpl<unsigned> &used);
  /// Constraints on all pairs within the lengths.
  Conjunction getPositionContext();
  /// Constraints on all tiles.
  Conjunction getTileContext();
  /// Constraints on the pairs of a tile within the lengths; without the length
  /// bound on the iterated dimension if `isBounded` is false.
  Conjunction getPairContext(bool isBounded);
  std::vector<Interval> getIntervals(bool negated);
  /// The intervals that a projection gives; fails if that takes too much work.
  FailureOr<std::vector<Interval>> project(bool negated, Projection projection);
  FailureOr<Interval> getInterval(Conjunction rows, Projection projection);
  LogicalResult eliminateLocals(Conjunction &rows, bool &isExact);
  LogicalResult eliminate(Conjunction &rows, unsigned variable, bool &isExact);
  /// Divides rows whose other variables are known for the tile, so that
  /// `variable` has a coefficient of one.
  void divideRows(Conjunction &rows, unsigned variable);
  void dropImplied(Conjunction &rows);
  void dropContained(std::vector<Interval> &intervals);

  /// Replaces each row by rows that it implies for all pairs of a tile. They
  /// use only the iterated dimension and variables that are known for the tile.
  void boundLocals(Conjunction &rows);
  std::optional<LinearForm> boundRow(LinearForm row, bool byEnds);
  /// A variable, and how well its bound fits the other terms of a row.
  struct Quotient {
    unsigned variable;
    unsigned rank;
  };
  std::optional<Quotient> chooseQuotient(const LinearForm &row);
  bool isOfTile(const LinearForm &form);
  LinearForm getExtreme(const LinearForm &form, bool isLargest);
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
  /// Results of values that have been analysed, and why one failed.
  DenseMap<Value, Formula> formulas;
  struct KnownPieces {
    FailureOr<Pieces> pieces;
    std::optional<NotAffine> reason;
  };
  DenseMap<Value, KnownPieces> knownPieces;
  /// Nesting depth of the values being analysed.
  unsigned depth = 0;
  Formula formula;
  std::vector<NotAffine> notAffine;
  LinearForm queryLength, keyLength;
  Conjunction facts;
  unsigned queryVariable, keyVariable;
  /// The dimension of the tile, the iterated dimension, and variables of the
  /// tile.
  unsigned tiled = 0, streamed = 0, first = 0, last = 0, number = 0;
  int64_t tileSize = 0;
  SmallVector<unsigned> scratch;
  WorkBudget ownBudget;
  WorkBudget *budget;
  WorkBudget *total;
  bool mayAssumeSmallSymbols = false, assumedSmallSymbols = false;
  bool limited = false;
};

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_MASKANALYSIS_H
