//===- Reassociate.cpp - Products of values after attention ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces A (X W) by (A X) W, and Q (C W)^T by (Q W^T) C^T, where that takes
// less time.
//
//===----------------------------------------------------------------------===//

#include "HeadSources.h"
#include "attn/Analysis/Roofline.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/ForwardSchedules.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNREASSOCIATEPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

static remark::RemarkOpts getRemarkOptions() {
  return remark::RemarkOpts::name("reassociate").category("attn-reassociate");
}

namespace {
/// What both reassociations of one attention need.
class Reassociation {
protected:
  Reassociation(RewriterBase &rewriter, AttentionOp op, StringRef target,
                const DeviceFigures &device)
      : rewriter(rewriter), op(op), target(target), device(device) {}

  double getSeconds(Operation *operation) {
    // Slices are views.
    if (isa<tensor::ExtractSliceOp>(operation))
      return 0;
    std::optional<OpCost> cost = getOpCost(operation, assumptions);
    if (auto insert = dyn_cast<tensor::InsertSliceOp>(operation)) {
      cost.emplace();
      cost->launches = 1;
      cost->bytes(MemoryLevel::Memory) =
          2 * getShapedBytes(insert.getSourceType(), assumptions);
    }
    return cost ? estimate(*cost, device).seconds : 0;
  }

  /// Whether kernels take `attention`.
  bool fits(AttentionOp attention) {
    return isSupportedHeadDim(attention.getQueryHeadDim(), target) &&
           isSupportedHeadDim(attention.getValueHeadDim(), target) &&
           !getBestSchedules(attention, target, device, 1).empty();
  }

  /// Attention to `values`, which returns the type of elements of `like`.
  AttentionOp createAttention(Value values, Value like);

  RewriterBase &rewriter;
  AttentionOp op;
  StringRef target;
  const DeviceFigures &device;
  CostAssumptions assumptions;
};

/// Moves the product that makes the values of one attention.
class Reassociator : Reassociation {
public:
  Reassociator(RewriterBase &rewriter, AttentionOp op, StringRef target,
               const DeviceFigures &device)
      : Reassociation(rewriter, op, target, device) {}

  /// Returns whether it did.
  bool run();

private:
  /// Says why the product stays.
  bool miss(const Twine &why);

  tensor::ExpandShapeOp split;
  MatmulOp product;
};

/// Channels of keys or values of each head as the product of a latent, which
/// all heads share, with weights of the head.
struct LatentHeads {
  /// Where `heads` have the channels that the product makes.
  HeadPart part;
  /// Of `[B, S, r]` or `[B * S, r]` with `[r, N]`, or of `[S, r]` with
  /// `[H, r, N]`.
  MatmulOp product;
  bool isBatchOfHeads = false;
  /// Of the `N` columns, that of the first channel of the first head, and the
  /// number of them from one head to the next.
  int64_t column = 0, stride = 0;
  /// Sizes of batch and positions; null where they are not known.
  OpFoldResult batch, positions;

  int64_t getRank() {
    return cast<ShapedType>(product.getLhs().getType()).getRank();
  }
  int64_t getNumChannels() {
    return getDimSize(product.getLhs(), product.getLhsDepthDim());
  }
  int64_t getNumHeadChannels() const { return part.end - part.begin; }
};

/// Multiplies the queries and the result of one attention by the weights of
/// keys and values, so that it attends to their latents. Channels of keys that
/// all heads share stay beside the latent.
class Absorber : Reassociation {
public:
  Absorber(RewriterBase &rewriter, AttentionOp op, StringRef target,
           const DeviceFigures &device)
      : Reassociation(rewriter, op, target, device) {}

  /// Returns whether it did.
  bool run();

private:
  /// Says why the products stay.
  bool miss(const Twine &why);
  /// The part of heads as a product of a latent, if it is one.
  std::optional<LatentHeads> match(const HeadSources &heads,
                                   const HeadPart &part);
  /// Finds the products, and what is beside that of the keys.
  bool matchOperands();
  /// Why channels that all heads share cannot be beside a latent, if they
  /// cannot.
  StringRef getObstacle(const HeadSources &heads, const HeadPart &part);
  /// Why the product of `latent` cannot move, if it cannot.
  StringRef getObstacle(LatentHeads &latent);
  /// Whether something else uses what is between a product and the heads.
  bool isUsedElsewhere();
  /// What the products take, the keys that are put together, and attention.
  double getSecondsBefore();

