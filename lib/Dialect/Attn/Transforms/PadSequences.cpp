//===- PadSequences.cpp - Packed sequences in whole chunks ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels of linear attention go through whole chunks of tokens. Packed
// sequences with states begin with a state of their own, so each gets chunks of
// its own: rows are copied to tensors with zeros between sequences, and rows of
// results are copied back. Kernels of GPUs take sequences as they are.
//
//===----------------------------------------------------------------------===//

#include "FunctionArguments.h"
#include "attn/Analysis/SortedSearch.h"
#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNPADSEQUENCESPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;
using utils::IteratorType;

using Sizes = SmallVector<OpFoldResult>;

/// The dimensions of heads and tokens of rows.
static constexpr int64_t headDim = 1, tokenDim = 2;

/// In the tensor of the tokens of padded rows: a row without a token.
static constexpr int32_t noToken = -1;

/// The boundary of a padded sequence if given ones are wrong.
static constexpr int32_t wrongBoundary = -1;

namespace {
/// Pads the sequences of one operation.
template <typename OpTy>
class SequencePadding {
public:
  SequencePadding(RewriterBase &rewriter, OpTy op)
      : rewriter(rewriter), b(op.getLoc(), rewriter), op(op),
        chunk(op.getChunkOrDefault()) {}

  void run();

private:
  using Body = function_ref<Value(ImplicitLocOpBuilder &, ValueRange)>;
  /// The number of a sequence, its boundaries as they are given, and between 0
  /// and the number of tokens.
  struct Sequence {
    Value number, givenBegin, givenEnd, begin, end;
  };
  using BeginOf = function_ref<Value(ImplicitLocOpBuilder &, const Sequence &)>;

  Sizes getSizes(Value tensor) {
    return tensor::getMixedSizes(b, b.getLoc(), tensor);
  }
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  Value getSize(Value tensor, int64_t dim) {
    return b.createOrFold<tensor::DimOp>(tensor, dim);
  }
  Value emitElements(const Sizes &sizes, Type element, Value input,
                     AffineMap mapOfInput, Body body, Value init = Value());
  SmallVector<Value> getStates();
  void computeSizes();
  Value emitIsConsistent();
  Value emitClamped(ImplicitLocOpBuilder &c, Value boundary);
  Value emitFirstRow(ImplicitLocOpBuilder &c, const Sequence &sequence);
  Value emitIsWrong(ImplicitLocOpBuilder &c, const Sequence &sequence);
  Sequence emitSequence(ImplicitLocOpBuilder &c, Value number);
  Value emitPlaces(
      Value size, int32_t none, BeginOf beginOf,
      function_ref<Value(ImplicitLocOpBuilder &, Value, const Sequence &)>
          body);
  Value emitTokens();
  Value emitRows();
  Value emitStarts();
  Value emitPadded(Value source);
  Value emitLogDecays();
  Value emitDestination(Value init);
  Value emitUnpadded(Value padded, Value init);
  Value emitSumOfTokens(Value padded, Value init);
  SmallVector<MutableOperandRange> getTokenOperands(OpTy clone);
  SmallVector<Value> emitResults(OpTy padded);

  RewriterBase &rewriter;
  ImplicitLocOpBuilder b;
  OpTy op;
  int64_t chunk;
  /// The numbers of tokens, sequences, padded rows, and sequences that kernels
  /// are given.
  Value length, count, numRows, numGiven;
  /// The token of each padded row, and the padded row of each token.
  Value tokens, rows;
};
} // namespace

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// Emits a tensor whose elements `body` computes from elements of `input`, if
/// there is one, and from their places, into `init` if it is given.
template <typename OpTy>
Value SequencePadding<OpTy>::emitElements(const Sizes &sizes, Type element,
                                          Value input, AffineMap mapOfInput,
                                          Body body, Value init) {
  if (!init)
    init = tensor::EmptyOp::create(b, sizes, element);
  int64_t rank = cast<RankedTensorType>(init.getType()).getRank();
  SmallVector<AffineMap> maps;
  SmallVector<Value> inputs;
  if (input) {
    maps.push_back(mapOfInput);
    inputs.push_back(input);
  }
  maps.push_back(b.getMultiDimIdentityMap(rank));
  auto generic = linalg::GenericOp::create(
      b, init.getType(), inputs, init, maps,
      SmallVector<IteratorType>(rank, IteratorType::parallel),
      [&](OpBuilder &builder, Location loc, ValueRange arguments) {
        ImplicitLocOpBuilder c(loc, builder);
        linalg::YieldOp::create(c, body(c, arguments.drop_back()));
      });
  return generic.getResult(0);
}

