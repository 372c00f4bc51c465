//===- CombineSplits.cpp - Results of KV splits ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each KV split writes an output of its own in f32, and statistics of it. The
// operation emits the code that combines them. A work item is a block of the
// head dim of one row, one element for each thread, so that the loads of all
// splits are in flight at once. With listed splits it is a block of some rows,
// and only tiles with several splits have work items.
//
//===----------------------------------------------------------------------===//

#include "CombineSplits.h"
#include "CarriedLoop.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "attn/Dialect/Attn/IR/Float8.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

/// Elements of the head dim that a thread of a work item, a warp, combines:
/// one, but of wide heads and listed splits several. Their rows would have so
/// many work items that the device takes longer to launch the CTAs than these
/// to run (docs/experiments/latent-decoding.md, kv-cache-serving.md).
static int64_t countElementsOfThread(int64_t headDim, bool areListed) {
  constexpr int64_t most = 4, mostListed = 8;
  int64_t number = 1;
  if (areListed || headDim > attn_tile::maxMmaColumns)
    while (number < (areListed ? mostListed : most) &&
           headDim % (2 * number * attn_tile::warpThreads) == 0)
      number *= 2;
  return number;
}

/// Rows that a work item of listed splits combines on GPUs, each by a warp.
static int64_t countRowsOfWorkItem(int64_t tileRows) {
  constexpr int64_t most = 4;
  return tileRows % most == 0 ? most : 1;
}

/// KV splits that are loaded at once: of all query tiles; where work items list
/// theirs or there are few; of wide heads.
static constexpr int64_t maxUnrolled = 16, fewSplits = 4, maxUnrolledWide = 8;

/// Emits the number of splits of each query tile, all of which have as many.
static Value emitNumSplits(ScalarKernelBuilder &b,
                           AttentionOpInterface attention) {
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
    heads = b.constant(attention.getNumGroups());
  }
  Value items =
      mul(mul(b.size(query, 0), heads), tiles(rows, schedule.getQueryTile()));
  items = mul(items,
              b.constant(countHeadDimTiles(attention.getVHeadDim(), schedule)));
  items = b.createOrFold<arith::MaxUIOp>(items, one);
  // Splits of latents, whose outputs are wide, have two tiles at least: half as
  // many take less time to combine.
  int64_t keysOfSplit =
      schedule.getKeyTile() * (schedule.getColumnConsumers() > 1 ? 2 : 1);
  Value numSplits = b.createOrFold<arith::MinUIOp>(
      b.createOrFold<arith::DivUIOp>(b.constant(wanted), items),
      tiles(attention.getAddressing().emitMaxKeys(b, b.getLoc(), key,
                                                  attention.getPageTable()),
            keysOfSplit));
  return b.createOrFold<arith::MaxUIOp>(numSplits, one);
}

/// The sizes of the buffer of the outputs of listed splits.
static SmallVector<Value> emitListedSizes(ScalarKernelBuilder &b,
                                          AttentionOpInterface attention,
                                          const SequenceLists &lists) {
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  bool isPacked = schedule.packsGqa();
  int64_t rows = schedule.getQueryTile();
  int64_t queries = getDimSize(attention.getQuery(), 2);
  if (!attention.getAddressing().isListed() && !ShapedType::isDynamic(queries))
    rows = std::min(rows, queries * (isPacked ? attention.getGroupSize() : 1));
  int64_t heads =
      isPacked ? attention.getNumGroups() : attention.getNumQueryHeads();
  return {b.constant(lists.maxParts), b.constant(heads), b.constant(rows),
          b.constant(attention.getVHeadDim())};
}

/// The values, `ShapedType::kDynamic` where they are not constant.
static SmallVector<int64_t> toStatic(ArrayRef<OpFoldResult> values) {
  return llvm::map_to_vector(values, [](OpFoldResult value) {
    return getConstantIntValue(value).value_or(ShapedType::kDynamic);
  });
}

