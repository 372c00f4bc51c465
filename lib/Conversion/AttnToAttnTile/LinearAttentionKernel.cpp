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
// An earlier kernel adds up the log-decays of each chunk. A sum has two parts,
// an integer and a rest from 0 to 1: their differences are exact or nearly so,
// and a large log-decay does not cancel the others.
//
// The gradient of a log-decay is a sum over all pairs of a query and an earlier
// key that it is between, see LinearDecayGradKernel.h. The kernels of gradients
// of queries and keys add up what a query and all keys, or a key and all
// queries have: a row of the gradient times the row itself.
//
//===----------------------------------------------------------------------===//

#include "LinearAttentionKernel.h"
#include "CreateKernel.h"
#include "LinearDecayGradKernel.h"
#include "ScalarKernelBuilder.h"
#include "attn/Dialect/AttnTile/IR/InBoundsLoads.h"
#include "attn/Dialect/AttnTile/IR/TileProgramBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

/// The smallest log-decay: its decay is the smallest normal f32.
static constexpr double minLogDecay = -126;

/// The binary logarithm of the smallest decay of a chunk whose decays are
/// factors of tokens: outputs are divided by it. Values and states keep their
/// precision in bf16 times any such decay.
static constexpr double minFactoredSum = -32;

namespace {
/// The work items of a kernel, by the decays of their chunks.
enum class DecayRange { All, Factored, Other };

/// The parts of a sum of log-decays, as indices of their buffer.
enum SumPart : unsigned { WholePart, RestPart, NumSumParts };

/// Writes the kernel that adds up log-decays in chunks, as binary logarithms.
class DecaySumWriter {
public:
  DecaySumWriter(OpBuilder &builder, Location loc, attn_tile::KernelOp kernel,
                 int64_t chunk)
      : b(loc, builder), chunk(chunk), entry(&kernel.getBody().front()),
        logDecay(entry->getArgument(0)), cumulative(entry->getArgument(1)),
        length(entry->getArgument(2)), fault(entry->getArgument(3)) {}

  void write();

private:
  void writeChunk(Value batch, Value head, Value number);
  Value loadLogDecay(Value batch, Value head, Value token);
  void addLogDecay(SmallVectorImpl<Value> &parts, Value batch, Value head,
                   Value token, Value decay);
  Value f32(double value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(float(value)));
  }

  ScalarKernelBuilder b;
  int64_t chunk;
  Block *entry;
  Value logDecay, cumulative, length, fault;
};

/// A computation in the form of linear attention.
struct LinearKernelForm {
  /// The operation that it is part of, and its schedule.
  Operation *op;
  ScheduleAttrInterface schedule;
  Value query, key, value, out;
  /// The states before the first and after the last token; null if there are
  /// none. The cumulative log-decays are null likewise.
  Value firstState, lastState, cumulative;
  bool isCausal;
  /// The factor of the output.
  double scale;
  /// Whether tokens see later ones, and the first state is before the last one.
  bool isReversed = false;
  /// Whether the first state has its dimensions exchanged.
  bool isFirstTransposed = false;
  /// The factor of the first state; the last one is divided by it.
  double stateFactor = 1;
  DecayRange range = DecayRange::All;
  /// What it leaves for the gradient of log-decays.
  DecayGradTerms terms;

  int64_t getNumHeads() const { return getDimSize(query, 1); }
  int64_t getKeyHeadDim() const { return getDimSize(key, 3); }
  int64_t getValueHeadDim() const { return getDimSize(value, 3); }
  int64_t countTiles() const {
    return llvm::divideCeil(getValueHeadDim(), schedule.getHeadDimTile());
  }
};

/// The parts of the chunks of a head that work items split, and their states.
struct ChunkSplits {
  /// The number of splits, and of the chunks of each but the last one; null if
  /// each work item has all chunks.
  Value count, chunks;
  /// The state that the tokens of each split add up to, the decay of each
  /// split, and the state before it.
  Value states, decays, starts;
};

/// What kernels that go through chunks have in common.
class ChunkKernelWriter {
protected:
  ChunkKernelWriter(OpBuilder &builder, const LinearKernelForm &form,
                    attn_tile::KernelOp kernel, ValueRange operands);

  /// The work of a work item.
  struct WorkItem {
    Value batch, head, keyHead, valueHead;
    /// The split, null without splits; the tile of columns of the values, and
    /// its first column.
    Value split, tile, column;
    Value firstChunk, numChunks;
    /// Whether it is of the kernel's range of decays; null for all.
    Value isInRange;
  };
  struct Chunk {
    /// The number of the chunk in the work item, and in the sequence.
    Value position, number;
    Value firstToken;
  };
  /// The parts of a sum of log-decays.
  struct Sum {
    Value whole, rest;
  };

