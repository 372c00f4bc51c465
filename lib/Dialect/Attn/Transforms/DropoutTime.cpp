//===- DropoutTime.cpp - Estimates of the time of dropout -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds what dropout costs to the time of attention without it.
//
//===----------------------------------------------------------------------===//

#include "DropoutTime.h"
#include "ChooseMatmulSchedule.h"
#include "FittingSchedules.h"
#include "attn/Analysis/MaskArea.h"
#include "attn/Analysis/Roofline.h"
#include "attn/Analysis/ScoreWork.h"
#include "attn/Dialect/Attn/Transforms/ForwardSchedules.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::attn;

/// Constants of the model, fitted to `benchmarks/results/dropout.jsonl` (suites
/// grid, parts and beside, on an H200, 2026-11-23); `benchmarks/dropout.py
/// --predict` compares. What decisions take of attention is in `ScoreWork.cpp`.
/// See docs/cost-model.md.
///
/// Of a kernel that makes a mask, for each word and instruction, and what it
/// takes to begin and to end between two others.
static constexpr double clocksPerInteger = 0.0098;
static constexpr double clocksPerWide = 0.0178;
static constexpr double secondsPerMask = 20e-6;
/// Of decisions that the idle warps of a product make, for each word and
/// instruction; and what the product loses by each of those that are made
/// beside it. When it has ended, all warps make them as a kernel of the mask
/// does. From the suite beside, on an H200, 2026-11-23.
static constexpr double clocksPerIntegerBeside = 0.047;
static constexpr double clocksPerWideBeside = 0.169;
static constexpr double clocksLostPerInteger = 0.0035;
static constexpr double clocksLostPerWide = 0.06;
/// Hundredths of the peak that products reach which do not run for long, and
/// after how many seconds they reach only what the device sustains.
static constexpr int64_t productPercent = 82;
static constexpr double secondsToSustained = 2.5e-3;
/// From the launch of an attention to full speed, and back, where kernels
/// follow one another.
static constexpr double secondsPerAttention = 18.5e-6;

/// Clocks of all multiprocessors.
static double getClocksPerSecond(const DeviceFigures &device) {
  return double(device.multiprocessors) * double(device.clockMHz) * 1e6;
}

static double countHeads(AttentionOpInterface op,
                         const CostAssumptions &assumptions) {
  return double(assumptions.getBatch(getDimSize(op.getQuery(), 0)) *
                op.getNumQueryHeads());
}

static double countScores(AttentionOpInterface op,
                          const CostAssumptions &assumptions) {
  return countHeads(op, assumptions) * countAttendedPairs(op, assumptions);
}

namespace {
/// An attention whose kernels make decisions.
struct MadeTime {
  double seconds = 0;
  /// Scores of the tiles that are visited.
  double scores = 0;
};
} // namespace

/// The kernels of `op` with `schedule`; `std::nullopt` without a model of them.
static std::optional<MadeTime>
estimateKernels(AttentionOpInterface op, Attribute schedule,
                const DeviceFigures &device,
                const CostAssumptions &assumptions) {
  auto interface = dyn_cast<ScheduleAttrInterface>(schedule);
  if (!interface)
    return std::nullopt;
  VisitedTiles tiles(op, assumptions);
  SmallVector<KernelTime> kernels = interface.estimateKernels(tiles, device);
  if (kernels.empty())
    return std::nullopt;
  int64_t queryTile = interface.getQueryTile();
  int64_t keyTile = interface.getKeyTile();
  return MadeTime{getWorkSeconds(kernels) + secondsPerAttention,
                  tiles.getNumHeads() * tiles.count(queryTile, keyTile).total *
                      double(queryTile * keyTile)};
}

/// `op`, whose decisions take `clocks` for each score.
static MadeTime estimateAttention(AttentionOpInterface op, StringRef target,
                                  const DeviceFigures &device,
                                  const CostAssumptions &assumptions,
                                  double clocks) {
  std::optional<MadeTime> time;
  if (auto attention = dyn_cast<AttentionOp>(op.getOperation())) {
    for (const FittingSchedule &fitting :
         getBestSchedules(attention, target, device, /*most=*/1))
      time = estimateKernels(op, fitting.schedule, device, assumptions);
  } else if (auto gradient = dyn_cast<AttentionGradOp>(op.getOperation())) {
    if (std::optional<ScheduleChoice> choice =
            chooseGradientSchedule(gradient, target, device,
                                   /*sumBudget=*/-1))
      time = estimateKernels(op, choice->schedule, device, assumptions);
  }
  if (time)
    return *time;
  double scores = countScores(op, assumptions);
  return {estimate(*getOpCost(op, assumptions), device).seconds +
              scores * clocks / getClocksPerSecond(device),
          scores};
}

