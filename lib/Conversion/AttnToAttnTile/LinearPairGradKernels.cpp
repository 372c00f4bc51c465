//===- LinearPairGradKernels.cpp - Gradients with pair matrices -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CreateKernel.h"
#include "LinearPairKernels.h"
#include "PairGradKernel.h"
#include "ScalarKernelBuilder.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Writes the kernel that goes through the chunks last to first.
class StateGradWriter : ChunkKernelWriter {
public:
  StateGradWriter(OpBuilder &builder, const LinearKernelForm &form,
                  attn_tile::KernelOp kernel, const GradientInputs &given,
                  const ChunkSplits &givenSplits);

  static SmallVector<Value> getOperands(const LinearKernelForm &form,
                                        const GradientInputs &inputs,
                                        const ChunkSplits &splits);
  void write();

private:
  Value writeChunk(const WorkItem &at, const Chunk &chunk, Value dstate);
  /// The residuals and the state before the chunk that terms need; null if none
  /// does.
  struct TermTiles {
    Value residuals, state;
  };

  /// What a chunk without its state needs. The inverse, beta and the keys whose
  /// values are known are null without beta.
  struct Tiles {
    Value keys, dout, queries, scores, inverse, beta, knownKeys;
  };

  bool storesChunkTerms() const {
    return !hasChunkTerms(form) && inputs.workspace.chunkTerms;
  }
  bool hasResults() const { return form.part == ChunkPart::Results; }
  Value loadFirst(const WorkItem &at);
  void storeLast(const WorkItem &at, Value dstate);
  TermTiles loadTermTiles(const WorkItem &at, const Chunk &chunk);
  Tiles loadTiles(const WorkItem &at, const Chunk &chunk);
  void storeBetaTerms(const WorkItem &at, const Chunk &chunk, Value residuals,
                      Value solved);
  void storeStateTerms(const WorkItem &at, const Chunk &chunk, Value state,
                       Value decayed);

  Value query, dvalue, firstState, lastState;
  GradientInputs inputs;
};
} // namespace

/// Allocates an f32 for each token and tile of columns.
static Value allocateTokens(OpBuilder &builder, const LinearKernelForm &form,
                            Value numTiles) {
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  int64_t chunk = form.schedule.getQueryTile();
  Value tokens = b.mul(emitNumChunks(b, form), b.constant(chunk));
  constexpr int64_t dynamic = ShapedType::kDynamic;
  auto type = MemRefType::get({dynamic, dynamic, form.getNumHeads(), dynamic},
                              b.getF32Type());
  return memref::AllocOp::create(
      b, type, ValueRange{numTiles, b.size(form.key, 0), tokens});
}

SmallVector<Value> StateGradWriter::getOperands(const LinearKernelForm &form,
                                                const GradientInputs &inputs,
                                                const ChunkSplits &splits) {
  SmallVector<Value> operands = {form.query,
                                 form.key,
                                 form.value,
                                 form.cumulative,
                                 form.beta,
                                 inputs.pairs.scores,
                                 inputs.pairs.inverse,
                                 form.decayed.keyFromStart,
                                 form.decayed.ofChunks,
                                 form.sequences,
                                 splits.count,
                                 splits.chunks};
  if (form.part == ChunkPart::SplitStates) {
    operands.push_back(splits.states);
    return dropNull(operands);
  }
  bool hasTerms = !hasChunkTerms(form) && inputs.workspace.chunkTerms;
  llvm::append_values(operands, form.out, form.firstState, form.lastState,
                      inputs.kept.residuals, inputs.gradients.states,
                      inputs.gradients.residuals, inputs.gradients.betaTerms,
                      hasTerms ? inputs.workspace.chunkTerms : Value(),
                      hasTerms ? inputs.kept.states : Value(), splits.starts);
  return dropNull(operands);
}

StateGradWriter::StateGradWriter(OpBuilder &builder,
                                 const LinearKernelForm &form,
                                 attn_tile::KernelOp kernel,
                                 const GradientInputs &given,
                                 const ChunkSplits &givenSplits)
    : ChunkKernelWriter(builder, form, kernel,
                        getOperands(form, given, givenSplits)),
      query(get(form.query)), dvalue(get(form.out)),
      firstState(get(form.firstState)), lastState(get(form.lastState)),
      inputs(given) {
  replaceByArguments(inputs.getAll());
  splits = givenSplits;
  replaceByArguments(splits.getBuffers());
}

