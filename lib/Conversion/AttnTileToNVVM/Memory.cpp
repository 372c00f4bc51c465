//===- Memory.cpp - Global memory -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers accesses to global memory.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
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
    if (!type || !dim || *dim >= type.getRank())
      return rewriter.notifyMatchFailure(op, "not a known dimension");
    LoweredMemRef memref(type, adaptor.getSource());
    Value size = memref.getSize(rewriter, op.getLoc(), *dim);
    rewriter.replaceOpWithNewOp<arith::TruncIOp>(op, rewriter.getI32Type(),
                                                 size);
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
    LoweredMemRef memref(op.getMemRefType(), adaptor.getMemref());
    Value address = memref.emitAddress(rewriter, op.getLoc(), indices);
    // Booleans and indices are stored as bytes and 64-bit words.
    Type type = op.getType();
    Type stored = type;
    if (type.isInteger(1))
      stored = rewriter.getI8Type();
    else if (type.isIndex())
      stored = rewriter.getI64Type();
    Value value = LLVM::LoadOp::create(rewriter, op.getLoc(), stored, address);
    Type converted = typeConverter->convertType(type);
    if (stored != converted)
      value = arith::TruncIOp::create(rewriter, op.getLoc(), converted, value);
    rewriter.replaceOp(op, value);
    return success();
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
    rewriter.replaceOpWithNewOp<LLVM::StoreOp>(op, adaptor.getValue().front(),
                                               address);
    return success();
  }
};

/// Emits `i32` indices whose last two are the position of an element of a tile
/// (the last one, of an element of a row vector).
static SmallVector<Value> getElementIndices(ValueRange first, unsigned tileRank,
                                            Value row, Value column) {
  SmallVector<Value> indices(first);
  indices[indices.size() - tileRank] = row;
  if (tileRank == 2)
    indices.back() = column;
  return indices;
}

/// Transposes the 4x4 words of a quad of threads: thread `q` gives word `k` to
/// thread `k`, as its word `q`.
static void emitQuadTranspose(OpBuilder &builder, Location loc, Value thread,
                              MutableArrayRef<Value> words) {
  for (int64_t bit : {2, 1}) {
    Value mask = createI32(builder, loc, bit);
    Value high =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                              arith::AndIOp::create(builder, loc, thread, mask),
                              createI32(builder, loc, 0));
    for (int64_t low = 0; low < 4; ++low) {
      if (low & bit)
        continue;
      Value &lower = words[low], &upper = words[low | bit];
      Value sent = arith::SelectOp::create(builder, loc, high, lower, upper);
      Value kept = arith::SelectOp::create(builder, loc, high, upper, lower);
      Value received = emitShuffle(builder, loc, sent, bit);
      lower = arith::SelectOp::create(builder, loc, high, received, kept);
      upper = arith::SelectOp::create(builder, loc, high, kept, received);
    }
  }
}

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
    Value thread = context.getPosition(rewriter, op).thread;
    Value baseRow = arith::AddIOp::create(
        rewriter, loc, first[first.size() - type.getRank()],
        context.layout.emitBaseRow(rewriter, loc, thread));
    Value baseColumn = context.layout.emitBaseColumn(rewriter, loc, thread);
    Type i32 = rewriter.getI32Type();
    Value numRows = arith::TruncIOp::create(
        rewriter, loc, i32,
        memref.getSize(rewriter, loc, memrefType.getRank() - type.getRank()));
    if (op.getExtent()) {
      Value left =
          arith::SubIOp::create(rewriter, loc, adaptor.getExtent().front(),
                                adaptor.getFirst().front());
      Value end = arith::AddIOp::create(
          rewriter, loc, first[first.size() - type.getRank()], left);
      numRows = arith::MinSIOp::create(rewriter, loc, numRows, end);
    }

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
      // Exchanges need all threads, so they stand outside of the condition.
      SmallVector<Chunk> chunks =
          getChunks(rewriter, loc, type, values, thread, baseColumn);
      emitIf(rewriter, loc, inside, [&](OpBuilder &builder) {
        for (const Chunk &chunk : chunks) {
          Value column = chunk.column;
          if (type.getRank() == 2)
            column = arith::AddIOp::create(builder, loc, first.back(), column);
          SmallVector<Value> indices =
              getElementIndices(first, type.getRank(), row, column);
          auto store = [&](OpBuilder &builder) {
            Value address = memref.emitAddress(builder, loc, indices);
            LLVM::StoreOp::create(builder, loc, chunk.value, address,
                                  chunk.alignment);
          };
          if (type.getRank() == 2 && !isWithinColumns(op, type, memrefType)) {
            Value numColumns = arith::TruncIOp::create(
                builder, loc, i32,
                memref.getSize(builder, loc, memrefType.getRank() - 1));
            emitIf(builder, loc, emitLess(builder, loc, column, numColumns),
                   store);
          } else {
            store(builder);
          }
        }
      });
    }
    rewriter.eraseOp(op);
    return success();
  }

private:
  /// Consecutive values of a row that a thread stores at once.
  struct Chunk {
    Value column;
    Value value;
    unsigned alignment;
  };

  /// Whether the tile never hangs over the right edge of the destination.
  static bool isWithinColumns(StoreOp op, VectorType type, MemRefType memref) {
    APInt column;
    return !memref.isDynamicDim(memref.getRank() - 1) &&
           matchPattern(op.getIndices().back(), m_ConstantInt(&column)) &&
           column.getSExtValue() + type.getDimSize(1) <=
               memref.getShape().back();
  }

  /// What this thread stores of one row.
  SmallVector<Chunk> getChunks(OpBuilder &builder, Location loc,
                               VectorType type, ValueRange values, Value thread,
                               Value baseColumn) const {
    SmallVector<Chunk> chunks;
    unsigned bytes = type.getElementTypeBitWidth() / 8;
    auto getColumn = [&](int64_t c) {
      return emitAdd(builder, loc, baseColumn,
                     context.layout.getColumnOffset(c));
    };
    if (!context.isPacked(type)) {
      for (auto [c, value] : llvm::enumerate(values))
        chunks.push_back({getColumn(c), value, bytes});
      return chunks;
    }
    // Four threads hold pairs of eight consecutive columns. Where there are
    // four such groups they exchange pairs, so that each one stores a group.
    Type i32 = builder.getI32Type();
    unsigned i = 0;
    for (; i + 4 <= values.size(); i += 4) {
      SmallVector<Value, 4> words(values.slice(i, 4));
      emitQuadTranspose(builder, loc, thread, words);
      auto wordsType = VectorType::get(4, i32);
      Value vector = LLVM::PoisonOp::create(builder, loc, wordsType);
      for (auto [k, word] : llvm::enumerate(words))
        vector = LLVM::InsertElementOp::create(builder, loc, vector, word,
                                               createI32(builder, loc, k));
      // Thread q of the quad holds group q: column 8 * q of the four groups,
      // four times its base column.
      Value group = arith::ShLIOp::create(builder, loc, baseColumn,
                                          createI32(builder, loc, 2));
      int64_t offset = context.layout.getColumnOffset(2 * i);
      chunks.push_back({emitAdd(builder, loc, group, offset), vector, 16});
    }
    for (; i < values.size(); ++i)
      chunks.push_back({getColumn(2 * i), values[i], 2 * bytes});
    return chunks;
  }
};
} // namespace

void attn::populateMemoryPatterns(RewritePatternSet &patterns,
                                  const TypeConverter &converter,
                                  const KernelContext &context) {
  patterns.add<DimLowering, ElementLoadLowering, ElementStoreLowering,
               StoreLowering>(converter, patterns.getContext(), context);
}
