//===- LinearRecurrentKernel.cpp - Kernel for few tokens ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A work item is a warp, and has some columns of the state of a head. Each
// thread holds neighbouring rows of four columns in registers. The threads with
// the same columns hold different rows, and add up their parts of sums over
// rows. The state is loaded once, before the first token, and stored once.
//
// A work item reads the elements of the state that it writes, and no others:
// the final state may be in the buffer of the initial one.
//
// Packed sequences take the place of batch entries. A work item reads the
// boundaries of its sequence, which may be anywhere, and reports wrong ones.
//
//===----------------------------------------------------------------------===//

#include "LinearRecurrentKernel.h"
#include "CarriedLoop.h"
#include "CreateKernel.h"
#include "LogDecaySums.h"
#include "ScalarKernelBuilder.h"
#include "attn/Dialect/AttnTile/IR/TileProgramBuilder.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

/// Columns that a thread has: an access has `maxAccessBytes`.
static constexpr int64_t columnsOfThread = 4;

/// The distance of the rows of a state in memory, which may be dynamic.
static int64_t getRowStride(Value state) {
  return cast<MemRefType>(state.getType()).getStridesAndOffset().first[2];
}

namespace {
class RecurrentWriter {
public:
  RecurrentWriter(OpBuilder &builder, LinearAttentionOp op,
                  attn_tile::KernelOp kernel);

  void write();

private:
  /// The part of a head that a thread has.
  struct Place {
    /// The number of its given states: the batch entry or, where sequences are
    /// packed in one, the sequence.
    Value state;
    Value batch, head, keyHead, valueHead;
    Value firstRow, firstColumn;
    /// Whether the columns exist, null if all do; whether the thread stores
    /// the output.
    Value hasColumns, isWriter;
    /// The tokens of a packed sequence; null without.
    Value firstToken, numTokens;
  };

  Value get(Value operand) {
    return operand ? arguments.lookup(operand) : Value();
  }
  Value f32(double value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(float(value)));
  }
  Value mul(Value lhs, Value rhs) { return arith::MulFOp::create(b, lhs, rhs); }
  Value fma(Value lhs, Value rhs, Value sum) {
    return math::FmaOp::create(b, lhs, rhs, sum);
  }
  /// The element of the state in a row and a column of a thread.
  static size_t at(int64_t row, int64_t column) {
    return size_t(row * columnsOfThread + column);
  }
  Value shareHead(Value head, int64_t group) {
    return group == 1 ? head
                      : arith::DivUIOp::create(b, head, b.constant(group));
  }
  void countSequences();
  Place getPlace(scf::ForallOp forall, Value lane);
  Value findTokens(Place &place);
  SmallVector<Value> loadNeighbours(Value source, SmallVector<Value> indices,
                                    int64_t count);
  void storeNeighbours(ArrayRef<Value> values, Value dest,
                       SmallVector<Value> indices);
  void ifHolds(Value condition, function_ref<void()> body);
  SmallVector<Value> loadState(const Place &place);
  void storeState(const Place &place, ArrayRef<Value> state);
  SmallVector<Value> loadRows(const Place &place, Value source, Value head,
                              Value token);
  SmallVector<Value>
  forTokens(const Place &place, ValueRange inits,
            function_ref<SmallVector<Value>(Value token, ValueRange)> body);
  Value emitDecay(Value logDecay);
  void decayState(const Place &place, Value token,
                  MutableArrayRef<Value> state);
  SmallVector<Value> sumRows(ArrayRef<Value> factors, ArrayRef<Value> state);
  void updateState(const Place &place, Value token,
                   MutableArrayRef<Value> state);
  SmallVector<Value> loadQueries(const Place &place, Value token) {
    return loadRows(place, query, place.head, token);
  }
  void writeOutput(const Place &place, Value token, ArrayRef<Value> queries,
                   ArrayRef<Value> state);
  Value writeThread(Place place);
  Value writeSequence(const Place &place);
  void report(Value isWrong);

