//===- SequentialTime.cpp - Estimates of the time of kernels on a host ----===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A core does one thing after the other. So the cycles of a step are the cycles
// of its matmuls, of its work on scores and of loading its tiles, added up.
// Memory is left out, because the contents of caches common to several cores
// are not known of a device.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/RegisterBlocks.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "attn/PerfModel/ScheduleTime.h"
#include "attn/PerfModel/ScoreWork.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::attn_tile;

/// Lanes of vectors with which predicate registers come.
static constexpr int64_t lanesWithPredicates = 16;
static constexpr double lineBytes = 64;
/// Bytes of a row of keys that prefetchers bring in. Tiles are transposed some
/// columns at a time; on longer rows, that part is lost.
static constexpr double fetchedBytes = 256;
/// Parts of the work that each thread takes, as in `attnrt_parallel_for`.
static constexpr double partsPerThread = 16;

namespace {
/// Cycles of one core.
class CoreModel {
public:
  explicit CoreModel(const attn::DeviceModel &device);

  /// A matmul to a tile of `rows` times `columns` that contracts over `depth`.
  double getMma(int64_t rows, int64_t columns, int64_t depth) const;
  /// Work on vectors with `instructions` for each of `elements`.
  double getVectors(double elements, double instructions) const {
    return elements * instructions / double(device.fma);
  }
  /// Tiles of `elements` that a step loads as the right-hand sides of matmuls.
  double getOperands(double elements) const {
    return getVectors(elements, fit.hostElement) +
           fit.hostLine * getLines(elements);
  }
  /// Extra cycles to load a tile of keys, of `rows` rows of `rowBytes` each, if
  /// the loop over keys and values reads `streamed` bytes.
  double getStreamed(int64_t rows, double rowBytes, double streamed) const;
  /// Extra cycles of a mask on a step of `scores` scores.
  double getMask(attn::AttentionOpInterface op, double scores) const;

  /// Cache lines of a tile of `elements` that are not in L1.
  double getLines(double elements) const;

  attn::KernelTime getKernel(StringRef name) const;
  /// Sets the steps and work items of `time`: `heads` heads with the tiles that
  /// `counts` counts in `rows` rows of tiles, each of which is divided into
  /// `splits` work items.
  void setCounts(attn::KernelTime &time, double heads,
                 const attn::TileCounts &counts, double rows,
                 double splits = 1) const;

private:
  const attn::DeviceModel &device;
  const attn::Calibration &fit;
  Registers registers;
};
} // namespace

CoreModel::CoreModel(const attn::DeviceModel &device)
    : device(device), fit(device.calibration),
      registers(getVectorRegisters(device.registers)) {}

double CoreModel::getLines(double elements) const {
  constexpr double elementBytes = 4;
  double bytes = elements * elementBytes;
  double cache = fit.hostTileCache * double(device.sharedBytes);
  double missing = cache == 0 ? 0 : std::clamp(bytes / cache - 1, 0.0, 1.0);
  return missing * bytes / lineBytes;
}

double CoreModel::getMma(int64_t rows, int64_t columns, int64_t depth) const {
  RegisterBlock block = getRegisterBlock(registers, rows, columns);
  auto sums = double(block.rows * block.pieces);
  double blocks =
      double(rows * columns) / double(block.rows * block.pieces * block.lanes);
  // A step of a block begins so many FMAs and loads, and the next one waits for
  // its accumulators.
  double rate =
      std::min(fit.hostPipes, double(device.fma) / double(block.lanes));
  double step =
      std::max({sums / rate, double(block.rows + block.pieces) / fit.hostPipes,
                fit.hostLatency});
  return blocks * (fit.hostMmaCycle * double(depth) * step + fit.hostBlock);
}

double CoreModel::getStreamed(int64_t rows, double rowBytes,
                              double streamed) const {
  double cache = double(device.l2Bytes) / double(device.sms);
  if (rowBytes <= fetchedBytes || cache == 0)
    return 0;
  return fit.hostStreamedLine * std::clamp(streamed / cache - 1, 0.0, 1.0) *
         double(rows) * rowBytes / lineBytes;
}

