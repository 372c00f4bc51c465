//===- MatchAttention.h - Attention in linalg on tensors --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds out whether a product is that of the weights of an attention with its
// values, from the product backwards.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHATTENTION_H
#define ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHATTENTION_H

#include "ElementExprs.h"

#include <string>

namespace mlir::attn {

/// The coordinates of an attention. Each is a loop of the product with the
/// values, a part of one, or the loop that queries and keys are summed over.
struct AttentionCoordinates {
  std::optional<unsigned> batch;
  /// The head is the index into these, in row-major order.
  SmallVector<unsigned> heads;
  std::optional<unsigned> query;
  unsigned key = 0;
  unsigned valueChannel = 0;
  unsigned queryChannel = 0;
  /// The static size of each coordinate, or dynamic.
  SmallVector<int64_t> sizes;

  bool isQuery(unsigned coordinate) const { return query == coordinate; }
  bool isKey(unsigned coordinate) const { return key == coordinate; }
  int64_t getNumHeads() const;
};

/// A tensor that holds queries, keys or values.
struct AttentionOperandMatch {
  Value tensor;
  /// For each coordinate that is a dimension of `tensor`, in the order of the
  /// operands of attention, the number of the dimension.
  std::optional<unsigned> batch;
  SmallVector<unsigned> heads;
  std::optional<unsigned> position;
  unsigned channel = 0;
  /// The heads that the operand has.
  int64_t numHeads = 1;
  /// What its elements are multiplied by.
  double factor = 1;
};

/// Where a pair is kept.
struct KeepCondition {
  /// An `i1`, or a number that is not zero there.
  const Expr *condition;
  bool isNegated = false;
};

/// An attention that was found.
struct AttentionMatch {
  /// The product of queries and keys, and that of weights and values.
  linalg::LinalgOp firstProduct, secondProduct;
  /// Where weights are divided by their sum after `secondProduct`: what is
  /// divided, an operand of the operation that does it.
  OpOperand *undivided = nullptr;
  AttentionCoordinates at;
  /// The coordinates that the loops of `secondProduct` are, the first one the
  /// outermost.
  SmallVector<SmallVector<unsigned>> loops;
  AttentionOperandMatch query, key, value;
  double scale = 1;
  /// What `score` is multiplied by, after all else: not one if the softmax is
  /// of another base than e.
  double scoreFactor = 1;
  /// The score as a function of `product`, which includes `scale`.
  const Expr *score = nullptr;
  const Expr *product = nullptr;
  SmallVector<KeepCondition> keep;
  /// Where dropout keeps a weight, if there is any, and its probability to drop
  /// one.
  SmallVector<KeepCondition> kept;
  float dropProbability = 0;
};

/// What may be taken for granted of tensors whose contents are not known.
struct AttentionAssumptions {
  /// Every row keeps a pair, so that a large negative number masks one.
  bool keptRows = false;
  /// Tensors that weights are multiplied by hold 0 and 1 alone.
  bool dropoutMasks = false;
};

/// Matches attentions by their last product.
class AttentionMatcher {
public:
  AttentionMatcher(linalg::LinalgOp product, AttentionAssumptions assumed)
      : product(product), assumed(assumed) {}

  /// Fails with a reason if `product` is not the last one of an attention, with
  /// none if it has nothing of one.
  FailureOr<AttentionMatch> match();

  StringRef getReason() const { return reason; }

private:
  LogicalResult fail(const Twine &text);
  LogicalResult match(unsigned weights);
  FailureOr<SmallVector<AffineExpr>> findCoordinates(unsigned weights);
  /// What weights are the product of.
  struct WeightFactors {
    /// The element of a softmax, or an exponential.
    const Expr *numerator = nullptr;
    /// What is divided by, but for numbers.
    SmallVector<const Expr *> denominators;
    double number = 1;
    /// How many expressions were looked at: factors may be shared.
    unsigned numVisited = 0;
  };

  const Expr *matchSoftmax(const Expr *weights);
  LogicalResult splitWeights(const Expr *weights, bool isInverse,
                             WeightFactors &factors);
  LogicalResult addDropoutFactor(const Expr *factor, WeightFactors &factors);
  LogicalResult matchDropout(double number);
  const Expr *matchExponential(const Expr *numerator, const Expr *denominator);
  const Expr *findSumOfResult();
  FailureOr<SmallVector<AffineExpr>>
  getResultIndices(OpOperand &use, ArrayRef<AffineExpr> indices);
  LogicalResult matchSum(const Expr *sum, const Expr *numerator);
  LogicalResult matchFirstProduct(const Expr *scores);
  const Expr *matchMasks(const Expr *scores);
  void matchScale();
  LogicalResult matchOperands(ElementRef query, ElementRef key,
                              ElementRef value);
  FailureOr<AttentionOperandMatch> matchLayout(const ElementRef &ref,
                                               std::optional<unsigned> position,
                                               unsigned channel);
  LogicalResult checkUses();
  bool isIndependentOfKey(const Expr *expr);

  linalg::LinalgOp product;
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

  /// The value that stands for the product of queries and keys.
  void setProduct(Value value) { values[match.product] = value; }
  Value emit(const Expr *expr);
  /// A conjunction.
  Value emit(ArrayRef<KeepCondition> keep);

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

/// The name of what computes `value`, for messages.
std::string getProducerName(Value value);

/// Whether `expr` has a part of a softmax.
bool hasExponential(const Expr *expr);

/// The coordinates of `match` for the positions of a region of attention.
DenseMap<unsigned, Value> emitCoordinates(OpBuilder &builder, Location loc,
                                          const AttentionCoordinates &at,
                                          ValueRange positions);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHATTENTION_H
