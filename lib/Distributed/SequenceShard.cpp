//===- SequenceShard.cpp - Packed sequences of one rank -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SequenceShard.h"
#include "RankTensors.h"
#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Dialect/Attn/IR/ShardPositions.h"
#include "attn/Dialect/Attn/Transforms/RegionPositions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

/// The queries of a word of a keep mask: it has a half of each of its keys.
static constexpr int64_t queriesOfWord = 2;

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

std::string attn::whyNotShardSequences(AttentionOpInterface op,
                                       ChunkPlacement placement) {
  std::optional<SequenceLayout> layout = op.getSequenceLayout();
  if (!layout)
    return "";
  std::string name =
      ("'sequences " + stringifySequenceLayout(*layout) + "'").str();
  if (*layout == SequenceLayout::PackedQueries)
    return "cannot be distributed over ranks with " + name;
  ChunkPlacement ring = placement.getRing();
  if (*layout == SequenceLayout::Padded && ring.getNumChunks() != 1)
    return "with " + name + " can be distributed over ranks only by 'ulysses'";
  if (op.hasDropout() && ring.getNumChunks() != 1)
    return "with " + name + " and '" +
           (op.getDropoutAttr() ? "dropout" : "dropout_mask") +
           "' can be distributed over ranks only by 'ulysses': "
           "the "
           "rows of a rank begin anywhere in a sequence, and words of keep "
           "masks at multiples of 16 positions in it";
  return "";
}

namespace {
/// A region and the number of the first of its arguments (batch, head, query,
/// key).
struct PositionRegion {
  Region *region;
  unsigned first;

  /// Whether argument `number` of these is used.
  bool isUsed(unsigned number) const {
    return !region->empty() && !region->getArgument(first + number).use_empty();
  }
};
} // namespace

static SmallVector<PositionRegion> getScoreRegions(AttentionOpInterface op) {
  SmallVector<PositionRegion> regions = {{&op.getScoreMod(), /*first=*/1}};
  if (auto grad = dyn_cast<AttentionGradOp>(op.getOperation()))
    regions.push_back({&grad.getScoreModGrad(), /*first=*/2});
  return regions;
}

bool attn::usesRowsInRegions(AttentionOpInterface op, bool hasMaskMod) {
  SmallVector<PositionRegion> regions = getScoreRegions(op);
  if (hasMaskMod)
    regions.push_back({&op.getMaskMod(), /*first=*/0});
  return llvm::any_of(regions, [](const PositionRegion &region) {
    return region.isUsed(2) || region.isUsed(3);
  });
}

bool attn::usesHeadInRegions(AttentionOpInterface op) {
  SmallVector<PositionRegion> regions = getScoreRegions(op);
  regions.push_back({&op.getMaskMod(), /*first=*/0});
  return llvm::any_of(
      regions, [](const PositionRegion &region) { return region.isUsed(1); });
}

MaskAttrInterface attn::getMaskOfDistances(AttentionOpInterface op,
                                           bool isBefore) {
  MaskAttrInterface mask = op.getMaskAttr();
  if (!mask || !op.getMaskMod().empty() ||
      op.getQuerySequences() != op.getKeySequences())
    return nullptr;
  constexpr MaskAlignment alignment = MaskAlignment::BottomRight;
  if (isa<CausalAttr>(mask))
    return CausalAttr::get(mask.getContext(), alignment);
  auto window = dyn_cast<SlidingWindowAttr>(mask);
  if (!window || (isBefore && window.getRight() != 0))
    return nullptr;
  return SlidingWindowAttr::get(mask.getContext(), window.getLeft(),
                                window.getRight(), alignment);
}

//===----------------------------------------------------------------------===//
// Pairs of chunks
//===----------------------------------------------------------------------===//

namespace {
/// The mask of a sequence that may begin at any row of the whole.
class SequenceMask {
public:
  SequenceMask(AttentionOpInterface op, int64_t queries, int64_t keys);

  /// Whether the mask keeps all pairs of a sequence.
  bool isAbsent() const { return !predicate; }

