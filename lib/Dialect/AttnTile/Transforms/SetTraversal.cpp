//===- SetTraversal.cpp - How groups walk over work items ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces the parallel loop over work items by what one group does, and gives
// the launches of the kernel a grid.
//
//===----------------------------------------------------------------------===//

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

#include <functional>

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILESETTRAVERSALPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
/// Shorthand for index arithmetic that folds constants.
struct IndexBuilder : ImplicitLocOpBuilder {
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(*this, value);
  }
  Value add(Value lhs, Value rhs) {
    return createOrFold<arith::AddIOp>(lhs, rhs);
  }
  Value sub(Value lhs, Value rhs) {
    return createOrFold<arith::SubIOp>(lhs, rhs);
  }
  Value mul(Value lhs, Value rhs) {
    return createOrFold<arith::MulIOp>(lhs, rhs);
  }
  Value div(Value lhs, Value rhs) {
    return createOrFold<arith::DivUIOp>(lhs, rhs);
  }
  Value rem(Value lhs, Value rhs) {
    return createOrFold<arith::RemUIOp>(lhs, rhs);
  }
  Value min(Value lhs, Value rhs) {
    return createOrFold<arith::MinUIOp>(lhs, rhs);
  }
};
} // namespace

static Value emitProduct(IndexBuilder &builder, ArrayRef<OpFoldResult> sizes) {
  Value product = builder.constant(1);
  for (OpFoldResult size : sizes)
    product = builder.mul(product, getValueOrCreateConstantIndexOp(
                                       builder, builder.getLoc(), size));
  return product;
}

/// Size of a dimension as a value.
static Value emitSize(IndexBuilder &builder, OpFoldResult size) {
  return getValueOrCreateConstantIndexOp(builder, builder.getLoc(), size);
}

/// Emits the induction variables of tile number `tile` of combination number
/// `outer` of the other dimensions.
static SmallVector<Value> emitIndices(IndexBuilder &builder, Value outer,
                                      Value tile,
                                      ArrayRef<OpFoldResult> sizes) {
  SmallVector<Value> indices(sizes.size());
  indices.back() = tile;
  for (unsigned dim = sizes.size() - 1; dim-- > 0;) {
    Value size = emitSize(builder, sizes[dim]);
    indices[dim] = dim == 0 ? outer : builder.rem(outer, size);
    if (dim != 0)
      outer = builder.div(outer, size);
  }
  return indices;
}

/// Emits the induction variables of work item number `item`. The last one
/// counts down, since the last query tiles have the most work under a causal
/// mask; `interleave` combinations of the others are walked together.
static SmallVector<Value> emitItem(IndexBuilder &builder, Value item,
                                   ArrayRef<OpFoldResult> sizes,
                                   int64_t interleave) {
  Value tiles = emitSize(builder, sizes.back());
  Value tile, outer;
  if (sizes.size() == 1) {
    tile = item;
  } else if (interleave == 1) {
    tile = builder.rem(item, tiles);
    outer = builder.div(item, tiles);
  } else {
    Value combinations = emitProduct(builder, sizes.drop_back());
    Value first, width = combinations, rest = item;
    if (interleave > 1) {
      Value step = builder.constant(interleave);
      Value section = builder.div(item, builder.mul(tiles, step));
      first = builder.mul(section, step);
      width = builder.min(step, builder.sub(combinations, first));
      rest = builder.sub(item, builder.mul(first, tiles));
    }
    tile = builder.div(rest, width);
    outer = builder.rem(rest, width);
    if (first)
      outer = builder.add(first, outer);
  }
  Value reversed = builder.sub(builder.sub(tiles, builder.constant(1)), tile);
  return emitIndices(builder, outer, reversed, sizes);
}

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

namespace {
/// What one group walks over: the number of its items, and how to find each.
struct Walk {
  Value count;
  std::function<SmallVector<Value>(IndexBuilder &, Value)> emitIndices;

