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
#include "attn/Analysis/MaskTiles.h"
#include "mlir/Transforms/RegionUtils.h"

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
  int64_t getQueryOffset(int64_t q) const { return getOffset(q, !transposed); }
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
} // namespace

/// Makes a condition one predicate for what uses it. LLVM would turn a
/// selection by a conjunction into a selection for each part, where the
/// assembler makes a conjunction a part of the comparisons.
static Value emitPredicate(OpBuilder &builder, Value condition) {
  if (!isa_and_present<arith::AndIOp, arith::OrIOp>(condition.getDefiningOp()))
    return condition;
  return LLVM::InlineAsmOp::create(
             builder, condition.getLoc(), condition.getType(), condition,
             "mov.pred $0, $1;", "=b,b", /*has_side_effects=*/false,
             /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
             LLVM::AsmDialectAttr::get(builder.getContext(),
                                       LLVM::AsmDialect::AD_ATT),
             /*operand_attrs=*/ArrayAttr())
      .getRes();
}

namespace {
struct MaskLowering : public KernelPattern<MaskOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(MaskOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<VectorType>(op.getSource().getType());
    Location loc = op.getLoc();
    Operation *early = getEarlyPlace(op, adaptor.getSource());
    rewriter.setInsertionPoint(early);
    TilePositions positions(rewriter, op, context);
    rewriter.setInsertionPoint(op);
    auto floatType = cast<FloatType>(type.getElementType());
    Value masked = arith::ConstantFloatOp::create(
        rewriter, loc, floatType,
        APFloat::getInf(floatType.getFloatSemantics(), /*Negative=*/true));
    int64_t numRegisters = adaptor.getSource().size();
    SmallVector<Value> keep =
        emitByRanges(rewriter, op, &op.getKeep(), positions, numRegisters);
    if (keep.empty())
      keep = emitByPredicate(rewriter, op, positions, early, numRegisters);
    SmallVector<Value> results;
    for (auto [score, isKept] : llvm::zip_equal(adaptor.getSource(), keep))
      results.push_back(arith::SelectOp::create(
          rewriter, loc,
          isOfConsumer(op) ? emitPredicate(rewriter, isKept) : isKept, score,
          masked));
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }

private:
  /// Whether the scores are products in flight of a consumer of attention.
  /// Other kernels have no registers left to reorder masks: those of one role,
  /// and those of gradients, whose scores are transposed.
  static bool isOfConsumer(MaskOp op) {
    return op->getParentOfType<RoleOp>() && !op.getTransposed();
  }

  /// Where what does not depend on the scores is emitted: before the wait for
  /// them, if all that the mask uses is known there.
  static Operation *getEarlyPlace(MaskOp op, ValueRange scores) {
    if (!isOfConsumer(op))
      return op;
    Operation *place = scores.front().getDefiningOp();
    if (auto extract = dyn_cast_or_null<LLVM::ExtractValueOp>(place))
      place = extract.getContainer().getDefiningOp();
    if (!isa_and_nonnull<LLVM::InlineAsmOp>(place) ||
        place->getBlock() != op->getBlock())
      return op;
    auto isKnown = [&](Value value) {
      Operation *def = value.getDefiningOp();
      return !def || def->getBlock() != place->getBlock() ||
             def->isBeforeInBlock(place);
    };
    bool allKnown = llvm::all_of(op->getOperands().drop_front(), isKnown);
    visitUsedValuesDefinedAbove(
        op.getKeep(), [&](OpOperand *use) { allKnown &= isKnown(use->get()); });
    return allKnown ? place : op;
  }

  /// What length, attribute and `region`, if not null, keep, by comparing
  /// positions with ranges; empty if that is not possible.
  static SmallVector<Value> emitByRanges(OpBuilder &builder, MaskOp op,
                                         Region *region,
                                         TilePositions &positions,
                                         int64_t numRegisters) {
    int64_t queries = positions.getNumQueries(), keys = positions.getNumKeys();
    // Ranges are emitted for each of the few positions of the shorter axis.
    bool isQuery = queries <= keys;
    SmallVector<Value> keep(numRegisters);
    for (int64_t a = 0, e = std::min(queries, keys); a < e; ++a) {
      std::optional<SmallVector<IndexRange>> ranges = emitRelativeRanges(
          builder, op, region, isQuery ? MaskDim::Query : MaskDim::Key, a,
          positions);
      if (!ranges)
        return {};
      for (int64_t b = 0, e = std::max(queries, keys); b < e; ++b) {
        int64_t q = isQuery ? a : b, k = isQuery ? b : a;
        int64_t offset =
            isQuery ? positions.getKeyOffset(k) : positions.getQueryOffset(q);
        keep[positions.getRegister(q, k)] =
            emitWithin(builder, op.getLoc(), *ranges, offset);
      }
    }
    return keep;
  }