/// The given states and the destinations of states.
template <typename OpTy>
SmallVector<Value> SequencePadding<OpTy>::getStates() {
  SmallVector<Value> states = {op.getInitialState()};
  if constexpr (std::is_same_v<OpTy, LinearAttentionOp>)
    states.push_back(op.getFinalState());
  else
    states.append({op.getDfinalState(), op.getDinitialState()});
  llvm::erase(states, Value());
  return states;
}

template <typename OpTy>
void SequencePadding<OpTy>::computeSizes() {
  length = getSize(op.getQuery(), tokenDim);
  Value boundaries = getSize(op.getSequences(), 0), one = index(1);
  // A function may be called with no boundaries at all.
  boundaries = b.createOrFold<arith::MaxUIOp>(boundaries, one);
  count = b.createOrFold<arith::SubIOp>(boundaries, one);
  Value whole = b.createOrFold<arith::DivUIOp>(length, index(chunk));
  Value least = b.createOrFold<arith::MaxUIOp>(count, one);
  Value chunks = b.createOrFold<arith::AddIOp>(whole, least);
  numRows = b.createOrFold<arith::MulIOp>(chunks, index(chunk));
  // Kernels read and write a state of each sequence that they are given,
  // whether or not the numbers are consistent.
  Value batch = getSize(op.getQuery(), 0);
  Value isEmpty =
      b.createOrFold<arith::CmpIOp>(CmpIPredicate::eq, batch, index(0));
  numGiven = b.createOrFold<arith::SelectOp>(isEmpty, index(0), count);
  for (Value state : getStates())
    numGiven = b.createOrFold<arith::MinUIOp>(numGiven, getSize(state, 0));
}

/// Whether there is one batch entry, a sequence if there are tokens, and a
/// state for each sequence.
template <typename OpTy>
Value SequencePadding<OpTy>::emitIsConsistent() {
  auto isEqual = [&](Value lhs, Value rhs) {
    return b.createOrFold<arith::CmpIOp>(CmpIPredicate::eq, lhs, rhs);
  };
  Value zero = index(0),
        hasSequence =
            b.createOrFold<arith::CmpIOp>(CmpIPredicate::ne, count, zero);
  Value result = b.createOrFold<arith::AndIOp>(
      isEqual(getSize(op.getQuery(), 0), index(1)),
      b.createOrFold<arith::OrIOp>(hasSequence, isEqual(length, zero)));
  for (Value state : getStates())
    result = b.createOrFold<arith::AndIOp>(result,
                                           isEqual(getSize(state, 0), count));
  return result;
}

template <typename OpTy>
Value SequencePadding<OpTy>::emitClamped(ImplicitLocOpBuilder &c,
                                         Value boundary) {
  Value zero = arith::ConstantIndexOp::create(c, 0);
  boundary = arith::MaxSIOp::create(c, boundary, zero);
  return arith::MinSIOp::create(c, boundary, length);
}

/// The first padded row of a sequence.
template <typename OpTy>
Value SequencePadding<OpTy>::emitFirstRow(ImplicitLocOpBuilder &c,
                                          const Sequence &sequence) {
  Value size = arith::ConstantIndexOp::create(c, chunk);
  Value whole = arith::DivUIOp::create(c, sequence.begin, size);
  return arith::MulIOp::create(
      c, arith::AddIOp::create(c, whole, sequence.number), size);
}