  /// The latent as keys or values of one head.
  Value emitLatent(LatentHeads &latent);
  /// Channels that all heads share, as those of keys of one head.
  Value emitShared(const HeadPart &part);
  /// The weights of each head, `[H, r, d]`, or `[H, d, r]` as they are stored.
  Value emitWeights(LatentHeads &latent);
  /// Multiplies rows of each head, `[B, H, S, x]`, by the weights of `latent`,
  /// or by what they are transposed.
  Value emitProduct(Value rows, LatentHeads &latent, bool isTransposed,
                    Type element);
  /// Queries for keys with `parts`, where those of a product are its latent.
  Value emitQuery(ArrayRef<HeadPart> parts);
  Value emitKey(ArrayRef<HeadPart> parts);
  bool isOfProduct(const HeadPart &part) {
    return part.begin == keys.part.begin;
  }
  void eraseViews(ArrayRef<HeadPart> parts);

  LatentHeads keys, values;
  /// By channels.
  SmallVector<HeadPart> keyParts;
};
} // namespace

/// Batch and heads in one dimension, then rows and channels.
static SmallVector<ReassociationIndices> getHeadGroups() {
  return {{0, 1}, {2}, {3}};
}

AttentionOp Reassociation::createAttention(Value values, Value like) {
  Location loc = op.getLoc();
  SmallVector<OpFoldResult> sizes =
      tensor::getMixedSizes(rewriter, loc, op.getOut());
  sizes.back() = rewriter.getIndexAttr(getDimSize(values, 3));
  Value out =
      tensor::EmptyOp::create(rewriter, loc, sizes, getElementTypeOrSelf(like));
  auto result = cast<AttentionOp>(rewriter.clone(*op.getOperation()));
  rewriter.modifyOpInPlace(result, [&] {
    result.getValueMutable().assign(values);
    result.getOutMutable().assign(out);
    result->getResult(0).setType(cast<RankedTensorType>(out.getType()));
  });
  return result;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

bool Reassociator::miss(const Twine &why) {
  remark::missed(product.getLoc(), getRemarkOptions())
      << ("the product stays before attention: " + why).str();
  return false;
}

bool Reassociator::run() {
  split = op.getValue().getDefiningOp<tensor::ExpandShapeOp>();
  if (!split || split.getReassociationIndices() != getHeadGroups() ||
      op->getNumResults() == 0)
    return false;
  product = split.getSrc().getDefiningOp<MatmulOp>();
  if (!product || !MatmulOp::isBatched(product.getLhs()))
    return false;
  if (!product.getEpilogue().empty() || product.getTransposeLhs())
    return miss("it has an epilogue, or is not of rows");
  if (!split.getResult().hasOneUse() ||
      !llvm::all_of(split.getSrc().getUsers(), [&](Operation *user) {
        return user == split || isa<tensor::DimOp>(user);
      }))
    return miss("its result is used elsewhere, too");
  if (op.hasSequences() || !op.getEpilogue().empty())
    return miss("attention has sequences or an epilogue");
  if (getElementTypeOrSelf(product.getOut()) !=
      getElementTypeOrSelf(product.getLhs()))
    return miss("it is not of the type of its operands");
  bool sharesWeights = !MatmulOp::isBatched(product.getRhs());
  if (!sharesWeights &&
      (op.getHeadMap() || op.getNumQueryHeads() != op.getNumKeyHeads()))
    return miss("query heads share values, whose weights differ");

  // Both forms, of which one is erased.
  Location loc = product.getLoc();
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  int64_t depth = getDimSize(product.getLhs(), product.getLhsDepthDim());
  if (ShapedType::isDynamic(depth))
    return miss("the number of channels before it is not known");
  SmallVector<OpFoldResult> sizes =
      tensor::getMixedSizes(rewriter, loc, op.getKey());
  sizes.back() = rewriter.getIndexAttr(depth);
  auto valueType = cast<RankedTensorType>(op.getValue().getType());
  SmallVector<int64_t> shape(valueType.getShape());
  shape.back() = depth;
  auto values =
      tensor::ExpandShapeOp::create(rewriter, loc, valueType.clone(shape),
                                    product.getLhs(), getHeadGroups(), sizes);
  AttentionOp attention = createAttention(values, product.getLhs());
  auto rows = tensor::CollapseShapeOp::create(
      rewriter, loc, attention->getResult(0), getHeadGroups());
  SmallVector<OpFoldResult> outSizes =
      tensor::getMixedSizes(rewriter, loc, rows);
  outSizes.back() = rewriter.getIndexAttr(op.getValueHeadDim());
  Value init = tensor::EmptyOp::create(rewriter, loc, outSizes,
                                       getElementTypeOrSelf(op.getOut()));
  auto moved = MatmulOp::create(
      rewriter, loc, init.getType(), rows, product.getRhs(), init,
      /*transpose_lhs=*/false, product.getTransposeRhs(), /*schedule=*/nullptr);
  auto result = tensor::ExpandShapeOp::create(
      rewriter, loc, op->getResult(0).getType(), moved.getResult(),
      getHeadGroups(), tensor::getMixedSizes(rewriter, loc, op.getOut()));

  double before = getSeconds(product) + getSeconds(op);
  double after = getSeconds(attention) + getSeconds(moved);
  bool isPossible = fits(attention);
  std::string times = llvm::formatv("it takes {0:f1} us with attention, and "
                                    "{1:f1} us after it",
                                    1e6 * before, 1e6 * after)
                          .str();
  if (!isPossible || after >= before) {
    Operation *ops[] = {result, moved, rows, attention, values};
    for (Operation *erased : ops)
      rewriter.eraseOp(erased);
    return miss(isPossible ? times : "its input has too many channels");
  }
  remark::passed(loc, getRemarkOptions())
      << "the product moved after attention: " + times;
  SmallVector<Value> results = {result.getResult()};
  llvm::append_range(results, attention->getResults().drop_front());
  rewriter.replaceOp(op, results);
  return true;
}

//===----------------------------------------------------------------------===//
// Keys and values
//===----------------------------------------------------------------------===//

bool Absorber::miss(const Twine &why) {
  remark::missed(keys.product.getLoc(), getRemarkOptions())
      << ("the products of keys and values stay: " + why).str();
  return false;
}

/// Exchanges the first two dimensions of heads.
static Value swapBatchAndHeads(RewriterBase &rewriter, Location loc,
                               Value heads) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, loc, heads);
  SmallVector<int64_t> permutation =
      llvm::to_vector(llvm::seq<int64_t>(sizes.size()));
  std::swap(sizes[0], sizes[1]);
  std::swap(permutation[0], permutation[1]);
  Value init = tensor::EmptyOp::create(rewriter, loc, sizes,
                                       getElementTypeOrSelf(heads));
  return linalg::TransposeOp::create(rewriter, loc, heads, init, permutation)
      ->getResult(0);
}

