//===- MaskTiles.cpp - Code for the tiles to attend -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits index arithmetic for intervals: their bounds, and the ranges of tiles
// that intervals of attended and of masked positions make together.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskTiles.h"
#include "attn/Analysis/BoundedReads.h"
#include "attn/Analysis/MaskAlgebra.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

/// Ranges of one kind beyond which tiles are not told apart.
static constexpr size_t maxRangesOfTiles = 6;

namespace {
/// Intervals that make one range: a single one, or several from zero on.
using Group = std::vector<Interval>;

/// Emits the bounds of intervals.
class IntervalEmitter {
public:
  IntervalEmitter(OpBuilder &builder, Location loc, const ScoreMask &mask,
                  MaskDim dim, Value first, int64_t tileSize,
                  WorkBudget *total = nullptr);

  /// The tiles to visit: all of them, masked, if an integer that the analysis
  /// takes to be small is not.
  TileRanges emitTiles(int64_t streamedTileSize);
  std::optional<SmallVector<IndexRange>> emitRanges(unsigned maxRanges);

  bool isLimited() const { return analysis.isLimited(); }

private:
  template <typename OpTy>
  Value fold(Value lhs, Value rhs) {
    return b.createOrFold<OpTy>(lhs, rhs);
  }
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  Value select(Value condition, Value yes, Value no) {
    return b.createOrFold<arith::SelectOp>(condition, yes, no);
  }
  Value less(Value lhs, Value rhs) {
    return b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::slt, lhs, rhs);
  }
  Value min(Value lhs, Value rhs) { return fold<arith::MinSIOp>(lhs, rhs); }
  Value max(Value lhs, Value rhs) { return fold<arith::MaxSIOp>(lhs, rhs); }

  /// Masked positions that cut attended tiles.
  struct Cuts {
    /// Groups of them that end, and their tiles.
    std::vector<Group> groups;
    SmallVector<IndexRange> tiles;
    /// The tile from which on every position is masked, or null.
    Value tailTile;
    /// No tile reaches behind these.
    std::vector<Interval> tails;
    /// Whether groups are in order for all tiles.
    bool isKnown;
    int64_t tileSize;
  };

  TileRanges emitClosedForm(Value allTiles, int64_t streamedTileSize);
  Value emitTailTile(ArrayRef<Interval> tails, Value allTiles, int64_t size);
  bool mayCut(const Group &cutting, const Group &group, int64_t size);
  void emitCut(const Group &group, const Group *before, IndexRange tiles,
               const Cuts &cuts, TileRanges &result);
  Value emitSmallSymbols();
  Value emitSymbol(Value value);
  Value emitClamped(Value value, int64_t largest);
  Value emitSum(const LinearForm &form, Type type);
  Value emitVariable(unsigned variable);
  Value emitForm(const LinearForm &form);
  Value emitFloor(const LinearForm &form, int64_t divisor);
  Value emitQuotient(const LinearForm &form, Value value, int64_t divisor);
  Value emitBegin(const Interval &interval);
  Value emitEnd(const Interval &interval);
  Value emitGuards(const Interval &interval);
  IndexRange emitRange(const Interval &interval, bool isOnly);
  bool sort(std::vector<Interval> &intervals);
  bool mayLieBetween(const Group &group, const Group *before,
                     ArrayRef<Interval> behind, int64_t size);
  SmallVector<IndexRange> emitDisjoint(ArrayRef<Group> groups, bool isSorted,
                                       bool isOnly, int64_t size);

  ImplicitLocOpBuilder b;
  PredicateBlock block;
  MaskAnalysis analysis;
  Value first, last, zero, one, streamedLength;
  /// Whether the iteration is over keys, not queries.
  bool isKeyIteration;
  DenseMap<unsigned, Value> emitted;
  IRMapping mapping;
};
} // namespace

