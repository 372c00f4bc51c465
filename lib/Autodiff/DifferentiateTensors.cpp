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
#include "attn/Support/DeadOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::attn;

Value attn::emitZeros(OpBuilder &builder, Location loc, Value like,
                      Type element) {
  return emitFilled(builder, loc, like, builder.getFloatAttr(element, 0));
}

//===----------------------------------------------------------------------===//
// linalg
//===----------------------------------------------------------------------===//

/// Whether the loops of `op` write each element of `init` once, so that its
/// body sees the element that was there before.
static bool isWrittenOnce(linalg::LinalgOp op, OpOperand &init) {
  AffineMap map = op.getMatchingIndexingMap(&init);
  auto type = cast<RankedTensorType>(init.get().getType());
  for (auto [dim, expr] : llvm::enumerate(map.getResults()))
    if (isa<AffineConstantExpr>(expr) && type.getDimSize(dim) != 1)
      return false;
  return map.dropZeroResults().isPermutation();
}

/// Whether the result of `op` is `term`, in any float type, plus a value that
/// does not depend on it.
static bool addsTo(Operation *op, Value term) {
  if (auto difference = dyn_cast<arith::SubFOp>(op))
    return difference.getLhs() == term;
  if (auto fma = dyn_cast<math::FmaOp>(op))
    return fma.getC() == term;
  return isa<arith::AddFOp, arith::ExtFOp, arith::TruncFOp>(op);
}

/// Whether the body of `op` yields the element `output` of its destination plus
/// something, and uses it for nothing else.
static bool isSum(linalg::LinalgOp op, BlockArgument output, unsigned result) {
  Value sum = output;
  while (sum.hasOneUse()) {
    OpOperand &use = *sum.use_begin();
    if (use.getOwner() == op.getBlock()->getTerminator())
      return use.getOperandNumber() == result;
    if (use.getOwner()->getBlock() != op.getBlock() ||
        !addsTo(use.getOwner(), sum))
      return false;
    sum = use.getOwner()->getResult(0);
  }
  return false;
}

/// Whether value number `result` that the body of `op` yields depends on
/// `output`.
static bool dependsOn(linalg::LinalgOp op, BlockArgument output,
                      unsigned result) {
  llvm::SmallPtrSet<Value, 8> dependent = {output};
  for (Operation &nested : op.getBlock()->without_terminator())
    if (llvm::any_of(getUsedValues(&nested),
                     [&](Value value) { return dependent.contains(value); }))
      dependent.insert_range(nested.getResults());
  return dependent.contains(op.getBlock()->getTerminator()->getOperand(result));
}

namespace {
/// Emits the gradient of operand `wanted`: the loops of `op`, over the elements
/// of its operands and of the gradients of its results, which add up the
/// gradient of each element of the operand.
class OperandGradient {
public:
  OperandGradient(OpBuilder &builder, linalg::LinalgOp op, OpOperand *wanted,
                  GradientState &state)
      : builder(builder), loc(op.getLoc()), op(op), wanted(wanted),
        state(state),
        wantedType(cast<RankedTensorType>(wanted->get().getType())),
        wantedMap(op.getMatchingIndexingMap(wanted)) {}

  FailureOr<Value> emit();

private:
  LogicalResult chooseSizes();
  void collectInputs();
  linalg::GenericOp createLoops();
  LogicalResult emitBody(linalg::GenericOp generic);

  OpBuilder &builder;
  Location loc;
  linalg::LinalgOp op;
  OpOperand *wanted;
  GradientState &state;
  RankedTensorType wantedType;
  /// The indexing map of the operand, without dimensions of size one that are
  /// always read at 0, and the sizes of its results. These dimensions are added
  /// afterwards.
  AffineMap wantedMap;
  SmallVector<OpFoldResult> wantedSizes, sizes;
  SmallVector<ReassociationIndices> reassociation;
  /// Narrow elements are summed up in f32.
  bool isSummed = false;
  Type sumType;
  /// The operands and the gradients that the loops read, with their maps, the
  /// body's arguments for the operands, and the numbers of the results that
  /// have the gradients.
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  SmallVector<BlockArgument> read;
  SmallVector<unsigned> seeded;
};
} // namespace

