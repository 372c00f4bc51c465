//===- HoistLoads.cpp - Load tiles to registers one step ahead ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile that a step loads to registers, such as a score bias, is loaded in the
// previous step, once its registers are free. The same holds for a computed
// tile that is the accumulator input of a matmul, such as a bias that is linear
// in the distance. Keep masks of dropout may be loaded while the last MMA of
// the previous step is in flight, and row values and scalars where the previous
// step begins.
//
//===----------------------------------------------------------------------===//

#include "LoopChains.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/DebugLog.h"

#include <optional>

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEHOISTLOADSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

#define DEBUG_TYPE "attn-tile-hoist-loads"

using namespace mlir;
using namespace mlir::attn_tile;

/// Collects the operations in the body of `loop` on which `value` depends, in
/// order. Fails unless all of them are pure computation on the induction
/// variable.
static LogicalResult collectSlice(scf::ForOp loop, Value value,
                                  SetVector<Operation *> &slice) {
  if (loop.isDefinedOutsideOfLoop(value) || value == loop.getInductionVar())
    return success();
  Operation *def = value.getDefiningOp();
  if (!def || def->getBlock() != loop.getBody() || !isPure(def) ||
      def->getNumRegions() != 0)
    return failure();
  for (Value operand : def->getOperands())
    if (failed(collectSlice(loop, operand, slice)))
      return failure();
  slice.insert(def);
  return success();
}

namespace {
/// A load, a map or a load of a keep mask, and the operations in the body of
/// its loop from which it is computed.
struct AheadOp {
  Operation *op;
  SetVector<Operation *> slice;

  /// Emits the value of step `iv`.
  Value emit(OpBuilder &builder, scf::ForOp loop, Value iv) {
    IRMapping mapping;
    mapping.map(loop.getInductionVar(), iv);
    for (Operation *op : slice)
      builder.clone(*op, mapping);
    return builder.clone(*op, mapping)->getResult(0);
  }
};

struct AttnTileHoistLoadsPass
    : KernelPass<AttnTileHoistLoadsPass,
                 attn_tile::impl::AttnTileHoistLoadsPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain,
                                        KernelPhase::Specialized};

  void runOnKernel() {
    if (keepMask && rows) {
      getOperation().emitError(
          "either keep masks or rows are loaded ahead, not both");
      return signalPassFailure();
    }
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    IRRewriter rewriter(&getContext());
    for (scf::ForOp loop : loops)
      rewrite(rewriter, loop);
  }

private:
  void add(SmallVectorImpl<AheadOp> &ahead, Operation *candidate,
           std::optional<AheadOp> op, Statistic &count);
  SmallVector<AheadOp> collectRows(scf::ForOp loop);
  SmallVector<AheadOp> collect(scf::ForOp loop);
  void rewrite(RewriterBase &rewriter, scf::ForOp loop);
};
} // namespace

/// `load`, if the previous step may execute it.
static std::optional<AheadOp> getAheadLoad(scf::ForOp loop, LoadOp load) {
  AheadOp ahead{load, {}};
  if (load.getPosition() ||
      cast<VectorType>(load.getResult().getType()).getRank() != 2 ||
      !loop.isDefinedOutsideOfLoop(load.getSource()))
    return std::nullopt;
  for (Value operand : load->getOperands())
    if (failed(collectSlice(loop, operand, ahead.slice)))
      return std::nullopt;
  return ahead;
}

/// Whether an operation in `loop` may store to `memref`. Arguments of a kernel
/// do not alias.
static bool isStored(scf::ForOp loop, Value memref) {
  return llvm::any_of(memref.getUsers(), [&](Operation *user) {
    return loop->isAncestor(user) &&
           !isa<LoadOp, CopyOp, memref::LoadOp, memref::DimOp>(user);
  });
}

/// `load`, of row values or a scalar, if the previous step may execute it.
template <typename OpTy>
static std::optional<AheadOp> getAheadRow(scf::ForOp loop, OpTy load,
                                          Value source) {
  AheadOp ahead{load, {}};
  auto tile = dyn_cast<VectorType>(load.getResult().getType());
  if ((tile && tile.getRank() != 1) || !loop.isDefinedOutsideOfLoop(source) ||
      isStored(loop, source))
    return std::nullopt;
  for (Value operand : load->getOperands())
    if (failed(collectSlice(loop, operand, ahead.slice)))
      return std::nullopt;
  return ahead;
}

/// The accumulator input of `matmul`, if it is computed from positions alone.
/// Values that are read from memory would stay in registers for too long.
static std::optional<AheadOp> getAheadAddend(scf::ForOp loop,
                                             vector::ContractionOp matmul) {
  auto map = matmul.getAcc().getDefiningOp<MapOp>();
  if (!map || map->getBlock() != loop.getBody() || !map->hasOneUse() ||
      !map.getOthers().empty())
    return std::nullopt;
  bool reads = map.getBody()
                   .walk([](Operation *op) {
                     return isMemoryEffectFree(op) ? WalkResult::advance()
                                                   : WalkResult::interrupt();
                   })
                   .wasInterrupted();
  if (reads)
    return std::nullopt;
  AheadOp ahead{map, {}};
  SetVector<Value> used(map->operand_begin(), map->operand_end());
  getUsedValuesDefinedAbove(map->getRegions(), used);
  for (Value value : used)
    if (failed(collectSlice(loop, value, ahead.slice)))
      return std::nullopt;
  return ahead;
}

/// `keepMask`, if the previous step may load it.
static std::optional<AheadOp> getAheadKeepMask(scf::ForOp loop,
                                               LoadKeepMaskOp keepMask) {
  AheadOp ahead{keepMask, {}};
  for (Value operand : keepMask->getOperands())
    if (failed(collectSlice(loop, operand, ahead.slice)))
      return std::nullopt;
  return ahead;
}

