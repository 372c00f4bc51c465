//===- Dropout.cpp - Dropped weights ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers dropout. The threads of a warp make or read the decision words of the
// rows they own, each of them some. Where weights are dropped they exchange
// them. A rotation puts the decisions of a thread about two pairs of packed
// weights at bits of their exponents, where one operation clears a pair.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

/// Rows and columns of the blocks that a tile consists of. Of a block, lane
/// `4 r + c` of a warp owns rows `r` and `r + 8` and columns
/// `2 c + {0, 1, 8, 9}`.
static constexpr int64_t blockSize = 16;
static constexpr int64_t lanesPerQuad = 4;
static constexpr int64_t lanesPerWarp = 32;
/// Blocks side by side of which a lane has one word.
static constexpr int64_t blocksPerWord = 4;
/// Where exchanged decisions begin in the halves of a register. Pairs 2 and 3
/// are at bits 12 and 13 then, and pairs 0 and 1 two below: both bits are bits
/// of the exponent of a bf16 whose value is 2^32 and 2^64, of which weights,
/// which are less than 2, have both or are themselves less than 2^-31.
static constexpr int64_t firstDecision = 10;
static constexpr int64_t pairsPerShift = 2;

/// Blocks side by side in a tile.
static int64_t countBlocks(DecisionsType type) {
  return type.getColumns() / blockSize;
}

/// Rows of blocks that a thread has a part of.
static int64_t countRowPairs(const KernelContext &context, DecisionsType type) {
  return context.layout.getRowRegisters(type.getRows()) / 2;
}

std::optional<LogicalResult>
attn::convertDecisions(const KernelContext &context, DecisionsType type,
                       SmallVectorImpl<Type> &types) {
  if (!isa_and_present<RowBlockLayoutAttr>(context.layout) ||
      !context.layout.supports({type.getRows(), type.getColumns()}))
    return failure();
  types.append(countRowPairs(context, type) *
                   llvm::divideCeil(countBlocks(type), blocksPerWord),
               IntegerType::get(type.getContext(), 32));
  return success();
}

namespace {
/// Which words a lane has. Tiles are cut into rows of blocks, as many as fit
/// the row registers of a thread in pairs.
///
/// Where rows are queries, all lanes of a quad need the same words, one for
/// each block; each lane has a quarter of them. Where rows are keys, a lane
/// needs two of the eight words of each block, one for each of the columns side
/// by side; each lane of a warp has one of four blocks.
class WordPlaces {
public:
  WordPlaces(OpBuilder &builder, Location loc, DecisionsType type,
             Operation *op, const KernelContext &context)
      : b(loc, builder), type(type), context(context),
        thread(context.getPosition(builder, op).thread) {
    lane = bitAnd(thread, lanesPerWarp - 1);
    inQuad = bitAnd(thread, lanesPerQuad - 1);
    quad = shiftRight(lane, 2);
  }

  /// Calls `fn` with the query and key word of each of the words that the lane
  /// has, for a tile at `firstQuery` and `firstKey`.
  void forEachWord(Value firstQuery, Value firstKey,
                   function_ref<void(Value queryWord, Value keyWord)> fn) {
    int64_t numPairs = countRowPairs(context, type);
    for (int64_t pair = 0; pair < numPairs; ++pair) {
      for (int64_t n = 0; n < countBlocks(type); n += blocksPerWord) {
        if (type.getTransposed()) {
          constexpr int64_t wordsPerBlock = DropoutAttr::queryDistance;
          Value keyWord = shiftRight(firstRow(firstKey, pair), 4);
          Value first = add(shiftRight(toWord(firstQuery), 1), lane);
          fn(emitAdd(b, b.getLoc(), first, n * wordsPerBlock), keyWord);
          continue;
        }
        Value queryWord = add(shiftRight(firstRow(firstQuery, pair), 1), quad);
        Value first = add(shiftRight(toWord(firstKey), 4), inQuad);
        fn(queryWord, emitAdd(b, b.getLoc(), first, n));
      }
    }
  }

