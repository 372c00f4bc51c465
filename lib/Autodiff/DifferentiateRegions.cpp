//===- DifferentiateRegions.cpp - Gradients of matmuls and maps -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Models of DifferentiableOpInterface for operations that compute each element
// by a region: matmuls, with their epilogues, and maps of heads.
// Regions become the bodies of linalg operations, whose gradients are known.
//
//===----------------------------------------------------------------------===//

#include "Differentiation.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// A region that computes the elements of a tensor as a linalg operation over
/// these elements.
///
/// The first arguments of the region are floats, the others the position.
class ElementLoops {
public:
  /// `loops` are the loops that the position consists of; an argument without a
  /// loop is 0.
  ElementLoops(Operation *op, Region &region,
               ArrayRef<std::optional<unsigned>> loops)
      : op(op), block(region.front()), loops(loops),
        numFloats(block.getNumArguments() - loops.size()) {}

  /// Finds the reads of the region whose gradients are wanted: each element
  /// becomes an operand. Fails, with a diagnostic, where the element is not at
  /// the position.
  LogicalResult findReads(const GradientState &state) {
    SetVector<Value> used;
    getUsedValuesDefinedAbove(*block.getParent(), used);
    for (Value value : used) {
      if (!state.isActive(value))
        continue;
      captured.insert(value);
      for (Operation *user : value.getUsers()) {
        if (!block.getParent()->isAncestor(user->getParentRegion()))
          continue;
        auto extract = dyn_cast<tensor::ExtractOp>(user);
        std::optional<AffineMap> map;
        if (extract && extract->getBlock() == &block)
          map = getMap(extract);
        if (!map)
          return op->emitError("cannot differentiate '")
                 << op->getName()
                 << "': gradients are wanted of what its region reads by '"
                 << user->getName()
                 << "' not at the position of the element, or from a tensor "
                    "of another size";
        reads.emplace_back(extract, *map);
      }
    }
    return success();
  }

  /// Emits the operation. The first arguments are elements of the tensors
  /// `floats`.
  linalg::GenericOp emit(OpBuilder &builder,
                         ArrayRef<std::pair<Value, AffineMap>> floats,
                         Value init) {
    Location loc = op->getLoc();
    SmallVector<Value> inputs;
    SmallVector<AffineMap> maps;
    for (auto [value, map] : floats) {
      inputs.push_back(value);
      maps.push_back(map);
    }
    for (auto [extract, map] : reads) {
      inputs.push_back(extract.getTensor());
      maps.push_back(map);
    }
    auto type = cast<RankedTensorType>(init.getType());
    maps.push_back(builder.getMultiDimIdentityMap(type.getRank()));
    SmallVector<utils::IteratorType> iterators(type.getRank(),
                                               utils::IteratorType::parallel);
    return linalg::GenericOp::create(
        builder, loc, type, inputs, init, maps, iterators,
        [&](OpBuilder &b, Location, ValueRange elements) {
          IRMapping mapping;
          for (auto [argument, element] :
               llvm::zip(block.getArguments().take_front(numFloats), elements))
            mapping.map(argument,
                        convertFloat(b, loc, element, argument.getType()));
          for (auto [argument, loop] : llvm::zip_equal(
                   block.getArguments().drop_front(numFloats), loops)) {
            if (loop)
              mapping.map(argument, linalg::IndexOp::create(b, loc, *loop));
            else
              mapping.map(argument, arith::ConstantIndexOp::create(b, loc, 0));
          }
          for (auto [read, element] :
               llvm::zip(reads, elements.drop_front(floats.size())))
            mapping.map(read.first.getResult(), element);
          for (Operation &nested : block.without_terminator())
            if (llvm::none_of(reads, [&](auto &read) {
                  return read.first.getOperation() == &nested;
                }))
              b.clone(nested, mapping);
          Value yielded =
              mapping.lookupOrDefault(block.getTerminator()->getOperand(0));
          linalg::YieldOp::create(
              b, loc, convertFloat(b, loc, yielded, type.getElementType()));
        });
  }

  /// Values that the region reads and whose gradients are wanted.
  ArrayRef<Value> getCaptured() const { return captured.getArrayRef(); }

