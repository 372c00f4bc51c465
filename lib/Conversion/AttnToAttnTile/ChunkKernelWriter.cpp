//===- ChunkKernelWriter.cpp - Chunks on GPUs -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChunkKernelWriter.h"
#include "CarriedLoop.h"
#include "ElementDecays.h"
#include "ScalarKernelBuilder.h"
#include "attn/Dialect/AttnTile/IR/InBoundsLoads.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

/// The binary logarithm of the smallest decay of a chunk whose decays are
/// factors of tokens: outputs are divided by it. Values and states keep their
/// precision in bf16 and f32 times any such decay.
static constexpr double minFactoredSum = -32;

/// The same for decays of key elements: keys are divided by them.
static constexpr double minFactoredSumOfElements = -64;

/// Limits splits of repeated chunks: at least four, for a gain, and at most
/// twice as many as the root of the number of chunks. If a split takes as long
/// as a chunk in the kernel that goes through splits, N chunks in P splits take
/// 3 N / P + P steps, the fewest with P the root of 3 N.
static Value limitSplits(ScalarKernelBuilder &b, Value count, Value chunks) {
  constexpr int64_t least = 4, mostOfRoot = 2;
  Value number = arith::UIToFPOp::create(
      b, b.getF64Type(),
      arith::IndexCastUIOp::create(b, b.getI64Type(), chunks));
  Value root = arith::FPToUIOp::create(b, b.getI64Type(),
                                       math::SqrtOp::create(b, number));
  Value most = b.mul(arith::IndexCastUIOp::create(b, b.getIndexType(), root),
                     b.constant(mostOfRoot));
  count = arith::MinUIOp::create(b, count, most);
  return b.select(b.compare(CmpIPredicate::ult, count, b.constant(least)),
                  b.constant(1), count);
}

/// The fewest splits of a packed sequence: kernels go through its chunks twice.
static constexpr int64_t leastSplitsOfSequence = 3;

/// Limits the splits of each packed sequence, of which `count` are wanted if
/// there is only one. Splits of a long sequence make up for the SMs that short
/// ones leave, but all sequences have as many states.
static Value limitSplitsOfSequences(ScalarKernelBuilder &b, Value count,
                                    Value numSequences) {
  constexpr int64_t mostOfWanted = 4;
  Value most = arith::DivUIOp::create(
      b, b.mul(count, b.constant(mostOfWanted)),
      arith::MaxUIOp::create(b, numSequences, b.constant(1)));
  count = arith::MinUIOp::create(b, count, most);
  return b.select(
      b.compare(CmpIPredicate::ult, count, b.constant(leastSplitsOfSequence)),
      b.constant(1), count);
}

ChunkSplits attn::createSplits(OpBuilder &builder, const LinearKernelForm &form,
                               int64_t numTiles, bool isRepeated) {
  int64_t wanted = form.schedule.getSplitKvWorkItems();
  if (wanted == 0 || !form.isCausal)
    return {};
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  Value one = b.constant(1), batch = b.size(form.query, 0);
  auto atLeastOne = [&](Value value) -> Value {
    return arith::MaxUIOp::create(b, value, one);
  };
  Value items =
      atLeastOne(b.mul(batch, b.constant(form.getNumHeads() * numTiles)));
  Value chunks = atLeastOne(emitNumChunks(b, form));
  Value count = arith::MinUIOp::create(
      b, atLeastOne(arith::DivUIOp::create(b, b.constant(wanted), items)),
      chunks);
  if (form.sequences)
    count = limitSplitsOfSequences(b, count, emitNumStates(b, form));
  if (isRepeated)
    count = limitSplits(b, count, chunks);
  auto divideCeil = [&](Value lhs, Value rhs) -> Value {
    return arith::DivUIOp::create(b, b.add(lhs, b.sub(rhs, one)), rhs);
  };
  ChunkSplits splits;
  splits.chunks = divideCeil(chunks, count);
  splits.count = divideCeil(chunks, splits.chunks);
  return splits;
}

