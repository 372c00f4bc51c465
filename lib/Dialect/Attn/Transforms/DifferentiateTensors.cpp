//===- DifferentiateTensors.cpp - Gradients of tensor operations ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Models of DifferentiableOpInterface for tensor operations that move elements
// and for all linalg operations, whose gradients come from their indexing maps
// and bodies.
//
//===----------------------------------------------------------------------===//

#include "Differentiation.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::attn;

Value attn::emitZeros(OpBuilder &builder, Location loc, Value like,
                      Type element) {
  Value init = tensor::EmptyOp::create(
      builder, loc, tensor::getMixedSizes(builder, loc, like), element);
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getFloatAttr(element, 0));
  return linalg::FillOp::create(builder, loc, zero, init).getResult(0);
}

//===----------------------------------------------------------------------===//
// linalg
//===----------------------------------------------------------------------===//

/// Whether the body of `op` yields the element `output` of its destination plus
/// something that does not depend on it.
static bool isSum(linalg::LinalgOp op, BlockArgument output, unsigned result) {
  Value yielded = op.getBlock()->getTerminator()->getOperand(result);
  auto sum = yielded.getDefiningOp<arith::AddFOp>();
  return sum && output.hasOneUse() && *output.getUsers().begin() == sum;
}

/// Emits the gradient of operand `wanted`: the loops of `op`, over the elements
/// of its operands and of the gradients of its results, that sum up the
/// gradient of each element of the operand.
static FailureOr<Value> emitOperandGradient(OpBuilder &builder,
                                            linalg::LinalgOp op,
                                            OpOperand *wanted,
                                            GradientState &state) {
  Location loc = op.getLoc();
  AffineMap wantedMap = op.getMatchingIndexingMap(wanted);
  if (!wantedMap.isProjectedPermutation())
    return op->emitError("cannot differentiate '")
           << op->getName() << "': indexing map of operand #"
           << wanted->getOperandNumber() << " is not a projected permutation";
  Type element = getElementTypeOrSelf(wanted->get());
  // Sums of narrow elements are formed in f32.
  bool isSummed = wantedMap.getNumResults() != op.getNumLoops();
  Type sumType = isSummed && element.getIntOrFloatBitWidth() < 32
                     ? builder.getF32Type()
                     : element;

  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  SmallVector<BlockArgument> read;
  for (OpOperand &operand : op->getOpOperands()) {
    BlockArgument argument = op.getMatchingBlockArgument(&operand);
    if (op.isDpsInit(&operand) && argument.use_empty())
      continue;
    read.push_back(argument);
    inputs.push_back(operand.get());
    maps.push_back(op.getMatchingIndexingMap(&operand));
  }
  SmallVector<unsigned> seeded;
  for (OpOperand &init : op.getDpsInitsMutable()) {
    OpResult result = op.getTiedOpResult(&init);
    Value gradient = state.getGradient(result);
    if (!gradient)
      continue;
    seeded.push_back(result.getResultNumber());
    inputs.push_back(gradient);
    maps.push_back(op.getMatchingIndexingMap(&init));
  }
  maps.push_back(wantedMap);
  SmallVector<utils::IteratorType> iterators(op.getNumLoops(),
                                             utils::IteratorType::reduction);
  for (AffineExpr expr : wantedMap.getResults())
    iterators[cast<AffineDimExpr>(expr).getPosition()] =
        utils::IteratorType::parallel;

  Value init;
  if (isSummed)
    init = emitZeros(builder, loc, wanted->get(), sumType);
  else
    init = tensor::EmptyOp::create(
        builder, loc, tensor::getMixedSizes(builder, loc, wanted->get()),
        sumType);
  bool failedBody = false;
  auto buildBody = [&](OpBuilder &b, Location, ValueRange arguments) {
    Block *body = op.getBlock();
    IRMapping mapping;
    mapping.map(read, arguments.take_front(read.size()));
    GradientState bodyState;
    Value argument = mapping.lookup(op.getMatchingBlockArgument(wanted));
    bodyState.setActive(argument);
    SmallVector<Operation *> ops;
    for (Operation &nested : body->without_terminator()) {
      ops.push_back(b.clone(nested, mapping));
      bodyState.propagateActivity(ops.back());
    }
    Operation *yield = body->getTerminator();
    for (auto [number, seed] :
         llvm::zip_equal(seeded, arguments.drop_front(read.size()).drop_back()))
      bodyState.addGradient(
          b, loc, mapping.lookupOrDefault(yield->getOperand(number)), seed);
    failedBody = failed(attn::emitGradients(b, ops, bodyState));
    Value gradient = bodyState.getGradient(argument);
    Value acc = arguments.back();
    if (!gradient || failedBody)
      gradient = arith::ConstantOp::create(b, loc, b.getFloatAttr(sumType, 0));
    gradient = convertFloat(b, loc, gradient, sumType);
    if (isSummed)
      gradient = arith::AddFOp::create(b, loc, acc, gradient);
    linalg::YieldOp::create(b, loc, gradient);
  };
  auto generic = linalg::GenericOp::create(builder, loc, init.getType(), inputs,
                                           init, maps, iterators, buildBody);
  if (failedBody)
    return failure();
  eraseDeadOps(*generic.getBody());
  return generic.getResult(0);
}

