//===- Scores.cpp - Maps and masks by position ----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers operations that depend on the position of each score.
//
//===----------------------------------------------------------------------===//

#include "ElementLoop.h"
#include "KernelLowering.h"
#include "RegionEmitter.h"
#include "attn/Analysis/MaskTiles.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

#include <functional>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

namespace {
/// Positions of the elements of a tile, as `index` values, so that operations
/// on them are lowered like any other. Registers along one axis of the tile are
/// queries, registers along the other one keys.
struct TilePositions {
  template <typename OpTy>
  TilePositions(OpBuilder &builder, OpTy op, VectorType type,
                const KernelContext &context)
      : builder(builder), loc(op.getLoc()), transposed(op.getTransposed()) {
    rows = context.getRows(type);
    columns = context.getColumns(type);
    for (int64_t r = 0; r < rows; ++r)
      rowOffsets.push_back(context.layout.getRowOffset(r));
    for (int64_t c = 0; c < columns; ++c)
      columnOffsets.push_back(context.layout.getColumnOffset(c));
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

  /// A loop over the registers of the tile.
  ElementLoop getLoop() const {
    return ElementLoop(builder, loc, rowOffsets, columnOffsets);
  }
  /// The query and the key of an element in such a loop.
  std::pair<Value, Value> getPair(const ElementLoop::Element &element) {
    Value row = element.rowOffset, column = element.columnOffset;
    if (transposed)
      std::swap(row, column);
    return {emitBase(baseQuery, row), emitBase(baseKey, column)};
  }

private:
  int64_t getOffset(int64_t i, bool isRow) const {
    return isRow ? rowOffsets[i] : columnOffsets[i];
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
  bool transposed;
  int64_t rows, columns;
  SmallVector<int64_t> rowOffsets, columnOffsets;
  Value baseQuery;
  Value baseKey;
};
} // namespace

/// Operations that a function of libdevice counts as: each copy of one, such as
/// erf, takes the assembler about as long as so many instructions.
static constexpr int64_t kOperationsPerFunction = 64;

/// Whether `op` is a function of libdevice in a kernel. The others have
/// instructions.
static bool isLibdeviceFunction(Operation *op) {
  return isa<math::AcosOp, math::AcoshOp, math::AsinOp, math::AsinhOp,
             math::Atan2Op, math::AtanOp, math::AtanhOp, math::CbrtOp,
             math::CosOp, math::CoshOp, math::ErfOp, math::ErfcOp,
             math::ExpM1Op, math::Log10Op, math::Log1pOp, math::Log2Op,
             math::PowFOp, math::SinOp, math::SinhOp, math::TanOp>(op);
}

/// Operations in `region`, nested ones included.
static int64_t countOperations(Region &region) {
  int64_t count = 0;
  region.walk([&](Operation *op) {
    count += isLibdeviceFunction(op) ? kOperationsPerFunction : 1;
  });
  return count;
}

/// Emits the block `body` with `arguments`, and returns the yielded value.
static Value emitCopy(OpBuilder &builder, Block &body,
                      ArrayRef<Value> arguments) {
  IRMapping mapping;
  mapping.map(body.getArguments(), arguments);
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  return mapping.lookupOrDefault(body.getTerminator()->getOperand(0));
}

namespace {
struct MapLowering : public KernelPattern<MapOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(MapOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<VectorType>(op.getResult().getType());
    int64_t rows = context.getRows(type), columns = context.getColumns(type);
    TilePositions positions(rewriter, op, type, context);
    Block &body = op.getBody().front();
    ElementLoop loop = positions.getLoop();
    auto replace = [&](SmallVector<Value> elements) {
      if (context.isPacked(type))
        elements =
            packPairs(rewriter, op.getLoc(), type.getElementType(), elements);
      rewriter.replaceOpWithMultiple(op,
                                     SmallVector<SmallVector<Value>>{elements});
      return success();
    };
    if (loop.isWorthwhile(countOperations(op.getBody())))
      return replace(emitInLoop(rewriter, op, adaptor, positions, loop));
    RegionEmitter emitter(rewriter, body, rows, columns);
    ArrayRef<BlockArgument> arguments = body.getArguments();
    for (ValueRange source : adaptor.getSources()) {
      emitter.setElements(arguments.front(),
                          getElements(rewriter, op, type, source));
      arguments = arguments.drop_front();
    }
    positions.setArguments(emitter, arguments.take_front(4), op);
    for (auto [argument, tile, registers] :
         llvm::zip(arguments.drop_front(4), op.getOthers().getTypes(),
                   adaptor.getOthers())) {
      auto tileType = cast<VectorType>(tile);
      if (tileType.getRank() == 1)
        emitter.setRows(argument, registers);
      else
        emitter.setElements(argument,
                            getElements(rewriter, op, tileType, registers));
    }
    return replace(emitter.run());
  }

private:
  /// The elements of a tile, whose registers may have two of them each.
  SmallVector<Value> getElements(OpBuilder &builder, MapOp op, VectorType tile,
                                 ValueRange registers) const {
    if (!context.isPacked(tile))
      return registers;
    return unpackPairs(builder, op.getLoc(), tile.getElementType(), registers);
  }

