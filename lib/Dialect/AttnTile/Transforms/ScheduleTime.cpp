//===- ScheduleTime.cpp - Estimates of the time of kernels ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel takes as long as the multiprocessor with most steps and items.
//
//===----------------------------------------------------------------------===//

#include "ScheduleTime.h"
#include "attn/Analysis/Roofline.h"
#include "attn/Analysis/ScoreWork.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::attn_tile;

/// Constants of the model, in clocks, fitted to `benchmarks/results/
/// schedules.jsonl` and `schedules-changes.jsonl` (621 kernels on an H200,
/// `benchmarks/calibrate.py`): see docs/cost-model.md.
static constexpr double clocksPerProductClock = 0.934;
static constexpr double clocksPerExponentialClock = 0.903;
/// Of the softmax of one warpgroup, for each score of a thread, and what a mask
/// adds.
static constexpr double clocksPerScore = 14.7;
static constexpr double clocksPerMaskedScore = 12.5;
/// What an exponential takes of its thread that is a polynomial: eight more
/// instructions, each like those of the softmax.
static constexpr double clocksPerPolynomial = 22;
/// What changes scores, for each score of a thread: instructions on the way
/// from a score to its weight, what those of the special function unit take
/// more, and elements from memory and from a stage. Instructions that do not
/// depend on the score run ahead, and are issued only.
static constexpr double clocksPerInstruction = 1.8;
static constexpr double clocksPerSpecial = 6.6;
static constexpr double clocksPerLoad = 11.4;
static constexpr double clocksPerStagedLoad = 2.95;
/// Instructions for each score that the softmax issues, and a load as many as.
static constexpr double instructionsPerScore = 6.4;
static constexpr double instructionsPerLoad = 4.1;
/// Bytes of staged addends of scores that a multiprocessor takes in a clock.
static constexpr double addendBytesPerClock = 52;
/// Of a multiprocessor for each element whose place was read: lanes of a warp
/// read a line each.
static constexpr double clocksPerGather = 0.56;
/// Of handing the products over to another warpgroup.
static constexpr double clocksPerTurn = 274;
/// Of an item of work, and of one whose queries are not loaded early.
static constexpr double clocksPerItem = 2270;
static constexpr double clocksOfLateQueries = 1130;
/// From the launch to full speed, and back: at most, and the work of a kernel
/// that takes half of that.
static constexpr double clocksPerKernel = 61000;
static constexpr double clocksOfHalfSpeed = 147000;
/// What products that run for long take more, at most, as power limits the
/// clock of the device; and the milliseconds of work that take half of that
/// more.
static constexpr double heatOfProducts = 0.18;
static constexpr double millisecondsOfHeat = 3;

/// Of any kernel, and all of one consumer or where memory is the bound (like
/// the next two, measured on kernels of one query for each head on an H200,
/// 2026-11-22: see docs/Schedules.md).
static constexpr double clocksPerStream = 7000;
/// Of the nominal rate of memory, what a kernel that only reads reaches.
static constexpr double readRate = 0.89;
/// What reading takes longer if more than the columns of one copy are fetched
/// to the second level cache, and keys are read once.
static constexpr double clocksOfWidePromotion = 1.04;
/// Bytes that one multiprocessor takes in a clock, at most.
static constexpr double bytesPerMultiprocessorClock = 34;
/// Bytes that come from the second level cache to the shared memory of one
/// multiprocessor in a clock, at most; and what groups of a cluster take to
/// wait for each other at the begin and at the end. Neither is fitted: products
/// of matrices reach 46 bytes.
static constexpr double copiedBytesPerClock = 64;
static constexpr double clocksPerCluster = 800;
/// Of the small kernel that merges shares of the keys: two latencies of memory
/// and an early launch; and for each block of channels of a row, on one
/// multiprocessor.
static constexpr double clocksPerMerge = 4000;
static constexpr double clocksPerMergeBlock = 157;
static constexpr int64_t mergeBlock = 32;

