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
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/PerfModel/ScoreWork.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::attn_tile;

/// Constants of the model, in cycles, fitted to 621 kernels on an H200
/// (`benchmarks/results/schedules.jsonl` and `schedules-changes.jsonl`,
/// `benchmarks/calibrate.py`): see docs/cost-model.md.
static constexpr double cyclesPerMmaCycle = 0.934;
static constexpr double cyclesPerExponentialCycle = 0.903;
/// The softmax of one warpgroup, for each score of a thread, and the extra
/// cycles of a mask.
static constexpr double cyclesPerScore = 14.7;
static constexpr double cyclesPerMaskedScore = 12.5;
/// Extra cycles of a thread for an exponential that is a polynomial: eight more
/// instructions, each as long as an instruction of the softmax.
static constexpr double cyclesPerEmulatedExp2 = 22;
/// A score_mod, for each score of a thread: an instruction on the path from a
/// score to its probability, the extra cycles of a special function, and an
/// element from memory or from a stage. Instructions that do not depend on the
/// score run ahead, and only take issue slots.
static constexpr double cyclesPerInstruction = 1.8;
static constexpr double cyclesPerSpecial = 6.6;
static constexpr double cyclesPerLoad = 11.4;
static constexpr double cyclesPerStagedLoad = 2.95;
/// Instructions that the softmax issues for each score, and the number of
/// instructions that a load is worth.
static constexpr double instructionsPerScore = 6.4;
static constexpr double instructionsPerLoad = 4.1;
/// Bytes of staged score addends that an SM reads in a cycle.
static constexpr double addendBytesPerCycle = 52;
/// Cycles of an SM for each element at an index that was read from memory: each
/// lane of a warp reads a line of its own.
static constexpr double cyclesPerGather = 0.56;
/// A ping-pong handover of the tensor cores to another warpgroup.
static constexpr double cyclesPerPingpong = 274;
/// A work item, and the extra cycles if its queries are not loaded early.
static constexpr double cyclesPerWorkItem = 2270;
static constexpr double cyclesOfLateQueries = 1130;
/// Ramp-up and ramp-down of a kernel, at most; and the cycles of work of a
/// kernel that takes half of that.
static constexpr double cyclesPerKernel = 61000;
static constexpr double cyclesOfHalfSpeed = 147000;
/// Power throttling: the largest relative slowdown of long-running MMAs, and
/// the milliseconds of work at which half of it is reached.
static constexpr double throttlingOfMma = 0.18;
static constexpr double millisecondsOfThrottling = 3;

/// Launch overhead of any kernel, and the only overhead of kernels with one
/// consumer or bound by memory. This and the next two constants were measured
/// on kernels of one query for each head on an H200, 2026-11-22
/// (docs/experiments/split-kv-decoding.md).
static constexpr double cyclesPerStream = 7000;
/// The fraction of the nominal memory bandwidth that a kernel which only reads
/// reaches.
static constexpr double readRate = 0.89;
/// Relative time of reads if L2 promotion fetches more than the columns of one
/// copy, and keys are read once.
static constexpr double readTimeOfWidePromotion = 1.04;
/// Bytes that one SM reads from memory in a cycle, at most.
static constexpr double bytesPerSmCycle = 34;
/// Bytes that move from L2 to the shared memory of one SM in a cycle, at most;
/// and the cycles for which the CTAs of a cluster wait for each other at the
/// beginning and at the end. Neither is fitted: GEMMs reach 46 bytes.
static constexpr double copiedBytesPerCycle = 64;
static constexpr double cyclesPerCluster = 800;
/// The small kernel that combines KV splits: two memory latencies and an early
/// launch; and, on one SM, each block of `combineBlock` elements of a row.
static constexpr double cyclesPerCombine = 4000;
static constexpr double cyclesPerCombineBlock = 157;
static constexpr int64_t combineBlock = 32;

