//===- MergeToAttnTile.h - Kernels of merges --------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels that merge partial results of attention, and of their gradients.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_CONVERSION_ATTNTOATTNTILE_MERGETOATTNTILE_H
#define ATTN_CONVERSION_ATTNTOATTNTILE_MERGETOATTNTILE_H

#include "attn/Dialect/Attn/IR/AttnMergeOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Replaces a bufferised merge that has a schedule by a launch of a new kernel.
/// On failure a diagnostic has been emitted and the IR is as it was.
LogicalResult lowerMergeToKernel(RewriterBase &rewriter, MergeOp op,
                                 SymbolTable &symbols);

/// The same for its gradient.
LogicalResult lowerMergeGradToKernel(RewriterBase &rewriter, MergeGradOp op,
                                     SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_CONVERSION_ATTNTOATTNTILE_MERGETOATTNTILE_H
