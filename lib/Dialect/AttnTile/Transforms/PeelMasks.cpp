//===- PeelMasks.cpp - Mask-free loops over full key tiles ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Splits each loop over key tiles in two. The second loop visits the tiles that
// no mask cuts.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/Transforms/KVTileIterator.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEPEELMASKSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

#define DEBUG_TYPE "attn-tile-peel-masks"

using namespace mlir;
using namespace mlir::attn_tile;

/// Whether `loop` visits all steps of `tiles`.
static bool isLoopOver(scf::ForOp loop, KVTileIteratorOp tiles) {
  return loop.getUpperBound() == tiles.getCount() &&
         isConstantIntValue(loop.getLowerBound(), 0) &&
         isConstantIntValue(loop.getStep(), 1);
}

/// Whether two regions compute the same from the same values.
static bool isSameRegion(Region &lhs, Region &rhs) {
  return OperationEquivalence::isRegionEquivalentTo(
      &lhs, &rhs, OperationEquivalence::IgnoreLocations);
}

/// Erases the masks of `loop` that `tiles` accounts for. A mask with another
/// attribute or region stays.
static void eraseKnownMasks(RewriterBase &rewriter, scf::ForOp loop,
                            KVTileIteratorOp tiles) {
  // Mask bits exist only for tiles that are listed as masked.
  SmallVector<ApplyMaskBitsOp> keeps;
  loop.walk([&](ApplyMaskBitsOp keep) { keeps.push_back(keep); });
  for (ApplyMaskBitsOp keep : keeps) {
    Operation *load = keep.getBits().getDefiningOp();
    rewriter.replaceOp(keep, keep.getSource());
    if (load && isOpTriviallyDead(load))
      rewriter.eraseOp(load);
  }
  SmallVector<MaskOp> masks;
  loop.walk([&](MaskOp mask) {
    if (!mask.getMaskAttr() || mask.getMaskAttr() == tiles.getMaskAttr())
      masks.push_back(mask);
  });
  for (MaskOp mask : masks) {
    if (mask.getMaskMod().empty() ||
        isSameRegion(mask.getMaskMod(), tiles.getMaskMod()))
      rewriter.replaceOp(mask, mask.getSource());
    else
      rewriter.modifyOpInPlace(mask, [&] { mask.removeMaskAttr(); });
  }
}

/// Appends a copy of `loop` over the steps from its upper bound to `end`. The
/// copy takes over the users of the results of `loop`.
static scf::ForOp appendLoop(RewriterBase &rewriter, scf::ForOp loop,
                             Value end) {
  rewriter.setInsertionPointAfter(loop);
  auto next = cast<scf::ForOp>(rewriter.clone(*loop));
  rewriter.replaceAllUsesWith(loop.getResults(), next.getResults());
  next.setLowerBound(loop.getUpperBound());
  next.setUpperBound(end);
  next.getInitArgsMutable().assign(loop.getResults());
  return next;
}

/// Removes `loop` if it has no steps. Returns whether it did.
static bool removeIfEmpty(RewriterBase &rewriter, scf::ForOp loop) {
  std::optional<int64_t> begin = getConstantIntValue(loop.getLowerBound());
  std::optional<int64_t> end = getConstantIntValue(loop.getUpperBound());
  bool isEmpty = loop.getLowerBound() == loop.getUpperBound() ||
                 (begin && end && *begin >= *end);
  if (!isEmpty)
    return false;
  rewriter.replaceOp(loop, loop.getInitArgs());
  return true;
}

namespace {
struct PeelMasks
    : KernelPass<PeelMasks, attn_tile::impl::AttnTilePeelMasksPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain, KernelPhase::Plain};

  void runOnKernel() {
    SmallVector<KVTileIteratorOp> worklist;
    getOperation().walk([&](KVTileIteratorOp op) { worklist.push_back(op); });
    IRRewriter rewriter(&getContext());
    for (KVTileIteratorOp tiles : worklist)
      peel(rewriter, tiles);
  }

private:
  void peel(RewriterBase &rewriter, KVTileIteratorOp tiles) {
    SmallVector<scf::ForOp> loops;
    for (Operation *user : tiles.getCount().getUsers())
      if (auto loop = dyn_cast<scf::ForOp>(user))
        if (isLoopOver(loop, tiles) && !llvm::is_contained(loops, loop))
          loops.push_back(loop);

    LDBG() << "splits " << loops.size() << " loops over " << tiles;
    SmallVector<scf::ForOp> parts;
    for (scf::ForOp masked : loops) {
      masked.setUpperBound(tiles.getMasked());
      scf::ForOp full = appendLoop(rewriter, masked, tiles.getCount());
      eraseKnownMasks(rewriter, full, tiles);
      parts.append({masked, full});
    }
    expandKVTileIterator(rewriter, tiles);
    for (scf::ForOp loop : parts)
      if (!removeIfEmpty(rewriter, loop))
        ++numLoops;
  }
};
} // namespace