PredicateBlock::PredicateBlock(Location loc, const ScoreMask &mask) {
  Block &block = region.emplaceBlock();
  OpBuilder builder(mask.queryLength.getContext());
  for (unsigned i = 0; i < 4; ++i)
    block.addArgument(builder.getIndexType(), loc);
  builder.setInsertionPointToStart(&block);
  positions = {block.getArgument(0), block.getArgument(1), block.getArgument(2),
               block.getArgument(3), mask.queryLength,     mask.keyLength};
  if (mask.mask)
    predicate = mask.mask.emitPredicate(
        builder, loc,
        {positions.batch, positions.head, positions.query, positions.key,
         positions.queryLength, positions.keyLength});
  if (!mask.maskMod || mask.maskMod->empty())
    return;
  IRMapping mapping;
  mapping.map(mask.maskMod->getArguments(), block.getArguments());
  for (Operation &op : mask.maskMod->front().without_terminator())
    builder.clone(op, mapping);
  Value kept = mapping.lookupOrDefault(
      mask.maskMod->front().getTerminator()->getOperand(0));
  predicate =
      predicate
          ? arith::AndIOp::create(builder, loc, predicate, kept).getResult()
          : kept;
}

IntervalEmitter::IntervalEmitter(OpBuilder &builder, Location loc,
                                 const ScoreMask &mask, MaskDim dim,
                                 Value first, int64_t tileSize,
                                 WorkBudget *total)
    : b(loc, builder), block(loc, mask),
      analysis(block.getPositions(), /*budget=*/nullptr, total), first(first),
      zero(index(0)), one(index(1)), isKeyIteration(dim == MaskDim::Query) {
  analysis.assumeSmallSymbols();
  if (Value predicate = block.getPredicate())
    analysis.restrict(predicate);
  analysis.setTile(dim, tileSize);
  streamedLength = isKeyIteration ? mask.keyLength : mask.queryLength;
  last = first;
  if (tileSize != 1) {
    Value end = fold<arith::AddIOp>(first, index(tileSize));
    end = min(end, isKeyIteration ? mask.queryLength : mask.keyLength);
    last = fold<arith::SubIOp>(end, one);
  }
  mapping.map(block.getPositions().batch, mask.batch);
  mapping.map(block.getPositions().head, mask.head);
}

/// Computes a value of the predicate, one that does not depend on the pair,
/// here.
Value IntervalEmitter::emitSymbol(Value value) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != block.getBlock())
    return value;
  op->walk([&](Operation *nested) {
    for (Value operand : nested->getOperands()) {
      Operation *owner = operand.getParentBlock()->getParentOp();
      if (!owner || !op->isAncestor(owner))
        emitSymbol(operand);
    }
  });
  boundReads(b, b.clone(*op, mapping));
  return mapping.lookup(value);
}

Value IntervalEmitter::emitVariable(unsigned variable) {
  if (Value known = emitted.lookup(variable))
    return known;
  const MaskAnalysis::Variable definition = analysis.getVariable(variable);
  using Kind = MaskAnalysis::VariableKind;
  Value value;
  switch (definition.kind) {
  case Kind::First:
    value = first;
    break;
  case Kind::Last:
    value = last;
    break;
  case Kind::Value:
    value = emitSymbol(definition.value);
    if (value.getType().isInteger(1))
      value = arith::IndexCastUIOp::create(b, b.getIndexType(), value);
    else if (!value.getType().isIndex())
      value = emitClamped(value, kLargestInteger);
    break;
  case Kind::Floor:
    value = emitFloor(definition.form, definition.divisor);
    break;
  case Kind::Query:
  case Kind::Key:
  case Kind::Internal:
    llvm_unreachable("variable should have been eliminated");
  }
  emitted[variable] = value;
  return value;
}

/// `value` as an index between `-largest` and `largest`.
Value IntervalEmitter::emitClamped(Value value, int64_t largest) {
  auto constant = [&](int64_t bound) -> Value {
    return arith::ConstantOp::create(b,
                                     b.getIntegerAttr(value.getType(), bound));
  };
  value = max(min(value, constant(largest)), constant(-largest));
  return b.createOrFold<arith::IndexCastOp>(b.getIndexType(), value);
}

