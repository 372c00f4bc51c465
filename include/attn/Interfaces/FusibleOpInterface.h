//===- FusibleOpInterface.h - Fusion with attention -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations that can be fused into attention, and their effect on a tensor.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERFACES_FUSIBLEOPINTERFACE_H
#define ATTN_INTERFACES_FUSIBLEOPINTERFACE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace mlir::attn {

/// A tensor as a function of another one, `source`.
struct TensorMapping {
  Value source;
  /// Dimension `i` of the tensor is dimension `permutation[i]` of the source.
  SmallVector<int64_t> permutation;
  /// Factor of elements, applied before or after they are converted to the
  /// element type of the tensor.
  double factor = 1;
};

/// Provides elements of operands to operations that emit an element of their
/// result.
class ElementSource {
public:
  virtual ~ElementSource();

  /// The element of `tensor` at `indices`, floats as f32; null if it is not
  /// available.
  virtual Value getElement(OpBuilder &builder, Location loc, Value tensor,
                           ValueRange indices) = 0;
  /// The mean of the squares of the elements along the last dimension, at
  /// `indices` of the others; null if it is not available.
  virtual Value getMeanSquare(OpBuilder &builder, Location loc, Value tensor,
                              ValueRange indices) = 0;
};

/// Whether `op` computes one scalar from scalars, or each element of its result
/// from elements of its operands, without regions and effects, so that copies
/// of it can compute single elements.
bool isScalarOperation(Operation *op);

} // namespace mlir::attn

#include "attn/Interfaces/FusibleOpInterface.h.inc"

#endif // ATTN_INTERFACES_FUSIBLEOPINTERFACE_H
