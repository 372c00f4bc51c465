//===- FusibleOpInterfaceImpl.cpp - Operations that fuse with attention ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Models of FusibleOpInterface: how operations map tensors and elements.
//
//===----------------------------------------------------------------------===//

#include "attn/Fusion/FusibleOpInterfaceImpl.h"
#include "Slices.h"
#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Interfaces/FusibleOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace mlir::attn;

/// The constant number that all elements of `value` have, if there is one.
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
/// Multiplies `factor` by the constant. Null for other operations.
static Value getScaledOperand(Operation *op, double &factor) {
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return op->getOperand(0);
  bool isMultiply = isa<arith::MulFOp>(op);
  if (!isMultiply && !isa<arith::DivFOp>(op))
    return {};
  std::optional<double> right = getNumber(op->getOperand(1));
  if (right && *right != 0) {
    factor = isMultiply ? factor * *right : factor / *right;
    return op->getOperand(0);
  }
  std::optional<double> left =
      isMultiply ? getNumber(op->getOperand(0)) : std::nullopt;
  if (!left)
    return {};
  factor *= *left;
  return op->getOperand(1);
}

//===----------------------------------------------------------------------===//
// Scalar code
//===----------------------------------------------------------------------===//

static Type getWorkingType(Type type) {
  return isa<FloatType>(type) ? Float32Type::get(type.getContext()) : type;
}

/// Emits an operation like `op`, on scalars and in f32.
static Value emitScalar(OpBuilder &builder, Operation *op,
                        ValueRange operands) {
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return operands.front();
  Type type = getWorkingType(getElementTypeOrSelf(op->getResult(0).getType()));
  Attribute constant;
  if (matchPattern(op, m_Constant(&constant))) {
    if (auto dense = dyn_cast<SplatElementsAttr>(constant))
      constant = dense.getSplatValue<Attribute>();
    if (auto number = dyn_cast<FloatAttr>(constant))
      constant = FloatAttr::get(type, number.getValueAsDouble());
    return arith::ConstantOp::create(builder, op->getLoc(), type,
                                     cast<TypedAttr>(constant));
  }
  OperationState state(op->getLoc(), op->getName(), operands, type,
                       op->getAttrs());
  return builder.create(state)->getResult(0);
}

/// Emits `value`, a scalar that does not depend on the element.
static Value emitUniform(OpBuilder &builder, Value value) {
  if (Operation *op = value.getDefiningOp();
      op && op->getNumOperands() == 0 && op->hasTrait<OpTrait::ConstantLike>())
    return emitScalar(builder, op, {});
  auto type = dyn_cast<FloatType>(value.getType());
  if (!type || type.isF32())
    return value;
  Type f32 = builder.getF32Type();
  if (type.getWidth() < 32)
    return arith::ExtFOp::create(builder, value.getLoc(), f32, value);
  return arith::TruncFOp::create(builder, value.getLoc(), f32, value);
}

/// Index arithmetic that folds.
static Value addIndex(OpBuilder &builder, Location loc, Value lhs,
                      int64_t rhs) {
  return builder.createOrFold<arith::AddIOp>(
      loc, lhs, arith::ConstantIndexOp::create(builder, loc, rhs));
}

static Value emitIsLess(OpBuilder &builder, Location loc, Value lhs,
                        int64_t rhs) {
  return arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::slt, lhs,
      arith::ConstantIndexOp::create(builder, loc, rhs));
}

//===----------------------------------------------------------------------===//
// linalg and arith
//===----------------------------------------------------------------------===//