Value attn::emitNumChunks(OpBuilder &builder, const LinearKernelForm &form) {
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  return form.chunkTable
             ? b.size(form.chunkTable, 1)
             : b.tiles(b.size(form.key, 2), form.schedule.getQueryTile());
}

Value attn::emitNumStates(OpBuilder &builder, const LinearKernelForm &form) {
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  if (!form.sequences)
    return b.size(form.key, 0);
  Value one = b.constant(1);
  Value boundaries = arith::MaxUIOp::create(b, b.size(form.sequences, 0), one);
  return b.sub(boundaries, one);
}

void attn::allocateStates(OpBuilder &builder, const LinearKernelForm &form,
                          ChunkSplits &splits) {
  ScalarKernelBuilder b(form.op->getLoc(), builder);
  constexpr int64_t dynamic = ShapedType::kDynamic;
  auto type = MemRefType::get({dynamic, dynamic, form.getNumHeads(),
                               form.getKeyHeadDim(), form.getValueHeadDim()},
                              b.getF32Type());
  for (Value *states : {&splits.states, &splits.starts})
    *states = memref::AllocOp::create(
        b, type, ValueRange{splits.count, emitNumStates(b, form)});
}

SmallVector<Value> attn::dropNull(ArrayRef<Value> operands) {
  SmallVector<Value> present;
  llvm::copy_if(operands, std::back_inserter(present),
                [](Value operand) { return bool(operand); });
  return present;
}

void attn::deallocate(OpBuilder &builder, Location loc,
                      ArrayRef<Value> buffers) {
  for (Value buffer : dropNull(buffers))
    memref::DeallocOp::create(builder, loc, buffer);
}

void attn::deallocateRows(OpBuilder &builder, Location loc, DecayedRows rows) {
  for (Value *buffer : rows.getBuffers())
    deallocate(builder, loc, *buffer);
}

ChunkKernelWriter::ChunkKernelWriter(OpBuilder &builder,
                                     const LinearKernelForm &form,
                                     attn_tile::KernelOp kernel,
                                     ValueRange operands)
    : b(form.op->getLoc(), builder), form(form),
      entry(&kernel.getBody().front()), element(getElementTypeOrSelf(form.key)),
      chunkTokens(form.schedule.getQueryTile()),
      // Each warp has 16 rows of a chunk, and of as many rows of the state.
      keyDim(llvm::alignTo(form.getKeyHeadDim(), chunkTokens)),
      valueDim(form.schedule.getHeadDimTile()) {
  arguments.map(operands, entry->getArguments());
  key = get(form.key);
  value = get(form.value);
  cumulative = get(form.cumulative);
  beta = get(form.beta);
  elementDecay = get(form.elementDecay);
  sequences = get(form.sequences);
  chunkTable = get(form.chunkTable);
  for (Value operand : form.op->getOperands())
    if (Value argument = get(operand))
      ofTokens.insert(argument);
  decayed = form.decayed;
  replaceByArguments(decayed.getBuffers());
}

void ChunkKernelWriter::writeItems(Value numSplits,
                                   function_ref<void(const WorkItem &)> body) {
  b.setInsertionPointToEnd(entry);
  Value numStates = b.size(key, 0);
  if (sequences) {
    Value one = b.index(1);
    Value boundaries = arith::MaxUIOp::create(b, b.size(sequences, 0), one);
    numStates = arith::SubIOp::create(b, boundaries, one);
  }
  SmallVector<OpFoldResult> bounds = {numStates,
                                      b.getIndexAttr(form.getNumHeads())};
  if (numSplits)
    bounds.push_back(numSplits);
  bounds.push_back(b.getIndexAttr(form.countTiles()));
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  WorkItem at;
  at.state = ids[0];
  at.batch = sequences ? b.index(0) : at.state;
  at.head = ids[1];
  at.tile = ids.back();
  auto getShared = [&](Value source) -> Value {
    int64_t group = form.getNumHeads() / getDimSize(source, 1);
    return group == 1 ? at.head
                      : arith::DivUIOp::create(b, at.head, b.index(group));
  };
  at.keyHead = getShared(key);
  if (value)
    at.valueHead = getShared(value);
  at.column = arith::MulIOp::create(b, at.tile, b.index(valueDim));
  at.firstChunk = b.index(0);
  at.numChunks = countChunks();
  if (sequences)
    limitToSequence(at);
  if (numSplits) {
    at.split = ids[2];
    if (splits.chunks)
      splitChunks(at);
  }
  if (form.range != DecayRange::All) {
    at.isInRange = emitIsInRange(at);
    at.numChunks =
        arith::SelectOp::create(b, at.isInRange, at.numChunks, b.index(0));
  }
  body(at);
}

