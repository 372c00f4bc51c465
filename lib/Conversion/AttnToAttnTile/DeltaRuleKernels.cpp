//===- DeltaRuleKernels.cpp - GPU kernels of the delta rule ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DeltaRuleKernels.h"
#include "ChunkKernelWriter.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

namespace {
/// What the kernel with all chunks at once computes for the ones that go
/// through chunks: matrices of the pairs of tokens of each chunk. Their rows
/// are all tokens of a head.
struct PairMatrices {
  /// The scores of queries and keys with decays, and the inverse of the
  /// triangular matrix, in 16 bits.
  Value scores, inverse;
  /// The scores of keys and earlier keys with decays, f32; null if no gradient
  /// of beta needs them.
  Value keyScores;

  static PairMatrices allocate(OpBuilder &builder, const LinearKernelForm &form,
                               bool hasKeyScores);
  SmallVector<Value *> getBuffers() { return {&scores, &inverse, &keyScores}; }
};

/// Writes the kernel of the matrices of pairs.
class PairWriter : ChunkKernelWriter {
public:
  PairWriter(OpBuilder &builder, const LinearKernelForm &form,
             attn_tile::KernelOp kernel, Value givenBeta,
             const PairMatrices &given, const ChunkSplits &givenSplits);

  static SmallVector<Value> getOperands(const LinearKernelForm &form,
                                        Value beta, const PairMatrices &pairs,
                                        const ChunkSplits &splits);
  void write();

private:
  void storePairs(const WorkItem &at, const Chunk &chunk, Value tile,
                  Value dest);
  void writeChunk(const WorkItem &at, const Chunk &chunk);

  Value query, beta;
  PairMatrices pairs;
};

/// What the gradient keeps of the states before chunks: the states, `U` and
/// `R`, in 16 bits. Null without a gradient.
struct KeptStates {
  Value states, updates, residuals;

  SmallVector<Value *> getBuffers() { return {&states, &updates, &residuals}; }
};

/// Writes the kernel that goes through the chunks.
class DeltaRuleWriter : ChunkKernelWriter {
public:
  DeltaRuleWriter(OpBuilder &builder, const LinearKernelForm &form,
                  attn_tile::KernelOp kernel, Value givenBeta,
                  const PairMatrices &givenPairs, const KeptStates &givenKept);

  static SmallVector<Value> getOperands(const LinearKernelForm &form,
                                        Value beta, const PairMatrices &pairs,
                                        const KeptStates &kept);
  void write();

private:
  Value writeChunk(const WorkItem &at, const Chunk &chunk, Value state);
  void writeOut(const WorkItem &at, const Chunk &chunk, Value rounded,
                Value update, Value fromStart);

  Value query, out, firstState, lastState, beta;
  PairMatrices pairs;
  KeptStates kept;
};

/// What the kernel that goes through the chunks last to first leaves.
struct KeptGradients {
  /// The gradients of the states after chunks and of the residuals with their
  /// beta, `V`, in 16 bits.
  Value states, residuals;
  /// The terms of the gradient of beta from `V` and `R`, for each tile of
  /// columns of the values, f32.
  Value betaTerms;
};

/// What both kernels of the gradient read besides the form.
struct GradientInputs {
  Value beta, dout;
  PairMatrices pairs;
  KeptStates kept;
  KeptGradients gradients;
  DecayGradWorkspace workspace;

  SmallVector<Value *> getAll() {
    SmallVector<Value *> all = {&beta,
                                &dout,
                                &gradients.states,
                                &gradients.residuals,
                                &gradients.betaTerms,
                                &workspace.queryDots,
                                &workspace.keyDots,
                                &workspace.stateDots,
                                &workspace.chunkTerms};
    llvm::append_range(all, pairs.getBuffers());
    llvm::append_range(all, kept.getBuffers());
    return all;
  }
};

/// Writes the kernel that goes through the chunks last to first.
class StateGradWriter : ChunkKernelWriter {
public:
  StateGradWriter(OpBuilder &builder, const LinearKernelForm &form,
                  attn_tile::KernelOp kernel, const GradientInputs &given);

  static SmallVector<Value> getOperands(const LinearKernelForm &form,
                                        const GradientInputs &inputs);
  void write();

private:
  Value writeChunk(const WorkItem &at, const Chunk &chunk, Value dstate);
  /// The residuals and the state before the chunk that terms need; null if none
  /// does.
  struct TermTiles {
    Value residuals, state;
  };

  TermTiles loadTermTiles(const WorkItem &at, const Chunk &chunk);
  void storeTerms(const WorkItem &at, const Chunk &chunk,
                  const TermTiles &tiles, Value solved, Value decayed);

  Value query, dvalue, firstState, lastState;
  GradientInputs inputs;
};

/// Writes the kernel of the other gradients, whose work items have columns of
/// the keys. The form has the values as keys, and the keys as values.
class PairGradWriter : ChunkKernelWriter {
public:
  PairGradWriter(OpBuilder &builder, const LinearKernelForm &form,
                 attn_tile::KernelOp kernel, const GradientInputs &given,
                 Value givenDkey, Value givenDbeta,
                 const ChunkSplits &givenSplits);

