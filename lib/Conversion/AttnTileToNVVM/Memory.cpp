//===- Memory.cpp - Loads of global memory --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers loads of tiles from global memory, scalar accesses, and accesses to
// tiles in fragment order.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "attn/Dialect/AttnTile/IR/InBoundsLoads.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

namespace {
struct DimLowering : public KernelPattern<memref::DimOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(memref::DimOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = dyn_cast<MemRefType>(op.getSource().getType());
    std::optional<int64_t> dim = op.getConstantIndex();
    if (!type || !dim || *dim < 0 || *dim >= type.getRank())
      return rewriter.notifyMatchFailure(op, "not a known dimension");
    LoweredMemRef memref(type, adaptor.getSource());
    Value size = memref.getSize(rewriter, op.getLoc(), *dim);
    rewriter.replaceOpWithNewOp<arith::TruncIOp>(op, rewriter.getI32Type(),
                                                 size);
    return success();
  }
};

struct PackGQALowering : public KernelPattern<PackGQAOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(PackGQAOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    auto type = cast<MemRefType>(op.getPacked().getType());
    LoweredMemRef source(cast<MemRefType>(op.getSource().getType()),
                         adaptor.getSource());
    int64_t sourceRank = source.type.getRank();
    SmallVector<Value> values = {source.getPointer()};
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantIntOp::create(rewriter, loc, value, 64);
    };
    auto layout = cast<PackedGQALayoutAttr>(type.getLayout());
    for (int64_t dim = 0, e = type.getRank(); dim < e; ++dim) {
      if (!type.isDynamicDim(dim)) {
        values.push_back(constant(type.getDimSize(dim)));
      } else if (dim != layout.getRows()) {
        values.push_back(source.getSize(rewriter, loc, dim));
      } else if (!op.hasQueries()) {
        // All queries of a head have the same element.
        values.push_back(constant(std::numeric_limits<int32_t>::max()));
      } else {
        Value queries = source.getSize(rewriter, loc, dim);
        Value groupSize = constant(layout.getGroupSize());
        values.push_back(
            arith::MulIOp::create(rewriter, loc, queries, groupSize));
      }
    }
    for (int64_t dim = 0, e = type.getRank(); dim < e; ++dim)
      values.push_back(dim < sourceRank ? source.getStride(rewriter, loc, dim)
                                        : arith::ConstantIntOp::create(
                                              rewriter, loc, 0, 64));
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{values});
    return success();
  }
};

struct ElementLoadLowering : public KernelPattern<memref::LoadOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(memref::LoadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    SmallVector<Value> indices;
    for (ValueRange index : adaptor.getIndices())
      indices.push_back(index.front());
    SmallVector<Value> values(adaptor.getMemref());
    if (!isKnownInBounds(op))
      values.front() =
          emitReadable(rewriter, op.getLoc(), op.getMemRefType(), values);
    LoweredMemRef memref(op.getMemRefType(), values);
    Value address = memref.emitAddress(rewriter, op.getLoc(), indices);
    // Booleans, 8-bit floats and indices are stored as bytes and 64-bit words.
    Type type = op.getType();
    Type stored = type;
    if (type.isInteger(1) || isFloat8(type))
      stored = rewriter.getI8Type();
    else if (type.isIndex())
      stored = rewriter.getI64Type();
    auto alignment = static_cast<unsigned>(op.getAlignment().value_or(0));
    Value value =
        LLVM::LoadOp::create(rewriter, op.getLoc(), stored, address, alignment);
    Type converted = typeConverter->convertType(type);
    if (stored != converted)
      value = arith::TruncIOp::create(rewriter, op.getLoc(), converted, value);
    rewriter.replaceOp(op, value);
    return success();
  }

private:
  /// The pointer of a memref, or one to zeros if the memref has no elements and
  /// its pointer may therefore be invalid.
  Value emitReadable(OpBuilder &builder, Location loc, MemRefType type,
                     ValueRange values) const {
    LoweredMemRef memref(type, values);
    Value isEmpty = emitIsEmpty(builder, loc, memref);
    if (!isEmpty)
      return memref.getPointer();
    return LLVM::SelectOp::create(builder, loc, isEmpty, context.zeros,
                                  memref.getPointer());
  }
};

