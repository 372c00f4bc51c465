//===- Prefetch.cpp - Fill pipes some steps ahead ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In a kernel without roles, moves the filling of pipes ahead of their use by
// as many steps as the pipes have spare stages, so that copies overlap MMAs.
// The single stage of a pipe can be filled for the next step where it is
// released.
//
//===----------------------------------------------------------------------===//

#include "LoopChains.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEPREFETCHPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
/// The operations that fill one stage in a step: acquire, copies, commit, and
/// the index arithmetic they need.
struct Fill {
  AcquireOp acquire;
  SmallVector<Operation *> transfers;
  SetVector<Operation *> slice;
  /// Where the stage is released in the step; null if it is not filled there.
  ReleaseOp release;

  /// Steps by which the stage can be filled ahead.
  int64_t getDistance() {
    if (release)
      return 1;
    return cast<PipeType>(acquire.getPipe().getType()).getStages() - 1;
  }
};

/// A chain of loops and the fills of its steps, in the same order in each.
struct Chain {
  SmallVector<scf::ForOp> loops;
  SmallVector<SmallVector<Fill>> fills;

  Value getEnd() { return loops.back().getUpperBound(); }
};
} // namespace

/// Whether `op` loads from memory that the kernel does not write.
static bool isConstantLoad(Operation *op) {
  auto load = dyn_cast<memref::LoadOp>(op);
  return load && llvm::none_of(load.getMemRef().getUsers(),
                               llvm::IsaPred<memref::StoreOp, StoreOp>);
}

/// The release in `body` of the stage that `acquire` fills; null if there is
/// none or more than one.
static ReleaseOp findRelease(AcquireOp acquire, Block *body) {
  ReleaseOp found;
  for (auto release : body->getOps<ReleaseOp>()) {
    auto wait = release.getBuffer().getDefiningOp<WaitOp>();
    if (!wait || wait.getPipe() != acquire.getPipe())
      continue;
    if (found)
      return {};
    found = release;
  }
  return found;
}

/// The fills in the steps of `loop`. Fails, with a reason, if one depends on
/// values other than the step's number and values computed before `head`.
static FailureOr<SmallVector<Fill>> collectFills(scf::ForOp loop,
                                                 scf::ForOp head, bool refill,
                                                 const DominanceInfo &dominance,
                                                 StringRef &reason) {
  SmallVector<Fill> fills;
  Block *body = loop.getBody();
  for (auto acquire : body->getOps<AcquireOp>()) {
    Fill &fill = fills.emplace_back();
    fill.acquire = acquire;
    if (refill && fill.getDistance() == 0)
      fill.release = findRelease(acquire, body);
    SetVector<Value> inputs;
    for (Operation &op : *body) {
      if (&op != acquire &&
          !llvm::is_contained(op.getOperands(), acquire.getBuffer()))
        continue;
      collectSlice(&op, body, fill.slice, inputs);
      fill.transfers.push_back(&op);
    }
    for (Value input : inputs) {
      if (input != loop.getInductionVar() &&
          (!dominance.properlyDominates(input, head) ||
           isa_and_nonnull<WaitOp>(input.getDefiningOp()))) {
        reason = "what fills a stage depends on the steps before";
        return failure();
      }
    }
    for (Operation *op : fill.slice) {
      if (!llvm::is_contained(fill.transfers, op) && !isMemoryEffectFree(op) &&
          !isConstantLoad(op)) {
        reason = "what fills a stage depends on memory";
        return failure();
      }
    }
  }
  return fills;
}

/// Collects the chain of loops that `head` begins, if it can be prefetched.
static FailureOr<Chain> collectChain(scf::ForOp head, bool refill,
                                     const DominanceInfo &dominance,
                                     StringRef &reason) {
  Chain chain;
  for (scf::ForOp loop = head; loop; loop = getNextLoop(loop)) {
    FailureOr<SmallVector<Fill>> fills =
        collectFills(loop, head, refill, dominance, reason);
    if (failed(fills))
      return failure();
    chain.loops.push_back(loop);
    chain.fills.push_back(std::move(*fills));
    auto samePipe = [](Fill &lhs, Fill &rhs) {
      return lhs.acquire.getPipe() == rhs.acquire.getPipe() &&
             lhs.getDistance() == rhs.getDistance();
    };
    if (!llvm::equal(chain.fills.front(), chain.fills.back(), samePipe)) {
      reason = "the loops of a chain do not fill the same pipes";
      return failure();
    }
  }
  if (chain.fills.front().empty()) {
    reason = "the steps fill no pipe";
    return failure();
  }
  if (llvm::all_of(chain.fills.front(),
                   [](Fill &fill) { return fill.getDistance() == 0; })) {
    reason = "the pipes have no spare stage";
    return failure();
  }
  if (!isConstantIntValue(head.getStep(), 1) ||
      !dominance.properlyDominates(chain.getEnd(), head)) {
    reason = "the end of the chain is not known before it";
    return failure();
  }
  return chain;
}