/// Whether the boundaries of a sequence are not sorted, or do not go from the
/// first to the last token.
template <typename OpTy>
Value SequencePadding<OpTy>::emitIsWrong(ImplicitLocOpBuilder &c,
                                         const Sequence &sequence) {
  auto compare = [&](CmpIPredicate predicate, Value lhs, Value rhs) -> Value {
    return arith::CmpIOp::create(c, predicate, lhs, rhs);
  };
  auto both = [&](Value lhs, Value rhs) -> Value {
    return arith::AndIOp::create(c, lhs, rhs);
  };
  Value zero = arith::ConstantIndexOp::create(c, 0);
  Value next = arith::AddIOp::create(c, sequence.number,
                                     arith::ConstantIndexOp::create(c, 1));
  Value conditions[] = {
      compare(CmpIPredicate::sgt, sequence.givenBegin, sequence.givenEnd),
      compare(CmpIPredicate::ne, sequence.givenBegin, sequence.begin),
      compare(CmpIPredicate::ne, sequence.givenEnd, sequence.end),
      both(compare(CmpIPredicate::eq, sequence.number, zero),
           compare(CmpIPredicate::ne, sequence.begin, zero)),
      both(compare(CmpIPredicate::eq, next, count),
           compare(CmpIPredicate::ne, sequence.end, length))};
  Value isWrong = conditions[0];
  for (Value condition : ArrayRef(conditions).drop_front())
    isWrong = arith::OrIOp::create(c, isWrong, condition);
  return isWrong;
}

/// Reads the boundaries of a sequence.
template <typename OpTy>
typename SequencePadding<OpTy>::Sequence
SequencePadding<OpTy>::emitSequence(ImplicitLocOpBuilder &c, Value number) {
  auto read = [&](Value at) -> Value {
    Value boundary = tensor::ExtractOp::create(c, op.getSequences(), at);
    return arith::IndexCastOp::create(c, c.getIndexType(), boundary);
  };
  Sequence sequence;
  sequence.number = number;
  sequence.givenBegin = read(number);
  sequence.givenEnd = read(
      arith::AddIOp::create(c, number, arith::ConstantIndexOp::create(c, 1)));
  sequence.begin = emitClamped(c, sequence.givenBegin);
  sequence.end = emitClamped(c, sequence.givenEnd);
  return sequence;
}

/// Emits `size` numbers that `body` computes from places and the last sequences
/// that begin at or before them, or `none` without a sequence.
template <typename OpTy>
Value SequencePadding<OpTy>::emitPlaces(
    Value size, int32_t none, BeginOf beginOf,
    function_ref<Value(ImplicitLocOpBuilder &, Value, const Sequence &)> body) {
  return emitElements(
      {getAsOpFoldResult(size)}, b.getI32Type(), Value(), AffineMap(),
      [&](ImplicitLocOpBuilder &c, ValueRange) -> Value {
        Value place = linalg::IndexOp::create(c, 0);
        Value zero = arith::ConstantIndexOp::create(c, 0);
        Value hasSequence =
            arith::CmpIOp::create(c, CmpIPredicate::ne, count, zero);
        auto branch = scf::IfOp::create(
            c, hasSequence,
            [&](OpBuilder &then, Location loc) {
              ImplicitLocOpBuilder d(loc, then);
              // The last sequence that begins at or before the place.
              Value number = emitLastAtMost(
                  d, count, place, [&](ImplicitLocOpBuilder &e, Value middle) {
                    return beginOf(e, emitSequence(e, middle));
                  });
              scf::YieldOp::create(d, body(d, place, emitSequence(d, number)));
            },
            [&](OpBuilder &other, Location loc) {
              ImplicitLocOpBuilder d(loc, other);
              Value without = arith::ConstantIntOp::create(d, none, 32);
              scf::YieldOp::create(d, without);
            });
        return branch.getResult(0);
      });
}

/// Emits the token of each padded row.
template <typename OpTy>
Value SequencePadding<OpTy>::emitTokens() {
  auto beginOf = [&](ImplicitLocOpBuilder &c, const Sequence &sequence) {
    return emitFirstRow(c, sequence);
  };
  return emitPlaces(
      numRows, noToken, beginOf,
      [&](ImplicitLocOpBuilder &c, Value row,
          const Sequence &sequence) -> Value {
        Value first = emitFirstRow(c, sequence);
        Value token = arith::AddIOp::create(
            c, sequence.begin, arith::SubIOp::create(c, row, first));
        Value isInside = arith::AndIOp::create(
            c, arith::CmpIOp::create(c, CmpIPredicate::sge, row, first),
            arith::CmpIOp::create(c, CmpIPredicate::slt, token, sequence.end));
        token = arith::IndexCastOp::create(c, c.getI32Type(), token);
        return arith::SelectOp::create(
            c, isInside, token, arith::ConstantIntOp::create(c, noToken, 32));
      });
}