/// Allocates `size` elements of f32.
static Value emitBuffer(ScalarKernelBuilder &b, Value size) {
  std::optional<int64_t> constant = getConstantIntValue(size);
  return memref::AllocOp::create(
      b,
      MemRefType::get(constant.value_or(ShapedType::kDynamic), b.getF32Type()),
      constant ? ValueRange() : ValueRange(size));
}

/// The part of `buffer` from `offset` on, in row-major order.
static Value emitView(ScalarKernelBuilder &b, Value buffer,
                      ArrayRef<Value> shape, Value offset) {
  SmallVector<OpFoldResult> strides(shape.size());
  Value stride = b.constant(1);
  for (int64_t dim = int64_t(shape.size()) - 1; dim >= 0; --dim) {
    strides[dim] = getAsOpFoldResult(stride);
    stride = b.createOrFold<arith::MulIOp>(stride, shape[dim]);
  }
  SmallVector<OpFoldResult> extents = getAsOpFoldResult(ValueRange(shape));
  OpFoldResult first = getAsOpFoldResult(offset);
  auto layout = StridedLayoutAttr::get(
      b.getContext(), getConstantIntValue(first).value_or(ShapedType::kDynamic),
      toStatic(strides));
  auto type = MemRefType::get(toStatic(extents), b.getF32Type(), layout);
  return memref::ReinterpretCastOp::create(b, type, buffer, first, extents,
                                           strides);
}

KVSplits attn::emitKVSplits(RewriterBase &rewriter,
                            attn_tile::StreamingOpInterface op,
                            const SequenceLists &lists) {
  auto attention = cast<AttentionOpInterface>(op.getOperation());
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
    sizes = emitListedSizes(b, attention, lists);
  } else {
    splits.count = emitNumSplits(b, attention);
    if (isConstantIntValue(splits.count, 1))
      return {};
    for (int64_t dim = 0; dim < 4; ++dim)
      sizes.push_back(b.size(attention.getDpsInits().front(), dim));
    sizes[0] = mul(sizes[0], splits.count);
  }

  // One buffer for all: an allocation takes time on the stream.
  Value numRows = mul(mul(sizes[0], sizes[1]), sizes[2]);
  Value numElements = mul(numRows, sizes[3]);
  SmallVector<Value> offsets;
  Value total = numElements;
  for (int64_t i = 0; i < op.getNumSplitStatistics(); ++i) {
    offsets.push_back(total);
    total = b.createOrFold<arith::AddIOp>(total, numRows);
  }
  splits.buffer = emitBuffer(b, total);
  splits.out = emitView(b, splits.buffer, sizes, b.constant(0));
  for (Value offset : offsets)
    splits.statistics.push_back(
        emitView(b, splits.buffer, ArrayRef(sizes).drop_back(), offset));
  return splits;
}

namespace {
/// Writes the kernel that combines the KV splits of one operation.
class CombineWriter {
public:
  /// The last arguments of `kernel` are `captures` of the region that maps
  /// elements of the output.
  CombineWriter(OpBuilder &builder, attn_tile::StreamingOpInterface streaming,
                const KVSplits &splits, ValueRange captures,
                int64_t rowsOfWorkItem, attn_tile::KernelOp kernel);

  void write();

private:
  /// An element of the result.
  struct Element {
    Value batch, head, row, headDimIndex;
  };
  /// An element as the code of the operation sees it.
  class ElementBuilder;

  /// Combines the splits of query tile `number` of those with several ones, for
  /// the rows from `firstRow` on of the tile of kernel head `head`.
  void writeListed(Value number, Value head, Value firstRow,
                   Value headDimIndex);
  void writeListedElements(const ListedWorkItem &item, Value headDimIndex);
  void writeBlock(const Element &first);
  /// Writes the elements of a thread, the first one of which is `first`.
  void writeThread(const Element &first);
  void writeElements(ArrayRef<Element> places);
  /// Combines the splits from number `first` on, `number` of them, with the
  /// states of all elements. With `isBounded`, there may be fewer.
  SmallVector<Value> combine(MutableArrayRef<ElementBuilder> elements,
                             ValueRange states, Value first, bool isBounded,
                             int64_t number);
  /// Combines all splits, `unrolled` at a time.
  SmallVector<Value> combineInLoop(MutableArrayRef<ElementBuilder> elements,
                                   ValueRange states, int64_t unrolled);
  /// Applies the region that maps elements of the output, if there is one.
  Value mapOutput(Value value, const Element &at);

