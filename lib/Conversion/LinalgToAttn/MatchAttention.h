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

#include "MatchMatmuls.h"

namespace mlir::attn {

/// A matched attention.
struct AttentionMatch : MatmulsMatch {
  /// If P is divided by its sum after `secondMatmul`: the dividend, as an
  /// operand of the division.
  OpOperand *undivided = nullptr;
  /// The last factor of `score`; not one if the base of the softmax is not e.
  double scoreFactor = 1;
  /// The score as a function of `matmul`, including `scale`.
  const Expr *score = nullptr;
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
class AttentionMatcher : public MatmulMatcher {
public:
  AttentionMatcher(linalg::LinalgOp matmul, AttentionAssumptions assumed)
      : MatmulMatcher(matmul, result), assumed(assumed) {}

  /// Fails with a reason if `matmul` is not the second one of an attention, and
  /// without one if it does not look like attention at all.
  FailureOr<AttentionMatch> match();

private:
  LogicalResult match(unsigned probabilitiesOperandNumber);
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
  const Expr *matchMasks(const Expr *scores);
  void matchScale();
  LogicalResult checkUses();

  AttentionAssumptions assumed;
  AttentionMatch result;
};

/// Whether `expr` contains a part of a softmax.
bool hasExponential(const Expr *expr);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHATTENTION_H
