//===- WorkItemIteration.cpp - Orders in which CTAs visit work items ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Iterations emit index arithmetic alone:
// test/Unit/Dialect/AttnTile/TraversalTest runs it for many shapes and numbers
// of CTAs.
//
//===----------------------------------------------------------------------===//

#include "WorkItemIteration.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"

using namespace mlir;
using namespace mlir::attn_tile;

Value attn_tile::emitProduct(IndexBuilder &builder,
                             ArrayRef<OpFoldResult> sizes) {
  Value product = builder.constant(1);
  for (OpFoldResult size : sizes)
    product = builder.mul(product, getValueOrCreateConstantIndexOp(
                                       builder, builder.getLoc(), size));
  return product;
}

/// Size of a dimension as a value.
static Value emitSize(IndexBuilder &builder, OpFoldResult size) {
  return getValueOrCreateConstantIndexOp(builder, builder.getLoc(), size);
}

/// Emits the induction variables of tile number `tile` of combination number
/// `outer` of the other dimensions.
static SmallVector<Value> emitIndices(IndexBuilder &builder, Value outer,
                                      Value tile,
                                      ArrayRef<OpFoldResult> sizes) {
  SmallVector<Value> indices(sizes.size());
  indices.back() = tile;
  for (unsigned dim = sizes.size() - 1; dim-- > 0;) {
    Value size = emitSize(builder, sizes[dim]);
    indices[dim] = dim == 0 ? outer : builder.rem(outer, size);
    if (dim != 0)
      outer = builder.div(outer, size);
  }
  return indices;
}

SmallVector<Value> attn_tile::emitWorkItem(IndexBuilder &builder, Value item,
                                           ArrayRef<OpFoldResult> sizes,
                                           int64_t interleave) {
  Value tiles = emitSize(builder, sizes.back());
  Value tile, outer;
  if (sizes.size() == 1) {
    tile = item;
  } else if (interleave == 1) {
    tile = builder.rem(item, tiles);
    outer = builder.div(item, tiles);
  } else {
    Value combinations = emitProduct(builder, sizes.drop_back());
    Value first, width = combinations, rest = item;
    if (interleave > 1) {
      Value step = builder.constant(interleave);
      Value section = builder.div(item, builder.mul(tiles, step));
      first = builder.mul(section, step);
      width = builder.min(step, builder.sub(combinations, first));
      rest = builder.sub(item, builder.mul(first, tiles));
    }
    tile = builder.div(rest, width);
    outer = builder.rem(rest, width);
    if (first)
      outer = builder.add(first, outer);
  }
  Value reversed = builder.sub(builder.sub(tiles, builder.constant(1)), tile);
  return emitIndices(builder, outer, reversed, sizes);
}

Value attn_tile::emitShare(IndexBuilder &builder, Value total, Value program,
                           Value programs) {
  Value last = builder.sub(builder.add(total, programs), builder.constant(1));
  return builder.div(builder.sub(last, program), programs);
}

/// Round `r` is work items `[r * programs, (r + 1) * programs)`. Later work
/// items are shorter, so a CTA that always came first in its round would get
/// the longest item of each round. Every other round is therefore visited
/// backwards, unless CTAs wait for one another: then any `programs` consecutive
/// items must be able to run at the same time.
WorkItemIteration WorkItemIteration::overWorkItems(IndexBuilder &builder,
                                                   const Programs &ctas,
                                                   ArrayRef<OpFoldResult> sizes,
                                                   int64_t interleave,
                                                   bool isInOrder) {
  Value total = emitProduct(builder, sizes);
  Value program = ctas.emitId(builder);
  Value programs = ctas.emitCount(builder);
  auto emit = [=, sizes = SmallVector<OpFoldResult>(sizes)](
                  IndexBuilder &builder, Value round) {
    Value first = builder.mul(round, programs);
    if (isInOrder)
      return emitWorkItem(builder, builder.add(first, program), sizes,
                          interleave);
    Value backwards = arith::CmpIOp::create(
        builder, arith::CmpIPredicate::ne,
        builder.rem(round, builder.constant(2)), builder.constant(0));
    Value width = builder.min(programs, builder.sub(total, first));
    Value mirrored = builder.sub(
        builder.sub(builder.add(first, width), builder.constant(1)), program);
    Value item = arith::SelectOp::create(builder, backwards, mirrored,
                                         builder.add(first, program));
    return emitWorkItem(builder, item, sizes, interleave);
  };
  return {emitShare(builder, total, program, programs), emit};
}

