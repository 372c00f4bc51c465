//===- ScheduleInterfaceImpl.cpp - Strategies of schedules ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel passes of each schedule.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/Transforms/ScheduleInterfaceImpl.h"
#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "attn/Dialect/Attn/IR/AttnMergeOps.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "attn/Interfaces/Target.h"
#include "attn/PerfModel/LinearTime.h"
#include "attn/PerfModel/ScheduleTime.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::attn_tile;

static void addCleanUp(OpPassManager &pm) {
  pm.addNestedPass<KernelOp>(createCanonicalizerPass());
  pm.addNestedPass<KernelOp>(createCSEPass());
}

/// The kind of the kernels of `op`, which multiply elements of its first
/// operand.
static attn::KernelScheduleKind getKernelKind(Operation *op,
                                              const attn::Target &target) {
  return target.getKernelScheduleKindFor(
      getElementTypeOrSelf(op->getOperand(0)));
}

/// Checks that `target` runs kernels of `kind`, as kernels with `schedule` are.
static LogicalResult verifyTarget(Operation *op, Attribute schedule,
                                  const attn::Target &target,
                                  attn::KernelScheduleKind kind) {
  if (getKernelKind(op, target) == kind)
    return success();
  Type element = getElementTypeOrSelf(op->getOperand(0));
  InFlightDiagnostic diagnostic = op->emitOpError("cannot have schedule '")
                                  << schedule << "' on target "
                                  << target.getName();
  // The target has such kernels, for other elements.
  if (target.getKernelScheduleKind() == kind)
    return diagnostic << " with " << element << " elements";
  return diagnostic << ", it is for " << attn::describeTargets(kind);
}

/// Reports that `op` cannot have `schedule`, which is for `use`.
static LogicalResult emitWrongUse(Operation *op, Attribute schedule,
                                  StringRef use) {
  return op->emitOpError("cannot have schedule '")
         << schedule << "', it is for " << use;
}

static LogicalResult emitWhyNotPackGqa(Operation *op, Attribute schedule,
                                       StringRef reason) {
  return op->emitOpError("cannot pack GQA heads as schedule '")
         << schedule << "' says: " << reason;
}

/// Checks that `op` allows GQA packing and split-KV, if `schedule` asks for
/// them.
static LogicalResult verifyFewQueries(Operation *op,
                                      attn::ScheduleAttrInterface schedule) {
  auto streaming = dyn_cast<StreamingOpInterface>(op);
  if (!streaming)
    return success();
  if (schedule.packsGqa())
    if (std::optional<std::string> reason = streaming.whyNotPackHeads())
      return emitWhyNotPackGqa(op, schedule, *reason);
  if (schedule.getSplitKvWorkItems() > 0)
    if (std::optional<std::string> reason = streaming.whyNotSplitKV())
      return op->emitOpError("cannot split keys and values as schedule '")
             << schedule << "' says: " << *reason;
  if (schedule.balancesSplits() &&
      !cast<attn::AttentionOpInterface>(op).readsKeyLengths())
    return op->emitOpError("cannot balance splits as schedule '")
           << schedule << "' says: all batch entries have as many keys";
  return success();
}

/// Checks that `op` allows clusters, if `schedule` asks for them.
static LogicalResult verifyCluster(Operation *op,
                                   attn::ScheduleAttrInterface schedule) {
  auto streaming = dyn_cast<StreamingOpInterface>(op);
  if (!streaming || schedule.getClusterSize() == 1)
    return success();
  if (std::optional<std::string> reason = streaming.whyNotCluster())
    return op->emitOpError("cannot iterate over keys in clusters as schedule '")
           << schedule << "' says: " << *reason;
  return success();
}

/// Checks that `schedule` is for 8-bit elements, if `op` has them.
static LogicalResult verifyFloat8(Operation *op,
                                  attn::ScheduleAttrInterface schedule) {
  auto attention = cast<attn::AttentionOpInterface>(op);
  Type element = getElementTypeOrSelf(attention.getQuery());
  if (!attn::isFloat8(element))
    return success();
  // Steps of MMAs, of which probabilities are the multiplicands.
  constexpr int64_t step = 32;
  if (schedule.getKeyTile() % step != 0)
    return op->emitOpError("key tile of schedule '")
           << schedule << "' must be a multiple of " << step
           << " for elements of " << element << " (was "
           << schedule.getKeyTile() << ")";
  if (schedule.packsGqa())
    return emitWhyNotPackGqa(op, schedule,
                             "kernels read packed queries of 16 bits alone");
  return success();
}

/// Checks that consumers compute all columns of the output, if each of them has
/// columns of its own.
static LogicalResult
verifyConsumerColumns(Operation *op, attn::ScheduleAttrInterface schedule) {
  int64_t consumers = schedule.getColumnConsumers();
  if (consumers == 1)
    return success();
  auto attention = cast<attn::AttentionOpInterface>(op);
  int64_t columns = consumers * schedule.getHeadDimTile();
  if (columns != attention.getVHeadDim())
    return op->emitOpError("has schedule '")
           << schedule << "', whose consumers compute " << columns
           << " columns together (expected " << attention.getVHeadDim() << ")";
  Type key = getElementTypeOrSelf(attention.getKey());
  if (key.isBF16() || key.isF16())
    return success();
  return op->emitOpError("cannot have schedule '")
         << schedule << "': consumers with columns of their own multiply 16 "
         << "bits (key element type " << key << ")";
}

/// Checks that kernels convert keys and values, if their idle warps are to.
static LogicalResult verifyConversion(Operation *op,
                                      WarpSpecializedAttr schedule) {
  auto attention = cast<attn::AttentionOpInterface>(op);
  Type query = getElementTypeOrSelf(attention.getQuery());
  Type key = getElementTypeOrSelf(attention.getKey());
  if (!schedule.getIdleWarpsConvert() ||
      (attn::isFloat8(key) && !attn::isFloat8(query)))
    return success();
  return op->emitOpError("has nothing that idle warps convert as schedule '")
         << schedule
         << "' says: keys must have 8 bits and queries 16 (key element type "
         << key << ", query element type " << query << ")";
}

