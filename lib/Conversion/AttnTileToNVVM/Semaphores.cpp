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

/// The amount that a CTA adds to a semaphore. Each warp adds an equal fraction,
/// so that none waits for the others. A CTA has one warp or one to six
/// warpgroups.
static constexpr int64_t semaphoreUnit = 240;

static Value emitLane(OpBuilder &builder, Location loc, Value thread) {
  return arith::AndIOp::create(
      builder, loc, thread,
      createI32(builder, loc, attn_tile::warpThreads - 1));
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
    int64_t warps = position.numThreads / attn_tile::warpThreads;
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
          context.stageThreads.consumers / attn_tile::warpThreads);
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

/// Emits the conversion of a part of a dQ tile. One warp converts the additions
/// of the part's warps one after another. From eight registers of each thread,
/// a quad assembles 16 bytes of a row for each of its threads.
class DqConversion {
public:
  using Adaptor = OpConversionPattern<ConvertDqOp>::OneToNOpAdaptor;

  DqConversion(ConvertDqOp op, Adaptor adaptor, const KernelContext &context,
               const SemaphoreTarget &semaphores, OpBuilder &builder)
      : op(op), adaptor(adaptor), context(context), semaphores(semaphores),
        builder(builder), loc(op.getLoc()), tile(op.getTileType()),
        source(cast<MemRefType>(op.getSource().getType()), adaptor.getSource()),
        dest(cast<MemRefType>(op.getDest().getType()), adaptor.getDest()),
        rows(context.getRows(tile)), columns(context.getColumns(tile)),
        warps(context.layout.getNumThreads() / attn_tile::warpThreads),
        headDim(dest.type.getShape().back()), transposed(op.getTransposed()),
        element(dest.type.getElementType()),
        indices(getSingleValues(adaptor.getDestIndices())) {}

  /// Checks that the layout allows stores of 16 bytes.
  LogicalResult verify();

  /// Emits the copies to shared memory, and the loop over the part's warps.
  void emit();

private:
  /// What a thread reads and writes in one iteration of the loop.
  struct Position {
    /// The registers in fragment order, and their copy in shared memory.
    Value registers, copy;
    /// The destination of the thread's first 16 bytes.
    Value place;
  };

  static constexpr int64_t blockRows = 8, rowsOfWarp = 2 * blockRows;
  static constexpr int64_t loadBytes = 16,
                           bytesOfLoads = attn_tile::warpThreads * loadBytes;

  /// Registers of a warp, over all of its lanes.
  int64_t getRegistersOfWarp() const {
    return rows * columns * attn_tile::warpThreads;
  }

  /// The index of the destination that changes from warp to warp.
  Value &getMovingIndex() { return indices.rbegin()[transposed ? 0 : 1]; }

  void emitIndices();
  Value emitStage();
  void emitWarp(const Position &position);
  SmallVector<Value> readAndClear(const Position &position, int64_t group);
  Value round(ArrayRef<Value> values, int64_t i);
  void emitBlock(const Position &position, int64_t r, int64_t c);
  void store(Value place, int64_t row, int64_t column, ArrayRef<Value> words);
  void emitYield(const Position &position);

  Value constant(int64_t value) { return createI32(builder, loc, value); }
  Value add(Value lhs, Value rhs) {
    return arith::AddIOp::create(builder, loc, lhs, rhs);
  }
  Value multiply(Value lhs, Value rhs) {
    return arith::MulIOp::create(builder, loc, lhs, rhs);
  }
  Value extractBits(Value value, int64_t shift, int64_t mask) {
    value = arith::ShRUIOp::create(builder, loc, value, constant(shift));
    return arith::AndIOp::create(builder, loc, value, constant(mask));
  }
  Value emitOffset(Type type, Value pointer, Value elements) {
    return LLVM::GEPOp::create(builder, loc, pointer.getType(), type, pointer,
                               elements);
  }

  ConvertDqOp op;
  Adaptor adaptor;
  const KernelContext &context;
  const SemaphoreTarget &semaphores;
  OpBuilder &builder;
  Location loc;
  VectorType tile;
  LoweredMemRef source, dest;
  /// Registers of a thread along the dimensions of the tile.
  int64_t rows, columns;
  /// Warps that have added to the tile.
  int64_t warps;
  int64_t headDim;
  bool transposed;
  Type element;
  /// Of the thread's first 16 bytes in the destination.
  SmallVector<Value> indices;
  /// The lane, and the index of the thread whose additions it reads first.
  Value lane, thread;
  /// Stride and number of the destination's rows.
  Value stride, numRows;
  Value factor;
};
} // namespace