/// Whether all integers that the analysis may take to be small are; null if it
/// relies on none.
Value IntervalEmitter::emitSmallSymbols() {
  if (!analysis.hasAssumedSmallSymbols())
    return Value();
  Value result;
  for (unsigned variable = 0; variable < analysis.getNumVariables();
       ++variable) {
    const MaskAnalysis::Variable &definition = analysis.getVariable(variable);
    if (definition.kind != MaskAnalysis::VariableKind::Value ||
        definition.value.getType().isIndex() ||
        definition.value.getType().isInteger(1))
      continue;
    Value value = emitSymbol(definition.value);
    auto isWithin = [&](arith::CmpIPredicate predicate, int64_t bound) {
      Value constant = arith::ConstantOp::create(
          b, b.getIntegerAttr(value.getType(), bound));
      return b.createOrFold<arith::CmpIOp>(predicate, value, constant);
    };
    Value isSmall = fold<arith::AndIOp>(
        isWithin(arith::CmpIPredicate::sle, kLargestSymbol),
        isWithin(arith::CmpIPredicate::sge, -kLargestSymbol));
    result = result ? fold<arith::AndIOp>(result, isSmall) : isSmall;
  }
  return result;
}

/// The value of `form`; one that leaves 32 bits becomes the nearest integer
/// that does not, with some room.
Value IntervalEmitter::emitForm(const LinearForm &form) {
  // Targets may compute indices in 32 bits.
  if (analysis.fits(form, 32, /*hasSmallSymbols=*/true))
    return emitSum(form, b.getIndexType());
  return emitClamped(emitSum(form, b.getI64Type()), kLargestInteger);
}

Value IntervalEmitter::emitSum(const LinearForm &form, Type type) {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
  };
  Value sum;
  Value subtracted;
  for (auto [variable, coefficient] : llvm::enumerate(form.coefficients)) {
    if (coefficient == 0)
      continue;
    Value term = emitVariable(variable);
    if (!type.isIndex())
      term = b.createOrFold<arith::IndexCastOp>(type, term);
    if (std::abs(coefficient) != 1)
      term = fold<arith::MulIOp>(term, constant(std::abs(coefficient)));
    Value &target = coefficient > 0 ? sum : subtracted;
    target = target ? fold<arith::AddIOp>(target, term) : term;
  }
  if (!sum)
    sum = constant(form.constant);
  else if (form.constant != 0)
    sum = fold<arith::AddIOp>(sum, constant(form.constant));
  return subtracted ? fold<arith::SubIOp>(sum, subtracted) : sum;
}

Value IntervalEmitter::emitFloor(const LinearForm &form, int64_t divisor) {
  if (divisor == 1)
    return emitForm(form);
  if (!analysis.fits(form, 32, /*hasSmallSymbols=*/true))
    return emitClamped(
        emitQuotient(form, emitSum(form, b.getI64Type()), divisor),
        kLargestInteger);
  return emitQuotient(form, emitSum(form, b.getIndexType()), divisor);
}

/// `value`, the value of `form`, divided by `divisor` and rounded down.
Value IntervalEmitter::emitQuotient(const LinearForm &form, Value value,
                                    int64_t divisor) {
  auto constant = [&](int64_t number) -> Value {
    return arith::ConstantOp::create(b,
                                     b.getIntegerAttr(value.getType(), number));
  };
  if (analysis.isKnownAtLeastZero(form))
    return fold<arith::DivUIOp>(value, constant(divisor));
  if (llvm::isPowerOf2_64(divisor))
    return fold<arith::ShRSIOp>(value, constant(llvm::Log2_64(divisor)));
  // Division truncates.
  Value quotient = fold<arith::DivSIOp>(value, constant(divisor));
  Value whole = fold<arith::MulIOp>(quotient, constant(divisor));
  return select(less(value, whole), fold<arith::SubIOp>(quotient, constant(1)),
                quotient);
}

/// Whether an interval is known to begin at zero or before.
static bool beginsAtZero(const Interval &interval) {
  return llvm::all_of(interval.lower, [](const Interval::Bound &bound) {
    return bound.form.isConstant() && bound.form.constant <= 0;
  });
}