  /// What is kept, by evaluating the region for each pair, and length and
  /// attribute by ranges if possible.
  SmallVector<Value> emitByPredicate(OpBuilder &builder, MaskOp op,
                                     TilePositions &positions, Operation *early,
                                     int64_t numRegisters) const {
    SmallVector<Value> kept, keep;
    if (!op.getKeep().empty()) {
      auto type = cast<VectorType>(op.getSource().getType());
      Block &body = op.getKeep().front();
      RegionEmitter emitter(builder, body, context.getRows(type),
                            context.getColumns(type));
      positions.setArguments(emitter, body.getArguments(), op);
      {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPoint(early);
        emitter.emitShared(/*maxLoads=*/2);
      }
      kept = emitter.emitElements();
      keep = emitByRanges(builder, op, /*region=*/nullptr, positions,
                          numRegisters);
    }
    if (keep.empty()) {
      keep.resize(numRegisters);
      for (int64_t q = 0, e = positions.getNumQueries(); q < e; ++q)
        for (int64_t k = 0, e = positions.getNumKeys(); k < e; ++k)
          keep[positions.getRegister(q, k)] =
              emitKeep(builder, op, positions.getQuery(q), positions.getKey(k));
    }
    for (auto [isKept, byRegion] : llvm::zip(keep, kept))
      isKept = arith::AndIOp::create(builder, op.getLoc(), isKept, byRegion);
    return keep;
  }

  /// Ranges that positions are compared with; of more the predicate is
  /// evaluated.
  static constexpr unsigned maxRanges = 2;

  /// What register `number` of dimension `dim` attends in the other one, if
  /// that is a few ranges, counted from the thread's first position there, so
  /// that its positions are compared as constants.
  static std::optional<SmallVector<IndexRange>>
  emitRelativeRanges(OpBuilder &builder, MaskOp op, Region *region, MaskDim dim,
                     int64_t number, TilePositions &positions) {
    Location loc = op.getLoc();
    ScoreMask mask = {op.getMaskAttr(),    region,
                      op.getBatch(),       op.getHead(),
                      op.getQueryLength(), op.getKeyLength()};
    bool isQuery = dim == MaskDim::Query;
    Value position =
        isQuery ? positions.getQuery(number) : positions.getKey(number);
    std::optional<SmallVector<IndexRange>> ranges =
        emitAttendedRanges(builder, loc, mask, dim, position, maxRanges);
    if (!ranges)
      return ranges;
    Value first = isQuery ? positions.getKey(0) : positions.getQuery(0);
    Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
    for (auto &[begin, end] : *ranges) {
      // Keys that do not exist are attended by nobody.
      if (!isQuery) {
        Value exists =
            arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                  position, op.getKeyLength());
        end = arith::SelectOp::create(builder, loc, exists, end, zero);
      }
      end = arith::SubIOp::create(builder, loc, end, first);
      if (begin)
        begin = arith::SubIOp::create(builder, loc, begin, first);
    }
    return ranges;
  }

  static Value emitWithin(OpBuilder &builder, Location loc,
                          ArrayRef<IndexRange> ranges, int64_t offset) {
    Value constant = arith::ConstantIndexOp::create(builder, loc, offset);
    Value keep;
    for (auto [begin, end] : ranges) {
      Value inside = arith::CmpIOp::create(
          builder, loc, arith::CmpIPredicate::sgt, end, constant);
      if (begin) {
        Value after = arith::CmpIOp::create(
            builder, loc, arith::CmpIPredicate::sle, begin, constant);
        inside = arith::AndIOp::create(builder, loc, inside, after);
      }
      keep = keep ? arith::OrIOp::create(builder, loc, keep, inside).getResult()
                  : inside;
    }
    if (!keep)
      keep = arith::ConstantIntOp::create(builder, loc, 0, 1);
    return keep;
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
