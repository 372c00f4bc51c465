//===- DropoutTime.cpp - Estimates of the time of dropout -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds the cost of dropout to the time of attention without it.
//
//===----------------------------------------------------------------------===//

#include "attn/Scheduling/DropoutTime.h"
#include "ChooseMatmulSchedule.h"
#include "ScheduleCandidates.h"
#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/PerfModel/DeviceTime.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/PerfModel/ScoreWork.h"
#include "attn/Scheduling/ForwardSchedules.h"
#include "attn/Scheduling/ScheduleFamily.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::attn;

/// Cycles of all SMs.
static double getCyclesPerSecond(const DeviceModel &device) {
  return double(device.sms) * double(device.clockMHz) * 1e6;
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
/// The time of an attention whose kernels generate keep masks.
struct MadeTime {
  double seconds = 0;
  /// Scores of the visited tiles.
  double scores = 0;
};
} // namespace

/// The time of the kernels of `op` with `schedule`; `std::nullopt` without a
/// model of them.
static std::optional<MadeTime>
estimateKernels(AttentionOpInterface op, Attribute schedule,
                const DeviceModel &device, const CostAssumptions &assumptions) {
  auto interface = dyn_cast<ScheduleAttrInterface>(schedule);
  if (!interface)
    return std::nullopt;
  VisitedTiles tiles(op, assumptions);
  SmallVector<KernelTime> kernels = interface.estimateKernels(tiles, device);
  if (kernels.empty())
    return std::nullopt;
  int64_t queryTile = interface.getQueryTile();
  int64_t keyTile = interface.getKeyTile();
  return MadeTime{getWorkSeconds(kernels) +
                      device.calibration.chainedKernelSeconds,
                  tiles.getNumHeads() * tiles.count(queryTile, keyTile).total *
                      double(queryTile * keyTile)};
}

/// The time of `op`, whose keep masks take `cycles` for each score.
static MadeTime estimateAttention(AttentionOpInterface op, const Target &target,
                                  const DeviceModel &device,
                                  const CostAssumptions &assumptions,
                                  double cycles) {
  std::optional<MadeTime> time;
  if (auto attention = dyn_cast<AttentionOp>(op.getOperation())) {
    for (const ScheduleCandidate &candidate :
         getBestSchedules(attention, target, device, /*most=*/1))
      time = estimateKernels(op, candidate.schedule, device, assumptions);
  } else if (auto gradient = dyn_cast<attn_tile::StreamingGradOpInterface>(
                 op.getOperation())) {
    if (std::optional<ScheduleChoice> choice =
            ScheduleFamily::get(target,
                                getElementTypeOrSelf(gradient.getQuery()))
                .chooseGradient(gradient, device, /*dqWorkspaceBytes=*/-1))
      time = estimateKernels(op, choice->schedule, device, assumptions);
  }
  if (time)
    return *time;
  double scores = countScores(op, assumptions);
  return {estimate(*getOpCost(op, assumptions), device).seconds +
              scores * cycles / getCyclesPerSecond(device),
          scores};
}

double attn::estimateMatmul(MatmulOp op, const DeviceModel &device,
                            const CostAssumptions &assumptions) {
  const Calibration &fit = device.calibration;
  OpCost cost = *getOpCost(op, assumptions);
  // Hosts have no throttling.
  if (fit.gemmRate == 0)
    return estimate(cost, device).seconds;
  double mma = 0;
  for (ExecutionUnit unit :
       {ExecutionUnit::Mma32b, ExecutionUnit::Mma16b, ExecutionUnit::Mma8b})
    if (double rate = getPeakRate(device, unit))
      mma += cost.operations(unit) / (fit.gemmRate * rate);
  // Short ones are faster than the sustained rate of MMAs, by which large ones
  // are bounded; other bounds stay.
  OpCost others = cost;
  for (ExecutionUnit unit :
       {ExecutionUnit::Mma32b, ExecutionUnit::Mma16b, ExecutionUnit::Mma8b})
    others.operations(unit) = 0;
  others.launches = 0;
  double launch = getLaunchCycles(0, fit) / (double(device.clockMHz) * 1e6);
  return launch + std::max(mma * getThrottling(mma, fit),
                           estimate(others, device).seconds);
}

std::string DropoutTimes::describe() const {
  auto show = [](std::optional<double> seconds) {
    return seconds ? llvm::formatv("{0:f0} us", *seconds * 1e6).str()
                   : std::string("not possible");
  };
  return "in the kernel " + show(inKernel) + ", one after another " +
         show(sequential) + ", fused with matmuls " + show(fused);
}

DropoutTimes attn::estimateDropout(ArrayRef<AttentionOpInterface> ops,
                                   ArrayRef<MatmulOp> matmuls,
                                   const Target &target,
                                   const DeviceModel &device,
                                   const CostAssumptions &assumptions) {
  const Calibration &fit = device.calibration;
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
  for (MatmulOp matmul : matmuls)
    base += estimateMatmul(matmul, device, assumptions);
  double cyclesPerSecond = getCyclesPerSecond(device);
  times.inKernel = base;
  for (AttentionOpInterface op : ops) {
    bool isGradient =
        isa<attn_tile::StreamingGradOpInterface>(op.getOperation());
    int64_t headDimSum = op.getQKHeadDim() + op.getVHeadDim();
    double made = getKeepMaskCycles(KeepMaskSource::Generated, work, headDimSum,
                                    isGradient, fit);
    double read = getKeepMaskCycles(KeepMaskSource::Loaded, work, headDimSum,
                                    isGradient, fit);
    MadeTime time = estimateAttention(op, target, device, assumptions, made);
    times.inKernel += time.seconds;
    reading += time.seconds + time.scores * (read - made) / cyclesPerSecond;
  }
  auto integer = double(work.integer), wide = double(work.wideMultiply);
  // Without figures of the integer units, a kernel that only generates random
  // numbers has no estimate.
  if (device.integer == 0)
    return times;
  double makesMask =
      words * (fit.maskKernelInteger * integer + fit.maskKernelWide * wide) /
      cyclesPerSecond;
  double writesMask =
      getMemorySeconds(times.maskBytes, Traffic::ReadAndWrite, device);
  times.sequential = base + reading + std::max(makesMask, writesMask) +
                     fit.chainedKernelSeconds;
  // The nearest matmul generates the whole mask.
  if (matmuls.empty())
    return times;
  MatmulOp nearest = matmuls.front();
  ScheduleAttrInterface schedule = nearest.getScheduleAttr();
  if (!schedule)
    schedule = getMatmulSchedule(nearest, target, device);
  if (!schedule || !schedule.leavesWarps())
    return times;
  double matmul = estimateMatmul(nearest, device, assumptions);
  double lost = words * (fit.lostInteger * integer + fit.lostWide * wide) /
                cyclesPerSecond;
  double makesConcurrently =
      words * (fit.concurrentInteger * integer + fit.concurrentWide * wide) /
      cyclesPerSecond;
  // The part x of the mask that is generated while the GEMM runs, which takes
  // longer by the cycles it loses: x = (matmul + lost x) / makesConcurrently.
  double part = makesConcurrently > matmul + lost
                    ? matmul / (makesConcurrently - lost)
                    : 1.0;
  times.fused =
      base - matmul + reading +
      std::max(matmul + lost * part + makesMask * (1 - part), writesMask);
  return times;
}
