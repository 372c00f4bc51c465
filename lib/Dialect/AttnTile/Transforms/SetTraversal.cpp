//===- SetTraversal.cpp - How groups walk over work items ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces the parallel loop over work items by what one group does
// (ItemWalks), and gives the launches of the kernel a grid.
//
//===----------------------------------------------------------------------===//

#include "ItemWalks.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILESETTRAVERSALPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

/// Moves the body of `forall` before the builder's insertion point.
static void inlineBody(IndexBuilder &builder, scf::ForallOp forall,
                       ValueRange indices) {
  for (auto [iv, index] : llvm::zip_equal(forall.getInductionVars(), indices))
    iv.replaceAllUsesWith(index);
  Block *body = forall.getBody();
  body->getTerminator()->erase();
  builder.getInsertionBlock()->getOperations().splice(
      builder.getInsertionPoint(), body->getOperations());
}

namespace {
/// The loads whose streams have one length.
struct Streams {
  OpFoldResult length;
  SmallVector<LoadOp> loads;
};
} // namespace

static SmallVector<Streams> collectStreams(Block *body) {
  SmallVector<Streams> all;
  body->walk([&](LoadOp load) {
    if (!load.getLength())
      return;
    OpFoldResult length = getAsOpFoldResult(load.getLength());
    auto *streams = llvm::find_if(
        all, [&](const Streams &other) { return other.length == length; });
    if (streams == all.end())
      streams = all.insert(all.end(), Streams{length, {}});
    streams->loads.push_back(load);
  });
  return all;
}

/// Adds what `value` depends on in the body of `loop`, in order, to `slice`;
/// fails if that is more than loads and computation on the number of the step.
static LogicalResult collectItemSlice(Value value, scf::ForOp loop,
                                      SetVector<Operation *> &slice) {
  Operation *op = value.getDefiningOp();
  if (value.getParentBlock() != loop.getBody() || slice.contains(op))
    return success();
  if (!op)
    return success(value == loop.getInductionVar());
  if (op->getNumRegions() != 0 ||
      (!isMemoryEffectFree(op) && !isa<memref::LoadOp>(op)))
    return failure();
  for (Value operand : op->getOperands())
    if (failed(collectItemSlice(operand, loop, slice)))
      return failure();
  slice.insert(op);
  return success();
}

/// Makes each step find out early which item the next step has, `indices`, and
/// load what describes it, so that no step begins by waiting for memory.
/// `count` is the number of steps.
static void loadItemsEarly(IndexBuilder &builder, scf::ForOp loop, Value count,
                           ValueRange indices) {
  SmallVector<Value> values;
  SetVector<Operation *> slice;
  auto add = [&](Value value) {
    SetVector<Operation *> longer = slice;
    if (value.getParentBlock() != loop.getBody() ||
        llvm::is_contained(values, value) ||
        failed(collectItemSlice(value, loop, longer)))
      return;
    slice = std::move(longer);
    values.push_back(value);
  };
  for (auto load : loop.getBody()->getOps<memref::LoadOp>())
    add(load.getResult());
  if (values.empty())
    return;
  for (Value index : indices)
    add(index);
  auto emitValues = [&](OpBuilder &inner, Value step) {
    IRMapping map;
    map.map(loop.getInductionVar(), step);
    for (Operation *op : slice)
      inner.clone(*op, map);
    return llvm::map_to_vector(values,
                               [&](Value value) { return map.lookup(value); });
  };

  // The item of the first step, if there is one.
  builder.setInsertionPoint(loop);
  Value zero = builder.constant(0), one = builder.constant(1);
  Value exists =
      arith::CmpIOp::create(builder, arith::CmpIPredicate::ugt, count, zero);
  auto first = scf::IfOp::create(
      builder, exists,
      [&](OpBuilder &inner, Location loc) {
        scf::YieldOp::create(inner, loc, emitValues(inner, zero));
      },
      [&](OpBuilder &inner, Location loc) {
        SmallVector<Value> zeros;
        for (Value value : values)
          zeros.push_back(arith::ConstantOp::create(
              inner, loc, inner.getZeroAttr(value.getType())));
        scf::YieldOp::create(inner, loc, zeros);
      });

  // That of the next step, before the loop over key tiles; in the last step,
  // its own again.
  auto nested = loop.getBody()->getOps<scf::ForOp>();
  builder.setInsertionPoint(nested.empty() ? loop.getBody()->getTerminator()
                                           : *nested.begin());
  Value step = builder.min(builder.add(loop.getInductionVar(), one),
                           builder.sub(count, one));
  SmallVector<Value> next = emitValues(builder, step);

  IRRewriter rewriter(builder);
  FailureOr<LoopLikeOpInterface> longer = loop.replaceWithAdditionalYields(
      rewriter, first.getResults(), /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &, Location, ArrayRef<BlockArgument>) { return next; });
  assert(succeeded(longer) && "every scf.for takes more values");
  ValueRange carried = longer->getRegionIterArgs().take_back(values.size());
  for (auto [value, argument] : llvm::zip_equal(values, carried))
    rewriter.replaceAllUsesWith(value, argument);
  for (Operation *op : llvm::reverse(slice))
    if (op->use_empty())
      rewriter.eraseOp(op);
}

