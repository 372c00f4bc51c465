//===- ScheduleInterfaceImpl.cpp - Strategies of schedules ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel passes of each schedule.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/Transforms/ScheduleInterfaceImpl.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
/// What all schedules of the dialect share. `Model` adds `buildKernelPipeline`.
template <typename Model, typename ScheduleAttr>
struct TiledSchedule
    : attn::ScheduleAttrInterface::ExternalModel<Model, ScheduleAttr> {
  int64_t getQueryTile(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getQueryTile();
  }
  int64_t getKeyTile(Attribute schedule) const {
    return cast<ScheduleAttr>(schedule).getKeyTile();
  }
};

struct SequentialSchedule : TiledSchedule<SequentialSchedule, SequentialAttr> {
  void buildKernelPipeline(Attribute, OpPassManager &pm) const {
    pm.addNestedPass<KernelOp>(createAttnTilePeelMasksPass());
  }
};

struct MultistageSchedule : TiledSchedule<MultistageSchedule, MultistageAttr> {
  void buildKernelPipeline(Attribute, OpPassManager &pm) const {
    pm.addNestedPass<KernelOp>(createAttnTilePeelMasksPass());
  }
};

struct WarpSpecializedSchedule
    : TiledSchedule<WarpSpecializedSchedule, WarpSpecializedAttr> {
  void buildKernelPipeline(Attribute, OpPassManager &pm) const {
    pm.addNestedPass<KernelOp>(createAttnTilePeelMasksPass());
  }
};
} // namespace

void mlir::attn_tile::registerScheduleInterfaceExternalModels(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AttnTileDialect *) {
    SequentialAttr::attachInterface<SequentialSchedule>(*context);
    MultistageAttr::attachInterface<MultistageSchedule>(*context);
    WarpSpecializedAttr::attachInterface<WarpSpecializedSchedule>(*context);
  });
}