LogicalResult DqConversion::verify() {
  int64_t parts = op.getParts();
  if (!context.layout.supports(tile.getShape()) || warps % parts != 0)
    return op.emitOpError("cannot divide ")
           << tile << " by " << parts << " as " << context.layout << " does";
  if (columns % (transposed ? 4 : 8) != 0 || ShapedType::isDynamic(headDim) ||
      headDim % 8 != 0)
    return op.emitOpError("cannot store 16 bytes at once of ")
           << tile << " to " << dest.type;
  return success();
}

void DqConversion::emit() {
  Value base =
      source.emitAddress(builder, loc, getSingleValues(adaptor.getIndices()));
  lane = emitLane(builder, loc, context.getPosition(builder, op).thread);
  int64_t warpsOfPart = warps / op.getParts();
  Value begin = multiply(adaptor.getPart().front(), constant(warpsOfPart));
  thread = add(multiply(begin, constant(attn_tile::warpThreads)), lane);
  // In fragment order, groups of four registers are stored lane after lane.
  Value offset = add(multiply(begin, constant(getRegistersOfWarp())),
                     multiply(lane, constant(4)));
  emitIndices();

  // The whole part is in flight before the first wait. Each thread reads only
  // bytes that it has copied itself.
  Value stage = emitStage();
  Value registers = emitOffset(source.type.getElementType(), base, offset);
  semaphores.emitStartDqCopy(builder, loc, stage, registers,
                             warpsOfPart * rows * columns / 4, bytesOfLoads);
  semaphores.emitAwaitDqCopies(builder, loc);

  // Pointers advance from warp to warp instead of being recomputed.
  SmallVector<Value> inits = {registers, stage,
                              dest.emitAddress(builder, loc, indices),
                              getMovingIndex()};
  auto zero = arith::ConstantIndexOp::create(builder, loc, 0);
  auto loop = scf::ForOp::create(
      builder, loc, zero,
      arith::ConstantIndexOp::create(builder, loc, warpsOfPart),
      arith::ConstantIndexOp::create(builder, loc, 1), inits);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  getMovingIndex() = loop.getRegionIterArg(3);
  emitWarp({loop.getRegionIterArg(0), loop.getRegionIterArg(1),
            loop.getRegionIterArg(2)});
}

/// Emits the indices of the thread's first 16 bytes in the destination.
void DqConversion::emitIndices() {
  Value baseRow = context.layout.emitBaseRow(builder, loc, thread);
  Value row = baseRow, column;
  if (transposed) {
    Value inBlock = extractBits(lane, 2, blockRows - 1);
    row = add(inBlock, multiply(extractBits(lane, 1, 1), constant(blockRows)));
    column = add(arith::SubIOp::create(builder, loc, baseRow, inBlock),
                 multiply(extractBits(lane, 0, 1), constant(blockRows)));
  } else {
    column = multiply(extractBits(lane, 0, 3), constant(blockRows));
  }
  unsigned rank = dest.type.getRank();
  indices[rank - 2] = add(indices[rank - 2], row);
  indices[rank - 1] = add(indices[rank - 1], column);
  stride = dest.getStride(builder, loc, rank - 2);
  numRows = arith::TruncIOp::create(builder, loc, builder.getI32Type(),
                                    dest.getSize(builder, loc, rank - 2));
}

/// Emits the address of the lane's first copy. Idle warps own the end of shared
/// memory.
Value DqConversion::emitStage() {
  int64_t loads = warps / op.getParts() * rows * columns / 4;
  IdleWarps idle = context.getIdleWarps(op);
  Value idleWarp =
      emitAdd(builder, loc, context.warp, -idle.first - idle.count);
  return add(add(emitAdd(builder, loc, context.shared, context.sharedBytes),
                 multiply(idleWarp, constant(loads * bytesOfLoads))),
             multiply(lane, constant(loadBytes)));
}

