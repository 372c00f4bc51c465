//===- MatchLinearAttention.h - Linear attention in linalg -----*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds out whether a matmul multiplies scores without a softmax by values, or
// whether a reduction adds up such scores. Then the work need not grow with the
// square of the number of tokens.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHLINEARATTENTION_H
#define ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHLINEARATTENTION_H

#include "MatchMatmuls.h"

namespace mlir::attn {

class Target;

/// A factor, or one over it, or its logarithm.
struct LinearFactor {
  enum class Kind { Plain, Inverse, Logarithm };

  friend bool operator==(const LinearFactor &lhs, const LinearFactor &rhs) {
    return lhs.expr == rhs.expr && lhs.kind == rhs.kind;
  }

  const Expr *expr;
  Kind kind = Kind::Plain;
};

/// A product of a number and factors.
struct LinearTerm {
  double number = 1;
  SmallVector<LinearFactor> factors;
  /// A function of the query, in a cumulative log-decay.
  const Expr *position = nullptr;
};

/// Matched linear attention. The weight of a pair is `scale` times an element
/// of the first matmul, times the factors of query and key, times the decay.
struct LinearAttentionMatch : MatmulsMatch {
  /// Whether the second operation is a sum of the weights.
  bool isSum = false;
  bool isCausal = false;
  /// Log-decays of each token.
  SmallVector<LinearTerm> rates;
  /// Log-decays as differences: the one of a token is the sum of these at the
  /// token, less that at the token before.
  SmallVector<LinearTerm> cumulative;
  /// Functions of the query or of the key alone. Factors are 0 where conditions
  /// do not hold.
  SmallVector<LinearFactor> queryFactors, keyFactors;
  SmallVector<PairCondition> queryConditions, keyConditions;
  /// Whether the factors of keys differ between heads.
  bool hasKeyFactorsOfHeads = false;
  /// Whether queries, keys and values are widened to f32.
  bool isWidened = false;
};

/// Matches linear attention by the matmul with the values, or by the sum.
class LinearAttentionMatcher : public MatmulMatcher {
public:
  LinearAttentionMatcher(linalg::LinalgOp op, const Target &target)
      : MatmulMatcher(op, result), target(target) {}

  /// Whether `op` may be the second operation: a matmul, or a sum over a
  /// dimension.
  static bool isCandidate(linalg::LinalgOp op);

  /// Fails with a reason if the operation adds up scores but is no linear
  /// attention, and without one if it does not look like that.
  FailureOr<LinearAttentionMatch> match();

private:
  LogicalResult matchMatmul(unsigned weightsOperandNumber);
  LogicalResult matchSum(unsigned queryLoop);
  LogicalResult matchWeights(const Expr *weight);
  LogicalResult matchShape(std::optional<ElementRef> value);
  bool splitWeight(const Expr *weight, bool isInverse);
  bool addCondition(const PairCondition &condition);
  LogicalResult matchScores();
  bool changesScores(const Expr *expr);
  LogicalResult addFactors();
  LogicalResult checkCausal();
  bool isOfPair(const Expr *expr);

  const Expr *stripAddends(const Expr *exponent);
  const Expr *stripMasks(const Expr *exponent);
  bool isImplied(const PairCondition &condition);
  const Expr *simplify(const Expr *exponent);
  void addPositions(double query, double key, double constant,
                    const LinearTerm &term);
  const Expr *splitFactor(const Expr *exponent, LinearTerm &term);
  LogicalResult addExponent(const Expr *exponent, LinearTerm term);
  LogicalResult addDecays();
  LogicalResult addRates();
  LogicalResult addDifferences();
  LogicalResult checkTypes();
  bool isRounded();

  const Target &target;
  LinearAttentionMatch result;
  /// The factors of a weight that are not constants.
  SmallVector<LinearFactor> factors;
  /// Conditions of the pair.
  SmallVector<PairCondition> conditions;
  /// Exponents: their factors, and expressions.
  struct Exponent {
    LinearTerm term;
    const Expr *expr;
  };
  SmallVector<Exponent> exponents;
  unsigned numVisited = 0;
  /// Parts of the exponents: multiples of the positions, and functions of the
  /// query or the key.
  struct Positions {
    LinearTerm term;
    double query = 0, key = 0, constant = 0;
  };
  SmallVector<Positions> positions;
  SmallVector<LinearTerm> ofQuery, ofKey;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHLINEARATTENTION_H
