//===- MatchMatmuls.h - The two matmuls of an attention --------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What attention with and without a softmax have in common: a matmul of queries
// and keys, weights of pairs that depend on its elements, and a sum over the
// keys, mostly a matmul with the values.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHMATMULS_H
#define ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHMATMULS_H

#include "ElementExprs.h"

#include <string>

namespace mlir::attn {

/// The coordinates of an attention. Each is a loop of the second matmul, a part
/// of such a loop, or the contracted loop of queries and keys.
struct AttentionCoordinates {
  std::optional<unsigned> batch;
  /// The head is the index into these, in row-major order.
  SmallVector<unsigned> heads;
  std::optional<unsigned> query;
  unsigned key = 0;
  /// None for a sum of the weights.
  std::optional<unsigned> vHeadDimCoordinate;
  unsigned qkHeadDimCoordinate = 0;
  /// The static size of each coordinate, or dynamic.
  SmallVector<int64_t> sizes;

  bool isQuery(unsigned coordinate) const { return query == coordinate; }
  bool isKey(unsigned coordinate) const { return key == coordinate; }
  int64_t getNumHeads() const;
};

/// A tensor that holds queries, keys or values.
struct AttentionOperandMatch {
  Value tensor;
  /// The dimensions of `tensor` for the coordinates, in the order in which
  /// attention operands have them.
  std::optional<unsigned> batch;
  SmallVector<unsigned> heads;
  std::optional<unsigned> position;
  unsigned headDimAxis = 0;
  /// The number of heads of the operand.
  int64_t numHeads = 1;
  /// The constant factor of its elements.
  double factor = 1;
};

/// The condition under which a pair is kept.
struct PairCondition {
  /// An `i1`, or a number that is not zero there.
  const Expr *condition;
  bool isNegated = false;
};

/// The matched matmuls and their operands.
struct MatmulsMatch {
  /// The matmul of queries and keys, and the matmul of the weights and the
  /// values, or the sum of the weights.
  linalg::LinalgOp firstMatmul, secondMatmul;
  AttentionCoordinates at;
  /// The coordinates of each loop of `secondMatmul`, the outermost one first.
  SmallVector<SmallVector<unsigned>> loops;
  AttentionOperandMatch query, key, value;
  double scale = 1;
  /// An element of `firstMatmul`, or that times `scale`.
  const Expr *matmul = nullptr;
};

/// Whether `op` is a matmul of floating point tensors.
bool isMatmul(linalg::LinalgOp op);

/// Whether dimensions of two tensors are known to have the same size.
bool haveEqualSizes(Value lhs, unsigned lhsDim, Value rhs, unsigned rhsDim);

/// The condition under which `expr` is 1, if it is known to be 0 otherwise.
std::optional<PairCondition> getZeroOrOne(const Expr *expr);

/// The condition under which `select` is not zero, and its value then.
std::optional<std::pair<PairCondition, const Expr *>>
getZeroOrElse(const Expr *select);

/// Matches both matmuls, backwards from the second one.
class MatmulMatcher {
public:
  /// Why the match failed; empty if the operation does not look like attention.
  StringRef getReason() const { return reason; }

protected:
  /// `found` is where matches are stored; it is not accessed before a match.
  MatmulMatcher(linalg::LinalgOp matmul, MatmulsMatch &found)
      : matmul(matmul), found(found) {}

  LogicalResult fail(const Twine &text);
  /// The loops of the second matmul as expressions of new coordinates.
  FailureOr<SmallVector<AffineExpr>>
  findCoordinates(unsigned probabilitiesOperandNumber);
  /// The same for a sum of the weights, whose queries are `queryLoop`.
  FailureOr<SmallVector<AffineExpr>> findSumCoordinates(unsigned queryLoop);
  LogicalResult matchQueriesAndKeys(linalg::LinalgOp op, const Expr *leaf);
  /// Takes the tensors of the operands from which these elements come. Sums
  /// have no `value`. With a softmax, values have no factor.
  LogicalResult matchOperands(ElementRef query, ElementRef key,
                              std::optional<ElementRef> value, bool isLinear);
  bool isIndependentOfKey(const Expr *expr);
  bool isIndependentOfQuery(const Expr *expr);

  /// Whether there are as many queries as keys, for all that is known.
  bool haveEqualLengths();

  linalg::LinalgOp matmul;
  std::string reason;
  std::optional<ElementExprs> exprs;
  ElementRef queryRef, keyRef;

private:
  struct Loops;
  SmallVector<AffineExpr> addCoordinates(const Loops &loops,
                                         ArrayRef<OpOperand *> operands);
  SmallVector<AttentionOperandMatch>
  findOperands(ElementRef ref, std::optional<unsigned> position,
               unsigned headDimCoordinate);
  FailureOr<AttentionOperandMatch> matchLayout(const ElementRef &ref,
                                               std::optional<unsigned> position,
                                               unsigned headDimCoordinate);

  MatmulsMatch &found;
};

/// Emits expressions of the elements of an attention as code of its regions.
class ExprEmitter {
public:
  /// `coordinates` holds the values of coordinates.
  ExprEmitter(OpBuilder &builder, Location loc, const MatmulsMatch &match,
              const DenseMap<unsigned, Value> &coordinates)
      : builder(builder), loc(loc), match(match), coordinates(coordinates) {}

  /// Sets the value of an element of the matmul of queries and keys.
  void setMatmul(Value value) { values[match.matmul] = value; }
  Value emit(const Expr *expr);
  /// Emits the conjunction of conditions.
  Value emit(ArrayRef<PairCondition> conditions);

private:
  Value emitIndex(AffineExpr expr);
  Value emitElement(Value tensor, ArrayRef<AffineExpr> indices);
  Value convert(Value value, Type type);
  bool isCheaperToRead(const Expr *expr);

  OpBuilder &builder;
  Location loc;
  const MatmulsMatch &match;
  const DenseMap<unsigned, Value> &coordinates;
  DenseMap<const Expr *, Value> values;
};

/// The name of the producer of `value`, for messages.
std::string getProducerName(Value value);

/// The values of the coordinates of `at` at the positions that a region of
/// attention gets.
DenseMap<unsigned, Value> emitCoordinates(OpBuilder &builder, Location loc,
                                          const AttentionCoordinates &at,
                                          ValueRange positions);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHMATMULS_H
