//===- Reassociate.cpp - Matmuls of values after attention ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces A (X W) by (A X) W, and Q (C W)^T by (Q W^T) C^T, where that takes
// less time. The values of all heads may be columns of one matmul, of rows that
// all heads share: latents of keys and values ("DeepSeek-V2: A Strong,
// Economical, and Efficient Mixture-of-Experts Language Model"), or rows that
// are keys themselves, as the features of attentive probing are.
//
//===----------------------------------------------------------------------===//

#include "HeadSources.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Fusion/Passes.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "attn/Interfaces/Target.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/Scheduling/ForwardSchedules.h"
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
#include "attn/Fusion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

static remark::RemarkOpts getRemarkOptions() {
  return remark::RemarkOpts::name("reassociate").category("attn-reassociate");
}

namespace {
/// The common part of both reassociations of one attention.
class Reassociation {
protected:
  Reassociation(RewriterBase &rewriter, AttentionOp op, const Target &target,
                const DeviceModel &device)
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

  /// Whether kernels support `attention`.
  bool fits(AttentionOp attention) {
    return target.supportsHeadDim(attention.getQKHeadDim()) &&
           target.supportsHeadDim(attention.getVHeadDim()) &&
           !getBestSchedules(attention, target, device, 1).empty();
  }

  /// Attention to `values`, which returns the element type of `like`.
  AttentionOp createAttention(Value values, Value like);

  RewriterBase &rewriter;
  AttentionOp op;
  const Target &target;
  const DeviceModel &device;
  CostAssumptions assumptions;
};

/// Moves the matmul that computes the values of one attention.
class Reassociator : Reassociation {
public:
  Reassociator(RewriterBase &rewriter, AttentionOp op, const Target &target,
               const DeviceModel &device)
      : Reassociation(rewriter, op, target, device) {}

  /// Returns whether it did.
  bool run();

private:
  /// Reports why the matmul stays.
  bool miss(const Twine &why);
  /// Finds the matmul.
  bool matchMatmul();
  /// Why the matmul cannot move; empty if it can.
  StringRef getObstacle();
  /// The input of the matmul as values of each head.
  Value emitValues();
  /// Multiplies the result of `attention` by the matrix of the matmul.
  MatmulOp emitMatmul(AttentionOp attention);

  tensor::ExpandShapeOp split;
  MatmulOp matmul;
};

/// Keys or values of each head, or a part of the head dim, as the matmul of a
/// latent, which all heads share, with a matrix of the head.
struct LatentHeads {
  /// The part of the head dim that the matmul computes.
  HeadPart part;
  /// Of `[B, S, r]` or `[B * S, r]` with `[r, N]`, or of `[S, r]` with
  /// `[H, r, N]`.
  MatmulOp matmul;
  bool isBatchOfHeads = false;
  /// The column, of `N`, of the first element of the first head, and the number
  /// of columns from one head to the next.
  int64_t column = 0, stride = 0;
  /// Sizes of batch and positions; null where they are not known.
  OpFoldResult batch, positions;

  int64_t getRank() {
    return cast<ShapedType>(matmul.getLhs().getType()).getRank();
  }
  int64_t getLatentDim() {
    return getDimSize(matmul.getLhs(), matmul.getLhsDepthDim());
  }
  int64_t getHeadDim() const { return part.end - part.begin; }
};

/// Multiplies the queries and the result of one attention by the matrices of
/// keys and values, so that it attends to their latents. The part of the keys
/// that all heads share is concatenated to the latent. If they share all of the
/// keys, the result alone is multiplied.
class Absorber : Reassociation {
public:
  Absorber(RewriterBase &rewriter, AttentionOp op, const Target &target,
           const DeviceModel &device)
      : Reassociation(rewriter, op, target, device) {}

