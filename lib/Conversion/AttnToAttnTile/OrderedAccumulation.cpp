//===- OrderedAccumulation.cpp - The order of additions -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order in which kv tiles add their contributions to the dQ of a query
// tile. Kv tiles visit query tiles in such an order that hardly any has to wait
// (cf. Qiang et al. 2026, "DASH: Deterministic attention scheduling for
// high-throughput reproducible LLM training").
//
// A wave is the set of CTAs that work on a head at the same time. They begin
// together and take each step at about the same time. The time of an addition
// is its step number within the wave. Additions to a query tile are ordered by
// wave, time and kv tile. Times grow along the steps of each CTA, so there is
// no cyclic wait. All CTAs of a wave are resident, since a wave is no larger
// than the grid.
//
//===----------------------------------------------------------------------===//

#include "GradKernelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Shorthand for arithmetic on indices.
struct IndexMath {
  TileProgramBuilder &b;

  Value constant(int64_t value) const { return b.index(value); }
  Value add(Value lhs, Value rhs) const {
    return b.createOrFold<arith::AddIOp>(lhs, rhs);
  }
  Value sub(Value lhs, Value rhs) const {
    return b.createOrFold<arith::SubIOp>(lhs, rhs);
  }
  Value mul(Value lhs, Value rhs) const {
    return b.createOrFold<arith::MulIOp>(lhs, rhs);
  }
  Value div(Value lhs, Value rhs) const {
    return b.createOrFold<arith::DivUIOp>(lhs, rhs);
  }
  Value rem(Value lhs, Value rhs) const {
    return b.createOrFold<arith::RemUIOp>(lhs, rhs);
  }
  Value min(Value lhs, Value rhs) const {
    return b.createOrFold<arith::MinSIOp>(lhs, rhs);
  }
  Value max(Value lhs, Value rhs) const {
    return b.createOrFold<arith::MaxSIOp>(lhs, rhs);
  }
  Value atLeastZero(Value value) const { return max(value, constant(0)); }
  /// For non-negative operands.
  Value ceilDiv(Value lhs, Value rhs) const {
    return div(add(lhs, sub(rhs, constant(1))), rhs);
  }
  Value isLess(Value lhs, Value rhs) const {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, lhs, rhs);
  }
  Value select(Value condition, Value yes, Value no) const {
    return arith::SelectOp::create(b, condition, yes, no);
  }
};
} // namespace

bool GradKernelWriter::isPaired() { return bool(op.getMaskAttr()); }

Value GradKernelWriter::countOrderedTiles(Value keyTiles) {
  if (!isPaired())
    return keyTiles;
  // The last pair may contain a kv tile beyond the keys.
  IndexMath m{b};
  Value two = b.index(2);
  return m.mul(m.ceilDiv(keyTiles, two), two);
}

GradKernelWriter::AccumulationOrder
GradKernelWriter::emitAccumulationOrder(Value tile, Value keyTiles,
                                        Value programs) {
  IndexMath m{b};
  AccumulationOrder order;
  order.tile = tile;
  order.keyTiles = keyTiles;
  order.queryTiles = b.countTiles(queryLength, queryTile);
  Value units = keyTiles, unit = tile;
  if (isPaired()) {
    units = m.div(keyTiles, b.index(2));
    order.isSecond =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sge, tile, units);
    Value mirrored = m.sub(m.sub(keyTiles, b.index(1)), tile);
    unit = m.select(order.isSecond, mirrored, tile);
  }
  // As few waves as possible, of equal size.
  Value one = b.index(1);
  Value waves = m.max(m.ceilDiv(units, programs), one);
  Value size = m.max(m.ceilDiv(units, waves), one);
  order.first = m.mul(m.div(unit, size), size);
  order.end = m.min(m.add(order.first, size), units);
  if (!isPaired()) {
    Value place = m.sub(tile, order.first);
    order.start =
        m.div(m.mul(place, order.queryTiles), m.sub(order.end, order.first));
  }
  return order;
}

Value GradKernelWriter::emitOrderedStep(const AccumulationOrder &order,
                                        const QueryTiles &tiles,
                                        Value visitIndex) {
  IndexMath m{b};
  if (!isPaired()) {
    // Each kv tile begins at another query tile, and wraps around to the first
    // one after the last one.
    Value place = m.add(visitIndex, order.start);
    Value isBehind =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sge, place, tiles.count);
    return m.select(isBehind, m.sub(place, tiles.count), place);
  }
  // The first tiles of pairs all visit query tiles upwards, from where their
  // keys begin. The second tiles go downwards over full tiles; upwards they
  // would all come to the same query tiles at once.
  Value last = m.sub(m.add(tiles.count, tiles.masked), b.index(1));
  Value downwards = m.sub(last, visitIndex);
  Value isMasked = m.isLess(visitIndex, tiles.masked);
  Value goesUp = arith::OrIOp::create(
      b, isMasked,
      arith::XOrIOp::create(
          b, order.isSecond,
          arith::ConstantIntOp::create(b, 1, /*width=*/1).getResult())
          .getResult());
  return m.select(goesUp, visitIndex, downwards);
}

