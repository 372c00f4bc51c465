//===- PipelineSteps.cpp - Begin the next step early ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Software pipelining of the steps of a gradient. The operations of the next
// step that do not depend on this one start between the MMAs of this step, so
// that an MMA is always in flight.
//
//===----------------------------------------------------------------------===//

#include "Arrivals.h"
#include "LoopChains.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Transforms.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEPIPELINESTEPSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
/// The order in which the operations of a step are issued, some of them for the
/// next step.
class StepSchedule {
public:
  explicit StepSchedule(scf::ForOp loop) : body(loop.getBody()) {}

  /// Finds the order; returns failure, with a reason, if there is none.
  LogicalResult build(StringRef &reason);

  /// The operations in order, with their stage: 0 for operations of the next
  /// step.
  ArrayRef<std::pair<Operation *, unsigned>> getOrder() const { return order; }

private:
  /// The MMAs of one tile of queries, by their operands.
  struct Part {
    /// The MMAs of the scores S and of dP.
    MmaStartOp scores, grads;
    /// The MMAs that read P, that read dS from registers, and that read dS from
    /// shared memory, where it is by the end of the part.
    SmallVector<MmaStartOp> ofProbabilities, ofGrads, ofShared;
    SmallVector<LocalStoreOp> localStores;
    SmallVector<Operation *> exponentials;
    /// The waits for rows that only dS reads, if the MMA of dP has its
    /// left-hand side in registers.
    SmallVector<WaitOp> rowWaits;
    /// With dropout: the keep masks, the operations that apply them to P, and
    /// the multiplications of P that dS reads.
    SmallVector<Operation *> keepMasks, drops, addends;
    /// The loads of keep masks for the same part of the next step.
    SmallVector<Operation *> loadsAhead;
  };

  LogicalResult findParts(StringRef &reason);
  /// Finds the MMAs that begin a part, in pairs: those that depend on no other
  /// MMA. Adds the others to `late`.
  LogicalResult pairMmas(SmallVectorImpl<MmaStartOp> &late, StringRef &reason);
  /// Finds the exponentials of `part`, and its operations of dropout.
  void findProbabilities(Part &part, const DenseSet<Operation *> &ofScores,
                         const DenseSet<Operation *> &ofGrads);
  /// Finds the stores of `part`, and its MMAs among `late`. Later parts depend
  /// on earlier parts only through accumulators.
  void findUses(Part &part, ArrayRef<MmaStartOp> late,
                const DenseSet<Operation *> &ofScores,
                const DenseSet<Operation *> &ofGrads);
  /// Moves the beginning of the first part to the previous step.
  void beginEarly();
  /// Finds the row waits of `part` that keep its exponentials before them.
  void findRowWaits(Part &part);
  /// Calls `fn` on each operation of the step whose result `op` uses.
  void forEachDef(Operation *op, function_ref<void(Operation *)> fn) const;
  /// The operations of the step that depend on the result of `op`, `op`
  /// included.
  DenseSet<Operation *> collectUsers(Operation *op) const;
  MmaWaitOp getWait(MmaStartOp start) const;
  /// The load of `keepMask` for the next step, if the loop carries `keepMask`.
  Operation *getCarriedLoad(Value keepMask) const;
  /// Whether the dQ tiles of `part` are added to the dQ accumulator straight
  /// from registers.
  bool addsRegisters(const Part &part) const;
  /// Issues the MMAs that read dS of `part` from shared memory, and the
  /// operations up to the next scores. dQ tiles are added from shared memory,
  /// or from registers.
  void addThroughPipe(const Part &part, const Part &next);
  void addInParts(const Part &part, const Part &next);
  /// Issues the additions of the result of an MMA to the dQ accumulator.
  void issueAdditions(MmaStartOp start);
  /// Waits for the MMAs of `part` that read dS from shared memory, and stores
  /// their results for the additions to the dQ accumulator.
  void stageAdditions(const Part &part);
  /// Issues the reads of the values of rows that the scores of `part` begin
  /// with, if any.
  void issueFirstScores(const Part &part);
  /// Issues `op`, after the operations of its stage that it needs.
  void issue(Operation *op);
  template <typename OpTy>
  void issueAll(const SmallVector<OpTy> &ops) {
    for (OpTy op : ops)
      issue(op);
  }
  /// Issues `part`, and the beginning of the next one.
  void issuePart(const Part &part, const Part &next);
  /// Issues the wait for an MMA, and then the releases of the stages that all
  /// readers have read by then.
  void issueWait(MmaStartOp start);
  void issueReleases();
  /// Whether each operation comes after the operations that it depends on.
  bool isInOrder() const;
  /// Whether the operands of `op`, which is executed in `stage`, are computed
  /// by the operations `before` it in the order, or by the previous step.
  bool isReady(Operation *op, unsigned stage,
               const DenseSet<Operation *> &before) const;