struct ElementStoreLowering : public KernelPattern<memref::StoreOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(memref::StoreOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Type type = op.getValueToStore().getType();
    if (!type.isSignlessIntOrFloat() || type.isInteger(1))
      return rewriter.notifyMatchFailure(op, "not a plain scalar");
    SmallVector<Value> indices = getSingleValues(adaptor.getIndices());
    LoweredMemRef memref(op.getMemRefType(), adaptor.getMemref());
    Value address = memref.emitAddress(rewriter, op.getLoc(), indices);
    auto alignment = static_cast<unsigned>(op.getAlignment().value_or(0));
    rewriter.replaceOpWithNewOp<LLVM::StoreOp>(op, adaptor.getValue().front(),
                                               address, alignment);
    return success();
  }
};

/// Loads an unaligned tile to registers: by pairs of neighbours if the whole
/// tile is within the source and pairs are aligned, else element by element.
struct UnalignedLoadLowering : public KernelPattern<LoadOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(LoadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op.getUnaligned())
      return rewriter.notifyMatchFailure(op, "rows are aligned");
    if (op.getFirst() || op.getPageTable() || op.getAddressing())
      return op.emitOpError("within a sequence, of unaligned rows, must be "
                            "staged for a GPU");
    auto type = cast<VectorType>(op.getResult().getType());
    Type element = type.getElementType();
    if (!element.isIntOrFloat() || element.getIntOrFloatBitWidth() % 8 != 0)
      return rewriter.notifyMatchFailure(op, "elements are not whole bytes");
    SmallVector<Type> types;
    if (failed(typeConverter->convertType(type, types)))
      return rewriter.notifyMatchFailure(op, "tile does not fit the layout");
    Place place(rewriter, op, adaptor, context);
    SmallVector<Value> results;
    if (type.getRank() == 2 && context.getColumns(type) % 2 == 0) {
      auto ifOp = scf::IfOp::create(rewriter, op.getLoc(), types,
                                    emitIsWholePairs(rewriter, op, place),
                                    /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(ifOp.thenBlock());
      scf::YieldOp::create(rewriter, op.getLoc(),
                           emitPairs(rewriter, op, place));
      rewriter.setInsertionPointToStart(ifOp.elseBlock());
      scf::YieldOp::create(rewriter, op.getLoc(),
                           emitElements(rewriter, op, place));
      results.append(ifOp.result_begin(), ifOp.result_end());
    } else {
      results = emitElements(rewriter, op, place);
    }
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }

private:
  /// The position of the thread's elements of a tile.
  struct Place {
    Place(OpBuilder &builder, LoadOp op, OneToNOpAdaptor adaptor,
          const KernelContext &context)
        : type(cast<VectorType>(op.getResult().getType())),
          memref(cast<MemRefType>(op.getSource().getType()),
                 adaptor.getSource()),
          first(getSingleValues(adaptor.getIndices())) {
      Value thread = context.getPosition(builder, op).thread;
      baseRow = context.layout.emitBaseRow(builder, op.getLoc(), thread);
      baseColumn = context.layout.emitBaseColumn(builder, op.getLoc(), thread);
    }

    /// Size of a dimension of the source, `i32`.
    Value getSize(OpBuilder &builder, Location loc, int64_t dim) const {
      return arith::TruncIOp::create(builder, loc, builder.getI32Type(),
                                     memref.getSize(builder, loc, dim));
    }
    int64_t getRowDim() const { return first.size() - type.getRank(); }

    VectorType type;
    LoweredMemRef memref;
    SmallVector<Value> first;
    Value baseRow;
    Value baseColumn;
  };

  static Value emitAnd(OpBuilder &builder, Location loc, Value lhs, Value rhs) {
    return lhs ? arith::AndIOp::create(builder, loc, lhs, rhs).getResult()
               : rhs;
  }

  /// Whether the leading indices, before the tile's dimensions, are in bounds.
  static Value emitIsInside(OpBuilder &builder, Location loc,
                            const Place &place) {
    Value inside;
    for (int64_t dim = 0, e = place.getRowDim(); dim < e; ++dim)
      inside = emitAnd(builder, loc, inside,
                       arith::CmpIOp::create(
                           builder, loc, arith::CmpIPredicate::ult,
                           place.first[dim], place.getSize(builder, loc, dim)));
    return inside;
  }

  /// Whether the whole tile is within the source, and its pairs are aligned.
  static Value emitIsWholePairs(OpBuilder &builder, LoadOp op,
                                const Place &place) {
    Location loc = op.getLoc();
    Value whole = emitIsInside(builder, loc, place);
    int64_t rowDim = place.getRowDim();
    for (int64_t d : {0, 1}) {
      Value end = emitAdd(builder, loc, place.first[rowDim + d],
                          place.type.getDimSize(d));
      whole = emitAnd(
          builder, loc, whole,
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, end,
                                place.getSize(builder, loc, rowDim + d)));
      whole = emitAnd(builder, loc, whole,
                      arith::CmpIOp::create(
                          builder, loc, arith::CmpIPredicate::sge,
                          place.first[rowDim + d], createI32(builder, loc, 0)));
    }
    // Address bits below the size of a pair, in the tile's address or in the
    // bytes from row to row, show that pairs are unaligned.
    Type i64 = builder.getI64Type();
    int64_t bytes = place.type.getElementTypeBitWidth() / 8;
    auto constant = [&](int64_t value) {
      return arith::ConstantIntOp::create(builder, loc, value, 64);
    };
    Value address = LLVM::PtrToIntOp::create(
        builder, loc, i64, place.memref.emitAddress(builder, loc, place.first));
    Value stride = arith::MulIOp::create(
        builder, loc, place.memref.getStride(builder, loc, rowDim),
        constant(bytes));
    Value low = arith::AndIOp::create(
        builder, loc, arith::OrIOp::create(builder, loc, address, stride),
        constant(2 * bytes - 1));
    return emitAnd(builder, loc, whole,
                   arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                         low, constant(0)));
  }

  /// The address of the thread's first element of a row; columns are constant
  /// offsets of the instructions. Sets `row` to the row index.
  Value emitRowAddress(OpBuilder &builder, Location loc, const Place &place,
                       int64_t r, Value &row) const {
    SmallVector<Value> indices(place.first);
    int64_t rowDim = place.getRowDim();
    row = arith::AddIOp::create(
        builder, loc, indices[rowDim],
        emitAdd(builder, loc, place.baseRow, context.layout.getRowOffset(r)));
    indices[rowDim] = row;
    if (place.type.getRank() == 2)
      indices.back() =
          arith::AddIOp::create(builder, loc, indices.back(), place.baseColumn);
    return place.memref.emitAddress(builder, loc, indices);
  }

  Value emitLoad(OpBuilder &builder, Location loc, const Place &place,
                 Value rowAddress, int64_t c, Type type) const {
    Type element = place.type.getElementType();
    int64_t offset =
        place.type.getRank() == 2 ? context.layout.getColumnOffset(c) : 0;
    Value address = LLVM::GEPOp::create(
        builder, loc, rowAddress.getType(), element, rowAddress,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
    int64_t bytes = place.type.getElementTypeBitWidth() / 8;
    return LLVM::LoadOp::create(builder, loc, type, address,
                                type == element ? bytes : 2 * bytes);
  }

  SmallVector<Value> emitPairs(OpBuilder &builder, LoadOp op,
                               const Place &place) const {
    Location loc = op.getLoc();
    bool packed = context.isPacked(place.type);
    Type type = VectorType::get(2, place.type.getElementType());
    if (packed)
      type = builder.getI32Type();
    SmallVector<Value> results;
    int64_t columns = context.getColumns(place.type);
    for (int64_t r = 0, e = context.getRows(place.type); r < e; ++r) {
      Value row;
      Value address = emitRowAddress(builder, loc, place, r, row);
      for (int64_t c = 0; c < columns; c += 2) {
        Value pair = emitLoad(builder, loc, place, address, c, type);
        if (packed) {
          results.push_back(pair);
          continue;
        }
        for (int64_t half : {0, 1})
          results.push_back(LLVM::ExtractElementOp::create(
              builder, loc, pair, createI32(builder, loc, half)));
      }
    }
    return results;
  }

  /// Elements outside of the source are not read.
  SmallVector<Value> emitElements(OpBuilder &builder, LoadOp op,
                                  const Place &place) const {
    Location loc = op.getLoc();
    Type element = place.type.getElementType();
    bool packed = context.isPacked(place.type);
    auto pairType = VectorType::get(2, element);
    Value zero =
        arith::ConstantOp::create(builder, loc, builder.getZeroAttr(element));
    Value outer = emitIsInside(builder, loc, place);
    int64_t rank = place.type.getRank(), rowDim = place.getRowDim();
    Value numRows = place.getSize(builder, loc, rowDim);
    auto emitBelow = [&](Value index, Value size) {
      return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                   index, size);
    };
    SmallVector<Value> results;
    for (int64_t r = 0, e = context.getRows(place.type); r < e; ++r) {
      Value row, pair;
      Value address = emitRowAddress(builder, loc, place, r, row);
      Value insideRow = emitAnd(builder, loc, outer, emitBelow(row, numRows));
      for (int64_t c = 0, n = context.getColumns(place.type); c < n; ++c) {
        Value inside = insideRow;
        if (rank == 2) {
          Value column =
              emitAdd(builder, loc,
                      arith::AddIOp::create(builder, loc, place.first.back(),
                                            place.baseColumn),
                      context.layout.getColumnOffset(c));
          inside = emitAnd(
              builder, loc, inside,
              emitBelow(column, place.getSize(builder, loc, rowDim + 1)));
        }
        auto ifOp = scf::IfOp::create(builder, loc, element, inside,
                                      /*addThenBlock=*/true,
                                      /*addElseBlock=*/true);
        {
          OpBuilder::InsertionGuard guard(builder);
          builder.setInsertionPointToStart(ifOp.thenBlock());
          scf::YieldOp::create(
              builder, loc, emitLoad(builder, loc, place, address, c, element));
          builder.setInsertionPointToStart(ifOp.elseBlock());
          scf::YieldOp::create(builder, loc, zero);
        }
        Value value = ifOp.getResult(0);
        if (!packed) {
          results.push_back(value);
          continue;
        }
        if (c % 2 == 0)
          pair = LLVM::PoisonOp::create(builder, loc, pairType);
        pair = LLVM::InsertElementOp::create(builder, loc, pair, value,
                                             createI32(builder, loc, c % 2));
        if (c % 2 == 1)
          results.push_back(LLVM::BitcastOp::create(
              builder, loc, builder.getI32Type(), pair));
      }
    }
    return results;
  }
};

