//===- PairGradKernel.cpp - Gradients of queries and keys -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PairGradKernel.h"
#include "CreateKernel.h"
#include "ElementDecays.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

namespace {
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
    /// Columns of queries and keys, times or over decays if these are factors
    /// of elements; rows of the state and its gradient.
    Value query, key, state, dstate;
    /// Cumulative log-decays and decays of tokens, null without; and beta.
    std::optional<Sum> sums;
    Value fromStart, toEnd, beta;
    /// The gradients of the scores of queries and keys and, with beta, of keys
    /// and keys: with decays, and rounded.
    Value dscores, dkeyScores;
  };

  /// Gradients of columns of keys with a decay of each key element, before the
  /// scale; the keys, and the terms of rows of the gradient of log-decays, see
  /// LinearDecayGradKernel.h.
  struct ElementGradients {
    Value ofKey, keys, rowTerms;
  };

  Tiles loadTiles(const WorkItem &at, const Chunk &chunk);
  void emitScoreGradients(const WorkItem &at, const Chunk &chunk, Tiles &tiles);
  Value loadColumns(Value source, const WorkItem &at, const Chunk &chunk) {
    return loadRows(source, at, chunk, at.head, at.column, valueDim);
  }
  Value contract(Value lhs, Value rhs, Value acc, ContractForm form) {
    return b.contract(lhs, rhs, acc ? acc : zeros({chunkTokens, valueDim}),
                      form);
  }
  Value emitOfKnown(const Tiles &tiles);
  Value emitSumsToEnd(const WorkItem &at, const Chunk &chunk, Value sums);
  ElementGradients emitFactored(const WorkItem &at, const Chunk &chunk,
                                const Tiles &tiles, Value sums);
  ElementGradients emitByLevels(const WorkItem &at, const Chunk &chunk,
                                const Tiles &tiles, Value sums);
  void addLevel(ElementDecays &decays, Value level, const Tiles &tiles,
                Value &ofQueries, ElementGradients &gradients);
  void writeElements(const WorkItem &at, const Chunk &chunk,
                     const Tiles &tiles);
  Value loadStateRows(Value source, const WorkItem &at, const Chunk &chunk);
  Value decay(Value tile, Value factors) {
    return factors ? mul(tile, repeat(factors, {chunkTokens, valueDim})) : tile;
  }
  Value add(Value lhs, Value rhs) { return arith::AddFOp::create(b, lhs, rhs); }
  Value dot(Value tile, Value rows) { return sumRows(mul(tile, rows)); }
  void storeTerm(const WorkItem &at, const Chunk &chunk, Value rows,
                 Value dest);
  void storeChunkTerms(const WorkItem &at, const Chunk &chunk,
                       const Tiles &tiles);
  void storeBetaGradient(const WorkItem &at, const Chunk &chunk, Value ofPairs);
  void writeChunk(const WorkItem &at, const Chunk &chunk);

  Value query, dquery, dkey, dbeta;
  GradientInputs inputs;
};
} // namespace

SmallVector<Value> PairGradWriter::getOperands(const LinearKernelForm &form,
                                               const GradientInputs &inputs,
                                               Value dkey, Value dbeta,
                                               const ChunkSplits &splits) {
  const DecayGradWorkspace &terms = inputs.workspace;
  bool isFactored = form.range == DecayRange::Factored;
  SmallVector<Value> operands = {isFactored ? form.decayed.query : form.query,
                                 form.key,
                                 isFactored ? Value() : form.value,
                                 form.chunkTable,
                                 form.out,
                                 dkey,
                                 dbeta,
                                 form.cumulative,
                                 form.beta,
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
                                 terms.rowTerms,
                                 terms.stateTerms,
                                 hasChunkTerms(form) ? terms.chunkTerms
                                                     : Value(),
                                 splits.count,
                                 splits.chunks};
  llvm::append_range(operands, form.getRangeOperands());
  operands.push_back(form.decayed.sums);
  return dropNull(operands);
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
  tiles.dout = loadWhole(inputs.dout);
  tiles.update = loadWhole(inputs.kept.updates);
  if (beta)
    tiles.solved = loadWhole(inputs.gradients.residuals);
  bool isFactored = form.range == DecayRange::Factored;
  tiles.query = loadColumns(isFactored ? decayed.query : query, at, chunk);
  tiles.key = loadColumns(isFactored ? decayed.keyOverStart : value, at, chunk);
  tiles.state = loadStateRows(inputs.kept.states, at, chunk);
  tiles.dstate = loadStateRows(inputs.gradients.states, at, chunk);
  if (beta)
    tiles.beta = loadTokens(beta, at, chunk);
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
               {loop.getInductionVar(), at.batch, at.head, chunk.firstRow},
               /*position=*/{}, /*length=*/{}, /*inBounds=*/true);
    scf::YieldOp::create(b, add(loop.getRegionIterArg(0), terms));
  }
  Value sum = loop.getResult(0);
  storeTokens(at, chunk, sum, dbeta);
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
  if (!beta)
    return;
  Value ofKeys = multiply(b.contract(tiles.solved, tiles.update, zeros(shape),
                                     ContractForm::TransposedRhs),
                          -1);
  if (dbeta) {
    Value keyScores =
        b.extend(b.load(shape, inputs.pairs.keyScores,
                        {at.batch, at.head, chunk.firstRow, b.index(0)}));
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
      ValueRange{at.tile, at.batch, at.head, chunk.firstRow});
}