namespace {
/// The pairs of query tiles in the last partial wave.
///
/// Dealing out `pairs` equal pairs to `programs` CTAs leaves `rest = pairs mod
/// programs` pairs, for which some CTAs would work a whole round while the
/// others idle. The tiles of these pairs are dealt out one by one instead: a
/// long one to each of the first `rest` CTAs, and all short ones to the others,
/// at most `k = ceil(rest / (programs - rest))` each. All CTAs end at about the
/// same time if the last partial wave has the pairs whose short tile is one
/// part in `k + 1` of the work.
struct RestOfPairs {
  /// The number of these pairs: none if dealing out single tiles would not
  /// help.
  Value count;
  /// The number of these pairs in each head, one more for the first `numLarge`
  /// heads.
  Value perHead, numLarge;
  /// The short tile of the first of these pairs, in each head.
  Value first;
};
} // namespace

/// Chooses the pairs of the last partial wave, of `outer` heads of `tiles`
/// query tiles each.
static RestOfPairs emitRest(IndexBuilder &builder, Value tiles, Value outer,
                            Value programs) {
  Value zero = builder.constant(0), one = builder.constant(1);
  Value pairsOfHead = builder.div(tiles, builder.constant(2));
  Value pairs = builder.mul(outer, pairsOfHead);
  Value count = builder.rem(pairs, programs);
  Value perHead = builder.div(count, outer);
  Value numLarge = builder.rem(count, outer);
  Value most = builder.min(builder.add(perHead, one), pairsOfHead);
  // Query tile `q` visits `q + 1` tiles of keys, and its prologue and epilogue
  // take about as long as one more. So it has `q + 2` parts of the work, and
  // the long tile of its pair `tiles + 1 - q`. The `k` short tiles of a CTA
  // should take as long as a long one: `k * (q + 2) = tiles + 1 - q`.
  Value shortTiles =
      builder.div(builder.sub(programs, one), builder.sub(programs, count));
  Value work = builder.add(tiles, builder.constant(3));
  Value best = builder.div(work, builder.add(shortTiles, one));
  Value reach =
      builder.add(builder.div(most, builder.constant(2)), builder.constant(2));
  Value first = builder.sub(
      arith::MaxUIOp::create(builder, best, reach).getResult(), reach);
  first = builder.min(first, builder.sub(pairsOfHead, most));
  // This does not help if `k` of the longest short tiles would take a CTA
  // longer than a pair. It is not balanced if there is no full round.
  auto compare = [&](arith::CmpIPredicate predicate, Value lhs, Value rhs) {
    return arith::CmpIOp::create(builder, predicate, lhs, rhs);
  };
  Value longest =
      builder.mul(shortTiles, builder.add(builder.add(first, most), one));
  Value isShort = compare(arith::CmpIPredicate::ult, longest, work);
  Value hasRounds = compare(arith::CmpIPredicate::uge, pairs, programs);
  Value helps = arith::AndIOp::create(builder, isShort, hasRounds);
  auto unless = [&](Value value) -> Value {
    return arith::SelectOp::create(builder, helps, value, zero);
  };
  return {unless(count), unless(perHead), unless(numLarge), first};
}

