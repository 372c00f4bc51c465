//===- HostTarget.cpp - The host as a target ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registers the target whose kernels are code of the host.
//
//===----------------------------------------------------------------------===//

#include "Targets.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
class HostTarget : public Target {
public:
  StringRef getName() const override { return "host"; }
  StringRef getDefaultDevice() const override { return "host"; }
  KernelScheduleKind getKernelScheduleKind() const override {
    return KernelScheduleKind::Sequential;
  }
  bool supportsElementType(Type type) const override {
    return isa<FloatType>(type);
  }
  StringRef describeElementTypes() const override {
    return "a floating-point type";
  }
  int64_t getHeadDimUnit() const override { return 1; }
  /// Heads are unrolled: the size of the code grows with the head dim.
  int64_t getMaxHeadDim() const override { return 4096; }
};
} // namespace

void attn::registerHostTarget() {
  registerTarget(std::make_unique<HostTarget>());
}
