//===- Stores.cpp - Stores of tiles to global memory ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers stores of tiles. Threads exchange values so that each of them writes
// consecutive bytes.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

/// Emits `i32` indices that end with the position of an element of a tile: row
/// and column, or only the element of a row vector.
static SmallVector<Value> getElementIndices(ValueRange first, unsigned tileRank,
                                            Value row, Value column) {
  SmallVector<Value> indices(first);
  indices[indices.size() - tileRank] = row;
  if (tileRank == 2)
    indices.back() = column;
  return indices;
}

namespace {
struct StoreLowering : public KernelPattern<StoreOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(StoreOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    auto type = cast<VectorType>(op.getValue().getType());
    auto memrefType = cast<MemRefType>(op.getDest().getType());
    LoweredMemRef memref(memrefType, adaptor.getDest());
    SmallVector<Value> first = getSingleValues(adaptor.getIndices());
    unsigned rowDim = memrefType.getRank() -
                      (op.getTransposed() ? /*rank=*/2 : type.getRank());
    Value numRows =
        arith::TruncIOp::create(rewriter, loc, rewriter.getI32Type(),
                                memref.getSize(rewriter, loc, rowDim));
    if (op.getExtent()) {
      Value left =
          arith::SubIOp::create(rewriter, loc, adaptor.getExtent().front(),
                                adaptor.getFirst().front());
      Value end = arith::AddIOp::create(rewriter, loc, first[rowDim], left);
      numRows = arith::MinSIOp::create(rewriter, loc, numRows, end);
    }
    if (op.getTransposed()) {
      storeTransposed(rewriter, op, adaptor.getValue(), memref, first, numRows);
      rewriter.eraseOp(op);
      return success();
    }
    Value thread = context.getPosition(rewriter, op).thread;
    Value baseRow = arith::AddIOp::create(
        rewriter, loc, first[first.size() - type.getRank()],
        context.layout.emitBaseRow(rewriter, loc, thread));
    Value baseColumn = context.layout.emitBaseColumn(rewriter, loc, thread);

    for (int64_t r = 0, e = context.getRows(type); r < e; ++r) {
      Value row =
          emitAdd(rewriter, loc, baseRow, context.layout.getRowOffset(r));
      Value inside = emitLess(rewriter, loc, row, numRows);
      if (type.getRank() == 1) {
        // All threads of the row have the value; the first one stores it.
        Value isFirst =
            arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq,
                                  baseColumn, createI32(rewriter, loc, 0));
        inside = arith::AndIOp::create(rewriter, loc, inside, isFirst);
      }
      int64_t perRow = adaptor.getValue().size() / e;
      ValueRange values = adaptor.getValue().slice(r * perRow, perRow);
      // Exchanges need all threads, so they are outside of the condition.
      SmallVector<Chunk> chunks =
          getChunks(rewriter, loc, type, values, thread, baseColumn);
      emitIf(rewriter, loc, inside, [&](OpBuilder &builder) {
        for (const Chunk &chunk : chunks) {
          Value column = chunk.column;
          if (type.getRank() == 2)
            column = arith::AddIOp::create(builder, loc, first.back(), column);
          SmallVector<Value> indices =
              getElementIndices(first, type.getRank(), row, column);
          Value address = memref.emitAddress(builder, loc, indices);
          if (type.getRank() == 2 &&
              !isWithinColumns(type, memrefType, op.getIndices().back()))
            storeWithin(builder, loc, memref, chunk, column, address);
          else
            LLVM::StoreOp::create(builder, loc, chunk.value, address,
                                  chunk.alignment);
        }
      });
    }
    rewriter.eraseOp(op);
    return success();
  }

