//===- LinearAttentionKernel.cpp - GPU kernels of linear attention --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A work item has some columns of the values of a head. It goes through the
// chunks of the tokens and carries its columns of the state in registers. In a
// chunk, with the decays that are exponentials of cumulative log-decays,
//
//   scores = (query key^T) times the decay between the two tokens, below the
//            diagonal
//   out    = (query state) times the decay up to the token + scores value
//   state  = state times the decay of the chunk
//            + key^T (value times the decay from the token to the end)
//
// The matmuls multiply 16-bit values: scores, decayed values and, as an operand
// alone, the state are rounded to the element type of the query. Sums are f32.
//
// Gradients have the same form with other operands:
//
//   operand  gradient of queries  of keys       of values
//   query    dout                 value         key
//   key      value                dout          query
//   value    key                  query         dout
//
// The latter two go through the tokens last to first: a token sees later ones.
//
// Where heads are few, several work items split the chunks of a head. A kernel
// computes the state of each split alone, another one the state that each split
// begins with.
//
// If no chunk of a work item forgets much, the decay between two tokens is a
// factor of the one times a factor of the other, so that scores need none:
//
//   state  = state times the decay of the chunk
//   value  = value times the decay from the token to the end
//   out    = (query state + scores value) over the decay from the token to the
//            end
//   state  = state + key^T value
//
// Two kernels have the two forms, and each does nothing for the work items of
// the other one.
//
// The gradient of a log-decay is a sum over all pairs of a query and an earlier
// key that it is between, see LinearDecayGradKernel.h. The kernels of gradients
// of queries and keys add up what a query and all keys, or a key and all
// queries have: a row of the gradient times the row itself.
//
//===----------------------------------------------------------------------===//

#include "LinearAttentionKernel.h"
#include "ChunkKernelWriter.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "attn/Dialect/AttnTile/IR/InBoundsLoads.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

namespace {
/// Writes the kernel of outputs.
class OutputKernelWriter : ChunkKernelWriter {
public:
  OutputKernelWriter(OpBuilder &builder, const LinearKernelForm &form,
                     attn_tile::KernelOp kernel, const ChunkSplits &given);

  static SmallVector<Value> getOperands(const LinearKernelForm &form,
                                        const ChunkSplits &splits);
  void write();

private:
  Value loadGivenState(const WorkItem &at);
  Value loadFirstState(const WorkItem &at) {
    return ChunkKernelWriter::loadFirstState(
        at, [&] { return loadGivenState(at); });
  }
  Value loadTerms(Value source, ArrayRef<int64_t> shape, ValueRange indices,
                  const WorkItem &at, const Chunk &chunk);
  Value loadTermRows(const WorkItem &at, const Chunk &chunk);
  void storeRowTerms(const WorkItem &at, const Chunk &chunk, Value tile,
                     Value rows, Value dest);
  void storeStateTerms(const WorkItem &at, const Chunk &chunk, Value state,
                       Value rounded);
  Value writeCausalChunk(const WorkItem &at, const Chunk &chunk, Value state);
  Value writeFactoredChunk(const WorkItem &at, const Chunk &chunk, Value state);
  void writeFull(const WorkItem &at);

  Value query, out, firstState, lastState;
  DecayGradTerms terms;
};

/// Writes the kernel of the states of splits.
class SplitStateWriter : ChunkKernelWriter {
public:
  SplitStateWriter(OpBuilder &builder, const LinearKernelForm &form,
                   attn_tile::KernelOp kernel, const ChunkSplits &given);

  static SmallVector<Value> getOperands(const LinearKernelForm &form,
                                        const ChunkSplits &splits);
  void write();

private:
  void storeDecay(const WorkItem &at, Value sum);
};

/// Writes the kernel of the states that splits begin with.
class SplitStartWriter {
public:
  SplitStartWriter(OpBuilder &builder, const LinearKernelForm &form,
                   attn_tile::KernelOp kernel)
      : b(form.op->getLoc(), builder), form(form),
        entry(&kernel.getBody().front()), states(entry->getArgument(0)),
        starts(entry->getArgument(1)),
        columnsOfThread(std::gcd(form.getValueHeadDim(), mostColumns)) {
    if (form.cumulative)
      decays = entry->getArgument(2);
    if (form.firstState)
      firstState = entry->getArguments().back();
  }

