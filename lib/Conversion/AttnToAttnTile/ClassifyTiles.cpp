//===- ClassifyTiles.cpp - Tiles of masks that read tensors ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two small kernels. The first one counts the pairs that each tile keeps, by
// evaluating the mask for all of them; the second one makes a list of the tiles
// of each row of tiles.
//
//===----------------------------------------------------------------------===//

#include "ClassifyTiles.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::attn;

/// What a tile is.
enum TileClass : int64_t { Empty = 0, Masked = 1, Full = 2 };

namespace {
struct ClassBuilder : ImplicitLocOpBuilder {
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(*this, value);
  }
  Value add(Value lhs, Value rhs) {
    return arith::AddIOp::create(*this, lhs, rhs);
  }
  Value sub(Value lhs, Value rhs) {
    return arith::SubIOp::create(*this, lhs, rhs);
  }
  Value compare(arith::CmpIPredicate predicate, Value lhs, Value rhs) {
    return arith::CmpIOp::create(*this, predicate, lhs, rhs);
  }
  Value both(Value lhs, Value rhs) {
    return arith::AndIOp::create(*this, lhs, rhs);
  }
  Value select(Value condition, Value yes, Value no) {
    return arith::SelectOp::create(*this, condition, yes, no);
  }
  Value toIndex(Value condition) {
    return select(condition, constant(1), constant(0));
  }
  Value size(Value memref, int64_t dim) {
    return createOrFold<memref::DimOp>(memref, dim);
  }
  /// The number of tiles that cover `length`.
  Value tiles(Value length, int64_t tile) {
    return arith::DivUIOp::create(*this, add(length, constant(tile - 1)),
                                  constant(tile));
  }
  Value loadIndex(Value memref, ValueRange indices) {
    Value element = memref::LoadOp::create(*this, memref, indices);
    return arith::IndexCastOp::create(*this, getIndexType(), element);
  }
  void storeIndex(Value value, Value memref, ValueRange indices) {
    value = arith::IndexCastOp::create(*this, getI32Type(), value);
    memref::StoreOp::create(*this, value, memref, indices);
  }
  /// Runs `body` once for each number below `count`.
  void each(Value count, function_ref<void(Value)> body) {
    auto op = attn_tile::EachOp::create(*this, count);
    OpBuilder::InsertionGuard guard(*this);
    Block *block = createBlock(&op.getBody(), {}, getIndexType(), getLoc());
    body(block->getArgument(0));
    attn_tile::YieldOp::create(*this, ValueRange());
  }
  scf::ForallOp forall(Value memref, int64_t dims) {
    SmallVector<OpFoldResult> bounds;
    for (int64_t dim = 0; dim < dims; ++dim)
      bounds.push_back(size(memref, dim));
    return scf::ForallOp::create(*this, bounds, ValueRange(), std::nullopt);
  }
};
} // namespace

bool attn::needsClassification(AttentionOp attention) {
  return !attention.hasSequences() &&
         readsByPosition(attention.getKeepRegion());
}

bool attn::isMaskedByHead(AttentionOp attention) {
  return !attention.getKeepRegion().getArgument(1).use_empty();
}

/// Creates a kernel before `place` that prepares the work of `attention`, and
/// its launch before the attention.
static attn_tile::KernelOp createKernel(RewriterBase &rewriter,
                                        AttentionOp attention, Operation *place,
                                        SymbolTable &symbols, StringRef suffix,
                                        ValueRange operands) {
  Location loc = attention.getLoc();
  OpBuilder::InsertionGuard guard(rewriter);
  std::string name = "attention";
  if (auto function = attention->getParentOfType<FunctionOpInterface>())
    name = function.getName().str();
  rewriter.setInsertionPoint(place);
  auto kernel = attn_tile::KernelOp::create(
      rewriter, loc, name + suffix.str(),
      rewriter.getFunctionType(TypeRange(operands), {}));
  kernel.setScheduleAttr(attention.getChosenSchedule().getPreparation());
  symbols.insert(kernel);
  rewriter.setInsertionPoint(attention);
  attn_tile::LaunchOp::create(rewriter, loc, SymbolRefAttr::get(kernel),
                              /*grid=*/ValueRange(), operands,
                              /*groups_per_multiprocessor=*/IntegerAttr());
  return kernel;
}