Value IntervalEmitter::emitBegin(const Interval &interval) {
  if (beginsAtZero(interval))
    return zero;
  Value begin;
  for (auto &[form, divisor] : interval.lower) {
    Value bound = emitFloor(form + (divisor - 1), divisor);
    begin = begin ? max(begin, bound) : bound;
  }
  return begin;
}

Value IntervalEmitter::emitEnd(const Interval &interval) {
  Value end;
  for (auto &[form, divisor] : interval.upper) {
    Value bound = emitFloor(form + divisor, divisor);
    end = end ? min(end, bound) : bound;
  }
  return end ? end : streamedLength;
}

/// Whether all guards hold; null if there is none.
Value IntervalEmitter::emitGuards(const Interval &interval) {
  Value result;
  for (const LinearForm &guard : interval.guards) {
    Value holds = b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sge,
                                                emitForm(guard), zero);
    result = result ? fold<arith::AndIOp>(result, holds) : holds;
  }
  return result;
}

/// Emits the positions of an interval: `0 <= begin <= end`, and both are zero
/// for an empty one that is not the only one.
IndexRange IntervalEmitter::emitRange(const Interval &interval, bool isOnly) {
  Value begin = emitBegin(interval), end = emitEnd(interval);
  if (!analysis.mayBeEmpty(interval))
    return {begin, end};
  Value guards = emitGuards(interval);
  if (begin == zero) {
    end = max(end, zero);
    return {begin, guards ? select(guards, end, zero) : end};
  }
  bool isPositive =
      llvm::any_of(interval.lower, [&](const Interval::Bound &bound) {
        return analysis.isKnownAtLeastZero(bound.form);
      });
  // The tile of keys that an empty range may meet is masked, since it reaches
  // beyond the number of keys.
  if (isOnly && isPositive && isKeyIteration) {
    end = max(end, zero);
    if (guards)
      end = select(guards, end, zero);
    return {min(begin, end), end};
  }
  Value holds = less(begin, end);
  if (guards)
    holds = fold<arith::AndIOp>(holds, guards);
  return {select(holds, begin, zero), select(holds, end, zero)};
}

/// Orders intervals by their first position. Returns whether that is their
/// order for all tiles.
bool IntervalEmitter::sort(std::vector<Interval> &intervals) {
  // There are few of them, and the order is not known to be total.
  for (size_t i = 0; i < intervals.size(); ++i)
    for (size_t j = i; j > 0; --j)
      if (analysis.mayStartBefore(intervals[j - 1], intervals[j]) &&
          !analysis.mayStartBefore(intervals[j], intervals[j - 1]))
        std::swap(intervals[j - 1], intervals[j]);
  for (size_t i = 0; i < intervals.size(); ++i)
    for (size_t j = i + 1; j < intervals.size(); ++j)
      if (analysis.mayStartBefore(intervals[i], intervals[j]))
        return false;
  return true;
}

/// Merges the intervals from zero on, which come first if they are sorted.
static std::vector<Group> getGroups(ArrayRef<Interval> intervals) {
  std::vector<Group> groups;
  for (const Interval &interval : intervals) {
    if (!groups.empty() && beginsAtZero(interval) &&
        beginsAtZero(groups.back().front()))
      groups.back().push_back(interval);
    else
      groups.push_back({interval});
  }
  return groups;
}

/// Whether a full tile of `group` may lie behind the positions of `before` and
/// before all of `behind`.
bool IntervalEmitter::mayLieBetween(const Group &group, const Group *before,
                                    ArrayRef<Interval> behind, int64_t size) {
  SmallVector<const Interval *> lower = {nullptr}, upper = {nullptr};
  if (before)
    for (const Interval &interval : *before)
      if (!analysis.mayBeEmpty(interval))
        lower.push_back(&interval);
  for (const Interval &interval : behind)
    upper.push_back(&interval);
  // Each pair of neighbours by itself may leave no room.
  return llvm::all_of(lower, [&](const Interval *low) {
    return llvm::all_of(upper, [&](const Interval *high) {
      return llvm::any_of(group, [&](const Interval &interval) {
        return analysis.mayLieBetween(interval, low, high, size);
      });
    });
  });
}

