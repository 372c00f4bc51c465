//===- MaskMod.cpp - Named masks in the mask_mod region -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MaskMod.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::attn;

void attn::addToMaskMod(RewriterBase &rewriter, AttentionOpInterface op,
                        ArrayRef<MaskAttrInterface> masks,
                        function_ref<MaskPosition(Block &)> emitPosition) {
  OpBuilder::InsertionGuard guard(rewriter);
  Location loc = op.getLoc();
  Region &region = op.getMaskMod();
  Value predicate;
  if (region.empty()) {
    SmallVector<Type> types(4, rewriter.getIndexType());
    SmallVector<Location> locs(types.size(), loc);
    rewriter.createBlock(&region, {}, types, locs);
  } else {
    Operation *yield = region.front().getTerminator();
    predicate = yield->getOperand(0);
    rewriter.eraseOp(yield);
    rewriter.setInsertionPointToEnd(&region.front());
  }
  MaskPosition position = emitPosition(region.front());
  for (MaskAttrInterface mask : masks) {
    Value kept = mask.emitPredicate(rewriter, loc, position);
    predicate =
        predicate
            ? arith::AndIOp::create(rewriter, loc, predicate, kept).getResult()
            : kept;
  }
  YieldOp::create(rewriter, loc, predicate);
}