  void write();

private:
  SmallVector<Value> loadFirst(ValueRange at);
  void storeStarts(Value isSplit, ValueRange states, ArrayRef<Value> indices);
  SmallVector<Value> addSplit(ValueRange states, ValueRange parts,
                              Value factor);
  void writeSplits(ValueRange at, ValueRange first, Value count,
                   int64_t unrolled);
  void writeColumns(ValueRange at);
  Value load(Value memref, ValueRange indices);
  SmallVector<Value> loadColumns(Value memref, ArrayRef<Value> indices,
                                 bool areAligned);

  ScalarKernelBuilder b;
  const LinearKernelForm &form;
  Block *entry;
  Value states, starts, decays, firstState;
  /// Neighbouring columns that a thread has.
  static constexpr int64_t mostColumns = 4;
  int64_t columnsOfThread;
};
} // namespace

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

SmallVector<Value> OutputKernelWriter::getOperands(const LinearKernelForm &form,
                                                   const ChunkSplits &splits) {
  return dropNull({form.query, form.key, form.value, form.out, form.firstState,
                   form.lastState, form.cumulative, form.sequences,
                   splits.starts, splits.count, splits.chunks, form.terms.rows,
                   form.terms.dots, form.terms.stateDots, form.terms.states,
                   form.terms.chunkTerms});
}

OutputKernelWriter::OutputKernelWriter(OpBuilder &builder,
                                       const LinearKernelForm &form,
                                       attn_tile::KernelOp kernel,
                                       const ChunkSplits &given)
    : ChunkKernelWriter(builder, form, kernel, getOperands(form, given)),
      query(get(form.query)), out(get(form.out)),
      firstState(get(form.firstState)), lastState(get(form.lastState)) {
  splits.starts = get(given.starts);
  splits.count = get(given.count);
  splits.chunks = get(given.chunks);
  terms.rows = get(form.terms.rows);
  terms.dots = get(form.terms.dots);
  terms.stateDots = get(form.terms.stateDots);
  terms.states = get(form.terms.states);
  terms.chunkTerms = get(form.terms.chunkTerms);
}

Value OutputKernelWriter::loadGivenState(const WorkItem &at) {
  if (!firstState)
    return zeros({keyDim, valueDim});
  Value state = form.isFirstTransposed ? loadTransposedState(firstState, {}, at)
                                       : loadState(firstState, at.state, at);
  return form.stateFactor == 1 ? state : multiply(state, form.stateFactor);
}

/// Loads a tile of the terms of log-decays' gradients. A producer copies it to
/// a pipe; where all warps copy, shared memory has no room for it.
Value OutputKernelWriter::loadTerms(Value source, ArrayRef<int64_t> shape,
                                    ValueRange indices, const WorkItem &at,
                                    const Chunk &chunk) {
  if (form.schedule.multipliesByWarps())
    return b.load(shape, source, indices);
  return b.load(shape, source, indices, chunk.position, at.numChunks);
}

/// Loads the rows that the rows of a tile are multiplied with.
Value OutputKernelWriter::loadTermRows(const WorkItem &at, const Chunk &chunk) {
  return loadRows(terms.rows, at, chunk, at.head, at.column, valueDim,
                  /*areStaged=*/!form.schedule.multipliesByWarps());
}

/// Stores the dot product of each row of a tile, which has no scale yet, with
/// the other row. Rows that no producer copies, null ones, are loaded here, so
/// that they take no registers before.
void OutputKernelWriter::storeRowTerms(const WorkItem &at, const Chunk &chunk,
                                       Value tile, Value rows, Value dest) {
  if (!dest)
    return;
  if (!rows)
    rows = loadTermRows(at, chunk);
  attn_tile::StoreOp::create(
      b, sumRows(multiply(mul(tile, b.extend(rows)), form.scale)), dest,
      ValueRange{at.tile, at.batch, at.head, chunk.firstRow});
}