/// Loads tiles to registers where a step begins, long before they are used.
StateGradWriter::TermTiles StateGradWriter::loadTermTiles(const WorkItem &at,
                                                          const Chunk &chunk) {
  TermTiles tiles;
  if (inputs.gradients.betaTerms)
    tiles.residuals = b.load({chunkTokens, valueDim}, inputs.kept.residuals,
                             {at.batch, at.head, chunk.firstRow, at.column});
  if (storesChunkTerms())
    tiles.state =
        b.load({keyDim, valueDim}, inputs.kept.states,
               {chunk.number, at.batch, at.head, b.index(0), at.column});
  return tiles;
}

/// Stores the terms of the gradient of beta from the columns of the work item.
void StateGradWriter::storeBetaTerms(const WorkItem &at, const Chunk &chunk,
                                     Value residuals, Value solved) {
  if (!inputs.gradients.betaTerms)
    return;
  Value products = mul(solved, b.extend(residuals));
  attn_tile::StoreOp::create(
      b, sumRows(multiply(products, form.scale)), inputs.gradients.betaTerms,
      ValueRange{at.tile, at.batch, at.head, chunk.firstRow});
}

/// Stores the terms of the gradient of log-decays, if they are needed, from the
/// columns of the work item: of the `state` before the chunk and the gradient
/// after it, `decayed`.
void StateGradWriter::storeStateTerms(const WorkItem &at, const Chunk &chunk,
                                      Value state, Value decayed) {
  if (!storesChunkTerms())
    return;
  Value products = mul(b.extend(state), decayed);
  Value first = arith::MulIOp::create(b, chunk.number, b.index(keyDim));
  attn_tile::StoreOp::create(b, sumRows(multiply(products, form.scale)),
                             inputs.workspace.chunkTerms,
                             ValueRange{at.tile, at.batch, at.head, first});
}

StateGradWriter::Tiles StateGradWriter::loadTiles(const WorkItem &at,
                                                  const Chunk &chunk) {
  Tiles tiles;
  tiles.keys = loadKeys(at, chunk);
  tiles.dout = loadValues(at, chunk);
  tiles.queries = loadQueries(query, at, chunk);
  tiles.scores = loadPairs(inputs.pairs.scores, at, chunk);
  if (!beta)
    return tiles;
  tiles.inverse = loadPairs(inputs.pairs.inverse, at, chunk);
  tiles.beta = loadTokens(beta, at, chunk);
  tiles.knownKeys = decayed.keyFromStart
                        ? loadRows(decayed.keyFromStart, at, chunk, at.head,
                                   b.index(0), keyDim)
                        : tiles.keys;
  return tiles;
}

/// Returns the gradient of the state before the chunk from the one after it.
Value StateGradWriter::writeChunk(const WorkItem &at, const Chunk &chunk,
                                  Value dstate) {
  SmallVector<int64_t> shape = {chunkTokens, valueDim};
  TermTiles termTiles = loadTermTiles(at, chunk);
  Value fromStart, toEnd, ofChunk;
  if (cumulative) {
    Sum rows = loadRowSums(at, chunk), total = loadTotal(at, chunk);
    // The chunks are reversed.
    fromStart = emitEdgeDecay(rows, total, /*isFromFirst=*/false);
    toEnd = emitEdgeDecay(rows, total, /*isFromFirst=*/true);
    ofChunk = repeat(emitDecay(total), {keyDim, valueDim});
  }
  if (decayed.ofChunks)
    ofChunk = loadChunkDecays(at, chunk);
  Tiles tiles = loadTiles(at, chunk);
  Value rounded = b.round(dstate, element), dout = tiles.dout;
  if (hasResults())
    storeState(rounded, inputs.gradients.states, {chunk.number, at.batch}, at);
  Value solved =
      b.contract(tiles.keys, rounded, zeros(shape), ContractForm::Plain);
  Value next = ofChunk ? mul(dstate, ofChunk) : dstate;
  storeStateTerms(at, chunk, termTiles.state, next);
  if (toEnd)
    solved = mul(solved, repeat(toEnd, shape));
  solved = b.contract(tiles.scores, dout, solved, ContractForm::TransposedLhs);
  if (fromStart)
    dout = b.round(mul(b.extend(dout), repeat(fromStart, shape)), element);
  next = b.contract(tiles.queries, dout, next, ContractForm::TransposedLhs);
  if (beta) {
    solved = b.contract(tiles.inverse, b.round(solved, element), zeros(shape),
                        ContractForm::TransposedLhs);
    Value ofKnown = multiply(mul(solved, repeat(tiles.beta, shape)), -1);
    if (fromStart)
      ofKnown = mul(ofKnown, repeat(fromStart, shape));
    next = b.contract(tiles.knownKeys, b.round(ofKnown, element), next,
                      ContractForm::TransposedLhs);
  }
  storeBetaTerms(at, chunk, termTiles.residuals, solved);
  if (!hasResults())
    return next;
  if (beta)
    storeRows(at, chunk, solved, inputs.gradients.residuals);
  Value ofValues = beta ? mul(solved, repeat(tiles.beta, shape)) : solved;
  storeRows(at, chunk, multiply(ofValues, form.scale), dvalue);
  return next;
}