/// Emits the padded row of each token.
template <typename OpTy>
Value SequencePadding<OpTy>::emitRows() {
  auto beginOf = [](ImplicitLocOpBuilder &, const Sequence &sequence) {
    return sequence.begin;
  };
  return emitPlaces(
      length, /*none=*/0, beginOf,
      [&](ImplicitLocOpBuilder &c, Value token,
          const Sequence &sequence) -> Value {
        Value row = arith::AddIOp::create(
            c, emitFirstRow(c, sequence),
            arith::SubIOp::create(c, token, sequence.begin));
        Value isInside = arith::AndIOp::create(
            c,
            arith::CmpIOp::create(c, CmpIPredicate::sge, token, sequence.begin),
            arith::CmpIOp::create(c, CmpIPredicate::slt, token, sequence.end));
        row = arith::IndexCastOp::create(c, c.getI32Type(), row);
        return arith::SelectOp::create(c, isInside, row,
                                       arith::ConstantIntOp::create(c, 0, 32));
      });
}

/// Emits the boundaries of the padded sequences: the last one is the number of
/// rows. The boundary that a wrong sequence begins with is a wrong one, and if
/// numbers are inconsistent, all are.
template <typename OpTy>
Value SequencePadding<OpTy>::emitStarts() {
  Value isConsistent = emitIsConsistent();
  Value size = b.createOrFold<arith::AddIOp>(numGiven, index(1));
  return emitElements(
      {getAsOpFoldResult(size)}, b.getI32Type(), Value(), AffineMap(),
      [&](ImplicitLocOpBuilder &c, ValueRange) -> Value {
        Value number = linalg::IndexOp::create(c, 0);
        Value hasSequence =
            arith::CmpIOp::create(c, CmpIPredicate::ult, number, numGiven);
        auto start = scf::IfOp::create(
            c, hasSequence,
            [&](OpBuilder &then, Location loc) {
              ImplicitLocOpBuilder d(loc, then);
              Sequence sequence = emitSequence(d, number);
              Value first = emitFirstRow(d, sequence);
              Value isWrong = emitIsWrong(d, sequence);
              Value wrong = arith::ConstantIndexOp::create(d, wrongBoundary);
              Value row = arith::SelectOp::create(d, isWrong, wrong, first);
              scf::YieldOp::create(d, row);
            },
            [&](OpBuilder &other, Location loc) {
              scf::YieldOp::create(other, loc, numRows);
            });
        Value wrong = arith::ConstantIntOp::create(c, wrongBoundary, 32);
        Value row =
            arith::IndexCastOp::create(c, c.getI32Type(), start.getResult(0));
        return arith::SelectOp::create(c, isConsistent, row, wrong);
      });
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Emits whether a row has a token.
static Value emitIsToken(ImplicitLocOpBuilder &b, Value token) {
  return arith::CmpIOp::create(b, CmpIPredicate::ne, token,
                               arith::ConstantIntOp::create(b, noToken, 32));
}

/// Emits, in the body of a loop over `rank` dimensions, the indices of the
/// element whose token is `token`.
static SmallVector<Value> emitIndicesOfToken(ImplicitLocOpBuilder &b,
                                             int64_t rank, Value token) {
  SmallVector<Value> indices;
  for (int64_t dim = 0; dim < rank; ++dim)
    indices.push_back(linalg::IndexOp::create(b, dim));
  indices[tokenDim] = arith::IndexCastOp::create(b, b.getIndexType(), token);
  return indices;
}

/// Emits `tensor`, `[B, H, S]` or `[B, H, S, D]`, with padded rows, which are
/// zeros.
template <typename OpTy>
Value SequencePadding<OpTy>::emitPadded(Value source) {
  Sizes sizes = getSizes(source);
  auto rank = int64_t(sizes.size());
  sizes[tokenDim] = getAsOpFoldResult(numRows);
  Type element = getElementTypeOrSelf(source);
  return emitElements(
      sizes, element, tokens,
      AffineMap::getMultiDimMapWithTargets(rank, {tokenDim}, b.getContext()),
      [&](ImplicitLocOpBuilder &c, ValueRange arguments) -> Value {
        Value token = arguments.front();
        SmallVector<Value> indices = emitIndicesOfToken(c, rank, token);
        Value otherwise =
            arith::ConstantOp::create(c, c.getFloatAttr(element, 0));
        // There may be no token to read.
        Value isToken = emitIsToken(c, token);
        auto branch = scf::IfOp::create(
            c, isToken,
            [&](OpBuilder &then, Location loc) {
              scf::YieldOp::create(
                  then, loc,
                  tensor::ExtractOp::create(then, loc, source, indices)
                      .getResult());
            },
            [&](OpBuilder &other, Location loc) {
              scf::YieldOp::create(other, loc, otherwise);
            });
        return branch.getResult(0);
      });
}

/// Emits padded log-decays: of tokens, unless elements of keys have their own;
/// null without log-decays.
template <typename OpTy>
Value SequencePadding<OpTy>::emitLogDecays() {
  Value given = op.getLogDecay();
  if (!given || cast<RankedTensorType>(given.getType()).getRank() > 1)
    return given ? emitPadded(given) : Value();
  Sizes sizes = getSizes(op.getQuery());
  sizes.pop_back();
  sizes[tokenDim] = getAsOpFoldResult(numRows);
  return emitElements(
      sizes, b.getF32Type(), tokens,
      AffineMap::getMultiDimMapWithTargets(3, {tokenDim}, b.getContext()),
      [&](ImplicitLocOpBuilder &c, ValueRange arguments) -> Value {
        Value none = arith::ConstantOp::create(c, c.getF32FloatAttr(0));
        Value head = linalg::IndexOp::create(c, headDim);
        Value ofHead = tensor::ExtractOp::create(c, given, head);
        return arith::SelectOp::create(c, emitIsToken(c, arguments.front()),
                                       ofHead, none);
      });
}

/// The operands of `clone` that are rows of tokens, but for log-decays.
template <typename OpTy>
SmallVector<MutableOperandRange>
SequencePadding<OpTy>::getTokenOperands(OpTy clone) {
  SmallVector<MutableOperandRange> operands = {
      MutableOperandRange(clone.getQueryMutable()),
      MutableOperandRange(clone.getKeyMutable()),
      MutableOperandRange(clone.getValueMutable()), clone.getBetaMutable()};
  if constexpr (std::is_same_v<OpTy, LinearAttentionGradOp>)
    operands.push_back(MutableOperandRange(clone.getDoutMutable()));
  return operands;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Emits a destination of padded rows.
template <typename OpTy>
Value SequencePadding<OpTy>::emitDestination(Value init) {
  Sizes sizes = getSizes(init);
  if (sizes.size() > tokenDim)
    sizes[tokenDim] = getAsOpFoldResult(numRows);
  else
    sizes.push_back(getAsOpFoldResult(numRows));
  return tensor::EmptyOp::create(b, sizes, getElementTypeOrSelf(init));
}

/// Emits the rows of tokens, into `init`.
template <typename OpTy>
Value SequencePadding<OpTy>::emitUnpadded(Value padded, Value init) {
  int64_t rank = cast<RankedTensorType>(init.getType()).getRank();
  return emitElements(
      {}, Type(), rows,
      AffineMap::getMultiDimMapWithTargets(rank, {tokenDim}, b.getContext()),
      [&](ImplicitLocOpBuilder &c, ValueRange arguments) -> Value {
        SmallVector<Value> indices =
            emitIndicesOfToken(c, rank, arguments.front());
        return tensor::ExtractOp::create(c, padded, indices);
      },
      init);
}

/// Adds up the tokens of `[B, H, rows]`, into `init`.
template <typename OpTy>
Value SequencePadding<OpTy>::emitSumOfTokens(Value padded, Value init) {
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  Value zeros = linalg::FillOp::create(b, zero, init).getResult(0);
  AffineMap whole = b.getMultiDimIdentityMap(3);
  auto generic = linalg::GenericOp::create(
      b, init.getType(), ValueRange{padded, tokens}, zeros,
      ArrayRef<AffineMap>{whole, whole.getMinorSubMap(1),
                          whole.getMajorSubMap(2)},
      ArrayRef<IteratorType>{IteratorType::parallel, IteratorType::parallel,
                             IteratorType::reduction},
      [&](OpBuilder &builder, Location loc, ValueRange arguments) {
        ImplicitLocOpBuilder c(loc, builder);
        Value isToken = emitIsToken(c, arguments[1]);
        Value none = arith::ConstantOp::create(c, c.getF32FloatAttr(0));
        Value term = arith::SelectOp::create(c, isToken, arguments[0], none);
        linalg::YieldOp::create(
            c, arith::AddFOp::create(c, arguments[2], term).getResult());
      });
  return generic.getResult(0);
}

/// Whether a destination has states, not rows. It is the last destination.
static bool isState(LinearAttentionOp /*op*/, size_t number) {
  return number == 1;
}

static bool isState(LinearAttentionGradOp op, size_t number) {
  return op.getDinitialState() && number + 1 == op->getNumResults();
}

/// Emits the results of `op` from the results of `padded`.
template <typename OpTy>
SmallVector<Value> SequencePadding<OpTy>::emitResults(OpTy padded) {
  rows = emitRows();
  SmallVector<Value> results;
  for (auto [number, init] : llvm::enumerate(op.getDpsInits())) {
    Value result = padded->getResult(unsigned(number));
    if (isState(op, number))
      results.push_back(result);
    else if (cast<RankedTensorType>(init.getType()).getRank() == 2)
      results.push_back(emitSumOfTokens(result, init));
    else
      results.push_back(emitUnpadded(result, init));
  }
  return results;
}

template <typename OpTy>
void SequencePadding<OpTy>::run() {
  noteArguments(rewriter, op);
  computeSizes();
  tokens = emitTokens();
  Value starts = emitStarts(), logDecays = emitLogDecays();
  // Operands may be one value.
  llvm::SmallDenseMap<Value, Value> padded;
  auto clone = cast<OpTy>(b.clone(*op));
  b.setInsertionPoint(clone);
  for (MutableOperandRange range : getTokenOperands(clone))
    for (OpOperand &operand : range) {
      Value &rowsOfOperand = padded[operand.get()];
      if (!rowsOfOperand)
        rowsOfOperand = emitPadded(operand.get());
      operand.set(rowsOfOperand);
    }
  if (logDecays)
    clone.getLogDecayMutable().assign(logDecays);
  clone.getSequencesMutable().assign(starts);
  clone.setWholeChunks(true);
  for (auto [number, init] : llvm::enumerate(clone.getDpsInitsMutable())) {
    if (!isState(op, number))
      init.set(emitDestination(init.get()));
    clone->getResult(unsigned(number)).setType(init.get().getType());
  }
  b.setInsertionPointAfter(clone);
  rewriter.replaceOp(op, emitResults(clone));
}

/// Whether an operation is the recurrence alone. A feature map would change
/// rows of zeros.
static bool isPlain(LinearAttentionOp op) { return op.isPlain(); }

static bool isPlain(LinearAttentionGradOp /*op*/) { return true; }

namespace {
struct AttnPadSequencesPass
    : attn::impl::AttnPadSequencesPassBase<AttnPadSequencesPass> {
  using Base::Base;

  template <typename OpTy>
  LogicalResult pad(IRRewriter &rewriter) {
    SmallVector<OpTy> ops;
    WalkResult walked = getOperation()->walk([&](OpTy op) -> WalkResult {
      if (op.getWholeChunks())
        return op.emitOpError("'whole_chunks' must come from "
                              "attn-pad-sequences; leave it out");
      if (isPlain(op) && op.hasSequenceStates() && !op.isBufferized())
        ops.push_back(op);
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      return failure();
    for (OpTy op : ops) {
      rewriter.setInsertionPoint(op);
      SequencePadding<OpTy>(rewriter, op).run();
      ++numPadded;
    }
    return success();
  }

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    if (failed(pad<LinearAttentionOp>(rewriter)) ||
        failed(pad<LinearAttentionGradOp>(rewriter)))
      signalPassFailure();
  }
};
} // namespace
