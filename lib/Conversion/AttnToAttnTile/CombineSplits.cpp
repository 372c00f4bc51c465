//===- CombineSplits.cpp - Results of KV splits ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each KV split s writes the output out_s of its own softmax, its row maximum
// m_s and its row sum l_s of exp(score - m_s). The softmax over all keys is
//
//   m   = max over splits s of m_s
//   l   = sum over splits s of exp(m_s - m) * l_s
//   out = sum over splits s of exp(m_s - m) * l_s * out_s / l
//   lse = m + log(l)
//
// (FlashDecoding, Dao et al. 2023). A work item is a block of the head dim of
// one row, one element for each thread, so that the loads of all splits are in
// flight at once.
//
//===----------------------------------------------------------------------===//

#include "CombineSplits.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "WorkItemList.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

/// Elements of the head dim of a work item: one for each thread of a warp.
static constexpr int64_t headDimBlock = 32;
/// KV splits that are loaded at once, and those of a list.
static constexpr int64_t maxUnrolled = 16, maxUnrolledListed = 4;
static constexpr double log2e = 1.4426950408889634074;

/// Emits the number of splits of each query tile, all of which have as many.
static Value emitNumSplits(ScalarKernelBuilder &b, AttentionOp attention) {
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  int64_t wanted = schedule.getSplitKvWorkItems();
  auto mul = [&](Value lhs, Value rhs) {
    return b.createOrFold<arith::MulIOp>(lhs, rhs);
  };
  auto tiles = [&](Value length, int64_t tile) {
    Value rounded = b.createOrFold<arith::AddIOp>(length, b.constant(tile - 1));
    return b.createOrFold<arith::DivUIOp>(rounded, b.constant(tile));
  };
  Value query = attention.getQuery(), key = attention.getKey();
  Value one = b.constant(1), heads = b.size(query, 1);
  Value rows = b.size(query, 2);
  // The kernel has a row for each query head of several queries.
  if (schedule.packsGqa() && attention.getGroupSize() != 1) {
    rows = mul(rows, b.constant(attention.getGroupSize()));
    heads = b.constant(attention.getNumKeyHeads());
  }
  Value items =
      mul(mul(b.size(query, 0), heads), tiles(rows, schedule.getQueryTile()));
  items = mul(items, b.constant(countVHeadDimTiles(
                         attention.getVHeadDim(), schedule.getVHeadDimTile())));
  items = b.createOrFold<arith::MaxUIOp>(items, one);
  Value numSplits = b.createOrFold<arith::MinUIOp>(
      b.createOrFold<arith::DivUIOp>(b.constant(wanted), items),
      tiles(getKVAddressing(attention).emitMaxKeys(b, b.getLoc(), key,
                                                   attention.getPageTable()),
            schedule.getKeyTile()));
  return b.createOrFold<arith::MaxUIOp>(numSplits, one);
}

/// The sizes of the buffer of the outputs of listed splits.
static SmallVector<Value> emitListedSizes(ScalarKernelBuilder &b,
                                          AttentionOp attention,
                                          Value workItemList) {
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  bool isPacked = schedule.packsGqa();
  int64_t rows = schedule.getQueryTile();
  int64_t queries = getDimSize(attention.getQuery(), 2);
  if (!attention.hasSequences() && !ShapedType::isDynamic(queries))
    rows = std::min(rows, queries * (isPacked ? attention.getGroupSize() : 1));
  int64_t heads =
      isPacked ? attention.getNumKeyHeads() : attention.getNumQueryHeads();
  Value items =
      b.createOrFold<arith::SubIOp>(b.size(workItemList, 0), b.constant(1));
  return {items, b.constant(heads), b.constant(rows),
          b.constant(attention.getVHeadDim())};
}