/// Kernels with one role, fitted to `benchmarks/results/schedules-sm_80.jsonl`
/// and `decode-sm_80.jsonl` (216 kernels for sm_80 on an H200, whose
/// synchronous MMAs reach 2140 FLOP per cycle and SM). Instructions for each
/// score, of a CTA that is alone on its SM, of a CTA that is not, and of a
/// mask. Cycles of a staged byte, and of a step in addition to its MMAs and
/// shared memory. Cycles of a work item, and of ramp-up and ramp-down.
static constexpr double instructionsAlone = 7.5;
static constexpr double instructionsBesideOthers = 4;
static constexpr double instructionsPerMask = 4.75;
static constexpr double cyclesPerStagedByte = 0.8;
static constexpr double cyclesPerSyncStep = 463;
static constexpr double cyclesPerSyncWorkItem = 1190;
static constexpr double cyclesPerSyncKernel = 150000;
static constexpr double cyclesOfHalfSyncSpeed = 680000;
/// The fraction of the steps of the longest work item for which an SM waits at
/// the end, for each of its CTAs.
static constexpr double stepsOfLastWorkItems = 0.43;
/// Gradients with one role, from the differences between 24 tile shapes
/// (docs/experiments/sm80-backward-tiles.md): cycles of a staged byte, and of a
/// step in addition to its MMAs and shared memory. The extra instructions of dP
/// for each score are not fitted: they are taken to be as many as the
/// instructions of P.
static constexpr double cyclesPerStagedGradientByte = 0.95;
static constexpr double cyclesPerSyncGradientStep = 850;
static constexpr double gradientInstructions = 4;
/// Shared memory of a CTA, and registers of a thread, in addition to their
/// tiles.
static constexpr int64_t reservedCtaBytes = 1024;
static constexpr double registersBesideTiles = 57;
static constexpr int64_t mostRegisters = 255;

/// Gradients, fitted to the 100 functions of the groups `gradients` of
/// `benchmarks/calibrate.py` (an H200). In the dkdv kernel, P and dP are on the
/// path from one MMA to the next. In the other kernels they are hidden. A mask
/// costs more if it reads tensors.
static constexpr double cyclesPerGradientMmaCycle = 1.136;
static constexpr double cyclesPerGradientScore = 25.8;
static constexpr double cyclesPerMaskedGradient = 38;
static constexpr double cyclesPerMaskedGradientRead = 200;
static constexpr double cyclesPerGradientWorkItem = 2700;
/// Extra cycles of a work item with a dQ ring buffer: warps count the dQ tiles
/// that have been added, and convert finished ones
/// (docs/experiments/backward-dq-ring-buffer.md).
static constexpr double cyclesPerDqRingWorkItem = 4000;
/// Cycles that a work item saves if its keys are loaded early, or if it is
/// prefetched (docs/experiments/backward-work-item-overlap.md).
static constexpr double cyclesOfEarlyKeys = 1000;
static constexpr double cyclesOfPrefetchedWorkItem = 1000;
/// Time of a step whose left-hand sides stay in registers, relative to a step
/// whose MMAs read them from shared memory
/// (docs/experiments/backward-register-operands.md).
static constexpr double stepOfLhsRegisters = 0.93;
/// Extra cycles for each query of a step with ordered dQ accumulation, for
/// which CTAs wait (docs/experiments/backward-ordered-accumulation.md).
static constexpr double cyclesPerOrderedQuery = 4.9;
/// Extra cycles for each byte of dQ that is added straight from registers:
/// these additions stall their warps
/// (docs/experiments/backward-head-dim-256.md).
static constexpr double cyclesPerAddedByte = 0.024;
static constexpr double throttlingOfGradients = 0.246;
static constexpr double millisecondsOfGradientThrottling = 10;
/// A step and a work item that look up their sequence.
static constexpr double cyclesPerSequenceStep = 288;
static constexpr double cyclesPerSequenceWorkItem = 790;
/// Padding queries of a sequence.
static constexpr double paddedQueries = 128;

/// The kernels that list the tiles of a mask that reads tensors, for attention
/// and for a gradient; the kernel that lists the tiles of sequences; and a
/// mask_mod, for each instruction and read.
static constexpr double cyclesPerLists = 55000;
static constexpr double cyclesPerWorkItemList = 13000;
static constexpr double cyclesPerGradientLists = 100000;
static constexpr double cyclesPerMaskModInstruction = 2.5;

/// Instructions of single threads that an SM issues in a cycle.
static constexpr double issuedPerCycle = 128;

/// Concurrent work takes as long as its longest part, and somewhat longer if
/// other parts are nearly as long.
static double overlap(std::initializer_list<double> cycles) {
  constexpr double power = 6;
  double sum = 0;
  for (double each : cycles)
    sum += std::pow(each, power);
  return std::pow(sum, 1 / power);
}