LogicalResult OperandGradient::chooseSizes() {
  if (!wantedMap.dropZeroResults().isProjectedPermutation())
    return op->emitError("cannot differentiate '")
           << op->getName() << "': indexing map of operand #"
           << wanted->getOperandNumber() << " is not a projected permutation";
  wantedSizes = tensor::getMixedSizes(builder, loc, wanted->get());
  int64_t nextDim = 0;
  for (auto [dim, expr] : llvm::enumerate(wantedMap.getResults())) {
    if (isa<AffineDimExpr>(expr)) {
      sizes.push_back(wantedSizes[dim]);
      reassociation.push_back(
          llvm::to_vector(llvm::seq<int64_t>(nextDim, dim + 1)));
      nextDim = dim + 1;
    } else if (wantedType.getDimSize(dim) != 1) {
      return op->emitError("cannot differentiate '")
             << op->getName() << "': it reads only the start of dimension "
             << dim << " of operand #" << wanted->getOperandNumber();
    }
  }
  if (!reassociation.empty())
    llvm::append_range(reassociation.back(),
                       llvm::seq<int64_t>(nextDim, wantedType.getRank()));
  wantedMap = wantedMap.dropZeroResults();
  Type element = getElementTypeOrSelf(getGradientType(wantedType));
  isSummed = wantedMap.getNumResults() != op.getNumLoops();
  sumType = isSummed && element.getIntOrFloatBitWidth() < 32
                ? builder.getF32Type()
                : element;
  return success();
}

void OperandGradient::collectInputs() {
  for (OpOperand &operand : op->getOpOperands()) {
    BlockArgument argument = op.getMatchingBlockArgument(&operand);
    if (op.isDpsInit(&operand) && argument.use_empty())
      continue;
    read.push_back(argument);
    inputs.push_back(operand.get());
    maps.push_back(op.getMatchingIndexingMap(&operand));
  }
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
}

linalg::GenericOp OperandGradient::createLoops() {
  SmallVector<utils::IteratorType> iterators(op.getNumLoops(),
                                             utils::IteratorType::reduction);
  for (AffineExpr expr : wantedMap.getResults())
    iterators[cast<AffineDimExpr>(expr).getPosition()] =
        utils::IteratorType::parallel;
  Value init = tensor::EmptyOp::create(builder, loc, sizes, sumType);
  if (isSummed)
    init = emitZeros(builder, loc, init, sumType);
  return linalg::GenericOp::create(builder, loc, init.getType(), inputs, init,
                                   maps, iterators);
}

LogicalResult OperandGradient::emitBody(linalg::GenericOp generic) {
  SmallVector<Type> types;
  for (Value operand : generic->getOperands())
    types.push_back(getElementTypeOrSelf(operand));
  Block *block = builder.createBlock(&generic.getRegion(), {}, types,
                                     SmallVector<Location>(types.size(), loc));
  ArrayRef<BlockArgument> arguments = block->getArguments();
  IRMapping mapping;
  mapping.map(read, arguments.take_front(read.size()));
  GradientState bodyState;
  Value argument = mapping.lookup(op.getMatchingBlockArgument(wanted));
  bodyState.setActive(argument);
  SmallVector<Operation *> ops;
  for (Operation &nested : op.getBlock()->without_terminator()) {
    ops.push_back(builder.clone(nested, mapping));
    bodyState.propagateActivity(ops.back());
  }
  Operation *yield = op.getBlock()->getTerminator();
  for (auto [number, seed] :
       llvm::zip_equal(seeded, arguments.drop_front(read.size()).drop_back()))
    bodyState.addGradient(
        builder, loc, mapping.lookupOrDefault(yield->getOperand(number)), seed);
  if (failed(attn::emitGradients(builder, ops, bodyState)))
    return failure();
  Value gradient = bodyState.getGradient(argument);
  if (!gradient)
    gradient = arith::ConstantOp::create(builder, loc,
                                         builder.getFloatAttr(sumType, 0));
  gradient = convertFloat(builder, loc, gradient, sumType);
  if (isSummed)
    gradient = arith::AddFOp::create(builder, loc, arguments.back(), gradient);
  linalg::YieldOp::create(builder, loc, gradient);
  eraseDeadOps(*generic.getBody());
  return success();
}