/// Loads an aligned tile to registers. Loads of elements that may be out of
/// bounds read an existing element instead, and drop it.
struct LoadLowering : public KernelPattern<attn_tile::LoadOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(attn_tile::LoadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (op.getUnaligned())
      return rewriter.notifyMatchFailure(op, "rows are not aligned");
    if (op.getPageTable() || op.getAddressing())
      return op.emitOpError("of pages must be staged for a GPU");
    Part part = emitPart(rewriter, op, adaptor);
    SmallVector<Value> results;
    for (int64_t r = 0, e = context.getRows(part.type); r < e; ++r)
      loadRow(rewriter, op, part, r, results);
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }

private:
  /// An index of the source, and whether it is the requested one.
  struct Place {
    Value index;
    Value exists;
  };

  /// Indices along one dimension of the tile.
  struct Axis {
    Value first = nullptr;
    Value base = nullptr;
    /// Of the source, unless all indices exist.
    Value size = nullptr;
    /// Where a sequence ends; null without.
    Value end = nullptr;

    Place emitPlace(OpBuilder &builder, Location loc, int64_t offset) const {
      Value index = arith::AddIOp::create(builder, loc, first,
                                          emitAdd(builder, loc, base, offset));
      if (!size)
        return {index, Value()};
      Value exists = emitLess(builder, loc, index, size);
      if (end)
        exists = arith::AndIOp::create(builder, loc, exists,
                                       emitLess(builder, loc, index, end));
      Value last =
          arith::SubIOp::create(builder, loc, size, createI32(builder, loc, 1));
      // Neighbours that share a word start at an even index.
      last = arith::AndIOp::create(builder, loc, last,
                                   createI32(builder, loc, -2));
      index = arith::SelectOp::create(builder, loc, exists, index, last);
      return {index, exists};
    }
  };

  /// The part of a tile that a thread loads.
  struct Part {
    Part(attn_tile::LoadOp op, OneToNOpAdaptor adaptor)
        : type(cast<VectorType>(op.getResult().getType())),
          memref(cast<MemRefType>(op.getSource().getType()),
                 adaptor.getSource()),
          first(getSingleValues(adaptor.getIndices())),
          rowDim(memref.type.getRank() - type.getRank()),
          isOneRow(type.getRank() == 2 && type.getDimSize(0) == 1),
          inBounds(op.getInBounds()) {}

    VectorType type;
    LoweredMemRef memref;
    /// Indices of the tile.
    SmallVector<Value> first;
    unsigned rowDim;
    bool isOneRow, inBounds;
    Value thread;
    Axis rows, columns;
    /// Two neighbours of a row are in one word of 16-bit tiles, and in two
    /// words of other tiles, which are loaded together if both are known to
    /// exist.
    bool packed = false, paired = false;
    /// If all columns exist, a thread loads four such words at once.
    bool grouped = false;
  };

  Part emitPart(OpBuilder &builder, attn_tile::LoadOp op,
                OneToNOpAdaptor adaptor) const {
    Location loc = op.getLoc();
    Part part(op, adaptor);
    part.thread = context.getPosition(builder, op).thread;
    part.rows.first = part.first[part.rowDim];
    part.rows.base =
        part.isOneRow ? createI32(builder, loc, 0)
                      : context.layout.emitBaseRow(builder, loc, part.thread);
    bool isMatrix = part.type.getRank() == 2;
    if (isMatrix)
      part.columns = {part.first.back(),
                      context.layout.emitBaseColumn(builder, loc, part.thread)};
    if (op.getFirst()) {
      Value left =
          arith::SubIOp::create(builder, loc, adaptor.getExtent().front(),
                                adaptor.getFirst().front());
      part.inBounds = false;
      part.rows.end =
          arith::AddIOp::create(builder, loc, part.rows.first, left);
    }
    if (!part.inBounds) {
      part.rows.size = emitSize(builder, loc, part.memref, part.rowDim);
      if (isMatrix)
        part.columns.size =
            emitSize(builder, loc, part.memref, part.rowDim + 1);
    }
    part.packed = context.isPacked(part.type);
    part.paired = isMatrix && (part.packed || part.inBounds);
    part.grouped = part.packed && isWithinColumns(part.type, part.memref.type,
                                                  op.getIndices().back());
    return part;
  }

  void loadRow(OpBuilder &builder, attn_tile::LoadOp op, const Part &part,
               int64_t r, SmallVectorImpl<Value> &results) const {
    Location loc = op.getLoc();
    Place row = part.rows.emitPlace(
        builder, loc, part.isOneRow ? 0 : context.layout.getRowOffset(r));
    int64_t numColumns = context.getColumns(part.type);
    int64_t c = 0;
    for (; part.grouped && c + groupColumns <= numColumns; c += groupColumns) {
      SmallVector<Value> indices = part.first;
      indices[part.rowDim] = row.index;
      indices.back() = emitAdd(
          builder, loc,
          arith::AddIOp::create(builder, loc, part.columns.first,
                                emitGroup(builder, loc, part.columns.base))
              .getResult(),
          context.layout.getColumnOffset(c));
      llvm::append_range(
          results, loadGroup(builder, op, part.thread,
                             part.memref.emitAddress(builder, loc, indices),
                             row.exists));
    }
    for (; c < numColumns; c += part.paired ? 2 : 1)
      loadWord(builder, loc, part, row, c, results);
  }

  /// Loads column `c` of a row, and the next one if they are loaded together.
  void loadWord(OpBuilder &builder, Location loc, const Part &part,
                const Place &row, int64_t c,
                SmallVectorImpl<Value> &results) const {
    SmallVector<Value> indices = part.first;
    indices[part.rowDim] = row.index;
    Value exists = row.exists;
    if (part.type.getRank() == 2) {
      Place column = part.columns.emitPlace(builder, loc,
                                            context.layout.getColumnOffset(c));
      indices.back() = column.index;
      if (!part.inBounds)
        exists = arith::AndIOp::create(builder, loc, exists, column.exists);
    }
    Value address = part.memref.emitAddress(builder, loc, indices);
    Type element = part.type.getElementType();
    unsigned bytes = part.type.getElementTypeBitWidth() / 8;
    if (part.paired && !part.packed) {
      Value pair = LLVM::LoadOp::create(
          builder, loc, VectorType::get(2, element), address, 2 * bytes);
      for (int64_t i : {0, 1})
        results.push_back(LLVM::ExtractElementOp::create(
            builder, loc, pair, createI32(builder, loc, i)));
      return;
    }
    Type word = part.packed ? builder.getI32Type() : element;
    Value value = LLVM::LoadOp::create(builder, loc, word, address,
                                       part.packed ? 2 * bytes : bytes);
    if (exists) {
      Value zero =
          arith::ConstantOp::create(builder, loc, builder.getZeroAttr(word));
      value = arith::SelectOp::create(builder, loc, exists, value, zero);
    }
    results.push_back(value);
  }

  /// Columns of a thread that fill four words.
  static constexpr int64_t groupColumns = 8;

  /// Loads the words of four groups of eight columns. Each thread of a quad
  /// loads one group, at `address`. The quad then exchanges words, unless any
  /// order is allowed. The words are zero unless `exists`.
  static SmallVector<Value> loadGroup(OpBuilder &builder, attn_tile::LoadOp op,
                                      Value thread, Value address,
                                      Value exists) {
    Location loc = op.getLoc();
    Type i32 = builder.getI32Type();
    Value vector = LLVM::LoadOp::create(builder, loc, VectorType::get(4, i32),
                                        address, /*alignment=*/16);
    SmallVector<Value> words;
    for (int64_t k = 0; k < 4; ++k) {
      Value word = LLVM::ExtractElementOp::create(builder, loc, vector,
                                                  createI32(builder, loc, k));
      if (exists)
        word = arith::SelectOp::create(builder, loc, exists, word,
                                       createI32(builder, loc, 0));
      words.push_back(word);
    }
    if (!op.getAnyOrder())
      emitQuadTranspose(builder, loc, thread, words);
    return words;
  }

  static Value emitSize(OpBuilder &builder, Location loc,
                        const LoweredMemRef &memref, unsigned dim) {
    return arith::TruncIOp::create(builder, loc, builder.getI32Type(),
                                   memref.getSize(builder, loc, dim));
  }
};
} // namespace