/// Cycles of a thread that a score_mod takes for each score.
static double getScoreModCycles(const attn::ScoreWork &work, bool isStaged) {
  return cyclesPerInstruction * work.instructions +
         cyclesPerSpecial * work.special +
         (isStaged ? cyclesPerStagedLoad : cyclesPerLoad) * work.loads;
}

/// Tiles of `queryTile` rows for all query heads of a key head, for each tile
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
                               const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  double blocks = tiles.getNumHeads() * double(tiles.getNumQueries()) *
                  double(llvm::divideCeil(op.getVHeadDim(), combineBlock));
  return cyclesPerCombine + cyclesPerCombineBlock * blocks / double(device.sms);
}

/// Sets the ramp-up of `time`, and slows it down by power throttling.
static void
setLaunch(attn::KernelTime &time, double throttling = throttlingOfMma,
          double throttlingMilliseconds = millisecondsOfThrottling) {
  double computed = time.numSteps * time.step + time.numMasked * time.mask +
                    time.numWorkItems * time.workItem;
  time.launch = cyclesPerStream;
  if (time.memory > computed)
    return;
  double milliseconds = computed / time.cyclesPerSecond * 1e3;
  time.cyclesPerSecond /=
      1 + throttling * milliseconds / (milliseconds + throttlingMilliseconds);
  if (time.consumers > 1)
    time.launch += cyclesPerKernel * computed / (computed + cyclesOfHalfSpeed);
}

static attn::KernelTime
estimateWarpSpecialized(WarpSpecializedAttr schedule,
                        const attn::VisitedTiles &tiles,
                        const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  auto queryTile = double(schedule.getQueryTile());
  auto keyTile = double(schedule.getKeyTile());
  double qkHeadDim = double(llvm::alignTo(op.getQKHeadDim(), headDimStep));
  double vHeadDim = double(llvm::alignTo(op.getVHeadDim(), headDimStep));

  // While one warpgroup computes its softmax, the others run their MMAs. A
  // single warpgroup needs the time of its MMAs and of its softmax.
  double scores = queryTile * keyTile;
  double mma = cyclesPerMmaCycle * 2 * scores * (qkHeadDim + vHeadDim) /
               double(device.mmaFlopsPerCycle16b);
  double threadScores = keyTile * warpgroupRows / warpgroupThreads;
  double consumers = double(schedule.getConsumers());
  double polynomials = double(schedule.getExp2Emulation()) / 16;
  attn::ScoreWork work = attn::countScoreWork(op.getScoreMod());
  bool isStaged = schedule.getScoreStages() > 0;
  double chain =
      mma / consumers + (cyclesPerScore + cyclesPerEmulatedExp2 * polynomials +
                         getScoreModCycles(work, isStaged)) *
                            threadScores;
  double exponentials = cyclesPerExponentialCycle *
                        (1 - polynomials + work.special) * scores /
                        double(device.special);
  double instructions = instructionsPerScore + work.instructions + work.ahead +
                        instructionsPerLoad * (isStaged ? 0 : work.loads);
  double issued = instructions * scores / issuedPerCycle;
  double step = overlap({mma, chain, exponentials, issued}) +
                cyclesPerPingpong * (consumers - 1);
  step += cyclesPerGather * work.gathers * scores;
  if (isStaged)
    step += work.bytes * scores / addendBytesPerCycle;
  step += attn::getKeepMaskCycles(op, /*isGradient=*/false) * scores;
  // Each CTA of a cluster copies its part of the keys and values to all CTAs.
  auto cluster = double(schedule.getCluster());
  double bytes =
      double(getElementTypeOrSelf(op.getQuery()).getIntOrFloatBitWidth()) / 8 *
      double(op.getQKHeadDim() + op.getVHeadDim());
  step = std::max(step, keyTile * bytes / cluster / copiedBytesPerCycle);
  attn::ScoreWork maskMod = attn::countScoreWork(op.getMaskMod());
  double mask = (cyclesPerMaskedScore + cyclesPerMaskModInstruction *
                                            (maskMod.ahead + maskMod.loads)) *
                threadScores;
  double workItem = cyclesPerWorkItem +
                    (schedule.getQueryStages() == 1 ? cyclesOfLateQueries : 0);

  // The SM with the most work. The paired traversal gives all CTAs the same
  // amount of work. Otherwise some CTAs get one work item more, of the longest
  // kind.
  double heads = tiles.getNumHeads();
  auto keyHeads = double(op.getNumKeyHeads()) / double(op.getNumQueryHeads());
  if (schedule.getPackGqa())
    heads *= keyHeads * countPackedTiles(tiles, schedule.getQueryTile());
  // The work items of a cluster visit the tiles that any of them needs.
  int64_t clusterTile = schedule.getCluster() * schedule.getQueryTile();
  attn::TileCounts counts = tiles.count(clusterTile, schedule.getKeyTile());
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
  } else {
    double rounds = std::ceil(items);
    steps += (rounds - items) * most;
    masked += (rounds - items) * std::min(double(counts.mostMasked), most);
    items = rounds;
  }
  // Keys and values come from memory once: heads that share them, and tiles of
  // queries of one head, run at about the same time.
  double keys = std::min(double(tiles.getNumKeys()), counts.total * keyTile);
  double streamed = tiles.getNumHeads() * keyHeads * keys * bytes;
  double cyclesPerSecond = double(device.clockMHz) * 1e6;
  double bytesPerCycle =
      readRate * double(device.memoryGBps) * 1e9 / cyclesPerSecond;
  double memory = streamed / bytesPerCycle;
  // If a head has a single tile of queries, each work item reads its keys and
  // values from memory, limited by the rate of its SM.
  if (tiles.getNumRows(schedule.getQueryTile()) == 1) {
    if (schedule.getL2Promotion() > columnBlockBytes)
      memory *= readTimeOfWidePromotion;
    memory = std::max(memory, std::ceil(items) * most * keyTile * bytes /
                                  bytesPerSmCycle);
  }
  double combine = splits > 1 ? getCombineCycles(tiles, device) : 0;
  double clusterCycles = schedule.getCluster() > 1 ? cyclesPerCluster : 0;
  attn::KernelTime time;
  time.name = "attention";
  time.consumers = schedule.getConsumers();
  time.mma = mma;
  time.chain = chain;
  time.exponentials = exponentials;
  time.step = step;
  time.mask = mask;
  time.workItem = workItem;
  time.numSteps = steps;
  time.numMasked = masked;
  time.numWorkItems = items;
  time.memory = memory;
  time.combine = combine;
  time.cyclesPerSecond = cyclesPerSecond;
  setLaunch(time);
  time.launch += clusterCycles;
  return time;
}

