//===- DifferentiateLinearAttention.h - Its gradients -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registration of the models of linear attention.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_AUTODIFF_DIFFERENTIATELINEARATTENTION_H
#define ATTN_LIB_AUTODIFF_DIFFERENTIATELINEARATTENTION_H

#include "mlir/IR/DialectRegistry.h"

namespace mlir::attn {

/// Registers the models of linear attention and of its gradient.
void registerLinearAttentionGradientModels(DialectRegistry &registry);

} // namespace mlir::attn

#endif // ATTN_LIB_AUTODIFF_DIFFERENTIATELINEARATTENTION_H
