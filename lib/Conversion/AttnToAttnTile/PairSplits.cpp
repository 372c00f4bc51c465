//===- PairSplits.cpp - Splits of chunks with pair matrices ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where heads are few, work items split the chunks of a head. A chunk makes
//
//   state = transition state + what its own tokens add
//
// of the state before it, and so does a split. Kernels compute both parts of
// all splits at once, the one of this file the states before splits, one after
// the other. Gradients go back through the same splits: the gradient of the
// state before a split is
//
//   dstate = transition^T dstate + what its own tokens add
//
// Many splits are put together in groups, whose transitions and states are
// found at once. The states before groups come one after the other, and then
// those before the splits of all groups at once.
//
// The first splits of packed sequences may have no chunks, in both directions.
// Their transition is the identity, and they add nothing: the ones after them
// have the given state.
//
// A transition is near the identity where tokens change little of a state. Two
// parts of 16 bits for it and for the state leave an error of about 2^-16 in
// bf16. With elements of f32 there is one part.
//
//===----------------------------------------------------------------------===//

#include "CreateKernel.h"
#include "LinearPairs.h"
#include "ScalarKernelBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

namespace {
/// Writes the kernels of the states before splits, and of the transitions and
/// states of groups of splits.
class PairStartWriter : ChunkKernelWriter {
public:
  PairStartWriter(OpBuilder &builder, const LinearKernelForm &form,
                  attn_tile::KernelOp kernel, const ChunkSplits &given,
                  const ChunkSplits &givenGroups);

  static SmallVector<Value> getOperands(const LinearKernelForm &form,
                                        const ChunkSplits &splits,
                                        const ChunkSplits &groups);
  void write();

private:
  /// A tile as the sum of two tiles of 16 bits; `low` is null for f32.
  struct Parts {
    Value high, low;
  };

  bool hasResults() const { return form.part == ChunkPart::Results; }
  Value emitNumItems();
  void findSplits(WorkItem &at);
  Value loadFirst(const WorkItem &at);
  Value reverse(const WorkItem &at, Value number);
  Parts loadTransition(const WorkItem &at, const Chunk &split);
  Value writeSplit(const WorkItem &at, const Chunk &split, Value state);
  void storeLast(const WorkItem &at, Value state);

  Value firstState;
  ChunkSplits groups;
};
} // namespace

SmallVector<Value> PairStartWriter::getOperands(const LinearKernelForm &form,
                                                const ChunkSplits &splits,
                                                const ChunkSplits &groups) {
  SmallVector<Value> operands = {form.key,
                                 form.value,
                                 form.sequences,
                                 splits.transitions,
                                 splits.transitionRests,
                                 splits.count,
                                 form.sequences ? splits.chunks : Value(),
                                 groups.count,
                                 groups.chunks};
  switch (form.part) {
  case ChunkPart::Results:
    operands.append(
        {form.firstState, splits.states, splits.starts, groups.starts});
    break;
  case ChunkPart::SplitStates:
    operands.append({splits.states, groups.states});
    break;
  case ChunkPart::Transitions:
    operands.append({groups.transitions, groups.transitionRests});
  }
  return dropNull(operands);
}

PairStartWriter::PairStartWriter(OpBuilder &builder,
                                 const LinearKernelForm &form,
                                 attn_tile::KernelOp kernel,
                                 const ChunkSplits &given,
                                 const ChunkSplits &givenGroups)
    : ChunkKernelWriter(builder, form, kernel,
                        getOperands(form, given, givenGroups)),
      firstState(get(form.firstState)), groups(givenGroups) {
  splits = given;
  // Sequences are split by themselves.
  if (!form.sequences)
    splits.chunks = Value();
  replaceByArguments(splits.getBuffers());
  replaceByArguments(groups.getBuffers());
}

/// The number of work items of a head and tile: groups, or one for all splits.
/// There is nothing to do for a single split. No group begins with the state
/// of the last one.
Value PairStartWriter::emitNumItems() {
  b.setInsertionPointToEnd(entry);
  Value one = b.index(1);
  if (!hasResults())
    return arith::SubIOp::create(b, groups.count, one);
  Value isSplit = arith::MinUIOp::create(
      b, arith::SubIOp::create(b, splits.count, one), one);
  return groups.count
             ? arith::MulIOp::create(b, groups.count, isSplit).getResult()
             : isSplit;
}