/// Emits the tiles of size `size` that meet groups, in ascending order.
SmallVector<IndexRange> IntervalEmitter::emitDisjoint(ArrayRef<Group> groups,
                                                      bool isSorted,
                                                      bool isOnly,
                                                      int64_t size) {
  SmallVector<IndexRange> ranges;
  for (const Group &group : groups) {
    IndexRange range = emitRange(group.front(), isOnly);
    for (const Interval &interval : ArrayRef(group).drop_front())
      range.end = max(range.end, emitRange(interval, isOnly).end);
    ranges.push_back(range);
  }
  if (!isSorted) {
    for (size_t i = 0; i < ranges.size(); ++i) {
      for (size_t j = i + 1; j < ranges.size(); ++j) {
        Value swap = less(ranges[j].begin, ranges[i].begin);
        IndexRange low = ranges[i], high = ranges[j];
        ranges[i] = {select(swap, high.begin, low.begin),
                     select(swap, high.end, low.end)};
        ranges[j] = {select(swap, low.begin, high.begin),
                     select(swap, low.end, high.end)};
      }
    }
  }
  Value covered;
  for (auto &[begin, end] : ranges) {
    begin = fold<arith::DivUIOp>(begin, index(size));
    end = fold<arith::DivUIOp>(fold<arith::AddIOp>(end, index(size - 1)),
                               index(size));
    if (covered) {
      begin = max(begin, covered);
      end = max(end, begin);
    }
    covered = end;
  }
  return ranges;
}

TileRanges IntervalEmitter::emitTiles(int64_t streamedTileSize) {
  Value allTiles = fold<arith::DivUIOp>(
      fold<arith::AddIOp>(streamedLength, index(streamedTileSize - 1)),
      index(streamedTileSize));
  TileRanges result = emitClosedForm(allTiles, streamedTileSize);
  Value areSmall = emitSmallSymbols();
  if (!areSmall)
    return result;
  if (result.masked.empty())
    result.masked.push_back({zero, zero});
  // All other ranges are empty where an integer is not small.
  Value otherwise = allTiles;
  auto apply = [&](IndexRange &range) {
    range = {select(areSmall, range.begin, zero),
             select(areSmall, range.end, otherwise)};
    otherwise = zero;
  };
  llvm::for_each(result.masked, apply);
  llvm::for_each(result.full, apply);
  return result;
}

/// The first tile all of whose positions are behind the beginning of one of
/// `tails`, which do not end.
Value IntervalEmitter::emitTailTile(ArrayRef<Interval> tails, Value allTiles,
                                    int64_t size) {
  // Queries beyond the length need no mask.
  Value tail = streamedLength;
  for (const Interval &interval : tails) {
    Value begin = emitBegin(interval);
    if (Value guards = emitGuards(interval))
      begin = select(guards, begin, streamedLength);
    tail = min(tail, begin);
  }
  Value tile = fold<arith::DivUIOp>(max(tail, zero), index(size));
  if (isKeyIteration)
    return tile;
  return select(less(tail, streamedLength), tile, allTiles);
}

/// Whether masked positions of `cutting` may lie in a tile of `group`.
bool IntervalEmitter::mayCut(const Group &cutting, const Group &group,
                             int64_t size) {
  return llvm::any_of(cutting, [&](const Interval &masked) {
    return llvm::any_of(group, [&](const Interval &interval) {
      return analysis.mayLieInOneTile(interval, masked, size);
    });
  });
}

