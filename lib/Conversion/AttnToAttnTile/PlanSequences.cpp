//===- PlanSequences.cpp - Work items of sequences ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The list is a memref<?x8xi32>. Row 0 begins with the number of items; row
// 1 + i is item i, in the order of `Field`. Items of tiles of queries whose
// sequences have few keys come first, those of one sequence are neighbours, and
// the walk goes from the last item to the first: groups then end with the
// shortest items, and share keys and values in the second level cache on the
// way. Within a sequence late and early tiles alternate, so that under a causal
// mask any two items in a row have much the same work. Where the number of
// items is odd the first one is there twice, and is done twice. Items of tiles
// of keys are listed by the number of queries, and within a sequence so that
// the walk begins with its first tile; since they add to what others add to,
// the additional one has no rows.
//
// The kernel has one work item for each sequence and one more. Each of them
// goes over all sequences: the place of its own tiles is the number of tiles of
// the sequences before it. The additional item writes row 0. Where a boundary
// is not as it must be, no sequence has tiles, so that nothing is read or
// written that is not there, and the fault is reported.
//
//===----------------------------------------------------------------------===//

#include "PlanSequences.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Columns of an item.
enum Field : int64_t {
  Sequence,
  First,
  QueryLength,
  KeyLength,
  QueryRow,
  KeyRow
};
} // namespace

/// Columns of the list: an item fills 32 bytes.
static constexpr int64_t numColumns = 8;

namespace {
/// Where the rows of a sequence are in one tensor.
struct Rows {
  Value first, length;
  /// Whether they are in the tensor.
  Value exist;
};

/// Writes the kernel that plans the sequences of one attention or gradient.
class PlanWriter {
public:
  PlanWriter(OpBuilder &builder, AttentionOpInterface op,
             const SequenceTiles &request, attn_tile::KernelOp kernel);

  void write();

private:
  Rows readRows(Value sequences, Value stored, Value longest, Value sequence);
  Value countTiles(Value length);
  void writeSequence(Value sequence);

  ScalarKernelBuilder b;
  SequenceLayout layout;
  SequenceTiles request;
  bool isOfKeys;
  Block *entry;
  Value querySequences, keySequences, plan, fault;
  Value storedQueries, storedKeys;
  /// What decisions that are read have words for; null if there are none.
  Value longestQueries, longestKeys;
  Value numSequences;
};
} // namespace

PlanWriter::PlanWriter(OpBuilder &builder, AttentionOpInterface op,
                       const SequenceTiles &request, attn_tile::KernelOp kernel)
    : b(op.getLoc(), builder), layout(*op.getSequenceLayout()),
      request(request), isOfKeys(request.rows == MaskDim::Key),
      entry(&kernel.getBody().front()) {
  auto *next = entry->args_begin();
  for (Value *argument : {&querySequences, &keySequences, &plan, &fault,
                          &storedQueries, &storedKeys})
    *argument = *next++;
  if (next == entry->args_end())
    return;
  longestQueries = *next++;
  longestKeys = *next++;
}