/// Of kernels with one role, fitted to
/// `benchmarks/results/schedules-sm_80.jsonl` and `decode-sm_80.jsonl` (216
/// kernels for sm_80 on an H200, whose synchronous products reach 2140 FLOP per
/// clock and multiprocessor). Instructions for each score, of a group that has
/// the multiprocessor to itself and of one that shares it, and those of a mask;
/// of a step, beside products and shared memory; and from the launch to full
/// speed, and back.
static constexpr double instructionsAlone = 7.5;
static constexpr double instructionsBesideOthers = 4;
static constexpr double instructionsPerMask = 4.75;
static constexpr double clocksPerStagedByte = 0.8;
static constexpr double clocksPerSyncStep = 463;
static constexpr double clocksPerSyncItem = 1190;
static constexpr double clocksPerSyncKernel = 150000;
static constexpr double clocksOfHalfSyncSpeed = 680000;
/// Of the steps of the longest item, what a multiprocessor waits for at the end
/// for each of its groups.
static constexpr double stepsOfLastItems = 0.43;
/// Of gradients with one role, from the differences between 24 tiles
/// (docs/Schedules.md, "Gradients on sm_80"): bytes of shared memory, and a
/// step beside products and shared memory. What gradients of weights take
/// beside the weights, for each score, is not fitted: as much as the weights
/// themselves.
static constexpr double clocksPerStagedGradientByte = 0.95;
static constexpr double clocksPerSyncGradientStep = 850;
static constexpr double gradientInstructions = 4;
/// Shared memory that a group takes beside its tiles, and registers of threads
/// beside their tiles.
static constexpr int64_t reservedGroupBytes = 1024;
static constexpr double registersBesideTiles = 57;
static constexpr int64_t mostRegisters = 255;

/// Of gradients, fitted to the 100 functions of the groups `gradients` of
/// `benchmarks/calibrate.py` (an H200). Where one kernel makes the gradients of
/// keys, weights and their gradients are on the way from one product to the
/// next; in the others they are hidden. What a mask adds is more where it reads
/// tensors.
static constexpr double clocksPerGradientProductClock = 1.136;
static constexpr double clocksPerGradientScore = 25.8;
static constexpr double clocksPerMaskedGradient = 38;
static constexpr double clocksPerMaskedGradientRead = 200;
static constexpr double clocksPerGradientItem = 2700;
/// More where sums go through a ring: warps count what has been added and round
/// what others have (docs/Schedules.md, "A ring of sums").
static constexpr double clocksPerRingItem = 4000;
/// Less for each item whose keys are loaded early, or that is found ahead
/// (docs/Schedules.md, "Between items").
static constexpr double clocksOfEarlyKeys = 1000;
static constexpr double clocksOfItemAhead = 1000;
/// What a step takes whose left-hand sides stay in registers, of one that reads
/// them in its products (docs/Schedules.md, "What stays in registers").
static constexpr double stepOfLhsRegisters = 0.93;
/// More for each query of a step whose sums are added in turns, for which
/// groups wait (docs/Schedules.md, "Sums in turns").
static constexpr double clocksPerTurnedQuery = 4.9;
/// More for each byte of sums that are added straight from registers: additions
/// hold up their warps (docs/Schedules.md, "Six products for 256 channels").
static constexpr double clocksPerAddedByte = 0.024;
static constexpr double heatOfGradients = 0.246;
static constexpr double millisecondsOfGradientHeat = 10;
/// Of a step and of an item that look up their sequence.
static constexpr double clocksPerSequenceStep = 288;
static constexpr double clocksPerSequenceItem = 790;
/// Queries of a sequence that are padding.
static constexpr double paddedQueries = 128;

/// Of the kernels that find out what a mask leaves that reads tensors, of
/// attention and of a gradient; of the kernel that lists tiles of sequences;
/// and of the predicate of a mask, for each instruction and read.
static constexpr double clocksPerLists = 55000;
static constexpr double clocksPerSequencePlan = 13000;
static constexpr double clocksPerGradientLists = 100000;
static constexpr double clocksPerKeepInstruction = 2.5;

/// Instructions of single threads that a multiprocessor issues in a clock.
static constexpr double issuedPerClock = 128;

/// What is done at the same time takes as long as the longest, and somewhat
/// longer where others are nearly as long.
static double overlap(std::initializer_list<double> clocks) {
  constexpr double power = 6;
  double sum = 0;
  for (double each : clocks)
    sum += std::pow(each, power);
  return std::pow(sum, 1 / power);
}

/// What a change of scores takes of a thread for each of its scores.
static double getChangeClocks(const attn::ScoreWork &work, bool isStaged) {
  return clocksPerInstruction * work.instructions +
         clocksPerSpecial * work.special +
         (isStaged ? clocksPerStagedLoad : clocksPerLoad) * work.loads;
}

double attn_tile::countShares(int64_t splitItems, double wholeItems,
                              const attn::TileCounts &counts) {
  return std::clamp(std::floor(double(splitItems) / std::max(wholeItems, 1.0)),
                    1.0, std::max(double(counts.most), 1.0));
}

