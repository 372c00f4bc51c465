//===- ScheduleTime.cpp - Estimates of the time of kernels ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel takes as long as the SM with the most steps and work items.
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/ScheduleTime.h"
#include "attn/Analysis/ScoreFactor.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "attn/PerfModel/BusiestSM.h"
#include "attn/PerfModel/Capacity.h"
#include "attn/PerfModel/DeviceTime.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/PerfModel/ScoreWork.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::attn_tile;

/// Elements of a row that a warp of the kernel that combines KV splits has.
static constexpr int64_t combineBlock = 32;
/// Registers of a thread in addition to its tiles.
static constexpr double registersBesideTiles = 57;
/// Padding queries of a sequence.
static constexpr double paddedQueries = 128;

/// Instructions of single threads that an SM issues in a cycle.
static constexpr double issuedPerCycle = 128;

/// Concurrent work takes as long as its longest part, and somewhat longer if
/// other parts are nearly as long.
static double overlap(std::initializer_list<double> cycles, double power) {
  double sum = 0;
  for (double each : cycles)
    sum += std::pow(each, power);
  return std::pow(sum, 1 / power);
}

/// Work of the score_mod in kernels of attention, whose softmax scale takes a
/// factor of all scores.
static attn::ScoreWork countScoreModWork(attn::AttentionOpInterface op) {
  return attn::changesSingleScores(op) ? attn::countScoreWork(op.getScoreMod())
                                       : attn::ScoreWork();
}

/// Cycles of a thread that a score_mod takes for each score.
static double getScoreModCycles(const attn::ScoreWork &work, bool isStaged,
                                const attn::Calibration &fit) {
  return fit.instruction * work.instructions + fit.special * work.special +
         (isStaged ? fit.stagedLoad : fit.load) * work.loads;
}

/// Tiles of `queryTile` rows for all query heads of a GQA group, for each tile
/// of the queries of one head.
static double countPackedTiles(const attn::VisitedTiles &tiles,
                               int64_t queryTile) {
  int64_t rows = tiles.getNumQueries() * tiles.getOp().getGroupSize();
  return double(llvm::divideCeil(rows, queryTile)) /
         double(tiles.getNumRows(queryTile));
}

double attn_tile::countSplits(int64_t splitKVWorkItems, double wholeWorkItems,
                              const attn::TileCounts &counts) {
  return std::clamp(
      std::floor(double(splitKVWorkItems) / std::max(wholeWorkItems, 1.0)), 1.0,
      std::max(double(counts.most), 1.0));
}

static double getCombineCycles(const attn::VisitedTiles &tiles,
                               const attn::DeviceModel &device) {
  const attn::Calibration &fit = device.calibration;
  attn::AttentionOpInterface op = tiles.getOp();
  double blocks = tiles.getNumHeads() * double(tiles.getNumQueries()) *
                  double(llvm::divideCeil(op.getVHeadDim(), combineBlock));
  return fit.combine + fit.combineBlock * blocks / double(device.sms);
}

/// Sets the launch of `time`, and slows it down by power throttling. Kernels
/// with `ramps` fill the device slowly, and empty it slowly.
static void setLaunch(attn::KernelTime &time, bool ramps,
                      const attn::Calibration &fit) {
  double computed = time.numSteps * time.step + time.numMasked * time.mask +
                    time.numWorkItems * time.workItem;
  bool isComputing = computed >= time.memory;
  time.launch = attn::getLaunchCycles(isComputing && ramps ? computed : 0, fit);
  if (isComputing)
    time.cyclesPerSecond /=
        attn::getThrottling(computed / time.cyclesPerSecond, fit);
}

/// Columns of the values that a work item multiplies.
static double getVColumns(attn::AttentionOpInterface op, int64_t headDimTile) {
  auto all = double(llvm::alignTo(op.getVHeadDim(), headDimStep));
  return headDimTile == 0 ? all : std::min(all, double(headDimTile));
}

/// Cycles in which the consumers of a step read the multiplicands of their MMAs
/// from shared memory: queries and keys of each 16 columns of the scores, and
/// values of each 16 keys.
static double getMultiplicandCycles(WarpSpecializedAttr schedule,
                                    double elementBytes, double qkHeadDim,
                                    double vColumns,
                                    const attn::DeviceModel &device) {
  auto keyTile = double(schedule.getKeyTile());
  double elements = qkHeadDim * (warpgroupRows + keyTile) + keyTile * vColumns;
  return double(schedule.getConsumers()) * elementBytes * elements /
         double(device.sharedBytesPerCycle);
}

/// Cycles in which the keys and values of a step, of `rowBytes` for each key,
/// are copied. Each CTA of a cluster copies its part to all CTAs. Wide heads
/// need more bytes for each score than L2 gives all SMs at a time.
static double getCopyCycles(WarpSpecializedAttr schedule, double rowBytes,
                            bool isWide, const attn::DeviceModel &device) {
  double bytes =
      double(schedule.getKeyTile()) * rowBytes / double(schedule.getCluster());
  double cycles = bytes / device.calibration.copiedBytesPerCycle;
  if (isWide)
    cycles = std::max(cycles, bytes * double(device.sms) /
                                  double(device.l2BytesPerCycle));
  return cycles;
}

/// Columns of the queries and keys that a work item multiplies.
static double getQKColumns(attn::AttentionOpInterface op) {
  return double(llvm::alignTo(op.getQKHeadDim(), headDimStep));
}

/// Bytes of a key and a value of a position.
static double getKVRowBytes(attn::AttentionOpInterface op) {
  int64_t ofValues = attn::hasValuesInKeys(op) ? 0 : op.getVHeadDim();
  return double(attn::getElementBytes(op.getKey())) *
         double(op.getQKHeadDim() + ofValues);
}