  static SmallVector<Value> getOperands(const LinearKernelForm &form,
                                        const GradientInputs &inputs,
                                        Value dkey, Value dbeta,
                                        const ChunkSplits &splits);
  void write();

private:
  /// The tiles of a chunk.
  struct Tiles {
    /// All columns of the rows of the values' gradients.
    Value dout, update, solved;
    /// Columns of queries and keys, and rows of the state and its gradient.
    Value query, key, state, dstate;
    /// Cumulative log-decays and decays of tokens, null without; and beta.
    std::optional<Sum> sums;
    Value fromStart, toEnd, beta;
    /// The gradients of the scores of queries and keys and, with beta, of keys
    /// and keys: with decays, and rounded.
    Value dscores, dkeyScores;
  };

  Tiles loadTiles(const WorkItem &at, const Chunk &chunk);
  void emitScoreGradients(const WorkItem &at, const Chunk &chunk, Tiles &tiles);
  Value loadStateRows(Value source, const WorkItem &at, const Chunk &chunk);
  Value decay(Value tile, Value factors) {
    return factors ? mul(tile, repeat(factors, {chunkTokens, valueDim})) : tile;
  }
  Value add(Value lhs, Value rhs) { return arith::AddFOp::create(b, lhs, rhs); }
  Value dot(Value tile, Value rows) { return sumRows(mul(tile, rows)); }
  void storeTerm(const WorkItem &at, const Chunk &chunk, Value rows,
                 Value dest);
  void storeBetaGradient(const WorkItem &at, const Chunk &chunk, Value ofPairs);
  void writeChunk(const WorkItem &at, const Chunk &chunk);

  Value query, dquery, dkey, dbeta;
  GradientInputs inputs;
};
} // namespace

/// Allocates `[batch, heads, tokens, columns]`, with room for whole chunks.
static Value allocateRows(OpBuilder &builder, const LinearKernelForm &form,
                          Type element, int64_t columns) {
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  int64_t chunk = form.schedule.getQueryTile();
  Value tokens = b.mul(b.tiles(b.size(form.key, 2), chunk), b.constant(chunk));
  auto type = MemRefType::get(
      {ShapedType::kDynamic, form.getNumHeads(), ShapedType::kDynamic, columns},
      element);
  return memref::AllocOp::create(b, type,
                                 ValueRange{b.size(form.key, 0), tokens});
}

/// Allocates an f32 for each token and tile of columns.
static Value allocateTokens(OpBuilder &builder, const LinearKernelForm &form,
                            Value numTiles) {
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  int64_t chunk = form.schedule.getQueryTile();
  Value tokens = b.mul(b.tiles(b.size(form.key, 2), chunk), b.constant(chunk));
  constexpr int64_t dynamic = ShapedType::kDynamic;
  auto type = MemRefType::get({dynamic, dynamic, form.getNumHeads(), dynamic},
                              b.getF32Type());
  return memref::AllocOp::create(
      b, type, ValueRange{numTiles, b.size(form.key, 0), tokens});
}

PairMatrices PairMatrices::allocate(OpBuilder &builder,
                                    const LinearKernelForm &form,
                                    bool hasKeyScores) {
  int64_t chunk = form.schedule.getQueryTile();
  Type element = getElementTypeOrSelf(form.key);
  PairMatrices pairs;
  pairs.scores = allocateRows(builder, form, element, chunk);
  pairs.inverse = allocateRows(builder, form, element, chunk);
  if (hasKeyScores)
    pairs.keyScores = allocateRows(builder, form, builder.getF32Type(), chunk);
  return pairs;
}

//===----------------------------------------------------------------------===//
// Matrices of pairs
//===----------------------------------------------------------------------===//

SmallVector<Value> PairWriter::getOperands(const LinearKernelForm &form,
                                           Value beta,
                                           const PairMatrices &pairs,
                                           const ChunkSplits &splits) {
  return dropNull({form.query, form.key, form.cumulative, beta, pairs.scores,
                   pairs.inverse, pairs.keyScores, splits.count,
                   splits.chunks});
}

PairWriter::PairWriter(OpBuilder &builder, const LinearKernelForm &form,
                       attn_tile::KernelOp kernel, Value givenBeta,
                       const PairMatrices &given,
                       const ChunkSplits &givenSplits)
    : ChunkKernelWriter(builder, form, kernel,
                        getOperands(form, givenBeta, given, givenSplits)),
      query(get(form.query)), beta(get(givenBeta)), pairs(given) {
  replaceByArguments(pairs.getBuffers());
  splits.count = get(givenSplits.count);
  splits.chunks = get(givenSplits.chunks);
}

void PairWriter::storePairs(const WorkItem &at, const Chunk &chunk, Value tile,
                            Value dest) {
  attn_tile::StoreOp::create(
      b, b.round(tile, getElementTypeOrSelf(dest)), dest,
      ValueRange{at.batch, at.head, chunk.firstToken, b.index(0)});
}