/// Finds the head of unit number `unit`, and the number of the unit within it.
/// The first `numLarge` heads have `sizeOfLarge` units each, the other heads
/// `sizeOfSmall`, which is one less or more.
static std::pair<Value, Value> emitHead(IndexBuilder &builder, Value unit,
                                        Value numLarge, Value sizeOfLarge,
                                        Value sizeOfSmall) {
  Value inLarge = builder.mul(numLarge, sizeOfLarge);
  Value isLarge =
      arith::CmpIOp::create(builder, arith::CmpIPredicate::ult, unit, inLarge);
  auto select = [&](Value yes, Value no) -> Value {
    return arith::SelectOp::create(builder, isLarge, yes, no);
  };
  // A size of zero has no units to find, but must not be a divisor.
  Value size = arith::MaxUIOp::create(builder, select(sizeOfLarge, sizeOfSmall),
                                      builder.constant(1));
  Value from = select(unit, builder.sub(unit, inLarge));
  Value head = builder.add(select(builder.constant(0), numLarge),
                           builder.div(from, size));
  return {head, builder.rem(from, size)};
}

/// Of `n` query tiles of a head, `n - 1 - q` and `q` are a pair; an odd number
/// leaves a middle tile. Pairs are dealt out round-robin, head after head, long
/// tiles first, except for the last partial wave. Then follow the middle tiles,
/// and the tiles of the last partial wave. Middle tiles go first to CTAs that
/// get less of the last partial wave.
WorkItemIteration WorkItemIteration::overPairs(IndexBuilder &builder,
                                               const Programs &ctas,
                                               ArrayRef<OpFoldResult> sizes) {
  Value one = builder.constant(1), two = builder.constant(2);
  Value tiles = emitSize(builder, sizes.back());
  Value outer = emitProduct(builder, sizes.drop_back());
  Value pairsOfHead = builder.div(tiles, two);
  Value program = ctas.emitId(builder);
  Value programs = ctas.emitCount(builder);
  RestOfPairs rest = emitRest(builder, tiles, outer, programs);
  Value pairs = builder.sub(builder.mul(outer, pairsOfHead), rest.count);
  Value middles = builder.mul(outer, builder.rem(tiles, two));
  Value myPairs = emitShare(builder, pairs, program, programs);
  Value shortPrograms = builder.sub(programs, rest.count);
  // CTAs with numbers below `most` get the most work. In the last partial wave,
  // these CTAs hold a long tile, or one short tile more than others. Without
  // such a wave, they hold one pair more.
  Value hasRest = arith::CmpIOp::create(builder, arith::CmpIPredicate::ne,
                                        rest.count, builder.constant(0));
  Value most = arith::SelectOp::create(
      builder, hasRest,
      builder.add(rest.count, builder.rem(rest.count, shortPrograms)),
      builder.rem(pairs, programs));
  Value inMiddle =
      builder.rem(builder.sub(builder.add(program, programs), most), programs);
  Value myMiddles = emitShare(builder, middles, inMiddle, programs);
  Value getsLong = arith::CmpIOp::create(builder, arith::CmpIPredicate::ult,
                                         program, rest.count);
  Value shortProgram = builder.sub(program, rest.count);
  Value myRest = arith::SelectOp::create(
      builder, getsLong, one,
      emitShare(builder, rest.count, shortProgram, shortPrograms));
  Value inPairs = builder.mul(myPairs, two);
  Value beforeRest = builder.add(inPairs, myMiddles);

  auto emit = [=](IndexBuilder &builder, Value step) {
    auto select = [&](Value condition, Value yes, Value no) -> Value {
      return arith::SelectOp::create(builder, condition, yes, no);
    };
    auto compare = [&](arith::CmpIPredicate predicate, Value lhs,
                       Value rhs) -> Value {
      return arith::CmpIOp::create(builder, predicate, lhs, rhs);
    };
    using Predicate = arith::CmpIPredicate;
    Value isRest = compare(Predicate::uge, step, beforeRest);
    Value isMiddle =
        arith::AndIOp::create(builder, compare(Predicate::uge, step, inPairs),
                              compare(Predicate::ult, step, beforeRest));
    // The number of the pair, among the round-robin ones or in the last partial
    // wave, and its head.
    Value pairNumber =
        builder.add(builder.mul(builder.div(step, two), programs), program);
    Value shortPairNumber =
        builder.add(builder.mul(builder.sub(step, beforeRest), shortPrograms),
                    shortProgram);
    Value unit =
        select(isRest, select(getsLong, program, shortPairNumber), pairNumber);
    Value largeRest = builder.add(rest.perHead, one);
    auto [head, number] = emitHead(
        builder, unit, rest.numLarge,
        select(isRest, largeRest, builder.sub(pairsOfHead, largeRest)),
        select(isRest, rest.perHead, builder.sub(pairsOfHead, rest.perHead)));
    // Round-robin pairs skip the pairs of the last partial wave.
    Value skipped = select(compare(Predicate::ult, head, rest.numLarge),
                           largeRest, rest.perHead);
    Value isBefore = compare(Predicate::ult, number, rest.first);
    Value place = builder.add(
        number, select(isRest, rest.first,
                       select(isBefore, builder.constant(0), skipped)));
    Value isLong = select(
        isRest, getsLong,
        compare(Predicate::eq, builder.rem(step, two), builder.constant(0)));
    Value longTile = builder.sub(builder.sub(tiles, one), place);
    Value tile = select(isMiddle, pairsOfHead, select(isLong, longTile, place));
    Value middle = builder.add(
        builder.mul(builder.sub(step, inPairs), programs), inMiddle);
    return ::emitIndices(builder, select(isMiddle, middle, head), tile, sizes);
  };
  return {builder.add(beforeRest, myRest), emit};
}

