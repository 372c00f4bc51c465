//===- LoopChains.cpp - Consecutive loops over one range -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the loops of a chain, and the operations on which an operation in a
// step depends.
//
//===----------------------------------------------------------------------===//

#include "LoopChains.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

scf::ForOp attn_tile::getNextLoop(scf::ForOp loop) {
  for (Operation *user : loop->getUsers()) {
    auto next = dyn_cast<scf::ForOp>(user);
    if (next && next->getBlock() == loop->getBlock() &&
        llvm::equal(next.getInitArgs(), loop.getResults()) &&
        isEqualConstantIntOrValue(next.getLowerBound(), loop.getUpperBound()) &&
        isEqualConstantIntOrValue(next.getStep(), loop.getStep()))
      return next;
  }
  return nullptr;
}

bool attn_tile::hasPreviousLoop(scf::ForOp loop) {
  return llvm::any_of(loop.getInitArgs(), [&](Value init) {
    auto previous = init.getDefiningOp<scf::ForOp>();
    return previous && getNextLoop(previous) == loop;
  });
}

void attn_tile::collectSlice(Operation *op, Block *block,
                             SetVector<Operation *> &slice,
                             SetVector<Value> &inputs) {
  if (slice.contains(op))
    return;
  op->walk([&](Operation *nested) {
    for (Value value : nested->getOperands()) {
      Operation *def = value.getDefiningOp();
      if (op->isAncestor(value.getParentBlock()->getParentOp()))
        continue;
      if (def && def->getBlock() == block)
        collectSlice(def, block, slice, inputs);
      else
        inputs.insert(value);
    }
  });
  slice.insert(op);
}

void attn_tile::guardSteps(RewriterBase &rewriter, scf::ForOp loop) {
  Location loc = loop.getLoc();
  rewriter.setInsertionPoint(loop);
  Value any = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::slt,
                                    loop.getLowerBound(), loop.getUpperBound());
  auto guard = scf::IfOp::create(rewriter, loc, loop.getResultTypes(), any,
                                 /*addThenBlock=*/true, /*addElseBlock=*/true);
  rewriter.replaceAllUsesWith(loop.getResults(), guard.getResults());
  rewriter.moveOpBefore(loop, guard.thenBlock(), guard.thenBlock()->end());
  rewriter.setInsertionPointToEnd(guard.thenBlock());
  scf::YieldOp::create(rewriter, loc, loop.getResults());
  rewriter.setInsertionPointToEnd(guard.elseBlock());
  scf::YieldOp::create(rewriter, loc, loop.getInitArgs());
}
