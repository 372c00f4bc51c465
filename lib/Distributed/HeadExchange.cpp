//===- HeadExchange.cpp - Heads for positions -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HeadExchange.h"
#include "RankTensors.h"
#include "RingSchedule.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn;

static Value emitIndex(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

HeadGroup HeadGroup::emit(ImplicitLocOpBuilder &b, int64_t ranks,
                          int64_t allRanks, Value rank) {
  if (ranks == allRanks)
    return {ranks, rank, /*first=*/nullptr};
  Value number = arith::RemUIOp::create(b, rank, emitIndex(b, ranks));
  return {ranks, number, arith::SubIOp::create(b, rank, number)};
}

Value HeadGroup::emitFirstHead(ImplicitLocOpBuilder &b, int64_t heads) const {
  return b.createOrFold<arith::MulIOp>(number, emitIndex(b, heads));
}

//===----------------------------------------------------------------------===//
// Groups of ranks
//===----------------------------------------------------------------------===//

namespace {
/// The slices of a tensor that the ranks of a group have: along `dim`, of
/// `size`, and the same one for `copies` neighboring ranks.
struct SlicesOfRanks {
  int64_t dim;
  int64_t size;
  int64_t copies = 1;

  Value emitExtracted(ImplicitLocOpBuilder &b, Value tensor,
                      Value number) const;
  /// `tensor` with `slice`, which may lack the dimension.
  Value emitInserted(ImplicitLocOpBuilder &b, Value slice, Value tensor,
                     Value number) const;

private:
  struct Slice {
    SmallVector<OpFoldResult> offsets, sizes, strides;
  };
  Slice emit(ImplicitLocOpBuilder &b, Value tensor, Value number) const;
};
} // namespace

SlicesOfRanks::Slice SlicesOfRanks::emit(ImplicitLocOpBuilder &b, Value tensor,
                                         Value number) const {
  Slice slice;
  slice.sizes = tensor::getMixedSizes(b, b.getLoc(), tensor);
  slice.offsets.assign(slice.sizes.size(), b.getIndexAttr(0));
  slice.strides.assign(slice.sizes.size(), b.getIndexAttr(1));
  if (copies > 1)
    number = arith::DivUIOp::create(b, number, emitIndex(b, copies));
  slice.offsets[dim] =
      b.createOrFold<arith::MulIOp>(number, emitIndex(b, size));
  slice.sizes[dim] = b.getIndexAttr(size);
  return slice;
}

Value SlicesOfRanks::emitExtracted(ImplicitLocOpBuilder &b, Value tensor,
                                   Value number) const {
  Slice slice = emit(b, tensor, number);
  return tensor::ExtractSliceOp::create(b, tensor, slice.offsets, slice.sizes,
                                        slice.strides);
}

Value SlicesOfRanks::emitInserted(ImplicitLocOpBuilder &b, Value slice,
                                  Value tensor, Value number) const {
  Slice at = emit(b, tensor, number);
  return tensor::InsertSliceOp::create(b, slice, tensor, at.offsets, at.sizes,
                                       at.strides);
}

/// Emits `received` with the slices that the ranks of `group` send to this one,
/// which sends them slices of `sent`. Each rank has a message in each step:
/// only all ranks have collective communication.
static Value emitSlicesExchanged(ImplicitLocOpBuilder &b,
                                 const HeadGroup &group, Value sent,
                                 SlicesOfRanks sentSlices, Value received,
                                 SlicesOfRanks receivedSlices) {
  auto getMember = [&](int64_t distance) -> Value {
    if (distance == 0)
      return group.number;
    Value sum = arith::AddIOp::create(
        b, group.number, emitIndex(b, (distance + group.ranks) % group.ranks));
    return arith::RemUIOp::create(b, sum, emitIndex(b, group.ranks));
  };
  for (int64_t distance = 0; distance < group.ranks; ++distance) {
    Value to = getMember(distance), from = getMember(-distance);
    Value part = sentSlices.emitExtracted(b, sent, to);
    if (distance > 0) {
      Value peer = arith::AddIOp::create(b, group.first, to);
      Value source = arith::AddIOp::create(b, group.first, from);
      part = SendRecvOp::create(b, part.getType(), part, peer, source,
                                emitEmpty(b, getTensorType(part), part))
                 .getResult();
    }
    received = receivedSlices.emitInserted(b, part, received, from);
  }
  return received;
}

/// The slices of heads of `heads` heads.
static SlicesOfRanks getHeadSlices(int64_t heads, int64_t ranks) {
  int64_t ofRank = getHeadsOfRank(heads, ranks);
  return {headsDim, ofRank, ofRank * ranks / heads};
}

static Value emitHeadsInGroup(ImplicitLocOpBuilder &b, const HeadGroup &group,
                              Value chunk) {
  RankedTensorType type = getTensorType(chunk);
  SlicesOfRanks heads = getHeadSlices(type.getDimSize(headsDim), group.ranks);
  SlicesOfRanks positions{sequenceDim, type.getDimSize(sequenceDim)};
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, b.getLoc(), chunk);
  sizes[headsDim] = b.getIndexAttr(heads.size);
  sizes[sequenceDim] = b.getIndexAttr(positions.size * group.ranks);
  Value received = tensor::EmptyOp::create(b, sizes, type.getElementType());
  return emitSlicesExchanged(b, group, chunk, heads, received, positions);
}

