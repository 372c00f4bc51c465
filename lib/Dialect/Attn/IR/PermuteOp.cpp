//===- PermuteOp.cpp - Views of tensors -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks and folds attn.permute.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mlir::attn;

/// `type` with its dimensions in the order `permutation`.
static RankedTensorType permute(RankedTensorType type,
                                ArrayRef<int64_t> permutation) {
  return RankedTensorType::get(applyPermutation(type.getShape(), permutation),
                               type.getElementType());
}

void PermuteOp::build(OpBuilder &builder, OperationState &state, Value source,
                      ArrayRef<int64_t> permutation) {
  build(builder, state,
        permute(cast<RankedTensorType>(source.getType()), permutation), source,
        permutation);
}

LogicalResult PermuteOp::verify() {
  auto type = cast<RankedTensorType>(getSource().getType());
  if (int64_t(getPermutation().size()) != type.getRank() ||
      !isPermutationVector(getPermutation())) {
    InFlightDiagnostic diag = emitOpError("'permutation' must be one of the ");
    diag << type.getRank() << " dimensions of 'source' (was [";
    llvm::interleaveComma(getPermutation(), diag);
    return diag << "])";
  }
  RankedTensorType expected = permute(type, getPermutation());
  if (getType() != expected)
    return emitOpError("type of the result must be ")
           << expected << " (was " << getType() << ")";
  return success();
}

OpFoldResult PermuteOp::fold(FoldAdaptor) {
  if (isIdentityPermutation(getPermutation()))
    return getSource();
  // Dimension i is dimension inner[outer[i]] of the first source.
  auto inner = getSource().getDefiningOp<PermuteOp>();
  if (!inner)
    return {};
  setPermutation(applyPermutation(inner.getPermutation(), getPermutation()));
  setOperand(inner.getSource());
  return getResult();
}

LogicalResult
PermuteOp::reifyResultShapes(OpBuilder &builder,
                             ReifiedRankedShapedTypeDims &reifiedReturnShapes) {
  SmallVector<OpFoldResult> sizes =
      tensor::getMixedSizes(builder, getLoc(), getSource());
  reifiedReturnShapes.push_back(applyPermutation(sizes, getPermutation()));
  return success();
}
