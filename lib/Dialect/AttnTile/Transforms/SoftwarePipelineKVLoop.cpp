//===- SoftwarePipelineKVLoop.cpp - Delay the last matmul of a step -------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves the second matmul of each step over key tiles into the next step. Both
// matmuls of the new step are independent of one another and come first, so
// that they can be in flight while the softmax runs. Dropout of P, and possibly
// the rescaling of the accumulator, happen between the two, while the first is
// in flight.
//
//===----------------------------------------------------------------------===//

#include "LoopChains.h"
#include "RowFactors.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILESOFTWAREPIPELINEKVLOOPPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
/// The parts of one step: the first matmul with its inputs, the last matmul
/// with its staged operand, and the rest.
struct Step {
  scf::ForOp loop;
  vector::ContractionOp first;
  vector::ContractionOp last;
  /// The index of the carried value that the last matmul computes.
  unsigned accIndex = 0;
  /// The first matmul and the operations on which it depends.
  SetVector<Operation *> firstOps;
  /// The operations on which the right-hand side of the last matmul depends.
  SetVector<Operation *> lastOps;
  /// The dropout of the left-hand side of the last matmul, if it is delayed,
  /// too, and the operations that load its keep mask.
  DropoutOp drop;
  SetVector<Operation *> keepMaskOps;
  /// The extension of 8-bit elements of the left-hand side of the last matmul,
  /// if there is one, which is delayed, too: fewer registers are carried.
  arith::ExtFOp extension;
  /// The multiplication of the accumulator of the last matmul by a factor for
  /// each row, and these factors, if it is delayed, too.
  arith::MulFOp rescale;
  RowFactors factors;
  /// The last matmul, `drop`, `extension`, `rescale`, and the operations of
  /// `lastOps` that nothing else uses.
  DenseSet<Operation *> delayed;
  /// The operations that depend on the result of the previous step's last
  /// matmul.
  DenseSet<Operation *> afterLast;

  Value getAccArg() { return loop.getRegionIterArg(accIndex); }
  /// The values from which the delayed operations compute the operands of the
  /// last matmul.
  SmallVector<Value> getDelayedInputs() {
    SmallVector<Value> inputs = {last.getLhs()};
    if (extension)
      inputs = {extension.getIn()};
    if (drop)
      inputs = {drop.getSource(), drop.getKeepMask()};
    if (rescale)
      inputs.push_back(factors.rows);
    return inputs;
  }
  scf::YieldOp getYield() {
    return cast<scf::YieldOp>(loop.getBody()->getTerminator());
  }
};
} // namespace

/// Calls `fn` on each value that `op` or an operation in it uses.
static void forEachUsedValue(Operation *op, function_ref<void(Value)> fn) {
  op->walk([&](Operation *nested) {
    for (Value operand : nested->getOperands())
      fn(operand);
  });
}

/// Delays the dropout of the left-hand side of the last matmul if its keep mask
/// is loaded, from an address that does not depend on carried values. A keep
/// mask that is generated is not delayed: it would be live for longer.
static void findDrop(Step &step) {
  Block *body = step.loop.getBody();
  auto drop = step.last.getLhs().getDefiningOp<DropoutOp>();
  if (!drop || drop->getBlock() != body || !drop->hasOneUse())
    return;
  auto keepMask = drop.getKeepMask().getDefiningOp<LoadKeepMaskOp>();
  if (!keepMask || keepMask->getBlock() != body)
    return;
  SetVector<Value> inputs;
  SetVector<Operation *> keepMaskOps;
  collectSlice(keepMask, body, keepMaskOps, inputs);
  for (BlockArgument argument : step.loop.getRegionIterArgs())
    if (inputs.contains(argument))
      return;
  step.drop = drop;
  step.keepMaskOps = std::move(keepMaskOps);
  step.delayed.insert(drop);
}

/// Delays the extension of the left-hand side of the last matmul from 8 bits.
static void findExtension(Step &step) {
  auto extension = step.last.getLhs().getDefiningOp<arith::ExtFOp>();
  if (!extension || extension->getBlock() != step.loop.getBody() ||
      !extension->hasOneUse() ||
      !attn::isFloat8(getElementTypeOrSelf(extension.getIn())))
    return;
  step.extension = extension;
  step.delayed.insert(extension);
}