/// The gradient of the state after the last chunk of a work item.
Value StateGradWriter::loadFirst(const WorkItem &at) {
  auto loadGiven = [&]() -> Value {
    return firstState
               ? multiply(loadState(firstState, at.state, at), form.stateFactor)
               : zeros({keyDim, valueDim});
  };
  return hasResults() ? loadFirstState(at, loadGiven)
                      : zeros({keyDim, valueDim});
}

void StateGradWriter::storeLast(const WorkItem &at, Value dstate) {
  if (hasResults())
    return storeLastState(at, dstate, lastState);
  storeState(dstate, splits.states, {at.split, at.state}, at);
}

/// No split begins with the gradient before the last one.
void StateGradWriter::write() {
  Value numSplits = splits.count;
  if (!hasResults()) {
    b.setInsertionPointToEnd(entry);
    numSplits = arith::SubIOp::create(b, numSplits, b.index(1));
  }
  writeItems(numSplits, [&](const WorkItem &at) {
    Value first = forChunks(
        at, loadFirst(at),
        [&](const Chunk &chunk, ValueRange carried) -> SmallVector<Value> {
          return {writeChunk(at, chunk, carried[0])};
        })[0];
    storeLast(at, first);
  });
}

/// Allocates a state of each chunk.
static Value allocateChunkStates(OpBuilder &builder,
                                 const LinearKernelForm &form) {
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  constexpr int64_t dynamic = ShapedType::kDynamic;
  auto type = MemRefType::get({dynamic, dynamic, form.getNumHeads(),
                               form.getKeyHeadDim(), form.getValueHeadDim()},
                              getElementTypeOrSelf(form.key));
  Value chunks = emitNumChunks(b, form);
  return memref::AllocOp::create(b, type,
                                 ValueRange{chunks, b.size(form.key, 0)});
}

/// Allocates terms of tiles of the kernel that has the terms of chunks.
static DecayGradWorkspace allocateTerms(OpBuilder &builder,
                                        LinearAttentionGradOp op,
                                        const LinearKernelForm &form,
                                        Value isNarrow) {
  int64_t rowsOfTile = getParts(form.op).getPairs().getQueryTile();
  int64_t rows = int64_t(llvm::alignTo(form.getKeyHeadDim(), rowsOfTile));
  // A work item of gradients of queries and keys has all columns of values.
  Value tiles = hasChunkTerms(form)
                    ? arith::ConstantIndexOp::create(builder, op.getLoc(), 1)
                    : emitNumTiles(builder, form, isNarrow);
  return DecayGradWorkspace::allocateTerms(builder, op, form.chunkTable, rows,
                                           tiles);
}

/// Launches the kernel of the states before chunks, and returns the buffers
/// that it fills.
static KeptStates createKeptStates(RewriterBase &rewriter,
                                   LinearAttentionGradOp op,
                                   const LinearKernelForm &form,
                                   const PairMatrices &pairs,
                                   const ChunkSplits &splits, Value isNarrow,
                                   SymbolTable &symbols) {
  Type element = getElementTypeOrSelf(form.key);
  int64_t valueDim = form.getValueHeadDim();
  KeptStates kept;
  kept.states = allocateChunkStates(rewriter, form);
  kept.updates = op.getValue();
  if (form.beta) {
    kept.updates = allocateRows(rewriter, form, element, valueDim);
    kept.residuals = allocateRows(rewriter, form, element, valueDim);
  }
  createForwardChunks(rewriter, form, pairs, kept, splits, isNarrow, symbols,
                      "_linear_states");
  return kept;
}