  ScalarKernelBuilder b;
  attn_tile::StreamingOpInterface streaming;
  /// A work item combines `headDimBlock` elements of the head dim.
  int64_t headDim, elementsOfThread, headDimBlock, headDimBlocks;
  /// Rows of a work item of listed splits.
  int64_t rowsOfWorkItem;
  /// Query heads that are rows of a tile.
  int64_t headsOfTile;
  bool packsQueries;
  Value splitOut, out, workItemList, splitTiles, numSplits, batches;
  SmallVector<Value> statistics, rowResults;
  /// The captures of the region that maps elements of the output, and the
  /// operands of the operation that its code reads.
  IRMapping captured, operands;
  /// Of listed splits: where the parts of the tile begin, and the row and head
  /// in their buffers.
  Value firstPart, splitHead, splitRow;
};
} // namespace

class CombineWriter::ElementBuilder : public attn_tile::CombinedElement {
public:
  ElementBuilder(CombineWriter &writer, const Element &at)
      : CombinedElement(writer.b), writer(writer), at(at) {}

  /// Chooses the splits that are combined at a time, from number `first` on.
  /// With `isBounded`, they may be more than there are.
  void beginSplits(Value first, bool isBounded);

  Value loadStatistic(int64_t split, unsigned index) override;
  Value loadOutput(int64_t split) override;
  Value emitExists(int64_t split) override;
  Value loadOperand(Value operand) override;
  void storeOutput(Value value) override;
  void storeRow(unsigned index, function_ref<Value()> emit) override;

private:
  /// The number of a split, and the indices of its row in the buffers.
  struct Place {
    Value split;
    SmallVector<Value> row;
  };
  const Place &getPlace(int64_t split);

  CombineWriter &writer;
  const Element at;
  Value first, last;
  bool isBounded = false;
  SmallVector<Place> places;
};

void CombineWriter::ElementBuilder::beginSplits(Value first, bool isBounded) {
  this->first = first;
  this->isBounded = isBounded;
  last = writer.b.sub(writer.numSplits, writer.b.constant(1));
  places.clear();
}

const CombineWriter::ElementBuilder::Place &
CombineWriter::ElementBuilder::getPlace(int64_t split) {
  if (split < int64_t(places.size()))
    return places[split];
  ScalarKernelBuilder &b = writer.b;
  Value number = b.add(first, b.constant(split)), place = number;
  if (isBounded)
    place = arith::MinUIOp::create(b, number, last);
  SmallVector<Value> row;
  if (writer.workItemList)
    row = {b.add(writer.firstPart, place), writer.splitHead, writer.splitRow};
  else
    row = {b.add(b.mul(place, writer.batches), at.batch), at.head, at.row};
  places.push_back({number, row});
  return places.back();
}

Value CombineWriter::ElementBuilder::loadStatistic(int64_t split,
                                                   unsigned index) {
  return memref::LoadOp::create(b, writer.statistics[index],
                                getPlace(split).row);
}

Value CombineWriter::ElementBuilder::loadOutput(int64_t split) {
  SmallVector<Value> indices = getPlace(split).row;
  indices.push_back(at.headDimIndex);
  return memref::LoadOp::create(b, writer.splitOut, indices);
}

Value CombineWriter::ElementBuilder::emitExists(int64_t split) {
  if (!isBounded)
    return {};
  return writer.b.compare(arith::CmpIPredicate::ule, getPlace(split).split,
                          last);
}

Value CombineWriter::ElementBuilder::loadOperand(Value operand) {
  Value argument = writer.operands.lookup(operand);
  SmallVector<Value> indices = {at.batch, at.head, at.row};
  if (cast<MemRefType>(argument.getType()).getRank() == 4)
    indices.push_back(at.headDimIndex);
  Value element = memref::LoadOp::create(b, argument, indices);
  if (element.getType().isF32())
    return element;
  return arith::ExtFOp::create(b, b.getF32Type(), element);
}