KVSplits attn::emitKVSplits(RewriterBase &rewriter, AttentionOp attention,
                            Value workItemList) {
  if (attention.getChosenSchedule().getSplitKvWorkItems() == 0)
    return {};
  OpBuilder::InsertionGuard guard(rewriter);
  ScalarKernelBuilder b(attention.getLoc(), rewriter);
  b.setInsertionPoint(attention);
  auto mul = [&](Value lhs, Value rhs) {
    return b.createOrFold<arith::MulIOp>(lhs, rhs);
  };
  KVSplits splits;
  SmallVector<Value> sizes;
  if (listsSplits(attention)) {
    sizes = emitListedSizes(b, attention, workItemList);
  } else {
    splits.count = emitNumSplits(b, attention);
    if (isConstantIntValue(splits.count, 1))
      return {};
    for (int64_t dim = 0; dim < 4; ++dim)
      sizes.push_back(b.size(attention.getOut(), dim));
    sizes[0] = mul(sizes[0], splits.count);
  }

  // One buffer for all: an allocation takes time on the stream.
  Value one = b.constant(1);
  Value numRows = mul(mul(sizes[0], sizes[1]), sizes[2]);
  Value numElements = mul(numRows, sizes[3]);
  Value sumOffset = b.createOrFold<arith::AddIOp>(numElements, numRows);
  Value total = b.createOrFold<arith::AddIOp>(sumOffset, numRows);
  SmallVector<Value> dynamicTotal;
  std::optional<int64_t> constantTotal = getConstantIntValue(total);
  if (!constantTotal)
    dynamicTotal.push_back(total);
  splits.buffer = memref::AllocOp::create(
      b,
      MemRefType::get(constantTotal.value_or(ShapedType::kDynamic),
                      b.getF32Type()),
      dynamicTotal);
  auto makeView = [&](ArrayRef<Value> shape, Value offset) -> Value {
    SmallVector<OpFoldResult> strides(shape.size());
    Value stride = one;
    for (int64_t dim = int64_t(shape.size()) - 1; dim >= 0; --dim) {
      strides[dim] = getAsOpFoldResult(stride);
      stride = mul(stride, shape[dim]);
    }
    SmallVector<OpFoldResult> extents = getAsOpFoldResult(ValueRange(shape));
    auto toStatic = [](ArrayRef<OpFoldResult> values) {
      return llvm::map_to_vector(values, [](OpFoldResult value) {
        return getConstantIntValue(value).value_or(ShapedType::kDynamic);
      });
    };
    OpFoldResult first = getAsOpFoldResult(offset);
    auto layout = StridedLayoutAttr::get(
        b.getContext(),
        getConstantIntValue(first).value_or(ShapedType::kDynamic),
        toStatic(strides));
    auto type = MemRefType::get(toStatic(extents), b.getF32Type(), layout);
    return memref::ReinterpretCastOp::create(b, type, splits.buffer, first,
                                             extents, strides);
  };
  splits.out = makeView(sizes, b.constant(0));
  splits.rowMax = makeView(ArrayRef(sizes).drop_back(), numElements);
  splits.rowSum = makeView(ArrayRef(sizes).drop_back(), sumOffset);
  return splits;
}

namespace {
/// Writes the kernel that combines the KV splits of one attention.
class CombineWriter {
public:
  CombineWriter(OpBuilder &builder, AttentionOp attention,
                const KVSplits &splits, attn_tile::KernelOp kernel);

  void write();

private:
  /// An element of the result.
  struct Element {
    Value batch, head, row, headDimIndex;
  };
  /// The row sum, and the accumulator of probabilities times values, both
  /// relative to exp(reference).
  struct State {
    Value reference, rowSum, acc;
  };

  /// Combines the listed splits of one query tile, which begin at work item
  /// `number`, for row `row` of the tile of kernel head `head`.
  void writeListed(Value number, Value head, Value row, Value headDimIndex);
  void writeBlock(const Element &first, Value exists);
  void writeElement(const Element &at);
  State writeSplits(const Element &at, Value first, int64_t number,
                    bool isBounded, State state);

  Value f32(double value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
  }
  Value lowest() { return f32(-std::numeric_limits<double>::infinity()); }
  /// exp(x), where x may be -inf.
  Value exp(Value x) {
    return math::Exp2Op::create(
        b, arith::MulFOp::create(b, x, f32(log2e)).getResult());
  }
  Value isLowest(Value x) {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, lowest());
  }

  ScalarKernelBuilder b;
  int64_t headDim, headDimBlocks;
  /// Query heads that are rows of a tile.
  int64_t headsOfTile;
  bool packsQueries;
  Value splitOut, splitMax, splitSum, out, lse, workItemList, numSplits,
      batches;
  /// Of listed splits: the first work item, and the row and head in their
  /// buffers.
  Value firstItem, splitHead, splitRow;
};
} // namespace

