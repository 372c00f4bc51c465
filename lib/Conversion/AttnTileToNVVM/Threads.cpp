//===- Threads.cpp - Scalars that threads share ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers scalar regions over ranges of numbers, which the threads of a group
// take in turn.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

static constexpr int64_t warpSize = 32;

namespace {
/// The numbers that one thread takes.
struct ThreadRange {
  ThreadRange(OpBuilder &builder, Operation *op, const KernelContext &context) {
    Location loc = op->getLoc();
    ThreadPosition position = context.getPosition(builder, op);
    begin = arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                       position.thread);
    step = arith::ConstantIndexOp::create(builder, loc, position.numThreads);
  }
  Value begin, step;
};
} // namespace

/// Clones `body` for the number `i`; returns what it yields.
static SmallVector<Value> cloneBody(OpBuilder &builder, Region &body, Value i) {
  IRMapping mapping;
  mapping.map(body.getArgument(0), i);
  for (Operation &op : body.front().without_terminator())
    builder.clone(op, mapping);
  return llvm::map_to_vector(
      body.front().getTerminator()->getOperands(),
      [&](Value value) { return mapping.lookupOrDefault(value); });
}

namespace {
struct EachLowering : public KernelPattern<EachOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(EachOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    ThreadRange range(rewriter, op, context);
    auto loop = scf::ForOp::create(rewriter, loc, range.begin, op.getCount(),
                                   range.step);
    rewriter.setInsertionPointToStart(loop.getBody());
    cloneBody(rewriter, op.getBody(), loop.getInductionVar());
    rewriter.eraseOp(op);
    return success();
  }
};

struct SumLowering : public KernelPattern<SumOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(SumOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    if (context.getPosition(rewriter, op).numThreads != warpSize)
      return op.emitOpError("must be run by groups of one warp on a GPU");
    ThreadRange range(rewriter, op, context);
    Value zero = arith::ConstantIndexOp::create(rewriter, loc, 0);
    SmallVector<Value> inits(op.getNumResults(), zero);
    auto loop = scf::ForOp::create(
        rewriter, loc, range.begin, op.getCount(), range.step, inits,
        [&](OpBuilder &builder, Location loc, Value i, ValueRange sums) {
          SmallVector<Value> next = cloneBody(builder, op.getBody(), i);
          for (auto [value, sum] : llvm::zip_equal(next, sums))
            value = arith::AddIOp::create(builder, loc, sum, value);
          scf::YieldOp::create(builder, loc, next);
        });
    SmallVector<Value> sums;
    for (Value result : loop.getResults()) {
      Value sum = arith::IndexCastOp::create(rewriter, loc,
                                             rewriter.getI32Type(), result);
      for (int64_t mask = warpSize / 2; mask > 0; mask /= 2)
        sum = arith::AddIOp::create(rewriter, loc, sum,
                                    emitShuffle(rewriter, loc, sum, mask));
      sums.push_back(sum);
    }
    rewriter.replaceOp(op, sums);
    return success();
  }
};

struct AtMostLowering : public KernelPattern<AtMostOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(AtMostOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<arith::MinSIOp>(op, adaptor.getValue().front(),
                                                adaptor.getBound().front());
    return success();
  }
};
} // namespace

void attn::populateThreadPatterns(RewritePatternSet &patterns,
                                  const TypeConverter &converter,
                                  const KernelContext &context) {
  patterns.add<AtMostLowering, EachLowering, SumLowering>(
      converter, patterns.getContext(), context);
}