  /// The pairs of chunks for which it is not proved that no pair of a sequence
  /// is kept, or masked out if `negated`.
  ReachableChunks findChunks(int64_t chunks, bool negated) {
    auto restrict = [&](MaskAnalysis &analysis, bool negatesAgain) {
      analysis.restrict(predicate, negated != negatesAgain);
      for (Value condition : inSequence)
        analysis.restrict(condition);
    };
    return findChunksOf(positions, chunks, restrict);
  }

private:
  /// Emits that `position`, which becomes one within the sequence, is a row of
  /// the sequence from `first` on.
  Value emitRow(OpBuilder &builder, Location loc, Value position, Value first,
                Value length);

  Region region;
  MaskAnalysis::Positions positions;
  Value predicate;
  SmallVector<Value> inSequence;
};
} // namespace

Value SequenceMask::emitRow(OpBuilder &builder, Location loc, Value position,
                            Value first, Value length) {
  auto require = [&](arith::CmpIPredicate kind, Value lhs, Value rhs) {
    inSequence.push_back(arith::CmpIOp::create(builder, loc, kind, lhs, rhs));
  };
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  Value row = arith::SubIOp::create(builder, loc, position, first);
  require(arith::CmpIPredicate::sge, first, zero);
  require(arith::CmpIPredicate::sge, row, zero);
  require(arith::CmpIPredicate::slt, row, length);
  return row;
}

SequenceMask::SequenceMask(AttentionOpInterface op, int64_t queries,
                           int64_t keys) {
  Location loc = op.getLoc();
  OpBuilder builder(op->getContext());
  // Batch, head, query, key; the beginnings and the lengths of the sequence.
  SmallVector<Type> types(8, builder.getIndexType());
  SmallVector<Location> locs(types.size(), loc);
  Block *block = builder.createBlock(&region, {}, types, locs);
  ValueRange arguments = block->getArguments();
  Value queryLength = arith::ConstantIndexOp::create(builder, loc, queries);
  Value keyLength = arith::ConstantIndexOp::create(builder, loc, keys);
  positions = {arguments[0], arguments[1], arguments[2],
               arguments[3], queryLength,  keyLength};
  bool isSame = op.getQuerySequences() == op.getKeySequences();
  ValueRange ofQueries = arguments.slice(4, 2);
  ValueRange ofKeys = isSame ? ofQueries : arguments.slice(6, 2);
  Value query = emitRow(builder, loc, arguments[2], ofQueries[0], ofQueries[1]);
  Value key = emitRow(builder, loc, arguments[3], ofKeys[0], ofKeys[1]);
  if (MaskAttrInterface mask = op.getMaskAttr())
    predicate = mask.emitPredicate(
        builder, loc,
        {arguments[0], arguments[1], query, key, ofQueries[1], ofKeys[1]});
  Region &maskMod = op.getMaskMod();
  if (maskMod.empty())
    return;
  IRMapping mapping;
  SmallVector<Value> seen = {arguments[0], arguments[1], query, key};
  mapping.map(maskMod.getArguments(), seen);
  for (Operation &nested : maskMod.front().without_terminator())
    builder.clone(nested, mapping);
  Value kept =
      mapping.lookupOrDefault(maskMod.front().getTerminator()->getOperand(0));
  predicate =
      predicate
          ? arith::AndIOp::create(builder, loc, predicate, kept).getResult()
          : kept;
}

ReachableChunks attn::findReachableChunksOfSequences(AttentionOpInterface op,
                                                     int64_t chunks) {
  int64_t queries = getDimSize(op.getQuery(), sequenceDim);
  int64_t keys = getDimSize(op.getKey(), sequenceDim);
  if (!ShapedType::isDynamic(queries) && !ShapedType::isDynamic(keys)) {
    SequenceMask mask(op, queries, keys);
    if (!mask.isAbsent())
      return mask.findChunks(chunks, /*negated=*/false);
  }
  return ReachableChunks(chunks, llvm::BitVector(chunks, true));
}