  /// Whether the region uses its float number `number`.
  bool usesFloat(unsigned number) const {
    return !block.getArgument(number).use_empty();
  }

private:
  /// The indexing map of the elements that `extract` reads.
  std::optional<AffineMap> getMap(tensor::ExtractOp extract) const {
    MLIRContext *context = op->getContext();
    ArrayRef<int64_t> loopSizes =
        cast<RankedTensorType>(op->getResult(0).getType()).getShape();
    RankedTensorType type = extract.getTensor().getType();
    SmallVector<AffineExpr> exprs;
    for (auto [dim, index] : llvm::enumerate(extract.getIndices())) {
      auto argument = dyn_cast<BlockArgument>(index);
      std::optional<unsigned> loop;
      if (argument && argument.getOwner() == &block)
        loop = loops[argument.getArgNumber() - numFloats];
      bool isZero = (argument && argument.getOwner() == &block && !loop) ||
                    matchPattern(index, m_Zero());
      if (loop && succeeded(verifyCompatibleShape({type.getDimSize(dim)},
                                                  {loopSizes[*loop]})))
        exprs.push_back(getAffineDimExpr(*loop, context));
      else if (isZero && type.getDimSize(dim) == 1)
        exprs.push_back(getAffineConstantExpr(0, context));
      else
        return std::nullopt;
    }
    unsigned numLoops = 0;
    for (std::optional<unsigned> loop : loops)
      numLoops += loop.has_value();
    auto map = AffineMap::get(numLoops, 0, exprs, context);
    if (!map.dropZeroResults().isProjectedPermutation())
      return std::nullopt;
    return map;
  }

  Operation *op;
  Block &block;
  ArrayRef<std::optional<unsigned>> loops;
  unsigned numFloats;
  SetVector<Value> captured;
  SmallVector<std::pair<tensor::ExtractOp, AffineMap>> reads;
};

} // namespace

/// Emits the gradients of `ops`, which recompute the result of an operation
/// from `sources`. `result` is the gradient of the last of `ops`.
static LogicalResult emitLocalGradients(OpBuilder &builder,
                                        ArrayRef<Operation *> ops,
                                        ArrayRef<Value> sources, Value result,
                                        GradientState &local) {
  for (Value source : sources)
    local.setActive(source);
  for (Operation *op : ops)
    local.propagateActivity(op);
  local.addGradient(builder, ops.back()->getLoc(), ops.back()->getResult(0),
                    result);
  return attn::emitGradients(builder, ops, local);
}

namespace {
/// The gradients of the inputs of a matmul are matmuls. The gradient of an
/// epilogue is computed element by element, from the f32 accumulator.
struct MatmulModel
    : public DifferentiableOpInterface::ExternalModel<MatmulModel, MatmulOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto matmul = cast<MatmulOp>(op);
    Value gradient = state.getGradient(matmul.getResult());
    if (!matmul.getEpilogue().empty()) {
      FailureOr<Value> sums =
          emitEpilogueGradient(builder, matmul, gradient, state);
      if (failed(sums))
        return failure();
      gradient = *sums;
    }
    // Without a gradient of the accumulator, the inputs have none.
    if (!gradient)
      return success();
    Value lhs = matmul.getLhs(), rhs = matmul.getRhs();
    // Gradients keep the type of the inputs, but for inputs of 8 bits, which
    // they extend to their own type.
    Type element = getElementTypeOrSelf(gradient);
    if (!isFloat8(getElementTypeOrSelf(lhs)))
      element = getElementTypeOrSelf(lhs);
    bool isLhsTransposed = matmul.getTransposeLhs(),
         isRhsTransposed = matmul.getTransposeRhs();
    auto widen = [&](Value value) {
      return convertFloat(builder, op->getLoc(), value, element);
    };
    gradient = widen(gradient);
    auto multiply = [&](Value like, Input first, Input second) {
      return emitMatmul(builder, like, first, second,
                        matmul.getPrecisionAttr());
    };
    if (state.isActive(lhs)) {
      // gradient * rhs^T, or rhs * gradient^T
      Value product =
          isLhsTransposed
              ? multiply(lhs, {widen(rhs), isRhsTransposed}, {gradient, true})
              : multiply(lhs, {gradient, false},
                         {widen(rhs), !isRhsTransposed});
      state.addGradient(builder, op->getLoc(), lhs, product);
    }
    if (state.isActive(rhs)) {
      // lhs^T * gradient, or gradient^T * lhs
      Value product =
          isRhsTransposed
              ? multiply(rhs, {gradient, true}, {widen(lhs), isLhsTransposed})
              : multiply(rhs, {widen(lhs), !isLhsTransposed},
                         {gradient, false});
      state.addGradient(builder, op->getLoc(), rhs, product);
    }
    return success();
  }

