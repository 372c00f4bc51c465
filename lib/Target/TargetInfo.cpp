//===- TargetInfo.cpp - What a GPU target provides --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The list of targets.
//
//===----------------------------------------------------------------------===//

#include "attn/Target/TargetInfo.h"
#include "Targets.h"

using namespace mlir;
using namespace mlir::attn;

TargetInfo::~TargetInfo() = default;

ArrayRef<StringRef> attn::getTargetNames() {
  static constexpr StringRef names[] = {"sm_80", "sm_90a"};
  return names;
}

std::unique_ptr<TargetInfo> attn::createTargetInfo(StringRef name) {
  if (name == "sm_80")
    return createSM80Target();
  if (name == "sm_90a")
    return createSM90aTarget();
  return nullptr;
}