/// Emits the body of the loop, which converts the additions of one warp.
void DqConversion::emitWarp(const Position &position) {
  factor = arith::ConstantOp::create(
      builder, loc, builder.getF32FloatAttr(op.getFactor().convertToDouble()));
  for (int64_t r = 0; r < rows; r += transposed ? 2 : 1)
    for (int64_t c = 0; c < columns; c += transposed ? 4 : 8)
      emitBlock(position, r, c);
  emitYield(position);
}

/// Reads four registers, and clears them for the next kernel.
SmallVector<Value> DqConversion::readAndClear(const Position &position,
                                              int64_t group) {
  Value address =
      LLVM::GEPOp::create(builder, loc, position.registers.getType(),
                          source.type.getElementType(), position.registers,
                          ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(
                              group * 4 * attn_tile::warpThreads)});
  return semaphores.emitReadAndClearDq(
      builder, loc, emitAdd(builder, loc, position.copy, group * bytesOfLoads),
      address);
}

/// Scales and rounds values `i` and `i + 1`.
Value DqConversion::round(ArrayRef<Value> values, int64_t i) {
  auto scale = [&](Value value) -> Value {
    return arith::MulFOp::create(builder, loc, value, factor);
  };
  return roundPair(builder, loc, element, scale(values[i]),
                   scale(values[i + 1]));
}

/// Converts eight registers of each thread, which begin with row `r` and column
/// `c`.
void DqConversion::emitBlock(const Position &position, int64_t r, int64_t c) {
  int64_t group = (r * columns + c) / 4;
  SmallVector<Value> low = readAndClear(position, group);
  SmallVector<Value> high =
      readAndClear(position, group + (transposed ? columns / 4 : 1));
  Value words[] = {round(low, 0), round(low, 2), round(high, 0),
                   round(high, 2)};
  if (transposed) {
    std::swap(words[1], words[2]);
    for (Value &word : words)
      word = context.target.emitTransposeBlock(builder, loc, word);
  }
  emitQuadTranspose(builder, loc, thread, words);
  int64_t row = context.layout.getRowOffset(r);
  int64_t column = context.layout.getColumnOffset(c);
  if (transposed)
    std::swap(row, column);
  store(position.place, row, column, words);
}

/// Stores 16 bytes at an offset from `place`, if they are in bounds.
void DqConversion::store(Value place, int64_t row, int64_t column,
                         ArrayRef<Value> words) {
  Value inside = emitLess(
      builder, loc, emitAdd(builder, loc, indices.rbegin()[1], row), numRows);
  if (headDim < tile.getDimSize(transposed ? 0 : 1))
    inside = arith::AndIOp::create(
        builder, loc, inside,
        emitLess(builder, loc, emitAdd(builder, loc, indices.back(), column),
                 constant(headDim)));
  emitIf(builder, loc, inside, [&](OpBuilder &) {
    Value elements = arith::MulIOp::create(
        builder, loc, stride,
        arith::ConstantIntOp::create(builder, loc, row, 64));
    elements = arith::AddIOp::create(
        builder, loc, elements,
        arith::ConstantIntOp::create(builder, loc, column, 64));
    Value address = emitOffset(element, place, elements);
    LLVM::StoreOp::create(builder, loc, joinWords(builder, loc, words), address,
                          /*alignment=*/16);
  });
}

/// The next iteration converts the rows of the next warp.
void DqConversion::emitYield(const Position &position) {
  Value next = arith::ConstantIntOp::create(builder, loc, rowsOfWarp, 64);
  if (!transposed)
    next = multiply(stride, next);
  int64_t registers = getRegistersOfWarp();
  scf::YieldOp::create(
      builder, loc,
      ValueRange{
          emitOffset(source.type.getElementType(), position.registers,
                     constant(registers)),
          emitAdd(builder, loc, position.copy, registers * loadBytes / 4),
          emitOffset(element, position.place, next),
          emitAdd(builder, loc, getMovingIndex(), rowsOfWarp)});
}

namespace {
struct ConvertDqLowering : public KernelPattern<ConvertDqOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(ConvertDqOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    const SemaphoreTarget *semaphores = context.target.getSemaphores();
    if (!semaphores)
      return emitMissing(op, "semaphores", context.target);
    if (!op->getParentOfType<AuxiliaryWarpsOp>())
      return op.emitOpError(
          "must be inside of 'attn_tile.auxiliary_warps' on a GPU");
    DqConversion conversion(op, adaptor, context, *semaphores, rewriter);
    if (failed(conversion.verify()))
      return failure();
    conversion.emit();
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
