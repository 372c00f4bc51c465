//===- FuseElements.cpp - Scalar code around attention --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expresses operations before and after attention as scalar code of one
// element, and decides by cost where that code runs.
//
//===----------------------------------------------------------------------===//

#include "FuseElements.h"
#include "Slices.h"
#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/Attn/IR/Float8.h"
#include "attn/Interfaces/FusibleOpInterface.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/Scheduling/ForwardSchedules.h"
#include "attn/Support/DeadOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

static remark::RemarkOpts getRemarkOptions() {
  return remark::RemarkOpts::name("fuse").category("attn-fuse");
}

void FusionContext::report(Operation *fused, const Twine &what,
                           double seconds) const {
  remark::passed(fused->getLoc(), getRemarkOptions())
      << llvm::formatv("'{0}' became {1}, saves {2:f1} us", fused->getName(),
                       what.str(), 1e6 * seconds)
             .str();
}

void FusionContext::reportMissed(Operation *missed, const Twine &why) const {
  remark::missed(missed->getLoc(), getRemarkOptions())
      << llvm::formatv("'{0}' stays: {1}", missed->getName(), why.str()).str();
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

namespace {
/// Emits elements of tensors as scalar code over elements of `base`.
class ElementEmitter : public ElementSource {
public:
  /// Dimension `i` of positions is dimension `permutation[i]` of `base`.
  ElementEmitter(Value base, ArrayRef<int64_t> permutation,
                 ValueRange positions, Value element, Value square,
                 bool mayReadBase)
      : base(base), permutation(permutation), positions(positions),
        element(element), square(square), mayReadBase(mayReadBase) {}

  Value getElement(OpBuilder &builder, Location loc, Value tensor,
                   ValueRange indices) override;
  Value getMeanSquare(OpBuilder &builder, Location loc, Value tensor,
                      ValueRange indices) override;

private:
  /// Whether `indices`, the first ones of the base, are the positions.
  bool isHere(ValueRange indices);
  Value emitElement(OpBuilder &builder, Location loc, Value tensor,
                    ValueRange indices);

  Value base;
  SmallVector<int64_t> permutation;
  ValueRange positions;
  Value element, square;
  bool mayReadBase;
  DenseMap<Value, SmallVector<std::pair<SmallVector<Value>, Value>>> known;
};
} // namespace

bool ElementEmitter::isHere(ValueRange indices) {
  SmallVector<Value> here(permutation.size());
  for (auto [dim, position] : llvm::zip_equal(permutation, positions))
    here[dim] = position;
  return llvm::equal(ArrayRef(here).take_front(indices.size()), indices);
}

/// Reads an element, as f32 if it is a float.
static Value emitRead(OpBuilder &builder, Location loc, Value tensor,
                      ValueRange indices) {
  Value read = tensor::ExtractOp::create(builder, loc, tensor, indices);
  auto type = dyn_cast<FloatType>(read.getType());
  if (!type || type.isF32())
    return read;
  Type f32 = builder.getF32Type();
  if (type.getWidth() < 32)
    return arith::ExtFOp::create(builder, loc, f32, read);
  return arith::TruncFOp::create(builder, loc, f32, read);
}

Value ElementEmitter::emitElement(OpBuilder &builder, Location loc,
                                  Value tensor, ValueRange indices) {
  if (tensor == base) {
    if (isHere(indices))
      return element;
    return mayReadBase ? emitRead(builder, loc, tensor, indices) : Value();
  }
  DenseElementsAttr constant;
  if (matchPattern(tensor, m_Constant(&constant)) && constant.isSplat()) {
    auto value = constant.getSplatValue<TypedAttr>();
    if (auto number = dyn_cast<FloatAttr>(value))
      value = builder.getF32FloatAttr(float(number.getValueAsDouble()));
    return arith::ConstantOp::create(builder, loc, value);
  }
  // An uninitialised tensor.
  Type type = getElementTypeOrSelf(tensor);
  if (tensor.getDefiningOp<tensor::EmptyOp>() && isa<FloatType>(type))
    return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  auto op = tensor.getDefiningOp<FusibleOpInterface>();
  // Code in f32 would not round to 8 bits, and kernels do not read such
  // tensors.
  if (isFloat8(type))
    return {};
  if (op && op.isElementwise())
    return op.emitElement(builder, indices, *this);
  return emitRead(builder, loc, tensor, indices);
}

Value ElementEmitter::getElement(OpBuilder &builder, Location loc, Value tensor,
                                 ValueRange indices) {
  for (auto &[at, value] : known[tensor])
    if (llvm::equal(at, indices))
      return value;
  Value value = emitElement(builder, loc, tensor, indices);
  known[tensor].emplace_back(llvm::to_vector(indices), value);
  return value;
}

Value ElementEmitter::getMeanSquare(OpBuilder &, Location, Value tensor,
                                    ValueRange indices) {
  bool isRow = !permutation.empty() &&
               permutation.back() == int64_t(permutation.size()) - 1;
  return tensor == base && isRow && isHere(indices) ? square : Value();
}

//===----------------------------------------------------------------------===//
// Chains of producers
//===----------------------------------------------------------------------===//

namespace {
/// Operations that compute the elements of an operand.
struct Chain {
  /// The tensor that they start from, and the wanted order of its dimensions.
  Value base;
  SmallVector<int64_t> permutation;
  /// The last operation that computes; layouts may follow.
  Operation *last = nullptr;
};
} // namespace

/// The elementwise operation that computes `value`, if it is more than a copy
/// in another order.
static FusibleOpInterface getComputation(Value value) {
  auto op = value.getDefiningOp<FusibleOpInterface>();
  if (!op || !op.isElementwise() || isa<linalg::FillOp>(op.getOperation()))
    return {};
  std::optional<TensorMapping> mapping = op.getMapping();
  bool isCopy =
      mapping && mapping->factor == 1 &&
      getElementTypeOrSelf(mapping->source) == getElementTypeOrSelf(value);
  return isCopy ? FusibleOpInterface() : op;
}

/// Whether `op` takes a part of `operand` that may have the type of the whole,
/// since sizes are dynamic.
static bool takesPartOfDynamicSize(FusibleOpInterface op, Value operand) {
  auto slice = dyn_cast<tensor::ExtractSliceOp>(op.getOperation());
  return slice && operand == slice.getSource() &&
         !hasWholeDynamicDims(slice, operand);
}

/// Whether `op` reads `operand`, which has the shape of the result, in another
/// order of dimensions with dynamic sizes.
static bool permutesDynamicSizes(FusibleOpInterface op, Value operand) {
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op.getOperation());
  auto type = dyn_cast<RankedTensorType>(operand.getType());
  auto resultType = cast<RankedTensorType>(op->getResult(0).getType());
  if (!linalgOp || !type || type.getShape() != resultType.getShape())
    return false;
  AffineMap result =
      linalgOp.getMatchingIndexingMap(linalgOp.getDpsInitOperand(0));
  auto hasSizes = [&](OpOperand &use) {
    AffineMap map = linalgOp.getMatchingIndexingMap(&use);
    return llvm::all_of(llvm::seq(type.getRank()), [&](int64_t dim) {
      return !type.isDynamicDim(dim) ||
             map.getResult(dim) == result.getResult(dim);
    });
  };
  return llvm::none_of(op->getOpOperands(), [&](OpOperand &use) {
    return use.get() == operand && hasSizes(use);
  });
}