/// The offset, in elements, of a warp's part in a tile in fragment order with
/// `registers` values per thread. The order is warps, then groups of four
/// registers, then lanes.
static Value emitFragmentWarp(OpBuilder &builder, Location loc,
                              const ThreadPosition &position,
                              int64_t registers) {
  return arith::MulIOp::create(builder, loc, position.warp,
                               createI32(builder, loc, registers * 32));
}

static Value emitLane(OpBuilder &builder, Location loc,
                      const ThreadPosition &position) {
  return arith::AndIOp::create(builder, loc, position.thread,
                               createI32(builder, loc, 31));
}

/// The address of the warp's part of a tile in fragment order in shared memory.
static Value emitFragmentStage(OpBuilder &builder, Location loc,
                               const ThreadPosition &position, Value stage,
                               int64_t registers) {
  Value first = emitFragmentWarp(builder, loc, position, registers);
  Value offset =
      arith::ShLIOp::create(builder, loc, first, createI32(builder, loc, 2));
  return arith::AddIOp::create(builder, loc, stage, offset);
}

/// Addresses of this thread's groups of four registers of a tile in fragment
/// order.
static SmallVector<Value> emitFragmentGroups(OpBuilder &builder, Location loc,
                                             MemRefType type, ValueRange memref,
                                             ArrayRef<Value> indices,
                                             const ThreadPosition &position,
                                             int64_t registers) {
  Value base = LoweredMemRef(type, memref).emitAddress(builder, loc, indices);
  Value first = arith::AddIOp::create(
      builder, loc, emitFragmentWarp(builder, loc, position, registers),
      arith::ShLIOp::create(builder, loc, emitLane(builder, loc, position),
                            createI32(builder, loc, 2))
          .getResult());
  SmallVector<Value> addresses;
  for (int64_t i = 0; i < registers; i += 4) {
    Value offset = emitAdd(builder, loc, first, i * 32);
    addresses.push_back(LLVM::GEPOp::create(
        builder, loc, base.getType(), type.getElementType(), base, offset));
  }
  return addresses;
}

