//===- SequentialTime.cpp - Estimates of the time of kernels on a host ----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A core does one thing after the other, so that the clocks of a step are the
// sum of those of its products, of what it computes for each score, and of the
// tiles that it loads. Memory is not among them: what is in the caches that
// cores share is not known of a device.
//
//===----------------------------------------------------------------------===//

#include "ScheduleTime.h"
#include "attn/Analysis/ScoreWork.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/RegisterBlocks.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::attn_tile;

/// Constants of the model, fitted to `benchmarks/results/host.jsonl` (kernels
/// on one core of an EPYC of family 25 with vectors of 512 and of 256 bits,
/// `benchmarks/calibrate.py`): see docs/cost-model.md. What the units take for
/// products, and clocks of a block of sums to begin and to end.
static constexpr double clocksPerProductClock = 1.129;
static constexpr double clocksPerBlock = 40.8;
/// Vector instructions of the softmax for each score, and clocks of a row of
/// scores, most of which are those of its maximum.
static constexpr double instructionsPerScore = 11.8;
static constexpr double clocksPerRow = 18.9;
/// Vector instructions of a mask for each score, with registers for predicates,
/// which come with vectors of 512 bits, and without.
static constexpr double instructionsPerMask = 3.8;
static constexpr double instructionsPerMaskWithout = 29.8;
static constexpr int64_t lanesWithPredicates = 16;
/// Vector instructions for each element of keys and values, which are converted
/// to f32, and keys transposed, and of rows at the begin and end of an item.
static constexpr double instructionsPerElement = 3.73;
static constexpr double instructionsPerItem = 2.57;
/// Of lines of what a step has, and the first level cache not; and of lines of
/// keys that the second level cache does not keep for the next item. Tiles are
/// transposed some columns at a time: what prefetchers bring in of a row is
/// lost on longer ones.
static constexpr double clocksPerLine = 0.98;
static constexpr double clocksPerStreamedLine = 1.1;
static constexpr double lineBytes = 64;
static constexpr double fetchedBytes = 256;
/// The part of the first level cache that one tile has, which is not fitted.
static constexpr double roomOfCache = 0.5;
/// Of what changes scores and masks: a vector instruction, and those of a
/// function such as tanh and of an element whose place was read.
static constexpr double instructionsPerChange = 6.3;
static constexpr double instructionsPerSpecial = 5.7;
static constexpr double instructionsPerGather = 8;
/// Of a gradient, for each score: its weight, and the gradient of the score.
static constexpr double instructionsPerGradient = 8.6;
/// Of the kernel that merges shares of the keys, for each element of a share.
static constexpr double instructionsPerMerged = 4;

/// Parts of the work that each thread takes, as in `attnrt_parallel_for`.
static constexpr double partsPerThread = 16;
/// Multiplications and additions, and loads, that a core begins in a clock, at
/// most, and clocks until the sum of one is there for the next.
static constexpr double pipes = 2;
static constexpr double latency = 4;

namespace {
/// Clocks of one core.
class CoreModel {
public:
  explicit CoreModel(const attn::DeviceFigures &device);

  /// A product of tiles of `rows` times `columns` that contracts over `depth`.
  double getProduct(int64_t rows, int64_t columns, int64_t depth) const;
  /// What is done on vectors with `instructions` for each of `elements`.
  double getVectors(double elements, double instructions) const {
    return elements * instructions / double(device.fma);
  }
  /// Tiles of `elements` that a step loads for the right-hand sides of
  /// products.
  double getOperands(double elements) const {
    return getVectors(elements, instructionsPerElement) +
           clocksPerLine * getLines(elements);
  }
  /// What loading a tile of keys takes longer, of `rows` rows of `rowBytes`
  /// each, if the walk over keys and values reads `walked` bytes.
  double getStreamed(int64_t rows, double rowBytes, double walked) const;
  /// What a mask adds to a step of `scores` scores.
  double getMask(attn::AttentionOpInterface op, double scores) const;

  /// Lines of a tile of `elements` that are not in the first level cache.
  double getLines(double elements) const;

  attn::KernelTime getKernel(StringRef name) const;
  /// Sets what `time` has of steps and items: `heads` heads with what `counts`
  /// counts in `rows` rows of tiles, each of whose items is `shares` items.
  void setCounts(attn::KernelTime &time, double heads,
                 const attn::TileCounts &counts, double rows,
                 double shares = 1) const;

private:
  const attn::DeviceFigures &device;
  Registers registers;
};
} // namespace

