//===- ChunkTable.cpp - Chunks of packed sequences ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each thread of a work item finds the sequence of a chunk by halving, and
// checks a boundary. Whatever the boundaries are, the operands have all tokens
// of chunks.
//
//===----------------------------------------------------------------------===//

#include "ChunkTable.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "attn/Analysis/SortedSearch.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

namespace {
/// What the boundaries must fit.
struct SequenceSizes {
  /// The numbers of tokens, sequences, and sequences that have states; whether
  /// sizes of operands are consistent.
  Value length, count, numGiven, isConsistent;
};

/// Writes the kernel of the chunks.
class ChunkTableWriter {
public:
  ChunkTableWriter(OpBuilder &builder, Location loc, attn_tile::KernelOp kernel,
                   int64_t chunk)
      : b(loc, builder), chunk(chunk), entry(&kernel.getBody().front()),
        table(entry->getArgument(0)), sequences(entry->getArgument(1)),
        fault(entry->getArgument(2)),
        sizes{entry->getArgument(3), entry->getArgument(4), Value(),
              entry->getArgument(5)} {}

  void write();

private:
  /// The boundaries of a sequence as they are given, and between 0 and the
  /// number of tokens.
  struct Sequence {
    Value givenBegin, givenEnd, begin, end;
  };

  Sequence loadSequence(ScalarKernelBuilder &c, Value number);
  Value emitFirstChunk(ScalarKernelBuilder &c, Value number, Value begin);
  void ifHolds(Value condition, function_ref<void(ScalarKernelBuilder &)> body);
  void writeChunk(ScalarKernelBuilder &c, Value number);
  void storeChunk(ScalarKernelBuilder &c, Value number, Value first,
                  Value count);
  void checkSequence(ScalarKernelBuilder &c, Value number);
  void report(ScalarKernelBuilder &c);

  ScalarKernelBuilder b;
  int64_t chunk;
  Block *entry;
  Value table, sequences, fault;
  SequenceSizes sizes;
};
} // namespace

ChunkTableWriter::Sequence
ChunkTableWriter::loadSequence(ScalarKernelBuilder &c, Value number) {
  auto load = [&](Value at) -> Value {
    return arith::IndexCastOp::create(c, c.getIndexType(),
                                      c.loadExisting(sequences, at));
  };
  auto clamp = [&](Value boundary) -> Value {
    boundary = arith::MaxSIOp::create(c, boundary, c.constant(0));
    return arith::MinSIOp::create(c, boundary, sizes.length);
  };
  Sequence sequence;
  sequence.givenBegin = load(number);
  sequence.givenEnd = load(c.add(number, c.constant(1)));
  sequence.begin = clamp(sequence.givenBegin);
  sequence.end = clamp(sequence.givenEnd);
  return sequence;
}

/// The first chunk of sequence `number`, which begins at token `begin`.
Value ChunkTableWriter::emitFirstChunk(ScalarKernelBuilder &c, Value number,
                                       Value begin) {
  return c.add(arith::DivUIOp::create(c, begin, c.constant(chunk)), number);
}

void ChunkTableWriter::ifHolds(Value condition,
                               function_ref<void(ScalarKernelBuilder &)> body) {
  scf::IfOp::create(b, condition, [&](OpBuilder &then, Location loc) {
    ScalarKernelBuilder c(loc, then);
    body(c);
    scf::YieldOp::create(c);
  });
}

/// Stores the tokens of a chunk, in the last sequence that begins at or before
/// it.
void ChunkTableWriter::writeChunk(ScalarKernelBuilder &c, Value number) {
  Value sequence = emitLastAtMost(
      c, sizes.count, number, [&](ImplicitLocOpBuilder &inner, Value middle) {
        ScalarKernelBuilder d(inner.getLoc(), inner);
        return emitFirstChunk(d, middle, loadSequence(d, middle).begin);
      });
  Sequence found = loadSequence(c, sequence);
  Value ahead = c.sub(number, emitFirstChunk(c, sequence, found.begin));
  // Chunks before the first sequence, which is wrong, have no tokens.
  Value isAfter = c.compare(CmpIPredicate::sge, ahead, c.constant(0));
  Value first = c.add(found.begin, c.mul(ahead, c.constant(chunk)));
  first = c.select(isAfter, first, sizes.length);
  first = arith::MinSIOp::create(c, first, sizes.length);
  Value count =
      arith::MaxSIOp::create(c, c.sub(found.end, first), c.constant(0));
  count = arith::MinSIOp::create(c, count, c.constant(chunk));
  storeChunk(c, number, first, count);
}