namespace {
/// Puts each warp's part of a tile where its bulk reduction reads it.
struct StageFragmentsLowering : public KernelPattern<StageFragmentsOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(StageFragmentsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    const BulkReductionTarget *bulk = context.target.getBulkReductions();
    if (!bulk)
      return emitMissing(op, "bulk reductions", context.target);
    Location loc = op.getLoc();
    ValueRange values = adaptor.getTile();
    if (values.size() % 4 != 0)
      return rewriter.notifyMatchFailure(
          op, "number of registers is no multiple of 4");
    ThreadPosition position = context.getPosition(rewriter, op);
    ValueRange pipe = adaptor.getPipe();
    Value stage =
        emitFragmentStage(rewriter, loc, position, pipe[0], values.size());
    std::optional<OrderedStage> ordered;
    if (op.getPosition())
      ordered = OrderedStage{pipe[0], pipe[1], adaptor.getPosition().front()};
    bulk->emitStageFragments(rewriter, loc, stage,
                             emitLane(rewriter, loc, position), values,
                             ordered ? &*ordered : nullptr);
    // Nothing waits for the barriers of this stage.
    rewriter.replaceOpWithMultiple(
        op, SmallVector<SmallVector<Value>>{{pipe[0], pipe[1], pipe[1]}});
    return success();
  }
};

