//===- Semaphores.cpp - Semaphores in global memory -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers semaphores in global memory, and the conversion of dQ by auxiliary
// warps that have waited for them.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

static constexpr int64_t warpSize = 32;

/// The amount that a CTA adds to a semaphore. Each warp adds an equal fraction,
/// so that none waits for the others. A CTA has one warp or one to six
/// warpgroups.
static constexpr int64_t semaphoreUnit = 240;

static Value emitLane(OpBuilder &builder, Location loc, Value thread) {
  return arith::AndIOp::create(builder, loc, thread,
                               createI32(builder, loc, warpSize - 1));
}

/// The address of the semaphore of `op`.
template <typename OpTy, typename Adaptor>
static Value emitSemaphoreAddress(OpBuilder &builder, OpTy op,
                                  Adaptor adaptor) {
  return LoweredMemRef(op.getSemaphores().getType(), adaptor.getSemaphores())
      .emitAddress(builder, op.getLoc(), getSingleValues(adaptor.getIndices()));
}

namespace {
struct SemaphoreAddLowering : public KernelPattern<SemaphoreAddOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(SemaphoreAddOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    const SemaphoreTarget *semaphores = context.target.getSemaphores();
    if (!semaphores)
      return emitMissing(op, "semaphores", context.target);
    Location loc = op.getLoc();
    ThreadPosition position = context.getPosition(rewriter, op);
    int64_t warps = position.numThreads / warpSize;
    if (semaphoreUnit % warps != 0)
      return op.emitOpError("cannot be shared by ") << warps << " warps";
    bool isAuxiliary = bool(op->getParentOfType<AuxiliaryWarpsOp>());
    if (op.getPipe()) {
      if (!isAuxiliary || context.getIdleWarps(op).count != 1)
        return op.emitOpError("after additions must be run by one idle warp, "
                              "as attn-tile-split-roles makes it");
      semaphores->emitSemaphoreAddReleased(
          rewriter, loc, emitSemaphoreAddress(rewriter, op, adaptor),
          emitLane(rewriter, loc, position.thread), semaphoreUnit,
          adaptor.getPipe()[1], adaptor.getPosition().front(),
          context.stageThreads.consumers / warpSize);
      rewriter.eraseOp(op);
      return success();
    }
    semaphores->emitSemaphoreAdd(
        rewriter, loc, emitSemaphoreAddress(rewriter, op, adaptor),
        emitLane(rewriter, loc, position.thread), semaphoreUnit / warps,
        /*hasAdded=*/context.copiesFromStages && !isAuxiliary);
    rewriter.eraseOp(op);
    return success();
  }
};

struct SemaphoreReleaseLowering : public KernelPattern<SemaphoreReleaseOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(SemaphoreReleaseOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    const SemaphoreTarget *semaphores = context.target.getSemaphores();
    if (!semaphores)
      return emitMissing(op, "semaphores", context.target);
    if (!context.counted.contains(op.getPipe().getDefiningOp()))
      return op.emitOpError(
          "needs an 'attn_tile.semaphore_add' after the additions "
          "through its pipe");
    Location loc = op.getLoc();
    ThreadPosition position = context.getPosition(rewriter, op);
    semaphores->emitSemaphoreRelease(rewriter, loc, adaptor.getPipe()[1],
                                     position.warp,
                                     emitLane(rewriter, loc, position.thread));
    rewriter.eraseOp(op);
    return success();
  }
};

struct SemaphoreWaitLowering : public KernelPattern<SemaphoreWaitOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(SemaphoreWaitOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    const SemaphoreTarget *semaphores = context.target.getSemaphores();
    if (!semaphores)
      return emitMissing(op, "semaphores", context.target);
    Location loc = op.getLoc();
    Value number =
        arith::MulIOp::create(rewriter, loc, adaptor.getNumber().front(),
                              createI32(rewriter, loc, semaphoreUnit));
    auto role = op->getParentOfType<RoleOp>();
    bool isSingle = role && role.getKind() == RoleKind::Producer &&
                    context.target.isProducerSingleThread();
    Value lane;
    if (!isSingle)
      lane = emitLane(rewriter, loc, context.getPosition(rewriter, op).thread);
    semaphores->emitSemaphoreWait(rewriter, loc,
                                  emitSemaphoreAddress(rewriter, op, adaptor),
                                  number, lane);
    rewriter.eraseOp(op);
    return success();
  }
};

/// A warp converts the additions of a CTA's warps one after another. From eight
/// registers of each thread, a quad assembles 16 bytes of a row for each of its
/// threads.
struct ConvertDqLowering : public KernelPattern<ConvertDqOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(ConvertDqOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    const SemaphoreTarget *semaphores = context.target.getSemaphores();
    if (!semaphores)
      return emitMissing(op, "semaphores", context.target);
    if (!op->getParentOfType<AuxiliaryWarpsOp>())
      return op.emitOpError(
          "must be inside of 'attn_tile.auxiliary_warps' on a GPU");
    VectorType tile = op.getTileType();
    auto destType = cast<MemRefType>(op.getDest().getType());
    int64_t rows = context.getRows(tile), columns = context.getColumns(tile);
    int64_t warps = context.layout.getNumThreads() / warpSize;
    int64_t parts = op.getParts(), headDim = destType.getShape().back();
    bool transposed = op.getTransposed();
    if (!context.layout.supports(tile.getShape()) || warps % parts != 0)
      return op.emitOpError("cannot divide ")
             << tile << " by " << parts << " as " << context.layout << " does";
    if (columns % (transposed ? 4 : 8) != 0 || ShapedType::isDynamic(headDim) ||
        headDim % 8 != 0)
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
    // In fragment order, groups of four registers are stored lane after lane.
    int64_t ofWarp = rows * columns * warpSize;
    Value offset =
        add(multiply(begin, constant(ofWarp)), multiply(lane, constant(4)));
    Type sum = source.type.getElementType();
    auto emitOffset = [&](OpBuilder &builder, Type type, Value pointer,
                          Value elements) -> Value {
      return LLVM::GEPOp::create(builder, loc, pointer.getType(), type, pointer,
                                 elements);
    };

    // The destination of the thread's 16 bytes of the first group.
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

    // The whole part is in flight before the first wait. Each thread reads only
    // bytes that it has copied itself.
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
    semaphores->emitStartDqCopy(rewriter, loc, stage, source0, loads,
                                bytesOfLoads);
    semaphores->emitAwaitDqCopies(rewriter, loc);

    // Pointers advance from warp to warp instead of being recomputed.
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
    auto readAndClear = [&](int64_t group) {
      Value address = LLVM::GEPOp::create(
          rewriter, loc, registers.getType(), sum, registers,
          ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(group * 4 * warpSize)});
      return semaphores->emitReadAndClearDq(
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
      if (headDim < tile.getDimSize(transposed ? 0 : 1))
        inside = arith::AndIOp::create(
            rewriter, loc, inside,
            emitLess(rewriter, loc,
                     emitAdd(rewriter, loc, first[rank - 1], columnOffset),
                     createI32(rewriter, loc, headDim)));
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
        SmallVector<Value> low = readAndClear(from);
        SmallVector<Value> high =
            readAndClear(from + (transposed ? columns / 4 : 1));
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
    // The next iteration converts the rows of the next warp.
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

void attn::populateSemaphorePatterns(RewritePatternSet &patterns,
                                     const TypeConverter &converter,
                                     const KernelContext &context) {
  patterns.add<SemaphoreWaitLowering, SemaphoreReleaseLowering,
               SemaphoreAddLowering, ConvertDqLowering>(
      converter, patterns.getContext(), context);
}
