//===- ChunkKernelWriter.h - Chunks on GPUs ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the kernels of linear attention for GPUs have in common. A work item has
// some columns of the values of a head, and goes through chunks of tokens.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CHUNKKERNELWRITER_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CHUNKKERNELWRITER_H

#include "ChunkTable.h"
#include "DecayedRows.h"
#include "LinearDecayGradKernel.h"
#include "LogDecaySums.h"
#include "attn/Dialect/AttnTile/IR/TileProgramBuilder.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::attn {

/// The work items of a kernel, by the decays of their chunks.
enum class DecayRange { All, Factored, Other };

/// What a kernel that goes through chunks with pair matrices computes: results
/// of all tokens, the state of each split from its own tokens alone, or the
/// transition of each split, a matrix that the state before it is multiplied
/// with.
enum class ChunkPart { Results, SplitStates, Transitions };

/// A computation in the form of linear attention.
struct LinearKernelForm {
  /// The operation that it is part of, and its schedule.
  Operation *op;
  ScheduleAttrInterface schedule;
  /// A kernel without values has no tiles of columns.
  Value query, key, value, out;
  /// The states before the first and after the last token; null if there are
  /// none. The cumulative log-decays are null likewise.
  Value firstState, lastState, cumulative;
  /// With a decay of each key element, the rows times decays, and the
  /// log-decays.
  DecayedRows decayed;
  Value elementDecay;
  /// The factors of the delta rule; null without.
  Value beta;
  /// The boundaries of packed sequences with states, for kernels that go
  /// through chunks, and the table of their chunks; null without. Sequences
  /// without a table are in whole chunks.
  Value sequences, chunkTable;
  bool isCausal;
  /// The factor of the output.
  double scale;
  /// Whether tokens see later ones, and the first state is before the last one.
  bool isReversed = false;
  /// Whether the first state, and the states before splits, have their
  /// dimensions exchanged.
  bool isFirstTransposed = false, areStartsTransposed = false;
  /// The factor of the first state; the last one is divided by it.
  double stateFactor = 1;
  DecayRange range = DecayRange::All;
  ChunkPart part = ChunkPart::Results;
  /// What it leaves for the gradient of log-decays.
  DecayGradTerms terms;

  int64_t getNumHeads() const { return getDimSize(query, 1); }
  int64_t getKeyHeadDim() const { return getDimSize(key, 3); }
  int64_t getValueHeadDim() const { return getDimSize(value, 3); }
  /// Tiles of columns of the values; one without values.
  int64_t countTiles() const {
    return value ? int64_t(llvm::divideCeil(getValueHeadDim(),
                                            schedule.getHeadDimTile()))
                 : 1;
  }

  /// Replaces queries and keys by decayed ones, for kernels that go through the
  /// chunks; nothing without decays of key elements.
  void useDecayedRows() {
    if (!decayed)
      return;
    query = decayed.query;
    key = decayed.keyToEnd;
  }

  /// What the range of decays needs, besides queries and keys.
  SmallVector<Value> getRangeOperands() const {
    Value ofRange = range != DecayRange::All ? decayed.leastSums : Value();
    if (range == DecayRange::Factored)
      return {ofRange, decayed.keyFromStart, decayed.keyOverStart};
    return {ofRange, elementDecay};
  }

  /// The form of a part of `op` without its operands.
  template <typename OpTy>
  static LinearKernelForm get(OpTy op, Value cumulative,
                              const ChunkTable &table = {}) {
    LinearKernelForm form;
    form.op = op;
    form.schedule = op.getChosenSchedule();
    form.cumulative = cumulative;
    form.beta = op.getBeta();
    form.sequences = table.chunks ? table.sequences : op.getSequences();
    form.chunkTable = table.chunks;
    if (op.hasElementDecay())
      form.elementDecay = op.getLogDecay();
    form.isCausal = op.getCausal();
    form.scale = op.getScaleOrDefault();
    return form;
  }
};

/// The parts of the chunks of a head that work items split, and their states.
struct ChunkSplits {
  /// The number of splits, and of the chunks of each but the last one; null if
  /// each work item has all chunks. Packed sequences may have fewer splits, and
  /// ones with few chunks have a single one, with all of them.
  Value count, chunks;
  /// The state that the tokens of each split add up to, the decay of each
  /// split, and the state before it.
  Value states, decays, starts;
  /// With pair matrices, the transition of each split instead of its decay, as
  /// a sum of two parts in 16 bits, or in f32 and without a rest.
  Value transitions, transitionRests;

  SmallVector<Value *> getBuffers() {
    return {&count,  &chunks,      &states,         &decays,
            &starts, &transitions, &transitionRests};
  }
};

