//===- LinearPairKernels.h - Kernels with pair matrices ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels of linear attention for the tensor cores of a GPU in which a kernel
// of its own computes matrices of the pairs of tokens of each chunk: with
// `beta`, by the WY form (Bischof and Van Loan 1987; Yang et al. 2024,
// arXiv:2406.06484), and with a decay of each key element. In a chunk, with the
// state S before it, the decays G from its beginning to each token, D between
// two tokens, and T from each token to its end,
//
//   A = (key key^T) D below the diagonal
//   M = (1 + diag(beta) A)^-1
//   R = value - (key G) S
//   U = M (beta R)
//   out = (query G) S + P U      P = (query key^T) D up to the diagonal
//   S   = (decay of the chunk) S + (key T)^T U
//
// and U = value, M = 1 without beta. A, M and P need no state: a kernel
// computes them for all chunks, M in f32 (`attn_tile.invert_triangular`). The
// kernel of outputs goes through the chunks of a head. Operands of matmuls are
// rounded to 16 bits, M and P once. Decays of tokens are factors of rows of
// results; those of key elements are factors of queries and keys, see
// DecayedRows.h.
//
// The gradient computes the states S, U and R again, and keeps them. A kernel
// goes through the chunks last to first, with the gradient dS of the state
// after the chunk,
//
//   V  = M^T (P^T dout + (key T) dS)     the gradient of beta R
//   dS = (decay of the chunk) dS + (query G)^T dout - (key G)^T (beta V)
//
// and beta V, or V without beta, is the gradient of the values. The last kernel
// has all chunks at once: with dA = -(V U^T), dP = dout U^T, and masks and
// decays as above,
//
//   dquery = G (dout S^T) + dP key
//   dkey   = -G (beta V S^T) + (beta dA) key                   as later tokens
//            + T (U dS^T) + dP^T query + (beta dA)^T key     as earlier tokens
//   dbeta  = rowsum(V R) - rowsum((V U^T) A)
//
// All gradients but the ones that it gets are divided by the scale until they
// are stored.
//
// Where heads are few, work items split the chunks of a head, see
// PairSplits.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARPAIRKERNELS_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARPAIRKERNELS_H

#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Replaces a bufferised linear attention with `beta` or a decay of each key
/// element by launches of new kernels.
void createLinearPairKernels(RewriterBase &rewriter, LinearAttentionOp op,
                             SymbolTable &symbols);

/// The same for its gradient.
void createLinearPairGradKernels(RewriterBase &rewriter,
                                 LinearAttentionGradOp op,
                                 SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARPAIRKERNELS_H