std::optional<LatentHeads> Absorber::match(const HeadSources &heads,
                                           const HeadPart &part) {
  LatentHeads latent;
  latent.part = part;
  latent.product = part.source.getDefiningOp<MatmulOp>();
  if (!latent.product)
    return std::nullopt;
  MatmulOp product = latent.product;
  HeadIndex batch = heads.getIndex(Batch), head = heads.getIndex(Head),
            position = heads.getIndex(Position);
  latent.batch = heads.getMixedSize(Batch);
  latent.positions = heads.getMixedSize(Position);
  bool isBatched = MatmulOp::isBatched(product.getLhs());
  latent.isBatchOfHeads = MatmulOp::isBatched(product.getRhs());
  ArrayRef<HeadIndex> indices = part.indices;
  HeadIndex column = indices.back();
  if (!heads.isSingle(Channel) && column.getStride(Channel) != 1)
    return std::nullopt;
  latent.column = column.offset + part.begin;
  if (latent.isBatchOfHeads) {
    if (isBatched || !heads.isSingle(Batch) || indices[0] != head ||
        indices[1] != position || column.getStride(Head) != 0 ||
        getDimSize(product.getOut(), 0) != heads.getSize(Head))
      return std::nullopt;
    return latent;
  }
  HeadIndex ofHeads, expected = heads.getIndex(Channel);
  ofHeads.terms = head.terms;
  latent.stride = getDimSize(product.getOut(), indices.size() - 1);
  if (!ofHeads.terms.empty())
    latent.stride = ofHeads.terms.front().stride = column.getStride(Head);
  expected.add(ofHeads);
  expected.offset = column.offset;
  if (column != expected || latent.stride <= 0)
    return std::nullopt;
  int64_t columns = getDimSize(product.getOut(), indices.size() - 1);
  if (!ShapedType::isDynamic(columns) &&
      latent.stride * heads.getSize(Head) > columns)
    return std::nullopt;
  if (isBatched)
    return indices[0] == batch && indices[1] == position ? std::optional(latent)
                                                         : std::nullopt;
  if (!position.terms.empty() && !batch.terms.empty())
    batch.terms.front().stride = heads.getSize(Position);
  batch.add(position);
  return indices[0] == batch ? std::optional(latent) : std::nullopt;
}