/// Gives a work item splits in place of chunks: it has a state after each of
/// them. The last split of a head, or of a group, has a state before it alone.
void PairStartWriter::findSplits(WorkItem &at) {
  at.firstChunk = b.index(0);
  Value end = splits.count;
  if (groups.count) {
    at.firstChunk = arith::MulIOp::create(b, at.split, groups.chunks);
    end = arith::MinUIOp::create(
        b, arith::AddIOp::create(b, at.firstChunk, groups.chunks), end);
  }
  at.numChunks = arith::SubIOp::create(b, end, at.firstChunk);
  if (hasResults())
    at.numChunks = arith::SubIOp::create(b, at.numChunks, b.index(1));
}

/// The state before the first split of a work item, or columns of the identity
/// that become columns of a transition.
Value PairStartWriter::loadFirst(const WorkItem &at) {
  if (form.part == ChunkPart::Transitions)
    return emitIdentity(at);
  Value none = zeros({keyDim, valueDim});
  if (!hasResults())
    return none;
  auto loadGiven = [&]() -> Value {
    return firstState
               ? multiply(loadState(firstState, at.state, at), form.stateFactor)
               : none;
  };
  if (!groups.count)
    return loadGiven();
  Value isGrouped =
      arith::CmpIOp::create(b, CmpIPredicate::ugt, groups.count, b.index(1));
  return emitEither(
      isGrouped,
      [&] { return loadState(groups.starts, {at.split, at.state}, at); },
      loadGiven);
}

/// The number in the other direction of split `number`. In both directions, the
/// first splits of a packed sequence have no chunks.
Value PairStartWriter::reverse(const WorkItem &at, Value number) {
  Value last = arith::SubIOp::create(b, splits.count, b.index(1));
  if (!at.firstSplit)
    return arith::SubIOp::create(b, last, number);
  Value reversed = arith::SubIOp::create(
      b, arith::AddIOp::create(b, last, at.firstSplit), number);
  Value isEmpty =
      arith::CmpIOp::create(b, CmpIPredicate::ult, number, at.firstSplit);
  return arith::SelectOp::create(b, isEmpty, number, reversed);
}

/// Loads the transition of a split. The splits of gradients are in reverse.
PairStartWriter::Parts PairStartWriter::loadTransition(const WorkItem &at,
                                                       const Chunk &split) {
  Value number = split.number;
  if (form.isReversed)
    number = reverse(at, number);
  auto load = [&](Value source) {
    return b.load({keyDim, keyDim}, source,
                  {number, at.state, at.head, b.index(0), b.index(0)},
                  split.position, at.numChunks);
  };
  Parts parts = {load(splits.transitions), Value()};
  if (splits.transitionRests)
    parts.low = load(splits.transitionRests);
  return parts;
}

/// Returns the state after a split from the one before it.
Value PairStartWriter::writeSplit(const WorkItem &at, const Chunk &split,
                                  Value state) {
  Value next = splits.states
                   ? loadState(splits.states, {split.number, at.state}, at)
                   : zeros({keyDim, valueDim});
  Parts transition = loadTransition(at, split);
  if (hasResults())
    storeState(state, splits.starts, {split.number, at.state}, at);
  Parts before;
  before.high = b.round(state, element);
  if (transition.low)
    before.low = b.round(arith::SubFOp::create(b, state, b.extend(before.high)),
                         element);
  ContractForm contractForm =
      form.isReversed ? ContractForm::TransposedLhs : ContractForm::Plain;
  next = b.contract(transition.high, before.high, next, contractForm);
  if (!transition.low)
    return next;
  next = b.contract(transition.high, before.low, next, contractForm);
  return b.contract(transition.low, before.high, next, contractForm);
}

void PairStartWriter::storeLast(const WorkItem &at, Value state) {
  switch (form.part) {
  case ChunkPart::Results: {
    Value last = arith::AddIOp::create(b, at.firstChunk, at.numChunks);
    return storeState(state, splits.starts, {last, at.state}, at);
  }
  case ChunkPart::SplitStates:
    return storeState(state, groups.states, {at.split, at.state}, at);
  case ChunkPart::Transitions:
    return storeTransition(at, state, groups);
  }
}

void PairStartWriter::write() {
  writeItems(emitNumItems(), [&](const WorkItem &ofHead) {
    WorkItem at = ofHead;
    findSplits(at);
    auto loop = scf::ForOp::create(b, b.index(0), at.numChunks, b.index(1),
                                   loadFirst(at));
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Chunk split;
      split.position = loop.getInductionVar();
      split.number = arith::AddIOp::create(b, at.firstChunk, split.position);
      scf::YieldOp::create(b, writeSplit(at, split, loop.getRegionIterArg(0)));
    }
    storeLast(at, loop.getResult(0));
  });
}

