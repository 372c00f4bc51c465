//===- SetTraversal.cpp - Traversal of work items by CTAs -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces the parallel loop over work items by the work items of one CTA
// (WorkItemIteration), and gives the launches of the kernel a grid.
//
//===----------------------------------------------------------------------===//

#include "Launches.h"
#include "WorkItemIteration.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILESETTRAVERSALPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

#define DEBUG_TYPE "attn-tile-set-traversal"

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
/// Loads whose streams have the same length.
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

/// Adds the operations in the body of `loop` on which `value` depends, in
/// order, to `slice`. Fails unless they are loads and computation on the number
/// of the step.
static LogicalResult collectWorkItemSlice(Value value, scf::ForOp loop,
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
    if (failed(collectWorkItemSlice(operand, loop, slice)))
      return failure();
  slice.insert(op);
  return success();
}

/// Emits the values of step 0 if there are any steps, else zeros.
static ValueRange emitFirstValues(
    IndexBuilder &builder, Value count, ValueRange values,
    function_ref<SmallVector<Value>(OpBuilder &, Value)> emitValues) {
  Value zero = builder.constant(0);
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
  return first.getResults();
}

/// Makes each step find `indices`, the work item of the next step, and load its
/// description early, so that no step begins by waiting for memory. `count` is
/// the number of steps.
static void loadWorkItemsEarly(IndexBuilder &builder, scf::ForOp loop,
                               Value count, ValueRange indices) {
  SmallVector<Value> values;
  SetVector<Operation *> slice;
  auto add = [&](Value value) {
    SetVector<Operation *> longer = slice;
    if (value.getParentBlock() != loop.getBody() ||
        llvm::is_contained(values, value) ||
        failed(collectWorkItemSlice(value, loop, longer)))
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

  // The work item of the first step, if there is one.
  builder.setInsertionPoint(loop);
  Value one = builder.constant(1);
  ValueRange first = emitFirstValues(builder, count, values, emitValues);

  // The work item of the next step, before the loop over key tiles. The last
  // step finds its own item again.
  auto nested = loop.getBody()->getOps<scf::ForOp>();
  builder.setInsertionPoint(nested.empty() ? loop.getBody()->getTerminator()
                                           : *nested.begin());
  Value step = builder.min(builder.add(loop.getInductionVar(), one),
                           builder.sub(count, one));
  SmallVector<Value> next = emitValues(builder, step);

  IRRewriter rewriter(builder);
  FailureOr<LoopLikeOpInterface> longer = loop.replaceWithAdditionalYields(
      rewriter, first, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &, Location, ArrayRef<BlockArgument>) { return next; });
  assert(succeeded(longer) && "every scf.for takes more values");
  ValueRange carried = longer->getRegionIterArgs().take_back(values.size());
  for (auto [value, argument] : llvm::zip_equal(values, carried))
    rewriter.replaceAllUsesWith(value, argument);
  for (Operation *op : llvm::reverse(slice))
    if (op->use_empty())
      rewriter.eraseOp(op);
}

namespace {
/// How CTAs, or clusters of them, iterate over the work items of a kernel.
struct Traversal {
  TraversalKind kind;
  int64_t interleave, cluster;
  bool isInOrder;
  int64_t lastWorkItems;
};

/// Replaces `forall` by the work items of the CTA with number `program_id 0`.
class IterationWriter {
public:
  IterationWriter(scf::ForallOp forall, const Traversal &traversal);
  LogicalResult write();

private:
  void writeSingleItem();
  LogicalResult checkStreams(ArrayRef<Streams> streams);
  WorkItemIteration createIteration();
  SmallVector<Value> withRank(SmallVector<Value> indices) {
    llvm::append_range(indices, rank);
    return indices;
  }

  scf::ForallOp forall;
  const Traversal &traversal;
  IndexBuilder builder;
  Programs ctas;
  /// Without the dimension in which CTAs of a cluster differ, the last one.
  SmallVector<OpFoldResult> sizes;
  /// The index in that dimension.
  SmallVector<Value> rank;
  /// If CTAs are launched for an upper bound, some may have no work item.
  bool isCountBounded;
};
} // namespace

IterationWriter::IterationWriter(scf::ForallOp forall,
                                 const Traversal &traversal)
    : forall(forall), traversal(traversal), builder(forall.getLoc(), forall),
      ctas{traversal.cluster}, sizes(forall.getMixedUpperBound()) {
  if (traversal.cluster > 1) {
    sizes.pop_back();
    rank.push_back(ClusterRankOp::create(builder));
  }
  isCountBounded = llvm::any_of(sizes, [](OpFoldResult size) {
    auto value = dyn_cast<Value>(size);
    return value && value.getDefiningOp<AssumeUpperBoundOp>();
  });
}

