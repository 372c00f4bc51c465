//===- AttnToAttnTile.cpp - Attention to tiled programs -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces each attention by launches of kernels: the ones that prepare its
// inputs, its plain tiled program, and the ones that finish its results.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/AttnToAttnTile/AttnToAttnTile.h"
#include "ClassifyTiles.h"
#include "CombineSplits.h"
#include "CreateKernel.h"
#include "FuseOverlap.h"
#include "KernelDropout.h"
#include "MaskTables.h"
#include "StreamingKernel.h"
#include "WorkItemList.h"
#include "attn/Conversion/AttnToAttnTile/LinearAttentionToAttnTile.h"
#include "attn/Conversion/AttnToAttnTile/MergeToAttnTile.h"
#include "attn/Conversion/AttnToAttnTile/StreamingOpInterfaceImpl.h"
#include "attn/Conversion/Passes.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "attn/Interfaces/Target.h"
#include "attn/PerfModel/Roofline.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {
#define GEN_PASS_DEF_CONVERTATTNTOATTNTILEPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// The tile lists of the block mask of `attention`; null without a block mask.
static FailureOr<ClassifiedTiles>
findTilesOfBlockMask(RewriterBase &rewriter,
                     attn_tile::StreamingOpInterface op) {
  auto attention = cast<AttentionOpInterface>(op.getOperation());
  Value blockMask = op.getTileLists();
  if (!blockMask)
    return ClassifiedTiles();
  int64_t heads = getDimSize(blockMask, 1);
  if (heads == 1 && attention.getNumQueryHeads() != 1 &&
      isMaskedByHead(attention))
    return attention.emitOpError(
        "masks each head by itself, and its block mask is "
        "for all of them");
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(attention);
  Location loc = attention.getLoc();
  auto size = [&](Value operand, int64_t dim) {
    return rewriter.createOrFold<memref::DimOp>(loc, operand, dim);
  };
  return getTilesOfBlockMask(
      rewriter, loc, blockMask,
      {size(attention.getQuery(), 0), size(attention.getQuery(), 2),
       size(attention.getKey(), 2)},
      CreateBlockMaskOp::getTiles(attention.getScheduleAttr()));
}

/// Checks that earlier passes have prepared `attention`.
static LogicalResult verifyPrepared(AttentionOpInterface attention) {
  if (!attention.isBufferized())
    return attention.emitOpError("must be bufferised");
  if (!attention.getScheduleAttr())
    return attention.emitOpError("needs a schedule");
  if (!attention.getChosenSchedule())
    return attention.emitOpError("has a choice of schedules, which "
                                 "attn-dispatch-schedules must resolve");
  if (!attention.getMaskReads().empty())
    return attention.emitOpError("has a mask that reads operands, which "
                                 "attn-expand-masks must expand");
  if (attention.isShard())
    return attention.emitOpError("has the positions of a shard, which "
                                 "attn-expand-positions must expand");
  return success();
}

/// Checks that `op` has what the schedule needs.
static LogicalResult verifySchedule(attn_tile::StreamingOpInterface op,
                                    ScheduleAttrInterface schedule) {
  if (schedule.getSplitKvWorkItems() > 0)
    if (std::optional<std::string> reason = op.whyNotSplitKV())
      return op->emitOpError("cannot split keys and values: ") << *reason;
  if (schedule.getClusterSize() > 1)
    if (std::optional<std::string> reason = op.whyNotCluster())
      return op->emitOpError("cannot iterate over keys in clusters: ")
             << *reason;
  return op.verifyKernelSchedule(schedule);
}

