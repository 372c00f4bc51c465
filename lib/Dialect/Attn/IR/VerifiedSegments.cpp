//===- VerifiedSegments.cpp - Sizes of operand segments -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The verifier of operations with `operandSegmentSizes`, which in the generic
// form and in bytecode may hold any numbers.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/VerifiedSegments.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;

LogicalResult attn::detail::verifySegments(Operation *op,
                                           ArrayRef<OperandSegment> segments,
                                           ArrayRef<int32_t> sizes) {
  for (auto [segment, size] : llvm::zip_equal(segments, sizes)) {
    bool isTooLarge = segment.maxSize >= 0 && size > segment.maxSize;
    if (size >= segment.minSize && !isTooLarge)
      continue;
    InFlightDiagnostic diag = op->emitOpError()
                              << "'operandSegmentSizes' must give '"
                              << segment.name << "' ";
    if (segment.maxSize < 0)
      diag << "no negative number of values";
    else if (segment.minSize == segment.maxSize)
      diag << segment.minSize << (segment.minSize == 1 ? " value" : " values");
    else
      diag << segment.minSize << " or " << segment.maxSize << " values";
    return diag << " (was " << size << ")";
  }
  return success();
}