  /// The argument of the kernel for an operand; null for null.
  Value get(Value operand) const { return arguments.lookupOrNull(operand); }

  /// Writes work items of `numSplits` splits; null without splits.
  void writeItems(Value numSplits, function_ref<void(const WorkItem &)> body);
  Chunk getChunk(const WorkItem &at, Value position);
  SmallVector<Value>
  forChunks(const WorkItem &at, ValueRange inits,
            function_ref<SmallVector<Value>(const Chunk &, ValueRange)> body);

  /// Whether a work item is of the kernel's range of decays.
  Value emitIsInRange(const WorkItem &at);

  /// Loads the rows of a chunk through a pipe.
  Value loadRows(Value source, const WorkItem &at, const Chunk &chunk,
                 Value head, Value column, int64_t columns);
  Value loadKeys(const WorkItem &at, const Chunk &chunk) {
    return loadRows(key, at, chunk, at.keyHead, b.index(0), keyDim);
  }
  Value loadValues(const WorkItem &at, const Chunk &chunk) {
    return loadRows(value, at, chunk, at.valueHead, at.column, valueDim);
  }
  /// Loads columns of a state.
  Value loadState(Value source, ValueRange leading, const WorkItem &at);
  void storeState(Value state, Value dest, ValueRange leading,
                  const WorkItem &at);

  /// The cumulative log-decays up to each token of a chunk, for rows of tiles.
  Sum loadRowSums(const WorkItem &at, const Chunk &chunk);
  /// The sum of a chunk.
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
  Value key, value, cumulative;
  ChunkSplits splits;
  Type element;
  int64_t chunkTokens, keyDim, valueDim;
};

/// Writes the kernel of outputs.
class OutputKernelWriter : ChunkKernelWriter {
public:
  OutputKernelWriter(OpBuilder &builder, const LinearKernelForm &form,
                     attn_tile::KernelOp kernel, const ChunkSplits &given);

  static SmallVector<Value> getOperands(const LinearKernelForm &form,
                                        const ChunkSplits &splits);
  void write();

private:
  Value loadQueries(const WorkItem &at, const Chunk &chunk) {
    return loadRows(query, at, chunk, at.head, b.index(0), keyDim);
  }
  Sum loadColumnSums(const WorkItem &at, const Chunk &chunk);
  Value loadTransposedState(const WorkItem &at);
  Value loadGivenState(const WorkItem &at);
  Value loadFirstState(const WorkItem &at);
  void storeLastState(const WorkItem &at, Value state);
  Value maskScores(Value scores);
  Value decayScores(Value scores, Sum rows, Sum columns);
  void storeRowTerms(const WorkItem &at, const Chunk &chunk, Value tile,
                     Value dest);
  void storeStateTerms(const WorkItem &at, const Chunk &chunk, Value state,
                       Value rounded);
  void storeOut(const WorkItem &at, const Chunk &chunk, Value tile);
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
        starts(entry->getArgument(1)) {
    if (form.cumulative)
      decays = entry->getArgument(2);
    if (form.firstState)
      firstState = entry->getArguments().back();
  }

  void write();

private:
  void writeElement(Value batch, Value head, Value row, Value column);
  Value load(Value memref, ValueRange indices);

  ScalarKernelBuilder b;
  const LinearKernelForm &form;
  Block *entry;
  Value states, starts, decays, firstState;
};
} // namespace

//===----------------------------------------------------------------------===//
// Sums of log-decays
//===----------------------------------------------------------------------===//

Value DecaySumWriter::loadLogDecay(Value batch, Value head, Value token) {
  if (cast<MemRefType>(logDecay.getType()).getRank() == 1)
    return memref::LoadOp::create(b, logDecay, head);
  Value last = b.sub(length, b.constant(1));
  return b.loadExisting(logDecay,
                        {batch, head, arith::MinUIOp::create(b, token, last)});
}

/// Writes the cumulative log-decays of one chunk, one after the other. Several
/// are loaded at once. Tokens after the last one have a log-decay of zero.
void DecaySumWriter::writeChunk(Value batch, Value head, Value number) {
  constexpr int64_t unrolled = 8;
  Value first = b.mul(number, b.constant(chunk));
  Value isWrong = arith::ConstantIntOp::create(b, 0, 1);
  auto loop = scf::ForOp::create(b, b.constant(0), b.constant(chunk),
                                 b.constant(unrolled),
                                 ValueRange{f32(0), f32(0), isWrong});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> parts(loop.getRegionIterArgs()), tokens, decays;
    Value ofLoop = b.add(first, loop.getInductionVar());
    for (int64_t i = 0; i < unrolled; ++i) {
      tokens.push_back(b.add(ofLoop, b.constant(i)));
      decays.push_back(loadLogDecay(batch, head, tokens.back()));
    }
    for (auto [token, decay] : llvm::zip_equal(tokens, decays))
      addLogDecay(parts, batch, head, token, decay);
    scf::YieldOp::create(b, parts);
  }
  scf::IfOp::create(b, loop.getResult(2), [&](OpBuilder &inner, Location loc) {
    ScalarKernelBuilder c(loc, inner);
    Value code = arith::ConstantIntOp::create(c, ATTNRT_FAULT_LOG_DECAYS, 32);
    memref::StoreOp::create(c, code, fault, c.constant(0));
    scf::YieldOp::create(c);
  });
}