namespace {
template <typename OpTy>
struct LinalgModel
    : public DifferentiableOpInterface::ExternalModel<LinalgModel<OpTy>, OpTy> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto linalgOp = cast<linalg::LinalgOp>(op);
    if (!linalgOp.hasPureTensorSemantics())
      return op->emitError("cannot differentiate '")
             << op->getName() << "' on memrefs";
    SetVector<Value> captured;
    getUsedValuesDefinedAbove(op->getRegions(), captured);
    if (llvm::any_of(captured,
                     [&](Value value) { return state.isActive(value); }))
      return op->emitError("cannot differentiate '")
             << op->getName()
             << "': its body uses a value from outside of it that gradients "
                "are wanted of";
    bool isParallel = linalgOp.getNumParallelLoops() == linalgOp.getNumLoops();
    if (!isParallel && failed(addReducedInits(builder, linalgOp, state)))
      return failure();
    for (OpOperand &operand : op->getOpOperands()) {
      if (!state.isActive(operand.get()))
        continue;
      if (linalgOp.isDpsInit(&operand) && !isParallel)
        continue;
      if (!isa<RankedTensorType>(operand.get().getType()))
        return op->emitError("cannot differentiate '")
               << op->getName() << "' with respect to the scalar operand #"
               << operand.getOperandNumber();
      if (linalgOp.getMatchingBlockArgument(&operand).use_empty())
        continue;
      FailureOr<Value> gradient =
          emitOperandGradient(builder, linalgOp, &operand, state);
      if (failed(gradient))
        return failure();
      state.addGradient(builder, op->getLoc(), operand.get(), *gradient);
    }
    return success();
  }

private:
  /// Adds the gradients of what sums start from, which are those of the sums.
  static LogicalResult addReducedInits(OpBuilder &builder, linalg::LinalgOp op,
                                       GradientState &state) {
    for (OpOperand &init : op.getDpsInitsMutable()) {
      OpResult result = op.getTiedOpResult(&init);
      Value gradient = state.getGradient(result);
      if (!gradient)
        continue;
      BlockArgument output = op.getMatchingBlockArgument(&init);
      if (output.use_empty())
        continue;
      if (!isSum(op, output, result.getResultNumber()))
        return op->emitError("cannot differentiate '")
               << op->getName() << "': its reduction is not a sum";
      state.addGradient(builder, op.getLoc(), init.get(), gradient);
    }
    return success();
  }
};

//===----------------------------------------------------------------------===//
// tensor
//===----------------------------------------------------------------------===//

struct CastModel
    : public DifferentiableOpInterface::ExternalModel<CastModel,
                                                      tensor::CastOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto castOp = cast<tensor::CastOp>(op);
    Value gradient = tensor::CastOp::create(
        builder, op->getLoc(), castOp.getSource().getType(),
        state.getGradient(castOp.getResult()));
    state.addGradient(builder, op->getLoc(), castOp.getSource(), gradient);
    return success();
  }
};

struct ExpandShapeModel
    : public DifferentiableOpInterface::ExternalModel<ExpandShapeModel,
                                                      tensor::ExpandShapeOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto expand = cast<tensor::ExpandShapeOp>(op);
    Value gradient = tensor::CollapseShapeOp::create(
        builder, op->getLoc(), expand.getSrcType(),
        state.getGradient(expand.getResult()), expand.getReassociation());
    state.addGradient(builder, op->getLoc(), expand.getSrc(), gradient);
    return success();
  }
};