static double getMergeClocks(const attn::VisitedTiles &tiles,
                             const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  double blocks = tiles.getNumHeads() * double(tiles.getNumQueries()) *
                  double(llvm::divideCeil(op.getValueHeadDim(), mergeBlock));
  return clocksPerMerge +
         clocksPerMergeBlock * blocks / double(device.multiprocessors);
}

/// Sets how long `time` takes to full speed, and how power slows it down.
static void setLaunch(attn::KernelTime &time, double heat = heatOfProducts,
                      double heatMilliseconds = millisecondsOfHeat) {
  double computed = time.numSteps * time.step + time.numMasked * time.mask +
                    time.numItems * time.item;
  time.launch = clocksPerStream;
  if (time.memory > computed)
    return;
  double milliseconds = computed / time.clocksPerSecond * 1e3;
  time.clocksPerSecond /=
      1 + heat * milliseconds / (milliseconds + heatMilliseconds);
  if (time.consumers > 1)
    time.launch += clocksPerKernel * computed / (computed + clocksOfHalfSpeed);
}

static attn::KernelTime
estimateWarpSpecialized(WarpSpecializedAttr schedule,
                        const attn::VisitedTiles &tiles,
                        const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  auto queryTile = double(schedule.getQueryTile());
  auto keyTile = double(schedule.getKeyTile());
  double channels = double(llvm::alignTo(op.getQueryHeadDim(), channelStep));
  double valueChannels =
      double(llvm::alignTo(op.getValueHeadDim(), channelStep));

  // Warpgroups take turns: while one computes its softmax, the others have
  // products. One alone needs its share of the products and its softmax.
  double scores = queryTile * keyTile;
  double product = clocksPerProductClock * 2 * scores *
                   (channels + valueChannels) / double(device.products16);
  double threadScores = keyTile * warpgroupRows / warpgroupThreads;
  double consumers = double(schedule.getConsumers());
  double polynomials = double(schedule.getPolynomialExp2()) / 16;
  attn::ScoreWork work = attn::countScoreWork(op.getScoreRegion());
  bool isStaged = schedule.getScoreStages() > 0;
  double chain = product / consumers +
                 (clocksPerScore + clocksPerPolynomial * polynomials +
                  getChangeClocks(work, isStaged)) *
                     threadScores;
  double exponentials = clocksPerExponentialClock *
                        (1 - polynomials + work.special) * scores /
                        double(device.special);
  double instructions = instructionsPerScore + work.instructions + work.ahead +
                        instructionsPerLoad * (isStaged ? 0 : work.loads);
  double issued = instructions * scores / issuedPerClock;
  double step = overlap({product, chain, exponentials, issued}) +
                clocksPerTurn * (consumers - 1);
  step += clocksPerGather * work.gathers * scores;
  if (isStaged)
    step += work.bytes * scores / addendBytesPerClock;
  step += attn::getDecisionClocks(op, /*isGradient=*/false) * scores;
  // Each group of a cluster copies its part of the keys and values to all.
  auto cluster = double(schedule.getCluster());
  double bytes =
      double(getElementTypeOrSelf(op.getQuery()).getIntOrFloatBitWidth()) / 8 *
      double(op.getQueryHeadDim() + op.getValueHeadDim());
  step = std::max(step, keyTile * bytes / cluster / copiedBytesPerClock);
  attn::ScoreWork keep = attn::countScoreWork(op.getKeepRegion());
  double mask = (clocksPerMaskedScore +
                 clocksPerKeepInstruction * (keep.ahead + keep.loads)) *
                threadScores;
  double item = clocksPerItem +
                (schedule.getQueryStages() == 1 ? clocksOfLateQueries : 0);

  // The multiprocessor with most work. Pairs are dealt out to equal amounts;
  // otherwise some have one item more than others, of the longest.
  double heads = tiles.getNumHeads();
  auto keyHeads = double(op.getNumKeyHeads()) / double(op.getNumQueryHeads());
  if (schedule.getPackHeads())
    heads *= keyHeads;
  // The items of a cluster walk over the tiles that any of them needs.
  int64_t clusterTile = schedule.getCluster() * schedule.getQueryTile();
  attn::TileCounts counts = tiles.count(clusterTile, schedule.getKeyTile());
  double multiprocessors = double(device.multiprocessors);
  double wholeItems = heads * cluster * double(tiles.getNumRows(clusterTile));
  double shares = countShares(schedule.getSplitItems(), wholeItems, counts);
  double items = wholeItems * shares / multiprocessors;
  double most = std::ceil(double(counts.most) / shares);
  double steps = heads * cluster * counts.total / multiprocessors;
  double masked = heads * cluster * counts.masked / multiprocessors;
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
  double clocksPerSecond = double(device.clockMHz) * 1e6;
  double bytesPerClock =
      readRate * double(device.memoryGBps) * 1e9 / clocksPerSecond;
  double memory = streamed / bytesPerClock;
  // Where tiles of queries do not share them, keys and values come from there
  // for each item, through the multiprocessor that has it.
  if (tiles.getNumRows(schedule.getQueryTile()) == 1) {
    if (schedule.getL2Promotion() > columnBlockBytes)
      memory *= clocksOfWidePromotion;
    memory = std::max(memory, std::ceil(items) * most * keyTile * bytes /
                                  bytesPerMultiprocessorClock);
  }
  double merge = shares > 1 ? getMergeClocks(tiles, device) : 0;
  double clusterClocks = schedule.getCluster() > 1 ? clocksPerCluster : 0;
  attn::KernelTime time;
  time.name = "attention";
  time.consumers = schedule.getConsumers();
  time.products = product;
  time.chain = chain;
  time.exponentials = exponentials;
  time.step = step;
  time.mask = mask;
  time.item = item;
  time.numSteps = steps;
  time.numMasked = masked;
  time.numItems = items;
  time.memory = memory;
  time.merge = merge;
  time.clocksPerSecond = clocksPerSecond;
  setLaunch(time);
  time.launch += clusterClocks;
  return time;
}