/// Adds a log-decay to the parts of the sum, and stores them. The last one of
/// `parts` says whether a log-decay is positive or no number.
void DecaySumWriter::addLogDecay(SmallVectorImpl<Value> &parts, Value batch,
                                 Value head, Value token, Value decay) {
  decay = b.select(b.compare(CmpIPredicate::ult, token, length), decay, f32(0));
  Value isWrong =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UGT, decay, f32(0));
  parts[2] = b.either(parts[2], isWrong);
  decay = arith::MinimumFOp::create(b, decay, f32(0));
  decay = arith::MaximumFOp::create(b, decay, f32(minLogDecay));
  decay = arith::MulFOp::create(b, decay, f32(log2e));
  Value rest = arith::AddFOp::create(b, parts[1], decay);
  Value carry = math::FloorOp::create(b, rest);
  parts[0] = arith::AddFOp::create(b, parts[0], carry);
  parts[1] = arith::SubFOp::create(b, rest, carry);
  for (auto [part, sum] :
       {std::pair(WholePart, parts[0]), std::pair(RestPart, parts[1])})
    memref::StoreOp::create(b, sum, cumulative,
                            ValueRange{b.constant(part), batch, head, token});
}

/// Each thread of a warp has a chunk.
void DecaySumWriter::write() {
  constexpr int64_t chunksOfItem = 32;
  b.setInsertionPointToEnd(entry);
  Value chunks = b.tiles(length, chunk);
  SmallVector<OpFoldResult> bounds = {b.size(cumulative, 1),
                                      b.size(cumulative, 2),
                                      b.tiles(chunks, chunksOfItem)};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  Value first = b.mul(ids[2], b.constant(chunksOfItem));
  Value count =
      arith::MinUIOp::create(b, b.constant(chunksOfItem), b.sub(chunks, first));
  b.each(count, [&](Value number) {
    writeChunk(ids[0], ids[1], b.add(first, number));
  });
}

//===----------------------------------------------------------------------===//
// Work items and chunks
//===----------------------------------------------------------------------===//

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
}

void ChunkKernelWriter::writeItems(Value numSplits,
                                   function_ref<void(const WorkItem &)> body) {
  b.setInsertionPointToEnd(entry);
  SmallVector<OpFoldResult> bounds = {b.size(key, 0),
                                      b.getIndexAttr(form.getNumHeads())};
  if (numSplits)
    bounds.push_back(numSplits);
  bounds.push_back(b.getIndexAttr(form.countTiles()));
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  WorkItem at;
  at.batch = ids[0];
  at.head = ids[1];
  at.tile = ids.back();
  auto getShared = [&](Value source) -> Value {
    int64_t group = form.getNumHeads() / getDimSize(source, 1);
    return group == 1 ? at.head
                      : arith::DivUIOp::create(b, at.head, b.index(group));
  };
  at.keyHead = getShared(key);
  at.valueHead = getShared(value);
  at.column = arith::MulIOp::create(b, at.tile, b.index(valueDim));
  at.firstChunk = b.index(0);
  at.numChunks = b.countTiles(b.size(key, 2), chunkTokens);
  if (numSplits) {
    at.split = ids[2];
    at.firstChunk = arith::MulIOp::create(b, at.split, splits.chunks);
    at.numChunks = arith::MinUIOp::create(
        b, splits.chunks,
        arith::SubIOp::create(b, at.numChunks, at.firstChunk));
  }
  if (form.range != DecayRange::All) {
    at.isInRange = emitIsInRange(at);
    at.numChunks =
        arith::SelectOp::create(b, at.isInRange, at.numChunks, b.index(0));
  }
  body(at);
}

ChunkKernelWriter::Chunk ChunkKernelWriter::getChunk(const WorkItem &at,
                                                     Value position) {
  Chunk chunk;
  chunk.position = chunk.number = position;
  if (at.split)
    chunk.number = arith::AddIOp::create(b, at.firstChunk, position);
  if (form.isReversed) {
    Value last = arith::SubIOp::create(
        b, b.countTiles(b.size(key, 2), chunkTokens), b.index(1));
    chunk.number = arith::SubIOp::create(b, last, chunk.number);
  }
  chunk.firstToken =
      arith::MulIOp::create(b, chunk.number, b.index(chunkTokens));
  return chunk;
}