  /// Runs a long region in a loop.
  SmallVector<Value> emitInLoop(OpBuilder &builder, MapOp op,
                                OneToNOpAdaptor adaptor,
                                TilePositions &positions,
                                ElementLoop &loop) const {
    // The memory of each tile, and whether it has an element for each row.
    SmallVector<std::pair<Value, bool>> sources, others;
    auto type = cast<VectorType>(op.getResult().getType());
    for (ValueRange source : adaptor.getSources())
      sources.emplace_back(loop.store(getElements(builder, op, type, source)),
                           false);
    for (auto [tile, registers] :
         llvm::zip(op.getOthers().getTypes(), adaptor.getOthers())) {
      auto tileType = cast<VectorType>(tile);
      others.emplace_back(
          loop.store(getElements(builder, op, tileType, registers)),
          tileType.getRank() == 1);
    }
    Block &body = op.getBody().front();
    return loop.emitValues(
        type.getElementType(), [&](const ElementLoop::Element &element) {
          SmallVector<Value> arguments;
          auto addElement = [&](std::pair<Value, bool> memory) {
            arguments.push_back(loop.load(
                body.getArgument(arguments.size()).getType(), memory.first,
                memory.second ? element.row : element.number));
          };
          llvm::for_each(sources, addElement);
          auto [query, key] = positions.getPair(element);
          arguments.append({op.getBatch(), op.getHead(), query, key});
          llvm::for_each(others, addElement);
          return emitCopy(builder, body, arguments);
        });
  }
};

/// Addresses of elements of a memref. Constant parts of indices are separate:
/// the pointer moves from element to element by multiples of strides, of which
/// there are few.
class ElementAddresses {
public:
  ElementAddresses(OpBuilder &builder, Location loc, LoweredMemRef memref)
      : builder(builder), loc(loc), memref(memref) {}

  /// The pointer to an element, and bytes to add to it.
  std::pair<Value, int64_t> get(ArrayRef<RegionEmitter::Term> indices) {
    SmallVector<Value> bases;
    SmallVector<int64_t> offsets;
    int64_t constant = 0;
    SmallVector<int64_t> strides;
    int64_t unused;
    if (failed(memref.type.getStridesAndOffset(strides, unused)))
      strides.assign(indices.size(), ShapedType::kDynamic);
    for (auto [dim, term] : llvm::enumerate(indices)) {
      bases.push_back(term.base);
      // An unknown last stride is 1.
      int64_t stride = strides[dim];
      if (dim + 1 == indices.size() && ShapedType::isDynamic(stride))
        stride = 1;
      bool isKnown = !ShapedType::isDynamic(stride);
      constant += isKnown ? stride * term.offset : 0;
      offsets.push_back(isKnown ? 0 : term.offset);
    }
    if (!pointer || bases != currentBases) {
      auto words = llvm::map_to_vector(bases, [&](Value index) -> Value {
        return arith::IndexCastOp::create(builder, loc, builder.getI32Type(),
                                          index);
      });
      pointer = memref.emitAddress(builder, loc, words);
      currentBases = bases;
      current.assign(offsets.size(), 0);
    }
    for (auto [dim, offset] : llvm::enumerate(offsets))
      if (int64_t distance = offset - current[dim])
        pointer = LLVM::GEPOp::create(
            builder, loc, pointer.getType(), memref.type.getElementType(),
            pointer, ArrayRef<LLVM::GEPArg>{getStep(dim, distance)});
    current = offsets;
    return {pointer, constant * bytes};
  }

private:
  static constexpr int64_t bytes = 4;