/// The operands of the kernel of `attention` before the lists of tiles, in the
/// order in which `KernelWriter` takes them.
static SmallVector<Value> getKernelOperands(OpBuilder &builder,
                                            attn_tile::StreamingOpInterface op,
                                            const KVSplits &splits,
                                            Value workItemList) {
  auto attention = cast<AttentionOpInterface>(op.getOperation());
  SmallVector<Value> operands = {attention.getQuery(), attention.getKey(),
                                 attention.getValue()};
  if (splits) {
    operands.push_back(splits.out);
    llvm::append_range(operands, splits.statistics);
  } else {
    llvm::append_range(operands, attention.getDpsInits());
  }
  llvm::append_range(operands, op.getReductionOperands());
  for (Value operand : {attention.getHeadMap(), attention.getKeyLengths(),
                        attention.getPageTable()})
    if (operand)
      operands.push_back(operand);
  if (attention.getHeadMap() || attention.getKeyLengths() ||
      attention.getPageTable())
    operands.push_back(attn_tile::ErrorFlagOp::create(
        builder, attention.getLoc(),
        MemRefType::get({1}, builder.getI32Type())));
  if (workItemList)
    operands.push_back(workItemList);
  return operands;
}

namespace {
/// The tiles that a mask which reads tensors keeps.
struct ListedTiles {
  ClassifiedTiles tiles;
  /// The buffers that were allocated for them.
  ClassifiedTiles temporary;
};
} // namespace

/// Lists the tiles of a mask that reads tensors, or takes them from its block
/// mask, and evaluates its bits if the schedule reads them.
static FailureOr<ListedTiles> listTiles(RewriterBase &rewriter,
                                        attn_tile::StreamingOpInterface op,
                                        ScheduleAttrInterface schedule,
                                        SymbolTable &symbols) {
  auto attention = cast<AttentionOpInterface>(op.getOperation());
  ListedTiles listed;
  if (!needsClassification(attention))
    return listed;
  FailureOr<ClassifiedTiles> found = findTilesOfBlockMask(rewriter, op);
  if (failed(found))
    return failure();
  listed.tiles = *found;
  TileListing listing{schedule.getQueryTile(), schedule.getKeyTile(),
                      schedule.getPreparation(), MaskDim::Query,
                      /*suffix=*/""};
  if (!listed.tiles.lists)
    listed.tiles = listed.temporary =
        classifyTiles(rewriter, attention, listing, symbols);
  if (readsMaskBits(attention, schedule))
    listed.tiles.bits = listed.temporary.bits =
        evaluatePairs(rewriter, attention, listing, listed.tiles, symbols);
  return listed;
}

/// The query tiles to list, and their splits if they are balanced.
static SequenceTiles getSequenceTiles(AttentionOpInterface attention) {
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  SequenceTiles tiles = {MaskDim::Query, schedule.getQueryTile(), /*extra=*/0,
                         schedule.getPreparation(), "_work_items"};
  if (!listsSplits(attention))
    return tiles;
  // Twice the work items leave little imbalance: the longest come first, and
  // have half of the keys that each CTA has on average.
  constexpr int64_t itemsOfSlot = 2;
  int64_t heads = schedule.packsGqa() ? attention.getNumKeyHeads()
                                      : attention.getNumQueryHeads();
  if (schedule.packsGqa())
    tiles.rowsOfQuery = attention.getGroupSize();
  tiles.keyTile = schedule.getKeyTile();
  tiles.splitTarget = std::max<int64_t>(
      itemsOfSlot * schedule.getSplitKvWorkItems() / heads, 1);
  return tiles;
}

