//===- Scores.cpp - Maps and masks by position ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers what depends on the position of each score.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

namespace {
/// Positions of the elements of a tile, as values of type `index`: operations
/// on them are lowered like all others. Registers of one axis of the tile are
/// queries, those of the other one keys.
struct TilePositions {
  template <typename OpTy>
  TilePositions(OpBuilder &builder, OpTy op, const KernelContext &context)
      : builder(builder), loc(op.getLoc()), context(context),
        transposed(op.getTransposed()) {
    auto type = cast<VectorType>(op.getResult().getType());
    rows = context.getRows(type);
    columns = context.getColumns(type);
    Value thread = context.getPosition(builder, op).thread;
    Value baseRow = context.layout.emitBaseRow(builder, loc, thread);
    Value baseColumn = context.layout.emitBaseColumn(builder, loc, thread);
    if (transposed)
      std::swap(baseRow, baseColumn);
    baseQuery = emitBase(op.getFirstQuery(), baseRow);
    baseKey = emitBase(op.getFirstKey(), baseColumn);
  }

  int64_t getNumQueries() const { return transposed ? columns : rows; }
  int64_t getNumKeys() const { return transposed ? rows : columns; }
  Value getQuery(int64_t q) {
    return emitOffset(baseQuery, getOffset(q, !transposed));
  }
  Value getKey(int64_t k) { return emitOffset(baseKey, getKeyOffset(k)); }
  int64_t getKeyOffset(int64_t k) const { return getOffset(k, transposed); }
  /// The register that holds query register `q`, key register `k`.
  int64_t getRegister(int64_t q, int64_t k) const {
    return transposed ? k * columns + q : q * columns + k;
  }

private:
  int64_t getOffset(int64_t i, bool isRow) const {
    return isRow ? context.layout.getRowOffset(i)
                 : context.layout.getColumnOffset(i);
  }
  Value emitBase(Value first, Value base) {
    Value index =
        arith::IndexCastOp::create(builder, loc, builder.getIndexType(), base);
    return arith::AddIOp::create(builder, loc, first, index);
  }
  Value emitOffset(Value base, int64_t offset) {
    if (offset == 0)
      return base;
    Value constant = arith::ConstantIndexOp::create(builder, loc, offset);
    return arith::AddIOp::create(builder, loc, base, constant);
  }

