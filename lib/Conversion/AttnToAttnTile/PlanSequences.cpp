//===- PlanSequences.cpp - Work items of sequences ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The list is a memref<?x8xi32>. Row 0 begins with the number of items; row
// 1 + i is item i, in the order of `Field`. Items of sequences with few keys
// come first, those of one sequence are neighbours, and the walk goes from the
// last item to the first: groups then end with the shortest items, and share
// keys and values in the second level cache on the way. Within a sequence late
// and early query tiles alternate, so that under a causal mask any two items in
// a row have much the same work. Where the number of items is odd the first one
// is there twice, and is done twice.
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

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Columns of an item.
enum Field : int64_t {
  Sequence,
  FirstQuery,
  QueryLength,
  KeyLength,
  FirstQueryRow,
  FirstKeyRow
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

/// Writes the kernel that plans the sequences of one attention.
class PlanWriter {
public:
  PlanWriter(OpBuilder &builder, AttentionOp attention,
             attn_tile::KernelOp kernel);

  void write();

private:
  Rows readRows(Value sequences, Value stored, Value sequence);
  Value countTiles(Value queryLength);
  void writeSequence(Value sequence);

  ScalarKernelBuilder b;
  SequenceLayout layout;
  int64_t queryTile;
  Block *entry;
  Value querySequences, keySequences, plan, fault;
  Value storedQueries, storedKeys;
  Value numSequences;
};
} // namespace

PlanWriter::PlanWriter(OpBuilder &builder, AttentionOp attention,
                       attn_tile::KernelOp kernel)
    : b(attention.getLoc(), builder), layout(*attention.getSequenceLayout()),
      queryTile(attention.getChosenSchedule().getQueryTile()),
      entry(&kernel.getBody().front()) {
  auto *next = entry->args_begin();
  for (Value *argument : {&querySequences, &keySequences, &plan, &fault,
                          &storedQueries, &storedKeys})
    *argument = *next++;
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
Rows PlanWriter::readRows(Value sequences, Value stored, Value sequence) {
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
  return {begin, b.sub(end, begin), exist};
}

Value PlanWriter::countTiles(Value queryLength) {
  return b.tiles(queryLength, queryTile);
}

void PlanWriter::writeSequence(Value sequence) {
  using arith::CmpIPredicate;
  Value zero = b.constant(0), one = b.constant(1);
  // The item after the last sequence has none, so that its sums stay zero.
  SmallVector<Value> own = b.sum(numSequences, 5, [&](Value s) {
    Rows queries = readRows(querySequences, storedQueries, s);
    Rows keys = readRows(keySequences, storedKeys, s);
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

  SmallVector<Value> places = b.sum(numSequences, 2, [&](Value s) {
    Rows queries = readRows(querySequences, storedQueries, s);
    Rows keys = readRows(keySequences, storedKeys, s);
    Value tiles = countTiles(queries.length);
    Value isShorter = b.compare(CmpIPredicate::slt, keys.length, keyLength);
    Value isTie = b.both(b.compare(CmpIPredicate::eq, keys.length, keyLength),
                         b.compare(CmpIPredicate::slt, s, sequence));
    Value isBefore = arith::OrIOp::create(b, isShorter, isTie);
    return SmallVector<Value>{b.select(isBefore, tiles, zero), tiles};
  });
  Value isOdd = arith::AndIOp::create(b, places[1], one);
  Value place = b.add(b.add(places[0], one), isOdd);
  Value tiles = b.select(isBad, zero, countTiles(queryLength));
  auto writeItem = [&](Value row, Value tile) {
    Value firstQuery = b.mul(tile, b.constant(queryTile));
    auto store = [&](Field field, Value value) {
      b.storeIndex(value, plan, {row, b.constant(field)});
    };
    store(Sequence, sequence);
    store(FirstQuery, firstQuery);
    store(QueryLength, queryLength);
    store(KeyLength, keyLength);
    store(FirstQueryRow, b.add(firstQueryRow, firstQuery));
    store(FirstKeyRow, firstKeyRow);
  };
  // From the last row of the sequence: the last tile, the first one, the last
  // but one, the second one, ...
  Value lastTile = b.sub(tiles, one);
  b.each(tiles, [&](Value tile) {
    Value fromEnd = b.mul(b.sub(lastTile, tile), b.constant(2));
    Value fromStart = b.add(b.mul(tile, b.constant(2)), one);
    Value isLate = b.compare(CmpIPredicate::sle, fromEnd, lastTile);
    Value turn = b.select(isLate, fromEnd, fromStart);
    writeItem(b.add(place, b.sub(lastTile, turn)), tile);
  });
  // The first item of all, which is the middle tile of its sequence, again.
  Value isFirst = b.both(b.compare(CmpIPredicate::eq, places[0], zero),
                         b.compare(CmpIPredicate::ne, tiles, zero));
  Value again = b.select(isFirst, isOdd, zero);
  b.each(again, [&](Value) {
    writeItem(one, arith::DivUIOp::create(b, lastTile, b.constant(2)));
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
static Value emitCapacity(ScalarKernelBuilder &b, AttentionOp attention) {
  Value entries = b.size(attention.getQuerySequences(), 0);
  Value stored = b.size(attention.getQuery(), 2);
  Value tile = b.constant(attention.getChosenSchedule().getQueryTile());
  Value zero = b.constant(0), one = b.constant(1);
  Value capacity;
  if (attention.getSequenceLayout() == SequenceLayout::Padded) {
    Value rounded = b.add(stored, b.sub(tile, one));
    Value tiles = arith::DivUIOp::create(b, rounded, tile);
    capacity = b.add(b.mul(entries, tiles), one);
  } else {
    // Each sequence adds less than one tile to those that its rows fill.
    Value full = arith::DivUIOp::create(b, stored, tile);
    capacity = b.add(full, entries);
  }
  Value isNone = b.compare(arith::CmpIPredicate::eq, entries, zero);
  return b.select(isNone, zero, capacity);
}

Value attn::planSequences(RewriterBase &rewriter, AttentionOp attention,
                          SymbolTable &symbols) {
  Location loc = attention.getLoc();
  ScalarKernelBuilder b(loc, rewriter);
  b.setInsertionPoint(attention);
  Value rows = b.add(emitCapacity(b, attention), b.constant(1));
  auto planType =
      MemRefType::get({ShapedType::kDynamic, numColumns}, b.getI32Type());
  Value plan = memref::AllocOp::create(b, planType, rows);
  Value fault =
      attn_tile::FaultWordOp::create(b, MemRefType::get({1}, b.getI32Type()));
  SmallVector<Value> operands = {attention.getQuerySequences(),
                                 attention.getKeySequences(),
                                 plan,
                                 fault,
                                 b.size(attention.getQuery(), 2),
                                 b.size(attention.getKey(), 2)};

  attn_tile::KernelOp kernel = createKernel(
      rewriter, attention, attention.getChosenSchedule().getPreparation(),
      symbols, "_plan", operands);
  PlanWriter(rewriter, attention, kernel).write();
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
  item.firstQuery = load(FirstQuery);
  item.queryLength = load(QueryLength);
  item.keyLength = load(KeyLength);
  item.firstQueryRow = load(FirstQueryRow);
  item.firstKeyRow = load(FirstKeyRow);
  return item;
}
