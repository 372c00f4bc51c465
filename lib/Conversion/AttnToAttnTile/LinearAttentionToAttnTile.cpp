//===- LinearAttentionToAttnTile.cpp - Kernels of linear attention --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One kernel, whose work items are batch entries and heads. Each goes through
// the chunks of its tokens and carries the state. The gradient goes through
// them twice: first to last for the states before each chunk, which it keeps in
// memory, then last to first.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/AttnToAttnTile/LinearAttentionToAttnTile.h"
#include "CarriedLoop.h"
#include "CreateKernel.h"
#include "LinearAttentionChunk.h"
#include "LinearAttentionKernel.h"
#include "LinearPairKernels.h"
#include "LinearRecurrentKernel.h"
#include "attn-runtime/attn_runtime.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

/// Reports a boundary that is negative: `attn-pad-sequences` makes boundaries
/// of wrong sequences negative.
static void emitBoundaryReport(ImplicitLocOpBuilder &b, Value boundary,
                               Value fault) {
  Value zero = arith::ConstantIntOp::create(b, 0, 32);
  Value isWrong = arith::CmpIOp::create(b, CmpIPredicate::slt, boundary, zero);
  scf::IfOp::create(b, isWrong, [&](OpBuilder &then, Location loc) {
    ImplicitLocOpBuilder c(loc, then);
    Value code = arith::ConstantIntOp::create(c, ATTNRT_FAULT_LOG_DECAYS, 32);
    Value first = arith::ConstantIndexOp::create(c, 0);
    memref::StoreOp::create(c, code, fault, first);
    scf::YieldOp::create(c);
  });
}

namespace {
/// Parts that the kernels of outputs and of gradients share.
class LinearKernelWriter {
protected:
  template <typename OpTy>
  LinearKernelWriter(OpBuilder &builder, OpTy op, attn_tile::KernelOp kernel)
      : b(op.getLoc(), builder), entry(&kernel.getBody().front()),
        isCausal(op.getCausal()) {
    arguments.map(op->getOperands(),
                  entry->getArguments().take_front(op->getNumOperands()));
    inputs.query = get(op.getQuery());
    inputs.key = get(op.getKey());
    inputs.value = get(op.getValue());
    inputs.logDecay = get(op.getLogDecay());
    inputs.beta = get(op.getBeta());
    inputs.initialState = get(op.getInitialState());
    inputs.sequences = get(op.getSequences());
    if (op.getLogDecay() || op.getSequences())
      inputs.fault = entry->getArgument(op->getNumOperands());
    inputs.scale = op.getScaleOrDefault();
    inputs.chunk = op.getChunkOrDefault();
    inputs.keyGroup = op.getNumHeads() / getDimSize(op.getKey(), 1);
    inputs.valueGroup = op.getNumHeads() / getDimSize(op.getValue(), 1);
  }

  Value get(Value operand) {
    return operand ? arguments.lookup(operand) : Value();
  }
  /// Writes a work item for each batch entry, or packed sequence, and head.
  void writeItems(function_ref<void(LinearAttentionChunk &)> body);
  void findChunks(const LinearAttentionChunk &chunk);
  /// Writes a loop over the chunks of a work item, first to last unless it is
  /// reversed, that carries tiles.
  SmallVector<Value>
  forChunks(ValueRange inits,
            function_ref<SmallVector<Value>(Value number, ValueRange)> body,
            bool isReversed = false);
  Value getFirstToken(Value number) {
    return arith::MulIOp::create(b, number, b.index(inputs.chunk));
  }
  void storeRows(LinearAttentionChunk &chunk, Value tile, Value dest) {
    tile = b.round(tile, getElementTypeOrSelf(dest.getType()));
    attn_tile::StoreOp::create(
        b, tile, dest,
        ValueRange{chunk.batch, chunk.head, chunk.first, b.index(0)}, Value(),
        Value());
  }
  void storeState(LinearAttentionChunk &chunk, Value tile, Value dest) {
    Value zero = b.index(0);
    attn_tile::StoreOp::create(b, tile, dest,
                               ValueRange{chunk.state, chunk.head, zero, zero},
                               Value(), Value());
  }
  Value scale(Value tile) {
    auto type = cast<VectorType>(tile.getType());
    return arith::MulFOp::create(b, tile,
                                 b.splat(type.getShape(), inputs.scale));
  }

