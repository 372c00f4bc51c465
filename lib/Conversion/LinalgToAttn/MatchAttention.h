//===- MatchAttention.h - Attention in linalg on tensors -------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds out whether a matmul is the second one of an attention, of P and the
// values. Matching goes backwards from this matmul.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHATTENTION_H
#define ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHATTENTION_H

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
  unsigned vHeadDimCoordinate = 0;
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

/// A matched attention.
struct AttentionMatch {
  /// The matmul of queries and keys, and the matmul of P and the values.
  linalg::LinalgOp firstMatmul, secondMatmul;
  /// If P is divided by its sum after `secondMatmul`: the dividend, as an
  /// operand of the division.
  OpOperand *undivided = nullptr;
  AttentionCoordinates at;
  /// The coordinates of each loop of `secondMatmul`, the outermost one first.
  SmallVector<SmallVector<unsigned>> loops;
  AttentionOperandMatch query, key, value;
  double scale = 1;
  /// The last factor of `score`; not one if the base of the softmax is not e.
  double scoreFactor = 1;
  /// The score as a function of `matmul`, including `scale`.
  const Expr *score = nullptr;
  const Expr *matmul = nullptr;
  SmallVector<PairCondition> maskMod;
  /// The conditions under which dropout keeps a probability, if there is
  /// dropout, and the drop probability.
  SmallVector<PairCondition> dropoutKept;
  float dropProbability = 0;
};

/// Assumptions about tensors whose contents are unknown.
struct AttentionAssumptions {
  /// Every row keeps a pair, so that a large negative number masks one.
  bool keptRows = false;
  /// Tensors that are multiplied with P hold only 0 and 1.
  bool dropoutMasks = false;
};

/// Matches attentions by their second matmul.
class AttentionMatcher {
public:
  AttentionMatcher(linalg::LinalgOp matmul, AttentionAssumptions assumed)
      : matmul(matmul), assumed(assumed) {}

  /// Fails with a reason if `matmul` is not the second one of an attention, and
  /// without one if it does not look like attention at all.
  FailureOr<AttentionMatch> match();

  StringRef getReason() const { return reason; }

private:
  LogicalResult fail(const Twine &text);
  LogicalResult match(unsigned probabilitiesOperandNumber);
  FailureOr<SmallVector<AffineExpr>>
  findCoordinates(unsigned probabilitiesOperandNumber);
  /// The factors of the attention probabilities.
  struct ProbabilityFactors {
    /// The element of a softmax, or an exponential.
    const Expr *numerator = nullptr;
    /// The denominators that are not constants.
    SmallVector<const Expr *> denominators;
    double number = 1;
    /// How many expressions were visited: factors may occur several times.
    unsigned numVisited = 0;
  };

  const Expr *matchSoftmax(const Expr *probabilities);
  LogicalResult splitProbabilities(const Expr *probabilities, bool isInverse,
                                   ProbabilityFactors &factors);
  LogicalResult addDropoutFactor(const Expr *factor,
                                 ProbabilityFactors &factors);
  LogicalResult matchDropout(double number);
  const Expr *matchExponential(const Expr *numerator, const Expr *denominator);
  const Expr *findSumOfResult();
  SmallVector<AffineExpr> getSecondMatmulIndices();
  FailureOr<SmallVector<AffineExpr>>
  getResultIndices(OpOperand &use, ArrayRef<AffineExpr> indices);
  LogicalResult matchSum(const Expr *sum, const Expr *numerator);
  LogicalResult matchFirstMatmul(const Expr *scores);
  LogicalResult matchQueriesAndKeys(linalg::LinalgOp op, const Expr *leaf);
  const Expr *matchMasks(const Expr *scores);
  void matchScale();
  LogicalResult matchOperands(ElementRef query, ElementRef key,
                              ElementRef value);
  FailureOr<AttentionOperandMatch> matchLayout(const ElementRef &ref,
                                               std::optional<unsigned> position,
                                               unsigned headDimCoordinate);
  LogicalResult checkUses();
  bool isIndependentOfKey(const Expr *expr);

  linalg::LinalgOp matmul;
  AttentionAssumptions assumed;
  std::string reason;
  AttentionMatch result;
  std::optional<ElementExprs> exprs;
  ElementRef queryRef, keyRef;
};

/// Emits expressions of the elements of an attention as code of its regions.
class ExprEmitter {
public:
  /// `coordinates` holds the values of coordinates.
  ExprEmitter(OpBuilder &builder, Location loc, const AttentionMatch &match,
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
  const AttentionMatch &match;
  const DenseMap<unsigned, Value> &coordinates;
  DenseMap<const Expr *, Value> values;
};

/// The name of the producer of `value`, for messages.
std::string getProducerName(Value value);

/// Whether `expr` contains a part of a softmax.
bool hasExponential(const Expr *expr);

/// The values of the coordinates of `match` at the positions that a region of
/// attention gets.
DenseMap<unsigned, Value> emitCoordinates(OpBuilder &builder, Location loc,
                                          const AttentionCoordinates &at,
                                          ValueRange positions);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHATTENTION_H
