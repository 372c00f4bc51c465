//===- Roofline.cpp - Time of operations on a device ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Divides counts by rates.
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/Roofline.h"
#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "attn/Interfaces/Target.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace mlir::attn;

DeviceAttr attn::getDevice(Operation *op, StringRef target) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  if (module)
    if (auto device =
            module->getAttrOfType<DeviceAttr>(AttnDialect::getDeviceAttrName()))
      return device;
  const Target *found = lookupTarget(target);
  return DeviceAttr::getKnown(op->getContext(),
                              found ? found->getDefaultDevice() : "");
}

double attn::getPeakRate(const DeviceFigures &device, ExecutionUnit unit) {
  auto getPerCycle = [&]() -> int64_t {
    switch (unit) {
    case ExecutionUnit::Mma32b:
      return device.mmaFlopsPerCycle32b;
    case ExecutionUnit::Mma16b:
      return device.mmaFlopsPerCycle16b;
    case ExecutionUnit::Mma8b:
      return device.mmaFlopsPerCycle8b;
    case ExecutionUnit::Fma:
      return device.fma;
    case ExecutionUnit::Special:
      return device.special;
    case ExecutionUnit::Integer:
      return device.integer;
    case ExecutionUnit::WideMultiply:
      return device.wideMultiply;
    }
    llvm_unreachable("unknown unit");
  };
  return double(getPerCycle()) * double(device.sms) * double(device.clockMHz) *
         1e6;
}

double attn::getPeakRate(const DeviceFigures &device, MemoryLevel level) {
  switch (level) {
  case MemoryLevel::Memory:
    return double(device.memoryGBps) * 1e9;
  case MemoryLevel::L2:
    return double(device.l2BytesPerCycle) * double(device.clockMHz) * 1e6;
  case MemoryLevel::Shared:
    return double(device.sharedBytesPerCycle) * double(device.sms) *
           double(device.clockMHz) * 1e6;
  }
  llvm_unreachable("unknown level");
}

double attn::getSustainedRate(const DeviceFigures &device, ExecutionUnit unit) {
  double rate = getPeakRate(device, unit);
  switch (unit) {
  case ExecutionUnit::Mma32b:
  case ExecutionUnit::Mma16b:
  case ExecutionUnit::Mma8b:
    return rate * double(device.mmaPercent) / 100;
  default:
    return rate;
  }
}

double attn::getSustainedRate(const DeviceFigures &device, MemoryLevel level) {
  double rate = getPeakRate(device, level);
  return level == MemoryLevel::Memory
             ? rate * double(device.memoryPercent) / 100
             : rate;
}

double attn::getRidge(const DeviceFigures &device) {
  return getPeakRate(device, ExecutionUnit::Mma16b) /
         getPeakRate(device, MemoryLevel::Memory);
}

RooflineEstimate attn::estimate(const OpCost &cost,
                                const DeviceFigures &device) {
  RooflineEstimate result;
  double longest = 0;
  auto consider = [&](double count, double rate, StringRef name) {
    if (rate == 0 || count / rate <= longest)
      return;
    longest = count / rate;
    result.bound = name;
  };
  for (unsigned i = 0; i < numExecutionUnits; ++i) {
    auto unit = static_cast<ExecutionUnit>(i);
    consider(cost.operations(unit), getSustainedRate(device, unit),
             stringifyExecutionUnit(unit));
  }
  for (unsigned i = 0; i < numMemoryLevels; ++i) {
    auto level = static_cast<MemoryLevel>(i);
    consider(cost.bytes(level), getSustainedRate(device, level),
             stringifyMemoryLevel(level));
  }
  double launch = cost.launches * double(device.launchNs) * 1e-9;
  if (launch > longest)
    result.bound = "launch";
  result.seconds = launch + longest;
  return result;
}

double attn::getLeastTransfer(double queries, double keys, double headDim,
                              double capacity) {
  return 4 * queries * keys * headDim * headDim / capacity +
         2 * queries * headDim;
}