/// Gives a work item the chunks of its split, which are the same in both
/// directions.
void ChunkKernelWriter::splitChunks(WorkItem &at) {
  auto subtract = [&](Value lhs, Value rhs) -> Value {
    return arith::SubIOp::create(b, lhs, rhs);
  };
  if (sequences)
    return splitSequence(at);
  Value all = at.numChunks, number = at.split;
  if (form.isReversed)
    number = subtract(subtract(splits.count, b.index(1)), number);
  at.firstChunk = arith::MulIOp::create(b, number, splits.chunks);
  Value remaining = subtract(all, at.firstChunk);
  at.numChunks = arith::MinUIOp::create(b, splits.chunks, remaining);
  if (form.isReversed)
    at.firstChunk = subtract(remaining, at.numChunks);
}

/// Gives a work item of a packed sequence the chunks of its split. Splits have
/// as many chunks in all sequences. Sequences with few chunks are not split,
/// and others have fewer splits than there may be: the first splits of work
/// items have no chunks, in both directions, and the last one has the last
/// state.
void ChunkKernelWriter::splitSequence(WorkItem &at) {
  auto subtract = [&](Value lhs, Value rhs) -> Value {
    return arith::SubIOp::create(b, lhs, rhs);
  };
  auto select = [&](Value condition, Value yes, Value no) -> Value {
    return arith::SelectOp::create(b, condition, yes, no);
  };
  Value all = at.numChunks, one = b.index(1);
  Value number = arith::DivUIOp::create(
      b, arith::AddIOp::create(b, all, subtract(splits.chunks, one)),
      splits.chunks);
  Value isWhole = arith::CmpIOp::create(b, CmpIPredicate::ult, number,
                                        b.index(leastSplitsOfSequence));
  number = select(isWhole, one, number);
  Value size = select(isWhole, all, splits.chunks);
  at.firstSplit = subtract(splits.count, number);
  Value isEmpty =
      arith::CmpIOp::create(b, CmpIPredicate::ult, at.split, at.firstSplit);
  Value split = arith::MaxUIOp::create(b, at.split, at.firstSplit);
  Value place = subtract(split, at.firstSplit);
  if (form.isReversed)
    place = subtract(subtract(number, one), place);
  Value first = arith::MulIOp::create(b, place, size);
  Value remaining = subtract(all, first);
  Value numChunks = arith::MinUIOp::create(b, size, remaining);
  if (form.isReversed)
    first = subtract(remaining, numChunks);
  at.firstChunk = arith::AddIOp::create(b, at.firstChunk, first);
  at.numChunks = select(isEmpty, b.index(0), numChunks);
}