FailureOr<Value> OperandGradient::emit() {
  if (failed(chooseSizes()))
    return failure();
  collectInputs();
  linalg::GenericOp generic = createLoops();
  if (failed(emitBody(generic)))
    return failure();
  builder.setInsertionPointAfter(generic);
  if (wantedMap.getNumResults() == wantedType.getRank())
    return generic.getResult(0);
  return tensor::ExpandShapeOp::create(builder, loc, wantedType.clone(sumType),
                                       generic.getResult(0), reassociation,
                                       wantedSizes)
      .getResult();
}

/// Adds the gradients of the initial values of reductions, which equal the
/// gradients of the results. Elements that loops write repeatedly must be
/// reductions by addition that nothing else reads.
static LogicalResult addSumInits(OpBuilder &builder, linalg::LinalgOp op,
                                 GradientState &state) {
  for (OpOperand &init : op.getDpsInitsMutable()) {
    if (isWrittenOnce(op, init))
      continue;
    BlockArgument output = op.getMatchingBlockArgument(&init);
    unsigned number = op.getTiedOpResult(&init).getResultNumber();
    for (OpResult other : op->getResults())
      if (other.getResultNumber() != number && state.getGradient(other) &&
          dependsOn(op, output, other.getResultNumber()))
        return op->emitError("cannot differentiate '")
               << op->getName() << "': its result #" << other.getResultNumber()
               << " depends on what result #" << number
               << " is while it is summed up";
    Value gradient = state.getGradient(op.getTiedOpResult(&init));
    if (!gradient)
      continue;
    if (!dependsOn(op, output, number))
      return op->emitError("cannot differentiate '")
             << op->getName() << "': its result #" << number
             << " keeps only what the last iteration yields";
    if (!isSum(op, output, number))
      return op->emitError("cannot differentiate '")
             << op->getName() << "': its reduction is not a sum";
    state.addGradient(builder, op.getLoc(), init.get(), gradient);
  }
  return success();
}

static LogicalResult emitLinalgGradients(Operation *operation,
                                         OpBuilder &builder,
                                         GradientState &state) {
  auto op = cast<linalg::LinalgOp>(operation);
  SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  if (llvm::any_of(captured,
                   [&](Value value) { return state.isActive(value); }))
    return op->emitError("cannot differentiate '")
           << op->getName()
           << "': its body uses a value from outside of it that gradients "
              "are wanted of";
  if (failed(addSumInits(builder, op, state)))
    return failure();
  for (OpOperand &operand : op->getOpOperands()) {
    if (!state.isActive(operand.get()))
      continue;
    if (op.isDpsInit(&operand) && !isWrittenOnce(op, operand))
      continue;
    if (!isa<RankedTensorType>(operand.get().getType()))
      return op->emitError("cannot differentiate '")
             << op->getName() << "' with respect to the scalar operand #"
             << operand.getOperandNumber();
    if (op.getMatchingBlockArgument(&operand).use_empty())
      continue;
    FailureOr<Value> gradient =
        OperandGradient(builder, op, &operand, state).emit();
    if (failed(gradient))
      return failure();
    state.addGradient(builder, op->getLoc(), operand.get(), *gradient);
  }
  return success();
}

