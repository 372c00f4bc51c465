//===- DifferentiateMerge.h - Gradients of merges ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registration of the models of merges of partial results.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_AUTODIFF_DIFFERENTIATEMERGE_H
#define ATTN_LIB_AUTODIFF_DIFFERENTIATEMERGE_H

#include "mlir/IR/DialectRegistry.h"

namespace mlir::attn {

/// Registers the models of merges and of their gradients.
void registerMergeGradientModels(DialectRegistry &registry);

} // namespace mlir::attn

#endif // ATTN_LIB_AUTODIFF_DIFFERENTIATEMERGE_H