/// Emits the parts of `heads` that each rank of `group` has for this one: as
/// neighbors in the heads, or, if several ranks have parts of a head, in a new
/// first dimension.
static Value emitChunkInGroup(ImplicitLocOpBuilder &b, const HeadGroup &group,
                              Value heads, int64_t numHeads) {
  RankedTensorType type = getTensorType(heads);
  SlicesOfRanks positions{sequenceDim,
                          type.getDimSize(sequenceDim) / group.ranks};
  SlicesOfRanks parts = getHeadSlices(numHeads, group.ranks);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, b.getLoc(), heads);
  sizes[sequenceDim] = b.getIndexAttr(positions.size);
  if (parts.copies == 1) {
    sizes[headsDim] = b.getIndexAttr(numHeads);
  } else {
    sizes.insert(sizes.begin(), b.getIndexAttr(group.ranks));
    parts = {/*dim=*/0, /*size=*/1};
  }
  Value received = tensor::EmptyOp::create(b, sizes, type.getElementType());
  return emitSlicesExchanged(b, group, heads, positions, received, parts);
}

//===----------------------------------------------------------------------===//
// All ranks
//===----------------------------------------------------------------------===//

/// `0, 1, ...` with dimension `from` at `to`.
static SmallVector<int64_t> getMove(int64_t rank, int64_t from, int64_t to) {
  SmallVector<int64_t> permutation(rank);
  std::iota(permutation.begin(), permutation.end(), 0);
  permutation.erase(permutation.begin() + from);
  permutation.insert(permutation.begin() + to, from);
  return permutation;
}

static Value emitMoved(ImplicitLocOpBuilder &b, Value value, int64_t from,
                       int64_t to) {
  return emitTransposed(b, value,
                        getMove(getTensorType(value).getRank(), from, to));
}

/// `chunk`, `[B, H, ...]`, as `[ranks, B, 1, ...]`, where `H` divides `ranks`:
/// each head as often as there are ranks that need it.
static Value emitRepeatedHeads(ImplicitLocOpBuilder &b, Value chunk,
                               int64_t ranks) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, b.getLoc(), chunk);
  int64_t rank = sizes.size();
  int64_t heads = getTensorType(chunk).getDimSize(headsDim);
  std::swap(sizes[0], sizes[headsDim]);
  sizes.insert(sizes.begin() + 1, b.getIndexAttr(ranks / heads));
  // Of the loops over heads, copies, the batch and all else.
  SmallVector<AffineExpr> exprs = {b.getAffineDimExpr(2),
                                   b.getAffineDimExpr(0)};
  for (int64_t dim = sequenceDim; dim < rank; ++dim)
    exprs.push_back(b.getAffineDimExpr(dim + 1));
  SmallVector<AffineMap> maps = {
      AffineMap::get(rank + 1, 0, exprs, b.getContext()),
      b.getMultiDimIdentityMap(rank + 1)};
  SmallVector<utils::IteratorType> loops(rank + 1,
                                         utils::IteratorType::parallel);
  Value empty =
      tensor::EmptyOp::create(b, sizes, getTensorType(chunk).getElementType());
  Value repeated = linalg::GenericOp::create(
                       b, empty.getType(), chunk, empty, maps, loops,
                       [](OpBuilder &body, Location loc, ValueRange arguments) {
                         linalg::YieldOp::create(body, loc, arguments.front());
                       })
                       .getResult(0);
  return emitSplit(b, emitMerged(b, repeated, 0), sequenceDim, /*parts=*/1);
}

Value attn::emitHeadsOfRank(ImplicitLocOpBuilder &b, const HeadGroup &group,
                            Value chunk) {
  if (group.first)
    return emitHeadsInGroup(b, group, chunk);
  int64_t ranks = group.ranks;
  int64_t heads = getTensorType(chunk).getDimSize(headsDim);
  Value parts = heads % ranks == 0
                    ? emitMoved(b, emitSplit(b, chunk, headsDim, ranks),
                                /*from=*/headsDim, /*to=*/0)
                    : emitRepeatedHeads(b, chunk, ranks);
  // `[ranks, B, heads, S / ranks, ...]` become neighbors in the positions.
  Value received = emitExchanged(b, parts);
  Value ordered = emitMoved(b, received, /*from=*/0, /*to=*/sequenceDim);
  return emitMerged(b, ordered, sequenceDim);
}

/// Emits the parts of `heads` that each of `ranks` ranks, which are all, has
/// for this one, in a new first dimension.
static Value emitPartsOfRanks(ImplicitLocOpBuilder &b, int64_t ranks,
                              Value heads) {
  Value split = emitSplit(b, heads, sequenceDim, ranks);
  return emitExchanged(b, emitMoved(b, split, /*from=*/sequenceDim, /*to=*/0));
}

Value attn::emitChunkOfRank(ImplicitLocOpBuilder &b, const HeadGroup &group,
                            Value heads, int64_t numHeads) {
  Value parts = group.first ? emitChunkInGroup(b, group, heads, numHeads)
                            : emitPartsOfRanks(b, group.ranks, heads);
  if (numHeads % group.ranks == 0)
    return group.first
               ? parts
               : emitMerged(b, emitMoved(b, parts, /*from=*/0, /*to=*/headsDim),
                            headsDim);
  // `[copies, numHeads, B, 1, S / ranks, ...]`.
  Value copies =
      emitMoved(b, emitSplit(b, parts, 0, numHeads), /*from=*/1, /*to=*/0);
  Value sum = emitSumOfParts(b, copies);
  return emitMerged(b, emitMoved(b, sum, /*from=*/0, /*to=*/headsDim),
                    headsDim);
}