/// The number of CTAs of `threads` threads, with `registers` registers each and
/// `bytes` of shared memory, that fit on an SM.
static int64_t countCtas(int64_t threads, double registers, int64_t bytes,
                         const attn::DeviceFigures &device) {
  auto byRegisters =
      int64_t(smRegisters /
              (double(threads) * std::min(registers, double(mostRegisters))));
  return std::max<int64_t>(
      1,
      std::min((device.sharedBytes + reservedCtaBytes) / bytes, byRegisters));
}

static int64_t countCtas(MultistageAttr schedule, attn::AttentionOpInterface op,
                         const attn::DeviceFigures &device) {
  int64_t elementBytes = llvm::divideCeil(
      getElementTypeOrSelf(op.getQuery()).getIntOrFloatBitWidth(), 8);
  auto rowBytes = [&](int64_t headDim) {
    return int64_t(llvm::alignTo(elementBytes * headDim, columnBlockBytes));
  };
  int64_t bytes =
      schedule.getQueryTile() * rowBytes(op.getQKHeadDim()) +
      schedule.getStages() * schedule.getKeyTile() *
          (rowBytes(op.getQKHeadDim()) + rowBytes(op.getVHeadDim())) +
      reservedCtaBytes;
  int64_t threads = warpThreads * schedule.getWarps();
  double registers =
      1.5 * double(schedule.getQueryTile() * schedule.getKeyTile()) /
          double(threads) +
      double(schedule.getQueryTile() * op.getVHeadDim()) / double(threads) +
      registersBesideTiles;
  return countCtas(threads, registers, bytes, device);
}

/// Adds the idle steps of SMs at the end of a kernel with one role, whose work
/// items the device hands out and have at most `most` steps. If work items are
/// alike, some SMs have one more than others. If they are `uneven`, long ones
/// may be the last.
static void addLastWorkItems(attn::KernelTime &time, bool uneven, double most,
                             double ctasPerSm) {
  if (uneven) {
    time.numSteps += stepsOfLastWorkItems * most * ctasPerSm;
    return;
  }
  double rounds = std::ceil(time.numWorkItems / ctasPerSm) * ctasPerSm;
  time.numSteps += (rounds - time.numWorkItems) * most;
  time.numWorkItems = rounds;
}

