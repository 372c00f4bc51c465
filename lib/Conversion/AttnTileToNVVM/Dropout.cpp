//===- Dropout.cpp - Dropout and keep masks -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers dropout. The threads of a warp generate or load the keep-mask words of
// their rows, each of them some, and exchange them where P is dropped. A
// rotation moves the bits of two pairs of packed probabilities to exponent
// bits, where one operation clears a pair.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "llvm/ADT/DenseMap.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

/// Rows and columns of the blocks that a tile consists of. In a block, lane `4
/// r + c` of a warp owns rows `r` and `r + 8` and columns `2 c + {0, 1, 8, 9}`.
static constexpr int64_t blockSize = 16;
static constexpr int64_t lanesPerQuad = 4;
static constexpr int64_t lanesPerWarp = 32;
/// Adjacent blocks for which a lane has one word.
static constexpr int64_t blocksPerWord = 4;
/// Pairs of adjacent elements that a lane has in a block.
static constexpr int64_t pairsPerBlock = 4;
/// Exponent bits of a bf16 that keep masks clear: bits 12 and 13 are worth
/// factors of 2^32 and 2^64. Probabilities are less than 2, so both bits are
/// set or the probability is less than 2^-31 anyway.
static constexpr int64_t exponentBit = 12;
static constexpr int64_t pairsPerShift = 2;

/// Blocks in a row of blocks of a tile.
static int64_t countBlocks(KeepMaskType type) {
  return type.getColumns() / blockSize;
}

/// Blocks of a row of blocks for which a thread has one word.
static int64_t countBlocksOfWord(KeepMaskType type) {
  return type.getWhole() ? 1 : blocksPerWord;
}

/// Words of a row of blocks that a thread has.
static int64_t countWords(KeepMaskType type) {
  return llvm::divideCeil(countBlocks(type), countBlocksOfWord(type));
}

/// Rows of blocks that a thread has elements in.
static int64_t countRowPairs(const KernelContext &context, KeepMaskType type) {
  return context.layout.getRowRegisters(type.getRows()) / 2;
}

std::optional<LogicalResult>
attn::convertKeepMask(const KernelContext &context, KeepMaskType type,
                      SmallVectorImpl<Type> &types) {
  if (!isa_and_present<RowBlockLayoutAttr>(context.layout) ||
      !context.layout.supports({type.getRows(), type.getColumns()}))
    return failure();
  types.append(countRowPairs(context, type) * countWords(type),
               IntegerType::get(type.getContext(), 32));
  return success();
}

namespace {
/// The keep mask of a lane for a block: bits `first + getPair(..)` of the two
/// halves of `value` belong to a pair of adjacent elements.
struct BlockKeepMask {
  Value value;
  int64_t first;
};

/// The words that a lane has. Tiles are divided into rows of blocks, one for
/// each pair of a thread's row registers.
///
/// If rows are queries, all lanes of a quad need the same words, one for each
/// block. Each lane has a quarter of them, or all if they are whole. If rows
/// are keys, a lane needs two of the eight words of each block, one for each of
/// its adjacent columns. For four blocks, each lane at these columns has one of
/// the words they need. The lanes exchange nibbles as in a matrix transpose.
class WordPlaces {
public:
  WordPlaces(OpBuilder &builder, Location loc, KeepMaskType type, Operation *op,
             const KernelContext &context)
      : b(loc, builder), type(type), context(context),
        thread(context.getPosition(builder, op).thread) {
    lane = bitAnd(thread, lanesPerWarp - 1);
    inQuad = bitAnd(thread, lanesPerQuad - 1);
    quad = shiftRight(lane, 2);
  }

  /// Calls `fn` with the query and key position of each word that the lane has,
  /// for a tile at `firstQuery` and `firstKey`.
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