// The model is instantiated for each operation, the function once.
namespace {
template <typename OpTy>
struct LinalgModel
    : public DifferentiableOpInterface::ExternalModel<LinalgModel<OpTy>, OpTy> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    return emitLinalgGradients(op, builder, state);
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// tensor
//===----------------------------------------------------------------------===//

/// `getGradientType` of a tensor.
static RankedTensorType getGradientTensor(RankedTensorType type) {
  return cast<RankedTensorType>(getGradientType(type));
}

/// The gradient of the source of `op`, where its result has `gradient`.
static Value emitSourceGradient(OpBuilder &builder, tensor::CastOp op,
                                Value gradient) {
  return tensor::CastOp::create(builder, op.getLoc(),
                                getGradientType(op.getSource().getType()),
                                gradient);
}

static Value emitSourceGradient(OpBuilder &builder, tensor::ExpandShapeOp op,
                                Value gradient) {
  return tensor::CollapseShapeOp::create(builder, op.getLoc(),
                                         getGradientType(op.getSrcType()),
                                         gradient, op.getReassociation());
}

static Value emitSourceGradient(OpBuilder &builder, tensor::CollapseShapeOp op,
                                Value gradient) {
  Location loc = op.getLoc();
  return tensor::ExpandShapeOp::create(
      builder, loc, getGradientType(op.getSrcType()), gradient,
      op.getReassociationIndices(),
      tensor::getMixedSizes(builder, loc, op.getSrc()));
}

static Value emitSourceGradient(OpBuilder &builder, tensor::ExtractSliceOp op,
                                Value gradient) {
  Location loc = op.getLoc();
  Value zeros = emitZeros(builder, loc, op.getSource(),
                          getElementTypeOrSelf(getGradientType(op.getType())));
  return tensor::InsertSliceOp::create(builder, loc, gradient, zeros,
                                       op.getMixedOffsets(), op.getMixedSizes(),
                                       op.getMixedStrides());
}

namespace {
/// Operations that move the elements of their first operand, the source.
template <typename OpTy>
struct SourceModel
    : public DifferentiableOpInterface::ExternalModel<SourceModel<OpTy>, OpTy> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    Value gradient = emitSourceGradient(builder, cast<OpTy>(op),
                                        state.getGradient(op->getResult(0)));
    state.addGradient(builder, op->getLoc(), op->getOperand(0), gradient);
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
          builder, loc, getGradientTensor(insert.getSourceType()), gradient,
          insert.getMixedOffsets(), insert.getMixedSizes(),
          insert.getMixedStrides());
      state.addGradient(builder, loc, insert.getSource(), source);
    }
    if (state.isActive(insert.getDest())) {
      Value zeros =
          emitZeros(builder, loc, insert.getSource(),
                    getGradientTensor(insert.getType()).getElementType());
      Value dest = tensor::InsertSliceOp::create(
          builder, loc, zeros, gradient, insert.getMixedOffsets(),
          insert.getMixedSizes(), insert.getMixedStrides());
      state.addGradient(builder, loc, insert.getDest(), dest);
    }
    return success();
  }
};

struct ConcatModel
    : public DifferentiableOpInterface::ExternalModel<ConcatModel,
                                                      tensor::ConcatOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto concat = cast<tensor::ConcatOp>(op);
    Location loc = op->getLoc();
    uint64_t dim = concat.getDim();
    SmallVector<OpFoldResult> offsets(concat.getRank(),
                                      builder.getIndexAttr(0));
    SmallVector<OpFoldResult> strides(concat.getRank(),
                                      builder.getIndexAttr(1));
    for (Value input : concat.getInputs()) {
      SmallVector<OpFoldResult> sizes =
          tensor::getMixedSizes(builder, loc, input);
      if (state.isActive(input))
        state.addGradient(
            builder, loc, input,
            tensor::ExtractSliceOp::create(
                builder, loc,
                getGradientTensor(cast<RankedTensorType>(input.getType())),
                state.getGradient(concat.getResult()), offsets, sizes,
                strides));
      offsets[dim] = addSizes(builder, loc, offsets[dim], sizes[dim]);
    }
    return success();
  }

private:
  static OpFoldResult addSizes(OpBuilder &builder, Location loc,
                               OpFoldResult lhs, OpFoldResult rhs) {
    std::optional<int64_t> left = getConstantIntValue(lhs),
                           right = getConstantIntValue(rhs);
    if (left && right)
      return builder.getIndexAttr(*left + *right);
    return arith::AddIOp::create(
               builder, loc, getValueOrCreateConstantIndexOp(builder, loc, lhs),
               getValueOrCreateConstantIndexOp(builder, loc, rhs))
        .getResult();
  }
};

struct PadModel
    : public DifferentiableOpInterface::ExternalModel<PadModel, tensor::PadOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto pad = cast<tensor::PadOp>(op);
    Location loc = op->getLoc();
    SetVector<Value> captured;
    getUsedValuesDefinedAbove(pad.getRegion(), captured);
    if (llvm::any_of(captured,
                     [&](Value value) { return state.isActive(value); }))
      return op->emitError("cannot differentiate '")
             << op->getName() << "': gradients are wanted of what it pads with";
    SmallVector<OpFoldResult> strides(pad.getSourceType().getRank(),
                                      builder.getIndexAttr(1));
    Value gradient = tensor::ExtractSliceOp::create(
        builder, loc, getGradientTensor(pad.getSourceType()),
        state.getGradient(pad.getResult()), pad.getMixedLowPad(),
        tensor::getMixedSizes(builder, loc, pad.getSource()), strides);
    state.addGradient(builder, loc, pad.getSource(), gradient);
    return success();
  }
};