  Value getStep(int64_t dim, int64_t distance) {
    Value &step = steps[{dim, distance}];
    if (!step)
      step = arith::MulIOp::create(
          builder, loc, memref.getStride(builder, loc, dim),
          arith::ConstantIntOp::create(builder, loc, distance, 64).getResult());
    return step;
  }

  OpBuilder &builder;
  Location loc;
  LoweredMemRef memref;
  SmallVector<Value> currentBases;
  SmallVector<int64_t> current;
  Value pointer;
  DenseMap<std::pair<int64_t, int64_t>, Value> steps;
};

struct ScatterAddLowering : public KernelPattern<ScatterAddOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(ScatterAddOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    auto type = cast<VectorType>(op.getTile().getType());
    int64_t rows = context.getRows(type), columns = context.getColumns(type);
    TilePositions positions(rewriter, op, type, context);
    Block &body = op.getBody().front();
    RegionEmitter emitter(rewriter, body, rows, columns);
    positions.setArguments(emitter, body.getArguments(), op);
    emitter.emitShared(/*maxLoads=*/1);
    SmallVector<Value> values(adaptor.getTile());
    SmallVector<int64_t> shuffles;
    if (!emitter.yieldsByColumn()) {
      for (int64_t row = 0; row < rows; ++row)
        values[row * columns] = emitSum(rewriter, loc, values, row * columns,
                                        /*step=*/1, columns);
      llvm::append_range(shuffles, context.layout.getRowShuffles());
    }
    if (!emitter.yieldsByRow()) {
      for (int64_t c = 0, e = emitter.yieldsByColumn() ? columns : 1; c < e;
           ++c)
        values[c] = emitSum(rewriter, loc, values, c, /*step=*/columns, rows);
      llvm::append_range(shuffles, context.layout.getColumnShuffles());
    }
    LoweredMemRef dest(cast<MemRefType>(op.getDest().getType()),
                       adaptor.getDest());
    Value may = emitMayAdd(rewriter, op, adaptor, dest, shuffles, context);
    ElementAddresses addresses(rewriter, loc, dest);
    Value zero =
        arith::ConstantOp::create(rewriter, loc, rewriter.getF32FloatAttr(0));
    emitter.emitEach([&](int64_t row, int64_t column,
                         ArrayRef<RegionEmitter::Term> indices) {
      Value sum = values[row * columns + column];
      for (int64_t mask : shuffles)
        sum = arith::AddFOp::create(rewriter, loc, sum,
                                    emitShuffle(rewriter, loc, sum, mask));
      Value adds = arith::CmpFOp::create(rewriter, loc,
                                         arith::CmpFPredicate::UNE, sum, zero);
      if (may)
        adds = arith::AndIOp::create(rewriter, loc, adds, may);
      auto [pointer, offset] = addresses.get(indices);
      std::string code = "@$0 red.global.add.f32 [$1";
      if (offset != 0)
        code += " + " + std::to_string(offset);
      LLVM::InlineAsmOp::create(
          rewriter, loc, TypeRange(), ValueRange{adds, pointer, sum},
          code + "], $2;", "b,l,f,~{memory}",
          /*has_side_effects=*/true, /*is_align_stack=*/false,
          LLVM::tailcallkind::TailCallKind::None,
          LLVM::AsmDialectAttr::get(rewriter.getContext(),
                                    LLVM::AsmDialect::AD_ATT),
          /*operand_attrs=*/ArrayAttr());
    });
    rewriter.eraseOp(op);
    return success();
  }

private:
  /// Whether this thread may add; null if it always may. One of the threads
  /// that have parts of a sum adds it. Queries and keys are in bounds if their
  /// lengths are.
  static Value emitMayAdd(OpBuilder &builder, ScatterAddOp op,
                          OneToNOpAdaptor adaptor, const LoweredMemRef &dest,
                          ArrayRef<int64_t> shuffles,
                          const KernelContext &context) {
    Location loc = op.getLoc();
    Value may;
    auto require = [&](arith::CmpIPredicate predicate, Value lhs, Value rhs) {
      Value holds = arith::CmpIOp::create(builder, loc, predicate, lhs, rhs);
      may = may ? arith::AndIOp::create(builder, loc, may, holds).getResult()
                : holds;
    };
    if (int64_t mask = std::accumulate(shuffles.begin(), shuffles.end(),
                                       int64_t(0), std::bit_or<>())) {
      Value thread = context.getPosition(builder, op).thread;
      Value others = arith::AndIOp::create(builder, loc, thread,
                                           createI32(builder, loc, mask));
      require(arith::CmpIPredicate::eq, others, createI32(builder, loc, 0));
    }
    Block &body = op.getBody().front();
    for (auto [dim, index] :
         llvm::enumerate(body.getTerminator()->getOperands())) {
      ValueRange length;
      if (index == body.getArgument(2))
        length = adaptor.getQueryLength();
      else if (index == body.getArgument(3))
        length = adaptor.getKeyLength();
      if (length.empty())
        continue;
      Value size = arith::TruncIOp::create(builder, loc, builder.getI32Type(),
                                           dest.getSize(builder, loc, dim));
      require(arith::CmpIPredicate::sle, length.front(), size);
    }
    return may;
  }

