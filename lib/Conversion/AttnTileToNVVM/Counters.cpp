//===- Counters.cpp - Groups that wait for others -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers counters in global memory, and what idle warps do with packed tiles
// when they have waited for them.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

static constexpr int64_t warpSize = 32;

/// What a group counts: each of its warps adds its share, so that none waits
/// for the others. A group has one warp, or one to six warpgroups.
static constexpr int64_t countUnit = 240;

static Value emitLane(OpBuilder &builder, Location loc, Value thread) {
  return arith::AndIOp::create(builder, loc, thread,
                               createI32(builder, loc, warpSize - 1));
}

/// The address of the counter that `op` is about.
template <typename OpTy, typename Adaptor>
static Value emitCounter(OpBuilder &builder, OpTy op, Adaptor adaptor) {
  return LoweredMemRef(op.getCounters().getType(), adaptor.getCounters())
      .emitAddress(builder, op.getLoc(), getSingleValues(adaptor.getIndices()));
}

namespace {
struct CountLowering : public KernelPattern<CountOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(CountOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!context.target.hasCounters())
      return op.emitOpError("cannot be on ") << context.target.getName();
    Location loc = op.getLoc();
    ThreadPosition position = context.getPosition(rewriter, op);
    int64_t warps = position.numThreads / warpSize;
    if (countUnit % warps != 0)
      return op.emitOpError("cannot be shared by ") << warps << " warps";
    bool isBeside = bool(op->getParentOfType<BesideOp>());
    if (op.getPipe()) {
      if (!isBeside || context.getIdleWarps(op).count != 1)
        return op.emitOpError("after additions must be run by one idle warp, "
                              "as attn-tile-split-roles makes it");
      context.target.emitCountCompleted(
          rewriter, loc, emitCounter(rewriter, op, adaptor),
          emitLane(rewriter, loc, position.thread), countUnit,
          adaptor.getPipe()[1], adaptor.getPosition().front(),
          context.stageThreads.consumers / warpSize);
      rewriter.eraseOp(op);
      return success();
    }
    context.target.emitCount(
        rewriter, loc, emitCounter(rewriter, op, adaptor),
        emitLane(rewriter, loc, position.thread), countUnit / warps,
        /*hasAdded=*/context.copiesFromStages && !isBeside);
    rewriter.eraseOp(op);
    return success();
  }
};

struct CompleteLowering : public KernelPattern<CompleteOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(CompleteOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!context.target.hasCounters())
      return op.emitOpError("cannot be on ") << context.target.getName();
    if (!context.counted.contains(op.getPipe().getDefiningOp()))
      return op.emitOpError("needs an 'attn_tile.count' after the additions "
                            "through its pipe");
    Location loc = op.getLoc();
    ThreadPosition position = context.getPosition(rewriter, op);
    context.target.emitComplete(rewriter, loc, adaptor.getPipe()[1],
                                position.warp,
                                emitLane(rewriter, loc, position.thread));
    rewriter.eraseOp(op);
    return success();
  }
};

struct AwaitCountLowering : public KernelPattern<AwaitCountOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(AwaitCountOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!context.target.hasCounters())
      return op.emitOpError("cannot be on ") << context.target.getName();
    Location loc = op.getLoc();
    Value number =
        arith::MulIOp::create(rewriter, loc, adaptor.getNumber().front(),
                              createI32(rewriter, loc, countUnit));
    auto role = op->getParentOfType<RoleOp>();
    bool isSingle = role && role.getKind() == RoleKind::Producer &&
                    context.target.isProducerSingleThread();
    Value lane;
    if (!isSingle)
      lane = emitLane(rewriter, loc, context.getPosition(rewriter, op).thread);
    context.target.emitAwaitCount(
        rewriter, loc, emitCounter(rewriter, op, adaptor), number, lane);
    rewriter.eraseOp(op);
    return success();
  }
};

