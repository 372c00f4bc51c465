//===- Pipes.cpp - Pipes and MMAs -----------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers pipes, and the MMAs that read them, to instructions of the target.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

namespace {

struct CreatePipeLowering : public KernelPattern<CreatePipeOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(CreatePipeOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    bool isOrdered = context.addedInOrder.contains(op);
    bool isCounted = !isOrdered && context.counted.contains(op);
    const OrderedAccumulationTarget *ordered =
        context.target.getOrderedAccumulation();
    if (isOrdered && !ordered)
      return emitMissing(op, "ordered accumulation", context.target);
    const SemaphoreTarget *semaphores = context.target.getSemaphores();
    if (isCounted && !semaphores)
      return emitMissing(op, "semaphores", context.target);
    int64_t fillingWarps = context.fillingWarps.lookup(op);
    const TileConversionTarget *conversions = context.target.getConversions();
    if (fillingWarps && !conversions)
      return emitMissing(op, "conversions by idle warps", context.target);
    StageThreads threads = context.stageThreads;
    if (int64_t warps = context.convertingWarps.lookup(op))
      threads.consumers = warps * warpThreads;
    Location loc = op.getLoc();
    PipeType type = op.getPipe().getType();
    Value stage = emitAdd(rewriter, loc, context.shared, *op.getOffset());
    Value barriers = emitAdd(rewriter, loc, context.shared, *op.getBarriers());
    Value isFirst =
        arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq,
                              context.thread, createI32(rewriter, loc, 0));
    int64_t bytes = context.target.getBarrierBytes();
    emitIf(rewriter, loc, isFirst, [&](OpBuilder &builder) {
      if (isOrdered)
        return ordered->emitInitOrderedStages(
            builder, loc, barriers, context.stageThreads.consumers / 32);
      if (isCounted)
        return semaphores->emitInitCompleted(
            builder, loc, barriers, context.stageThreads.consumers / 32);
      for (int64_t i = 0; i < type.getStages(); ++i) {
        Value full = emitAdd(builder, loc, barriers, i * bytes);
        Value empty = emitAdd(builder, loc, barriers, i * bytes + bytes / 2);
        if (fillingWarps)
          conversions->emitInitConverted(builder, loc, {stage, full, empty},
                                         fillingWarps, threads.consumers);
        else
          context.target.emitInitBarriers(
              builder, loc, {stage, full, empty}, threads,
              context.readByThreads.contains(op), type.getCluster());
      }
    });
    rewriter.replaceOpWithMultiple(
        op, SmallVector<SmallVector<Value>>{{stage, barriers}});
    return success();
  }
};
} // namespace

/// Stage and parity of a position in a pipe.
static std::pair<Value, Value> emitStageAndParity(OpBuilder &builder,
                                                  Location loc, Value position,
                                                  int64_t stages) {
  Value stagesValue = createI32(builder, loc, stages);
  Value stage = createI32(builder, loc, 0);
  Value round = position;
  if (stages > 1) {
    round = arith::DivUIOp::create(builder, loc, position, stagesValue);
    stage = arith::RemUIOp::create(builder, loc, position, stagesValue);
  }
  Value parity =
      arith::AndIOp::create(builder, loc, round, createI32(builder, loc, 1));
  return {stage, parity};
}

/// Address of element `i` of an array.
static Value emitElement(OpBuilder &builder, Location loc, Value base, Value i,
                         int64_t stride) {
  Value offset =
      arith::MulIOp::create(builder, loc, i, createI32(builder, loc, stride));
  return arith::AddIOp::create(builder, loc, base, offset);
}

/// The stage of `position` of a pipe that the threads of a role fill.
static StagedTile emitSharedStage(OpBuilder &builder, Location loc,
                                  const TargetInfo &target, PipeType type,
                                  ValueRange pipe, Value position) {
  Value number =
      emitStageAndParity(builder, loc, position, type.getStages()).first;
  Value address = emitElement(builder, loc, pipe[0], number,
                              target.getStageBytes(type.getBufferType()));
  // Nothing waits for the barriers of a stage that is shared.
  return {address, pipe[1], pipe[1]};
}

/// The stage of `position` of a pipe and the parity of its use.
static std::pair<StagedTile, Value>
emitStageWithBarriers(OpBuilder &builder, Location loc,
                      const TargetInfo &target, PipeType type, ValueRange pipe,
                      Value position) {
  auto [stage, parity] =
      emitStageAndParity(builder, loc, position, type.getStages());
  Value address = emitElement(builder, loc, pipe[0], stage,
                              target.getStageBytes(type.getBufferType()));
  Value full =
      emitElement(builder, loc, pipe[1], stage, target.getBarrierBytes());
  Value empty = emitAdd(builder, loc, full, target.getBarrierBytes() / 2);
  return {{address, full, empty}, parity};
}

/// The rows of a tile that are in a sequence, of `extent` rows, in which the
/// tile's first row is `first`; null without a sequence.
static Value emitNumRows(OpBuilder &builder, Location loc, ValueRange first,
                         ValueRange extent) {
  if (extent.empty())
    return nullptr;
  return arith::SubIOp::create(builder, loc, extent.front(), first.front());
}

