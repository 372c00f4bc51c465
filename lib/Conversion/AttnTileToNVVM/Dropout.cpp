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

#include <numeric>

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
/// Pairs of elements side by side that a lane has of a block.
static constexpr int64_t pairsPerBlock = 4;
/// Where decisions clear exponents: bits 12 and 13 of a bf16, whose value is
/// 2^32 and 2^64, of which weights, which are less than 2, have both or are
/// themselves less than 2^-31.
static constexpr int64_t exponentBit = 12;
static constexpr int64_t pairsPerShift = 2;

/// Blocks side by side in a tile.
static int64_t countBlocks(DecisionsType type) {
  return type.getColumns() / blockSize;
}

/// Blocks of a row of them of which a thread has one word.
static int64_t countBlocksOfWord(DecisionsType type) {
  return type.getWhole() ? 1 : blocksPerWord;
}

/// Words that a thread has of a row of blocks.
static int64_t countWords(DecisionsType type) {
  return llvm::divideCeil(countBlocks(type), countBlocksOfWord(type));
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
  types.append(countRowPairs(context, type) * countWords(type),
               IntegerType::get(type.getContext(), 32));
  return success();
}

namespace {
/// Decisions of a lane about a block: bits `first + getPair(..)` of the halves
/// of `value` have those of a pair of elements side by side.
struct BlockDecisions {
  Value value;
  int64_t first;
};

/// Which words a lane has. Tiles are cut into rows of blocks, as many as fit
/// the row registers of a thread in pairs.
///
/// Where rows are queries, all lanes of a quad need the same words, one for
/// each block; each lane has a quarter of them, or all if they are whole. Where
/// rows are keys, a lane
/// needs two of the eight words of each block, one for each of the columns side
/// by side. Of four blocks, the lanes at the same columns have one word each of
/// those that they need: they exchange nibbles of them as a matrix is
/// transposed.
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
      for (int64_t n = 0; n < countBlocks(type); n += countBlocksOfWord(type)) {
        if (type.getTransposed()) {
          constexpr int64_t wordsPerBlock = DropoutAttr::queryDistance;
          Value keyWord = shiftRight(firstRow(firstKey, pair), 4);
          Value first = add(shiftRight(toWord(firstQuery), 1), ownWord());
          fn(emitAdd(b, b.getLoc(), first, n * wordsPerBlock), keyWord);
          continue;
        }
        Value queryWord = add(shiftRight(firstRow(firstQuery, pair), 1), quad);
        Value first = shiftRight(toWord(firstKey), 4);
        if (!type.getWhole())
          first = add(first, inQuad);
        fn(queryWord, emitAdd(b, b.getLoc(), first, n));
      }
    }
  }

  /// The decisions of this thread in the blocks of a row of them, of which the
  /// lanes of its warp have `words`.
  SmallVector<BlockDecisions> exchange(ValueRange words) {
    SmallVector<BlockDecisions> decisions;
    if (type.getTransposed()) {
      SmallVector<Value> transposed;
      for (Value word : words)
        transposed.push_back(transpose(word));
      for (int64_t n = 0; n < countBlocks(type); ++n)
        decisions.push_back(
            {transposed[n / blocksPerWord], n % blocksPerWord * pairsPerBlock});
      return decisions;
    }
    // Where pairs clear exponents without a shift.
    constexpr int64_t first = exponentBit - pairsPerShift;
    Value ofLane = arith::MulIOp::create(b, inQuad, constant(pairsPerBlock));
    Value shift = arith::SubIOp::create(b, constant(first), ofLane);
    for (int64_t n = 0; n < countBlocks(type); ++n) {
      Value word = type.getWhole() ? words[n]
                                   : shuffle(words[n / blocksPerWord],
                                             constant(n % blocksPerWord),
                                             NVVM::ShflKind::idx, lanesPerQuad);
      decisions.push_back({rotateLeft(word, shift), first});
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

  /// The number among those of four blocks of the word that a lane has, where
  /// rows are keys: lane `4 (4 n1 + 2 n0 + u) + c`, in bits, has that of
  /// columns `2 c + u` of block `2 n1 + n0`.
  Value ownWord() {
    Value block = bitAnd(lane, 0x18);
    Value column = add(inQuad, inQuad);
    Value odd = bitAnd(quad, 1);
    return arith::OrIOp::create(b, block, arith::OrIOp::create(b, column, odd));
  }

  /// Of a word of each lane at the same columns, the nibbles that this lane
  /// needs: nibble `4 u + n` of that of columns `2 c + u` and block `n`. Rows
  /// `4 k1 + 2 k0 + e` of a block are nibble `4 e + 2 k1 + k0` of its words.
  Value transpose(Value word) {
    auto isSet = [&](int64_t bit) -> Value {
      return arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                                   bitAnd(lane, bit), constant(0));
    };
    auto choose = [&](Value isOdd, int64_t odd, int64_t even) -> Value {
      return arith::SelectOp::create(b, isOdd, constant(odd), constant(even));
    };
    // Bytes 0 to 3 are those of the lane, 4 to 7 those of the other one.
    auto exchangeBytes = [&](int64_t bit, int64_t odd, int64_t even) {
      Value other =
          shuffle(word, constant(bit), NVVM::ShflKind::bfly, lanesPerWarp);
      word = NVVM::PermuteOp::create(b, b.getI32Type(), word, other,
                                     choose(isSet(bit), odd, even),
                                     NVVM::PermuteMode::DEFAULT);
    };
    exchangeBytes(4, 0x3276, 0x5410);
    exchangeBytes(16, 0x3715, 0x6240);
    constexpr int64_t bit = 8, lowNibbles = 0x0f0f0f0f,
                      highNibbles = 0xf0f0f0f0;
    Value other =
        shuffle(word, constant(bit), NVVM::ShflKind::bfly, lanesPerWarp);
    Value isOdd = isSet(bit);
    other = rotateLeft(other, choose(isOdd, -pairsPerBlock, pairsPerBlock));
    Value own = choose(isOdd, highNibbles, lowNibbles);
    Value difference =
        arith::AndIOp::create(b, arith::XOrIOp::create(b, word, other), own);
    return arith::XOrIOp::create(b, difference, other);
  }

  /// What lane `source` of each `width` lanes has, or the one whose number
  /// differs in the bits of `source`.
  Value shuffle(Value value, Value source, NVVM::ShflKind kind, int64_t width) {
    int64_t segments = (lanesPerWarp - width) << 8 | (lanesPerWarp - 1);
    return NVVM::ShflOp::create(b, value.getType(), constant(-1), value, source,
                                constant(segments), kind, UnitAttr());
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
    bool isVector = type.getWhole() && isByRows;
    int64_t width = isVector ? std::gcd(countBlocks(type), maxWidth) : 1;
    // Beyond the mask any word will do.
    auto bound = [&](Value word, int64_t dim, int64_t count = 1) -> Value {
      Value size = arith::TruncIOp::create(rewriter, loc, rewriter.getI32Type(),
                                           source.getSize(rewriter, loc, dim));
      Value last = emitAdd(rewriter, loc, size, -count);
      return arith::MinUIOp::create(rewriter, loc, word, last);
    };
    SmallVector<Value> addresses;
    int64_t number = 0;
    WordPlaces(rewriter, loc, type, op, context)
        .forEachWord(
            op.getFirstQuery(), op.getFirstKey(),
            [&](Value queryWord, Value keyWord) {
              if (number++ % width != 0)
                return;
              SmallVector<Value> indices = {
                  adaptor.getBatch().front(), adaptor.getHead().front(),
                  bound(queryWord, isByRows ? 2 : 3),
                  bound(keyWord, isByRows ? 3 : 2, width)};
              if (!isByRows)
                std::swap(indices[2], indices[3]);
              addresses.push_back(source.emitAddress(rewriter, loc, indices));
            });
    SmallVector<Value> words;
    for (Value address : addresses)
      loadWords(rewriter, loc, address, width, words);
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{words});
    return success();
  }