  static Walk overItems(IndexBuilder &builder, ArrayRef<OpFoldResult> sizes,
                        int64_t interleave);
  static Walk overPairs(IndexBuilder &builder, ArrayRef<OpFoldResult> sizes);
};
} // namespace

/// Emits how many of the numbers `[0, total)` are `program` plus a multiple of
/// `programs`.
static Value emitShare(IndexBuilder &builder, Value total, Value program,
                       Value programs) {
  Value last = builder.sub(builder.add(total, programs), builder.constant(1));
  return builder.div(builder.sub(last, program), programs);
}

/// Round `r` is items `[r * programs, (r + 1) * programs)`. Items become
/// shorter along the walk, so a group that always came first in its round would
/// get the longest item of each: every other round is walked backwards.
Walk Walk::overItems(IndexBuilder &builder, ArrayRef<OpFoldResult> sizes,
                     int64_t interleave) {
  Value total = emitProduct(builder, sizes);
  Value program = ProgramIdOp::create(builder, 0);
  Value programs = NumProgramsOp::create(builder, 0);
  auto emit = [=](IndexBuilder &builder, Value round) {
    Value first = builder.mul(round, programs);
    Value backwards = arith::CmpIOp::create(
        builder, arith::CmpIPredicate::ne,
        builder.rem(round, builder.constant(2)), builder.constant(0));
    Value width = builder.min(programs, builder.sub(total, first));
    Value mirrored = builder.sub(
        builder.sub(builder.add(first, width), builder.constant(1)), program);
    Value item = arith::SelectOp::create(builder, backwards, mirrored,
                                         builder.add(first, program));
    return emitItem(builder, item, sizes, interleave);
  };
  return {emitShare(builder, total, program, programs), emit};
}

/// Of `n` query tiles of a head, `n - 1 - q` and `q` are a pair; an odd one in
/// the middle is left. Pairs of all heads are numbered first, then the tiles
/// that are left; both are dealt out in turn.
Walk Walk::overPairs(IndexBuilder &builder, ArrayRef<OpFoldResult> sizes) {
  Value two = builder.constant(2);
  Value tiles = emitSize(builder, sizes.back());
  Value outer = emitProduct(builder, sizes.drop_back());
  Value pairsOfOne = builder.div(tiles, two);
  Value pairs = builder.mul(outer, pairsOfOne);
  Value units = builder.add(pairs, builder.mul(outer, builder.rem(tiles, two)));
  Value program = ProgramIdOp::create(builder, 0);
  Value programs = NumProgramsOp::create(builder, 0);
  Value myPairs = emitShare(builder, pairs, program, programs);
  Value myUnits = emitShare(builder, units, program, programs);
  auto emit = [=](IndexBuilder &builder, Value step) {
    Value one = builder.constant(1);
    auto select = [&](Value condition, Value yes, Value no) -> Value {
      return arith::SelectOp::create(builder, condition, yes, no);
    };
    Value inPair = arith::CmpIOp::create(builder, arith::CmpIPredicate::ult,
                                         step, builder.mul(myPairs, two));
    Value turn =
        select(inPair, builder.div(step, two), builder.sub(step, myPairs));
    Value unit = builder.add(builder.mul(turn, programs), program);
    // Of a head without pairs all tiles are left ones.
    Value divisor = arith::MaxUIOp::create(builder, pairsOfOne, one);
    Value place = builder.rem(unit, divisor);
    Value isShort =
        arith::CmpIOp::create(builder, arith::CmpIPredicate::ne,
                              builder.rem(step, two), builder.constant(0));
    Value ofPair =
        select(isShort, place, builder.sub(builder.sub(tiles, one), place));
    Value tile = select(inPair, ofPair, pairsOfOne);
    Value head =
        select(inPair, builder.div(unit, divisor), builder.sub(unit, pairs));
    return ::emitIndices(builder, head, tile, sizes);
  };
  return {builder.add(myPairs, myUnits), emit};
}