/// Replaces the buffer that `op` returns.
static void replaceByStage(ConversionPatternRewriter &rewriter, Operation *op,
                           const StagedTile &stage) {
  rewriter.replaceOpWithMultiple(op,
                                 SmallVector<SmallVector<Value>>{
                                     {stage.address, stage.full, stage.empty}});
}

namespace {
/// `acquire` and `wait` find the stage, and wait for its barrier.
template <typename OpTy>
struct PipeAccessLowering : public KernelPattern<OpTy> {
  using KernelPattern<OpTy>::KernelPattern;
  using OneToNOpAdaptor = typename KernelPattern<OpTy>::OneToNOpAdaptor;

  LogicalResult
  matchAndRewrite(OpTy op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    const TargetInfo &target = this->context.target;
    PipeType type = op.getPipe().getType();
    auto [tile, parity] =
        emitStageWithBarriers(rewriter, loc, target, type, adaptor.getPipe(),
                              adaptor.getPosition().front());
    if (isa<AcquireOp>(op))
      target.emitAcquire(rewriter, loc, tile, parity, type.getBufferType());
    else
      target.emitWait(rewriter, loc, tile, parity);
    replaceByStage(rewriter, op, tile);
    return success();
  }
};

struct LocalStoreLowering : public KernelPattern<LocalStoreOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(LocalStoreOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    StagedTile stage = emitSharedStage(
        rewriter, op.getLoc(), context.target, op.getPipe().getType(),
        adaptor.getPipe(), adaptor.getPosition().front());
    if (failed(context.target.emitLocalStore(
            rewriter, op, adaptor.getTile(), stage,
            context.getPosition(rewriter, op))))
      return failure();
    replaceByStage(rewriter, op, stage);
    return success();
  }
};

struct LocalConvertLowering : public KernelPattern<LocalConvertOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(LocalConvertOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    StagedTile result = emitSharedStage(
        rewriter, op.getLoc(), context.target, op.getPipe().getType(),
        adaptor.getPipe(), adaptor.getPosition().front());
    if (failed(context.target.emitLocalConvert(
            rewriter, op, getStagedTile(adaptor.getBuffer()), result,
            emitNumRows(rewriter, op.getLoc(), adaptor.getFirst(),
                        adaptor.getExtent()),
            context.getPosition(rewriter, op))))
      return failure();
    replaceByStage(rewriter, op, result);
    return success();
  }
};

struct ConvertLowering : public KernelPattern<ConvertOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(ConvertOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    const TileConversionTarget *conversions = context.target.getConversions();
    if (!conversions)
      return emitMissing(op, "conversions by idle warps", context.target);
    Location loc = op.getLoc();
    auto [result, parity] = emitStageWithBarriers(
        rewriter, loc, context.target, op.getPipe().getType(),
        adaptor.getPipe(), adaptor.getPosition().front());
    if (failed(conversions->emitConvert(
            rewriter, op, getStagedTile(adaptor.getBuffer()), result, parity,
            emitNumRows(rewriter, loc, adaptor.getFirst(), adaptor.getExtent()),
            context.getPosition(rewriter, op))))
      return failure();
    rewriter.eraseOp(op);
    return success();
  }
};

struct CopyLowering : public KernelPattern<CopyOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(CopyOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    CopiedRows rows;
    if (op.getPageTable()) {
      llvm::append_range(rows.table, adaptor.getPageTable());
      llvm::append_range(rows.fault, adaptor.getFault());
      rows.numKeys = adaptor.getNumKeys().front();
      rows.numPages = adaptor.getNumPages().front();
    }
    if (op.getAddressing()) {
      rows.first = adaptor.getFirstStored().front();
      rows.count = adaptor.getNumStored().front();
    }
    if (failed(context.target.emitCopy(rewriter, op, adaptor.getSource(),
                                       getSingleValues(adaptor.getIndices()),
                                       rows, getStagedTile(adaptor.getBuffer()),
                                       context.getPosition(rewriter, op))))
      return failure();
    rewriter.eraseOp(op);
    return success();
  }
};

struct StoreThroughLowering : public KernelPattern<StoreThroughOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(StoreThroughOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (failed(context.target.emitStoreThrough(
            rewriter, op, adaptor.getTile(), adaptor.getDest(),
            getSingleValues(adaptor.getIndices()), adaptor.getPipe()[0],
            context.getPosition(rewriter, op))))
      return failure();
    rewriter.eraseOp(op);
    return success();
  }
};

struct CommitLowering : public KernelPattern<CommitOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(CommitOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    context.target.emitCommit(rewriter, op.getLoc(),
                              getStagedTile(adaptor.getBuffer()));
    rewriter.eraseOp(op);
    return success();
  }
};