/// Writes a kernel whose CTAs have one work item each.
void IterationWriter::writeSingleItem() {
  Value item = ctas.emitId(builder);
  if (isCountBounded) {
    Value exists = arith::CmpIOp::create(builder, arith::CmpIPredicate::ult,
                                         item, emitProduct(builder, sizes));
    auto ifOp = scf::IfOp::create(builder, exists, /*withElseRegion=*/false);
    builder.setInsertionPointToStart(ifOp.thenBlock());
  }
  inlineBody(
      builder, forall,
      withRank(emitWorkItem(builder, item, sizes, traversal.interleave)));
  forall.erase();
}

LogicalResult IterationWriter::checkStreams(ArrayRef<Streams> streams) {
  for (const auto &[length, loads] : streams) {
    auto value = dyn_cast<Value>(length);
    if (value && value.getParentBlock() != forall.getBody() &&
        forall->isAncestor(value.getParentBlock()->getParentOp()))
      return LoadOp(loads.front())
          .emitOpError("length of the stream must be known at the end of the "
                       "work item");
  }
  return success();
}

WorkItemIteration IterationWriter::createIteration() {
  if (traversal.kind != TraversalKind::Paired)
    return WorkItemIteration::overWorkItems(
        builder, ctas, sizes, traversal.interleave, traversal.isInOrder);
  if (isCountBounded)
    return WorkItemIteration::overNeighbours(builder, ctas, sizes,
                                             traversal.interleave);
  if (traversal.isInOrder)
    return WorkItemIteration::overPairsInOrder(builder, ctas, sizes,
                                               traversal.lastWorkItems);
  return WorkItemIteration::overPairs(builder, ctas, sizes);
}

LogicalResult IterationWriter::write() {
  if (traversal.kind == TraversalKind::Grid) {
    writeSingleItem();
    return success();
  }
  SmallVector<Streams> streams = collectStreams(forall.getBody());
  if (failed(checkStreams(streams)))
    return failure();
  WorkItemIteration iteration = createIteration();
  Value zero = builder.constant(0), one = builder.constant(1);
  SmallVector<Value> bases(streams.size(), zero);
  auto loop = scf::ForOp::create(builder, zero, iteration.count, one, bases);
  if (!bases.empty())
    builder.setInsertionPointToStart(loop.getBody());
  else
    builder.setInsertionPoint(loop.getBody()->getTerminator());
  SmallVector<Value> indices =
      iteration.emitIndices(builder, loop.getInductionVar());

  // Streams continue from one work item to the next.
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
  loadWorkItemsEarly(builder, loop, iteration.count, indices);
  return success();
}

/// Replaces `forall`, the loop of `attn_tile.auxiliary_warps`, by the work
/// items of one of its warps. Their stride is the number of these warps, so
/// that the loop takes few registers.
static void emitAuxiliaryIteration(scf::ForallOp forall) {
  IndexBuilder builder(forall.getLoc(), forall);
  SmallVector<OpFoldResult> sizes = forall.getMixedUpperBound();
  Programs ctas = {/*cluster=*/1};
  Value total = emitProduct(builder, sizes);
  auto loop = scf::ForOp::create(builder, ctas.emitId(builder), total,
                                 ctas.emitCount(builder));
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  inlineBody(builder, forall,
             emitWorkItem(builder, loop.getInductionVar(), sizes,
                          /*interleave=*/1));
  forall.erase();
}

/// Emits how many idle warps of a CTA process its `count` work items while the
/// rest of the kernel processes the `others` work items of the CTA.
static Value emitActiveWarps(IndexBuilder &builder, ThroughputHintOp hint,
                             Value count, Value others) {
  Value one = builder.constant(1);
  Value work = builder.mul(count, hint.getWhole());
  Value ofWarp = builder.createOrFold<arith::MaxUIOp>(
      builder.mul(others, hint.getPart()), one);
  return builder.createOrFold<arith::CeilDivUIOp>(work, ofWarp);
}