/// The first tensor with the shape `shape` that `value` is computed from and
/// that is itself not computed element by element.
static Value findBase(Value value, ArrayRef<int64_t> shape,
                      llvm::SmallDenseSet<Value> &seen) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !seen.insert(value).second)
    return {};
  FusibleOpInterface op = getComputation(value);
  if (op && isa<RmsNormOp>(op.getOperation()))
    return op->getOperand(0);
  if (!op) {
    bool isBase = type.getShape() == shape &&
                  isa<FloatType>(type.getElementType()) &&
                  !value.getDefiningOp<tensor::EmptyOp>() &&
                  !value.getDefiningOp<linalg::FillOp>() &&
                  !matchPattern(value, m_Constant());
    return isBase ? value : Value();
  }
  for (Value operand : op->getOperands())
    if (!takesPartOfDynamicSize(op, operand) &&
        !permutesDynamicSizes(op, operand))
      if (Value base = findBase(operand, shape, seen))
        return base;
  return {};
}

static std::optional<Chain> findChain(Value value) {
  Chain chain;
  chain.permutation = {0, 1, 2, 3};
  while (auto op = value.getDefiningOp<FusibleOpInterface>()) {
    std::optional<TensorMapping> mapping = op.getMapping();
    if (!mapping || mapping->factor != 1 || getComputation(value))
      break;
    chain.permutation =
        applyPermutation(mapping->permutation, chain.permutation);
    value = mapping->source;
  }
  FusibleOpInterface last = getComputation(value);
  if (!last)
    return std::nullopt;
  chain.last = last;
  llvm::SmallDenseSet<Value> seen;
  chain.base =
      findBase(value, cast<RankedTensorType>(value.getType()).getShape(), seen);
  if (!chain.base || chain.base == value)
    return std::nullopt;
  return chain;
}

