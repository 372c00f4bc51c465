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