static std::optional<TensorMapping> getLinalgMapping(Operation *operation) {
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
  if (!op.isDpsInput(source) || !isa<RankedTensorType>(source->get().getType()))
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

static bool isLinalgElementwise(Operation *operation) {
  auto op = cast<linalg::LinalgOp>(operation);
  if (!op.hasPureTensorSemantics() || op->getNumResults() != 1 ||
      op.getNumParallelLoops() != op.getNumLoops() ||
      !op.getIndexingMapMatchingResult(op->getResult(0)).isPermutation() ||
      !op.getMatchingBlockArgument(op.getDpsInitOperand(0)).use_empty())
    return false;
  for (OpOperand *input : op.getDpsInputOperands())
    if (!llvm::all_of(op.getMatchingIndexingMap(input).getResults(),
                      llvm::IsaPred<AffineDimExpr, AffineConstantExpr>))
      return false;
  return llvm::all_of(op.getBlock()->without_terminator(),
                      [](Operation &nested) {
                        return isScalarOperation(&nested) &&
                               !isa<ShapedType>(nested.getResult(0).getType());
                      });
}

/// Whether `op` computes with numbers that it rounds to 8 bits. Code in f32
/// rounds at its end alone.
static bool computesWithFloat8(linalg::LinalgOp op) {
  Operation *terminator = op.getBlock()->getTerminator();
  return llvm::any_of(*op.getBlock(), [&](Operation &nested) {
    return isa<arith::TruncFOp>(nested) &&
           isFloat8(nested.getResult(0).getType()) &&
           !llvm::all_of(nested.getUsers(),
                         [&](Operation *user) { return user == terminator; });
  });
}

static Value emitLinalgElement(Operation *operation, OpBuilder &builder,
                               ValueRange indices, ElementSource &source) {
  auto op = cast<linalg::LinalgOp>(operation);
  if (computesWithFloat8(op))
    return {};
  Location loc = op.getLoc();
  AffineMap resultMap = op.getIndexingMapMatchingResult(op->getResult(0));
  SmallVector<Value> loops(op.getNumLoops());
  for (auto [expr, index] : llvm::zip_equal(resultMap.getResults(), indices))
    loops[cast<AffineDimExpr>(expr).getPosition()] = index;
  IRMapping mapping;
  for (OpOperand *input : op.getDpsInputOperands()) {
    BlockArgument argument = op.getMatchingBlockArgument(input);
    if (argument.use_empty())
      continue;
    if (!isa<RankedTensorType>(input->get().getType())) {
      mapping.map(argument, emitUniform(builder, input->get()));
      continue;
    }
    SmallVector<Value> at;
    for (AffineExpr expr : op.getMatchingIndexingMap(input).getResults()) {
      if (auto dim = dyn_cast<AffineDimExpr>(expr))
        at.push_back(loops[dim.getPosition()]);
      else
        at.push_back(arith::ConstantIndexOp::create(
            builder, loc, cast<AffineConstantExpr>(expr).getValue()));
    }
    Value element = source.getElement(builder, loc, input->get(), at);
    if (!element)
      return {};
    mapping.map(argument, element);
  }
  auto lookup = [&](Value value) {
    Value known = mapping.lookupOrNull(value);
    return known ? known : emitUniform(builder, value);
  };
  for (Operation &nested : op.getBlock()->without_terminator()) {
    Value result;
    if (auto index = dyn_cast<linalg::IndexOp>(nested)) {
      result = loops[index.getDim()];
    } else if (auto extract = dyn_cast<tensor::ExtractOp>(nested)) {
      SmallVector<Value> at(llvm::map_range(extract.getIndices(), lookup));
      result = source.getElement(builder, loc, extract.getTensor(), at);
    } else {
      SmallVector<Value> operands(
          llvm::map_range(nested.getOperands(), lookup));
      result = emitScalar(builder, &nested, operands);
    }
    if (!result)
      return {};
    mapping.map(nested.getResult(0), result);
  }
  return lookup(op.getBlock()->getTerminator()->getOperand(0));
}

static std::optional<TensorMapping> getArithMapping(Operation *op) {
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

static bool isArithElementwise(Operation *op) {
  return isa<RankedTensorType>(op->getResult(0).getType());
}

static Value emitArithElement(Operation *op, OpBuilder &builder,
                              ValueRange indices, ElementSource &source) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(
        source.getElement(builder, op->getLoc(), operand, indices));
    if (!operands.back())
      return {};
  }
  return emitScalar(builder, op, operands);
}