/// Replaces `forall` by what group number `program_id 0` does of it.
static LogicalResult emitWalk(scf::ForallOp forall, TraversalKind kind,
                              int64_t interleave, int64_t cluster,
                              bool isInOrder, int64_t lastItems) {
  IndexBuilder builder(forall.getLoc(), forall);
  SmallVector<OpFoldResult> sizes = forall.getMixedUpperBound();
  Walkers walkers = {cluster};
  // Groups of a cluster differ in the last dimension.
  SmallVector<Value> rank;
  if (cluster > 1) {
    sizes.pop_back();
    rank.push_back(ClusterRankOp::create(builder));
  }
  auto withRank = [&](SmallVector<Value> indices) {
    llvm::append_range(indices, rank);
    return indices;
  };
  // Of the groups that are launched for a bound, some may have no item.
  bool isCountBounded = llvm::any_of(sizes, [](OpFoldResult size) {
    auto value = dyn_cast<Value>(size);
    return value && value.getDefiningOp<AtMostOp>();
  });
  if (kind == TraversalKind::Grid) {
    Value item = walkers.emitId(builder);
    if (isCountBounded) {
      Value exists = arith::CmpIOp::create(builder, arith::CmpIPredicate::ult,
                                           item, emitProduct(builder, sizes));
      auto ifOp = scf::IfOp::create(builder, exists, /*withElseRegion=*/false);
      builder.setInsertionPointToStart(ifOp.thenBlock());
    }
    inlineBody(builder, forall,
               withRank(emitItem(builder, item, sizes, interleave)));
    forall.erase();
    return success();
  }

  SmallVector<Streams> streams = collectStreams(forall.getBody());
  for (auto &[length, loads] : streams) {
    auto value = dyn_cast<Value>(length);
    if (value && value.getParentBlock() != forall.getBody() &&
        forall->isAncestor(value.getParentBlock()->getParentOp()))
      return loads.front().emitOpError(
          "length of the stream must be known at the end of the work item");
  }

  Walk walk;
  if (kind != TraversalKind::Paired)
    walk = Walk::overItems(builder, walkers, sizes, interleave, isInOrder);
  else if (isCountBounded)
    walk = Walk::overNeighbours(builder, walkers, sizes, interleave);
  else if (isInOrder)
    walk = Walk::overPairsInOrder(builder, walkers, sizes, lastItems);
  else
    walk = Walk::overPairs(builder, walkers, sizes);
  Value zero = builder.constant(0), one = builder.constant(1);
  SmallVector<Value> bases(streams.size(), zero);
  auto loop = scf::ForOp::create(builder, zero, walk.count, one, bases);
  if (!bases.empty())
    builder.setInsertionPointToStart(loop.getBody());
  else
    builder.setInsertionPoint(loop.getBody()->getTerminator());
  SmallVector<Value> indices =
      walk.emitIndices(builder, loop.getInductionVar());

  // Streams go on from one item to the next.
  SmallVector<Value> next;
  for (auto [sameLength, base] : llvm::zip(streams, loop.getRegionIterArgs())) {
    for (LoadOp load : sameLength.loads) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(load);
      load.getPositionMutable().assign(builder.add(base, load.getPosition()));
    }
  }
  inlineBody(builder, forall, withRank(indices));
  for (auto [sameLength, base] : llvm::zip(streams, loop.getRegionIterArgs()))
    next.push_back(
        builder.add(base, getValueOrCreateConstantIndexOp(
                              builder, builder.getLoc(), sameLength.length)));
  if (!next.empty())
    scf::YieldOp::create(builder, next);
  forall.erase();
  loadItemsEarly(builder, loop, walk.count, indices);
  return success();
}

