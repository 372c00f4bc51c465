//===- PairGradKernel.h - Gradients of queries and keys --------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last kernel of gradients with pair matrices, see LinearPairKernels.h.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PAIRGRADKERNEL_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PAIRGRADKERNEL_H

#include "LinearPairs.h"

namespace mlir::attn {

/// What the kernel that goes through the chunks last to first leaves.
struct KeptGradients {
  /// The gradients of the states after chunks, `[chunks, B, H, Dk, Dv]`, and,
  /// with beta, of the residuals with their beta, `V`, `[B, H, S, Dv]`, in 16
  /// bits.
  Value states, residuals;
  /// The terms of the gradient of beta from `V` and `R`, for each tile of
  /// columns of the values, f32.
  Value betaTerms;
};

/// What both kernels of the gradient read besides the form.
struct GradientInputs {
  Value dout;
  PairMatrices pairs;
  KeptStates kept;
  KeptGradients gradients;
  DecayGradWorkspace workspace;

  SmallVector<Value *> getAll() {
    SmallVector<Value *> all = {&dout,
                                &gradients.states,
                                &gradients.residuals,
                                &gradients.betaTerms,
                                &workspace.queryDots,
                                &workspace.keyDots,
                                &workspace.stateDots,
                                &workspace.rowTerms,
                                &workspace.stateTerms,
                                &workspace.chunkTerms};
    llvm::append_range(all, pairs.getBuffers());
    llvm::append_range(all, kept.getBuffers());
    return all;
  }
};

/// Launches the kernel of the gradients of queries, keys and beta.
void createPairGradients(RewriterBase &rewriter, LinearAttentionGradOp op,
                         LinearKernelForm form, const GradientInputs &inputs,
                         SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PAIRGRADKERNEL_H
