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
#include "attn/Analysis/MaskArea.h"
#include "attn/Analysis/Roofline.h"
#include "attn/Dialect/Attn/Transforms/ForwardSchedules.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::attn;

/// Constants of the model, fitted to `benchmarks/results/dropout.jsonl` (suites
/// grid and parts, on an H200, 2026-11-22); `benchmarks/dropout.py --predict`
/// compares. See docs/cost-model.md.
///
/// Clocks of a multiprocessor for each score, where attention makes decisions:
/// what does not depend on the generator, and for each instruction per score.
static constexpr double clocksPerScoreMade = 0.0142;
static constexpr double clocksPerIntegerMade = 0.0094;
static constexpr double clocksPerWideMade = 0.101;
/// Where attention reads them.
static constexpr double clocksPerScoreRead = 0.0615;
/// Times as much in gradients.
static constexpr double gradientMade = 2.8;
static constexpr double gradientRead = 3.9;
/// Of a gradient without dropout, for each score, and each channel of query and
/// value.
static constexpr double clocksPerScoreGradient = 0.11;
static constexpr double clocksPerChannelGradient = 0.00155;
/// Of a kernel that makes a mask, for each word and instruction.
static constexpr double clocksPerInteger = 0.0078;
static constexpr double clocksPerWide = 0.0142;
/// Of decisions that the idle warps of a product make, for each word and
/// instruction; and what the product loses by each of them. From the suite
/// beside, on an H200, 2026-11-22.
static constexpr double clocksPerIntegerBeside = 0.0316;
static constexpr double clocksPerWideBeside = 0.169;
static constexpr double clocksLostPerInteger = 0.005;
static constexpr double clocksLostPerWide = 0.06;
/// Hundredths of the peak that products reach which do not run for long.
static constexpr int64_t productPercent = 82;
/// From the launch of an attention to full speed, and back, where kernels
/// follow one another.
static constexpr double secondsPerAttention = 18.5e-6;

static constexpr double bitsOfWord = 32;

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

/// Attention without dropout.
static double estimateAttention(AttentionOpInterface op, StringRef target,
                                const DeviceFigures &device,
                                const CostAssumptions &assumptions) {
  if (auto attention = dyn_cast<AttentionOp>(op.getOperation()))
    if (attention.getScoreRegion().empty() &&
        attention.getKeepRegion().empty()) {
      VisitedTiles tiles(op, assumptions);
      for (const FittingSchedule &fitting :
           getBestSchedules(attention, target, device, /*most=*/1)) {
        SmallVector<KernelTime> kernels =
            fitting.schedule.estimateKernels(tiles, device);
        if (!kernels.empty())
          return getWorkSeconds(kernels) + secondsPerAttention;
      }
    }
  if (isa<AttentionGradOp>(op) && target == "sm_90a")
    return countScores(op, assumptions) *
               (clocksPerScoreGradient +
                clocksPerChannelGradient *
                    double(op.getQueryHeadDim() + op.getValueHeadDim())) /
               getClocksPerSecond(device) +
           secondsPerAttention;
  return estimate(*getOpCost(op, assumptions), device).seconds;
}

double attn::estimateProduct(MatmulOp op, const DeviceFigures &device,
                             const CostAssumptions &assumptions) {
  OpCost cost = *getOpCost(op, assumptions);
  DeviceFigures cool = device;
  cool.productPercent = productPercent;
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

  double base = 0, scoresMade = 0, scoresRead = 0;
  for (MatmulOp product : products)
    base += estimateProduct(product, device, assumptions);
  for (AttentionOpInterface op : ops) {
    base += estimateAttention(op, target, device, assumptions);
    bool isGradient = isa<AttentionGradOp>(op);
    double scores = countScores(op, assumptions);
    scoresMade += scores * (isGradient ? gradientMade : 1);
    scoresRead += scores * (isGradient ? gradientRead : 1);
  }
  double clocksPerSecond = getClocksPerSecond(device);
  auto integer = double(work.integer), wide = double(work.wideMultiply);
  times.inKernel =
      base + scoresMade *
                 (clocksPerScoreMade +
                  (clocksPerIntegerMade * integer + clocksPerWideMade * wide) /
                      bitsOfWord) /
                 clocksPerSecond;
  // Without figures of the units that make random numbers, nothing is known of
  // a kernel that does nothing else.
  if (device.integer == 0)
    return times;
  double makesMask = words *
                     (clocksPerInteger * integer + clocksPerWide * wide) /
                     clocksPerSecond;
  double writesMask =
      times.maskBytes / getSustainedRate(device, MemoryLevel::Memory);
  double readsMask = scoresRead * clocksPerScoreRead / clocksPerSecond;
  times.sequential = base + readsMask + std::max(makesMask, writesMask) +
                     double(device.launchNs) * 1e-9;
  // The nearest product makes all of it.
  if (products.empty() || target != "sm_90a")
    return times;
  double product = estimateProduct(products.front(), device, assumptions);
  double lost = words *
                (clocksLostPerInteger * integer + clocksLostPerWide * wide) /
                clocksPerSecond;
  double makesBeside =
      words * (clocksPerIntegerBeside * integer + clocksPerWideBeside * wide) /
      clocksPerSecond;
  times.fused = base - product + readsMask +
                std::max({product + lost, makesBeside, writesMask});
  return times;
}
