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
// them; a shift of a word puts the bits of a thread into the signs of its four
// bytes, and byte permutations spread them over pairs of packed weights.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "attn/Dialect/Attn/IR/AttnAttrs.h"

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
/// The decisions of a thread in one block, in the signs of bytes: `even` has
/// those of columns `2 c` and `2 c + 8`, `odd` those of the columns next to
/// them.
struct BlockDecisions {
  Value even, odd;
};

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
  /// lanes of its warp have `words`.
  SmallVector<BlockDecisions> exchange(ValueRange words) {
    SmallVector<BlockDecisions> decisions;
    if (type.getTransposed()) {
      Value shift = arith::SubIOp::create(b, constant(7), quad);
      Value source = add(inQuad, inQuad);
      for (int64_t n = 0; n < countBlocks(type); ++n) {
        auto getColumn = [&](int64_t offset) -> Value {
          int64_t first =
              n % blocksPerWord * DropoutAttr::queryDistance + offset;
          Value word =
              shuffle(words[n / blocksPerWord],
                      emitAdd(b, b.getLoc(), source, first), lanesPerWarp);
          return arith::ShLIOp::create(b, word, shift);
        };
        Value even = getColumn(0);
        decisions.push_back({even, getColumn(1)});
      }
      return decisions;
    }
    Value shift = arith::SubIOp::create(b, constant(7), add(inQuad, inQuad));
    for (int64_t n = 0; n < countBlocks(type); ++n) {
      // The bits of the even columns are one below those of the odd ones.
      Value word = shuffle(words[n / blocksPerWord],
                           constant(n % blocksPerWord), lanesPerQuad);
      Value even = arith::ShLIOp::create(b, word, shift);
      Value odd =
          arith::ShLIOp::create(b, word, emitAdd(b, b.getLoc(), shift, -1));
      decisions.push_back({even, odd});
    }
    return decisions;
  }

  /// The byte that has the decisions of a half of the rows and of the columns
  /// of a block.
  int64_t getByte(int64_t rowHalf, int64_t columnHalf) {
    return type.getTransposed() ? 2 * columnHalf + rowHalf
                                : 2 * rowHalf + columnHalf;
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

struct DropoutLowering : public KernelPattern<DropoutOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(DropoutOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<VectorType>(op.getResult().getType());
    DecisionsType decisions = op.getDecisions().getType();
    bool isPacked = context.isPacked(type);
    int64_t columns = context.getColumns(type);
    WordPlaces places(rewriter, op.getLoc(), decisions, op, context);
    SmallVector<Value> results(adaptor.getSource());
    ValueRange words = adaptor.getDecisions();
    int64_t wordsPerPair =
        llvm::divideCeil(countBlocks(decisions), blocksPerWord);
    for (int64_t pair = 0; pair < countRowPairs(context, decisions); ++pair) {
      ValueRange ofPair = words.slice(pair * wordsPerPair, wordsPerPair);
      for (auto [n, block] : llvm::enumerate(places.exchange(ofPair))) {
        for (int64_t rowHalf : {0, 1}) {
          for (int64_t columnHalf : {0, 1}) {
            // A nibble of a selector is a byte's number; 8 takes its sign.
            int64_t even = 8 | places.getByte(rowHalf, columnHalf);
            int64_t odd = even | 4;
            int64_t first =
                (2 * pair + rowHalf) * columns + 4 * n + 2 * columnHalf;
            if (isPacked) {
              clear(rewriter, op.getLoc(), results[first / 2], block,
                    even * 0x11 | odd * 0x1100);
              continue;
            }
            clear(rewriter, op.getLoc(), results[first], block, even * 0x1111);
            clear(rewriter, op.getLoc(), results[first + 1], block,
                  odd * 0x1111);
          }
        }
      }
    }
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }

private:
  /// Clears the bits of a register whose decisions, spread by `selector`, are
  /// not set.
  static void clear(OpBuilder &builder, Location loc, Value &value,
                    const BlockDecisions &block, int64_t selector) {
    Type type = value.getType();
    Type i32 = builder.getI32Type();
    Value mask = NVVM::PermuteOp::create(
        builder, loc, i32, block.even, block.odd,
        createI32(builder, loc, selector), NVVM::PermuteMode::DEFAULT);
    Value bits = value;
    if (type != i32)
      bits = arith::BitcastOp::create(builder, loc, i32, value);
    value = arith::AndIOp::create(builder, loc, bits, mask);
    if (type != i32)
      value = arith::BitcastOp::create(builder, loc, type, value);
  }
};
} // namespace

void attn::populateDropoutPatterns(RewritePatternSet &patterns,
                                   const TypeConverter &converter,
                                   const KernelContext &context) {
  patterns.add<MakeDecisionsLowering, LoadDecisionsLowering, DropoutLowering>(
      converter, patterns.getContext(), context);
}