/// Bytes of the keys and values of a position of all heads, for each query
/// head.
static double getKVBytesOfQueryHead(attn::AttentionOpInterface op) {
  int64_t ofKeys = op.getNumKeyHeads() * op.getQKHeadDim();
  int64_t ofValues = op.getNumValueHeads() * op.getVHeadDim();
  if (attn::hasValuesInKeys(op))
    ofValues = 0;
  return double(attn::getElementBytes(op.getKey())) *
         double(ofKeys + ofValues) / double(op.getNumQueryHeads());
}

/// Bytes of the keys and values of a position that a step copies. Only kernels
/// whose consumers have columns of their own read values from the keys.
static double getStepRowBytes(WarpSpecializedAttr schedule,
                              attn::AttentionOpInterface op) {
  if (schedule.getConsumerColumns())
    return getKVRowBytes(op);
  auto columns = double(op.getQKHeadDim() + op.getVHeadDim());
  if (schedule.getHeadDimTile() > 0)
    columns = getQKColumns(op) + getVColumns(op, schedule.getHeadDimTile());
  return double(attn::getElementBytes(op.getKey())) * columns;
}

/// Estimates the time of a step, and its parts.
static void estimateStep(attn::KernelTime &time, WarpSpecializedAttr schedule,
                         attn::AttentionOpInterface op,
                         const attn::DeviceModel &device) {
  const attn::Calibration &fit = device.calibration;
  auto queryTile = double(schedule.getQueryTile());
  auto keyTile = double(schedule.getKeyTile());
  double qkHeadDim = getQKColumns(op);
  double vHeadDim = getVColumns(op, schedule.getHeadDimTile());
  // While one warpgroup computes its softmax, the others run their MMAs. A
  // single warpgroup needs the time of its MMAs and of its softmax.
  double scores = queryTile * keyTile;
  // Consumers with columns of their own compute all scores each.
  double times =
      schedule.getConsumerColumns() ? double(schedule.getConsumers()) : 1;
  auto instruction =
      WgmmaAttr::get(op->getContext(), getElementTypeOrSelf(op.getQuery()));
  double mma = fit.mmaCycle * 2 * scores * times * (qkHeadDim + vHeadDim) /
               instruction.getFlopsPerCycle(device);
  // Narrow MMAs wait for shared memory.
  if (schedule.getKeyTile() < warpgroupRows || times > 1)
    mma = std::max(
        mma, getMultiplicandCycles(schedule,
                                   double(attn::getElementBytes(op.getQuery())),
                                   qkHeadDim, vHeadDim, device));
  double threadScores = keyTile * warpgroupRows / warpgroupThreads;
  double consumers = double(schedule.getConsumers());
  double polynomials = double(schedule.getExp2Emulation()) / 16;
  attn::ScoreWork work = countScoreModWork(op);
  bool isStaged = schedule.getScoreStages() > 0;
  double chain = mma / consumers + (fit.score + fit.emulatedExp2 * polynomials +
                                    getScoreModCycles(work, isStaged, fit)) *
                                       threadScores;
  double exponentials = fit.exponentialCycle *
                        (1 - polynomials + work.special) * scores * times /
                        double(device.special);
  double instructions = fit.issuedPerScore + work.instructions + work.ahead +
                        fit.issuedPerLoad * (isStaged ? 0 : work.loads);
  double issued = instructions * scores * times / issuedPerCycle;
  double step = overlap({mma, chain, exponentials, issued}, fit.overlapNorm) +
                fit.pingpong * (consumers - 1);
  step += fit.gather * work.gathers * scores;
  if (isStaged)
    step += work.bytes * scores / fit.addendBytesPerCycle;
  step += attn::getKeepMaskCycles(op, /*isGradient=*/false, fit) * scores;
  bool isWide =
      qkHeadDim > double(maxMmaColumns) || schedule.getHeadDimTile() > 0;
  attn::ScoreWork maskMod = attn::countScoreWork(op.getMaskMod());
  time.mma = mma;
  time.chain = chain;
  time.exponentials = exponentials;
  time.step =
      std::max(step, getCopyCycles(schedule, getStepRowBytes(schedule, op),
                                   isWide, device));
  time.mask = (fit.maskedScore +
               fit.maskModInstruction * (maskMod.ahead + maskMod.loads)) *
              threadScores;
}

/// GQA groups for each query head.
static double getGroupRatio(attn::AttentionOpInterface op) {
  return double(op.getNumGroups()) / double(op.getNumQueryHeads());
}

namespace {
/// The work of the SM that has the most of it.
struct BusiestSM {
  /// Visited tiles of one head.
  double total;
  double splits, items, steps, masked;
  /// The most steps of a work item.
  double most;
};
} // namespace

/// The SM with the most steps of `schedule`, if its work items have a fixed
/// order that is known.
static std::optional<SMWork> findBusiestSM(WarpSpecializedAttr schedule,
                                           const attn::VisitedTiles &tiles,
                                           const attn::TileCounts &counts,
                                           double heads, double splits,
                                           const attn::DeviceModel &device) {
  // Which SMs get long rows depends on the very number of heads and rows.
  if (schedule.getTraversal() != TraversalKind::Persistent ||
      schedule.getPackGqa() || splits > 1 || !tiles.areSizesExact())
    return std::nullopt;
  int64_t programs = std::max<int64_t>(device.sms / schedule.getCluster(), 1);
  return attn_tile::findBusiestSM(counts.rows, heads, programs,
                                  schedule.getInterleave());
}

