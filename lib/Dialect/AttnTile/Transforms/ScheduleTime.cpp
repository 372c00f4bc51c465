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
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::attn_tile;

/// Constants of the model, in clocks, fitted to `benchmarks/results/
/// schedules.jsonl` (405 kernels on an H200, those of windows since measured
/// anew): see docs/cost-model.md.
static constexpr double clocksPerProductClock = 0.95;
static constexpr double clocksPerExponentialClock = 0.94;
/// Of the softmax of one warpgroup, for each score of a thread, and what a mask
/// adds.
static constexpr double clocksPerScore = 18;
static constexpr double clocksPerMaskedScore = 14.7;
/// What an exponential takes of its thread that is a polynomial: eight more
/// instructions, each like those of the softmax.
static constexpr double clocksPerPolynomial = 22;
/// Of handing the products over to another warpgroup.
static constexpr double clocksPerTurn = 311;
/// Of an item of work whose queries are not loaded early.
static constexpr double clocksOfLateQueries = 959;
/// From the launch to full speed, and back.
static constexpr double clocksPerKernel = 61000;

/// The same of one consumer, or where memory is the bound (like the next two,
/// measured on kernels of one query for each head on an H200, 2026-11-22: see
/// docs/Schedules.md).
static constexpr double clocksPerStream = 7000;
/// Of the nominal rate of memory, what a kernel that only reads reaches.
static constexpr double readRate = 0.89;
/// What reading takes longer if more than the columns of one copy are fetched
/// to the second level cache, and keys are read once.
static constexpr double clocksOfWidePromotion = 1.04;
static constexpr int64_t columnBlockBytes = 128;
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

/// Of gradients, fitted to `benchmarks/results/backward.jsonl` and the rows of
/// `masks.jsonl` with masks that have names (38 functions on an H200):
/// `benchmarks/calibrate.py --gradients`. Where one kernel makes the gradients
/// of keys, weights and their gradients are on the way from one product to the
/// next; in the others they are hidden.
static constexpr double clocksPerGradientProductClock = 1.32;
static constexpr double clocksPerGradientScore = 25;
static constexpr double clocksPerMaskedGradient = 81;
static constexpr double clocksPerGradientItem = 910;
static constexpr double clocksPerGradientKernel = 7000;

/// Rows of scores of one warpgroup, and its threads.
static constexpr double warpgroupRows = 64, warpgroupThreads = 128;
/// Matrix instructions contract over this many channels.
static constexpr int64_t channelStep = 16;

/// What is done at the same time takes as long as the longest, and somewhat
/// longer where others are nearly as long.
static double overlap(std::initializer_list<double> clocks) {
  constexpr double power = 6;
  double sum = 0;
  for (double each : clocks)
    sum += std::pow(each, power);
  return std::pow(sum, 1 / power);
}

attn::KernelTime
attn_tile::estimateWarpSpecialized(WarpSpecializedAttr schedule,
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
  double chain =
      product / consumers +
      (clocksPerScore + clocksPerPolynomial * polynomials) * threadScores;
  double exponentials = clocksPerExponentialClock * (1 - polynomials) * scores /
                        double(device.special);
  double step =
      overlap({product, chain, exponentials}) + clocksPerTurn * (consumers - 1);
  // Each group of a cluster copies its part of the keys and values to all.
  auto cluster = double(schedule.getCluster());
  double bytes =
      double(getElementTypeOrSelf(op.getQuery()).getIntOrFloatBitWidth()) / 8 *
      double(op.getQueryHeadDim() + op.getValueHeadDim());
  step = std::max(step, keyTile * bytes / cluster / copiedBytesPerClock);
  double mask = clocksPerMaskedScore * threadScores;
  double item = schedule.getQueryStages() == 1 ? clocksOfLateQueries : 0;

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
  // Shares of the keys, as `convert-attn-to-attn-tile` makes them.
  double shares = std::clamp(
      std::floor(double(schedule.getSplitItems()) / std::max(wholeItems, 1.0)),
      1.0, std::max(double(counts.most), 1.0));
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
  double merge = 0;
  if (shares > 1) {
    double blocks = tiles.getNumHeads() * double(tiles.getNumQueries()) *
                    double(llvm::divideCeil(op.getValueHeadDim(), mergeBlock));
    merge = clocksPerMerge + clocksPerMergeBlock * blocks / multiprocessors;
  }
  double clusterClocks = schedule.getCluster() > 1 ? clocksPerCluster : 0;
  bool isStream = schedule.getConsumers() == 1 ||
                  memory > steps * step + masked * mask + items * item;
  return {"attention",
          schedule.getConsumers(),
          product,
          chain,
          exponentials,
          step,
          mask,
          item,
          (isStream ? clocksPerStream : clocksPerKernel) + clusterClocks,
          steps,
          masked,
          items,
          memory,
          merge,
          clocksPerSecond};
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
  /// What a score takes of a thread beside products that are in flight.
  double clocksPerScore;
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
  time.step = time.products + kernel.clocksPerScore * threadScores;
  time.chain = time.products / double(kernel.consumers) +
               kernel.clocksPerScore * threadScores;
  time.mask = clocksPerMaskedGradient * threadScores;
  time.item = clocksPerGradientItem;
  time.launch = clocksPerGradientKernel;

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
  return time;
}

/// A kernel that moves `bytes` between memory and registers, and no more.
static attn::KernelTime estimateMove(StringRef name, double bytes,
                                     const attn::DeviceFigures &device) {
  attn::KernelTime time;
  time.name = name;
  time.clocksPerSecond = double(device.clockMHz) * 1e6;
  time.memory = bytes * time.clocksPerSecond /
                attn::getSustainedRate(device, attn::MemoryLevel::Memory);
  return time;
}

SmallVector<attn::KernelTime>
attn_tile::estimateGradient(GradientAttr schedule,
                            const attn::VisitedTiles &tiles,
                            const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  auto keys = dyn_cast<KeyStationaryAttr>(Attribute(schedule.getKeys()));
  if (!keys || op.hasDropout())
    return {};
  auto channels = double(llvm::alignTo(op.getQueryHeadDim(), channelStep));
  auto valueChannels = double(llvm::alignTo(op.getValueHeadDim(), channelStep));
  double queryRows = tiles.getNumHeads() * double(tiles.getNumQueries());
  double elementBytes =
      double(getElementTypeOrSelf(op.getQuery()).getIntOrFloatBitWidth()) / 8;
  constexpr double sumBytes = 4;
  bool hasSums = !schedule.getQueries();

  // Scores, gradients of weights, and with each the gradient of a matrix.
  SmallVector<attn::KernelTime> kernels;
  double cleared = hasSums ? sumBytes * channels : 0;
  kernels.push_back(estimateMove(
      "rows", queryRows * (2 * elementBytes * valueChannels + cleared),
      device));
  auto add = [&](StringRef name, Attribute part, double madeChannels,
                 double clocksPerScore) {
    GradientKernel kernel = {name,
                             cast<attn::ScheduleAttrInterface>(part),
                             attn::MaskDim::Key,
                             TraversalKind::Grid,
                             /*consumers=*/1,
                             madeChannels,
                             clocksPerScore};
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
  if (hasValues)
    add("values", schedule.getValues(), channels + valueChannels,
        /*clocksPerScore=*/0);
  if (schedule.getQueries())
    add("queries", schedule.getQueries(), 2 * channels + valueChannels,
        /*clocksPerScore=*/0);
  else
    kernels.push_back(estimateMove(
        "sums", queryRows * channels * (sumBytes + elementBytes), device));
  return kernels;
}