StringRef Absorber::getObstacle(const HeadSources &heads,
                                const HeadPart &part) {
  SmallVector<HeadIndex> expected = {
      heads.getIndex(Batch), heads.getIndex(Position), heads.getIndex(Channel)};
  for (HeadIndex index : part.indices) {
    if (index.terms.empty())
      continue;
    if (index.getStride(Channel) != 0)
      index.offset = 0;
    HeadIndex *found = llvm::find(expected, index);
    if (found == expected.end())
      return "channels of keys that all heads share are reshaped";
    expected.erase(found);
  }
  auto type = cast<RankedTensorType>(part.source.getType());
  for (auto [dim, index] : llvm::enumerate(part.indices))
    for (HeadCoordinate coordinate : {Batch, Position})
      if (index.getStride(coordinate) != 0 &&
          type.getDimSize(dim) != heads.getSize(coordinate))
        return "sizes of channels of keys that all heads share are not known";
  bool isSpread = llvm::any_of(
      expected, [](const HeadIndex &index) { return !index.terms.empty(); });
  return isSpread ? "channels of keys that all heads share are broadcast" : "";
}

bool Absorber::matchOperands() {
  HeadSources key(op.getKey());
  llvm::append_range(keyParts, key.getParts());
  std::optional<LatentHeads> product;
  for (const HeadPart &part : keyParts) {
    std::optional<LatentHeads> latent = match(key, part);
    if (latent && product)
      return false;
    if (latent)
      product = latent;
  }
  if (!product)
    return false;
  keys = *product;
  for (const HeadPart &part : keyParts) {
    if (isOfProduct(part))
      continue;
    if (part.isUsedByHead())
      return miss("keys have other channels that differ from head to head");
    if (StringRef obstacle = getObstacle(key, part); !obstacle.empty())
      return miss(obstacle);
  }
  HeadSources value(op.getValue());
  std::optional<LatentHeads> ofValues;
  if (value.getParts().size() == 1)
    ofValues = match(value, value.getParts().front());
  if (!ofValues)
    return miss("values are no product of what all heads share");
  values = *ofValues;
  return true;
}

bool Absorber::isUsedElsewhere() {
  llvm::SmallPtrSet<Operation *, 16> users = {op};
  SmallVector<Operation *> made;
  for (LatentHeads *latent : {&keys, &values}) {
    users.insert(latent->part.views.begin(), latent->part.views.end());
    llvm::append_range(made, latent->part.views);
    made.push_back(latent->product);
  }
  // Sizes are asked for without a use of the contents.
  return llvm::any_of(made, [&](Operation *operation) {
    return llvm::any_of(operation->getUsers(), [&](Operation *user) {
      return !users.contains(user) && !isa<tensor::DimOp>(user);
    });
  });
}

