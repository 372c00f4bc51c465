//===- BufferizableOpInterfaceImpl.cpp - Bufferisation --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How operations of the attn dialect bufferise.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/Transforms/BufferizableOpInterfaceImpl.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/DstBufferizableOpInterfaceImpl.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/Operation.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::bufferization;

namespace {
/// Attention reads its inputs and overwrites its inits. What its regions read
/// is reported by the operations in them.
struct AttentionOpInterface
    : public DstBufferizableOpInterfaceExternalModel<AttentionOpInterface,
                                                     AttentionOp> {
  bool bufferizesToMemoryRead(Operation *op, OpOperand &opOperand,
                              const AnalysisState &state) const {
    // Rows that belong to no sequence keep what they hold.
    auto attention = cast<AttentionOp>(op);
    return attention.hasSequences() || !attention.isDpsInit(&opOperand);
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    auto attention = cast<AttentionOp>(op);
    if (attention.isBufferized())
      return success();

    SmallVector<Value> buffers;
    for (Value operand : attention->getOperands()) {
      FailureOr<Value> buffer = getBuffer(rewriter, operand, options, state);
      if (failed(buffer))
        return failure();
      buffers.push_back(*buffer);
    }
    rewriter.setInsertionPoint(attention);
    OperationState newState(attention.getLoc(), attention->getName(), buffers,
                            TypeRange(), attention->getAttrs());
    newState.addRegion();
    newState.addRegion();
    auto bufferized = cast<AttentionOp>(rewriter.create(newState));
    for (auto [oldRegion, newRegion] :
         llvm::zip_equal(attention->getRegions(), bufferized->getRegions()))
      rewriter.inlineRegionBefore(oldRegion, newRegion, newRegion.begin());
    replaceOpWithBufferizedValues(rewriter, op,
                                  ValueRange(bufferized.getDpsInits()));
    return success();
  }
};
} // namespace

void attn::registerBufferizableOpInterfaceExternalModels(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    AttentionOp::attachInterface<AttentionOpInterface>(*context);
  });
}