/// Gives a work item the chunks of its packed sequence.
void ChunkKernelWriter::limitToSequence(WorkItem &at) {
  Value length = b.size(key, 2);
  auto loadBoundary = [&](Value number) -> Value {
    auto token = memref::LoadOp::create(b, sequences, number);
    attn_tile::setKnownInBounds(token);
    // Wrong boundaries are negative. They are reported, and must not do harm.
    Value boundary = arith::MaxSIOp::create(
        b, arith::IndexCastOp::create(b, b.getIndexType(), token), b.index(0));
    return form.chunkTable
               ? arith::MinUIOp::create(b, boundary, length).getResult()
               : boundary;
  };
  Value all = at.numChunks, begin = loadBoundary(at.state);
  Value end = loadBoundary(arith::AddIOp::create(b, at.state, b.index(1)));
  begin = arith::MinUIOp::create(b, begin, end);
  Value size = b.index(chunkTokens);
  at.firstToken = begin;
  at.numTokens = arith::SubIOp::create(b, end, begin);
  at.numChunks = b.countTiles(at.numTokens, chunkTokens);
  at.firstChunk = arith::DivUIOp::create(b, begin, size);
  // Each sequence has chunks of its own, see ChunkTable.h.
  if (form.chunkTable)
    at.firstChunk = arith::AddIOp::create(b, at.firstChunk, at.state);
  // Decayed keys have more rows than tokens, so that wrong boundaries may be
  // beyond the last token.
  if (form.chunkTable && !ofTokens.contains(key)) {
    at.firstChunk = arith::MinUIOp::create(b, at.firstChunk, all);
    at.numChunks = arith::MinUIOp::create(
        b, at.numChunks, arith::SubIOp::create(b, all, at.firstChunk));
  }
  at.chunkOfSequence = at.firstChunk;
  if (form.isReversed)
    at.firstChunk = arith::SubIOp::create(
        b, all, arith::AddIOp::create(b, at.firstChunk, at.numChunks));
}

ChunkKernelWriter::Chunk ChunkKernelWriter::getChunk(const WorkItem &at,
                                                     Value position) {
  Chunk chunk;
  chunk.position = chunk.number = position;
  if (at.split || sequences)
    chunk.number = arith::AddIOp::create(b, at.firstChunk, position);
  if (form.isReversed) {
    Value last = arith::SubIOp::create(b, countChunks(), b.index(1));
    chunk.number = arith::SubIOp::create(b, last, chunk.number);
  }
  chunk.firstRow = arith::MulIOp::create(b, chunk.number, b.index(chunkTokens));
  findTokens(at, chunk);
  return chunk;
}

/// Finds the tokens of a chunk in operands. The kernel has the table if work
/// items have chunks of several sequences.
void ChunkKernelWriter::findTokens(const WorkItem &at, Chunk &chunk) {
  chunk.firstToken = chunk.firstRow;
  if (!form.chunkTable)
    return;
  if (sequences) {
    Value number = arith::SubIOp::create(b, chunk.number, at.chunkOfSequence);
    Value offset = arith::MulIOp::create(b, number, b.index(chunkTokens));
    chunk.firstToken = arith::AddIOp::create(b, at.firstToken, offset);
    chunk.numTokens = arith::SubIOp::create(b, at.numTokens, offset);
    return;
  }
  auto load = [&](ChunkTableRow row) -> Value {
    auto element = memref::LoadOp::create(
        b, chunkTable, ValueRange{b.index(row), chunk.number});
    attn_tile::setKnownInBounds(element);
    return arith::IndexCastOp::create(b, b.getIndexType(), element);
  };
  chunk.firstToken = load(FirstTokens);
  chunk.numTokens = load(TokenCounts);
}

/// The number of chunks of a batch entry.
Value ChunkKernelWriter::countChunks() {
  return chunkTable ? memref::DimOp::create(b, chunkTable, 1).getResult()
                    : b.countTiles(b.size(key, 2), chunkTokens);
}

/// Loads the sums of several chunks at once.
Value ChunkKernelWriter::emitIsInRange(const WorkItem &at) {
  constexpr int64_t unrolled = 16;
  auto loop = scf::ForOp::create(b, b.index(0), at.numChunks, b.index(unrolled),
                                 b.scalar(0));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value last = arith::SubIOp::create(b, at.numChunks, b.index(1));
    SmallVector<Value> sums;
    for (int64_t i = 0; i < unrolled; ++i) {
      Value position =
          arith::AddIOp::create(b, loop.getInductionVar(), b.index(i));
      position = arith::MinUIOp::create(b, position, last);
      sums.push_back(loadLeastSum(at, getChunk(at, position)));
    }
    Value least = loop.getRegionIterArg(0);
    for (Value sum : sums)
      least = arith::MinNumFOp::create(b, least, sum);
    scf::YieldOp::create(b, least);
  }
  auto predicate = form.range == DecayRange::Factored
                       ? arith::CmpFPredicate::OGE
                       : arith::CmpFPredicate::OLT;
  return arith::CmpFOp::create(
      b, predicate, loop.getResult(0),
      b.scalar(form.decayed ? minFactoredSumOfElements : minFactoredSum));
}

