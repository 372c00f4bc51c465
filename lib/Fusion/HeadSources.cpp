//===- HeadSources.cpp - Sources of views of heads ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each index is a sum of coordinates with strides, plus a number. So a reshape
// multiplies and adds, or divides if bounds allow it.
//
//===----------------------------------------------------------------------===//

#include "HeadSources.h"
#include "Slices.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <tuple>

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

int64_t HeadIndex::getStride(HeadCoordinate coordinate) const {
  for (const Term &term : terms)
    if (term.coordinate == coordinate)
      return term.stride;
  return 0;
}

void HeadIndex::add(const HeadIndex &other) {
  offset += other.offset;
  llvm::append_range(terms, other.terms);
  llvm::sort(terms, [](const Term &a, const Term &b) {
    return a.coordinate < b.coordinate;
  });
}

bool HeadPart::isUsedByHead() const {
  return llvm::any_of(indices, [](const HeadIndex &index) {
    return index.getStride(HeadCoordinate::Head) != 0;
  });
}

HeadIndex HeadSources::getIndex(HeadCoordinate coordinate) const {
  HeadIndex index;
  if (!isSingle(coordinate))
    index.terms.push_back({coordinate, 1});
  return index;
}

void HeadSources::noteSize(const HeadIndex &index, OpFoldResult size) {
  for (HeadCoordinate coordinate : {Batch, Position})
    if (!mixedSizes[coordinate] && index == getIndex(coordinate))
      mixedSizes[coordinate] = size;
}

std::optional<SmallVector<HeadIndex>>
HeadSources::linearize(ArrayRef<HeadIndex> indices, RankedTensorType large,
                       ArrayRef<ReassociationIndices> groups,
                       ArrayRef<OpFoldResult> largeSizes) {
  SmallVector<HeadIndex> result;
  for (const ReassociationIndices &group : groups) {
    HeadIndex sum;
    for (int64_t dim : group) {
      int64_t size = large.getDimSize(dim);
      noteSize(indices[dim], largeSizes[dim]);
      if (!ShapedType::isDynamic(size)) {
        sum.offset *= size;
        for (HeadIndex::Term &term : sum.terms) {
          if (ShapedType::isDynamic(term.stride))
            return std::nullopt;
          term.stride *= size;
        }
      } else if (sum == getIndex(Batch) && !sum.terms.empty() &&
                 indices[dim] == getIndex(Position)) {
        sum.terms.front().stride = ShapedType::kDynamic;
      } else if (sum != HeadIndex()) {
        return std::nullopt;
      }
      sum.add(indices[dim]);
    }
    result.push_back(sum);
  }
  return result;
}

std::optional<std::pair<HeadIndex, HeadIndex>>
HeadSources::divide(const HeadPart &part, const HeadIndex &index,
                    int64_t size) const {
  if (ShapedType::isDynamic(size) || size == 0)
    return std::nullopt;
  // Multiples of the size belong to the dimensions before.
  HeadIndex inner, outer;
  inner.offset = index.offset;
  int64_t least = index.offset, extent = 0;
  for (HeadIndex::Term term : index.terms) {
    if (ShapedType::isDynamic(term.stride))
      return std::nullopt;
    if (term.stride % size == 0) {
      outer.terms.push_back({term.coordinate, term.stride / size});
      continue;
    }
    inner.terms.push_back(term);
    int64_t values = sizes[term.coordinate];
    if (term.coordinate == HeadDim) {
      least += part.begin * term.stride;
      values = part.end - part.begin;
    }
    if (ShapedType::isDynamic(values))
      return std::nullopt;
    extent += (values - 1) * term.stride;
  }
  outer.offset = llvm::divideFloorSigned(least, size);
  inner.offset -= outer.offset * size;
  if (least - outer.offset * size + extent >= size)
    return std::nullopt;
  return std::pair(outer, inner);
}

