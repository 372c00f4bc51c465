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
#include "RegionEmitter.h"

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

  /// Sets the arguments batch, head, query and key of a region.
  template <typename OpTy>
  void setArguments(RegionEmitter &emitter, ArrayRef<BlockArgument> arguments,
                    OpTy op) {
    SmallVector<int64_t> rowOffsets, columnOffsets;
    for (int64_t r = 0; r < rows; ++r)
      rowOffsets.push_back(context.layout.getRowOffset(r));
    for (int64_t c = 0; c < columns; ++c)
      columnOffsets.push_back(context.layout.getColumnOffset(c));
    emitter.setUniform(arguments[0], op.getBatch());
    emitter.setUniform(arguments[1], op.getHead());
    BlockArgument byRow = arguments[2], byColumn = arguments[3];
    if (transposed)
      std::swap(byRow, byColumn);
    emitter.setRowPositions(byRow, transposed ? baseKey : baseQuery,
                            rowOffsets);
    emitter.setColumnPositions(byColumn, transposed ? baseQuery : baseKey,
                               columnOffsets);
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

struct MapLowering : public KernelPattern<MapOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(MapOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<VectorType>(op.getResult().getType());
    int64_t rows = context.getRows(type), columns = context.getColumns(type);
    TilePositions positions(rewriter, op, context);
    Block &body = op.getBody().front();
    RegionEmitter emitter(rewriter, body, rows, columns);
    ArrayRef<BlockArgument> arguments = body.getArguments();
    for (ValueRange source : adaptor.getSources()) {
      emitter.setElements(arguments.front(), source);
      arguments = arguments.drop_front();
    }
    positions.setArguments(emitter, arguments.take_front(4), op);
    for (auto [argument, tile, registers] :
         llvm::zip(arguments.drop_front(4), op.getOthers().getTypes(),
                   adaptor.getOthers())) {
      auto tileType = cast<VectorType>(tile);
      if (tileType.getRank() == 1)
        emitter.setRows(argument, registers);
      else if (context.isPacked(tileType))
        emitter.setElements(argument,
                            unpackPairs(rewriter, op.getLoc(),
                                        tileType.getElementType(), registers));
      else
        emitter.setElements(argument, registers);
    }
    rewriter.replaceOpWithMultiple(
        op, SmallVector<SmallVector<Value>>{emitter.run()});
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
    SmallVector<Value> results(adaptor.getSource().size()), kept;
    if (!op.getKeep().empty()) {
      Block &body = op.getKeep().front();
      RegionEmitter emitter(rewriter, body, context.getRows(type),
                            context.getColumns(type));
      positions.setArguments(emitter, body.getArguments(), op);
      kept = emitter.run();
    }
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
        if (!kept.empty())
          keep = arith::AndIOp::create(rewriter, loc, keep, kept[i]);
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

  /// Evaluates length and attribute for one pair.
  static Value emitKeep(OpBuilder &builder, MaskOp op, Value query, Value key) {
    Location loc = op.getLoc();
    Value keep = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                       key, op.getKeyLength());
    if (MaskAttrInterface mask = op.getMaskAttr()) {
      Value attended =
          mask.emitPredicate(builder, loc,
                             {op.getBatch(), op.getHead(), query, key,
                              op.getQueryLength(), op.getKeyLength()});
      keep = arith::AndIOp::create(builder, loc, keep, attended);
    }
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