/// Stores the terms of the gradient of log-decays from the rows of the state:
/// the state before the chunk times the decayed gradient of the state after it.
void PairGradWriter::storeChunkTerms(const WorkItem &at, const Chunk &chunk,
                                     const Tiles &tiles) {
  Value ofChunk = vector::BroadcastOp::create(b, b.f32Vector(valueDim),
                                              emitDecay(loadTotal(at, chunk)));
  Value sums = dot(b.extend(tiles.state), b.extend(tiles.dstate));
  Value rows = b.index(inputs.workspace.stateRows);
  Value first = arith::AddIOp::create(
      b, arith::MulIOp::create(b, chunk.number, rows), at.column);
  attn_tile::StoreOp::create(b, mul(multiply(sums, form.scale), ofChunk),
                             inputs.workspace.chunkTerms,
                             ValueRange{b.index(0), at.batch, at.head, first});
}

/// The gradient of the keys' products with the state, whose values are known;
/// null without beta.
Value PairGradWriter::emitOfKnown(const Tiles &tiles) {
  if (!beta)
    return {};
  Value dvalues =
      mul(b.extend(tiles.solved), repeat(tiles.beta, {chunkTokens, keyDim}));
  return multiply(contract(b.round(dvalues, element), tiles.state, {},
                           ContractForm::TransposedRhs),
                  -1);
}

void PairGradWriter::writeChunk(const WorkItem &at, const Chunk &chunk) {
  Tiles tiles = loadTiles(at, chunk);
  emitScoreGradients(at, chunk, tiles);
  if (form.elementDecay)
    return writeElements(at, chunk, tiles);
  const DecayGradWorkspace &terms = inputs.workspace;
  bool hasTerms = bool(terms.queryDots);
  Value ofQuery =
      decay(contract(tiles.dout, tiles.state, {}, ContractForm::TransposedRhs),
            tiles.fromStart);
  ofQuery = contract(tiles.dscores, tiles.key, ofQuery, ContractForm::Plain);
  storeRows(at, chunk, multiply(ofQuery, form.scale), dquery);
  // Terms are added up where gradients are, so that these leave registers.
  Value queryDots = hasTerms ? dot(ofQuery, b.extend(tiles.query)) : Value();

  // As a later token, with the state before the chunk and with earlier keys.
  Value ofLater = decay(emitOfKnown(tiles), tiles.fromStart);
  ofLater = contract(tiles.dkeyScores, tiles.key, ofLater, ContractForm::Plain);
  Value keys = hasTerms ? b.extend(tiles.key) : Value();
  if (hasTerms)
    storeTerm(at, chunk, add(queryDots, dot(ofLater, keys)), terms.queryDots);

  // As an earlier one, with the state after it and with later queries and keys.
  Value ofState = decay(
      contract(tiles.update, tiles.dstate, {}, ContractForm::TransposedRhs),
      tiles.toEnd);
  if (hasTerms)
    storeTerm(at, chunk, dot(ofState, keys), terms.stateDots);
  Value ofEarlier = contract(tiles.dscores, tiles.query, ofState,
                             ContractForm::TransposedLhs);
  ofEarlier = contract(tiles.dkeyScores, tiles.key, ofEarlier,
                       ContractForm::TransposedLhs);
  storeRows(at, chunk, multiply(add(ofLater, ofEarlier), form.scale), dkey);
  if (!hasTerms)
    return;
  storeTerm(at, chunk, dot(ofEarlier, keys), terms.keyDots);
  if (hasChunkTerms(form))
    storeChunkTerms(at, chunk, tiles);
}