  Block *body;
  SmallVector<Part, 0> parts;
  /// The operations that are executed for the next step.
  DenseSet<Operation *> early;
  DenseSet<Operation *> issued;
  std::vector<std::pair<Operation *, unsigned>> order;
};
} // namespace

void StepSchedule::forEachDef(Operation *op,
                              function_ref<void(Operation *)> fn) const {
  op->walk([&](Operation *nested) {
    for (Value operand : nested->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (def && def->getBlock() == body)
        fn(def);
    }
  });
}

DenseSet<Operation *> StepSchedule::collectUsers(Operation *op) const {
  DenseSet<Operation *> users = {op};
  for (Operation &other : *body)
    forEachDef(&other, [&](Operation *def) {
      if (users.contains(def))
        users.insert(&other);
    });
  return users;
}

MmaWaitOp StepSchedule::getWait(MmaStartOp start) const {
  for (Operation *user : start->getUsers())
    if (auto wait = dyn_cast<MmaWaitOp>(user); wait && wait->getBlock() == body)
      return wait;
  return nullptr;
}

void StepSchedule::issue(Operation *op) {
  if (!issued.insert(op).second)
    return;
  forEachDef(op, [&](Operation *def) {
    if (early.contains(def) == early.contains(op))
      issue(def);
  });
  order.push_back({op, early.contains(op) ? 0 : 1});
  // Nothing reads a stage before it is cleared.
  if (auto wait = dyn_cast<WaitOp>(op))
    for (Operation *user : wait.getBuffer().getUsers())
      if (isa<ClearOp>(user))
        issue(user);
}

void StepSchedule::issueWait(MmaStartOp start) {
  issue(getWait(start));
  issueReleases();
}

void StepSchedule::issueReleases() {
  for (auto release : body->getOps<ReleaseOp>()) {
    bool isRead = llvm::all_of(
        release.getBuffer().getUsers(), [&](Operation *user) -> bool {
          if (auto start = dyn_cast<MmaStartOp>(user))
            user = getWait(start);
          else if (auto read = dyn_cast<ReadOp>(user))
            user = getArrival(read);
          // The previous step has executed the early operations.
          return user == release || issued.contains(user) ||
                 (early.contains(user) && !early.contains(release));
        });
    if (isRead)
      issue(release);
  }
}

Operation *StepSchedule::getCarriedLoad(Value keepMask) const {
  auto argument = dyn_cast<BlockArgument>(keepMask);
  if (!argument || argument.getOwner() != body)
    return nullptr;
  auto loop = cast<scf::ForOp>(body->getParentOp());
  OpOperand *next = loop.getTiedLoopYieldedValue(argument);
  auto load = next ? next->get().getDefiningOp<LoadKeepMaskOp>() : nullptr;
  return load && load->getBlock() == body ? load : nullptr;
}

/// Whether `mma` adds to values of rows.
static bool addsToRows(MmaStartOp mma) {
  return mma.getAcc() && mma.getAcc().getDefiningOp<vector::BroadcastOp>();
}

LogicalResult StepSchedule::pairMmas(SmallVectorImpl<MmaStartOp> &late,
                                     StringRef &reason) {
  SmallVector<MmaStartOp> first;
  for (auto start : body->getOps<MmaStartOp>()) {
    if (!getWait(start)) {
      reason = "an MMA is not waited for in its step";
      return failure();
    }
    SetVector<Operation *> slice;
    SetVector<Value> inputs;
    collectSlice(start, body, slice, inputs);
    bool isFirst = (!start.getAcc() || addsToRows(start)) &&
                   llvm::none_of(slice, llvm::IsaPred<MmaWaitOp>);
    (isFirst ? first : late).push_back(start);
  }
  if (first.empty() || first.size() % 2 != 0) {
    reason = "a step does not begin with pairs of MMAs";
    return failure();
  }
  for (size_t i = 0; i < first.size(); i += 2) {
    Part &part = parts.emplace_back();
    part.scores = first[i];
    part.grads = first[i + 1];
  }
  return success();
}