/// Groups of `threads` threads with `registers` each and `bytes` of shared
/// memory that a multiprocessor has room for.
static int64_t countGroups(int64_t threads, double registers, int64_t bytes,
                           const attn::DeviceFigures &device) {
  auto byRegisters =
      int64_t(multiprocessorRegisters /
              (double(threads) * std::min(registers, double(mostRegisters))));
  return std::max<int64_t>(
      1,
      std::min((device.sharedBytes + reservedGroupBytes) / bytes, byRegisters));
}

static int64_t countGroups(MultistageAttr schedule,
                           attn::AttentionOpInterface op,
                           const attn::DeviceFigures &device) {
  int64_t elementBytes = llvm::divideCeil(
      getElementTypeOrSelf(op.getQuery()).getIntOrFloatBitWidth(), 8);
  auto rowBytes = [&](int64_t channels) {
    return int64_t(llvm::alignTo(elementBytes * channels, columnBlockBytes));
  };
  int64_t bytes =
      schedule.getQueryTile() * rowBytes(op.getQueryHeadDim()) +
      schedule.getStages() * schedule.getKeyTile() *
          (rowBytes(op.getQueryHeadDim()) + rowBytes(op.getValueHeadDim())) +
      reservedGroupBytes;
  int64_t threads = warpThreads * schedule.getWarps();
  double registers =
      1.5 * double(schedule.getQueryTile() * schedule.getKeyTile()) /
          double(threads) +
      double(schedule.getQueryTile() * op.getValueHeadDim()) / double(threads) +
      registersBesideTiles;
  return countGroups(threads, registers, bytes, device);
}

/// Adds what multiprocessors wait for at the end of a kernel with one role,
/// whose items are handed out by the device and have `most` steps at most.
/// Where they are alike, some multiprocessors have one more than others; where
/// they are `uneven`, long ones may be the last.
static void addLastItems(attn::KernelTime &time, bool uneven, double most,
                         double groups) {
  if (uneven) {
    time.numSteps += stepsOfLastItems * most * groups;
    return;
  }
  double rounds = std::ceil(time.numItems / groups) * groups;
  time.numSteps += (rounds - time.numItems) * most;
  time.numItems = rounds;
}

/// Sets how long a kernel with one role takes to full speed, and back.
static void setSyncLaunch(attn::KernelTime &time) {
  double computed = time.numSteps * time.step + time.numMasked * time.mask +
                    time.numItems * time.item;
  time.launch = clocksPerStream;
  if (computed > time.memory)
    time.launch +=
        clocksPerSyncKernel * computed / (computed + clocksOfHalfSyncSpeed);
}