/// Replaces `forall`, the loop of an `attn_tile.auxiliary_warps` that is
/// joined, by the work of one warp: it fetches work items of its CTA until none
/// is left. `otherSizes` count the work items of the rest of the kernel.
/// `hint`, if not null, relates the speed of a warp to theirs.
static void emitJoinedIteration(scf::ForallOp forall, ThroughputHintOp hint,
                                ArrayRef<OpFoldResult> otherSizes) {
  IndexBuilder builder(forall.getLoc(), forall);
  SmallVector<OpFoldResult> sizes = forall.getMixedUpperBound();
  Value cta = ProgramIdOp::create(builder, 0);
  Value numCtas = NumProgramsOp::create(builder, 0);
  Value count = emitShare(builder, emitProduct(builder, sizes), cta, numCtas);
  if (hint) {
    Value others =
        emitShare(builder, emitProduct(builder, otherSizes), cta, numCtas);
    Value isActive = IsActiveWarpOp::create(
        builder, emitActiveWarps(builder, hint, count, others));
    hint.erase();
    auto ifOp = scf::IfOp::create(builder, isActive, /*withElseRegion=*/false);
    builder.setInsertionPoint(ifOp.thenYield());
  }
  auto loop = scf::WhileOp::create(
      builder, TypeRange{builder.getIndexType()}, ValueRange{},
      [&](OpBuilder &nested, Location loc, ValueRange) {
        Value number =
            FetchWorkItemOp::create(nested, loc, nested.getIndexType());
        Value exists = arith::CmpIOp::create(
            nested, loc, arith::CmpIPredicate::ult, number, count);
        scf::ConditionOp::create(nested, loc, exists, number);
      },
      [&](OpBuilder &nested, Location loc, ValueRange) {
        scf::YieldOp::create(nested, loc);
      });
  builder.setInsertionPoint(loop.getAfterBody()->getTerminator());
  Value item = builder.add(
      cta, builder.mul(loop.getAfterBody()->getArgument(0), numCtas));
  inlineBody(builder, forall,
             emitWorkItem(builder, item, sizes, /*interleave=*/1));
  forall.erase();
}

/// Adds the operations on which `value` depends, in order, to `slice`. Fails
/// unless they are pure computation on the arguments of the kernel.
static LogicalResult collectHostSlice(Value value, KernelOp kernel,
                                      SetVector<Operation *> &slice) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return success(argument.getOwner() == &kernel.getBody().front());
  Operation *op = value.getDefiningOp();
  if (slice.contains(op))
    return success();
  // Launches use the upper bound.
  if (auto assume = dyn_cast<AssumeUpperBoundOp>(op)) {
    if (failed(collectHostSlice(assume.getBound(), kernel, slice)))
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
/// The loops over work items of a kernel, each null if there is none, and the
/// operations that compute their bounds.
struct WorkItemLoops {
  scf::ForallOp main, auxiliary;
  SetVector<Operation *> slice;

  static FailureOr<WorkItemLoops> find(KernelOp kernel);
  /// Replaces the loop of the auxiliary warps by the work of one warp.
  void emitAuxiliaryWarps();
};
} // namespace

/// Gives `launch` a grid with one CTA for each work item of `loops`.
static void setGrid(LaunchOp launch, KernelOp kernel,
                    const WorkItemLoops &loops, TraversalKind kind,
                    int64_t ctasPerSm) {
  IndexBuilder builder(launch.getLoc(), launch);
  IRMapping map;
  map.map(kernel.getArguments(), launch.getKernelOperands());
  for (Operation *op : loops.slice) {
    if (auto assume = dyn_cast<AssumeUpperBoundOp>(op))
      map.map(assume.getResult(), map.lookup(assume.getBound()));
    else
      builder.clone(*op, map);
  }
  auto countWorkItems = [&](scf::ForallOp loop) {
    SmallVector<OpFoldResult> sizes;
    // A kernel without a loop has a single work item.
    if (loop)
      sizes = loop.getMixedUpperBound();
    for (OpFoldResult &size : sizes)
      if (auto value = dyn_cast<Value>(size))
        size = map.lookup(value);
    return emitProduct(builder, sizes);
  };
  bool isIterated = kind != TraversalKind::Grid && loops.main;
  Value total = countWorkItems(loops.main);
  // CTAs without an item of the main loop are harmless if CTAs are persistent.
  if (isIterated && loops.auxiliary)
    total = builder.createOrFold<arith::MaxUIOp>(
        total, countWorkItems(loops.auxiliary));
  Value one = builder.constant(1);
  launch.getGridMutable().assign({total, one, one});
  if (isIterated)
    launch.setCtasPerSm(ctasPerSm);
}