StringRef Absorber::getObstacle(LatentHeads &latent) {
  MatmulOp product = latent.product;
  Type element = getElementTypeOrSelf(product.getLhs());
  if (!product.getEpilogue().empty() || product.getTransposeLhs())
    return "one of them has an epilogue, or is not of rows";
  if (getElementTypeOrSelf(product.getOut()) != element)
    return "one of them is not of the type of its operands";
  if (ShapedType::isDynamic(latent.getNumChannels()))
    return "the number of channels of a latent is not known";
  if (!cast<ShapedType>(product.getRhs().getType()).hasStaticShape())
    return "the number of columns of weights is not known";
  if (!latent.batch || !latent.positions)
    return "sizes of a latent are not known";
  // What is known of sizes is known on both sides.
  auto lhs = cast<ShapedType>(product.getLhs().getType());
  bool isBatchKnown = isa<Attribute>(latent.batch);
  bool areKeysKnown = isa<Attribute>(latent.positions);
  bool isConsistent =
      latent.getRank() == 3
          ? lhs.isDynamicDim(0) != isBatchKnown &&
                lhs.isDynamicDim(1) != areKeysKnown
          : lhs.isDynamicDim(0) != (isBatchKnown && areKeysKnown);
  return isConsistent ? "" : "sizes of a latent are not those of its heads";
}

Value Absorber::emitLatent(LatentHeads &latent) {
  SmallVector<OpFoldResult> sizes = {
      latent.batch, rewriter.getIndexAttr(1), latent.positions,
      rewriter.getIndexAttr(latent.getNumChannels())};
  SmallVector<int64_t> shape;
  SmallVector<Value> dynamicSizes;
  dispatchIndexOpFoldResults(sizes, dynamicSizes, shape);
  Type element = getElementTypeOrSelf(latent.product.getLhs());
  SmallVector<ReassociationIndices> groups = {{0, 1, 2}, {3}};
  if (latent.getRank() == 3)
    groups = getHeadGroups();
  return tensor::ExpandShapeOp::create(rewriter, op.getLoc(),
                                       RankedTensorType::get(shape, element),
                                       latent.product.getLhs(), groups, sizes);
}

/// What `[begin, begin + size)` of dimension `dim` of `tensor` is.
static Value emitSlice(RewriterBase &rewriter, Location loc, Value tensor,
                       int64_t dim, int64_t begin, int64_t size) {
  if (getDimSize(tensor, dim) == size)
    return tensor;
  if (auto concat = tensor.getDefiningOp<tensor::ConcatOp>();
      concat && int64_t(concat.getDim()) == dim) {
    int64_t first = 0;
    for (Value input : concat.getInputs()) {
      if (first == begin && getDimSize(input, dim) == size)
        return input;
      first += getDimSize(input, dim);
    }
  }
  SmallVector<OpFoldResult> sizes =
      tensor::getMixedSizes(rewriter, loc, tensor);
  SmallVector<OpFoldResult> offsets(sizes.size(), rewriter.getIndexAttr(0));
  SmallVector<OpFoldResult> strides(sizes.size(), rewriter.getIndexAttr(1));
  offsets[dim] = rewriter.getIndexAttr(begin);
  sizes[dim] = rewriter.getIndexAttr(size);
  return tensor::ExtractSliceOp::create(rewriter, loc, tensor, offsets, sizes,
                                        strides);
}

/// `source`, whose dimensions have the given coordinates or are of one, in the
/// form `[B, 1, S, x]` if that is a reshape.
static Value emitReshape(RewriterBase &rewriter, Location loc, Value source,
                         ArrayRef<std::optional<HeadCoordinate>> coordinates,
                         RankedTensorType type, ArrayRef<OpFoldResult> sizes) {
  // Dimensions of one belong to the group that was begun last.
  SmallVector<ReassociationIndices> groups;
  SmallVector<HeadCoordinate> order;
  for (auto [dim, coordinate] : llvm::enumerate(coordinates)) {
    bool isLeading = groups.size() == 1 && order.empty();
    if (groups.empty() || (coordinate && !isLeading))
      groups.emplace_back();
    groups.back().push_back(dim);
    if (coordinate)
      order.push_back(*coordinate);
  }
  SmallVector<ReassociationIndices> split;
  if (order == ArrayRef<HeadCoordinate>{Batch, Position, Channel})
    split = getHeadGroups();
  else if (order == ArrayRef<HeadCoordinate>{Position, Channel} &&
           type.getDimSize(0) == 1)
    split = {{0, 1, 2}, {3}};
  else
    return {};
  if (groups.size() != coordinates.size())
    source = tensor::CollapseShapeOp::create(rewriter, loc, source, groups);
  return tensor::ExpandShapeOp::create(rewriter, loc, type, source, split,
                                       sizes);
}

