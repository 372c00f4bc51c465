//===- LinearPairKernels.cpp - Kernels with pair matrices -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearPairKernels.h"
#include "CreateKernel.h"
#include "ElementDecays.h"
#include "LinearPairs.h"
#include "ScalarKernelBuilder.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

namespace {
/// Writes the kernel of the matrices of pairs.
class PairWriter : ChunkKernelWriter {
public:
  PairWriter(OpBuilder &builder, const LinearKernelForm &form,
             attn_tile::KernelOp kernel, const PairMatrices &given,
             const ChunkSplits &givenSplits);

  static SmallVector<Value> getOperands(const LinearKernelForm &form,
                                        const PairMatrices &pairs,
                                        const ChunkSplits &splits);
  void write();

private:
  /// Rows whose dot products are scores, and their cumulative log-decays.
  struct Tiles {
    Value queries, laterKeys, keys;
    std::optional<Sum> rows, columns;
  };
  /// Scores of pairs, f32; scores of keys are null without beta.
  struct Scores {
    Value ofQueries, ofKeys;
  };

  Tiles loadTiles(const WorkItem &at, const Chunk &chunk);
  Value emitScores(const Tiles &tiles, Value lhs, bool isStrict);
  Scores emitScoresByLevels(const WorkItem &at, const Chunk &chunk);
  void addLevels(const WorkItem &at, const Chunk &chunk, int64_t column,
                 Scores &scores);
  Value contractRows(Value lhs, Value rhs) {
    return b.contract(lhs, rhs, zeros({chunkTokens, chunkTokens}),
                      ContractForm::TransposedRhs);
  }
  void storePairs(const WorkItem &at, const Chunk &chunk, Value tile,
                  Value dest);
  void storeOfKeys(const WorkItem &at, const Chunk &chunk, Value keyScores);
  void writeChunk(const WorkItem &at, const Chunk &chunk);

  Value query;
  PairMatrices pairs;
};

/// Writes the kernel that goes through the chunks.
class ForwardChunkWriter : ChunkKernelWriter {
public:
  ForwardChunkWriter(OpBuilder &builder, const LinearKernelForm &form,
                     attn_tile::KernelOp kernel, const PairMatrices &givenPairs,
                     const KeptStates &givenKept,
                     const ChunkSplits &givenSplits);

  static SmallVector<Value> getOperands(const LinearKernelForm &form,
                                        const PairMatrices &pairs,
                                        const KeptStates &kept,
                                        const ChunkSplits &splits);
  void write();

private:
  bool hasValues() const { return form.part != ChunkPart::Transitions; }
  bool hasResults() const { return form.part == ChunkPart::Results; }
  bool hasOutputs() const { return hasResults() && out; }
  bool isGradient() const { return isa<LinearAttentionGradOp>(form.op); }
  Value emitNumSplits();
  Value loadFirst(const WorkItem &at);
  void storeLast(const WorkItem &at, Value state);
  Value writeChunk(const WorkItem &at, const Chunk &chunk, Value state);
  /// Tiles of a chunk. The inverse, beta and the keys whose values are known
  /// are null without beta; queries and scores without outputs. Transitions
  /// have no values.
  struct Tiles {
    Value keys, values, queries, scores, inverse, beta, knownKeys;
  };
  /// The values that the state takes, and the residual; f32. Null if there are
  /// no values.
  struct Update {
    Value values, residual;
  };

  Tiles loadTiles(const WorkItem &at, const Chunk &chunk);
  Update emitUpdate(const Tiles &tiles, Value known, Value fromStart);
  void storeResults(const WorkItem &at, const Chunk &chunk, Value rounded,
                    const Update &update, Value values);

  Value query, out, firstState, lastState;
  PairMatrices pairs;
  KeptStates kept;
};
} // namespace

//===----------------------------------------------------------------------===//
// Common parts
//===----------------------------------------------------------------------===//

Value attn::allocateRows(OpBuilder &builder, const LinearKernelForm &form,
                         Type element, int64_t columns) {
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  int64_t chunk = form.schedule.getQueryTile();
  Value tokens = b.mul(emitNumChunks(b, form), b.constant(chunk));
  auto type = MemRefType::get(
      {ShapedType::kDynamic, form.getNumHeads(), ShapedType::kDynamic, columns},
      element);
  return memref::AllocOp::create(b, type,
                                 ValueRange{b.size(form.key, 0), tokens});
}

