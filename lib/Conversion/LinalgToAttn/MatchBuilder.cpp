//===- MatchBuilder.cpp - Operands and results of matches -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Transposes, collapses and expands dimensions.
//
//===----------------------------------------------------------------------===//

#include "MatchBuilder.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Reshapes
//===----------------------------------------------------------------------===//

/// `source` with its dimensions in the order `permutation`.
static Value transpose(OpBuilder &builder, Location loc, Value source,
                       ArrayRef<int64_t> permutation) {
  if (llvm::is_sorted(permutation))
    return source;
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, loc, source);
  SmallVector<OpFoldResult> permuted;
  for (int64_t dim : permutation)
    permuted.push_back(sizes[dim]);
  Value init = tensor::EmptyOp::create(builder, loc, permuted,
                                       getElementTypeOrSelf(source.getType()));
  return linalg::TransposeOp::create(builder, loc, source, init, permutation)
      ->getResult(0);
}

/// Reshapes `source` to a dimension for each of `groups`, which count
/// consecutive dimensions of it. An empty group becomes a size of one.
static Value group(OpBuilder &builder, Location loc, Value source,
                   ArrayRef<int64_t> groups) {
  // Existing dimensions are collapsed first, then sizes of one are added.
  auto type = cast<RankedTensorType>(source.getType());
  SmallVector<ReassociationIndices> collapsed, expanded;
  int64_t next = 0;
  ReassociationIndices pending;
  SmallVector<int64_t> shape;
  for (auto [dim, count] : llvm::enumerate(groups)) {
    pending.push_back(dim);
    if (count == 0) {
      shape.push_back(1);
      continue;
    }
    int64_t size = 1;
    collapsed.emplace_back();
    for (int64_t end = next + count; next < end; ++next) {
      collapsed.back().push_back(next);
      int64_t factor = type.getDimSize(next);
      size = ShapedType::isDynamic(size) || ShapedType::isDynamic(factor)
                 ? ShapedType::kDynamic
                 : size * factor;
    }
    shape.push_back(size);
    expanded.push_back(pending);
    pending.clear();
  }
  if (!expanded.empty())
    llvm::append_range(expanded.back(), pending);
  if (llvm::any_of(collapsed, [](auto &dims) { return dims.size() > 1; }))
    source = tensor::CollapseShapeOp::create(builder, loc, source, collapsed);
  if (expanded.size() == shape.size())
    return source;
  return tensor::ExpandShapeOp::create(
      builder, loc, RankedTensorType::get(shape, type.getElementType()), source,
      expanded);
}

/// `source` with a new first dimension of size `size`.
static Value broadcast(OpBuilder &builder, Location loc, Value source,
                       OpFoldResult size) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, loc, source);
  sizes.insert(sizes.begin(), size);
  Value init = tensor::EmptyOp::create(builder, loc, sizes,
                                       getElementTypeOrSelf(source.getType()));
  return linalg::BroadcastOp::create(builder, loc, source, init,
                                     ArrayRef<int64_t>{0})
      ->getResult(0);
}
//===----------------------------------------------------------------------===//
// Operands and results
//===----------------------------------------------------------------------===//

/// The number of batch entries, from an operand that has a batch dimension.
OpFoldResult MatchBuilder::getBatchSize() {
  for (const AttentionOperandMatch *operand :
       {&matmuls.query, &matmuls.key, &matmuls.value})
    if (operand->batch)
      return tensor::getMixedSize(builder, loc, operand->tensor,
                                  *operand->batch);
  return builder.getIndexAttr(1);
}

Value MatchBuilder::buildOperand(const AttentionOperandMatch &operand) {
  int64_t rank = cast<RankedTensorType>(operand.tensor.getType()).getRank();
  SmallVector<int64_t> order;
  auto addDim = [&](std::optional<unsigned> dim) -> int64_t {
    if (dim)
      order.push_back(*dim);
    return dim.has_value();
  };
  SmallVector<int64_t> groups;
  groups.push_back(addDim(operand.batch));
  groups.push_back(operand.heads.size());
  llvm::append_range(order, operand.heads);
  groups.push_back(addDim(operand.position));
  groups.push_back(addDim(operand.headDimAxis));
  // All other dimensions have a size of one.
  int64_t numOthers = rank - order.size();
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(order, dim))
      order.insert(order.begin(), dim);
  llvm::sort(order.begin(), order.begin() + numOthers);
  for (int64_t &count : groups) {
    if (count == 0)
      continue;
    count += numOthers;
    break;
  }
  OpFoldResult batchSize = getBatchSize();
  bool isBroadcast = !operand.batch && !isOneInteger(batchSize);
  Value value = transpose(builder, loc, operand.tensor, order);
  if (!isBroadcast)
    return group(builder, loc, value, groups);
  value = group(builder, loc, value, ArrayRef(groups).drop_front());
  return broadcast(builder, loc, value, batchSize);
}