struct CommitFragmentsLowering : public KernelPattern<CommitFragmentsOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(CommitFragmentsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    const OrderedAccumulationTarget *ordered =
        context.target.getOrderedAccumulation();
    if (!ordered)
      return emitMissing(op, "ordered accumulation", context.target);
    Location loc = op.getLoc();
    ThreadPosition position = context.getPosition(rewriter, op);
    ValueRange pipe = adaptor.getPipe();
    ordered->emitCommitFragments(
        rewriter, loc, {pipe[0], pipe[1], adaptor.getPosition().front()},
        emitLane(rewriter, loc, position));
    rewriter.eraseOp(op);
    return success();
  }
};

struct OrderedReduceAddLowering : public KernelPattern<OrderedReduceAddOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(OrderedReduceAddOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    const OrderedAccumulationTarget *ordered =
        context.target.getOrderedAccumulation();
    if (!ordered)
      return emitMissing(op, "ordered accumulation", context.target);
    Location loc = op.getLoc();
    PipeType type = op.getPipe().getType();
    constexpr int64_t elementBytes = 4;
    int64_t bytes = type.getShape()[0] * type.getShape()[1] * elementBytes;
    ValueRange pipe = adaptor.getPipe();
    auto emitAddress = [&](Value memref, ValueRange parts, ValueRange indices) {
      return LoweredMemRef(cast<MemRefType>(memref.getType()), parts)
          .emitAddress(rewriter, loc, SmallVector<Value>(indices));
    };
    ordered->emitOrderedReduceAdd(
        rewriter, loc, {pipe[0], pipe[1], adaptor.getPosition().front()},
        emitAddress(op.getDest(), adaptor.getDest(),
                    getSingleValues(adaptor.getIndices())),
        emitAddress(op.getSemaphores(), adaptor.getSemaphores(),
                    getSingleValues(adaptor.getSemaphoreIndices())),
        adaptor.getOrdinal().front(), context.getIdleWarps(op).first, bytes);
    rewriter.eraseOp(op);
    return success();
  }
};

