//===- StageStores.cpp - Store tiles through shared memory ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes stores of whole tiles go through stages of their own, so that the CTA
// goes on while the tiles are copied to global memory.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILESTAGESTORESPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

/// Rows of a tile that one warpgroup holds, and columns of one block of a
/// staged tile.
static constexpr int64_t blockRows = 64;
static constexpr int64_t blockColumns = 64;

/// Whether `store` is of a tile that can be cut into blocks for `consumers`
/// warpgroups.
static bool canStage(StoreOp store, int64_t consumers) {
  auto tile = cast<VectorType>(store.getValue().getType());
  return !store.getTransposed() && !store.getFirst() && tile.getRank() == 2 &&
         isa<BFloat16Type, Float16Type>(tile.getElementType()) &&
         tile.getDimSize(0) == consumers * blockRows &&
         tile.getDimSize(1) % blockColumns == 0;
}

namespace {
struct AttnTileStageStoresPass
    : public attn_tile::impl::AttnTileStageStoresPassBase<
          AttnTileStageStoresPass> {
  using Base::Base;

  void runOnOperation() override {
    KernelOp kernel = getOperation();
    if (stages <= 0 || consumers <= 0) {
      kernel.emitError(
          "stores need at least one stage and consumer (asked for ")
          << stages.getValue() << " and " << consumers.getValue() << ")";
      return signalPassFailure();
    }
    if (stages > PipeType::maxStages / consumers) {
      kernel.emitError("stores can have ")
          << PipeType::maxStages << " stages at most (asked for "
          << stages.getValue() << " for each of " << consumers.getValue()
          << " consumers)";
      return signalPassFailure();
    }
    SmallVector<StoreOp> stores;
    kernel.walk([&](StoreOp store) {
      if (canStage(store, consumers))
        stores.push_back(store);
    });
    for (StoreOp store : stores) {
      auto tile = cast<VectorType>(store.getValue().getType());
      auto atStart = OpBuilder::atBlockBegin(&kernel.getBody().front());
      auto type = PipeType::get(&getContext(), {blockRows, blockColumns},
                                tile.getElementType(), stages * consumers);
      Value pipe = CreatePipeOp::create(atStart, store.getLoc(), type,
                                        /*offset=*/IntegerAttr(),
                                        /*barriers=*/IntegerAttr());
      OpBuilder builder(store);
      StoreThroughOp::create(builder, store.getLoc(), pipe, store.getValue(),
                             store.getDest(), store.getIndices());
      store.erase();
      ++numStores;
    }
  }
};
} // namespace