FailureOr<attn_tile::KernelOp>
mlir::attn::lowerToKernel(RewriterBase &rewriter,
                          attn_tile::StreamingOpInterface op,
                          SymbolTable &symbols) {
  auto attention = cast<AttentionOpInterface>(op.getOperation());
  if (failed(verifyPrepared(attention)))
    return failure();
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  if (schedule.packsGqa()) {
    if (std::optional<std::string> reason = op.whyNotPackHeads())
      return op->emitOpError("cannot pack GQA heads: ") << *reason;
    Operation *packed = op.packHeads(rewriter);
    op = cast<attn_tile::StreamingOpInterface>(packed);
    attention = cast<AttentionOpInterface>(packed);
  }
  if (failed(verifySchedule(op, schedule)))
    return failure();
  KernelDropout dropout(attention);
  if (failed(dropout.check(schedule)))
    return failure();
  dropout.report();
  dropout.checkPositions(rewriter, schedule.getPreparation(), symbols);

  SetVector<Value> used;
  getUsedValuesDefinedAbove(attention->getRegions(), used);
  dropout.addOperands(used);
  FailureOr<SmallVector<Value>> captures =
      getCaptures(attention, used.getArrayRef());
  if (failed(captures))
    return failure();

  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(attention);
  Value workItemList;
  if (attention.getAddressing().isListed() || listsSplits(attention))
    workItemList = listSequences(rewriter, attention,
                                 getSequenceTiles(attention), symbols);
  KVSplits splits = emitKVSplits(rewriter, op, workItemList);
  SmallVector<Value> operands =
      getKernelOperands(rewriter, op, splits, workItemList);
  FailureOr<ListedTiles> listed = listTiles(rewriter, op, schedule, symbols);
  if (failed(listed))
    return failure();
  for (Value operand :
       {listed->tiles.lists, listed->tiles.order, listed->tiles.bits})
    if (operand)
      operands.push_back(operand);
  llvm::append_range(operands, *captures);
  if (splits.count && !getConstantIntValue(splits.count))
    operands.push_back(splits.count);
  attn_tile::KernelOp kernel =
      createKernel(rewriter, attention, schedule, symbols, "_kernel", operands);
  writeStreamingKernel(rewriter, op, kernel, *captures, splits);

  rewriter.setInsertionPointAfter(attention);
  const ClassifiedTiles &temporary = listed->temporary;
  for (Value buffer : {workItemList, temporary.lists, temporary.order,
                       temporary.bits, splits.buffer})
    if (buffer)
      memref::DeallocOp::create(rewriter, attention.getLoc(), buffer);
  rewriter.setInsertionPoint(attention);
  if (splits)
    combineSplits(rewriter, op, splits, workItemList, attention, symbols);
  rewriter.eraseOp(attention);
  return kernel;
}

/// Whether static sizes leave `op` nothing to write.
static bool isEmpty(attn_tile::StreamingOpInterface streaming) {
  auto op = cast<AttentionOpInterface>(streaming.getOperation());
  return op.isBufferized() && (getDimSize(op.getQuery(), 0) == 0 ||
                               getDimSize(op.getQuery(), 2) == 0);
}
static bool isEmpty(CreateBlockMaskOp op) {
  return op.isBufferized() &&
         (getDimSize(op.getOut(), 0) == 0 || getDimSize(op.getOut(), 2) == 0 ||
          isConstantIntValue(op.getBatch(), 0));
}

namespace {
struct ConvertAttnToAttnTile
    : attn::impl::ConvertAttnToAttnTilePassBase<ConvertAttnToAttnTile> {
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    registry.insert<linalg::LinalgDialect>();
    registerStreamingOpInterfaceExternalModels(registry);
    registerStreamingGradOpInterfaceExternalModels(registry);
  }

  /// Ranks communicate from the host.
  LogicalResult verifyCommunication() {
    WalkResult walk = getOperation().walk([&](Operation *op) -> WalkResult {
      if (!op->hasTrait<Communicates>())
        return WalkResult::advance();
      FailureOr<const Target *> found = lookupTarget(op, target);
      if (failed(found))
        return WalkResult::interrupt();
      if ((*found)->isHost())
        return WalkResult::advance();
      return op->emitOpError("needs the target 'host' (was '")
             << target << "')";
    });
    return failure(walk.wasInterrupted());
  }

