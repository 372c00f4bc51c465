//===- AttnOps.cpp - Operations of the attn dialect -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers, effects and canonicalisations of the operations.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/PatternMatch.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnOps.cpp.inc"

//===----------------------------------------------------------------------===//
// AttentionOp
//===----------------------------------------------------------------------===//

static int64_t getDim(Value value, unsigned dim) {
  return cast<ShapedType>(value.getType()).getDimSize(dim);
}

float AttentionOp::getScaleOrDefault() {
  if (std::optional<APFloat> scale = getScale())
    return scale->convertToFloat();
  return 1.0f / std::sqrt(static_cast<float>(getQueryHeadDim()));
}

int64_t AttentionOp::getNumQueryHeads() { return getDim(getQuery(), 1); }
int64_t AttentionOp::getNumKeyHeads() { return getDim(getKey(), 1); }
int64_t AttentionOp::getQueryHeadDim() { return getDim(getQuery(), 3); }
int64_t AttentionOp::getValueHeadDim() { return getDim(getValue(), 3); }

bool AttentionOp::isBufferized() { return isa<MemRefType>(getQuery().getType()); }

MutableOperandRange AttentionOp::getDpsInitsMutable() {
  return MutableOperandRange(*this, 3, getNumOperands() - 3);
}

void AttentionOp::getAsmBlockArgumentNames(Region &region,
                                           OpAsmSetValueNameFn setName) {
  static constexpr StringLiteral all[] = {"score", "b", "h", "i", "j"};
  ArrayRef<StringLiteral> names = all;
  if (&region == &getKeepRegion())
    names = names.drop_front();
  for (auto [argument, name] : llvm::zip(region.getArguments(), names))
    setName(argument, name);
}

void AttentionOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  for (OpOperand &operand : getOperation()->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    if (isDpsInit(&operand))
      effects.emplace_back(MemoryEffects::Write::get(), &operand,
                           SideEffects::DefaultResource::get());
    else
      effects.emplace_back(MemoryEffects::Read::get(), &operand,
                           SideEffects::DefaultResource::get());
  }
}

Speculation::Speculatability AttentionOp::getSpeculatability() {
  return isBufferized() ? Speculation::NotSpeculatable
                        : Speculation::RecursivelySpeculatable;
}

LogicalResult AttentionOp::verify() { return success(); }
LogicalResult AttentionOp::verifyRegions() { return success(); }
void AttentionOp::getCanonicalizationPatterns(RewritePatternSet &, MLIRContext *) {}
