//===- LinearAttentionToAttnTile.h - Kernels --------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels of linear attention and its gradient.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_ATTNTOATTNTILE_LINEARATTENTIONTOATTNTILE_H
#define ATTN_CONVERSION_ATTNTOATTNTILE_LINEARATTENTIONTOATTNTILE_H

#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Replaces a bufferised linear attention that has a schedule by a launch of a
/// new kernel. On failure a diagnostic has been emitted and the IR is as it
/// was.
LogicalResult lowerLinearAttentionToKernel(RewriterBase &rewriter,
                                           LinearAttentionOp op,
                                           SymbolTable &symbols);

/// The same for its gradient, whose kernel gets memory for states.
LogicalResult lowerLinearAttentionGradToKernel(RewriterBase &rewriter,
                                               LinearAttentionGradOp op,
                                               SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_CONVERSION_ATTNTOATTNTILE_LINEARATTENTIONTOATTNTILE_H