/// Loads the totals of several chunks at once.
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
      sums.push_back(loadTotal(at, getChunk(at, position)).whole);
    }
    Value least = loop.getRegionIterArg(0);
    for (Value sum : sums)
      least = arith::MinNumFOp::create(b, least, sum);
    scf::YieldOp::create(b, least);
  }
  auto predicate = form.range == DecayRange::Factored
                       ? arith::CmpFPredicate::OGE
                       : arith::CmpFPredicate::OLT;
  return arith::CmpFOp::create(b, predicate, loop.getResult(0),
                               b.scalar(minFactoredSum));
}

SmallVector<Value> ChunkKernelWriter::forChunks(
    const WorkItem &at, ValueRange inits,
    function_ref<SmallVector<Value>(const Chunk &, ValueRange)> body) {
  auto loop =
      scf::ForOp::create(b, b.index(0), at.numChunks, b.index(1), inits);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Chunk chunk = getChunk(at, loop.getInductionVar());
  SmallVector<Value> next = body(chunk, loop.getRegionIterArgs());
  // A loop that carries nothing has a terminator.
  if (!inits.empty())
    scf::YieldOp::create(b, next);
  return SmallVector<Value>(loop.getResults());
}

Value ChunkKernelWriter::loadRows(Value source, const WorkItem &at,
                                  const Chunk &chunk, Value head, Value column,
                                  int64_t columns) {
  return b.load({chunkTokens, columns}, source,
                {at.batch, head, chunk.firstToken, column}, chunk.position,
                at.numChunks);
}

Value ChunkKernelWriter::loadState(Value source, ValueRange leading,
                                   const WorkItem &at) {
  SmallVector<Value> indices(leading);
  indices.append({at.batch, at.head, b.index(0), at.column});
  auto load = b.load({keyDim, valueDim}, source, indices)
                  .getDefiningOp<attn_tile::LoadOp>();
  load.setUnaligned(true);
  return load.getResult();
}

void ChunkKernelWriter::storeState(Value state, Value dest, ValueRange leading,
                                   const WorkItem &at) {
  SmallVector<Value> indices(leading);
  indices.append({at.batch, at.head, b.index(0), at.column});
  attn_tile::StoreOp::create(b, state, dest, indices);
}

ChunkKernelWriter::Sum ChunkKernelWriter::loadRowSums(const WorkItem &at,
                                                      const Chunk &chunk) {
  auto load = [&](SumPart part) {
    return b.load(chunkTokens, cumulative,
                  {b.index(part), at.batch, at.head, chunk.firstToken},
                  /*position=*/{}, /*length=*/{}, /*inBounds=*/true);
  };
  return {load(WholePart), load(RestPart)};
}