// Models are instantiated for each operation, functions once.
namespace {
template <typename OpTy>
struct LinalgModel
    : public FusibleOpInterface::ExternalModel<LinalgModel<OpTy>, OpTy> {
  std::optional<TensorMapping> getMapping(Operation *operation) const {
    return getLinalgMapping(operation);
  }

  bool isElementwise(Operation *operation) const {
    return isLinalgElementwise(operation);
  }

  Value emitElement(Operation *operation, OpBuilder &builder,
                    ValueRange indices, ElementSource &source) const {
    return emitLinalgElement(operation, builder, indices, source);
  }
};

/// Operations of arith on tensors.
template <typename OpTy>
struct ArithModel
    : public FusibleOpInterface::ExternalModel<ArithModel<OpTy>, OpTy> {
  std::optional<TensorMapping> getMapping(Operation *op) const {
    return getArithMapping(op);
  }

  bool isElementwise(Operation *op) const { return isArithElementwise(op); }

  Value emitElement(Operation *op, OpBuilder &builder, ValueRange indices,
                    ElementSource &source) const {
    return emitArithElement(op, builder, indices, source);
  }
};

//===----------------------------------------------------------------------===//
// tensor
//===----------------------------------------------------------------------===//

struct ExtractSliceModel
    : public FusibleOpInterface::ExternalModel<ExtractSliceModel,
                                               tensor::ExtractSliceOp> {
  bool isElementwise(Operation *op) const {
    return cast<tensor::ExtractSliceOp>(op).hasUnitStride();
  }

  Value emitElement(Operation *op, OpBuilder &builder, ValueRange indices,
                    ElementSource &source) const {
    auto slice = cast<tensor::ExtractSliceOp>(op);
    Location loc = op->getLoc();
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    SmallVector<Value> at;
    for (auto [dim, offset] : llvm::enumerate(slice.getMixedOffsets())) {
      Value first = getValueOrCreateConstantIndexOp(builder, loc, offset);
      if (!dropped.test(dim)) {
        first =
            builder.createOrFold<arith::AddIOp>(loc, indices.front(), first);
        indices = indices.drop_front();
      }
      at.push_back(first);
    }
    return source.getElement(builder, loc, slice.getSource(), at);
  }
};

/// Elements of the slice are read from the source, others from the destination.
struct InsertSliceModel
    : public FusibleOpInterface::ExternalModel<InsertSliceModel,
                                               tensor::InsertSliceOp> {
  bool isElementwise(Operation *op) const {
    auto insert = cast<tensor::InsertSliceOp>(op);
    return insert.hasUnitStride() &&
           insert.getSourceType().getRank() == insert.getType().getRank() &&
           llvm::none_of(insert.getStaticOffsets(), ShapedType::isDynamic) &&
           hasWholeDynamicDims(insert, insert.getDest());
  }

  Value emitElement(Operation *op, OpBuilder &builder, ValueRange indices,
                    ElementSource &source) const {
    auto insert = cast<tensor::InsertSliceOp>(op);
    Location loc = op->getLoc();
    Value isInside;
    auto demand = [&](Value condition) {
      isInside = isInside
                     ? arith::AndIOp::create(builder, loc, isInside, condition)
                           .getResult()
                     : condition;
    };
    SmallVector<Value> at;
    for (auto [dim, offset] : llvm::enumerate(insert.getStaticOffsets())) {
      Value index = indices[dim];
      int64_t size = insert.getSourceType().getDimSize(dim);
      if (offset == 0 && size == insert.getType().getDimSize(dim) &&
          !ShapedType::isDynamic(size)) {
        at.push_back(index);
        continue;
      }
      OpFoldResult end = insert.getMixedSizes()[dim];
      if (ShapedType::isDynamic(size) && offset == 0) {
        // `isElementwise` knows that the slice is whole here.
        at.push_back(index);
        continue;
      }
      if (!getConstantIntValue(end))
        return {};
      if (offset > 0)
        demand(arith::CmpIOp::create(
            builder, loc, arith::CmpIPredicate::sge, index,
            arith::ConstantIndexOp::create(builder, loc, offset)));
      if (offset + size != insert.getType().getDimSize(dim))
        demand(emitIsLess(builder, loc, index, offset + size));
      at.push_back(addIndex(builder, loc, index, -offset));
    }
    Value inner = source.getElement(builder, loc, insert.getSource(), at);
    if (!isInside || !inner)
      return inner;
    Value outer = source.getElement(builder, loc, insert.getDest(), indices);
    if (!outer)
      return {};
    return arith::SelectOp::create(builder, loc, isInside, inner, outer);
  }
};

struct ConcatModel
    : public FusibleOpInterface::ExternalModel<ConcatModel, tensor::ConcatOp> {
  bool isElementwise(Operation *op) const {
    auto concat = cast<tensor::ConcatOp>(op);
    return llvm::none_of(concat.getInputs(), [&](Value input) {
      return cast<RankedTensorType>(input.getType())
          .isDynamicDim(concat.getDim());
    });
  }

  Value emitElement(Operation *op, OpBuilder &builder, ValueRange indices,
                    ElementSource &source) const {
    auto concat = cast<tensor::ConcatOp>(op);
    Location loc = op->getLoc();
    Value result;
    int64_t end = concat.getResultType().getDimSize(concat.getDim());
    for (Value input : llvm::reverse(concat.getInputs())) {
      int64_t size =
          cast<RankedTensorType>(input.getType()).getDimSize(concat.getDim());
      SmallVector<Value> at(indices);
      at[concat.getDim()] =
          addIndex(builder, loc, indices[concat.getDim()], size - end);
      Value element = source.getElement(builder, loc, input, at);
      if (!element)
        return {};
      result =
          result ? arith::SelectOp::create(
                       builder, loc,
                       emitIsLess(builder, loc, indices[concat.getDim()], end),
                       element, result)
                       .getResult()
                 : element;
      end -= size;
    }
    return result;
  }
};

//===----------------------------------------------------------------------===//
// attn
//===----------------------------------------------------------------------===//

struct RopeModel : public FusibleOpInterface::ExternalModel<RopeModel, RopeOp> {
  bool isElementwise(Operation *) const { return true; }