CoreModel::CoreModel(const attn::DeviceFigures &device)
    : device(device), registers(getVectorRegisters(device.registers)) {}

double CoreModel::getLines(double elements) const {
  constexpr double elementBytes = 4;
  double bytes = elements * elementBytes;
  double cache = roomOfCache * double(device.sharedBytes);
  double missing = cache == 0 ? 0 : std::clamp(bytes / cache - 1, 0.0, 1.0);
  return missing * bytes / lineBytes;
}

double CoreModel::getProduct(int64_t rows, int64_t columns,
                             int64_t depth) const {
  RegisterBlock block = getRegisterBlock(registers, rows, columns);
  auto sums = double(block.rows * block.pieces);
  double blocks =
      double(rows * columns) / double(block.rows * block.pieces * block.lanes);
  // A step of a block begins so many multiplications and loads, and the next
  // one waits for its sums.
  double rate = std::min(pipes, double(device.fma) / double(block.lanes));
  double step = std::max(
      {sums / rate, double(block.rows + block.pieces) / pipes, latency});
  return blocks *
         (clocksPerProductClock * double(depth) * step + clocksPerBlock);
}

double CoreModel::getStreamed(int64_t rows, double rowBytes,
                              double walked) const {
  double cache = double(device.l2Bytes) / double(device.multiprocessors);
  if (rowBytes <= fetchedBytes || cache == 0)
    return 0;
  return clocksPerStreamedLine * std::clamp(walked / cache - 1, 0.0, 1.0) *
         double(rows) * rowBytes / lineBytes;
}

/// Instructions on vectors for each score of what changes scores.
static double getChange(Region &region) {
  attn::ScoreWork work = attn::countScoreWork(region);
  return instructionsPerChange * (work.instructions + work.ahead + work.loads) +
         instructionsPerSpecial * work.special +
         instructionsPerGather * work.gathers;
}

double CoreModel::getMask(attn::AttentionOpInterface op, double scores) const {
  double mask = registers.lanes >= lanesWithPredicates
                    ? instructionsPerMask
                    : instructionsPerMaskWithout;
  return getVectors(scores, mask + getChange(op.getKeepRegion()));
}

attn::KernelTime CoreModel::getKernel(StringRef name) const {
  attn::KernelTime time;
  time.name = name;
  time.clocksPerSecond = double(device.clockMHz) * 1e6;
  time.launch = double(device.launchNs) * 1e-9 * time.clocksPerSecond;
  return time;
}

void CoreModel::setCounts(attn::KernelTime &time, double heads,
                          const attn::TileCounts &counts, double rows,
                          double shares) const {
  auto cores = double(device.multiprocessors);
  double items = heads * rows * shares;
  time.numItems = items / cores;
  time.numSteps = heads * counts.total / cores;
  time.numMasked = heads * counts.masked / cores;
  if (cores == 1 || items == 0)
    return;
  // Threads take parts of neighbouring items, and wait for the last ones: as
  // many as are missing to equal numbers or, where items differ, half of a part
  // of long ones.
  double part = std::ceil(items / (cores * partsPerThread));
  double rounds = std::ceil(std::ceil(items / part) / cores) * part;
  double longest = double(counts.most) / shares;
  double mean = counts.total / (rows * shares);
  double late = (rounds - time.numItems) * mean;
  if (counts.total < double(counts.most) * rows)
    late = std::max(late, part * longest / 2);
  time.numSteps += late;
}

attn::KernelTime
attn_tile::estimateSequential(SequentialAttr schedule,
                              const attn::VisitedTiles &tiles,
                              const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  CoreModel model(device);
  int64_t queryTile = schedule.getQueryTile(), keyTile = schedule.getKeyTile();
  auto channels = int64_t(llvm::alignTo(op.getQueryHeadDim(), channelStep));
  auto valueChannels =
      int64_t(llvm::alignTo(op.getValueHeadDim(), channelStep));
  double elementBytes =
      double(getElementTypeOrSelf(op.getQuery()).getIntOrFloatBitWidth()) / 8;
  double rowBytes = elementBytes * double(channels + valueChannels);
  attn::KernelTime time = model.getKernel("attention");
  time.products = model.getProduct(queryTile, keyTile, channels) +
                  model.getProduct(queryTile, valueChannels, keyTile);
  double scores = double(queryTile) * double(keyTile);
  time.exponentials = model.getVectors(scores, instructionsPerScore) +
                      clocksPerRow * double(queryTile);
  time.step = time.products + time.exponentials +
              model.getVectors(scores, getChange(op.getScoreRegion())) +
              model.getOperands(double(keyTile * (channels + valueChannels))) +
              model.getStreamed(keyTile, elementBytes * double(channels),
                                double(tiles.getNumKeys()) * rowBytes);
  time.chain = time.step;
  time.mask = model.getMask(op, scores);
  time.item = model.getVectors(double(queryTile * (channels + valueChannels)),
                               instructionsPerItem);

  double heads = tiles.getNumHeads();
  auto rows = double(tiles.getNumRows(queryTile));
  attn::TileCounts counts = tiles.count(queryTile, keyTile);
  if (schedule.getPackHeads()) {
    // The heads of a group are the rows of tiles.
    heads /= double(op.getGroupSize());
    double packed = double(llvm::divideCeil(op.getGroupSize(), queryTile));
    rows *= packed;
    counts.total *= packed;
    counts.masked *= packed;
  }
  double shares = countShares(schedule.getSplitItems(), heads * rows, counts);
  model.setCounts(time, heads, counts, rows, shares);
  if (shares > 1)
    time.merge = model.getVectors(heads * rows * shares *
                                      double(queryTile * valueChannels),
                                  instructionsPerMerged) /
                     double(device.multiprocessors) +
                 time.launch;
  return time;
}

