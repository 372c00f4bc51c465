//===- Capacity.cpp - Registers, shared memory and barriers ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/Capacity.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::attn;

int64_t attn::getElementBytes(Value shaped) {
  Type element = getElementTypeOrSelf(shaped);
  return int64_t(llvm::divideCeil(element.getIntOrFloatBitWidth(), 8));
}

llvm::StringRef attn::stringifyResource(Resource resource) {
  switch (resource) {
  case Resource::Registers:
    return "registers";
  case Resource::SharedMemory:
    return "shared memory";
  case Resource::Barriers:
    return "barriers";
  }
  llvm_unreachable("unknown resource");
}

std::optional<Resource> Capacity::findExceeded(const CapacityNeed &need) const {
  if (need.registers > registers || need.mmaRegisters > launchedRegisters)
    return Resource::Registers;
  if (need.sharedBytes > sharedBytes)
    return Resource::SharedMemory;
  if (need.namedBarriers > namedBarriers)
    return Resource::Barriers;
  return std::nullopt;
}

double Capacity::getLoad(const CapacityNeed &need) const {
  return std::max({need.registers / registers,
                   double(need.mmaRegisters) / double(launchedRegisters),
                   need.sharedBytes / sharedBytes,
                   double(need.namedBarriers) / double(namedBarriers)});
}

int64_t attn::getTileBytes(const DeviceFigures &device, int64_t ctasPerSm) {
  return device.sharedBytes / ctasPerSm - barrierBytes;
}

LargestTile
attn::findLargestTile(const Capacity &capacity, int64_t unit, int64_t most,
                      llvm::function_ref<CapacityNeed(int64_t)> getNeed) {
  LargestTile best;
  for (int64_t tile = unit; tile <= most; tile += unit) {
    if (std::optional<Resource> exceeded = capacity.findExceeded(getNeed(tile)))
      return {best.size, stringifyResource(*exceeded)};
    best = {tile, "instruction shape"};
  }
  return best;
}

int64_t attn::countStages(int64_t bytes, int64_t fixedBytes,
                          int64_t stageBytes) {
  return std::max<int64_t>(0, (bytes - fixedBytes) / stageBytes);
}

int64_t attn::countCtasPerSm(const CapacityNeed &need, int64_t threads,
                             const DeviceFigures &device) {
  double registers = std::min(need.registers, double(maxThreadRegisters));
  auto byRegisters =
      int64_t(attn_tile::smRegisters / (double(threads) * registers));
  auto byShared = int64_t(double(device.sharedBytes + reservedCtaBytes) /
                          (need.sharedBytes + reservedCtaBytes));
  return std::max<int64_t>(1, std::min(byRegisters, byShared));
}
