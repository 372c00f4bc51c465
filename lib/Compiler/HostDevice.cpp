//===- HostDevice.cpp - The host as a device ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LLVM knows the registers of the processor; the system knows cores and caches.
// Rates are not queried.
//
//===----------------------------------------------------------------------===//

#include "HostDevice.h"
#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "llvm/Support/Threading.h"

#include <algorithm>
#include <unistd.h>

using namespace mlir;
using namespace mlir::attn;

/// The system's value of `name`, or 0 if it has none.
[[maybe_unused]] static int64_t getSystemFigure(int name) {
  return std::max<int64_t>(sysconf(name), 0);
}

void attn::describeHost(ModuleOp module, const HostObjectOptions &options) {
  StringRef name = AttnDialect::getDeviceAttrName();
  if (module->hasAttr(name))
    return;
  constexpr StringRef host = "host";
  DeviceFigures figures = *getKnownDevice(host);
  HostVectors vectors = getHostVectors(options);
  constexpr int64_t laneBits = 32;
  int64_t lanes = vectors.bits / laneBits;
  figures.registers = lanes * vectors.registers;
  // Two multiply-adds of up to 256 bits begin in a cycle, or one of 512, as in
  // all processors with vectors of these lengths.
  constexpr int64_t pipes = 2, mostLanes = 16;
  figures.fma = std::min(pipes * lanes, mostLanes);
  figures.mmaFlopsPerCycle32b = figures.mmaFlopsPerCycle16b = 2 * figures.fma;
  if (options.cpu.empty() || options.cpu == "native") {
    int64_t perCore = figures.l2Bytes / figures.sms;
    figures.sms = llvm::hardware_concurrency().compute_thread_count();
#ifdef _SC_LEVEL1_DCACHE_SIZE
    if (int64_t bytes = getSystemFigure(_SC_LEVEL1_DCACHE_SIZE))
      figures.sharedBytes = bytes;
    if (int64_t bytes = getSystemFigure(_SC_LEVEL2_CACHE_SIZE))
      perCore = bytes;
#endif
    figures.l2Bytes = perCore * figures.sms;
  }
  // Modules without an operation of the dialect have not loaded it.
  MLIRContext *context = module.getContext();
  context->loadDialect<AttnDialect>();
  module->setAttr(name, DeviceAttr::get(context, host, figures));
}
