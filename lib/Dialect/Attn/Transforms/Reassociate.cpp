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
    std::optional<OpCost> cost = getOpCost(operation, assumptions);
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

/// Keys or values of each head as the product of a latent, which all heads
/// share, with weights of the head.
struct LatentHeads {
  Value heads;
  /// Of `[B, S, r]` or `[B * S, r]` with `[r, H * d]`, or of `[S, r]` with
  /// `[H, r, d]`.
  MatmulOp product;
  bool isBatchOfHeads = false;
  /// Sizes of `heads`.
  SmallVector<OpFoldResult> sizes;
  /// Whether something else uses what is between the product and the heads.
  bool isUsedElsewhere = false;

  int64_t getRank() {
    return cast<ShapedType>(product.getLhs().getType()).getRank();
  }
  int64_t getNumChannels() {
    return getDimSize(product.getLhs(), product.getLhsDepthDim());
  }
};

/// Multiplies the queries and the result of one attention by the weights of
/// keys and values, so that it attends to their latents.
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
  std::optional<LatentHeads> match(Value heads);
  /// Why the product of `latent` cannot move, if it cannot.
  StringRef getObstacle(LatentHeads &latent);

  /// The latent as keys or values of one head.
  Value emitLatent(LatentHeads &latent);
  /// Multiplies rows of each head, `[B, H, S, x]`, by the weights of `latent`,
  /// or by what they are transposed.
  Value emitProduct(Value rows, LatentHeads &latent, bool isTransposed,
                    Type element);

  LatentHeads keys, values;
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

/// The source of `value`, if that is `[B, S, H, d]` as `[B, H, S, d]`.
static Value getSwappedHeads(Value value) {
  Value source;
  ArrayRef<int64_t> permutation;
  if (auto transpose = value.getDefiningOp<linalg::TransposeOp>()) {
    source = transpose.getInput();
    permutation = transpose.getPermutation();
  } else if (auto permute = value.getDefiningOp<PermuteOp>()) {
    source = permute.getSource();
    permutation = permute.getPermutation();
  }
  return permutation == ArrayRef<int64_t>{0, 2, 1, 3} ? source : Value();
}

std::optional<LatentHeads> Absorber::match(Value heads) {
  LatentHeads latent;
  latent.heads = heads;
  // Sizes are asked for without a use of the contents.
  auto noteUses = [&](Value value, Operation *next) {
    latent.isUsedElsewhere |=
        llvm::any_of(value.getUsers(), [&](Operation *user) {
          return user != next && !isa<tensor::DimOp>(user);
        });
  };
  Value value = heads;
  noteUses(value, op);
  Value swapped = getSwappedHeads(heads);
  if (swapped) {
    noteUses(swapped, heads.getDefiningOp());
    value = swapped;
  }
  SmallVector<tensor::ExpandShapeOp> splits;
  while (auto split = value.getDefiningOp<tensor::ExpandShapeOp>()) {
    splits.push_back(split);
    value = split.getSrc();
    noteUses(value, split);
  }
  latent.product = value.getDefiningOp<MatmulOp>();
  if (!latent.product || splits.empty())
    return std::nullopt;
  MatmulOp product = latent.product;
  bool isBatched = MatmulOp::isBatched(product.getLhs());
  bool hasWeightsOfHeads = MatmulOp::isBatched(product.getRhs());
  int64_t rank = cast<ShapedType>(product.getOut().getType()).getRank();
  // The dimension of `[B, S, H, d]`, or of `[B, H, S, d]`, that one of the
  // product begins with.
  auto getFirst = [&](int64_t dim) {
    for (tensor::ExpandShapeOp split : llvm::reverse(splits))
      dim = split.getReassociationIndices()[dim].front();
    return dim;
  };
  int64_t row = getFirst(rank - 2), column = getFirst(rank - 1);
  latent.sizes = splits.front().getMixedOutputShape();
  if (swapped) {
    if (hasWeightsOfHeads || column != 2 || row != (isBatched ? 1 : 0))
      return std::nullopt;
    std::swap(latent.sizes[1], latent.sizes[2]);
    return latent;
  }
  latent.isBatchOfHeads = true;
  if (isBatched || !hasWeightsOfHeads || column != 3 || row != 2 ||
      !isOneInteger(latent.sizes[0]))
    return std::nullopt;
  return latent;
}

