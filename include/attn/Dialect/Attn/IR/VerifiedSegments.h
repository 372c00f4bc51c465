//===- VerifiedSegments.h - Sizes of operand segments -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The trait of VerifiedSegments.td.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_VERIFIEDSEGMENTS_H
#define ATTN_DIALECT_ATTN_IR_VERIFIEDSEGMENTS_H

#include "mlir/IR/OpDefinition.h"

namespace mlir::attn {

/// An operand of an operation with `operandSegmentSizes`, and how many values
/// it may have. -1 is no limit.
struct OperandSegment {
  llvm::StringLiteral name;
  int32_t minSize;
  int32_t maxSize;
};

namespace detail {
LogicalResult verifySegments(Operation *op, ArrayRef<OperandSegment> segments,
                             ArrayRef<int32_t> sizes);
} // namespace detail

/// Checks `operandSegmentSizes` against `ConcreteType::getOperandSegments`.
template <typename ConcreteType>
class VerifiedSegments
    : public OpTrait::TraitBase<ConcreteType, VerifiedSegments> {
public:
  static LogicalResult verifyTrait(Operation *op) {
    return detail::verifySegments(
        op, ConcreteType::getOperandSegments(),
        cast<ConcreteType>(op).getProperties().operandSegmentSizes);
  }
};

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_VERIFIEDSEGMENTS_H