void PairWriter::writeChunk(const WorkItem &at, const Chunk &chunk) {
  SmallVector<int64_t> shape = {chunkTokens, chunkTokens};
  std::optional<Sum> rows, columns;
  if (cumulative) {
    rows = loadRowSums(at, chunk);
    columns = loadColumnSums(at, chunk);
  }
  Value queries = loadQueries(query, at, chunk);
  Value keys = loadKeys(at, chunk);
  auto emitPairs = [&](Value lhs, bool isStrict) {
    Value tile =
        b.contract(lhs, keys, zeros(shape), ContractForm::TransposedRhs);
    if (cumulative)
      tile = decayScores(tile, *rows, *columns);
    return maskScores(tile, isStrict);
  };
  Value keyScores = emitPairs(keys, /*isStrict=*/true);
  if (pairs.keyScores)
    storePairs(at, chunk, keyScores, pairs.keyScores);
  Value betas =
      b.load(chunkTokens, beta, {at.batch, at.head, chunk.firstToken});
  Value inverse = attn_tile::InvertTriangularOp::create(
      b, mul(keyScores, repeat(betas, shape)), /*pipe=*/Value());
  storePairs(at, chunk, inverse, pairs.inverse);
  storePairs(at, chunk, emitPairs(queries, /*isStrict=*/false), pairs.scores);
}

void PairWriter::write() {
  writeChunks(
      [&](const WorkItem &at, const Chunk &chunk) { writeChunk(at, chunk); });
}

/// The schedules of the kernels of `op`, which is the operation of a form.
static attn_tile::DeltaRuleAttr getParts(Operation *op) {
  Attribute schedule;
  if (auto attention = dyn_cast<LinearAttentionOp>(op))
    schedule = attention.getScheduleAttr();
  else
    schedule = cast<LinearAttentionGradOp>(op).getScheduleAttr();
  return cast<attn_tile::DeltaRuleAttr>(schedule);
}

static LinearKernelForm withSchedule(LinearKernelForm form,
                                     ScheduleAttrInterface schedule) {
  form.schedule = schedule;
  return form;
}

/// Whether heads are so few that kernels that go through their chunks have
/// narrow tiles, an `i1`; null if the schedule has none.
static Value emitIsNarrow(OpBuilder &builder, const LinearKernelForm &form) {
  attn_tile::DeltaRuleAttr parts = getParts(form.op);
  if (!parts.getNarrow())
    return {};
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  int64_t tiles = withSchedule(form, parts.getNarrow()).countTiles();
  Value items =
      b.mul(b.size(form.key, 0), b.constant(form.getNumHeads() * tiles));
  return b.compare(CmpIPredicate::ule, items,
                   b.constant(parts.getNarrowWorkItems()));
}

/// The number of tiles of columns of the kernels that go through chunks.
static Value emitNumTiles(OpBuilder &builder, const LinearKernelForm &form,
                          Value isNarrow) {
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  auto count = [&](ScheduleAttrInterface schedule) {
    return b.constant(withSchedule(form, schedule).countTiles());
  };
  attn_tile::DeltaRuleAttr parts = getParts(form.op);
  Value tiles = count(parts.getChunks());
  return isNarrow ? b.select(isNarrow, count(parts.getNarrow()), tiles) : tiles;
}

/// Creates a kernel that goes through chunks with `create`, which puts its
/// launch before the operation; two if the schedule has narrow tiles.
static void createForHeads(
    RewriterBase &rewriter, const LinearKernelForm &form, Value isNarrow,
    function_ref<void(const LinearKernelForm &, StringRef suffix)> create) {
  attn_tile::DeltaRuleAttr parts = getParts(form.op);
  LinearKernelForm wide = withSchedule(form, parts.getChunks());
  if (!isNarrow)
    return create(wide, "");
  auto branch = scf::IfOp::create(rewriter, form.op->getLoc(), TypeRange(),
                                  isNarrow, /*withElseRegion=*/true);
  create(withSchedule(form, parts.getNarrow()), "_narrow");
  form.op->getPrevNode()->moveBefore(branch.thenYield());
  create(wide, "");
  form.op->getPrevNode()->moveBefore(branch.elseYield());
}