/// Delays the rescaling of the accumulator of the last matmul, if the step only
/// multiplies the accumulator by a factor for each row before that matmul.
static void findRescale(Step &step) {
  auto rescale = step.last.getAcc().getDefiningOp<arith::MulFOp>();
  if (!rescale || rescale->getBlock() != step.loop.getBody() ||
      !rescale->hasOneUse() || !step.getAccArg().hasOneUse())
    return;
  bool isLeft = rescale.getLhs() == step.getAccArg();
  std::optional<RowFactors> factors =
      getRowFactors(isLeft ? rescale.getRhs() : rescale.getLhs());
  if (!factors || (!isLeft && rescale.getRhs() != step.getAccArg()))
    return;
  step.rescale = rescale;
  step.factors = *factors;
  step.delayed.insert(rescale);
}

/// Finds the first and the last matmul of a step, which must not write memory.
static LogicalResult findMatmuls(Step &step, StringRef &reason) {
  for (Operation &op : step.loop.getBody()->without_terminator()) {
    if (!isMemoryEffectFree(&op) &&
        !hasSingleEffect<MemoryEffects::Read>(&op)) {
      reason = "a step writes memory";
      return failure();
    }
    if (auto matmul = dyn_cast<vector::ContractionOp>(op)) {
      if (!step.first)
        step.first = matmul;
      step.last = matmul;
    }
  }
  if (!step.first || step.first == step.last) {
    reason = "a step has fewer than two MMAs";
    return failure();
  }
  Value result = step.last.getResult();
  if (!result.hasOneUse() || *result.user_begin() != step.getYield()) {
    reason = "the last MMA of a step is used in it";
    return failure();
  }
  step.accIndex = result.use_begin()->getOperandNumber();
  return success();
}

/// Collects the operations that compute operands of the first and of the last
/// matmul of a step.
static LogicalResult collectOperands(Step &step, StringRef &reason) {
  Block *body = step.loop.getBody();
  SetVector<Value> inputs;
  collectSlice(step.first, body, step.firstOps, inputs);
  if (inputs.contains(step.getAccArg()) ||
      step.firstOps.contains(step.last.getOperation())) {
    reason = "the first MMA of a step depends on the last one";
    return failure();
  }
  inputs.clear();
  if (Operation *def = step.last.getRhs().getDefiningOp();
      def && def->getBlock() == body)
    collectSlice(def, body, step.lastOps, inputs);
  if (llvm::any_of(step.loop.getRegionIterArgs(), [&](Value argument) {
        return inputs.contains(argument) || step.last.getRhs() == argument;
      })) {
    reason =
        "the right-hand side of the last MMA is computed from carried values";
    return failure();
  }
  return success();
}

/// Delays the last matmul, and what only delayed operations use.
static LogicalResult findDelayed(Step &step, bool deferredRescale,
                                 StringRef &reason) {
  Block *body = step.loop.getBody();
  step.delayed.insert(step.last);
  findDrop(step);
  findExtension(step);
  if (deferredRescale)
    findRescale(step);
  for (Operation *op : llvm::reverse(step.lastOps)) {
    if (!step.firstOps.contains(op) &&
        llvm::all_of(op->getUsers(), [&](Operation *user) {
          return step.delayed.contains(body->findAncestorOpInBlock(*user));
        }))
      step.delayed.insert(op);
  }
  // A streamed tile is loaded once for each position.
  for (Operation *op : step.lastOps)
    if (isa<LoadOp>(op) && !step.delayed.contains(op)) {
      reason = "the right-hand side of the last MMA is used before it";
      return failure();
    }
  return success();
}

/// Recognises the parts of a step, or sets `reason` and fails.
static FailureOr<Step> analyzeStep(scf::ForOp loop, bool deferredRescale,
                                   StringRef &reason) {
  Step step;
  step.loop = loop;
  if (failed(findMatmuls(step, reason)) ||
      failed(collectOperands(step, reason)) ||
      failed(findDelayed(step, deferredRescale, reason)))
    return failure();
  for (Operation &op : loop.getBody()->without_terminator()) {
    forEachUsedValue(&op, [&](Value value) {
      Operation *def = value.getDefiningOp();
      if (value == step.getAccArg() || (def && step.afterLast.contains(def)))
        step.afterLast.insert(&op);
    });
  }
  return step;
}

