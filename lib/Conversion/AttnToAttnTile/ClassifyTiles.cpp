//===- ClassifyTiles.cpp - Tiles of masks that read tensors ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small kernels. The first one classifies each tile: by bounds of the values
// that the mask reads where these decide, else by evaluating the mask for all
// pairs. The second one lists the tiles of each row of tiles, and the third one
// sorts the rows. An optional fourth one evaluates the mask for the pairs of
// listed partial tiles.
//
//===----------------------------------------------------------------------===//

#include "ClassifyTiles.h"
#include "CreateKernel.h"
#include "PredicateBounds.h"
#include "ScalarKernelBuilder.h"
#include "attn/Analysis/BoundedReads.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn;

/// Keys whose pairs are counted before the loop checks whether to go on: the
/// threads of a warp.
static constexpr int64_t countedKeys = 32;
/// Tiles of a work item in which each thread classifies a tile alone.
static constexpr int64_t tilesOfWorkItem = 32;
/// Bits of a word that are evaluated together, so that their loads overlap.
static constexpr int64_t bitsTogether = 8;
/// Rows belong to one class if their lists end within this many query tiles.
static constexpr int64_t tilesOfClass = 8;
/// Work items among which the masked steps of a row of tiles are divided: some
/// rows have many.
static constexpr int64_t workItemsOfRow = 4;

namespace {
/// The class of a tile.
enum TileClass : int64_t { Empty = 0, Masked = 1, Full = 2 };

/// The mask to classify: of an operation that the kernels run before.
struct ListedMask {
  Operation *user;
  MaskAttrInterface mask;
  Region &maskMod;
  Value batches, queryLength, keyLength;
  /// The query heads with lists of their own, and how many of them have one key
  /// head.
  int64_t heads, groupSize;

  Location getLoc() const { return user->getLoc(); }
};
} // namespace

bool attn::isMaskedByHead(AttentionOpInterface attention) {
  return !attention.getMaskMod().getArgument(1).use_empty();
}

/// Clamps the indices of reads of `captures`: the mask may be evaluated for
/// pairs that another part of it excludes.
static void boundReads(OpBuilder &builder, attn_tile::KernelOp kernel,
                       ValueRange captures) {
  attn::boundReads(builder, kernel, [&](memref::LoadOp load) {
    return llvm::is_contained(captures, load.getMemRef());
  });
}

/// Counts kept pairs where bounds leave open whether all or any are kept. Stops
/// after some keys if there are kept and masked pairs. Returns all and any.
static std::pair<Value, Value>
emitCounted(ScalarKernelBuilder &b, PredicateBounds &bounds,
            const PredicateBounds::Positions &queries,
            const PredicateBounds::Positions &keys, Value all, Value any) {
  using arith::CmpIPredicate;
  Value zero = b.constant(0), chunk = b.constant(countedKeys);
  Value isOpen = b.both(any, b.invert(all));
  auto loop = scf::ForOp::create(b, zero, b.select(isOpen, keys.count, zero),
                                 chunk, zero);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value seen = loop.getInductionVar(), kept = loop.getRegionIterArg(0);
    Value isEmpty = b.compare(CmpIPredicate::eq, kept, zero);
    Value isFull =
        b.compare(CmpIPredicate::eq, kept, b.mul(seen, queries.count));
    auto more =
        scf::IfOp::create(b, b.getIndexType(), b.either(isEmpty, isFull),
                          /*addThenBlock=*/true, /*addElseBlock=*/true);
    scf::YieldOp::create(b, more.getResults());
    b.setInsertionPointToStart(more.elseBlock());
    scf::YieldOp::create(b, kept);
    b.setInsertionPointToStart(more.thenBlock());
    Value count = arith::MinSIOp::create(b, chunk, b.sub(keys.count, seen));
    Value found = bounds.emitCount(b.add(keys.first, seen), count);
    scf::YieldOp::create(b, b.add(kept, found));
  }
  Value kept = loop.getResult(0);
  Value pairs = b.mul(queries.count, keys.count);
  return {b.select(isOpen, b.compare(CmpIPredicate::eq, kept, pairs), all),
          b.select(isOpen, b.compare(CmpIPredicate::ne, kept, zero), any)};
}

/// The captures of `listed` that kernels need as operands.
static SmallVector<Value> getMaskCaptures(const ListedMask &listed) {
  SetVector<Value> used;
  getUsedValuesDefinedAbove(listed.maskMod, used);
  SmallVector<Value> captures;
  for (Value value : used)
    if (!matchPattern(value, m_Constant()))
      captures.push_back(value);
  return captures;
}

