//===- HaloRows.cpp - Keys that go round a ring ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HaloRows.h"
#include "attn/Analysis/MaskTiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

/// Rows that ranks exchange are multiples of this: positions of a shard with
/// dropout are multiples of 16, and tiles of keys have as many rows or more.
static constexpr int64_t rowUnit = 64;
/// Work of the analysis of all ranges, in operations on coefficients.
static constexpr int64_t maxWork = int64_t(1) << 30;

namespace {
/// What queries of other chunks may attend to of chunks of keys.
class OtherChunks {
public:
  OtherChunks(PredicateBlock &predicate, const ReachableChunks &reachable,
              int64_t queries, int64_t keys);

  /// Whether queries of another chunk may attend to some of `rows` of a chunk.
  bool mayAttend(ChunkRows rows);

private:
  Value emitCompare(arith::CmpIPredicate predicate, Value position,
                    int64_t bound);

  PredicateBlock &predicate;
  const ReachableChunks &reachable;
  OpBuilder builder;
  int64_t queries, keys;
  WorkBudget total{maxWork};
};
} // namespace

OtherChunks::OtherChunks(PredicateBlock &predicate,
                         const ReachableChunks &reachable, int64_t queries,
                         int64_t keys)
    : predicate(predicate), reachable(reachable),
      builder(predicate.getPredicate().getContext()), queries(queries),
      keys(keys) {
  builder.setInsertionPointToEnd(predicate.getBlock());
}

Value OtherChunks::emitCompare(arith::CmpIPredicate comparison, Value position,
                               int64_t bound) {
  Location loc = position.getLoc();
  Value constant = arith::ConstantIndexOp::create(builder, loc, bound);
  return arith::CmpIOp::create(builder, loc, comparison, position, constant);
}

bool OtherChunks::mayAttend(ChunkRows rows) {
  const MaskAnalysis::Positions &positions = predicate.getPositions();
  for (auto [query, ofQuery] : llvm::enumerate(reachable))
    for (unsigned key : ofQuery.set_bits()) {
      if (key == query)
        continue;
      MaskAnalysis analysis(positions, /*budget=*/nullptr, &total);
      analysis.restrict(predicate.getPredicate());
      auto restrict = [&](Value position, int64_t first, int64_t size) {
        using arith::CmpIPredicate;
        analysis.restrict(emitCompare(CmpIPredicate::sge, position, first));
        analysis.restrict(
            emitCompare(CmpIPredicate::slt, position, first + size));
      };
      restrict(positions.query, int64_t(query) * queries, queries);
      restrict(positions.key, int64_t(key) * keys + rows.first, rows.size);
      if (!analysis.isNever())
        return true;
    }
  return false;
}

/// The largest of the numbers from 0 to `most` for which `holds`, which holds
/// for 0, and for all numbers below one for which it does.
static int64_t findLargest(int64_t most, function_ref<bool(int64_t)> holds) {
  // Mostly nothing can be left out.
  if (most == 0 || !holds(1))
    return 0;
  int64_t least = 1;
  while (least < most) {
    int64_t middle = least + (most - least + 1) / 2;
    if (holds(middle))
      least = middle;
    else
      most = middle - 1;
  }
  return least;
}

std::optional<ChunkRows> attn::findHaloRows(AttentionOpInterface op,
                                            const ReachableChunks &reachable,
                                            int64_t chunks) {
  int64_t queries = getDimSize(op.getQuery(), sequenceDim);
  int64_t keys = getDimSize(op.getKey(), sequenceDim);
  if (ShapedType::isDynamic(queries) || ShapedType::isDynamic(keys) ||
      op.hasSequences())
    return std::nullopt;
  Block lengths;
  OpBuilder builder(op.getContext());
  builder.setInsertionPointToStart(&lengths);
  ScoreMask mask;
  mask.mask = op.getMaskAttr();
  mask.maskMod = &op.getMaskMod();
  mask.queryLength =
      arith::ConstantIndexOp::create(builder, op.getLoc(), queries);
  mask.keyLength = arith::ConstantIndexOp::create(builder, op.getLoc(), keys);
  PredicateBlock predicate(op.getLoc(), mask);
  if (!predicate.getPredicate())
    return std::nullopt;
  int64_t size = keys / chunks;
  OtherChunks others(predicate, reachable, queries / chunks, size);
  int64_t most = (size - 1) / rowUnit;
  int64_t first = rowUnit * findLargest(most, [&](int64_t units) {
                    return !others.mayAttend({0, units * rowUnit});
                  });
  // The last unit of a chunk may have fewer rows.
  auto getEnd = [&](int64_t unitsBehind) {
    int64_t units = llvm::divideCeil(size, rowUnit) - unitsBehind;
    return std::min(units * rowUnit, size);
  };
  int64_t end = getEnd(findLargest(most, [&](int64_t unitsBehind) {
    int64_t first = getEnd(unitsBehind);
    return !others.mayAttend({first, size - first});
  }));
  if (first >= end || (first == 0 && end == size))
    return std::nullopt;
  return ChunkRows{first, end - first};
}