/// The tensor that the chain starts from, in the wanted order.
static Value emitBase(RewriterBase &rewriter, const Chain &chain) {
  if (isIdentityPermutation(chain.permutation))
    return chain.base;
  return PermuteOp::create(rewriter, chain.last->getLoc(), chain.base,
                           chain.permutation);
}

/// Writes the chain as a region of `attn.map_heads` or of the queries of
/// attention. Fails, with the region empty, if that is not possible.
static LogicalResult writeRegion(RewriterBase &rewriter, Region &region,
                                 const Chain &chain) {
  OpBuilder::InsertionGuard guard(rewriter);
  Location loc = chain.last->getLoc();
  SmallVector<Type> types(6, rewriter.getIndexType());
  types[0] = types[1] = rewriter.getF32Type();
  Block *body =
      rewriter.createBlock(&region, {}, types, SmallVector<Location>(6, loc));
  ValueRange positions = body->getArguments().drop_front(2);
  ElementEmitter emitter(chain.base, chain.permutation, positions,
                         body->getArgument(0), body->getArgument(1),
                         /*mayReadBase=*/true);
  SmallVector<Value> indices(positions.size());
  for (auto [dim, position] : llvm::zip_equal(chain.permutation, positions))
    indices[dim] = position;
  Value result =
      emitter.getElement(rewriter, loc, chain.last->getResult(0), indices);
  if (!result) {
    body->erase();
    return failure();
  }
  YieldOp::create(rewriter, loc, result);
  eraseDeadOps(*body);
  return success();
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

/// Integer operations that the address of an element takes.
static constexpr double operationsOfRead = 4;

/// Counts the work of `region` for `elements` elements.
static OpCost getRegionCost(Region &region, double elements) {
  OpCost cost;
  addScalarCost(region.front(), elements, cost);
  region.walk([&](tensor::ExtractOp) {
    cost.operations(ExecutionUnit::Integer) += operationsOfRead * elements;
  });
  return cost;
}

/// Time of running `region` alone for `elements` elements.
static double getRegionSeconds(const FusionContext &context, Region &region,
                               double elements) {
  return estimate(getRegionCost(region, elements), context.device).seconds;
}

static double countElements(const FusionContext &context, Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  double elements = double(context.assumptions.getBatch(type.getDimSize(0)));
  for (int64_t size : type.getShape().drop_front())
    elements *= double(context.assumptions.getSize(size));
  return elements;
}

/// Bytes that `region` reads, except for `except`.
static double getCapturedBytes(const FusionContext &context, Region &region,
                               ValueRange except) {
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(region, captured);
  double bytes = 0;
  for (Value value : captured)
    if (!llvm::is_contained(except, value))
      bytes += getShapedBytes(value.getType(), context.assumptions);
  return bytes;
}

/// Time of a kernel of its own for `region`, from `base` to `result`.
static double getPassSeconds(const FusionContext &context, Region &region,
                             Value base, Value result) {
  OpCost cost = getRegionCost(region, countElements(context, result));
  cost.launches = 1;
  cost.bytes(MemoryLevel::Memory) =
      getShapedBytes(base.getType(), context.assumptions) +
      getShapedBytes(result.getType(), context.assumptions) +
      getCapturedBytes(context, region, base);
  return estimate(cost, context.device).seconds;
}

/// The schedule that `op` would get, and its time by the model; 0 if there is
/// none.
static std::pair<ScheduleAttrInterface, double>
estimateAttention(const FusionContext &context, AttentionOp op) {
  SmallVector<ScheduleCandidate> best =
      getBestSchedules(op, context.target, context.device, 1);
  if (best.empty())
    return {nullptr, 0};
  VisitedTiles tiles(cast<AttentionOpInterface>(op.getOperation()),
                     context.assumptions);
  ScheduleAttrInterface schedule = best.front().schedule;
  return {schedule,
          getSeconds(schedule.estimateKernels(tiles, context.device))};
}

static std::string toMicroseconds(double seconds) {
  return llvm::formatv("{0:f1} us", 1e6 * seconds).str();
}

/// Whether `operand` is the only use of its value, apart from sizes.
static bool isOnlyUse(OpOperand &operand) {
  return llvm::all_of(operand.get().getUses(), [&](OpOperand &use) {
    return &use == &operand || isa<tensor::DimOp>(use.getOwner());
  });
}

/// The schedule that `op` is given; null if one is chosen later.
static ScheduleAttrInterface getGivenSchedule(AttentionOp op) {
  return dyn_cast_or_null<ScheduleAttrInterface>(op.getScheduleAttr());
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

bool attn::fuseQueries(const FusionContext &context, AttentionOp op) {
  RewriterBase &rewriter = context.rewriter;
  OpOperand &operand = op.getQueryMutable();
  std::optional<Chain> chain = findChain(operand.get());
  if (!chain || !op.getQueryRegion().empty())
    return false;
  if (op.readsKeyLengths()) {
    context.reportMissed(chain->last,
                         "rows of sequences are not where positions say");
    return false;
  }
  if (ScheduleAttrInterface given = getGivenSchedule(op);
      given && given.packsGqa()) {
    context.reportMissed(chain->last, "the schedule of attention packs heads");
    return false;
  }
  Type element = getElementTypeOrSelf(chain->base);
  if (element != getElementTypeOrSelf(op.getKey())) {
    context.reportMissed(chain->last,
                         "it is computed from another type than keys have");
    return false;
  }
  if (!isOnlyUse(operand) ||
      (operand.get().getDefiningOp() != chain->last &&
       !llvm::hasSingleElement(chain->last->getResult(0).getUses()))) {
    context.reportMissed(chain->last, "its result is used elsewhere, too");
    return false;
  }
  double before = estimateAttention(context, op).second;
  Region &region = op.getQueryRegion();
  if (failed(writeRegion(rewriter, region, *chain))) {
    context.reportMissed(chain->last, "it needs rows of what is not in memory");
    return false;
  }
  auto [schedule, after] = estimateAttention(context, op);
  double elements = countElements(context, operand.get());
  double pass = getPassSeconds(context, region, chain->base, operand.get());
  double within = getRegionSeconds(context, region, elements) + after - before;
  // At equal times there is less to move.
  if (!schedule || within > pass) {
    rewriter.eraseBlock(&region.front());
    context.reportMissed(
        chain->last, schedule ? "with the queries it would take " +
                                    toMicroseconds(within) +
                                    ", and by itself " + toMicroseconds(pass)
                              : "attention would not fit the registers");
    return false;
  }
  context.report(chain->last, "part of reading the queries", pass - within);
  rewriter.setInsertionPoint(op);
  Value base = emitBase(rewriter, *chain);
  rewriter.modifyOpInPlace(op, [&] { operand.set(base); });
  return true;
}

//===----------------------------------------------------------------------===//
// Kernels of their own
//===----------------------------------------------------------------------===//

/// Explains why keys or values are not computed as they are read: several work
/// items read each element.
static std::string explainRepetition(const FusionContext &context,
                                     AttentionOp op, Region &region, Value base,
                                     Value result) {
  ScheduleAttrInterface schedule = estimateAttention(context, op).first;
  if (!schedule)
    return "attention has no schedule";
  double queries =
      double(context.assumptions.getSize(getDimSize(op.getQuery(), 2)));
  double tiles = std::ceil(queries / double(schedule.getQueryTile()));
  int64_t heads =
      result == op.getValue() ? op.getNumValueHeads() : op.getNumKeyHeads();
  double times = tiles * double(op.getNumQueryHeads()) / double(heads);
  double within =
      getRegionSeconds(context, region, countElements(context, result) * times);
  double pass = getPassSeconds(context, region, base, result);
  std::string text =
      llvm::formatv("each element is read {0:f0} times, to compute it as often "
                    "would take {1}, and by itself it takes {2}",
                    times, toMicroseconds(within), toMicroseconds(pass))
          .str();
  if (within < pass)
    text += "; but attention has no region for keys and values";
  return text;
}

/// Creates an `attn.map_heads` for a chain that computes `result`.
static MapHeadsOp createMap(RewriterBase &rewriter, const Chain &chain,
                            Value result) {
  Location loc = chain.last->getLoc();
  Value base = emitBase(rewriter, chain);
  auto type = cast<RankedTensorType>(result.getType());
  Value init = tensor::EmptyOp::create(
      rewriter, loc, tensor::getMixedSizes(rewriter, loc, base),
      type.getElementType());
  auto map = MapHeadsOp::create(rewriter, loc, init.getType(), base, init,
                                /*schedule=*/nullptr);
  if (succeeded(writeRegion(rewriter, map.getBody(), chain)))
    return map;
  rewriter.eraseOp(map);
  return {};
}

bool attn::gatherIntoMap(const FusionContext &context, AttentionOp op,
                         OpOperand &operand) {
  RewriterBase &rewriter = context.rewriter;
  Value value = operand.get();
  std::optional<Chain> chain = findChain(value);
  if (!chain || !isOnlyUse(operand))
    return false;
  auto type = cast<RankedTensorType>(value.getType());
  if (type.isDynamicDim(1) || type.isDynamicDim(3) ||
      !isa<BFloat16Type, Float16Type, Float32Type>(
          getElementTypeOrSelf(chain->base)))
    return false;
  rewriter.setInsertionPoint(op);
  MapHeadsOp map = createMap(rewriter, *chain, value);
  if (!map)
    return false;
  if (&operand != &op.getQueryMutable())
    context.reportMissed(
        chain->last,
        explainRepetition(context, op, map.getBody(), chain->base, value));
  Value result = map.getResult();
  if (result.getType() != type)
    result = tensor::CastOp::create(rewriter, map.getLoc(), type, result);
  rewriter.modifyOpInPlace(op, [&] { operand.set(result); });
  return true;
}

void attn::expandHeadOps(RewriterBase &rewriter, Operation *root) {
  SmallVector<Operation *> ops;
  root->walk([&](Operation *op) {
    if (isa<RmsNormOp, RopeOp>(op))
      ops.push_back(op);
  });
  // Users first, so that operations that become part of a user get no map.
  for (Operation *op : llvm::reverse(ops)) {
    if (op->use_empty()) {
      rewriter.eraseOp(op);
      continue;
    }
    rewriter.setInsertionPoint(op);
    MapHeadsOp map;
    if (std::optional<Chain> chain = findChain(op->getResult(0)))
      map = createMap(rewriter, *chain, op->getResult(0));
    if (!map)
      map = createMap(rewriter, {op->getOperand(0), {0, 1, 2, 3}, op},
                      op->getResult(0));
    Value result = map.getResult();
    if (result.getType() != op->getResult(0).getType())
      result = tensor::CastOp::create(rewriter, op->getLoc(),
                                      op->getResult(0).getType(), result);
    rewriter.replaceOp(op, result);
  }
}

//===----------------------------------------------------------------------===//
// Epilogue
//===----------------------------------------------------------------------===//

/// The only user of `value`, if it keeps elements as they are: a layout or a
/// reshape to fewer dimensions.
static Operation *getOnlyLayout(Value value) {
  if (!value.hasOneUse())
    return nullptr;
  Operation *user = *value.user_begin();
  if (isa<PermuteOp, tensor::CollapseShapeOp>(user))
    return user;
  auto fusible = dyn_cast<FusibleOpInterface>(user);
  std::optional<TensorMapping> mapping =
      fusible ? fusible.getMapping() : std::nullopt;
  bool isLayout =
      mapping && mapping->source == value && mapping->factor == 1 &&
      getElementTypeOrSelf(value) == getElementTypeOrSelf(user->getResult(0));
  return isLayout ? user : nullptr;
}

/// The indices of the result of `layout` for the indices of its operand; none
/// if a size that they depend on is not static.
static SmallVector<Value> emitLayout(OpBuilder &builder, Operation *layout,
                                     ArrayRef<Value> indices) {
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(layout)) {
    SmallVector<Value> result;
    for (const ReassociationIndices &group :
         collapse.getReassociationIndices()) {
      Value index = indices[group.front()];
      for (int64_t dim : ArrayRef(group).drop_front()) {
        int64_t size = collapse.getSrcType().getDimSize(dim);
        if (ShapedType::isDynamic(size))
          return {};
        Location loc = layout->getLoc();
        index = builder.createOrFold<arith::AddIOp>(
            loc,
            builder.createOrFold<arith::MulIOp>(
                loc, index, arith::ConstantIndexOp::create(builder, loc, size)),
            indices[dim]);
      }
      result.push_back(index);
    }
    return result;
  }
  auto permute = dyn_cast<PermuteOp>(layout);
  return applyPermutation(
      indices,
      permute ? llvm::to_vector(permute.getPermutation())
              : cast<FusibleOpInterface>(layout).getMapping()->permutation);
}

/// Appends `consumer` of `value` to the epilogue, and returns the element
/// before it. Null, with the epilogue as it was, if that is not possible.
static Value appendToEpilogue(RewriterBase &rewriter, AttentionOp op,
                              ArrayRef<Operation *> layouts, Value value,
                              FusibleOpInterface consumer) {
  OpBuilder::InsertionGuard guard(rewriter);
  Location loc = consumer.getLoc();
  Region &region = op.getEpilogue();
  bool isNew = region.empty();
  if (isNew) {
    SmallVector<Type> types(5, rewriter.getIndexType());
    types[0] = rewriter.getF32Type();
    Block *body =
        rewriter.createBlock(&region, {}, types, SmallVector<Location>(5, loc));
    YieldOp::create(rewriter, loc, body->getArgument(0));
  }
  Block &body = region.front();
  auto yield = cast<YieldOp>(body.getTerminator());
  rewriter.setInsertionPoint(yield);
  SmallVector<Value> indices(body.getArguments().drop_front());
  Value before = yield.getValue(), result;
  for (Operation *layout : layouts) {
    indices = emitLayout(rewriter, layout, indices);
    if (indices.empty())
      break;
  }
  if (!indices.empty()) {
    auto identity = llvm::to_vector(llvm::seq<int64_t>(indices.size()));
    ElementEmitter emitter(value, identity, indices, before, Value(),
                           /*mayReadBase=*/false);
    result = consumer.emitElement(rewriter, indices, emitter);
  }
  if (result)
    rewriter.modifyOpInPlace(yield, [&] { yield.setOperand(result); });
  eraseDeadOps(body);
  if (!result && isNew)
    rewriter.eraseBlock(&body);
  return result ? before : Value();
}

/// Removes the saturation to the 8-bit type `type` that ends the epilogue of
/// `op`: attention saturates an output of 8 bits itself. If there is none, the
/// epilogue yields `before` again, as before `appendToEpilogue`, and the result
/// is failure.
static LogicalResult removeSaturation(RewriterBase &rewriter, AttentionOp op,
                                      FloatType type, Value before) {
  Block &body = op.getEpilogue().front();
  auto yield = cast<YieldOp>(body.getTerminator());
  Value unsaturated = getBeforeSaturation(yield.getValue(), type);
  rewriter.modifyOpInPlace(
      yield, [&] { yield.setOperand(unsaturated ? unsaturated : before); });
  eraseDeadOps(body);
  if (unsaturated)
    return success();
  if (before == body.getArgument(0))
    rewriter.eraseBlock(&body);
  return failure();
}

/// Makes `element` the type of the output of `op`, which `empty` is written to.
static void setOutputType(RewriterBase &rewriter, AttentionOp op,
                          tensor::EmptyOp empty, Type element) {
  rewriter.setInsertionPoint(op);
  Value init = tensor::EmptyOp::create(rewriter, empty.getLoc(),
                                       empty.getMixedSizes(), element);
  rewriter.modifyOpInPlace(op, [&] {
    op.getOutMutable().assign(init);
    op->getResult(0).setType(cast<RankedTensorType>(init.getType()));
  });
}

/// Whether attention can write `element` where it computes elements of the type
/// of `op`.
static bool canWrite(const FusionContext &context, AttentionOp op,
                     Type element) {
  if (element == getElementTypeOrSelf(op.getQuery()) || element.isF32())
    return true;
  return isFloat8(element) && !whyNotWriteFloat8(op, context.target);
}

/// The elementwise consumer of `value`, of the same shape, that may become part
/// of the epilogue of `op`; null if there is none.
static FusibleOpInterface getElementwiseConsumer(AttentionOp op, Value value) {
  if (!llvm::hasSingleElement(value.getUsers()))
    return {};
  auto consumer = dyn_cast<FusibleOpInterface>(*value.user_begin());
  if (!consumer || !consumer.isElementwise() ||
      consumer->getBlock() != op->getBlock() ||
      takesPartOfDynamicSize(consumer, value))
    return {};
  auto resultType =
      dyn_cast<RankedTensorType>(consumer->getResult(0).getType());
  if (!resultType || resultType.getShape() !=
                         cast<RankedTensorType>(value.getType()).getShape())
    return {};
  return consumer;
}

/// Reports that `consumer`, which reads `value`, is part of the epilogue, and
/// the time that this saves.
static void reportEpilogue(const FusionContext &context, AttentionOp op,
                           Value value, FusibleOpInterface consumer) {
  double pass =
      getPassSeconds(context, op.getEpilogue(), value, consumer->getResult(0));
  OpCost reads;
  reads.bytes(MemoryLevel::Memory) =
      getCapturedBytes(context, op.getEpilogue(), {});
  double within = getRegionSeconds(context, op.getEpilogue(),
                                   countElements(context, op->getResult(0))) +
                  estimate(reads, context.device).seconds;
  context.report(consumer, "part of the epilogue",
                 std::max(0.0, pass - within));
}

bool attn::fuseEpilogue(const FusionContext &context, AttentionOp op) {
  RewriterBase &rewriter = context.rewriter;
  Value value = op->getResult(0);
  SmallVector<Operation *> layouts;
  while (Operation *layout = getOnlyLayout(value)) {
    layouts.push_back(layout);
    value = layout->getResult(0);
  }
  FusibleOpInterface consumer = getElementwiseConsumer(op, value);
  if (!consumer)
    return false;
  if (Type narrow = getElementTypeOrSelf(op.getOut()); isFloat8(narrow)) {
    context.reportMissed(consumer, "it reads numbers rounded to 8 bits");
    return false;
  }
  auto resultType = cast<RankedTensorType>(consumer->getResult(0).getType());
  auto valueType = cast<RankedTensorType>(value.getType());
  Type element = resultType.getElementType();
  auto empty = op.getOut().getDefiningOp<tensor::EmptyOp>();
  bool changesType = element != valueType.getElementType();
  if (changesType &&
      (!layouts.empty() || !empty || !canWrite(context, op, element))) {
    context.reportMissed(consumer, "attention cannot write its type");
    return false;
  }
  // Operations that follow must not need the other result before.
  bool canMove = llvm::all_of(op->getResults().drop_front(),
                              [](Value other) { return other.use_empty(); });
  DominanceInfo dominance;
  auto isKnownBefore = [&](Value operand) {
    return operand == value || !isa<ShapedType>(operand.getType()) ||
           dominance.properlyDominates(operand, op);
  };
  if (!canMove && !llvm::all_of(consumer->getOperands(), isKnownBefore)) {
    context.reportMissed(consumer,
                         "it reads what is not known before attention, whose "
                         "other result is used");
    return false;
  }
  Value before = appendToEpilogue(rewriter, op, layouts, value, consumer);
  if (!before) {
    context.reportMissed(consumer,
                         "an element of it needs others than its own");
    return false;
  }
  if (isFloat8(element) &&
      failed(
          removeSaturation(rewriter, op, cast<FloatType>(element), before))) {
    context.reportMissed(consumer, "attention writes the largest number in the "
                                   "place of larger ones");
    return false;
  }
  reportEpilogue(context, op, value, consumer);
  if (canMove) {
    rewriter.moveOpBefore(op, consumer);
    for (Operation *layout : layouts)
      rewriter.moveOpBefore(layout, consumer);
  }
  if (changesType)
    setOutputType(rewriter, op, empty, element);
  rewriter.replaceOp(consumer, value);
  return true;
}