//===----------------------------------------------------------------------===//
// Decays of key elements
//===----------------------------------------------------------------------===//

/// The binary logarithms of decays from each token to the end of a chunk.
/// `sums` are those from its beginning.
Value PairGradWriter::emitSumsToEnd(const WorkItem &at, const Chunk &chunk,
                                    Value sums) {
  Value last =
      arith::AddIOp::create(b, chunk.firstRow, b.index(chunkTokens - 1));
  // Not through a pipe, whose copies of a row need all of its columns.
  Value total =
      b.load({1, valueDim}, decayed.sums, {at.batch, at.head, last, at.column});
  return arith::SubFOp::create(b, repeat(total, {chunkTokens, valueDim}), sums);
}

/// Gradients of rows times decays, which are gradients of the rows times these.
/// One after the other is added, so that few are in registers.
PairGradWriter::ElementGradients
PairGradWriter::emitFactored(const WorkItem &at, const Chunk &chunk,
                             const Tiles &tiles, Value sums) {
  ElementGradients gradients;
  auto add = [&](Value &sum, Value term) {
    sum = sum ? arith::AddFOp::create(b, sum, term).getResult() : term;
  };
  Value ofEarlier =
      contract(tiles.dscores, tiles.query, {}, ContractForm::TransposedLhs);
  if (beta) {
    Value laterKeys = loadColumns(decayed.keyFromStart, at, chunk);
    ofEarlier = contract(tiles.dkeyScores, laterKeys, ofEarlier,
                         ContractForm::TransposedLhs);
    Value ofLater = contract(tiles.dkeyScores, tiles.key, emitOfKnown(tiles),
                             ContractForm::Plain);
    add(gradients.rowTerms, mul(ofLater, b.extend(laterKeys)));
    add(gradients.ofKey, mul(ofLater, math::Exp2Op::create(b, sums)));
  }
  Value ofQuery =
      contract(tiles.dout, tiles.state, {}, ContractForm::TransposedRhs);
  ofQuery = contract(tiles.dscores, tiles.key, ofQuery, ContractForm::Plain);
  add(gradients.rowTerms, mul(ofQuery, b.extend(tiles.query)));
  Value decays = math::Exp2Op::create(b, sums);
  storeRows(at, chunk, multiply(mul(ofQuery, decays), form.scale), dquery);
  Value keys = b.extend(tiles.key);
  gradients.rowTerms =
      arith::SubFOp::create(b, gradients.rowTerms, mul(ofEarlier, keys));
  gradients.keys = mul(keys, decays);
  add(gradients.ofKey,
      mul(ofEarlier, math::Exp2Op::create(b, multiply(sums, -1))));
  return gradients;
}

/// Adds the gradients of the pairs of a level. A token is the later one or the
/// earlier one of all of its pairs.
void PairGradWriter::addLevel(ElementDecays &decays, Value level,
                              const Tiles &tiles, Value &ofQueries,
                              ElementGradients &gradients) {
  Value ofLevel = decays.emitDecays(level);
  Value left = b.round(mul(b.extend(tiles.query), ofLevel), element);
  Value right = b.round(mul(gradients.keys, ofLevel), element);
  Value pairs = decays.selectLevel(level, tiles.dscores);
  Value ofQuery = contract(pairs, right, {}, ContractForm::Plain);
  Value ofEarlier = contract(pairs, left, {}, ContractForm::TransposedLhs);
  Value ofKey = ofEarlier;
  Value terms = mul(ofQuery, b.extend(left));
  if (beta) {
    Value keyPairs = decays.selectLevel(level, tiles.dkeyScores);
    Value ofLater = contract(keyPairs, right, {}, ContractForm::Plain);
    ofEarlier =
        contract(keyPairs, right, ofEarlier, ContractForm::TransposedLhs);
    ofKey = add(ofLater, ofEarlier);
    terms = add(terms, mul(ofLater, b.extend(right)));
  }
  ofQueries = add(ofQueries, mul(ofQuery, ofLevel));
  gradients.ofKey = add(gradients.ofKey, mul(ofKey, ofLevel));
  terms = arith::SubFOp::create(b, terms, mul(ofEarlier, b.extend(right)));
  gradients.rowTerms = add(gradients.rowTerms, terms);
}