ChunkKernelWriter::Sum ChunkKernelWriter::loadTotal(const WorkItem &at,
                                                    const Chunk &chunk) {
  Value last =
      arith::AddIOp::create(b, chunk.firstToken, b.index(chunkTokens - 1));
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

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

SmallVector<Value> OutputKernelWriter::getOperands(const LinearKernelForm &form,
                                                   const ChunkSplits &splits) {
  SmallVector<Value> operands;
  for (Value operand :
       {form.query, form.key, form.value, form.out, form.firstState,
        form.lastState, form.cumulative, splits.starts, splits.count,
        splits.chunks, form.terms.rows, form.terms.dots, form.terms.stateDots,
        form.terms.states, form.terms.chunkTerms})
    if (operand)
      operands.push_back(operand);
  return operands;
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

/// The cumulative log-decays up to each token of a chunk, for columns of tiles.
ChunkKernelWriter::Sum OutputKernelWriter::loadColumnSums(const WorkItem &at,
                                                          const Chunk &chunk) {
  auto load = [&](SumPart part) {
    return b.load({1, chunkTokens}, cumulative,
                  {b.index(part), at.batch, at.head, chunk.firstToken},
                  chunk.position, at.numChunks, /*inBounds=*/true);
  };
  return {load(WholePart), load(RestPart)};
}

/// Loads columns of the first state that are rows of a tensor.
Value OutputKernelWriter::loadTransposedState(const WorkItem &at) {
  int64_t rows = form.getKeyHeadDim(), columns = form.getValueHeadDim();
  attn_tile::MapOp map = b.createMap(
      zeros({keyDim, valueDim}), at.batch, at.head, b.index(0), at.column,
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
  Value element = memref::LoadOp::create(
      b, firstState,
      ValueRange{body->getArgument(1), body->getArgument(2),
                 clamp(column, columns), clamp(row, rows)});
  Value exists =
      arith::AndIOp::create(b, isBelow(row, rows), isBelow(column, columns));
  attn_tile::YieldOp::create(
      b, ValueRange{arith::SelectOp::create(b, exists, element, b.scalar(0))});
  return map;
}

Value OutputKernelWriter::loadGivenState(const WorkItem &at) {
  if (!firstState)
    return zeros({keyDim, valueDim});
  Value state = form.isFirstTransposed ? loadTransposedState(at)
                                       : loadState(firstState, {}, at);
  return form.stateFactor == 1 ? state : multiply(state, form.stateFactor);
}

/// A single split has no kernels before that compute its first state.
Value OutputKernelWriter::loadFirstState(const WorkItem &at) {
  if (!at.split)
    return loadGivenState(at);
  Value isSplit =
      arith::CmpIOp::create(b, CmpIPredicate::ugt, splits.count, b.index(1));
  auto branch =
      scf::IfOp::create(b, TypeRange{b.f32Vector({keyDim, valueDim})}, isSplit,
                        /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, loadState(splits.starts, at.split, at));
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loadGivenState(at));
  return branch.getResult(0);
}

void OutputKernelWriter::storeLastState(const WorkItem &at, Value state) {
  if (!lastState)
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
    return storeState(state, lastState, {}, at);
  auto branch = scf::IfOp::create(b, isOwn, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  storeState(state, lastState, {}, at);
}

/// Zeroes the scores of keys that a token does not see.
Value OutputKernelWriter::maskScores(Value scores) {
  Value zero = b.index(0), count = b.index(chunkTokens);
  attn_tile::MapOp map =
      b.createMap(scores, zero, zero, zero, zero, count, count);
  Block *body = &map.getBody().front();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(body);
  Value isKept = arith::CmpIOp::create(
      b, form.isReversed ? CmpIPredicate::sle : CmpIPredicate::sge,
      body->getArgument(3), body->getArgument(4));
  Value kept =
      arith::SelectOp::create(b, isKept, body->getArgument(0), b.scalar(0));
  attn_tile::YieldOp::create(b, kept);
  return map;
}

void OutputKernelWriter::storeOut(const WorkItem &at, const Chunk &chunk,
                                  Value tile) {
  attn_tile::StoreOp::create(
      b, b.round(tile, getElementTypeOrSelf(out)), out,
      ValueRange{at.batch, at.head, chunk.firstToken, at.column});
}

/// Multiplies scores by the decay between both tokens. The decays of pairs that
/// the mask drops may be infinite.
Value OutputKernelWriter::decayScores(Value scores, Sum rows, Sum columns) {
  auto repeatBoth = [&](Sum sum) -> Sum {
    return {repeat(sum.whole, {chunkTokens, chunkTokens}),
            repeat(sum.rest, {chunkTokens, chunkTokens})};
  };
  Sum ofRows = repeatBoth(rows), ofColumns = repeatBoth(columns);
  return mul(scores, form.isReversed ? emitDecay(ofColumns, ofRows)
                                     : emitDecay(ofRows, ofColumns));
}

/// Stores the dot product of each row of a tile, which has no scale yet, with
/// the other row.
void OutputKernelWriter::storeRowTerms(const WorkItem &at, const Chunk &chunk,
                                       Value tile, Value dest) {
  if (!dest)
    return;
  Value rows = b.load({chunkTokens, valueDim}, terms.rows,
                      {at.batch, at.head, chunk.firstToken, at.column});
  attn_tile::StoreOp::create(
      b, sumRows(multiply(mul(tile, b.extend(rows)), form.scale)), dest,
      ValueRange{at.tile, at.batch, at.head, chunk.firstToken});
}

/// The first one of two computations stores the states before the chunks, the
/// other one multiplies them with its own state, their gradient.
void OutputKernelWriter::storeStateTerms(const WorkItem &at, const Chunk &chunk,
                                         Value state, Value rounded) {
  if (!terms.states)
    return;
  if (!terms.chunkTerms)
    return storeState(rounded, terms.states, chunk.number, at);
  SmallVector<Value> indices = {chunk.number, at.batch, at.head, b.index(0),
                                at.column};
  Value before = b.extend(b.load({keyDim, valueDim}, terms.states, indices));
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
  Value queries = loadQueries(at, chunk), keys = loadKeys(at, chunk);
  Value values = loadValues(at, chunk);
  Value scores = b.contract(queries, keys, zeros({chunkTokens, chunkTokens}),
                            ContractForm::TransposedRhs);
  if (cumulative)
    scores = decayScores(scores, *rows, *columns);
  scores = b.round(maskScores(scores), element);
  Value rounded = b.round(state, element);
  Value result = b.contract(queries, rounded, zeros({chunkTokens, valueDim}),
                            ContractForm::Plain);
  if (cumulative)
    result = mul(result, repeat(emitEdgeDecay(*rows, loadTotal(at, chunk),
                                              /*isFromFirst=*/true),
                                {chunkTokens, valueDim}));
  storeRowTerms(at, chunk, result, terms.stateDots);
  result = b.contract(scores, values, result, ContractForm::Plain);
  storeRowTerms(at, chunk, result, terms.dots);
  storeOut(at, chunk, multiply(result, form.scale));
  storeStateTerms(at, chunk, state, rounded);
  return emitStep(at, chunk, keys, values, state, rows);
}

/// A chunk whose decays are factors of tokens.
Value OutputKernelWriter::writeFactoredChunk(const WorkItem &at,
                                             const Chunk &chunk, Value state) {
  Sum rows = loadRowSums(at, chunk), total = loadTotal(at, chunk);
  Value queries = loadQueries(at, chunk), keys = loadKeys(at, chunk);
  Value values = loadValues(at, chunk);
  Value scores = b.contract(queries, keys, zeros({chunkTokens, chunkTokens}),
                            ContractForm::TransposedRhs);
  scores = b.round(maskScores(scores), element);
  Value toEnd = emitEdgeDecay(rows, total, /*isFromFirst=*/false);
  values = b.round(
      mul(b.extend(values), repeat(toEnd, {chunkTokens, valueDim})), element);
  state = mul(state, repeat(emitDecay(total), {keyDim, valueDim}));
  Value result =
      b.contract(queries, b.round(state, element),
                 zeros({chunkTokens, valueDim}), ContractForm::Plain);
  result = b.contract(scores, values, result, ContractForm::Plain);
  Value ofRows =
      arith::DivFOp::create(b, b.splat(chunkTokens, form.scale), toEnd);
  storeOut(at, chunk, mul(result, repeat(ofRows, {chunkTokens, valueDim})));
  return b.contract(keys, values, state, ContractForm::TransposedLhs);
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
    storeOut(at, chunk,
             multiply(b.contract(
                          loadQueries(at, chunk), b.round(state, element),
                          zeros({chunkTokens, valueDim}), ContractForm::Plain),
                      form.scale));
    return {};
  });
  storeLastState(at, state);
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
    storeLastState(at, state);
  });
}

