//===- LinearAttentionChunk.cpp - Chunks of linear attention --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decays between tokens of a chunk have levels. At level `l` the chunk consists
// of blocks of 2^(l + 1) tokens; the token that begins the second half of a
// block is its middle. The decay from a token of the first half to one of the
// second half is the decay to the middle times the decay from the middle. So
// the decayed scores of all such pairs are one contraction of queries and keys
// with decays of their own. Each pair of different tokens is in exactly one
// level. If there is one decay for all of the head dim, the levels give a
// matrix of the decays of all pairs, and scores are one contraction times this
// matrix.
//
//===----------------------------------------------------------------------===//

#include "LinearAttentionChunk.h"
#include "CarriedLoop.h"
#include "ElementDecays.h"
#include "LogDecaySums.h"
#include "attn-runtime/attn_runtime.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

LinearAttentionChunk::LinearAttentionChunk(TileProgramBuilder &b,
                                           const LinearAttentionInputs &inputs,
                                           Value state, Value batch, Value head)
    : b(b), inputs(inputs), state(state), batch(batch), head(head),
      rows(inputs.chunk),
      keyDim(llvm::alignTo(getDimSize(inputs.query, 3), headDimMultiple)),
      valueDim(llvm::alignTo(getDimSize(inputs.value, 3), headDimMultiple)),
      decayDim(1) {
  if (inputs.logDecay &&
      cast<MemRefType>(inputs.logDecay.getType()).getRank() == 4)
    decayDim = keyDim;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

Value LinearAttentionChunk::emitOnes(ArrayRef<int64_t> shape, PairFn isOne) {
  return select(b.splat(shape, 1), isOne);
}

Value LinearAttentionChunk::sumRows(Value tile) {
  auto type = cast<VectorType>(tile.getType());
  return vector::MultiDimReductionOp::create(
      b, tile, b.splat(type.getDimSize(0), 0), ArrayRef<bool>{false, true},
      vector::CombiningKind::ADD);
}

Value LinearAttentionChunk::loadRows(Value source, Value head,
                                     int64_t columns) {
  return b.extend(
      b.load({rows, columns}, source, {batch, head, first, b.index(0)}));
}

Value LinearAttentionChunk::loadVector(Value source) {
  return b.load(rows, source, {batch, head, first});
}

Value LinearAttentionChunk::loadState(Value source) {
  // Negative zeros, which are no accumulator: where a sum of a matmul and a
  // tile becomes the accumulator of the matmul, upstream's canonicalization
  // replaces operands that are the accumulator before, too.
  if (!source)
    return b.splat({keyDim, valueDim}, -0.0);
  Value zero = b.index(0);
  return b.load({keyDim, valueDim}, source, {state, head, zero, zero});
}

/// Whether a row of the chunk is a token.
Value LinearAttentionChunk::isPresent(Value row) {
  Value token = arith::AddIOp::create(b, first, row);
  return compare(CmpIPredicate::slt, token, b.size(inputs.query, 2));
}

void LinearAttentionChunk::begin(Value firstToken, bool hasQueries,
                                 bool hasDecay) {
  first = firstToken;
  auto sharedHead = [&](int64_t group) -> Value {
    return group == 1 ? head : arith::DivUIOp::create(b, head, b.index(group));
  };
  if (hasQueries)
    query = loadRows(inputs.query, head, keyDim);
  key = loadRows(inputs.key, sharedHead(inputs.keyGroup), keyDim);
  value = loadRows(inputs.value, sharedHead(inputs.valueGroup), valueDim);
  logDecays = hasDecay && inputs.logDecay ? loadLogDecays() : Value();
  decayMatrix = Value();
}

/// Rows after the last token have a log-decay of zero.
Value LinearAttentionChunk::loadLogDecays() {
  SmallVector<int64_t> shape = {rows, decayDim};
  Value tile;
  switch (cast<MemRefType>(inputs.logDecay.getType()).getRank()) {
  case 1: {
    Value decay = memref::LoadOp::create(b, inputs.logDecay, head);
    tile = select(vector::BroadcastOp::create(b, b.f32Vector(shape), decay),
                  [&](Value row, Value) { return isPresent(row); });
    break;
  }
  case 3:
    tile = vector::ShapeCastOp::create(b, b.f32Vector(shape),
                                       loadVector(inputs.logDecay));
    break;
  default:
    tile = loadRows(inputs.logDecay, head, decayDim);
    break;
  }
  checkLogDecays(tile);
  tile = arith::MinimumFOp::create(b, tile, zeros(shape));
  return arith::MaximumFOp::create(b, tile, b.splat(shape, minLogDecay));
}

/// Reports log-decays that are positive or no numbers.
void LinearAttentionChunk::checkLogDecays(Value tile) {
  auto kind = vector::CombiningKind::MAXIMUMF;
  Value largest = vector::MultiDimReductionOp::create(
      b, tile, b.splat(rows, 0), ArrayRef<bool>{false, true}, kind);
  largest = vector::ReductionOp::create(b, kind, largest);
  Value isWrong =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UGT, largest, b.scalar(0));
  Value count = arith::SelectOp::create(b, isWrong, b.index(1), b.index(0));
  auto once = attn_tile::ThreadForOp::create(b, count);
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&once.getBody(), {}, b.getIndexType(), b.getLoc());
  Value code = arith::ConstantIntOp::create(b, ATTNRT_FAULT_LOG_DECAYS, 32);
  memref::StoreOp::create(b, code, inputs.fault, b.index(0));
  attn_tile::YieldOp::create(b, ValueRange());
}