/// Emits the last matmul of the step at `iv` from carried values: `acc`, and
/// `inputs` in the order of `getDelayedInputs`.
static Value emitLast(OpBuilder &builder, Step &step, Value iv,
                      ValueRange inputs, Value acc, bool isAfterLoop) {
  IRMapping map;
  map.map(step.loop.getInductionVar(), iv);
  for (Operation *op : step.lastOps)
    builder.clone(*op, map);
  Value lhs = inputs.front();
  if (step.drop)
    lhs = DropoutOp::create(builder, step.drop.getLoc(), lhs, inputs[1],
                            step.drop.getBelowTwo());
  if (step.extension)
    lhs = arith::ExtFOp::create(builder, step.extension.getLoc(),
                                step.extension.getType(), lhs);
  if (step.rescale) {
    map.map(step.factors.rows, inputs.back());
    map.map(step.getAccArg(), acc);
    builder.clone(*step.factors.column, map);
    Value factors = builder.clone(*step.factors.tile, map)->getResult(0);
    if (isAfterLoop) {
      // LLVM would move the code that steps and the end of the chain have in
      // common before the branch out of the loop: in front of the first matmul,
      // not concurrent with it. Adding zero makes the end differ.
      Location loc = step.rescale.getLoc();
      Value zero = arith::ConstantOp::create(
          builder, loc, builder.getZeroAttr(acc.getType()));
      acc = math::FmaOp::create(builder, loc, acc, factors, zero);
    } else {
      acc = builder.clone(*step.rescale, map)->getResult(0);
    }
  }
  auto matmul = cast<vector::ContractionOp>(builder.clone(*step.last, map));
  matmul.getLhsMutable().assign(lhs);
  matmul.getAccMutable().assign(acc);
  return matmul.getResult();
}

/// Emits the rest of a step: first keep masks, which need none of its matmuls,
/// then the operations that can run while the previous step's last matmul is in
/// flight, then the operations that need its result.
static void emitRest(OpBuilder &builder, Step &step, IRMapping &map) {
  auto isEmitted = [&](Operation *op) {
    return step.firstOps.contains(op) || step.delayed.contains(op);
  };
  for (Operation *op : step.keepMaskOps)
    if (!isEmitted(op))
      builder.clone(*op, map);
  for (bool afterLast : {false, true})
    for (Operation &op : step.loop.getBody()->without_terminator())
      if (!isEmitted(&op) && !step.keepMaskOps.contains(&op) &&
          step.afterLast.contains(&op) == afterLast)
        builder.clone(op, map);
}

/// The values that a step hands to the next one: its carried values, with the
/// accumulator before the last matmul instead of after it, and the inputs of
/// that matmul's other operands.
static SmallVector<Value> getCarried(Step &step, const IRMapping &map) {
  SmallVector<Value> carried;
  for (Value value : step.getYield().getOperands())
    carried.push_back(map.lookupOrDefault(value));
  carried[step.accIndex] =
      map.lookupOrDefault(step.rescale ? step.getAccArg() : step.last.getAcc());
  for (Value value : step.getDelayedInputs())
    carried.push_back(map.lookupOrDefault(value));
  return carried;
}

/// Emits the first step without its last matmul.
static SmallVector<Value> emitPrologue(OpBuilder &builder, Step &step) {
  scf::ForOp loop = step.loop;
  IRMapping map;
  map.map(loop.getInductionVar(), loop.getLowerBound());
  map.map(loop.getRegionIterArgs(), loop.getInitArgs());
  for (Operation *op : step.firstOps)
    builder.clone(*op, map);
  emitRest(builder, step, map);
  SmallVector<Value> carried = getCarried(step, map);

  // Nothing has been accumulated yet, so there is nothing to rescale. If the
  // factor is not a number, neither are the probabilities, and the result of
  // the row is the same.
  Value &acc = carried[step.accIndex];
  if (auto rescale = acc.getDefiningOp<arith::MulFOp>()) {
    for (Value operand : rescale->getOperands()) {
      if (!matchPattern(operand, m_AnyZeroFloat()))
        continue;
      acc = operand;
      break;
    }
  }
  for (Operation &op : llvm::reverse(loop.getBody()->without_terminator())) {
    if (op.getNumResults() == 0)
      continue;
    Value copy = map.lookupOrNull(op.getResult(0));
    if (copy && !llvm::is_contained(carried, copy) &&
        isOpTriviallyDead(copy.getDefiningOp()))
      copy.getDefiningOp()->erase();
  }
  return carried;
}

