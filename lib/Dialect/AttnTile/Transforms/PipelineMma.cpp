//===- PipelineMma.cpp - Keep a chain of MMAs in flight -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes loops that accumulate MMAs start the next MMA before this one is done.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEPIPELINEMMAPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
/// A step that adds one MMA to the accumulator that the loop carries.
struct Step {
  scf::ForOp loop;
  MmaStartOp start;
  MmaWaitOp wait;
  SmallVector<ReleaseOp> releases;
  /// The rest: the operations before the MMA.
  SmallVector<Operation *> before;
};
} // namespace

/// Whether `loop`, which starts at 0, has at least one step.
static bool hasStep(scf::ForOp loop) {
  Value count = loop.getUpperBound();
  APInt constant;
  if (matchPattern(count, m_ConstantInt(&constant)))
    return constant.sgt(0);
  auto atLeast = count.getDefiningOp<arith::MaxUIOp>();
  return atLeast && llvm::any_of(atLeast->getOperands(), [](Value operand) {
           APInt constant;
           return matchPattern(operand, m_ConstantInt(&constant)) &&
                  constant.sgt(0);
         });
}

/// Recognises the parts of a step, or sets `reason` and returns nothing.
static std::optional<Step> matchStep(scf::ForOp loop, StringRef &reason) {
  Step step{loop, nullptr, nullptr, {}, {}};
  reason =
      "a step is more than one MMA that adds to the result of the last one";
  if (loop.getNumRegionIterArgs() != 1)
    return std::nullopt;
  BlockArgument carried = loop.getRegionIterArg(0);
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (auto start = dyn_cast<MmaStartOp>(op)) {
      if (step.start)
        return std::nullopt;
      step.start = start;
    } else if (auto wait = dyn_cast<MmaWaitOp>(op)) {
      step.wait = wait;
    } else if (auto release = dyn_cast<ReleaseOp>(op)) {
      step.releases.push_back(release);
    } else if (step.start) {
      return std::nullopt;
    } else {
      step.before.push_back(&op);
    }
  }
  auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
  if (!step.start || step.start.getAcc() != carried || !carried.hasOneUse() ||
      !step.wait || step.wait.getPending() != step.start.getResult() ||
      yield.getOperand(0) != step.wait.getResult())
    return std::nullopt;
  if (!hasStep(loop)) {
    reason = "the loop may have no step";
    return std::nullopt;
  }
  reason = {};
  return step;
}

/// Starts the MMA of the step at `iv`, added to `acc` if it is given. Returns
/// the pending MMA and the stages that it reads.
static SmallVector<Value> emitStart(OpBuilder &builder, Step &step, Value iv,
                                    Value acc) {
  IRMapping map;
  map.map(step.loop.getInductionVar(), iv);
  for (Operation *op : step.before)
    builder.clone(*op, map);
  MmaStartOp start = step.start;
  auto copy = MmaStartOp::create(
      builder, start.getLoc(), start.getResult().getType(),
      map.lookupOrDefault(start.getLhs()), map.lookupOrDefault(start.getRhs()),
      acc, start.getTransposeLhs(), start.getTransposeRhs(),
      start.getFirstRowAttr(), start.getFirstColumnAttr(),
      start.getConsumerColumns(), start.getMmaAttr());
  SmallVector<Value> results = {copy.getResult()};
  for (ReleaseOp release : step.releases)
    results.push_back(map.lookupOrDefault(release.getBuffer()));
  return results;
}

static void chain(Step &step) {
  scf::ForOp loop = step.loop;
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  Value init = loop.getInitArgs().front();
  if (matchPattern(init, m_AnyZeroFloat()))
    init = nullptr;
  SmallVector<Value> first =
      emitStart(builder, step, loop.getLowerBound(), init);
  Value second =
      arith::AddIOp::create(builder, loc, loop.getLowerBound(), loop.getStep());
  auto release = [&](OpBuilder &builder, ValueRange stages) {
    for (auto [old, stage] : llvm::zip_equal(step.releases, stages))
      ReleaseOp::create(builder, old.getLoc(), stage);
  };
  auto chained = scf::ForOp::create(
      builder, loc, second, loop.getUpperBound(), loop.getStep(), first,
      [&](OpBuilder &body, Location loc, Value iv, ValueRange carried) {
        SmallVector<Value> next = emitStart(body, step, iv, carried.front());
        MmaWaitBeforeOp::create(body, loc, next.front());
        release(body, carried.drop_front());
        scf::YieldOp::create(body, loc, next);
      });
  Value sum = MmaWaitOp::create(builder, loc, chained.getResult(0));
  release(builder, chained.getResults().drop_front());
  loop.getResult(0).replaceAllUsesWith(sum);
  loop.erase();
}

namespace {
struct AttnTilePipelineMmaPass
    : KernelPass<AttnTilePipelineMmaPass,
                 attn_tile::impl::AttnTilePipelineMmaPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Specialized,
                                        KernelPhase::Specialized};

  void runOnKernel() {
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) {
      if (!loop.getBody()->getOps<MmaStartOp>().empty())
        loops.push_back(loop);
    });
    for (scf::ForOp loop : loops) {
      remark::RemarkOpts opts = remark::RemarkOpts::name("PipelineMma")
                                    .category(getArgument())
                                    .function(getOperation().getName());
      StringRef reason;
      std::optional<Step> step = matchStep(loop, reason);
      if (!step) {
        remark::missed(loop.getLoc(), opts) << reason;
        continue;
      }
      remark::passed(loop.getLoc(), opts) << "pipelined the MMAs of a loop";
      chain(*step);
    }
  }
};
} // namespace