  ScalarKernelBuilder b;
  Block *entry;
  IRMapping arguments;
  Value query, key, value, logDecay, beta, initialState, sequences, out,
      finalState, fault;
  /// States whose elements are accessed one by one.
  DenseSet<Value> unaligned;
  bool isCausal;
  double scale;
  int64_t keyHeadDim, valueHeadDim, keyGroup, valueGroup, valueTile;
  /// Threads with the same rows, and the rows of a thread.
  int64_t threadsOfRow, rowsOfThread;
  /// The decay of a head, and the largest log-decay so far.
  Value decayOfHead, largest;
  /// The number of packed sequences, the number of sequences with states and
  /// rows, and whether these are all of them.
  Value numSequences, numGiven, isConsistent;
};
} // namespace

/// The columns that a work item of `kernel` has. Where rows are not one after
/// another in memory, their addresses take the registers of half of them, if
/// twice as many parts of the rows have the same size.
static int64_t getColumns(LinearAttentionOp op, attn_tile::KernelOp kernel) {
  int64_t columns = op.getChosenSchedule().getHeadDimTile();
  int64_t half = std::max(columns / 2, 2 * columnsOfThread);
  if (op.getKeyHeadDim() * half % (attn_tile::warpThreads * columnsOfThread) !=
      0)
    return columns;
  Block &entry = kernel.getBody().front();
  for (auto [operand, argument] :
       llvm::zip(op->getOperands(), entry.getArguments()))
    if (llvm::is_contained({op.getInitialState(), op.getFinalState()},
                           operand) &&
        getRowStride(argument) != getDimSize(argument, 3))
      return half;
  return columns;
}