void ChunkTableWriter::storeChunk(ScalarKernelBuilder &c, Value number,
                                  Value first, Value count) {
  c.storeIndex(first, table, {c.constant(FirstTokens), number});
  c.storeIndex(count, table, {c.constant(TokenCounts), number});
}

void ChunkTableWriter::report(ScalarKernelBuilder &c) {
  Value code = arith::ConstantIntOp::create(c, ATTNRT_FAULT_LOG_DECAYS, 32);
  memref::StoreOp::create(c, code, fault, c.constant(0));
}

/// Reports boundaries that are not sorted, or do not go from the first to the
/// last token.
void ChunkTableWriter::checkSequence(ScalarKernelBuilder &c, Value number) {
  Sequence sequence = loadSequence(c, number);
  auto differs = [&](Value lhs, Value rhs) {
    return c.compare(CmpIPredicate::ne, lhs, rhs);
  };
  Value isFirst = c.compare(CmpIPredicate::eq, number, c.constant(0));
  Value isLast =
      c.compare(CmpIPredicate::eq, c.add(number, c.constant(1)), sizes.count);
  Value conditions[] = {
      c.compare(CmpIPredicate::sgt, sequence.givenBegin, sequence.givenEnd),
      differs(sequence.givenBegin, sequence.begin),
      differs(sequence.givenEnd, sequence.end),
      c.both(isFirst, differs(sequence.begin, c.constant(0))),
      c.both(isLast, differs(sequence.end, sizes.length))};
  Value isWrong = conditions[0];
  for (Value condition : ArrayRef(conditions).drop_front())
    isWrong = c.either(isWrong, condition);
  scf::IfOp::create(c, isWrong, [&](OpBuilder &then, Location loc) {
    ScalarKernelBuilder d(loc, then);
    report(d);
    scf::YieldOp::create(d);
  });
}

void ChunkTableWriter::write() {
  b.setInsertionPointToEnd(entry);
  Value threads = b.constant(attn_tile::warpThreads);
  Value numChunks = b.size(table, 1);
  // There is a chunk for each sequence if there are tokens.
  Value numItems = arith::MaxUIOp::create(
      b, numChunks, arith::MaxUIOp::create(b, sizes.count, b.constant(1)));
  SmallVector<OpFoldResult> bounds = {
      b.tiles(numItems, attn_tile::warpThreads)};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  Value first = b.mul(forall.getInductionVar(0), threads);
  Value ofItem = arith::MinUIOp::create(b, threads, b.sub(numItems, first));
  b.each(ofItem, [&](Value thread) {
    Value number = b.add(first, thread);
    Value hasSequence =
        b.compare(CmpIPredicate::ne, sizes.count, b.constant(0));
    Value isChunk = b.compare(CmpIPredicate::ult, number, numChunks);
    ifHolds(b.both(isChunk, hasSequence),
            [&](ScalarKernelBuilder &c) { writeChunk(c, number); });
    ifHolds(b.both(isChunk, b.invert(hasSequence)),
            [&](ScalarKernelBuilder &c) {
              storeChunk(c, number, c.constant(0), c.constant(0));
            });
    ifHolds(b.compare(CmpIPredicate::ult, number, sizes.count),
            [&](ScalarKernelBuilder &c) { checkSequence(c, number); });
    ifHolds(b.invert(sizes.isConsistent),
            [&](ScalarKernelBuilder &c) { report(c); });
  });
}

/// The states of the sequences; null without.
static SmallVector<Value> getStates(LinearAttentionOp op) {
  return {op.getInitialState(), op.getFinalState()};
}

static SmallVector<Value> getStates(LinearAttentionGradOp op) {
  return {op.getInitialState(), op.getDfinalState(), op.getDinitialState()};
}