/// Counts the work of the busiest SM. The paired traversal gives all CTAs the
/// same amount of work, the persistent one what its order of work items says.
/// Otherwise some CTAs get one work item more, of the longest kind.
static BusiestSM countBusiestSM(WarpSpecializedAttr schedule,
                                const attn::VisitedTiles &tiles,
                                const attn::DeviceModel &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  auto cluster = double(schedule.getCluster());
  double heads = tiles.getNumHeads();
  if (schedule.getPackGqa())
    heads *=
        getGroupRatio(op) * countPackedTiles(tiles, schedule.getQueryTile());
  heads *= double(attn::countHeadDimTiles(
      op.getVHeadDim(),
      cast<attn::ScheduleAttrInterface>(Attribute(schedule))));
  // The work items of a cluster visit the tiles that any of them needs.
  int64_t clusterTile = schedule.getCluster() * schedule.getQueryTile();
  const attn::TileCounts &counts =
      tiles.count(clusterTile, schedule.getKeyTile());
  double sms = double(device.sms);
  double wholeWorkItems =
      heads * cluster * double(tiles.getNumRows(clusterTile));
  double splits =
      countSplits(schedule.getSplitKvWorkItems(), wholeWorkItems, counts);
  double items = wholeWorkItems * splits / sms;
  double most = std::ceil(double(counts.most) / splits);
  double steps = heads * cluster * counts.total / sms;
  double masked = heads * cluster * counts.masked / sms;
  if (schedule.getTraversal() == TraversalKind::Paired) {
    steps = std::max(steps, most);
  } else if (std::optional<SMWork> busiest = findBusiestSM(
                 schedule, tiles, counts, heads, splits, device)) {
    steps = double(busiest->steps);
    masked = double(busiest->masked);
    items = double(busiest->workItems);
  } else {
    double rounds = std::ceil(items);
    steps += (rounds - items) * most;
    masked += (rounds - items) * std::min(double(counts.mostMasked), most);
    items = rounds;
  }
  return {counts.total, splits, items, steps, masked, most};
}

/// Cycles in which keys and values come from memory. They come once: heads that
/// share them, and tiles of queries of one head, run at about the same time.
static double getMemoryCycles(WarpSpecializedAttr schedule,
                              const attn::VisitedTiles &tiles,
                              const BusiestSM &busiest,
                              const attn::DeviceModel &device) {
  const attn::Calibration &fit = device.calibration;
  attn::AttentionOpInterface op = tiles.getOp();
  auto keyTile = double(schedule.getKeyTile());
  double keys = std::min(double(tiles.getNumKeys()), busiest.total * keyTile);
  double streamed = tiles.getNumHeads() * keys * getKVBytesOfQueryHead(op);
  double cyclesPerSecond = double(device.clockMHz) * 1e6;
  double memory = cyclesPerSecond *
                  attn::getMemorySeconds(streamed, attn::Traffic::Read, device);
  // If a head has a single tile of queries, each work item reads its keys and
  // values from memory, limited by the rate of its SM.
  if (tiles.getNumRows(schedule.getQueryTile()) == 1) {
    if (schedule.getL2Promotion() > columnBlockBytes)
      memory *= fit.widePromotion;
    memory = std::max(memory, std::ceil(busiest.items) * busiest.most *
                                  keyTile * getStepRowBytes(schedule, op) /
                                  fit.smBytesPerCycle);
  }
  return memory;
}

static attn::KernelTime
estimateWarpSpecialized(WarpSpecializedAttr schedule,
                        const attn::VisitedTiles &tiles,
                        const attn::DeviceModel &device) {
  const attn::Calibration &fit = device.calibration;
  attn::KernelTime time;
  time.name = "attention";
  time.consumers = schedule.getConsumers();
  estimateStep(time, schedule, tiles.getOp(), device);
  time.workItem =
      fit.workItem + (schedule.getQueryStages() == 1 ? fit.lateQueries : 0);
  BusiestSM busiest = countBusiestSM(schedule, tiles, device);
  time.numSteps = busiest.steps;
  time.numMasked = busiest.masked;
  time.numWorkItems = busiest.items;
  time.memory = getMemoryCycles(schedule, tiles, busiest, device);
  time.combine = busiest.splits > 1 ? getCombineCycles(tiles, device) : 0;
  time.cyclesPerSecond = double(device.clockMHz) * 1e6;
  setLaunch(time, /*ramps=*/time.consumers > 1, fit);
  time.launch += schedule.getCluster() > 1 ? fit.cluster : 0;
  return time;
}

/// The instruction of the MMAs of `op` where all warps copy and compute.
static MmaAttrInterface getMmaSync(attn::AttentionOpInterface op) {
  Type element = getElementTypeOrSelf(op.getQuery());
  MLIRContext *context = element.getContext();
  if (!element.isF32())
    return MmaSyncAttr::get(context, element, /*terms=*/1);
  auto precision = op->getAttrOfType<attn::MatmulPrecisionAttr>("precision");
  bool isHighest =
      !precision || precision.getValue() == attn::MatmulPrecision::Highest;
  return MmaSyncAttr::get(context, FloatTF32Type::get(context),
                          /*terms=*/isHighest ? 3 : 1);
}

/// Cycles in which a CTA rounds `elements` to the multiplicands of
/// `instruction`, as often as warps read them.
static double getRoundingCycles(MmaAttrInterface instruction, double elements) {
  if (!instruction.getElementType().isF32())
    return 0;
  // A rounding; or a mask, a subtraction and a rounding.
  double instructions = double(instruction.getNumTerms());
  return instructions * elements / issuedPerCycle;
}