/// Adds the masked and full tiles among `tiles`, the ones of `group`, which
/// follows `before` unless that is null.
void IntervalEmitter::emitCut(const Group &group, const Group *before,
                              IndexRange tiles, const Cuts &cuts,
                              TileRanges &result) {
  auto [begin, cut] = tiles;
  auto clamp = [&, low = begin](Value tile, Value high) {
    return min(max(tile, low), high);
  };
  bool isCut = bool(cuts.tailTile);
  if (isCut) {
    Value tail = clamp(cuts.tailTile, cut);
    result.masked.push_back({tail, cut});
    cut = tail;
  }
  // An empty range takes the place of the end of the one before it, so that
  // nothing lies between the two.
  ArrayRef<Interval> behind = cuts.tails;
  for (size_t i = cuts.groups.size(); i-- > 0;) {
    const Group &cutting = cuts.groups[i];
    if (cuts.isKnown && !mayCut(cutting, group, cuts.tileSize))
      continue;
    if (!cuts.isKnown ||
        mayLieBetween(group, &cutting, behind, cuts.tileSize)) {
      Value high = clamp(cuts.tiles[i].end, cut);
      result.full.push_back({high, cut});
      cut = high;
    }
    Value low = clamp(cuts.tiles[i].begin, cut);
    result.masked.push_back({low, cut});
    isCut = true;
    cut = low;
    behind = cutting;
  }
  if (!isCut || !cuts.isKnown ||
      mayLieBetween(group, before, behind, cuts.tileSize))
    result.full.push_back({begin, cut});
  else
    result.masked.back().begin = begin;
}

TileRanges IntervalEmitter::emitClosedForm(Value allTiles,
                                           int64_t streamedTileSize) {
  std::vector<Interval> attended = analysis.getAttended();
  std::vector<Interval> masked, tails;
  for (Interval &interval : analysis.getMasked())
    (interval.upper.empty() ? tails : masked).push_back(std::move(interval));
  llvm::erase_if(attended, [&](const Interval &interval) {
    return llvm::any_of(interval.guards, [](const LinearForm &guard) {
      return guard.isConstant() && guard.constant < 0;
    });
  });

  if (attended.empty())
    return {{{zero, zero}}, {}};
  if (attended.size() > maxRangesOfTiles)
    return {{{zero, allTiles}}, {}};
  bool isAttendedSorted = sort(attended), isMaskedSorted = sort(masked);
  std::vector<Group> attendedGroups = getGroups(attended);
  Cuts cuts;
  cuts.groups = getGroups(masked);
  cuts.isKnown = isAttendedSorted && isMaskedSorted;
  cuts.tileSize = streamedTileSize;
  // Each group would cut the attended tiles, whose order is not known.
  bool hasManyCuts = !cuts.isKnown && cuts.groups.size() > maxRangesOfTiles;
  SmallVector<IndexRange> attendedTiles =
      emitDisjoint(attendedGroups, isAttendedSorted,
                   /*isOnly=*/attended.size() == 1, streamedTileSize);

  // No tile is full if any position of any tile may be masked.
  bool isOpaque = llvm::any_of(tails, [&](const Interval &tail) {
    return tail.guards.empty() && beginsAtZero(tail);
  });
  if (isOpaque || hasManyCuts)
    return {attendedTiles, {}};

  Value tailTile = emitTailTile(tails, allTiles, streamedTileSize);
  if (isKeyIteration || !tails.empty())
    cuts.tailTile = tailTile;
  cuts.tiles = emitDisjoint(cuts.groups, isMaskedSorted, /*isOnly=*/false,
                            streamedTileSize);
  // No tile reaches behind a tail without guards.
  llvm::copy_if(
      tails, std::back_inserter(cuts.tails),
      [](const Interval &interval) { return interval.guards.empty(); });

  TileRanges result;
  for (size_t i = attendedGroups.size(); i-- > 0;)
    emitCut(attendedGroups[i], i == 0 ? nullptr : &attendedGroups[i - 1],
            attendedTiles[i], cuts, result);
  if (result.masked.size() + result.full.size() > 2 * maxRangesOfTiles)
    return {attendedTiles, {}};
  return result;
}

std::optional<SmallVector<IndexRange>>
IntervalEmitter::emitRanges(unsigned maxRanges) {
  std::vector<Interval> attended = analysis.getAttended();
  if (attended.size() > maxRanges || analysis.hasAssumedSmallSymbols() ||
      llvm::any_of(attended,
                   [](const Interval &interval) { return !interval.isExact; }))
    return std::nullopt;
  SmallVector<IndexRange> ranges;
  for (const Interval &interval : attended) {
    Value end = emitEnd(interval);
    if (Value guards = emitGuards(interval))
      end = select(guards, end, zero);
    ranges.push_back(
        {beginsAtZero(interval) ? Value() : emitBegin(interval), end});
  }
  return ranges;
}

