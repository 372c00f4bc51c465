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
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn;

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

Value attn::emitHeadsOfRank(ImplicitLocOpBuilder &b, int64_t ranks,
                            Value chunk) {
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

Value attn::emitChunkOfRank(ImplicitLocOpBuilder &b, int64_t ranks, Value heads,
                            int64_t numHeads) {
  Value split = emitSplit(b, heads, sequenceDim, ranks);
  Value parts =
      emitExchanged(b, emitMoved(b, split, /*from=*/sequenceDim, /*to=*/0));
  if (numHeads % ranks == 0)
    return emitMerged(b, emitMoved(b, parts, /*from=*/0, /*to=*/headsDim),
                      headsDim);
  // `[copies, numHeads, B, 1, S / ranks, ...]`.
  Value copies =
      emitMoved(b, emitSplit(b, parts, 0, numHeads), /*from=*/1, /*to=*/0);
  Value sum = emitSumOfParts(b, copies);
  return emitMerged(b, emitMoved(b, sum, /*from=*/0, /*to=*/headsDim),
                    headsDim);
}