  /// The decisions of this thread in the blocks of a row of them, of which the
  /// lanes of its warp have `words`: a register for each block. Bits
  /// `firstDecision + getPair(..)` of its halves have those of a pair of
  /// elements side by side.
  SmallVector<Value> exchange(ValueRange words) {
    constexpr int64_t bitsPerLane = 4;
    SmallVector<Value> decisions;
    if (type.getTransposed()) {
      // The lane's four bits of a word lie in one byte, in either half of it.
      Value byte = add(bitAnd(add(quad, quad), 2), shiftRight(quad, 2));
      Value both = arith::MulIOp::create(b, byte, constant(0x1010));
      Value selector = add(both, constant(0x4000));
      Value half =
          arith::ShLIOp::create(b, bitAnd(shiftRight(quad, 1), 1), constant(2));
      Value shift = arith::SubIOp::create(b, constant(firstDecision - 8), half);
      Value source = add(inQuad, inQuad);
      for (int64_t n = 0; n < countBlocks(type); ++n) {
        auto getColumn = [&](int64_t offset) {
          int64_t first =
              n % blocksPerWord * DropoutAttr::queryDistance + offset;
          return shuffle(words[n / blocksPerWord],
                         emitAdd(b, b.getLoc(), source, first), lanesPerWarp);
        };
        Value even = getColumn(0), odd = getColumn(1);
        Value joined = NVVM::PermuteOp::create(
            b, b.getI32Type(), even, odd, selector, NVVM::PermuteMode::DEFAULT);
        decisions.push_back(rotateLeft(joined, shift));
      }
      return decisions;
    }
    Value first = arith::MulIOp::create(b, inQuad, constant(bitsPerLane));
    Value shift = arith::SubIOp::create(b, constant(firstDecision), first);
    for (int64_t n = 0; n < countBlocks(type); ++n) {
      Value word = shuffle(words[n / blocksPerWord],
                           constant(n % blocksPerWord), lanesPerQuad);
      decisions.push_back(rotateLeft(word, shift));
    }
    return decisions;
  }

  /// The number of a pair in a half of the rows and of the columns of a block.
  int64_t getPair(int64_t rowHalf, int64_t columnHalf) {
    return type.getTransposed() ? 2 * rowHalf + columnHalf
                                : 2 * columnHalf + rowHalf;
  }

private:
  /// The position of the first row of the block that holds row registers
  /// `2 * pair` and the next one.
  Value firstRow(Value first, int64_t pair) {
    Value row = context.layout.emitBaseRow(b, b.getLoc(), thread);
    row = arith::SubIOp::create(b, row, quad);
    row = emitAdd(b, b.getLoc(), row, context.layout.getRowOffset(2 * pair));
    return add(toWord(first), row);
  }

  /// What lane `source` of each `width` lanes has.
  Value shuffle(Value value, Value source, int64_t width) {
    int64_t segments = (lanesPerWarp - width) << 8 | (lanesPerWarp - 1);
    return NVVM::ShflOp::create(b, value.getType(), constant(-1), value, source,
                                constant(segments), NVVM::ShflKind::idx,
                                UnitAttr());
  }

  /// Counts modulo 32.
  Value rotateLeft(Value value, Value count) {
    return LLVM::FshlOp::create(b, value, value, count);
  }
  Value constant(int64_t value) { return createI32(b, b.getLoc(), value); }
  Value add(Value lhs, Value rhs) { return arith::AddIOp::create(b, lhs, rhs); }
  Value bitAnd(Value value, int64_t mask) {
    return arith::AndIOp::create(b, value, constant(mask));
  }
  Value shiftRight(Value value, int64_t count) {
    return arith::ShRUIOp::create(b, value, constant(count));
  }
  Value toWord(Value index) {
    return arith::IndexCastOp::create(b, b.getI32Type(), index);
  }

  ImplicitLocOpBuilder b;
  DecisionsType type;
  const KernelContext &context;
  Value thread, lane, inQuad, quad;
};

struct MakeDecisionsLowering : public KernelPattern<MakeDecisionsOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(MakeDecisionsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    DecisionsType type = op.getResult().getType();
    RngBlock<Value> stream;
    llvm::copy(getSingleValues(adaptor.getStream()), stream.begin());
    SmallVector<Value> words;
    WordPlaces(rewriter, op.getLoc(), type, op, context)
        .forEachWord(op.getFirstQuery(), op.getFirstKey(),
                     [&](Value queryWord, Value keyWord) {
                       words.push_back(op.getDropout().emitKeepWord(
                           rewriter, op.getLoc(), stream, queryWord, keyWord));
                     });
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{words});
    return success();
  }
};

struct LoadDecisionsLowering : public KernelPattern<LoadDecisionsOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(LoadDecisionsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    DecisionsType type = op.getResult().getType();
    LoweredMemRef source(op.getSource().getType(), adaptor.getSource());
    bool isByRows = op.getLayout() == MaskLayout::Rows;
    // Beyond the mask any word will do.
    auto bound = [&](Value word, int64_t dim) -> Value {
      Value size = arith::TruncIOp::create(rewriter, loc, rewriter.getI32Type(),
                                           source.getSize(rewriter, loc, dim));
      Value last = emitAdd(rewriter, loc, size, -1);
      return arith::MinUIOp::create(rewriter, loc, word, last);
    };
    SmallVector<Value> words;
    WordPlaces(rewriter, loc, type, op, context)
        .forEachWord(
            op.getFirstQuery(), op.getFirstKey(),
            [&](Value queryWord, Value keyWord) {
              SmallVector<Value> indices = {adaptor.getBatch().front(),
                                            adaptor.getHead().front(),
                                            bound(queryWord, isByRows ? 2 : 3),
                                            bound(keyWord, isByRows ? 3 : 2)};
              if (!isByRows)
                std::swap(indices[2], indices[3]);
              Value address = source.emitAddress(rewriter, loc, indices);
              words.push_back(LLVM::LoadOp::create(
                  rewriter, loc, rewriter.getI32Type(), address));
            });
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{words});
    return success();
  }
};