/// A warp goes through what the warps of a group have added, one after the
/// other. Of two times four registers of each thread, quads make 16 bytes of a
/// row for each of their threads.
struct RoundPackedLowering : public KernelPattern<RoundPackedOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(RoundPackedOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    if (!context.target.hasCounters())
      return op.emitOpError("cannot be on ") << context.target.getName();
    if (!op->getParentOfType<BesideOp>())
      return op.emitOpError("must be run by groups of one warp on a GPU");
    VectorType tile = op.getTileType();
    auto destType = cast<MemRefType>(op.getDest().getType());
    int64_t rows = context.getRows(tile), columns = context.getColumns(tile);
    int64_t warps = context.layout.getNumThreads() / warpSize;
    int64_t parts = op.getParts(), channels = destType.getShape().back();
    bool transposed = op.getTransposed();
    if (!context.layout.supports(tile.getShape()) || warps % parts != 0)
      return op.emitOpError("cannot divide ")
             << tile << " by " << parts << " as " << context.layout << " does";
    if (columns % (transposed ? 4 : 8) != 0 ||
        ShapedType::isDynamic(channels) || channels % 8 != 0)
      return op.emitOpError("cannot store 16 bytes at once of ")
             << tile << " to " << destType;

    LoweredMemRef source(cast<MemRefType>(op.getSource().getType()),
                         adaptor.getSource());
    LoweredMemRef dest(destType, adaptor.getDest());
    SmallVector<Value> first = getSingleValues(adaptor.getDestIndices());
    Value base = source.emitAddress(rewriter, loc,
                                    getSingleValues(adaptor.getIndices()));
    Value lane =
        emitLane(rewriter, loc, context.getPosition(rewriter, op).thread);
    auto constant = [&](int64_t value) {
      return createI32(rewriter, loc, value);
    };
    auto add = [&](Value lhs, Value rhs) -> Value {
      return arith::AddIOp::create(rewriter, loc, lhs, rhs);
    };
    auto multiply = [&](Value lhs, Value rhs) -> Value {
      return arith::MulIOp::create(rewriter, loc, lhs, rhs);
    };
    Value begin = multiply(adaptor.getPart().front(), constant(warps / parts));
    Value thread = add(multiply(begin, constant(warpSize)), lane);
    // Of registers, a warp has those of its lanes one after the other, by four.
    int64_t ofWarp = rows * columns * warpSize;
    Value offset =
        add(multiply(begin, constant(ofWarp)), multiply(lane, constant(4)));
    Type sum = source.type.getElementType();
    auto emitOffset = [&](OpBuilder &builder, Type type, Value pointer,
                          Value elements) -> Value {
      return LLVM::GEPOp::create(builder, loc, pointer.getType(), type, pointer,
                                 elements);
    };

    // Where the thread's 16 bytes of the first group go.
    Value baseRow = context.layout.emitBaseRow(rewriter, loc, thread);
    auto bits = [&](Value value, int64_t shift, int64_t mask) -> Value {
      value = arith::ShRUIOp::create(rewriter, loc, value, constant(shift));
      return arith::AndIOp::create(rewriter, loc, value, constant(mask));
    };
    constexpr int64_t blockRows = 8;
    Value row = baseRow,
          column = multiply(bits(lane, 0, 3), constant(blockRows));
    if (transposed) {
      Value inBlock = bits(lane, 2, blockRows - 1);
      row = add(inBlock, multiply(bits(lane, 1, 1), constant(blockRows)));
      column = add(arith::SubIOp::create(rewriter, loc, baseRow, inBlock),
                   multiply(bits(lane, 0, 1), constant(blockRows)));
    }
    unsigned rank = destType.getRank();
    first[rank - 2] = add(first[rank - 2], row);
    first[rank - 1] = add(first[rank - 1], column);
    Value stride = dest.getStride(rewriter, loc, rank - 2);
    Value numRows =
        arith::TruncIOp::create(rewriter, loc, rewriter.getI32Type(),
                                dest.getSize(rewriter, loc, rank - 2));
    Type element = destType.getElementType();

    // All of the part is on its way before the first of it is waited for; each
    // thread reads what it has copied itself.
    int64_t loads = warps / parts * rows * columns / 4;
    constexpr int64_t loadBytes = 16, bytesOfLoads = warpSize * loadBytes;
    IdleWarps idle = context.getIdleWarps(op);
    Value idleWarp =
        emitAdd(rewriter, loc, context.warp, -idle.first - idle.count);
    Value stage =
        add(add(emitAdd(rewriter, loc, context.shared, context.sharedBytes),
                multiply(idleWarp, constant(loads * bytesOfLoads))),
            multiply(lane, constant(loadBytes)));
    Value source0 = emitOffset(rewriter, sum, base, offset);
    context.target.emitStartTake(rewriter, loc, stage, source0, loads,
                                 bytesOfLoads);
    context.target.emitAwaitTakes(rewriter, loc);

    // Pointers go on from warp to warp, instead of being computed for each.
    SmallVector<Value> inits = {source0, stage,
                                dest.emitAddress(rewriter, loc, first),
                                first[transposed ? rank - 1 : rank - 2]};
    auto zero = arith::ConstantIndexOp::create(rewriter, loc, 0);
    auto loop = scf::ForOp::create(
        rewriter, loc, zero,
        arith::ConstantIndexOp::create(rewriter, loc, warps / parts),
        arith::ConstantIndexOp::create(rewriter, loc, 1), inits);
    rewriter.setInsertionPointToStart(loop.getBody());
    Value registers = loop.getRegionIterArg(0),
          copied = loop.getRegionIterArg(1), place = loop.getRegionIterArg(2);
    first[transposed ? rank - 1 : rank - 2] = loop.getRegionIterArg(3);

    Value factor = arith::ConstantOp::create(
        rewriter, loc,
        rewriter.getF32FloatAttr(op.getFactor().convertToDouble()));
    auto take = [&](int64_t group) {
      Value address = LLVM::GEPOp::create(
          rewriter, loc, registers.getType(), sum, registers,
          ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(group * 4 * warpSize)});
      return context.target.emitTake(
          rewriter, loc, emitAdd(rewriter, loc, copied, group * bytesOfLoads),
          address);
    };
    auto round = [&](ArrayRef<Value> values, int64_t i) {
      auto scale = [&](Value value) -> Value {
        return arith::MulFOp::create(rewriter, loc, value, factor);
      };
      return roundPair(rewriter, loc, element, scale(values[i]),
                       scale(values[i + 1]));
    };
    auto store = [&](int64_t rowOffset, int64_t columnOffset,
                     ArrayRef<Value> words) {
      Value inside =
          emitLess(rewriter, loc,
                   emitAdd(rewriter, loc, first[rank - 2], rowOffset), numRows);
      if (channels < tile.getDimSize(transposed ? 0 : 1))
        inside = arith::AndIOp::create(
            rewriter, loc, inside,
            emitLess(rewriter, loc,
                     emitAdd(rewriter, loc, first[rank - 1], columnOffset),
                     createI32(rewriter, loc, channels)));
      emitIf(rewriter, loc, inside, [&](OpBuilder &builder) {
        Value elements = arith::MulIOp::create(
            builder, loc, stride,
            arith::ConstantIntOp::create(builder, loc, rowOffset, 64));
        elements = arith::AddIOp::create(
            builder, loc, elements,
            arith::ConstantIntOp::create(builder, loc, columnOffset, 64));
        Value address = emitOffset(builder, element, place, elements);
        LLVM::StoreOp::create(builder, loc, joinWords(builder, loc, words),
                              address, /*alignment=*/16);
      });
    };
    for (int64_t r = 0; r < rows; r += transposed ? 2 : 1)
      for (int64_t c = 0; c < columns; c += transposed ? 4 : 8) {
        int64_t from = (r * columns + c) / 4;
        SmallVector<Value> low = take(from);
        SmallVector<Value> high = take(from + (transposed ? columns / 4 : 1));
        Value words[] = {round(low, 0), round(low, 2), round(high, 0),
                         round(high, 2)};
        if (transposed) {
          std::swap(words[1], words[2]);
          for (Value &word : words)
            word = context.target.emitTransposeBlock(rewriter, loc, word);
        }
        emitQuadTranspose(rewriter, loc, thread, words);
        int64_t row = context.layout.getRowOffset(r);
        int64_t column = context.layout.getColumnOffset(c);
        if (transposed)
          std::swap(row, column);
        store(row, column, words);
      }
    // The rows of the next warp follow.
    int64_t rowsOfWarp = 2 * blockRows;
    Value next = arith::ConstantIntOp::create(rewriter, loc, rowsOfWarp, 64);
    if (!transposed)
      next = multiply(stride, next);
    scf::YieldOp::create(
        rewriter, loc,
        ValueRange{
            emitOffset(rewriter, sum, registers, constant(ofWarp)),
            emitAdd(rewriter, loc, copied, ofWarp * loadBytes / 4),
            emitOffset(rewriter, element, place, next),
            emitAdd(rewriter, loc, loop.getRegionIterArg(3), rowsOfWarp)});
    rewriter.setInsertionPoint(op);
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

void attn::populateCounterPatterns(RewritePatternSet &patterns,
                                   const TypeConverter &converter,
                                   const KernelContext &context) {
  patterns.add<AwaitCountLowering, CompleteLowering, CountLowering,
               RoundPackedLowering>(converter, patterns.getContext(), context);
}