struct CollapseShapeModel
    : public DifferentiableOpInterface::ExternalModel<CollapseShapeModel,
                                                      tensor::CollapseShapeOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto collapse = cast<tensor::CollapseShapeOp>(op);
    Location loc = op->getLoc();
    Value gradient = tensor::ExpandShapeOp::create(
        builder, loc, collapse.getSrcType(),
        state.getGradient(collapse.getResult()),
        collapse.getReassociationIndices(),
        tensor::getMixedSizes(builder, loc, collapse.getSrc()));
    state.addGradient(builder, loc, collapse.getSrc(), gradient);
    return success();
  }
};

struct ExtractSliceModel
    : public DifferentiableOpInterface::ExternalModel<ExtractSliceModel,
                                                      tensor::ExtractSliceOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto slice = cast<tensor::ExtractSliceOp>(op);
    Location loc = op->getLoc();
    Value zeros = emitZeros(builder, loc, slice.getSource(),
                            slice.getSourceType().getElementType());
    Value gradient = tensor::InsertSliceOp::create(
        builder, loc, state.getGradient(slice.getResult()), zeros,
        slice.getMixedOffsets(), slice.getMixedSizes(),
        slice.getMixedStrides());
    state.addGradient(builder, loc, slice.getSource(), gradient);
    return success();
  }
};

struct InsertSliceModel
    : public DifferentiableOpInterface::ExternalModel<InsertSliceModel,
                                                      tensor::InsertSliceOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto insert = cast<tensor::InsertSliceOp>(op);
    Location loc = op->getLoc();
    Value gradient = state.getGradient(insert.getResult());
    if (state.isActive(insert.getSource())) {
      Value source = tensor::ExtractSliceOp::create(
          builder, loc, insert.getSourceType(), gradient,
          insert.getMixedOffsets(), insert.getMixedSizes(),
          insert.getMixedStrides());
      state.addGradient(builder, loc, insert.getSource(), source);
    }
    if (state.isActive(insert.getDest())) {
      Value zeros = emitZeros(builder, loc, insert.getSource(),
                              insert.getSourceType().getElementType());
      Value dest = tensor::InsertSliceOp::create(
          builder, loc, zeros, gradient, insert.getMixedOffsets(),
          insert.getMixedSizes(), insert.getMixedStrides());
      state.addGradient(builder, loc, insert.getDest(), dest);
    }
    return success();
  }
};

/// A rotation, whose transpose is that by the opposite angle.
struct RopeModel
    : public DifferentiableOpInterface::ExternalModel<RopeModel, RopeOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto rope = cast<RopeOp>(op);
    for (auto [name, table] :
         {std::pair("cos", rope.getCos()), std::pair("sin", rope.getSin())})
      if (state.isActive(table))
        return op->emitError("cannot differentiate '")
               << op->getName() << "' with respect to '" << name << "'";
    Value gradient = RopeOp::create(builder, op->getLoc(), rope.getType(),
                                    state.getGradient(rope), rope.getCos(),
                                    rope.getSin(), rope.getOffset(),
                                    rope.getInterleaved(), !rope.getInverse());
    state.addGradient(builder, op->getLoc(), rope.getSource(), gradient);
    return success();
  }
};
} // namespace

template <typename... OpTys>
static void attachLinalgModels(MLIRContext *context) {
  (OpTys::template attachInterface<LinalgModel<OpTys>>(*context), ...);
}

void attn::registerTensorGradientModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    attachLinalgModels<
#define GET_OP_LIST
#include "mlir/Dialect/Linalg/IR/LinalgStructuredOps.cpp.inc"
        >(context);
  });
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    tensor::CastOp::attachInterface<CastModel>(*context);
    tensor::ExpandShapeOp::attachInterface<ExpandShapeModel>(*context);
    tensor::CollapseShapeOp::attachInterface<CollapseShapeModel>(*context);
    tensor::ExtractSliceOp::attachInterface<ExtractSliceModel>(*context);
    tensor::InsertSliceOp::attachInterface<InsertSliceModel>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    RopeOp::attachInterface<RopeModel>(*context);
  });
}
