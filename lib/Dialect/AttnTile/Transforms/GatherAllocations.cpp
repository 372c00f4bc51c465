//===- GatherAllocations.cpp - Allocate before the first launch -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves allocations before the first launch, but not across a deallocation:
// that would raise the peak of memory.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEGATHERALLOCATIONSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

#define DEBUG_TYPE "attn-tile-gather-allocations"

using namespace mlir;
using namespace mlir::attn_tile;

/// Moves `alloc`, with the operations that compute its sizes, before `launch`
/// in the same block. Returns whether they could be moved.
static bool moveBefore(memref::AllocOp alloc, LaunchOp launch) {
  SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.omitBlockArguments = true;
  options.filter = [&](Operation *op) {
    return op->getBlock() == launch->getBlock() && launch->isBeforeInBlock(op);
  };
  if (failed(getBackwardSlice(alloc.getOperation(), &slice, options)))
    return false;
  if (llvm::any_of(slice, [&](Operation *op) {
        return op->getNumRegions() != 0 || !isMemoryEffectFree(op);
      }))
    return false;
  for (Operation *op : slice)
    op->moveBefore(launch);
  alloc->moveBefore(launch);
  return true;
}

namespace {
struct AttnTileGatherAllocationsPass
    : public attn_tile::impl::AttnTileGatherAllocationsPassBase<
          AttnTileGatherAllocationsPass> {
  using Base::Base;

  void runOnOperation() override {
    getOperation().walk([&](Block *block) {
      // The first launch since a buffer was freed.
      LaunchOp first;
      for (Operation &op : llvm::make_early_inc_range(*block)) {
        if (isa<memref::DeallocOp>(op))
          first = nullptr;
        else if (auto launch = dyn_cast<LaunchOp>(op); launch && !first)
          first = launch;
        else if (auto alloc = dyn_cast<memref::AllocOp>(op); alloc && first) {
          bool isMoved = moveBefore(alloc, first);
          LDBG() << (isMoved ? "moved before the launches: "
                             : "depends on a launch: ")
                 << alloc;
          if (isMoved)
            ++numMoved;
        }
      }
    });
  }
};
} // namespace