/// With `y` the result and `g` its gradient, the gradient of the source is `y *
/// (g - sum(y * g))`, in f32 at least.
struct SoftmaxModel
    : public DifferentiableOpInterface::ExternalModel<SoftmaxModel,
                                                      linalg::SoftmaxOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto softmax = cast<linalg::SoftmaxOp>(op);
    Location loc = op->getLoc();
    Value y = op->getResult(0), g = state.getGradient(y);
    Type element = getElementTypeOrSelf(softmax.getInput());
    Type wide = getElementTypeOrSelf(y);
    if (wide.getIntOrFloatBitWidth() < 32)
      wide = builder.getF32Type();
    int64_t rank = softmax.getInputOperandRank();
    unsigned dim = softmax.getDimension();
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, loc, y);
    SmallVector<OpFoldResult> rowSizes = sizes;
    rowSizes.erase(rowSizes.begin() + dim);
    AffineMap all = builder.getMultiDimIdentityMap(rank);
    AffineMap rows = all.dropResult(dim);
    SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::parallel);
    SmallVector<utils::IteratorType> summed = loops;
    summed[dim] = utils::IteratorType::reduction;
    auto widen = [&](OpBuilder &b, Value value) {
      return convertFloat(b, loc, value, wide);
    };

    Value zeros = emitZeros(
        builder, loc,
        tensor::EmptyOp::create(builder, loc, rowSizes, wide).getResult(),
        wide);
    Value sums =
        linalg::GenericOp::create(
            builder, loc, zeros.getType(), ValueRange{y, g}, zeros,
            ArrayRef<AffineMap>{all, all, rows}, summed,
            [&](OpBuilder &b, Location, ValueRange arguments) {
              Value product = arith::MulFOp::create(
                  b, loc, widen(b, arguments[0]), widen(b, arguments[1]));
              Value sum = arith::AddFOp::create(b, loc, arguments[2], product);
              linalg::YieldOp::create(b, loc, sum);
            })
            .getResult(0);
    Value init = tensor::EmptyOp::create(builder, loc, sizes, element);
    Value gradient = linalg::GenericOp::create(
                         builder, loc, init.getType(), ValueRange{y, g, sums},
                         init, ArrayRef<AffineMap>{all, all, rows, all}, loops,
                         [&](OpBuilder &b, Location, ValueRange arguments) {
                           Value difference = arith::SubFOp::create(
                               b, loc, widen(b, arguments[1]), arguments[2]);
                           Value product = arith::MulFOp::create(
                               b, loc, widen(b, arguments[0]), difference);
                           linalg::YieldOp::create(
                               b, loc, convertFloat(b, loc, product, element));
                         })
                         .getResult(0);
    state.addGradient(builder, loc, softmax.getInput(), gradient);
    return success();
  }
};

struct PermuteModel
    : public DifferentiableOpInterface::ExternalModel<PermuteModel, PermuteOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    auto permute = cast<PermuteOp>(op);
    Value gradient = PermuteOp::create(
        builder, op->getLoc(), state.getGradient(permute.getResult()),
        invertPermutationVector(permute.getPermutation()));
    state.addGradient(builder, op->getLoc(), permute.getSource(), gradient);
    return success();
  }
};

/// A rotation, whose transpose is the rotation by the opposite angle.
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

