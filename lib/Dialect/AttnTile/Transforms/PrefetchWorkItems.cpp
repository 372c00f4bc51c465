//===- PrefetchWorkItems.cpp - Find the next work item ahead --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes the indices of the next work item, and the bounds of its loops,
// where the steps of this item end. That overlaps the stores of the results
// instead of delaying the first MMA of the next item.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEPREFETCHWORKITEMSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

#define DEBUG_TYPE "attn-tile-prefetch-work-items"

using namespace mlir;
using namespace mlir::attn_tile;

/// Whether `op` divides by a value that is not constant. Such an operation is
/// slow enough to be worth executing ahead.
static bool isDivision(Operation *op) {
  return isa<arith::DivUIOp, arith::RemUIOp, arith::CeilDivUIOp, arith::DivSIOp,
             arith::RemSIOp, arith::CeilDivSIOp, arith::FloorDivSIOp>(op) &&
         !matchPattern(op->getOperand(1), m_Constant());
}

namespace {
/// The operations that find a work item from its number in the loop over work
/// items.
class WorkItemFinder {
public:
  explicit WorkItemFinder(scf::ForOp loop);

  /// Whether finding the work item takes long.
  bool takesLong() const { return llvm::any_of(ops, isDivision); }

  /// The results that the rest of the work item uses.
  ValueRange getResults() const { return results.getArrayRef(); }

  /// Finds the work item number `item`, which need not exist. If the loop
  /// `mayBeEmpty`, values that do not depend on the number may be zero as well.
  /// Divisors that may be zero are bounded by one.
  SmallVector<Value> emit(OpBuilder &builder, Value item,
                          bool mayBeEmpty) const;

private:
  /// Whether the divisor of `division` may be zero.
  bool mayDivideByZero(Operation *division, bool mayBeEmpty) const;

  Value inductionVar;
  /// The operations, in order.
  SetVector<Operation *> ops;
  /// The operations that depend on the number of the work item.
  SmallPtrSet<Operation *, 32> varying;
  SetVector<Value> results;
};
} // namespace

WorkItemFinder::WorkItemFinder(scf::ForOp loop)
    : inductionVar(loop.getInductionVar()) {
  Block *body = loop.getBody();
  auto isFound = [&](Value value) {
    Operation *def = value.getDefiningOp();
    return value == inductionVar || loop.isDefinedOutsideOfLoop(value) ||
           (def && ops.contains(def));
  };
  auto isVarying = [&](Value value) {
    return value == inductionVar || varying.contains(value.getDefiningOp());
  };
  for (Operation &op : body->without_terminator())
    // Divisions are not pure, because a divisor may be zero.
    if (isMemoryEffectFree(&op) && op.getNumRegions() == 0 &&
        op.getNumResults() == 1 && op.getResult(0).getType().isIntOrIndex() &&
        llvm::all_of(op.getOperands(), isFound)) {
      ops.insert(&op);
      if (llvm::any_of(op.getOperands(), isVarying))
        varying.insert(&op);
    }
  // A cheap operation on other results is recomputed instead of carried.
  for (Operation *op : ops) {
    auto isAtHand = [&](Value value) {
      return value == inductionVar || loop.isDefinedOutsideOfLoop(value) ||
             results.contains(value);
    };
    bool isUsed = llvm::any_of(
        op->getUsers(), [&](Operation *user) { return !ops.contains(user); });
    bool isRecomputed =
        !isDivision(op) && llvm::all_of(op->getOperands(), isAtHand);
    if (isUsed && !isRecomputed)
      results.insert(op->getResult(0));
  }
}

bool WorkItemFinder::mayDivideByZero(Operation *division,
                                     bool mayBeEmpty) const {
  // If the loop runs, its items divide only by loop-invariant values that are
  // not zero.
  if (mayBeEmpty)
    return true;
  Value divisor = division->getOperand(1);
  Operation *def = divisor.getDefiningOp();
  if (auto max = dyn_cast_or_null<arith::MaxUIOp>(def))
    if (matchPattern(max.getRhs(), m_NonZero()))
      return false;
  return divisor == inductionVar || varying.contains(def);
}

SmallVector<Value> WorkItemFinder::emit(OpBuilder &builder, Value item,
                                        bool mayBeEmpty) const {
  IRMapping mapping;
  mapping.map(inductionVar, item);
  for (Operation *op : ops) {
    Operation *found = builder.clone(*op, mapping);
    if (!isDivision(op) || !mayDivideByZero(op, mayBeEmpty))
      continue;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(found);
    Location loc = op->getLoc();
    Value divisor = found->getOperand(1);
    Value one = arith::ConstantOp::create(
        builder, loc, builder.getIntegerAttr(divisor.getType(), 1));
    found->setOperand(1, arith::MaxUIOp::create(builder, loc, divisor, one));
  }
  return llvm::map_to_vector(
      results, [&](Value value) { return mapping.lookup(value); });
}

/// Finds the work items of `loop` one step ahead; returns whether that pays.
static bool findAhead(RewriterBase &rewriter, scf::ForOp loop) {
  WorkItemFinder finder(loop);
  if (!finder.takesLong())
    return false;
  // The steps are the last loop, or the branch around it.
  Operation *steps = nullptr;
  for (Operation &op : loop.getBody()->without_terminator())
    if (op.getNumRegions() != 0)
      steps = &op;
  if (!steps)
    return false;
  rewriter.setInsertionPoint(loop);
  SmallVector<Value> first =
      finder.emit(rewriter, loop.getLowerBound(), /*mayBeEmpty=*/true);
  SmallVector<Value> results(finder.getResults());
  FailureOr<LoopLikeOpInterface> ahead = loop.replaceWithAdditionalYields(
      rewriter, first, /*replaceInitOperandUsesInLoop=*/false,
      [&](OpBuilder &, Location loc, ArrayRef<BlockArgument> current) {
        OpBuilder builder(loop.getContext());
        builder.setInsertionPointAfter(steps);
        Value next = arith::AddIOp::create(builder, loc, loop.getInductionVar(),
                                           loop.getStep());
        SmallVector<Value> found =
            finder.emit(builder, next, /*mayBeEmpty=*/false);
        for (auto [result, argument] : llvm::zip_equal(results, current))
          rewriter.replaceAllUsesExcept(result, argument,
                                        SmallPtrSet<Operation *, 1>());
        return found;
      });
  return succeeded(ahead);
}

namespace {
struct AttnTilePrefetchWorkItemsPass
    : KernelPass<AttnTilePrefetchWorkItemsPass,
                 attn_tile::impl::AttnTilePrefetchWorkItemsPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Specialized,
                                        KernelPhase::Specialized};

  void runOnKernel() {
    IRRewriter rewriter(&getContext());
    for (RoleOp role : getOperation().getBody().getOps<RoleOp>()) {
      if (role.getKind() != RoleKind::Consumer)
        continue;
      for (auto loop :
           llvm::make_early_inc_range(role.getBody().getOps<scf::ForOp>()))
        if (findAhead(rewriter, loop))
          ++numLoops;
        else
          LDBG() << "no work item is fetched early in the loop at "
                 << loop.getLoc();
    }
  }
};
} // namespace