/// Sets the ramp-up and ramp-down of a kernel with one role.
static void setSyncLaunch(attn::KernelTime &time) {
  double computed = time.numSteps * time.step + time.numMasked * time.mask +
                    time.numWorkItems * time.workItem;
  time.launch = cyclesPerStream;
  if (computed > time.memory)
    time.launch +=
        cyclesPerSyncKernel * computed / (computed + cyclesOfHalfSyncSpeed);
}

attn::KernelTime
attn_tile::estimateMultistage(MultistageAttr schedule,
                              const attn::VisitedTiles &tiles,
                              const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  auto queryTile = double(schedule.getQueryTile());
  auto keyTile = double(schedule.getKeyTile());
  auto warps = double(schedule.getWarps());
  double qkHeadDim = double(llvm::alignTo(op.getQKHeadDim(), headDimStep));
  double vHeadDim = double(llvm::alignTo(op.getVHeadDim(), headDimStep));
  double elementBytes =
      double(getElementTypeOrSelf(op.getQuery()).getIntOrFloatBitWidth()) / 8;

  // Each warp reads the keys and values that all warps have staged, and the
  // queries of its rows.
  double scores = queryTile * keyTile;
  double mma =
      2 * scores * (qkHeadDim + vHeadDim) / double(device.mmaFlopsPerCycle16b);
  double staged =
      elementBytes *
      (keyTile * (qkHeadDim + vHeadDim) * (1 + warps) + queryTile * qkHeadDim);
  double shared =
      cyclesPerStagedByte * staged / double(device.sharedBytesPerCycle);
  double heads = tiles.getNumHeads();
  auto keyHeads = double(op.getNumKeyHeads()) / double(op.getNumQueryHeads());
  if (schedule.getPackGqa())
    heads *= keyHeads * countPackedTiles(tiles, schedule.getQueryTile());
  attn::TileCounts counts =
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
  attn::ScoreWork work = attn::countScoreWork(op.getScoreMod());
  double issued = scores / issuedPerCycle;
  double softmax =
      (ctasPerSm > 1 ? instructionsBesideOthers : instructionsAlone) +
      work.instructions + work.ahead + work.special +
      instructionsPerLoad * work.loads;
  attn::KernelTime time;
  time.name = "attention";
  time.consumers = 1;
  time.mma = mma;
  time.exponentials = scores / double(device.special);
  time.chain = mma + shared + softmax * issued + cyclesPerSyncStep;
  time.step = overlap({mma, shared}) + softmax * issued +
              cyclesPerSyncStep / ctasPerSm +
              attn::getKeepMaskCycles(op, /*isGradient=*/false) * scores;
  time.mask = instructionsPerMask * issued;
  time.workItem = cyclesPerSyncWorkItem;
  time.cyclesPerSecond = double(device.clockMHz) * 1e6;

  double most = std::ceil(double(counts.most) / splits);
  time.numWorkItems = items;
  time.numSteps = heads * counts.total / sms;
  time.numMasked = heads * counts.masked / sms;
  addLastWorkItems(time, counts.total < double(counts.most) * rows, most,
                   ctasPerSm);
  double keys = std::min(double(tiles.getNumKeys()), counts.total * keyTile);
  double bytes = tiles.getNumHeads() * keyHeads * keys * elementBytes *
                 double(op.getQKHeadDim() + op.getVHeadDim());
  time.memory = bytes * time.cyclesPerSecond /
                (readRate * double(device.memoryGBps) * 1e9);
  if (splits > 1)
    time.combine = getCombineCycles(tiles, device);
  setSyncLaunch(time);
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
};
} // namespace