/// With `r` one over the root mean square of a row, `g` the gradient of the
/// result and `w` the weight: the gradient of the source is `r * (w * g -
/// source * r^2 * mean(source * w * g))`. The gradient of the weight is the sum
/// of `r * source * g` over rows. All arithmetic is f32.
struct RmsNormModel
    : public DifferentiableOpInterface::ExternalModel<RmsNormModel, RmsNormOp> {
  LogicalResult emitGradients(Operation *op, OpBuilder &builder,
                              GradientState &state) const {
    Gradient gradient(builder, cast<RmsNormOp>(op),
                      state.getGradient(op->getResult(0)));
    RmsNormOp norm = gradient.norm;
    bool wantsSource = state.isActive(norm.getSource());
    gradient.emitRows(wantsSource);
    if (wantsSource)
      state.addGradient(builder, op->getLoc(), norm.getSource(),
                        gradient.emitOfSource());
    if (norm.getWeight() && state.isActive(norm.getWeight()))
      state.addGradient(builder, op->getLoc(), norm.getWeight(),
                        gradient.emitOfWeight());
    return success();
  }

private:
  /// Writes the gradients of one norm.
  struct Gradient {
    Gradient(OpBuilder &builder, RmsNormOp norm, Value result)
        : builder(builder), loc(norm.getLoc()), norm(norm), result(result) {
      MLIRContext *context = builder.getContext();
      all = AffineMap::getMultiDimIdentityMap(numDims, context);
      rows = all.dropResult(headDimAxis);
      headDim = AffineMap::get(numDims, 0,
                               getAffineDimExpr(headDimAxis, context), context);
      sizes = tensor::getMixedSizes(builder, loc, norm.getSource());
    }

    /// Emits reductions over each row: of the squares of the source and, if
    /// `withDots`, of the source times `w * g`.
    void emitRows(bool withDots) {
      SmallVector<Value> inputs = {norm.getSource()};
      SmallVector<AffineMap> maps = {all};
      if (withDots)
        addWeighted(inputs, maps);
      SmallVector<Value> inits(1 + withDots,
                               emitZeros(ArrayRef(sizes).drop_back()));
      maps.append(inits.size(), rows);
      SmallVector<utils::IteratorType> iterators(numDims,
                                                 utils::IteratorType::parallel);
      iterators[headDimAxis] = utils::IteratorType::reduction;
      auto sums = linalg::GenericOp::create(
          builder, loc, ValueRange(inits).getTypes(), inputs, inits, maps,
          iterators, [&](OpBuilder &b, Location, ValueRange arguments) {
            ValueRange sums = arguments.take_back(inits.size());
            Value x = toF32(b, arguments.front());
            SmallVector<Value> results;
            auto add = [&](Value factor) {
              Value term = arith::MulFOp::create(b, loc, x, factor);
              results.push_back(
                  arith::AddFOp::create(b, loc, sums[results.size()], term));
            };
            add(x);
            if (withDots)
              add(emitWeighted(b, arguments.drop_front()));
            linalg::YieldOp::create(b, loc, results);
          });
      squares = sums.getResult(0);
      if (withDots)
        dots = sums.getResult(1);
    }

    Value emitOfSource() {
      SmallVector<Value> inputs = {norm.getSource(), squares, dots};
      SmallVector<AffineMap> maps = {all, rows, rows};
      addWeighted(inputs, maps);
      maps.push_back(all);
      Type element = norm.getType().getElementType();
      Value init = tensor::EmptyOp::create(builder, loc, sizes, element);
      SmallVector<utils::IteratorType> iterators(numDims,
                                                 utils::IteratorType::parallel);
      return linalg::GenericOp::create(
                 builder, loc, init.getType(), inputs, init, maps, iterators,
                 [&](OpBuilder &b, Location, ValueRange arguments) {
                   Value x = toF32(b, arguments[0]);
                   Value r = emitReciprocal(b, arguments[1]);
                   Value mean = arith::MulFOp::create(
                       b, loc, arguments[2], constant(b, 1.0 / getHeadDim()));
                   Value along = arith::MulFOp::create(b, loc, r, r);
                   along = arith::MulFOp::create(b, loc, along, mean);
                   along = arith::MulFOp::create(b, loc, along, x);
                   Value across = emitWeighted(b, arguments.drop_front(3));
                   across = arith::SubFOp::create(b, loc, across, along);
                   across = arith::MulFOp::create(b, loc, across, r);
                   linalg::YieldOp::create(
                       b, loc, convertFloat(b, loc, across, element));
                 })
          .getResult(0);
    }

    /// Each head is reduced first: on GPUs one warp computes each reduction.
    Value emitOfWeight() {
      SmallVector<OpFoldResult> sizesOfHeads = {sizes[0], sizes[1],
                                                sizes[headDimAxis]};
      SmallVector<Value> inputs = {norm.getSource(), squares, result};
      SmallVector<utils::IteratorType> iterators(numDims,
                                                 utils::IteratorType::parallel);
      iterators[position] = utils::IteratorType::reduction;
      Value heads = emitZeros(sizesOfHeads);
      heads =
          linalg::GenericOp::create(
              builder, loc, heads.getType(), inputs, heads,
              ArrayRef<AffineMap>{all, rows, all, all.dropResult(position)},
              iterators,
              [&](OpBuilder &b, Location, ValueRange arguments) {
                Value term =
                    arith::MulFOp::create(b, loc, toF32(b, arguments[0]),
                                          emitReciprocal(b, arguments[1]));
                term =
                    arith::MulFOp::create(b, loc, term, toF32(b, arguments[2]));
                term = arith::AddFOp::create(b, loc, arguments.back(), term);
                linalg::YieldOp::create(b, loc, term);
              })
              .getResult(0);
      Value zeros = emitZeros(ArrayRef(sizes).take_back());
      return linalg::ReduceOp::create(
                 builder, loc, heads, zeros, ArrayRef<int64_t>{0, 1},
                 [&](OpBuilder &b, Location, ValueRange arguments) {
                   Value sum = arith::AddFOp::create(b, loc, arguments[0],
                                                     arguments[1]);
                   linalg::YieldOp::create(b, loc, sum);
                 })
          .getResult(0);
    }

    OpBuilder &builder;
    Location loc;
    RmsNormOp norm;

  private:
    static constexpr unsigned numDims = 4, position = 2, headDimAxis = 3;

    int64_t getHeadDim() { return norm.getType().getShape().back(); }

    Value constant(OpBuilder &b, double number) {
      return arith::ConstantOp::create(b, loc,
                                       b.getF32FloatAttr(float(number)));
    }

    Value toF32(OpBuilder &b, Value value) {
      return convertFloat(b, loc, value, b.getF32Type());
    }

    Value emitZeros(ArrayRef<OpFoldResult> shape) {
      Value init =
          tensor::EmptyOp::create(builder, loc, shape, builder.getF32Type());
      return linalg::FillOp::create(builder, loc, constant(builder, 0), init)
          .getResult(0);
    }

    /// Adds the operands of `emitWeighted`.
    void addWeighted(SmallVectorImpl<Value> &inputs,
                     SmallVectorImpl<AffineMap> &maps) {
      inputs.push_back(result);
      maps.push_back(all);
      if (Value weight = norm.getWeight()) {
        inputs.push_back(weight);
        maps.push_back(headDim);
      }
    }

    /// `w * g`
    Value emitWeighted(OpBuilder &b, ValueRange elements) {
      Value gradient = toF32(b, elements[0]);
      if (!norm.getWeight())
        return gradient;
      return arith::MulFOp::create(b, loc, gradient, toF32(b, elements[1]));
    }

    /// `r`, of the sum of the squares of a row.
    Value emitReciprocal(OpBuilder &b, Value sum) {
      Value mean =
          arith::MulFOp::create(b, loc, sum, constant(b, 1.0 / getHeadDim()));
      Value epsilon = constant(b, norm.getEpsilon().convertToFloat());
      mean = arith::AddFOp::create(b, loc, mean, epsilon);
      return math::RsqrtOp::create(b, loc, mean);
    }

    /// The gradient of the result.
    Value result;
    AffineMap all, rows, headDim;
    SmallVector<OpFoldResult> sizes;
    Value squares, dots;
  };
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
    linalg::SoftmaxOp::attachInterface<SoftmaxModel>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    tensor::CastOp::attachInterface<SourceModel<tensor::CastOp>>(*context);
    tensor::ExpandShapeOp::attachInterface<SourceModel<tensor::ExpandShapeOp>>(
        *context);
    tensor::CollapseShapeOp::attachInterface<
        SourceModel<tensor::CollapseShapeOp>>(*context);
    tensor::ExtractSliceOp::attachInterface<
        SourceModel<tensor::ExtractSliceOp>>(*context);
    tensor::InsertSliceOp::attachInterface<InsertSliceModel>(*context);
    tensor::ConcatOp::attachInterface<ConcatModel>(*context);
    tensor::PadOp::attachInterface<PadModel>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    PermuteOp::attachInterface<PermuteModel>(*context);
    RopeOp::attachInterface<RopeModel>(*context);
    RmsNormOp::attachInterface<RmsNormModel>(*context);
  });
}