  /// The keep mask of this thread in a row of blocks, for which the lanes of
  /// its warp have `words`.
  SmallVector<BlockKeepMask> exchange(ValueRange words) {
    SmallVector<BlockKeepMask> blocks;
    if (type.getTransposed()) {
      SmallVector<Value> transposed;
      for (Value word : words)
        transposed.push_back(transpose(word));
      for (int64_t n = 0; n < countBlocks(type); ++n)
        blocks.push_back(
            {transposed[n / blocksPerWord], n % blocksPerWord * pairsPerBlock});
      return blocks;
    }
    // Here one of the pairs needs no shift to clear exponents.
    constexpr int64_t first = exponentBit - pairsPerShift;
    Value ofLane = arith::MulIOp::create(b, inQuad, constant(pairsPerBlock));
    Value shift = arith::SubIOp::create(b, constant(first), ofLane);
    for (int64_t n = 0; n < countBlocks(type); ++n) {
      Value word = type.getWhole() ? words[n]
                                   : shuffle(words[n / blocksPerWord],
                                             constant(n % blocksPerWord),
                                             NVVM::ShflKind::idx, lanesPerQuad);
      blocks.push_back({rotateLeft(word, shift), first});
    }
    return blocks;
  }

  /// The index of a pair, by its half of the rows and of the columns of a
  /// block.
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

  /// The index of a lane's word among the words of four blocks, if rows are
  /// keys. In bits, lane `4 (4 n1 + 2 n0 + u) + c` has the word of columns `2 c
  /// + u` of block `2 n1 + n0`.
  Value ownWord() {
    Value block = bitAnd(lane, 0x18);
    Value column = add(inQuad, inQuad);
    Value odd = bitAnd(quad, 1);
    return arith::OrIOp::create(b, block, arith::OrIOp::create(b, column, odd));
  }

  /// Exchanges the words of lanes at the same columns. Returns the nibbles that
  /// this lane needs: nibble `4 u + n` belongs to columns `2 c + u` and block
  /// `n`. Rows `4 k1 + 2 k0 + e` of a block are nibble `4 e + 2 k1 + k0` of its
  /// words.
  Value transpose(Value word) {
    auto isSet = [&](int64_t bit) -> Value {
      return arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                                   bitAnd(lane, bit), constant(0));
    };
    auto choose = [&](Value isOdd, int64_t odd, int64_t even) -> Value {
      return arith::SelectOp::create(b, isOdd, constant(odd), constant(even));
    };
    // Selector bytes 0 to 3 are the lane's own word, 4 to 7 the other one.
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

  /// The value of lane `source` of each `width` lanes, or of the lane whose
  /// index differs in the bits of `source`.
  Value shuffle(Value value, Value source, NVVM::ShflKind kind, int64_t width) {
    int64_t segments = (lanesPerWarp - width) << 8 | (lanesPerWarp - 1);
    return NVVM::ShflOp::create(b, value.getType(), constant(-1), value, source,
                                constant(segments), kind, UnitAttr());
  }

  /// The count is taken modulo 32.
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
  KeepMaskType type;
  const KernelContext &context;
  Value thread, lane, inQuad, quad;
};

struct GenerateKeepMaskLowering : public KernelPattern<GenerateKeepMaskOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(GenerateKeepMaskOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    KeepMaskType type = op.getResult().getType();
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

struct LoadKeepMaskLowering : public KernelPattern<LoadKeepMaskOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(LoadKeepMaskOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    KeepMaskType type = op.getResult().getType();
    LoweredMemRef source(op.getSource().getType(), adaptor.getSource());
    bool isByRows = op.getLayout() == MaskLayout::Rows;
    bool isVector = type.getWhole() && isByRows;
    int64_t width = isVector ? std::gcd(countBlocks(type), maxWidth) : 1;
    // Past the mask any word is good enough.
    auto bound = [&](Value word, int64_t dim, int64_t count = 1) -> Value {
      Value size = arith::TruncIOp::create(rewriter, loc, rewriter.getI32Type(),
                                           source.getSize(rewriter, loc, dim));
      Value last = emitAdd(rewriter, loc, size, -count);
      return arith::MinUIOp::create(rewriter, loc, word, last);
    };
    // Without keys there is no word, but a tile to compute.
    Value isEmpty = emitIsEmpty(rewriter, loc, source);
    Value zeros = context.zeros;
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
              Value address = source.emitAddress(rewriter, loc, indices);
              if (isEmpty && zeros.getType() != address.getType())
                zeros = LLVM::AddrSpaceCastOp::create(rewriter, loc,
                                                      address.getType(), zeros);
              if (isEmpty)
                address = LLVM::SelectOp::create(rewriter, loc, isEmpty, zeros,
                                                 address);
              addresses.push_back(address);
            });
    SmallVector<Value> words;
    for (Value address : addresses)
      loadWords(rewriter, loc, address, width, words);
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{words});
    return success();
  }

