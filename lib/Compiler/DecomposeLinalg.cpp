//===- DecomposeLinalg.cpp - Decompose aggregate operations ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decomposes operations of linalg that have no loops of their own. Upstream has
// the interface and a transform operation for it, but no pass. Operations that
// upstream's interfaces misdescribe become `linalg.generic`.
//
//===----------------------------------------------------------------------===//

#include "attn/Compiler/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNDECOMPOSELINALGPASS
#include "attn/Compiler/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;

/// The operation on tensors that hold the contents of the memrefs of `op`. Only
/// operations on tensors can be decomposed.
static DestinationStyleOpInterface
convertToTensors(RewriterBase &rewriter, DestinationStyleOpInterface op) {
  Location loc = op.getLoc();
  SmallVector<Value> operands;
  SmallVector<Type> results;
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (auto type = dyn_cast<MemRefType>(value.getType())) {
      bool isWritten = op.isDpsInit(&operand);
      Type tensor = memref::getTensorTypeFromMemRefType(type);
      // An element depends on elements that are read before it is written.
      value = bufferization::ToTensorOp::create(rewriter, loc, tensor, value,
                                                /*restrict=*/true, isWritten);
    }
    if (op.isDpsInit(&operand))
      results.push_back(value.getType());
    operands.push_back(value);
  }
  return cast<DestinationStyleOpInterface>(
      clone(rewriter, op, results, operands));
}

/// A tensor of the elements of `source` as floats of type `element`.
static Value convertElements(OpBuilder &builder, Location loc, Value source,
                             Type element) {
  auto type = cast<RankedTensorType>(source.getType());
  Value init = tensor::EmptyOp::create(
      builder, loc, tensor::getMixedSizes(builder, loc, source), element);
  AffineMap map = builder.getMultiDimIdentityMap(type.getRank());
  bool isWider = element.getIntOrFloatBitWidth() >
                 type.getElementType().getIntOrFloatBitWidth();
  auto convert = [&](OpBuilder &b, Location, ValueRange elements) {
    Value value =
        isWider
            ? arith::ExtFOp::create(b, loc, element, elements[0]).getResult()
            : arith::TruncFOp::create(b, loc, element, elements[0]).getResult();
    linalg::YieldOp::create(b, loc, value);
  };
  SmallVector<utils::IteratorType> iterators(type.getRank(),
                                             utils::IteratorType::parallel);
  return linalg::GenericOp::create(builder, loc, init.getType(), source, init,
                                   ArrayRef<AffineMap>{map, map}, iterators,
                                   convert)
      .getResult(0);
}

/// Whether the elements of `value` are floats too narrow to add up many of
/// them.
static bool isNarrow(Value value) {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
  return type && type.getWidth() < 32;
}

/// The operation on f32, and its results in their original types. No aggregate
/// reads the contents of its destination.
static linalg::AggregatedOpInterface
widenElements(RewriterBase &rewriter, DestinationStyleOpInterface op) {
  Location loc = op.getLoc();
  Type f32 = rewriter.getF32Type();
  SmallVector<Value> operands;
  SmallVector<Type> results;
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (op.isDpsInit(&operand)) {
      value = tensor::EmptyOp::create(
          rewriter, loc, tensor::getMixedSizes(rewriter, loc, value), f32);
      results.push_back(value.getType());
    } else if (isNarrow(value)) {
      value = convertElements(rewriter, loc, value, f32);
    }
    operands.push_back(value);
  }
  Operation *wide = clone(rewriter, op, results, operands);
  SmallVector<Value> narrow;
  for (auto [result, old] :
       llvm::zip_equal(wide->getResults(), op->getResults()))
    narrow.push_back(convertElements(rewriter, loc, result,
                                     getElementTypeOrSelf(old.getType())));
  rewriter.replaceOp(op, narrow);
  return cast<linalg::AggregatedOpInterface>(wide);
}

/// Moves the operation from memrefs to tensors.
static linalg::AggregatedOpInterface
replaceByTensors(RewriterBase &rewriter, DestinationStyleOpInterface op) {
  DestinationStyleOpInterface onTensors = convertToTensors(rewriter, op);
  SmallVector<Value> results;
  for (auto [init, result] :
       llvm::zip_equal(op.getDpsInits(), onTensors->getResults())) {
    if (isa<TensorType>(init.getType())) {
      results.push_back(result);
      continue;
    }
    auto write = bufferization::MaterializeInDestinationOp::create(
        rewriter, op.getLoc(), result, init);
    write.setWritable(true);
    write.setRestrict(true);
  }
  rewriter.replaceOp(op, results);
  return cast<linalg::AggregatedOpInterface>(*onTensors);
}