private:
  /// Stores a tile transposed: its rows are columns of the destination.
  void storeTransposed(OpBuilder &builder, StoreOp op, ValueRange values,
                       const LoweredMemRef &memref, ArrayRef<Value> first,
                       Value numRows) const {
    Location loc = op.getLoc();
    auto type = cast<VectorType>(op.getValue().getType());
    Value thread = context.getPosition(builder, op).thread;
    unsigned rank = memref.type.getRank();
    TransposedStore store{
        builder, loc, memref, first,
        /*row=*/
        context.layout.emitBaseColumn(builder, loc, thread),
        /*column=*/
        context.layout.emitBaseRow(builder, loc, thread), numRows,
        /*numColumns=*/
        arith::TruncIOp::create(builder, loc, builder.getI32Type(),
                                memref.getSize(builder, loc, rank - 1))};
    if (!context.isPacked(type))
      return storeTransposedElements(store, type, values);
    int64_t rows = context.getRows(type);
    int64_t words = context.getColumns(type) / 2;
    // Consecutive rows are stored together, so all of them exist or none.
    int64_t stored = memref.type.getShape().back();
    if (rows % 2 == 0 && words % 2 == 0 && !ShapedType::isDynamic(stored) &&
        stored % 8 == 0)
      return storeTransposedGroups(store, thread, type, values);
    storeTransposedElements(
        store, type, unpackPairs(builder, loc, type.getElementType(), values));
  }

  /// The destination of a transposed tile.
  struct TransposedStore {
    OpBuilder &builder;
    Location loc;
    const LoweredMemRef &memref;
    ArrayRef<Value> first;
    /// The first element of the thread, within the tile.
    Value row, column;
    /// Sizes of the destination.
    Value numRows, numColumns;

    /// Stores `value` at this distance in rows and columns from the first
    /// element.
    void emit(Value row, Value column, Value value, unsigned alignment) {
      unsigned rank = memref.type.getRank();
      row = arith::AddIOp::create(builder, loc, first[rank - 2], row);
      column = arith::AddIOp::create(builder, loc, first[rank - 1], column);
      Value inside = arith::AndIOp::create(
          builder, loc, emitLess(builder, loc, row, numRows),
          emitLess(builder, loc, column, numColumns));
      emitIf(builder, loc, inside, [&](OpBuilder &inner) {
        SmallVector<Value> indices(first);
        indices[rank - 2] = row;
        indices[rank - 1] = column;
        LLVM::StoreOp::create(inner, loc, value,
                              memref.emitAddress(inner, loc, indices),
                              alignment);
      });
    }
  };

  /// Stores each element by itself: a thread's neighbours in a row of the tile
  /// lie in different rows of the destination.
  void storeTransposedElements(TransposedStore &store, VectorType type,
                               ValueRange values) const {
    OpBuilder &builder = store.builder;
    int64_t perRow = context.getColumns(type);
    for (int64_t c = 0; c < perRow; ++c)
      for (int64_t r = 0, e = context.getRows(type); r < e; ++r)
        store.emit(emitAdd(builder, store.loc, store.row,
                           context.layout.getColumnOffset(c)),
                   emitAdd(builder, store.loc, store.column,
                           context.layout.getRowOffset(r)),
                   values[r * perRow + c], type.getElementTypeBitWidth() / 8);
  }

  /// Transposes 8x8 blocks of two groups of rows and two groups of columns;
  /// each thread of a quad then stores a row.
  void storeTransposedGroups(TransposedStore &store, Value thread,
                             VectorType type, ValueRange values) const {
    OpBuilder &builder = store.builder;
    Location loc = store.loc;
    auto constant = [&](int64_t value) {
      return createI32(builder, loc, value);
    };
    // Lane 4 * i + q holds columns 2 * q and 2 * q + 1 of row i of each block,
    // and rows 2 * q and 2 * q + 1 of column i once it is transposed.
    Value lane = arith::AndIOp::create(builder, loc, thread, constant(31));
    Value blockRow =
        arith::ShRUIOp::create(builder, loc, lane, constant(2)).getResult();
    Value quad = arith::AndIOp::create(builder, loc, thread, constant(3));
    // Of the four blocks, thread q stores the one in row q % 2, column q / 2.
    Value row = arith::AddIOp::create(
        builder, loc, blockRow,
        arith::ShLIOp::create(
            builder, loc,
            arith::ShRUIOp::create(builder, loc, quad, constant(1)).getResult(),
            constant(3))
            .getResult());
    Value column = arith::AddIOp::create(
        builder, loc,
        arith::SubIOp::create(builder, loc, store.column, blockRow).getResult(),
        arith::ShLIOp::create(
            builder, loc,
            arith::AndIOp::create(builder, loc, quad, constant(1)).getResult(),
            constant(3))
            .getResult());
    int64_t words = context.getColumns(type) / 2;
    for (int64_t r = 0, e = context.getRows(type); r < e; r += 2)
      for (int64_t c = 0; c < words; c += 2) {
        SmallVector<Value, 4> group;
        for (int64_t k = 0; k < 4; ++k)
          group.push_back(context.target.emitTransposeBlock(
              builder, loc, values[(r + k % 2) * words + c + k / 2]));
        emitQuadTranspose(builder, loc, thread, group);
        store.emit(
            emitAdd(builder, loc, row, context.layout.getColumnOffset(2 * c)),
            emitAdd(builder, loc, column, context.layout.getRowOffset(r)),
            joinWords(builder, loc, group), /*alignment=*/16);
      }
  }

  /// Consecutive values of a row that a thread stores at once: one value, or
  /// words of several.
  struct Chunk {
    Value column;
    Value value;
    unsigned alignment;
    int64_t count;
  };

  /// Stores the values of a chunk that are within the columns of `memref`. The
  /// chunk begins at `column`, a multiple of its size.
  void storeWithin(OpBuilder &builder, Location loc,
                   const LoweredMemRef &memref, const Chunk &chunk,
                   Value column, Value address) const {
    unsigned dim = memref.type.getRank() - 1;
    Value numColumns = arith::TruncIOp::create(
        builder, loc, builder.getI32Type(), memref.getSize(builder, loc, dim));
    auto isBefore = [&](int64_t offset) {
      return emitLess(builder, loc, emitAdd(builder, loc, column, offset),
                      numColumns);
    };
    bool isEven = !memref.type.isDynamicDim(dim) &&
                  memref.type.getDimSize(dim) % chunk.count == 0;
    Value isWhole = isBefore(isEven ? 0 : chunk.count - 1);
    emitIf(builder, loc, isWhole, [&](OpBuilder &inner) {
      LLVM::StoreOp::create(inner, loc, chunk.value, address, chunk.alignment);
    });
    if (isEven || chunk.count == 1)
      return;
    Value isCut = arith::AndIOp::create(
        builder, loc, isBefore(0),
        arith::XOrIOp::create(
            builder, loc, isWhole,
            arith::ConstantIntOp::create(builder, loc, true, 1).getResult())
            .getResult());
    emitIf(builder, loc, isCut, [&](OpBuilder &inner) {
      storeParts(inner, loc, chunk, column, numColumns, address);
    });
  }

  /// Stores each value of a chunk that lies before `numColumns`.
  static void storeParts(OpBuilder &builder, Location loc, const Chunk &chunk,
                         Value column, Value numColumns, Value address) {
    Type chunkType = chunk.value.getType();
    int64_t words = 1;
    if (auto vector = dyn_cast<VectorType>(chunkType))
      words = vector.getNumElements();
    unsigned bits = getElementTypeOrSelf(chunkType).getIntOrFloatBitWidth() *
                    words / chunk.count;
    Type element = builder.getIntegerType(bits);
    auto elements = LLVM::BitcastOp::create(
        builder, loc, VectorType::get(chunk.count, element), chunk.value);
    // The last value is not within the columns.
    for (int64_t k = 0; k < chunk.count - 1; ++k) {
      Value isInside =
          emitLess(builder, loc, emitAdd(builder, loc, column, k), numColumns);
      emitIf(builder, loc, isInside, [&](OpBuilder &inner) {
        Value value = LLVM::ExtractElementOp::create(inner, loc, elements,
                                                     createI32(inner, loc, k));
        Value place = LLVM::GEPOp::create(
            inner, loc, address.getType(), element, address,
            ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(k)});
        LLVM::StoreOp::create(inner, loc, value, place, bits / 8);
      });
    }
  }

  /// The parts of one row that this thread stores.
  SmallVector<Chunk> getChunks(OpBuilder &builder, Location loc,
                               VectorType type, ValueRange values, Value thread,
                               Value baseColumn) const {
    SmallVector<Chunk> chunks;
    unsigned bytes = type.getElementTypeBitWidth() / 8;
    auto getColumn = [&](int64_t c) {
      return emitAdd(builder, loc, baseColumn,
                     context.layout.getColumnOffset(c));
    };
    if (isFloat8(type.getElementType()))
      return getChunksOfFloat8(builder, loc, values, thread, baseColumn);
    if (!context.isPacked(type)) {
      for (auto [c, value] : llvm::enumerate(values))
        chunks.push_back({getColumn(c), value, bytes, /*count=*/1});
      return chunks;
    }
    // Four threads hold pairs of eight consecutive columns. Given four such
    // groups, they exchange pairs so that each one stores a group.
    unsigned i = 0;
    for (; i + 4 <= values.size(); i += 4) {
      SmallVector<Value, 4> words(values.slice(i, 4));
      emitQuadTranspose(builder, loc, thread, words);
      // Thread q of the quad holds group q.
      Value group = emitGroup(builder, loc, baseColumn);
      int64_t offset = context.layout.getColumnOffset(2 * i);
      chunks.push_back({emitAdd(builder, loc, group, offset),
                        joinWords(builder, loc, words), 16, /*count=*/8});
    }
    for (; i < values.size(); ++i)
      chunks.push_back({getColumn(2 * i), values[i], 2 * bytes, /*count=*/2});
    return chunks;
  }

  /// The same of 8-bit values. A word of a thread holds two pairs, of the first
  /// and of the second eight of sixteen consecutive columns, which the four
  /// threads of a quad hold together.
  SmallVector<Chunk> getChunksOfFloat8(OpBuilder &builder, Location loc,
                                       ValueRange values, Value thread,
                                       Value baseColumn) const {
    SmallVector<Chunk> chunks;
    unsigned i = 0;
    for (; i + 4 <= values.size(); i += 4) {
      SmallVector<Value, 4> words(values.slice(i, 4));
      emitQuadTranspose(builder, loc, thread, words);
      // Thread q of the quad holds the sixteen columns of word q: the pairs of
      // the first eight come first.
      Value pairs = LLVM::BitcastOp::create(
          builder, loc, VectorType::get(8, builder.getI16Type()),
          joinWords(builder, loc, words));
      Value ordered = LLVM::ShuffleVectorOp::create(
          builder, loc, pairs, pairs,
          ArrayRef<int32_t>{0, 2, 4, 6, 1, 3, 5, 7});
      // Eight times the base column of a pair is 16 * q.
      Value first = arith::ShLIOp::create(builder, loc, baseColumn,
                                          createI32(builder, loc, 3));
      chunks.push_back(
          {emitAdd(builder, loc, first, context.layout.getColumnOffset(4 * i)),
           LLVM::BitcastOp::create(
               builder, loc, VectorType::get(4, builder.getI32Type()), ordered),
           /*alignment=*/16, /*count=*/16});
    }
    auto halves = VectorType::get(2, builder.getI16Type());
    for (; i < values.size(); ++i) {
      Value word = LLVM::BitcastOp::create(builder, loc, halves, values[i]);
      for (int64_t half : {0, 1})
        chunks.push_back(
            {emitAdd(builder, loc, baseColumn,
                     context.layout.getColumnOffset(4 * i + 2 * half)),
             LLVM::ExtractElementOp::create(builder, loc, word,
                                            createI32(builder, loc, half)),
             /*alignment=*/2, /*count=*/2});
    }
    return chunks;
  }
};
} // namespace

void attn::populateStorePatterns(RewritePatternSet &patterns,
                                 const TypeConverter &converter,
                                 const KernelContext &context) {
  patterns.add<StoreLowering>(converter, patterns.getContext(), context);
}
