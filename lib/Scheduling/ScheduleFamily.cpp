//===- ScheduleFamily.cpp - Families of schedules by target ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the family of a target, and what kernels for GPUs have in common.
//
//===----------------------------------------------------------------------===//

#include "GPUScheduleFamily.h"
#include "attn/Dialect/AttnTile/IR/AttnTileParameters.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace mlir::attn;

ScheduleFamily::~ScheduleFamily() = default;

const ScheduleFamily &ScheduleFamily::get(const Target &target, Type element) {
  switch (element ? target.getKernelScheduleKindFor(element)
                  : target.getKernelScheduleKind()) {
  case KernelScheduleKind::Sequential:
    return getSequentialFamily();
  case KernelScheduleKind::Multistage:
    return getMultistageFamily();
  case KernelScheduleKind::WarpSpecialized:
    return getWarpSpecializedFamily();
  }
  llvm_unreachable("unknown kind of kernels");
}

TileCapacities
GPUScheduleFamily::getRegisterTileCapacities(const DeviceFigures &device,
                                             int64_t tileRegisters) {
  constexpr int64_t threads = 256;
  TileCapacities capacities;
  capacities.distributedUnit = warpgroupRows;
  capacities.streamUnit = keyTileUnit;
  capacities.maxTile = maxKeyTileMma;
  capacities.registerBytes = registerBytes * threads * tileRegisters;
  capacities.threads = threads;
  capacities.sharedBytes = getTileBytes(device);
  return capacities;
}

ScheduleAttrInterface GPUScheduleFamily::getMap(MapHeadsOp op,
                                                const DeviceModel &) const {
  constexpr int64_t warps = 4, rowsOfWarp = 16;
  attn_tile::MultistageParameters parameters;
  parameters.queryTile = warps * rowsOfWarp;
  parameters.keyTile = 64;
  parameters.stages = 2;
  parameters.warps = warps;
  return makeSchedule(op.getContext(), parameters);
}

/// Bytes of shared memory that a kernel of linear attention takes, about: tiles
/// of queries, keys and values, and two stages of the state and of decayed
/// values.
static int64_t
countLinearBytes(const attn_tile::LinearMultistageParameters &schedule,
                 int64_t keyDim, int64_t elementBytes, bool hasDecay) {
  constexpr int64_t localStages = 2;
  int64_t columnsOfRow = attn_tile::columnBlockBytes / elementBytes;
  int64_t chunk = schedule.chunk;
  int64_t columns = llvm::alignTo(schedule.valueTile, columnsOfRow);
  int64_t ofStage = chunk * (2 * keyDim + columns);
  int64_t local = keyDim * columns + (hasDecay ? chunk * columns : 0);
  return elementBytes * (schedule.stages * ofStage + localStages * local);
}

/// Bytes of shared memory that the kernels of the delta rule that go through
/// chunks take, about. Besides tiles of queries, keys and values there are two
/// matrices of pairs of tokens. Values are rounded before and after the matmul
/// with the inverse, and once more if they are decayed.
static int64_t
countDeltaRuleBytes(const attn_tile::LinearMultistageParameters &schedule,
                    int64_t keyDim, int64_t elementBytes, bool hasDecay) {
  int64_t columnsOfRow = attn_tile::columnBlockBytes / elementBytes;
  int64_t chunk = schedule.chunk;
  int64_t columns = llvm::alignTo(schedule.valueTile, columnsOfRow);
  int64_t ofStage = chunk * (2 * keyDim + columns + 2 * chunk);
  int64_t local = keyDim * columns + (hasDecay ? 3 : 2) * chunk * columns;
  int64_t elements = schedule.stages * ofStage + schedule.localStages * local;
  return elementBytes * elements;
}