struct BulkReduceAddLowering : public KernelPattern<BulkReduceAddOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(BulkReduceAddOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    if (op.getOrdinal())
      return op.emitOpError("with an order needs roles, of which "
                            "attn-tile-split-roles makes idle warps add");
    VectorType type = op.getTileType();
    int64_t registers = context.getRows(type) * context.getColumns(type);
    if (registers % 4 != 0)
      return rewriter.notifyMatchFailure(
          op, "number of registers is no multiple of 4");
    auto destType = cast<MemRefType>(op.getDest().getType());
    SmallVector<Value> indices = getSingleValues(adaptor.getIndices());
    ThreadPosition position = context.getPosition(rewriter, op);
    if (isa<BufferType>(op.getValue().getType())) {
      const BulkReductionTarget *bulk = context.target.getBulkReductions();
      if (!bulk)
        return emitMissing(op, "bulk reductions", context.target);
      Value first = emitFragmentWarp(rewriter, loc, position, registers);
      Value base = LoweredMemRef(destType, adaptor.getDest())
                       .emitAddress(rewriter, loc, indices);
      Value address =
          LLVM::GEPOp::create(rewriter, loc, base.getType(),
                              destType.getElementType(), base, first);
      Value stage = emitFragmentStage(rewriter, loc, position,
                                      getStagedTile(adaptor.getValue()).address,
                                      registers);
      bulk->emitBulkAdd(rewriter, loc, address, stage,
                        emitLane(rewriter, loc, position), registers);
      rewriter.eraseOp(op);
      return success();
    }
    SmallVector<Value> groups =
        emitFragmentGroups(rewriter, loc, destType, adaptor.getDest(), indices,
                           position, registers);
    for (auto [i, address] : llvm::enumerate(groups))
      context.target.emitAtomicAdd(rewriter, loc, address,
                                   adaptor.getValue().slice(4 * i, 4));
    rewriter.eraseOp(op);
    return success();
  }
};

struct StoreFragmentsLowering : public KernelPattern<StoreFragmentsOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(StoreFragmentsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    ValueRange values = adaptor.getValue();
    if (values.size() % 4 != 0)
      return rewriter.notifyMatchFailure(
          op, "number of registers is no multiple of 4");
    SmallVector<Value> groups = emitFragmentGroups(
        rewriter, loc, cast<MemRefType>(op.getDest().getType()),
        adaptor.getDest(), getSingleValues(adaptor.getIndices()),
        context.getPosition(rewriter, op), values.size());
    for (auto [i, address] : llvm::enumerate(groups))
      LLVM::StoreOp::create(rewriter, loc,
                            joinWords(rewriter, loc, values.slice(4 * i, 4)),
                            address, /*alignment=*/16);
    rewriter.eraseOp(op);
    return success();
  }
};

struct LoadFragmentsLowering : public KernelPattern<LoadFragmentsOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(LoadFragmentsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    auto type = cast<VectorType>(op.getResult().getType());
    int64_t registers = context.getRows(type) * context.getColumns(type);
    if (registers % 4 != 0)
      return rewriter.notifyMatchFailure(
          op, "number of registers is no multiple of 4");
    auto group = VectorType::get(4, type.getElementType());
    SmallVector<Value> results;
    for (Value address : emitFragmentGroups(
             rewriter, loc, cast<MemRefType>(op.getSource().getType()),
             adaptor.getSource(), getSingleValues(adaptor.getIndices()),
             context.getPosition(rewriter, op), registers)) {
      Value values = LLVM::LoadOp::create(rewriter, loc, group, address,
                                          /*alignment=*/16);
      for (int64_t i = 0; i < 4; ++i)
        results.push_back(LLVM::ExtractElementOp::create(
            rewriter, loc, values, createI32(rewriter, loc, i)));
    }
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }
};
} // namespace

void attn::populateMemoryPatterns(RewritePatternSet &patterns,
                                  const TypeConverter &converter,
                                  const KernelContext &context) {
  patterns.add<DimLowering, PackGQALowering, ElementLoadLowering,
               ElementStoreLowering, LoadLowering, UnalignedLoadLowering,
               StageFragmentsLowering, CommitFragmentsLowering,
               OrderedReduceAddLowering, BulkReduceAddLowering,
               StoreFragmentsLowering, LoadFragmentsLowering>(
      converter, patterns.getContext(), context);
}
