//===- MaskAlgebra.h - Simplification of masks -----------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Simplifies masks by rules of logic and by proofs of `MaskAnalysis` on the
// code of their predicates, and finds the named mask that a predicate
// implements.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_MASKALGEBRA_H
#define ATTN_ANALYSIS_MASKALGEBRA_H

#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Region.h"

namespace mlir::attn {

/// A region that holds the code of predicates, for lengths of which each may be
/// dynamic, so that `MaskAnalysis` can answer queries on them.
class MaskScope {
public:
  /// A static length is at least one.
  MaskScope(MLIRContext *context, int64_t queryLength, int64_t keyLength);
  /// For the masks of `op`.
  explicit MaskScope(AttentionOpInterface op)
      : MaskScope(op->getContext(), op.getStaticLengths().first,
                  op.getStaticLengths().second) {}

  const MaskAnalysis::Positions &getPositions() { return positions; }
  int64_t getStaticQueryLength() const { return queryLength; }
  int64_t getStaticKeyLength() const { return keyLength; }

  /// The predicate of `mask`.
  Value getPredicate(MaskAttrInterface mask);

  /// Copies the operations of `region` except the terminator, and maps their
  /// results. The last four arguments of the region are the positions. Values
  /// from outside are replaced by `mapping` if it has them.
  void clone(Region &region, IRMapping &mapping);

  /// A copy of the predicate of a mask_mod region. Values from outside are
  /// replaced by `mapping` if it has them.
  Value clonePredicate(Region &maskMod, IRMapping mapping = {});

  /// A predicate, or its negation.
  struct Literal {
    Value predicate;
    bool isNegated = false;
  };
  /// Whether it is proved that no pair satisfies all of `literals`. Nothing is
  /// proved once the queries of the scope have exceeded their work budget.
  bool isNever(ArrayRef<Literal> literals);

  /// Whether queries have exceeded the work budget.
  bool isExhausted() const { return budget.isExhausted(); }

  /// The named mask that keeps the pairs for which `predicate` is true; null if
  /// none is known.
  MaskAttrInterface recognize(Value predicate);

private:
  Region region;
  OpBuilder builder;
  MaskAnalysis::Positions positions;
  int64_t queryLength, keyLength;
  DenseMap<Attribute, Value> predicates;
  WorkBudget budget;
};

/// The simplest mask known to keep the same pairs as `mask`; null if `mask`
/// keeps all pairs, `#attn.none` if it keeps none. Simplifying it again changes
/// nothing. Returns `mask` itself if the analysis takes too much work.
MaskAttrInterface simplifyMask(MaskScope &scope, MaskAttrInterface mask);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_MASKALGEBRA_H