  TileProgramBuilder b;
  Block *entry;
  bool isCausal;
  IRMapping arguments;
  LinearAttentionInputs inputs;
  /// The chunks of the work item.
  Value firstChunk, numChunks;
};

/// Writes the kernel of `attn.linear_attention`.
class OutputWriter : LinearKernelWriter {
public:
  OutputWriter(OpBuilder &builder, LinearAttentionOp op,
               attn_tile::KernelOp kernel)
      : LinearKernelWriter(builder, op, kernel), out(get(op.getOut())),
        finalState(get(op.getFinalState())) {}

  void write();

private:
  Value writeCausalChunk(LinearAttentionChunk &chunk, Value state);
  void writeFull(LinearAttentionChunk &chunk);

  Value out, finalState;
};

/// Writes the kernel of `attn.linear_attention_grad`.
class GradientWriter : LinearKernelWriter {
public:
  GradientWriter(OpBuilder &builder, LinearAttentionGradOp op,
                 attn_tile::KernelOp kernel)
      : LinearKernelWriter(builder, op, kernel), dout(get(op.getDout())),
        dfinalState(get(op.getDfinalState())), dquery(get(op.getDquery())),
        dkey(get(op.getDkey())), dvalue(get(op.getDvalue())),
        dlogDecay(get(op.getDlogDecay())), dbeta(get(op.getDbeta())),
        dinitialState(get(op.getDinitialState())),
        states(entry->getArguments().back()) {}

  void write();

private:
  using Chunk = LinearAttentionChunk;
  using Step = LinearAttentionChunk::Step;

  void keepStates(Chunk &chunk);
  SmallVector<Value> writeCausalChunk(Chunk &chunk, Value number,
                                      ValueRange carried);
  void writeFull(Chunk &chunk);
  Value loadState(Chunk &chunk, Value number);
  /// Emits the gradient of the values from `dupdate`, the gradient of the
  /// step's update. Adds to the other gradients, and writes the gradient of
  /// beta.
  Value emitDeltaRule(Chunk &chunk, const Step &step, Value state,
                      Value dupdate);
  void storeDecayGradient(Chunk &chunk, Value tile, Value &ofHead);

  Value dout, dfinalState, dquery, dkey, dvalue, dlogDecay, dbeta,
      dinitialState;
  /// The states before each chunk.
  Value states;
  /// Gradients of the chunk that is being written: of queries and keys, of the
  /// state before it, of log-decays, and of decayed tiles times the tiles.
  Value ofQuery, ofKey, ofState, ofDecay, decayedFromStart, decayedToEnd;
};
} // namespace

//===----------------------------------------------------------------------===//
// Common parts
//===----------------------------------------------------------------------===//

void LinearKernelWriter::writeItems(
    function_ref<void(LinearAttentionChunk &)> body) {
  b.setInsertionPointToEnd(entry);
  Value batch = b.size(inputs.query, 0), numStates = batch, numItems = batch;
  if (inputs.sequences) {
    Value one = b.index(1);
    Value boundaries =
        arith::MaxUIOp::create(b, b.size(inputs.sequences, 0), one);
    numStates = arith::SubIOp::create(b, boundaries, one);
    // The boundary without a sequence is checked, too.
    numItems = arith::MaxUIOp::create(b, numStates,
                                      arith::MinUIOp::create(b, batch, one));
  }
  SmallVector<OpFoldResult> bounds = {numItems, b.size(inputs.query, 1)};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  Value state = forall.getInductionVar(0);
  LinearAttentionChunk chunk(b, inputs, state,
                             inputs.sequences ? b.index(0) : state,
                             forall.getInductionVar(1));
  if (inputs.sequences) {
    emitBoundaryReport(b, memref::LoadOp::create(b, inputs.sequences, state),
                       inputs.fault);
    Value hasState =
        arith::CmpIOp::create(b, CmpIPredicate::ult, state, numStates);
    auto branch = scf::IfOp::create(b, hasState, /*withElseRegion=*/false);
    b.setInsertionPointToStart(branch.thenBlock());
  }
  findChunks(chunk);
  body(chunk);
}

