//===- DifferentiateMerge.cpp - Gradients of merges -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A merge becomes `attn.merge_grad`, which computes the gradients of all
// partial results.
//
//===----------------------------------------------------------------------===//

#include "DifferentiateMerge.h"
#include "Differentiation.h"
#include "attn/Dialect/Attn/IR/AttnMergeOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::attn;

/// Emits destinations for the gradients of `values`.
static SmallVector<Value> emitInits(OpBuilder &builder, Location loc,
                                    ValueRange values) {
  return llvm::map_to_vector(values, [&](Value value) -> Value {
    return tensor::EmptyOp::create(builder, loc,
                                   tensor::getMixedSizes(builder, loc, value),
                                   getElementTypeOrSelf(value));
  });
}

namespace {
struct MergeModel
    : public DifferentiableOpInterface::ExternalModel<MergeModel, MergeOp> {
  LogicalResult emitGradients(Operation *operation, OpBuilder &builder,
                              GradientState &state) const {
    auto op = cast<MergeOp>(operation);
    Location loc = op.getLoc();
    Value dout = state.getGradient(op->getResult(0));
    if (!dout)
      dout = emitZeros(builder, loc, op->getResult(0),
                       getElementTypeOrSelf(op.getOut()));
    Value dlse = op.getLse() ? state.getGradient(op->getResult(1)) : Value();
    SmallVector<Value> outs = emitInits(builder, loc, op.getPartialOuts());
    SmallVector<Value> lses = emitInits(builder, loc, op.getPartialLses());
    SmallVector<Type> types(ValueRange(outs).getTypes());
    llvm::append_range(types, ValueRange(lses).getTypes());
    auto grad = MergeGradOp::create(builder, loc, types, op.getPartialOuts(),
                                    op.getPartialLses(), dout, dlse, outs, lses,
                                    /*schedule=*/ScheduleAttrInterface());
    SmallVector<Value> inputs(op.getPartialOuts());
    llvm::append_range(inputs, op.getPartialLses());
    for (auto [input, gradient] : llvm::zip_equal(inputs, grad->getResults()))
      state.addGradient(builder, loc, input, gradient);
    return success();
  }
};

struct MergeGradModel
    : public DifferentiableOpInterface::ExternalModel<MergeGradModel,
                                                      MergeGradOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &,
                              GradientState &) const {
    return op->emitError("cannot differentiate '")
           << op->getName()
           << "': second derivatives of merges are not supported";
  }
};
} // namespace

void attn::registerMergeGradientModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    MergeOp::attachInterface<MergeModel>(*context);
    MergeGradOp::attachInterface<MergeGradModel>(*context);
  });
}