/// Writes the kernel that finds the class of each tile: of arguments `classes`,
/// the lengths and what the mask captures.
static void writeClasses(RewriterBase &rewriter, AttentionOp attention,
                         attn_tile::KernelOp kernel, ValueRange captures) {
  using arith::CmpIPredicate;
  ClassBuilder b(attention.getLoc(), rewriter);
  Block *entry = &kernel.getBody().front();
  b.setInsertionPointToEnd(entry);
  Value classes = entry->getArgument(0);
  Value queryLength = entry->getArgument(1), keyLength = entry->getArgument(2);
  IRMapping captured;
  captured.map(captures, entry->getArguments().drop_front(3));
  Region &region = attention.getKeepRegion();
  visitUsedValuesDefinedAbove(region, [&](OpOperand *use) {
    if (!captured.contains(use->get()))
      b.clone(*use->get().getDefiningOp(), captured);
  });

  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  int64_t queryTile = schedule.getQueryTile(), keyTile = schedule.getKeyTile();
  scf::ForallOp forall = b.forall(classes, 4);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids(forall.getInductionVars());
  Value zero = b.constant(0), one = b.constant(1);
  Value rows = b.constant(queryTile), columns = b.constant(keyTile);
  Value firstQuery = arith::MulIOp::create(b, ids[2], rows);
  Value firstKey = arith::MulIOp::create(b, ids[3], columns);
  Value lastQuery = b.sub(queryLength, one), lastKey = b.sub(keyLength, one);

  auto sum =
      attn_tile::SumOp::create(b, TypeRange{b.getIndexType(), b.getIndexType()},
                               b.constant(queryTile * keyTile));
  {
    OpBuilder::InsertionGuard guard(b);
    Block *body =
        b.createBlock(&sum.getBody(), {}, b.getIndexType(), b.getLoc());
    Value pair = body->getArgument(0);
    Value row = arith::DivUIOp::create(b, pair, columns);
    Value column = arith::RemUIOp::create(b, pair, columns);
    Value query = b.add(firstQuery, row), key = b.add(firstKey, column);
    Value isQuery = b.compare(CmpIPredicate::slt, query, queryLength);
    Value keep = b.compare(CmpIPredicate::slt, key, keyLength);
    // Positions beyond the lengths stand for the last ones, and do not count.
    query = arith::MinSIOp::create(b, query, lastQuery);
    key = arith::MinSIOp::create(b, key, lastKey);
    if (MaskAttrInterface mask = attention.getMaskAttr())
      keep = b.both(keep, mask.emitPredicate(b, b.getLoc(),
                                             {ids[0], ids[1], query, key,
                                              queryLength, keyLength}));
    IRMapping mapping(captured);
    mapping.map(region.getArguments(),
                SmallVector<Value>{ids[0], ids[1], query, key});
    for (Operation &op : region.front().without_terminator())
      b.clone(op, mapping);
    keep = b.both(keep, mapping.lookupOrDefault(
                            region.front().getTerminator()->getOperand(0)));
    Value kept = b.toIndex(b.both(isQuery, keep));
    Value masked = b.sub(b.toIndex(isQuery), kept);
    attn_tile::YieldOp::create(b, ValueRange{kept, masked});
  }
  Value isEmpty = b.compare(CmpIPredicate::eq, sum.getResult(0), zero);
  Value isFull = b.compare(CmpIPredicate::eq, sum.getResult(1), zero);
  Value tileClass =
      b.select(isEmpty, b.constant(Empty),
               b.select(isFull, b.constant(Full), b.constant(Masked)));
  b.each(one, [&](Value) { b.storeIndex(tileClass, classes, ids); });
}

/// Writes the kernel that lists the tiles of each row, of arguments `classes`
/// and `lists`.
static void writeLists(RewriterBase &rewriter, AttentionOp attention,
                       attn_tile::KernelOp kernel) {
  using arith::CmpIPredicate;
  ClassBuilder b(attention.getLoc(), rewriter);
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
  // A row without tiles visits tile 0, in which nothing is attended.
  b.each(one, [&](Value) { store(zero, lastColumn); });

  auto loop = scf::ForOp::create(b, zero, b.size(classes, 3), one,
                                 ValueRange{zero, zero});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value tile = loop.getInductionVar();
    Value masked = loop.getRegionIterArg(0), full = loop.getRegionIterArg(1);
    Value tileClass = b.loadIndex(classes, {ids[0], ids[1], ids[2], tile});
    Value isMasked =
        b.compare(CmpIPredicate::eq, tileClass, b.constant(Masked));
    Value isFull = b.compare(CmpIPredicate::eq, tileClass, b.constant(Full));
    Value isListed = b.compare(CmpIPredicate::ne, tileClass, zero);
    Value column = b.select(isMasked, b.add(masked, b.constant(2)),
                            b.sub(lastColumn, full));
    b.each(b.toIndex(isListed), [&](Value) { store(tile, column); });
    scf::YieldOp::create(b, ValueRange{b.add(masked, b.toIndex(isMasked)),
                                       b.add(full, b.toIndex(isFull))});
  }
  Value masked = loop.getResult(0);
  Value count = b.add(masked, loop.getResult(1));
  b.each(one, [&](Value) {
    store(masked, zero);
    store(count, one);
  });
}

Value attn::classifyTiles(RewriterBase &rewriter, AttentionOp attention,
                          Operation *place, SymbolTable &symbols) {
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  ClassBuilder b(attention.getLoc(), rewriter);
  b.setInsertionPoint(attention);
  Value queryLength = b.size(attention.getQuery(), 2);
  Value keyLength = b.size(attention.getKey(), 2);
  int64_t heads = isMaskedByHead(attention) ? attention.getNumQueryHeads() : 1;
  Value keyTiles = b.tiles(keyLength, schedule.getKeyTile());
  SmallVector<Value> sizes = {b.size(attention.getQuery(), 0),
                              b.tiles(queryLength, schedule.getQueryTile()),
                              keyTiles};
  auto type = MemRefType::get(
      {ShapedType::kDynamic, heads, ShapedType::kDynamic, ShapedType::kDynamic},
      b.getI32Type());
  Value classes = memref::AllocOp::create(b, type, sizes);
  // The two counts, and one entry even if there is no tile.
  sizes.back() = b.add(keyTiles, b.constant(3));
  Value lists = memref::AllocOp::create(b, type, sizes);

  SmallVector<Value> operands = {classes, queryLength, keyLength};
  SetVector<Value> used;
  getUsedValuesDefinedAbove(attention.getKeepRegion(), used);
  SmallVector<Value> captures;
  for (Value value : used)
    if (!matchPattern(value, m_Constant()))
      captures.push_back(value);
  llvm::append_range(operands, captures);
  writeClasses(
      rewriter, attention,
      createKernel(rewriter, attention, place, symbols, "_classes", operands),
      captures);
  writeLists(rewriter, attention,
             createKernel(rewriter, attention, place, symbols, "_lists",
                          {classes, lists}));
  b.setInsertionPoint(attention);
  memref::DeallocOp::create(b, classes);
  return lists;
}