FailureOr<WorkItemLoops> WorkItemLoops::find(KernelOp kernel) {
  WorkItemLoops loops;
  WalkResult walk = kernel.walk([&](scf::ForallOp loop) -> WalkResult {
    bool isAuxiliary = isa<AuxiliaryWarpsOp>(loop->getParentOp());
    scf::ForallOp &found = isAuxiliary ? loops.auxiliary : loops.main;
    if (found)
      return loop.emitOpError("is a second loop over work items of the kernel");
    if ((loop->getParentOp() != kernel && !isAuxiliary) ||
        !loop.isNormalized() || loop->getNumResults() != 0)
      return loop.emitOpError("must be an outermost loop from 0 by 1 without "
                              "results to iterate over work items");
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

void WorkItemLoops::emitAuxiliaryWarps() {
  auto parent = cast<AuxiliaryWarpsOp>(auxiliary->getParentOp());
  if (!parent.getJoined())
    return emitAuxiliaryIteration(auxiliary);
  ThroughputHintOp hint;
  for (ThroughputHintOp op : parent.getOps<ThroughputHintOp>())
    hint = op;
  // The bounds of the main loop may be computed behind the auxiliary one.
  SmallVector<OpFoldResult> sizes;
  if (hint && main) {
    OpBuilder builder(auxiliary);
    IRMapping map;
    for (Operation *op : slice) {
      if (auto assume = dyn_cast<AssumeUpperBoundOp>(op))
        map.map(assume.getResult(), map.lookupOrDefault(assume.getBound()));
      else
        builder.clone(*op, map);
    }
    sizes = main.getMixedUpperBound();
    for (OpFoldResult &size : sizes)
      if (auto value = dyn_cast<Value>(size))
        size = map.lookupOrDefault(value);
  }
  emitJoinedIteration(auxiliary, hint, sizes);
}

namespace {
struct AttnTileSetTraversalPass
    : public attn_tile::impl::AttnTileSetTraversalPassBase<
          AttnTileSetTraversalPass> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain,
                                        KernelPhase::Staged};

  void runOnOperation() override;

private:
  LogicalResult setTraversal(KernelOp kernel, ArrayRef<LaunchOp> launches);
};
} // namespace

LogicalResult
AttnTileSetTraversalPass::setTraversal(KernelOp kernel,
                                       ArrayRef<LaunchOp> launches) {
  FailureOr<WorkItemLoops> loops = WorkItemLoops::find(kernel);
  if (failed(loops))
    return failure();
  // In a grid traversal, no CTA exists without an item of the main loop.
  auto isPositive = [](OpFoldResult size) {
    return getConstantIntValue(size).value_or(0) > 0;
  };
  if (kind == TraversalKind::Grid && loops->main && loops->auxiliary &&
      !llvm::all_of(loops->main.getMixedUpperBound(), isPositive))
    return loops->auxiliary
        .emitOpError(
            "needs CTAs that iterate over work items where the other loop may "
            "have none (expected the kind persistent or paired)")
        .attachNote(loops->main.getLoc())
        .append("the other loop");
  bool waits =
      kernel
          .walk([](Operation *op) {
            auto add = dyn_cast<BulkReduceAddOp>(op);
            return isa<SemaphoreWaitOp>(op) || (add && add.getOrdinal())
                       ? WalkResult::interrupt()
                       : WalkResult::advance();
          })
          .wasInterrupted();
  for (LaunchOp launch : launches) {
    launch.setTogether(launch.getTogether() || waits);
    if (launch.getGrid().empty())
      setGrid(launch, kernel, *loops, kind, ctasPerSm);
    else if (loops->main)
      return launch.emitOpError("has a grid, but kernel ")
             << launch.getKernelAttr()
             << " iterates over its work items by itself";
  }
  if (loops->auxiliary)
    loops->emitAuxiliaryWarps();
  if (!loops->main)
    return success();
  if (cluster > 1) {
    SmallVector<OpFoldResult> sizes = loops->main.getMixedUpperBound();
    if (sizes.size() < 2 || getConstantIntValue(sizes.back()) != cluster)
      return loops->main.emitOpError("last dimension must count the work items "
                                     "of a cluster (expected the size ")
             << cluster.getValue() << ")";
    kernel.setCluster(cluster);
  }
  Traversal traversal = {kind, interleave, cluster, inOrder, lastWorkItems};
  return IterationWriter(loops->main, traversal).write();
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
  if (lastWorkItems < 0) {
    getOperation().emitError("'last-work-items' must not be negative (was ")
        << lastWorkItems.getValue() << ")";
    return signalPassFailure();
  }
  if (ctasPerSm < 1) {
    getOperation().emitError("'ctas-per-sm' must be positive (was ")
        << ctasPerSm.getValue() << ")";
    return signalPassFailure();
  }
  for (auto &[op, users] : collectLaunches(getOperation())) {
    auto kernel = cast<KernelOp>(op);
    LDBG() << stringifyTraversalKind(kind) << " traversal of kernel "
           << kernel.getName() << ", which has " << users.size() << " launches";
    if (failed(verifyExpectedPhase(kernel, getArgument(), phases)) ||
        failed(setTraversal(kernel, users)))
      return signalPassFailure();
  }
}