/// CTAs of `schedule` that an SM holds at a time.
static int64_t countCtas(MultistageAttr schedule, attn::AttentionOpInterface op,
                         const attn::DeviceModel &device) {
  int64_t elementBytes = attn::getElementBytes(op.getQuery());
  auto rowBytes = [&](int64_t headDim) {
    return int64_t(llvm::alignTo(elementBytes * headDim, columnBlockBytes));
  };
  int64_t threads = warpThreads * schedule.getWarps();
  int64_t vColumns = op.getVHeadDim();
  if (int64_t tile = schedule.getHeadDimTile(); tile > 0)
    vColumns = std::min(vColumns, tile);
  // P takes half a register of each score next to it, or as f32 its register.
  double registersPerScore = elementBytes == 4 ? 1 : 1.5;
  attn::CapacityNeed need;
  need.sharedBytes =
      double(schedule.getQueryTile() * rowBytes(op.getQKHeadDim()) +
             schedule.getStages() * schedule.getKeyTile() *
                 (rowBytes(op.getQKHeadDim()) + rowBytes(vColumns)));
  need.registers =
      registersPerScore *
          double(schedule.getQueryTile() * schedule.getKeyTile()) /
          double(threads) +
      double(schedule.getQueryTile() * vColumns) / double(threads) +
      registersBesideTiles;
  return attn::countCtasPerSm(need, threads, device);
}

/// Adds the idle steps of SMs at the end of a kernel with one role, whose work
/// items the device hands out and have at most `most` steps. If work items are
/// alike, some SMs have one more than others. If they are `uneven`, long ones
/// may be the last.
static void addLastWorkItems(attn::KernelTime &time, bool uneven, double most,
                             double ctasPerSm, const attn::Calibration &fit) {
  if (uneven) {
    time.numSteps += fit.syncLastWorkItems * most * ctasPerSm;
    return;
  }
  double rounds = std::ceil(time.numWorkItems / ctasPerSm) * ctasPerSm;
  time.numSteps += (rounds - time.numWorkItems) * most;
  time.numWorkItems = rounds;
}

attn::KernelTime
attn_tile::estimateMultistage(MultistageAttr schedule,
                              const attn::VisitedTiles &tiles,
                              const attn::DeviceModel &device) {
  const attn::Calibration &fit = device.calibration;
  attn::AttentionOpInterface op = tiles.getOp();
  auto queryTile = double(schedule.getQueryTile());
  auto keyTile = double(schedule.getKeyTile());
  auto warps = double(schedule.getWarps());
  double qkHeadDim = getQKColumns(op);
  double vHeadDim = getVColumns(op, schedule.getHeadDimTile());
  auto elementBytes = double(attn::getElementBytes(op.getQuery()));

  // Each warp reads the keys and values that all warps have staged, and the
  // queries of its rows.
  double scores = queryTile * keyTile;
  MmaAttrInterface instruction = getMmaSync(op);
  double mma = 2 * scores * (qkHeadDim + vHeadDim) /
               instruction.getFlopsPerCycle(device);
  double staged =
      elementBytes *
      (keyTile * (qkHeadDim + vHeadDim) * (1 + warps) + queryTile * qkHeadDim);
  double shared =
      fit.syncStagedByte * staged / double(device.sharedBytesPerCycle);
  double heads = tiles.getNumHeads();
  if (schedule.getPackGqa())
    heads *=
        getGroupRatio(op) * countPackedTiles(tiles, schedule.getQueryTile());
  heads *= double(
      attn::countHeadDimTiles(op.getVHeadDim(), schedule.getHeadDimTile()));
  const attn::TileCounts &counts =
      tiles.count(schedule.getQueryTile(), schedule.getKeyTile());
  auto sms = double(device.sms);
  double rows = double(tiles.getNumRows(schedule.getQueryTile()));
  double wholeWorkItems = heads * rows;
  double splits =
      countSplits(schedule.getSplitKvWorkItems(), wholeWorkItems, counts);
  double items = wholeWorkItems * splits / sms;

  // CTAs that share an SM hide each other's latencies.
  double ctasPerSm =
      std::min(double(countCtas(schedule, op, device)), std::ceil(items));
  attn::ScoreWork work = countScoreModWork(op);
  double issued = scores / issuedPerCycle;
  double softmax =
      (ctasPerSm > 1 ? fit.syncInstructions : fit.syncInstructionsAlone) +
      work.instructions + work.ahead + work.special +
      fit.issuedPerLoad * work.loads;
  attn::KernelTime time;
  time.name = "attention";
  time.consumers = 1;
  time.mma = mma;
  time.exponentials = scores / double(device.special);
  double rounding =
      getRoundingCycles(instruction, warps * keyTile * (qkHeadDim + vHeadDim) +
                                         queryTile * qkHeadDim + scores);
  time.chain = mma + shared + softmax * issued + rounding + fit.syncStep;
  time.step = overlap({mma, shared}, fit.overlapNorm) + softmax * issued +
              rounding + fit.syncStep / ctasPerSm +
              attn::getKeepMaskCycles(op, /*isGradient=*/false, fit) * scores;
  time.mask = fit.syncMaskInstructions * issued;
  time.workItem = fit.syncWorkItem;
  time.cyclesPerSecond = double(device.clockMHz) * 1e6;

  double most = std::ceil(double(counts.most) / splits);
  time.numWorkItems = items;
  time.numSteps = heads * counts.total / sms;
  time.numMasked = heads * counts.masked / sms;
  addLastWorkItems(time, counts.total < double(counts.most) * rows, most,
                   ctasPerSm, fit);
  double keys = std::min(double(tiles.getNumKeys()), counts.total * keyTile);
  double bytes = tiles.getNumHeads() * keys * getKVBytesOfQueryHead(op);
  time.memory = time.cyclesPerSecond *
                attn::getMemorySeconds(bytes, attn::Traffic::Read, device);
  if (splits > 1)
    time.combine = getCombineCycles(tiles, device);
  setLaunch(time, /*ramps=*/true, fit);
  return time;
}

