//===- TensorInterpreter.h - Tensors around an operation --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates slices of tensors, slices that are written over tensors, and
// elementwise operations that round nothing, as MLIR defines them. It uses no
// code of the compiler.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_FUZZ_TENSORINTERPRETER_H
#define ATTN_TEST_FUZZ_TENSORINTERPRETER_H

#include "GuardedTensor.h"
#include "Reference.h"
#include "mlir/IR/OpDefinition.h"

#include <functional>

namespace mlir::attn::fuzz {

/// The sizes of tensors, computed from the sizes of the arguments of a
/// function.
class TensorSizes {
public:
  using GetSizeOfArgument = std::function<int64_t(BlockArgument, unsigned)>;

  explicit TensorSizes(GetSizeOfArgument getSizeOfArgument)
      : getSizeOfArgument(std::move(getSizeOfArgument)) {}

  int64_t getSize(Value tensor, unsigned dim) const;
  int64_t getIndex(Value index) const;
  SmallVector<int64_t> getIndices(ArrayRef<OpFoldResult> indices) const;
  SmallVector<int64_t> getShape(Value tensor) const;

private:
  GetSizeOfArgument getSizeOfArgument;
};

/// The argument that `value` has the other elements of: it is written over a
/// part of it, or in destination style. Null if there is none.
BlockArgument getDestination(Value value);

/// Whether the function of `op` returns `argument` with new contents.
bool isReturned(Operation *op, Value argument);

/// Adds to `tensors`, the arguments of a function, the operands of `op` that
/// are computed from them.
void addOperands(Operation *op, TensorMap &tensors);

/// The contents of the arguments that the function of `op` returns, if the
/// destinations of `op` have the contents `expected`.
ExpectedMap computeReturned(Operation *op, const TensorMap &tensors,
                            const ExpectedMap &expected);

} // namespace mlir::attn::fuzz

#endif // ATTN_TEST_FUZZ_TENSORINTERPRETER_H
