//===- GradTurns.cpp - The order of additions -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In which order tiles of keys add what they contribute to the gradients of a
// tile of queries, and in which order they visit tiles of queries so that
// hardly any has to wait for its turn (cf. Qiang et al. 2026, "DASH:
// Deterministic attention scheduling for high-throughput reproducible LLM
// training").
//
// Groups that work on a head at the same time, a wave, begin together and take
// a step at about the same time. Each addition has a time, in steps from there,
// and additions to a tile of queries have their turns by wave, time and tile of
// keys. Times grow along the steps of each group, so that none waits for one
// that waits for it, and all of a wave are there, since it has no more than
// there are groups.
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
  /// Of what is not negative.
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

bool GradKernelWriter::isTurnedInPairs() { return bool(op.getMaskAttr()); }

Value GradKernelWriter::countTurnedTiles(Value keyTiles) {
  if (!isTurnedInPairs())
    return keyTiles;
  // A pair for each tile: the last one may be of keys that do not exist.
  IndexMath m{b};
  Value two = b.index(2);
  return m.mul(m.ceilDiv(keyTiles, two), two);
}

GradKernelWriter::TurnOrder
GradKernelWriter::emitTurnOrder(Value tile, Value keyTiles, Value programs) {
  IndexMath m{b};
  TurnOrder order;
  order.tile = tile;
  order.keyTiles = keyTiles;
  order.queryTiles = b.countTiles(queryLength, queryTile);
  Value units = keyTiles, unit = tile;
  if (isTurnedInPairs()) {
    units = m.div(keyTiles, b.index(2));
    order.isSecond =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sge, tile, units);
    Value mirrored = m.sub(m.sub(keyTiles, b.index(1)), tile);
    unit = m.select(order.isSecond, mirrored, tile);
  }
  // Waves of as many units each as possible.
  Value one = b.index(1);
  Value waves = m.max(m.ceilDiv(units, programs), one);
  Value size = m.max(m.ceilDiv(units, waves), one);
  order.first = m.mul(m.div(unit, size), size);
  order.end = m.min(m.add(order.first, size), units);
  if (!isTurnedInPairs()) {
    Value place = m.sub(tile, order.first);
    order.start =
        m.div(m.mul(place, order.queryTiles), m.sub(order.end, order.first));
  }
  return order;
}

Value GradKernelWriter::emitTurnedStep(const TurnOrder &order,
                                       const QueryTiles &tiles, Value turn) {
  IndexMath m{b};
  if (!isTurnedInPairs()) {
    // Each tile of keys begins somewhere else, and comes to the first queries
    // after the last ones.
    Value place = m.add(turn, order.start);
    Value isBehind =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sge, place, tiles.count);
    return m.select(isBehind, m.sub(place, tiles.count), place);
  }
  // The first ones of pairs all go upwards, from where their keys begin. The
  // second ones would come to the same tiles all at once, unless they went
  // downwards.
  Value last = m.sub(m.add(tiles.count, tiles.masked), b.index(1));
  Value downwards = m.sub(last, turn);
  Value isMasked = m.isLess(turn, tiles.masked);
  Value goesUp = arith::OrIOp::create(
      b, isMasked,
      arith::XOrIOp::create(
          b, order.isSecond,
          arith::ConstantIntOp::create(b, 1, /*width=*/1).getResult())
          .getResult());
  return m.select(goesUp, turn, downwards);
}

Value GradKernelWriter::emitTurn(const TurnOrder &order, Value queries) {
  IndexMath m{b};
  Value one = b.index(1);
  if (!isTurnedInPairs()) {
    // Tile `j` of the wave begins at `j * queries / size`. The one that begins
    // last, but not behind these queries, comes first, then those before it,
    // and at last those that begin behind them.
    Value size = m.sub(order.end, order.first);
    Value place = m.sub(order.tile, order.first);
    Value reached = m.sub(m.mul(m.add(queries, one), size), one);
    Value firstPlace = m.div(reached, order.queryTiles);
    Value behind = m.sub(m.add(firstPlace, size), place);
    return m.add(order.first, m.rem(behind, size));
  }

  // Tile `n` of keys is the first of its pair if `n < half`, else the second
  // one of pair `j = keyTiles - 1 - n`. Times, with as many tiles of queries in
  // a tile of keys as `ratio`:
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

  // Tiles of keys that these queries attend, and of these, those without a
  // masked pair.
  Value firstRow = m.add(m.mul(queries, rows), shift);
  Value attended =
      m.div(m.atLeastZero(m.add(m.add(firstRow, rows), m.sub(columns, one))),
            columns);
  attended = m.min(attended, existing);
  Value whole = m.div(m.atLeastZero(m.add(firstRow, one)), columns);
  whole = m.min(m.min(whole, attended), m.div(keyLength, columns));

  // What pairs of earlier waves add.
  Value before =
      m.add(m.min(attended, order.first),
            m.atLeastZero(m.sub(attended, m.sub(order.keyTiles, order.first))));

  // Second ones of the wave have the numbers `[begin, end)`.
  Value begin = m.sub(order.keyTiles, order.end);
  Value end = m.min(attended, m.sub(order.keyTiles, order.first));
  Value endOfWhole = m.min(whole, end);
  Value firstMasked = m.max(begin, endOfWhole);
  Value endOfFirst = m.min(attended, order.end);

  // Steps from one's first tile of queries: `queries - ratio * n + ahead`.
  Value ahead = m.sub(
      b.countTiles(m.add(m.mul(order.queryTiles, rows), shift), queryTile),
      order.queryTiles);
  Value ofMasked = m.add(m.sub(order.queryTiles, m.mul(ratio, lastTile)),
                         m.add(queries, ahead));
  // Of others, without `ratio * n`.
  Value ofWhole =
      m.sub(m.sub(m.add(m.mul(order.queryTiles, b.index(2)), ratio), queries),
            m.mul(ratio, lastTile));
  Value scaled = m.mul(ratio, order.tile);
  Value isWhole = m.isLess(order.tile, endOfWhole);
  Value ofFirst = m.sub(queries, scaled);
  Value time =
      m.select(order.isSecond,
               m.select(isWhole, m.add(ofWhole, scaled), ofMasked), ofFirst);

  // First ones that are earlier: those of larger numbers.
  Value larger = m.ceilDiv(m.atLeastZero(m.sub(queries, time)), ratio);
  larger = m.max(order.first, larger);
  Value earliest = m.select(order.isSecond, larger, m.add(order.tile, one));
  Value earlierFirst = m.atLeastZero(m.sub(endOfFirst, earliest));

  // Second ones without a masked pair: those of smaller numbers.
  Value left = m.sub(time, ofWhole);
  Value below = m.ceilDiv(m.atLeastZero(left), ratio);
  Value upTo = m.div(m.atLeastZero(m.add(left, ratio)), ratio);
  Value endOfEarlier =
      m.select(order.isSecond, m.select(isWhole, order.tile, upTo), below);
  Value earlierWhole =
      m.atLeastZero(m.sub(m.min(endOfWhole, endOfEarlier), begin));

  // Second ones with masked pairs, which all have the same time.
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