Value Absorber::emitShared(const HeadPart &part) {
  Location loc = op.getLoc();
  MLIRContext *context = rewriter.getContext();
  Value source = part.source;
  int64_t channels = part.end - part.begin;
  SmallVector<OpFoldResult> sizes = {keys.batch, rewriter.getIndexAttr(1),
                                     keys.positions,
                                     rewriter.getIndexAttr(channels)};
  SmallVector<std::optional<HeadCoordinate>> coordinates;
  SmallVector<AffineExpr> read;
  for (auto [dim, index] : llvm::enumerate(part.indices)) {
    if (index.terms.empty()) {
      // A number is that of all coordinates, as in a slice of one.
      coordinates.push_back(std::nullopt);
      read.push_back(rewriter.getAffineConstantExpr(0));
      source = emitSlice(rewriter, loc, source, dim, index.offset, 1);
      continue;
    }
    coordinates.push_back(index.terms.front().coordinate);
    read.push_back(rewriter.getAffineDimExpr(*coordinates.back()));
    if (coordinates.back() == Channel)
      source = emitSlice(rewriter, loc, source, dim, index.offset + part.begin,
                         channels);
  }
  SmallVector<int64_t> shape;
  SmallVector<Value> dynamicSizes;
  dispatchIndexOpFoldResults(sizes, dynamicSizes, shape);
  auto type = RankedTensorType::get(shape, getElementTypeOrSelf(source));
  ArrayRef<std::optional<HeadCoordinate>> order = coordinates;
  if (source.getType() == type && !order[1] &&
      (!order[0] || order[0] == Batch) && (!order[2] || order[2] == Position))
    return source;
  if (Value reshaped =
          emitReshape(rewriter, loc, source, coordinates, type, sizes))
    return reshaped;
  SmallVector<AffineMap> maps = {AffineMap::get(4, 0, read, context),
                                 AffineMap::getMultiDimIdentityMap(4, context)};
  SmallVector<utils::IteratorType> loops(4, utils::IteratorType::parallel);
  Value init =
      tensor::EmptyOp::create(rewriter, loc, sizes, type.getElementType());
  return linalg::GenericOp::create(
             rewriter, loc, type, source, init, maps, loops,
             [](OpBuilder &builder, Location loc, ValueRange arguments) {
               linalg::YieldOp::create(builder, loc, arguments.front());
             })
      ->getResult(0);
}

Value Absorber::emitWeights(LatentHeads &latent) {
  Location loc = op.getLoc();
  Value weights = latent.product.getRhs();
  bool isStoredTransposed = latent.product.getTransposeRhs();
  int64_t channels = latent.getNumHeadChannels();
  int64_t dim = isStoredTransposed ? 1 : 2;
  if (latent.isBatchOfHeads)
    return emitSlice(rewriter, loc, weights, dim, latent.column, channels);
  // Columns of whole heads, then the channels of each.
  int64_t heads = op.getNumKeyHeads();
  int64_t columns = heads * latent.stride;
  int64_t begin =
      std::min(latent.column, getDimSize(weights, dim - 1) - columns);
  if (columns <= getDimSize(weights, dim - 1) &&
      latent.column % latent.stride + channels <= latent.stride)
    begin = std::min(begin, latent.column / latent.stride * latent.stride);
  weights = emitSlice(rewriter, loc, weights, dim - 1, begin, columns);
  auto type = cast<RankedTensorType>(weights.getType());
  SmallVector<int64_t> shape = {type.getDimSize(0), heads, latent.stride};
  SmallVector<ReassociationIndices> groups = {{0}, {1, 2}};
  if (isStoredTransposed) {
    shape = {heads, latent.stride, type.getDimSize(1)};
    groups = {{0, 1}, {2}};
  }
  weights = tensor::ExpandShapeOp::create(rewriter, loc, type.clone(shape),
                                          weights, groups);
  weights =
      emitSlice(rewriter, loc, weights, dim, latent.column - begin, channels);
  return isStoredTransposed ? weights
                            : swapBatchAndHeads(rewriter, loc, weights);
}