  /// Returns whether it did.
  bool run();

private:
  /// Reports why the matmuls stay.
  bool miss(const Twine &why);
  /// The part of heads as a matmul of a latent, if it is one.
  std::optional<LatentHeads> match(const HeadSources &heads,
                                   const HeadPart &part);
  /// Finds the matmul of a latent that a part of the keys is; whether there is
  /// at most one.
  bool matchKeys(const HeadSources &key);
  /// Finds the matmul of the values.
  bool matchValues();
  /// Finds the matmuls, and the part of the keys that all heads share.
  bool matchOperands();
  /// The latents that are multiplied by matrices.
  SmallVector<LatentHeads *> getLatents();
  /// Why query heads cannot have the matrices of their own heads; empty if they
  /// can.
  StringRef getObstacleOfHeads();
  /// Why a part that all heads share cannot be concatenated to a latent; empty
  /// if it can.
  StringRef getObstacle(const HeadSources &heads, const HeadPart &part);
  /// Why the matmul of `latent` cannot move; empty if it can.
  StringRef getObstacle(LatentHeads &latent);
  /// Whether something else uses a value between a matmul and the heads.
  bool isUsedElsewhere();
  /// Whether the latent of values is the beginning of the keys that attention
  /// to latents has, so that its values are a slice of its keys: kernels read
  /// these once (`hasValuesInKeys`).
  bool doKeysBeginWithValues();
  /// Seconds of the matmuls, of the concatenation of keys, and of attention.
  double getSecondsBefore();
  /// Whether the matmuls can move; reports why not.
  bool matches();

  /// Attention to the latents.
  AttentionOp emitAttention();
  /// The latent as keys or values of one head.
  Value emitLatent(LatentHeads &latent);
  /// The part that all heads share, as keys of one head.
  Value emitShared(const HeadPart &part);
  /// The matrix of each head, `[H, r, d]`, or `[H, d, r]` as it is stored.
  Value emitWeights(LatentHeads &latent);
  /// Multiplies rows of each head, `[B, H, S, x]`, by the matrices of `latent`,
  /// or by their transposes.
  Value emitMatmul(Value rows, LatentHeads &latent, bool isTransposed,
                   Type element);
  /// Queries for keys with `parts`, of which a matmul is replaced by its
  /// latent.
  Value emitQuery(ArrayRef<HeadPart> parts);
  Value emitKey(ArrayRef<HeadPart> parts);
  bool isOfMatmul(const HeadPart &part) {
    return keys.matmul && part.begin == keys.part.begin;
  }
  void eraseViews(ArrayRef<HeadPart> parts);

  /// Keys that all heads share have no matmul.
  LatentHeads keys, values;
  /// Sorted by the head dim.
  SmallVector<HeadPart> keyParts;
};
} // namespace

/// Batch and heads in one dimension, then rows and the head dim.
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
  remark::missed(matmul.getLoc(), getRemarkOptions())
      << ("the matmul stays before attention: " + why).str();
  return false;
}

bool Reassociator::matchMatmul() {
  split = op.getValue().getDefiningOp<tensor::ExpandShapeOp>();
  if (!split || split.getReassociationIndices() != getHeadGroups() ||
      op->getNumResults() == 0)
    return false;
  matmul = split.getSrc().getDefiningOp<MatmulOp>();
  return matmul && MatmulOp::isBatched(matmul.getLhs());
}

StringRef Reassociator::getObstacle() {
  if (!matmul.getEpilogue().empty() || matmul.getTransposeLhs())
    return "it has an epilogue, or is not of rows";
  if (!split.getResult().hasOneUse() ||
      !llvm::all_of(split.getSrc().getUsers(), [&](Operation *user) {
        return user == split || isa<tensor::DimOp>(user);
      }))
    return "its result is used elsewhere, too";
  if (op.readsKeyLengths() || !op.getEpilogue().empty())
    return "attention has lengths or an epilogue";
  if (isFloat8(getElementTypeOrSelf(op.getOut())))
    return "attention rounds its output to 8 bits";
  if (op.getStateOut())
    return "attention goes on from a state, which has the head dim of values";
  if (getElementTypeOrSelf(matmul.getOut()) !=
      getElementTypeOrSelf(matmul.getLhs()))
    return "it is not of the type of its operands";
  bool isWeightShared = !MatmulOp::isBatched(matmul.getRhs());
  if (!isWeightShared &&
      (op.getHeadMap() || op.getNumQueryHeads() != op.getNumValueHeads()))
    return "query heads share values, whose weights differ";
  if (ShapedType::isDynamic(
          getDimSize(matmul.getLhs(), matmul.getLhsDepthDim())))
    return "the number of columns of its input is not known";
  return "";
}