static attn::KernelTime
estimateGradientKernel(const GradientKernel &kernel,
                       const attn::VisitedTiles &tiles,
                       const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  bool isByKey = kernel.dim == attn::MaskDim::Key;
  int64_t queryTile = kernel.schedule.getQueryTile();
  int64_t keyTile = kernel.schedule.getKeyTile();
  double scores = double(queryTile) * double(keyTile);
  double threadScores = scores / (double(kernel.consumers) * warpgroupThreads);
  attn::KernelTime time;
  time.name = kernel.name;
  time.consumers = kernel.consumers;
  time.mma = cyclesPerGradientMmaCycle * 2 * scores * kernel.headDimSum /
             double(device.mmaFlopsPerCycle16b);
  time.exponentials = scores / double(device.special);
  time.step = time.mma + kernel.cyclesPerScore * threadScores +
              kernel.keepMaskCycles * scores;
  time.chain = time.mma / double(kernel.consumers) +
               kernel.cyclesPerScore * threadScores;
  time.mask =
      (attn::readsByPosition(op.getMaskMod()) ? cyclesPerMaskedGradientRead
                                              : cyclesPerMaskedGradient) *
      threadScores;
  time.workItem = cyclesPerGradientWorkItem;
  if (op.hasSequences()) {
    time.step += cyclesPerSequenceStep;
    time.workItem += cyclesPerSequenceWorkItem;
  }

  // Tiles of keys see all query heads that share them.
  double group = isByKey ? double(op.getGroupSize()) : 1;
  double heads = tiles.getNumHeads() / group;
  attn::TileCounts counts = tiles.count(queryTile, keyTile, kernel.dim);
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
  setLaunch(time, throttlingOfGradients, millisecondsOfGradientThrottling);
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

static attn::KernelTime
estimateSyncGradient(const SyncGradientKernel &kernel,
                     const attn::VisitedTiles &tiles,
                     const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  bool isByKey = kernel.dim == attn::MaskDim::Key;
  auto rows = double(isByKey ? kernel.keyTile : kernel.queryTile);
  auto streamed = double(isByKey ? kernel.queryTile : kernel.keyTile);
  auto warps = double(kernel.warps);
  double scores = rows * streamed;
  double elementBytes =
      double(getElementTypeOrSelf(op.getQuery()).getIntOrFloatBitWidth()) / 8;

  // Each warp reads the streamed tiles once for each matmul, and its rows of
  // the stationary tiles.
  double mma =
      2 * scores * kernel.headDimSum / double(device.mmaFlopsPerCycle16b);
  double staged =
      elementBytes *
      (streamed * (kernel.streamedHeadDimSum + warps * kernel.headDimSum) +
       rows * kernel.lhsHeadDimSum);
  double shared =
      cyclesPerStagedGradientByte * staged / double(device.sharedBytesPerCycle);

  double group = isByKey ? double(op.getGroupSize()) : 1;
  double heads = tiles.getNumHeads() / group;
  attn::TileCounts counts =
      tiles.count(kernel.queryTile, kernel.keyTile, kernel.dim);
  double numRows = double(
      isByKey ? int64_t(llvm::divideCeil(tiles.getNumKeys(), kernel.keyTile))
              : tiles.getNumRows(kernel.queryTile));
  auto sms = double(device.sms);
  double items = heads * numRows / sms;
  int64_t threads = warpThreads * kernel.warps;
  double registers =
      (3 * scores + rows * kernel.accumulatedHeadDimSum) / double(threads) +
      registersBesideTiles;
  auto bytes = int64_t(elementBytes * (rows * kernel.lhsHeadDimSum +
                                       double(kernel.stages) * streamed *
                                           kernel.streamedHeadDimSum)) +
               reservedCtaBytes;
  double ctasPerSm = std::min(
      double(countCtas(threads, registers, bytes, device)), std::ceil(items));

  double issued = scores / issuedPerCycle;
  double work =
      ((ctasPerSm > 1 ? instructionsBesideOthers : instructionsAlone) +
       kernel.instructions) *
      issued;
  attn::KernelTime time;
  time.name = kernel.name;
  time.consumers = 1;
  time.mma = mma;
  time.exponentials = scores / double(device.special);
  time.chain = mma + shared + work + cyclesPerSyncGradientStep;
  time.step = overlap({mma, shared}) + work +
              cyclesPerSyncGradientStep / ctasPerSm +
              kernel.keepMaskCycles * scores;
  time.mask = instructionsPerMask * issued;
  time.workItem = cyclesPerSyncWorkItem;
  time.cyclesPerSecond = double(device.clockMHz) * 1e6;
  time.numWorkItems = items;
  time.numSteps = heads * group * counts.total / sms;
  time.numMasked = heads * group * counts.masked / sms;
  addLastWorkItems(time, counts.total < double(counts.most) * numRows,
                   group * double(counts.most), ctasPerSm);
  setSyncLaunch(time);
  return time;
}

/// A kernel that only moves `bytes` between memory and registers.
static attn::KernelTime
estimateMove(StringRef name, double bytes, const attn::DeviceFigures &device,
             attn::MemoryLevel level = attn::MemoryLevel::Memory) {
  attn::KernelTime time;
  time.name = name;
  time.cyclesPerSecond = double(device.clockMHz) * 1e6;
  time.memory =
      bytes * time.cyclesPerSecond / attn::getSustainedRate(device, level);
  return time;
}

/// Kernels that list the tiles to visit. Their time does not depend on the
/// schedule.
static attn::KernelTime estimateLists(double cycles,
                                      const attn::DeviceFigures &device) {
  attn::KernelTime time;
  time.name = "lists";
  time.cyclesPerSecond = double(device.clockMHz) * 1e6;
  time.launch = cycles;
  return time;
}

SmallVector<attn::KernelTime>
attn_tile::estimateForward(WarpSpecializedAttr schedule,
                           const attn::VisitedTiles &tiles,
                           const attn::DeviceFigures &device) {
  SmallVector<attn::KernelTime> kernels;
  if (attn::readsByPosition(tiles.getOp().getMaskMod()))
    kernels.push_back(estimateLists(cyclesPerLists, device));
  if (tiles.getOp().hasSequences())
    kernels.push_back(estimateLists(cyclesPerWorkItemList, device));
  kernels.push_back(estimateWarpSpecialized(schedule, tiles, device));
  return kernels;
}

/// The number of key heads, of `heads`, that have a slot in the dQ ring buffer
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
                      const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  auto qkHeadDim = double(llvm::alignTo(op.getQKHeadDim(), headDimStep));
  auto vHeadDim = double(llvm::alignTo(op.getVHeadDim(), headDimStep));
  double both = qkHeadDim + vHeadDim;
  attn::ScoreWork scoreMod = attn::countScoreWork(op.getScoreMod());
  auto countInstructions = [](const attn::ScoreWork &work) {
    return work.instructions + work.ahead + work.special +
           instructionsPerLoad * work.loads;
  };
  double ofProbabilities = countInstructions(scoreMod),
         ofGradients = ofProbabilities;
  if (auto gradient = dyn_cast<attn::AttentionGradOp>(op.getOperation()))
    ofGradients +=
        countInstructions(attn::countScoreWork(gradient.getScoreModGrad()));
  ofGradients += gradientInstructions;
  double keepMaskCycles = attn::getKeepMaskCycles(op, /*isGradient=*/true);
  SmallVector<attn::KernelTime> kernels;
  auto addKeys = [&](StringRef name, attn::ScheduleAttrInterface part,
                     double headDimSum, double lhsHeadDimSum,
                     double accumulatedHeadDimSum, double instructions) {
    auto byKey = cast<KeyMultistageAttr>(Attribute(part));
    kernels.push_back(estimateSyncGradient(
        {name, attn::MaskDim::Key, byKey.getQueryTile(), byKey.getKeyTile(),
         byKey.getStages(), byKey.getWarps(), headDimSum, lhsHeadDimSum, both,
         accumulatedHeadDimSum, instructions, keepMaskCycles},
        tiles, device));
  };
  bool hasValues = bool(schedule.getDv());
  if (hasValues)
    addKeys("dv", schedule.getDv(), both, qkHeadDim, vHeadDim, ofProbabilities);
  addKeys("dkdv", schedule.getDkdv(),
          both + qkHeadDim + (hasValues ? 0 : vHeadDim), both,
          qkHeadDim + (hasValues ? 0 : vHeadDim), ofGradients);
  if (auto byQuery =
          dyn_cast_if_present<MultistageAttr>(Attribute(schedule.getDq())))
    kernels.push_back(estimateSyncGradient(
        {"dq", attn::MaskDim::Query, byQuery.getQueryTile(),
         byQuery.getKeyTile(), byQuery.getStages(), byQuery.getWarps(),
         both + qkHeadDim, both, both, qkHeadDim, ofGradients, keepMaskCycles},
        tiles, device));
  return kernels;
}