SmallVector<Value> ChunkKernelWriter::forChunks(
    const WorkItem &at, ValueRange inits,
    function_ref<SmallVector<Value>(const Chunk &, ValueRange)> body) {
  return emitCarriedLoop(b, at.numChunks, inits,
                         [&](Value number, ValueRange carried) {
                           return body(getChunk(at, number), carried);
                         });
}

void ChunkKernelWriter::writeChunks(
    function_ref<void(const WorkItem &, const Chunk &)> body) {
  writeItems(splits.count, [&](const WorkItem &at) {
    forChunks(at, {}, [&](const Chunk &chunk, ValueRange) {
      body(at, chunk);
      return SmallVector<Value>();
    });
  });
}

Value ChunkKernelWriter::loadRows(Value source, const WorkItem &at,
                                  const Chunk &chunk, Value head, Value column,
                                  int64_t columns, bool areStaged) {
  bool isOfTokens = ofTokens.contains(source) && chunk.numTokens;
  Value row = isOfTokens ? chunk.firstToken : chunk.firstRow;
  return b.loadWithin(
      {chunkTokens, columns}, source, {at.batch, head, row, column},
      isOfTokens ? b.index(0) : Value(), isOfTokens ? chunk.numTokens : Value(),
      areStaged ? chunk.position : Value(), areStaged ? at.numChunks : Value());
}

Value ChunkKernelWriter::loadTokens(Value source, const WorkItem &at,
                                    const Chunk &chunk) {
  return b.loadWithin(chunkTokens, source,
                      {at.batch, at.head, chunk.firstToken},
                      chunk.numTokens ? b.index(0) : Value(), chunk.numTokens,
                      /*position=*/{}, /*length=*/{});
}

void ChunkKernelWriter::storeTokens(const WorkItem &at, const Chunk &chunk,
                                    Value elements, Value dest) {
  attn_tile::StoreOp::create(
      b, elements, dest, ValueRange{at.batch, at.head, chunk.firstToken},
      chunk.numTokens ? b.index(0) : Value(), chunk.numTokens);
}

void ChunkKernelWriter::storeRows(const WorkItem &at, const Chunk &chunk,
                                  Value tile, Value dest) {
  bool isOfTokens = ofTokens.contains(dest) && chunk.numTokens;
  Value row = isOfTokens ? chunk.firstToken : chunk.firstRow;
  attn_tile::StoreOp::create(b, b.round(tile, getElementTypeOrSelf(dest)), dest,
                             ValueRange{at.batch, at.head, row, at.column},
                             isOfTokens ? b.index(0) : Value(),
                             isOfTokens ? chunk.numTokens : Value());
}

Value ChunkKernelWriter::loadState(Value source, ValueRange leading,
                                   const WorkItem &at) {
  SmallVector<Value> indices(leading);
  indices.append({at.head, b.index(0), at.column});
  auto load = b.load({keyDim, valueDim}, source, indices)
                  .getDefiningOp<attn_tile::LoadOp>();
  load.setUnaligned(true);
  return load.getResult();
}

void ChunkKernelWriter::storeState(Value state, Value dest, ValueRange leading,
                                   const WorkItem &at) {
  SmallVector<Value> indices(leading);
  indices.append({at.head, b.index(0), at.column});
  attn_tile::StoreOp::create(b, state, dest, indices);
}

Value ChunkKernelWriter::emitEither(Value condition,
                                    function_ref<Value()> emitThen,
                                    function_ref<Value()> emitElse) {
  auto branch = scf::IfOp::create(b, TypeRange{b.f32Vector({keyDim, valueDim})},
                                  condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, emitThen());
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, emitElse());
  return branch.getResult(0);
}

