//===- FusibleOpInterfaceImpl.cpp - What fuses with attention -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How operations of upstream dialects map tensors.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/Transforms/FusibleOpInterfaceImpl.h"
#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "attn/Interfaces/FusibleOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

/// The number that all elements of `value` are, if it is a constant one.
static std::optional<double> getNumber(Value value) {
  Attribute constant;
  if (!matchPattern(value, m_Constant(&constant)))
    return std::nullopt;
  if (auto dense = dyn_cast<DenseElementsAttr>(constant))
    constant = dense.isSplat() ? dense.getSplatValue<Attribute>() : nullptr;
  auto number = dyn_cast_if_present<FloatAttr>(constant);
  return number ? std::optional(number.getValueAsDouble()) : std::nullopt;
}

/// The operand that the result of `op` is a multiple of, also in another type.
/// Multiplies `factor` by what it is multiplied by. Null for other operations.
static Value getScaledOperand(Operation *op, double &factor) {
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return op->getOperand(0);
  bool isProduct = isa<arith::MulFOp>(op);
  if (!isProduct && !isa<arith::DivFOp>(op))
    return {};
  std::optional<double> right = getNumber(op->getOperand(1));
  if (right && *right != 0) {
    factor = isProduct ? factor * *right : factor / *right;
    return op->getOperand(0);
  }
  std::optional<double> left =
      isProduct ? getNumber(op->getOperand(0)) : std::nullopt;
  if (!left)
    return {};
  factor *= *left;
  return op->getOperand(1);
}

namespace {
template <typename OpTy>
struct LinalgModel
    : public FusibleOpInterface::ExternalModel<LinalgModel<OpTy>, OpTy> {
  std::optional<TensorMapping> getMapping(Operation *operation) const {
    auto op = cast<linalg::LinalgOp>(operation);
    if (!op.hasPureTensorSemantics() || op->getNumResults() != 1 ||
        op.getNumParallelLoops() != op.getNumLoops())
      return std::nullopt;
    TensorMapping mapping;
    Value value = op.getBlock()->getTerminator()->getOperand(0);
    while (Operation *scalar = value.getDefiningOp()) {
      value = getScaledOperand(scalar, mapping.factor);
      if (!value)
        return std::nullopt;
    }
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || argument.getOwner() != op.getBlock())
      return std::nullopt;
    OpOperand *source = op.getMatchingOpOperand(argument);
    if (!op.isDpsInput(source) ||
        !isa<RankedTensorType>(source->get().getType()))
      return std::nullopt;
    AffineMap sourceMap = op.getMatchingIndexingMap(source);
    AffineMap resultMap = op.getIndexingMapMatchingResult(op->getResult(0));
    if (!sourceMap.isPermutation() || !resultMap.isPermutation())
      return std::nullopt;
    mapping.source = source->get();
    for (AffineExpr loop : resultMap.getResults())
      mapping.permutation.push_back(*sourceMap.getResultPosition(loop));
    return mapping;
  }
};

/// Operations of arith on tensors.
template <typename OpTy>
struct ArithModel
    : public FusibleOpInterface::ExternalModel<ArithModel<OpTy>, OpTy> {
  std::optional<TensorMapping> getMapping(Operation *op) const {
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!type)
      return std::nullopt;
    TensorMapping mapping;
    mapping.source = getScaledOperand(op, mapping.factor);
    if (!mapping.source)
      return std::nullopt;
    mapping.permutation = llvm::to_vector(llvm::seq<int64_t>(type.getRank()));
    return mapping;
  }
};
} // namespace

template <template <typename> typename ModelTy, typename... OpTys>
static void attach(MLIRContext *context) {
  (OpTys::template attachInterface<ModelTy<OpTys>>(*context), ...);
}

void attn::registerFusibleOpInterfaceExternalModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    attach<LinalgModel,
#define GET_OP_LIST
#include "mlir/Dialect/Linalg/IR/LinalgStructuredOps.cpp.inc"
           >(context);
  });
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attach<ArithModel, arith::DivFOp, arith::ExtFOp, arith::MulFOp,
           arith::TruncFOp>(context);
  });
}
