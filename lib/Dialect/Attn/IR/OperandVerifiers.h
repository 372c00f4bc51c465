//===- OperandVerifiers.h - Verification of operands ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verification that operations on heads without AttentionOpInterface have in
// common.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_IR_OPERANDVERIFIERS_H
#define ATTN_LIB_DIALECT_ATTN_IR_OPERANDVERIFIERS_H

#include "mlir/IR/Operation.h"

namespace mlir::attn {

/// An operand and its name in diagnostics.
struct NamedOperand {
  StringRef name;
  Value value;
};

/// Checks that all operands are tensors or all are memrefs, as `expected` is.
LogicalResult verifyContainers(Operation *op, NamedOperand expected);

/// Checks that the head count and the head dim, if it has one, of `operand`,
/// `[B, H, S, D]` or `[B, H, S]`, are static and at least 1.
LogicalResult verifyHeadSizes(Operation *op, NamedOperand operand);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_IR_OPERANDVERIFIERS_H