ReachableChunks attn::findFullChunksOfSequences(AttentionOpInterface op,
                                                int64_t queries, int64_t keys,
                                                int64_t chunks) {
  if (!op.getMaskAttr() && op.getMaskMod().empty())
    return ReachableChunks(chunks, llvm::BitVector(chunks, true));
  if (ShapedType::isDynamic(queries) || ShapedType::isDynamic(keys))
    return ReachableChunks(chunks, llvm::BitVector(chunks));
  SequenceMask mask(op, queries, keys);
  ReachableChunks full = mask.findChunks(chunks, /*negated=*/true);
  for (llvm::BitVector &ofQuery : full)
    ofQuery.flip();
  return full;
}

//===----------------------------------------------------------------------===//
// Boundaries
//===----------------------------------------------------------------------===//

static Value emitWord(ImplicitLocOpBuilder &b, Value index) {
  return b.createOrFold<arith::IndexCastOp>(b.getI32Type(), index);
}

/// Emits `compute` of each of `boundaries`.
static Value
emitEach(ImplicitLocOpBuilder &b, Value boundaries,
         function_ref<Value(OpBuilder &, Location, Value)> compute) {
  RankedTensorType type = getTensorType(boundaries);
  SmallVector<AffineMap> maps(2, b.getMultiDimIdentityMap(1));
  auto each = linalg::GenericOp::create(
      b, type, boundaries, emitEmpty(b, type, boundaries), maps,
      utils::IteratorType::parallel,
      [&](OpBuilder &body, Location loc, ValueRange arguments) {
        Value result = compute(body, loc, arguments.front());
        linalg::YieldOp::create(body, loc, result);
      });
  return each.getResult(0);
}

namespace {
/// Emits numbers of rows that are `stride` apart. Words of 64 bits have room
/// for boundaries that are out of bounds.
class StridedRows {
public:
  StridedRows(ImplicitLocOpBuilder &b, const ShardRows &rows)
      : stride(arith::ConstantIntOp::create(b, rows.stride, 64)),
        last(arith::ConstantIntOp::create(b, rows.stride - 1, 64)) {
    Value most = arith::ConstantIntOp::create(
        b, mostBefore * rows.stride + rows.stride - 1, 64);
    Value first =
        b.createOrFold<arith::IndexCastOp>(b.getI64Type(), rows.first);
    offset = arith::SubIOp::create(b, most, first);
  }

  /// How many of the rows are before row `boundary` of the whole: less than 0
  /// or more than there are for some that are out of bounds.
  Value emitNumber(OpBuilder &body, Location loc, Value boundary) const {
    Value number = arith::DivUIOp::create(
        body, loc, emitShifted(body, loc, boundary), stride);
    Value before = arith::ConstantIntOp::create(body, loc, mostBefore, 64);
    number = arith::SubIOp::create(body, loc, number, before);
    return arith::TruncIOp::create(body, loc, body.getI32Type(), number);
  }

  /// How far behind row `boundary` of the whole the next of the rows is.
  Value emitFirst(OpBuilder &body, Location loc, Value boundary) const {
    Value rest = arith::RemUIOp::create(
        body, loc, emitShifted(body, loc, boundary), stride);
    Value first = arith::SubIOp::create(body, loc, last, rest);
    return arith::TruncIOp::create(body, loc, body.getI32Type(), first);
  }

private:
  /// Boundaries are not below minus this number.
  static constexpr int64_t mostBefore = int64_t(1) << 31;

  /// `boundary - first`, with as much added as rounds quotients up and makes
  /// the sum positive.
  Value emitShifted(OpBuilder &body, Location loc, Value boundary) const {
    Value row = arith::ExtSIOp::create(body, loc, body.getI64Type(), boundary);
    return arith::AddIOp::create(body, loc, row, offset);
  }

  Value stride, last, offset;
};
} // namespace