PairGradWriter::ElementGradients
PairGradWriter::emitByLevels(const WorkItem &at, const Chunk &chunk,
                             const Tiles &tiles, Value sums) {
  Value ofKnown = emitOfKnown(tiles);
  Value fromStart = math::Exp2Op::create(b, sums);
  ElementGradients gradients;
  gradients.keys = b.extend(tiles.key);
  Value ofQuery =
      contract(tiles.dout, tiles.state, {}, ContractForm::TransposedRhs);
  ofQuery = mul(ofQuery, fromStart);
  gradients.rowTerms = mul(ofQuery, b.extend(tiles.query));
  ElementDecays decays(b, elementDecay,
                       {at.batch, at.head, chunk.firstToken, at.column},
                       {chunkTokens, valueDim}, element);
  // A token with itself.
  Value diagonal = decays.selectDiagonal(tiles.dscores);
  ofQuery = contract(diagonal, tiles.key, ofQuery, ContractForm::Plain);
  gradients.ofKey =
      contract(diagonal, tiles.query, {}, ContractForm::TransposedLhs);
  if (beta) {
    Value ofLater = mul(ofKnown, fromStart);
    gradients.ofKey = add(gradients.ofKey, ofLater);
    gradients.rowTerms = add(gradients.rowTerms, mul(ofLater, gradients.keys));
  }
  SmallVector<Value> last = decays.forLevels(
      {ofQuery, gradients.ofKey, gradients.rowTerms},
      [&](Value level, ValueRange carried) {
        ElementGradients next = {carried[1], gradients.keys, carried[2]};
        Value nextOfQuery = carried[0];
        addLevel(decays, level, tiles, nextOfQuery, next);
        return SmallVector<Value>{nextOfQuery, next.ofKey, next.rowTerms};
      });
  storeRows(at, chunk, multiply(last[0], form.scale), dquery);
  return {last[1], gradients.keys, last[2]};
}

/// Writes the gradients with a decay of each key element.
void PairGradWriter::writeElements(const WorkItem &at, const Chunk &chunk,
                                   const Tiles &tiles) {
  Value sums = b.load({chunkTokens, valueDim}, decayed.sums,
                      {at.batch, at.head, chunk.firstRow, at.column});
  ElementGradients gradients = form.range == DecayRange::Factored
                                   ? emitFactored(at, chunk, tiles, sums)
                                   : emitByLevels(at, chunk, tiles, sums);
  Value toEnd = math::Exp2Op::create(b, emitSumsToEnd(at, chunk, sums));
  Value ofState =
      mul(contract(tiles.update, tiles.dstate, {}, ContractForm::TransposedRhs),
          toEnd);
  storeRows(at, chunk, multiply(add(gradients.ofKey, ofState), form.scale),
            dkey);
  const DecayGradWorkspace &terms = inputs.workspace;
  if (!terms.rowTerms)
    return;
  storeRows(at, chunk, multiply(gradients.rowTerms, form.scale),
            terms.rowTerms);
  storeRows(at, chunk, multiply(mul(ofState, gradients.keys), form.scale),
            terms.stateTerms);
}

void PairGradWriter::write() {
  writeChunks(
      [&](const WorkItem &at, const Chunk &chunk) { writeChunk(at, chunk); });
}

void attn::createPairGradients(RewriterBase &rewriter, LinearAttentionGradOp op,
                               LinearKernelForm form,
                               const GradientInputs &inputs,
                               SymbolTable &symbols) {
  form.query = op.getQuery();
  form.key = op.getValue();
  form.value = op.getKey();
  form.out = op.getDquery();
  form.sequences = Value();
  form = withSchedule(form, getOfGradients(getParts(form.op)));
  ChunkSplits splits = createSplits(rewriter, form, form.countTiles());
  createForRanges(form, [&](const LinearKernelForm &ofRange, StringRef suffix) {
    attn_tile::KernelOp kernel =
        createKernel(rewriter, op, ofRange.schedule, symbols,
                     ("_linear_pair_grad" + suffix).str(),
                     PairGradWriter::getOperands(ofRange, inputs, op.getDkey(),
                                                 op.getDbeta(), splits));
    PairGradWriter(rewriter, ofRange, kernel, inputs, op.getDkey(),
                   op.getDbeta(), splits)
        .write();
    rewriter.setInsertionPoint(op);
  });
}