LogicalResult StepSchedule::findParts(StringRef &reason) {
  SmallVector<MmaStartOp> late;
  if (failed(pairMmas(late, reason)))
    return failure();
  for (Part &part : parts) {
    DenseSet<Operation *> ofScores = collectUsers(getWait(part.scores));
    DenseSet<Operation *> ofGrads = collectUsers(getWait(part.grads));
    findProbabilities(part, ofScores, ofGrads);
    if (part.exponentials.empty()) {
      reason = "a step has no exponentials of its first MMA";
      return failure();
    }
    findUses(part, late, ofScores, ofGrads);
    findRowWaits(part);
  }
  return success();
}

void StepSchedule::findProbabilities(Part &part,
                                     const DenseSet<Operation *> &ofScores,
                                     const DenseSet<Operation *> &ofGrads) {
  auto isBeforeGrads = [&](Operation *op) {
    return ofScores.contains(op) && !ofGrads.contains(op);
  };
  for (auto exponential : body->getOps<math::Exp2Op>())
    if (isBeforeGrads(exponential))
      part.exponentials.push_back(exponential);
  for (auto drop : body->getOps<DropoutOp>()) {
    if (!ofScores.contains(drop))
      continue;
    part.drops.push_back(drop);
    Operation *keepMask = drop.getKeepMask().getDefiningOp();
    if (keepMask && keepMask->getBlock() == body)
      part.keepMasks.push_back(keepMask);
    if (Operation *load = getCarriedLoad(drop.getKeepMask()))
      part.loadsAhead.push_back(load);
  }
  if (part.drops.empty())
    return;
  for (auto multiply : body->getOps<arith::MulFOp>())
    if (isBeforeGrads(multiply))
      part.addends.push_back(multiply);
}

void StepSchedule::findUses(Part &part, ArrayRef<MmaStartOp> late,
                            const DenseSet<Operation *> &ofScores,
                            const DenseSet<Operation *> &ofGrads) {
  auto dependsOn = [&](Operation *op, const DenseSet<Operation *> &users) {
    return op && op->getBlock() == body && users.contains(op);
  };
  for (auto localStore : body->getOps<LocalStoreOp>())
    if (dependsOn(localStore.getTile().getDefiningOp(), ofGrads))
      part.localStores.push_back(localStore);
  for (MmaStartOp start : late) {
    Operation *lhs = start.getLhs().getDefiningOp();
    Operation *rhs = start.getRhs().getDefiningOp();
    if (isa_and_present<LocalStoreOp>(lhs) ||
        isa_and_present<LocalStoreOp>(rhs)) {
      if (dependsOn(lhs, ofGrads) || dependsOn(rhs, ofGrads))
        part.ofShared.push_back(start);
    } else if (dependsOn(lhs, ofGrads)) {
      part.ofGrads.push_back(start);
    } else if (dependsOn(lhs, ofScores)) {
      part.ofProbabilities.push_back(start);
    }
  }
}

void StepSchedule::findRowWaits(Part &part) {
  if (!isa<VectorType>(part.grads.getLhs().getType()))
    return;
  for (auto read : body->getOps<ReadOp>()) {
    auto wait = read.getBuffer().getDefiningOp<WaitOp>();
    if (!wait || wait->getBlock() != body)
      continue;
    DenseSet<Operation *> users = collectUsers(read);
    auto isUsed = [&](Operation *op) { return users.contains(op); };
    auto isLhsUsed = [&](MmaStartOp start) {
      return isUsed(start.getLhs().getDefiningOp());
    };
    if (llvm::none_of(part.exponentials, isUsed) &&
        llvm::any_of(part.ofGrads, isLhsUsed))
      part.rowWaits.push_back(wait);
  }
}