Value Absorber::emitProduct(Value rows, LatentHeads &latent, bool isTransposed,
                            Type element) {
  Location loc = op.getLoc();
  Value weights = emitWeights(latent);
  bool isStoredTransposed = latent.product.getTransposeRhs();

  // `[H, B * S, x]`
  bool isSingle = getDimSize(rows, 0) == 1;
  SmallVector<ReassociationIndices> groups = getHeadGroups();
  if (!isSingle) {
    rows = swapBatchAndHeads(rewriter, loc, rows);
    groups = {{0}, {1, 2}, {3}};
  }
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, loc, rows);
  rows = tensor::CollapseShapeOp::create(rewriter, loc, rows, groups);
  SmallVector<OpFoldResult> outSizes =
      tensor::getMixedSizes(rewriter, loc, rows);
  int64_t channels =
      isTransposed ? latent.getNumChannels() : latent.getNumHeadChannels();
  sizes.back() = outSizes.back() = rewriter.getIndexAttr(channels);
  Value init = tensor::EmptyOp::create(rewriter, loc, outSizes, element);
  Value moved =
      MatmulOp::create(rewriter, loc, init.getType(), rows, weights, init,
                       /*transpose_lhs=*/false,
                       /*transpose_rhs=*/isTransposed != isStoredTransposed,
                       /*schedule=*/nullptr)
          .getResult();
  SmallVector<int64_t> shape;
  SmallVector<Value> dynamicSizes;
  dispatchIndexOpFoldResults(sizes, dynamicSizes, shape);
  Value result = tensor::ExpandShapeOp::create(
      rewriter, loc, RankedTensorType::get(shape, element), moved, groups,
      sizes);
  return isSingle ? result : swapBatchAndHeads(rewriter, loc, result);
}

Value Absorber::emitQuery(ArrayRef<HeadPart> parts) {
  SmallVector<Value> channels;
  for (const HeadPart &part : parts) {
    Value slice = emitSlice(rewriter, op.getLoc(), op.getQuery(), 3, part.begin,
                            part.end - part.begin);
    channels.push_back(isOfProduct(part)
                           ? emitProduct(slice, keys, /*isTransposed=*/true,
                                         getElementTypeOrSelf(op.getQuery()))
                           : slice);
  }
  if (channels.size() == 1)
    return channels.front();
  return tensor::ConcatOp::create(rewriter, op.getLoc(), /*dim=*/3, channels);
}

Value Absorber::emitKey(ArrayRef<HeadPart> parts) {
  Operation *previous = rewriter.getInsertionPoint()->getPrevNode();
  SmallVector<Value> channels;
  for (const HeadPart &part : parts)
    channels.push_back(isOfProduct(part) ? emitLatent(keys) : emitShared(part));
  if (channels.size() == 1)
    return channels.front();
  auto concat =
      tensor::ConcatOp::create(rewriter, op.getLoc(), /*dim=*/3, channels);
  // Parts of one tensor that stand side by side are a part of it.
  HeadSources sources(concat);
  HeadPart whole = sources.getParts().front();
  for (const HeadPart &part : sources.getParts())
    if (part.source != whole.source || part.indices != whole.indices)
      return concat;
  if (!getObstacle(sources, whole).empty())
    return concat;
  whole.end = sources.getParts().back().end;
  Value key = emitShared(whole);
  Operation *unused = concat;
  while (unused != previous && isOpTriviallyDead(unused)) {
    Operation *erased = unused;
    unused = unused->getPrevNode();
    rewriter.eraseOp(erased);
  }
  return key;
}

double Absorber::getSecondsBefore() {
  double result = getSeconds(keys.product) + getSeconds(op);
  if (values.product != keys.product)
    result += getSeconds(values.product);
  // Keys that are put together are a pass over memory.
  llvm::SetVector<Operation *> views;
  for (const HeadPart &part : keyParts)
    views.insert(part.views.begin(), part.views.end());
  for (Operation *view : views)
    if (isa<tensor::ConcatOp, tensor::InsertSliceOp>(view))
      result += getSeconds(view);
  return result;
}

