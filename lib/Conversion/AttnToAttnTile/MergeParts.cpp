//===- MergeParts.cpp - Results of shares of the keys ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A share leaves the output and the log-sum-exp of its own softmax. That of all
// keys is
//
//   lse = log(sum over shares p of exp(lse_p))
//   out = sum over shares p of exp(lse_p - lse) * out_p
//
// with exponents taken relative to the largest lse_p (FlashDecoding, Dao et al.
// 2023). A work item is a block of channels of one row, one for each thread, so
// that the loads of all shares are under way at once.
//
//===----------------------------------------------------------------------===//

#include "MergeParts.h"
#include "CreateKernel.h"
#include "PlanSequences.h"
#include "ScalarKernelBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

/// Channels of a work item: one for each thread of a warp.
static constexpr int64_t channelBlock = 32;
/// Shares that are loaded at once.
static constexpr int64_t maxUnrolled = 16;
static constexpr double log2e = 1.4426950408889634074;

KeyParts attn::emitKeyParts(RewriterBase &rewriter, AttentionOp attention,
                            Value plan) {
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  int64_t wanted = schedule.getSplitItems();
  if (wanted == 0)
    return {};
  OpBuilder::InsertionGuard guard(rewriter);
  ScalarKernelBuilder b(attention.getLoc(), rewriter);
  b.setInsertionPoint(attention);
  auto mul = [&](Value lhs, Value rhs) {
    return b.createOrFold<arith::MulIOp>(lhs, rhs);
  };
  auto tiles = [&](Value length, int64_t tile) {
    Value rounded = b.createOrFold<arith::AddIOp>(length, b.constant(tile - 1));
    return b.createOrFold<arith::DivUIOp>(rounded, b.constant(tile));
  };
  Value query = attention.getQuery(), key = attention.getKey();
  Value one = b.constant(1), heads = b.size(query, 1);
  Value items =
      plan ? mul(heads, b.createOrFold<arith::SubIOp>(b.size(plan, 0), one))
           : mul(mul(b.size(query, 0), heads),
                 tiles(b.size(query, 2), schedule.getQueryTile()));
  items = b.createOrFold<arith::MaxUIOp>(items, one);
  Value count = b.createOrFold<arith::MinUIOp>(
      b.createOrFold<arith::DivUIOp>(b.constant(wanted), items),
      tiles(b.size(key, 2), schedule.getKeyTile()));
  count = b.createOrFold<arith::MaxUIOp>(count, one);
  if (isConstantIntValue(count, 1))
    return {};

  // Both in one buffer: getting memory takes time on the stream.
  SmallVector<Value> sizes;
  for (int64_t dim = 0; dim < 4; ++dim)
    sizes.push_back(b.size(attention.getOut(), dim));
  sizes[0] = mul(sizes[0], count);
  Value numRows = mul(mul(sizes[0], sizes[1]), sizes[2]);
  Value numElements = mul(numRows, sizes[3]);
  Value total = b.createOrFold<arith::AddIOp>(numElements, numRows);
  KeyParts parts;
  parts.count = count;
  SmallVector<Value> dynamicTotal;
  std::optional<int64_t> constantTotal = getConstantIntValue(total);
  if (!constantTotal)
    dynamicTotal.push_back(total);
  parts.buffer = memref::AllocOp::create(
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
    return memref::ReinterpretCastOp::create(b, type, parts.buffer, first,
                                             extents, strides);
  };
  parts.out = makeView(sizes, b.constant(0));
  parts.lse = makeView(ArrayRef(sizes).drop_back(), numElements);
  return parts;
}

namespace {
/// Writes the kernel that merges the shares of one attention.
class MergeWriter {
public:
  MergeWriter(OpBuilder &builder, AttentionOp attention, Value count,
              bool isPlanned, attn_tile::KernelOp kernel);

  void write();

private:
  /// An element of the result.
  struct Element {
    Value batch, head, row, channel;
  };
  /// The sum of weights and of weighted values, both relative to
  /// exp(reference).
  struct State {
    Value reference, weights, sum;
  };