private:
  /// Words in 16 bytes; rows of a mask are aligned to this.
  static constexpr int64_t maxWidth = 4;
  static constexpr int64_t wordBytes = 4;

  /// Loads `count` words at `address` by one instruction.
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

/// Clears the dropped elements of blocks.
class Clearing {
public:
  /// With `shifts`, keep masks move left by shifts instead of rotations.
  Clearing(OpBuilder &builder, Location loc, bool shifts)
      : b(loc, builder), shifts(shifts) {}

  /// Clears an exponent bit of packed probabilities: one operation, and a shift
  /// for every second pair.
  void clearExponents(Value &value, BlockKeepMask block, int64_t pair) {
    int64_t bit = exponentBit + pair % pairsPerShift;
    Value kept = moveTo(bit, block, pair);
    Value others = constant(~(int64_t(0x00010001) << bit) & 0xffffffff);
    value =
        arith::AndIOp::create(b, value, arith::OrIOp::create(b, kept, others));
  }

  /// Sets dropped packed elements to zero.
  void clearPair(Value &value, BlockKeepMask block, int64_t pair) {
    value = arith::AndIOp::create(b, value, spread(block, pair, 0xbb99));
  }

  /// Sets dropped elements of 32 bits to zero.
  void clearElements(Value &even, Value &odd, BlockKeepMask block,
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

  /// Moves the bits of a pair to the signs of halves, and from there to whole
  /// bytes: a selector nibble is a byte number, plus 8 to replicate its sign.
  Value spread(BlockKeepMask block, int64_t pair, int64_t selector) {
    constexpr int64_t signBit = 15;
    Value signs = moveTo(signBit, block, pair);
    return NVVM::PermuteOp::create(b, b.getI32Type(), signs, signs,
                                   constant(selector),
                                   NVVM::PermuteMode::DEFAULT);
  }

  /// Moves the keep mask of a pair to bit `bit` of the halves.
  Value moveTo(int64_t bit, BlockKeepMask block, int64_t pair) {
    constexpr int64_t wordBits = 32;
    int64_t count = (bit - block.first - pair + wordBits) % wordBits;
    if (count == 0)
      return block.value;
    // A left shift may become a multiplication, which has more execution units.
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
    KeepMaskType keepMask = op.getKeepMask().getType();
    bool isPacked = context.isPacked(type);
    bool clearsExponents = op.getBelowTwo() && type.getElementType().isBF16();
    int64_t columns = context.getColumns(type);
    WordPlaces places(rewriter, op.getLoc(), keepMask, op, context);
    SmallVector<Value> results(adaptor.getSource());
    ValueRange words = adaptor.getKeepMask();
    int64_t wordsPerPair = countWords(keepMask);
    for (int64_t pair = 0; pair < countRowPairs(context, keepMask); ++pair) {
      ValueRange ofPair = words.slice(pair * wordsPerPair, wordsPerPair);
      // Steps with keys as rows are longer; shifts gain nothing there.
      Clearing clearing(rewriter, op.getLoc(),
                        /*shifts=*/!keepMask.getTransposed());
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
  patterns.add<GenerateKeepMaskLowering, LoadKeepMaskLowering, DropoutLowering>(
      converter, patterns.getContext(), context);
}