struct ClearLowering : public KernelPattern<ClearOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(ClearOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    BufferType type = op.getBuffer().getType();
    Value rows = arith::SubIOp::create(
        rewriter, loc, adaptor.getExtent().front(), adaptor.getFirst().front());
    Value isCut = emitLess(rewriter, loc, rows,
                           createI32(rewriter, loc, type.getShape()[0]));
    ThreadPosition position = context.getPosition(rewriter, op);
    emitIf(rewriter, loc, isCut, [&](OpBuilder &builder) {
      Value first = arith::MaxSIOp::create(builder, loc, rows,
                                           createI32(builder, loc, 0));
      context.target.emitClear(builder, loc, getStagedTile(adaptor.getBuffer()),
                               type, first, position);
    });
    rewriter.eraseOp(op);
    return success();
  }
};

/// From a tile of one row, each thread reads its own columns, in pairs.
struct ReadLowering : public KernelPattern<ReadOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(ReadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    auto type = cast<VectorType>(op.getTile().getType());
    if (type.getDimSize(0) != 1) {
      FailureOr<SmallVector<Value>> registers = context.target.emitRead(
          rewriter, op, getStagedTile(adaptor.getBuffer()),
          context.getPosition(rewriter, op));
      if (failed(registers))
        return failure();
      rewriter.replaceOpWithMultiple(
          op, SmallVector<SmallVector<Value>>{std::move(*registers)});
      return success();
    }
    Type element = type.getElementType();
    int64_t columns = context.getColumns(type);
    if (columns % 2 != 0)
      return rewriter.notifyMatchFailure(op, "columns are no pairs");
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    Value thread = context.getPosition(rewriter, op).thread;
    Value first = emitElement(
        rewriter, loc, getStagedTile(adaptor.getBuffer()).address,
        context.layout.emitBaseColumn(rewriter, loc, thread), bytes);
    auto pointer = LLVM::LLVMPointerType::get(
        rewriter.getContext(),
        static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
    first = LLVM::IntToPtrOp::create(rewriter, loc, pointer, first);
    SmallVector<Value> results;
    for (int64_t c = 0; c < columns; c += 2) {
      auto offset = static_cast<int32_t>(context.layout.getColumnOffset(c));
      Value address =
          LLVM::GEPOp::create(rewriter, loc, pointer, element, first,
                              ArrayRef<LLVM::GEPArg>{offset});
      Value pair = LLVM::LoadOp::create(
          rewriter, loc, VectorType::get(2, element), address, 2 * bytes);
      for (int64_t i : {0, 1})
        results.push_back(LLVM::ExtractElementOp::create(
            rewriter, loc, pair, createI32(rewriter, loc, i)));
    }
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }
};

struct ReleaseLowering : public KernelPattern<ReleaseOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(ReleaseOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    context.target.emitRelease(
        rewriter, op.getLoc(), getStagedTile(adaptor.getBuffer()),
        context.readByThreads.contains(op), adaptor.getAfter(),
        op.getBuffer().getType().getCluster(),
        context.getPosition(rewriter, op));
    rewriter.eraseOp(op);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

struct MmaStartLowering : public KernelPattern<MmaStartOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(MmaStartOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    FailureOr<SmallVector<Value>> results = context.target.emitMmaStart(
        rewriter, op, adaptor.getLhs(), getStagedTile(adaptor.getRhs()),
        adaptor.getAcc(), context.getPosition(rewriter, op));
    if (failed(results))
      return failure();
    rewriter.replaceOpWithMultiple(
        op, SmallVector<SmallVector<Value>>{std::move(*results)});
    return success();
  }
};

struct MmaWaitLowering : public KernelPattern<MmaWaitOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(MmaWaitOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    SmallVector<Value> results =
        context.target.emitMmaWait(rewriter, op.getLoc(), adaptor.getPending(),
                                   context.newerMmas.lookup(op));
    rewriter.replaceOpWithMultiple(
        op, SmallVector<SmallVector<Value>>{std::move(results)});
    return success();
  }
};

struct MmaWaitBeforeLowering : public KernelPattern<MmaWaitBeforeOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(MmaWaitBeforeOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    context.target.emitMmaWait(rewriter, op.getLoc(), /*pending=*/{},
                               context.newerMmas.lookup(op) + 1);
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

void attn::populatePipePatterns(RewritePatternSet &patterns,
                                const TypeConverter &converter,
                                const KernelContext &context) {
  patterns
      .add<CreatePipeLowering, PipeAccessLowering<AcquireOp>,
           PipeAccessLowering<WaitOp>, LocalStoreLowering, LocalConvertLowering,
           ConvertLowering, CopyLowering, StoreThroughLowering, CommitLowering,
           ClearLowering, ReadLowering, ReleaseLowering, MmaStartLowering,
           MmaWaitLowering, MmaWaitBeforeLowering>(
          converter, patterns.getContext(), context);
}

int64_t attn::countNewerMmas(Operation *wait, Value pending) {
  Operation *start = pending.getDefiningOp();
  if (!start || start->getBlock() != wait->getBlock())
    return 0;
  // Regions between the two, such as mask_mod, may start more MMAs, which are
  // not counted: then the wait covers more than it must.
  int64_t newer = 0;
  for (Operation *op = start->getNextNode(); op != wait; op = op->getNextNode())
    newer += isa<MmaStartOp>(op);
  return newer;
}