/// Checks that `op`, linear attention or its gradient, has no other chunks than
/// `schedule`, whose chunks have `chunk` tokens.
template <typename OpTy>
static LogicalResult verifyChunk(OpTy op, Attribute schedule, int64_t chunk) {
  if (!op.getChunk() || int64_t(*op.getChunk()) == chunk)
    return success();
  return op.emitOpError("cannot have schedule '")
         << schedule << "': 'chunk' is " << *op.getChunk();
}

/// Pipes of `stages` stages.
static AttnTileCreatePipesPassOptions getPipes(int64_t stages) {
  AttnTileCreatePipesPassOptions pipes;
  pipes.stages = stages;
  return pipes;
}

/// The passes of kernels in which all of the `warps` warps copy and compute.
static void buildMultistagePipeline(
    OpPassManager &pm, const AttnTileCreatePipesPassOptions &pipes,
    int64_t warps, const AttnTileSplitRegionsPassOptions &split,
    bool hoistRows = false, bool refill = false) {
  pm.addNestedPass<KernelOp>(createAttnTilePeelMasksPass());
  pm.addNestedPass<KernelOp>(createAttnTileSplitRegionsPass(split));
  pm.addPass(createAttnTileSetTraversalPass());
  if (hoistRows) {
    AttnTileHoistLoadsPassOptions ahead;
    ahead.rows = true;
    pm.addNestedPass<KernelOp>(createAttnTileHoistLoadsPass(ahead));
  }
  pm.addNestedPass<KernelOp>(createAttnTileCreatePipesPass(pipes));
  // The loops of a chain must not be simplified before this.
  AttnTilePrefetchPassOptions prefetch;
  prefetch.refill = refill;
  pm.addNestedPass<KernelOp>(createAttnTilePrefetchPass(prefetch));
  addCleanUp(pm);
  AttnTileSetLayoutPassOptions layout;
  layout.warps = warps;
  pm.addNestedPass<KernelOp>(createAttnTileSetLayoutPass(layout));
}

/// The passes of kernels without tiles, whose work items have `warps` warps.
static void buildScalarPipeline(OpPassManager &pm, int64_t warps) {
  pm.addPass(createAttnTileSetTraversalPass());
  AttnTileSetLayoutPassOptions layout;
  layout.warps = warps;
  pm.addNestedPass<KernelOp>(createAttnTileSetLayoutPass(layout));
  addCleanUp(pm);
}

