//===- SoftmaxGrad.cpp - The gradient of the softmax ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The factors of values are the attention probabilities P, and the gradient of
// the scores is P (dP - delta), where delta is the row sum of out and dout (Dao
// et al. 2022).
//
//===----------------------------------------------------------------------===//

#include "CombinedSoftmax.h"
#include "attn/Conversion/AttnToAttnTile/StreamingOpInterfaceImpl.h"
#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/DialectRegistry.h"

using namespace mlir;
using namespace mlir::attn;
using attn_tile::GradRows;
using attn_tile::GradTile;

/// The largest absolute log-sum-exp of a row that has gradients of its scores.
/// In f32 a larger one is rounded by 1 or more, which leaves nothing of the sum
/// of probabilities (docs/Numerics.md).
static constexpr double maxLogSumExp = 1 << 24;

/// Whether rows exist, attend something and have gradients.
static Value emitAttends(GradRows &rows) {
  TileProgramBuilder &b = rows.b;
  Value exists = rows.emitExists(), lse = rows.rowResult;
  Value attends = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, lse,
                                        b.splat(rows.queryTile, -infinity));
  attends = arith::AndIOp::create(b, attends, exists);
  Value isResolved = arith::CmpFOp::create(
      b, arith::CmpFPredicate::ULE, math::AbsFOp::create(b, lse).getResult(),
      b.splat(rows.queryTile, maxLogSumExp));
  return arith::AndIOp::create(b, attends, isResolved);
}

namespace {
struct SoftmaxGrad
    : attn_tile::StreamingGradOpInterface::ExternalModel<SoftmaxGrad,
                                                         AttentionGradOp> {
  attn_tile::GradOperands getGradOperands(Operation *operation) const {
    auto op = cast<AttentionGradOp>(operation);
    attn_tile::GradOperands operands;
    operands.output = op.getOut();
    operands.rowResult = op.getLse();
    operands.outputGrad = op.getDout();
    operands.rowResultGrad = op.getDlse();
    operands.identity = op.getIdentity();
    operands.queryGrad = op.getDquery();
    operands.keyGrad = op.getDkey();
    operands.valueGrad = op.getDvalue();
    operands.captureGrads = SmallVector<Value>(op.getDcaptures());
    if (!op.getScoreModGrad().empty())
      operands.scoreModGrad = &op.getScoreModGrad();
    operands.isDeterministic = op.getDeterministic();
    operands.canOrderDq = op.canOrderDq();
    // Dropout applies to dP before delta is subtracted.
    operands.canAddRows = !op.hasDropout();
    return operands;
  }

  /// With dropout the gradient of a score is `p * (dp / keep - delta)`. It is
  /// computed as `p * (dp - keep * delta)`.
  double getScoreGradFactor(Operation *op) const {
    return cast<AttentionOpInterface>(op).getKeepProbability();
  }

  void emitRowValues(Operation *op, GradRows &rows) const {
    TileProgramBuilder &b = rows.b;
    int64_t queryTile = rows.queryTile;
    Value products = arith::MulFOp::create(b, rows.output, rows.outputGrad);
    Value delta = vector::MultiDimReductionOp::create(
        b, products, b.splat(queryTile, 0), ArrayRef<bool>{false, true},
        vector::CombiningKind::ADD);
    if (rows.rowResultGrad)
      delta = arith::SubFOp::create(b, delta, rows.rowResultGrad);
    auto attention = cast<AttentionOpInterface>(op);
    if (attention.hasDropout())
      delta = arith::MulFOp::create(
          b, delta, b.splat(queryTile, attention.getKeepProbability()));

    Value attends = emitAttends(rows), lse = rows.rowResult;
    if (rows.share) {
      // The exponent gives P the factor `1 - u`, so delta, which is subtracted
      // from dP, must not have it.
      lse = arith::SubFOp::create(b, lse, math::LogOp::create(b, rows.share));
      delta = arith::DivFOp::create(b, delta, rows.share);
      attends = arith::AndIOp::create(
          b, attends,
          arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, rows.share,
                                b.splat(queryTile, 0)));
    }
    double factor = rows.additions.scores ? -1 / rows.scoreFactor : -log2e;
    Value exponent = arith::MulFOp::create(b, lse, b.splat(queryTile, factor));
    if (rows.additions.factorGrads)
      delta = arith::NegFOp::create(b, delta);
    rows.storeRowOfFactors(arith::SelectOp::create(
        b, attends, exponent, b.splat(queryTile, -infinity)));
    rows.storeRowOfGrads(
        arith::SelectOp::create(b, attends, delta, b.splat(queryTile, 0)));
  }

  /// exp(score - lse).
  Value emitFactors(Operation *, const GradTile &tile, Value scores,
                    Value row) const {
    TileProgramBuilder &b = tile.b;
    Value factor = b.splat(tile.shape, tile.scoreFactor * log2e);
    if (tile.additions.scores)
      return math::Exp2Op::create(
          b, arith::MulFOp::create(b, scores, factor).getResult());
    Value exponents = b.broadcast(row, tile.shape);
    Value sum = math::FmaOp::create(b, scores, factor, exponents);
    Value probabilities = math::Exp2Op::create(b, sum);
    if (!tile.mayPaddingBeInfinite)
      return probabilities;
    // The sum of a score of infinity or NaN with the exponent -inf is NaN.
    Value isPadding =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, exponents,
                              b.splat(tile.shape, -infinity));
    return arith::SelectOp::create(b, isPadding, b.splat(tile.shape, 0),
                                   probabilities);
  }

  Value emitScoreGrad(Operation *op, const GradTile &tile, Value factors,
                      Value kept, Value factorGrad, Value row) const {
    TileProgramBuilder &b = tile.b;
    if (tile.additions.factorGrads)
      return arith::MulFOp::create(b, factors, factorGrad);
    Value deltas = b.broadcast(row, tile.shape);
    if (!cast<AttentionOpInterface>(op).hasDropout()) {
      Value centred = arith::SubFOp::create(b, factorGrad, deltas);
      return arith::MulFOp::create(b, factors, centred);
    }
    // kept * dP - P * delta: the second term does not wait for dP, and dP need
    // not be masked.
    Value common = arith::MulFOp::create(b, factors, deltas);
    return math::FmaOp::create(b, b.extend(kept), factorGrad,
                               arith::NegFOp::create(b, common));
  }

  /// Pairs with P = 0 have no gradient.
  Value emitHasScoreGrad(Operation *, const GradTile &tile,
                         Value factors) const {
    return arith::CmpFOp::create(tile.b, arith::CmpFPredicate::UNE, factors,
                                 tile.b.splat(tile.shape, 0));
  }
};
} // namespace

void attn::registerStreamingGradOpInterfaceExternalModels(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    AttentionGradOp::attachInterface<SoftmaxGrad>(*context);
  });
}
