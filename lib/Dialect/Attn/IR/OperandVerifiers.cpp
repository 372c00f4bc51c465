//===- OperandVerifiers.cpp - Verification of operands --------------------===//
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

#include "OperandVerifiers.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace mlir::attn;

LogicalResult attn::verifyContainers(Operation *op, NamedOperand expected) {
  bool isBufferized = isa<MemRefType>(expected.value.getType());
  for (OpOperand &operand : op->getOpOperands()) {
    Type type = operand.get().getType();
    if (isa<MemRefType>(type) != isBufferized)
      return op->emitOpError("operands must be all tensors or all memrefs, "
                             "but '")
             << expected.name << "' is " << expected.value.getType()
             << " and operand #" << operand.getOperandNumber() << " is "
             << type;
  }
  return success();
}

LogicalResult attn::verifyHeadSizes(Operation *op, NamedOperand operand) {
  ArrayRef<int64_t> shape =
      cast<ShapedType>(operand.value.getType()).getShape();
  for (unsigned dim : {1, 3}) {
    if (dim >= shape.size())
      break;
    int64_t size = shape[dim];
    if (ShapedType::isDynamic(size))
      return op->emitOpError("dimension ")
             << dim << " of '" << operand.name << "' must be static";
    if (size < 1)
      return op->emitOpError("dimension ")
             << dim << " of '" << operand.name << "' must be at least 1 (was "
             << size << ")";
  }
  return success();
}
