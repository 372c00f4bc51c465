//===- MatchBuilder.h - Operands and results of matches --------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Brings the operands of a matched attention into the layout of operations of
// the attn dialect, and its result back into that of the matched operation.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHBUILDER_H
#define ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHBUILDER_H

#include "MatchMatmuls.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::attn {

/// Writes a match before its second matmul.
class MatchBuilder {
public:
  MatchBuilder(OpBuilder &builder, const MatmulsMatch &match)
      : builder(builder), loc(match.secondMatmul->getLoc()), matmuls(match) {}

protected:
  /// `[batch, heads, positions, head dim]` of an operand.
  Value buildOperand(const AttentionOperandMatch &operand);
  /// The value that replaces the result of the second matmul, from
  /// `[batch, heads, positions, head dim]`, or from `[batch, heads, positions]`
  /// for a sum.
  Value buildResult(Value attention);

  OpBuilder &builder;
  Location loc;

private:
  OpFoldResult getBatchSize();
  Value splitResult(Value attention, SmallVectorImpl<unsigned> &order);

  const MatmulsMatch &matmuls;
};

/// Erases `ops` and their producers if they have no other uses.
void eraseUnused(RewriterBase &rewriter, ArrayRef<Operation *> ops);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_LINALGTOATTN_MATCHBUILDER_H