/// Gives the result of the attention a dimension for each coordinate, which
/// `order` becomes.
Value MatchBuilder::splitResult(Value attention,
                                SmallVectorImpl<unsigned> &order) {
  const AttentionCoordinates &at = matmuls.at;
  // A dimension for each coordinate: batch, heads, query, head dim.
  SmallVector<ReassociationIndices> groups(at.vHeadDimCoordinate ? 4 : 3);
  SmallVector<OpFoldResult> sizes;
  SmallVector<OpFoldResult> sizesOfResult =
      tensor::getMixedSizes(builder, loc, attention);
  auto addDim = [&](unsigned group, unsigned coordinate, OpFoldResult size) {
    groups[group].push_back(order.size());
    order.push_back(coordinate);
    sizes.push_back(size);
  };
  if (at.batch)
    addDim(0, *at.batch, sizesOfResult[0]);
  for (unsigned head : at.heads)
    addDim(1, head, builder.getIndexAttr(at.sizes[head]));
  if (at.query)
    addDim(2, *at.query, sizesOfResult[2]);
  if (at.vHeadDimCoordinate)
    addDim(3, *at.vHeadDimCoordinate, sizesOfResult[3]);
  // Dimensions of size one without a coordinate are merged with the next one.
  SmallVector<ReassociationIndices> kept;
  ReassociationIndices pending;
  for (auto [dim, group] : llvm::enumerate(groups)) {
    pending.push_back(dim);
    if (group.empty())
      continue;
    kept.push_back(pending);
    pending.clear();
  }
  if (!kept.empty())
    llvm::append_range(kept.back(), pending);
  Value value = attention;
  if (kept.size() < groups.size())
    value = tensor::CollapseShapeOp::create(builder, loc, value, kept);
  llvm::erase_if(groups, [](auto &group) { return group.empty(); });
  if (order.size() > groups.size()) {
    SmallVector<int64_t> shape;
    SmallVector<Value> dynamicSizes;
    dispatchIndexOpFoldResults(sizes, dynamicSizes, shape);
    auto type =
        RankedTensorType::get(shape, getElementTypeOrSelf(attention.getType()));
    value =
        tensor::ExpandShapeOp::create(builder, loc, type, value, groups, sizes);
  }
  return value;
}

/// Brings the result of the attention into the layout of the second matmul's.
Value MatchBuilder::buildResult(Value attention) {
  SmallVector<unsigned> order;
  Value value = splitResult(attention, order);
  // Permutes the dimensions to the order of the second matmul's result.
  linalg::LinalgOp matmul = matmuls.secondMatmul;
  SmallVector<int64_t> permutation, counts;
  for (AffineExpr expr :
       matmul.getMatchingIndexingMap(matmul.getDpsInitOperand(0))
           .getResults()) {
    // A sum may keep its dimension, with a size of one.
    if (isa<AffineConstantExpr>(expr)) {
      counts.push_back(0);
      continue;
    }
    unsigned loop = cast<AffineDimExpr>(expr).getPosition();
    counts.push_back(matmuls.loops[loop].size());
    for (unsigned coordinate : matmuls.loops[loop])
      permutation.push_back(llvm::find(order, coordinate) - order.begin());
  }
  value = transpose(builder, loc, value, permutation);
  value = group(builder, loc, value, counts);
  Type type = matmul->getResult(0).getType();
  if (value.getType() != type)
    value = tensor::CastOp::create(builder, loc, type, value);
  return value;
}

void attn::eraseUnused(RewriterBase &rewriter, ArrayRef<Operation *> ops) {
  SetVector<Operation *> worklist(llvm::from_range, ops);
  while (!worklist.empty()) {
    Operation *next = worklist.pop_back_val();
    if (!isOpTriviallyDead(next))
      continue;
    next->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (Operation *producer = operand.getDefiningOp();
            producer && !next->isAncestor(producer))
          worklist.insert(producer);
    });
    rewriter.eraseOp(next);
  }
}