namespace {
/// One of the GEMM kernels of a gradient.
struct GradientKernel {
  StringRef name;
  attn::ScheduleAttrInterface schedule;
  /// The dimension whose tiles are work items.
  attn::MaskDim dim;
  TraversalKind traversal;
  int64_t consumers;
  /// Head dims over which the matmuls of a score contract or that they produce,
  /// added up.
  double headDimSum;
  /// Cycles of a thread for each score in addition to the MMAs in flight, and
  /// cycles of the SM for its keep mask.
  double cyclesPerScore;
  double keepMaskCycles;
  /// The most cycles that MMAs of a step may take beyond the tensor cores' own:
  /// for reads of multiplicands in shared memory. 0 if these are as fast.
  double multiplicandCycles = 0;
  /// Cycles in which L2 yields the tiles of a step; 0 if that is hidden.
  double copyCycles = 0;
  /// Stages of these tiles. With one, nothing is computed meanwhile.
  int64_t stages = 2;
  /// How many consumers compute each score.
  int64_t columnConsumers = 1;
};
} // namespace

static attn::KernelTime
estimateGradientKernel(const GradientKernel &kernel,
                       const attn::VisitedTiles &tiles,
                       const attn::DeviceModel &device) {
  const attn::Calibration &fit = device.calibration;
  attn::AttentionOpInterface op = tiles.getOp();
  bool isByKey = kernel.dim == attn::MaskDim::Key;
  int64_t queryTile = kernel.schedule.getQueryTile();
  int64_t keyTile = kernel.schedule.getKeyTile();
  double scores = double(queryTile) * double(keyTile);
  double threadScores = scores * double(kernel.columnConsumers) /
                        (double(kernel.consumers) * warpgroupThreads);
  attn::KernelTime time;
  time.name = kernel.name;
  time.consumers = kernel.consumers;
  time.mma = fit.gradientMmaCycle * 2 * scores * kernel.headDimSum /
             double(device.mmaFlopsPerCycle16b);
  time.mma = std::max(time.mma, kernel.multiplicandCycles);
  time.exponentials = scores / double(device.special);
  time.step = time.mma + kernel.cyclesPerScore * threadScores +
              kernel.keepMaskCycles * scores;
  // Each of the tiles of a step is read to a different end.
  time.step = kernel.stages == 1
                  ? time.step + fit.exposedCopies * kernel.copyCycles
                  : std::max(time.step, kernel.copyCycles);
  if (kernel.copyCycles > 0)
    time.step += fit.wideGradientStep;
  time.chain = time.mma / double(kernel.consumers) +
               kernel.cyclesPerScore * threadScores;
  time.mask =
      (attn::readsByPosition(op.getMaskMod()) ? fit.gradientMaskedRead
                                              : fit.gradientMaskedScore) *
      threadScores;
  time.workItem = fit.gradientWorkItem;
  if (op.getAddressing().isListed()) {
    time.step += fit.sequenceStep;
    time.workItem += fit.sequenceWorkItem;
  }

  // Tiles of keys see all query heads of a GQA group.
  double group = isByKey ? double(op.getGroupSize()) : 1;
  double heads = tiles.getNumHeads() / group;
  const attn::TileCounts &counts = tiles.count(queryTile, keyTile, kernel.dim);
  int64_t rows = isByKey ? llvm::divideCeil(tiles.getNumKeys(), keyTile)
                         : tiles.getNumRows(queryTile);
  double sms = double(device.sms);
  time.numWorkItems = heads * double(rows) / sms;
  time.numSteps = heads * group * counts.total / sms;
  time.numMasked = heads * group * counts.masked / sms;
  // The paired traversal gives equal amounts of work, and so does a grid that
  // hands out long work items first.
  if (kernel.traversal == TraversalKind::Persistent) {
    double rounds = std::ceil(time.numWorkItems);
    time.numSteps += (rounds - time.numWorkItems) * group * double(counts.most);
    time.numWorkItems = rounds;
  }
  time.cyclesPerSecond = double(device.clockMHz) * 1e6;
  setLaunch(time, /*ramps=*/time.consumers > 1, fit);
  return time;
}

namespace {
/// One of the kernels of a gradient with one role: a tile of one dimension is
/// stationary, tiles of the other one are streamed.
struct SyncGradientKernel {
  StringRef name;
  attn::MaskDim dim;
  int64_t queryTile, keyTile, stages, warps;
  /// Head dims over which the matmuls of a score contract or that they produce,
  /// added up: of all matmuls, of left-hand sides in shared memory, of tiles
  /// that are streamed, and of accumulators.
  double headDimSum, lhsHeadDimSum, streamedHeadDimSum, accumulatedHeadDimSum;
  /// Instructions for each score in addition to the instructions of P.
  double instructions;
  double keepMaskCycles;
};
} // namespace