StringRef Absorber::getObstacle(LatentHeads &latent) {
  MatmulOp product = latent.product;
  Type element = getElementTypeOrSelf(product.getLhs());
  if (!product.getEpilogue().empty() || product.getTransposeLhs())
    return "one of them has an epilogue, or is not of rows";
  if (getElementTypeOrSelf(product.getOut()) != element)
    return "one of them is not of the type of its operands";
  if (latent.isUsedElsewhere)
    return "the result of one of them is used elsewhere, too";
  if (ShapedType::isDynamic(latent.getNumChannels()))
    return "the number of channels of a latent is not known";
  // What is known of sizes is known on both sides.
  auto lhs = cast<ShapedType>(product.getLhs().getType());
  bool isBatchKnown = isa<Attribute>(latent.sizes[0]);
  bool areKeysKnown = isa<Attribute>(latent.sizes[2]);
  bool isConsistent =
      latent.getRank() == 3
          ? lhs.isDynamicDim(0) != isBatchKnown &&
                lhs.isDynamicDim(1) != areKeysKnown
          : lhs.isDynamicDim(0) != (isBatchKnown && areKeysKnown);
  return isConsistent ? "" : "sizes of a latent are not those of its heads";
}

Value Absorber::emitLatent(LatentHeads &latent) {
  SmallVector<OpFoldResult> sizes = latent.sizes;
  sizes[1] = rewriter.getIndexAttr(1);
  sizes[3] = rewriter.getIndexAttr(latent.getNumChannels());
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

Value Absorber::emitProduct(Value rows, LatentHeads &latent, bool isTransposed,
                            Type element) {
  Location loc = op.getLoc();
  MatmulOp product = latent.product;
  // Weights of each head, `[H, r, d]`, or `[H, d, r]` as they are stored.
  Value weights = product.getRhs();
  bool isStoredTransposed = product.getTransposeRhs();
  if (!latent.isBatchOfHeads) {
    int64_t heads = op.getNumKeyHeads();
    int64_t channels = getDimSize(latent.heads, 3);
    auto type = cast<RankedTensorType>(weights.getType());
    SmallVector<int64_t> shape = {type.getDimSize(0), heads, channels};
    SmallVector<ReassociationIndices> groups = {{0}, {1, 2}};
    if (isStoredTransposed) {
      shape = {heads, channels, type.getDimSize(1)};
      groups = {{0, 1}, {2}};
    }
    weights = tensor::ExpandShapeOp::create(rewriter, loc, type.clone(shape),
                                            weights, groups);
    if (!isStoredTransposed)
      weights = swapBatchAndHeads(rewriter, loc, weights);
  }

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
      isTransposed ? latent.getNumChannels() : getDimSize(latent.heads, 3);
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

/// Erases what `heads` are made by, up to the product, as far as nothing uses
/// it.
static void eraseHeads(RewriterBase &rewriter, LatentHeads &latent) {
  Operation *next = latent.heads.getDefiningOp();
  while (isOpTriviallyDead(next)) {
    Operation *erased = next;
    bool isProduct = next == latent.product;
    if (!isProduct)
      next = next->getOperand(0).getDefiningOp();
    rewriter.eraseOp(erased);
    if (isProduct)
      return;
  }
}

bool Absorber::run() {
  if (op.isBufferized())
    return false;
  std::optional<LatentHeads> key = match(op.getKey());
  if (!key)
    return false;
  keys = *key;
  std::optional<LatentHeads> value = match(op.getValue());
  if (!value)
    return miss("values are no product of what all heads share");
  values = *value;
  for (LatentHeads *latent : {&keys, &values})
    if (StringRef obstacle = getObstacle(*latent); !obstacle.empty())
      return miss(obstacle);
  if (op.getHeadMap() || op.getNumQueryHeads() != op.getNumKeyHeads())
    return miss("query heads share keys, whose weights differ");
  if (op.hasSequences() || !op.getQueryRegion().empty() ||
      !op.getEpilogue().empty())
    return miss("attention has sequences, a query region or an epilogue");

  // Both forms, of which one is erased.
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Operation *previous = op->getPrevNode();
  Value query = emitProduct(op.getQuery(), keys, /*isTransposed=*/true,
                            getElementTypeOrSelf(op.getQuery()));
  AttentionOp attention =
      createAttention(emitLatent(values), values.product.getLhs());
  Value latent;
  {
    OpBuilder::InsertionGuard inner(rewriter);
    rewriter.setInsertionPoint(attention);
    latent = emitLatent(keys);
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

  double before = getSeconds(keys.product) + getSeconds(op), after = 0;
  if (values.product != keys.product)
    before += getSeconds(values.product);
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
  bool isOneProduct = keys.heads == values.heads;
  eraseHeads(rewriter, keys);
  if (!isOneProduct)
    eraseHeads(rewriter, values);
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
