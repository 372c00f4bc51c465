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
// The first splits of packed sequences may have no chunks, in both directions:
// the ones after them have the given state.
//
// A transition is near the identity where tokens change little of a state. Two
// parts of 16 bits for it and for the state leave an error of about 2^-16 in
// bf16. With elements of f32 there is one part.
//
//===----------------------------------------------------------------------===//

#include "CreateKernel.h"
#include "LinearPairs.h"
#include "ScalarKernelBuilder.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Writes the kernel of the states before splits.
class PairStartWriter : ChunkKernelWriter {
public:
  PairStartWriter(OpBuilder &builder, const LinearKernelForm &form,
                  attn_tile::KernelOp kernel, const ChunkSplits &given);

  static SmallVector<Value> getOperands(const LinearKernelForm &form,
                                        const ChunkSplits &splits);
  void write();

private:
  /// A tile as the sum of two tiles of 16 bits; `low` is null for f32.
  struct Parts {
    Value high, low;
  };

  Value getSplit(const WorkItem &at, Value position);
  Parts loadTransition(const WorkItem &at, Value position);
  Value writeSplit(const WorkItem &at, Value position, Value state);

  Value firstState;
};
} // namespace

SmallVector<Value> PairStartWriter::getOperands(const LinearKernelForm &form,
                                                const ChunkSplits &splits) {
  return dropNull({form.key, form.value, form.firstState, form.sequences,
                   splits.states, splits.starts, splits.transitions,
                   splits.transitionRests, splits.count,
                   form.sequences ? splits.chunks : Value()});
}

PairStartWriter::PairStartWriter(OpBuilder &builder,
                                 const LinearKernelForm &form,
                                 attn_tile::KernelOp kernel,
                                 const ChunkSplits &given)
    : ChunkKernelWriter(builder, form, kernel, getOperands(form, given)),
      firstState(get(form.firstState)) {
  splits.states = get(given.states);
  splits.starts = get(given.starts);
  splits.transitions = get(given.transitions);
  splits.transitionRests = get(given.transitionRests);
  splits.count = get(given.count);
  splits.chunks = get(given.chunks);
}

/// The split at a position of a work item.
Value PairStartWriter::getSplit(const WorkItem &at, Value position) {
  return at.firstSplit
             ? arith::AddIOp::create(b, at.firstSplit, position).getResult()
             : position;
}

/// Loads the transition of a split. The splits of gradients are in reverse.
PairStartWriter::Parts PairStartWriter::loadTransition(const WorkItem &at,
                                                       Value position) {
  Value place = position;
  if (form.isReversed)
    place = arith::SubIOp::create(b, at.numChunks, position);
  Value number = getSplit(at, place);
  auto load = [&](Value source) {
    return b.load({keyDim, keyDim}, source,
                  {number, at.state, at.head, b.index(0), b.index(0)}, position,
                  at.numChunks);
  };
  Parts parts = {load(splits.transitions), Value()};
  if (splits.transitionRests)
    parts.low = load(splits.transitionRests);
  return parts;
}

/// Returns the state after a split from the one before it.
Value PairStartWriter::writeSplit(const WorkItem &at, Value position,
                                  Value state) {
  Value split = getSplit(at, position);
  Value next = loadState(splits.states, {split, at.state}, at);
  Parts transition = loadTransition(at, position);
  storeState(state, splits.starts, {split, at.state}, at);
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

/// The last split has a state before it, and none that begins with it. There is
/// nothing to do for a single split.
void PairStartWriter::write() {
  b.setInsertionPointToEnd(entry);
  Value one = b.index(1);
  Value last = arith::SubIOp::create(b, splits.count, one);
  Value isSplit = arith::MinUIOp::create(b, last, one);
  writeItems(isSplit, [&](const WorkItem &ofHead) {
    WorkItem at = ofHead;
    at.numChunks =
        at.firstSplit ? arith::SubIOp::create(b, last, at.firstSplit) : last;
    Value first = zeros({keyDim, valueDim});
    if (firstState)
      first = multiply(loadState(firstState, at.state, at), form.stateFactor);
    auto loop =
        scf::ForOp::create(b, b.index(0), at.numChunks, b.index(1), first);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      scf::YieldOp::create(
          b, writeSplit(at, loop.getInductionVar(), loop.getRegionIterArg(0)));
    }
    storeState(loop.getResult(0), splits.starts, {last, at.state}, at);
  });
}

ChunkSplits attn::createPairSplits(OpBuilder &builder,
                                   const LinearKernelForm &form) {
  LinearKernelForm ofChunks = withSchedule(form, getParts(form.op).getChunks());
  ChunkSplits splits = createSplits(builder, ofChunks, ofChunks.countTiles(),
                                    /*isRepeated=*/true);
  if (!splits.count)
    return splits;
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  constexpr int64_t dynamic = ShapedType::kDynamic;
  int64_t keyDim = form.getKeyHeadDim();
  auto type =
      MemRefType::get({dynamic, dynamic, form.getNumHeads(), keyDim, keyDim},
                      getElementTypeOrSelf(form.key));
  auto allocate = [&]() -> Value {
    return memref::AllocOp::create(
        b, type, ValueRange{splits.count, emitNumStates(b, form)});
  };
  splits.transitions = allocate();
  if (!type.getElementType().isF32())
    splits.transitionRests = allocate();
  return splits;
}

void attn::createPairStarts(RewriterBase &rewriter, LinearKernelForm form,
                            const ChunkSplits &splits, SymbolTable &symbols,
                            StringRef name) {
  form = withSchedule(form, getParts(form.op).getStarts());
  attn_tile::KernelOp kernel = createKernel(
      rewriter, form.op, form.schedule, symbols, (name + "_starts").str(),
      PairStartWriter::getOperands(form, splits));
  PairStartWriter(rewriter, form, kernel, splits).write();
  rewriter.setInsertionPoint(form.op);
}
