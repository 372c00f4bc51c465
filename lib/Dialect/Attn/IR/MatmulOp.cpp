//===- MatmulOp.cpp - Matmuls ---------------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifier and effects of attn.matmul.
//
//===----------------------------------------------------------------------===//

#include "RegionVerifier.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::attn;

void MatmulOp::getAsmBlockArgumentNames(Region &region,
                                        OpAsmSetValueNameFn setName) {
  constexpr StringLiteral names[] = {"sum", "b", "i", "j"};
  for (auto [argument, name] : llvm::zip(region.getArguments(), names))
    setName(argument, name);
}

void MatmulOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (!isBufferized())
    return;
  for (OpOperand *input : {&getLhsMutable(), &getRhsMutable()})
    effects.emplace_back(MemoryEffects::Read::get(), input,
                         SideEffects::DefaultResource::get());
  effects.emplace_back(MemoryEffects::Write::get(), &getOutMutable(),
                       SideEffects::DefaultResource::get());
}

Speculation::Speculatability MatmulOp::getSpeculatability() {
  return isBufferized() ? Speculation::NotSpeculatable
                        : Speculation::RecursivelySpeculatable;
}

LogicalResult MatmulOp::reifyResultShapes(OpBuilder &builder,
                                          ReifiedRankedShapedTypeDims &shapes) {
  if (!getResult())
    return failure();
  shapes.push_back(tensor::getMixedSizes(builder, getLoc(), getOut()));
  return success();
}

LogicalResult MatmulOp::verify() {
  std::pair<StringRef, Value> operands[] = {
      {"lhs", getLhs()}, {"rhs", getRhs()}, {"out", getOut()}};
  for (auto [name, operand] : operands)
    if (isa<MemRefType>(operand.getType()) != isBufferized())
      return emitOpError() << "operands must be all tensors or all memrefs, "
                              "but 'out' is "
                           << getOut().getType() << " and '" << name << "' is "
                           << operand.getType();
  Type element = getElementTypeOrSelf(getLhs().getType());
  Type rhsElement = getElementTypeOrSelf(getRhs().getType());
  bool isNarrow = isFloat8(element);
  if (isNarrow && !isFloat8(rhsElement))
    return emitOpError() << "element type of 'rhs' must be f8E4M3FN or f8E5M2, "
                            "as 'lhs' has "
                         << element << " (was " << rhsElement << ")";
  if (!isNarrow && rhsElement != element)
    return emitOpError() << "element type of 'rhs' must be that of 'lhs', "
                         << element << " (was " << rhsElement << ")";
  Type outElement = getElementTypeOrSelf(getOut().getType());
  if (!isNarrow && outElement != element && !outElement.isF32())
    return emitOpError() << "element type of 'out' must be that of 'lhs', "
                         << element << ", or f32 (was " << outElement << ")";
  bool isBatchedInput = isBatched(getLhs()) || isBatched(getRhs());
  if (isBatched(getOut()) != isBatchedInput)
    return emitOpError() << "'out' must have " << (isBatchedInput ? 3 : 2)
                         << " dimensions, as its inputs demand (was "
                         << getOut().getType() << ")";
  if (isBufferized() == static_cast<bool>(getResult()))
    return emitOpError() << "must have " << (isBufferized() ? "no" : "one")
                         << " result";

  using Dim = std::tuple<StringRef, Value, int64_t>;
  auto verifySame = [&](Dim reference, Dim dim) -> LogicalResult {
    auto [referenceName, referenceValue, referenceDim] = reference;
    auto [name, value, number] = dim;
    int64_t expected = getDimSize(referenceValue, referenceDim);
    int64_t actual = getDimSize(value, number);
    if (ShapedType::isDynamic(expected) || ShapedType::isDynamic(actual) ||
        expected == actual)
      return success();
    return emitOpError() << "dimension " << number << " of '" << name
                         << "' must match dimension " << referenceDim << " of '"
                         << referenceName << "', " << expected << " (was "
                         << actual << ")";
  };
  int64_t outBatched = isBatched(getOut());
  if (failed(verifySame({"lhs", getLhs(), getLhsDepthDim()},
                        {"rhs", getRhs(), getRhsDepthDim()})) ||
      failed(verifySame({"lhs", getLhs(), getLhsRowDim()},
                        {"out", getOut(), outBatched})) ||
      failed(verifySame({"rhs", getRhs(), getRhsColumnDim()},
                        {"out", getOut(), outBatched + 1})))
    return failure();
  for (auto [name, operand] : ArrayRef(operands).drop_back())
    if (isBatched(operand) &&
        failed(verifySame({"out", getOut(), 0}, {name, operand, 0})))
      return failure();
  return success();
}

LogicalResult MatmulOp::verifyRegions() {
  Builder builder(getContext());
  Type f32 = builder.getF32Type(), index = builder.getIndexType();
  return verifyRegion(cast<DestinationStyleOpInterface>(getOperation()),
                      "epilogue", getEpilogue(), {f32, index, index, index},
                      f32, [] { return SmallVector<RegionDestination>(); });
}
