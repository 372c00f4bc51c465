//===- RegionPositions.cpp - Positions that masks and regions see ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/Transforms/RegionPositions.h"
#include "MaskMod.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::attn;

using EmitPosition = function_ref<MaskPosition(OpBuilder &, ValueRange)>;

/// Replaces the arguments (batch, head, query, key) of `block` from number
/// `first` on. Returns the positions that replace them.
static MaskPosition replaceArguments(RewriterBase &rewriter, Block &block,
                                     unsigned first,
                                     EmitPosition emitPosition) {
  OpBuilder::InsertionGuard guard(rewriter);
  // Operations before `body` compute positions from the arguments.
  Operation *body = block.empty() ? nullptr : &block.front();
  rewriter.setInsertionPointToStart(&block);
  ValueRange arguments = block.getArguments().slice(first, 4);
  MaskPosition position = emitPosition(rewriter, arguments);
  auto isInBody = [&](OpOperand &use) {
    Operation *owner = block.findAncestorOpInBlock(*use.getOwner());
    return body && (owner == body || body->isBeforeInBlock(owner));
  };
  SmallVector<Value> seen = {position.batch, position.head, position.query,
                             position.key};
  for (auto [argument, value] : llvm::zip_equal(arguments, seen))
    rewriter.replaceUsesWithIf(argument, value, isInBody);
  return position;
}

/// Erases operations of `block` whose results are not used.
static void eraseUnused(RewriterBase &rewriter, Block &block) {
  SmallVector<Operation *> ops(
      llvm::make_pointer_range(block.without_terminator()));
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      rewriter.eraseOp(op);
}

/// Does so with `region`, whose arguments are (batch, head, query, key) from
/// number `first` on.
static void replaceInRegion(RewriterBase &rewriter, Region &region,
                            unsigned first, EmitPosition emitPosition) {
  if (region.empty())
    return;
  replaceArguments(rewriter, region.front(), first, emitPosition);
  eraseUnused(rewriter, region.front());
}

/// Moves the named mask into the mask_mod region.
static void replaceInMask(RewriterBase &rewriter, AttentionOpInterface op,
                          EmitPosition emitPosition) {
  MaskAttrInterface mask = op.getMaskAttr();
  Region &region = op.getMaskMod();
  if (!mask)
    return replaceInRegion(rewriter, region, /*first=*/0, emitPosition);
  addToMaskMod(rewriter, op, mask, [&](Block &block) {
    return replaceArguments(rewriter, block, /*first=*/0, emitPosition);
  });
  eraseUnused(rewriter, region.front());
  rewriter.modifyOpInPlace(op, [&] { op.removeMaskAttr(); });
}

void attn::replacePositions(RewriterBase &rewriter, AttentionOpInterface op,
                            EmitPosition emitPosition) {
  replaceInMask(rewriter, op, emitPosition);
  replaceInRegion(rewriter, op.getScoreMod(), /*first=*/1, emitPosition);
  if (auto grad = dyn_cast<AttentionGradOp>(op.getOperation()))
    replaceInRegion(rewriter, grad.getScoreModGrad(), /*first=*/2,
                    emitPosition);
}
