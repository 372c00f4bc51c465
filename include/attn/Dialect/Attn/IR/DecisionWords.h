//===- DecisionWords.h - Decisions packed into words ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the decision of a pair is among the words that docs/rng.md defines.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_DECISIONWORDS_H
#define ATTN_DIALECT_ATTN_IR_DECISIONWORDS_H

#include "mlir/IR/Builders.h"

namespace mlir::attn {

/// The word of a pair, and the bit of it: `i32` values, or vectors of them.
struct DecisionPlace {
  Value queryWord, keyWord, bit;
};

/// Emits the place of the decision of query `query` and key `key`.
DecisionPlace emitDecisionPlace(OpBuilder &builder, Location loc, Value query,
                                Value key);

/// The query and the key of a decision.
struct DecisionPair {
  Value query, key;
};

/// Emits the pair whose decision is at `place`.
DecisionPair emitDecisionPair(OpBuilder &builder, Location loc,
                              DecisionPlace place);

/// Emits the sizes of the words of decisions of `queries` queries and `keys`
/// keys, by rows.
SmallVector<OpFoldResult>
emitDecisionSizes(OpBuilder &builder, Location loc, OpFoldResult batch,
                  OpFoldResult heads, OpFoldResult queries, OpFoldResult keys);

/// Emits bit `bit` of `word`: an `i1`, or a vector of them.
Value emitDecision(OpBuilder &builder, Location loc, Value word, Value bit);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_DECISIONWORDS_H