/// Sets the parameters of the kernels of the delta rule. For kernels that go
/// through chunks, copies ahead matter more than a second CTA on an SM, unless
/// there are two work items for each SM, where they cost little; for the
/// gradient's kernel that has all chunks at once they matter less. The other
/// ones of the gradient load tiles to registers, which large states do not
/// leave with copies ahead.
static void
setDeltaRuleParameters(attn_tile::LinearMultistageParameters &schedule,
                       int64_t keyDim, int64_t elementBytes, bool hasDecay,
                       bool isGradient, const DeviceModel &device) {
  constexpr int64_t narrowTile = 16, stages = 2;
  constexpr int64_t threadsOfWarp = 32, maxStateRegisters = 32;
  schedule.localStages = 1;
  schedule.rowsAhead = true;
  // The kernel of gradients has many tiles; the one of pairs alone has few.
  if (isGradient)
    schedule.parallelStages = 1;
  schedule.narrowValueTile = std::min(narrowTile, schedule.valueTile);
  schedule.narrowWorkItems = device.sms;
  schedule.stages = stages;
  if (countDeltaRuleBytes(schedule, keyDim, elementBytes, hasDecay) >
      getTileBytes(device))
    schedule.stages = 1;
  schedule.narrowStages = schedule.stages;
  int64_t stateRegisters =
      keyDim * schedule.valueTile / (schedule.warps * threadsOfWarp);
  if (isGradient && stateRegisters > maxStateRegisters)
    schedule.stages = 1;
}

/// The schedule of linear attention with these head dims.
template <typename OpTy>
static ScheduleAttrInterface getLinearSchedule(OpTy op, int64_t keyHeadDim,
                                               int64_t valueHeadDim,
                                               const DeviceModel &device) {
  // A thread has 64 registers of the state at most, besides scores and output.
  constexpr int64_t maxStateOfWarp = 64 * 32, maxValueTile = 64;
  constexpr int64_t rowsOfWarp = 16, ctasPerSm = 2;
  attn_tile::LinearMultistageParameters parameters;
  parameters.chunk = op.getChunkOrDefault();
  parameters.warps = parameters.chunk / rowsOfWarp;
  int64_t keyDim = llvm::alignTo(keyHeadDim, parameters.chunk);
  int64_t fitting = maxStateOfWarp * parameters.warps / keyDim;
  parameters.valueTile = std::min<int64_t>(
      {maxValueTile, int64_t(llvm::bit_floor(uint64_t(fitting))),
       int64_t(llvm::alignTo(valueHeadDim, rowsOfWarp))});
  if (op.getCausal())
    parameters.splitWorkItems = ctasPerSm * device.sms;
  int64_t elementBytes = getElementBytes(op.getQuery());
  if (op.getBeta()) {
    setDeltaRuleParameters(parameters, keyDim, elementBytes,
                           bool(op.getLogDecay()),
                           std::is_same_v<OpTy, LinearAttentionGradOp>, device);
    return makeSchedule(op.getContext(), parameters);
  }
  parameters.stages = 2;
  if (countLinearBytes(parameters, keyDim, elementBytes,
                       bool(op.getLogDecay())) > getTileBytes(device))
    parameters.stages = 1;
  return makeSchedule(op.getContext(), parameters);
}

ScheduleAttrInterface
GPUScheduleFamily::getLinear(LinearAttentionOp op,
                             const DeviceModel &device) const {
  return getLinearSchedule(op, op.getKeyHeadDim(), op.getValueHeadDim(),
                           device);
}

/// Values are keys of the gradient of queries, and keys are values.
ScheduleAttrInterface
GPUScheduleFamily::getLinear(LinearAttentionGradOp op,
                             const DeviceModel &device) const {
  int64_t larger = std::max(op.getKeyHeadDim(), op.getValueHeadDim());
  return getLinearSchedule(op, larger, larger, device);
}

ScheduleAttrInterface GPUScheduleFamily::getScalar(MLIRContext *context) const {
  Attribute schedule = attn_tile::ScalarAttr::get(context, /*warps=*/1);
  return cast<ScheduleAttrInterface>(schedule).getPreparation();
}

/// Rows that a warp moves.
static attn_tile::MoveRowsParameters getRowsOfWarp(int64_t chunks,
                                                   int64_t together) {
  attn_tile::MoveRowsParameters parameters;
  parameters.chunks = chunks;
  parameters.threads = 32;
  parameters.together = together;
  parameters.aligned = true;
  parameters.loadsEarly = true;
  return parameters;
}

ScheduleAttrInterface
GPUScheduleFamily::getMoveRows(MLIRContext *context) const {
  // A call for one token of few sequences needs work items for all SMs.
  return makeSchedule(context, getRowsOfWarp(/*chunks=*/64, /*together=*/2));
}

ScheduleAttrInterface GPUScheduleFamily::getMerge(MLIRContext *context) const {
  // Threads have a chunk of each partial result in flight already
  // (docs/experiments/merge-bandwidth.md).
  return makeSchedule(context, getRowsOfWarp(/*chunks=*/128, /*together=*/1));
}