Value Reassociator::emitValues() {
  Location loc = matmul.getLoc();
  int64_t depth = getDimSize(matmul.getLhs(), matmul.getLhsDepthDim());
  SmallVector<OpFoldResult> sizes =
      tensor::getMixedSizes(rewriter, loc, op.getKey());
  sizes[1] = rewriter.getIndexAttr(op.getNumValueHeads());
  sizes.back() = rewriter.getIndexAttr(depth);
  auto valueType = cast<RankedTensorType>(op.getValue().getType());
  SmallVector<int64_t> shape(valueType.getShape());
  shape.back() = depth;
  return tensor::ExpandShapeOp::create(rewriter, loc, valueType.clone(shape),
                                       matmul.getLhs(), getHeadGroups(), sizes);
}

MatmulOp Reassociator::emitMatmul(AttentionOp attention) {
  Location loc = matmul.getLoc();
  auto rows = tensor::CollapseShapeOp::create(
      rewriter, loc, attention->getResult(0), getHeadGroups());
  SmallVector<OpFoldResult> outSizes =
      tensor::getMixedSizes(rewriter, loc, rows);
  outSizes.back() = rewriter.getIndexAttr(op.getVHeadDim());
  Value init = tensor::EmptyOp::create(rewriter, loc, outSizes,
                                       getElementTypeOrSelf(op.getOut()));
  return MatmulOp::create(rewriter, loc, init.getType(), rows, matmul.getRhs(),
                          init,
                          /*transpose_lhs=*/false, matmul.getTransposeRhs(),
                          matmul.getPrecisionAttr(), /*schedule=*/nullptr);
}

bool Reassociator::run() {
  if (!matchMatmul())
    return false;
  if (StringRef obstacle = getObstacle(); !obstacle.empty())
    return miss(obstacle);

  // Both forms, of which one is erased.
  Location loc = matmul.getLoc();
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Value values = emitValues();
  AttentionOp attention = createAttention(values, matmul.getLhs());
  MatmulOp moved = emitMatmul(attention);
  auto result = tensor::ExpandShapeOp::create(
      rewriter, loc, op->getResult(0).getType(), moved.getResult(),
      getHeadGroups(), tensor::getMixedSizes(rewriter, loc, op.getOut()));

  double before = getSeconds(matmul) + getSeconds(op);
  double after = getSeconds(attention) + getSeconds(moved);
  bool isPossible = fits(attention);
  std::string times = llvm::formatv("it takes {0:f1} us with attention, and "
                                    "{1:f1} us after it",
                                    1e6 * before, 1e6 * after)
                          .str();
  if (!isPossible || after >= before) {
    Operation *ops[] = {result, moved, moved.getLhs().getDefiningOp(),
                        attention, values.getDefiningOp()};
    for (Operation *erased : ops)
      rewriter.eraseOp(erased);
    return miss(isPossible ? times : "its input has too many columns");
  }
  remark::passed(loc, getRemarkOptions())
      << "the matmul moved after attention: " + times;
  SmallVector<Value> results = {result.getResult()};
  llvm::append_range(results, attention->getResults().drop_front());
  rewriter.replaceOp(op, results);
  return true;
}

//===----------------------------------------------------------------------===//
// Keys and values
//===----------------------------------------------------------------------===//

bool Absorber::miss(const Twine &why) {
  StringRef what = keys.matmul ? "the matmuls of keys and values stay: "
                               : "the matmul of values stays: ";
  MatmulOp matmul = keys.matmul ? keys.matmul : values.matmul;
  remark::missed(matmul.getLoc(), getRemarkOptions()) << (what + why).str();
  return false;
}