private:
  /// Words of 16 bytes, at multiples of which rows of a mask begin.
  static constexpr int64_t maxWidth = 4;
  static constexpr int64_t wordBytes = 4;

  /// The `count` words at `address`, by one instruction.
  static void loadWords(OpBuilder &builder, Location loc, Value address,
                        int64_t count, SmallVectorImpl<Value> &words) {
    Type i32 = builder.getI32Type();
    if (count == 1) {
      words.push_back(LLVM::LoadOp::create(builder, loc, i32, address));
      return;
    }
    Value loaded =
        LLVM::LoadOp::create(builder, loc, VectorType::get(count, i32), address,
                             static_cast<unsigned>(count * wordBytes));
    for (int64_t i = 0; i < count; ++i)
      words.push_back(LLVM::ExtractElementOp::create(
          builder, loc, loaded, createI32(builder, loc, i)));
  }
};

/// Clears what is dropped of blocks.
class Clearing {
public:
  /// With `shifts`, decisions move to the left by shifts.
  Clearing(OpBuilder &builder, Location loc, bool shifts)
      : b(loc, builder), shifts(shifts) {}

  /// Takes a power of two from the exponents of packed weights: one operation,
  /// and for every second pair a shift.
  void clearExponents(Value &value, BlockDecisions block, int64_t pair) {
    int64_t bit = exponentBit + pair % pairsPerShift;
    Value kept = moveTo(bit, block, pair);
    Value others = constant(~(int64_t(0x00010001) << bit) & 0xffffffff);
    value =
        arith::AndIOp::create(b, value, arith::OrIOp::create(b, kept, others));
  }

