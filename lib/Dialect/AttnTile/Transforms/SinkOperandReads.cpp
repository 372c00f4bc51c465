//===- SinkOperandReads.cpp - Read register operands late -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves the read of a tile that a work item keeps in registers to the first MMA
// that takes it, behind the MMAs before it, and releases its stage there. The
// tile of the next work item can then be loaded while this one is computed.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILESINKOPERANDREADSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
/// A tile that a work item reads once and keeps in registers.
struct KeptTile {
  WaitOp wait;
  ReadOp read;
  SmallVector<ClearOp> clears;
  /// The release of its stage, in the block of the read.
  ReleaseOp release;
  /// The branch that contains all users of the tile, and the first user.
  scf::IfOp guard;
  Operation *first = nullptr;
};
} // namespace

/// Finds the users of the tile of `read`; returns failure, with a reason, if it
/// cannot be read later.
static LogicalResult findUses(KeptTile &tile, StringRef &reason) {
  Block *block = tile.read->getBlock();
  tile.wait = tile.read.getBuffer().getDefiningOp<WaitOp>();
  if (!tile.wait || tile.wait->getBlock() != block) {
    reason = "the stage of the tile is not waited for where it is read";
    return failure();
  }
  for (Operation *user : tile.wait.getBuffer().getUsers()) {
    auto clear = dyn_cast<ClearOp>(user);
    if (clear && clear->getBlock() == block &&
        clear->isBeforeInBlock(tile.read)) {
      tile.clears.push_back(clear);
    } else if (auto release = dyn_cast<ReleaseOp>(user)) {
      tile.release = release;
    } else if (user != tile.read) {
      reason = "the stage of the tile is used by others as well";
      return failure();
    }
  }
  for (Operation *user : tile.read->getUsers()) {
    auto guard = dyn_cast<scf::IfOp>(block->findAncestorOpInBlock(*user));
    if (!guard || (tile.guard && guard != tile.guard) || !guard.elseBlock() ||
        !guard.getThenRegion().isAncestor(user->getParentRegion())) {
      reason = "the users of the tile are not in one branch";
      return failure();
    }
    tile.guard = guard;
    Operation *inBranch = guard.thenBlock()->findAncestorOpInBlock(*user);
    if (!tile.first || inBranch->isBeforeInBlock(tile.first))
      tile.first = inBranch;
  }
  if (!tile.release || tile.release->getBlock() != block ||
      tile.release.getAfter() || !tile.guard ||
      !tile.guard->isBeforeInBlock(tile.release)) {
    reason =
        "the stage of the tile is not released after all users of the tile";
    return failure();
  }
  // Operations other than MMAs may take registers later than they are issued.
  if (!isa_and_present<MmaStartOp>(tile.first)) {
    reason = "the first user of the tile is no MMA";
    return failure();
  }
  return success();
}

namespace {
struct AttnTileSinkOperandReadsPass
    : KernelPass<AttnTileSinkOperandReadsPass,
                 attn_tile::impl::AttnTileSinkOperandReadsPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Specialized,
                                        KernelPhase::Specialized};

  void runOnKernel();
};
} // namespace

void AttnTileSinkOperandReadsPass::runOnKernel() {
  SmallVector<ReadOp> reads;
  for (RoleOp role : getOperation().getBody().getOps<RoleOp>()) {
    if (role.getKind() != RoleKind::Consumer)
      continue;
    role.walk([&](ReadOp read) {
      // Single rows belong to steps, not to work items.
      if (cast<VectorType>(read.getTile().getType()).getDimSize(0) != 1)
        reads.push_back(read);
    });
  }
  for (ReadOp read : reads) {
    KeptTile tile;
    tile.read = read;
    StringRef reason;
    if (failed(findUses(tile, reason))) {
      remark::missed(read.getLoc(), remark::RemarkOpts::name("SinkOperandReads")
                                        .category(getArgument())
                                        .function(getOperation().getName()))
          << reason;
      continue;
    }
    // If a work item has no steps, the stage is released unread.
    Block *unused = tile.guard.elseBlock();
    auto builder = OpBuilder::atBlockBegin(unused);
    auto wait = cast<WaitOp>(builder.clone(*tile.wait));
    builder.clone(*tile.release)
        ->replaceUsesOfWith(tile.wait.getBuffer(), wait.getBuffer());
    tile.wait->moveBefore(tile.first);
    for (ClearOp clear : llvm::reverse(tile.clears))
      clear->moveBefore(tile.first);
    read->moveBefore(tile.first);
    // An MMA takes its registers when it is started.
    tile.release->moveAfter(tile.first);
    ++numReads;
  }
}