namespace {
/// The last heads of an in-order iteration over pairs, if their work items may
/// begin in any order.
///
/// If `units` pairs are no multiple of `programs` CTAs, some CTAs would work a
/// whole round while the others idle. The work items of this round and of the
/// one before are dealt out one by one instead, the longest first, alternately
/// forwards and backwards, so that all CTAs end at about the same time.
struct LastHeads {
  /// The first of these heads, an even number: past all heads if single work
  /// items would not help.
  Value first;

  /// The number of these heads, and the number of units before them, of `outer`
  /// heads of `tiles` query tiles. CTAs that keep these numbers for all of
  /// their work items spill registers.
  Value emitCount(IndexBuilder &builder, Value outer) const {
    Value left = builder.sub(outer, builder.min(first, outer));
    return arith::MaxUIOp::create(builder, left, builder.constant(1));
  }
  Value emitUnitsBefore(IndexBuilder &builder, Value tiles) const {
    return builder.mul(builder.div(first, builder.constant(2)), tiles);
  }
};
} // namespace

/// Finds the last heads of `outer` heads of `tiles` query tiles. Together they
/// have no more than `mostWorkItems` work items.
static LastHeads emitLastHeads(IndexBuilder &builder, Value tiles, Value outer,
                               Value units, Value programs,
                               int64_t mostWorkItems) {
  using Predicate = arith::CmpIPredicate;
  auto compare = [&](Predicate predicate, Value lhs, Value rhs) -> Value {
    return arith::CmpIOp::create(builder, predicate, lhs, rhs);
  };
  Value zero = builder.constant(0), one = builder.constant(1);
  Value rest = builder.rem(units, programs);
  Value rounds = builder.div(units, programs);
  Value whole = builder.sub(
      arith::MaxUIOp::create(builder, rounds, one).getResult(), one);
  // Two heads of `tiles` work items each are `tiles` units; there may be none.
  Value some = arith::MaxUIOp::create(builder, tiles, one);
  Value twoHeads = builder.div(builder.mul(whole, programs), some);
  Value first = builder.mul(twoHeads, builder.constant(2));
  Value items = builder.mul(builder.sub(outer, first), tiles);
  // A last round that is nearly full leaves no more idle time than single work
  // items would.
  Value helps = arith::AndIOp::create(
      builder, compare(Predicate::ne, rest, zero),
      compare(Predicate::ule, builder.mul(rest, builder.constant(8)),
              builder.mul(programs, builder.constant(7))));
  helps = arith::AndIOp::create(
      builder, helps,
      compare(Predicate::ule, items, builder.constant(mostWorkItems)));
  Value none =
      builder.mul(builder.div(builder.add(outer, one), builder.constant(2)),
                  builder.constant(2));
  return {arith::SelectOp::create(builder, helps, first, none)};
}