/// Allocates the transitions of `splits`.
static void allocateTransitions(ScalarKernelBuilder &b,
                                const LinearKernelForm &form,
                                ChunkSplits &splits) {
  int64_t keyDim = form.getKeyHeadDim();
  auto type = MemRefType::get({ShapedType::kDynamic, ShapedType::kDynamic,
                               form.getNumHeads(), keyDim, keyDim},
                              getElementTypeOrSelf(form.key));
  auto allocate = [&]() -> Value {
    return memref::AllocOp::create(
        b, type, ValueRange{splits.count, emitNumStates(b, form)});
  };
  splits.transitions = allocate();
  if (!type.getElementType().isF32())
    splits.transitionRests = allocate();
}

ChunkSplits attn::createPairSplits(OpBuilder &builder,
                                   const LinearKernelForm &form) {
  LinearKernelForm ofChunks = withSchedule(form, getParts(form.op).getChunks());
  ChunkSplits splits = createSplits(builder, ofChunks, ofChunks.countTiles(),
                                    /*isRepeated=*/true);
  if (!splits.count)
    return splits;
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  allocateTransitions(b, form, splits);
  return splits;
}

/// Puts splits together in groups, `chunks` splits in each. One of N splits
/// after the other takes N steps, groups of the root of N take three times as
/// many steps as the root, and more kernels.
static ChunkSplits createGroups(ScalarKernelBuilder &b,
                                const LinearKernelForm &form,
                                const ChunkSplits &splits) {
  constexpr int64_t fewSplits = 24;
  Value number = arith::UIToFPOp::create(
      b, b.getF64Type(),
      arith::IndexCastUIOp::create(b, b.getI64Type(), splits.count));
  Value root = arith::IndexCastUIOp::create(
      b, b.getIndexType(),
      arith::FPToUIOp::create(b, b.getI64Type(),
                              math::SqrtOp::create(b, number)));
  Value isFew =
      b.compare(CmpIPredicate::ule, splits.count, b.constant(fewSplits));
  ChunkSplits groups;
  groups.chunks = b.select(isFew, splits.count, b.add(root, b.constant(1)));
  groups.count = arith::DivUIOp::create(
      b, b.add(splits.count, b.sub(groups.chunks, b.constant(1))),
      groups.chunks);
  // No kernel reads the buffers of a single group.
  Value isSeveral = b.compare(CmpIPredicate::ugt, groups.count, b.constant(1));
  ChunkSplits allocated;
  allocated.count = b.select(isSeveral, groups.count, b.constant(0));
  allocateStates(b, form, allocated);
  allocateTransitions(b, form, allocated);
  allocated.count = groups.count;
  allocated.chunks = groups.chunks;
  return allocated;
}

void attn::createPairStarts(RewriterBase &rewriter, LinearKernelForm form,
                            const ChunkSplits &splits, SymbolTable &symbols,
                            StringRef name) {
  form = withSchedule(form, getParts(form.op).getStarts());
  ScalarKernelBuilder b(form.op->getLoc(), rewriter);
  ChunkSplits groups = createGroups(b, form, splits);
  auto create = [&](LinearKernelForm ofPart, StringRef suffix,
                    const ChunkSplits &ofKernel, const ChunkSplits &ofGroups) {
    attn_tile::KernelOp kernel = createKernel(
        rewriter, form.op, form.schedule, symbols, (name + suffix).str(),
        PairStartWriter::getOperands(ofPart, ofKernel, ofGroups));
    PairStartWriter(rewriter, ofPart, kernel, ofKernel, ofGroups).write();
    rewriter.setInsertionPoint(form.op);
    return form.op->getPrevNode();
  };
  Value isGrouped = b.compare(CmpIPredicate::ugt, groups.count, b.constant(1));
  auto branch = scf::IfOp::create(b, isGrouped, /*withElseRegion=*/false);
  auto createInBranch = [&](ChunkPart part, StringRef suffix,
                            const ChunkSplits &ofKernel,
                            const ChunkSplits &ofGroups) {
    LinearKernelForm ofPart = form;
    ofPart.part = part;
    // Groups are in the order of their splits, and have their own transitions.
    ofPart.isReversed &= bool(ofGroups.count);
    // A transition has as many columns as rows.
    if (part == ChunkPart::Transitions)
      ofPart.value = form.key;
    create(ofPart, suffix, ofKernel, ofGroups)->moveBefore(branch.thenYield());
  };
  createInBranch(ChunkPart::SplitStates, "_group_states", splits, groups);
  createInBranch(ChunkPart::Transitions, "_group_transitions", splits, groups);
  ChunkSplits asSplits = groups;
  asSplits.chunks = Value();
  createInBranch(ChunkPart::Results, "_group_starts", asSplits, ChunkSplits());
  create(form, "_starts", splits, groups);
  deallocate(rewriter, form.op->getLoc(),
             {groups.states, groups.starts, groups.transitions,
              groups.transitionRests});
}
