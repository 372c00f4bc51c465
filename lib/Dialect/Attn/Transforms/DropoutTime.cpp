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

/// Issue slots of a multiprocessor, all of whose threads take part, that
/// decisions take: see docs/cost-model.md.
static constexpr double slotsPerScoreMade = 1.4;
static constexpr double slotsPerScoreRead = 1.4;

static constexpr double bitsOfWord = 32;

/// Attention without dropout.
static double estimateAttention(AttentionOpInterface op, StringRef target,
                                const DeviceFigures &device,
                                const CostAssumptions &assumptions) {
  if (auto attention = dyn_cast<AttentionOp>(op.getOperation()))
    if (attention.getScoreRegion().empty() &&
        attention.getKeepRegion().empty()) {
      VisitedTiles tiles(op, assumptions);
      for (const FittingSchedule &fitting :
           getBestSchedules(attention, target, device, /*most=*/1))
        if (auto time = fitting.schedule.estimateTime(tiles, device))
          return time->getSeconds();
    }
  return estimate(*getOpCost(op, assumptions), device).seconds;
}

/// Instructions of a decision word that keep units busy which issue one every
/// clock for each lane: those of slower units count for as many.
static double getSlots(const RngWork &work, const DeviceFigures &device) {
  double fma = double(device.fma);
  double slots = double(work.integer);
  if (device.wideMultiply > 0)
    slots += double(work.wideMultiply) * fma / double(device.wideMultiply);
  return slots;
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
  double heads = double(assumptions.getBatch(getDimSize(first.getQuery(), 0)) *
                        first.getNumQueryHeads());
  double words =
      heads * double(DropoutMaskOp::countQueryWords(
                         assumptions.getSize(getDimSize(first.getQuery(), 2))) *
                     DropoutMaskOp::countKeyWords(
                         assumptions.getSize(getDimSize(first.getKey(), 2))));
  times.maskBytes = 4 * words;

  double base = 0, scores = 0;
  for (MatmulOp product : products)
    base += estimate(*getOpCost(product, assumptions), device).seconds;
  for (AttentionOpInterface op : ops) {
    base += estimateAttention(op, target, device, assumptions);
    scores += heads * countAttendedPairs(op, assumptions);
  }
  double slotsPerSecond = getPeakRate(device, ExecutionUnit::Fma);
  double slotsPerWord = getSlots(work, device);
  times.inKernel = base + scores *
                              (slotsPerScoreMade + slotsPerWord / bitsOfWord) /
                              slotsPerSecond;
  // Without figures of the units that make random numbers, nothing is known of
  // a kernel that does nothing else.
  if (device.integer == 0)
    return times;
  OpCost mask;
  mask.launches = 1;
  mask.operations(ExecutionUnit::Integer) = words * double(work.integer);
  mask.operations(ExecutionUnit::WideMultiply) =
      words * double(work.wideMultiply);
  mask.bytes(MemoryLevel::Memory) = times.maskBytes;
  times.sequential = base + scores * slotsPerScoreRead / slotsPerSecond +
                     estimate(mask, device).seconds;
  return times;
}