static PairMatrices allocatePairs(OpBuilder &builder,
                                  const LinearKernelForm &form,
                                  bool hasKeyScores) {
  int64_t chunk = form.schedule.getQueryTile();
  Type element = getElementTypeOrSelf(form.key);
  PairMatrices pairs;
  pairs.scores = allocateRows(builder, form, element, chunk);
  if (form.beta)
    pairs.inverse = allocateRows(builder, form, element, chunk);
  if (hasKeyScores)
    pairs.keyScores = allocateRows(builder, form, element, chunk);
  return pairs;
}

attn_tile::LinearPairsAttr attn::getParts(Operation *op) {
  Attribute schedule;
  if (auto attention = dyn_cast<LinearAttentionOp>(op))
    schedule = attention.getScheduleAttr();
  else
    schedule = cast<LinearAttentionGradOp>(op).getScheduleAttr();
  return cast<attn_tile::LinearPairsAttr>(schedule);
}

Value attn::emitIsNarrow(OpBuilder &builder, const LinearKernelForm &form) {
  attn_tile::LinearPairsAttr parts = getParts(form.op);
  if (!parts.getNarrow())
    return {};
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  int64_t tiles = withSchedule(form, parts.getNarrow()).countTiles();
  Value items =
      b.mul(emitNumStates(b, form), b.constant(form.getNumHeads() * tiles));
  return b.compare(CmpIPredicate::ule, items,
                   b.constant(parts.getNarrowWorkItems()));
}

Value attn::emitNumTiles(OpBuilder &builder, const LinearKernelForm &form,
                         Value isNarrow) {
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  auto count = [&](ScheduleAttrInterface schedule) {
    return b.constant(withSchedule(form, schedule).countTiles());
  };
  attn_tile::LinearPairsAttr parts = getParts(form.op);
  Value tiles = count(parts.getChunks());
  return isNarrow ? b.select(isNarrow, count(parts.getNarrow()), tiles) : tiles;
}