static LogicalResult decompose(RewriterBase &rewriter,
                               linalg::AggregatedOpInterface op) {
  for (Value operand : op->getOperands())
    if (Type element = getElementTypeOrSelf(operand.getType());
        !isa<FloatType>(element))
      return op->emitOpError("needs elements that are floats (were ")
             << element << ")";
  rewriter.setInsertionPoint(op);
  auto destination = cast<DestinationStyleOpInterface>(*op);
  if (!destination.hasPureTensorSemantics()) {
    op = replaceByTensors(rewriter, destination);
    destination = cast<DestinationStyleOpInterface>(*op);
  }
  rewriter.setInsertionPoint(op);
  if (llvm::all_of(destination->getResults(), isNarrow)) {
    op = widenElements(rewriter, destination);
    rewriter.setInsertionPoint(op);
  }
  FailureOr<SmallVector<Value>> results = op.decomposeOperation(rewriter);
  if (failed(results))
    return op->emitOpError("cannot be decomposed");
  rewriter.replaceOp(op, *results);
  return success();
}

/// Makes a `linalg.generic` of a `linalg.map` that reads its output. Upstream's
/// interface says of `linalg.map` that it never does, so that bufferization
/// would lose the old contents.
static LogicalResult generalizeMap(RewriterBase &rewriter, linalg::MapOp op) {
  auto structured = cast<linalg::LinalgOp>(op.getOperation());
  OpOperand *init = structured.getDpsInitOperand(0);
  if (structured.getMatchingBlockArgument(init).use_empty())
    return success();
  rewriter.setInsertionPoint(op);
  return linalg::generalizeNamedOp(rewriter, structured);
}

/// Replaces reads of elements of `op` by the elements. Returns whether there
/// are other uses.
static bool forwardElements(RewriterBase &rewriter, tensor::FromElementsOp op) {
  for (Operation *user : llvm::make_early_inc_range(op->getUsers())) {
    SmallVector<Value> folded;
    if (isa<tensor::ExtractOp>(user) &&
        succeeded(rewriter.tryFold(user, folded)) && !folded.empty())
      rewriter.replaceOp(user, folded);
  }
  return !op->use_empty();
}

/// Makes a `linalg.generic` of a vector of scalars: on a device, the host
/// cannot store them into its memory.
static void generalizeElements(RewriterBase &rewriter,
                               tensor::FromElementsOp op) {
  if (op.getType().getRank() != 1 || !forwardElements(rewriter, op))
    return;
  Location loc = op.getLoc();
  rewriter.setInsertionPoint(op);
  Value init = tensor::EmptyOp::create(rewriter, loc, op.getType().getShape(),
                                       op.getType().getElementType());
  AffineMap map = rewriter.getMultiDimIdentityMap(1);
  auto select = [&](OpBuilder &b, Location, ValueRange) {
    Value number = linalg::IndexOp::create(b, loc, 0);
    Value result = op.getElements().back();
    for (size_t i = op.getElements().size() - 1; i-- > 0;) {
      Value isHere =
          arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, number,
                                arith::ConstantIndexOp::create(b, loc, i));
      result =
          arith::SelectOp::create(b, loc, isHere, op.getElements()[i], result);
    }
    linalg::YieldOp::create(b, loc, result);
  };
  rewriter.replaceOpWithNewOp<linalg::GenericOp>(
      op, op.getType(), /*inputs=*/ValueRange(), init, map,
      utils::IteratorType::parallel, select);
}

namespace {
struct AttnDecomposeLinalgPass
    : public attn::impl::AttnDecomposeLinalgPassBase<AttnDecomposeLinalgPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<linalg::AggregatedOpInterface> ops;
    getOperation()->walk(
        [&](linalg::AggregatedOpInterface op) { ops.push_back(op); });
    SmallVector<linalg::MapOp> maps;
    getOperation()->walk([&](linalg::MapOp op) { maps.push_back(op); });
    SmallVector<tensor::FromElementsOp> vectors;
    getOperation()->walk(
        [&](tensor::FromElementsOp op) { vectors.push_back(op); });
    IRRewriter rewriter(&getContext());
    for (tensor::FromElementsOp op : vectors)
      generalizeElements(rewriter, op);
    for (linalg::MapOp op : maps)
      if (failed(generalizeMap(rewriter, op)))
        return signalPassFailure();
    for (linalg::AggregatedOpInterface op : ops)
      if (failed(decompose(rewriter, op)))
        return signalPassFailure();
  }
};
} // namespace