void CombineWriter::ElementBuilder::storeOutput(Value value) {
  value = writer.mapOutput(value, at);
  Type element = getElementTypeOrSelf(writer.out.getType());
  if (isFloat8(element))
    value = emitSaturated(b, b.getLoc(), value, cast<FloatType>(element));
  if (!element.isF32())
    value = arith::TruncFOp::create(b, element, value);
  memref::StoreOp::create(
      b, value, writer.out,
      ValueRange{at.batch, at.head, at.row, at.headDimIndex});
}

void CombineWriter::ElementBuilder::storeRow(unsigned index,
                                             function_ref<Value()> emit) {
  Value isFirst = writer.b.compare(arith::CmpIPredicate::eq, at.headDimIndex,
                                   writer.b.constant(0));
  auto ifOp = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  memref::StoreOp::create(b, emit(), writer.rowResults[index],
                          ValueRange{at.batch, at.head, at.row});
}

Value CombineWriter::mapOutput(Value value, const Element &at) {
  Region *map = streaming.getOutputMap();
  if (!map)
    return value;
  Value head = at.head, row = at.row;
  if (headsOfTile != 1) {
    // The region sees rows of packed tiles.
    Value size = b.constant(headsOfTile);
    row = b.add(b.mul(row, size),
                arith::RemUIOp::create(b, head, size).getResult());
    head = arith::DivUIOp::create(b, head, size);
  }
  IRMapping mapping(captured);
  mapping.map(map->getArguments(),
              ValueRange{value, at.batch, head, row, at.headDimIndex});
  for (Operation &op : map->front().without_terminator())
    b.clone(op, mapping);
  auto yield = cast<YieldOp>(map->front().getTerminator());
  return mapping.lookupOrDefault(yield.getValue());
}

CombineWriter::CombineWriter(OpBuilder &builder,
                             attn_tile::StreamingOpInterface streaming,
                             const KVSplits &splits, ValueRange captures,
                             int64_t rowsOfWorkItem, attn_tile::KernelOp kernel)
    : b(streaming.getLoc(), builder), streaming(streaming),
      rowsOfWorkItem(rowsOfWorkItem) {
  auto attention = cast<AttentionOpInterface>(streaming.getOperation());
  headDim = attention.getVHeadDim();
  elementsOfThread = countElementsOfThread(headDim, splits.areListed());
  headDimBlock = elementsOfThread * attn_tile::warpThreads;
  headDimBlocks = llvm::divideCeil(headDim, headDimBlock);
  headsOfTile =
      attention.getChosenSchedule().packsGqa() ? attention.getGroupSize() : 1;
  packsQueries = attention.getAddressing().packsQueries();
  Block &entry = kernel.getBody().front();
  b.setInsertionPointToEnd(&entry);
  auto *next = entry.args_begin();
  splitOut = *next++;
  for (int64_t i = 0; i < streaming.getNumSplitStatistics(); ++i)
    statistics.push_back(*next++);
  out = *next++;
  for (int64_t i = 1; i < attention.getNumDpsInits(); ++i)
    rowResults.push_back(*next++);
  for (Value operand : streaming.getCombinedOperands())
    operands.map(operand, *next++);
  if (splits.areListed()) {
    workItemList = *next++;
    splitTiles = *next++;
  } else if (std::optional<int64_t> constant =
                 getConstantIntValue(splits.count)) {
    numSplits = b.constant(*constant);
  } else {
    numSplits = *next++;
  }
  for (Value capture : captures)
    captured.map(capture, *next++);
  Region *map = streaming.getOutputMap();
  if (!map)
    return;
  // Clones the constants that the region captures.
  visitUsedValuesDefinedAbove(*map, [&](OpOperand *use) {
    if (!captured.contains(use->get()))
      b.clone(*use->get().getDefiningOp(), captured);
  });
}