/// Replaces `forall`, the loop of `attn_tile.beside`, by what one of its groups
/// does: every item as far from the last one as there are groups, which takes
/// few registers.
static void emitBesideWalk(scf::ForallOp forall) {
  IndexBuilder builder(forall.getLoc(), forall);
  SmallVector<OpFoldResult> sizes = forall.getMixedUpperBound();
  Walkers walkers = {/*cluster=*/1};
  Value total = emitProduct(builder, sizes);
  auto loop = scf::ForOp::create(builder, walkers.emitId(builder), total,
                                 walkers.emitCount(builder));
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  inlineBody(builder, forall,
             emitItem(builder, loop.getInductionVar(), sizes,
                      /*interleave=*/1));
  forall.erase();
}

/// Emits how many idle warps take part in `count` items beside those of the
/// rest, of which the group has `others`.
static Value emitWarpsAtPace(IndexBuilder &builder, PaceOp pace, Value count,
                             Value others) {
  Value one = builder.constant(1);
  Value work = builder.mul(count, pace.getWhole());
  Value ofWarp = builder.createOrFold<arith::MaxUIOp>(
      builder.mul(others, pace.getPart()), one);
  return builder.createOrFold<arith::CeilDivUIOp>(work, ofWarp);
}

/// Replaces `forall`, the loop of an `attn_tile.beside` that is joined, by what
/// a warp does: it takes items of its group until there are none left.
/// `otherSizes` count the items of the rest of the kernel, whose pace `pace`
/// states if it is not null.
static void emitJoinedWalk(scf::ForallOp forall, PaceOp pace,
                           ArrayRef<OpFoldResult> otherSizes) {
  IndexBuilder builder(forall.getLoc(), forall);
  SmallVector<OpFoldResult> sizes = forall.getMixedUpperBound();
  Value group = ProgramIdOp::create(builder, 0);
  Value groups = NumProgramsOp::create(builder, 0);
  Value count = emitShare(builder, emitProduct(builder, sizes), group, groups);
  if (pace) {
    Value others =
        emitShare(builder, emitProduct(builder, otherSizes), group, groups);
    Value takesPart = TakesPartOp::create(
        builder, emitWarpsAtPace(builder, pace, count, others));
    pace.erase();
    auto ifOp = scf::IfOp::create(builder, takesPart, /*withElseRegion=*/false);
    builder.setInsertionPoint(ifOp.thenYield());
  }
  auto loop = scf::WhileOp::create(
      builder, TypeRange{builder.getIndexType()}, ValueRange{},
      [&](OpBuilder &nested, Location loc, ValueRange) {
        Value number = TakeNumberOp::create(nested, loc, nested.getIndexType());
        Value exists = arith::CmpIOp::create(
            nested, loc, arith::CmpIPredicate::ult, number, count);
        scf::ConditionOp::create(nested, loc, exists, number);
      },
      [&](OpBuilder &nested, Location loc, ValueRange) {
        scf::YieldOp::create(nested, loc);
      });
  builder.setInsertionPoint(loop.getAfterBody()->getTerminator());
  Value item = builder.add(
      group, builder.mul(loop.getAfterBody()->getArgument(0), groups));
  inlineBody(builder, forall, emitItem(builder, item, sizes, /*interleave=*/1));
  forall.erase();
}