/// There must be one batch entry, a sequence if there are tokens, and a state
/// for each sequence.
template <typename OpTy>
static SequenceSizes emitSizes(ScalarKernelBuilder &b, OpTy op) {
  auto isEqual = [&](Value lhs, Value rhs) {
    return b.compare(CmpIPredicate::eq, lhs, rhs);
  };
  Value zero = b.constant(0), one = b.constant(1);
  Value batch = b.size(op.getQuery(), 0);
  SequenceSizes sizes;
  sizes.length = b.size(op.getQuery(), 2);
  Value boundaries =
      arith::MaxUIOp::create(b, b.size(op.getSequences(), 0), one);
  sizes.count = b.sub(boundaries, one);
  sizes.numGiven = b.select(isEqual(batch, zero), zero, sizes.count);
  Value hasSequence = b.compare(CmpIPredicate::ne, sizes.count, zero);
  sizes.isConsistent = b.both(
      isEqual(batch, one), b.either(hasSequence, isEqual(sizes.length, zero)));
  for (Value state : getStates(op))
    if (state) {
      Value number = b.size(state, 0);
      sizes.numGiven = arith::MinUIOp::create(b, sizes.numGiven, number);
      sizes.isConsistent =
          b.both(sizes.isConsistent, isEqual(number, sizes.count));
    }
  return sizes;
}

template <typename OpTy>
static ChunkTable createTable(RewriterBase &rewriter, OpTy op,
                              SymbolTable &symbols) {
  if (!op.getSequences())
    return {};
  ScalarKernelBuilder b(op.getLoc(), rewriter);
  ScheduleAttrInterface schedule = op.getChosenSchedule();
  int64_t chunk = schedule.getQueryTile();
  SequenceSizes sizes = emitSizes(b, op);
  Value least = arith::MaxUIOp::create(b, sizes.count, b.constant(1));
  Value whole = arith::DivUIOp::create(b, sizes.length, b.constant(chunk));
  // Without tokens there is nothing that kernels could read.
  Value isEmpty = b.compare(CmpIPredicate::eq, sizes.length, b.constant(0));
  Value numChunks = b.select(isEmpty, b.constant(0), b.add(whole, least));
  auto type = MemRefType::get({2, ShapedType::kDynamic}, b.getI32Type());
  ChunkTable table;
  table.chunks = memref::AllocOp::create(b, type, numChunks);
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1);
  OpFoldResult boundaries = b.add(sizes.numGiven, b.constant(1));
  table.sequences =
      memref::SubViewOp::create(b, op.getSequences(), zero, boundaries, one);
  Value fault =
      attn_tile::ErrorFlagOp::create(b, MemRefType::get({1}, b.getI32Type()));
  attn_tile::KernelOp kernel = createKernel(
      rewriter, op, schedule.getPreparation(), symbols, "_chunk_table",
      {table.chunks, op.getSequences(), fault, sizes.length, sizes.count,
       sizes.isConsistent});
  ChunkTableWriter(rewriter, op.getLoc(), kernel, chunk).write();
  rewriter.setInsertionPoint(op);
  return table;
}

ChunkTable attn::createChunkTable(RewriterBase &rewriter, LinearAttentionOp op,
                                  SymbolTable &symbols) {
  return createTable(rewriter, op, symbols);
}

ChunkTable attn::createChunkTable(RewriterBase &rewriter,
                                  LinearAttentionGradOp op,
                                  SymbolTable &symbols) {
  return createTable(rewriter, op, symbols);
}

RowTokens attn::findTokens(ScalarKernelBuilder &b, Value chunks, Value length,
                           Value row, int64_t chunk) {
  if (!chunks)
    return {row, b.sub(length, row)};
  Value number = arith::DivUIOp::create(b, row, b.constant(chunk));
  Value count = b.size(chunks, 1);
  // Threads after the last chunk have no tokens.
  Value isRow = b.compare(CmpIPredicate::ult, number, count);
  number = arith::MinUIOp::create(b, number, b.sub(count, b.constant(1)));
  auto load = [&](ChunkTableRow tableRow) -> Value {
    return arith::IndexCastOp::create(
        b, b.getIndexType(),
        b.loadExisting(chunks, {b.constant(tableRow), number}));
  };
  Value offset = arith::RemUIOp::create(b, row, b.constant(chunk));
  return {b.add(load(FirstTokens), offset),
          b.select(isRow, b.sub(load(TokenCounts), offset), b.constant(0))};
}