//===----------------------------------------------------------------------===//
// Splits
//===----------------------------------------------------------------------===//

SmallVector<Value> SplitStateWriter::getOperands(const LinearKernelForm &form,
                                                 const ChunkSplits &splits) {
  SmallVector<Value> operands;
  for (Value operand : {form.key, form.value, form.cumulative, splits.states,
                        splits.decays, splits.count, splits.chunks})
    if (operand)
      operands.push_back(operand);
  return operands;
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
                          ValueRange{at.split, at.batch, at.head});
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
    storeState(last[0], splits.states, at.split, at);
    if (cumulative)
      storeDecay(at, last[1]);
  });
}

Value SplitStartWriter::load(Value memref, ValueRange indices) {
  auto element = memref::LoadOp::create(b, memref, indices);
  attn_tile::setKnownInBounds(element);
  return element;
}

/// Writes an element of the states that splits begin with, one after the other.
/// Several elements are loaded at once. Numbers beyond the last split count as
/// its own, which change nothing.
void SplitStartWriter::writeElement(Value batch, Value head, Value row,
                                    Value column) {
  constexpr int64_t unrolled = 8;
  Value first = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  if (firstState) {
    first = form.isFirstTransposed
                ? load(firstState, {batch, head, column, row})
                : load(firstState, {batch, head, row, column});
    first = arith::MulFOp::create(
        b, first,
        arith::ConstantOp::create(b,
                                  b.getF32FloatAttr(float(form.stateFactor))));
  }
  Value count = b.size(starts, 0), last = b.sub(count, b.constant(1));
  auto loop =
      scf::ForOp::create(b, b.constant(0), count, b.constant(unrolled), first);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> numbers, parts, factors;
  for (int64_t i = 0; i < unrolled; ++i) {
    Value number = b.add(loop.getInductionVar(), b.constant(i));
    numbers.push_back(arith::MinUIOp::create(b, number, last));
    parts.push_back(load(states, {numbers.back(), batch, head, row, column}));
    if (decays)
      factors.push_back(load(decays, {numbers.back(), batch, head}));
  }
  Value state = loop.getRegionIterArg(0);
  for (int64_t i = 0; i < unrolled; ++i) {
    memref::StoreOp::create(b, state, starts,
                            ValueRange{numbers[i], batch, head, row, column});
    Value decayed =
        decays ? arith::MulFOp::create(b, state, factors[i]).getResult()
               : state;
    Value next = arith::AddFOp::create(b, decayed, parts[i]);
    state =
        b.select(b.compare(CmpIPredicate::ult, numbers[i], last), next, state);
  }
  scf::YieldOp::create(b, state);
}

