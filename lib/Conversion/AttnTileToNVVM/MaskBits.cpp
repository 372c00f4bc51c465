//===- MaskBits.cpp - Masks as bits ---------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers mask bits. A thread loads words that hold the bits of its own elements
// only, and tests each bit by a constant: the assembler makes seven bits of a
// word at a time into predicates.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

/// Pairs of row registers of a thread; a warp's pair covers 16 rows.
static int64_t countRowPairs(const KernelContext &context, MaskBitsType type) {
  return context.layout.getRowRegisters(type.getRows()) / 2;
}

std::optional<LogicalResult>
attn::convertMaskBits(const KernelContext &context, MaskBitsType type,
                      SmallVectorImpl<Type> &types) {
  if (!isa_and_present<RowBlockLayoutAttr>(context.layout) ||
      !context.layout.supports({type.getRows(), type.getColumns()}))
    return failure();
  types.append(countRowPairs(context, type) * type.getLaneWords(),
               IntegerType::get(type.getContext(), 32));
  return success();
}

namespace {
struct LoadMaskBitsLowering : public KernelPattern<LoadMaskBitsOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(LoadMaskBitsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    constexpr int64_t lanes = MaskBitsType::lanes;
    Location loc = op.getLoc();
    MaskBitsType type = op.getResult().getType();
    int64_t laneWords = type.getLaneWords();
    auto constant = [&](int64_t value) {
      return createI32(rewriter, loc, value);
    };
    LoweredMemRef source(op.getSource().getType(), adaptor.getSource());
    Value thread = context.getPosition(rewriter, op).thread;
    Value lane =
        arith::AndIOp::create(rewriter, loc, thread, constant(lanes - 1));
    // The words of 16 rows for each warp come first, then the next 16 rows of
    // each.
    Value warp = arith::DivUIOp::create(rewriter, loc, thread, constant(lanes));
    Value first =
        arith::MulIOp::create(rewriter, loc, warp, constant(laneWords * lanes));
    first = arith::AddIOp::create(rewriter, loc, first, lane);
    int64_t numPairs = countRowPairs(context, type);
    int64_t distance = type.getNumWords() / numPairs;
    SmallVector<Value> words;
    SmallVector<Value> indices = {
        adaptor.getBatch().front(), adaptor.getHead().front(),
        adaptor.getRow().front(), adaptor.getStep().front(), first};
    Value address = source.emitAddress(rewriter, loc, indices);
    Type i32 = rewriter.getI32Type();
    for (int64_t pair = 0; pair < numPairs; ++pair)
      for (int64_t word = 0; word < laneWords; ++word) {
        int64_t offset = pair * distance + word * lanes;
        Value place = LLVM::GEPOp::create(
            rewriter, loc, address.getType(), i32, address,
            ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
        words.push_back(LLVM::LoadOp::create(rewriter, loc, i32, place));
      }
    rewriter.replaceOpWithMultiple(op, SmallVector<SmallVector<Value>>{words});
    return success();
  }
};

struct ApplyMaskBitsLowering : public KernelPattern<ApplyMaskBitsOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(ApplyMaskBitsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    constexpr int64_t wordBits = MaskBitsType::wordBits;
    Location loc = op.getLoc();
    MaskBitsType type = op.getBits().getType();
    int64_t ofPair = 2 * type.getLaneColumns(), words = type.getLaneWords();
    Value zero = createI32(rewriter, loc, 0);
    Value masked = arith::ConstantFloatOp::create(
        rewriter, loc, rewriter.getF32Type(),
        APFloat::getInf(APFloat::IEEEsingle(), /*Negative=*/true));
    SmallVector<Value> results;
    for (auto [number, score] : llvm::enumerate(adaptor.getSource())) {
      int64_t pair = static_cast<int64_t>(number) / ofPair;
      int64_t element = static_cast<int64_t>(number) % ofPair;
      Value word = adaptor.getBits()[pair * words + element / wordBits];
      Value bit = arith::AndIOp::create(
          rewriter, loc, word,
          createI32(rewriter, loc, int64_t(1) << (element % wordBits)));
      Value isKept = arith::CmpIOp::create(rewriter, loc,
                                           arith::CmpIPredicate::ne, bit, zero);
      results.push_back(
          arith::SelectOp::create(rewriter, loc, isKept, score, masked));
    }
    rewriter.replaceOpWithMultiple(op,
                                   SmallVector<SmallVector<Value>>{results});
    return success();
  }
};
} // namespace

void attn::populateMaskBitsPatterns(RewritePatternSet &patterns,
                                    const TypeConverter &converter,
                                    const KernelContext &context) {
  patterns.add<LoadMaskBitsLowering, ApplyMaskBitsLowering>(
      converter, patterns.getContext(), context);
}