SmallVector<LatentHeads *> Absorber::getLatents() {
  SmallVector<LatentHeads *> latents = {&values};
  if (keys.matmul)
    latents.insert(latents.begin(), &keys);
  return latents;
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
  latent.matmul = part.source.getDefiningOp<MatmulOp>();
  if (!latent.matmul)
    return std::nullopt;
  MatmulOp matmul = latent.matmul;
  HeadIndex batch = heads.getIndex(Batch), head = heads.getIndex(Head),
            position = heads.getIndex(Position);
  latent.batch = heads.getMixedSize(Batch);
  latent.positions = heads.getMixedSize(Position);
  bool isBatched = MatmulOp::isBatched(matmul.getLhs());
  latent.isBatchOfHeads = MatmulOp::isBatched(matmul.getRhs());
  ArrayRef<HeadIndex> indices = part.indices;
  HeadIndex column = indices.back();
  if (!heads.isSingle(HeadDim) && column.getStride(HeadDim) != 1)
    return std::nullopt;
  latent.column = column.offset + part.begin;
  if (latent.isBatchOfHeads) {
    if (isBatched || !heads.isSingle(Batch) || indices[0] != head ||
        indices[1] != position || column.getStride(Head) != 0 ||
        getDimSize(matmul.getOut(), 0) != heads.getSize(Head))
      return std::nullopt;
    return latent;
  }
  HeadIndex ofHeads, expected = heads.getIndex(HeadDim);
  ofHeads.terms = head.terms;
  latent.stride = getDimSize(matmul.getOut(), indices.size() - 1);
  if (!ofHeads.terms.empty())
    latent.stride = ofHeads.terms.front().stride = column.getStride(Head);
  expected.add(ofHeads);
  expected.offset = column.offset;
  if (column != expected || latent.stride <= 0)
    return std::nullopt;
  int64_t columns = getDimSize(matmul.getOut(), indices.size() - 1);
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
      heads.getIndex(Batch), heads.getIndex(Position), heads.getIndex(HeadDim)};
  for (HeadIndex index : part.indices) {
    if (index.terms.empty())
      continue;
    if (index.getStride(HeadDim) != 0)
      index.offset = 0;
    HeadIndex *found = llvm::find(expected, index);
    if (found == expected.end())
      return "the part of keys that all heads share is reshaped";
    expected.erase(found);
  }
  auto type = cast<RankedTensorType>(part.source.getType());
  for (auto [dim, index] : llvm::enumerate(part.indices))
    for (HeadCoordinate coordinate : {Batch, Position})
      if (index.getStride(coordinate) != 0 &&
          type.getDimSize(dim) != heads.getSize(coordinate))
        return "sizes of the part of keys that all heads share are not known";
  bool isSpread = llvm::any_of(
      expected, [](const HeadIndex &index) { return !index.terms.empty(); });
  return isSpread ? "the part of keys that all heads share is broadcast" : "";
}

bool Absorber::matchKeys(const HeadSources &key) {
  llvm::append_range(keyParts, key.getParts());
  // Keys of one head that heads of values share stay keys, also if they are a
  // matmul.
  if (op.getNumKeyHeads() == 1 && op.getNumValueHeads() > 1)
    return true;
  for (const HeadPart &part : keyParts) {
    std::optional<LatentHeads> latent = match(key, part);
    if (!latent)
      continue;
    if (keys.matmul)
      return false;
    keys = *latent;
  }
  return true;
}

bool Absorber::matchValues() {
  HeadSources value(op.getValue());
  if (value.getParts().size() != 1)
    return false;
  std::optional<LatentHeads> latent = match(value, value.getParts().front());
  if (latent)
    values = *latent;
  return latent.has_value();
}

bool Absorber::matchOperands() {
  HeadSources key(op.getKey());
  if (!matchKeys(key))
    return false;
  bool areValuesLatent = matchValues();
  if (!keys.matmul) {
    // Most attention has keys by head, or values that are no matmul.
    if (!areValuesLatent || op.getNumValueHeads() == 1 ||
        llvm::any_of(keyParts,
                     [](const HeadPart &part) { return part.isUsedByHead(); }))
      return false;
  }
  for (const HeadPart &part : keyParts) {
    if (isOfMatmul(part))
      continue;
    if (part.isUsedByHead())
      return miss("keys have another part that differs from head to head");
    if (StringRef obstacle = getObstacle(key, part); !obstacle.empty())
      return miss(obstacle);
  }
  return areValuesLatent ||
         miss("values are no matmul of a latent that all heads share");
}