/// Divides the chunks among as many work items as the schedule asks for, in a
/// kernel with `numTiles` tiles of columns for each head. If `isRepeated`, the
/// chunks are gone through three times, and splits once, one after the other:
/// neither few splits nor short ones pay. Splits of packed sequences have as
/// many chunks in all of them: long ones have more splits.
ChunkSplits createSplits(OpBuilder &builder, const LinearKernelForm &form,
                         int64_t numTiles, bool isRepeated = false);

/// The number of given states: of batch entries, or of packed sequences.
Value emitNumStates(OpBuilder &builder, const LinearKernelForm &form);

/// Allocates the states of splits and the states before them.
void allocateStates(OpBuilder &builder, const LinearKernelForm &form,
                    ChunkSplits &splits);

/// Launches the kernel of the cumulative log-decays of `op`.
template <typename OpTy>
Value createSums(RewriterBase &rewriter, OpTy op, SymbolTable &symbols,
                 Value chunkTable = {}) {
  return createLogDecaySums(rewriter, op, op.getLogDecay(), op.getQuery(),
                            chunkTable, op.getChosenSchedule(), symbols);
}

/// The number of chunks of a batch entry, of all its sequences together.
Value emitNumChunks(OpBuilder &builder, const LinearKernelForm &form);

/// The operands that exist.
SmallVector<Value> dropNull(ArrayRef<Value> operands);

/// Deallocates buffers; null ones do not exist.
void deallocate(OpBuilder &builder, Location loc, ArrayRef<Value> buffers);
void deallocateRows(OpBuilder &builder, Location loc, DecayedRows rows);

/// What kernels that go through chunks have in common.
class ChunkKernelWriter {
protected:
  ChunkKernelWriter(OpBuilder &builder, const LinearKernelForm &form,
                    attn_tile::KernelOp kernel, ValueRange operands);

  /// The work of a work item.
  struct WorkItem {
    /// The number of its given states: the batch entry or, where sequences are
    /// packed in one, the sequence.
    Value state;
    Value batch, head, keyHead, valueHead;
    /// The split, null without splits; the first split of a packed sequence
    /// that has chunks; the tile of columns of the values, and its first
    /// column.
    Value split, firstSplit, tile, column;
    /// The first chunk, from the last one on if the form is reversed.
    Value firstChunk, numChunks;
    /// With a table of chunks, the first chunk and token of its sequence, and
    /// the number of its tokens.
    Value chunkOfSequence, firstToken, numTokens;
    /// Whether it is of the kernel's range of decays; null for all.
    Value isInRange;
  };
  struct Chunk {
    /// The number of the chunk in the work item, and in the sequence.
    Value position, number;
    /// Its first row in buffers of kernels, which have room for whole chunks.
    Value firstRow;
    /// Its first row in operands, and how many rows they have at least; null if
    /// rows that are not its own need no care.
    Value firstToken, numTokens;
  };
  /// The parts of a sum of log-decays.
  struct Sum {
    Value whole, rest;
  };

  /// The argument of the kernel for an operand; null for null.
  Value get(Value operand) const { return arguments.lookupOrNull(operand); }

  /// Replaces operands by their arguments; others, which the kernel does not
  /// have, become null.
  void replaceByArguments(ArrayRef<Value *> operands) const {
    for (Value *operand : operands)
      *operand = get(*operand);
  }

  /// Writes work items of `numSplits` splits; null without splits.
  void writeItems(Value numSplits, function_ref<void(const WorkItem &)> body);
  void splitChunks(WorkItem &at);
  void splitSequence(WorkItem &at);
  void limitToSequence(WorkItem &at);
  void findTokens(const WorkItem &at, Chunk &chunk);
  Value countChunks();
  Chunk getChunk(const WorkItem &at, Value position);
  SmallVector<Value>
  forChunks(const WorkItem &at, ValueRange inits,
            function_ref<SmallVector<Value>(const Chunk &, ValueRange)> body);

  /// Writes work items that split the chunks and carry nothing.
  void writeChunks(function_ref<void(const WorkItem &, const Chunk &)> body);

  /// Whether a work item is of the kernel's range of decays.
  Value emitIsInRange(const WorkItem &at);

