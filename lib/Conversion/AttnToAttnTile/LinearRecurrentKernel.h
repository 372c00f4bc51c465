//===- LinearRecurrentKernel.h - Kernel for few tokens ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel of linear attention that computes one token after the other.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARRECURRENTKERNEL_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARRECURRENTKERNEL_H

#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Replaces a bufferised linear attention by launches of new kernels, which get
/// `operands`: the operands of `op` and, if it has log-decays, the error flag.
void createLinearRecurrentKernels(RewriterBase &rewriter, LinearAttentionOp op,
                                  ValueRange operands, SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARRECURRENTKERNEL_H
