//===- LinearAttentionKernel.h - GPU kernels --------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels of linear attention for GPUs, whose schedules divide the values.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARATTENTIONKERNEL_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARATTENTIONKERNEL_H

#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Replaces a bufferised linear attention by launches of new kernels for the
/// tensor cores of a GPU.
void createLinearAttentionKernels(RewriterBase &rewriter, LinearAttentionOp op,
                                  SymbolTable &symbols);

/// The same for its gradient.
void createLinearAttentionGradKernels(RewriterBase &rewriter,
                                      LinearAttentionGradOp op,
                                      SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARATTENTIONKERNEL_H
