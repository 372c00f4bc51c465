//===- GPUScheduleFamily.h - Schedules of GPU kernels ----------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the families of schedules for GPUs have in common.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_SCHEDULING_GPUSCHEDULEFAMILY_H
#define ATTN_LIB_SCHEDULING_GPUSCHEDULEFAMILY_H

#include "ScheduleCandidates.h"

namespace mlir::attn {

struct GPUScheduleFamily : ScheduleFamily {
  const TypicalSizes &getTypicalSizes() const override { return deviceSizes; }
  /// The pairs that a mask keeps are not known if kernels classify its tiles.
  bool isModelled(AttentionOp op) const override {
    return !readsByPosition(op.getMaskMod()) && !needsClassification(op);
  }
  ScheduleAttrInterface getMap(MapHeadsOp op,
                               const DeviceModel &device) const override;
  ScheduleAttrInterface getLinear(LinearAttentionOp op,
                                  const DeviceModel &device) const override;
  ScheduleAttrInterface getLinear(LinearAttentionGradOp op,
                                  const DeviceModel &device) const override;
  ScheduleAttrInterface getRecurrent(LinearAttentionOp op) const override;
  int64_t getRecurrentBound(LinearAttentionOp op,
                            ScheduleAttrInterface recurrent,
                            ScheduleAttrInterface chunks,
                            const DeviceModel &device) const override;
  ScheduleAttrInterface getScalar(MLIRContext *context) const override;
  ScheduleAttrInterface getMoveRows(MLIRContext *context) const override;
  ScheduleAttrInterface getMerge(MLIRContext *context) const override;

protected:
  /// Whether kernels have a producer and consumers.
  virtual bool hasProducer() const { return false; }
  /// Capacities of tiles of 256 threads with `tileRegisters` registers each for
  /// them.
  static TileCapacities getRegisterTileCapacities(const DeviceFigures &device,
                                                  int64_t tileRegisters);
};

} // namespace mlir::attn

#endif // ATTN_LIB_SCHEDULING_GPUSCHEDULEFAMILY_H