  /// Adds up `count` values, in two chains.
  static Value emitSum(OpBuilder &builder, Location loc, ArrayRef<Value> values,
                       int64_t first, int64_t step, int64_t count) {
    SmallVector<Value, 2> chains;
    for (int64_t i = 0; i < count; ++i) {
      Value value = values[first + i * step];
      if (i < 2)
        chains.push_back(value);
      else
        chains[i % 2] =
            arith::AddFOp::create(builder, loc, chains[i % 2], value);
    }
    if (count == 1)
      return chains.front();
    return arith::AddFOp::create(builder, loc, chains[0], chains[1]);
  }
};
} // namespace

/// Makes a condition one predicate. LLVM would turn a select by a conjunction
/// into a select for each part, although the assembler can fold a conjunction
/// into the comparisons.
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
    TilePositions positions(rewriter, op, type, context);
    rewriter.setInsertionPoint(op);
    auto floatType = cast<FloatType>(type.getElementType());
    Value masked = arith::ConstantFloatOp::create(
        rewriter, loc, floatType,
        APFloat::getInf(floatType.getFloatSemantics(), /*Negative=*/true));
    int64_t numRegisters = adaptor.getSource().size();
    ElementLoop loop = positions.getLoop();
    SmallVector<Value> keep;
    if (loop.isWorthwhile(countOperations(op)))
      keep = emitInLoop(rewriter, op, positions, loop);
    else
      keep =
          emitByRanges(rewriter, op, &op.getMaskMod(), positions, numRegisters);
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
  /// Operations that attribute and region take for a pair.
  static int64_t countOperations(MaskOp op) {
    int64_t count = ::countOperations(op.getMaskMod());
    MaskAttrInterface mask = op.getMaskAttr();
    if (!mask)
      return count;
    Region region;
    Block &block = region.emplaceBlock();
    OpBuilder builder(op.getContext());
    builder.setInsertionPointToEnd(&block);
    SmallVector<Value> arguments;
    for (int i = 0; i < 6; ++i)
      arguments.push_back(
          block.addArgument(builder.getIndexType(), op.getLoc()));
    mask.emitPredicate(builder, op.getLoc(),
                       {arguments[0], arguments[1], arguments[2], arguments[3],
                        arguments[4], arguments[5]});
    return count + ::countOperations(region);
  }

  /// The kept pairs, by a loop over pairs.
  static SmallVector<Value> emitInLoop(OpBuilder &builder, MaskOp op,
                                       TilePositions &positions,
                                       ElementLoop &loop) {
    return loop.emitBits([&](const ElementLoop::Element &element) {
      auto [query, key] = positions.getPair(element);
      Value keep = emitMaskMod(builder, op, query, key);
      if (op.getMaskMod().empty())
        return keep;
      Value kept = emitCopy(builder, op.getMaskMod().front(),
                            {op.getBatch(), op.getHead(), query, key});
      return arith::AndIOp::create(builder, op.getLoc(), keep, kept)
          .getResult();
    });
  }

  /// Whether the scores are MMAs in flight in a consumer of attention. Other
  /// kernels have no registers left to reorder masks: kernels with one role,
  /// and gradient kernels, whose scores are transposed.
  static bool isOfConsumer(MaskOp op) {
    return op->getParentOfType<RoleOp>() && !op.getTransposed();
  }

  /// Where code that does not depend on the scores is emitted: before the wait
  /// for them, if all operands of the mask are defined there.
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
    visitUsedValuesDefinedAbove(op.getMaskMod(), [&](OpOperand *use) {
      allKnown &= isKnown(use->get());
    });
    return allKnown ? place : op;
  }

  /// The pairs that length, attribute and `region` (if not null) keep, by
  /// comparing positions with ranges; empty if that is not possible.
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

  /// The kept pairs, by evaluating the region for each pair; length and
  /// attribute by ranges if possible.
  SmallVector<Value> emitByPredicate(OpBuilder &builder, MaskOp op,
                                     TilePositions &positions, Operation *early,
                                     int64_t numRegisters) const {
    SmallVector<Value> kept, keep;
    if (!op.getMaskMod().empty()) {
      auto type = cast<VectorType>(op.getSource().getType());
      Block &body = op.getMaskMod().front();
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
          keep[positions.getRegister(q, k)] = emitMaskMod(
              builder, op, positions.getQuery(q), positions.getKey(k));
    }
    for (auto [isKept, byRegion] : llvm::zip(keep, kept))
      isKept = arith::AndIOp::create(builder, op.getLoc(), isKept, byRegion);
    return keep;
  }

  /// The most ranges that positions are compared with; with more, the predicate
  /// is evaluated.
  static constexpr unsigned maxRanges = 2;

  /// A position past all queries.
  static constexpr int64_t beyondAll = std::numeric_limits<int32_t>::max();

  /// The ranges of the other dimension that register `number` of dimension
  /// `dim` attends, or nothing if these are not a few ranges. They are relative
  /// to the thread's first position there, so that its positions compare as
  /// constants. A null `end` means that there is no bound.
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
    Value exists;
    if (!isQuery)
      exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                     position, op.getKeyLength());
    auto ifExists = [&](Value position, int64_t otherwise) {
      Value other = arith::ConstantIndexOp::create(builder, loc, otherwise);
      return arith::SelectOp::create(builder, loc, exists, position, other);
    };
    for (auto &[begin, end] : *ranges) {
      // No query attends keys past the length. Queries past the length may
      // attend anything, so the range of a key needs no end.
      if (!isQuery && begin && end == op.getQueryLength()) {
        begin = ifExists(begin, beyondAll);
        end = Value();
      } else if (!isQuery) {
        end = ifExists(end, 0);
      }
      if (end)
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
      Value inside, after;
      if (end)
        inside = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt,
                                       end, constant);
      if (begin)
        after = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle,
                                      begin, constant);
      if (inside && after)
        inside = arith::AndIOp::create(builder, loc, inside, after);
      else if (after)
        inside = after;
      keep = keep ? arith::OrIOp::create(builder, loc, keep, inside).getResult()
                  : inside;
    }
    if (!keep)
      keep = arith::ConstantIntOp::create(builder, loc, 0, 1);
    return keep;
  }

  /// Evaluates length and attribute for one pair.
  static Value emitMaskMod(OpBuilder &builder, MaskOp op, Value query,
                           Value key) {
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

void attn::expectFewMasks(KernelOp kernel) {
  kernel.walk([](MaskOp op) {
    auto guard = dyn_cast<scf::IfOp>(op->getParentOp());
    auto isMask = [&](Operation &other) {
      return &other == op || isPure(&other);
    };
    if (!guard || op->getBlock() != guard.thenBlock() ||
        !llvm::all_of(guard.thenBlock()->without_terminator(), isMask))
      return;
    OpBuilder builder(guard);
    Location loc = op.getLoc();
    Value no = arith::ConstantIntOp::create(builder, loc, 0, 1);
    guard.getConditionMutable().assign(
        LLVM::ExpectOp::create(builder, loc, guard.getCondition(), no)
            .getResult());
  });
}

void attn::populateScorePatterns(RewritePatternSet &patterns,
                                 const TypeConverter &converter,
                                 const KernelContext &context) {
  patterns.add<MapLowering, MaskLowering, ScatterAddLowering>(
      converter, patterns.getContext(), context);
}
