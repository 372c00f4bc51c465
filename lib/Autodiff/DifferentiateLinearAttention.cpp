//===- DifferentiateLinearAttention.cpp - Its gradients -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Linear attention becomes `attn.linear_attention_grad`, which has a key and a
// value head for each query head. Shared heads are repeated before it, and the
// gradients of query heads that share one are added up after it.
//
//===----------------------------------------------------------------------===//

#include "DifferentiateLinearAttention.h"
#include "Differentiation.h"
#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::attn;
using utils::IteratorType;

/// Emits `heads` with a head for each of `numHeads` query heads.
static Value emitRepeatedHeads(OpBuilder &builder, Location loc, Value heads,
                               int64_t numHeads) {
  int64_t group = numHeads / getDimSize(heads, 1);
  if (group == 1)
    return heads;
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, loc, heads);
  sizes[1] = builder.getIndexAttr(numHeads);
  Value init =
      tensor::EmptyOp::create(builder, loc, sizes, getElementTypeOrSelf(heads));
  // Positions stay a loop of their own, which can be distributed over ranks.
  AffineMap whole = builder.getMultiDimIdentityMap(4);
  SmallVector<AffineExpr> ofHeads(whole.getResults());
  ofHeads[1] = ofHeads[1].floorDiv(group);
  auto repeat = linalg::GenericOp::create(
      builder, loc, init.getType(), heads, init,
      ArrayRef<AffineMap>{AffineMap::get(4, 0, ofHeads, builder.getContext()),
                          whole},
      SmallVector<IteratorType>(4, IteratorType::parallel),
      [&](OpBuilder &b, Location, ValueRange arguments) {
        linalg::YieldOp::create(b, loc, arguments[0]);
      });
  return repeat.getResult(0);
}

/// Emits the sum of `gradient` over the query heads that share a head of
/// `heads`.
static Value emitSumOfGroups(OpBuilder &builder, Location loc, Value heads,
                             Value gradient) {
  int64_t group = getDimSize(gradient, 1) / getDimSize(heads, 1);
  if (group == 1)
    return gradient;
  // Loops are the dimensions of the result, and the heads that share one. As in
  // pooling, a tensor that is not read has the size of the latter.
  AffineMap ofLoops = builder.getMultiDimIdentityMap(5);
  SmallVector<AffineExpr> ofHeads(ofLoops.getResults().drop_back());
  ofHeads[1] = ofHeads[1] * group + ofLoops.getResult(4);
  Type f32 = builder.getF32Type();
  Value window =
      tensor::EmptyOp::create(builder, loc, ArrayRef<int64_t>{group}, f32);
  Value init = emitZeros(builder, loc, heads, f32);
  SmallVector<IteratorType> loops(5, IteratorType::parallel);
  loops.back() = IteratorType::reduction;
  auto sum = linalg::GenericOp::create(
      builder, loc, init.getType(), ValueRange{gradient, window}, init,
      ArrayRef<AffineMap>{AffineMap::get(5, 0, ofHeads, builder.getContext()),
                          ofLoops.getMinorSubMap(1), ofLoops.getMajorSubMap(4)},
      loops, [&](OpBuilder &b, Location, ValueRange arguments) {
        Value term = convertFloat(b, loc, arguments[0], f32);
        Value next = arith::AddFOp::create(b, loc, arguments[2], term);
        linalg::YieldOp::create(b, loc, next);
      });
  return sum.getResult(0);
}

/// Emits the sum over batch entries of `[B, H]`.
static Value emitSumOfBatch(OpBuilder &builder, Location loc, Value like,
                            Value gradient) {
  AffineMap full = builder.getMultiDimIdentityMap(2);
  Value init = emitZeros(builder, loc, like, builder.getF32Type());
  auto sum = linalg::GenericOp::create(
      builder, loc, init.getType(), gradient, init,
      ArrayRef<AffineMap>{full, full.dropResult(0)},
      ArrayRef<IteratorType>{IteratorType::reduction, IteratorType::parallel},
      [&](OpBuilder &b, Location, ValueRange arguments) {
        Value next = arith::AddFOp::create(b, loc, arguments[1], arguments[0]);
        linalg::YieldOp::create(b, loc, next);
      });
  return sum.getResult(0);
}