  OpBuilder &builder;
  Location loc;
  const KernelContext &context;
  bool transposed;
  int64_t rows, columns;
  Value baseQuery;
  Value baseKey;
};

/// Clones the body of a scalar region; returns what it yields.
static Value inlineScalarRegion(OpBuilder &builder, Region &region,
                                ValueRange arguments) {
  IRMapping mapping;
  mapping.map(region.getArguments(), arguments);
  for (Operation &op : region.front().without_terminator())
    builder.clone(op, mapping);
  auto yield = cast<attn_tile::YieldOp>(region.front().getTerminator());
  return mapping.lookupOrDefault(yield.getValue());
}

/// Positions beyond the lengths must not be read from captured arrays; they
/// stand for the last valid position instead, whose element is not used.
static Value clampPosition(OpBuilder &builder, Location loc, Region &region,
                           Value position, Value length) {
  bool reads =
      region.walk([](memref::LoadOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  if (!reads)
    return position;
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  Value last = arith::SubIOp::create(builder, loc, length, one);
  return arith::MinSIOp::create(builder, loc, position, last);
}

struct MapLowering : public KernelPattern<MapOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(MapOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    TilePositions positions(rewriter, op, context);
    SmallVector<ValueRange> sources(adaptor.getSources());
    SmallVector<Value> results(sources.front().size());
    for (int64_t q = 0, e = positions.getNumQueries(); q < e; ++q) {
      Value query = clampPosition(rewriter, loc, op.getBody(),
                                  positions.getQuery(q), op.getQueryLength());
      for (int64_t k = 0, e = positions.getNumKeys(); k < e; ++k) {
        Value key = clampPosition(rewriter, loc, op.getBody(),
                                  positions.getKey(k), op.getKeyLength());
        int64_t i = positions.getRegister(q, k);
        SmallVector<Value> arguments;
        for (ValueRange source : sources)
          arguments.push_back(source[i]);
        arguments.append({op.getBatch(), op.getHead(), query, key});
        results[i] = inlineScalarRegion(rewriter, op.getBody(), arguments);
      }
    }
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }
};

struct MaskLowering : public KernelPattern<MaskOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(MaskOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<VectorType>(op.getSource().getType());
    Location loc = op.getLoc();
    TilePositions positions(rewriter, op, context);
    auto floatType = cast<FloatType>(type.getElementType());
    Value masked = arith::ConstantFloatOp::create(
        rewriter, loc, floatType,
        APFloat::getInf(floatType.getFloatSemantics(), /*Negative=*/true));
    MaskAttrInterface mask = op.getMaskAttr();
    bool isInterval = op.getKeep().empty() && (!mask || mask.isInterval());
    SmallVector<Value> results(adaptor.getSource().size());
    for (int64_t q = 0, e = positions.getNumQueries(); q < e; ++q) {
      Value query = positions.getQuery(q);
      KeyRange range;
      if (isInterval)
        range = emitRelativeRange(rewriter, op, query, positions);
      for (int64_t k = 0, e = positions.getNumKeys(); k < e; ++k) {
        Value keep =
            isInterval
                ? emitWithin(rewriter, loc, range, positions.getKeyOffset(k))
                : emitKeep(rewriter, op, query, positions.getKey(k));
        int64_t i = positions.getRegister(q, k);
        results[i] = arith::SelectOp::create(rewriter, loc, keep,
                                             adaptor.getSource()[i], masked);
      }
    }
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }

private:
  /// The keys that `query` attends, counted from the thread's first key, so
  /// that its keys are compared as constants.
  static KeyRange emitRelativeRange(OpBuilder &builder, MaskOp op, Value query,
                                    TilePositions &positions) {
    Location loc = op.getLoc();
    KeyRange range;
    if (MaskAttrInterface mask = op.getMaskAttr())
      range = mask.emitKeyRange(
          builder, loc, {query, query, op.getQueryLength(), op.getKeyLength()});
    if (!range.end)
      range.end = op.getKeyLength();
    Value first = positions.getKey(0);
    range.end = arith::SubIOp::create(builder, loc, range.end, first);
    if (range.begin)
      range.begin = arith::SubIOp::create(builder, loc, range.begin, first);
    return range;
  }

  static Value emitWithin(OpBuilder &builder, Location loc,
                          const KeyRange &range, int64_t key) {
    Value constant = arith::ConstantIndexOp::create(builder, loc, key);
    Value keep = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt,
                                       range.end, constant);
    if (!range.begin)
      return keep;
    Value after = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle,
                                        range.begin, constant);
    return arith::AndIOp::create(builder, loc, keep, after);
  }

  /// Evaluates length, attribute and region for one pair.
  static Value emitKeep(OpBuilder &builder, MaskOp op, Value query, Value key) {
    Location loc = op.getLoc();
    Value keep = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                       key, op.getKeyLength());
    auto restrict = [&](Value condition) {
      keep = arith::AndIOp::create(builder, loc, keep, condition);
    };
    if (MaskAttrInterface mask = op.getMaskAttr())
      restrict(mask.emitPredicate(builder, loc,
                                  {op.getBatch(), op.getHead(), query, key,
                                   op.getQueryLength(), op.getKeyLength()}));
    if (!op.getKeep().empty())
      restrict(inlineScalarRegion(
          builder, op.getKeep(),
          {op.getBatch(), op.getHead(),
           clampPosition(builder, loc, op.getKeep(), query,
                         op.getQueryLength()),
           clampPosition(builder, loc, op.getKeep(), key, op.getKeyLength())}));
    return keep;
  }
};
} // namespace

void attn::populateScorePatterns(RewritePatternSet &patterns,
                                 const TypeConverter &converter,
                                 const KernelContext &context) {
  patterns.add<MapLowering, MaskLowering>(converter, patterns.getContext(),
                                          context);
}