bool StepSchedule::addsRegisters(const Part &part) const {
  return llvm::any_of(part.ofShared, [&](MmaStartOp start) {
    return llvm::any_of(getWait(start)->getUsers(),
                        llvm::IsaPred<BulkReduceAddOp>);
  });
}

void StepSchedule::beginEarly() {
  const Part &part = parts.front();
  SetVector<Operation *> slice;
  SetVector<Value> inputs;
  collectSlice(getWait(part.scores), body, slice, inputs);
  collectSlice(part.grads, body, slice, inputs);
  for (Operation *op :
       llvm::concat<Operation *const>(part.exponentials, part.keepMasks))
    collectSlice(op, body, slice, inputs);
  for (WaitOp wait : part.rowWaits)
    collectSlice(wait, body, slice, inputs);
  for (auto clear : body->getOps<ClearOp>())
    if (slice.contains(clear.getBuffer().getDefiningOp()))
      collectSlice(clear, body, slice, inputs);
  early.insert(slice.begin(), slice.end());
}

void StepSchedule::issueAdditions(MmaStartOp start) {
  for (Operation *user : getWait(start)->getUsers())
    if (isa<StageFragmentsOp, BulkReduceAddOp>(user))
      issue(user);
}

void StepSchedule::stageAdditions(const Part &part) {
  for (MmaStartOp start : part.ofShared) {
    issueWait(start);
    issueAdditions(start);
    if (!addsToRows(part.grads))
      continue;
    for (Operation *user : getWait(start)->getUsers())
      if (isa<StageFragmentsOp>(user))
        for (Operation *addition : user->getUsers())
          issue(addition);
  }
}

void StepSchedule::issueFirstScores(const Part &part) {
  MmaStartOp scores = part.scores;
  if (addsToRows(scores))
    issue(scores.getAcc().getDefiningOp());
}

void StepSchedule::addThroughPipe(const Part &part, const Part &next) {
  // The MMAs that read shared memory come first, because their results still
  // have to reach global memory. The next scores are in flight meanwhile.
  issueAll(part.ofShared);
  issue(next.scores);
  // An MMA whose left-hand side is in registers holds up its warp until the
  // MMAs before it are nearly done. If only the scores add to rows, storing dQ
  // before is faster, and slower if not (docs/experiments/backward-sm90.md).
  if (addsToRows(part.scores) && !addsToRows(part.grads))
    stageAdditions(part);
  issueAll(part.ofGrads);
  stageAdditions(part);
}

void StepSchedule::addInParts(const Part &part, const Part &next) {
  // Additions from registers stall their warps, so MMAs must be in flight
  // behind each part of dQ. These are the other MMAs of this step and, at last,
  // the MMAs that begin the next step, for which registers are free by then.
  issue(part.ofShared.front());
  issueAll(part.ofGrads);
  issueAll(part.ofShared);
  for (MmaStartOp start : part.ofShared) {
    issueWait(start);
    if (start == part.ofShared.back()) {
      for (MmaStartOp ofGrads : part.ofGrads)
        issueWait(ofGrads);
      issue(next.scores);
      issue(next.grads);
    }
    issueAdditions(start);
  }
}

void StepSchedule::issuePart(const Part &part, const Part &next) {
  // Dropout is applied to P while dP is in flight.
  issueAll(part.drops);
  issueAll(part.addends);
  issueWait(part.grads);
  issueAll(part.ofProbabilities);
  for (MmaStartOp start : part.ofGrads)
    issue(start.getLhs().getDefiningOp());
  issueFirstScores(next);
  issueAll(part.localStores);
  for (MmaStartOp start : part.ofProbabilities)
    issueWait(start);
  if (addsRegisters(part))
    addInParts(part, next);
  else
    addThroughPipe(part, next);
  issue(next.scores);
  // The fewest registers hold tiles at this point.
  issueAll(next.keepMasks);
  issueAll(part.loadsAhead);
  issue(next.grads);
  issue(getWait(next.scores));
  issueAll(next.exponentials);
  // A wait for a stage polls, and assemblers move nothing across that. So the
  // exponentials are computed here, while MMAs are in flight, and not behind
  // the waits for the MMAs. If dP has its left-hand side in shared memory,
  // that is no faster for head dim 64, and slower for 128
  // (docs/experiments/backward-register-operands.md).
  issueAll(next.rowWaits);
  for (MmaStartOp start : part.ofGrads)
    issueWait(start);
}