Value attn::emitBoundariesInRows(ImplicitLocOpBuilder &b, Value boundaries,
                                 const ShardRows &rows) {
  if (rows.stride != 1) {
    StridedRows strided(b, rows);
    return emitEach(b, boundaries,
                    [&](OpBuilder &body, Location loc, Value boundary) {
                      return strided.emitNumber(body, loc, boundary);
                    });
  }
  Value end = b.createOrFold<arith::AddIOp>(rows.first, rows.length);
  auto unlessEqual = [&](Value row, Value last, int32_t none) -> Value {
    Value isLast =
        b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::eq, row, last);
    Value unbounded = arith::ConstantIntOp::create(b, none, 32);
    return b.createOrFold<arith::SelectOp>(isLast, unbounded, emitWord(b, row));
  };
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value least =
      unlessEqual(rows.first, zero, std::numeric_limits<int32_t>::min());
  Value most =
      unlessEqual(end, rows.total, std::numeric_limits<int32_t>::max());
  Value first = emitWord(b, rows.first);
  return emitEach(b, boundaries,
                  [&](OpBuilder &body, Location loc, Value boundary) -> Value {
                    Value row =
                        arith::MaxSIOp::create(body, loc, boundary, least);
                    row = arith::MinSIOp::create(body, loc, row, most);
                    return arith::SubIOp::create(body, loc, row, first);
                  });
}

Value attn::emitBoundariesUpTo(ImplicitLocOpBuilder &b, Value boundaries,
                               Value end) {
  Value most = emitWord(b, end);
  return emitEach(b, boundaries,
                  [&](OpBuilder &body, Location loc, Value boundary) -> Value {
                    return arith::MinSIOp::create(body, loc, boundary, most);
                  });
}

Value attn::emitFirstPositions(ImplicitLocOpBuilder &b, Value boundaries,
                               const ShardRows &rows) {
  if (rows.stride != 1) {
    StridedRows strided(b, rows);
    return emitEach(b, boundaries,
                    [&](OpBuilder &body, Location loc, Value boundary) {
                      return strided.emitFirst(body, loc, boundary);
                    });
  }
  Value row = emitWord(b, rows.first);
  Value zero = arith::ConstantIntOp::create(b, 0, 32);
  return emitEach(b, boundaries,
                  [&](OpBuilder &body, Location loc, Value boundary) -> Value {
                    Value position =
                        arith::SubIOp::create(body, loc, row, boundary);
                    return arith::MaxSIOp::create(body, loc, position, zero);
                  });
}

Value attn::emitRowsBefore(ImplicitLocOpBuilder &b, Value boundaries,
                           const ShardRows &rows, const ShardRows &others) {
  StridedRows strided(b, rows), stridedOthers(b, others);
  return emitEach(b, boundaries,
                  [&](OpBuilder &body, Location loc, Value boundary) -> Value {
                    Value first = strided.emitFirst(body, loc, boundary);
                    Value other = stridedOthers.emitFirst(body, loc, boundary);
                    Value isBefore = arith::CmpIOp::create(
                        body, loc, arith::CmpIPredicate::ult, first, other);
                    return arith::ExtUIOp::create(body, loc, body.getI32Type(),
                                                  isBefore);
                  });
}

/// The first of `boundaries`, or the last one, as `tensor<i32>`.
static Value emitBoundary(ImplicitLocOpBuilder &b, Value boundaries,
                          bool isLast) {
  auto type = RankedTensorType::get({}, b.getI32Type());
  OpFoldResult offset = b.getIndexAttr(0), one = b.getIndexAttr(1);
  if (isLast) {
    Value size = b.createOrFold<tensor::DimOp>(boundaries, 0);
    Value last = arith::ConstantIndexOp::create(b, 1);
    offset = b.createOrFold<arith::SubIOp>(size, last);
  }
  return tensor::ExtractSliceOp::create(b, type, boundaries, offset, one, one);
}