/// The first one of two computations stores the states before the chunks, the
/// other one multiplies them with its own state, their gradient.
void OutputKernelWriter::storeStateTerms(const WorkItem &at, const Chunk &chunk,
                                         Value state, Value rounded) {
  if (!terms.states)
    return;
  if (!terms.chunkTerms)
    return storeState(rounded, terms.states, {chunk.number, at.batch}, at);
  SmallVector<Value> indices = {chunk.number, at.batch, at.head, b.index(0),
                                at.column};
  Value before =
      b.extend(loadTerms(terms.states, {keyDim, valueDim}, indices, at, chunk));
  Value after =
      mul(state, repeat(emitDecay(loadTotal(at, chunk)), {keyDim, valueDim}));
  Value first = arith::MulIOp::create(b, chunk.number, b.index(keyDim));
  attn_tile::StoreOp::create(
      b, sumRows(multiply(mul(before, after), form.scale)), terms.chunkTerms,
      ValueRange{at.tile, at.batch, at.head, first});
}

Value OutputKernelWriter::writeCausalChunk(const WorkItem &at,
                                           const Chunk &chunk, Value state) {
  std::optional<Sum> rows, columns;
  if (cumulative) {
    rows = loadRowSums(at, chunk);
    columns = loadColumnSums(at, chunk);
  }
  Value queries = loadQueries(query, at, chunk), keys = loadKeys(at, chunk);
  Value values = loadValues(at, chunk), termRows;
  if (terms.rows && !form.schedule.multipliesByWarps())
    termRows = loadTermRows(at, chunk);
  Value scores = b.contract(queries, keys, zeros({chunkTokens, chunkTokens}),
                            ContractForm::TransposedRhs);
  auto finishScores = [&] {
    if (cumulative)
      scores = decayScores(scores, *rows, *columns);
    scores = b.round(maskScores(scores), element);
  };
  if (!areMatmulsAsync())
    finishScores();
  Value rounded = b.round(state, element);
  Value result = b.contract(queries, rounded, zeros({chunkTokens, valueDim}),
                            ContractForm::Plain);
  if (areMatmulsAsync())
    finishScores();
  if (cumulative)
    result = mul(result, repeat(emitEdgeDecay(*rows, loadTotal(at, chunk),
                                              /*isFromFirst=*/true),
                                {chunkTokens, valueDim}));
  storeRowTerms(at, chunk, result, termRows, terms.stateDots);
  result = b.contract(scores, values, result, ContractForm::Plain);
  auto finishState = [&] {
    storeStateTerms(at, chunk, state, rounded);
    state = emitStep(at, chunk, keys, values, state, rows);
  };
  if (areMatmulsAsync())
    finishState();
  storeRowTerms(at, chunk, result, termRows, terms.dots);
  storeRows(at, chunk, multiply(result, form.scale), out);
  if (!areMatmulsAsync())
    finishState();
  return state;
}

/// A chunk whose decays are factors of tokens.
Value OutputKernelWriter::writeFactoredChunk(const WorkItem &at,
                                             const Chunk &chunk, Value state) {
  Sum rows = loadRowSums(at, chunk), total = loadTotal(at, chunk);
  Value queries = loadQueries(query, at, chunk), keys = loadKeys(at, chunk);
  Value values = loadValues(at, chunk);
  Value scores = b.contract(queries, keys, zeros({chunkTokens, chunkTokens}),
                            ContractForm::TransposedRhs);
  auto finishScores = [&] { scores = b.round(maskScores(scores), element); };
  if (!areMatmulsAsync())
    finishScores();
  state = mul(state, repeat(emitDecay(total), {keyDim, valueDim}));
  Value result =
      b.contract(queries, b.round(state, element),
                 zeros({chunkTokens, valueDim}), ContractForm::Plain);
  Value toEnd = emitEdgeDecay(rows, total, /*isFromFirst=*/false);
  values = b.round(
      mul(b.extend(values), repeat(toEnd, {chunkTokens, valueDim})), element);
  if (areMatmulsAsync())
    finishScores();
  result = b.contract(scores, values, result, ContractForm::Plain);
  auto finishState = [&] {
    state = b.contract(keys, values, state, ContractForm::TransposedLhs);
  };
  if (areMatmulsAsync())
    finishState();
  Value ofRows =
      arith::DivFOp::create(b, b.splat(chunkTokens, form.scale), toEnd);
  storeRows(at, chunk, mul(result, repeat(ofRows, {chunkTokens, valueDim})),
            out);
  if (!areMatmulsAsync())
    finishState();
  return state;
}