attn::KernelTime
attn_tile::estimateMultistage(MultistageAttr schedule,
                              const attn::VisitedTiles &tiles,
                              const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  auto queryTile = double(schedule.getQueryTile());
  auto keyTile = double(schedule.getKeyTile());
  auto warps = double(schedule.getWarps());
  double channels = double(llvm::alignTo(op.getQueryHeadDim(), channelStep));
  double valueChannels =
      double(llvm::alignTo(op.getValueHeadDim(), channelStep));
  double elementBytes =
      double(getElementTypeOrSelf(op.getQuery()).getIntOrFloatBitWidth()) / 8;

  // Each group of rows reads the keys and values that all of them have staged,
  // and its queries.
  double scores = queryTile * keyTile;
  double product =
      2 * scores * (channels + valueChannels) / double(device.products16);
  double staged =
      elementBytes * (keyTile * (channels + valueChannels) * (1 + warps) +
                      queryTile * channels);
  double shared =
      clocksPerStagedByte * staged / double(device.sharedBytesPerClock);
  double heads = tiles.getNumHeads();
  auto keyHeads = double(op.getNumKeyHeads()) / double(op.getNumQueryHeads());
  if (schedule.getPackHeads())
    heads *= keyHeads;
  attn::TileCounts counts =
      tiles.count(schedule.getQueryTile(), schedule.getKeyTile());
  auto multiprocessors = double(device.multiprocessors);
  double rows = double(tiles.getNumRows(schedule.getQueryTile()));
  double wholeItems = heads * rows;
  double shares = countShares(schedule.getSplitItems(), wholeItems, counts);
  double items = wholeItems * shares / multiprocessors;

  // Groups that share a multiprocessor hide what the others wait for.
  double groups =
      std::min(double(countGroups(schedule, op, device)), std::ceil(items));
  attn::ScoreWork work = attn::countScoreWork(op.getScoreRegion());
  double issued = scores / issuedPerClock;
  double softmax = (groups > 1 ? instructionsBesideOthers : instructionsAlone) +
                   work.instructions + work.ahead + work.special +
                   instructionsPerLoad * work.loads;
  attn::KernelTime time;
  time.name = "attention";
  time.consumers = 1;
  time.products = product;
  time.exponentials = scores / double(device.special);
  time.chain = product + shared + softmax * issued + clocksPerSyncStep;
  time.step = overlap({product, shared}) + softmax * issued +
              clocksPerSyncStep / groups +
              attn::getDecisionClocks(op, /*isGradient=*/false) * scores;
  time.mask = instructionsPerMask * issued;
  time.item = clocksPerSyncItem;
  time.clocksPerSecond = double(device.clockMHz) * 1e6;

  double most = std::ceil(double(counts.most) / shares);
  time.numItems = items;
  time.numSteps = heads * counts.total / multiprocessors;
  time.numMasked = heads * counts.masked / multiprocessors;
  addLastItems(time, counts.total < double(counts.most) * rows, most, groups);
  double keys = std::min(double(tiles.getNumKeys()), counts.total * keyTile);
  double bytes = tiles.getNumHeads() * keyHeads * keys * elementBytes *
                 double(op.getQueryHeadDim() + op.getValueHeadDim());
  time.memory = bytes * time.clocksPerSecond /
                (readRate * double(device.memoryGBps) * 1e9);
  if (shares > 1)
    time.merge = getMergeClocks(tiles, device);
  setSyncLaunch(time);
  return time;
}

namespace {
/// One of the kernels of a gradient that multiply matrices.
struct GradientKernel {
  StringRef name;
  attn::ScheduleAttrInterface schedule;
  /// Work items are tiles of these.
  attn::MaskDim dim;
  TraversalKind traversal;
  int64_t consumers;
  /// Channels that products of a pair contract over or make, all together.
  double channels;
  /// What a score takes of a thread beside products that are in flight, and of
  /// the multiprocessor for decisions.
  double clocksPerScore;
  double decisionClocks;
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
  time.products = clocksPerGradientProductClock * 2 * scores * kernel.channels /
                  double(device.products16);
  time.exponentials = scores / double(device.special);
  time.step = time.products + kernel.clocksPerScore * threadScores +
              kernel.decisionClocks * scores;
  time.chain = time.products / double(kernel.consumers) +
               kernel.clocksPerScore * threadScores;
  time.mask =
      (attn::readsByPosition(op.getKeepRegion()) ? clocksPerMaskedGradientRead
                                                 : clocksPerMaskedGradient) *
      threadScores;
  time.item = clocksPerGradientItem;
  if (op.hasSequences()) {
    time.step += clocksPerSequenceStep;
    time.item += clocksPerSequenceItem;
  }

