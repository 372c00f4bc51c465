//===- PingPong.cpp - Ping-pong of consumer warpgroups --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Orders the warpgroups of a consumer role, so that one starts its MMAs while
// another computes its softmax.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/IR/Remarks.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEPINGPONGPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

/// Brackets each run of MMA starts in `block` that no wait for an MMA and no
/// region interrupts. The ping-pong wait and arrive lie in one block, so that
/// they are balanced on every path.
static void bracketMmas(Block &block) {
  MmaStartOp first, last;
  auto close = [&] {
    if (!first)
      return;
    OpBuilder builder(first);
    PingpongWaitOp::create(builder, first.getLoc());
    builder.setInsertionPointAfter(last);
    PingpongArriveOp::create(builder, last.getLoc());
    first = last = nullptr;
  };
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto start = dyn_cast<MmaStartOp>(op)) {
      if (!first)
        first = start;
      last = start;
    } else if (isa<MmaWaitOp>(op) || op.getNumRegions() != 0) {
      close();
    }
  }
  close();
}

namespace {
struct AttnTilePingPongPass
    : KernelPass<AttnTilePingPongPass,
                 attn_tile::impl::AttnTilePingPongPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Specialized,
                                        KernelPhase::Specialized};

  void runOnKernel();
};
} // namespace

void AttnTilePingPongPass::runOnKernel() {
  KernelOp kernel = getOperation();
  bool applied = false;
  for (RoleOp role : kernel.getBody().getOps<RoleOp>()) {
    bool isPingpong = false;
    role.walk([&](PingpongWaitOp) { isPingpong = true; });
    if (role.getKind() != RoleKind::Consumer || role.getWarpgroups() < 2 ||
        isPingpong)
      continue;
    role.walk([](Block *block) { bracketMmas(*block); });
    applied = true;
  }
  if (!applied)
    remark::missed(kernel.getLoc(), remark::RemarkOpts::name("PingPong")
                                        .category(getArgument())
                                        .function(kernel.getName()))
        << "no consumer role has several warpgroups without ping-pong";
}
