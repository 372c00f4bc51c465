//===- StartItems.cpp - Start the products of work items at once ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves the first product of a work item of consumers to the beginning of the
// item. The positions of its operands in their pipes are all that it needs;
// which item it is, is computed while the product is in flight.
//
//===----------------------------------------------------------------------===//

#include "LoopChains.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILESTARTITEMSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

/// What `start` needs of its block, itself included, in order.
static SmallVector<Operation *> getNeeded(MmaStartOp start) {
  Block *block = start->getBlock();
  SetVector<Operation *> slice;
  SetVector<Value> inputs;
  collectSlice(start, block, slice, inputs);
  // Rows of a stage may have to be cleared before it is read.
  for (Value operand : start->getOperands())
    for (Operation *user : operand.getUsers())
      if (isa<ClearOp>(user) && user->getBlock() == block &&
          user->isBeforeInBlock(start))
        collectSlice(user, block, slice, inputs);
  SmallVector<Operation *> needed = slice.takeVector();
  llvm::sort(needed, [](Operation *lhs, Operation *rhs) {
    return lhs->isBeforeInBlock(rhs);
  });
  return needed;
}

namespace {
struct AttnTileStartItemsPass
    : public attn_tile::impl::AttnTileStartItemsPassBase<
          AttnTileStartItemsPass> {
  using Base::Base;

  void runOnOperation() override;
};
} // namespace

void AttnTileStartItemsPass::runOnOperation() {
  for (RoleOp role : getOperation().getBody().getOps<RoleOp>()) {
    if (role.getKind() != RoleKind::Consumer)
      continue;
    for (auto loop : role.getBody().getOps<scf::ForOp>()) {
      Block *body = loop.getBody();
      auto starts = body->getOps<MmaStartOp>();
      if (starts.empty())
        continue;
      SmallVector<Operation *> needed = getNeeded(*starts.begin());
      // Nothing that is waited for, or that computes on tiles, is moved over.
      auto isOther = [](Operation *op) {
        return !isa<WaitOp, ClearOp, MmaStartOp>(op) && !isPure(op);
      };
      if (llvm::any_of(needed, isOther))
        continue;
      for (Operation *op : llvm::reverse(needed))
        op->moveBefore(body, body->begin());
      ++numItems;
    }
  }
}
