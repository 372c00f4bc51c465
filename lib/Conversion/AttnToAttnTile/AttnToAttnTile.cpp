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
#include "TransposeValues.h"
#include "WorkItemList.h"
#include "attn/Conversion/AttnToAttnTile/LinearAttentionToAttnTile.h"
#include "attn/Conversion/AttnToAttnTile/MergeToAttnTile.h"
#include "attn/Conversion/AttnToAttnTile/StreamingOpInterfaceImpl.h"
#include "attn/Conversion/Passes.h"
#include "attn/Interfaces/Target.h"
#include "attn/PerfModel/Roofline.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
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
                                            Value transposedValues,
                                            const KVSplits &splits,
                                            Value workItemList) {
  auto attention = cast<AttentionOpInterface>(op.getOperation());
  SmallVector<Value> operands = {attention.getQuery(), attention.getKey(),
                                 transposedValues ? transposedValues
                                                  : attention.getValue()};
  if (!splits || splits.areListed())
    llvm::append_range(operands, attention.getDpsInits());
  if (splits) {
    operands.push_back(splits.out);
    llvm::append_range(operands, splits.statistics);
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
  if (schedule.packsGqa())
    tiles.rowsOfQuery = attention.getGroupSize();
  if (!listsSplits(attention))
    return tiles;
  // Four times the work items leave little imbalance: the longest come first,
  // and have a quarter of the keys that each CTA has on average. Twice as many
  // are enough where they would have few keys: each begins with an idle tensor
  // core, and its results are combined (docs/experiments/kv-cache-serving.md).
  constexpr int64_t itemsOfSlot = 4, fewKeys = 4096;
  int64_t heads = schedule.packsGqa() ? attention.getNumGroups()
                                      : attention.getNumQueryHeads();
  tiles.keyTile = schedule.getKeyTile();
  tiles.splitTarget = std::max<int64_t>(
      itemsOfSlot * schedule.getSplitKvWorkItems() / heads, 1);
  tiles.fewKVTiles = llvm::divideCeil(fewKeys, tiles.keyTile);
  return tiles;
}

/// Checks `op`, and packs its GQA heads if the schedule says so. Returns the
/// operation to write a kernel of.
static FailureOr<attn_tile::StreamingOpInterface>
prepareOp(RewriterBase &rewriter, attn_tile::StreamingOpInterface op) {
  auto attention = cast<AttentionOpInterface>(op.getOperation());
  if (failed(verifyPrepared(attention)))
    return failure();
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  if (schedule.packsGqa()) {
    if (std::optional<std::string> reason = op.whyNotPackHeads())
      return op->emitOpError("cannot pack GQA heads: ") << *reason;
    op = cast<attn_tile::StreamingOpInterface>(op.packHeads(rewriter));
  }
  if (failed(verifySchedule(op, schedule)))
    return failure();
  return op;
}

/// The values that the regions of `attention` and its dropout use.
static FailureOr<SmallVector<Value>> prepareCaptures(RewriterBase &rewriter,
                                                     AttentionOpInterface op,
                                                     SymbolTable &symbols) {
  ScheduleAttrInterface schedule = op.getChosenSchedule();
  KernelDropout dropout(op);
  if (failed(dropout.check(schedule)))
    return failure();
  dropout.report();
  dropout.checkPositions(rewriter, schedule.getPreparation(), symbols);
  SetVector<Value> used;
  getUsedValuesDefinedAbove(op->getRegions(), used);
  dropout.addOperands(used);
  return getCaptures(op, used.getArrayRef());
}

FailureOr<attn_tile::KernelOp>
mlir::attn::lowerToKernel(RewriterBase &rewriter,
                          attn_tile::StreamingOpInterface given,
                          SymbolTable &symbols) {
  FailureOr<attn_tile::StreamingOpInterface> prepared =
      prepareOp(rewriter, given);
  if (failed(prepared))
    return failure();
  attn_tile::StreamingOpInterface op = *prepared;
  auto attention = cast<AttentionOpInterface>(op.getOperation());
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  FailureOr<SmallVector<Value>> captures =
      prepareCaptures(rewriter, attention, symbols);
  if (failed(captures))
    return failure();

  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(attention);
  SequenceLists sequences;
  if (attention.getAddressing().isListed() || listsSplits(attention))
    sequences = listSequences(rewriter, attention, getSequenceTiles(attention),
                              symbols);
  KVSplits splits = emitKVSplits(rewriter, op, sequences);
  Value transposedValues;
  if (schedule.readsTransposedValues(
          getElementTypeOrSelf(attention.getQuery())))
    transposedValues = transposeValues(rewriter, attention, symbols);
  SmallVector<Value> operands = getKernelOperands(
      rewriter, op, transposedValues, splits, sequences.workItems);
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
  for (Value buffer :
       {sequences.workItems, sequences.splitTiles, transposedValues,
        temporary.lists, temporary.order, temporary.bits, splits.buffer})
    if (buffer)
      memref::DeallocOp::create(rewriter, attention.getLoc(), buffer);
  rewriter.setInsertionPoint(attention);
  if (splits && failed(combineSplits(rewriter, op, splits, sequences, attention,
                                     symbols)))
    return failure();
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

/// `lower`, but for operations that have nothing to write: kernels would list
/// the tiles of attention that has none.
template <typename LowerT>
static auto unlessEmpty(LowerT lower) {
  return [=](RewriterBase &rewriter, auto op,
             SymbolTable &symbols) -> LogicalResult {
    if (!isEmpty(op))
      return LogicalResult(lower(rewriter, op, symbols));
    rewriter.eraseOp(op);
    return success();
  };
}

namespace {
/// Lowers the operations in `root`, one kind after the other.
class KernelLowering {
public:
  KernelLowering(Operation *root) : root(root), rewriter(root->getContext()) {}

  template <typename OpT, typename LowerT>
  void lowerAll(LowerT lower) {
    SmallVector<OpT> ops;
    root->walk([&](OpT op) { ops.push_back(op); });
    for (OpT op : ops) {
      SymbolTable &symbols =
          symbolTables.getSymbolTable(SymbolTable::getNearestSymbolTable(op));
      failedAny |= failed(lower(rewriter, op, symbols));
    }
  }
  bool hasFailed() const { return failedAny; }

private:
  Operation *root;
  SymbolTableCollection symbolTables;
  IRRewriter rewriter;
  bool failedAny = false;
};

struct ConvertAttnToAttnTile
    : attn::impl::ConvertAttnToAttnTilePassBase<ConvertAttnToAttnTile> {
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    registry.insert<linalg::LinalgDialect>();
    registerStreamingOpInterfaceExternalModels(registry);
    registerStreamingGradOpInterfaceExternalModels(registry);
  }

  void runOnOperation() override {
    // Overlaps come first, before their members become kernels.
    KernelLowering lowering(getOperation());
    lowering.lowerAll<OverlapOp>(fuseOverlap);
    if (lowering.hasFailed())
      return signalPassFailure();
    lowering.lowerAll<attn_tile::StreamingOpInterface>(
        unlessEmpty(lowerToKernel));
    lowering.lowerAll<attn_tile::StreamingGradOpInterface>(
        [&](RewriterBase &rewriter, attn_tile::StreamingGradOpInterface op,
            SymbolTable &symbols) {
          DeviceAttr device = getDevice(op, target);
          return lowerAttentionGradToKernels(
              rewriter, op, device ? device.getFigures() : DeviceFigures(),
              symbols);
        });
    lowering.lowerAll<DropoutMaskOp>(lowerDropoutMaskToKernel);
    lowering.lowerAll<CreateBlockMaskOp>(
        unlessEmpty(lowerCreateBlockMaskToKernels));
    lowering.lowerAll<MaskTableOpInterface>(lowerMaskTableToKernel);
    lowering.lowerAll<MatmulOp>(
        [](RewriterBase &rewriter, MatmulOp matmul, SymbolTable &symbols) {
          return lowerMatmulToKernel(rewriter, matmul, symbols);
        });
    lowering.lowerAll<MapHeadsOp>(lowerMapHeadsToKernel);
    lowering.lowerAll<CacheAppendOp>(lowerCacheAppendToKernel);
    lowering.lowerAll<LinearAttentionOp>(lowerLinearAttentionToKernel);
    lowering.lowerAll<LinearAttentionGradOp>(lowerLinearAttentionGradToKernel);
    lowering.lowerAll<MergeOp>(lowerMergeToKernel);
    lowering.lowerAll<MergeGradOp>(lowerMergeGradToKernel);
    if (lowering.hasFailed())
      signalPassFailure();
  }
};
} // namespace