/// Vector instructions of a score_mod or mask_mod for each score.
static double getScoreModInstructions(Region &region,
                                      const attn::Calibration &fit) {
  attn::ScoreWork work = attn::countScoreWork(region);
  return fit.hostModInstruction *
             (work.instructions + work.ahead + work.loads) +
         fit.hostSpecial * work.special + fit.hostGather * work.gathers;
}

double CoreModel::getMask(attn::AttentionOpInterface op, double scores) const {
  double mask =
      registers.lanes >= lanesWithPredicates ? fit.hostMask : fit.hostMaskBlend;
  return getVectors(scores,
                    mask + getScoreModInstructions(op.getMaskMod(), fit));
}

attn::KernelTime CoreModel::getKernel(StringRef name) const {
  attn::KernelTime time;
  time.name = name;
  time.cyclesPerSecond = double(device.clockMHz) * 1e6;
  time.launch = double(device.launchNs) * 1e-9 * time.cyclesPerSecond;
  return time;
}

void CoreModel::setCounts(attn::KernelTime &time, double heads,
                          const attn::TileCounts &counts, double rows,
                          double splits) const {
  auto cores = double(device.sms);
  double items = heads * rows * splits;
  time.numWorkItems = items / cores;
  time.numSteps = heads * counts.total / cores;
  time.numMasked = heads * counts.masked / cores;
  if (cores == 1 || items == 0)
    return;
  // Threads take parts of neighbouring work items, and wait for the last ones.
  // The wait is the difference to an equal number of work items. If work items
  // differ, it is at least half of a part of long ones.
  double part = std::ceil(items / (cores * partsPerThread));
  double rounds = std::ceil(std::ceil(items / part) / cores) * part;
  double longest = double(counts.most) / splits;
  double mean = counts.total / (rows * splits);
  double late = (rounds - time.numWorkItems) * mean;
  if (counts.total < double(counts.most) * rows)
    late = std::max(late, part * longest / 2);
  time.numSteps += late;
}

attn::KernelTime
attn_tile::estimateSequential(SequentialAttr schedule,
                              const attn::VisitedTiles &tiles,
                              const attn::DeviceModel &device) {
  const attn::Calibration &fit = device.calibration;
  attn::AttentionOpInterface op = tiles.getOp();
  CoreModel model(device);
  int64_t queryTile = schedule.getQueryTile(), keyTile = schedule.getKeyTile();
  auto qkHeadDim = int64_t(llvm::alignTo(op.getQKHeadDim(), headDimStep));
  auto vHeadDim = int64_t(llvm::alignTo(op.getVHeadDim(), headDimStep));
  double elementBytes =
      double(getElementTypeOrSelf(op.getQuery()).getIntOrFloatBitWidth()) / 8;
  double rowBytes = elementBytes * double(qkHeadDim + vHeadDim);
  attn::KernelTime time = model.getKernel("attention");
  time.mma = model.getMma(queryTile, keyTile, qkHeadDim) +
             model.getMma(queryTile, vHeadDim, keyTile);
  double scores = double(queryTile) * double(keyTile);
  time.exponentials =
      model.getVectors(scores, fit.hostScore) + fit.hostRow * double(queryTile);
  time.step =
      time.mma + time.exponentials +
      model.getVectors(scores, getScoreModInstructions(op.getScoreMod(), fit)) +
      model.getOperands(double(keyTile * (qkHeadDim + vHeadDim))) +
      model.getStreamed(keyTile, elementBytes * double(qkHeadDim),
                        double(tiles.getNumKeys()) * rowBytes);
  time.chain = time.step;
  time.mask = model.getMask(op, scores);
  time.workItem = model.getVectors(double(queryTile * (qkHeadDim + vHeadDim)),
                                   fit.hostWorkItemElement);

  double heads = tiles.getNumHeads();
  auto rows = double(tiles.getNumRows(queryTile));
  attn::TileCounts counts = tiles.count(queryTile, keyTile);
  if (schedule.getPackGqa()) {
    // The query heads of a GQA group are the rows of tiles.
    heads /= double(op.getGroupSize());
    double packed = double(llvm::divideCeil(op.getGroupSize(), queryTile));
    rows *= packed;
    counts.total *= packed;
    counts.masked *= packed;
  }
  double splits =
      countSplits(schedule.getSplitKvWorkItems(), heads * rows, counts);
  model.setCounts(time, heads, counts, rows, splits);
  if (splits > 1)
    time.combine =
        model.getVectors(heads * rows * splits * double(queryTile * vHeadDim),
                         fit.hostCombinedElement) /
            double(device.sms) +
        time.launch;
  return time;
}