/// Without a mask each token sees the last state.
void OutputKernelWriter::writeFull(const WorkItem &at) {
  Value state = forChunks(
      at, loadFirstState(at),
      [&](const Chunk &chunk, ValueRange carried) -> SmallVector<Value> {
        return {emitStep(at, chunk, loadKeys(at, chunk), loadValues(at, chunk),
                         carried[0], std::nullopt)};
      })[0];
  forChunks(at, {}, [&](const Chunk &chunk, ValueRange) -> SmallVector<Value> {
    Value result =
        b.contract(loadQueries(query, at, chunk), b.round(state, element),
                   zeros({chunkTokens, valueDim}), ContractForm::Plain);
    storeRows(at, chunk, multiply(result, form.scale), out);
    return {};
  });
  storeLastState(at, state, lastState);
}

void OutputKernelWriter::write() {
  writeItems(splits.count, [&](const WorkItem &at) {
    if (!form.isCausal)
      return writeFull(at);
    Value state = forChunks(
        at, loadFirstState(at),
        [&](const Chunk &chunk, ValueRange carried) -> SmallVector<Value> {
          return {form.range == DecayRange::Factored
                      ? writeFactoredChunk(at, chunk, carried[0])
                      : writeCausalChunk(at, chunk, carried[0])};
        })[0];
    storeLastState(at, state, lastState);
  });
}

//===----------------------------------------------------------------------===//
// Splits
//===----------------------------------------------------------------------===//

SmallVector<Value> SplitStateWriter::getOperands(const LinearKernelForm &form,
                                                 const ChunkSplits &splits) {
  return dropNull({form.key, form.value, form.cumulative, form.sequences,
                   splits.states, splits.decays, splits.count, splits.chunks});
}

SplitStateWriter::SplitStateWriter(OpBuilder &builder,
                                   const LinearKernelForm &form,
                                   attn_tile::KernelOp kernel,
                                   const ChunkSplits &given)
    : ChunkKernelWriter(builder, form, kernel, getOperands(form, given)) {
  splits.states = get(given.states);
  splits.decays = get(given.decays);
  splits.count = get(given.count);
  splits.chunks = get(given.chunks);
}

/// Stores the decay of a split, from the sum of its log-decays. The work items
/// of all tiles of columns have the same one.
void SplitStateWriter::storeDecay(const WorkItem &at, Value sum) {
  Value isFirst =
      arith::CmpIOp::create(b, CmpIPredicate::eq, at.tile, b.index(0));
  Value count = arith::SelectOp::create(b, isFirst, b.index(1), b.index(0));
  auto once = attn_tile::ThreadForOp::create(b, count);
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&once.getBody(), {}, b.getIndexType(), b.getLoc());
  memref::StoreOp::create(b, math::Exp2Op::create(b, sum), splits.decays,
                          ValueRange{at.split, at.state, at.head});
  attn_tile::YieldOp::create(b, ValueRange());
}

/// The last split begins with all others, and no split begins with it.
void SplitStateWriter::write() {
  b.setInsertionPointToEnd(entry);
  Value number = arith::SubIOp::create(b, splits.count, b.index(1));
  writeItems(number, [&](const WorkItem &at) {
    SmallVector<Value> inits = {zeros({keyDim, valueDim})};
    if (cumulative)
      inits.push_back(b.scalar(0));
    SmallVector<Value> last = forChunks(
        at, inits,
        [&](const Chunk &chunk, ValueRange carried) -> SmallVector<Value> {
          std::optional<Sum> rows;
          if (cumulative)
            rows = loadRowSums(at, chunk);
          SmallVector<Value> next = {emitStep(at, chunk, loadKeys(at, chunk),
                                              loadValues(at, chunk), carried[0],
                                              rows)};
          if (cumulative) {
            Sum total = loadTotal(at, chunk);
            Value ofChunk = arith::AddFOp::create(b, total.whole, total.rest);
            next.push_back(arith::AddFOp::create(b, carried[1], ofChunk));
          }
          return next;
        });
    storeState(last[0], splits.states, {at.split, at.state}, at);
    if (cumulative)
      storeDecay(at, last[1]);
  });
}

Value SplitStartWriter::load(Value memref, ValueRange indices) {
  auto element = memref::LoadOp::create(b, memref, indices);
  attn_tile::setKnownInBounds(element);
  return element;
}