Value attn::emitInSequences(ImplicitLocOpBuilder &b, Value value,
                            Value destination, Value boundaries,
                            SequenceLayout layout, const RowPlace &place) {
  RankedTensorType type = getTensorType(destination);
  RankedTensorType sized = getTensorType(value).clone(type.getShape());
  if (sized != value.getType())
    value = tensor::CastOp::create(b, sized, value);
  int64_t rank = type.getRank();
  AffineMap identity = b.getMultiDimIdentityMap(rank);
  SmallVector<Value> inputs = {value};
  SmallVector<AffineMap> maps = {identity};
  bool isPacked = layout == SequenceLayout::Packed;
  if (isPacked) {
    inputs.push_back(emitBoundary(b, boundaries, /*isLast=*/false));
    inputs.push_back(emitBoundary(b, boundaries, /*isLast=*/true));
    maps.append(2, AffineMap::get(rank, 0, b.getContext()));
  } else {
    inputs.push_back(boundaries);
    maps.push_back(AffineMap::get(rank, 0, b.getAffineDimExpr(0)));
  }
  maps.push_back(identity);
  auto word = [&](Value value) { return value ? emitWord(b, value) : value; };
  RowPlace words{word(place.first), word(place.half), word(place.second)};
  Value stride;
  if (place.stride != 1)
    stride = arith::ConstantIntOp::create(b, place.stride, 32);
  SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::parallel);
  auto generic = linalg::GenericOp::create(
      b, type, inputs, destination, maps, loops,
      [&](OpBuilder &body, Location loc, ValueRange arguments) {
        Value row = linalg::IndexOp::create(body, loc, sequenceDim);
        row = arith::IndexCastOp::create(body, loc, body.getI32Type(), row);
        Value first = words.first;
        if (words.half) {
          Value isFirst = arith::CmpIOp::create(
              body, loc, arith::CmpIPredicate::slt, row, words.half);
          first =
              arith::SelectOp::create(body, loc, isFirst, first, words.second);
        }
        if (stride)
          row = arith::MulIOp::create(body, loc, row, stride);
        row = arith::AddIOp::create(body, loc, row, first);
        auto compare = [&](arith::CmpIPredicate kind, Value bound) -> Value {
          return arith::CmpIOp::create(body, loc, kind, row, bound);
        };
        Value isInside =
            compare(arith::CmpIPredicate::slt, arguments.drop_back().back());
        if (isPacked)
          isInside = arith::AndIOp::create(
              body, loc, isInside,
              compare(arith::CmpIPredicate::sge, arguments[1]));
        Value result = arguments.front();
        if (result.getType() != type.getElementType())
          result =
              arith::TruncFOp::create(body, loc, type.getElementType(), result);
        result = arith::SelectOp::create(body, loc, isInside, result,
                                         arguments.back());
        linalg::YieldOp::create(body, loc, result);
      });
  return generic.getResult(0);
}

//===----------------------------------------------------------------------===//
// Shards
//===----------------------------------------------------------------------===//

Value attn::emitPositionEntry(OpBuilder &builder, Location loc, Value tensor,
                              Value at) {
  Value word = tensor::ExtractOp::create(builder, loc, tensor, at);
  Value largest =
      arith::ConstantIntOp::create(builder, loc, kLargestShardPosition, 32);
  word = arith::MinUIOp::create(builder, loc, word, largest);
  return arith::IndexCastUIOp::create(builder, loc, builder.getIndexType(),
                                      word);
}

/// Makes masks and regions of `shard` see positions within whole sequences,
/// whose boundaries are `queries` and `keys`.
static void replacePositionsOfSequences(RewriterBase &rewriter,
                                        AttentionOpInterface shard,
                                        Value queries, Value keys,
                                        const ShardPlace &place) {
  Location loc = shard.getLoc();
  replacePositions(rewriter, shard, [&](OpBuilder &builder, ValueRange at) {
    auto add = [&](Value position, Value offset) -> Value {
      return offset ? arith::AddIOp::create(builder, loc, position, offset)
                          .getResult()
                    : position;
    };
    auto scale = [&](Value row) -> Value {
      if (place.rowDistance == 1)
        return row;
      Value distance =
          arith::ConstantIndexOp::create(builder, loc, place.rowDistance);
      return arith::MulIOp::create(builder, loc, row, distance);
    };
    auto getFirst = [&](Value firstPositions) {
      return firstPositions
                 ? emitPositionEntry(builder, loc, firstPositions, at[0])
                 : Value();
    };
    Value one = arith::ConstantIndexOp::create(builder, loc, 1);
    Value next = arith::AddIOp::create(builder, loc, at[0], one);
    auto emitLength = [&](Value boundaries) -> Value {
      Value begin = emitPositionEntry(builder, loc, boundaries, at[0]);
      Value end = emitPositionEntry(builder, loc, boundaries, next);
      return arith::SubIOp::create(builder, loc, end, begin);
    };
    return MaskPosition{at[0],
                        add(at[1], place.firstHead),
                        add(scale(at[2]), getFirst(place.firstQueries)),
                        add(scale(at[3]), getFirst(place.firstKeys)),
                        emitLength(queries),
                        emitLength(keys)};
  });
}