bool Absorber::isUsedElsewhere() {
  llvm::SmallPtrSet<Operation *, 16> users = {op};
  SmallVector<Operation *> made;
  for (LatentHeads *latent : getLatents()) {
    users.insert(latent->part.views.begin(), latent->part.views.end());
    llvm::append_range(made, latent->part.views);
    made.push_back(latent->matmul);
  }
  // Sizes are asked for without a use of the contents.
  return llvm::any_of(made, [&](Operation *operation) {
    return llvm::any_of(operation->getUsers(), [&](Operation *user) {
      return !users.contains(user) && !isa<tensor::DimOp>(user);
    });
  });
}

StringRef Absorber::getObstacle(LatentHeads &latent) {
  MatmulOp matmul = latent.matmul;
  Type element = getElementTypeOrSelf(matmul.getLhs());
  if (!matmul.getEpilogue().empty() || matmul.getTransposeLhs())
    return "one of them has an epilogue, or is not of rows";
  if (getElementTypeOrSelf(matmul.getOut()) != element)
    return "one of them is not of the type of its operands";
  if (ShapedType::isDynamic(latent.getLatentDim()))
    return "the number of columns of a latent is not known";
  if (!cast<ShapedType>(matmul.getRhs().getType()).hasStaticShape())
    return "the number of columns of weights is not known";
  if (!latent.batch || !latent.positions)
    return "sizes of a latent are not known";
  // Sizes must be known on both sides, or on neither.
  auto lhs = cast<ShapedType>(matmul.getLhs().getType());
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
      rewriter.getIndexAttr(latent.getLatentDim())};
  SmallVector<int64_t> shape;
  SmallVector<Value> dynamicSizes;
  dispatchIndexOpFoldResults(sizes, dynamicSizes, shape);
  Type element = getElementTypeOrSelf(latent.matmul.getLhs());
  SmallVector<ReassociationIndices> groups = {{0, 1, 2}, {3}};
  if (latent.getRank() == 3)
    groups = getHeadGroups();
  return tensor::ExpandShapeOp::create(rewriter, op.getLoc(),
                                       RankedTensorType::get(shape, element),
                                       latent.matmul.getLhs(), groups, sizes);
}

static Value createSlice(RewriterBase &rewriter, Location loc, Value tensor,
                         int64_t dim, int64_t begin, int64_t size) {
  SmallVector<OpFoldResult> sizes =
      tensor::getMixedSizes(rewriter, loc, tensor);
  SmallVector<OpFoldResult> offsets(sizes.size(), rewriter.getIndexAttr(0));
  SmallVector<OpFoldResult> strides(sizes.size(), rewriter.getIndexAttr(1));
  offsets[dim] = rewriter.getIndexAttr(begin);
  sizes[dim] = rewriter.getIndexAttr(size);
  return tensor::ExtractSliceOp::create(rewriter, loc, tensor, offsets, sizes,
                                        strides);
}

/// The slice `[begin, begin + size)` of dimension `dim` of `tensor`.
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
  return createSlice(rewriter, loc, tensor, dim, begin, size);
}