/// Adds what `op` depends on, in order, to `slice`; fails if that is more than
/// pure computation on the arguments of the kernel.
static LogicalResult collectHostSlice(Value value, KernelOp kernel,
                                      SetVector<Operation *> &slice) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return success(argument.getOwner() == &kernel.getBody().front());
  Operation *op = value.getDefiningOp();
  if (slice.contains(op))
    return success();
  // Launches are made for the bound.
  if (auto atMost = dyn_cast<AtMostOp>(op)) {
    if (failed(collectHostSlice(atMost.getBound(), kernel, slice)))
      return failure();
    slice.insert(op);
    return success();
  }
  if (!isMemoryEffectFree(op) || op->getNumRegions() != 0 ||
      isa<ProgramIdOp, NumProgramsOp>(op))
    return failure();
  for (Value operand : op->getOperands())
    if (failed(collectHostSlice(operand, kernel, slice)))
      return failure();
  slice.insert(op);
  return success();
}

namespace {
/// The loops over work items of a kernel, each null if there is none, and what
/// their bounds are computed by.
struct ItemLoops {
  scf::ForallOp main, beside;
  SetVector<Operation *> slice;

  static FailureOr<ItemLoops> find(KernelOp kernel);
  /// Replaces the loop beside by what a warp does.
  void emitBeside();
};
} // namespace

/// Gives `launch` a grid with one group for each work item of `loops`.
static void setGrid(LaunchOp launch, KernelOp kernel, const ItemLoops &loops,
                    TraversalKind kind, int64_t groups) {
  IndexBuilder builder(launch.getLoc(), launch);
  IRMapping map;
  map.map(kernel.getArguments(), launch.getKernelOperands());
  for (Operation *op : loops.slice) {
    if (auto atMost = dyn_cast<AtMostOp>(op))
      map.map(atMost.getResult(), map.lookup(atMost.getBound()));
    else
      builder.clone(*op, map);
  }
  auto countItems = [&](scf::ForallOp loop) {
    SmallVector<OpFoldResult> sizes;
    // A kernel without a loop has a single work item.
    if (loop)
      sizes = loop.getMixedUpperBound();
    for (OpFoldResult &size : sizes)
      if (auto value = dyn_cast<Value>(size))
        size = map.lookup(value);
    return emitProduct(builder, sizes);
  };
  bool isWalk = kind != TraversalKind::Grid && loops.main;
  Value total = countItems(loops.main);
  // Groups without an item of the main loop are harmless if all of them walk.
  if (isWalk && loops.beside)
    total =
        builder.createOrFold<arith::MaxUIOp>(total, countItems(loops.beside));
  Value one = builder.constant(1);
  launch.getGridMutable().assign({total, one, one});
  if (isWalk)
    launch.setGroupsPerMultiprocessor(groups);
}