private:
  /// An input of a matmul, and whether it is stored transposed.
  struct Input {
    Value value;
    bool isTransposed;
  };

  /// Emits the gradients of values that the epilogue of `matmul` reads. Returns
  /// the gradient of the accumulator; null for zero.
  static FailureOr<Value> emitEpilogueGradient(OpBuilder &builder,
                                               MatmulOp matmul, Value gradient,
                                               GradientState &state) {
    Location loc = matmul.getLoc();
    Value result = matmul.getResult();
    bool isBatched = MatmulOp::isBatched(matmul.getOut());
    SmallVector<std::optional<unsigned>> loops = {std::nullopt, 0, 1};
    if (isBatched)
      loops = {0, 1, 2};
    ElementLoops elements(matmul, matmul.getEpilogue(), loops);
    if (failed(elements.findReads(state)))
      return failure();
    SmallVector<OpFoldResult> sizes =
        tensor::getMixedSizes(builder, loc, result);
    Value init =
        tensor::EmptyOp::create(builder, loc, sizes, builder.getF32Type());
    Value sums =
        MatmulOp::create(builder, loc, init.getType(), matmul.getLhs(),
                         matmul.getRhs(), init, matmul.getTransposeLhs(),
                         matmul.getTransposeRhs(), matmul.getPrecisionAttr(),
                         /*schedule=*/nullptr)
            .getResult();
    Value out = tensor::EmptyOp::create(builder, loc, sizes,
                                        getElementTypeOrSelf(result));
    AffineMap all = builder.getMultiDimIdentityMap(sizes.size());
    linalg::GenericOp epilogue = elements.emit(builder, {{sums, all}}, out);
    SmallVector<Value> sources(elements.getCaptured());
    sources.push_back(sums);
    GradientState local;
    if (failed(emitLocalGradients(builder, epilogue.getOperation(), sources,
                                  gradient, local)))
      return failure();
    for (Value value : elements.getCaptured())
      if (Value captured = local.getGradient(value))
        state.addGradient(builder, loc, value, captured);
    return local.getGradient(sums);
  }

  /// Emits `lhs * rhs` with the shape of `like`. The result is summed up over
  /// the batch if `like` alone has no batch dimension.
  static Value emitMatmul(OpBuilder &builder, Value like, Input lhs, Input rhs,
                          MatmulPrecisionAttr precision) {
    Location loc = like.getLoc();
    Type element = getElementTypeOrSelf(getGradientType(like.getType()));
    bool isSummed =
        !MatmulOp::isBatched(like) &&
        (MatmulOp::isBatched(lhs.value) || MatmulOp::isBatched(rhs.value));
    // Rows of the whole batch are summed up at once where they are contiguous.
    if (isSummed && lhs.isTransposed && !rhs.isTransposed &&
        MatmulOp::isBatched(lhs.value) && MatmulOp::isBatched(rhs.value)) {
      for (Input *input : {&lhs, &rhs})
        input->value = tensor::CollapseShapeOp::create(
            builder, loc, input->value,
            ArrayRef<ReassociationIndices>{{0, 1}, {2}});
      isSummed = false;
    }
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, loc, like);
    if (isSummed) {
      Value batched = MatmulOp::isBatched(lhs.value) ? lhs.value : rhs.value;
      sizes.insert(sizes.begin(),
                   tensor::getMixedSize(builder, loc, batched, 0));
      element = builder.getF32Type();
    }
    Value init = tensor::EmptyOp::create(builder, loc, sizes, element);
    Value product =
        MatmulOp::create(builder, loc, init.getType(), lhs.value, rhs.value,
                         init, lhs.isTransposed, rhs.isTransposed, precision,
                         /*schedule=*/nullptr)
            .getResult();
    if (!isSummed)
      return product;
    Value zeros = emitZeros(builder, loc, like, element);
    return linalg::ReduceOp::create(
               builder, loc, product, zeros, ArrayRef<int64_t>{0},
               [&](OpBuilder &b, Location, ValueRange arguments) {
                 Value sum =
                     arith::AddFOp::create(b, loc, arguments[0], arguments[1]);
                 linalg::YieldOp::create(b, loc, sum);
               })
        .getResult(0);
  }
};