/// Replaces `forall` by what group number `program_id 0` does of it.
static LogicalResult emitWalk(scf::ForallOp forall, TraversalKind kind,
                              int64_t interleave) {
  IndexBuilder builder(forall.getLoc(), forall);
  SmallVector<OpFoldResult> sizes = forall.getMixedUpperBound();
  if (kind == TraversalKind::Grid) {
    Value item = ProgramIdOp::create(builder, 0);
    inlineBody(builder, forall, emitItem(builder, item, sizes, interleave));
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

  Walk walk = kind == TraversalKind::Paired
                  ? Walk::overPairs(builder, sizes)
                  : Walk::overItems(builder, sizes, interleave);
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
  inlineBody(builder, forall, indices);
  for (auto [sameLength, base] : llvm::zip(streams, loop.getRegionIterArgs()))
    next.push_back(
        builder.add(base, getValueOrCreateConstantIndexOp(
                              builder, builder.getLoc(), sameLength.length)));
  if (!next.empty())
    scf::YieldOp::create(builder, next);
  forall.erase();
  return success();
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
  if (!isMemoryEffectFree(op) || op->getNumRegions() != 0 ||
      isa<ProgramIdOp, NumProgramsOp>(op))
    return failure();
  for (Value operand : op->getOperands())
    if (failed(collectHostSlice(operand, kernel, slice)))
      return failure();
  slice.insert(op);
  return success();
}

/// Gives `launch` a grid with one group for each work item of `sizes`.
static void setGrid(LaunchOp launch, KernelOp kernel,
                    ArrayRef<OpFoldResult> sizes,
                    const SetVector<Operation *> &slice, TraversalKind kind) {
  IndexBuilder builder(launch.getLoc(), launch);
  IRMapping map;
  map.map(kernel.getArguments(), launch.getKernelOperands());
  for (Operation *op : slice)
    builder.clone(*op, map);
  SmallVector<OpFoldResult> hostSizes;
  for (OpFoldResult size : sizes) {
    if (auto value = dyn_cast<Value>(size))
      size = map.lookup(value);
    hostSizes.push_back(size);
  }
  Value total = emitProduct(builder, hostSizes);
  Value one = builder.constant(1);
  launch.getGridMutable().assign({total, one, one});
  if (kind != TraversalKind::Grid && !sizes.empty())
    launch.setGroupsPerMultiprocessor(1);
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
  SmallVector<scf::ForallOp> foralls;
  kernel.walk([&](scf::ForallOp forall) { foralls.push_back(forall); });
  if (foralls.size() > 1)
    return foralls[1].emitOpError(
        "is a second loop over work items of the kernel");

  // A kernel without a loop has a single work item.
  SmallVector<OpFoldResult> sizes;
  SetVector<Operation *> slice;
  if (!foralls.empty()) {
    scf::ForallOp forall = foralls.front();
    if (forall->getParentOp() != kernel || !forall.isNormalized() ||
        forall->getNumResults() != 0)
      return forall.emitOpError("must be an outermost loop from 0 by 1 without "
                                "results to walk over work items");
    sizes = forall.getMixedUpperBound();
    for (OpFoldResult size : sizes)
      if (auto value = dyn_cast<Value>(size))
        if (failed(collectHostSlice(value, kernel, slice)))
          return forall.emitOpError("bounds must be computed from the "
                                    "arguments of the kernel alone");
  }

  for (LaunchOp launch : launches) {
    if (launch.getGrid().empty())
      setGrid(launch, kernel, sizes, slice, kind);
    else if (!foralls.empty())
      return launch.emitOpError("has a grid, but kernel ")
             << launch.getKernelAttr() << " walks over its items by itself";
  }
  if (foralls.empty())
    return success();
  return emitWalk(foralls.front(), kind, interleave);
}

void AttnTileSetTraversalPass::runOnOperation() {
  if (interleave < 0) {
    getOperation().emitError("'interleave' must not be negative (was ")
        << interleave.getValue() << ")";
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