Value ChunkKernelWriter::loadFirstState(const WorkItem &at,
                                        function_ref<Value()> loadGiven) {
  if (!at.split)
    return loadGiven();
  Value isSplit =
      arith::CmpIOp::create(b, CmpIPredicate::ugt, splits.count, b.index(1));
  auto loadStart = [&]() -> Value {
    return form.areStartsTransposed
               ? loadTransposedState(splits.starts, {at.split}, at)
               : loadState(splits.starts, {at.split, at.state}, at);
  };
  return emitEither(isSplit, loadStart, loadGiven);
}

Value ChunkKernelWriter::loadTransposedState(Value source, ValueRange leading,
                                             const WorkItem &at) {
  int64_t rows = form.getKeyHeadDim(), columns = form.getValueHeadDim();
  attn_tile::MapOp map = b.createMap(
      zeros({keyDim, valueDim}), at.state, at.head, b.index(0), at.column,
      b.index(keyDim), arith::AddIOp::create(b, at.column, b.index(valueDim)));
  Block *body = &map.getBody().front();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(body);
  Value row = body->getArgument(3), column = body->getArgument(4);
  auto isBelow = [&](Value index, int64_t size) -> Value {
    return arith::CmpIOp::create(b, CmpIPredicate::ult, index, b.index(size));
  };
  auto clamp = [&](Value index, int64_t size) -> Value {
    return arith::MinUIOp::create(b, index, b.index(size - 1));
  };
  SmallVector<Value> indices(leading);
  llvm::append_values(indices, body->getArgument(1), body->getArgument(2),
                      clamp(column, columns), clamp(row, rows));
  Value element = memref::LoadOp::create(b, source, indices);
  Value exists =
      arith::AndIOp::create(b, isBelow(row, rows), isBelow(column, columns));
  attn_tile::YieldOp::create(
      b, ValueRange{arith::SelectOp::create(b, exists, element, b.scalar(0))});
  return map;
}

Value ChunkKernelWriter::emitIdentity(const WorkItem &at) {
  attn_tile::MapOp map = b.createMap(
      zeros({keyDim, valueDim}), at.batch, at.head, b.index(0), at.column,
      b.index(keyDim), arith::AddIOp::create(b, at.column, b.index(valueDim)));
  Block *body = &map.getBody().front();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(body);
  Value isDiagonal = arith::CmpIOp::create(
      b, CmpIPredicate::eq, body->getArgument(3), body->getArgument(4));
  Value element =
      arith::SelectOp::create(b, isDiagonal, b.scalar(1), b.scalar(0));
  attn_tile::YieldOp::create(b, element);
  return map;
}

void ChunkKernelWriter::storeTransition(const WorkItem &at, Value state,
                                        const ChunkSplits &of) {
  Value high = b.round(state, element);
  if (!of.transitionRests)
    return storeState(high, of.transitions, {at.split, at.state}, at);
  Value rest = arith::SubFOp::create(b, state, b.extend(high));
  storeState(high, of.transitions, {at.split, at.state}, at);
  storeState(b.round(rest, element), of.transitionRests, {at.split, at.state},
             at);
}

