//===- CheckDeviceMemory.cpp - Constants that kernels cannot read ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reports constant tensors in functions that handle memory of a GPU before time
// is spent on their kernels.
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Passes.h"
#include "attn/Conversion/LaunchToRuntime/DeviceFunctions.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNCHECKDEVICEMEMORYPASS
#include "attn/Compiler/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;

namespace {
struct AttnCheckDeviceMemoryPass
    : public attn::impl::AttnCheckDeviceMemoryPassBase<
          AttnCheckDeviceMemoryPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(attn::verifyDeviceMemory(
            attn::findDeviceFunctions(getOperation()))))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
