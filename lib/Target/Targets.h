//===- Targets.h - Registration of the targets ----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declares the functions that the files of targets define.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TARGET_TARGETS_H
#define ATTN_LIB_TARGET_TARGETS_H

#include "attn/Target/TargetInfo.h"

#include <memory>

namespace mlir::attn {

/// The instructions of sm_80 on a later architecture, which must outlive the
/// result.
std::unique_ptr<const TargetInfo>
createMultistageTarget(const TargetInfo &architecture);

/// Whether a stage holds a row, which threads read and MMAs do not. A row has
/// no swizzle.
inline bool isRow(attn_tile::BufferType type) {
  return type.getShape()[0] == 1 && type.getElementType().isF32();
}

void registerHostTarget();
void registerSM80Target();
void registerSM90aTarget();

} // namespace mlir::attn

#endif // ATTN_LIB_TARGET_TARGETS_H