  // Tiles of keys see all query heads that share them.
  double group = isByKey ? double(op.getGroupSize()) : 1;
  double heads = tiles.getNumHeads() / group;
  attn::TileCounts counts = tiles.count(queryTile, keyTile, kernel.dim);
  int64_t rows = isByKey ? llvm::divideCeil(tiles.getNumKeys(), keyTile)
                         : tiles.getNumRows(queryTile);
  double multiprocessors = double(device.multiprocessors);
  time.numItems = heads * double(rows) / multiprocessors;
  time.numSteps = heads * group * counts.total / multiprocessors;
  time.numMasked = heads * group * counts.masked / multiprocessors;
  // Pairs are dealt out to equal amounts, and so are items that whoever is free
  // takes, long ones first.
  if (kernel.traversal == TraversalKind::Persistent) {
    double rounds = std::ceil(time.numItems);
    time.numSteps += (rounds - time.numItems) * group * double(counts.most);
    time.numItems = rounds;
  }
  time.clocksPerSecond = double(device.clockMHz) * 1e6;
  setLaunch(time, heatOfGradients, millisecondsOfGradientHeat);
  return time;
}

namespace {
/// One of the kernels of a gradient with one role: a tile of `rows` stays,
/// tiles of `walked` go by.
struct SyncGradientKernel {
  StringRef name;
  attn::MaskDim dim;
  int64_t queryTile, keyTile, stages, warps;
  /// Channels that products of a pair contract over or make, all together;
  /// those of them that left-hand sides in shared memory have; and those of the
  /// tiles that are walked over, and of sums.
  double channels, leftChannels, walkedChannels, summedChannels;
  /// Instructions for each score beside those of weights.
  double instructions;
  double decisionClocks;
};
} // namespace

static attn::KernelTime
estimateSyncGradient(const SyncGradientKernel &kernel,
                     const attn::VisitedTiles &tiles,
                     const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  bool isByKey = kernel.dim == attn::MaskDim::Key;
  auto rows = double(isByKey ? kernel.keyTile : kernel.queryTile);
  auto walked = double(isByKey ? kernel.queryTile : kernel.keyTile);
  auto warps = double(kernel.warps);
  double scores = rows * walked;
  double elementBytes =
      double(getElementTypeOrSelf(op.getQuery()).getIntOrFloatBitWidth()) / 8;

  // Each warp reads all that is walked over once for each product, and its rows
  // of the tiles that stay.
  double product = 2 * scores * kernel.channels / double(device.products16);
  double staged = elementBytes *
                  (walked * (kernel.walkedChannels + warps * kernel.channels) +
                   rows * kernel.leftChannels);
  double shared =
      clocksPerStagedGradientByte * staged / double(device.sharedBytesPerClock);

  double group = isByKey ? double(op.getGroupSize()) : 1;
  double heads = tiles.getNumHeads() / group;
  attn::TileCounts counts =
      tiles.count(kernel.queryTile, kernel.keyTile, kernel.dim);
  double numRows = double(
      isByKey ? int64_t(llvm::divideCeil(tiles.getNumKeys(), kernel.keyTile))
              : tiles.getNumRows(kernel.queryTile));
  auto multiprocessors = double(device.multiprocessors);
  double items = heads * numRows / multiprocessors;
  int64_t threads = warpThreads * kernel.warps;
  double registers =
      (3 * scores + rows * kernel.summedChannels) / double(threads) +
      registersBesideTiles;
  auto bytes = int64_t(elementBytes * (rows * kernel.leftChannels +
                                       double(kernel.stages) * walked *
                                           kernel.walkedChannels)) +
               reservedGroupBytes;
  double groups = std::min(
      double(countGroups(threads, registers, bytes, device)), std::ceil(items));

  double issued = scores / issuedPerClock;
  double work = ((groups > 1 ? instructionsBesideOthers : instructionsAlone) +
                 kernel.instructions) *
                issued;
  attn::KernelTime time;
  time.name = kernel.name;
  time.consumers = 1;
  time.products = product;
  time.exponentials = scores / double(device.special);
  time.chain = product + shared + work + clocksPerSyncGradientStep;
  time.step = overlap({product, shared}) + work +
              clocksPerSyncGradientStep / groups +
              kernel.decisionClocks * scores;
  time.mask = instructionsPerMask * issued;
  time.item = clocksPerSyncItem;
  time.clocksPerSecond = double(device.clockMHz) * 1e6;
  time.numItems = items;
  time.numSteps = heads * group * counts.total / multiprocessors;
  time.numMasked = heads * group * counts.masked / multiprocessors;
  addLastItems(time, counts.total < double(counts.most) * numRows,
               group * double(counts.most), groups);
  setSyncLaunch(time);
  return time;
}

/// A kernel that moves `bytes` between memory and registers, and no more.
static attn::KernelTime
estimateMove(StringRef name, double bytes, const attn::DeviceFigures &device,
             attn::MemoryLevel level = attn::MemoryLevel::Memory) {
  attn::KernelTime time;
  time.name = name;
  time.clocksPerSecond = double(device.clockMHz) * 1e6;
  time.memory =
      bytes * time.clocksPerSecond / attn::getSustainedRate(device, level);
  return time;
}

/// Kernels that find out what there is to do, which take as long whatever the
/// schedule is.
static attn::KernelTime estimateLists(double clocks,
                                      const attn::DeviceFigures &device) {
  attn::KernelTime time;
  time.name = "lists";
  time.clocksPerSecond = double(device.clockMHz) * 1e6;
  time.launch = clocks;
  return time;
}

SmallVector<attn::KernelTime>
attn_tile::estimateForward(WarpSpecializedAttr schedule,
                           const attn::VisitedTiles &tiles,
                           const attn::DeviceFigures &device) {
  SmallVector<attn::KernelTime> kernels;
  if (attn::readsByPosition(tiles.getOp().getKeepRegion()))
    kernels.push_back(estimateLists(clocksPerLists, device));
  if (tiles.getOp().hasSequences())
    kernels.push_back(estimateLists(clocksPerSequencePlan, device));
  kernels.push_back(estimateWarpSpecialized(schedule, tiles, device));
  return kernels;
}

/// Key heads that have a place in the ring of sums of `keys`, of `heads`, and
/// those whose sums are rounded when there is nothing else to do any more.
static std::pair<double, double> countRing(KeyStationaryAttr keys, double heads,
                                           double tilesOfHead) {
  // Two rounds of items, as `attn-choose-schedule` takes them.
  double round = double(keys.getRingItems()) / 2 / tilesOfHead;
  return {std::min(heads, std::ceil(2 * round) + 2), std::min(heads, round)};
}

/// The kernels of a gradient that have one role.
static SmallVector<attn::KernelTime>
estimateSyncGradients(GradientAttr schedule, const attn::VisitedTiles &tiles,
                      const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  auto channels = double(llvm::alignTo(op.getQueryHeadDim(), channelStep));
  auto valueChannels = double(llvm::alignTo(op.getValueHeadDim(), channelStep));
  double both = channels + valueChannels;
  attn::ScoreWork change = attn::countScoreWork(op.getScoreRegion());
  auto countInstructions = [](const attn::ScoreWork &work) {
    return work.instructions + work.ahead + work.special +
           instructionsPerLoad * work.loads;
  };
  double ofWeights = countInstructions(change), ofGradients = ofWeights;
  if (auto gradient = dyn_cast<attn::AttentionGradOp>(op.getOperation()))
    ofGradients +=
        countInstructions(attn::countScoreWork(gradient.getScoreGradRegion()));
  ofGradients += gradientInstructions;
  double decisionClocks = attn::getDecisionClocks(op, /*isGradient=*/true);
  SmallVector<attn::KernelTime> kernels;
  auto addKeys = [&](StringRef name, attn::ScheduleAttrInterface part,
                     double made, double left, double sums,
                     double instructions) {
    auto byKey = cast<KeyMultistageAttr>(Attribute(part));
    kernels.push_back(estimateSyncGradient(
        {name, attn::MaskDim::Key, byKey.getQueryTile(), byKey.getKeyTile(),
         byKey.getStages(), byKey.getWarps(), made, left, both, sums,
         instructions, decisionClocks},
        tiles, device));
  };
  bool hasValues = bool(schedule.getValues());
  if (hasValues)
    addKeys("values", schedule.getValues(), both, channels, valueChannels,
            ofWeights);
  addKeys("keys", schedule.getKeys(),
          both + channels + (hasValues ? 0 : valueChannels), both,
          channels + (hasValues ? 0 : valueChannels), ofGradients);
  if (auto byQuery =
          dyn_cast_if_present<MultistageAttr>(Attribute(schedule.getQueries())))
    kernels.push_back(estimateSyncGradient(
        {"queries", attn::MaskDim::Query, byQuery.getQueryTile(),
         byQuery.getKeyTile(), byQuery.getStages(), byQuery.getWarps(),
         both + channels, both, both, channels, ofGradients, decisionClocks},
        tiles, device));
  return kernels;
}

SmallVector<attn::KernelTime>
attn_tile::estimateGradient(GradientAttr schedule,
                            const attn::VisitedTiles &tiles,
                            const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  auto keys = dyn_cast<KeyStationaryAttr>(Attribute(schedule.getKeys()));
  bool isSync = isa<KeyMultistageAttr>(Attribute(schedule.getKeys()));
  if (!keys && !isSync)
    return {};
  auto channels = double(llvm::alignTo(op.getQueryHeadDim(), channelStep));
  auto valueChannels = double(llvm::alignTo(op.getValueHeadDim(), channelStep));
  // Each sequence has rows for whole tiles.
  double queryRows =
      tiles.getNumHeads() *
      (double(tiles.getNumQueries()) + (op.hasSequences() ? paddedQueries : 0));
  double elementBytes =
      double(getElementTypeOrSelf(op.getQuery()).getIntOrFloatBitWidth()) / 8;
  constexpr double sumBytes = 4;
  bool hasSums = !schedule.getQueries();

  // Scores, gradients of weights, and with each the gradient of a matrix.
  SmallVector<attn::KernelTime> kernels;
  // What the score is, and what its gradient is.
  attn::ScoreWork change = attn::countScoreWork(op.getScoreRegion());
  double changeClocks = getChangeClocks(change, /*isStaged=*/false);
  if (auto gradient = dyn_cast<attn::AttentionGradOp>(op.getOperation()))
    changeClocks +=
        getChangeClocks(attn::countScoreWork(gradient.getScoreGradRegion()),
                        /*isStaged=*/false);
  double decisionClocks = attn::getDecisionClocks(op, /*isGradient=*/true);
  if (attn::readsByPosition(op.getKeepRegion()))
    kernels.push_back(estimateLists(clocksPerGradientLists, device));
  double cleared = hasSums ? sumBytes * channels : 0, late = 1;
  bool hasRing = keys && keys.getRingItems() > 0;
  if (hasRing) {
    double heads = tiles.getNumHeads() / double(op.getGroupSize());
    double tilesOfHead =
        std::ceil(double(tiles.getNumKeys()) / double(keys.getKeyTile()));
    auto [places, last] = countRing(keys, heads, std::max(tilesOfHead, 1.0));
    cleared *= places / heads;
    late = last / heads;
  }
  kernels.push_back(estimateMove(
      "rows", queryRows * (2 * elementBytes * valueChannels + cleared),
      device));
  if (isSync) {
    llvm::append_range(kernels, estimateSyncGradients(schedule, tiles, device));
    return kernels;
  }
  auto add = [&](StringRef name, Attribute part, double madeChannels,
                 double clocksPerScore) {
    GradientKernel kernel = {name,
                             cast<attn::ScheduleAttrInterface>(part),
                             attn::MaskDim::Key,
                             TraversalKind::Grid,
                             /*consumers=*/1,
                             madeChannels,
                             clocksPerScore + changeClocks,
                             decisionClocks};
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
  bool hasValues = bool(schedule.getValues());
  add("keys", schedule.getKeys(),
      channels + valueChannels + channels + (hasValues ? 0 : valueChannels) +
          (hasSums ? channels : 0),
      clocksPerGradientScore);
  if (hasRing)
    kernels.back().item += clocksPerRingItem;
  if (keys.getKeyStages() > 1)
    kernels.back().item -= clocksOfEarlyKeys;
  if (keys.getItemsAhead())
    kernels.back().item -= clocksOfItemAhead;
  if (keys.getLhsRegisters())
    kernels.back().step *= stepOfLhsRegisters;
  if (keys.getInTurn())
    kernels.back().step += clocksPerTurnedQuery * double(keys.getQueryTile());
  if (hasSums && channels > double(keys.getKeyTile()))
    kernels.back().step +=
        clocksPerAddedByte * sumBytes * channels * double(keys.getQueryTile());
  if (hasValues)
    add("values", schedule.getValues(), channels + valueChannels,
        /*clocksPerScore=*/0);
  if (schedule.getQueries())
    add("queries", schedule.getQueries(), 2 * channels + valueChannels,
        /*clocksPerScore=*/0);
  else
    kernels.push_back(estimateMove(
        "sums", late * queryRows * channels * (sumBytes + elementBytes), device,
        hasRing ? attn::MemoryLevel::L2 : attn::MemoryLevel::Memory));
  return kernels;
}