void CombineWriter::write() {
  batches = b.size(out, 0);
  Value heads = b.size(out, 1), blocks = b.constant(headDimBlocks);
  SmallVector<OpFoldResult> bounds;
  int64_t rowBlocks = 1;
  if (workItemList) {
    int64_t tileRows = getDimSize(splitOut, 2);
    rowBlocks = tileRows / rowsOfWorkItem;
    Value blocksOfTile =
        b.constant(getDimSize(splitOut, 1) * rowBlocks * headDimBlocks);
    bounds = {blocksOfTile, emitNumSplitTiles(b, splitTiles)};
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
    return writeBlock({ids[0], ids[1], outer, headDimIndex});
  auto [head, rowBlock] = split(outer, rowBlocks);
  writeListed(ids[1], head, b.mul(rowBlock, b.constant(rowsOfWorkItem)),
              headDimIndex);
}

void CombineWriter::writeListed(Value number, Value head, Value firstRow,
                                Value headDimIndex) {
  ListedWorkItem item = emitSplitTile(b, workItemList, splitTiles, number);
  numSplits = item.numSplits;
  firstPart = item.firstPart;
  splitHead = head;
  Value lanes = b.constant(attn_tile::warpThreads);
  b.each(
      b.constant(rowsOfWorkItem * attn_tile::warpThreads), [&](Value thread) {
        splitRow = b.add(firstRow,
                         arith::DivUIOp::create(b, thread, lanes).getResult());
        Value first = b.add(
            headDimIndex, arith::RemUIOp::create(b, thread, lanes).getResult());
        Value exists = b.compare(arith::CmpIPredicate::slt,
                                 b.add(item.first, splitRow), item.queryLength);
        if (headDim % headDimBlock != 0)
          exists = b.both(exists, b.compare(arith::CmpIPredicate::slt, first,
                                            b.constant(headDim)));
        auto ifOp = scf::IfOp::create(b, exists, /*withElseRegion=*/false);
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(ifOp.thenBlock());
        writeListedElements(item, first);
      });
}

void CombineWriter::writeListedElements(const ListedWorkItem &item,
                                        Value headDimIndex) {
  Value batch = packsQueries ? b.constant(0) : item.sequence;
  Value head = splitHead, query = b.add(item.queryRow, splitRow);
  if (headsOfTile != 1) {
    // Row r is query r / g of query head r % g of the group.
    Value size = b.constant(headsOfTile);
    head = b.add(b.mul(head, size), arith::RemUIOp::create(b, query, size));
    query = arith::DivUIOp::create(b, query, size);
  }
  writeThread({batch, head, query, headDimIndex});
}

void CombineWriter::writeBlock(const Element &first) {
  Value number = b.constant(attn_tile::warpThreads);
  if (headDim % headDimBlock != 0)
    number = arith::MinUIOp::create(
        b, number, b.sub(b.constant(headDim), first.headDimIndex));
  b.each(number, [&](Value thread) {
    Element at = first;
    at.headDimIndex = b.add(first.headDimIndex, thread);
    writeThread(at);
  });
}

void CombineWriter::writeThread(const Element &first) {
  SmallVector<Element> places(elementsOfThread, first);
  for (auto [i, at] : llvm::enumerate(places))
    if (i != 0)
      at.headDimIndex = b.add(first.headDimIndex,
                              b.constant(int64_t(i) * attn_tile::warpThreads));
  writeElements(places);
}

SmallVector<Value>
CombineWriter::combine(MutableArrayRef<ElementBuilder> elements,
                       ValueRange states, Value first, bool isBounded,
                       int64_t number) {
  size_t ofElement = states.size() / elements.size();
  SmallVector<Value> next;
  for (auto [i, element] : llvm::enumerate(elements)) {
    element.beginSplits(first, isBounded);
    llvm::append_range(
        next, streaming.emitCombine(
                  element, states.slice(i * ofElement, ofElement), number));
  }
  return next;
}

SmallVector<Value>
CombineWriter::combineInLoop(MutableArrayRef<ElementBuilder> elements,
                             ValueRange states, int64_t unrolled) {
  std::optional<int64_t> constant = getConstantIntValue(numSplits);
  bool isBounded = !constant || *constant % unrolled != 0;
  auto emitBody = [&](Value first, ValueRange carried) {
    return combine(elements, carried, first, isBounded, unrolled);
  };
  return emitCarriedLoop(b, numSplits, states, emitBody, unrolled);
}

void CombineWriter::writeElements(ArrayRef<Element> places) {
  SmallVector<ElementBuilder> elements;
  SmallVector<Value> states;
  for (const Element &at : places)
    elements.emplace_back(*this, at);
  for (ElementBuilder &element : elements)
    llvm::append_range(states, streaming.emitInitCombined(element));
  std::optional<int64_t> constant = getConstantIntValue(numSplits);
  // Most query tiles have few listed splits. So have rows of wide heads where
  // there are many of them, and loads of splits that do not exist take time.
  int64_t unrolled = workItemList            ? fewSplits
                     : elementsOfThread == 1 ? maxUnrolled
                                             : maxUnrolledWide;
  if (constant && *constant <= unrolled) {
    states = combine(elements, states, b.constant(0), /*isBounded=*/false,
                     *constant);
  } else if (workItemList || constant || elementsOfThread == 1) {
    states = combineInLoop(elements, states, unrolled);
  } else {
    auto types = llvm::map_to_vector(
        states, [](Value value) { return value.getType(); });
    Value areFew =
        b.compare(arith::CmpIPredicate::ule, numSplits, b.constant(fewSplits));
    auto ifOp = scf::IfOp::create(b, types, areFew, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    scf::YieldOp::create(b, combine(elements, states, b.constant(0),
                                    /*isBounded=*/true, fewSplits));
    b.setInsertionPointToStart(ifOp.elseBlock());
    scf::YieldOp::create(b, combineInLoop(elements, states, unrolled));
    states = llvm::to_vector_of<Value>(ifOp.getResults());
  }
  size_t ofElement = states.size() / elements.size();
  for (auto [i, element] : llvm::enumerate(elements))
    streaming.emitFinalizeCombined(
        element, ValueRange(states).slice(i * ofElement, ofElement));
}

LogicalResult attn::combineSplits(RewriterBase &rewriter,
                                  attn_tile::StreamingOpInterface op,
                                  const KVSplits &splits,
                                  const SequenceLists &lists, Operation *place,
                                  SymbolTable &symbols) {
  auto attention = cast<AttentionOpInterface>(op.getOperation());
  SetVector<Value> used;
  if (Region *map = op.getOutputMap())
    getUsedValuesDefinedAbove(*map, used);
  FailureOr<SmallVector<Value>> captures = getCaptures(op, used.getArrayRef());
  if (failed(captures))
    return failure();
  SmallVector<Value> operands = {splits.out};
  llvm::append_range(operands, splits.statistics);
  llvm::append_range(operands, attention.getDpsInits());
  llvm::append_range(operands, op.getCombinedOperands());
  if (splits.areListed())
    operands.append({lists.workItems, lists.splitTiles});
  if (splits.count && !getConstantIntValue(splits.count))
    operands.push_back(splits.count);
  llvm::append_range(operands, *captures);
  ScheduleAttrInterface schedule =
      attention.getChosenSchedule().getPreparation();
  int64_t rowsOfWorkItem = 1;
  if (splits.areListed() && isa<attn_tile::ScalarAttr>(schedule)) {
    rowsOfWorkItem = countRowsOfWorkItem(getDimSize(splits.out, 2));
    schedule = cast<ScheduleAttrInterface>(Attribute(
        attn_tile::ScalarAttr::get(op.getContext(), /*warps=*/rowsOfWorkItem)));
  }
  attn_tile::KernelOp kernel =
      createKernel(rewriter, place, schedule, symbols, "_combine", operands);
  OpBuilder::InsertionGuard guard(rewriter);
  CombineWriter(rewriter, op, splits, *captures, rowsOfWorkItem, kernel)
      .write();
  return success();
}