/// Launches the kernel of the matrices of pairs, and returns these.
static PairMatrices createPairMatrices(RewriterBase &rewriter,
                                       LinearKernelForm form, Value beta,
                                       bool hasKeyScores,
                                       SymbolTable &symbols) {
  PairMatrices pairs = PairMatrices::allocate(rewriter, form, hasKeyScores);
  form = withSchedule(form, getParts(form.op).getPairs());
  form.value = Value();
  ChunkSplits splits = createSplits(rewriter, form, form.countTiles());
  attn_tile::KernelOp kernel =
      createKernel(rewriter, form.op, form.schedule, symbols, "_delta_pairs",
                   PairWriter::getOperands(form, beta, pairs, splits));
  PairWriter(rewriter, form, kernel, beta, pairs, splits).write();
  rewriter.setInsertionPoint(form.op);
  return pairs;
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

SmallVector<Value> DeltaRuleWriter::getOperands(const LinearKernelForm &form,
                                                Value beta,
                                                const PairMatrices &pairs,
                                                const KeptStates &kept) {
  // The gradient needs no outputs.
  return dropNull({form.out ? form.query : Value(), form.key, form.value,
                   form.out, form.firstState, form.lastState, form.cumulative,
                   beta, form.out ? pairs.scores : Value(), pairs.inverse,
                   kept.states, kept.updates, kept.residuals});
}

DeltaRuleWriter::DeltaRuleWriter(OpBuilder &builder,
                                 const LinearKernelForm &form,
                                 attn_tile::KernelOp kernel, Value givenBeta,
                                 const PairMatrices &givenPairs,
                                 const KeptStates &givenKept)
    : ChunkKernelWriter(builder, form, kernel,
                        getOperands(form, givenBeta, givenPairs, givenKept)),
      query(get(form.query)), out(get(form.out)),
      firstState(get(form.firstState)), lastState(get(form.lastState)),
      beta(get(givenBeta)), pairs(givenPairs), kept(givenKept) {
  replaceByArguments(pairs.getBuffers());
  replaceByArguments(kept.getBuffers());
}

void DeltaRuleWriter::writeOut(const WorkItem &at, const Chunk &chunk,
                               Value rounded, Value update, Value fromStart) {
  Value queries = loadQueries(query, at, chunk);
  Value scores = loadPairs(pairs.scores, at, chunk);
  Value result = b.contract(queries, rounded, zeros({chunkTokens, valueDim}),
                            ContractForm::Plain);
  if (fromStart)
    result = mul(result, repeat(fromStart, {chunkTokens, valueDim}));
  result = b.contract(scores, update, result, ContractForm::Plain);
  storeRows(at, chunk, multiply(result, form.scale), out);
}

Value DeltaRuleWriter::writeChunk(const WorkItem &at, const Chunk &chunk,
                                  Value state) {
  std::optional<Sum> rows;
  Value fromStart;
  if (cumulative) {
    rows = loadRowSums(at, chunk);
    fromStart = emitDecay(*rows);
  }
  Value keys = loadKeys(at, chunk), values = loadValues(at, chunk);
  Value inverse = loadPairs(pairs.inverse, at, chunk);
  Value betas =
      b.load(chunkTokens, beta, {at.batch, at.head, chunk.firstToken});
  Value rounded = b.round(state, element);
  Value known = b.contract(keys, rounded, zeros({chunkTokens, valueDim}),
                           ContractForm::Plain);
  if (fromStart)
    known = mul(known, repeat(fromStart, {chunkTokens, valueDim}));
  Value residual = arith::SubFOp::create(b, b.extend(values), known);
  Value scaled =
      b.round(mul(residual, repeat(betas, {chunkTokens, valueDim})), element);
  Value update = b.contract(inverse, scaled, zeros({chunkTokens, valueDim}),
                            ContractForm::Plain);
  Value roundedUpdate = b.round(update, element);
  if (out)
    writeOut(at, chunk, rounded, roundedUpdate, fromStart);
  if (kept.states) {
    storeState(rounded, kept.states, chunk.number, at);
    storeRows(at, chunk, roundedUpdate, kept.updates);
    storeRows(at, chunk, residual, kept.residuals);
  }
  return emitStep(at, chunk, keys, rows ? update : roundedUpdate, state, rows);
}

void DeltaRuleWriter::write() {
  writeItems(/*numSplits=*/{}, [&](const WorkItem &at) {
    Value first =
        firstState ? loadState(firstState, {}, at) : zeros({keyDim, valueDim});
    Value last = forChunks(
        at, first,
        [&](const Chunk &chunk, ValueRange carried) -> SmallVector<Value> {
          return {writeChunk(at, chunk, carried[0])};
        })[0];
    if (lastState)
      storeState(last, lastState, {}, at);
  });
}

/// Launches a kernel that goes through the chunks first to last.
static void createDeltaRule(RewriterBase &rewriter,
                            const LinearKernelForm &given, Value beta,
                            const PairMatrices &pairs, const KeptStates &kept,
                            Value isNarrow, SymbolTable &symbols,
                            StringRef name) {
  createForHeads(
      rewriter, given, isNarrow,
      [&](const LinearKernelForm &form, StringRef suffix) {
        attn_tile::KernelOp kernel = createKernel(
            rewriter, form.op, form.schedule, symbols, (name + suffix).str(),
            DeltaRuleWriter::getOperands(form, beta, pairs, kept));
        DeltaRuleWriter(rewriter, form, kernel, beta, pairs, kept).write();
        rewriter.setInsertionPoint(form.op);
      });
}

void attn::createDeltaRuleKernels(RewriterBase &rewriter, LinearAttentionOp op,
                                  SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  auto form = LinearKernelForm::get(op, createSums(rewriter, op, symbols));
  form.query = op.getQuery();
  form.key = op.getKey();
  form.value = op.getValue();
  form.out = op.getOut();
  form.firstState = op.getInitialState();
  form.lastState = op.getFinalState();
  PairMatrices pairs = createPairMatrices(rewriter, form, op.getBeta(),
                                          /*hasKeyScores=*/false, symbols);
  createDeltaRule(rewriter, form, op.getBeta(), pairs, KeptStates(),
                  emitIsNarrow(rewriter, form), symbols, "_linear_attention");
  deallocate(rewriter, op.getLoc(),
             {pairs.scores, pairs.inverse, form.cumulative});
  rewriter.eraseOp(op);
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

SmallVector<Value> StateGradWriter::getOperands(const LinearKernelForm &form,
                                                const GradientInputs &inputs) {
  return dropNull({form.query, form.key, form.value, form.out, form.firstState,
                   form.lastState, form.cumulative, inputs.beta,
                   inputs.pairs.scores, inputs.pairs.inverse,
                   inputs.kept.residuals, inputs.gradients.states,
                   inputs.gradients.residuals, inputs.gradients.betaTerms,
                   inputs.workspace.chunkTerms,
                   inputs.workspace.chunkTerms ? inputs.kept.states : Value()});
}

StateGradWriter::StateGradWriter(OpBuilder &builder,
                                 const LinearKernelForm &form,
                                 attn_tile::KernelOp kernel,
                                 const GradientInputs &given)
    : ChunkKernelWriter(builder, form, kernel, getOperands(form, given)),
      query(get(form.query)), dvalue(get(form.out)),
      firstState(get(form.firstState)), lastState(get(form.lastState)),
      inputs(given) {
  replaceByArguments(inputs.getAll());
}

/// Loads tiles to registers where a step begins, long before they are used.
StateGradWriter::TermTiles StateGradWriter::loadTermTiles(const WorkItem &at,
                                                          const Chunk &chunk) {
  TermTiles tiles;
  if (inputs.gradients.betaTerms)
    tiles.residuals = b.load({chunkTokens, valueDim}, inputs.kept.residuals,
                             {at.batch, at.head, chunk.firstToken, at.column});
  if (inputs.workspace.chunkTerms)
    tiles.state =
        b.load({keyDim, valueDim}, inputs.kept.states,
               {chunk.number, at.batch, at.head, b.index(0), at.column});
  return tiles;
}

/// Stores the terms of the gradient of beta and, if needed, of log-decays, from
/// the columns of the work item.
void StateGradWriter::storeTerms(const WorkItem &at, const Chunk &chunk,
                                 const TermTiles &tiles, Value solved,
                                 Value decayed) {
  if (inputs.gradients.betaTerms) {
    Value products = mul(solved, b.extend(tiles.residuals));
    attn_tile::StoreOp::create(
        b, sumRows(multiply(products, form.scale)), inputs.gradients.betaTerms,
        ValueRange{at.tile, at.batch, at.head, chunk.firstToken});
  }
  if (!inputs.workspace.chunkTerms)
    return;
  Value products = mul(b.extend(tiles.state), decayed);
  Value first = arith::MulIOp::create(b, chunk.number, b.index(keyDim));
  attn_tile::StoreOp::create(b, sumRows(multiply(products, form.scale)),
                             inputs.workspace.chunkTerms,
                             ValueRange{at.tile, at.batch, at.head, first});
}

/// Returns the gradient of the state before the chunk from the one after it.
Value StateGradWriter::writeChunk(const WorkItem &at, const Chunk &chunk,
                                  Value dstate) {
  SmallVector<int64_t> shape = {chunkTokens, valueDim};
  TermTiles tiles = loadTermTiles(at, chunk);
  Value fromStart, toEnd, ofChunk;
  if (cumulative) {
    Sum rows = loadRowSums(at, chunk), total = loadTotal(at, chunk);
    // The chunks are reversed.
    fromStart = emitEdgeDecay(rows, total, /*isFromFirst=*/false);
    toEnd = emitEdgeDecay(rows, total, /*isFromFirst=*/true);
    ofChunk = repeat(emitDecay(total), {keyDim, valueDim});
  }
  Value keys = loadKeys(at, chunk), dout = loadValues(at, chunk);
  Value queries = loadQueries(query, at, chunk);
  Value scores = loadPairs(inputs.pairs.scores, at, chunk);
  Value inverse = loadPairs(inputs.pairs.inverse, at, chunk);
  Value betas =
      b.load(chunkTokens, inputs.beta, {at.batch, at.head, chunk.firstToken});
  Value rounded = b.round(dstate, element);
  storeState(rounded, inputs.gradients.states, chunk.number, at);
  Value dupdate = b.contract(keys, rounded, zeros(shape), ContractForm::Plain);
  if (toEnd)
    dupdate = mul(dupdate, repeat(toEnd, shape));
  dupdate = b.contract(scores, dout, dupdate, ContractForm::TransposedLhs);
  Value solved = b.contract(inverse, b.round(dupdate, element), zeros(shape),
                            ContractForm::TransposedLhs);
  storeRows(at, chunk, solved, inputs.gradients.residuals);
  Value decayed = ofChunk ? mul(dstate, ofChunk) : dstate;
  storeTerms(at, chunk, tiles, solved, decayed);
  Value ofValues = mul(solved, repeat(betas, shape));
  storeRows(at, chunk, multiply(ofValues, form.scale), dvalue);
  Value ofKnown = multiply(ofValues, -1);
  if (fromStart) {
    ofKnown = mul(ofKnown, repeat(fromStart, shape));
    dout = b.round(mul(b.extend(dout), repeat(fromStart, shape)), element);
    dstate = decayed;
  }
  dstate = b.contract(queries, dout, dstate, ContractForm::TransposedLhs);
  return b.contract(keys, b.round(ofKnown, element), dstate,
                    ContractForm::TransposedLhs);
}

void StateGradWriter::write() {
  writeItems(/*numSplits=*/{}, [&](const WorkItem &at) {
    Value last = firstState
                     ? multiply(loadState(firstState, {}, at), form.stateFactor)
                     : zeros({keyDim, valueDim});
    Value first = forChunks(
        at, last,
        [&](const Chunk &chunk, ValueRange carried) -> SmallVector<Value> {
          return {writeChunk(at, chunk, carried[0])};
        })[0];
    if (lastState)
      storeState(multiply(first, 1 / form.stateFactor), lastState, {}, at);
  });
}

SmallVector<Value> PairGradWriter::getOperands(const LinearKernelForm &form,
                                               const GradientInputs &inputs,
                                               Value dkey, Value dbeta,
                                               const ChunkSplits &splits) {
  const DecayGradWorkspace &terms = inputs.workspace;
  return dropNull({form.query,
                   form.key,
                   form.value,
                   form.out,
                   dkey,
                   dbeta,
                   form.cumulative,
                   inputs.beta,
                   inputs.dout,
                   inputs.pairs.keyScores,
                   inputs.kept.states,
                   inputs.kept.updates,
                   inputs.gradients.states,
                   inputs.gradients.residuals,
                   dbeta ? inputs.gradients.betaTerms : Value(),
                   terms.queryDots,
                   terms.keyDots,
                   terms.stateDots,
                   splits.count,
                   splits.chunks});
}

PairGradWriter::PairGradWriter(OpBuilder &builder, const LinearKernelForm &form,
                               attn_tile::KernelOp kernel,
                               const GradientInputs &given, Value givenDkey,
                               Value givenDbeta, const ChunkSplits &givenSplits)
    : ChunkKernelWriter(
          builder, form, kernel,
          getOperands(form, given, givenDkey, givenDbeta, givenSplits)),
      query(get(form.query)), dquery(get(form.out)), dkey(get(givenDkey)),
      dbeta(get(givenDbeta)), inputs(given) {
  replaceByArguments(inputs.getAll());
  splits.count = get(givenSplits.count);
  splits.chunks = get(givenSplits.chunks);
}

Value PairGradWriter::loadStateRows(Value source, const WorkItem &at,
                                    const Chunk &chunk) {
  return b.load({valueDim, keyDim}, source,
                {chunk.number, at.batch, at.head, at.column, b.index(0)},
                chunk.position, at.numChunks);
}

PairGradWriter::Tiles PairGradWriter::loadTiles(const WorkItem &at,
                                                const Chunk &chunk) {
  Tiles tiles;
  if (cumulative) {
    tiles.sums = loadRowSums(at, chunk);
    tiles.fromStart = emitDecay(*tiles.sums);
    tiles.toEnd = emitEdgeDecay(*tiles.sums, loadTotal(at, chunk),
                                /*isFromFirst=*/false);
  }
  auto loadWhole = [&](Value source) {
    return loadRows(source, at, chunk, at.head, b.index(0), keyDim);
  };
  auto loadColumns = [&](Value source) {
    return loadRows(source, at, chunk, at.head, at.column, valueDim);
  };
  tiles.dout = loadWhole(inputs.dout);
  tiles.update = loadWhole(inputs.kept.updates);
  tiles.solved = loadWhole(inputs.gradients.residuals);
  tiles.query = loadColumns(query);
  tiles.key = loadColumns(value);
  tiles.state = loadStateRows(inputs.kept.states, at, chunk);
  tiles.dstate = loadStateRows(inputs.gradients.states, at, chunk);
  tiles.beta =
      b.load(chunkTokens, inputs.beta, {at.batch, at.head, chunk.firstToken});
  return tiles;
}

/// Adds the terms from the columns of the values to the ones from pairs. All
/// tiles of columns have the same result, which the first one stores.
void PairGradWriter::storeBetaGradient(const WorkItem &at, const Chunk &chunk,
                                       Value ofPairs) {
  Value isFirst =
      arith::CmpIOp::create(b, CmpIPredicate::eq, at.tile, b.index(0));
  auto branch = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  auto loop =
      scf::ForOp::create(b, b.index(0), b.size(inputs.gradients.betaTerms, 0),
                         b.index(1), ofPairs);
  {
    OpBuilder::InsertionGuard inLoop(b);
    b.setInsertionPointToStart(loop.getBody());
    Value terms =
        b.load(chunkTokens, inputs.gradients.betaTerms,
               {loop.getInductionVar(), at.batch, at.head, chunk.firstToken},
               /*position=*/{}, /*length=*/{}, /*inBounds=*/true);
    scf::YieldOp::create(b, add(loop.getRegionIterArg(0), terms));
  }
  Value sum = loop.getResult(0);
  attn_tile::StoreOp::create(b, sum, dbeta,
                             ValueRange{at.batch, at.head, chunk.firstToken});
}

void PairGradWriter::emitScoreGradients(const WorkItem &at, const Chunk &chunk,
                                        Tiles &tiles) {
  SmallVector<int64_t> shape = {chunkTokens, chunkTokens};
  std::optional<Sum> columns;
  if (cumulative)
    columns = loadColumnSums(at, chunk);
  auto decayPairs = [&](Value pairs) {
    return cumulative ? decayScores(pairs, *tiles.sums, *columns) : pairs;
  };
  Value ofPairs = b.contract(tiles.dout, tiles.update, zeros(shape),
                             ContractForm::TransposedRhs);
  tiles.dscores = b.round(maskScores(decayPairs(ofPairs)), element);
  Value ofKeys = multiply(b.contract(tiles.solved, tiles.update, zeros(shape),
                                     ContractForm::TransposedRhs),
                          -1);
  if (dbeta) {
    Value keyScores = b.load(shape, inputs.pairs.keyScores,
                             {at.batch, at.head, chunk.firstToken, b.index(0)});
    storeBetaGradient(at, chunk,
                      sumRows(multiply(mul(ofKeys, keyScores), form.scale)));
  }
  ofKeys = mul(ofKeys, repeat(tiles.beta, shape));
  tiles.dkeyScores =
      b.round(maskScores(decayPairs(ofKeys), /*isStrict=*/true), element);
}

void PairGradWriter::storeTerm(const WorkItem &at, const Chunk &chunk,
                               Value rows, Value dest) {
  attn_tile::StoreOp::create(
      b, mul(rows, b.splat(chunkTokens, form.scale)), dest,
      ValueRange{at.tile, at.batch, at.head, chunk.firstToken});
}

void PairGradWriter::writeChunk(const WorkItem &at, const Chunk &chunk) {
  SmallVector<int64_t> shape = {chunkTokens, valueDim};
  Tiles tiles = loadTiles(at, chunk);
  emitScoreGradients(at, chunk, tiles);
  auto contract = [&](Value lhs, Value rhs, Value acc, ContractForm form) {
    return b.contract(lhs, rhs, acc ? acc : zeros(shape), form);
  };
  Value ofQuery =
      decay(contract(tiles.dout, tiles.state, {}, ContractForm::TransposedRhs),
            tiles.fromStart);
  ofQuery = contract(tiles.dscores, tiles.key, ofQuery, ContractForm::Plain);
  storeRows(at, chunk, multiply(ofQuery, form.scale), dquery);

  // As a later token, with the state before the chunk and with earlier keys.
  Value dvalues =
      mul(b.extend(tiles.solved), repeat(tiles.beta, {chunkTokens, keyDim}));
  Value ofLater = multiply(contract(b.round(dvalues, element), tiles.state, {},
                                    ContractForm::TransposedRhs),
                           -1);
  ofLater = decay(ofLater, tiles.fromStart);
  ofLater = contract(tiles.dkeyScores, tiles.key, ofLater, ContractForm::Plain);

  // As an earlier one, with the state after it and with later queries and keys.
  Value ofState = decay(
      contract(tiles.update, tiles.dstate, {}, ContractForm::TransposedRhs),
      tiles.toEnd);
  Value ofEarlier = contract(tiles.dscores, tiles.query, ofState,
                             ContractForm::TransposedLhs);
  ofEarlier = contract(tiles.dkeyScores, tiles.key, ofEarlier,
                       ContractForm::TransposedLhs);
  storeRows(at, chunk, multiply(add(ofLater, ofEarlier), form.scale), dkey);
  const DecayGradWorkspace &terms = inputs.workspace;
  if (!terms.queryDots)
    return;
  Value queries = b.extend(tiles.query), keys = b.extend(tiles.key);
  storeTerm(at, chunk, add(dot(ofQuery, queries), dot(ofLater, keys)),
            terms.queryDots);
  storeTerm(at, chunk, dot(ofEarlier, keys), terms.keyDots);
  storeTerm(at, chunk, dot(ofState, keys), terms.stateDots);
}

void PairGradWriter::write() {
  writeChunks(
      [&](const WorkItem &at, const Chunk &chunk) { writeChunk(at, chunk); });
}

/// Allocates a state of each chunk.
static Value allocateChunkStates(OpBuilder &builder,
                                 const LinearKernelForm &form) {
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  constexpr int64_t dynamic = ShapedType::kDynamic;
  auto type = MemRefType::get({dynamic, dynamic, form.getNumHeads(),
                               form.getKeyHeadDim(), form.getValueHeadDim()},
                              getElementTypeOrSelf(form.key));
  Value chunks = b.tiles(b.size(form.key, 2), form.schedule.getQueryTile());
  return memref::AllocOp::create(b, type,
                                 ValueRange{chunks, b.size(form.key, 0)});
}

/// Launches the kernel of the states before chunks, and returns the buffers
/// that it fills.
static KeptStates createKeptStates(RewriterBase &rewriter,
                                   LinearAttentionGradOp op,
                                   const LinearKernelForm &form,
                                   const PairMatrices &pairs, Value isNarrow,
                                   SymbolTable &symbols) {
  Type element = getElementTypeOrSelf(form.key);
  int64_t valueDim = form.getValueHeadDim();
  KeptStates kept;
  kept.states = allocateChunkStates(rewriter, form);
  kept.updates = allocateRows(rewriter, form, element, valueDim);
  kept.residuals = allocateRows(rewriter, form, element, valueDim);
  createDeltaRule(rewriter, form, op.getBeta(), pairs, kept, isNarrow, symbols,
                  "_delta_states");
  return kept;
}

/// Launches the kernel of the gradients of states and values.
static KeptGradients createStateGradients(RewriterBase &rewriter,
                                          LinearAttentionGradOp op,
                                          LinearKernelForm form,
                                          GradientInputs inputs, Value isNarrow,
                                          SymbolTable &symbols) {
  form.query = op.getQuery();
  form.value = op.getDout();
  form.out = op.getDvalue();
  form.firstState = op.getDfinalState();
  form.lastState = op.getDinitialState();
  form.isReversed = true;
  form.stateFactor = 1 / form.scale;
  KeptGradients &gradients = inputs.gradients;
  gradients.states = allocateChunkStates(rewriter, form);
  gradients.residuals = allocateRows(
      rewriter, form, getElementTypeOrSelf(form.key), form.getValueHeadDim());
  if (op.getDbeta())
    gradients.betaTerms =
        allocateTokens(rewriter, form, emitNumTiles(rewriter, form, isNarrow));
  createForHeads(rewriter, form, isNarrow,
                 [&](const LinearKernelForm &ofHeads, StringRef suffix) {
                   attn_tile::KernelOp kernel = createKernel(
                       rewriter, op, ofHeads.schedule, symbols,
                       ("_delta_dstates" + suffix).str(),
                       StateGradWriter::getOperands(ofHeads, inputs));
                   StateGradWriter(rewriter, ofHeads, kernel, inputs).write();
                   rewriter.setInsertionPoint(op);
                 });
  return gradients;
}

/// Launches the kernel of the gradients of queries, keys and beta.
static void createPairGradients(RewriterBase &rewriter,
                                LinearAttentionGradOp op, LinearKernelForm form,
                                const GradientInputs &inputs,
                                SymbolTable &symbols) {
  form.query = op.getQuery();
  form.key = op.getValue();
  form.value = op.getKey();
  form.out = op.getDquery();
  form = withSchedule(form, getParts(form.op).getPairs());
  ChunkSplits splits = createSplits(rewriter, form, form.countTiles());
  attn_tile::KernelOp kernel =
      createKernel(rewriter, op, form.schedule, symbols, "_delta_grad",
                   PairGradWriter::getOperands(form, inputs, op.getDkey(),
                                               op.getDbeta(), splits));
  PairGradWriter(rewriter, form, kernel, inputs, op.getDkey(), op.getDbeta(),
                 splits)
      .write();
  rewriter.setInsertionPoint(op);
}

void attn::createDeltaRuleGradKernels(RewriterBase &rewriter,
                                      LinearAttentionGradOp op,
                                      SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  auto form = LinearKernelForm::get(op, createSums(rewriter, op, symbols));
  form.query = op.getQuery();
  form.key = op.getKey();
  form.value = op.getValue();
  GradientInputs inputs;
  inputs.beta = op.getBeta();
  inputs.dout = op.getDout();
  Value isNarrow = emitIsNarrow(rewriter, form);
  if (op.getDlogDecay())
    inputs.workspace = DecayGradWorkspace::allocateTerms(
        rewriter, op, op.getKeyHeadDim(),
        emitNumTiles(rewriter, form, isNarrow));
  inputs.pairs = createPairMatrices(rewriter, form, op.getBeta(),
                                    bool(op.getDbeta()), symbols);
  LinearKernelForm ofStates = form;
  ofStates.firstState = op.getInitialState();
  inputs.kept =
      createKeptStates(rewriter, op, ofStates, inputs.pairs, isNarrow, symbols);
  inputs.gradients =
      createStateGradients(rewriter, op, form, inputs, isNarrow, symbols);
  createPairGradients(rewriter, op, form, inputs, symbols);
  if (op.getDlogDecay())
    createDecayGradKernels(rewriter, op, inputs.workspace, symbols);
  deallocate(rewriter, op.getLoc(),
             {inputs.pairs.keyScores, inputs.pairs.scores, inputs.pairs.inverse,
              inputs.kept.states, inputs.kept.updates, inputs.kept.residuals,
              inputs.gradients.states, inputs.gradients.residuals,
              inputs.gradients.betaTerms, form.cumulative});
  rewriter.eraseOp(op);
}
