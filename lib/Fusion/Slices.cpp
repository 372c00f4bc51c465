//===- Slices.cpp - Sizes of slices ---------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the sizes of tensors from the operations that define them.
//
//===----------------------------------------------------------------------===//

#include "Slices.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"

using namespace mlir;

bool attn::isWholeDim(Value tensor, int64_t dim, OpFoldResult size) {
  int64_t known = cast<RankedTensorType>(tensor.getType()).getDimSize(dim);
  if (!ShapedType::isDynamic(known))
    return getConstantIntValue(size) == known;
  auto asked = dyn_cast<Value>(size);
  auto dimOp = asked ? asked.getDefiningOp<tensor::DimOp>() : tensor::DimOp();
  while (true) {
    if (dimOp && dimOp.getSource() == tensor && dimOp.getConstantIndex() == dim)
      return true;
    Operation *op = tensor.getDefiningOp();
    if (auto split = dyn_cast_or_null<tensor::ExpandShapeOp>(op))
      return isEqualConstantIntOrValue(split.getMixedOutputShape()[dim], size);
    if (auto empty = dyn_cast_or_null<tensor::EmptyOp>(op))
      return isEqualConstantIntOrValue(empty.getMixedSizes()[dim], size);
    auto into = dyn_cast_or_null<DestinationStyleOpInterface>(op);
    if (!into)
      return false;
    tensor = into.getTiedOpOperand(cast<OpResult>(tensor))->get();
  }
}

bool attn::hasWholeDynamicDims(OffsetSizeAndStrideOpInterface slice,
                               Value tensor) {
  SmallVector<OpFoldResult> offsets = slice.getMixedOffsets();
  for (auto [dim, size] : llvm::enumerate(slice.getMixedSizes())) {
    bool isWhole =
        isConstantIntValue(offsets[dim], 0) && isWholeDim(tensor, dim, size);
    if (!isWhole && !getConstantIntValue(size))
      return false;
  }
  return true;
}