void attn::createForHeads(
    RewriterBase &rewriter, const LinearKernelForm &form, Value isNarrow,
    function_ref<void(const LinearKernelForm &, StringRef suffix)> create) {
  attn_tile::LinearPairsAttr parts = getParts(form.op);
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

void attn::createForRanges(
    LinearKernelForm form,
    function_ref<void(const LinearKernelForm &, StringRef suffix)> create) {
  if (form.decayed.keyOverStart) {
    form.range = DecayRange::Factored;
    create(form, "_factored");
    form.range = DecayRange::Other;
  }
  if (form.elementDecay)
    form.schedule = getParts(form.op).getLevels();
  create(form, "");
}

//===----------------------------------------------------------------------===//
// Matrices of pairs
//===----------------------------------------------------------------------===//

SmallVector<Value> PairWriter::getOperands(const LinearKernelForm &form,
                                           const PairMatrices &pairs,
                                           const ChunkSplits &splits) {
  bool isFactored = form.range == DecayRange::Factored;
  SmallVector<Value> operands = {isFactored ? form.decayed.query : form.query,
                                 form.key,
                                 form.chunkTable,
                                 form.cumulative,
                                 form.beta,
                                 pairs.scores,
                                 pairs.inverse,
                                 pairs.keyScores,
                                 splits.count,
                                 splits.chunks};
  llvm::append_range(operands, form.getRangeOperands());
  return dropNull(operands);
}

PairWriter::PairWriter(OpBuilder &builder, const LinearKernelForm &form,
                       attn_tile::KernelOp kernel, const PairMatrices &given,
                       const ChunkSplits &givenSplits)
    : ChunkKernelWriter(builder, form, kernel,
                        getOperands(form, given, givenSplits)),
      query(get(form.query)), pairs(given) {
  replaceByArguments(pairs.getBuffers());
  splits.count = get(givenSplits.count);
  splits.chunks = get(givenSplits.chunks);
}

void PairWriter::storePairs(const WorkItem &at, const Chunk &chunk, Value tile,
                            Value dest) {
  attn_tile::StoreOp::create(
      b, b.round(tile, getElementTypeOrSelf(dest)), dest,
      ValueRange{at.batch, at.head, chunk.firstRow, b.index(0)});
}

/// Rows of factored decays are multiplied by them.
PairWriter::Tiles PairWriter::loadTiles(const WorkItem &at,
                                        const Chunk &chunk) {
  auto load = [&](Value rows) {
    return loadRows(rows, at, chunk, at.head, b.index(0), keyDim);
  };
  Tiles tiles;
  if (form.range == DecayRange::Factored) {
    tiles.queries = load(decayed.query);
    tiles.keys = load(decayed.keyOverStart);
    if (beta)
      tiles.laterKeys = load(decayed.keyFromStart);
    return tiles;
  }
  if (cumulative) {
    tiles.rows = loadRowSums(at, chunk);
    tiles.columns = loadColumnSums(at, chunk);
  }
  tiles.queries = loadQueries(query, at, chunk);
  tiles.laterKeys = tiles.keys = loadKeys(at, chunk);
  return tiles;
}

Value PairWriter::emitScores(const Tiles &tiles, Value lhs, bool isStrict) {
  Value scores = contractRows(lhs, tiles.keys);
  if (cumulative)
    scores = decayScores(scores, *tiles.rows, *tiles.columns);
  return maskScores(scores, isStrict);
}

/// Adds the scores of columns of queries and keys.
void PairWriter::addLevels(const WorkItem &at, const Chunk &chunk,
                           int64_t column, Scores &scores) {
  SmallVector<int64_t> shape = {chunkTokens, valueDim};
  Value first = b.index(column);
  // Log-decays of tokens of the next sequence meet zeros alone.
  ElementDecays decays(b, elementDecay,
                       {at.batch, at.head, chunk.firstToken, first}, shape,
                       element);
  Value queries = loadRows(query, at, chunk, at.head, first, valueDim);
  Value keys = loadRows(key, at, chunk, at.keyHead, first, valueDim);
  auto add = [&](Value lhs, Value rhs) -> Value {
    return arith::AddFOp::create(b, lhs, rhs);
  };
  scores.ofQueries =
      add(scores.ofQueries, decays.selectDiagonal(contractRows(queries, keys)));
  queries = b.extend(queries);
  keys = b.extend(keys);
  SmallVector<Value> sums = decays.forLevels(
      dropNull({scores.ofQueries, scores.ofKeys}),
      [&](Value level, ValueRange carried) {
        Value ofLevel = decays.emitDecays(level);
        Value right = b.round(mul(keys, ofLevel), element);
        Value left = b.round(mul(queries, ofLevel), element);
        auto addPairs = [&](Value sum, Value lhs) {
          return add(sum, decays.selectLevel(level, contractRows(lhs, right)));
        };
        SmallVector<Value> next = {addPairs(carried[0], left)};
        if (beta)
          next.push_back(addPairs(carried[1], right));
        return next;
      });
  scores.ofQueries = sums[0];
  if (beta)
    scores.ofKeys = sums[1];
}

PairWriter::Scores PairWriter::emitScoresByLevels(const WorkItem &at,
                                                  const Chunk &chunk) {
  Scores scores;
  scores.ofQueries = zeros({chunkTokens, chunkTokens});
  if (beta)
    scores.ofKeys = scores.ofQueries;
  // All tiles of the columns of a chunk go through one pipe, one after the
  // other: each has a position of its own.
  int64_t tiles = llvm::divideCeil(form.getKeyHeadDim(), valueDim);
  WorkItem ofTiles = at;
  Chunk tile = chunk;
  if (tiles > 1) {
    ofTiles.numChunks = arith::MulIOp::create(b, at.numChunks, b.index(tiles));
    tile.position = arith::MulIOp::create(b, chunk.position, b.index(tiles));
  }
  Value first = tile.position;
  for (int64_t number = 0; number < tiles; ++number) {
    if (number > 0)
      tile.position = arith::AddIOp::create(b, first, b.index(number));
    addLevels(ofTiles, tile, number * valueDim, scores);
  }
  return scores;
}

/// Stores the matrices of keys with beta.
void PairWriter::storeOfKeys(const WorkItem &at, const Chunk &chunk,
                             Value keyScores) {
  if (pairs.keyScores)
    storePairs(at, chunk, keyScores, pairs.keyScores);
  Value betas = loadTokens(beta, at, chunk);
  Value inverse = attn_tile::InvertTriangularOp::create(
      b, mul(keyScores, repeat(betas, {chunkTokens, chunkTokens})),
      /*pipe=*/Value());
  storePairs(at, chunk, inverse, pairs.inverse);
}

/// Scores of queries are stored before the inversion, which then has their
/// registers, and stages for other copies.
void PairWriter::writeChunk(const WorkItem &at, const Chunk &chunk) {
  if (elementDecay) {
    Scores scores = emitScoresByLevels(at, chunk);
    storePairs(at, chunk, scores.ofQueries, pairs.scores);
    if (beta)
      storeOfKeys(at, chunk, scores.ofKeys);
    return;
  }
  Tiles tiles = loadTiles(at, chunk);
  storePairs(at, chunk, emitScores(tiles, tiles.queries, /*isStrict=*/false),
             pairs.scores);
  if (beta)
    storeOfKeys(at, chunk,
                emitScores(tiles, tiles.laterKeys, /*isStrict=*/true));
}

void PairWriter::write() {
  writeChunks(
      [&](const WorkItem &at, const Chunk &chunk) { writeChunk(at, chunk); });
}

PairMatrices attn::createPairMatrices(RewriterBase &rewriter,
                                      LinearKernelForm form, bool hasKeyScores,
                                      SymbolTable &symbols) {
  PairMatrices pairs = allocatePairs(rewriter, form, hasKeyScores);
  form = withSchedule(form, getParts(form.op).getPairs());
  form.value = Value();
  form.sequences = Value();
  ChunkSplits splits = createSplits(rewriter, form, form.countTiles());
  createForRanges(form, [&](const LinearKernelForm &ofRange, StringRef suffix) {
    attn_tile::KernelOp kernel =
        createKernel(rewriter, form.op, ofRange.schedule, symbols,
                     ("_linear_pairs" + suffix).str(),
                     PairWriter::getOperands(ofRange, pairs, splits));
    PairWriter(rewriter, ofRange, kernel, pairs, splits).write();
    rewriter.setInsertionPoint(form.op);
  });
  return pairs;
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

SmallVector<Value> ForwardChunkWriter::getOperands(const LinearKernelForm &form,
                                                   const PairMatrices &pairs,
                                                   const KeptStates &kept,
                                                   const ChunkSplits &splits) {
  SmallVector<Value> operands = {form.key,
                                 form.cumulative,
                                 form.beta,
                                 pairs.inverse,
                                 form.decayed.keyFromStart,
                                 form.decayed.ofChunks,
                                 form.sequences,
                                 splits.count,
                                 splits.chunks};
  if (form.part == ChunkPart::Transitions)
    operands.append(dropNull({splits.transitions, splits.transitionRests}));
  else
    operands.push_back(form.value);
  if (form.part == ChunkPart::SplitStates)
    operands.push_back(splits.states);
  // The gradient needs no outputs, and keeps values that are no updates.
  if (form.part == ChunkPart::Results)
    llvm::append_values(
        operands, form.out ? form.query : Value(), form.out, form.firstState,
        form.lastState, form.out ? pairs.scores : Value(), kept.states,
        form.beta ? kept.updates : Value(), kept.residuals, splits.starts);
  return dropNull(operands);
}

ForwardChunkWriter::ForwardChunkWriter(OpBuilder &builder,
                                       const LinearKernelForm &form,
                                       attn_tile::KernelOp kernel,
                                       const PairMatrices &givenPairs,
                                       const KeptStates &givenKept,
                                       const ChunkSplits &givenSplits)
    : ChunkKernelWriter(builder, form, kernel,
                        getOperands(form, givenPairs, givenKept, givenSplits)),
      query(get(form.query)), out(get(form.out)),
      firstState(get(form.firstState)), lastState(get(form.lastState)),
      pairs(givenPairs), kept(givenKept) {
  replaceByArguments(pairs.getBuffers());
  replaceByArguments(kept.getBuffers());
  splits = givenSplits;
  replaceByArguments(splits.getBuffers());
}

ForwardChunkWriter::Tiles ForwardChunkWriter::loadTiles(const WorkItem &at,
                                                        const Chunk &chunk) {
  Tiles tiles;
  tiles.keys = loadKeys(at, chunk);
  if (hasValues())
    tiles.values = loadValues(at, chunk);
  if (hasOutputs()) {
    tiles.queries = loadQueries(query, at, chunk);
    tiles.scores = loadPairs(pairs.scores, at, chunk);
  }
  if (!beta)
    return tiles;
  tiles.inverse = loadPairs(pairs.inverse, at, chunk);
  tiles.beta = loadTokens(beta, at, chunk);
  tiles.knownKeys = decayed.keyFromStart
                        ? loadRows(decayed.keyFromStart, at, chunk, at.head,
                                   b.index(0), keyDim)
                        : tiles.keys;
  return tiles;
}

/// What the state takes, as its columns before the chunk have `known` of the
/// keys: rows of keys times columns of the state, without decays.
ForwardChunkWriter::Update ForwardChunkWriter::emitUpdate(const Tiles &tiles,
                                                          Value known,
                                                          Value fromStart) {
  SmallVector<int64_t> shape = {chunkTokens, valueDim};
  if (fromStart)
    known = mul(known, repeat(fromStart, shape));
  Value residual =
      tiles.values
          ? arith::SubFOp::create(b, b.extend(tiles.values), known).getResult()
          : multiply(known, -1);
  Value scaled = b.round(mul(residual, repeat(tiles.beta, shape)), element);
  return {b.contract(tiles.inverse, scaled, zeros(shape), ContractForm::Plain),
          residual};
}

/// Stores what gradients need of a chunk. `rounded` is the state before it, and
/// `values` are what the state takes.
void ForwardChunkWriter::storeResults(const WorkItem &at, const Chunk &chunk,
                                      Value rounded, const Update &update,
                                      Value values) {
  if (!kept.states)
    return;
  storeState(rounded, kept.states, {chunk.number, at.batch}, at);
  if (!beta)
    return;
  storeRows(at, chunk, values, kept.updates);
  storeRows(at, chunk, update.residual, kept.residuals);
}

/// Matmuls begin in an order in which the next one seldom waits for the last
/// one: outputs of the state while the known values are solved, and the next
/// state before outputs are stored.
Value ForwardChunkWriter::writeChunk(const WorkItem &at, const Chunk &chunk,
                                     Value state) {
  SmallVector<int64_t> shape = {chunkTokens, valueDim};
  std::optional<Sum> rows;
  Value fromStart, ofChunk;
  if (cumulative) {
    rows = loadRowSums(at, chunk);
    fromStart = emitDecay(*rows);
  }
  if (decayed.ofChunks)
    ofChunk = loadChunkDecays(at, chunk);
  Tiles tiles = loadTiles(at, chunk);
  Value rounded = b.round(state, element), known, result;
  if (beta)
    known =
        b.contract(tiles.knownKeys, rounded, zeros(shape), ContractForm::Plain);
  auto beginResult = [&] {
    if (hasOutputs())
      result =
          b.contract(tiles.queries, rounded, zeros(shape), ContractForm::Plain);
  };
  if (areMatmulsAsync())
    beginResult();
  Update update = {tiles.values, Value()};
  if (beta)
    update = emitUpdate(tiles, known, fromStart);
  if (ofChunk)
    state = mul(state, ofChunk);
  // Without beta, no value depends on the state.
  if (!update.values)
    return state;
  if (!areMatmulsAsync())
    beginResult();
  if (hasOutputs() && fromStart)
    result = mul(result, repeat(fromStart, shape));
  Value values = b.round(update.values, element);
  if (hasOutputs())
    result = b.contract(tiles.scores, values, result, ContractForm::Plain);
  auto finishState = [&] {
    state = emitStep(at, chunk, tiles.keys, rows ? update.values : values,
                     state, rows);
  };
  if (areMatmulsAsync())
    finishState();
  if (hasOutputs())
    storeRows(at, chunk, multiply(result, form.scale), out);
  if (hasResults())
    storeResults(at, chunk, rounded, update, values);
  if (!areMatmulsAsync())
    finishState();
  return state;
}

/// The state before the first one that a work item updates.
Value ForwardChunkWriter::loadFirst(const WorkItem &at) {
  if (!hasValues())
    return emitIdentity(at);
  auto loadGiven = [&]() -> Value {
    return firstState ? loadState(firstState, at.state, at)
                      : zeros({keyDim, valueDim});
  };
  return hasResults() ? loadFirstState(at, loadGiven)
                      : zeros({keyDim, valueDim});
}

void ForwardChunkWriter::storeLast(const WorkItem &at, Value state) {
  switch (form.part) {
  case ChunkPart::Results:
    return storeLastState(at, state, lastState);
  case ChunkPart::SplitStates:
    return storeState(state, splits.states, {at.split, at.state}, at);
  case ChunkPart::Transitions:
    return storeTransition(at, state, splits);
  }
}

/// The number of splits that the kernel has work items for; null without
/// splits. No split begins with the state of the last one, whose transition
/// gradients need. A single split needs neither.
Value ForwardChunkWriter::emitNumSplits() {
  if (hasResults())
    return splits.count;
  b.setInsertionPointToEnd(entry);
  Value one = b.index(1);
  Value numStates = arith::SubIOp::create(b, splits.count, one);
  if (hasValues() || !isGradient())
    return numStates;
  Value isSingle =
      arith::CmpIOp::create(b, CmpIPredicate::eq, splits.count, one);
  return arith::SelectOp::create(b, isSingle, numStates, splits.count);
}

void ForwardChunkWriter::write() {
  writeItems(emitNumSplits(), [&](const WorkItem &at) {
    Value last = forChunks(
        at, loadFirst(at),
        [&](const Chunk &chunk, ValueRange carried) -> SmallVector<Value> {
          return {writeChunk(at, chunk, carried[0])};
        })[0];
    storeLast(at, last);
  });
}

void attn::createForwardChunks(RewriterBase &rewriter,
                               const LinearKernelForm &given,
                               const PairMatrices &pairs,
                               const KeptStates &kept, ChunkSplits splits,
                               Value isNarrow, SymbolTable &symbols,
                               StringRef name) {
  auto create = [&](LinearKernelForm form, const Twine &kernelName) {
    form.useDecayedRows();
    attn_tile::KernelOp kernel = createKernel(
        rewriter, form.op, form.schedule, symbols, kernelName.str(),
        ForwardChunkWriter::getOperands(form, pairs, kept, splits));
    ForwardChunkWriter(rewriter, form, kernel, pairs, kept, splits).write();
    rewriter.setInsertionPoint(form.op);
  };
  if (splits.count) {
    allocateStates(rewriter, given, splits);
    LinearKernelForm form = withSchedule(given, getParts(given.op).getChunks());
    form.part = ChunkPart::SplitStates;
    create(form, name + "_states");
    form.part = ChunkPart::Transitions;
    // A transition has as many columns as rows.
    form.value = given.key;
    create(form, name + "_transitions");
    createPairStarts(rewriter, given, splits, symbols, name);
  }
  createForHeads(rewriter, given, isNarrow,
                 [&](const LinearKernelForm &form, StringRef suffix) {
                   create(form, name + suffix);
                 });
  deallocate(rewriter, given.op->getLoc(), {splits.states, splits.starts});
}

void attn::createLinearPairKernels(RewriterBase &rewriter, LinearAttentionOp op,
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
  form.out = op.getOut();
  form.firstState = op.getInitialState();
  form.lastState = op.getFinalState();
  PairMatrices pairs =
      createPairMatrices(rewriter, form, /*hasKeyScores=*/false, symbols);
  ChunkSplits splits = createPairSplits(rewriter, form);
  createForwardChunks(rewriter, form, pairs, KeptStates(), splits,
                      emitIsNarrow(rewriter, form), symbols,
                      "_linear_attention");
  deallocate(rewriter, op.getLoc(),
             {pairs.scores, pairs.inverse, form.cumulative, splits.transitions,
              splits.transitionRests, form.chunkTable});
  deallocateRows(rewriter, op.getLoc(), form.decayed);
  rewriter.eraseOp(op);
}