//===----------------------------------------------------------------------===//
// Decays
//===----------------------------------------------------------------------===//

Value LinearAttentionChunk::repeatToHeadDim(Value tile) {
  if (decayDim == keyDim)
    return tile;
  return contract(tile, b.splat({decayDim, keyDim}, 1), zeros({rows, keyDim}),
                  ContractForm::Plain);
}

Value LinearAttentionChunk::sumOfHeadDim(Value tile) {
  if (decayDim == keyDim)
    return tile;
  return contract(tile, b.splat({keyDim, decayDim}, 1), zeros({rows, decayDim}),
                  ContractForm::Plain);
}

/// The matrix that adds up log-decays up to each token, or after it.
static Value emitSumMatrix(LinearAttentionChunk &chunk, bool isFromStart) {
  return chunk.emitOnes({chunk.rows, chunk.rows}, [&](Value row, Value column) {
    return chunk.compare(isFromStart ? CmpIPredicate::sge : CmpIPredicate::slt,
                         row, column);
  });
}

Value LinearAttentionChunk::emitDecays(Value matrix) {
  return exp(contract(matrix, logDecays, zeros({rows, decayDim}),
                      ContractForm::Plain));
}

Value LinearAttentionChunk::emitDecayGradient(Value decayed, bool isFromStart) {
  return contract(emitSumMatrix(*this, isFromStart), sumOfHeadDim(decayed),
                  zeros({rows, decayDim}), ContractForm::TransposedLhs);
}

/// Keeps the elements of the pairs of a level: their row and column are in the
/// second and the first half of one block.
Value LinearAttentionChunk::selectLevel(Value level, Value tile) {
  return select(tile, [&](Value row, Value column) {
    return emitIsOfLevel(b, b.getLoc(), level, row, column);
  });
}

/// The matrix that adds up log-decays between each token and the middle of its
/// block.
Value LinearAttentionChunk::emitLevelMatrix(Value level) {
  return emitOnes({rows, rows}, [&](Value row, Value column) {
    return emitIsToMiddle(b, b.getLoc(), level, row, column);
  });
}

SmallVector<Value> LinearAttentionChunk::forLevels(
    ValueRange inits,
    function_ref<SmallVector<Value>(Value level, ValueRange args)> body) {
  return emitCarriedLoop(b, b.index(llvm::Log2_64(uint64_t(rows))), inits,
                         body);
}

Value LinearAttentionChunk::emitIdentity() {
  return emitOnes({rows, rows}, [&](Value row, Value column) {
    return compare(CmpIPredicate::eq, row, column);
  });
}

Value LinearAttentionChunk::getDecayMatrix() {
  if (decayMatrix || decayDim == keyDim)
    return decayMatrix;
  decayMatrix = forLevels(emitIdentity(), [&](Value level, ValueRange args) {
    Value decays = emitDecays(emitLevelMatrix(level));
    Value ofPairs = contractRows(decays, decays);
    return SmallVector<Value>{add(args[0], selectLevel(level, ofPairs))};
  })[0];
  return decayMatrix;
}

Value LinearAttentionChunk::contractRows(Value lhs, Value rhs) {
  return contract(lhs, rhs, zeros({rows, rows}), ContractForm::TransposedRhs);
}

/// Keeps elements below the diagonal, and on it unless `isStrict`.
Value LinearAttentionChunk::selectLower(Value tile, bool isStrict) {
  return select(tile, [&](Value row, Value column) {
    return compare(isStrict ? CmpIPredicate::sgt : CmpIPredicate::sge, row,
                   column);
  });
}

Value LinearAttentionChunk::emitScores(Value lhs, Value rhs, bool isStrict) {
  if (!logDecays)
    return selectLower(contractRows(lhs, rhs), isStrict);
  if (Value matrix = getDecayMatrix()) {
    Value scores = mul(contractRows(lhs, rhs), matrix);
    return isStrict ? selectLower(scores, isStrict) : scores;
  }
  Value init = zeros({rows, rows});
  if (!isStrict)
    init = select(contractRows(lhs, rhs), [&](Value row, Value column) {
      return compare(CmpIPredicate::eq, row, column);
    });
  return forLevels(init, [&](Value level, ValueRange args) {
    Value decays = emitDecays(emitLevelMatrix(level));
    Value scores = contractRows(mul(lhs, decays), mul(rhs, decays));
    return SmallVector<Value>{add(args[0], selectLevel(level, scores))};
  })[0];
}