namespace {
/// The common base of the schedules of the dialect. `Model` adds
/// `buildKernelPipeline`.
template <typename Model, typename ScheduleAttr>
struct TiledSchedule
    : attn::ScheduleAttrInterface::ExternalModel<Model, ScheduleAttr> {
  int64_t getQueryTile(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getQueryTile();
  }
  int64_t getKeyTile(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getKeyTile();
  }
  attn::ScheduleAttrInterface getPreparation(Attribute schedule) const {
    return cast<attn::ScheduleAttrInterface>(
        Attribute(ScalarAttr::get(schedule.getContext(), /*warps=*/1)));
  }
};

/// The common base of the schedules of forward kernels.
template <typename Model, typename ScheduleAttr>
struct ForwardSchedule : TiledSchedule<Model, ScheduleAttr> {
  int64_t getSplitKvWorkItems(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getSplitKvWorkItems();
  }
  bool packsGqa(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getPackGqa();
  }
  bool balancesSplits(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getBalanceSplits();
  }
};

/// The common base of the schedules of forward kernels of GPUs.
template <typename Model, typename ScheduleAttr>
struct GPUForwardSchedule : ForwardSchedule<Model, ScheduleAttr> {
  int64_t getHeadDimTile(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getHeadDimTile();
  }
};

/// In kernels that prepare the work of others, a few warps run each work item.
struct ScalarSchedule
    : attn::ScheduleAttrInterface::ExternalModel<ScalarSchedule, ScalarAttr> {
  int64_t getQueryTile(Attribute) const { return 1; }
  int64_t getKeyTile(Attribute) const { return 1; }
  attn::ScheduleAttrInterface getPreparation(Attribute schedule) const {
    return cast<attn::ScheduleAttrInterface>(schedule);
  }
  LogicalResult verifyUse(Attribute schedule, Operation *attention,
                          const attn::Target &) const {
    return emitWrongUse(attention, schedule,
                        "kernels that prepare the work of others");
  }
  void buildKernelPipeline(Attribute schedule, OpPassManager &pm) const {
    buildScalarPipeline(pm, cast<ScalarAttr>(schedule).getWarps());
  }
};

struct MoveRowsSchedule
    : attn::ScheduleAttrInterface::ExternalModel<MoveRowsSchedule,
                                                 MoveRowsAttr> {
  int64_t getQueryTile(Attribute) const { return 1; }
  int64_t getKeyTile(Attribute) const { return 1; }
  attn::ScheduleAttrInterface getPreparation(Attribute schedule) const {
    return cast<attn::ScheduleAttrInterface>(schedule);
  }
  attn::RowDivision getRowDivision(Attribute attribute) const {
    auto schedule = cast<MoveRowsAttr>(attribute);
    return {schedule.getAligned(), schedule.getLoadsEarly(),
            schedule.getChunks(), schedule.getTogether(),
            schedule.getThreads()};
  }
  LogicalResult verifyUse(Attribute schedule, Operation *op,
                          const attn::Target &target) const {
    if (!isa<attn::CacheAppendOp, attn::MergeOp, attn::MergeGradOp>(op))
      return emitWrongUse(op, schedule, "appends to KV caches, and merges");
    bool isForHost = cast<MoveRowsAttr>(schedule).getThreads() == 1;
    if (isForHost == target.isHost())
      return success();
    return op->emitOpError("cannot have schedule '")
           << schedule << "' on " << target.getName() << ": 'threads' must be "
           << (isForHost ? "32" : "1");
  }
  void buildKernelPipeline(Attribute schedule, OpPassManager &pm) const {
    if (cast<MoveRowsAttr>(schedule).getThreads() == 1)
      return;
    buildScalarPipeline(pm, /*warps=*/1);
  }
};

struct SequentialSchedule
    : ForwardSchedule<SequentialSchedule, SequentialAttr> {
  attn::ScheduleAttrInterface getPreparation(Attribute schedule) const {
    return cast<attn::ScheduleAttrInterface>(schedule);
  }
  SmallVector<attn::KernelTime>
  estimateKernels(Attribute schedule, const attn::VisitedTiles &tiles,
                  const attn::DeviceFigures &device) const {
    if (isa<attn::AttentionGradOp>(tiles.getOp().getOperation()))
      return estimateSequentialGradient({schedule, schedule, nullptr, schedule},
                                        tiles, attn::DeviceModel::get(device));
    return {estimateSequential(cast<SequentialAttr>(schedule), tiles,
                               attn::DeviceModel::get(device))};
  }
  LogicalResult verifyUse(Attribute schedule, Operation *attention,
                          const attn::Target &target) const {
    if (isa<attn::MatmulOp>(attention))
      return emitWrongUse(attention, schedule, "attention and gradients");
    if (failed(verifyFewQueries(attention,
                                cast<attn::ScheduleAttrInterface>(schedule))))
      return failure();
    if (auto op = dyn_cast<attn::AttentionOp>(attention);
        op && cast<SequentialAttr>(schedule).getPackGqa())
      if (std::optional<std::string> reason = attn::whyNotReshapeGqa(op))
        return emitWhyNotPackGqa(op, schedule, *reason);
    return verifyTarget(attention, schedule, target,
                        attn::KernelScheduleKind::Sequential);
  }
  void buildKernelPipeline(Attribute, OpPassManager &pm) const {
    pm.addNestedPass<KernelOp>(createAttnTilePeelMasksPass());
  }
};

struct MultistageSchedule
    : GPUForwardSchedule<MultistageSchedule, MultistageAttr> {
  int64_t getRowsPerRead(Attribute attribute) const {
    auto schedule = cast<MultistageAttr>(attribute);
    return schedule.getQueryTile() / schedule.getWarps();
  }
  SmallVector<attn::KernelTime>
  estimateKernels(Attribute schedule, const attn::VisitedTiles &tiles,
                  const attn::DeviceFigures &device) const {
    if (device.mmaFlopsPerCycle16b == 0 || device.special == 0)
      return {};
    return {estimateMultistage(cast<MultistageAttr>(schedule), tiles,
                               attn::DeviceModel::get(device))};
  }
  LogicalResult verifyUse(Attribute schedule, Operation *attention,
                          const attn::Target &target) const {
    if (!isa<StreamingOpInterface>(attention))
      return emitWrongUse(attention, schedule, "attention");
    if (failed(verifyFewQueries(attention,
                                cast<attn::ScheduleAttrInterface>(schedule))))
      return failure();
    return verifyTarget(attention, schedule, target,
                        attn::KernelScheduleKind::Multistage);
  }
  void buildKernelPipeline(Attribute attribute, OpPassManager &pm) const {
    auto schedule = cast<MultistageAttr>(attribute);
    buildMultistagePipeline(pm, getPipes(schedule.getStages()),
                            schedule.getWarps(), {});
  }
};

struct KeyMultistageSchedule
    : TiledSchedule<KeyMultistageSchedule, KeyMultistageAttr> {
  int64_t getHeadDimTile(Attribute schedule) const {
    return cast<KeyMultistageAttr>(schedule).getHeadDimTile();
  }
  LogicalResult verifyUse(Attribute schedule, Operation *attention,
                          const attn::Target &) const {
    return emitWrongUse(attention, schedule,
                        "kernels of '#attn_tile.gradient'");
  }
  void buildKernelPipeline(Attribute attribute, OpPassManager &pm) const {
    auto schedule = cast<KeyMultistageAttr>(attribute);
    AttnTileSplitRegionsPassOptions split;
    // S and dP leave no registers for loaded tiles.
    split.loadTiles = false;
    buildMultistagePipeline(pm, getPipes(schedule.getStages()),
                            schedule.getWarps(), split);
  }
};

struct WarpSpecializedSchedule
    : GPUForwardSchedule<WarpSpecializedSchedule, WarpSpecializedAttr> {
  int64_t getRowsPerRead(Attribute attribute) const {
    auto schedule = cast<WarpSpecializedAttr>(attribute);
    return schedule.getQueryTile() / schedule.getConsumers();
  }
  int64_t getColumnConsumers(Attribute attribute) const {
    auto schedule = cast<WarpSpecializedAttr>(attribute);
    return schedule.getConsumerColumns() ? schedule.getConsumers() : 1;
  }
  int64_t getClusterSize(Attribute schedule) const {
    return cast<WarpSpecializedAttr>(schedule).getCluster();
  }
  bool isRescaleConditional(Attribute schedule) const {
    return cast<WarpSpecializedAttr>(schedule).getConditionalRescale();
  }
  bool readsMaskBits(Attribute schedule) const {
    return cast<WarpSpecializedAttr>(schedule).getMaskBits();
  }
  bool readsTransposedValues(Attribute, Type element) const {
    return attn::isFloat8(element);
  }
  SmallVector<attn::KernelTime>
  estimateKernels(Attribute schedule, const attn::VisitedTiles &tiles,
                  const attn::DeviceFigures &device) const {
    if (device.mmaFlopsPerCycle16b == 0 || device.special == 0)
      return {};
    return estimateForward(cast<WarpSpecializedAttr>(schedule), tiles,
                           attn::DeviceModel::get(device));
  }
  LogicalResult verifyUse(Attribute schedule, Operation *attention,
                          const attn::Target &target) const {
    if (!isa<StreamingOpInterface>(attention))
      return emitWrongUse(attention, schedule, "attention");
    auto interface = cast<attn::ScheduleAttrInterface>(schedule);
    if (failed(verifyConsumerColumns(attention, interface)) ||
        failed(verifyFewQueries(attention, interface)) ||
        failed(verifyCluster(attention, interface)) ||
        failed(verifyFloat8(attention, interface)) ||
        failed(
            verifyConversion(attention, cast<WarpSpecializedAttr>(schedule))))
      return failure();
    return verifyTarget(attention, schedule, target,
                        attn::KernelScheduleKind::WarpSpecialized);
  }
  void buildKernelPipeline(Attribute attribute, OpPassManager &pm) const {
    auto schedule = cast<WarpSpecializedAttr>(attribute);
    // Loops are software-pipelined before anything is simplified: peeled loops
    // of a single step must still be loops then.
    pm.addNestedPass<KernelOp>(createAttnTilePeelMasksPass());
    AttnTileSoftwarePipelineKVLoopPassOptions rotation;
    rotation.deferredRescale = schedule.getDeferredRescale();
    // Keys that hold the values stay until their step ends.
    if (!schedule.getSkipEmptyRows() && !schedule.getConsumerColumns())
      pm.addNestedPass<KernelOp>(
          createAttnTileSoftwarePipelineKVLoopPass(rotation));
    AttnTileSplitRegionsPassOptions split;
    split.streamTiles = schedule.getScoreStages() != 0;
    pm.addNestedPass<KernelOp>(createAttnTileSplitRegionsPass(split));
    pm.addNestedPass<KernelOp>(createAttnTileHoistLoadsPass());
    AttnTileSetTraversalPassOptions traversal;
    traversal.kind = schedule.getTraversal();
    traversal.interleave = schedule.getInterleave();
    traversal.ctasPerSm = schedule.getCtasPerSm();
    traversal.cluster = schedule.getCluster();
    pm.addPass(createAttnTileSetTraversalPass(traversal));
    addCleanUp(pm);
    AttnTileCreatePipesPassOptions pipes;
    pipes.stages = schedule.getStages();
    pipes.queryStages = schedule.getQueryStages();
    pipes.scoreStages = schedule.getScoreStages();
    pipes.idleWarpsConvert = schedule.getIdleWarpsConvert();
    pm.addNestedPass<KernelOp>(createAttnTileCreatePipesPass(pipes));
    if (schedule.getConditionalRescale())
      pm.addNestedPass<KernelOp>(createAttnTileConditionalRescalePass());
    if (schedule.getExp2Emulation() > 0) {
      AttnTileEmulateExp2PassOptions mix;
      mix.sixteenths = schedule.getExp2Emulation();
      pm.addNestedPass<KernelOp>(createAttnTileEmulateExp2Pass(mix));
    }
    if (schedule.getSkipEmptyRows())
      pm.addNestedPass<KernelOp>(createAttnTileSkipEmptyRowsPass());
    AttnTileSplitRolesPassOptions roles;
    roles.consumers = schedule.getConsumers();
    roles.ctasPerSm = schedule.getCtasPerSm();
    roles.consumerColumns = schedule.getConsumerColumns();
    pm.addNestedPass<KernelOp>(createAttnTileSplitRolesPass(roles));
    addCleanUp(pm);
    pm.addNestedPass<KernelOp>(createAttnTileOverlapWorkItemsPass());
    if (schedule.getPingPong())
      pm.addNestedPass<KernelOp>(createAttnTilePingPongPass());
    AttnTileUseTensorMapsPassOptions maps;
    maps.l2Promotion = schedule.getL2Promotion();
    pm.addPass(createAttnTileUseTensorMapsPass(maps));
  }
};

/// A choice that `attn-dispatch-schedules` makes before kernels exist.
struct ByAlignmentSchedule
    : attn::ScheduleAttrInterface::ExternalModel<ByAlignmentSchedule,
                                                 ByAlignmentAttr> {
  int64_t getQueryTile(Attribute schedule) const {
    return cast<ByAlignmentAttr>(schedule).getAligned().getQueryTile();
  }
  int64_t getKeyTile(Attribute schedule) const {
    return cast<ByAlignmentAttr>(schedule).getAligned().getKeyTile();
  }
  attn::ScheduleAttrInterface getPreparation(Attribute schedule) const {
    return cast<ByAlignmentAttr>(schedule).getAligned().getPreparation();
  }
  SmallVector<attn::KernelTime>
  estimateKernels(Attribute schedule, const attn::VisitedTiles &tiles,
                  const attn::DeviceFigures &device) const {
    return cast<ByAlignmentAttr>(schedule).getAligned().estimateKernels(tiles,
                                                                        device);
  }
  LogicalResult verifyUse(Attribute attribute, Operation *attention,
                          const attn::Target &target) const {
    auto schedule = cast<ByAlignmentAttr>(attribute);
    if (!isa<StreamingOpInterface>(attention))
      return emitWrongUse(attention, attribute, "attention");
    return success(
        succeeded(schedule.getAligned().verifyUse(attention, target)) &&
        succeeded(schedule.getOtherwise().verifyUse(attention, target)));
  }
  void buildKernelPipeline(Attribute schedule, OpPassManager &pm) const {
    cast<ByAlignmentAttr>(schedule).getAligned().buildKernelPipeline(pm);
  }
};

struct KeyStationarySchedule
    : TiledSchedule<KeyStationarySchedule, KeyStationaryAttr> {
  // One thread of the producer does all of its work.
  bool leavesWarps(Attribute) const { return true; }
  int64_t getHeadDimTile(Attribute schedule) const {
    return cast<KeyStationaryAttr>(schedule).getHeadDimTile();
  }
  int64_t getColumnConsumers(Attribute attribute) const {
    auto schedule = cast<KeyStationaryAttr>(attribute);
    return schedule.getConsumerColumns() ? schedule.getConsumers() : 1;
  }
  int64_t getQueryParts(Attribute schedule) const {
    return cast<KeyStationaryAttr>(schedule).getQueryParts();
  }
  LogicalResult verifyUse(Attribute schedule, Operation *attention,
                          const attn::Target &) const {
    return emitWrongUse(attention, schedule,
                        "kernels of '#attn_tile.gradient'");
  }
  void buildKernelPipeline(Attribute attribute, OpPassManager &pm) const {
    auto schedule = cast<KeyStationaryAttr>(attribute);
    AttnTileSplitRegionsPassOptions split;
    // S and dP leave no registers for loaded tiles.
    split.loadTiles = false;
    pm.addNestedPass<KernelOp>(createAttnTileSplitRegionsPass(split));
    AttnTileSetTraversalPassOptions traversal;
    traversal.kind = schedule.getTraversal();
    traversal.interleave = schedule.getInterleave();
    traversal.inOrder =
        schedule.getDqRingDepth() > 0 || schedule.getOrderedDq();
    // The last items cover heads with neighbouring slots in the dQ ring buffer.
    // Most of these slots are free again by then. With a single query part, no
    // registers are left for this order.
    if (!schedule.getOrderedDq() && schedule.getQueryParts() > 1)
      traversal.lastWorkItems = schedule.getDqRingDepth() * 5 / 8;
    pm.addPass(createAttnTileSetTraversalPass(traversal));
    addCleanUp(pm);
    AttnTileCreatePipesPassOptions pipes;
    pipes.stages = schedule.getStages();
    pipes.queryStages = schedule.getKeyStages();
    // A stage that only the first MMA of a step reads is free again early.
    if (schedule.getPipelined())
      pipes.readOnceStages = 1;
    pipes.lhsRegisters = schedule.getLhsRegisters();
    // The warps that convert dQ take shared memory, too.
    pipes.shareRows = schedule.getDqRingDepth() > 0;
    pm.addNestedPass<KernelOp>(createAttnTileCreatePipesPass(pipes));
    AttnTileSplitRolesPassOptions roles;
    roles.consumers = schedule.getConsumers();
    roles.consumerColumns = schedule.getConsumerColumns();
    pm.addNestedPass<KernelOp>(createAttnTileSplitRolesPass(roles));
    addCleanUp(pm);
    AttnTileHoistLoadsPassOptions ahead;
    ahead.keepMask = true;
    pm.addNestedPass<KernelOp>(createAttnTileHoistLoadsPass(ahead));
    if (schedule.getPipelined())
      pm.addNestedPass<KernelOp>(createAttnTilePipelineStepsPass());
    if (schedule.getPipelined() && schedule.getLhsRegisters())
      pm.addNestedPass<KernelOp>(createAttnTileSinkOperandReadsPass());
    if (schedule.getPrefetchWorkItem()) {
      pm.addNestedPass<KernelOp>(createAttnTilePrefetchWorkItemsPass());
      addCleanUp(pm);
    }
    pm.addPass(createAttnTileUseTensorMapsPass());
  }
};

/// The common base of the schedules of matmuls. `Model` adds
/// `buildKernelPipeline` and the kind of its kernels.
template <typename Model, typename ScheduleAttr>
struct MatmulSchedule
    : attn::ScheduleAttrInterface::ExternalModel<Model, ScheduleAttr> {
  int64_t getQueryTile(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getRowTile();
  }
  int64_t getKeyTile(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getColumnTile();
  }
  int64_t getDepthTile(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getDepthTile();
  }
  attn::ScheduleAttrInterface getPreparation(Attribute schedule) const {
    return cast<attn::ScheduleAttrInterface>(schedule);
  }
  LogicalResult verifyUse(Attribute schedule, Operation *op,
                          const attn::Target &target) const {
    if (!isa<attn::MatmulOp>(op))
      return emitWrongUse(op, schedule, "matmuls");
    return verifyTarget(op, schedule, target, Model::kind);
  }
};

struct MatmulSequentialSchedule
    : MatmulSchedule<MatmulSequentialSchedule, MatmulSequentialAttr> {
  static constexpr auto kind = attn::KernelScheduleKind::Sequential;
  void buildKernelPipeline(Attribute, OpPassManager &) const {}
};

struct MatmulMultistageSchedule
    : MatmulSchedule<MatmulMultistageSchedule, MatmulMultistageAttr> {
  static constexpr auto kind = attn::KernelScheduleKind::Multistage;
  void buildKernelPipeline(Attribute attribute, OpPassManager &pm) const {
    auto schedule = cast<MatmulMultistageAttr>(attribute);
    AttnTileSplitRegionsPassOptions split;
    // The accumulators leave no registers for loaded tiles.
    split.loadTiles = false;
    buildMultistagePipeline(pm, getPipes(schedule.getStages()),
                            schedule.getWarps(), split);
  }
};

/// The common base of the schedules of linear attention. Chunks are the tiles
/// of queries and of keys.
template <typename Model, typename ScheduleAttr>
struct LinearSchedule
    : attn::ScheduleAttrInterface::ExternalModel<Model, ScheduleAttr> {
  int64_t getQueryTile(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getChunk();
  }
  int64_t getKeyTile(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getChunk();
  }
  int64_t getHeadDimTile(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getValueTile();
  }
  int64_t getSplitKvWorkItems(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getSplitWorkItems();
  }
  SmallVector<attn::KernelTime>
  estimateOpKernels(Attribute schedule, Operation *op,
                    const attn::CostAssumptions &assumptions,
                    const attn::DeviceFigures &device) const {
    return attn::estimateLinear(schedule, op, assumptions,
                                attn::DeviceModel::get(device));
  }
  attn::ScheduleAttrInterface getPreparation(Attribute schedule) const {
    return cast<attn::ScheduleAttrInterface>(
        Attribute(ScalarAttr::get(schedule.getContext(), /*warps=*/1)));
  }
  LogicalResult verifyUse(Attribute attribute, Operation *operation,
                          const attn::Target &) const {
    auto schedule = cast<ScheduleAttr>(attribute);
    if (auto op = dyn_cast<attn::LinearAttentionOp>(operation))
      return verifyChunk(op, schedule, schedule.getChunk());
    if (auto op = dyn_cast<attn::LinearAttentionGradOp>(operation))
      return verifyChunk(op, schedule, schedule.getChunk());
    return emitWrongUse(operation, attribute, "linear attention");
  }
};

struct LinearMultistageSchedule
    : LinearSchedule<LinearMultistageSchedule, LinearMultistageAttr> {
  bool multipliesByWarps(Attribute) const { return true; }
  void buildKernelPipeline(Attribute attribute, OpPassManager &pm) const {
    auto schedule = cast<LinearMultistageAttr>(attribute);
    AttnTileSplitRegionsPassOptions split;
    // The state leaves no registers for loaded tiles.
    split.loadTiles = false;
    AttnTileCreatePipesPassOptions pipes = getPipes(schedule.getStages());
    pipes.localStages = schedule.getLocalStages();
    pipes.readOperands = true;
    buildMultistagePipeline(pm, pipes, schedule.getWarps(), split,
                            /*hoistRows=*/schedule.getRowsAhead(),
                            schedule.getRefill());
  }
};

struct LinearWarpSpecializedSchedule
    : LinearSchedule<LinearWarpSpecializedSchedule, LinearWarpSpecializedAttr> {
  void buildKernelPipeline(Attribute attribute, OpPassManager &pm) const {
    auto schedule = cast<LinearWarpSpecializedAttr>(attribute);
    AttnTileSplitRegionsPassOptions split;
    // The state leaves no registers for loaded tiles.
    split.loadTiles = false;
    pm.addNestedPass<KernelOp>(createAttnTileSplitRegionsPass(split));
    pm.addPass(createAttnTileSetTraversalPass());
    if (schedule.getRowsAhead()) {
      AttnTileHoistLoadsPassOptions ahead;
      ahead.rows = true;
      pm.addNestedPass<KernelOp>(createAttnTileHoistLoadsPass(ahead));
    }
    addCleanUp(pm);
    AttnTileCreatePipesPassOptions pipes = getPipes(schedule.getStages());
    pipes.localStages = schedule.getLocalStages();
    pipes.readOperands = true;
    pm.addNestedPass<KernelOp>(createAttnTileCreatePipesPass(pipes));
    AttnTileSplitRolesPassOptions roles;
    roles.consumers = schedule.getChunk() / warpgroupRows;
    roles.ctasPerSm = schedule.getCtasPerSm();
    pm.addNestedPass<KernelOp>(createAttnTileSplitRolesPass(roles));
    addCleanUp(pm);
    pm.addPass(createAttnTileUseTensorMapsPass());
  }
};

/// Kernels with pair matrices carry the parts of this schedule. The kernels
/// with all chunks at once have columns of queries and keys.
struct LinearPairsSchedule
    : attn::ScheduleAttrInterface::ExternalModel<LinearPairsSchedule,
                                                 LinearPairsAttr> {
  static attn::ScheduleAttrInterface getPairs(Attribute schedule) {
    return cast<LinearPairsAttr>(schedule).getPairs();
  }
  int64_t getQueryTile(Attribute schedule) const {
    return getPairs(schedule).getQueryTile();
  }
  int64_t getKeyTile(Attribute schedule) const {
    return getPairs(schedule).getKeyTile();
  }
  int64_t getHeadDimTile(Attribute schedule) const {
    return getPairs(schedule).getHeadDimTile();
  }
  int64_t getSplitKvWorkItems(Attribute schedule) const {
    return getPairs(schedule).getSplitKvWorkItems();
  }
  attn::ScheduleAttrInterface getPreparation(Attribute schedule) const {
    return getPairs(schedule).getPreparation();
  }
  SmallVector<attn::KernelTime>
  estimateOpKernels(Attribute schedule, Operation *op,
                    const attn::CostAssumptions &assumptions,
                    const attn::DeviceFigures &device) const {
    return attn::estimateLinear(schedule, op, assumptions,
                                attn::DeviceModel::get(device));
  }
  LogicalResult verifyUse(Attribute attribute, Operation *operation,
                          const attn::Target &target) const {
    auto schedule = cast<LinearPairsAttr>(attribute);
    for (Attribute part :
         {Attribute(schedule.getChunks()), Attribute(schedule.getNarrow()),
          Attribute(schedule.getGradients())})
      if (isa_and_nonnull<LinearWarpSpecializedAttr>(part) &&
          failed(verifyTarget(operation, part, target,
                              attn::KernelScheduleKind::WarpSpecialized)))
        return failure();
    if (auto op = dyn_cast<attn::LinearAttentionOp>(operation))
      return verifyChunk(op, schedule, getQueryTile(schedule));
    if (auto op = dyn_cast<attn::LinearAttentionGradOp>(operation))
      return verifyChunk(op, schedule, getQueryTile(schedule));
    return emitWrongUse(operation, attribute, "linear attention");
  }

  void buildKernelPipeline(Attribute schedule, OpPassManager &pm) const {
    getPairs(schedule).buildKernelPipeline(pm);
  }
};

/// A choice that `attn-dispatch-schedules` makes before kernels exist.
struct ByWorkItemsSchedule
    : attn::ScheduleAttrInterface::ExternalModel<ByWorkItemsSchedule,
                                                 ByWorkItemsAttr> {
  int64_t getQueryTile(Attribute schedule) const {
    return cast<ByWorkItemsAttr>(schedule).getOtherwise().getQueryTile();
  }
  int64_t getKeyTile(Attribute schedule) const {
    return cast<ByWorkItemsAttr>(schedule).getOtherwise().getKeyTile();
  }
  int64_t getHeadDimTile(Attribute schedule) const {
    return cast<ByWorkItemsAttr>(schedule).getOtherwise().getHeadDimTile();
  }
  attn::ScheduleAttrInterface getPreparation(Attribute schedule) const {
    return cast<ByWorkItemsAttr>(schedule).getOtherwise().getPreparation();
  }
  SmallVector<attn::KernelTime>
  estimateOpKernels(Attribute schedule, Operation *op,
                    const attn::CostAssumptions &assumptions,
                    const attn::DeviceFigures &device) const {
    return attn::estimateLinear(schedule, op, assumptions,
                                attn::DeviceModel::get(device));
  }
  LogicalResult verifyUse(Attribute attribute, Operation *operation,
                          const attn::Target &target) const {
    auto schedule = cast<ByWorkItemsAttr>(attribute);
    return success(
        succeeded(schedule.getWithin().verifyUse(operation, target)) &&
        succeeded(schedule.getOtherwise().verifyUse(operation, target)));
  }
  void buildKernelPipeline(Attribute schedule, OpPassManager &pm) const {
    cast<ByWorkItemsAttr>(schedule).getOtherwise().buildKernelPipeline(pm);
  }
};

/// Kernels for few tokens have no tiles in shared memory, and no MMAs.
struct LinearRecurrentSchedule
    : attn::ScheduleAttrInterface::ExternalModel<LinearRecurrentSchedule,
                                                 LinearRecurrentAttr> {
  int64_t getQueryTile(Attribute) const { return 1; }
  int64_t getKeyTile(Attribute) const { return 1; }
  int64_t getHeadDimTile(Attribute schedule) const {
    return cast<LinearRecurrentAttr>(schedule).getValueTile();
  }
  attn::ScheduleAttrInterface getPreparation(Attribute schedule) const {
    return cast<attn::ScheduleAttrInterface>(schedule);
  }
  SmallVector<attn::KernelTime>
  estimateOpKernels(Attribute schedule, Operation *op,
                    const attn::CostAssumptions &assumptions,
                    const attn::DeviceFigures &device) const {
    return attn::estimateLinear(schedule, op, assumptions,
                                attn::DeviceModel::get(device));
  }
  LogicalResult verifyUse(Attribute attribute, Operation *operation,
                          const attn::Target &target) const {
    auto schedule = cast<LinearRecurrentAttr>(attribute);
    auto op = dyn_cast<attn::LinearAttentionOp>(operation);
    if (!op)
      return emitWrongUse(operation, attribute, "linear attention");
    if (target.isHost())
      return op.emitOpError("cannot have schedule '")
             << attribute << "' on " << target.getName() << ", it is for GPUs";
    // A thread has so many elements of the state in registers, and parts of
    // warps with as many rows.
    constexpr int64_t maxStateOfThread = 128, columnsOfThread = 4;
    int64_t rowParts = warpThreads * columnsOfThread / schedule.getValueTile();
    int64_t mostRows = rowParts * maxStateOfThread / columnsOfThread;
    int64_t rows = op.getKeyHeadDim();
    if (rows % rowParts == 0 && rows <= mostRows)
      return success();
    return op.emitOpError("head dim of 'key' for schedule '")
           << attribute << "' must be a multiple of " << rowParts
           << " and at most " << mostRows << " (was " << rows << ")";
  }
  void buildKernelPipeline(Attribute, OpPassManager &pm) const {
    buildScalarPipeline(pm, /*warps=*/1);
  }
};

struct MatmulWarpSpecializedSchedule
    : MatmulSchedule<MatmulWarpSpecializedSchedule, MatmulWarpSpecializedAttr> {
  static constexpr auto kind = attn::KernelScheduleKind::WarpSpecialized;
  // One thread of the producer does all of its work.
  bool leavesWarps(Attribute) const { return true; }
  void buildKernelPipeline(Attribute attribute, OpPassManager &pm) const {
    auto schedule = cast<MatmulWarpSpecializedAttr>(attribute);
    AttnTileSplitRegionsPassOptions split;
    // The accumulators leave no registers for loaded tiles.
    split.loadTiles = false;
    pm.addNestedPass<KernelOp>(createAttnTileSplitRegionsPass(split));
    AttnTileSetTraversalPassOptions traversal;
    traversal.kind = TraversalKind::Persistent;
    traversal.interleave = schedule.getInterleave();
    pm.addPass(createAttnTileSetTraversalPass(traversal));
    addCleanUp(pm);
    AttnTileCreatePipesPassOptions pipes;
    pipes.stages = schedule.getStages();
    pm.addNestedPass<KernelOp>(createAttnTileCreatePipesPass(pipes));
    AttnTileStageStoresPassOptions stores;
    stores.consumers = schedule.getConsumers();
    pm.addNestedPass<KernelOp>(createAttnTileStageStoresPass(stores));
    AttnTileSplitRolesPassOptions roles;
    roles.consumers = schedule.getConsumers();
    pm.addNestedPass<KernelOp>(createAttnTileSplitRolesPass(roles));
    addCleanUp(pm);
    pm.addNestedPass<KernelOp>(createAttnTilePipelineMmaPass());
    pm.addPass(createAttnTileUseTensorMapsPass());
  }
};

/// The kernels of a gradient carry the parts of this schedule.
struct GradientSchedule
    : attn::ScheduleAttrInterface::ExternalModel<GradientSchedule,
                                                 GradientAttr> {
  int64_t getQueryTile(Attribute schedule) const {
    return cast<GradientAttr>(schedule).getDkdv().getQueryTile();
  }
  int64_t getKeyTile(Attribute schedule) const {
    return cast<GradientAttr>(schedule).getDkdv().getKeyTile();
  }
  attn::ScheduleAttrInterface getPreparation(Attribute schedule) const {
    return cast<GradientAttr>(schedule).getDkdv().getPreparation();
  }
  attn::GradSchedules getGradSchedules(Attribute attribute) const {
    auto schedule = cast<GradientAttr>(attribute);
    auto keys = dyn_cast<KeyStationaryAttr>(Attribute(schedule.getDkdv()));
    return {schedule.getPreprocess(),
            schedule.getDkdv(),
            schedule.getDv(),
            schedule.getDq(),
            keys ? keys.getDqRingDepth() : 0,
            keys && keys.getOrderedDq(),
            keys && keys.getTraversal() == TraversalKind::Paired};
  }
  SmallVector<attn::KernelTime>
  estimateKernels(Attribute schedule, const attn::VisitedTiles &tiles,
                  const attn::DeviceFigures &device) const {
    attn::GradSchedules parts = getGradSchedules(schedule);
    if (isa<SequentialAttr>(parts.dkdv))
      return estimateSequentialGradient(parts, tiles,
                                        attn::DeviceModel::get(device));
    if (device.mmaFlopsPerCycle16b == 0 || device.special == 0)
      return {};
    return estimateGradient(cast<GradientAttr>(schedule), tiles,
                            attn::DeviceModel::get(device));
  }
  /// Checks that gradients have what the schedule of a kernel asks for.
  static LogicalResult verifyFeatures(Operation *attention, StringRef name,
                                      Attribute part) {
    auto schedule = dyn_cast_if_present<attn::ScheduleAttrInterface>(part);
    if (!schedule)
      return success();
    StringRef feature;
    if (schedule.getSplitKvWorkItems() > 0 || schedule.packsGqa())
      feature = "split keys and values or pack GQA heads";
    else if (schedule.readsMaskBits())
      feature = "read mask bits";
    else if (schedule.getClusterSize() > 1)
      feature = "iterate over keys in clusters";
    else
      return success();
    return attention->emitOpError("cannot ")
           << feature << " as '" << name << "' = '" << part
           << "' says: gradients cannot";
  }
  /// Checks the schedule of one kernel, if there is one.
  static LogicalResult verifyPart(Operation *attention, StringRef name,
                                  Attribute part, const attn::Target &target,
                                  bool isForGPU) {
    if (failed(verifyFeatures(attention, name, part)))
      return failure();
    if (!part || (target.isHost() ? isa<SequentialAttr>(part) : isForGPU))
      return success();
    InFlightDiagnostic diagnostic = attention->emitOpError("cannot have '")
                                    << name << "' = '" << part << "' on target "
                                    << target.getName();
    if (getKernelKind(attention, target) != target.getKernelScheduleKind())
      diagnostic << " with " << getElementTypeOrSelf(attention->getOperand(0))
                 << " elements";
    return diagnostic;
  }
  LogicalResult verifyUse(Attribute attribute, Operation *attention,
                          const attn::Target &target) const {
    if (!isa<StreamingGradOpInterface>(attention))
      return emitWrongUse(attention, attribute, "gradients");
    auto schedule = cast<GradientAttr>(attribute);
    attn::KernelScheduleKind kind = getKernelKind(attention, target);
    bool isWarpSpecialized = kind == attn::KernelScheduleKind::WarpSpecialized;
    auto isOfKeys = [&](Attribute part) {
      return isWarpSpecialized ? isa_and_nonnull<KeyStationaryAttr>(part)
                               : isa_and_nonnull<KeyMultistageAttr>(part);
    };
    auto isOfQueries = [&](Attribute part) {
      return isWarpSpecialized ? isa_and_nonnull<WarpSpecializedAttr>(part)
                               : isa_and_nonnull<MultistageAttr>(part);
    };
    auto verify = [&](StringRef name, Attribute part, bool isForGPU) {
      return verifyPart(attention, name, part, target, isForGPU);
    };
    Attribute preprocess = schedule.getPreprocess(), dkdv = schedule.getDkdv(),
              dq = schedule.getDq(), dv = schedule.getDv();
    if (failed(verify("preprocess", preprocess,
                      isa<MultistageAttr>(preprocess))) ||
        failed(verify("dkdv", dkdv, isOfKeys(dkdv))) ||
        failed(verify("dq", dq, isOfQueries(dq))) ||
        failed(verify("dv", dv, isOfKeys(dv))))
      return failure();
    if (kind == attn::KernelScheduleKind::Multistage && !schedule.getDq())
      return attention->emitOpError("needs 'dq' in schedule '")
             << attribute << "': no kernel for " << target.getName()
             << " accumulates dQ together with dK and dV";
    return success();
  }
  void buildKernelPipeline(Attribute schedule, OpPassManager &pm) const {
    cast<GradientAttr>(schedule).getDkdv().buildKernelPipeline(pm);
  }
};
} // namespace

