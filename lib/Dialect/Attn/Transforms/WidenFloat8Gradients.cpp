//===- WidenFloat8Gradients.cpp - Gradients of 8 bits in wider types ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Extends the operands of 8 bits of gradients of attention. All wider floats
// represent them: the gradients are derivatives with respect to the 8-bit
// numbers.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Interfaces/DifferentiableOpInterface.h"
#include "attn/Interfaces/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNWIDENFLOAT8GRADIENTSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// Whether `op` has operands of 8 bits.
static bool hasFloat8(AttentionGradOp op) {
  return isFloat8(getElementTypeOrSelf(op.getKey())) ||
         isFloat8(getElementTypeOrSelf(op.getDout()));
}

/// The type that queries, keys and values of `op` get.
static Type getWiderType(AttentionGradOp op, const Target &target) {
  Type query = getElementTypeOrSelf(op.getQuery());
  if (!isFloat8(query))
    return query;
  if (target.isHost())
    return Float32Type::get(op.getContext());
  Type out = getElementTypeOrSelf(op.getOut());
  return out.isF16() ? out : Type(BFloat16Type::get(op.getContext()));
}

/// Gives `op` wider operands.
static void widen(RewriterBase &rewriter, AttentionGradOp op,
                  const Target &target) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Location loc = op.getLoc();
  // GPUs want one type of queries, outputs and their gradients. Beside operands
  // of 8 bits the output may have another one.
  bool isQueryNarrow = isFloat8(getElementTypeOrSelf(op.getQuery()));
  bool isDoutNarrow = isFloat8(getElementTypeOrSelf(op.getDout()));
  Type element = getWiderType(op, target);
  auto convert = [&](OpOperand &operand, Type type) {
    Value wide = convertFloat(rewriter, loc, operand.get(), type);
    rewriter.modifyOpInPlace(op, [&] { operand.set(wide); });
  };
  for (OpOperand *operand :
       {&op.getQueryMutable(), &op.getKeyMutable(), &op.getValueMutable()})
    convert(*operand, element);
  // The output has the type of the query, or f32.
  Type out = getElementTypeOrSelf(op.getOut());
  if (isQueryNarrow || element.isF32() || (isDoutNarrow && !target.isHost()))
    out = element;
  convert(op.getOutMutable(), out);
  convert(op.getDoutMutable(), out);

  // So have gradients. Rows of no sequence keep their contents.
  constexpr int64_t numGradients = 3;
  for (int64_t number = 0; number < numGradients; ++number) {
    OpOperand &init = *op.getDpsInitOperand(number);
    Type narrow = getElementTypeOrSelf(init.get());
    if (narrow == element || narrow.isF32())
      continue;
    rewriter.setInsertionPoint(op);
    if (op.hasSequences()) {
      convert(init, element);
    } else {
      Value empty = tensor::EmptyOp::create(
          rewriter, loc, tensor::getMixedSizes(rewriter, loc, init.get()),
          element);
      rewriter.modifyOpInPlace(op, [&] { init.set(empty); });
    }
    OpResult result = op->getResult(number);
    rewriter.modifyOpInPlace(op, [&] { result.setType(init.get().getType()); });
    rewriter.setInsertionPointAfter(op);
    Value rounded = convertFloat(rewriter, loc, result, narrow);
    // Sizes of `rounded` are read from the result.
    rewriter.replaceUsesWithIf(result, rounded, [&](OpOperand &use) {
      return use.getOwner() != rounded.getDefiningOp() &&
             !isa<tensor::DimOp>(use.getOwner());
    });
  }
}

namespace {
struct AttnWidenFloat8GradientsPass
    : public attn::impl::AttnWidenFloat8GradientsPassBase<
          AttnWidenFloat8GradientsPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<const Target *> device = lookupTarget(getOperation(), target);
    if (failed(device))
      return signalPassFailure();
    SmallVector<AttentionGradOp> ops;
    getOperation()->walk([&](AttentionGradOp op) {
      if (hasFloat8(op))
        ops.push_back(op);
    });
    IRRewriter rewriter(&getContext());
    for (AttentionGradOp op : ops) {
      if (op.isBufferized()) {
        op.emitOpError("with operands of 8 bits must be on tensors (was on "
                       "memrefs)");
        return signalPassFailure();
      }
      widen(rewriter, op, **device);
    }
    numWidened += int64_t(ops.size());
  }
};
} // namespace