namespace {
struct LinearAttentionModel
    : public DifferentiableOpInterface::ExternalModel<LinearAttentionModel,
                                                      LinearAttentionOp> {
  LogicalResult emitGradients(Operation *operation, OpBuilder &builder,
                              GradientState &state) const {
    auto op = cast<LinearAttentionOp>(operation);
    Location loc = op.getLoc();
    int64_t heads = op.getNumHeads();
    Value key = emitRepeatedHeads(builder, loc, op.getKey(), heads);
    Value value = emitRepeatedHeads(builder, loc, op.getValue(), heads);
    Value dout = state.getGradient(op->getResult(0));
    if (!dout)
      dout = emitZeros(builder, loc, op->getResult(0),
                       getElementTypeOrSelf(op.getOut()));
    Value dfinalState =
        op.getFinalState() ? state.getGradient(op->getResult(1)) : Value();
    auto isWanted = [&](Value operand) {
      return operand && state.isActive(operand);
    };
    auto makeInit = [&](Value operand) -> Value {
      return tensor::EmptyOp::create(
          builder, loc, tensor::getMixedSizes(builder, loc, operand),
          getElementTypeOrSelf(operand));
    };
    Value decay = op.getLogDecay(), beta = op.getBeta(),
          initial = op.getInitialState();
    Value ddecay, dbeta, dinitial;
    bool isDecayOfHeads =
        decay && cast<RankedTensorType>(decay.getType()).getRank() == 1;
    if (isWanted(decay))
      ddecay = isDecayOfHeads
                   ? tensor::EmptyOp::create(
                         builder, loc,
                         ArrayRef<OpFoldResult>(
                             tensor::getMixedSizes(builder, loc, key))
                             .take_front(2),
                         builder.getF32Type())
                         .getResult()
                   : makeInit(decay);
    if (isWanted(beta))
      dbeta = makeInit(beta);
    if (isWanted(initial))
      dinitial = makeInit(initial);
    SmallVector<Value> inits = {makeInit(op.getQuery()), makeInit(key),
                                makeInit(value)};
    SmallVector<Type> types(ValueRange(inits).getTypes());
    for (Value init : {ddecay, dbeta, dinitial})
      if (init)
        types.push_back(init.getType());
    auto grad = LinearAttentionGradOp::create(
        builder, loc, types, op.getQuery(), key, value, dout, decay, beta,
        initial, dfinalState, op.getSequences(), inits[0], inits[1], inits[2],
        ddecay, dbeta, dinitial, op.getWholeChunksAttr(), op.getCausalAttr(),
        op.getScaleAttr(), op.getChunkAttr(), op.getPrecisionAttr(),
        /*schedule=*/ScheduleAttrInterface());

    auto next = grad->getResults().begin();
    state.addGradient(builder, loc, op.getQuery(), *next++);
    for (Value operand : {op.getKey(), op.getValue()})
      state.addGradient(builder, loc, operand,
                        emitSumOfGroups(builder, loc, operand, *next++));
    if (ddecay) {
      Value gradient = *next++;
      state.addGradient(builder, loc, decay,
                        isDecayOfHeads
                            ? emitSumOfBatch(builder, loc, decay, gradient)
                            : gradient);
    }
    if (dbeta)
      state.addGradient(builder, loc, beta, *next++);
    if (dinitial)
      state.addGradient(builder, loc, initial, *next++);
    return success();
  }
};

struct LinearAttentionGradModel
    : public DifferentiableOpInterface::ExternalModel<LinearAttentionGradModel,
                                                      LinearAttentionGradOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &,
                              GradientState &) const {
    return op->emitError("cannot differentiate '")
           << op->getName()
           << "': second derivatives of linear attention are not supported";
  }
};
} // namespace

void attn::registerLinearAttentionGradientModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    LinearAttentionOp::attachInterface<LinearAttentionModel>(*context);
    LinearAttentionGradOp::attachInterface<LinearAttentionGradModel>(*context);
  });
}