void mlir::attn_tile::registerScheduleInterfaceExternalModels(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AttnTileDialect *) {
    SequentialAttr::attachInterface<SequentialSchedule>(*context);
    ScalarAttr::attachInterface<ScalarSchedule>(*context);
    MoveRowsAttr::attachInterface<MoveRowsSchedule>(*context);
    MultistageAttr::attachInterface<MultistageSchedule>(*context);
    WarpSpecializedAttr::attachInterface<WarpSpecializedSchedule>(*context);
    ByAlignmentAttr::attachInterface<ByAlignmentSchedule>(*context);
    KeyStationaryAttr::attachInterface<KeyStationarySchedule>(*context);
    KeyMultistageAttr::attachInterface<KeyMultistageSchedule>(*context);
    GradientAttr::attachInterface<GradientSchedule>(*context);
    MatmulSequentialAttr::attachInterface<MatmulSequentialSchedule>(*context);
    MatmulMultistageAttr::attachInterface<MatmulMultistageSchedule>(*context);
    LinearMultistageAttr::attachInterface<LinearMultistageSchedule>(*context);
    LinearWarpSpecializedAttr::attachInterface<LinearWarpSpecializedSchedule>(
        *context);
    LinearPairsAttr::attachInterface<LinearPairsSchedule>(*context);
    LinearRecurrentAttr::attachInterface<LinearRecurrentSchedule>(*context);
    ByWorkItemsAttr::attachInterface<ByWorkItemsSchedule>(*context);
    MatmulWarpSpecializedAttr::attachInterface<MatmulWarpSpecializedSchedule>(
        *context);
  });
}