LogicalResult StepSchedule::build(StringRef &reason) {
  if (failed(findParts(reason)))
    return failure();
  beginEarly();
  for (auto [i, part] : llvm::enumerate(parts))
    issuePart(part, parts[(i + 1) % parts.size()]);
  for (Operation &op : body->without_terminator())
    issue(&op);
  if (!isInOrder()) {
    reason = "operations of the next step need results of this one";
    return failure();
  }
  return success();
}

bool StepSchedule::isReady(Operation *op, unsigned stage,
                           const DenseSet<Operation *> &before) const {
  auto loop = cast<scf::ForOp>(body->getParentOp());
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    // The next step takes the value that this step yields.
    auto argument = dyn_cast<BlockArgument>(operand);
    bool isCarried = argument && argument.getOwner() == body &&
                     argument != loop.getInductionVar();
    if (isCarried && stage == 0)
      operand = loop.getTiedLoopYieldedValue(argument)->get();
    Operation *def = operand.getDefiningOp();
    if (!def || def->getBlock() != body)
      return true;
    // The previous step has executed the early operations.
    bool isOfSameStep = stage == 1 || isCarried;
    return early.contains(def) ? isOfSameStep || before.contains(def)
                               : isOfSameStep && before.contains(def);
  });
}

bool StepSchedule::isInOrder() const {
  DenseSet<Operation *> before;
  for (auto [op, stage] : order) {
    WalkResult walk = op->walk([&, stage = stage](Operation *nested) {
      return isReady(nested, stage, before) ? WalkResult::advance()
                                            : WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      return false;
    before.insert(op);
  }
  return true;
}

namespace {
struct AttnTilePipelineStepsPass
    : KernelPass<AttnTilePipelineStepsPass,
                 attn_tile::impl::AttnTilePipelineStepsPassBase> {
  using Base::Base;

  static constexpr PhaseContract phases{KernelPhase::Specialized,
                                        KernelPhase::Specialized};

  void runOnKernel();
};
} // namespace

/// Pipelines `loop` and returns whether that was possible.
static LogicalResult pipelineSteps(RewriterBase &rewriter, scf::ForOp loop,
                                   const StepSchedule &schedule) {
  scf::PipeliningOption options;
  options.getScheduleFn =
      [&](scf::ForOp, std::vector<std::pair<Operation *, unsigned>> &order) {
        llvm::append_range(order, schedule.getOrder());
      };
  // The guard ensures that the loop has at least one step.
  options.supportDynamicLoops = true;
  options.predicateFn = [](RewriterBase &, Operation *op, Value) { return op; };
  guardSteps(rewriter, loop);
  rewriter.setInsertionPoint(loop);
  FailureOr<scf::ForOp> pipelined =
      scf::pipelineForLoop(rewriter, loop, options);
  if (failed(pipelined))
    return failure();
  // The last step exists, so its results need no select.
  for (Operation &op : llvm::make_early_inc_range(*(*pipelined)->getBlock())) {
    auto select = dyn_cast<arith::SelectOp>(op);
    if (select &&
        select.getFalseValue().getDefiningOp() == pipelined->getOperation())
      rewriter.replaceOp(select, select.getTrueValue());
  }
  return success();
}

void AttnTilePipelineStepsPass::runOnKernel() {
  SmallVector<scf::ForOp> loops;
  getOperation().walk([&](scf::ForOp loop) {
    if (!loop.getBody()->getOps<MmaStartOp>().empty())
      loops.push_back(loop);
  });
  IRRewriter rewriter(&getContext());
  for (scf::ForOp loop : loops) {
    remark::RemarkOpts opts = remark::RemarkOpts::name("PipelineSteps")
                                  .category(getArgument())
                                  .function(getOperation().getName());
    Location loc = loop.getLoc();
    StepSchedule schedule(loop);
    StringRef reason = "its bounds are too close to one another";
    if (succeeded(schedule.build(reason)) &&
        succeeded(pipelineSteps(rewriter, loop, schedule))) {
      remark::passed(loc, opts) << "begins the next step early";
      continue;
    }
    remark::missed(loc, opts) << reason;
  }
}