CombineWriter::CombineWriter(OpBuilder &builder, AttentionOp attention,
                             const KVSplits &splits, attn_tile::KernelOp kernel)
    : b(attention.getLoc(), builder), headDim(attention.getVHeadDim()),
      headDimBlocks(llvm::divideCeil(headDim, headDimBlock)),
      headsOfTile(attention.getChosenSchedule().packsGqa()
                      ? attention.getGroupSize()
                      : 1),
      packsQueries(getKVAddressing(attention).packsQueries()) {
  Block &entry = kernel.getBody().front();
  b.setInsertionPointToEnd(&entry);
  auto *next = entry.args_begin();
  splitOut = *next++;
  splitMax = *next++;
  splitSum = *next++;
  out = *next++;
  if (attention.getLse())
    lse = *next++;
  if (splits.areListed())
    workItemList = *next++;
  else if (std::optional<int64_t> constant = getConstantIntValue(splits.count))
    numSplits = b.constant(*constant);
  else
    numSplits = *next++;
}

void CombineWriter::write() {
  batches = b.size(out, 0);
  Value heads = b.size(out, 1), blocks = b.constant(headDimBlocks);
  SmallVector<OpFoldResult> bounds;
  int64_t tileRows = getDimSize(splitOut, 2);
  if (workItemList) {
    Value rows = b.constant(getDimSize(splitOut, 1) * tileRows * headDimBlocks);
    bounds = {rows, emitNumListedWorkItems(b, workItemList)};
  } else {
    bounds = {batches, heads, b.mul(b.size(out, 2), blocks)};
  }
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  auto ids = forall.getInductionVars();
  auto split = [&](Value id, int64_t size) -> std::pair<Value, Value> {
    Value divisor = b.constant(size);
    return {arith::DivUIOp::create(b, id, divisor),
            arith::RemUIOp::create(b, id, divisor)};
  };
  auto [outer, block] = split(workItemList ? ids[0] : ids[2], headDimBlocks);
  Value headDimIndex = b.mul(block, b.constant(headDimBlock));
  if (!workItemList)
    return writeBlock({ids[0], ids[1], outer, headDimIndex}, Value());
  auto [head, row] = split(outer, tileRows);
  writeListed(ids[1], head, row, headDimIndex);
}

void CombineWriter::writeListed(Value number, Value head, Value row,
                                Value headDimIndex) {
  ListedWorkItem item =
      emitListedWorkItem(b, workItemList, number, /*isSplit=*/true);
  numSplits = item.numSplits;
  firstItem = number;
  splitHead = head;
  splitRow = row;
  Value isFirst =
      b.compare(arith::CmpIPredicate::eq, item.split, b.constant(0));
  Value exists =
      b.both(isFirst, b.compare(arith::CmpIPredicate::slt,
                                b.add(item.first, row), item.queryLength));
  Value batch = packsQueries ? b.constant(0) : item.sequence;
  Value query = b.add(item.queryRow, row);
  if (headsOfTile != 1) {
    // Row r is query r / g of query head r % g of the group.
    Value size = b.constant(headsOfTile);
    head = b.add(b.mul(head, size), arith::RemUIOp::create(b, query, size));
    query = arith::DivUIOp::create(b, query, size);
  }
  writeBlock({batch, head, query, headDimIndex}, exists);
}

void CombineWriter::writeBlock(const Element &first, Value exists) {
  Value number = b.constant(headDimBlock);
  if (headDim % headDimBlock != 0)
    number = arith::MinUIOp::create(
        b, number, b.sub(b.constant(headDim), first.headDimIndex));
  if (exists)
    number = b.select(exists, number, b.constant(0));
  b.each(number, [&](Value thread) {
    Element at = first;
    at.headDimIndex = b.add(first.headDimIndex, thread);
    writeElement(at);
  });
}