/// Launches the kernel of the gradients of states and values.
static KeptGradients
createStateGradients(RewriterBase &rewriter, LinearAttentionGradOp op,
                     LinearKernelForm form, GradientInputs inputs,
                     ChunkSplits splits, Value isNarrow, SymbolTable &symbols) {
  form.query = op.getQuery();
  form.value = op.getDout();
  form.out = op.getDvalue();
  form.firstState = op.getDfinalState();
  form.lastState = op.getDinitialState();
  form.isReversed = true;
  form.stateFactor = 1 / form.scale;
  KeptGradients &gradients = inputs.gradients;
  gradients.states = allocateChunkStates(rewriter, form);
  if (form.beta)
    gradients.residuals = allocateRows(
        rewriter, form, getElementTypeOrSelf(form.key), form.getValueHeadDim());
  if (op.getDbeta())
    gradients.betaTerms =
        allocateTokens(rewriter, form, emitNumTiles(rewriter, form, isNarrow));
  auto create = [&](LinearKernelForm ofPart, const Twine &name) {
    ofPart.useDecayedRows();
    attn_tile::KernelOp kernel =
        createKernel(rewriter, op, ofPart.schedule, symbols, name.str(),
                     StateGradWriter::getOperands(ofPart, inputs, splits));
    StateGradWriter(rewriter, ofPart, kernel, inputs, splits).write();
    rewriter.setInsertionPoint(op);
  };
  StringRef name = "_linear_dstates";
  if (splits.count) {
    allocateStates(rewriter, form, splits);
    LinearKernelForm ofSplits = withSchedule(form, getParts(op).getChunks());
    ofSplits.part = ChunkPart::SplitStates;
    create(ofSplits, name + "_states");
    createPairStarts(rewriter, form, splits, symbols, name);
  }
  createForHeads(rewriter, form, isNarrow,
                 [&](const LinearKernelForm &ofHeads, StringRef suffix) {
                   create(ofHeads, name + suffix);
                 });
  deallocate(rewriter, op.getLoc(), {splits.states, splits.starts});
  return gradients;
}

void attn::createLinearPairGradKernels(RewriterBase &rewriter,
                                       LinearAttentionGradOp op,
                                       SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  ChunkTable table = createChunkTable(rewriter, op, symbols);
  auto form = LinearKernelForm::get(
      op, createSums(rewriter, op, symbols, table.chunks), table);
  form.decayed = createDecayedRows(rewriter, op, table.chunks, symbols);
  form.query = op.getQuery();
  form.key = op.getKey();
  form.value = op.getValue();
  GradientInputs inputs;
  inputs.dout = op.getDout();
  Value isNarrow = emitIsNarrow(rewriter, form);
  if (op.getDlogDecay())
    inputs.workspace = allocateTerms(rewriter, op, form, isNarrow);
  inputs.pairs =
      createPairMatrices(rewriter, form, bool(op.getDbeta()), symbols);
  LinearKernelForm ofStates = form;
  ofStates.firstState = op.getInitialState();
  ChunkSplits splits = createPairSplits(rewriter, form);
  inputs.kept = createKeptStates(rewriter, op, ofStates, inputs.pairs, splits,
                                 isNarrow, symbols);
  inputs.gradients = createStateGradients(rewriter, op, form, inputs, splits,
                                          isNarrow, symbols);
  createPairGradients(rewriter, op, form, inputs, symbols);
  if (op.getDlogDecay())
    createDecayGradKernels(rewriter, op, inputs.workspace, table.chunks,
                           symbols);
  deallocate(rewriter, op.getLoc(),
             {inputs.pairs.keyScores, inputs.pairs.scores, inputs.pairs.inverse,
              inputs.kept.states, form.beta ? inputs.kept.updates : Value(),
              inputs.kept.residuals, inputs.gradients.states,
              inputs.gradients.residuals, inputs.gradients.betaTerms,
              form.cumulative, splits.transitions, splits.transitionRests,
              table.chunks});
  deallocateRows(rewriter, op.getLoc(), form.decayed);
  rewriter.eraseOp(op);
}