/// `source` in the form `[B, 1, S, x]`, if that is a reshape. Its dimensions
/// have the given coordinates or are of size one.
static Value emitReshape(RewriterBase &rewriter, Location loc, Value source,
                         ArrayRef<std::optional<HeadCoordinate>> coordinates,
                         RankedTensorType type, ArrayRef<OpFoldResult> sizes) {
  // Dimensions of size one belong to the group that was begun last.
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
  if (order == ArrayRef<HeadCoordinate>{Batch, Position, HeadDim})
    split = getHeadGroups();
  else if (order == ArrayRef<HeadCoordinate>{Position, HeadDim} &&
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
  int64_t headDim = part.end - part.begin;
  SmallVector<OpFoldResult> sizes = {values.batch, rewriter.getIndexAttr(1),
                                     values.positions,
                                     rewriter.getIndexAttr(headDim)};
  SmallVector<std::optional<HeadCoordinate>> coordinates;
  SmallVector<AffineExpr> read;
  for (auto [dim, index] : llvm::enumerate(part.indices)) {
    if (index.terms.empty()) {
      // A constant index is the same for all coordinates, as in a slice of size
      // one.
      coordinates.push_back(std::nullopt);
      read.push_back(rewriter.getAffineConstantExpr(0));
      source = emitSlice(rewriter, loc, source, dim, index.offset, 1);
      continue;
    }
    coordinates.push_back(index.terms.front().coordinate);
    read.push_back(rewriter.getAffineDimExpr(*coordinates.back()));
    if (coordinates.back() == HeadDim)
      source = emitSlice(rewriter, loc, source, dim, index.offset + part.begin,
                         headDim);
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
  Value weights = latent.matmul.getRhs();
  bool isStoredTransposed = latent.matmul.getTransposeRhs();
  int64_t headDim = latent.getHeadDim();
  int64_t dim = isStoredTransposed ? 1 : 2;
  if (latent.isBatchOfHeads)
    return emitSlice(rewriter, loc, weights, dim, latent.column, headDim);
  // Columns of whole heads, then the head dim of each.
  int64_t heads = op.getNumQueryHeads();
  int64_t columns = heads * latent.stride;
  int64_t begin =
      std::min(latent.column, getDimSize(weights, dim - 1) - columns);
  if (columns <= getDimSize(weights, dim - 1) &&
      latent.column % latent.stride + headDim <= latent.stride)
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
      emitSlice(rewriter, loc, weights, dim, latent.column - begin, headDim);
  return isStoredTransposed ? weights
                            : swapBatchAndHeads(rewriter, loc, weights);
}

Value Absorber::emitMatmul(Value rows, LatentHeads &latent, bool isTransposed,
                           Type element) {
  Location loc = op.getLoc();
  Value weights = emitWeights(latent);
  bool isStoredTransposed = latent.matmul.getTransposeRhs();

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
  int64_t columns = isTransposed ? latent.getLatentDim() : latent.getHeadDim();
  sizes.back() = outSizes.back() = rewriter.getIndexAttr(columns);
  Value init = tensor::EmptyOp::create(rewriter, loc, outSizes, element);
  Value moved =
      MatmulOp::create(rewriter, loc, init.getType(), rows, weights, init,
                       /*transpose_lhs=*/false,
                       /*transpose_rhs=*/isTransposed != isStoredTransposed,
                       latent.matmul.getPrecisionAttr(), /*schedule=*/nullptr)
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
  SmallVector<Value> slices;
  for (const HeadPart &part : parts) {
    Value slice = emitSlice(rewriter, op.getLoc(), op.getQuery(), 3, part.begin,
                            part.end - part.begin);
    slices.push_back(isOfMatmul(part)
                         ? emitMatmul(slice, keys, /*isTransposed=*/true,
                                      getElementTypeOrSelf(op.getQuery()))
                         : slice);
  }
  if (slices.size() == 1)
    return slices.front();
  return tensor::ConcatOp::create(rewriter, op.getLoc(), /*dim=*/3, slices);
}

Value Absorber::emitKey(ArrayRef<HeadPart> parts) {
  Operation *previous = rewriter.getInsertionPoint()->getPrevNode();
  SmallVector<Value> slices;
  for (const HeadPart &part : parts)
    slices.push_back(isOfMatmul(part) ? emitLatent(keys) : emitShared(part));
  if (slices.size() == 1)
    return slices.front();
  auto concat =
      tensor::ConcatOp::create(rewriter, op.getLoc(), /*dim=*/3, slices);
  // Adjacent parts of one tensor are a part of it.
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

bool Absorber::doKeysBeginWithValues() {
  return keys.matmul && keyParts.size() > 1 && isOfMatmul(keyParts.front()) &&
         keys.matmul.getLhs() == values.matmul.getLhs();
}

double Absorber::getSecondsBefore() {
  double result = getSeconds(values.matmul) + getSeconds(op);
  if (keys.matmul && keys.matmul != values.matmul)
    result += getSeconds(keys.matmul);
  // A concatenation of keys is a pass over memory.
  llvm::SetVector<Operation *> views;
  for (const HeadPart &part : keyParts)
    views.insert(part.views.begin(), part.views.end());
  for (Operation *view : views)
    if (isa<tensor::ConcatOp, tensor::InsertSliceOp>(view))
      result += getSeconds(view);
  return result;
}

/// Erases the operations that compute keys and values, unless they are used.
void Absorber::eraseViews(ArrayRef<HeadPart> parts) {
  llvm::SetVector<Operation *> views;
  for (const HeadPart &part : parts)
    views.insert(part.views.begin(), part.views.end());
  for (LatentHeads *latent : getLatents())
    views.insert(latent->matmul);
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

StringRef Absorber::getObstacleOfHeads() {
  if (keys.matmul && op.getNumQueryHeads() != op.getNumKeyHeads())
    return "query heads share keys, whose weights differ";
  if (op.getHeadMap())
    return "query heads are mapped to others, whose weights differ";
  if (op.getNumQueryHeads() != op.getNumValueHeads())
    return "query heads share values, whose weights differ";
  return "";
}

bool Absorber::matches() {
  if (op.isBufferized() || !matchOperands())
    return false;
  for (LatentHeads *latent : getLatents())
    if (StringRef obstacle = getObstacle(*latent); !obstacle.empty())
      return miss(obstacle);
  if (isUsedElsewhere())
    return miss(keys.matmul ? "the result of one of them is used elsewhere, too"
                            : "its result is used elsewhere, too");
  if (StringRef obstacle = getObstacleOfHeads(); !obstacle.empty())
    return miss(obstacle);
  if (op.readsKeyLengths() || !op.getQueryRegion().empty() ||
      !op.getEpilogue().empty())
    return miss("attention has lengths, a query region or an epilogue");
  if (isFloat8(getElementTypeOrSelf(op.getOut())))
    return miss("attention rounds its output to 8 bits");
  if (op.getStateOut())
    return miss(
        "attention goes on from a state, which has the head dim of values");
  return true;
}

AttentionOp Absorber::emitAttention() {
  Value query = emitQuery(keyParts);
  AttentionOp attention =
      createAttention(emitLatent(values), values.matmul.getLhs());
  Value latent, value = attention.getValue();
  {
    OpBuilder::InsertionGuard inner(rewriter);
    rewriter.setInsertionPoint(attention);
    latent = emitKey(keyParts);
    if (doKeysBeginWithValues())
      value = createSlice(rewriter, op.getLoc(), latent, /*dim=*/3,
                          /*begin=*/0, values.getLatentDim());
  }
  Operation *unused = attention.getValue().getDefiningOp();
  rewriter.modifyOpInPlace(attention, [&] {
    attention.getQueryMutable().assign(query);
    attention.getKeyMutable().assign(latent);
    attention.getValueMutable().assign(value);
    attention.setScaleAttr(rewriter.getF32FloatAttr(op.getScaleOrDefault()));
  });
  if (unused && isOpTriviallyDead(unused))
    rewriter.eraseOp(unused);
  return attention;
}

bool Absorber::run() {
  if (!matches())
    return false;

  // Both forms, of which one is erased.
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Operation *previous = op->getPrevNode();
  AttentionOp attention = emitAttention();
  Value result =
      emitMatmul(attention->getResult(0), values,
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
  std::string times =
      llvm::formatv("it takes {0:f1} us with {2}, and {1:f1} us with {3}",
                    1e6 * before, 1e6 * after, keys.matmul ? "them" : "it",
                    keys.matmul ? "matmuls of queries and results"
                                : "a matmul of results")
          .str();
  bool isPossible = fits(attention);
  if (!isPossible || after >= before) {
    for (Operation *erased : llvm::reverse(created))
      rewriter.eraseOp(erased);
    return miss(isPossible ? times : "a latent has too many columns");
  }
  remark::passed(op.getLoc(), getRemarkOptions())
      << (keys.matmul ? "attention is to the latents of keys and values: "
                      : "attention is to the rows that values are a matmul "
                        "of: ") +
             times;
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
    FailureOr<const Target *> found = lookupTarget(getOperation(), target);
    if (failed(found))
      return signalPassFailure();
    FailureOr<DeviceModel> device = getDeviceModel(getOperation(), **found);
    if (failed(device))
      return signalPassFailure();
    IRRewriter rewriter(&getContext());
    SmallVector<AttentionOp> attentions;
    getOperation()->walk([&](AttentionOp op) { attentions.push_back(op); });
    for (AttentionOp op : attentions)
      numReassociated += Absorber(rewriter, op, **found, *device).run() ||
                         Reassociator(rewriter, op, **found, *device).run();
  }
};
} // namespace
