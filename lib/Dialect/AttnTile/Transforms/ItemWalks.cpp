//===- ItemWalks.cpp - Orders in which groups visit work items ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks emit index arithmetic alone: test/Unit/Dialect/AttnTile/TraversalTest
// runs it for many shapes and numbers of groups.
//
//===----------------------------------------------------------------------===//

#include "ItemWalks.h"
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

SmallVector<Value> attn_tile::emitItem(IndexBuilder &builder, Value item,
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

/// Round `r` is items `[r * programs, (r + 1) * programs)`. Items become
/// shorter along the walk, so a group that always came first in its round would
/// get the longest item of each: every other round is walked backwards, unless
/// groups wait for one another: then any `programs` items that follow one
/// another must be able to run at the same time.
Walk Walk::overItems(IndexBuilder &builder, const Walkers &walkers,
                     ArrayRef<OpFoldResult> sizes, int64_t interleave,
                     bool isInOrder) {
  Value total = emitProduct(builder, sizes);
  Value program = walkers.emitId(builder);
  Value programs = walkers.emitCount(builder);
  auto emit = [=, sizes = SmallVector<OpFoldResult>(sizes)](
                  IndexBuilder &builder, Value round) {
    Value first = builder.mul(round, programs);
    if (isInOrder)
      return emitItem(builder, builder.add(first, program), sizes, interleave);
    Value backwards = arith::CmpIOp::create(
        builder, arith::CmpIPredicate::ne,
        builder.rem(round, builder.constant(2)), builder.constant(0));
    Value width = builder.min(programs, builder.sub(total, first));
    Value mirrored = builder.sub(
        builder.sub(builder.add(first, width), builder.constant(1)), program);
    Value item = arith::SelectOp::create(builder, backwards, mirrored,
                                         builder.add(first, program));
    return emitItem(builder, item, sizes, interleave);
  };
  return {emitShare(builder, total, program, programs), emit};
}

namespace {
/// The pairs of query tiles that a walk over pairs ends with.
///
/// Dealing out `pairs` equal pairs to `programs` groups leaves
/// `rest = pairs mod programs` of them, for which some groups would work a
/// whole round while the others have nothing to do. Their tiles are dealt out
/// one by one instead: a long one to each of the first `rest` groups, and all
/// short ones to the others, at most `k = ceil(rest / (programs - rest))` each.
/// If the rest is taken from the pairs whose short tile has one part in `k + 1`
/// of the work, all groups end at about the same time.
struct RestOfPairs {
  /// How many there are: none if that would not help.
  Value count;
  /// Pairs of each head that are left, one more for the first `numLarge` heads.
  Value perHead, numLarge;
  /// The short tile of the first of them, in each head.
  Value first;
};
} // namespace

/// Chooses the rest of `outer` heads of `tiles` query tiles each.
static RestOfPairs emitRest(IndexBuilder &builder, Value tiles, Value outer,
                            Value programs) {
  Value zero = builder.constant(0), one = builder.constant(1);
  Value pairsOfHead = builder.div(tiles, builder.constant(2));
  Value pairs = builder.mul(outer, pairsOfHead);
  Value count = builder.rem(pairs, programs);
  Value perHead = builder.div(count, outer);
  Value numLarge = builder.rem(count, outer);
  Value most = builder.min(builder.add(perHead, one), pairsOfHead);
  // The tile with number `q` meets `q + 1` tiles of keys, and its beginning and
  // end take about as long as one more: it has `q + 2` parts of the work, the
  // long tile of its pair `tiles + 1 - q`. The `k` short tiles of a group are
  // to take as long as a long one: `k * (q + 2) = tiles + 1 - q`.
  Value shortTiles =
      builder.div(builder.sub(programs, one), builder.sub(programs, count));
  Value work = builder.add(tiles, builder.constant(3));
  Value best = builder.div(work, builder.add(shortTiles, one));
  Value reach =
      builder.add(builder.div(most, builder.constant(2)), builder.constant(2));
  Value first = builder.sub(
      arith::MaxUIOp::create(builder, best, reach).getResult(), reach);
  first = builder.min(first, builder.sub(pairsOfHead, most));
  // This does not help if the longest of the short tiles would take a group
  // longer than a pair, and is not balanced if there is nothing but the rest.
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

/// Finds number `unit` of `sizeOfLarge` units in each of the first `numLarge`
/// heads and one less or more, `sizeOfSmall`, in each other: its head, and its
/// number within it.
static std::pair<Value, Value> emitHead(IndexBuilder &builder, Value unit,
                                        Value numLarge, Value sizeOfLarge,
                                        Value sizeOfSmall) {
  Value inLarge = builder.mul(numLarge, sizeOfLarge);
  Value isLarge =
      arith::CmpIOp::create(builder, arith::CmpIPredicate::ult, unit, inLarge);
  auto select = [&](Value yes, Value no) -> Value {
    return arith::SelectOp::create(builder, isLarge, yes, no);
  };
  // Where there are no units of a size, none is looked for.
  Value size = arith::MaxUIOp::create(builder, select(sizeOfLarge, sizeOfSmall),
                                      builder.constant(1));
  Value from = select(unit, builder.sub(unit, inLarge));
  Value head = builder.add(select(builder.constant(0), numLarge),
                           builder.div(from, size));
  return {head, builder.rem(from, size)};
}

/// Of `n` query tiles of a head, `n - 1 - q` and `q` are a pair; an odd one in
/// the middle is left. Pairs are dealt out in turn, head after head, long tiles
/// first, but for the rest of the last round; then follow the tiles in the
/// middle, and the tiles of the rest. Those in the middle go to groups that get
/// less of the last round first.
Walk Walk::overPairs(IndexBuilder &builder, const Walkers &walkers,
                     ArrayRef<OpFoldResult> sizes) {
  Value one = builder.constant(1), two = builder.constant(2);
  Value tiles = emitSize(builder, sizes.back());
  Value outer = emitProduct(builder, sizes.drop_back());
  Value pairsOfHead = builder.div(tiles, two);
  Value program = walkers.emitId(builder);
  Value programs = walkers.emitCount(builder);
  RestOfPairs rest = emitRest(builder, tiles, outer, programs);
  Value pairs = builder.sub(builder.mul(outer, pairsOfHead), rest.count);
  Value middles = builder.mul(outer, builder.rem(tiles, two));
  Value myPairs = emitShare(builder, pairs, program, programs);
  Value shortPrograms = builder.sub(programs, rest.count);
  // Those get the most that come before `most`: of a rest, who has a long tile
  // or one more of the short ones than others, and else who has one pair more.
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
    // Which pair, of those in turn or of the rest, and in which head.
    Value turn =
        builder.add(builder.mul(builder.div(step, two), programs), program);
    Value turnOfShort =
        builder.add(builder.mul(builder.sub(step, beforeRest), shortPrograms),
                    shortProgram);
    Value unit = select(isRest, select(getsLong, program, turnOfShort), turn);
    Value largeRest = builder.add(rest.perHead, one);
    auto [head, number] = emitHead(
        builder, unit, rest.numLarge,
        select(isRest, largeRest, builder.sub(pairsOfHead, largeRest)),
        select(isRest, rest.perHead, builder.sub(pairsOfHead, rest.perHead)));
    // Those in turn leave the rest out.
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
/// The heads that a walk over pairs in order ends with, if their items may
/// begin in any order.
///
/// Where `units` pairs are no multiple of `programs` groups, some groups would
/// work a whole round while the others have nothing to do. The items of this
/// round and of the one before are dealt out one by one instead, the longest
/// first, forwards and backwards in turn, so that all groups end at about the
/// same time.
struct LastHeads {
  /// The first of them, an even number: none of the heads if that would not
  /// help.
  Value first;

  /// How many there are, and the units before them, of `outer` heads of `tiles`
  /// query tiles. Groups that keep these numbers for all of their items spill.
  Value emitCount(IndexBuilder &builder, Value outer) const {
    Value left = builder.sub(outer, builder.min(first, outer));
    return arith::MaxUIOp::create(builder, left, builder.constant(1));
  }
  Value emitUnitsBefore(IndexBuilder &builder, Value tiles) const {
    return builder.mul(builder.div(first, builder.constant(2)), tiles);
  }
};
} // namespace

/// Finds the last heads of `outer` heads of `tiles` query tiles, which are no
/// more than `mostItems` items.
static LastHeads emitLastHeads(IndexBuilder &builder, Value tiles, Value outer,
                               Value units, Value programs, int64_t mostItems) {
  using Predicate = arith::CmpIPredicate;
  auto compare = [&](Predicate predicate, Value lhs, Value rhs) -> Value {
    return arith::CmpIOp::create(builder, predicate, lhs, rhs);
  };
  Value zero = builder.constant(0), one = builder.constant(1);
  Value rest = builder.rem(units, programs);
  Value rounds = builder.div(units, programs);
  Value whole = builder.sub(
      arith::MaxUIOp::create(builder, rounds, one).getResult(), one);
  // Two heads of `tiles` items each are `tiles` units; there may be none.
  Value some = arith::MaxUIOp::create(builder, tiles, one);
  Value twoHeads = builder.div(builder.mul(whole, programs), some);
  Value first = builder.mul(twoHeads, builder.constant(2));
  Value items = builder.mul(builder.sub(outer, first), tiles);
  // What is left of a round that is nearly whole is no more than what single
  // items leave.
  Value helps = arith::AndIOp::create(
      builder, compare(Predicate::ne, rest, zero),
      compare(Predicate::ule, builder.mul(rest, builder.constant(8)),
              builder.mul(programs, builder.constant(7))));
  helps = arith::AndIOp::create(
      builder, helps,
      compare(Predicate::ule, items, builder.constant(mostItems)));
  Value none =
      builder.mul(builder.div(builder.add(outer, one), builder.constant(2)),
                  builder.constant(2));
  return {arith::SelectOp::create(builder, helps, first, none)};
}

/// The same pairs, but no rest, and in an order in which each group ends with
/// heads one after the other. Two heads of `n` tiles are `n` units: the pairs
/// of the first one, the tiles in the middle of both if there are any, and the
/// pairs of the second one. A last head that is alone may end with half a unit.
/// The last `lastItems` items may begin in any order.
Walk Walk::overPairsInOrder(IndexBuilder &builder, const Walkers &walkers,
                            ArrayRef<OpFoldResult> sizes, int64_t lastItems) {
  using Predicate = arith::CmpIPredicate;
  Value one = builder.constant(1), two = builder.constant(2);
  Value tiles = emitSize(builder, sizes.back());
  Value outer = emitProduct(builder, sizes.drop_back());
  Value items = builder.mul(outer, tiles);
  Value pairsOfHead = builder.div(tiles, two);
  Value units = builder.div(builder.add(items, one), two);
  Value program = walkers.emitId(builder);
  Value programs = walkers.emitCount(builder);
  LastHeads last;
  Value unitsInOrder = units;
  if (lastItems > 0) {
    last = emitLastHeads(builder, tiles, outer, units, programs, lastItems);
    unitsInOrder = builder.min(units, last.emitUnitsBefore(builder, tiles));
  }
  auto emitStepsInOrder = [=](IndexBuilder &builder, Value unitsInOrder) {
    return builder.mul(emitShare(builder, unitsInOrder, program, programs),
                       builder.constant(2));
  };
  // The last step of the group that has it is that of half a unit.
  Value lastProgram =
      builder.rem(builder.sub(builder.add(units, programs), one), programs);
  Value hasHalf =
      arith::CmpIOp::create(builder, Predicate::eq, program, lastProgram);
  if (lastItems > 0)
    hasHalf = arith::AndIOp::create(
        builder, hasHalf,
        arith::CmpIOp::create(builder, Predicate::uge, last.first, outer));
  Value missing = arith::SelectOp::create(
      builder, hasHalf, builder.rem(items, two), builder.constant(0));
  Value count = builder.sub(emitStepsInOrder(builder, unitsInOrder), missing);

  // Row number `row` of the last items goes forwards or backwards.
  auto emitPlace = [=](IndexBuilder &builder, Value row) -> Value {
    Value backwards =
        builder.sub(builder.sub(programs, builder.constant(1)), program);
    Value isEven = arith::CmpIOp::create(builder, Predicate::eq,
                                         builder.rem(row, builder.constant(2)),
                                         builder.constant(0));
    return arith::SelectOp::create(builder, isEven, program, backwards);
  };
  if (lastItems > 0) {
    Value single =
        builder.mul(builder.sub(outer, builder.min(last.first, outer)), tiles);
    Value rows = builder.div(single, programs);
    Value isInRow =
        arith::CmpIOp::create(builder, Predicate::ult, emitPlace(builder, rows),
                              builder.rem(single, programs));
    Value inRow =
        arith::SelectOp::create(builder, isInRow, one, builder.constant(0));
    count = builder.add(builder.add(count, rows), inRow);
  }

  auto emit = [=, sizes = SmallVector<OpFoldResult>(sizes)](
                  IndexBuilder &builder, Value step) {
    auto compare = [&](Predicate predicate, Value lhs, Value rhs) -> Value {
      return arith::CmpIOp::create(builder, predicate, lhs, rhs);
    };
    auto select = [&](Value condition, Value yes, Value no) -> Value {
      return arith::SelectOp::create(builder, condition, yes, no);
    };
    Value unit =
        builder.add(builder.mul(builder.div(step, two), programs), program);
    Value half = builder.rem(step, two);
    Value heads = builder.mul(builder.div(unit, tiles), two);
    Value number = builder.rem(unit, tiles);
    Value isFirst = compare(Predicate::ult, number, pairsOfHead);
    Value inSecond = builder.sub(number, builder.sub(tiles, pairsOfHead));
    Value isMiddle = arith::AndIOp::create(
        builder, compare(Predicate::eq, number, pairsOfHead),
        compare(Predicate::ne, builder.rem(tiles, two), builder.constant(0)));
    Value head =
        builder.add(heads, select(isMiddle, half,
                                  select(isFirst, builder.constant(0), one)));
    Value place = select(isFirst, number, inSecond);
    Value isLong = compare(Predicate::eq, half, builder.constant(0));
    Value longTile = builder.sub(builder.sub(tiles, one), place);
    Value tile = select(isMiddle, pairsOfHead, select(isLong, longTile, place));
    if (lastItems > 0) {
      // The longest items of all heads, then the next ones.
      Value before = last.emitUnitsBefore(builder, tiles);
      Value isLast = compare(Predicate::uge, unit, before);
      Value row = builder.sub(step, emitStepsInOrder(builder, before));
      Value item =
          builder.add(builder.mul(row, programs), emitPlace(builder, row));
      Value count = last.emitCount(builder, outer);
      Value shorter = builder.div(item, count);
      head = select(isLast, builder.add(last.first, builder.rem(item, count)),
                    head);
      tile =
          select(isLast, builder.sub(builder.sub(tiles, one), shorter), tile);
    }
    return ::emitIndices(builder, head, tile, sizes);
  };
  return {count, emit};
}

/// Whoever counts the items at run time has put long and short ones next to one
/// another, an even number of them: items `2 * i` and `2 * i + 1` are a unit.
Walk Walk::overNeighbours(IndexBuilder &builder, const Walkers &walkers,
                          ArrayRef<OpFoldResult> sizes, int64_t interleave) {
  SmallVector<OpFoldResult> units(sizes);
  units.back() =
      builder.div(emitSize(builder, sizes.back()), builder.constant(2));
  Walk walk = overItems(builder, walkers, units, interleave);
  auto emit = [=](IndexBuilder &builder, Value step) {
    Value two = builder.constant(2);
    SmallVector<Value> indices =
        walk.emitIndices(builder, builder.div(step, two));
    Value first =
        builder.add(builder.mul(indices.back(), two), builder.constant(1));
    indices.back() = builder.sub(first, builder.rem(step, two));
    return indices;
  };
  return {builder.mul(walk.count, builder.constant(2)), emit};
}
