//===- Passes.h - Fusion ----------------------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Constructors and registration: passes that fuse operations with attention.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_FUSION_PASSES_H
#define ATTN_FUSION_PASSES_H

#include "attn/Support/PassOptions.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::attn {

/// Bytes that addresses and strides of tensors must be multiples of where a GPU
/// copies blocks of them. Operations are fused only if their tensors are.
inline constexpr int64_t blockCopyAlignment = 16;

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "attn/Fusion/Passes.h.inc"

} // namespace mlir::attn

#endif // ATTN_FUSION_PASSES_H