static attn::KernelTime estimateSyncGradient(const SyncGradientKernel &kernel,
                                             const attn::VisitedTiles &tiles,
                                             const attn::DeviceModel &device) {
  const attn::Calibration &fit = device.calibration;
  attn::AttentionOpInterface op = tiles.getOp();
  bool isByKey = kernel.dim == attn::MaskDim::Key;
  auto rows = double(isByKey ? kernel.keyTile : kernel.queryTile);
  auto streamed = double(isByKey ? kernel.queryTile : kernel.keyTile);
  auto warps = double(kernel.warps);
  double scores = rows * streamed;
  auto elementBytes = double(attn::getElementBytes(op.getQuery()));

  // Each warp reads the streamed tiles once for each matmul, and its rows of
  // the stationary tiles.
  MmaAttrInterface instruction = getMmaSync(op);
  double mma =
      2 * scores * kernel.headDimSum / instruction.getFlopsPerCycle(device);
  double staged =
      elementBytes *
      (streamed * (kernel.streamedHeadDimSum + warps * kernel.headDimSum) +
       rows * kernel.lhsHeadDimSum);
  double shared =
      fit.syncGradientStagedByte * staged / double(device.sharedBytesPerCycle);

  double group = isByKey ? double(op.getGroupSize()) : 1;
  double heads = tiles.getNumHeads() / group;
  const attn::TileCounts &counts =
      tiles.count(kernel.queryTile, kernel.keyTile, kernel.dim);
  double numRows = double(
      isByKey ? int64_t(llvm::divideCeil(tiles.getNumKeys(), kernel.keyTile))
              : tiles.getNumRows(kernel.queryTile));
  auto sms = double(device.sms);
  double items = heads * numRows / sms;
  int64_t threads = warpThreads * kernel.warps;
  attn::CapacityNeed need;
  need.registers =
      (3 * scores + rows * kernel.accumulatedHeadDimSum) / double(threads) +
      registersBesideTiles;
  need.sharedBytes =
      std::floor(elementBytes * (rows * kernel.lhsHeadDimSum +
                                 double(kernel.stages) * streamed *
                                     kernel.streamedHeadDimSum));
  double ctasPerSm = std::min(
      double(attn::countCtasPerSm(need, threads, device)), std::ceil(items));

  double issued = scores / issuedPerCycle;
  double work =
      ((ctasPerSm > 1 ? fit.syncInstructions : fit.syncInstructionsAlone) +
       kernel.instructions) *
      issued;
  attn::KernelTime time;
  time.name = kernel.name;
  time.consumers = 1;
  time.mma = mma;
  time.exponentials = scores / double(device.special);
  double rounding = getRoundingCycles(
      instruction, warps * streamed * kernel.headDimSum +
                       rows * kernel.lhsHeadDimSum + 2 * scores);
  time.chain = mma + shared + work + rounding + fit.syncGradientStep;
  time.step = overlap({mma, shared}, fit.overlapNorm) + work + rounding +
              fit.syncGradientStep / ctasPerSm + kernel.keepMaskCycles * scores;
  time.mask = fit.syncMaskInstructions * issued;
  time.workItem = fit.syncWorkItem;
  time.cyclesPerSecond = double(device.clockMHz) * 1e6;
  time.numWorkItems = items;
  time.numSteps = heads * group * counts.total / sms;
  time.numMasked = heads * group * counts.masked / sms;
  addLastWorkItems(time, counts.total < double(counts.most) * numRows,
                   group * double(counts.most), ctasPerSm, fit);
  setLaunch(time, /*ramps=*/true, fit);
  return time;
}

/// A kernel that only moves `bytes` between memory and registers.
static attn::KernelTime
estimateMove(StringRef name, double bytes, const attn::DeviceModel &device,
             attn::MemoryLevel level = attn::MemoryLevel::Memory) {
  attn::KernelTime time;
  time.name = name;
  time.cyclesPerSecond = double(device.clockMHz) * 1e6;
  double seconds =
      level == attn::MemoryLevel::Memory
          ? attn::getMemorySeconds(bytes, attn::Traffic::ReadAndWrite, device)
          : bytes / attn::getSustainedRate(device, level);
  time.memory = time.cyclesPerSecond * seconds;
  return time;
}

/// Kernels that list the tiles to visit. Their time does not depend on the
/// schedule.
static attn::KernelTime estimateLists(double cycles,
                                      const attn::DeviceModel &device) {
  attn::KernelTime time;
  time.name = "lists";
  time.cyclesPerSecond = double(device.clockMHz) * 1e6;
  time.launch = cycles;
  return time;
}

SmallVector<attn::KernelTime>
attn_tile::estimateForward(WarpSpecializedAttr schedule,
                           const attn::VisitedTiles &tiles,
                           const attn::DeviceModel &device) {
  const attn::Calibration &fit = device.calibration;
  SmallVector<attn::KernelTime> kernels;
  if (attn::needsClassification(tiles.getOp()))
    kernels.push_back(estimateLists(fit.lists, device));
  if (tiles.getOp().getAddressing().isListed())
    kernels.push_back(estimateLists(fit.workItemList, device));
  kernels.push_back(estimateWarpSpecialized(schedule, tiles, device));
  return kernels;
}

/// The number of GQA groups, of `heads`, that have a slot in the dQ ring buffer
/// of `keys`, and the number of heads whose dQ is converted after all other
/// work is done.
static std::pair<double, double> countDqRing(KeyStationaryAttr keys,
                                             double heads, double tilesOfHead) {
  // The ring holds two rounds of work items, as `attn-choose-schedule` makes
  // it.
  double round = double(keys.getDqRingDepth()) / 2 / tilesOfHead;
  return {std::min(heads, std::ceil(2 * round) + 2), std::min(heads, round)};
}

