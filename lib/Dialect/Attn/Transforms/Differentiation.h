//===- Differentiation.h - Models of DifferentiableOpInterface -*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the parts of differentiation share.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DIFFERENTIATION_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DIFFERENTIATION_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Interfaces/DifferentiableOpInterface.h"
#include "mlir/IR/DialectRegistry.h"

namespace mlir::attn {

/// Registers the models of arith, math, scf and tensor operations on scalars.
void registerScalarGradientModels(DialectRegistry &registry);
/// Registers the models of linalg and tensor operations on tensors.
void registerTensorGradientModels(DialectRegistry &registry);
/// Registers the models of attention.
void registerAttentionGradientModels(DialectRegistry &registry);

/// Emits a tensor of zeros with the shape of `like`.
Value emitZeros(OpBuilder &builder, Location loc, Value like, Type element);

/// Erases operations of `block`, and of blocks in it, whose results nothing
/// uses.
void eraseDeadOps(Block &block);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_DIFFERENTIATION_H