/// Finds the chunks of a work item: all chunks of a batch entry or a sequence.
void LinearKernelWriter::findChunks(const LinearAttentionChunk &chunk) {
  if (!inputs.sequences) {
    firstChunk = b.index(0);
    numChunks = b.countTiles(b.size(inputs.query, 2), inputs.chunk);
    return;
  }
  auto loadChunk = [&](Value number) -> Value {
    Value token = memref::LoadOp::create(b, inputs.sequences, number);
    // Wrong boundaries are negative. They are reported, and must not do harm.
    Value boundary = arith::MaxSIOp::create(
        b, arith::IndexCastOp::create(b, b.getIndexType(), token), b.index(0));
    return arith::DivUIOp::create(b, boundary, b.index(inputs.chunk));
  };
  Value begin = loadChunk(chunk.state);
  Value end = loadChunk(arith::AddIOp::create(b, chunk.state, b.index(1)));
  firstChunk = arith::MinUIOp::create(b, begin, end);
  numChunks = arith::SubIOp::create(b, end, firstChunk);
}

SmallVector<Value> LinearKernelWriter::forChunks(
    ValueRange inits,
    function_ref<SmallVector<Value>(Value number, ValueRange)> body,
    bool isReversed) {
  return emitCarriedLoop(
      b, numChunks, inits, [&](Value position, ValueRange carried) {
        Value number = position;
        if (isReversed) {
          Value last = arith::SubIOp::create(b, numChunks, b.index(1));
          number = arith::SubIOp::create(b, last, position);
        }
        if (inputs.sequences)
          number = arith::AddIOp::create(b, firstChunk, number);
        return body(number, carried);
      });
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

Value OutputWriter::writeCausalChunk(LinearAttentionChunk &chunk, Value state) {
  LinearAttentionChunk::Step step = chunk.emitStep(state);
  Value query = chunk.query;
  if (step.fromStart)
    query = chunk.mul(query, step.fromStart);
  Value ofState =
      chunk.contract(query, state, chunk.zeros({chunk.rows, chunk.valueDim}),
                     ContractForm::Plain);
  Value scores = chunk.emitScores(chunk.query, chunk.key, /*isStrict=*/false);
  Value result =
      chunk.contract(scores, step.update, ofState, ContractForm::Plain);
  storeRows(chunk, scale(result), out);
  return step.state;
}

/// Without a mask each token sees the last state.
void OutputWriter::writeFull(LinearAttentionChunk &chunk) {
  Value state =
      forChunks(chunk.loadState(inputs.initialState),
                [&](Value number, ValueRange carried) -> SmallVector<Value> {
                  chunk.begin(getFirstToken(number), /*hasQueries=*/false,
                              /*hasDecay=*/false);
                  return {chunk.emitStep(carried[0]).state};
                })[0];
  forChunks({}, [&](Value number, ValueRange) -> SmallVector<Value> {
    chunk.first = getFirstToken(number);
    Value query = chunk.loadRows(inputs.query, chunk.head, chunk.keyDim);
    Value result =
        chunk.contract(query, state, chunk.zeros({chunk.rows, chunk.valueDim}),
                       ContractForm::Plain);
    storeRows(chunk, scale(result), out);
    return {};
  });
  if (finalState)
    storeState(chunk, state, finalState);
}

void OutputWriter::write() {
  writeItems([&](LinearAttentionChunk &chunk) {
    if (!isCausal)
      return writeFull(chunk);
    Value state =
        forChunks(chunk.loadState(inputs.initialState),
                  [&](Value number, ValueRange carried) -> SmallVector<Value> {
                    chunk.begin(getFirstToken(number), /*hasQueries=*/true,
                                /*hasDecay=*/true);
                    return {writeCausalChunk(chunk, carried[0])};
                  })[0];
    if (finalState)
      storeState(chunk, state, finalState);
  });
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

Value GradientWriter::loadState(Chunk &chunk, Value number) {
  Value row = arith::MulIOp::create(b, number, b.index(chunk.keyDim));
  return b.load({chunk.keyDim, chunk.valueDim}, states,
                {chunk.batch, chunk.head, row, b.index(0)});
}

/// Stores the states before each chunk.
void GradientWriter::keepStates(Chunk &chunk) {
  forChunks(chunk.loadState(inputs.initialState),
            [&](Value number, ValueRange carried) -> SmallVector<Value> {
              Value row =
                  arith::MulIOp::create(b, number, b.index(chunk.keyDim));
              attn_tile::StoreOp::create(
                  b, carried[0], states,
                  ValueRange{chunk.batch, chunk.head, row, b.index(0)}, Value(),
                  Value());
              chunk.begin(getFirstToken(number), /*hasQueries=*/false,
                          /*hasDecay=*/true);
              return {chunk.emitStep(carried[0]).state};
            });
}

Value GradientWriter::emitDeltaRule(Chunk &chunk, const Step &step, Value state,
                                    Value dupdate) {
  int64_t rows = chunk.rows;
  Value solved =
      chunk.contract(step.inverse, dupdate, chunk.zeros({rows, chunk.valueDim}),
                     ContractForm::TransposedLhs);
  Value outer = chunk.contract(solved, step.update, chunk.zeros({rows, rows}),
                               ContractForm::TransposedRhs);
  Value dmatrix = arith::NegFOp::create(
      b, chunk.select(outer, [&](Value row, Value column) {
        return chunk.compare(CmpIPredicate::sgt, row, column);
      }));
  if (dbeta) {
    Value gradient =
        chunk.add(chunk.sumRows(chunk.mul(solved, step.residual)),
                  chunk.sumRows(chunk.mul(dmatrix, step.keyScores)));
    attn_tile::StoreOp::create(b, gradient, dbeta,
                               ValueRange{chunk.batch, chunk.head, chunk.first},
                               Value(), Value());
  }
  Value dresidual =
      chunk.mul(solved, b.broadcast(step.beta, {rows, chunk.valueDim}));
  Value dknown = arith::NegFOp::create(b, dresidual);
  Value dfromStart =
      chunk.contract(dknown, state, chunk.zeros({rows, chunk.keyDim}),
                     ContractForm::TransposedRhs);
  ofState = chunk.contract(step.keyFromStart, dknown, ofState,
                           ContractForm::TransposedLhs);
  auto gradients = chunk.emitScoreGradients(
      chunk.mul(dmatrix, b.broadcast(step.beta, {rows, rows})), chunk.key,
      chunk.key);
  ofKey = chunk.add(ofKey, chunk.add(gradients.lhs, gradients.rhs));
  if (!step.fromStart) {
    ofKey = chunk.add(ofKey, dfromStart);
    return dresidual;
  }
  ofKey = chunk.add(ofKey, chunk.mul(dfromStart, step.fromStart));
  ofDecay = chunk.add(ofDecay, gradients.logDecay);
  decayedFromStart =
      chunk.add(decayedFromStart, chunk.mul(dfromStart, step.keyFromStart));
  return dresidual;
}

/// Stores the gradient of the log-decays of a chunk. If they are of heads, adds
/// it to `ofHead`, a part for each row.
void GradientWriter::storeDecayGradient(Chunk &chunk, Value tile,
                                        Value &ofHead) {
  int64_t rank = cast<MemRefType>(inputs.logDecay.getType()).getRank();
  if (rank == 4)
    return storeRows(chunk, tile, dlogDecay);
  if (rank == 3) {
    attn_tile::StoreOp::create(b, chunk.sumRows(tile), dlogDecay,
                               ValueRange{chunk.batch, chunk.head, chunk.first},
                               Value(), Value());
    return;
  }
  Value present = chunk.select(
      tile, [&](Value row, Value) { return chunk.isPresent(row); });
  ofHead = chunk.add(ofHead, chunk.sumRows(present));
}

/// `carried` is the gradient of the state after the chunk and, if there is one
/// log-decay a head, parts of its gradient.
SmallVector<Value> GradientWriter::writeCausalChunk(Chunk &chunk, Value number,
                                                    ValueRange carried) {
  Value dstate = carried[0], state = loadState(chunk, number);
  int64_t rows = chunk.rows;
  chunk.begin(getFirstToken(number), /*hasQueries=*/true, /*hasDecay=*/true);
  Step step = chunk.emitStep(state);
  Value dresult = scale(chunk.loadRows(dout, chunk.head, chunk.valueDim));
  Value noKeys = chunk.zeros({rows, chunk.keyDim});
  Value noValues = chunk.zeros({rows, chunk.valueDim});
  bool hasDecay = bool(step.fromStart);

  Value query = hasDecay ? chunk.mul(chunk.query, step.fromStart) : chunk.query;
  Value scores = chunk.emitScores(chunk.query, chunk.key, /*isStrict=*/false);
  Value dscores = chunk.select(
      chunk.contract(dresult, step.update, chunk.zeros({rows, rows}),
                     ContractForm::TransposedRhs),
      [&](Value row, Value column) {
        return chunk.compare(CmpIPredicate::sge, row, column);
      });
  Value ofNext =
      chunk.contract(step.keyToEnd, dstate, noValues, ContractForm::Plain);
  Value dupdate =
      chunk.contract(scores, dresult, ofNext, ContractForm::TransposedLhs);
  ofQuery = chunk.contract(dresult, state, noKeys, ContractForm::TransposedRhs);
  ofKey =
      chunk.contract(step.update, dstate, noKeys, ContractForm::TransposedRhs);
  Value decayed = hasDecay ? chunk.mul(dstate, step.whole) : dstate;
  ofState =
      chunk.contract(query, dresult, decayed, ContractForm::TransposedLhs);
  auto gradients = chunk.emitScoreGradients(dscores, chunk.query, chunk.key);
  if (hasDecay) {
    decayedFromStart = chunk.mul(ofQuery, query);
    decayedToEnd = chunk.mul(ofKey, step.keyToEnd);
    ofQuery = chunk.mul(ofQuery, step.fromStart);
    ofKey = chunk.mul(ofKey, step.toEnd);
    // Each token's log-decay scales the state before the chunk.
    Value ofStates = chunk.contract(b.splat({rows, chunk.valueDim}, 1),
                                    chunk.mul(state, decayed), noKeys,
                                    ContractForm::TransposedRhs);
    ofDecay = chunk.add(gradients.logDecay, chunk.sumOfHeadDim(ofStates));
  }
  ofQuery = chunk.add(ofQuery, gradients.lhs);
  ofKey = chunk.add(ofKey, gradients.rhs);
  Value ofValue = dupdate;
  if (inputs.beta)
    ofValue = emitDeltaRule(chunk, step, state, dupdate);
  storeRows(chunk, ofQuery, dquery);
  storeRows(chunk, ofKey, dkey);
  storeRows(chunk, ofValue, dvalue);
  SmallVector<Value> next = {ofState};
  if (dlogDecay) {
    ofDecay = chunk.add(ofDecay, chunk.emitDecayGradient(decayedFromStart,
                                                         /*isFromStart=*/true));
    ofDecay = chunk.add(
        ofDecay, chunk.emitDecayGradient(decayedToEnd, /*isFromStart=*/false));
    Value ofHead = carried.size() > 1 ? carried[1] : Value();
    storeDecayGradient(chunk, ofDecay, ofHead);
    if (ofHead)
      next.push_back(ofHead);
  }
  return next;
}

/// Without a mask each token sees the last state.
void GradientWriter::writeFull(Chunk &chunk) {
  Value dlast = chunk.loadState(dfinalState);
  SmallVector<Value> states =
      forChunks({chunk.loadState(inputs.initialState), dlast},
                [&](Value number, ValueRange carried) -> SmallVector<Value> {
                  chunk.begin(getFirstToken(number), /*hasQueries=*/true,
                              /*hasDecay=*/false);
                  Value dresult =
                      scale(chunk.loadRows(dout, chunk.head, chunk.valueDim));
                  return {chunk.emitStep(carried[0]).state,
                          chunk.contract(chunk.query, dresult, carried[1],
                                         ContractForm::TransposedLhs)};
                });
  Value state = states[0], dstate = states[1];
  forChunks({}, [&](Value number, ValueRange) -> SmallVector<Value> {
    chunk.begin(getFirstToken(number), /*hasQueries=*/false,
                /*hasDecay=*/false);
    Value dresult = scale(chunk.loadRows(dout, chunk.head, chunk.valueDim));
    Value noKeys = chunk.zeros({chunk.rows, chunk.keyDim});
    Value noValues = chunk.zeros({chunk.rows, chunk.valueDim});
    storeRows(
        chunk,
        chunk.contract(dresult, state, noKeys, ContractForm::TransposedRhs),
        dquery);
    storeRows(chunk,
              chunk.contract(chunk.value, dstate, noKeys,
                             ContractForm::TransposedRhs),
              dkey);
    storeRows(chunk,
              chunk.contract(chunk.key, dstate, noValues, ContractForm::Plain),
              dvalue);
    return {};
  });
  if (dinitialState)
    storeState(chunk, dstate, dinitialState);
}

void GradientWriter::write() {
  writeItems([&](Chunk &chunk) {
    if (!isCausal)
      return writeFull(chunk);
    keepStates(chunk);
    SmallVector<Value> inits = {chunk.loadState(dfinalState)};
    bool isOfHeads =
        dlogDecay && cast<MemRefType>(inputs.logDecay.getType()).getRank() == 1;
    if (isOfHeads)
      inits.push_back(b.splat(chunk.rows, 0));
    SmallVector<Value> last = forChunks(
        inits,
        [&](Value number, ValueRange carried) -> SmallVector<Value> {
          return writeCausalChunk(chunk, number, carried);
        },
        /*isReversed=*/true);
    if (dinitialState)
      storeState(chunk, last[0], dinitialState);
    if (!isOfHeads)
      return;
    Value sum =
        vector::ReductionOp::create(b, vector::CombiningKind::ADD, last[1]);
    memref::StoreOp::create(b, sum, dlogDecay,
                            ValueRange{chunk.batch, chunk.head});
  });
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

template <typename OpTy>
static LogicalResult verifyPrepared(OpTy op) {
  if (!op.isBufferized())
    return op.emitOpError("must be bufferised");
  ScheduleAttrInterface schedule = op.getChosenSchedule();
  if (!schedule)
    return op.emitOpError("needs a schedule");
  if (isa<attn_tile::LinearRecurrentAttr>(schedule))
    return success();
  bool isOnGPU = schedule.getHeadDimTile() > 0;
  if (op.getSequences() && op.getWholeChunks() == isOnGPU)
    return op.emitOpError("'sequences' must ")
           << (isOnGPU ? "not have 'whole_chunks' on a GPU"
                       : "have 'whole_chunks', which 'attn-pad-sequences' "
                         "makes");
  auto pairs = dyn_cast<attn_tile::LinearPairsAttr>(Attribute(schedule));
  if (isOnGPU && bool(pairs) != op.needsPairMatrices())
    return op.emitOpError("schedule ")
           << (op.getBeta()           ? "with 'beta' must"
               : op.hasElementDecay() ? "with a decay of each key element must"
                                      : "without 'beta' must not")
           << " be #attn_tile.linear_pairs (was " << Attribute(schedule) << ")";
  if (pairs && op.hasElementDecay() != bool(pairs.getLevels()))
    return op.emitOpError("schedule ")
           << (pairs.getLevels() ? "without a decay of each key element must "
                                   "not have 'levels' (was "
                                 : "with a decay of each key element must have "
                                   "'levels' (was ")
           << Attribute(pairs) << ")";
  return success();
}

/// The operands of the kernel of `op`: its own, and the error flag if it has
/// log-decays or sequences, which kernels check.
template <typename OpTy>
static SmallVector<Value> getKernelOperands(OpBuilder &builder, OpTy op) {
  SmallVector<Value> operands(op->getOperands());
  if (op.getLogDecay() || op.getSequences())
    operands.push_back(attn_tile::ErrorFlagOp::create(
        builder, op.getLoc(), MemRefType::get({1}, builder.getI32Type())));
  return operands;
}

LogicalResult attn::lowerLinearAttentionToKernel(RewriterBase &rewriter,
                                                 LinearAttentionOp op,
                                                 SymbolTable &symbols) {
  if (failed(verifyPrepared(op)))
    return failure();
  ScheduleAttrInterface schedule = op.getChosenSchedule();
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  if (isa<attn_tile::LinearRecurrentAttr>(schedule)) {
    createLinearRecurrentKernels(rewriter, op, getKernelOperands(rewriter, op),
                                 symbols);
    return success();
  }
  if (schedule.getHeadDimTile() > 0) {
    if (op.needsPairMatrices())
      createLinearPairKernels(rewriter, op, symbols);
    else
      createLinearAttentionKernels(rewriter, op, symbols);
    return success();
  }
  attn_tile::KernelOp kernel =
      createKernel(rewriter, op, schedule, symbols, "_linear_attention",
                   getKernelOperands(rewriter, op));
  OutputWriter(rewriter, op, kernel).write();
  rewriter.eraseOp(op);
  return success();
}

/// Allocates the states before each chunk, if there is a chunk that needs them.
static Value allocateStates(OpBuilder &builder, LinearAttentionGradOp op) {
  TileProgramBuilder b(op.getLoc(), builder);
  Value query = op.getQuery();
  int64_t keyDim = llvm::alignTo(op.getKeyHeadDim(), headDimMultiple);
  int64_t valueDim = llvm::alignTo(op.getValueHeadDim(), headDimMultiple);
  Value chunks = b.countTiles(b.size(query, 2), op.getChunkOrDefault());
  if (!op.getCausal())
    chunks = b.index(0);
  Value stateRows = arith::MulIOp::create(b, chunks, b.index(keyDim));
  auto type = MemRefType::get(
      {ShapedType::kDynamic, op.getNumHeads(), ShapedType::kDynamic, valueDim},
      b.getF32Type());
  return memref::AllocOp::create(b, type,
                                 ValueRange{b.size(query, 0), stateRows});
}

LogicalResult attn::lowerLinearAttentionGradToKernel(RewriterBase &rewriter,
                                                     LinearAttentionGradOp op,
                                                     SymbolTable &symbols) {
  if (failed(verifyPrepared(op)))
    return failure();
  if (op.getScheduleAttr().getHeadDimTile() > 0) {
    if (op.needsPairMatrices())
      createLinearPairGradKernels(rewriter, op, symbols);
    else
      createLinearAttentionGradKernels(rewriter, op, symbols);
    return success();
  }
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Value states = allocateStates(rewriter, op);
  SmallVector<Value> operands = getKernelOperands(rewriter, op);
  operands.push_back(states);
  attn_tile::KernelOp kernel =
      createKernel(rewriter, op, op.getScheduleAttr(), symbols,
                   "_linear_attention_grad", operands);
  GradientWriter(rewriter, op, kernel).write();
  rewriter.setInsertionPointAfter(op);
  memref::DeallocOp::create(rewriter, op.getLoc(), states);
  rewriter.eraseOp(op);
  return success();
}
