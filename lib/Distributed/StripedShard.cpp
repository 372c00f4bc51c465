//===- StripedShard.cpp - Shards of every n-th position -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StripedShard.h"
#include "SequenceShard.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/RegionPositions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

std::string attn::whyNotStripe(AttentionOpInterface op,
                               ChunkPlacement placement) {
  if (!placement.isStriped)
    return "";
  if (op.hasDropout())
    return ("with '" + Twine(op.getDropoutAttr() ? "dropout" : "dropout_mask") +
            "' cannot be distributed over ranks by 'striped', but by 'ring', "
            "'zigzag', 'allgather', 'lightseq', 'ulysses' or 'usp': a word of "
            "a keep mask is of neighboring keys, and a rank has none")
        .str();
  return "";
}

//===----------------------------------------------------------------------===//
// Distances
//===----------------------------------------------------------------------===//

namespace {
/// The bounds of distances from a query to the keys that it attends to, from
/// the diagonal of a mask on; without one, there is no bound.
struct Distances {
  std::optional<int64_t> least, most;
  MaskAlignment alignment = MaskAlignment::BottomRight;

  /// The same in rows of a shard in step `step`: `rows * ranks - step` is
  /// within the bounds.
  Distances getRows(int64_t step, int64_t ranks) const {
    Distances rows = *this;
    if (least)
      rows.least = llvm::divideCeilSigned(*least + step, ranks);
    if (most)
      rows.most = llvm::divideFloorSigned(*most + step, ranks);
    return rows;
  }
};
} // namespace

/// The distances that `mask` keeps if nothing else decides.
static std::optional<Distances> getDistances(MaskAttrInterface mask) {
  if (auto causal = dyn_cast<CausalAttr>(mask))
    return Distances{std::nullopt, 0, causal.getAlignment()};
  auto window = dyn_cast<SlidingWindowAttr>(mask);
  if (!window)
    return std::nullopt;
  Distances distances{std::nullopt, window.getRight(), window.getAlignment()};
  if (std::optional<int64_t> left = window.getLeft())
    distances.least = -*left;
  return distances;
}

ReachableChunks attn::findReachableStripes(AttentionOpInterface op,
                                           int64_t ranks) {
  ReachableChunks reachable(ranks, llvm::BitVector(ranks, true));
  int64_t queries = getDimSize(op.getQuery(), sequenceDim);
  int64_t keys = getDimSize(op.getKey(), sequenceDim);
  MaskAttrInterface mask = op.getMaskAttr();
  if (!mask || ShapedType::isDynamic(queries) || ShapedType::isDynamic(keys))
    return reachable;
  std::optional<Distances> distances = getDistances(mask);
  // Positions within sequences have the distances of rows if sequences begin at
  // the same ones.
  bool hasSequences = op.hasSequences();
  if (!distances ||
      (hasSequences && op.getQuerySequences() != op.getKeySequences()))
    return reachable;
  int64_t lastQuery = queries / ranks - 1, lastKey = keys / ranks - 1;
  bool isAtEnd =
      distances->alignment == MaskAlignment::BottomRight && !hasSequences;
  int64_t diagonal = isAtEnd ? lastKey - lastQuery : 0;
  for (int64_t query = 0; query < ranks; ++query)
    for (int64_t key = 0; key < ranks; ++key) {
      Distances rows = distances->getRows((query + ranks - key) % ranks, ranks);
      // There are so many rows before and behind the diagonal.
      int64_t first = key > query ? 1 : 0;
      int64_t least = first - lastQuery - diagonal;
      int64_t most = first + lastKey - diagonal;
      if (std::max(least, rows.least.value_or(least)) >
          std::min(most, rows.most.value_or(most)))
        reachable[query].reset(key);
    }
  return reachable;
}

StripedMask attn::getStripedMask(AttentionOpInterface op, int64_t step,
                                 int64_t ranks) {
  StripedMask striped;
  MaskAttrInterface mask = op.getMaskAttr();
  if (!mask)
    return striped;
  std::optional<Distances> distances = getDistances(mask);
  if (!distances)
    return striped;
  Distances rows = distances->getRows(step, ranks);
  MLIRContext *context = mask.getContext();
  if (!rows.least && rows.most == 0) {
    striped.mask = CausalAttr::get(context, rows.alignment);
    return striped;
  }
  // Bounds of windows are not negative. A step is at most one row.
  std::optional<int64_t> left;
  if (rows.least) {
    striped.firstQuery = std::max<int64_t>(0, *rows.least);
    left = striped.firstQuery - *rows.least;
  }
  std::optional<int64_t> right = rows.most;
  if (right)
    *right -= striped.firstQuery;
  // With dynamic lengths, no step is left out.
  if (right && *right < 0)
    striped.mask = NoneAttr::get(context);
  else
    striped.mask = SlidingWindowAttr::get(context, left, right, rows.alignment);
  return striped;
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

void attn::replacePositionsOfStripe(RewriterBase &rewriter,
                                    AttentionOpInterface shard,
                                    const Stripe &stripe) {
  Location loc = shard.getLoc();
  replacePositions(rewriter, shard, [&](OpBuilder &builder, ValueRange at) {
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantIndexOp::create(builder, loc, value);
    };
    auto load = [&](int64_t entry) {
      return emitPositionEntry(builder, loc, stripe.whole, constant(entry));
    };
    Value rank = load(0);
    auto getPosition = [&](Value row, int64_t first) -> Value {
      Value scaled =
          arith::MulIOp::create(builder, loc, row, constant(stripe.ranks));
      Value position = arith::AddIOp::create(builder, loc, scaled, rank);
      return first == 0 ? position
                        : arith::SubIOp::create(builder, loc, position,
                                                constant(first))
                              .getResult();
    };
    auto getLength = [&](Value length, int64_t entry) {
      std::optional<int64_t> number = getConstantIntValue(length);
      return number ? constant(*number) : load(entry);
    };
    return MaskPosition{at[0],
                        at[1],
                        getPosition(at[2], stripe.firstQuery * stripe.ranks),
                        getPosition(at[3], stripe.step),
                        getLength(stripe.queries, 1),
                        getLength(stripe.keys, 2)};
  });
}