/// Maps the captures of `listed` to `arguments`, and clones its constants.
static IRMapping mapCaptures(ScalarKernelBuilder &b, const ListedMask &listed,
                             ValueRange captures, ValueRange arguments) {
  IRMapping captured;
  captured.map(captures, arguments);
  visitUsedValuesDefinedAbove(listed.maskMod, [&](OpOperand *use) {
    if (!captured.contains(use->get()))
      b.clone(*use->get().getDefiningOp(), captured);
  });
  return captured;
}

/// Writes the kernel that classifies each tile. Its arguments are `classes`,
/// the lengths and the captures of the mask.
static void writeClasses(RewriterBase &rewriter, const ListedMask &listed,
                         attn_tile::KernelOp kernel, const TileListing &listing,
                         ValueRange captures) {
  using arith::CmpIPredicate;
  ScalarKernelBuilder b(listed.getLoc(), rewriter);
  Block *entry = &kernel.getBody().front();
  b.setInsertionPointToEnd(entry);
  Value classes = entry->getArgument(0);
  Value queryLength = entry->getArgument(1), keyLength = entry->getArgument(2);
  IRMapping captured =
      mapCaptures(b, listed, captures, entry->getArguments().drop_front(3));

  PredicateBlock predicate(
      listed.getLoc(),
      {listed.mask, &listed.maskMod, Value(), Value(), queryLength, keyLength});
  PredicateBounds bounds(b, predicate);
  // Where each thread classifies a tile alone, a work item has several tiles.
  bool isSerial = bounds.isSerial();
  SmallVector<OpFoldResult> items;
  for (int64_t dim = 0; dim < 3; ++dim)
    items.push_back(b.size(classes, dim));
  Value keyTiles = b.size(classes, 3);
  items.push_back(isSerial ? b.tiles(keyTiles, tilesOfWorkItem) : keyTiles);
  auto forall = scf::ForallOp::create(b, items, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids(forall.getInductionVars());
  captured.map(predicate.getPositions().batch, ids[0]);
  captured.map(predicate.getPositions().head, ids[1]);
  bounds.emitUniform(captured);
  Value one = b.constant(1);
  auto getPositions = [&](Value tile, int64_t size, Value length) {
    Value first = b.mul(tile, b.constant(size));
    Value rest = b.sub(length, first);
    Value count = arith::MinSIOp::create(b, rest, b.constant(size));
    return PredicateBounds::Positions{first, b.sub(b.add(first, count), one),
                                      count};
  };
  auto queries = getPositions(ids[2], listing.queryTile, queryLength);
  auto emitClass = [&](Value tile) -> Value {
    auto keys = getPositions(tile, listing.keyTile, keyLength);
    auto [all, any] = bounds.emit(queries, keys);
    // Where bounds of blocks leave the class open, counting would take longer
    // than computing the tile masked.
    if (!bounds.hasCells())
      std::tie(all, any) = emitCounted(b, bounds, queries, keys, all, any);
    // Keys beyond the length are masked.
    Value isWhole = b.both(all, b.compare(CmpIPredicate::eq, keys.count,
                                          b.constant(listing.keyTile)));
    return b.select(isWhole, b.constant(Full),
                    b.select(any, b.constant(Masked), b.constant(Empty)));
  };
  if (isSerial) {
    Value first = b.mul(ids[3], b.constant(tilesOfWorkItem));
    Value count = arith::MinSIOp::create(b, b.sub(keyTiles, first),
                                         b.constant(tilesOfWorkItem));
    b.each(count, [&](Value number) {
      ids[3] = b.add(first, number);
      b.storeIndex(emitClass(ids[3]), classes, ids);
    });
  } else {
    Value tileClass = emitClass(ids[3]);
    b.each(one, [&](Value) { b.storeIndex(tileClass, classes, ids); });
  }
  boundReads(b, kernel, ValueRange(entry->getArguments().drop_front(3)));
}

/// Writes the kernel that lists the tiles of each row. Its arguments are
/// `classes` and `lists`.
static void writeLists(RewriterBase &rewriter, const ListedMask &listed,
                       attn_tile::KernelOp kernel, MaskDim rows) {
  using arith::CmpIPredicate;
  ScalarKernelBuilder b(listed.getLoc(), rewriter);
  Block *entry = &kernel.getBody().front();
  b.setInsertionPointToEnd(entry);
  Value classes = entry->getArgument(0), lists = entry->getArgument(1);
  scf::ForallOp forall = b.forall(lists, 3);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids(forall.getInductionVars());
  Value zero = b.constant(0), one = b.constant(1);
  Value lastColumn = b.sub(b.size(lists, 3), one);
  auto store = [&](Value value, Value column) {
    b.storeIndex(value, lists, {ids[0], ids[1], ids[2], column});
  };
  bool isOfQueries = rows == MaskDim::Query;
  // A row of a key tile lists the query tiles of all heads of its GQA group.
  Value ofHead = b.size(classes, isOfQueries ? 3 : 2), tiles = ofHead;
  bool isOfGroup = !isOfQueries && listed.groupSize != 1;
  Value group = b.constant(isOfGroup ? listed.groupSize : 1);
  if (isOfGroup)
    tiles = b.mul(ofHead, group);
  auto loadClass = [&](Value tile) {
    if (isOfQueries)
      return b.loadIndex(classes, {ids[0], ids[1], ids[2], tile});
    Value head = ids[1];
    if (isOfGroup) {
      Value member = arith::DivUIOp::create(b, tile, ofHead);
      head = b.add(b.mul(head, group), member);
      tile = b.sub(tile, b.mul(member, ofHead));
    }
    return b.loadIndex(classes, {ids[0], head, tile, ids[2]});
  };
  auto list = [&](TileClass tileClass,
                  function_ref<Value(Value)> getColumn) -> Value {
    auto op = attn_tile::WarpCompactOp::create(b, tiles);
    OpBuilder::InsertionGuard guard(b);
    Type index = b.getIndexType();
    Block *condition = b.createBlock(&op.getCondition(), {}, index, b.getLoc());
    Value found = loadClass(condition->getArgument(0));
    Value isChosen = b.compare(CmpIPredicate::eq, found, b.constant(tileClass));
    attn_tile::YieldOp::create(b, isChosen);
    Block *body = b.createBlock(&op.getBody(), {}, {index, index},
                                {b.getLoc(), b.getLoc()});
    store(body->getArgument(0), getColumn(body->getArgument(1)));
    attn_tile::YieldOp::create(b, ValueRange());
    return op.getChosen();
  };
  Value masked =
      list(Masked, [&](Value rank) { return b.add(rank, b.constant(2)); });
  Value full = list(Full, [&](Value rank) { return b.sub(lastColumn, rank); });
  Value count = b.add(masked, full);
  b.each(one, [&](Value) {
    store(masked, zero);
    store(count, one);
  });
  // A row without tiles visits tile 0, in which nothing is attended.
  Value isNone = b.compare(CmpIPredicate::eq, full, zero);
  b.each(b.toIndex(isNone), [&](Value) { store(zero, lastColumn); });
}

SmallVector<Value> attn::getOrderPlace(OpBuilder &builder, Location loc,
                                       Value order, ValueRange indices) {
  SmallVector<Value> place(indices);
  if (cast<MemRefType>(order.getType()).getRank() > 3)
    place.push_back(arith::ConstantIndexOp::create(builder, loc, 0));
  return place;
}

/// Writes the kernel that sorts the rows of tiles by the lengths of their
/// lists. Its arguments are `lists` and `order`. The position of a row is the
/// number of rows that come before it.
static void writeOrder(RewriterBase &rewriter, Location loc,
                       attn_tile::KernelOp kernel) {
  using arith::CmpIPredicate;
  ScalarKernelBuilder b(loc, rewriter);
  Block *entry = &kernel.getBody().front();
  b.setInsertionPointToEnd(entry);
  Value lists = entry->getArgument(0), order = entry->getArgument(1);
  scf::ForallOp forall = b.forall(order, 3);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids(forall.getInductionVars());
  Value one = b.constant(1);
  auto getLength = [&](Value row) {
    return b.loadIndex(lists, {ids[0], ids[1], row, one});
  };
  Value length = getLength(ids[2]);
  auto before = attn_tile::ReduceOp::create(b, b.size(order, 2),
                                            vector::CombiningKind::ADD);
  {
    OpBuilder::InsertionGuard guard(b);
    Block *body =
        b.createBlock(&before.getBody(), {}, b.getIndexType(), b.getLoc());
    Value row = body->getArgument(0), other = getLength(row);
    Value isShorter = b.compare(CmpIPredicate::slt, other, length);
    Value isTie = b.both(b.compare(CmpIPredicate::eq, other, length),
                         b.compare(CmpIPredicate::slt, row, ids[2]));
    Value isBefore = arith::OrIOp::create(b, isShorter, isTie);
    attn_tile::YieldOp::create(b, b.toIndex(isBefore));
  }
  SmallVector<Value> place =
      getOrderPlace(b, loc, order, {ids[0], ids[1], before.getResult(0)});
  b.each(one, [&](Value) { b.storeIndex(ids[2], order, place); });
}

namespace {
/// Columns of the per-row data from which rows of all heads are ordered.
enum RowColumn : int64_t {
  /// The class of the row: rows whose lists end with about the same tile.
  RowClass,
  /// The length of the longest list of the class.
  ClassLength,
  /// The numbers of rows and of listed tiles of the class.
  ClassRows,
  ClassTiles,
  NumRowColumns
};
} // namespace

/// Writes the kernel that finds the classes of rows. Its arguments are `lists`
/// and `rows`.
static void writeRowClasses(RewriterBase &rewriter, Location loc,
                            attn_tile::KernelOp kernel) {
  using arith::CmpIPredicate;
  using vector::CombiningKind;
  ScalarKernelBuilder b(loc, rewriter);
  Block *entry = &kernel.getBody().front();
  b.setInsertionPointToEnd(entry);
  Value lists = entry->getArgument(0), rows = entry->getArgument(1);
  scf::ForallOp forall = b.forall(rows, 3);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids(forall.getInductionVars());
  Value zero = b.constant(0), one = b.constant(1);
  auto load = [&](Value row, Value column) {
    return b.loadIndex(lists, {ids[0], ids[1], row, column});
  };
  auto getLength = [&](Value row) { return load(row, one); };
  auto getClass = [&](Value row) -> Value {
    // Without a full or a partial tile the load reads another entry, which is
    // ignored.
    Value masked = load(row, zero), length = getLength(row);
    Value full = b.sub(length, masked), columns = b.size(lists, 3);
    Value lastMasked = load(row, b.add(masked, one));
    Value lastFull = load(
        row, b.sub(columns, arith::MaxUIOp::create(b, full, one).getResult()));
    auto unless = [&](Value count, Value tile) {
      return b.select(b.compare(CmpIPredicate::eq, count, zero), zero, tile);
    };
    Value last = arith::MaxUIOp::create(b, unless(masked, lastMasked),
                                        unless(full, lastFull));
    return arith::DivUIOp::create(b, last, b.constant(tilesOfClass));
  };
  Value rowClass = getClass(ids[2]);
  auto op = attn_tile::ReduceOp::create(
      b, b.size(rows, 2),
      ArrayRef<CombiningKind>{CombiningKind::MAXSI, CombiningKind::ADD,
                              CombiningKind::ADD});
  {
    OpBuilder::InsertionGuard guard(b);
    Block *body =
        b.createBlock(&op.getBody(), {}, b.getIndexType(), b.getLoc());
    Value row = body->getArgument(0);
    Value isInClass = b.compare(CmpIPredicate::eq, getClass(row), rowClass);
    Value length = b.select(isInClass, getLength(row), zero);
    attn_tile::YieldOp::create(
        b, ValueRange{length, b.toIndex(isInClass), length});
  }
  b.each(one, [&](Value) {
    Value found[] = {rowClass, op.getResult(0), op.getResult(1),
                     op.getResult(2)};
    for (auto [column, value] : llvm::enumerate(found))
      b.storeIndex(value, rows, {ids[0], ids[1], ids[2], b.constant(column)});
  });
}

/// Writes the kernel that orders the rows of all heads. Its arguments are
/// `lists`, `rows` and `order`. Classes with long lists come first, and long
/// lists come first within each class. Within a class, the rows of one head
/// follow those of another, so that few dQ tiles get additions at once. If
/// later classes cannot keep all CTAs busy during the longest list, rows of
/// several heads are interleaved.
static void writeOrderOfHeads(RewriterBase &rewriter, Location loc,
                              attn_tile::KernelOp kernel, int64_t rowsAtOnce) {
  using arith::CmpIPredicate;
  ScalarKernelBuilder b(loc, rewriter);
  Block *entry = &kernel.getBody().front();
  b.setInsertionPointToEnd(entry);
  Value lists = entry->getArgument(0), rows = entry->getArgument(1);
  Value order = entry->getArgument(2);
  scf::ForallOp forall = b.forall(rows, 3);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids(forall.getInductionVars());
  Value zero = b.constant(0), one = b.constant(1), row = ids[2];
  struct Row {
    Value length, inClass, longest, count, tiles;
  };
  auto load = [&](Value row) -> Row {
    auto column = [&](RowColumn number) {
      return b.loadIndex(rows, {ids[0], ids[1], row, b.constant(number)});
    };
    return {b.loadIndex(lists, {ids[0], ids[1], row, one}), column(RowClass),
            column(ClassLength), column(ClassRows), column(ClassTiles)};
  };
  Row own = load(row);
  // Whether a row or class comes before another: by `first`, and by `last` if
  // there is a tie.
  auto comesBefore = [&](Value first, Value otherFirst, Value last,
                         Value otherLast) {
    return b.either(b.compare(CmpIPredicate::sgt, first, otherFirst),
                    b.both(b.compare(CmpIPredicate::eq, first, otherFirst),
                           b.compare(CmpIPredicate::sgt, last, otherLast)));
  };
  Value numRows = b.size(rows, 2);
  // The rows of earlier classes, the earlier rows of this class, and the tiles
  // of later classes.
  SmallVector<Value> sums = b.sum(numRows, 3, [&](Value number) {
    Row other = load(number);
    Value isInClass = b.compare(CmpIPredicate::eq, other.inClass, own.inClass);
    Value classBefore =
        comesBefore(other.longest, own.longest, other.inClass, own.inClass);
    Value rowBefore = comesBefore(other.length, own.length, number, row);
    Value isAfter = b.invert(b.either(isInClass, classBefore));
    return SmallVector<Value>{b.toIndex(classBefore),
                              b.toIndex(b.both(isInClass, rowBefore)),
                              b.select(isAfter, other.length, zero)};
  });
  auto divide = [&](Value lhs, Value rhs) -> Value {
    return arith::DivUIOp::create(b, lhs, rhs);
  };
  auto divideCeil = [&](Value lhs, Value rhs) {
    return divide(b.add(lhs, b.sub(rhs, one)), rhs);
  };
  Value heads = divide(b.size(order, 2), numRows);
  // The steps that all CTAs can take during the longest list, and how many of
  // them later classes fill; heads of this class fill the others. Clamping to
  // these steps keeps intermediate values small.
  auto smaller = [&](Value lhs, Value rhs) -> Value {
    return arith::MinUIOp::create(b, lhs, rhs);
  };
  Value steps = b.mul(own.longest, b.constant(rowsAtOnce));
  Value after = smaller(b.mul(smaller(sums[2], steps), heads), steps);
  Value tiles = arith::MaxUIOp::create(b, own.tiles, one);
  Value least = divideCeil(b.sub(steps, after), tiles);
  Value atOnce = smaller(arith::MaxUIOp::create(b, least, one), heads);
  // Divides the heads evenly among the parts.
  atOnce = divideCeil(heads, divide(heads, atOnce));
  Value end = b.sub(b.size(order, 2), one);
  Value firstOfClass = b.mul(sums[0], heads);
  b.each(heads, [&](Value head) {
    Value inPart = arith::RemUIOp::create(b, head, atOnce);
    Value first = b.sub(head, inPart);
    Value width = smaller(atOnce, b.sub(heads, first));
    Value place = b.add(b.add(firstOfClass, b.mul(first, own.count)),
                        b.add(b.mul(sums[1], width), inPart));
    b.storeIndex(b.add(b.mul(head, numRows), row), order,
                 {ids[0], ids[1], b.sub(end, place)});
  });
}

/// Writes the kernels, and their launches before the user.
static void listTiles(RewriterBase &rewriter, const ListedMask &listed,
                      const TileListing &listing, const ClassifiedTiles &tiles,
                      SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  ScalarKernelBuilder b(listed.getLoc(), rewriter);
  b.setInsertionPoint(listed.user);
  Value queryTiles = b.tiles(listed.queryLength, listing.queryTile);
  Value keyTiles = b.tiles(listed.keyLength, listing.keyTile);
  int64_t dynamic = ShapedType::kDynamic;
  Value classes = memref::AllocOp::create(
      b,
      MemRefType::get({dynamic, listed.heads, dynamic, dynamic},
                      b.getI32Type()),
      ValueRange{listed.batches, queryTiles, keyTiles});

  SmallVector<Value> operands = {classes, listed.queryLength, listed.keyLength};
  SmallVector<Value> captures = getMaskCaptures(listed);
  llvm::append_range(operands, captures);
  auto create = [&](StringRef name, ValueRange operands) {
    return createKernel(rewriter, listed.user, listing.schedule, symbols,
                        (name + listing.suffix).str(), operands);
  };
  writeClasses(rewriter, listed, create("_classes", operands), listing,
               captures);
  writeLists(rewriter, listed, create("_lists", {classes, tiles.lists}),
             listing.rows);
  if (tiles.isOrderOfHeads) {
    Value rows = memref::AllocOp::create(
        b,
        MemRefType::get({dynamic, listed.heads, dynamic, NumRowColumns},
                        b.getI32Type()),
        ValueRange{listed.batches, b.size(tiles.lists, 2)});
    writeRowClasses(rewriter, listed.getLoc(),
                    create("_row_classes", {tiles.lists, rows}));
    writeOrderOfHeads(rewriter, listed.getLoc(),
                      create("_order", {tiles.lists, rows, tiles.order}),
                      listing.rowsAtOnce);
    b.setInsertionPoint(listed.user);
    memref::DeallocOp::create(b, rows);
  } else {
    writeOrder(rewriter, listed.getLoc(),
               create("_order", {tiles.lists, tiles.order}));
    b.setInsertionPoint(listed.user);
  }
  memref::DeallocOp::create(b, classes);
}

static ListedMask getListedMask(ScalarKernelBuilder &b,
                                AttentionOpInterface attention) {
  bool isByHead = isMaskedByHead(attention);
  int64_t heads = attention.getNumQueryHeads();
  int64_t groupSize = attention.getGroupSize();
  Value batches = b.size(attention.getQuery(), 0);
  Value queryLength = b.size(attention.getQuery(), 2);
  // Heads of packed tiles are groups, whose rows are queries of several heads.
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  if (schedule && schedule.packsGqa() && groupSize != 1) {
    queryLength = b.mul(queryLength, b.constant(groupSize));
    heads = attention.getNumGroups();
    groupSize = 1;
  }
  return {attention,
          attention.getMaskAttr(),
          attention.getMaskMod(),
          batches,
          queryLength,
          b.size(attention.getKey(), 2),
          isByHead ? heads : 1,
          isByHead ? groupSize : 1};
}

ClassifiedTiles attn::classifyTiles(RewriterBase &rewriter,
                                    AttentionOpInterface attention,
                                    const TileListing &listing,
                                    SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  ScalarKernelBuilder b(attention.getLoc(), rewriter);
  b.setInsertionPoint(attention);
  bool isOfQueries = listing.rows == MaskDim::Query;
  ListedMask listed = getListedMask(b, attention);
  Value rows = b.tiles(listed.queryLength, listing.queryTile);
  Value columns = b.tiles(listed.keyLength, listing.keyTile);
  if (!isOfQueries) {
    std::swap(rows, columns);
    if (listed.groupSize != 1)
      columns = b.mul(columns, b.constant(listed.groupSize));
  }
  int64_t heads = isOfQueries ? listed.heads : listed.heads / listed.groupSize;
  auto makeArray = [&](ValueRange sizes) -> Value {
    SmallVector<int64_t> shape(sizes.size() + 1, ShapedType::kDynamic);
    shape[1] = heads;
    return memref::AllocOp::create(b, MemRefType::get(shape, b.getI32Type()),
                                   sizes);
  };
  // Two counts, and one entry even if there is no tile.
  columns = b.add(columns, b.constant(3));
  ClassifiedTiles tiles;
  tiles.lists = makeArray({listed.batches, rows, columns});
  tiles.isOrderOfHeads = !isOfQueries && !isMaskedByHead(attention);
  if (tiles.isOrderOfHeads)
    rows = b.mul(rows, b.constant(attention.getNumGroups()));
  tiles.order = makeArray({listed.batches, rows});
  listTiles(rewriter, listed, listing, tiles, symbols);
  return tiles;
}

namespace {
/// Writes the kernel that evaluates pairs. Its arguments are `lists`, `bits`,
/// the lengths and the captures of the mask. A work item computes one word for
/// each lane in some of the partial tiles of a list.
class MaskBitsWriter {
public:
  MaskBitsWriter(RewriterBase &rewriter, const ListedMask &listed,
                 attn_tile::KernelOp kernel, attn_tile::MaskBitsType type)
      : b(listed.getLoc(), rewriter), listed(listed), kernel(kernel),
        type(type), entry(&kernel.getBody().front()),
        keyLength(entry->getArgument(3)),
        predicate(listed.getLoc(),
                  {listed.mask, &listed.maskMod, Value(), Value(),
                   entry->getArgument(2), keyLength}) {
    b.setInsertionPointToEnd(entry);
  }
  void write(ValueRange captures);

private:
  static constexpr int64_t lanes = attn_tile::MaskBitsType::lanes,
                           wordBits = attn_tile::MaskBitsType::wordBits;
  /// Where bit 0 of the words of a lane would lie.
  struct LanePosition {
    Value row, column;
  };
  /// The word of a lane whose first bit is `firstBit` of the lane.
  Value emitWord(const LanePosition &lane, Value firstBit);
  /// `together` bits in one row, from bit `element` of the lane on, as the
  /// lowest bits of a word.
  Value emitBits(const LanePosition &lane, Value element, int64_t together);
  /// Whether the pair attends.
  Value emitIsKept(Value row, Value column);

  Value divide(Value value, int64_t divisor) {
    return arith::DivUIOp::create(b, value, b.constant(divisor));
  }
  Value remain(Value value, int64_t divisor) {
    return arith::RemUIOp::create(b, value, b.constant(divisor));
  }

  ScalarKernelBuilder b;
  const ListedMask &listed;
  attn_tile::KernelOp kernel;
  attn_tile::MaskBitsType type;
  Block *entry;
  Value keyLength;
  PredicateBlock predicate;
  IRMapping captured;
};
} // namespace

Value MaskBitsWriter::emitIsKept(Value row, Value column) {
  IRMapping mapping = captured;
  mapping.map(predicate.getPositions().query, row);
  mapping.map(predicate.getPositions().key, column);
  for (Operation &op : *predicate.getBlock())
    b.clone(op, mapping);
  return b.both(mapping.lookupOrDefault(predicate.getPredicate()),
                b.compare(arith::CmpIPredicate::slt, column, keyLength));
}

Value MaskBitsWriter::emitBits(const LanePosition &lane, Value element,
                               int64_t together) {
  int64_t columns = type.getLaneColumns();
  Value row = b.add(lane.row, b.mul(divide(element, columns), b.constant(8)));
  Value firstInRow = remain(element, columns);
  Value part = arith::ConstantIntOp::create(b, 0, 32);
  for (int64_t number = 0; number < together; ++number) {
    // A lane holds two of every eight columns.
    Value inRow = b.add(firstInRow, b.constant(number));
    Value column =
        b.add(lane.column,
              b.add(b.mul(divide(inRow, 2), b.constant(8)), remain(inRow, 2)));
    Value isKept = emitIsKept(row, column);
    Value bit = arith::ConstantIntOp::create(b, int64_t(1) << number, 32);
    Value none = arith::ConstantIntOp::create(b, 0, 32);
    part = b.either(part, b.select(isKept, bit, none));
  }
  return part;
}

Value MaskBitsWriter::emitWord(const LanePosition &lane, Value firstBit) {
  // These bits are in one row.
  int64_t together = std::gcd(bitsTogether, type.getLaneColumns());
  auto parts = scf::ForOp::create(
      b, b.constant(0), b.constant(wordBits), b.constant(together),
      arith::ConstantIntOp::create(b, 0, 32).getResult());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(parts.getBody());
  Value first = parts.getInductionVar();
  Value part = emitBits(lane, b.add(firstBit, first), together);
  Value shift = arith::IndexCastOp::create(b, b.getI32Type(), first);
  part = arith::ShLIOp::create(b, part, shift);
  scf::YieldOp::create(b, b.either(parts.getRegionIterArg(0), part));
  return parts.getResult(0);
}

void MaskBitsWriter::write(ValueRange captures) {
  using arith::CmpIPredicate;
  Value lists = entry->getArgument(0), bits = entry->getArgument(1);
  ValueRange arguments = entry->getArguments().drop_front(4);
  captured = mapCaptures(b, listed, captures, arguments);
  int64_t laneWords = type.getLaneWords();
  SmallVector<OpFoldResult> items;
  for (int64_t dim = 0; dim < 3; ++dim)
    items.push_back(b.size(bits, dim));
  items.push_back(b.getIndexAttr(type.getNumWords() / lanes * workItemsOfRow));
  auto forall = scf::ForallOp::create(b, items, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids(forall.getInductionVars());
  captured.map(predicate.getPositions().batch, ids[0]);
  captured.map(predicate.getPositions().head, ids[1]);
  Value zero = b.constant(0), one = b.constant(1);
  auto loadEntry = [&](Value column) {
    return b.loadIndex(lists, {ids[0], ids[1], ids[2], column});
  };
  Value word = divide(ids[3], workItemsOfRow), masked = loadEntry(zero);
  Value firstRow = b.add(b.mul(ids[2], b.constant(type.getRows())),
                         b.mul(divide(word, laneWords),
                               b.constant(attn_tile::MaskBitsType::blockRows)));
  Value firstBit = b.mul(remain(word, laneWords), b.constant(wordBits));
  // The first step of a row is masked even if no tile is.
  Value steps = arith::MaxSIOp::create(b, masked, one);
  auto loop = scf::ForOp::create(b, remain(ids[3], workItemsOfRow), steps,
                                 b.constant(workItemsOfRow));
  b.setInsertionPointToStart(loop.getBody());
  Value step = loop.getInductionVar();
  Value lastColumn = b.sub(b.size(lists, 3), one);
  Value tile = loadEntry(b.select(b.compare(CmpIPredicate::slt, step, masked),
                                  b.add(step, b.constant(2)), lastColumn));
  Value firstColumn = b.mul(tile, b.constant(type.getColumns()));

  b.each(b.constant(lanes), [&](Value lane) {
    Value row = b.add(firstRow, divide(lane, 4));
    Value column = b.add(firstColumn, b.mul(remain(lane, 4), b.constant(2)));
    Value bitsOfLane = emitWord({row, column}, firstBit);
    Value place = b.add(b.mul(word, b.constant(lanes)), lane);
    memref::StoreOp::create(b, bitsOfLane, bits,
                            ValueRange{ids[0], ids[1], ids[2], step, place});
  });
  boundReads(b, kernel, arguments);
}

bool attn::readsMaskBits(AttentionOpInterface attention,
                         ScheduleAttrInterface schedule) {
  return schedule.readsMaskBits() && needsClassification(attention) &&
         !isMaskedByHead(attention);
}

Value attn::evaluatePairs(RewriterBase &rewriter,
                          AttentionOpInterface attention,
                          const TileListing &listing,
                          const ClassifiedTiles &tiles, SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  ScalarKernelBuilder b(attention.getLoc(), rewriter);
  b.setInsertionPoint(attention);
  ListedMask listed = getListedMask(b, attention);
  Value rows = b.tiles(listed.queryLength, listing.queryTile);
  Value columns = b.tiles(listed.keyLength, listing.keyTile);
  auto type = attn_tile::MaskBitsType::get(b.getContext(), listing.queryTile,
                                           listing.keyTile);
  // A row has a step even if there is no tile.
  Value steps = arith::MaxUIOp::create(b, columns, b.constant(1));
  int64_t dynamic = ShapedType::kDynamic;
  Value bits = memref::AllocOp::create(
      b,
      MemRefType::get({dynamic, 1, dynamic, dynamic, type.getNumWords()},
                      b.getI32Type()),
      ValueRange{listed.batches, rows, steps});
  SmallVector<Value> operands = {tiles.lists, bits, listed.queryLength,
                                 listed.keyLength};
  SmallVector<Value> captures = getMaskCaptures(listed);
  llvm::append_range(operands, captures);
  attn_tile::KernelOp kernel =
      createKernel(rewriter, attention, listing.schedule, symbols,
                   ("_bits" + listing.suffix), operands);
  MaskBitsWriter(rewriter, listed, kernel, type).write(captures);
  return bits;
}

ClassifiedTiles attn::getTilesOfBlockMask(OpBuilder &builder, Location loc,
                                          Value blockMask,
                                          const BlockMaskLengths &lengths,
                                          std::pair<int64_t, int64_t> tiles) {
  ScalarKernelBuilder b(loc, builder);
  Value rows = b.tiles(lengths.queries, tiles.first);
  Value keyTiles = b.tiles(lengths.keys, tiles.second);
  // The first entry of each row of the block mask belongs to the order; the
  // others are the list of the row.
  Value columns =
      b.add(keyTiles, b.constant(CreateBlockMaskOp::extraEntries - 1));
  auto type = cast<MemRefType>(blockMask.getType());
  OpFoldResult one = b.getIndexAttr(1);
  SmallVector<OpFoldResult> offsets(4, b.getIndexAttr(0)), strides(4, one);
  SmallVector<OpFoldResult> sizes = {
      lengths.batches, b.getIndexAttr(type.getDimSize(1)), rows, one};
  // Kernels need an innermost stride of 1, so the dimension of size 1 stays.
  ClassifiedTiles parts;
  parts.order =
      memref::SubViewOp::create(b, blockMask, offsets, sizes, strides);
  // The offset is dynamic: kernels get the address of the first element.
  offsets.back() = b.constant(1);
  sizes.back() = columns;
  parts.lists =
      memref::SubViewOp::create(b, blockMask, offsets, sizes, strides);
  return parts;
}

LogicalResult attn::lowerCreateBlockMaskToKernels(RewriterBase &rewriter,
                                                  CreateBlockMaskOp op,
                                                  SymbolTable &symbols) {
  if (!op.isBufferized())
    return op.emitOpError("must be bufferised");
  auto schedule =
      dyn_cast_if_present<ScheduleAttrInterface>(op.getScheduleAttr());
  if (!schedule)
    return op.emitOpError(op.getScheduleAttr()
                              ? "has a choice of schedules, which "
                                "attn-dispatch-schedules must resolve"
                              : "needs a schedule");
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  ListedMask listed{op,
                    op.getMaskAttr(),
                    op.getMaskMod(),
                    op.getBatch(),
                    op.getQueries(),
                    op.getKeys(),
                    getDimSize(op.getOut(), 1),
                    /*groupSize=*/1};
  std::pair<int64_t, int64_t> tiles = CreateBlockMaskOp::getTiles(schedule);
  ClassifiedTiles parts = getTilesOfBlockMask(
      rewriter, op.getLoc(), op.getOut(),
      {op.getBatch(), op.getQueries(), op.getKeys()}, tiles);
  listTiles(rewriter, listed,
            {tiles.first, tiles.second, schedule.getPreparation(),
             MaskDim::Query, /*suffix=*/""},
            parts, symbols);
  rewriter.eraseOp(op);
  return success();
}
