//===- WorkItemList.cpp - Work items of sequences -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The list is a memref<?x8xi32>, with splits a memref<?x9xi32>. Row 0 begins
// with the number of work items; row 1 + i is work item i, with the columns of
// `Field`. The kernels iterate from the last work item to the first.
//
// For query tiles, sequences with few keys come first, so that CTAs end with
// the shortest work items. Work items of a sequence are adjacent, so that they
// share keys and values in L2. Within a sequence late and early tiles
// alternate: under a causal mask, two consecutive work items then have about
// the same work. If the number of work items is odd, the first one is listed,
// and computed, twice.
//
// For kv tiles, sequences are ordered by the number of queries, and the
// iteration begins with the first kv tile of a sequence. Their work items add
// to dQ, so the additional work item has no rows.
//
// With balanced splits, a sequence of n kv tiles has about n / c splits for
// each query tile, where c is such that all sequences together have the wanted
// number of work items for each head, or half of it if c is small
// (`SequenceTiles::fewKVTiles`). The last three columns are the split, the
// number of splits, and where the parts of the result of a tile with several
// splits begin. Another list of i32 has the number of these tiles, and the
// first work item of each of them. Sequences with long splits come first.
//
// The kernel that writes the list has a work item for each sequence and one
// more. Each of them loops over all sequences: its own tiles are placed after
// the tiles of the sequences before it. The last one writes row 0. If a
// boundary is invalid, no sequence has tiles, so that no access is out of
// bounds, and the fault is reported.
//
//===----------------------------------------------------------------------===//

#include "WorkItemList.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Columns of a work item.
enum Field : int64_t {
  Sequence,
  First,
  QueryLength,
  KeyLength,
  QueryRow,
  KeyRow,
  Split,
  NumSplits,
  FirstPart
};
} // namespace

/// Columns of a list with and without splits.
static constexpr int64_t numColumns = 8, numSplitColumns = FirstPart + 1;

bool attn::listsSplits(AttentionOpInterface attention) {
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  return schedule.getSplitKvWorkItems() > 0 &&
         (schedule.balancesSplits() || attention.getAddressing().isListed());
}

namespace {
/// Writes the kernel that lists the work items of one attention or gradient.
class WorkItemListWriter {
public:
  WorkItemListWriter(OpBuilder &builder, AttentionOpInterface op,
                     const SequenceTiles &request, attn_tile::KernelOp kernel);

  void write();

private:
  SequenceRows limit(SequenceRows rows, Value longest);
  SequenceRows readQueryRows(Value sequence);
  SequenceRows readKeyRows(Value sequence);
  Value countTiles(Value length);
  Value countSplits(Value keyLength, Value kvTilesOfSplit);

  /// Where the rows of a sequence lie, and how many there are.
  struct Sequence {
    Value number, queryRow, queryLength, keyRow, keyLength;
  };
  void storeWorkItem(Value row, ArrayRef<Value> fields);
  /// Writes the work item of a tile of `sequence` to `row`.
  void writeTile(const Sequence &sequence, Value row, Value tile);
  /// Writes all of the `tiles` work items of `sequence`, from row `place` on.
  void writeTiles(const Sequence &sequence, Value place, Value tiles);
  /// The number of tiles of the sequences that come before `sequence` in the
  /// list, and of all sequences.
  std::pair<Value, Value> sumTiles(const Sequence &sequence);
  /// Numbers of work items, of tiles with several splits, and of the splits of
  /// these tiles.
  struct SplitCounts {
    Value items, tiles, parts;
  };
  SplitCounts countSplitItems(Value tiles, Value splits);
  /// Writes the work items of a sequence, behind the ones that `before` counts.
  void writeSplitItems(const Sequence &sequence, const SplitCounts &before,
                       Value items, Value splits);
  /// The kv tiles of a split, of `kvTiles` of all query tiles.
  Value chooseKVTilesOfSplit(Value kvTiles);
  void writeSequence(Value sequence);
  void writeSplits(Value sequence);

  ScalarKernelBuilder b;
  KVAddressingAttrInterface addressing;
  SequenceTiles request;
  bool isOfKeys, isAllOrNone;
  Block *entry;
  Value querySequences, keySequences, workItemList, splitTiles, fault;
  Value storedQueries, storedKeys;
  /// The longest sequences for which a stored keep mask has words; null if
  /// there is none.
  Value longestQueries, longestKeys;
  Value numSequences;
};
} // namespace

