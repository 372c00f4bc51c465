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
// Asynchronous copies write 16 bytes at once, even if a row of the destination
// ends within them. If rows can end there, and strides can leave memory of
// other tensors between them, a branch stores such tiles from registers.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILESTAGESTORESPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

#define DEBUG_TYPE "attn-tile-stage-stores"

using namespace mlir;
using namespace mlir::attn_tile;

/// Rows of a tile that one warpgroup holds, and columns of one block of a
/// staged tile.
static constexpr int64_t blockRows = 64;
static constexpr int64_t blockColumns = 64;

/// 16-bit values that an asynchronous copy writes at once.
static constexpr int64_t granule = 8;

/// Whether `store` is of a tile that can be cut into blocks for `consumers`
/// warpgroups.
static bool canStage(StoreOp store, int64_t consumers) {
  int64_t columns =
      cast<MemRefType>(store.getDest().getType()).getShape().back();
  if (!ShapedType::isDynamic(columns) && columns % granule != 0)
    return false;
  auto tile = cast<VectorType>(store.getValue().getType());
  return !store.getTransposed() && !store.getFirst() && tile.getRank() == 2 &&
         isa<BFloat16Type, Float16Type>(tile.getElementType()) &&
         tile.getDimSize(0) == consumers * blockRows &&
         tile.getDimSize(1) % blockColumns == 0;
}

/// Begins a block that is executed if the rows of the destination of `store`
/// end where a granule ends, and moves `store` to the other one.
static OpBuilder branchOnColumns(StoreOp store) {
  OpBuilder builder(store);
  Location loc = store.getLoc();
  Value dest = store.getDest();
  int64_t dim = cast<MemRefType>(dest.getType()).getRank() - 1;
  Value columns = memref::DimOp::create(builder, loc, dest, dim);
  auto constant = [&](int64_t value) {
    return arith::ConstantIndexOp::create(builder, loc, value).getResult();
  };
  Value rest = arith::RemUIOp::create(builder, loc, columns, constant(granule));
  Value isWhole = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        rest, constant(0));
  auto branch =
      scf::IfOp::create(builder, loc, isWhole, /*withElseRegion=*/true);
  store->moveBefore(branch.elseBlock()->getTerminator());
  return branch.getThenBodyBuilder();
}

namespace {
struct AttnTileStageStoresPass
    : KernelPass<AttnTileStageStoresPass,
                 attn_tile::impl::AttnTileStageStoresPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain, KernelPhase::Staged,
                                        KernelPhase::Staged};

  void runOnKernel() {
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
      else
        LDBG() << "stays a store of registers: " << store;
    });
    for (StoreOp store : stores) {
      auto tile = cast<VectorType>(store.getValue().getType());
      auto atStart = OpBuilder::atBlockBegin(&kernel.getBody().front());
      auto type = PipeType::get(&getContext(), {blockRows, blockColumns},
                                tile.getElementType(), stages * consumers);
      Value pipe = CreatePipeOp::create(atStart, store.getLoc(), type,
                                        /*offset=*/IntegerAttr(),
                                        /*barriers=*/IntegerAttr());
      auto dest = cast<MemRefType>(store.getDest().getType());
      // Rows without memory between them end where a granule ends: tensor maps
      // have strides of granules.
      bool mayEndWithin = dest.isDynamicDim(dest.getRank() - 1) &&
                          !dest.getLayout().isIdentity();
      OpBuilder builder =
          mayEndWithin ? branchOnColumns(store) : OpBuilder(store);
      StoreThroughOp::create(builder, store.getLoc(), pipe, store.getValue(),
                             store.getDest(), store.getIndices());
      if (!mayEndWithin)
        store.erase();
      ++numStores;
    }
  }
};
} // namespace