TileRanges attn::emitTileRanges(OpBuilder &builder, Location loc,
                                const ScoreMask &mask, MaskDim dim, Value first,
                                int64_t tileSize, int64_t streamedTileSize,
                                bool *isLimited, WorkBudget *total) {
  IntervalEmitter emitter(builder, loc, mask, dim, first, tileSize, total);
  TileRanges ranges = emitter.emitTiles(streamedTileSize);
  if (isLimited)
    *isLimited = emitter.isLimited();
  return ranges;
}

bool attn::hasClosedFormTiles(AttentionOpInterface op) {
  // Whether a mask has closed forms does not depend on the size of tiles.
  constexpr int64_t anyTile = 64;
  auto [queryLength, keyLength] = op.getStaticLengths();
  MaskScope scope(op->getContext(), queryLength, keyLength);
  MaskAnalysis analysis(scope.getPositions());
  analysis.assumeSmallSymbols();
  if (MaskAttrInterface mask = op.getMaskAttr())
    analysis.restrict(scope.getPredicate(mask));
  if (!op.getMaskMod().empty())
    analysis.restrict(scope.clonePredicate(op.getMaskMod()));
  analysis.setTile(MaskDim::Query, anyTile);
  size_t numRanges = analysis.getAttended().size();
  analysis.getMasked();
  return analysis.getNotAffine().empty() && !analysis.isLimited() &&
         numRanges <= maxRangesOfTiles;
}

void attn::reportLimitedTiles(Location loc) {
  remark::missed(loc, remark::RemarkOpts::name("mask-tiles").category("attn"))
      << "the mask takes too much work to analyse: more tiles than it needs "
         "may "
         "be visited, with the mask applied";
}

void attn::reportLimitedEstimates(Location loc) {
  remark::missed(loc, remark::RemarkOpts::name("mask-tiles").category("attn"))
      << "the mask takes too much work to analyse for all schedules: some "
         "times are estimated as if all tiles were visited, with the mask "
         "applied";
}

Value TileIteration::add(ImplicitLocOpBuilder &b, ArrayRef<IndexRange> ranges,
                         Value firstStep) {
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, value);
  };
  auto addRange = [&](Value begin, Value end) {
    bool isFirst = parts.empty();
    // A range that goes on where the last one ended has the same base.
    if (isFirst || (isDescending ? end : begin) != streamedTo) {
      Value base = begin;
      // A descending iteration that visits no tile still needs a tile that
      // exists.
      if (isDescending)
        base = arith::SubIOp::create(
            b, arith::MaxSIOp::create(b, end, index(1)).getResult(), index(1));
      if (!isFirst && isDescending)
        base = arith::AddIOp::create(b, base, firstStep);
      else if (!isFirst)
        base = arith::SubIOp::create(b, base, firstStep);
      parts.push_back({firstStep, base});
    }
    streamedTo = isDescending ? begin : end;
    Value tiles = arith::SubIOp::create(b, end, begin);
    firstStep = isFirst
                    ? tiles
                    : arith::AddIOp::create(b, firstStep, tiles).getResult();
  };
  if (isDescending)
    for (auto [begin, end] : ranges)
      addRange(begin, end);
  else
    for (auto [begin, end] : llvm::reverse(ranges))
      addRange(begin, end);
  return firstStep;
}

Value TileIteration::emitTile(ImplicitLocOpBuilder &b, Value step) const {
  Value base = parts.front().base;
  for (auto [firstStep, nextBase] : llvm::drop_begin(parts)) {
    Value isNext =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sge, step, firstStep);
    base = arith::SelectOp::create(b, isNext, nextBase, base);
  }
  if (isDescending)
    return arith::SubIOp::create(b, base, step);
  return arith::AddIOp::create(b, base, step);
}

std::optional<SmallVector<IndexRange>>
attn::emitAttendedRanges(OpBuilder &builder, Location loc,
                         const ScoreMask &mask, MaskDim dim, Value position,
                         unsigned maxRanges) {
  IntervalEmitter emitter(builder, loc, mask, dim, position, /*tileSize=*/1);
  return emitter.emitRanges(maxRanges);
}