void ChunkKernelWriter::storeLastState(const WorkItem &at, Value state,
                                       Value dest) {
  if (!dest)
    return;
  if (form.stateFactor != 1)
    state = multiply(state, 1 / form.stateFactor);
  Value isOwn = at.isInRange;
  if (at.split) {
    Value next = arith::AddIOp::create(b, at.split, b.index(1));
    Value isLast =
        arith::CmpIOp::create(b, CmpIPredicate::eq, next, splits.count);
    isOwn =
        isOwn ? arith::AndIOp::create(b, isOwn, isLast).getResult() : isLast;
  }
  if (!isOwn)
    return storeState(state, dest, at.state, at);
  auto branch = scf::IfOp::create(b, isOwn, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  storeState(state, dest, at.state, at);
}

ChunkKernelWriter::Sum ChunkKernelWriter::loadRowSums(const WorkItem &at,
                                                      const Chunk &chunk) {
  auto load = [&](SumPart part) {
    return b.load(chunkTokens, cumulative,
                  {b.index(part), at.batch, at.head, chunk.firstRow},
                  /*position=*/{}, /*length=*/{}, /*inBounds=*/true);
  };
  return {load(WholePart), load(RestPart)};
}

ChunkKernelWriter::Sum ChunkKernelWriter::loadColumnSums(const WorkItem &at,
                                                         const Chunk &chunk) {
  auto load = [&](SumPart part) {
    return b.load({1, chunkTokens}, cumulative,
                  {b.index(part), at.batch, at.head, chunk.firstRow},
                  chunk.position, at.numChunks, /*inBounds=*/true);
  };
  return {load(WholePart), load(RestPart)};
}

Value ChunkKernelWriter::loadLeastSum(const WorkItem &at, const Chunk &chunk) {
  if (!form.decayed)
    return loadTotal(at, chunk).whole;
  auto element = memref::LoadOp::create(
      b, decayed.leastSums, ValueRange{at.batch, at.head, chunk.number});
  attn_tile::setKnownInBounds(element);
  return element;
}

Value ChunkKernelWriter::loadChunkDecays(const WorkItem &at,
                                         const Chunk &chunk) {
  Value decays = b.load(keyDim, decayed.ofChunks,
                        {at.batch, at.head, chunk.number, b.index(0)});
  return repeat(decays, {keyDim, valueDim});
}

ChunkKernelWriter::Sum ChunkKernelWriter::loadTotal(const WorkItem &at,
                                                    const Chunk &chunk) {
  Value last =
      arith::AddIOp::create(b, chunk.firstRow, b.index(chunkTokens - 1));
  auto load = [&](SumPart part) -> Value {
    auto element = memref::LoadOp::create(
        b, cumulative, ValueRange{b.index(part), at.batch, at.head, last});
    attn_tile::setKnownInBounds(element);
    return element;
  };
  return {load(WholePart), load(RestPart)};
}

Value ChunkKernelWriter::emitDecay(Sum to, std::optional<Sum> from) {
  if (from) {
    to.whole = arith::SubFOp::create(b, to.whole, from->whole);
    to.rest = arith::SubFOp::create(b, to.rest, from->rest);
  }
  return math::Exp2Op::create(b, arith::AddFOp::create(b, to.whole, to.rest));
}

Value ChunkKernelWriter::emitEdgeDecay(Sum rows, Sum total, bool isFromFirst) {
  if (isFromFirst != form.isReversed)
    return emitDecay(rows);
  auto repeatRows = [&](Value scalar) {
    return vector::BroadcastOp::create(b, b.f32Vector(chunkTokens), scalar);
  };
  return emitDecay({repeatRows(total.whole), repeatRows(total.rest)}, rows);
}

Value ChunkKernelWriter::emitStep(const WorkItem &at, const Chunk &chunk,
                                  Value keys, Value values, Value state,
                                  std::optional<Sum> rows) {
  if (rows) {
    Sum total = loadTotal(at, chunk);
    Value toEnd = emitEdgeDecay(*rows, total, /*isFromFirst=*/false);
    values = b.round(
        mul(b.extend(values), repeat(toEnd, {chunkTokens, valueDim})), element);
    state = mul(state, repeat(emitDecay(total), {keyDim, valueDim}));
  }
  return b.contract(keys, values, state, ContractForm::TransposedLhs);
}

Value ChunkKernelWriter::maskScores(Value scores, bool isStrict) {
  CmpIPredicate isSeen = isStrict          ? CmpIPredicate::sgt
                         : form.isReversed ? CmpIPredicate::sle
                                           : CmpIPredicate::sge;
  return selectPairs(b, scores, [&](Value row, Value column) -> Value {
    return arith::CmpIOp::create(b, isSeen, row, column);
  });
}

Value ChunkKernelWriter::decayScores(Value scores, Sum rows, Sum columns) {
  auto repeatBoth = [&](Sum sum) -> Sum {
    return {repeat(sum.whole, {chunkTokens, chunkTokens}),
            repeat(sum.rest, {chunkTokens, chunkTokens})};
  };
  Sum ofRows = repeatBoth(rows), ofColumns = repeatBoth(columns);
  return mul(scores, form.isReversed ? emitDecay(ofColumns, ofRows)
                                     : emitDecay(ofRows, ofColumns));
}
