//===- SetLayout.cpp - Spread register tiles over warps ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses the layout of register tiles of a kernel without roles.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILESETLAYOUTPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
struct AttnTileSetLayoutPass
    : KernelPass<AttnTileSetLayoutPass,
                 attn_tile::impl::AttnTileSetLayoutPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain, KernelPhase::Staged,
                                        KernelPhase::Specialized};

  void runOnKernel();
};
} // namespace

void AttnTileSetLayoutPass::runOnKernel() {
  KernelOp kernel = getOperation();
  auto layout = RowBlockLayoutAttr::getChecked(
      [&] { return kernel.emitError(); }, &getContext(), warps.getValue());
  if (!layout)
    return signalPassFailure();
  WalkResult walk = kernel.walk([&](MmaStartOp start) -> WalkResult {
    VectorType tile = start.getResult().getType().getValueType();
    if (layout.supports(tile.getShape()))
      return success();
    return start.emitOpError("result ")
           << tile << " cannot be spread over " << warps.getValue() << " warps";
  });
  if (walk.wasInterrupted())
    return signalPassFailure();
  kernel.setLayoutAttr(layout);
}
