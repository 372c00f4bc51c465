//===- ReluScoresGrad.cpp - The gradient of attention with a rectifier ----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An operation that gets the kernels of a gradient by StreamingGradOpInterface
// and AttentionOpInterface alone. The factors of the values are relu(score), as
// in "Replacing softmax with ReLU in Vision Transformers" (Wortsman et al.
// 2023), so that there is no result for each row.
//
//===----------------------------------------------------------------------===//

#include "TestAttn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace test_attn;
using attn::TileProgramBuilder;
using attn_tile::GradOperands;
using attn_tile::GradRows;
using attn_tile::GradTile;

SmallVector<attn::AttentionOperand> ReluScoresGradOp::getShapedOperands() {
  using attn::HeadDimKind;
  return {{"query", "q", getQuery(), true, HeadDimKind::Query},
          {"key", "k", getKey(), false, HeadDimKind::Query},
          {"value", "v", getValue(), false, HeadDimKind::Value},
          {"out", "out", getOut(), true, HeadDimKind::Value},
          {"dout", "dout", getDout(), true, HeadDimKind::Value},
          {"dquery", "dq", getDquery(), true, HeadDimKind::Query},
          {"dkey", "dk", getDkey(), false, HeadDimKind::Query},
          {"dvalue", "dv", getDvalue(), false, HeadDimKind::Value}};
}

int64_t ReluScoresGradOp::getFlopsPerPair() {
  return 2 * (3 * attn::getDimSize(getKey(), 3) +
              2 * attn::getDimSize(getValue(), 3));
}

SmallVector<attn::DescribedOperand> ReluScoresGradOp::getNamedOperands() {
  SmallVector<attn::DescribedOperand> operands;
  for (const attn::AttentionOperand &operand : getShapedOperands())
    operands.push_back({operand.value, operand.argumentName.str()});
  return operands;
}

SmallVector<attn::EqualOperandSizes> ReluScoresGradOp::getEqualSizes() {
  SmallVector<attn::SizeOfOperand> batches, queries, keys;
  for (const attn::AttentionOperand &operand : getShapedOperands()) {
    batches.emplace_back(operand.value, 0);
    (operand.isQuerySide ? queries : keys).emplace_back(operand.value, 2);
  }
  return {{"batch", batches}, {"queries", queries}, {"keys", keys}};
}

GradOperands ReluScoresGradOp::getGradOperands() {
  GradOperands operands;
  operands.output = getOut();
  operands.outputGrad = getDout();
  operands.queryGrad = getDquery();
  operands.keyGrad = getDkey();
  operands.valueGrad = getDvalue();
  return operands;
}

/// Rows that are no queries have the factor 0, others the factor 1.
void ReluScoresGradOp::emitRowValues(GradRows &rows) {
  TileProgramBuilder &b = rows.b;
  Value zeros = b.splat(rows.queryTile, 0);
  rows.storeRowOfFactors(arith::SelectOp::create(
      b, rows.emitExists(), b.splat(rows.queryTile, 1), zeros));
  rows.storeRowOfGrads(zeros);
}

/// Whether elements are positive. Masked scores, which are -inf, are not.
static Value emitIsPositive(const GradTile &tile, Value values) {
  return arith::CmpFOp::create(tile.b, arith::CmpFPredicate::OGT, values,
                               tile.b.splat(tile.shape, 0));
}

Value ReluScoresGradOp::emitFactors(const GradTile &tile, Value scores,
                                    Value row) {
  TileProgramBuilder &b = tile.b;
  Value positive = arith::SelectOp::create(b, emitIsPositive(tile, scores),
                                           scores, b.splat(tile.shape, 0));
  Value scaled =
      arith::MulFOp::create(b, positive, b.splat(tile.shape, tile.scoreFactor));
  return arith::MulFOp::create(b, scaled, b.broadcast(row, tile.shape));
}

Value ReluScoresGradOp::emitScoreGrad(const GradTile &tile, Value factors,
                                      Value, Value factorGrad, Value) {
  return arith::SelectOp::create(tile.b, emitIsPositive(tile, factors),
                                 factorGrad, tile.b.splat(tile.shape, 0));
}

Value ReluScoresGradOp::emitHasScoreGrad(const GradTile &tile, Value factors) {
  return emitIsPositive(tile, factors);
}