/// The kernels of a gradient that have one role.
static SmallVector<attn::KernelTime>
estimateSyncGradients(GradientAttr schedule, const attn::VisitedTiles &tiles,
                      const attn::DeviceModel &device) {
  const attn::Calibration &fit = device.calibration;
  attn::AttentionOpInterface op = tiles.getOp();
  double qkHeadDim = getQKColumns(op);
  auto vHeadDim = double(llvm::alignTo(op.getVHeadDim(), headDimStep));
  double both = qkHeadDim + vHeadDim;
  attn::ScoreWork scoreMod = attn::countScoreWork(op.getScoreMod());
  auto countInstructions = [&](const attn::ScoreWork &work) {
    return work.instructions + work.ahead + work.special +
           fit.issuedPerLoad * work.loads;
  };
  double ofProbabilities = countInstructions(scoreMod),
         ofGradients = ofProbabilities;
  if (Region *scoreModGrad = attn::getScoreModGrad(op))
    ofGradients += countInstructions(attn::countScoreWork(*scoreModGrad));
  ofGradients += fit.syncGradientInstructions;
  double keepMaskCycles = attn::getKeepMaskCycles(op, /*isGradient=*/true, fit);
  SmallVector<attn::KernelTime> kernels;
  // There is a kernel for each tile of the columns of a result.
  auto add = [&](SyncGradientKernel kernel, int64_t columnTile,
                 double contracted, double results) {
    kernel.accumulatedHeadDimSum =
        columnTile == 0 ? results : std::min(results, double(columnTile));
    kernel.headDimSum = contracted + kernel.accumulatedHeadDimSum;
    kernel.keepMaskCycles = keepMaskCycles;
    kernels.append(attn::countHeadDimTiles(int64_t(results), columnTile),
                   estimateSyncGradient(kernel, tiles, device));
  };
  auto addKeys = [&](StringRef name, attn::ScheduleAttrInterface part,
                     double contracted, double lhsHeadDimSum, double results,
                     double instructions) {
    auto byKey = cast<KeyMultistageAttr>(Attribute(part));
    add({name, attn::MaskDim::Key, byKey.getQueryTile(), byKey.getKeyTile(),
         byKey.getStages(), byKey.getWarps(), /*headDimSum=*/0, lhsHeadDimSum,
         both, /*accumulatedHeadDimSum=*/0, instructions,
         /*keepMaskCycles=*/0},
        byKey.getHeadDimTile(), contracted, results);
  };
  bool hasValues = bool(schedule.getDv());
  if (hasValues)
    addKeys("dv", schedule.getDv(), qkHeadDim, qkHeadDim, vHeadDim,
            ofProbabilities);
  addKeys("dkdv", schedule.getDkdv(), both, both,
          qkHeadDim + (hasValues ? 0 : vHeadDim), ofGradients);
  if (auto byQuery =
          dyn_cast_if_present<MultistageAttr>(Attribute(schedule.getDq())))
    add({"dq", attn::MaskDim::Query, byQuery.getQueryTile(),
         byQuery.getKeyTile(), byQuery.getStages(), byQuery.getWarps(),
         /*headDimSum=*/0, both, both, /*accumulatedHeadDimSum=*/0, ofGradients,
         /*keepMaskCycles=*/0},
        byQuery.getHeadDimTile(), both, qkHeadDim);
  return kernels;
}

/// Cycles per score of the score_mod and of its gradient.
static double getGradScoreModCycles(attn::AttentionOpInterface op,
                                    const attn::Calibration &fit) {
  double cycles = getScoreModCycles(attn::countScoreWork(op.getScoreMod()),
                                    /*isStaged=*/false, fit);
  if (Region *scoreModGrad = attn::getScoreModGrad(op))
    cycles += getScoreModCycles(attn::countScoreWork(*scoreModGrad),
                                /*isStaged=*/false, fit);
  return cycles;
}

namespace {
/// The head dims of a kernel of a gradient.
struct GradientHeadDims {
  /// Head dims over which the matmuls of a score contract, added up, and those
  /// of all results.
  double contracted, results;
  /// The head dim of the tiles that the kernel iterates over, added up; of
  /// these, the one of which it needs only the columns of its result.
  double streamed, streamedColumns = 0;
};
} // namespace

/// Sets what wide heads, of which `kernel` computes `columns` of `headDims`,
/// wait for.
static void setWideTerms(GradientKernel &kernel, GradientHeadDims headDims,
                         double columns, attn::AttentionOpInterface op,
                         const attn::DeviceModel &device) {
  bool isByKey = kernel.dim == attn::MaskDim::Key;
  auto streamed = double(isByKey ? kernel.schedule.getQueryTile()
                                 : kernel.schedule.getKeyTile());
  auto elementBytes = double(attn::getElementBytes(op.getQuery()));
  double multiplicands =
      headDims.contracted * (warpgroupRows + streamed) + streamed * columns;
  kernel.multiplicandCycles = double(kernel.consumers) * elementBytes *
                              multiplicands /
                              double(device.sharedBytesPerCycle);
  double copied =
      headDims.streamed + std::min(headDims.streamedColumns,
                                   double(kernel.columnConsumers) * columns);
  kernel.copyCycles = streamed * elementBytes * copied * double(device.sms) /
                      double(device.l2BytesPerCycle);
}

/// A kernel for sm_90a that computes gradients in MMAs over `headDims`, without
/// its cycles per score.
static GradientKernel makeGradientKernel(StringRef name, Attribute schedule,
                                         GradientHeadDims headDims,
                                         attn::AttentionOpInterface op,
                                         const attn::DeviceModel &device) {
  auto interface = cast<attn::ScheduleAttrInterface>(schedule);
  double columns = headDims.results;
  if (int64_t tile = interface.getHeadDimTile(); tile > 0)
    columns = std::min(columns, double(tile));
  GradientKernel kernel = {name,
                           interface,
                           attn::MaskDim::Key,
                           TraversalKind::Grid,
                           /*consumers=*/1,
                           headDims.contracted + columns,
                           /*cyclesPerScore=*/0,
                           /*keepMaskCycles=*/0};
  kernel.columnConsumers = interface.getColumnConsumers();
  kernel.headDimSum *= double(kernel.columnConsumers);
  if (auto byKey = dyn_cast<KeyStationaryAttr>(schedule)) {
    kernel.traversal = byKey.getTraversal();
    kernel.consumers = byKey.getConsumers();
    kernel.stages = byKey.getStages();
  } else if (auto byQuery = dyn_cast<WarpSpecializedAttr>(schedule)) {
    kernel.dim = attn::MaskDim::Query;
    kernel.traversal = byQuery.getTraversal();
    kernel.consumers = byQuery.getConsumers();
    kernel.stages = byQuery.getStages();
  }
  if (std::max(op.getQKHeadDim(), op.getVHeadDim()) > maxMmaColumns)
    setWideTerms(kernel, headDims, columns, op, device);
  return kernel;
}