  Value emitElement(Operation *op, OpBuilder &builder, ValueRange indices,
                    ElementSource &source) const {
    auto rope = cast<RopeOp>(op);
    Location loc = op->getLoc();
    int64_t rotated = rope.getNumRotated();
    Value headDimIndex = indices.back();
    auto constant = [&](int64_t number) -> Value {
      return arith::ConstantIndexOp::create(builder, loc, number);
    };
    // The number of the pair, its other element, and whether this one is the
    // first. Elements that are copied get any.
    Value pair, other, isFirst;
    if (!rope.getInterleaved()) {
      Value half = constant(rotated / 2);
      pair = arith::RemUIOp::create(builder, loc, headDimIndex, half);
      other = arith::RemUIOp::create(
          builder, loc, arith::AddIOp::create(builder, loc, headDimIndex, half),
          constant(rotated));
      isFirst = emitIsLess(builder, loc, headDimIndex, rotated / 2);
    } else {
      Value one = constant(1);
      pair = arith::ShRUIOp::create(builder, loc, headDimIndex, one);
      other = arith::XOrIOp::create(builder, loc, headDimIndex, one);
      isFirst = arith::CmpIOp::create(
          builder, loc, arith::CmpIPredicate::eq,
          arith::AndIOp::create(builder, loc, headDimIndex, one).getResult(),
          constant(0));
    }
    Value position = indices[2];
    if (Value offset = rope.getOffset())
      position = arith::AddIOp::create(builder, loc, position, offset);
    SmallVector<Value> at = {position, pair};
    if (rope.getCos().getType().getRank() == 3)
      at.insert(at.begin(), indices[0]);
    SmallVector<Value> otherAt(indices);
    otherAt.back() = other;
    Value x = source.getElement(builder, loc, rope.getSource(), indices);
    Value y = source.getElement(builder, loc, rope.getSource(), otherAt);
    Value cos = source.getElement(builder, loc, rope.getCos(), at);
    Value sin = source.getElement(builder, loc, rope.getSin(), at);
    if (!x || !y || !cos || !sin)
      return {};
    Value opposite = arith::NegFOp::create(builder, loc, sin);
    Value factor =
        rope.getInverse()
            ? arith::SelectOp::create(builder, loc, isFirst, sin, opposite)
            : arith::SelectOp::create(builder, loc, isFirst, opposite, sin);
    Value result = math::FmaOp::create(
        builder, loc, y, factor,
        arith::MulFOp::create(builder, loc, x, cos).getResult());
    if (rotated == rope.getSource().getType().getShape().back())
      return result;
    Value isRotated = emitIsLess(builder, loc, headDimIndex, rotated);
    return arith::SelectOp::create(builder, loc, isRotated, result, x);
  }
};

struct RmsNormModel
    : public FusibleOpInterface::ExternalModel<RmsNormModel, RmsNormOp> {
  bool isElementwise(Operation *) const { return true; }

  Value emitElement(Operation *op, OpBuilder &builder, ValueRange indices,
                    ElementSource &source) const {
    auto norm = cast<RmsNormOp>(op);
    Location loc = op->getLoc();
    Value x = source.getElement(builder, loc, norm.getSource(), indices);
    Value square = source.getMeanSquare(builder, loc, norm.getSource(),
                                        indices.drop_back());
    if (!x || !square)
      return {};
    Value epsilon = arith::ConstantOp::create(
        builder, loc,
        builder.getF32FloatAttr(norm.getEpsilon().convertToFloat()));
    Value factor = math::RsqrtOp::create(
        builder, loc,
        arith::AddFOp::create(builder, loc, square, epsilon).getResult());
    Value result = arith::MulFOp::create(builder, loc, x, factor);
    if (!norm.getWeight())
      return result;
    Value weight =
        source.getElement(builder, loc, norm.getWeight(), indices.back());
    if (!weight)
      return {};
    return arith::MulFOp::create(builder, loc, result, weight);
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
    attach<ArithModel, arith::AddFOp, arith::DivFOp, arith::ExtFOp,
           arith::MulFOp, arith::NegFOp, arith::SubFOp, arith::TruncFOp>(
        context);
  });
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    tensor::ConcatOp::attachInterface<ConcatModel>(*context);
    tensor::ExtractSliceOp::attachInterface<ExtractSliceModel>(*context);
    tensor::InsertSliceOp::attachInterface<InsertSliceModel>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    RmsNormOp::attachInterface<RmsNormModel>(*context);
    RopeOp::attachInterface<RopeModel>(*context);
  });
}