void PlanWriter::write() {
  b.setInsertionPointToEnd(entry);
  // Without boundaries, or without sequences in a padded batch, there is
  // nothing to read, and no room for an item either.
  Value entries = b.size(querySequences, 0);
  numSequences = entries;
  Value items = entries;
  Value zero = b.constant(0), one = b.constant(1);
  if (layout == SequenceLayout::Packed)
    numSequences = b.sub(entries, one);
  else
    items = b.select(b.compare(arith::CmpIPredicate::eq, entries, zero), zero,
                     b.add(entries, one));
  auto forall = scf::ForallOp::create(b, ArrayRef<OpFoldResult>{items},
                                      ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  writeSequence(forall.getInductionVar(0));
}

/// `sequence` is one that exists.
Rows PlanWriter::readRows(Value sequences, Value stored, Value longest,
                          Value sequence) {
  using arith::CmpIPredicate;
  Value zero = b.constant(0);
  if (layout == SequenceLayout::Padded) {
    Value length = b.loadIndex(sequences, sequence);
    Value exist = b.both(b.compare(CmpIPredicate::sle, zero, length),
                         b.compare(CmpIPredicate::sle, length, stored));
    return {zero, length, exist};
  }
  Value begin = b.loadIndex(sequences, sequence);
  Value end = b.loadIndex(sequences, b.add(sequence, b.constant(1)));
  Value exist = b.both(b.compare(CmpIPredicate::sle, zero, begin),
                       b.both(b.compare(CmpIPredicate::sle, begin, end),
                              b.compare(CmpIPredicate::sle, end, stored)));
  Value length = b.sub(end, begin);
  if (longest)
    exist = b.both(exist, b.compare(CmpIPredicate::sle, length, longest));
  return {begin, length, exist};
}

Value PlanWriter::countTiles(Value length) {
  if (request.extra == 0)
    return b.tiles(length, request.size);
  Value zero = b.constant(0);
  Value isNone = b.compare(arith::CmpIPredicate::eq, length, zero);
  return b.select(
      isNone, zero,
      b.tiles(b.add(length, b.constant(request.extra)), request.size));
}

void PlanWriter::writeSequence(Value sequence) {
  using arith::CmpIPredicate;
  Value zero = b.constant(0), one = b.constant(1);
  // The item after the last sequence has none, so that its sums stay zero.
  SmallVector<Value> own = b.sum(numSequences, 5, [&](Value s) {
    Rows queries = readRows(querySequences, storedQueries, longestQueries, s);
    Rows keys = readRows(keySequences, storedKeys, longestKeys, s);
    Value isOwn = b.compare(CmpIPredicate::eq, s, sequence);
    Value isBad = b.invert(b.both(queries.exist, keys.exist));
    SmallVector<Value> sums;
    for (Value value : {queries.first, queries.length, keys.first, keys.length})
      sums.push_back(b.select(isOwn, value, zero));
    sums.push_back(b.toIndex(isBad));
    return sums;
  });
  Value firstQueryRow = own[0], queryLength = own[1];
  Value firstKeyRow = own[2], keyLength = own[3];
  Value isBad = b.compare(CmpIPredicate::ne, own[4], zero);
  // Tiles are of the one, and walk over the other.
  Value length = isOfKeys ? keyLength : queryLength;
  Value walked = isOfKeys ? queryLength : keyLength;

  SmallVector<Value> places = b.sum(numSequences, 2, [&](Value s) {
    Rows queries = readRows(querySequences, storedQueries, longestQueries, s);
    Rows keys = readRows(keySequences, storedKeys, longestKeys, s);
    Value tiles = countTiles(isOfKeys ? keys.length : queries.length);
    Value other = isOfKeys ? queries.length : keys.length;
    Value isShorter = b.compare(CmpIPredicate::slt, other, walked);
    Value isTie = b.both(b.compare(CmpIPredicate::eq, other, walked),
                         b.compare(CmpIPredicate::slt, s, sequence));
    Value isBefore = arith::OrIOp::create(b, isShorter, isTie);
    return SmallVector<Value>{b.select(isBefore, tiles, zero), tiles};
  });
  Value isOdd = arith::AndIOp::create(b, places[1], one);
  Value place = b.add(b.add(places[0], one), isOdd);
  Value tiles = b.select(isBad, zero, countTiles(length));
  auto writeItem = [&](Value row, ArrayRef<Value> fields) {
    for (auto [field, value] : llvm::enumerate(fields))
      b.storeIndex(value, plan, {row, b.constant(static_cast<int64_t>(field))});
  };
  auto writeTile = [&](Value row, Value tile) {
    Value first = b.mul(tile, b.constant(request.size));
    Value queryRow = firstQueryRow, keyRow = firstKeyRow;
    Value &ofTile = isOfKeys ? keyRow : queryRow;
    ofTile = b.add(ofTile, first);
    writeItem(row, {sequence, first, queryLength, keyLength, queryRow, keyRow});
  };
  Value lastTile = b.sub(tiles, one);
  b.each(tiles, [&](Value tile) {
    // The walk begins with the first tile of keys, the longest under a causal
    // mask.
    if (isOfKeys)
      return writeTile(b.add(place, b.sub(lastTile, tile)), tile);
    // From the last row of the sequence: the last tile, the first one, the last
    // but one, the second one, ...
    Value fromEnd = b.mul(b.sub(lastTile, tile), b.constant(2));
    Value fromStart = b.add(b.mul(tile, b.constant(2)), one);
    Value isLate = b.compare(CmpIPredicate::sle, fromEnd, lastTile);
    Value turn = b.select(isLate, fromEnd, fromStart);
    writeTile(b.add(place, b.sub(lastTile, turn)), tile);
  });
  // The first item of all, which is the middle tile of its sequence, again, or
  // one without rows.
  Value isFirst = b.both(b.compare(CmpIPredicate::eq, places[0], zero),
                         b.compare(CmpIPredicate::ne, tiles, zero));
  Value again = b.select(isFirst, isOdd, zero);
  b.each(again, [&](Value) {
    if (isOfKeys)
      writeItem(one, SmallVector<Value>(KeyRow + 1, zero));
    else
      writeTile(one, arith::DivUIOp::create(b, lastTile, b.constant(2)));
  });

  Value isLast = b.compare(CmpIPredicate::eq, sequence, numSequences);
  b.each(b.toIndex(isLast), [&](Value) {
    Value count = b.select(isBad, zero, b.add(places[1], isOdd));
    b.storeIndex(count, plan, {zero, zero});
  });
  b.report(b.both(isLast, isBad), ATTNRT_FAULT_SEQUENCES, fault);
}

/// Emits the most items that sequences can have: one more than they have tiles,
/// so that their number can be even.
static Value emitCapacity(ScalarKernelBuilder &b, AttentionOpInterface op,
                          const SequenceTiles &request) {
  bool isOfKeys = request.rows == MaskDim::Key;
  Value entries = b.size(op.getQuerySequences(), 0);
  Value stored = b.size(isOfKeys ? op.getKey() : op.getQuery(), 2);
  Value tile = b.constant(request.size);
  Value zero = b.constant(0), one = b.constant(1);
  Value capacity;
  if (op.getSequenceLayout() == SequenceLayout::Padded) {
    Value rounded = b.add(stored, b.constant(request.extra + request.size - 1));
    Value tiles = arith::DivUIOp::create(b, rounded, tile);
    capacity = b.add(b.mul(entries, tiles), one);
  } else {
    // Each sequence adds less than one tile to those that its rows fill, and
    // those of the rows behind it.
    Value full = arith::DivUIOp::create(b, stored, tile);
    Value others = entries;
    if (request.extra != 0)
      others =
          b.mul(entries,
                b.constant(1 + llvm::divideCeil(request.extra, request.size)));
    capacity = b.add(full, others);
  }
  Value isNone = b.compare(arith::CmpIPredicate::eq, entries, zero);
  return b.select(isNone, zero, capacity);
}

Value attn::planSequences(RewriterBase &rewriter, AttentionOpInterface op,
                          const SequenceTiles &tiles, SymbolTable &symbols) {
  Location loc = op.getLoc();
  ScalarKernelBuilder b(loc, rewriter);
  b.setInsertionPoint(op);
  Value rows = b.add(emitCapacity(b, op, tiles), b.constant(1));
  auto planType =
      MemRefType::get({ShapedType::kDynamic, numColumns}, b.getI32Type());
  Value plan = memref::AllocOp::create(b, planType, rows);
  Value fault =
      attn_tile::FaultWordOp::create(b, MemRefType::get({1}, b.getI32Type()));
  SmallVector<Value> operands = {
      op.getQuerySequences(),   op.getKeySequences(),  plan, fault,
      b.size(op.getQuery(), 2), b.size(op.getKey(), 2)};
  // Padded sequences have no more positions than the mask has words for.
  if (Value mask = op.getDropoutMask();
      mask && op.getSequenceLayout() == SequenceLayout::Packed) {
    constexpr int64_t block = DropoutMaskOp::blockSize;
    bool isByRows = op.getMaskLayout() == MaskLayout::Rows;
    auto addLongest = [&](int64_t dim, int64_t wordsOfBlock) {
      operands.push_back(
          b.mul(b.tiles(b.size(mask, dim), wordsOfBlock), b.constant(block)));
    };
    addLongest(isByRows ? 2 : 3, DropoutMaskOp::countQueryWords(block));
    addLongest(isByRows ? 3 : 2, DropoutMaskOp::countKeyWords(block));
  }

  attn_tile::KernelOp kernel = createKernel(rewriter, op, tiles.preparation,
                                            symbols, tiles.suffix, operands);
  PlanWriter(rewriter, op, tiles, kernel).write();
  return plan;
}

Value attn::emitPlannedItems(ImplicitLocOpBuilder &builder, Value plan) {
  ScalarKernelBuilder b(builder.getLoc(), builder);
  Value zero = b.constant(0);
  Value rows = b.size(plan, 0);
  return attn_tile::AtMostOp::create(b, b.loadIndex(plan, {zero, zero}),
                                     b.sub(rows, b.constant(1)));
}

PlannedItem attn::emitPlannedItem(ImplicitLocOpBuilder &builder, Value plan,
                                  Value number) {
  ScalarKernelBuilder b(builder.getLoc(), builder);
  Value row = b.add(number, b.constant(1));
  auto load = [&](Field field) {
    return b.loadIndex(plan, {row, b.constant(field)});
  };
  PlannedItem item;
  item.sequence = load(Sequence);
  item.first = load(First);
  item.queryLength = load(QueryLength);
  item.keyLength = load(KeyLength);
  item.queryRow = load(QueryRow);
  item.keyRow = load(KeyRow);
  return item;
}