/// Whether steps of two loops fill a stage in the same way, so that either loop
/// can fill it for a step of the other.
static bool isSameFill(const Fill &lhs, scf::ForOp lhsLoop, const Fill &rhs,
                       scf::ForOp rhsLoop) {
  if (lhs.slice.size() != rhs.slice.size())
    return false;
  DenseMap<Value, Value> same;
  same[lhsLoop.getInductionVar()] = rhsLoop.getInductionVar();
  for (auto [op, other] : llvm::zip_equal(lhs.slice, rhs.slice)) {
    if (!OperationEquivalence::isEquivalentTo(
            op, other,
            [&](Value value, Value otherValue) {
              Value expected = same.lookup(value);
              return success((expected ? expected : value) == otherValue);
            },
            [&](Value value, Value otherValue) { same[value] = otherValue; },
            OperationEquivalence::IgnoreLocations))
      return false;
    for (auto [value, otherValue] :
         llvm::zip_equal(op->getResults(), other->getResults()))
      same[value] = otherValue;
  }
  return true;
}

/// Emits fill number `number` for the step `position`, if there is one, as the
/// loop of that step does: loop number `first` of the chain or a later one.
static void emitFill(OpBuilder &builder, Chain &chain, size_t first,
                     size_t number, Value position) {
  // Loops that fill alike need no branch between their steps.
  size_t last = first;
  auto at = [&](size_t loop) -> Fill & { return chain.fills[loop][number]; };
  while (last + 1 < chain.loops.size() &&
         isSameFill(at(first), chain.loops[first], at(last + 1),
                    chain.loops[last + 1]))
    ++last;
  Location loc = at(first).acquire.getLoc();
  bool isLast = last + 1 == chain.loops.size();
  Value exists =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, position,
                            chain.loops[last].getUpperBound());
  auto emitHere = [&](OpBuilder &branch, Location) {
    IRMapping map;
    map.map(chain.loops[first].getInductionVar(), position);
    for (Operation *op : at(first).slice)
      branch.clone(*op, map);
    scf::YieldOp::create(branch, loc);
  };
  if (isLast) {
    scf::IfOp::create(builder, loc, exists, emitHere);
    return;
  }
  scf::IfOp::create(builder, loc, exists, emitHere,
                    [&](OpBuilder &branch, Location) {
                      emitFill(branch, chain, last + 1, number, position);
                      scf::YieldOp::create(branch, loc);
                    });
}

/// The step `distance` after `iv`.
static Value emitAhead(OpBuilder &builder, Location loc, Value iv,
                       int64_t distance) {
  Value offset = arith::ConstantIndexOp::create(builder, loc, distance);
  return builder.createOrFold<arith::AddIOp>(loc, iv, offset);
}

/// Moves fill number `number` of loop number `first` of the chain ahead.
static void moveFill(OpBuilder &builder, Chain &chain, size_t first,
                     size_t number) {
  Fill &fill = chain.fills[first][number];
  if (fill.getDistance() == 0)
    return;
  if (fill.release)
    builder.setInsertionPointAfter(fill.release);
  else
    builder.setInsertionPoint(fill.acquire);
  Value position =
      emitAhead(builder, fill.acquire.getLoc(),
                chain.loops[first].getInductionVar(), fill.getDistance());
  emitFill(builder, chain, first, number, position);
  for (Operation *op : llvm::reverse(fill.transfers))
    op->erase();
  for (Operation *op : llvm::reverse(fill.slice))
    if (!llvm::is_contained(fill.transfers, op) && isOpTriviallyDead(op))
      op->erase();
}

static void prefetch(Chain &chain) {
  // Fill the stages of the first steps. Their copies start before the waits for
  // other stages that the loop reads.
  scf::ForOp head = chain.loops.front();
  Operation *start = head;
  while (isa_and_nonnull<WaitOp>(start->getPrevNode()))
    start = start->getPrevNode();
  OpBuilder builder(start);
  int64_t longest = 0;
  for (Fill &fill : chain.fills.front())
    longest = std::max(longest, fill.getDistance());
  for (int64_t ahead = 0; ahead < longest; ++ahead) {
    Value position =
        emitAhead(builder, head.getLoc(), head.getLowerBound(), ahead);
    for (auto [number, fill] : llvm::enumerate(chain.fills.front()))
      if (ahead < fill.getDistance())
        emitFill(builder, chain, /*first=*/0, number, position);
  }

  // Earlier loops fill stages for steps of later loops, so they clone the fills
  // of later loops before these are erased.
  for (size_t first = 0; first < chain.loops.size(); ++first)
    for (size_t number = 0; number < chain.fills[first].size(); ++number)
      moveFill(builder, chain, first, number);
}

namespace {
struct AttnTilePrefetchPass
    : KernelPass<AttnTilePrefetchPass,
                 attn_tile::impl::AttnTilePrefetchPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain,
                                        KernelPhase::Staged};

  void runOnKernel();
};
} // namespace

void AttnTilePrefetchPass::runOnKernel() {
  KernelOp kernel = getOperation();
  SmallVector<scf::ForOp> heads;
  kernel.walk([&](scf::ForOp loop) {
    if (!loop.getBody()->getOps<AcquireOp>().empty() && !hasPreviousLoop(loop))
      heads.push_back(loop);
  });
  remark::RemarkOpts opts = remark::RemarkOpts::name("Prefetch")
                                .category(getArgument())
                                .function(kernel.getName());
  for (scf::ForOp head : heads) {
    StringRef reason;
    DominanceInfo dominance(kernel);
    FailureOr<Chain> chain = collectChain(head, refill, dominance, reason);
    if (failed(chain)) {
      remark::missed(head.getLoc(), opts) << reason;
      continue;
    }
    prefetch(*chain);
    ++numChains;
  }
}