std::optional<SmallVector<HeadIndex>>
HeadSources::delinearize(const HeadPart &part, RankedTensorType large,
                         ArrayRef<ReassociationIndices> groups) {
  SmallVector<HeadIndex> result(large.getRank());
  for (auto [index, group] : llvm::zip_equal(part.indices, groups)) {
    HeadIndex rest = index;
    SmallVector<int64_t> dims = llvm::filter_to_vector(
        group, [&](int64_t dim) { return large.getDimSize(dim) != 1; });
    while (dims.size() > 1) {
      int64_t dim = dims.pop_back_val();
      auto divided = divide(part, rest, large.getDimSize(dim));
      if (!divided)
        return std::nullopt;
      std::tie(rest, result[dim]) = *divided;
    }
    if (!dims.empty())
      result[dims.front()] = rest;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

/// The operand that a result of `op` is a copy of, if it is one.
static OpOperand *getCopiedInput(linalg::LinalgOp op) {
  if (!op.hasPureTensorSemantics() || op->getNumResults() != 1 ||
      op.getNumParallelLoops() != op.getNumLoops())
    return nullptr;
  auto yield = cast<linalg::YieldOp>(op.getBlock()->getTerminator());
  auto argument = dyn_cast<BlockArgument>(yield.getOperand(0));
  if (!argument || argument.getOwner() != op.getBlock())
    return nullptr;
  OpOperand *operand = op.getMatchingOpOperand(argument);
  return op.isDpsInput(operand) &&
                 isa<RankedTensorType>(operand->get().getType())
             ? operand
             : nullptr;
}

/// Indices of the element that `op` copies to the element at `indices`.
static std::optional<SmallVector<HeadIndex>>
getCopiedIndices(linalg::LinalgOp op, OpOperand &copied,
                 ArrayRef<HeadIndex> indices) {
  SmallVector<std::optional<HeadIndex>> loops(op.getNumLoops());
  AffineMap written =
      op.getIndexingMapMatchingResult(cast<OpResult>(op->getResult(0)));
  for (auto [expr, index] : llvm::zip_equal(written.getResults(), indices))
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      loops[dim.getPosition()] = index;
  SmallVector<HeadIndex> result;
  for (AffineExpr expr : op.getMatchingIndexingMap(&copied).getResults()) {
    HeadIndex index;
    if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
      if (!loops[dim.getPosition()])
        return std::nullopt;
      index = *loops[dim.getPosition()];
    } else if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
      index.offset = constant.getValue();
    } else {
      return std::nullopt;
    }
    result.push_back(index);
  }
  return result;
}

/// The only dimension of `tensor` that is not entirely in a slice with static
/// offsets and unit strides; -1 if there is none. None if there are more, or if
/// that is not known.
static std::optional<int64_t> getSlicedDim(Value tensor,
                                           OffsetSizeAndStrideOpInterface op) {
  if (!op.hasUnitStride())
    return std::nullopt;
  int64_t result = -1;
  for (auto [dim, offset] : llvm::enumerate(op.getMixedOffsets())) {
    std::optional<int64_t> start = getConstantIntValue(offset);
    OpFoldResult size = op.getMixedSizes()[dim];
    if (!start)
      return std::nullopt;
    if (*start == 0 && isWholeDim(tensor, dim, size))
      continue;
    if (result >= 0 || !getConstantIntValue(size))
      return std::nullopt;
    result = dim;
  }
  return result;
}

void HeadSources::traceRange(HeadPart part, Value source, int64_t dim,
                             int64_t begin, int64_t end, int64_t shift) {
  part.begin = std::max(part.begin, begin);
  part.end = std::min(part.end, end);
  if (part.begin >= part.end)
    return;
  part.source = source;
  part.indices[dim].offset -= shift;
  trace(part);
}

bool HeadSources::stepIntoParts(HeadPart &part) {
  Operation *op = part.source.getDefiningOp();
  // Element `c` of the head dim is at `c + offset` of the dimension.
  auto isOfHeadDim = [&](int64_t dim) {
    const HeadIndex &index = part.indices[dim];
    return index.terms.size() == 1 && index.getStride(HeadDim) == 1;
  };
  HeadPart next = part;
  next.views.push_back(op);
  if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
    int64_t dim = concat.getDim();
    if (!isOfHeadDim(dim) || concat.getResultType().isDynamicDim(dim))
      return false;
    int64_t first = 0, offset = part.indices[dim].offset;
    for (Value input : concat.getInputs()) {
      auto type = cast<RankedTensorType>(input.getType());
      int64_t last = first + type.getDimSize(dim);
      traceRange(next, input, dim, first - offset, last - offset, first);
      first = last;
    }
    return true;
  }
  auto insert = dyn_cast<tensor::InsertSliceOp>(op);
  if (!insert || insert.getSourceType().getRank() != insert.getType().getRank())
    return false;
  std::optional<int64_t> dim = getSlicedDim(insert.getDest(), insert);
  if (!dim || (*dim >= 0 && !isOfHeadDim(*dim)))
    return false;
  if (*dim < 0) {
    next.source = insert.getSource();
    trace(next);
    return true;
  }
  int64_t offset = part.indices[*dim].offset;
  int64_t first = insert.getStaticOffset(*dim);
  int64_t last = first + insert.getStaticSize(*dim);
  traceRange(next, insert.getSource(), *dim, first - offset, last - offset,
             first);
  traceRange(next, insert.getDest(), *dim, part.begin, first - offset, 0);
  traceRange(next, insert.getDest(), *dim, last - offset, part.end, 0);
  return true;
}

