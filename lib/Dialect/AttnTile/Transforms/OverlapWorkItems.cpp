//===- OverlapWorkItems.cpp - Start the MMAs of work items at once --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves the first MMA of a work item of consumers to the beginning of the item.
// It needs only the positions of its operands in their pipes. The indices of
// the work item are computed while the MMA is in flight.
//
//===----------------------------------------------------------------------===//

#include "LoopChains.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEOVERLAPWORKITEMSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

#define DEBUG_TYPE "attn-tile-overlap-work-items"

using namespace mlir;
using namespace mlir::attn_tile;

/// The operations of its block that `start` needs, itself included, in order.
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
struct AttnTileOverlapWorkItemsPass
    : KernelPass<AttnTileOverlapWorkItemsPass,
                 attn_tile::impl::AttnTileOverlapWorkItemsPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Specialized,
                                        KernelPhase::Specialized};

  void runOnKernel();
};
} // namespace

void AttnTileOverlapWorkItemsPass::runOnKernel() {
  for (RoleOp role : getOperation().getBody().getOps<RoleOp>()) {
    if (role.getKind() != RoleKind::Consumer)
      continue;
    for (auto loop : role.getBody().getOps<scf::ForOp>()) {
      Block *body = loop.getBody();
      auto starts = body->getOps<MmaStartOp>();
      if (starts.empty())
        continue;
      SmallVector<Operation *> needed = getNeeded(*starts.begin());
      // Only waits for stages, clears and pure operations may move to the
      // front.
      auto isOther = [](Operation *op) {
        return !isa<WaitOp, ClearOp, MmaStartOp>(op) && !isPure(op);
      };
      if (auto *it = llvm::find_if(needed, isOther); it != needed.end()) {
        LDBG() << "the first MMA needs an operation that must not move: "
               << **it;
        continue;
      }
      for (Operation *op : llvm::reverse(needed))
        op->moveBefore(body, body->begin());
      ++numLoops;
    }
  }
}