SmallVector<attn::KernelTime>
attn_tile::estimateSequentialGradient(const attn::GradSchedules &schedules,
                                      const attn::VisitedTiles &tiles,
                                      const attn::DeviceModel &device) {
  const attn::Calibration &fit = device.calibration;
  attn::AttentionOpInterface op = tiles.getOp();
  CoreModel model(device);
  auto qkHeadDim = int64_t(llvm::alignTo(op.getQKHeadDim(), headDimStep));
  auto vHeadDim = int64_t(llvm::alignTo(op.getVHeadDim(), headDimStep));
  double scoreMod = getScoreModInstructions(op.getScoreMod(), fit);
  if (Region *scoreModGrad = attn::getScoreModGrad(op))
    scoreMod += getScoreModInstructions(*scoreModGrad, fit);
  SmallVector<attn::KernelTime> kernels;

  auto rowsSchedule = cast<attn::ScheduleAttrInterface>(schedules.preprocess);
  attn::KernelTime rows = model.getKernel("preprocess");
  int64_t rowTile = rowsSchedule.getQueryTile();
  rows.workItem =
      fit.hostRow * double(rowTile) +
      model.getVectors(double(2 * rowTile * vHeadDim), fit.hostWorkItemElement);
  model.setCounts(rows, tiles.getNumHeads(), {},
                  double(tiles.getNumRows(rowTile)));
  kernels.push_back(rows);

  // The dkdv and dq kernels both compute S, dP and matmuls of P or dS.
  auto add = [&](StringRef name, Attribute part, attn::MaskDim dim) {
    auto schedule = cast<attn::ScheduleAttrInterface>(part);
    int64_t queryTile = schedule.getQueryTile();
    int64_t keyTile = schedule.getKeyTile();
    bool isByKey = dim == attn::MaskDim::Key;
    // Rows of the work item, and columns of the tiles over which it iterates.
    int64_t own = isByKey ? keyTile : queryTile;
    int64_t streamed = isByKey ? queryTile : keyTile;
    attn::KernelTime time = model.getKernel(name);
    time.mma = model.getMma(own, streamed, qkHeadDim) +
               model.getMma(own, streamed, vHeadDim) +
               model.getMma(own, qkHeadDim, streamed);
    if (isByKey)
      time.mma += model.getMma(own, vHeadDim, streamed);
    double scores = double(queryTile) * double(keyTile);
    time.exponentials = model.getVectors(scores, fit.hostGradientScore);
    time.step = time.mma + time.exponentials +
                model.getVectors(scores, scoreMod) +
                model.getOperands(double(streamed * (qkHeadDim + vHeadDim)));
    time.chain = time.step;
    time.mask = model.getMask(op, scores);
    time.workItem = model.getVectors(double(own * 2 * (qkHeadDim + vHeadDim)),
                                     fit.hostWorkItemElement);
    // Tiles of keys see all query heads of a GQA group.
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
  add("dkdv", schedules.dkdv, attn::MaskDim::Key);
  if (schedules.dq)
    add("dq", schedules.dq, attn::MaskDim::Query);
  // Gradients of the GQA groups with the same key or value head are added up.
  auto addSums = [&](StringRef name, int64_t heads, int64_t headDim) {
    int64_t groupsOfHead = op.getNumGroups() / heads;
    if (groupsOfHead == 1)
      return;
    attn::KernelTime sums = model.getKernel(name);
    sums.workItem = model.getVectors(double(groupsOfHead * rowTile * headDim),
                                     fit.hostWorkItemElement);
    model.setCounts(sums,
                    tiles.getNumHeads() * double(heads) /
                        double(op.getNumQueryHeads()),
                    {}, double(llvm::divideCeil(tiles.getNumKeys(), rowTile)));
    kernels.push_back(sums);
  };
  addSums("dk_sum", op.getNumKeyHeads(), qkHeadDim);
  addSums("dv_sum", op.getNumValueHeads(), vHeadDim);
  return kernels;
}