  void writeBlock(const Element &first, Value exists);
  void writeElement(const Element &at);
  State writeShares(const Element &at, Value first, int64_t number,
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
  int64_t queryTile, channels, channelBlocks;
  SequenceLayout layout = SequenceLayout::Padded;
  Value partOut, partLse, out, lse, plan, count, batches;
};
} // namespace

MergeWriter::MergeWriter(OpBuilder &builder, AttentionOp attention,
                         Value partCount, bool isPlanned,
                         attn_tile::KernelOp kernel)
    : b(attention.getLoc(), builder),
      queryTile(attention.getChosenSchedule().getQueryTile()),
      channels(attention.getValueHeadDim()),
      channelBlocks(llvm::divideCeil(channels, channelBlock)),
      layout(attention.getSequenceLayout().value_or(SequenceLayout::Padded)) {
  Block &entry = kernel.getBody().front();
  b.setInsertionPointToEnd(&entry);
  auto *next = entry.args_begin();
  partOut = *next++;
  partLse = *next++;
  out = *next++;
  if (attention.getLse())
    lse = *next++;
  if (isPlanned)
    plan = *next++;
  if (std::optional<int64_t> constant = getConstantIntValue(partCount))
    count = b.constant(*constant);
  else
    count = *next++;
}

void MergeWriter::write() {
  batches = b.size(out, 0);
  Value heads = b.size(out, 1), blocks = b.constant(channelBlocks);
  SmallVector<OpFoldResult> bounds;
  if (plan) {
    Value rows = b.constant(queryTile * channelBlocks);
    bounds = {b.mul(heads, rows), emitPlannedItems(b, plan)};
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
  auto [outer, block] = split(plan ? ids[0] : ids[2], channelBlocks);
  Value channel = b.mul(block, b.constant(channelBlock));
  if (!plan)
    return writeBlock({ids[0], ids[1], outer, channel}, Value());
  auto [head, row] = split(outer, queryTile);
  PlannedItem item = emitPlannedItem(b, plan, ids[1]);
  Value batch =
      layout == SequenceLayout::Packed ? b.constant(0) : item.sequence;
  Value exists = b.compare(arith::CmpIPredicate::slt, b.add(item.first, row),
                           item.queryLength);
  writeBlock({batch, head, b.add(item.queryRow, row), channel}, exists);
}

void MergeWriter::writeBlock(const Element &first, Value exists) {
  Value number = b.constant(channelBlock);
  if (channels % channelBlock != 0)
    number = arith::MinUIOp::create(b, number,
                                    b.sub(b.constant(channels), first.channel));
  if (exists)
    number = b.select(exists, number, b.constant(0));
  b.each(number, [&](Value thread) {
    Element at = first;
    at.channel = b.add(first.channel, thread);
    writeElement(at);
  });
}

MergeWriter::State MergeWriter::writeShares(const Element &at, Value first,
                                            int64_t number, bool isBounded,
                                            State state) {
  SmallVector<Value> logs, values;
  Value last = b.sub(count, b.constant(1));
  for (int64_t i = 0; i < number; ++i) {
    Value share = b.add(first, b.constant(i)), place = share;
    if (isBounded)
      place = arith::MinUIOp::create(b, share, last);
    Value entry = b.add(b.mul(place, batches), at.batch);
    Value log =
        memref::LoadOp::create(b, partLse, ValueRange{entry, at.head, at.row});
    if (isBounded)
      log = b.select(b.compare(arith::CmpIPredicate::ule, share, last), log,
                     lowest());
    logs.push_back(log);
    values.push_back(memref::LoadOp::create(
        b, partOut, ValueRange{entry, at.head, at.row, at.channel}));
  }
  Value reference = state.reference;
  for (Value log : logs)
    reference = arith::MaxNumFOp::create(b, reference, log);
  Value zero = f32(0);
  Value finite = b.select(isLowest(reference), zero, reference);
  Value factor = exp(arith::SubFOp::create(b, state.reference, finite));
  Value weights = arith::MulFOp::create(b, state.weights, factor);
  Value sum = arith::MulFOp::create(b, state.sum, factor);
  for (auto [log, value] : llvm::zip_equal(logs, values)) {
    Value weight = exp(arith::SubFOp::create(b, log, finite));
    weights = arith::AddFOp::create(b, weights, weight);
    // What a share without keys holds may be anything.
    Value held = b.select(isLowest(log), zero, value);
    sum = math::FmaOp::create(b, weight, held, sum);
  }
  return {reference, weights, sum};
}

void MergeWriter::writeElement(const Element &at) {
  State state = {lowest(), f32(0), f32(0)};
  std::optional<int64_t> constant = getConstantIntValue(count);
  if (constant && *constant <= maxUnrolled) {
    state =
        writeShares(at, b.constant(0), *constant, /*isBounded=*/false, state);
  } else {
    auto loop = scf::ForOp::create(
        b, b.constant(0), count, b.constant(maxUnrolled),
        ValueRange{state.reference, state.weights, state.sum});
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    auto args = loop.getRegionIterArgs();
    bool isBounded = !constant || *constant % maxUnrolled != 0;
    State next = writeShares(at, loop.getInductionVar(), maxUnrolled, isBounded,
                             {args[0], args[1], args[2]});
    scf::YieldOp::create(b, ValueRange{next.reference, next.weights, next.sum});
    state = {loop.getResult(0), loop.getResult(1), loop.getResult(2)};
  }
  Value zero = f32(0);
  Value isNone =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, state.weights, zero);
  Value result = b.select(isNone, zero,
                          arith::DivFOp::create(b, state.sum, state.weights));
  Type element = cast<MemRefType>(out.getType()).getElementType();
  if (!element.isF32())
    result = arith::TruncFOp::create(b, element, result);
  memref::StoreOp::create(b, result, out,
                          ValueRange{at.batch, at.head, at.row, at.channel});
  if (!lse)
    return;
  Value isFirst =
      b.compare(arith::CmpIPredicate::eq, at.channel, b.constant(0));
  auto ifOp = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  Value log = math::LogOp::create(b, state.weights);
  memref::StoreOp::create(b, arith::AddFOp::create(b, state.reference, log),
                          lse, ValueRange{at.batch, at.head, at.row});
}

void attn::mergeParts(RewriterBase &rewriter, AttentionOp attention,
                      const KeyParts &parts, Value plan, Operation *place,
                      SymbolTable &symbols) {
  SmallVector<Value> operands = {parts.out, parts.lse, attention.getOut()};
  for (Value operand : {attention.getLse(), plan})
    if (operand)
      operands.push_back(operand);
  if (!getConstantIntValue(parts.count))
    operands.push_back(parts.count);
  attn_tile::KernelOp kernel = createKernel(
      rewriter, place, attention.getChosenSchedule().getPreparation(), symbols,
      "_merge", operands);
  OpBuilder::InsertionGuard guard(rewriter);
  MergeWriter(rewriter, attention, parts.count, plan != nullptr, kernel)
      .write();
}