  /// Loads the rows of a chunk, through a pipe if they are staged.
  Value loadRows(Value source, const WorkItem &at, const Chunk &chunk,
                 Value head, Value column, int64_t columns,
                 bool areStaged = true);
  Value loadQueries(Value query, const WorkItem &at, const Chunk &chunk) {
    return loadRows(query, at, chunk, at.head, b.index(0), keyDim);
  }
  Value loadKeys(const WorkItem &at, const Chunk &chunk) {
    return loadRows(key, at, chunk, at.keyHead, b.index(0), keyDim);
  }
  Value loadValues(const WorkItem &at, const Chunk &chunk) {
    return loadRows(value, at, chunk, at.valueHead, at.column, valueDim);
  }
  /// Loads a matrix of the pairs of tokens of a chunk through a pipe.
  Value loadPairs(Value source, const WorkItem &at, const Chunk &chunk) {
    return loadRows(source, at, chunk, at.head, b.index(0), chunkTokens);
  }
  /// Loads an element of each token, not through a pipe.
  Value loadTokens(Value source, const WorkItem &at, const Chunk &chunk);
  /// Stores an element of each token.
  void storeTokens(const WorkItem &at, const Chunk &chunk, Value elements,
                   Value dest);
  /// Stores the rows of a chunk, rounded.
  void storeRows(const WorkItem &at, const Chunk &chunk, Value tile,
                 Value dest);
  /// Loads columns of a state of a head, at the `leading` indices before it.
  Value loadState(Value source, ValueRange leading, const WorkItem &at);
  void storeState(Value state, Value dest, ValueRange leading,
                  const WorkItem &at);
  /// Loads columns of a state that are rows of a tensor, which has the
  /// `leading` indices before those of the state and the head.
  Value loadTransposedState(Value source, ValueRange leading,
                            const WorkItem &at);
  /// Emits one of two tiles of a state.
  Value emitEither(Value condition, function_ref<Value()> emitThen,
                   function_ref<Value()> emitElse);
  /// Columns of the identity, in the shape of the state.
  Value emitIdentity(const WorkItem &at);
  /// Stores columns of the transition of a split of `of`.
  void storeTransition(const WorkItem &at, Value state, const ChunkSplits &of);
  /// The state before the first chunk of a work item: of its split, or for a
  /// single one, which has no kernels before, the one that `loadGiven` loads.
  Value loadFirstState(const WorkItem &at, function_ref<Value()> loadGiven);
  /// Whether matmuls run while others are prepared. Where warps multiply, each
  /// one is done before the next one, and results that wait take registers.
  bool areMatmulsAsync() const { return !form.schedule.multipliesByWarps(); }
  /// Stores the state after the last chunk of the last split, if it is wanted.
  void storeLastState(const WorkItem &at, Value state, Value dest);

  /// Loads the cumulative log-decays up to each token of a chunk, for rows of
  /// tiles.
  Sum loadRowSums(const WorkItem &at, const Chunk &chunk);
  /// The same for columns of tiles.
  Sum loadColumnSums(const WorkItem &at, const Chunk &chunk);
  /// Loads the decays of a chunk of key elements, in the shape of the state.
  Value loadChunkDecays(const WorkItem &at, const Chunk &chunk);
  /// Loads the least sum of log-decays of a chunk, rounded down.
  Value loadLeastSum(const WorkItem &at, const Chunk &chunk);
  /// Loads the sum of a chunk.
  Sum loadTotal(const WorkItem &at, const Chunk &chunk);
  /// The decay between two places of a chunk; from the beginning of the chunk
  /// without `from`.
  Value emitDecay(Sum to, std::optional<Sum> from = std::nullopt);
  /// The decays from the edge of a chunk that its first state is at to each
  /// token, or from each token to the other edge.
  Value emitEdgeDecay(Sum rows, Sum total, bool isFromFirst);
  /// The state after a chunk from the one before it. `rows` belong to
  /// its tokens, and are given if there are log-decays.
  Value emitStep(const WorkItem &at, const Chunk &chunk, Value keys,
                 Value values, Value state, std::optional<Sum> rows);

  /// Zeroes the scores of keys that a token does not see; with `isStrict` those
  /// of all but earlier keys.
  Value maskScores(Value scores, bool isStrict = false);
  /// Multiplies scores by the decay between both tokens. The decays of pairs
  /// that the mask drops may be infinite.
  Value decayScores(Value scores, Sum rows, Sum columns);

  Value zeros(ArrayRef<int64_t> shape) { return b.splat(shape, 0); }
  Value mul(Value lhs, Value rhs) { return arith::MulFOp::create(b, lhs, rhs); }
  Value sumRows(Value tile) {
    int64_t rows = cast<VectorType>(tile.getType()).getDimSize(0);
    return vector::MultiDimReductionOp::create(b, tile, zeros(rows),
                                               ArrayRef<bool>{false, true},
                                               vector::CombiningKind::ADD);
  }
  Value multiply(Value tile, double factor) {
    return mul(tile,
               b.splat(cast<VectorType>(tile.getType()).getShape(), factor));
  }
  /// Repeats a scalar, or a value for each row.
  Value repeat(Value value, ArrayRef<int64_t> shape) {
    if (isa<VectorType>(value.getType()))
      return b.broadcast(value, shape);
    return vector::BroadcastOp::create(b, b.f32Vector(shape), value);
  }

  TileProgramBuilder b;
  LinearKernelForm form;
  Block *entry;
  IRMapping arguments;
  Value key, value, cumulative, beta, elementDecay, sequences, chunkTable;
  /// Arguments that are operands of the operation: their rows are tokens.
  DenseSet<Value> ofTokens;
  DecayedRows decayed;
  ChunkSplits splits;
  Type element;
  int64_t chunkTokens, keyDim, valueDim;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CHUNKKERNELWRITER_H