/// Adds the terms of the parameters of `keys` to the time of its kernel.
static void addKeyStationaryTerms(attn::KernelTime &kernel,
                                  KeyStationaryAttr keys,
                                  const attn::Calibration &fit) {
  if (keys.getDqRingDepth() > 0)
    kernel.workItem += fit.dqRingWorkItem;
  if (keys.getKeyStages() > 1)
    kernel.workItem -= fit.earlyKeys;
  if (keys.getPrefetchWorkItem())
    kernel.workItem -= fit.prefetchedWorkItem;
  if (keys.getLhsRegisters())
    kernel.step *= fit.lhsRegistersStep;
  if (keys.getOrderedDq())
    kernel.step += fit.orderedQuery * double(keys.getQueryTile());
}

/// Adds the kernels that add up the gradients of GQA groups with the same key
/// or value head.
static void addGroupSums(SmallVectorImpl<attn::KernelTime> &kernels,
                         const attn::VisitedTiles &tiles,
                         const attn::DeviceModel &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  constexpr double sumBytes = 4;
  double groups = tiles.getNumHeads() / double(op.getGroupSize());
  auto add = [&](StringRef name, int64_t heads, int64_t headDim,
                 double elementBytes) {
    double share = double(heads) / double(op.getNumGroups());
    if (share == 1)
      return;
    kernels.push_back(
        estimateMove(name,
                     groups * double(tiles.getNumKeys()) * double(headDim) *
                         (sumBytes + share * elementBytes),
                     device));
  };
  auto elementBytes = double(attn::getElementBytes(op.getKey()));
  add("dk_sum", op.getNumKeyHeads(), op.getQKHeadDim(), elementBytes);
  add("dv_sum", op.getNumValueHeads(), op.getVHeadDim(), elementBytes);
}

SmallVector<attn::KernelTime>
attn_tile::estimateGradient(GradientAttr schedule,
                            const attn::VisitedTiles &tiles,
                            const attn::DeviceModel &device) {
  const attn::Calibration &fit = device.calibration;
  attn::AttentionOpInterface op = tiles.getOp();
  auto keys = dyn_cast<KeyStationaryAttr>(Attribute(schedule.getDkdv()));
  bool isSync = isa<KeyMultistageAttr>(Attribute(schedule.getDkdv()));
  if (!keys && !isSync)
    return {};
  double qkHeadDim = getQKColumns(op);
  auto vHeadDim = double(llvm::alignTo(op.getVHeadDim(), headDimStep));
  // Each sequence is padded to whole tiles.
  double queryRows = tiles.getNumHeads() *
                     (double(tiles.getNumQueries()) +
                      (op.getAddressing().isListed() ? paddedQueries : 0));
  auto elementBytes = double(attn::getElementBytes(op.getQuery()));
  constexpr auto sumBytes = double(attn::sumBytes);
  bool hasDqAccumulator = !schedule.getDq();

  // GEMM kernels compute S, dP and the gradients of inputs.
  SmallVector<attn::KernelTime> kernels;
  if (attn::needsClassification(op))
    kernels.push_back(estimateLists(fit.gradientLists, device));
  double cleared = hasDqAccumulator ? sumBytes * qkHeadDim : 0, late = 1;
  bool hasDqRing = keys && keys.getDqRingDepth() > 0;
  if (hasDqRing) {
    double heads = tiles.getNumHeads() / double(op.getGroupSize());
    double tilesOfHead =
        std::ceil(double(tiles.getNumKeys()) / double(keys.getKeyTile()));
    auto [slots, last] = countDqRing(keys, heads, std::max(tilesOfHead, 1.0));
    cleared *= slots / heads;
    late = last / heads;
  }
  kernels.push_back(estimateMove(
      "preprocess", queryRows * (2 * elementBytes * vHeadDim + cleared),
      device));
  if (isSync) {
    llvm::append_range(kernels, estimateSyncGradients(schedule, tiles, device));
    addGroupSums(kernels, tiles, device);
    return kernels;
  }
  double scoreModCycles = getGradScoreModCycles(op, fit);
  double keepMaskCycles = attn::getKeepMaskCycles(op, /*isGradient=*/true, fit);
  // There is a kernel for each tile of the columns of a result.
  auto add = [&](StringRef name, Attribute part, GradientHeadDims headDims,
                 double cyclesPerScore) {
    GradientKernel kernel =
        makeGradientKernel(name, part, headDims, op, device);
    kernel.cyclesPerScore = cyclesPerScore + scoreModCycles;
    kernel.keepMaskCycles = keepMaskCycles;
    kernels.append(
        attn::countHeadDimTiles(int64_t(headDims.results), kernel.schedule),
        estimateGradientKernel(kernel, tiles, device));
  };
  bool hasValues = bool(schedule.getDv());
  double both = qkHeadDim + vHeadDim;
  add("dkdv", schedule.getDkdv(),
      {both,
       qkHeadDim + (hasValues ? 0 : vHeadDim) +
           (hasDqAccumulator ? qkHeadDim : 0),
       both},
      fit.gradientScore);
  addKeyStationaryTerms(kernels.back(), keys, fit);
  if (hasDqAccumulator && qkHeadDim > double(keys.getKeyTile()))
    kernels.back().step +=
        fit.addedByte * sumBytes * qkHeadDim * double(keys.getQueryTile());
  if (hasValues)
    add("dv", schedule.getDv(), {qkHeadDim, vHeadDim, qkHeadDim, vHeadDim},
        /*cyclesPerScore=*/0);
  if (schedule.getDq())
    add("dq", schedule.getDq(), {both, qkHeadDim, both},
        /*cyclesPerScore=*/0);
  else
    kernels.push_back(estimateMove(
        "dq_convert", late * queryRows * qkHeadDim * (sumBytes + elementBytes),
        device, hasDqRing ? attn::MemoryLevel::L2 : attn::MemoryLevel::Memory));
  addGroupSums(kernels, tiles, device);
  return kernels;
}