  void runOnOperation() override {
    SymbolTableCollection symbolTables;
    IRRewriter rewriter(&getContext());
    bool failedAny = false;
    auto lowerAll = [&](auto &ops, auto lower) {
      for (auto op : ops) {
        SymbolTable &symbols =
            symbolTables.getSymbolTable(SymbolTable::getNearestSymbolTable(op));
        failedAny |= failed(lower(rewriter, op, symbols));
      }
    };
    if (failed(verifyCommunication()))
      return signalPassFailure();
    // Overlaps come first, before their members become kernels.
    SmallVector<OverlapOp> overlaps;
    getOperation().walk([&](OverlapOp op) { overlaps.push_back(op); });
    lowerAll(overlaps, fuseOverlap);
    if (failedAny)
      return signalPassFailure();

    SmallVector<attn_tile::StreamingOpInterface> streams;
    SmallVector<attn_tile::StreamingGradOpInterface> gradients;
    SmallVector<DropoutMaskOp> masks;
    SmallVector<CreateBlockMaskOp> blockMasks;
    SmallVector<MaskTableOpInterface> tables;
    SmallVector<MatmulOp> matmuls;
    SmallVector<MapHeadsOp> maps;
    SmallVector<CacheAppendOp> appends;
    SmallVector<LinearAttentionOp> linearAttentions;
    SmallVector<LinearAttentionGradOp> linearGradients;
    SmallVector<MergeOp> merges;
    SmallVector<MergeGradOp> mergeGradients;
    getOperation().walk([&](Operation *op) {
      if (auto streaming = dyn_cast<attn_tile::StreamingOpInterface>(op))
        streams.push_back(streaming);
      else if (auto gradient =
                   dyn_cast<attn_tile::StreamingGradOpInterface>(op))
        gradients.push_back(gradient);
      else if (auto mask = dyn_cast<DropoutMaskOp>(op))
        masks.push_back(mask);
      else if (auto create = dyn_cast<CreateBlockMaskOp>(op))
        blockMasks.push_back(create);
      else if (auto table = dyn_cast<MaskTableOpInterface>(op))
        tables.push_back(table);
      else if (auto matmul = dyn_cast<MatmulOp>(op))
        matmuls.push_back(matmul);
      else if (auto map = dyn_cast<MapHeadsOp>(op))
        maps.push_back(map);
      else if (auto append = dyn_cast<CacheAppendOp>(op))
        appends.push_back(append);
      else if (auto linear = dyn_cast<LinearAttentionOp>(op))
        linearAttentions.push_back(linear);
      else if (auto gradient = dyn_cast<LinearAttentionGradOp>(op))
        linearGradients.push_back(gradient);
      else if (auto merge = dyn_cast<MergeOp>(op))
        merges.push_back(merge);
      else if (auto gradient = dyn_cast<MergeGradOp>(op))
        mergeGradients.push_back(gradient);
    });
    // Otherwise kernels would list the tiles of attention that has none.
    auto eraseEmpty = [&](auto &ops) {
      llvm::erase_if(ops, [&](auto op) {
        if (!isEmpty(op))
          return false;
        rewriter.eraseOp(op);
        return true;
      });
    };
    eraseEmpty(streams);
    eraseEmpty(blockMasks);
    lowerAll(streams, lowerToKernel);
    lowerAll(gradients, [&](RewriterBase &rewriter,
                            attn_tile::StreamingGradOpInterface gradient,
                            SymbolTable &symbols) {
      DeviceAttr device = getDevice(gradient, target);
      return lowerAttentionGradToKernels(
          rewriter, gradient, device ? device.getFigures() : DeviceFigures(),
          symbols);
    });
    lowerAll(masks, lowerDropoutMaskToKernel);
    lowerAll(blockMasks, lowerCreateBlockMaskToKernels);
    lowerAll(tables, lowerMaskTableToKernel);
    lowerAll(matmuls,
             [](RewriterBase &rewriter, MatmulOp matmul, SymbolTable &symbols) {
               return lowerMatmulToKernel(rewriter, matmul, symbols);
             });
    lowerAll(maps, lowerMapHeadsToKernel);
    lowerAll(appends, [&](RewriterBase &rewriter, CacheAppendOp append,
                          SymbolTable &symbols) {
      return lowerCacheAppendToKernel(rewriter, append, symbols);
    });
    lowerAll(linearAttentions, lowerLinearAttentionToKernel);
    lowerAll(linearGradients, lowerLinearAttentionGradToKernel);
    lowerAll(merges, lowerMergeToKernel);
    lowerAll(mergeGradients, lowerMergeGradToKernel);
    if (failedAny)
      signalPassFailure();
  }
};
} // namespace