Value GradKernelWriter::emitOrdinal(const AccumulationOrder &order,
                                    Value queries) {
  IndexMath m{b};
  Value one = b.index(1);
  if (!isPaired()) {
    // Tile `j` of the wave begins at `j * queries / size`. The last tile that
    // begins at or before these queries adds first, then the tiles before it in
    // descending order, then the tiles that begin behind these queries.
    Value size = m.sub(order.end, order.first);
    Value place = m.sub(order.tile, order.first);
    Value reached = m.sub(m.mul(m.add(queries, one), size), one);
    Value firstPlace = m.div(reached, order.queryTiles);
    Value behind = m.sub(m.add(firstPlace, size), place);
    return m.add(order.first, m.rem(behind, size));
  }

  // Kv tile `n` is the first of its pair if `n < half`, else the second one of
  // pair `j = keyTiles - 1 - n`. With `ratio` query tiles in a kv tile, the
  // times are:
  // - first:             queries - ratio * n
  // - second, masked:    queryTiles - ratio * j + steps since its first one
  // - second, others:    2 * queryTiles + ratio - ratio * j - queries
  assert(keyTile % queryTile == 0 && "has been checked");
  Value ratio = b.index(keyTile / queryTile);
  Value rows = b.index(queryTile), columns = b.index(keyTile);
  Value lastTile = m.sub(order.keyTiles, one);
  bool isTopLeft = cast<CausalAttr>(op.getMaskAttr()).getAlignment() ==
                   MaskAlignment::TopLeft;
  Value shift = isTopLeft ? b.index(0) : m.sub(keyLength, queryLength);
  Value existing = b.countTiles(keyLength, keyTile);

  // The kv tiles that these queries attend, and the ones of them without a
  // masked pair.
  Value firstRow = m.add(m.mul(queries, rows), shift);
  Value attended =
      m.div(m.atLeastZero(m.add(m.add(firstRow, rows), m.sub(columns, one))),
            columns);
  attended = m.min(attended, existing);
  Value whole = m.div(m.atLeastZero(m.add(firstRow, one)), columns);
  whole = m.min(m.min(whole, attended), m.div(keyLength, columns));

  // Additions of pairs in earlier waves.
  Value before =
      m.add(m.min(attended, order.first),
            m.atLeastZero(m.sub(attended, m.sub(order.keyTiles, order.first))));

  // The second tiles of the wave are kv tiles `[begin, end)`.
  Value begin = m.sub(order.keyTiles, order.end);
  Value end = m.min(attended, m.sub(order.keyTiles, order.first));
  Value endOfWhole = m.min(whole, end);
  Value firstMasked = m.max(begin, endOfWhole);
  Value endOfFirst = m.min(attended, order.end);

  // Steps since the kv tile's first query tile: `queries - ratio * n + ahead`.
  Value ahead = m.sub(
      b.countTiles(m.add(m.mul(order.queryTiles, rows), shift), queryTile),
      order.queryTiles);
  Value ofMasked = m.add(m.sub(order.queryTiles, m.mul(ratio, lastTile)),
                         m.add(queries, ahead));
  // The time of unmasked second tiles, without `ratio * n`.
  Value ofWhole =
      m.sub(m.sub(m.add(m.mul(order.queryTiles, b.index(2)), ratio), queries),
            m.mul(ratio, lastTile));
  Value scaled = m.mul(ratio, order.tile);
  Value isWhole = m.isLess(order.tile, endOfWhole);
  Value ofFirst = m.sub(queries, scaled);
  Value time =
      m.select(order.isSecond,
               m.select(isWhole, m.add(ofWhole, scaled), ofMasked), ofFirst);

  // Earlier first tiles have larger numbers.
  Value larger = m.ceilDiv(m.atLeastZero(m.sub(queries, time)), ratio);
  larger = m.max(order.first, larger);
  Value earliest = m.select(order.isSecond, larger, m.add(order.tile, one));
  Value earlierFirst = m.atLeastZero(m.sub(endOfFirst, earliest));

  // Earlier unmasked second tiles have smaller numbers.
  Value left = m.sub(time, ofWhole);
  Value below = m.ceilDiv(m.atLeastZero(left), ratio);
  Value upTo = m.div(m.atLeastZero(m.add(left, ratio)), ratio);
  Value endOfEarlier =
      m.select(order.isSecond, m.select(isWhole, order.tile, upTo), below);
  Value earlierWhole =
      m.atLeastZero(m.sub(m.min(endOfWhole, endOfEarlier), begin));

  // Masked second tiles, which all have the same time.
  Value allMasked =
      m.select(m.isLess(ofMasked, time), m.atLeastZero(m.sub(end, firstMasked)),
               b.index(0));
  Value isMasked =
      arith::AndIOp::create(b, order.isSecond,
                            arith::CmpIOp::create(b, arith::CmpIPredicate::sge,
                                                  order.tile, endOfWhole)
                                .getResult());
  Value earlierMasked =
      m.select(isMasked, m.sub(order.tile, firstMasked), allMasked);
  return m.add(m.add(before, earlierFirst), m.add(earlierWhole, earlierMasked));
}