/// There is nothing to do for a single split.
void SplitStartWriter::write() {
  constexpr int64_t elementsOfItem = 32;
  b.setInsertionPointToEnd(entry);
  auto type = cast<MemRefType>(starts.getType());
  int64_t columns = type.getDimSize(4), elements = type.getDimSize(3) * columns;
  Value one = b.constant(1), count = b.size(starts, 0);
  Value isSplit = arith::MinUIOp::create(b, b.sub(count, one), one);
  Value blocks =
      b.mul(isSplit, b.constant(llvm::divideCeil(elements, elementsOfItem)));
  SmallVector<OpFoldResult> bounds = {b.size(starts, 1), b.size(starts, 2),
                                      blocks};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  Value first = b.mul(ids[2], b.constant(elementsOfItem));
  Value ofItem = arith::MinUIOp::create(b, b.constant(elementsOfItem),
                                        b.sub(b.constant(elements), first));
  b.each(ofItem, [&](Value number) {
    Value element = b.add(first, number);
    writeElement(ids[0], ids[1],
                 arith::DivUIOp::create(b, element, b.constant(columns)),
                 arith::RemUIOp::create(b, element, b.constant(columns)));
  });
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// Allocates the cumulative log-decays, and launches the kernel that fills
/// them. Null without log-decays.
template <typename OpTy>
static Value createDecaySums(RewriterBase &rewriter, OpTy op,
                             SymbolTable &symbols) {
  if (!op.getLogDecay())
    return {};
  ScalarKernelBuilder b(op.getLoc(), rewriter);
  ScheduleAttrInterface schedule = op.getScheduleAttr();
  int64_t chunk = schedule.getQueryTile();
  Value batch = b.size(op.getQuery(), 0), length = b.size(op.getQuery(), 2);
  // Rows that are copied exist: there is room for whole chunks.
  Value tokens = b.mul(b.tiles(length, chunk), b.constant(chunk));
  auto type = MemRefType::get({NumSumParts, ShapedType::kDynamic,
                               op.getNumHeads(), ShapedType::kDynamic},
                              b.getF32Type());
  Value cumulative =
      memref::AllocOp::create(b, type, ValueRange{batch, tokens});
  Value fault =
      attn_tile::ErrorFlagOp::create(b, MemRefType::get({1}, b.getI32Type()));
  attn_tile::KernelOp kernel = createKernel(
      rewriter, op, schedule.getPreparation(), symbols, "_log_decays",
      {op.getLogDecay(), cumulative, length, fault});
  DecaySumWriter(rewriter, op.getLoc(), kernel, chunk).write();
  rewriter.setInsertionPoint(op);
  return cumulative;
}

/// Divides the chunks among as many work items as the schedule asks for.
static ChunkSplits createSplits(RewriterBase &rewriter,
                                const LinearKernelForm &form) {
  int64_t wanted = form.schedule.getSplitKvWorkItems();
  if (wanted == 0 || !form.isCausal)
    return {};
  ScalarKernelBuilder b(form.op->getLoc(), rewriter);
  Value one = b.constant(1), batch = b.size(form.query, 0);
  int64_t heads = form.getNumHeads();
  auto atLeastOne = [&](Value value) -> Value {
    return arith::MaxUIOp::create(b, value, one);
  };
  Value items = atLeastOne(b.mul(batch, b.constant(heads * form.countTiles())));
  Value chunks =
      atLeastOne(b.tiles(b.size(form.query, 2), form.schedule.getQueryTile()));
  Value count = arith::MinUIOp::create(
      b, atLeastOne(arith::DivUIOp::create(b, b.constant(wanted), items)),
      chunks);
  auto divideCeil = [&](Value lhs, Value rhs) -> Value {
    return arith::DivUIOp::create(b, b.add(lhs, b.sub(rhs, one)), rhs);
  };
  ChunkSplits splits;
  splits.chunks = divideCeil(chunks, count);
  splits.count = divideCeil(chunks, splits.chunks);
  auto allocate = [&](ArrayRef<int64_t> shape) -> Value {
    auto type = MemRefType::get(shape, b.getF32Type());
    return memref::AllocOp::create(b, type, ValueRange{splits.count, batch});
  };
  constexpr int64_t dynamic = ShapedType::kDynamic;
  SmallVector<int64_t> ofStates = {
      dynamic, dynamic, heads, form.getKeyHeadDim(), form.getValueHeadDim()};
  splits.states = allocate(ofStates);
  splits.starts = allocate(ofStates);
  if (form.cumulative)
    splits.decays = allocate({dynamic, dynamic, heads});
  return splits;
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
  SmallVector<Value> operands = {splits.states, splits.starts};
  for (Value operand : {splits.decays, form.firstState})
    if (operand)
      operands.push_back(operand);
  attn_tile::KernelOp starts =
      createKernel(rewriter, form.op, form.schedule.getPreparation(), symbols,
                   (name + "_starts").str(), operands);
  SplitStartWriter(rewriter, form, starts).write();
  rewriter.setInsertionPoint(form.op);
}

static void deallocate(RewriterBase &rewriter, Location loc,
                       ArrayRef<Value> buffers) {
  for (Value buffer : buffers)
    if (buffer)
      memref::DeallocOp::create(rewriter, loc, buffer);
}

/// The ranges of decays that have a kernel of their own. Times such a decay,
/// f16 would be subnormal. Terms of the gradient of log-decays cancel with
/// terms of another computation, which needs the same rounded scores.
static SmallVector<DecayRange> getRanges(const LinearKernelForm &form) {
  if (!form.cumulative || form.terms.dots ||
      !getElementTypeOrSelf(form.key).isBF16())
    return {DecayRange::All};
  return {DecayRange::Factored, DecayRange::Other};
}

/// Launches the kernels of one computation, before its operation.
static void createKernels(RewriterBase &rewriter, LinearKernelForm form,
                          SymbolTable &symbols, StringRef name) {
  ChunkSplits splits = createSplits(rewriter, form);
  if (splits.count)
    createSplitStates(rewriter, form, splits, symbols, name);
  for (DecayRange range : getRanges(form)) {
    form.range = range;
    StringRef suffix = range == DecayRange::Factored ? "_factored" : "";
    attn_tile::KernelOp kernel = createKernel(
        rewriter, form.op, form.schedule, symbols, (name + suffix).str(),
        OutputKernelWriter::getOperands(form, splits));
    OutputKernelWriter(rewriter, form, kernel, splits).write();
    rewriter.setInsertionPoint(form.op);
  }
  deallocate(rewriter, form.op->getLoc(),
             {splits.states, splits.starts, splits.decays});
}

template <typename OpTy>
static LinearKernelForm makeForm(OpTy op, Value cumulative) {
  LinearKernelForm form;
  form.op = op;
  form.schedule = op.getScheduleAttr();
  form.cumulative = cumulative;
  form.isCausal = op.getCausal();
  form.scale = op.getScaleOrDefault();
  return form;
}

void attn::createLinearAttentionKernels(RewriterBase &rewriter,
                                        LinearAttentionOp op,
                                        SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  LinearKernelForm form = makeForm(op, createDecaySums(rewriter, op, symbols));
  form.query = op.getQuery();
  form.key = op.getKey();
  form.value = op.getValue();
  form.out = op.getOut();
  form.firstState = op.getInitialState();
  form.lastState = op.getFinalState();
  createKernels(rewriter, form, symbols, "_linear_attention");
  deallocate(rewriter, op.getLoc(), form.cumulative);
  rewriter.eraseOp(op);
}

void attn::createLinearAttentionGradKernels(RewriterBase &rewriter,
                                            LinearAttentionGradOp op,
                                            SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Value cumulative = createDecaySums(rewriter, op, symbols);
  DecayGradWorkspace workspace;
  if (op.getDlogDecay())
    workspace = DecayGradWorkspace::allocate(rewriter, op);
  LinearKernelForm ofQuery = makeForm(op, cumulative);
  ofQuery.query = op.getDout();
  ofQuery.key = op.getValue();
  ofQuery.value = op.getKey();
  ofQuery.out = op.getDquery();
  ofQuery.firstState = op.getInitialState();
  ofQuery.isFirstTransposed = true;
  ofQuery.terms = workspace.getTermsOfQueries();
  createKernels(rewriter, ofQuery, symbols, "_linear_dq");

  // The state is the gradient of states, divided by the scale.
  LinearKernelForm ofKey = makeForm(op, cumulative);
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
  createKernels(rewriter, ofKey, symbols, "_linear_dk");

  ofValue.query = op.getKey();
  ofValue.key = op.getQuery();
  ofValue.value = op.getDout();
  ofValue.out = op.getDvalue();
  ofValue.firstState = op.getDfinalState();
  ofValue.lastState = op.getDinitialState();
  createKernels(rewriter, ofValue, symbols, "_linear_dv");
  if (op.getDlogDecay())
    createDecayGradKernels(rewriter, op, workspace, symbols);
  deallocate(rewriter, op.getLoc(), cumulative);
  rewriter.eraseOp(op);
}
