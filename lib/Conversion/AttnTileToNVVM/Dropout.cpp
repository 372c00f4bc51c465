//===- Dropout.cpp - Dropped weights ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers dropout. The threads of a warp make the decision words of the rows
// they own, each of them some, and exchange them. A shift of a word puts the
// bits of a thread into the signs of its four bytes; byte permutations spread
// them over pairs of packed weights.
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

namespace {
/// The decisions of a thread in one block, in the signs of bytes: `even` has
/// those of columns `2 c` and `2 c + 8`, `odd` those of the columns next to
/// them.
struct BlockDecisions {
  Value even, odd;
};

/// Emits the decisions of a thread for one tile.
class DecisionEmitter {
public:
  DecisionEmitter(OpBuilder &builder, DropoutOp op,
                  const KernelContext &context)
      : b(op.getLoc(), builder), op(op), context(context),
        thread(context.getPosition(builder, op).thread) {
    lane = bitAnd(thread, lanesPerWarp - 1);
    inQuad = bitAnd(thread, lanesPerQuad - 1);
    quad = shiftRight(lane, 2);
    llvm::copy(op.getStream(), stream.begin());
  }

  /// The decisions of the blocks of row registers `2 * pair` and the next one.
  SmallVector<BlockDecisions> emit(int64_t pair) {
    return op.getTransposed() ? emitForKeys(pair) : emitForQueries(pair);
  }

  /// The byte that has the decisions of a half of the rows and of the columns
  /// of a block.
  int64_t getByte(int64_t rowHalf, int64_t columnHalf) {
    return op.getTransposed() ? 2 * columnHalf + rowHalf
                              : 2 * rowHalf + columnHalf;
  }

private:
  /// Rows are queries: all lanes of a quad need the same words, one for each
  /// block. Each lane makes a quarter of them.
  SmallVector<BlockDecisions> emitForQueries(int64_t pair) {
    Value queryWord =
        add(shiftRight(firstRow(op.getFirstQuery(), pair), 1), quad);
    Value firstWord = add(shiftRight(toWord(op.getFirstKey()), 4), inQuad);
    int64_t numBlocks = countBlocks();
    SmallVector<Value> words;
    for (int64_t i = 0; i < numBlocks; i += lanesPerQuad)
      words.push_back(
          emitWord(queryWord, emitAdd(b, b.getLoc(), firstWord, i)));
    Value shift = arith::SubIOp::create(b, constant(7), add(inQuad, inQuad));
    SmallVector<BlockDecisions> decisions;
    for (int64_t n = 0; n < numBlocks; ++n) {
      // The bits of the even columns are one below those of the odd ones.
      Value word = shuffle(words[n / lanesPerQuad], constant(n % lanesPerQuad),
                           lanesPerQuad);
      Value even = arith::ShLIOp::create(b, word, shift);
      Value odd =
          arith::ShLIOp::create(b, word, emitAdd(b, b.getLoc(), shift, -1));
      decisions.push_back({even, odd});
    }
    return decisions;
  }

  /// Rows are keys: a lane needs two of the eight words of each block, one for
  /// each of the columns side by side. Each lane makes one of four blocks.
  SmallVector<BlockDecisions> emitForKeys(int64_t pair) {
    Value keyWord = shiftRight(firstRow(op.getFirstKey(), pair), 4);
    Value firstWord = add(shiftRight(toWord(op.getFirstQuery()), 1), lane);
    constexpr int64_t wordsPerBlock = DropoutAttr::queryDistance;
    constexpr int64_t blocksPerWarp = lanesPerWarp / wordsPerBlock;
    int64_t numBlocks = countBlocks();
    SmallVector<Value> words;
    for (int64_t n = 0; n < numBlocks; n += blocksPerWarp)
      words.push_back(emitWord(
          emitAdd(b, b.getLoc(), firstWord, n * wordsPerBlock), keyWord));
    Value shift = arith::SubIOp::create(b, constant(7), quad);
    Value source = add(inQuad, inQuad);
    SmallVector<BlockDecisions> decisions;
    for (int64_t n = 0; n < numBlocks; ++n) {
      auto getColumn = [&](int64_t offset) -> Value {
        int64_t first = n % blocksPerWarp * wordsPerBlock + offset;
        Value word =
            shuffle(words[n / blocksPerWarp],
                    emitAdd(b, b.getLoc(), source, first), lanesPerWarp);
        return arith::ShLIOp::create(b, word, shift);
      };
      decisions.push_back({getColumn(0), getColumn(1)});
    }
    return decisions;
  }

  int64_t countBlocks() {
    return cast<VectorType>(op.getResult().getType()).getDimSize(1) / blockSize;
  }

  /// The position of the first row of the block that holds row registers
  /// `2 * pair` and the next one.
  Value firstRow(Value first, int64_t pair) {
    Value row = context.layout.emitBaseRow(b, b.getLoc(), thread);
    row = arith::SubIOp::create(b, row, quad);
    row = emitAdd(b, b.getLoc(), row, context.layout.getRowOffset(2 * pair));
    return add(toWord(first), row);
  }

  Value emitWord(Value queryWord, Value keyWord) {
    return op.getDropout().emitKeepWord(b, b.getLoc(), stream, queryWord,
                                        keyWord);
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
  DropoutOp op;
  const KernelContext &context;
  Value thread, lane, inQuad, quad;
  RngBlock<Value> stream;
};

struct DropoutLowering : public KernelPattern<DropoutOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(DropoutOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!isa<RowBlockLayoutAttr>(context.layout))
      return rewriter.notifyMatchFailure(
          op, "rows are not spread over quads of threads");
    auto type = cast<VectorType>(op.getResult().getType());
    bool isPacked = context.isPacked(type);
    int64_t rows = context.getRows(type), columns = context.getColumns(type);
    DecisionEmitter emitter(rewriter, op, context);
    SmallVector<Value> results(adaptor.getSource());
    for (int64_t pair = 0; pair < rows / 2; ++pair) {
      for (auto [n, block] : llvm::enumerate(emitter.emit(pair))) {
        for (int64_t rowHalf : {0, 1}) {
          for (int64_t columnHalf : {0, 1}) {
            // A nibble of a selector is a byte's number; 8 takes its sign.
            int64_t even = 8 | emitter.getByte(rowHalf, columnHalf);
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
  patterns.add<DropoutLowering>(converter, patterns.getContext(), context);
}