/// Gradients of the elements, and of the mean square of each row.
struct MapHeadsModel
    : public DifferentiableOpInterface::ExternalModel<MapHeadsModel,
                                                      MapHeadsOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto map = cast<MapHeadsOp>(op);
    Location loc = op->getLoc();
    std::optional<unsigned> loops[] = {0, 1, 2, 3};
    ElementLoops elements(op, map.getBody(), loops);
    if (failed(elements.findReads(state)))
      return failure();
    AffineMap all = builder.getMultiDimIdentityMap(4);
    AffineMap rows = all.dropResult(3);
    SmallVector<Operation *> ops;
    SmallVector<std::pair<Value, AffineMap>> floats;
    // Two gradients of narrow elements are added up in f32.
    Value in = map.getIn();
    bool usesSquares = elements.usesFloat(1);
    if (usesSquares)
      in = convertFloat(builder, loc, in, builder.getF32Type());
    floats.emplace_back(in, all);
    // The mean of the squares is not read where it is not used.
    Value squares = in;
    if (usesSquares) {
      ops.push_back(emitSquares(builder, loc, in));
      squares = ops.back()->getResult(0);
    }
    floats.emplace_back(squares, usesSquares ? rows : all);
    Value out = tensor::EmptyOp::create(
        builder, loc, tensor::getMixedSizes(builder, loc, map.getResult()),
        getElementTypeOrSelf(map.getResult()));
    ops.push_back(elements.emit(builder, floats, out));
    SmallVector<Value> sources(elements.getCaptured());
    if (state.isActive(map.getIn()) && !llvm::is_contained(sources, in))
      sources.push_back(in);
    GradientState local;
    if (failed(emitLocalGradients(builder, ops, sources,
                                  state.getGradient(map.getResult()), local)))
      return failure();
    for (Value source : sources)
      if (Value gradient = local.getGradient(source))
        state.addGradient(builder, loc, source == in ? map.getIn() : source,
                          gradient);
    return success();
  }

private:
  /// Emits the mean of the squares of each row.
  static linalg::GenericOp emitSquares(OpBuilder &builder, Location loc,
                                       Value in) {
    AffineMap all = builder.getMultiDimIdentityMap(4);
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, loc, in);
    Type f32 = builder.getF32Type();
    Value rows =
        tensor::EmptyOp::create(builder, loc, ArrayRef(sizes).drop_back(), f32);
    Value zeros = emitZeros(builder, loc, rows, f32);
    int64_t headDim = cast<ShapedType>(in.getType()).getShape().back();
    using utils::IteratorType;
    return linalg::GenericOp::create(
        builder, loc, zeros.getType(), in, zeros,
        ArrayRef<AffineMap>{all, all.dropResult(3)},
        ArrayRef<IteratorType>{IteratorType::parallel, IteratorType::parallel,
                               IteratorType::parallel, IteratorType::reduction},
        [&](OpBuilder &b, Location, ValueRange arguments) {
          Value part = arith::ConstantOp::create(
              b, loc, b.getF32FloatAttr(1.0f / float(headDim)));
          Value term =
              arith::MulFOp::create(b, loc, arguments[0], arguments[0]);
          term = arith::MulFOp::create(b, loc, term, part);
          Value sum = arith::AddFOp::create(b, loc, arguments[1], term);
          linalg::YieldOp::create(b, loc, sum);
        });
  }
};
} // namespace

void attn::registerRegionGradientModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    MatmulOp::attachInterface<MatmulModel>(*context);
    MapHeadsOp::attachInterface<MapHeadsModel>(*context);
  });
}