/// The last MMA that a step of `loop` starts.
static Operation *getLastMma(scf::ForOp loop) {
  Operation *last = nullptr;
  for (auto mma : loop.getBody()->getOps<MmaStartOp>())
    last = mma;
  return last;
}

/// The last operation of the body of `loop` that uses the result of `op`, or
/// `op`.
static Operation *getLastUser(scf::ForOp loop, Operation *op) {
  Operation *last = op;
  for (Operation *user : op->getUsers()) {
    Operation *ancestor = loop.getBody()->findAncestorOpInBlock(*user);
    if (last->isBeforeInBlock(ancestor))
      last = ancestor;
  }
  return last;
}

void AttnTileHoistLoadsPass::add(SmallVectorImpl<AheadOp> &ahead,
                                 Operation *candidate,
                                 std::optional<AheadOp> op, Statistic &count) {
  LDBG() << (op ? "the previous step executes " : "stays in its step: ")
         << *candidate;
  if (!op)
    return;
  ahead.push_back(std::move(*op));
  ++count;
}

/// The row values and scalars that the previous step may load, if a step
/// multiplies tiles.
SmallVector<AheadOp> AttnTileHoistLoadsPass::collectRows(scf::ForOp loop) {
  SmallVector<AheadOp> ahead;
  if (loop.getBody()->getOps<vector::ContractionOp>().empty())
    return ahead;
  for (auto load : loop.getBody()->getOps<LoadOp>())
    if (!load.getPosition())
      add(ahead, load, getAheadRow(loop, load, load.getSource()), numLoads);
  for (auto load : loop.getBody()->getOps<memref::LoadOp>())
    add(ahead, load, getAheadRow(loop, load, load.getMemRef()), numLoads);
  return ahead;
}

SmallVector<AheadOp> AttnTileHoistLoadsPass::collect(scf::ForOp loop) {
  if (rows)
    return collectRows(loop);
  SmallVector<AheadOp> ahead;
  if (keepMask) {
    if (getLastMma(loop))
      for (auto op : loop.getBody()->getOps<LoadKeepMaskOp>())
        add(ahead, op, getAheadKeepMask(loop, op), numKeepMasks);
    return ahead;
  }
  for (auto load : loop.getBody()->getOps<LoadOp>())
    add(ahead, load, getAheadLoad(loop, load), numLoads);
  for (auto matmul : loop.getBody()->getOps<vector::ContractionOp>())
    add(ahead, matmul, getAheadAddend(loop, matmul), numAddends);
  return ahead;
}

/// Emits what the first step of `loop` uses, or zeros if it has no steps:
/// nothing may exist then.
static SmallVector<Value> emitFirst(OpBuilder &builder, scf::ForOp loop,
                                    MutableArrayRef<AheadOp> ahead) {
  Location loc = loop.getLoc();
  Value isStep =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                            loop.getLowerBound(), loop.getUpperBound());
  auto types = llvm::map_to_vector(
      ahead, [](AheadOp &op) { return op.op->getResult(0).getType(); });
  auto branch = scf::IfOp::create(builder, loc, types, isStep,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, loc,
                       llvm::map_to_vector(ahead, [&](AheadOp &op) {
                         return op.emit(builder, loop, loop.getLowerBound());
                       }));
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc,
                       llvm::map_to_vector(types, [&](Type type) -> Value {
                         return arith::ConstantOp::create(
                             builder, loc, builder.getZeroAttr(type));
                       }));
  return llvm::to_vector_of<Value>(branch.getResults());
}

void AttnTileHoistLoadsPass::rewrite(RewriterBase &rewriter, scf::ForOp loop) {
  SmallVector<AheadOp> ahead = collect(loop);
  if (ahead.empty())
    return;
  // A loop without steps has no keep mask to load.
  if (keepMask)
    guardSteps(rewriter, loop);

  rewriter.setInsertionPoint(loop);
  SmallVector<Value> first, next;
  if (rows)
    first = emitFirst(rewriter, loop, ahead);
  else
    for (AheadOp &op : ahead)
      first.push_back(op.emit(rewriter, loop, loop.getLowerBound()));
  for (AheadOp &op : ahead) {
    Location loc = op.op->getLoc();
    // Load once the registers are free. The accumulators of a step are free at
    // its end.
    if (keepMask)
      rewriter.setInsertionPointAfter(getLastMma(loop));
    else if (rows)
      rewriter.setInsertionPointToStart(loop.getBody());
    else if (isa<LoadOp>(op.op))
      rewriter.setInsertionPointAfter(getLastUser(loop, op.op));
    else
      rewriter.setInsertionPoint(loop.getBody()->getTerminator());
    Value iv = loop.getInductionVar();
    Value following = arith::AddIOp::create(rewriter, loc, iv, loop.getStep());
    // Loads of keep masks and of rows, unlike loads of tiles, may not be
    // checked against the bounds of their source.
    if (keepMask || rows) {
      Value isStep =
          arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::slt,
                                following, loop.getUpperBound());
      following = arith::SelectOp::create(rewriter, loc, isStep, following, iv);
    }
    next.push_back(op.emit(rewriter, loop, following));
  }
  auto yieldNext = [&](OpBuilder &, Location, ArrayRef<BlockArgument> args) {
    for (auto [op, arg] : llvm::zip_equal(ahead, args))
      rewriter.replaceAllUsesWith(op.op->getResult(0), arg);
    return next;
  };
  if (failed(loop.replaceWithAdditionalYields(
          rewriter, first, /*replaceInitOperandUsesInLoop=*/false, yieldNext)))
    return signalPassFailure();
  for (AheadOp &op : ahead)
    rewriter.eraseOp(op.op);
}