CombineWriter::State CombineWriter::writeSplits(const Element &at, Value first,
                                                int64_t number, bool isBounded,
                                                State state) {
  SmallVector<Value> maxima, sums, values;
  Value last = b.sub(numSplits, b.constant(1));
  for (int64_t i = 0; i < number; ++i) {
    Value split = b.add(first, b.constant(i)), place = split;
    if (isBounded)
      place = arith::MinUIOp::create(b, split, last);
    SmallVector<Value> row;
    if (workItemList)
      row = {b.add(firstItem, place), splitHead, splitRow};
    else
      row = {b.add(b.mul(place, batches), at.batch), at.head, at.row};
    Value maximum = memref::LoadOp::create(b, splitMax, row);
    if (isBounded)
      maximum = b.select(b.compare(arith::CmpIPredicate::ule, split, last),
                         maximum, lowest());
    maxima.push_back(maximum);
    sums.push_back(memref::LoadOp::create(b, splitSum, row));
    row.push_back(at.headDimIndex);
    values.push_back(memref::LoadOp::create(b, splitOut, row));
  }
  Value reference = state.reference;
  for (Value maximum : maxima)
    reference = arith::MaxNumFOp::create(b, reference, maximum);
  Value zero = f32(0);
  Value finite = b.select(isLowest(reference), zero, reference);
  Value factor = exp(arith::SubFOp::create(b, state.reference, finite));
  Value rowSum = arith::MulFOp::create(b, state.rowSum, factor);
  Value acc = arith::MulFOp::create(b, state.acc, factor);
  for (auto [maximum, splitRowSum, value] :
       llvm::zip_equal(maxima, sums, values)) {
    // The buffers of a split without keys may hold any row sum and any values.
    Value isEmpty = isLowest(maximum);
    Value weight =
        arith::MulFOp::create(b, exp(arith::SubFOp::create(b, maximum, finite)),
                              b.select(isEmpty, zero, splitRowSum));
    rowSum = arith::AddFOp::create(b, rowSum, weight);
    Value held = b.select(isEmpty, zero, value);
    acc = math::FmaOp::create(b, weight, held, acc);
  }
  return {reference, rowSum, acc};
}

void CombineWriter::writeElement(const Element &at) {
  State state = {lowest(), f32(0), f32(0)};
  std::optional<int64_t> constant = getConstantIntValue(numSplits);
  if (constant && *constant <= maxUnrolled) {
    state =
        writeSplits(at, b.constant(0), *constant, /*isBounded=*/false, state);
  } else {
    // Most query tiles have few listed splits.
    int64_t unrolled = workItemList ? maxUnrolledListed : maxUnrolled;
    auto loop = scf::ForOp::create(
        b, b.constant(0), numSplits, b.constant(unrolled),
        ValueRange{state.reference, state.rowSum, state.acc});
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    auto args = loop.getRegionIterArgs();
    bool isBounded = !constant || *constant % unrolled != 0;
    State next = writeSplits(at, loop.getInductionVar(), unrolled, isBounded,
                             {args[0], args[1], args[2]});
    scf::YieldOp::create(b, ValueRange{next.reference, next.rowSum, next.acc});
    state = {loop.getResult(0), loop.getResult(1), loop.getResult(2)};
  }
  Value zero = f32(0);
  Value isNone =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, state.rowSum, zero);
  Value result =
      b.select(isNone, zero, arith::DivFOp::create(b, state.acc, state.rowSum));
  Type element = cast<MemRefType>(out.getType()).getElementType();
  if (!element.isF32())
    result = arith::TruncFOp::create(b, element, result);
  memref::StoreOp::create(
      b, result, out, ValueRange{at.batch, at.head, at.row, at.headDimIndex});
  if (!lse)
    return;
  Value isFirst =
      b.compare(arith::CmpIPredicate::eq, at.headDimIndex, b.constant(0));
  auto ifOp = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  Value log = math::LogOp::create(b, state.rowSum);
  memref::StoreOp::create(b, arith::AddFOp::create(b, state.reference, log),
                          lse, ValueRange{at.batch, at.head, at.row});
}

void attn::combineSplits(RewriterBase &rewriter, AttentionOp attention,
                         const KVSplits &splits, Value workItemList,
                         Operation *place, SymbolTable &symbols) {
  SmallVector<Value> operands = {splits.out, splits.rowMax, splits.rowSum,
                                 attention.getOut()};
  if (Value lse = attention.getLse())
    operands.push_back(lse);
  if (splits.areListed())
    operands.push_back(workItemList);
  if (splits.count && !getConstantIntValue(splits.count))
    operands.push_back(splits.count);
  attn_tile::KernelOp kernel = createKernel(
      rewriter, place, attention.getChosenSchedule().getPreparation(), symbols,
      "_combine", operands);
  OpBuilder::InsertionGuard guard(rewriter);
  CombineWriter(rewriter, attention, splits, kernel).write();
}