SmallVector<attn::KernelTime>
attn_tile::estimateGradient(GradientAttr schedule,
                            const attn::VisitedTiles &tiles,
                            const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  auto keys = dyn_cast<KeyStationaryAttr>(Attribute(schedule.getDkdv()));
  bool isSync = isa<KeyMultistageAttr>(Attribute(schedule.getDkdv()));
  if (!keys && !isSync)
    return {};
  auto qkHeadDim = double(llvm::alignTo(op.getQKHeadDim(), headDimStep));
  auto vHeadDim = double(llvm::alignTo(op.getVHeadDim(), headDimStep));
  // Each sequence is padded to whole tiles.
  double queryRows =
      tiles.getNumHeads() *
      (double(tiles.getNumQueries()) + (op.hasSequences() ? paddedQueries : 0));
  double elementBytes =
      double(getElementTypeOrSelf(op.getQuery()).getIntOrFloatBitWidth()) / 8;
  constexpr double sumBytes = 4;
  bool hasDqAccumulator = !schedule.getDq();

  // GEMM kernels compute S, dP and the gradients of inputs.
  SmallVector<attn::KernelTime> kernels;
  // The score_mod, and its gradient.
  attn::ScoreWork scoreMod = attn::countScoreWork(op.getScoreMod());
  double scoreModCycles = getScoreModCycles(scoreMod, /*isStaged=*/false);
  if (auto gradient = dyn_cast<attn::AttentionGradOp>(op.getOperation()))
    scoreModCycles +=
        getScoreModCycles(attn::countScoreWork(gradient.getScoreModGrad()),
                          /*isStaged=*/false);
  double keepMaskCycles = attn::getKeepMaskCycles(op, /*isGradient=*/true);
  if (attn::readsByPosition(op.getMaskMod()))
    kernels.push_back(estimateLists(cyclesPerGradientLists, device));
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
    return kernels;
  }
  auto add = [&](StringRef name, Attribute part, double headDimSum,
                 double cyclesPerScore) {
    GradientKernel kernel = {name,
                             cast<attn::ScheduleAttrInterface>(part),
                             attn::MaskDim::Key,
                             TraversalKind::Grid,
                             /*consumers=*/1,
                             headDimSum,
                             cyclesPerScore + scoreModCycles,
                             keepMaskCycles};
    if (auto byKey = dyn_cast<KeyStationaryAttr>(part)) {
      kernel.traversal = byKey.getTraversal();
      kernel.consumers = byKey.getConsumers();
    } else if (auto byQuery = dyn_cast<WarpSpecializedAttr>(part)) {
      kernel.dim = attn::MaskDim::Query;
      kernel.traversal = byQuery.getTraversal();
      kernel.consumers = byQuery.getConsumers();
    }
    kernels.push_back(estimateGradientKernel(kernel, tiles, device));
  };
  bool hasValues = bool(schedule.getDv());
  add("dkdv", schedule.getDkdv(),
      qkHeadDim + vHeadDim + qkHeadDim + (hasValues ? 0 : vHeadDim) +
          (hasDqAccumulator ? qkHeadDim : 0),
      cyclesPerGradientScore);
  if (hasDqRing)
    kernels.back().workItem += cyclesPerDqRingWorkItem;
  if (keys.getKeyStages() > 1)
    kernels.back().workItem -= cyclesOfEarlyKeys;
  if (keys.getPrefetchWorkItem())
    kernels.back().workItem -= cyclesOfPrefetchedWorkItem;
  if (keys.getLhsRegisters())
    kernels.back().step *= stepOfLhsRegisters;
  if (keys.getOrderedDq())
    kernels.back().step += cyclesPerOrderedQuery * double(keys.getQueryTile());
  if (hasDqAccumulator && qkHeadDim > double(keys.getKeyTile()))
    kernels.back().step +=
        cyclesPerAddedByte * sumBytes * qkHeadDim * double(keys.getQueryTile());
  if (hasValues)
    add("dv", schedule.getDv(), qkHeadDim + vHeadDim,
        /*cyclesPerScore=*/0);
  if (schedule.getDq())
    add("dq", schedule.getDq(), 2 * qkHeadDim + vHeadDim,
        /*cyclesPerScore=*/0);
  else
    kernels.push_back(estimateMove(
        "dq_convert", late * queryRows * qkHeadDim * (sumBytes + elementBytes),
        device, hasDqRing ? attn::MemoryLevel::L2 : attn::MemoryLevel::Memory));
  return kernels;
}
