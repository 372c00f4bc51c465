//===- OverlapLaunches.cpp - Start kernels early --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Programmatic dependent launch: a kernel that first waits for its predecessors
// may be launched before they end. A kernel that begins early takes room on the
// SMs, so that one of the two must be small.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEOVERLAPLAUNCHESPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

#define DEBUG_TYPE "attn-tile-overlap-launches"

using namespace mlir;
using namespace mlir::attn_tile;

/// Emits an `OpTy` at the start of `kernel`, if there is none.
template <typename OpTy>
static void emitAtStart(KernelOp kernel) {
  Block &entry = kernel.getBody().front();
  if (!entry.getOps<OpTy>().empty())
    return;
  OpBuilder builder = OpBuilder::atBlockBegin(&entry);
  OpTy::create(builder, kernel.getLoc());
}

/// Whether `kernel` computes with scalars alone, not with tiles.
static bool isSmall(KernelOp kernel) {
  return !kernel
              .walk([](Operation *op) {
                return llvm::any_of(op->getResultTypes(),
                                    llvm::IsaPred<VectorType>)
                           ? WalkResult::interrupt()
                           : WalkResult::advance();
              })
              .wasInterrupted();
}

namespace {
struct AttnTileOverlapLaunchesPass
    : public attn_tile::impl::AttnTileOverlapLaunchesPassBase<
          AttnTileOverlapLaunchesPass> {
  using Base::Base;

  void runOnOperation() override {
    SymbolTableCollection symbols;
    auto getKernel = [&](LaunchOp launch) {
      return dyn_cast_if_present<KernelOp>(
          symbols.lookupNearestSymbolFrom(launch, launch.getKernelAttr()));
    };
    getOperation().walk([&](Block *block) {
      LaunchOp last;
      for (Operation &op : *block) {
        auto launch = dyn_cast<LaunchOp>(op);
        if (!launch) {
          // Other work on the stream may be within regions and calls.
          if (op.getNumRegions() != 0 || isa<CallOpInterface>(op))
            last = nullptr;
          continue;
        }
        KernelOp kernel = getKernel(launch);
        KernelOp before = last ? getKernel(last) : nullptr;
        if (kernel && before && !launch.getTogether() &&
            launch.getStream() == last.getStream() &&
            (isSmall(kernel) || isSmall(before))) {
          emitAtStart<AwaitLaunchesOp>(kernel);
          emitAtStart<AllowLaunchesOp>(before);
          launch.setEarly(true);
          ++numEarly;
        }
        LDBG() << (launch.getEarly() ? "begins early: " : "begins in order: ")
               << launch;
        last = launch;
      }
    });
  }
};
} // namespace
