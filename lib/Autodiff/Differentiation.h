//===- Differentiation.h - Models of DifferentiableOpInterface --*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declarations that the parts of differentiation share.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_AUTODIFF_DIFFERENTIATION_H
#define ATTN_LIB_AUTODIFF_DIFFERENTIATION_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Interfaces/DifferentiableOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {

/// Registers the models of arith, math, scf and tensor operations on scalars.
void registerScalarGradientModels(DialectRegistry &registry);
/// Registers the models of linalg and tensor operations on tensors.
void registerTensorGradientModels(DialectRegistry &registry);
/// Registers the models of matmuls and maps with regions.
void registerRegionGradientModels(DialectRegistry &registry);
/// Registers the models of attention.
void registerAttentionGradientModels(DialectRegistry &registry);

/// Emits a tensor of zeros with the shape of `like`.
Value emitZeros(OpBuilder &builder, Location loc, Value like, Type element);

/// Whether `op` is computed again rather than saved: its results hold no data.
bool isFree(Operation *op);

/// All values that `op` and its regions use.
SetVector<Value> getUsedValues(Operation *op);

/// Attributes of a backward function: the forward function, and how many of its
/// last results are saved values.
constexpr StringLiteral forwardAttrName = "attn.forward";
constexpr StringLiteral numSavedAttrName = "attn.num_saved";

/// Maps the arguments of a forward function, and the values that it yields, to
/// the arguments of its backward function. Of a value that is yielded more than
/// once, the first place counts.
void mapForwardValues(func::FuncOp backward, ValueRange arguments,
                      ValueRange yielded, IRMapping &mapping);

/// Marks the arguments of a backward function that it does not use.
void markUnusedArguments(func::FuncOp function);

} // namespace mlir::attn

#endif // ATTN_LIB_AUTODIFF_DIFFERENTIATION_H