namespace {
/// An iteration over pairs in order, of `outer` heads of `tiles` query tiles.
struct OrderedPairs {
  using Predicate = arith::CmpIPredicate;

  Value tiles, outer, items, pairsOfHead, units;
  Value program, programs;
  /// The heads whose work items may begin in any order, if there are any.
  std::optional<LastHeads> last;

  static Value select(IndexBuilder &builder, Value condition, Value yes,
                      Value no) {
    return arith::SelectOp::create(builder, condition, yes, no);
  }
  static Value compare(IndexBuilder &builder, Predicate predicate, Value lhs,
                       Value rhs) {
    return arith::CmpIOp::create(builder, predicate, lhs, rhs);
  }

  /// The number of steps over the program's share of `unitsInOrder`.
  Value emitStepsInOrder(IndexBuilder &builder, Value unitsInOrder) const {
    return builder.mul(emitShare(builder, unitsInOrder, program, programs),
                       builder.constant(2));
  }

  /// The place of the program in a row of the last work items. Rows run
  /// forwards if even, backwards if odd.
  Value emitPlace(IndexBuilder &builder, Value row) const {
    Value backwards =
        builder.sub(builder.sub(programs, builder.constant(1)), program);
    Value isEven =
        compare(builder, Predicate::eq, builder.rem(row, builder.constant(2)),
                builder.constant(0));
    return select(builder, isEven, program, backwards);
  }

  /// The number of steps of the program.
  Value emitCount(IndexBuilder &builder) const;
  /// The head and the tile of a step over units.
  std::pair<Value, Value> emitPairTile(IndexBuilder &builder, Value step,
                                       Value unit) const;
  /// The head and the tile of any step.
  std::pair<Value, Value> emitTile(IndexBuilder &builder, Value step) const;
};
} // namespace

Value OrderedPairs::emitCount(IndexBuilder &builder) const {
  Value zero = builder.constant(0), one = builder.constant(1);
  // The CTA with half a unit has one step less.
  Value lastProgram =
      builder.rem(builder.sub(builder.add(units, programs), one), programs);
  Value hasHalf = compare(builder, Predicate::eq, program, lastProgram);
  Value unitsInOrder = units;
  if (last) {
    unitsInOrder = builder.min(units, last->emitUnitsBefore(builder, tiles));
    hasHalf = arith::AndIOp::create(
        builder, hasHalf, compare(builder, Predicate::uge, last->first, outer));
  }
  Value missing =
      select(builder, hasHalf, builder.rem(items, builder.constant(2)), zero);
  Value count = builder.sub(emitStepsInOrder(builder, unitsInOrder), missing);
  if (!last)
    return count;
  Value single =
      builder.mul(builder.sub(outer, builder.min(last->first, outer)), tiles);
  Value rows = builder.div(single, programs);
  Value isInRow = compare(builder, Predicate::ult, emitPlace(builder, rows),
                          builder.rem(single, programs));
  Value inRow = select(builder, isInRow, one, zero);
  return builder.add(builder.add(count, rows), inRow);
}

std::pair<Value, Value> OrderedPairs::emitPairTile(IndexBuilder &builder,
                                                   Value step,
                                                   Value unit) const {
  Value zero = builder.constant(0), one = builder.constant(1),
        two = builder.constant(2);
  Value half = builder.rem(step, two);
  Value heads = builder.mul(builder.div(unit, tiles), two);
  Value number = builder.rem(unit, tiles);
  Value isFirst = compare(builder, Predicate::ult, number, pairsOfHead);
  Value inSecond = builder.sub(number, builder.sub(tiles, pairsOfHead));
  Value isMiddle = arith::AndIOp::create(
      builder, compare(builder, Predicate::eq, number, pairsOfHead),
      compare(builder, Predicate::ne, builder.rem(tiles, two), zero));
  Value head = builder.add(heads, select(builder, isMiddle, half,
                                         select(builder, isFirst, zero, one)));
  Value place = select(builder, isFirst, number, inSecond);
  Value isLong = compare(builder, Predicate::eq, half, zero);
  Value longTile = builder.sub(builder.sub(tiles, one), place);
  Value tile = select(builder, isMiddle, pairsOfHead,
                      select(builder, isLong, longTile, place));
  return {head, tile};
}