SmallVector<Value> SplitStartWriter::loadColumns(Value memref,
                                                 ArrayRef<Value> indices,
                                                 bool areAligned) {
  return b.loadNeighbours(memref, llvm::to_vector(indices), columnsOfThread,
                          areAligned);
}

/// The columns `at` (sequence, head, row, first column) of the first state.
SmallVector<Value> SplitStartWriter::loadFirst(ValueRange at) {
  auto f32 = [&](double value) -> Value {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(float(value)));
  };
  if (!firstState)
    return SmallVector<Value>(size_t(columnsOfThread), f32(0));
  SmallVector<Value> first;
  if (form.isFirstTransposed)
    for (int64_t i = 0; i < columnsOfThread; ++i)
      first.push_back(
          load(firstState, {at[0], at[1], b.add(at[3], b.constant(i)), at[2]}));
  else
    first = loadColumns(firstState, llvm::to_vector(at), /*areAligned=*/false);
  for (Value &element : first)
    element = arith::MulFOp::create(b, element, f32(form.stateFactor));
  return first;
}

/// Stores columns of the state that a split begins with, if there is the split.
void SplitStartWriter::storeStarts(Value isSplit, ValueRange states,
                                   ArrayRef<Value> indices) {
  auto branch = scf::IfOp::create(b, isSplit, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  b.storeNeighbours(states, starts, llvm::to_vector(indices));
}

/// The state after a split, to which its own tokens add `parts`.
SmallVector<Value> SplitStartWriter::addSplit(ValueRange states,
                                              ValueRange parts, Value factor) {
  SmallVector<Value> next;
  for (auto [state, part] : llvm::zip_equal(states, parts)) {
    Value decayed =
        factor ? arith::MulFOp::create(b, state, factor).getResult() : state;
    next.push_back(arith::AddFOp::create(b, decayed, part));
  }
  return next;
}

/// Writes the columns `at` of the states that splits begin with, `first` for
/// the first one. As many splits are loaded at once as are `unrolled`: a load
/// takes longer than the additions of all. Numbers beyond the last split count
/// as its own.
void SplitStartWriter::writeSplits(ValueRange at, ValueRange first, Value count,
                                   int64_t unrolled) {
  Value last = b.sub(count, b.constant(1));
  auto loop =
      scf::ForOp::create(b, b.constant(0), count, b.constant(unrolled), first);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<SmallVector<Value>> places, parts;
  SmallVector<Value> factors;
  for (int64_t i = 0; i < unrolled; ++i) {
    SmallVector<Value> place = {arith::MinUIOp::create(
        b, b.add(loop.getInductionVar(), b.constant(i)), last)};
    place.append(at.begin(), at.end());
    parts.push_back(loadColumns(states, place, /*areAligned=*/true));
    factors.push_back(decays ? load(decays, ArrayRef(place).take_front(3))
                             : Value());
    places.push_back(std::move(place));
  }
  SmallVector<Value> state(loop.getRegionIterArgs());
  for (int64_t i = 0; i < unrolled; ++i) {
    Value number = b.add(loop.getInductionVar(), b.constant(i));
    storeStarts(b.compare(CmpIPredicate::ult, number, count), state, places[i]);
    state = addSplit(state, parts[i], factors[i]);
  }
  scf::YieldOp::create(b, state);
}

/// Writes the columns `at` of the states that splits begin with.
void SplitStartWriter::writeColumns(ValueRange at) {
  constexpr int64_t few = 8, many = 32;
  SmallVector<Value> first = loadFirst(at);
  Value count = b.size(starts, 0);
  auto branch = scf::IfOp::create(
      b, b.compare(CmpIPredicate::ult, count, b.constant(many)),
      /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  writeSplits(at, first, count, few);
  b.setInsertionPointToStart(branch.elseBlock());
  writeSplits(at, first, count, many);
}

/// There is nothing to do for a single split.
void SplitStartWriter::write() {
  b.setInsertionPointToEnd(entry);
  auto type = cast<MemRefType>(starts.getType());
  int64_t columns = type.getDimSize(4) / columnsOfThread;
  int64_t threads = type.getDimSize(3) * columns;
  Value one = b.constant(1), count = b.size(starts, 0);
  Value isSplit = arith::MinUIOp::create(b, b.sub(count, one), one);
  Value blocks = b.mul(
      isSplit, b.constant(llvm::divideCeil(threads, attn_tile::warpThreads)));
  SmallVector<OpFoldResult> bounds = {b.size(starts, 1), b.size(starts, 2),
                                      blocks};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  Value ofWarp = b.constant(attn_tile::warpThreads);
  Value first = b.mul(ids[2], ofWarp);
  Value ofItem =
      arith::MinUIOp::create(b, ofWarp, b.sub(b.constant(threads), first));
  b.each(ofItem, [&](Value number) {
    Value thread = b.add(first, number);
    Value row = arith::DivUIOp::create(b, thread, b.constant(columns));
    Value column = b.mul(arith::RemUIOp::create(b, thread, b.constant(columns)),
                         b.constant(columnsOfThread));
    writeColumns({ids[0], ids[1], row, column});
  });
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// Allocates the decay of each split of a computation.
static Value allocateDecays(OpBuilder &builder, const LinearKernelForm &form,
                            const ChunkSplits &splits) {
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  constexpr int64_t dynamic = ShapedType::kDynamic;
  auto type =
      MemRefType::get({dynamic, dynamic, form.getNumHeads()}, b.getF32Type());
  return memref::AllocOp::create(
      b, type, ValueRange{splits.count, emitNumStates(b, form)});
}

/// Launches the kernels that compute the states that splits begin with.
static void createSplitStates(RewriterBase &rewriter,
                              const LinearKernelForm &form,
                              const ChunkSplits &splits, SymbolTable &symbols,
                              StringRef name) {
  attn_tile::KernelOp states = createKernel(
      rewriter, form.op, form.schedule, symbols, (name + "_states").str(),
      SplitStateWriter::getOperands(form, splits));
  SplitStateWriter(rewriter, form, states, splits).write();
  rewriter.setInsertionPoint(form.op);
  SmallVector<Value> operands =
      dropNull({splits.states, splits.starts, splits.decays, form.firstState});
  attn_tile::KernelOp starts =
      createKernel(rewriter, form.op, form.schedule.getPreparation(), symbols,
                   (name + "_starts").str(), operands);
  SplitStartWriter(rewriter, form, starts).write();
  rewriter.setInsertionPoint(form.op);
}

/// The ranges of decays that have a kernel of their own. Times such a decay,
/// f16 would be subnormal. Terms of the gradient of log-decays cancel with
/// terms of another computation, which needs the same rounded scores.
static SmallVector<DecayRange> getRanges(const LinearKernelForm &form) {
  if (!form.cumulative || form.terms.dots ||
      getElementTypeOrSelf(form.key).isF16())
    return {DecayRange::All};
  return {DecayRange::Factored, DecayRange::Other};
}

/// Launches the kernels of the states that the splits of one computation begin
/// with, before its operation.
static ChunkSplits createSplitStarts(RewriterBase &rewriter,
                                     const LinearKernelForm &form,
                                     SymbolTable &symbols, StringRef name) {
  ChunkSplits splits = createSplits(rewriter, form, form.countTiles());
  if (!splits.count)
    return splits;
  allocateStates(rewriter, form, splits);
  if (form.cumulative)
    splits.decays = allocateDecays(rewriter, form, splits);
  createSplitStates(rewriter, form, splits, symbols, name);
  return splits;
}

static void deallocateSplits(OpBuilder &builder, Location loc,
                             const ChunkSplits &splits) {
  deallocate(builder, loc, {splits.states, splits.starts, splits.decays});
}

/// Launches the kernels of the outputs of one computation, before its
/// operation.
static void createOutputs(RewriterBase &rewriter, LinearKernelForm form,
                          const ChunkSplits &splits, SymbolTable &symbols,
                          StringRef name) {
  for (DecayRange range : getRanges(form)) {
    form.range = range;
    StringRef suffix = range == DecayRange::Factored ? "_factored" : "";
    attn_tile::KernelOp kernel = createKernel(
        rewriter, form.op, form.schedule, symbols, (name + suffix).str(),
        OutputKernelWriter::getOperands(form, splits));
    OutputKernelWriter(rewriter, form, kernel, splits).write();
    rewriter.setInsertionPoint(form.op);
  }
}

/// Launches all kernels of one computation.
static void createKernels(RewriterBase &rewriter, const LinearKernelForm &form,
                          SymbolTable &symbols, StringRef name) {
  ChunkSplits splits = createSplitStarts(rewriter, form, symbols, name);
  createOutputs(rewriter, form, splits, symbols, name);
  deallocateSplits(rewriter, form.op->getLoc(), splits);
}

/// Launches the kernels of the gradients of values, `ofValue`, and of keys,
/// `ofKey`. The states of the one are those of the other with their dimensions
/// exchanged: with as many columns of both, the states before splits are
/// computed once.
static void createKeyValueGradients(RewriterBase &rewriter,
                                    const LinearKernelForm &ofValue,
                                    LinearKernelForm ofKey,
                                    SymbolTable &symbols) {
  StringRef nameOfValue = "_linear_dv", nameOfKey = "_linear_dk";
  if (ofKey.getKeyHeadDim() != ofKey.getValueHeadDim()) {
    createKernels(rewriter, ofValue, symbols, nameOfValue);
    createKernels(rewriter, ofKey, symbols, nameOfKey);
    return;
  }
  ChunkSplits splits =
      createSplitStarts(rewriter, ofValue, symbols, nameOfValue);
  createOutputs(rewriter, ofValue, splits, symbols, nameOfValue);
  ofKey.areStartsTransposed = true;
  createOutputs(rewriter, ofKey, splits, symbols, nameOfKey);
  deallocateSplits(rewriter, ofValue.op->getLoc(), splits);
}

void attn::createLinearAttentionKernels(RewriterBase &rewriter,
                                        LinearAttentionOp op,
                                        SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  ChunkTable table = createChunkTable(rewriter, op, symbols);
  LinearKernelForm form = LinearKernelForm::get(
      op, createSums(rewriter, op, symbols, table.chunks), table);
  form.query = op.getQuery();
  form.key = op.getKey();
  form.value = op.getValue();
  form.out = op.getOut();
  form.firstState = op.getInitialState();
  form.lastState = op.getFinalState();
  createKernels(rewriter, form, symbols, "_linear_attention");
  deallocate(rewriter, op.getLoc(), {form.cumulative, form.chunkTable});
  rewriter.eraseOp(op);
}

void attn::createLinearAttentionGradKernels(RewriterBase &rewriter,
                                            LinearAttentionGradOp op,
                                            SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  ChunkTable table = createChunkTable(rewriter, op, symbols);
  Value cumulative = createSums(rewriter, op, symbols, table.chunks);
  DecayGradWorkspace workspace;
  if (op.getDlogDecay())
    workspace = DecayGradWorkspace::allocate(rewriter, op, table.chunks);
  LinearKernelForm ofQuery = LinearKernelForm::get(op, cumulative, table);
  ofQuery.query = op.getDout();
  ofQuery.key = op.getValue();
  ofQuery.value = op.getKey();
  ofQuery.out = op.getDquery();
  ofQuery.firstState = op.getInitialState();
  ofQuery.isFirstTransposed = true;
  ofQuery.terms = workspace.getTermsOfQueries();
  createKernels(rewriter, ofQuery, symbols, "_linear_dq");

  // The state is the gradient of states, divided by the scale.
  LinearKernelForm ofKey = LinearKernelForm::get(op, cumulative, table);
  ofKey.isReversed = true;
  ofKey.stateFactor = 1 / ofKey.scale;
  LinearKernelForm ofValue = ofKey;
  ofKey.query = op.getValue();
  ofKey.key = op.getDout();
  ofKey.value = op.getQuery();
  ofKey.out = op.getDkey();
  ofKey.firstState = op.getDfinalState();
  ofKey.isFirstTransposed = true;
  ofKey.terms = workspace.getTermsOfKeys();

  ofValue.query = op.getKey();
  ofValue.key = op.getQuery();
  ofValue.value = op.getDout();
  ofValue.out = op.getDvalue();
  ofValue.firstState = op.getDfinalState();
  ofValue.lastState = op.getDinitialState();
  createKeyValueGradients(rewriter, ofValue, ofKey, symbols);
  if (op.getDlogDecay())
    createDecayGradKernels(rewriter, op, workspace, table.chunks, symbols);
  deallocate(rewriter, op.getLoc(), {cumulative, table.chunks});
  rewriter.eraseOp(op);
}