WorkItemListWriter::WorkItemListWriter(OpBuilder &builder,
                                       AttentionOpInterface op,
                                       const SequenceTiles &request,
                                       attn_tile::KernelOp kernel)
    : b(op.getLoc(), builder), addressing(op.getAddressing()), request(request),
      isOfKeys(request.rows == MaskDim::Key),
      isAllOrNone(addressing.isListed()), entry(&kernel.getBody().front()) {
  auto *next = entry->args_begin();
  if (addressing.isListed())
    querySequences = *next++;
  keySequences = *next++;
  workItemList = *next++;
  if (request.splitTarget > 0)
    splitTiles = *next++;
  for (Value *argument : {&fault, &storedQueries, &storedKeys})
    *argument = *next++;
  if (next == entry->args_end())
    return;
  longestQueries = *next++;
  longestKeys = *next++;
}

void WorkItemListWriter::write() {
  b.setInsertionPointToEnd(entry);
  // Packed sequences have one boundary more than sequences. Without boundaries
  // there are no sequences either, which row 0 must say, too.
  numSequences = b.size(querySequences ? querySequences : keySequences, 0);
  Value one = b.constant(1);
  if (addressing.packsQueries())
    numSequences = b.sub(arith::MaxSIOp::create(b, numSequences, one), one);
  Value items = b.add(numSequences, one);
  auto forall = scf::ForallOp::create(b, ArrayRef<OpFoldResult>{items},
                                      ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  if (request.splitTarget > 0)
    writeSplits(forall.getInductionVar(0));
  else
    writeSequence(forall.getInductionVar(0));
}

/// `sequence` must be in bounds.
SequenceRows WorkItemListWriter::readQueryRows(Value sequence) {
  if (!querySequences)
    return {b.constant(0), storedQueries,
            arith::ConstantIntOp::create(b, 1, 1)};
  SequenceRows rows =
      limit(emitQueryRows(b, b.getLoc(), addressing, querySequences,
                          storedQueries, sequence),
            longestQueries);
  if (request.rowsOfQuery != 1)
    for (Value *queries : {&rows.first, &rows.length})
      *queries = b.mul(*queries, b.constant(request.rowsOfQuery));
  return rows;
}

/// `sequence` must be in bounds.
SequenceRows WorkItemListWriter::readKeyRows(Value sequence) {
  return limit(
      addressing.emitRows(b, b.getLoc(), keySequences, storedKeys, sequence),
      longestKeys);
}

/// Rows that are not longer than `longest`, if it is not null.
SequenceRows WorkItemListWriter::limit(SequenceRows rows, Value longest) {
  if (longest)
    rows.isValid = b.both(rows.isValid, b.compare(arith::CmpIPredicate::sle,
                                                  rows.length, longest));
  return rows;
}

Value WorkItemListWriter::countTiles(Value length) {
  if (request.extra == 0)
    return b.tiles(length, request.size);
  Value zero = b.constant(0);
  Value isNone = b.compare(arith::CmpIPredicate::eq, length, zero);
  return b.select(
      isNone, zero,
      b.tiles(b.add(length, b.constant(request.extra)), request.size));
}

void WorkItemListWriter::storeWorkItem(Value row, ArrayRef<Value> fields) {
  for (auto [field, value] : llvm::enumerate(fields))
    b.storeIndex(value, workItemList,
                 {row, b.constant(static_cast<int64_t>(field))});
}

void WorkItemListWriter::writeTile(const Sequence &sequence, Value row,
                                   Value tile) {
  Value first = b.mul(tile, b.constant(request.size));
  Value queryRow = sequence.queryRow, keyRow = sequence.keyRow;
  Value &ofTile = isOfKeys ? keyRow : queryRow;
  ofTile = b.add(ofTile, first);
  storeWorkItem(row, {sequence.number, first, sequence.queryLength,
                      sequence.keyLength, queryRow, keyRow});
}

void WorkItemListWriter::writeTiles(const Sequence &sequence, Value place,
                                    Value tiles) {
  Value one = b.constant(1);
  Value lastTile = b.sub(tiles, one);
  b.each(tiles, [&](Value tile) {
    // Kernels iterate from the last work item, so the first kv tile, the
    // longest under a causal mask, comes last.
    if (isOfKeys)
      return writeTile(sequence, b.add(place, b.sub(lastTile, tile)), tile);
    // From the end of the sequence's work items: the last tile, the first one,
    // the last but one, the second one, and so on.
    Value fromEnd = b.mul(b.sub(lastTile, tile), b.constant(2));
    Value fromStart = b.add(b.mul(tile, b.constant(2)), one);
    Value isLate = b.compare(arith::CmpIPredicate::sle, fromEnd, lastTile);
    Value fromLast = b.select(isLate, fromEnd, fromStart);
    writeTile(sequence, b.add(place, b.sub(lastTile, fromLast)), tile);
  });
}

std::pair<Value, Value> WorkItemListWriter::sumTiles(const Sequence &sequence) {
  using arith::CmpIPredicate;
  Value zero = b.constant(0);
  // Tiles divide one length, and their kernels iterate over the other.
  Value streamed = isOfKeys ? sequence.queryLength : sequence.keyLength;
  SmallVector<Value> sums = b.sum(numSequences, 2, [&](Value s) {
    SequenceRows queries = readQueryRows(s);
    SequenceRows keys = readKeyRows(s);
    Value tiles = countTiles(isOfKeys ? keys.length : queries.length);
    Value other = isOfKeys ? queries.length : keys.length;
    Value isShorter = b.compare(CmpIPredicate::slt, other, streamed);
    Value isTie = b.both(b.compare(CmpIPredicate::eq, other, streamed),
                         b.compare(CmpIPredicate::slt, s, sequence.number));
    Value isBefore = arith::OrIOp::create(b, isShorter, isTie);
    return SmallVector<Value>{b.select(isBefore, tiles, zero), tiles};
  });
  return {sums[0], sums[1]};
}

void WorkItemListWriter::writeSequence(Value number) {
  using arith::CmpIPredicate;
  Value zero = b.constant(0), one = b.constant(1);
  // The work item after the last sequence matches none, so its values stay
  // zero.
  SmallVector<Value> own = b.sum(numSequences, 5, [&](Value s) {
    SequenceRows queries = readQueryRows(s);
    SequenceRows keys = readKeyRows(s);
    Value isOwn = b.compare(CmpIPredicate::eq, s, number);
    Value isBad = b.invert(b.both(queries.isValid, keys.isValid));
    SmallVector<Value> sums;
    for (Value value : {queries.first, queries.length, keys.first, keys.length})
      sums.push_back(b.select(isOwn, value, zero));
    sums.push_back(b.toIndex(isBad));
    return sums;
  });
  Sequence sequence = {number, own[0], own[1], own[2], own[3]};
  Value isBad = b.compare(CmpIPredicate::ne, own[4], zero);
  auto [tilesBefore, allTiles] = sumTiles(sequence);
  Value isOdd = arith::AndIOp::create(b, allTiles, one);
  Value place = b.add(b.add(tilesBefore, one), isOdd);
  Value length = isOfKeys ? sequence.keyLength : sequence.queryLength;
  Value tiles = b.select(isBad, zero, countTiles(length));
  writeTiles(sequence, place, tiles);
  // The additional first work item repeats the middle tile of its sequence, or
  // has no rows.
  Value isFirst = b.both(b.compare(CmpIPredicate::eq, tilesBefore, zero),
                         b.compare(CmpIPredicate::ne, tiles, zero));
  Value again = b.select(isFirst, isOdd, zero);
  b.each(again, [&](Value) {
    if (isOfKeys)
      storeWorkItem(one, SmallVector<Value>(KeyRow + 1, zero));
    else
      writeTile(sequence, one,
                arith::DivUIOp::create(b, b.sub(tiles, one), b.constant(2)));
  });

  Value isLast = b.compare(CmpIPredicate::eq, number, numSequences);
  b.each(b.toIndex(isLast), [&, count = allTiles](Value) {
    Value items = b.select(isBad, zero, b.add(count, isOdd));
    b.storeIndex(items, workItemList, {zero, zero});
  });
  b.report(b.both(isLast, isBad), ATTNRT_FAULT_SEQUENCES, fault);
}

/// The number of splits of each query tile of a sequence with so many keys: its
/// kv tiles over the kv tiles of a split, rounded to the next number from 1.
Value WorkItemListWriter::countSplits(Value keyLength, Value kvTilesOfSplit) {
  Value kvTiles = b.tiles(keyLength, request.keyTile);
  Value half = arith::DivUIOp::create(b, kvTilesOfSplit, b.constant(2));
  Value splits =
      arith::DivUIOp::create(b, b.add(kvTiles, half), kvTilesOfSplit);
  return arith::MaxUIOp::create(b, splits, b.constant(1));
}

WorkItemListWriter::SplitCounts
WorkItemListWriter::countSplitItems(Value tiles, Value splits) {
  Value zero = b.constant(0), items = b.mul(tiles, splits);
  Value isWhole = b.compare(arith::CmpIPredicate::eq, splits, b.constant(1));
  return {items, b.select(isWhole, zero, tiles),
          b.select(isWhole, zero, items)};
}

void WorkItemListWriter::writeSplitItems(const Sequence &sequence,
                                         const SplitCounts &before, Value items,
                                         Value splits) {
  Value one = b.constant(1);
  Value isSplit = b.compare(arith::CmpIPredicate::ne, splits, one);
  b.each(items, [&](Value number) {
    Value tile = arith::DivUIOp::create(b, number, splits);
    Value split = arith::RemUIOp::create(b, number, splits);
    Value row = b.mul(tile, b.constant(request.size));
    Value item = b.add(before.items, number);
    Value firstPart = b.add(before.parts, b.sub(number, split));
    storeWorkItem(b.add(item, one),
                  {sequence.number, row, sequence.queryLength,
                   sequence.keyLength, b.add(sequence.queryRow, row),
                   sequence.keyRow, split, splits, firstPart});
    Value isFirst = b.compare(arith::CmpIPredicate::eq, split, b.constant(0));
    auto ifOp = scf::IfOp::create(b, b.both(isSplit, isFirst),
                                  /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    b.storeIndex(item, splitTiles, b.add(b.add(before.tiles, tile), one));
  });
}

Value WorkItemListWriter::chooseKVTilesOfSplit(Value kvTiles) {
  int64_t half = std::max<int64_t>(request.splitTarget / 2, 1);
  Value few = arith::MinUIOp::create(b, b.tiles(kvTiles, half),
                                     b.constant(request.fewKVTiles));
  Value ofSplit =
      arith::MaxUIOp::create(b, b.tiles(kvTiles, request.splitTarget), few);
  return arith::MaxUIOp::create(b, ofSplit, b.constant(1));
}

void WorkItemListWriter::writeSplits(Value number) {
  using arith::CmpIPredicate;
  Value zero = b.constant(0);
  auto getKeyLength = [&](const SequenceRows &keys) {
    return b.select(keys.isValid, keys.length, zero);
  };
  // The work item after the last sequence matches none, so its values stay
  // zero.
  SmallVector<Value> own = b.sum(numSequences, 6, [&](Value s) {
    SequenceRows queries = readQueryRows(s);
    SequenceRows keys = readKeyRows(s);
    Value isOwn = b.compare(CmpIPredicate::eq, s, number);
    Value isBad = b.invert(b.both(queries.isValid, keys.isValid));
    Value keyLength = getKeyLength(keys);
    SmallVector<Value> sums;
    for (Value value : {queries.first, queries.length, keys.first, keyLength})
      sums.push_back(b.select(isOwn, value, zero));
    sums.push_back(b.toIndex(isBad));
    Value tiles = b.select(queries.isValid, countTiles(queries.length), zero);
    sums.push_back(b.mul(tiles, b.tiles(keyLength, request.keyTile)));
    return sums;
  });
  Sequence sequence = {number, own[0], own[1], own[2], own[3]};
  Value isBad = b.compare(CmpIPredicate::ne, own[4], zero);
  Value kvTilesOfSplit = chooseKVTilesOfSplit(own[5]);

  // The number of keys of a split of each sequence orders them.
  Value splits = countSplits(sequence.keyLength, kvTilesOfSplit);
  Value keysOfSplit = arith::DivUIOp::create(b, sequence.keyLength, splits);
  SmallVector<Value> places = b.sum(numSequences, 5, [&](Value s) {
    SequenceRows queries = readQueryRows(s);
    Value length = getKeyLength(readKeyRows(s));
    Value splitsOfTile = countSplits(length, kvTilesOfSplit);
    SplitCounts counts =
        countSplitItems(countTiles(queries.length), splitsOfTile);
    Value other = arith::DivUIOp::create(b, length, splitsOfTile);
    Value isShorter = b.compare(CmpIPredicate::slt, other, keysOfSplit);
    Value isTie = b.both(b.compare(CmpIPredicate::eq, other, keysOfSplit),
                         b.compare(CmpIPredicate::slt, s, number));
    Value isBefore = b.either(isShorter, isTie);
    return SmallVector<Value>{b.select(isBefore, counts.items, zero),
                              b.select(isBefore, counts.tiles, zero),
                              b.select(isBefore, counts.parts, zero),
                              counts.items, counts.tiles};
  });

  // Boundaries that are not valid leave nothing that is in bounds. A number of
  // keys that is not valid counts as none.
  Value isRefused = isAllOrNone ? isBad : Value();
  Value isLast = b.compare(CmpIPredicate::eq, number, numSequences);
  Value items = b.mul(countTiles(sequence.queryLength), splits);
  items = b.select(isLast, zero, items);
  if (isRefused)
    items = b.select(isRefused, zero, items);
  writeSplitItems(sequence, {places[0], places[1], places[2]}, items, splits);
  b.each(b.toIndex(isLast), [&](Value) {
    auto count = [&](Value all) {
      return isRefused ? b.select(isRefused, zero, all) : all;
    };
    b.storeIndex(count(places[3]), workItemList, {zero, zero});
    b.storeIndex(count(places[4]), splitTiles, zero);
  });
  b.report(b.both(isLast, isBad),
           isAllOrNone ? ATTNRT_FAULT_SEQUENCES : ATTNRT_FAULT_KEY_LENGTHS,
           fault);
}

/// Emits an upper bound of the number of work items: one more than the tiles of
/// all sequences, so that it can be even, and the splits that they have at most
/// in addition.
static Value emitCapacity(ScalarKernelBuilder &b, AttentionOpInterface op,
                          const SequenceTiles &request) {
  bool isOfKeys = request.rows == MaskDim::Key;
  Value sequences = op.getQuerySequences();
  Value entries = b.size(sequences ? sequences : op.getKeyLengths(), 0);
  Value stored = b.size(isOfKeys ? op.getKey() : op.getQuery(), 2);
  if (request.rowsOfQuery != 1)
    stored = b.mul(stored, b.constant(request.rowsOfQuery));
  Value tile = b.constant(request.size);
  Value zero = b.constant(0), one = b.constant(1);
  Value capacity;
  if (!op.getAddressing().packsQueries()) {
    Value rounded = b.add(stored, b.constant(request.extra + request.size - 1));
    Value tiles = arith::DivUIOp::create(b, rounded, tile);
    capacity = b.add(b.mul(entries, tiles), one);
  } else {
    // Each sequence has at most one partial tile, and the tiles of `extra` rows
    // past its end.
    Value full = arith::DivUIOp::create(b, stored, tile);
    Value others = entries;
    if (request.extra != 0)
      others =
          b.mul(entries,
                b.constant(1 + llvm::divideCeil(request.extra, request.size)));
    capacity = b.add(full, others);
  }
  if (request.splitTarget > 0)
    capacity = b.add(capacity, b.constant(request.splitTarget));
  Value isNone = b.compare(arith::CmpIPredicate::eq, entries, zero);
  return b.select(isNone, zero, capacity);
}

/// The largest number of tiles that have several splits, in a list that aims at
/// `splitTarget` work items: each has 3/2 of the kv tiles of a split, or more.
static int64_t getMaxSplitTiles(int64_t splitTarget) {
  return 2 * splitTarget / 3;
}

/// The largest number of splits of these tiles: rounding adds up to half a
/// split to each tile.
static int64_t getMaxParts(int64_t splitTarget) {
  return splitTarget + llvm::divideCeil(getMaxSplitTiles(splitTarget), 2);
}

SequenceLists attn::listSequences(RewriterBase &rewriter,
                                  AttentionOpInterface op,
                                  const SequenceTiles &tiles,
                                  SymbolTable &symbols) {
  Location loc = op.getLoc();
  ScalarKernelBuilder b(loc, rewriter);
  b.setInsertionPoint(op);
  Value rows = b.add(emitCapacity(b, op, tiles), b.constant(1));
  bool areSplit = tiles.splitTarget > 0;
  auto workItemsType = MemRefType::get(
      {ShapedType::kDynamic, areSplit ? numSplitColumns : numColumns},
      b.getI32Type());
  SequenceLists lists;
  lists.workItems = memref::AllocOp::create(b, workItemsType, rows);
  if (areSplit) {
    int64_t entries = 1 + getMaxSplitTiles(tiles.splitTarget);
    lists.splitTiles =
        memref::AllocOp::create(b, MemRefType::get(entries, b.getI32Type()));
    lists.maxParts = getMaxParts(tiles.splitTarget);
  }
  Value fault =
      attn_tile::ErrorFlagOp::create(b, MemRefType::get({1}, b.getI32Type()));
  Value queries = b.size(op.getQuery(), 2);
  // Of sequences the kernel reads numbers of queries, not of rows.
  if (tiles.rowsOfQuery != 1 && !op.getQuerySequences())
    queries = b.mul(queries, b.constant(tiles.rowsOfQuery));
  KVAddressingAttrInterface addressing = op.getAddressing();
  Value keys = addressing.emitMaxKeys(b, loc, op.getKey(), op.getPageTable());
  SmallVector<Value> operands;
  if (addressing.isListed())
    operands = {op.getQuerySequences(), op.getKeySequences()};
  else
    operands = {op.getKeyLengths()};
  operands.push_back(lists.workItems);
  if (areSplit)
    operands.push_back(lists.splitTiles);
  operands.append({fault, queries, keys});
  // This limits packed sequences to the positions for which the mask has words.
  // Padded ones are never longer.
  if (Value mask = op.getDropoutMask(); mask && addressing.packsQueries()) {
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
  WorkItemListWriter(rewriter, op, tiles, kernel).write();
  return lists;
}

Value attn::emitNumListedWorkItems(ImplicitLocOpBuilder &builder,
                                   Value workItemList) {
  ScalarKernelBuilder b(builder.getLoc(), builder);
  Value zero = b.constant(0);
  Value rows = b.size(workItemList, 0);
  return attn_tile::AssumeUpperBoundOp::create(
      b, b.loadIndex(workItemList, {zero, zero}), b.sub(rows, b.constant(1)));
}

ListedWorkItem attn::emitListedWorkItem(ImplicitLocOpBuilder &builder,
                                        Value workItemList, Value number,
                                        bool isSplit) {
  ScalarKernelBuilder b(builder.getLoc(), builder);
  Value row = b.add(number, b.constant(1));
  auto load = [&](Field field) {
    return b.loadIndex(workItemList, {row, b.constant(field)});
  };
  ListedWorkItem item;
  item.sequence = load(Sequence);
  item.first = load(First);
  item.queryLength = load(QueryLength);
  item.keyLength = load(KeyLength);
  item.queryRow = load(QueryRow);
  item.keyRow = load(KeyRow);
  if (!isSplit)
    return item;
  item.split = load(Split);
  item.numSplits = load(NumSplits);
  item.firstPart = load(FirstPart);
  return item;
}

Value attn::emitNumSplitTiles(ImplicitLocOpBuilder &builder, Value splitTiles) {
  ScalarKernelBuilder b(builder.getLoc(), builder);
  Value most = b.sub(b.size(splitTiles, 0), b.constant(1));
  return attn_tile::AssumeUpperBoundOp::create(
      b, b.loadIndex(splitTiles, b.constant(0)), most);
}

ListedWorkItem attn::emitSplitTile(ImplicitLocOpBuilder &builder,
                                   Value workItemList, Value splitTiles,
                                   Value number) {
  ScalarKernelBuilder b(builder.getLoc(), builder);
  Value item = b.loadIndex(splitTiles, b.add(number, b.constant(1)));
  return emitListedWorkItem(b, workItemList, item, /*isSplit=*/true);
}