RecurrentWriter::RecurrentWriter(OpBuilder &builder, LinearAttentionOp op,
                                 attn_tile::KernelOp kernel)
    : b(op.getLoc(), builder), entry(&kernel.getBody().front()),
      isCausal(op.getCausal()), scale(op.getScaleOrDefault()),
      keyHeadDim(op.getKeyHeadDim()), valueHeadDim(op.getValueHeadDim()),
      keyGroup(op.getNumHeads() / getDimSize(op.getKey(), 1)),
      valueGroup(op.getNumHeads() / getDimSize(op.getValue(), 1)),
      valueTile(getColumns(op, kernel)),
      threadsOfRow(valueTile / columnsOfThread),
      rowsOfThread(keyHeadDim * threadsOfRow / attn_tile::warpThreads) {
  arguments.map(op->getOperands(),
                entry->getArguments().take_front(op->getNumOperands()));
  query = get(op.getQuery());
  key = get(op.getKey());
  value = get(op.getValue());
  logDecay = get(op.getLogDecay());
  beta = get(op.getBeta());
  out = get(op.getOut());
  initialState = get(op.getInitialState());
  sequences = get(op.getSequences());
  finalState = get(op.getFinalState());
  for (Value state : {op.getInitialState(), op.getFinalState()})
    if (state && !mayHaveAlignedRows(state))
      unaligned.insert(get(state));
  if (logDecay || sequences)
    fault = entry->getArgument(op->getNumOperands());
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

/// There is one batch entry, a sequence if there are tokens, and a state for
/// each sequence; other numbers are reported, and must not do harm.
void RecurrentWriter::countSequences() {
  auto isEqual = [&](Value lhs, Value rhs) {
    return b.compare(CmpIPredicate::eq, lhs, rhs);
  };
  Value zero = b.constant(0), one = b.constant(1), batch = b.size(query, 0);
  Value boundaries = arith::MaxUIOp::create(b, b.size(sequences, 0), one);
  numSequences = b.sub(boundaries, one);
  numGiven = b.select(isEqual(batch, zero), zero, numSequences);
  Value isOne = isEqual(batch, one);
  Value hasSequence = b.compare(CmpIPredicate::ne, numSequences, zero);
  Value hasNoToken = isEqual(b.size(query, 2), zero);
  isConsistent = b.both(isOne, b.either(hasSequence, hasNoToken));
  for (Value state : {initialState, finalState})
    if (state) {
      Value number = b.size(state, 0);
      numGiven = arith::MinUIOp::create(b, numGiven, number);
      isConsistent = b.both(isConsistent, isEqual(number, numSequences));
    }
}

RecurrentWriter::Place RecurrentWriter::getPlace(scf::ForallOp forall,
                                                 Value lane) {
  Place place;
  place.state = forall.getInductionVar(0);
  place.batch = sequences ? b.constant(0) : place.state;
  place.head = forall.getInductionVar(1);
  place.keyHead = shareHead(place.head, keyGroup);
  place.valueHead = shareHead(place.head, valueGroup);
  Value threads = b.constant(threadsOfRow);
  Value group = arith::DivUIOp::create(b, lane, threads);
  Value column = b.mul(arith::RemUIOp::create(b, lane, threads),
                       b.constant(columnsOfThread));
  Value ofTile = b.mul(forall.getInductionVar(2), b.constant(valueTile));
  place.firstRow = b.mul(group, b.constant(rowsOfThread));
  place.firstColumn = b.add(ofTile, column);
  place.isWriter = b.compare(CmpIPredicate::eq, group, b.constant(0));
  if (valueHeadDim % valueTile == 0)
    return place;
  place.hasColumns = b.compare(CmpIPredicate::ult, place.firstColumn,
                               b.constant(valueHeadDim));
  place.isWriter = b.both(place.isWriter, place.hasColumns);
  // Other threads load what their warp does, and store nothing.
  place.firstColumn = b.select(place.hasColumns, place.firstColumn, ofTile);
  return place;
}

/// Finds the tokens of the sequence of `place`; returns whether its
/// boundaries are not sorted, or do not go from the first to the last token.
Value RecurrentWriter::findTokens(Place &place) {
  Value zero = b.constant(0), length = b.size(query, 2);
  Value next = b.add(place.state, b.constant(1));
  auto load = [&](Value number) -> Value {
    return arith::IndexCastOp::create(b, b.getIndexType(),
                                      b.loadExisting(sequences, number));
  };
  auto clamp = [&](Value boundary) -> Value {
    boundary = arith::MaxSIOp::create(b, boundary, zero);
    return arith::MinSIOp::create(b, boundary, length);
  };
  auto isOther = [&](Value lhs, Value rhs) {
    return b.compare(CmpIPredicate::ne, lhs, rhs);
  };
  Value givenBegin = load(place.state), givenEnd = load(next);
  Value begin = clamp(givenBegin), end = clamp(givenEnd);
  place.firstToken = begin;
  place.numTokens = b.sub(arith::MaxSIOp::create(b, begin, end), begin);
  // The first sequence begins at the first token, the last one ends at the
  // last.
  Value isFirst = b.compare(CmpIPredicate::eq, place.state, zero);
  Value expectedBegin = b.select(isFirst, zero, begin);
  Value isLast = b.compare(CmpIPredicate::eq, next, numSequences);
  Value expectedEnd = b.select(isLast, length, end);
  Value isWrong = b.compare(CmpIPredicate::sgt, givenBegin, givenEnd);
  isWrong = b.either(isWrong, isOther(givenBegin, expectedBegin));
  return b.either(isWrong, isOther(givenEnd, expectedEnd));
}

/// Loads `count` elements from `indices` on, as f32.
SmallVector<Value> RecurrentWriter::loadNeighbours(Value source,
                                                   SmallVector<Value> indices,
                                                   int64_t count) {
  SmallVector<Value> values = b.loadNeighbours(
      source, std::move(indices), count, !unaligned.contains(source));
  for (Value &value : values)
    if (!value.getType().isF32())
      value = arith::ExtFOp::create(b, b.getF32Type(), value);
  return values;
}

/// Stores `values` from `indices` on, rounded.
void RecurrentWriter::storeNeighbours(ArrayRef<Value> values, Value dest,
                                      SmallVector<Value> indices) {
  Type type = getElementTypeOrSelf(dest);
  SmallVector<Value> rounded(values);
  for (Value &value : rounded)
    if (!type.isF32())
      value = arith::TruncFOp::create(b, type, value);
  b.storeNeighbours(rounded, dest, std::move(indices),
                    !unaligned.contains(dest));
}

/// Emits `body` where `condition`, which is null if it always does, holds.
void RecurrentWriter::ifHolds(Value condition, function_ref<void()> body) {
  OpBuilder::InsertionGuard guard(b);
  if (condition) {
    auto ifOp = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
    b.setInsertionPointToStart(ifOp.thenBlock());
  }
  body();
}

SmallVector<Value> RecurrentWriter::loadState(const Place &place) {
  if (!initialState)
    return SmallVector<Value>(size_t(rowsOfThread * columnsOfThread), f32(0));
  SmallVector<Value> state;
  for (int64_t i = 0; i < rowsOfThread; ++i)
    llvm::append_range(state,
                       loadNeighbours(initialState,
                                      {place.state, place.head,
                                       b.add(place.firstRow, b.constant(i)),
                                       place.firstColumn},
                                      columnsOfThread));
  return state;
}

void RecurrentWriter::storeState(const Place &place, ArrayRef<Value> state) {
  if (!finalState)
    return;
  ifHolds(place.hasColumns, [&] {
    for (int64_t i = 0; i < rowsOfThread; ++i)
      storeNeighbours(state.slice(at(i, 0), columnsOfThread), finalState,
                      {place.state, place.head,
                       b.add(place.firstRow, b.constant(i)),
                       place.firstColumn});
  });
}

/// Loads the elements of a token in the rows of a thread.
SmallVector<Value> RecurrentWriter::loadRows(const Place &place, Value source,
                                             Value head, Value token) {
  return loadNeighbours(source, {place.batch, head, token, place.firstRow},
                        rowsOfThread);
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

/// Emits `body` for each token, first to last, with carried values.
SmallVector<Value> RecurrentWriter::forTokens(
    const Place &place, ValueRange inits,
    function_ref<SmallVector<Value>(Value token, ValueRange)> body) {
  if (sequences)
    return emitCarriedLoop(
        b, place.numTokens, inits, [&](Value number, ValueRange carried) {
          return body(b.add(place.firstToken, number), carried);
        });
  if (getDimSize(query, 2) == 1)
    return body(b.constant(0), inits);
  return emitCarriedLoop(b, b.size(query, 2), inits, body);
}

/// The decay of a log-decay, which `largest` takes note of.
Value RecurrentWriter::emitDecay(Value logDecay) {
  largest = arith::MaximumFOp::create(b, largest, logDecay);
  logDecay = arith::MinimumFOp::create(b, logDecay, f32(0));
  logDecay = arith::MaximumFOp::create(b, logDecay, f32(minLogDecay));
  return math::Exp2Op::create(b, mul(logDecay, f32(log2e)));
}

void RecurrentWriter::decayState(const Place &place, Value token,
                                 MutableArrayRef<Value> state) {
  if (!logDecay)
    return;
  SmallVector<Value> decays;
  switch (cast<MemRefType>(logDecay.getType()).getRank()) {
  case 1:
    decays.assign(size_t(rowsOfThread), decayOfHead);
    break;
  case 3: {
    Value ofToken = b.loadExisting(logDecay, {place.batch, place.head, token});
    decays.assign(size_t(rowsOfThread), emitDecay(ofToken));
    break;
  }
  default:
    decays = loadRows(place, logDecay, place.head, token);
    for (Value &decay : decays)
      decay = emitDecay(decay);
    break;
  }
  for (int64_t row = 0; row < rowsOfThread; ++row)
    for (int64_t column = 0; column < columnsOfThread; ++column) {
      Value &element = state[at(row, column)];
      element = mul(element, decays[size_t(row)]);
    }
}

/// The sums over all rows of the state of each row times a factor.
SmallVector<Value> RecurrentWriter::sumRows(ArrayRef<Value> factors,
                                            ArrayRef<Value> state) {
  SmallVector<Value> sums;
  for (int64_t column = 0; column < columnsOfThread; ++column) {
    Value sum = mul(factors[0], state[at(0, column)]);
    for (int64_t row = 1; row < rowsOfThread; ++row)
      sum = fma(factors[size_t(row)], state[at(row, column)], sum);
    sums.push_back(sum);
  }
  for (Value &sum : sums)
    sum = gpu::SubgroupReduceOp::create(
        b, sum, gpu::AllReduceOperation::ADD, /*uniform=*/false,
        uint32_t(attn_tile::warpThreads / threadsOfRow),
        uint32_t(threadsOfRow));
  return sums;
}

/// Emits the step from the state before a token to the one after it.
void RecurrentWriter::updateState(const Place &place, Value token,
                                  MutableArrayRef<Value> state) {
  SmallVector<Value> keys = loadRows(place, key, place.keyHead, token);
  SmallVector<Value> update = loadNeighbours(
      value, {place.batch, place.valueHead, token, place.firstColumn},
      columnsOfThread);
  decayState(place, token, state);
  if (beta) {
    Value factor = b.loadExisting(beta, {place.batch, place.head, token});
    for (auto [element, known] : llvm::zip_equal(update, sumRows(keys, state)))
      element = mul(factor, arith::SubFOp::create(b, element, known));
  }
  for (int64_t row = 0; row < rowsOfThread; ++row)
    for (int64_t column = 0; column < columnsOfThread; ++column) {
      Value &element = state[at(row, column)];
      element = fma(keys[size_t(row)], update[size_t(column)], element);
    }
}

void RecurrentWriter::writeOutput(const Place &place, Value token,
                                  ArrayRef<Value> queries,
                                  ArrayRef<Value> state) {
  SmallVector<Value> result = sumRows(queries, state);
  for (Value &element : result)
    element = mul(element, f32(scale));
  ifHolds(place.isWriter, [&] {
    storeNeighbours(result, out,
                    {place.batch, place.head, token, place.firstColumn});
  });
}

/// Returns whether an input is wrong; null if nothing is checked.
Value RecurrentWriter::writeThread(Place place) {
  largest = f32(0);
  SmallVector<Value> carried = loadState(place);
  Value isWrong = sequences ? findTokens(place) : Value();
  if (logDecay && cast<MemRefType>(logDecay.getType()).getRank() == 1)
    decayOfHead = emitDecay(b.loadExisting(logDecay, place.head));
  carried.push_back(largest);
  carried =
      forTokens(place, carried,
                [&](Value token, ValueRange before) -> SmallVector<Value> {
                  SmallVector<Value> state(before.drop_back());
                  largest = before.back();
                  // Queries arrive together with keys.
                  SmallVector<Value> queries;
                  if (isCausal)
                    queries = loadQueries(place, token);
                  updateState(place, token, state);
                  if (isCausal)
                    writeOutput(place, token, queries, state);
                  state.push_back(largest);
                  return state;
                });
  largest = carried.pop_back_val();
  storeState(place, carried);
  // Without a mask each token sees the last state.
  if (!isCausal)
    forTokens(place, {}, [&](Value token, ValueRange) -> SmallVector<Value> {
      writeOutput(place, token, loadQueries(place, token), carried);
      return {};
    });
  if (!logDecay)
    return isWrong;
  Value isPositive =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UGT, largest, f32(0));
  return isWrong ? b.either(isWrong, isPositive) : isPositive;
}

/// Writes a sequence, if it has states; returns whether an input is wrong.
Value RecurrentWriter::writeSequence(const Place &place) {
  Value hasStates = b.compare(CmpIPredicate::ult, place.state, numGiven);
  auto branch = scf::IfOp::create(b, TypeRange{b.getI1Type()}, hasStates,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, writeThread(place));
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, arith::ConstantIntOp::create(b, 0, 1).getResult());
  b.setInsertionPointAfter(branch);
  return b.either(branch.getResult(0), b.invert(isConsistent));
}

