//===- AttnTileToNVVM.h - Kernels to NVVM ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Entry point of the lowering of kernels to per-thread code.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_ATTNTILETONVVM_ATTNTILETONVVM_H
#define ATTN_CONVERSION_ATTNTILETONVVM_ATTNTILETONVVM_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"

namespace mlir {
namespace attn_tile {
class KernelOp;
} // namespace attn_tile

namespace attn {
class TargetInfo;

/// Discardable attributes of a lowered kernel function.
constexpr StringLiteral kBlockSizeAttrName = "attn_tile.block_size";
constexpr StringLiteral kSharedBytesAttrName = "attn_tile.shared_bytes";
constexpr StringLiteral kClusterSizeAttrName = "attn_tile.cluster_size";

/// The bytes of shared memory that the pipes of `kernel` take. Fails if a pipe
/// has no offset or a tile that `target` cannot stage, or if they do not fit.
FailureOr<int64_t> getSharedBytes(attn_tile::KernelOp kernel,
                                  const TargetInfo &target);

} // namespace attn
} // namespace mlir

#endif // ATTN_CONVERSION_ATTNTILETONVVM_ATTNTILETONVVM_H
