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
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
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
  Attribute schedule = attn_tile::MultistageAttr::get(
      op.getContext(), warps * rowsOfWarp, /*key_tile=*/64, /*stages=*/2, warps,
      /*split_kv_work_items=*/0, /*pack_gqa=*/false, /*balance_splits=*/false,
      /*v_head_dim_tile=*/0);
  return cast<ScheduleAttrInterface>(schedule);
}

ScheduleAttrInterface GPUScheduleFamily::getScalar(MLIRContext *context) const {
  Attribute schedule = attn_tile::ScalarAttr::get(context);
  return cast<ScheduleAttrInterface>(schedule).getPreparation();
}

ScheduleAttrInterface
GPUScheduleFamily::getMoveRows(MLIRContext *context) const {
  // A call for one token of few sequences needs work items for all SMs.
  Attribute schedule = attn_tile::MoveRowsAttr::get(
      context, /*chunks=*/64, /*threads=*/32, /*together=*/2, /*aligned=*/true,
      /*loads_early=*/true);
  return cast<ScheduleAttrInterface>(schedule);
}