  /// Makes zeros of packed elements.
  void clearPair(Value &value, BlockDecisions block, int64_t pair) {
    value = arith::AndIOp::create(b, value, spread(block, pair, 0xbb99));
  }

  /// Makes zeros of elements of 32 bits.
  void clearElements(Value &even, Value &odd, BlockDecisions block,
                     int64_t pair) {
    clearElement(even, spread(block, pair, 0x9999));
    clearElement(odd, spread(block, pair, 0xbbbb));
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
  Value spread(BlockDecisions block, int64_t pair, int64_t selector) {
    constexpr int64_t signBit = 15;
    Value signs = moveTo(signBit, block, pair);
    return NVVM::PermuteOp::create(b, b.getI32Type(), signs, signs,
                                   constant(selector),
                                   NVVM::PermuteMode::DEFAULT);
  }

  /// Moves the decisions of a pair to bit `bit` of the halves.
  Value moveTo(int64_t bit, BlockDecisions block, int64_t pair) {
    constexpr int64_t wordBits = 32;
    int64_t count = (bit - block.first - pair + wordBits) % wordBits;
    if (count == 0)
      return block.value;
    // Shifts to the left may be multiplications, for which there are more
    // units.
    Value &moved = rotations[{block.value, count}];
    if (!moved && shifts && bit > block.first + pair)
      moved = arith::ShLIOp::create(b, block.value, constant(count));
    if (!moved)
      moved =
          LLVM::FshlOp::create(b, block.value, block.value, constant(count));
    return moved;
  }
  Value constant(int64_t value) { return createI32(b, b.getLoc(), value); }

  ImplicitLocOpBuilder b;
  bool shifts;
  DenseMap<std::pair<Value, int64_t>, Value> rotations;
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
    int64_t wordsPerPair = countWords(decisions);
    for (int64_t pair = 0; pair < countRowPairs(context, decisions); ++pair) {
      ValueRange ofPair = words.slice(pair * wordsPerPair, wordsPerPair);
      // Beside the longer steps of rows that are keys shifts gain nothing.
      Clearing clearing(rewriter, op.getLoc(),
                        /*shifts=*/!decisions.getTransposed());
      for (auto [n, block] : llvm::enumerate(places.exchange(ofPair))) {
        for (int64_t rowHalf : {0, 1}) {
          for (int64_t columnHalf : {0, 1}) {
            int64_t number = places.getPair(rowHalf, columnHalf);
            int64_t first =
                (2 * pair + rowHalf) * columns + 4 * n + 2 * columnHalf;
            if (clearsExponents)
              clearing.clearExponents(results[first / 2], block, number);
            else if (isPacked)
              clearing.clearPair(results[first / 2], block, number);
            else
              clearing.clearElements(results[first], results[first + 1], block,
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
