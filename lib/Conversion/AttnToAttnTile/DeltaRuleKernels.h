//===- DeltaRuleKernels.h - GPU kernels of the delta rule -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels of linear attention with `beta` for the tensor cores of a GPU, by the
// WY form (Bischof and Van Loan 1987; Yang et al. 2024, arXiv:2406.06484). In a
// chunk, with the state S before it, the decays G from its beginning to each
// token, D between two tokens, and T from each token to its end,
//
//   A = (key key^T) D below the diagonal
//   M = (1 + diag(beta) A)^-1
//   R = value - G (key S)
//   U = M (beta R)
//   out = G (query S) + P U      P = (query key^T) D up to the diagonal
//   S   = (decay of the chunk) S + key^T (T U)
//
// A, M and P need no state: a kernel computes them for all chunks, M in f32
// (`attn_tile.invert_triangular`). The kernel of outputs goes through the
// chunks of a head. Operands of matmuls are rounded to 16 bits, M and P once.
//
// The gradient computes the states S, U and R again, and keeps them. A kernel
// goes through the chunks last to first, with the gradient dS of the state
// after the chunk,
//
//   V  = M^T (P^T dout + T (key dS))     the gradient of beta R
//   dS = (decay of the chunk) dS + query^T (G dout) - key^T (G beta V)
//
// and beta V is the gradient of the values. The last kernel has all chunks at
// once: with dA = -(V U^T), dP = dout U^T, and masks and decays as above,
//
//   dquery = G (dout S^T) + dP key
//   dkey   = -G (beta V S^T) + (beta dA) key                   as later tokens
//            + T (U dS^T) + dP^T query + (beta dA)^T key     as earlier tokens
//   dbeta  = rowsum(V R) - rowsum((V U^T) A)
//
// All gradients but the ones that it gets are divided by the scale until they
// are stored.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_DELTARULEKERNELS_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_DELTARULEKERNELS_H

#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Replaces a bufferised linear attention with `beta` by launches of new
/// kernels.
void createDeltaRuleKernels(RewriterBase &rewriter, LinearAttentionOp op,
                            SymbolTable &symbols);

/// The same for its gradient.
void createDeltaRuleGradKernels(RewriterBase &rewriter,
                                LinearAttentionGradOp op, SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_DELTARULEKERNELS_H