/// Erases what keys and values are made by, as far as nothing uses it.
void Absorber::eraseViews(ArrayRef<HeadPart> parts) {
  llvm::SetVector<Operation *> views;
  for (const HeadPart &part : parts)
    views.insert(part.views.begin(), part.views.end());
  views.insert(keys.product);
  views.insert(values.product);
  for (bool hasErased = true; hasErased;) {
    hasErased = false;
    for (Operation *view : llvm::to_vector(views)) {
      if (!isOpTriviallyDead(view))
        continue;
      views.remove(view);
      rewriter.eraseOp(view);
      hasErased = true;
    }
  }
}

bool Absorber::run() {
  if (op.isBufferized())
    return false;
  if (!matchOperands())
    return false;
  for (LatentHeads *latent : {&keys, &values})
    if (StringRef obstacle = getObstacle(*latent); !obstacle.empty())
      return miss(obstacle);
  if (isUsedElsewhere())
    return miss("the result of one of them is used elsewhere, too");
  if (op.getHeadMap() || op.getNumQueryHeads() != op.getNumKeyHeads())
    return miss("query heads share keys, whose weights differ");
  if (op.hasSequences() || !op.getQueryRegion().empty() ||
      !op.getEpilogue().empty())
    return miss("attention has sequences, a query region or an epilogue");

  // Both forms, of which one is erased.
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Operation *previous = op->getPrevNode();
  Value query = emitQuery(keyParts);
  AttentionOp attention =
      createAttention(emitLatent(values), values.product.getLhs());
  Value latent;
  {
    OpBuilder::InsertionGuard inner(rewriter);
    rewriter.setInsertionPoint(attention);
    latent = emitKey(keyParts);
  }
  rewriter.modifyOpInPlace(attention, [&] {
    attention.getQueryMutable().assign(query);
    attention.getKeyMutable().assign(latent);
    attention.setScaleAttr(rewriter.getF32FloatAttr(op.getScaleOrDefault()));
  });
  Value result =
      emitProduct(attention->getResult(0), values,
                  /*isTransposed=*/false, getElementTypeOrSelf(op.getOut()));
  if (result.getType() != op->getResult(0).getType())
    result = tensor::CastOp::create(rewriter, op.getLoc(),
                                    op->getResult(0).getType(), result);

  double before = getSecondsBefore(), after = 0;
  SmallVector<Operation *> created;
  for (Operation *next = previous ? previous->getNextNode()
                                  : &op->getBlock()->front();
       next != op; next = next->getNextNode()) {
    created.push_back(next);
    after += getSeconds(next);
  }
  std::string times = llvm::formatv("it takes {0:f1} us with them, and {1:f1} "
                                    "us with products of queries and results",
                                    1e6 * before, 1e6 * after)
                          .str();
  bool isPossible = fits(attention);
  if (!isPossible || after >= before) {
    for (Operation *erased : llvm::reverse(created))
      rewriter.eraseOp(erased);
    return miss(isPossible ? times : "a latent has too many channels");
  }
  remark::passed(op.getLoc(), getRemarkOptions())
      << "attention is to the latents of keys and values: " + times;
  SmallVector<Value> results = {result};
  llvm::append_range(results, attention->getResults().drop_front());
  rewriter.replaceOp(op, results);
  keyParts.push_back(values.part);
  eraseViews(keyParts);
  return true;
}

namespace {
struct AttnReassociatePass
    : attn::impl::AttnReassociatePassBase<AttnReassociatePass> {
  using Base::Base;

  void runOnOperation() override {
    DeviceAttr device = getDevice(getOperation(), target);
    if (!device) {
      getOperation()->emitError("unknown target '")
          << target << "' (expected host, sm_80 or sm_90a)";
      return signalPassFailure();
    }
    DeviceFigures figures = device.getFigures();
    IRRewriter rewriter(&getContext());
    SmallVector<AttentionOp> attentions;
    getOperation()->walk([&](AttentionOp op) { attentions.push_back(op); });
    for (AttentionOp op : attentions)
      numReassociated += Absorber(rewriter, op, target, figures).run() ||
                         Reassociator(rewriter, op, target, figures).run();
  }
};
} // namespace