LinearAttentionChunk::ScoreGradients
LinearAttentionChunk::emitScoreGradients(Value gradient, Value lhs, Value rhs) {
  Value none = zeros({rows, keyDim});
  auto contractBoth = [&](Value part, Value left, Value right) {
    return std::pair(contract(part, right, none, ContractForm::Plain),
                     contract(part, left, none, ContractForm::TransposedLhs));
  };
  if (!logDecays) {
    auto [ofLhs, ofRhs] = contractBoth(gradient, lhs, rhs);
    return {ofLhs, ofRhs, Value()};
  }
  if (Value matrix = getDecayMatrix()) {
    Value decayed = mul(gradient, matrix);
    auto [ofLhs, ofRhs] = contractBoth(decayed, lhs, rhs);
    return {ofLhs, ofRhs,
            emitDecayMatrixGradient(mul(decayed, contractRows(lhs, rhs)))};
  }
  Value diagonal = select(gradient, [&](Value row, Value column) {
    return compare(CmpIPredicate::eq, row, column);
  });
  auto [lhsInit, rhsInit] = contractBoth(diagonal, lhs, rhs);
  SmallVector<Value> results =
      forLevels({lhsInit, rhsInit, none}, [&](Value level, ValueRange args) {
        Value matrix = emitLevelMatrix(level);
        Value decays = emitDecays(matrix);
        Value left = mul(lhs, decays), right = mul(rhs, decays);
        auto [ofLeft, ofRight] =
            contractBoth(selectLevel(level, gradient), left, right);
        // A token has a decay from the middle or to it, never both.
        Value ofDecays = add(mul(ofLeft, left), mul(ofRight, right));
        return SmallVector<Value>{
            add(args[0], mul(ofLeft, decays)),
            add(args[1], mul(ofRight, decays)),
            contract(matrix, ofDecays, args[2], ContractForm::TransposedLhs)};
      });
  return {results[0], results[1], results[2]};
}

/// The gradient of log-decays from the decay matrix times its gradient.
Value LinearAttentionChunk::emitDecayMatrixGradient(Value decayed) {
  Value none = zeros({rows, decayDim});
  return forLevels(none, [&](Value level, ValueRange args) {
    Value ofLevel = selectLevel(level, decayed);
    Value ones = b.splat({rows, decayDim}, 1);
    Value ofSecond = contract(ofLevel, ones, none, ContractForm::Plain);
    Value ofBoth =
        contract(ofLevel, ones, ofSecond, ContractForm::TransposedLhs);
    return SmallVector<Value>{contract(emitLevelMatrix(level), ofBoth, args[0],
                                       ContractForm::TransposedLhs)};
  })[0];
}

/// The inverse of the identity plus `matrix`, which is zero on and above the
/// diagonal. At each level, the inverse of a block of two halves has the
/// inverses of both on its diagonal and, below, minus the second one times the
/// matrix times the first one.
Value LinearAttentionChunk::emitInverse(Value matrix) {
  Value none = zeros({rows, rows});
  return forLevels(emitIdentity(), [&](Value level, ValueRange args) {
    Value ofLevel = selectLevel(level, matrix);
    Value right = contract(ofLevel, args[0], none, ContractForm::Plain);
    Value below = contract(args[0], right, none, ContractForm::Plain);
    return SmallVector<Value>{arith::SubFOp::create(b, args[0], below)};
  })[0];
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

LinearAttentionChunk::Step LinearAttentionChunk::emitStep(Value state) {
  Step step;
  step.keyFromStart = step.keyToEnd = key;
  Value decayed = state;
  if (logDecays) {
    auto emitSums = [&](bool isFromStart) {
      return repeatToHeadDim(emitDecays(emitSumMatrix(*this, isFromStart)));
    };
    step.fromStart = emitSums(/*isFromStart=*/true);
    step.toEnd = emitSums(/*isFromStart=*/false);
    // All log-decays added up, in each column of the state.
    Value logDecay =
        contract(logDecays, b.splat({rows, valueDim}, 1),
                 zeros({decayDim, valueDim}), ContractForm::TransposedLhs);
    step.whole = exp(logDecay);
    if (decayDim != keyDim)
      step.whole = vector::BroadcastOp::create(
          b, b.f32Vector({keyDim, valueDim}), step.whole);
    step.keyFromStart = mul(key, step.fromStart);
    step.keyToEnd = mul(key, step.toEnd);
    decayed = mul(state, step.whole);
  }
  step.update = value;
  if (inputs.beta) {
    step.beta = loadVector(inputs.beta);
    step.keyScores = emitScores(key, key, /*isStrict=*/true);
    step.inverse =
        emitInverse(mul(step.keyScores, b.broadcast(step.beta, {rows, rows})));
    Value known = contract(step.keyFromStart, state, zeros({rows, valueDim}),
                           ContractForm::Plain);
    step.residual = arith::SubFOp::create(b, value, known);
    Value scaled = mul(step.residual, b.broadcast(step.beta, {rows, valueDim}));
    step.update = contract(step.inverse, scaled, zeros({rows, valueDim}),
                           ContractForm::Plain);
  }
  step.state = contract(step.keyToEnd, step.update, decayed,
                        ContractForm::TransposedLhs);
  return step;
}
