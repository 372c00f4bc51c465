//===- Differentiation.h - Differentiation of attention --------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gradients of score_mod regions, and registration of differentiable
// operations.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_AUTODIFF_DIFFERENTIATION_H
#define ATTN_AUTODIFF_DIFFERENTIATION_H

#include "attn/Dialect/Attn/IR/AttnOps.h"

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::attn {

/// Writes the gradient of the score_mod region `score` to the empty region
/// `scoreGrad` of the same operation: the identity if `score` is empty. Its
/// block gets an argument for each of `captured`, to which it adds the gradient
/// of that value. Fails with a diagnostic at an operation that cannot be
/// differentiated.
LogicalResult deriveScoreGrad(OpBuilder &builder, Region &score,
                              Region &scoreGrad, ValueRange captured,
                              TypeRange destinationTypes);

/// Lets attention and operations of arith, linalg, math, scf and tensor
/// implement DifferentiableOpInterface.
void registerDifferentiableOpInterfaceExternalModels(DialectRegistry &registry);

} // namespace mlir::attn

#endif // ATTN_AUTODIFF_DIFFERENTIATION_H