FailureOr<ItemLoops> ItemLoops::find(KernelOp kernel) {
  ItemLoops loops;
  WalkResult walk = kernel.walk([&](scf::ForallOp loop) -> WalkResult {
    bool isBeside = isa<BesideOp>(loop->getParentOp());
    scf::ForallOp &found = isBeside ? loops.beside : loops.main;
    if (found)
      return loop.emitOpError("is a second loop over work items of the kernel");
    if ((loop->getParentOp() != kernel && !isBeside) || !loop.isNormalized() ||
        loop->getNumResults() != 0)
      return loop.emitOpError("must be an outermost loop from 0 by 1 without "
                              "results to walk over work items");
    for (OpFoldResult size : loop.getMixedUpperBound())
      if (auto value = dyn_cast<Value>(size))
        if (failed(collectHostSlice(value, kernel, loops.slice)))
          return loop.emitOpError("bounds must be computed from the "
                                  "arguments of the kernel alone");
    found = loop;
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  return loops;
}

void ItemLoops::emitBeside() {
  auto parent = cast<BesideOp>(beside->getParentOp());
  if (!parent.getJoined())
    return emitBesideWalk(beside);
  PaceOp pace;
  for (PaceOp op : parent.getOps<PaceOp>())
    pace = op;
  // The bounds of the other loop may be computed behind this one.
  SmallVector<OpFoldResult> sizes;
  if (pace && main) {
    OpBuilder builder(beside);
    IRMapping map;
    for (Operation *op : slice) {
      if (auto atMost = dyn_cast<AtMostOp>(op))
        map.map(atMost.getResult(), map.lookupOrDefault(atMost.getBound()));
      else
        builder.clone(*op, map);
    }
    sizes = main.getMixedUpperBound();
    for (OpFoldResult &size : sizes)
      if (auto value = dyn_cast<Value>(size))
        size = map.lookupOrDefault(value);
  }
  emitJoinedWalk(beside, pace, sizes);
}

namespace {
struct AttnTileSetTraversalPass
    : public attn_tile::impl::AttnTileSetTraversalPassBase<
          AttnTileSetTraversalPass> {
  using Base::Base;

  void runOnOperation() override;

private:
  LogicalResult setTraversal(KernelOp kernel, ArrayRef<LaunchOp> launches);
};
} // namespace

LogicalResult
AttnTileSetTraversalPass::setTraversal(KernelOp kernel,
                                       ArrayRef<LaunchOp> launches) {
  FailureOr<ItemLoops> loops = ItemLoops::find(kernel);
  if (failed(loops))
    return failure();
  // Without an item of the main loop there is no group.
  auto isPositive = [](OpFoldResult size) {
    return getConstantIntValue(size).value_or(0) > 0;
  };
  if (kind == TraversalKind::Grid && loops->main && loops->beside &&
      !llvm::all_of(loops->main.getMixedUpperBound(), isPositive))
    return loops->beside
        .emitOpError("needs groups that walk over items where the other loop "
                     "may have none (expected the kind persistent or paired)")
        .attachNote(loops->main.getLoc())
        .append("the other loop");
  bool waits = kernel
                   .walk([](Operation *op) {
                     auto add = dyn_cast<AddPackedOp>(op);
                     return isa<AwaitCountOp>(op) || (add && add.getTurn())
                                ? WalkResult::interrupt()
                                : WalkResult::advance();
                   })
                   .wasInterrupted();
  for (LaunchOp launch : launches) {
    launch.setTogether(launch.getTogether() || waits);
    if (launch.getGrid().empty())
      setGrid(launch, kernel, *loops, kind, groups);
    else if (loops->main)
      return launch.emitOpError("has a grid, but kernel ")
             << launch.getKernelAttr() << " walks over its items by itself";
  }
  if (loops->beside)
    loops->emitBeside();
  if (!loops->main)
    return success();
  if (cluster > 1) {
    SmallVector<OpFoldResult> sizes = loops->main.getMixedUpperBound();
    if (sizes.size() < 2 || getConstantIntValue(sizes.back()) != cluster)
      return loops->main.emitOpError(
                 "last dimension must count the items of a cluster (expected "
                 "the size ")
             << cluster.getValue() << ")";
    kernel.setCluster(cluster);
  }
  return emitWalk(loops->main, kind, interleave, cluster, inOrder, lastItems);
}

void AttnTileSetTraversalPass::runOnOperation() {
  if (interleave < 0) {
    getOperation().emitError("'interleave' must not be negative (was ")
        << interleave.getValue() << ")";
    return signalPassFailure();
  }
  if (cluster < 1) {
    getOperation().emitError("'cluster' must be positive (was ")
        << cluster.getValue() << ")";
    return signalPassFailure();
  }
  if (lastItems < 0) {
    getOperation().emitError("'last-items' must not be negative (was ")
        << lastItems.getValue() << ")";
    return signalPassFailure();
  }
  if (groups < 1) {
    getOperation().emitError("'groups' must be positive (was ")
        << groups.getValue() << ")";
    return signalPassFailure();
  }
  SymbolTableCollection symbols;
  llvm::MapVector<Operation *, SmallVector<LaunchOp>> launches;
  getOperation().walk([&](KernelOp kernel) { launches[kernel]; });
  getOperation().walk([&](LaunchOp launch) {
    Operation *kernel =
        symbols.lookupNearestSymbolFrom(launch, launch.getKernelAttr());
    if (isa_and_nonnull<KernelOp>(kernel))
      launches[kernel].push_back(launch);
  });
  for (auto &[kernel, users] : launches)
    if (failed(setTraversal(cast<KernelOp>(kernel), users)))
      return signalPassFailure();
}