/// Reports wrong inputs, if `isWrong` is not null.
void RecurrentWriter::report(Value isWrong) {
  if (!isWrong)
    return;
  ifHolds(isWrong, [&] {
    Value code = arith::ConstantIntOp::create(b, ATTNRT_FAULT_LOG_DECAYS, 32);
    memref::StoreOp::create(b, code, fault, b.constant(0));
  });
}

void RecurrentWriter::write() {
  b.setInsertionPointToEnd(entry);
  Value numStates = b.size(query, 0);
  if (sequences) {
    countSequences();
    // Without states, a work item reports that numbers are inconsistent.
    numStates = arith::MaxUIOp::create(b, numGiven, b.constant(1));
  }
  SmallVector<OpFoldResult> bounds = {
      numStates, b.size(query, 1),
      b.constant(int64_t(llvm::divideCeil(valueHeadDim, valueTile)))};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  b.each(b.constant(attn_tile::warpThreads), [&](Value lane) {
    Place place = getPlace(forall, lane);
    report(sequences ? writeSequence(place) : writeThread(place));
  });
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// The type of a state, `type`, with rows one after another in memory.
static MemRefType getContiguousType(MemRefType type) {
  auto [strides, offset] = type.getStridesAndOffset();
  strides[2] = type.getDimSize(3);
  auto layout = StridedLayoutAttr::get(type.getContext(), offset, strides);
  return MemRefType::get(type.getShape(), type.getElementType(), layout,
                         type.getMemorySpace());
}

/// Emits whether the rows of all `states` are one after another in memory;
/// null if this is known.
static Value emitHasContiguousRows(ScalarKernelBuilder &b,
                                   const SetVector<Value> &states) {
  Value result;
  for (Value state : states) {
    int64_t row = getDimSize(state, 3), stride = getRowStride(state);
    if (stride == row)
      continue;
    if (!ShapedType::isDynamic(stride))
      return {};
    auto metadata = memref::ExtractStridedMetadataOp::create(b, state);
    Value isContiguous =
        b.compare(CmpIPredicate::eq, metadata.getStrides()[2], b.constant(row));
    result = result ? b.both(result, isContiguous) : isContiguous;
  }
  return result;
}

void attn::createLinearRecurrentKernels(RewriterBase &rewriter,
                                        LinearAttentionOp op,
                                        ValueRange operands,
                                        SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  auto create = [&](ValueRange operands, StringRef suffix) {
    attn_tile::KernelOp kernel = createKernel(
        rewriter, op, op.getChosenSchedule(), symbols, suffix, operands);
    RecurrentWriter(rewriter, op, kernel).write();
    return op->getPrevNode();
  };
  ScalarKernelBuilder b(op.getLoc(), rewriter);
  SetVector<Value> states;
  for (Value state : {op.getInitialState(), op.getFinalState()})
    if (state)
      states.insert(state);
  if (Value isContiguous = emitHasContiguousRows(b, states)) {
    // The addresses of all rows are one register and immediates.
    SmallVector<Value> contiguous(operands);
    for (Value &operand : contiguous)
      if (states.contains(operand) &&
          ShapedType::isDynamic(getRowStride(operand)))
        operand = memref::CastOp::create(
            b, getContiguousType(cast<MemRefType>(operand.getType())), operand);
    auto branch = scf::IfOp::create(b, TypeRange(), isContiguous,
                                    /*withElseRegion=*/true);
    create(contiguous, "_linear_attention")->moveBefore(branch.thenYield());
    create(operands, "_linear_attention_strided")
        ->moveBefore(branch.elseYield());
  } else {
    create(operands, "_linear_attention");
  }
  rewriter.eraseOp(op);
}
