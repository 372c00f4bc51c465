//===- DifferentiableOpInterface.h - Differentiation ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reverse-mode differentiation: the interface of differentiable operations, and
// the gradients that they exchange.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERFACES_DIFFERENTIABLEOPINTERFACE_H
#define ATTN_INTERFACES_DIFFERENTIABLEOPINTERFACE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::attn {

/// The gradients that are known so far, and the values that have a gradient.
///
/// A value is active if it depends on a value whose gradient is wanted. The
/// gradient of a scalar may have a wider floating point type than the scalar,
/// so that accumulation rounds once. The gradient of a tensor has the tensor's
/// type.
class GradientState {
public:
  virtual ~GradientState();

  /// Whether gradients of `value` are needed.
  bool isActive(Value value) const { return active.contains(value); }
  void setActive(Value value) { active.insert(value); }
  /// Makes the floating point results of `op` active if it uses an active
  /// value.
  void propagateActivity(Operation *op);

  /// The gradient of `value`; null for zero.
  Value getGradient(Value value) const { return gradients.lookup(value); }
  /// Adds to the gradient of `value`, if it is active.
  void addGradient(OpBuilder &builder, Location loc, Value value,
                   Value gradient);
  /// Adds to the gradient of one element of `tensor`, which `op` reads. Fails,
  /// with a diagnostic, where that is not supported. By default, the gradient
  /// is a tensor that is zero elsewhere.
  virtual LogicalResult addElementGradient(OpBuilder &builder, Operation *op,
                                           Value tensor, ValueRange indices,
                                           Value gradient);
  /// Whether `addElementGradient` adds to destinations outside of the
  /// differentiated operations. If not, tensors have gradients as scalars have.
  virtual bool addsElementsOutside() const { return false; }

  /// Whether gradients must be bitwise reproducible: operations then accumulate
  /// in a fixed order.
  bool isDeterministic() const { return deterministic; }
  void setDeterministic(bool value) { deterministic = value; }

private:
  llvm::DenseSet<Value> active;
  llvm::DenseMap<Value, Value> gradients;
  bool deterministic = false;
};

/// Whether values of `type` can have gradients: floats, and tensors and vectors
/// of them.
bool isDifferentiableType(Type type);

/// The type of the gradient of a value of `type`: f32, or a tensor of f32,
/// where elements have 8 bits, and `type` otherwise.
Type getGradientType(Type type);

/// Emits a tensor of `like`'s shape that holds `value` everywhere.
Value emitFilled(OpBuilder &builder, Location loc, Value like, TypedAttr value);

/// Converts a float, or a tensor or vector of floats, to another element type.
Value convertFloat(OpBuilder &builder, Location loc, Value value, Type element);

/// Prepares `op` for its gradient if that is needed. Its results become active
/// as `GradientState::propagateActivity` says. Returns `op` or its replacement,
/// whose first results are the results of `op`.
Operation *prepareForGradient(RewriterBase &rewriter, Operation *op,
                              GradientState &state);

/// Emits the gradients of `ops`, which are in order, last to first. Fails, with
/// a diagnostic, at an operation that cannot be differentiated.
LogicalResult emitGradients(OpBuilder &builder, ArrayRef<Operation *> ops,
                            GradientState &state);

} // namespace mlir::attn

#include "attn/Interfaces/DifferentiableOpInterface.h.inc"

#endif // ATTN_INTERFACES_DIFFERENTIABLEOPINTERFACE_H