std::pair<Value, Value> OrderedPairs::emitTile(IndexBuilder &builder,
                                               Value step) const {
  Value unit = builder.add(
      builder.mul(builder.div(step, builder.constant(2)), programs), program);
  auto [head, tile] = emitPairTile(builder, step, unit);
  if (!last)
    return {head, tile};
  Value before = last->emitUnitsBefore(builder, tiles);
  Value isLast = compare(builder, Predicate::uge, unit, before);
  // The longest work items of all heads, then the next ones.
  Value row = builder.sub(step, emitStepsInOrder(builder, before));
  Value item = builder.add(builder.mul(row, programs), emitPlace(builder, row));
  Value count = last->emitCount(builder, outer);
  Value shorter = builder.div(item, count);
  Value lastHead = builder.add(last->first, builder.rem(item, count));
  head = select(builder, isLast, lastHead, head);
  Value lastTile =
      builder.sub(builder.sub(tiles, builder.constant(1)), shorter);
  return {head, select(builder, isLast, lastTile, tile)};
}

/// The same pairs, but without a partial wave, and in an order in which each
/// CTA ends with heads one after the other. Two heads of `n` tiles are `n`
/// units: the pairs of the first one, the middle tiles of both if there are
/// any, and the pairs of the second one. A last head that is alone may end with
/// half a unit. The last `lastWorkItems` work items may begin in any order.
WorkItemIteration
WorkItemIteration::overPairsInOrder(IndexBuilder &builder, const Programs &ctas,
                                    ArrayRef<OpFoldResult> sizes,
                                    int64_t lastWorkItems) {
  Value one = builder.constant(1), two = builder.constant(2);
  OrderedPairs pairs;
  pairs.tiles = emitSize(builder, sizes.back());
  pairs.outer = emitProduct(builder, sizes.drop_back());
  pairs.items = builder.mul(pairs.outer, pairs.tiles);
  pairs.pairsOfHead = builder.div(pairs.tiles, two);
  pairs.units = builder.div(builder.add(pairs.items, one), two);
  pairs.program = ctas.emitId(builder);
  pairs.programs = ctas.emitCount(builder);
  if (lastWorkItems > 0)
    pairs.last = emitLastHeads(builder, pairs.tiles, pairs.outer, pairs.units,
                               pairs.programs, lastWorkItems);
  auto emit = [=, sizes = SmallVector<OpFoldResult>(sizes)](
                  IndexBuilder &builder, Value step) {
    auto [head, tile] = pairs.emitTile(builder, step);
    return ::emitIndices(builder, head, tile, sizes);
  };
  return {pairs.emitCount(builder), emit};
}

/// The code that counts the work items at run time has put long and short ones
/// next to one another, an even number of them: items `2 * i` and `2 * i + 1`
/// are a unit.
WorkItemIteration
WorkItemIteration::overNeighbours(IndexBuilder &builder, const Programs &ctas,
                                  ArrayRef<OpFoldResult> sizes,
                                  int64_t interleave) {
  SmallVector<OpFoldResult> units(sizes);
  units.back() =
      builder.div(emitSize(builder, sizes.back()), builder.constant(2));
  WorkItemIteration iteration = overWorkItems(builder, ctas, units, interleave);
  auto emit = [=](IndexBuilder &builder, Value step) {
    Value two = builder.constant(2);
    SmallVector<Value> indices =
        iteration.emitIndices(builder, builder.div(step, two));
    Value first =
        builder.add(builder.mul(indices.back(), two), builder.constant(1));
    indices.back() = builder.sub(first, builder.rem(step, two));
    return indices;
  };
  return {builder.mul(iteration.count, builder.constant(2)), emit};
}