double attn::estimateProduct(MatmulOp op, const DeviceFigures &device,
                             const CostAssumptions &assumptions) {
  OpCost cost = *getOpCost(op, assumptions);
  DeviceFigures cool = device;
  cool.productPercent = std::max(productPercent, device.productPercent);
  double part =
      std::min(estimate(cost, cool).seconds / secondsToSustained, 1.0);
  cool.productPercent -=
      int64_t(part * double(cool.productPercent - device.productPercent));
  return estimate(cost, cool).seconds;
}

std::string DropoutTimes::describe() const {
  auto show = [](std::optional<double> seconds) {
    return seconds ? llvm::formatv("{0:f0} us", *seconds * 1e6).str()
                   : std::string("not possible");
  };
  return "in the kernel " + show(inKernel) + ", one after another " +
         show(sequential) + ", fused with products " + show(fused);
}

DropoutTimes attn::estimateDropout(ArrayRef<AttentionOpInterface> ops,
                                   ArrayRef<MatmulOp> products,
                                   StringRef target,
                                   const DeviceFigures &device,
                                   const CostAssumptions &assumptions) {
  DropoutTimes times;
  AttentionOpInterface first = ops.front();
  RngWork work = first.getDropoutAttr().countKeepWord();
  double words =
      countHeads(first, assumptions) *
      double(DropoutMaskOp::countQueryWords(
                 assumptions.getSize(getDimSize(first.getQuery(), 2))) *
             DropoutMaskOp::countKeyWords(
                 assumptions.getSize(getDimSize(first.getKey(), 2))));
  times.maskBytes = 4 * words;

  double base = 0, reading = 0;
  for (MatmulOp product : products)
    base += estimateProduct(product, device, assumptions);
  double clocksPerSecond = getClocksPerSecond(device);
  times.inKernel = base;
  for (AttentionOpInterface op : ops) {
    bool isGradient = isa<AttentionGradOp>(op);
    int64_t channels = op.getQueryHeadDim() + op.getValueHeadDim();
    double made =
        getDecisionClocks(Decisions::Made, work, channels, isGradient);
    double read =
        getDecisionClocks(Decisions::Read, work, channels, isGradient);
    MadeTime time = estimateAttention(op, target, device, assumptions, made);
    times.inKernel += time.seconds;
    reading += time.seconds + time.scores * (read - made) / clocksPerSecond;
  }
  auto integer = double(work.integer), wide = double(work.wideMultiply);
  // Without figures of the units that make random numbers, nothing is known of
  // a kernel that does nothing else.
  if (device.integer == 0)
    return times;
  double makesMask = words *
                     (clocksPerInteger * integer + clocksPerWide * wide) /
                     clocksPerSecond;
  double writesMask =
      times.maskBytes / getSustainedRate(device, MemoryLevel::Memory);
  times.sequential =
      base + reading + std::max(makesMask, writesMask) + secondsPerMask;
  // The nearest product makes all of it.
  if (products.empty())
    return times;
  MatmulOp nearest = products.front();
  ScheduleAttrInterface schedule = nearest.getScheduleAttr();
  if (!schedule)
    schedule = getMatmulSchedule(nearest, target);
  if (!schedule || !schedule.leavesWarps())
    return times;
  double product = estimateProduct(nearest, device, assumptions);
  double lost = words *
                (clocksLostPerInteger * integer + clocksLostPerWide * wide) /
                clocksPerSecond;
  double makesBeside =
      words * (clocksPerIntegerBeside * integer + clocksPerWideBeside * wide) /
      clocksPerSecond;
  // The part of the mask that is made while the product runs, which is longer
  // by what it loses: x = (product + lost x) / makesBeside.
  double part =
      makesBeside > product + lost ? product / (makesBeside - lost) : 1.0;
  times.fused =
      base - product + reading +
      std::max(product + lost * part + makesMask * (1 - part), writesMask);
  return times;
}