/// Emits the part of `shard` of its dropout mask, which is the one of the
/// whole. Chunks have whole blocks of words.
static Value emitMaskPart(AttentionOpInterface shard, const ShardPlace &place) {
  ImplicitLocOpBuilder b(shard.getLoc(), shard);
  Value mask = shard.getDropoutMask();
  SmallVector<OpFoldResult> offsets(4, b.getIndexAttr(0)),
      strides(4, b.getIndexAttr(1)),
      sizes = tensor::getMixedSizes(b, b.getLoc(), mask);
  auto setPart = [&](unsigned dim, Value first, int64_t size,
                     int64_t rowsOfWord) {
    sizes[dim] = b.getIndexAttr(size);
    if (first)
      offsets[dim] = getAsOpFoldResult(b.createOrFold<arith::DivUIOp>(
          first, arith::ConstantIndexOp::create(b, rowsOfWord)));
  };
  setPart(/*dim=*/1, place.first.head, shard.getNumQueryHeads(),
          /*rowsOfWord=*/1);
  int64_t queries = getDimSize(shard.getQuery(), sequenceDim);
  int64_t keys = getDimSize(shard.getKey(), sequenceDim);
  bool isWhole = shard.hasSequences() || ShapedType::isDynamic(queries) ||
                 ShapedType::isDynamic(keys);
  if (!isWhole) {
    unsigned queryDim = shard.getMaskLayout() == MaskLayout::Rows ? 2 : 3;
    setPart(queryDim, place.first.query,
            DropoutMaskOp::countQueryWords(queries), queriesOfWord);
    setPart(5 - queryDim, place.first.key, DropoutMaskOp::countKeyWords(keys),
            DropoutAttr::keysOfWord);
  }
  return b.createOrFold<tensor::ExtractSliceOp>(mask, offsets, sizes, strides);
}

template <typename OpTy>
static void assignOperands(OpTy shard, const ShardPlace &place) {
  if (shard.getDropoutMask())
    shard.getDropoutMaskMutable().assign(
        emitMaskPart(cast<AttentionOpInterface>(shard.getOperation()), place));
  if (place.positions)
    shard.getPositionsMutable().assign(place.positions);
  if (place.querySequences)
    shard.getQuerySequencesMutable().assign(place.querySequences);
  if (place.keySequences)
    shard.getKeySequencesMutable().assign(place.keySequences);
}

void attn::assignPlace(Operation *shard, const ShardPlace &place) {
  auto op = cast<AttentionOpInterface>(shard);
  Value queries = op.getQuerySequences(), keys = op.getKeySequences();
  if (auto attention = dyn_cast<AttentionOp>(shard))
    assignOperands(attention, place);
  else
    assignOperands(cast<AttentionGradOp>(shard), place);
  IRRewriter rewriter(shard->getContext());
  if (place.positions && op.hasSequences())
    op.setDropoutOnly(true);
  if (place.isFull || place.localMask)
    op.removeMaskAttr();
  if (place.isFull && !op.getMaskMod().empty())
    rewriter.eraseBlock(&op.getMaskMod().front());
  if (place.mask)
    op.setMaskAttr(place.mask);
  if (place.firstQueries || place.firstKeys || place.firstHead)
    replacePositionsOfSequences(rewriter, op, queries, keys, place);
  if (place.stripe)
    replacePositionsOfStripe(rewriter, op, *place.stripe);
  if (place.localMask)
    op.setMaskAttr(place.localMask);
}