/// Clears what is dropped of a block.
class Clearing {
public:
  Clearing(OpBuilder &builder, Location loc, Value decisions)
      : b(loc, builder), decisions(decisions) {}

  /// Takes a power of two from the exponents of packed weights: one operation,
  /// and for every second pair a shift.
  void clearExponents(Value &value, int64_t pair) {
    int64_t bit = firstDecision + pairsPerShift + pair % pairsPerShift;
    Value kept =
        shiftLeft(pairsPerShift - pair / pairsPerShift * pairsPerShift);
    Value others = constant(~(int64_t(0x00010001) << bit) & 0xffffffff);
    value =
        arith::AndIOp::create(b, value, arith::OrIOp::create(b, kept, others));
  }

  /// Makes zeros of packed elements.
  void clearPair(Value &value, int64_t pair) {
    value = arith::AndIOp::create(b, value, spread(pair, 0xbb99));
  }

  /// Makes zeros of elements of 32 bits.
  void clearElements(Value &even, Value &odd, int64_t pair) {
    clearElement(even, spread(pair, 0x9999));
    clearElement(odd, spread(pair, 0xbbbb));
  }

private:
  void clearElement(Value &value, Value mask) {
    Type type = value.getType();
    Value bits = arith::BitcastOp::create(b, b.getI32Type(), value);
    bits = arith::AndIOp::create(b, bits, mask);
    value = arith::BitcastOp::create(b, type, bits);
  }

  /// The decisions of a pair, moved to the signs of halves and from there to
  /// whole bytes: a nibble of a selector is a byte's number, 8 takes its sign.
  Value spread(int64_t pair, int64_t selector) {
    Value signs = shiftLeft(15 - firstDecision - pair);
    return NVVM::PermuteOp::create(b, b.getI32Type(), signs, signs,
                                   constant(selector),
                                   NVVM::PermuteMode::DEFAULT);
  }

  Value shiftLeft(int64_t count) {
    if (count == 0)
      return decisions;
    Value &shifted = shifts[count];
    if (!shifted)
      shifted = arith::ShLIOp::create(b, decisions, constant(count));
    return shifted;
  }
  Value constant(int64_t value) { return createI32(b, b.getLoc(), value); }

  ImplicitLocOpBuilder b;
  Value decisions;
  DenseMap<int64_t, Value> shifts;
};

struct DropoutLowering : public KernelPattern<DropoutOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(DropoutOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<VectorType>(op.getResult().getType());
    DecisionsType decisions = op.getDecisions().getType();
    bool isPacked = context.isPacked(type);
    bool clearsExponents = op.getWeights() && type.getElementType().isBF16();
    int64_t columns = context.getColumns(type);
    WordPlaces places(rewriter, op.getLoc(), decisions, op, context);
    SmallVector<Value> results(adaptor.getSource());
    ValueRange words = adaptor.getDecisions();
    int64_t wordsPerPair =
        llvm::divideCeil(countBlocks(decisions), blocksPerWord);
    for (int64_t pair = 0; pair < countRowPairs(context, decisions); ++pair) {
      ValueRange ofPair = words.slice(pair * wordsPerPair, wordsPerPair);
      for (auto [n, block] : llvm::enumerate(places.exchange(ofPair))) {
        Clearing clearing(rewriter, op.getLoc(), block);
        for (int64_t rowHalf : {0, 1}) {
          for (int64_t columnHalf : {0, 1}) {
            int64_t number = places.getPair(rowHalf, columnHalf);
            int64_t first =
                (2 * pair + rowHalf) * columns + 4 * n + 2 * columnHalf;
            if (clearsExponents)
              clearing.clearExponents(results[first / 2], number);
            else if (isPacked)
              clearing.clearPair(results[first / 2], number);
            else
              clearing.clearElements(results[first], results[first + 1],
                                     number);
          }
        }
      }
    }
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }
};
} // namespace

void attn::populateDropoutPatterns(RewritePatternSet &patterns,
                                   const TypeConverter &converter,
                                   const KernelContext &context) {
  patterns.add<MakeDecisionsLowering, LoadDecisionsLowering, DropoutLowering>(
      converter, patterns.getContext(), context);
}
