//===- AttnToAttnTile.h - Attention to tiled programs ----------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the plain tiled program of an attention.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_ATTNTOATTNTILE_ATTNTOATTNTILE_H
#define ATTN_CONVERSION_ATTNTOATTNTILE_ATTNTOATTNTILE_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/IR/DeviceFigures.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Replaces a bufferised operation that streams keys, such as attention, and
/// has a schedule, by a launch of a new kernel, which is added to `symbols`
/// before the function of the operation. Returns the kernel; on failure a
/// diagnostic has been emitted, and the operation remains, perhaps with packed
/// GQA heads and kernels before it.
FailureOr<attn_tile::KernelOp> lowerToKernel(RewriterBase &rewriter,
                                             attn_tile::StreamingOpInterface op,
                                             SymbolTable &symbols);

/// Replaces a bufferised gradient of an operation that streams keys, such as
/// attention, and has a schedule, by launches of new kernels and the buffers
/// between them. Work items are ordered for `device`. On failure a diagnostic
/// has been emitted and the IR is as it was.
LogicalResult
lowerAttentionGradToKernels(RewriterBase &rewriter,
                            attn_tile::StreamingGradOpInterface op,
                            const DeviceFigures &device, SymbolTable &symbols);

/// Replaces a bufferised dropout keep mask that has a schedule by a launch of a
/// new kernel. On failure a diagnostic has been emitted and the IR is as it
/// was.
LogicalResult lowerDropoutMaskToKernel(RewriterBase &rewriter, DropoutMaskOp op,
                                       SymbolTable &symbols);

/// Replaces a bufferised function of heads that has a schedule by a launch of a
/// new kernel. On failure a diagnostic has been emitted and the IR is as it
/// was.
LogicalResult lowerMapHeadsToKernel(RewriterBase &rewriter, MapHeadsOp op,
                                    SymbolTable &symbols);

/// Replaces a bufferised `attn.cache_append` that has a schedule by a launch of
/// a new kernel. On failure a diagnostic has been emitted and the IR is as it
/// was.
LogicalResult lowerCacheAppendToKernel(RewriterBase &rewriter, CacheAppendOp op,
                                       SymbolTable &symbols);

/// Replaces a bufferised matmul that has a schedule by a launch of a new
/// kernel, which is returned. On failure a diagnostic has been emitted and the
/// IR is as it was.
FailureOr<attn_tile::KernelOp>
lowerMatmulToKernel(RewriterBase &rewriter, MatmulOp op, SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_CONVERSION_ATTNTOATTNTILE_ATTNTOATTNTILE_H