/// Emits the loop whose steps begin with the previous step's last matmul.
static scf::ForOp emitLoop(OpBuilder &builder, Step &step, Value lowerBound,
                           ValueRange inits) {
  scf::ForOp loop = step.loop;
  auto rotated = scf::ForOp::create(
      builder, loop.getLoc(), lowerBound, loop.getUpperBound(), loop.getStep(),
      inits,
      [&](OpBuilder &body, Location loc, Value iv, ValueRange carriedIn) {
        IRMapping map;
        map.map(loop.getInductionVar(), iv);
        size_t numCarried = loop.getNumRegionIterArgs();
        map.map(loop.getRegionIterArgs(), carriedIn.take_front(numCarried));
        for (Operation *op : step.firstOps)
          body.clone(*op, map);
        Value previous = arith::SubIOp::create(body, loc, iv, loop.getStep());
        Value result =
            emitLast(body, step, previous, carriedIn.drop_front(numCarried),
                     carriedIn[step.accIndex], /*isAfterLoop=*/false);
        map.map(step.getAccArg(), result);
        emitRest(body, step, map);
        scf::YieldOp::create(body, loc, getCarried(step, map));
      });
  rotated->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  return rotated;
}

static void rotateChain(MutableArrayRef<Step> chain) {
  scf::ForOp first = chain.front().loop;
  Location loc = first.getLoc();
  OpBuilder builder(first);
  SmallVector<Value> carried = emitPrologue(builder, chain.front());

  Value lowerBound = arith::AddIOp::create(builder, loc, first.getLowerBound(),
                                           first.getStep());
  for (Step &step : chain) {
    builder.setInsertionPoint(step.loop);
    scf::ForOp rotated = emitLoop(builder, step, lowerBound, carried);
    carried.assign(rotated.result_begin(), rotated.result_end());
    lowerBound = step.loop.getUpperBound();
  }

  Step &last = chain.back();
  Value iv =
      arith::SubIOp::create(builder, loc, lowerBound, last.loop.getStep());
  ArrayRef<Value> inputs =
      ArrayRef(carried).drop_front(last.loop.getNumRegionIterArgs());
  carried[last.accIndex] =
      emitLast(builder, last, iv, inputs, carried[last.accIndex],
               /*isAfterLoop=*/true);
  carried.truncate(last.loop.getNumRegionIterArgs());
  last.loop.replaceAllUsesWith(carried);
  for (Step &step : llvm::reverse(chain))
    step.loop.erase();
}

namespace {
struct AttnTileSoftwarePipelineKVLoopPass
    : KernelPass<AttnTileSoftwarePipelineKVLoopPass,
                 attn_tile::impl::AttnTileSoftwarePipelineKVLoopPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Plain, KernelPhase::Plain};

  void runOnKernel();

private:
  void rotateFrom(scf::ForOp first);
};
} // namespace

void AttnTileSoftwarePipelineKVLoopPass::rotateFrom(scf::ForOp first) {
  remark::RemarkOpts opts = remark::RemarkOpts::name("SoftwarePipelineKVLoop")
                                .category(getArgument())
                                .function(getOperation().getName());
  SmallVector<Step> chain;
  StringRef reason;
  for (scf::ForOp loop = first; loop; loop = getNextLoop(loop)) {
    FailureOr<Step> step = analyzeStep(loop, deferredRescale, reason);
    if (succeeded(step) && !chain.empty()) {
      scf::ForOp previous = chain.back().loop;
      if (step->accIndex != chain.back().accIndex ||
          step->last.getLhs().getType() !=
              chain.back().last.getLhs().getType() ||
          !step->drop != !chain.back().drop ||
          !step->rescale != !chain.back().rescale)
        reason = "the steps of consecutive loops differ";
      else if (!llvm::all_of(previous->getUsers(), [&](Operation *user) {
                 return user == loop.getOperation();
               }))
        reason =
            "results of a loop have other users than the loop that follows";
    }
    if (!reason.empty()) {
      remark::missed(first.getLoc(), opts) << reason;
      return;
    }
    chain.push_back(std::move(*step));
  }
  // The chain is erased.
  Location loc = first.getLoc();
  rotateChain(chain);
  remark::passed(loc, opts) << "software-pipelined a chain of loops";
}

void AttnTileSoftwarePipelineKVLoopPass::runOnKernel() {
  SmallVector<scf::ForOp> heads;
  getOperation().walk([&](scf::ForOp loop) {
    if (loop.getNumRegionIterArgs() == 0 ||
        loop.getBody()->getOps<vector::ContractionOp>().empty())
      return;
    if (hasPreviousLoop(loop))
      return;
    heads.push_back(loop);
  });
  for (scf::ForOp loop : heads)
    rotateFrom(loop);
}
