//===- MaskAlgebra.h - Simplification of masks ------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Simplifies masks by rules of logic and by what `MaskAnalysis` proves of the
// code of their predicates, and finds the named mask that a predicate states.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_MASKALGEBRA_H
#define ATTN_ANALYSIS_MASKALGEBRA_H

#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Region.h"

namespace mlir::attn {

/// Code of predicates for lengths of which each may be dynamic, about which
/// questions can be asked.
class MaskScope {
public:
  /// A static length is at least one.
  MaskScope(MLIRContext *context, int64_t queryLength, int64_t keyLength);

  const MaskAnalysis::Positions &getPositions() { return positions; }
  int64_t getStaticQueryLength() const { return queryLength; }
  int64_t getStaticKeyLength() const { return keyLength; }

  /// The predicate of `mask`.
  Value getPredicate(MaskAttrInterface mask);

  /// Copies the operations of `region` but the last, and maps what they define.
  /// The last four arguments of the region are the positions. Values from
  /// outside are those of `mapping`, or themselves.
  void clone(Region &region, IRMapping &mapping);

  /// A copy of the predicate of a keep region. Values from outside of it are
  /// those of `mapping`, or themselves.
  Value clonePredicate(Region &keep, IRMapping mapping = {});

  /// A predicate, or its negation.
  struct Literal {
    Value predicate;
    bool isNegated = false;
  };
  /// Whether no pair is known for which all of `literals` hold.
  bool isNever(ArrayRef<Literal> literals);

  /// The named mask that keeps the pairs for which `predicate` is true; null if
  /// none is known.
  MaskAttrInterface recognize(Value predicate);

private:
  Region region;
  OpBuilder builder;
  MaskAnalysis::Positions positions;
  int64_t queryLength, keyLength;
  DenseMap<Attribute, Value> predicates;
};

/// The simplest mask known to keep the same pairs as `mask`; null if that keeps
/// all pairs, `#attn.none` if it keeps none. Simplifying it again changes
/// nothing.
MaskAttrInterface simplifyMask(MaskScope &scope, MaskAttrInterface mask);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_MASKALGEBRA_H