std::optional<SmallVector<HeadIndex>>
HeadSources::getSlicedIndices(const HeadPart &part,
                              tensor::ExtractSliceOp slice) {
  std::optional<int64_t> dim = getSlicedDim(slice.getSource(), slice);
  if (!dim)
    return std::nullopt;
  // Batch entries and positions are the same as in the source.
  llvm::SmallBitVector dropped = slice.getDroppedDims();
  SmallVector<HeadIndex> indices;
  const HeadIndex *index = part.indices.begin();
  for (auto [number, size] : llvm::enumerate(slice.getMixedSizes())) {
    HeadIndex at = dropped.test(number) ? HeadIndex() : *index++;
    if (int64_t(number) == *dim &&
        (at.getStride(Batch) != 0 || at.getStride(Position) != 0))
      return std::nullopt;
    noteSize(at, size);
    at.offset += slice.getStaticOffset(number);
    indices.push_back(at);
  }
  return indices;
}

bool HeadSources::step(HeadPart &part) {
  Operation *op = part.source.getDefiningOp();
  Value source;
  std::optional<SmallVector<HeadIndex>> indices;
  if (auto cast = dyn_cast<tensor::CastOp>(op)) {
    source = cast.getSource();
    indices = part.indices;
  } else if (auto permute = dyn_cast<PermuteOp>(op)) {
    source = permute.getSource();
    indices.emplace(part.indices.size());
    for (auto [dim, from] : llvm::enumerate(permute.getPermutation()))
      (*indices)[from] = part.indices[dim];
  } else if (auto split = dyn_cast<tensor::ExpandShapeOp>(op)) {
    source = split.getSrc();
    indices =
        linearize(part.indices, split.getResultType(),
                  split.getReassociationIndices(), split.getMixedOutputShape());
  } else if (auto merge = dyn_cast<tensor::CollapseShapeOp>(op)) {
    source = merge.getSrc();
    indices =
        delinearize(part, merge.getSrcType(), merge.getReassociationIndices());
  } else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    source = slice.getSource();
    indices = getSlicedIndices(part, slice);
  } else if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
    OpOperand *copied = getCopiedInput(linalgOp);
    if (!copied)
      return false;
    source = copied->get();
    indices = getCopiedIndices(linalgOp, *copied, part.indices);
  }
  if (!indices || !isa<RankedTensorType>(source.getType()))
    return false;
  // A dimension of size one has only one index.
  auto type = cast<RankedTensorType>(source.getType());
  for (auto [dim, index] : llvm::enumerate(*indices))
    if (type.getDimSize(dim) == 1)
      index = HeadIndex();
  part.source = source;
  part.indices = *indices;
  part.views.push_back(op);
  return true;
}

void HeadSources::trace(HeadPart part) {
  // A source that all heads share need not be traced further.
  while (part.source.getDefiningOp() &&
         (isSingle(Head) || part.isUsedByHead())) {
    if (stepIntoParts(part))
      return;
    if (!step(part))
      break;
  }
  parts.push_back(part);
}

HeadSources::HeadSources(Value heads) {
  auto type = cast<RankedTensorType>(heads.getType());
  HeadPart all;
  all.source = heads;
  for (HeadCoordinate coordinate : {Batch, Head, Position, HeadDim}) {
    sizes[coordinate] = type.getDimSize(coordinate);
    all.indices.push_back(getIndex(coordinate));
    if (!type.isDynamicDim(coordinate))
      mixedSizes[coordinate] =
          Builder(heads.getContext()).getIndexAttr(sizes[coordinate]);
  }
  all.end = sizes[HeadDim];
  trace(all);
  llvm::sort(parts, [](const HeadPart &a, const HeadPart &b) {
    return a.begin < b.begin;
  });
}