SmallVector<attn::KernelTime>
attn_tile::estimateSequentialGradient(const attn::GradSchedules &schedules,
                                      const attn::VisitedTiles &tiles,
                                      const attn::DeviceFigures &device) {
  attn::AttentionOpInterface op = tiles.getOp();
  CoreModel model(device);
  auto channels = int64_t(llvm::alignTo(op.getQueryHeadDim(), channelStep));
  auto valueChannels =
      int64_t(llvm::alignTo(op.getValueHeadDim(), channelStep));
  double change = getChange(op.getScoreRegion());
  if (auto gradient = dyn_cast<attn::AttentionGradOp>(op.getOperation()))
    change += getChange(gradient.getScoreGradRegion());
  SmallVector<attn::KernelTime> kernels;

  auto rowsSchedule = cast<attn::ScheduleAttrInterface>(schedules.rows);
  attn::KernelTime rows = model.getKernel("rows");
  int64_t rowTile = rowsSchedule.getQueryTile();
  rows.item = clocksPerRow * double(rowTile) +
              model.getVectors(double(2 * rowTile * valueChannels),
                               instructionsPerItem);
  model.setCounts(rows, tiles.getNumHeads(), {},
                  double(tiles.getNumRows(rowTile)));
  kernels.push_back(rows);

  // What the kernels of keys and of queries have in common: scores, gradients
  // of weights, and products of these.
  auto add = [&](StringRef name, Attribute part, attn::MaskDim dim) {
    auto schedule = cast<attn::ScheduleAttrInterface>(part);
    int64_t queryTile = schedule.getQueryTile();
    int64_t keyTile = schedule.getKeyTile();
    bool isByKey = dim == attn::MaskDim::Key;
    // Rows of the item, and columns of the tiles that it walks over.
    int64_t own = isByKey ? keyTile : queryTile;
    int64_t walked = isByKey ? queryTile : keyTile;
    attn::KernelTime time = model.getKernel(name);
    time.products = model.getProduct(own, walked, channels) +
                    model.getProduct(own, walked, valueChannels) +
                    model.getProduct(own, channels, walked);
    if (isByKey)
      time.products += model.getProduct(own, valueChannels, walked);
    double scores = double(queryTile) * double(keyTile);
    time.exponentials = model.getVectors(scores, instructionsPerGradient);
    time.step = time.products + time.exponentials +
                model.getVectors(scores, change) +
                model.getOperands(double(walked * (channels + valueChannels)));
    time.chain = time.step;
    time.mask = model.getMask(op, scores);
    time.item = model.getVectors(double(own * 2 * (channels + valueChannels)),
                                 instructionsPerItem);
    // Tiles of keys see all query heads that share them.
    double group = isByKey ? double(op.getGroupSize()) : 1;
    attn::TileCounts counts = tiles.count(queryTile, keyTile, dim);
    counts.total *= group;
    counts.masked *= group;
    counts.most *= int64_t(group);
    model.setCounts(time, tiles.getNumHeads() / group, counts,
                    double(isByKey
                               ? llvm::divideCeil(tiles.getNumKeys(), keyTile)
                               : tiles.getNumRows(queryTile)));
    kernels.push_back(time);
  };
  add("keys", schedules.keys, attn::MaskDim::Key);
  if (schedules.queries)
    add("queries", schedules.queries, attn::MaskDim::Query);
  return kernels;
}
