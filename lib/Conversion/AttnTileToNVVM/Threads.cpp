//===- Threads.cpp - Scalars that threads divide --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lowers scalar regions over ranges of numbers, which are distributed over the
// threads of a CTA.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn_tile;

namespace {
/// The numbers of one thread: `begin`, `begin + step`, and so on.
struct ThreadRange {
  ThreadRange(OpBuilder &builder, Operation *op, const KernelContext &context) {
    Location loc = op->getLoc();
    ThreadPosition position = context.getPosition(builder, op);
    begin = arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                       position.thread);
    step = arith::ConstantIndexOp::create(builder, loc, position.numThreads);
    numThreads = position.numThreads;
  }
  Value begin, step;
  int64_t numThreads;
};
} // namespace

/// Clones `body` for `arguments`; returns the yielded values.
static SmallVector<Value> cloneBody(OpBuilder &builder, Region &body,
                                    ValueRange arguments) {
  IRMapping mapping;
  mapping.map(body.getArguments(), arguments);
  for (Operation &op : body.front().without_terminator())
    builder.clone(op, mapping);
  return llvm::map_to_vector(
      body.front().getTerminator()->getOperands(),
      [&](Value value) { return mapping.lookupOrDefault(value); });
}

namespace {
struct ThreadForLowering : public KernelPattern<ThreadForOp> {
  using KernelPattern::KernelPattern;

  /// Runs the region for `together` numbers at a time while there are enough;
  /// returns the thread's first remaining number.
  static Value emitTogether(OpBuilder &builder, ThreadForOp op,
                            const ThreadRange &range, int64_t together) {
    Location loc = op.getLoc();
    auto index = [&](int64_t value) -> Value {
      return arith::ConstantIndexOp::create(builder, loc, value);
    };
    Value step =
        arith::MulIOp::create(builder, loc, range.step, index(together));
    // All threads of a warp run the same number of rounds, so the warp stays
    // converged.
    Value rounds = arith::DivUIOp::create(builder, loc, op.getCount(), step);
    Value end = arith::MulIOp::create(builder, loc, rounds, step);
    auto loop = scf::ForOp::create(builder, loc, index(0), end, step);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value first = arith::AddIOp::create(builder, loc, loop.getInductionVar(),
                                        range.begin);
    SmallVector<IRMapping> mappings(together);
    for (auto [i, mapping] : llvm::enumerate(mappings)) {
      Value offset = arith::MulIOp::create(builder, loc, range.step,
                                           index(static_cast<int64_t>(i)));
      Value number = arith::AddIOp::create(builder, loc, first, offset,
                                           arith::IntegerOverflowFlags::nsw);
      mapping.map(op.getBody().getArgument(0), number);
    }
    // The copies are interleaved so that no instruction waits for the one
    // before. Stores that follow one another stay together: LLVM joins stores
    // to neighbours only if no other store is between them.
    auto body = op.getBody().front().without_terminator();
    for (auto it = body.begin(); it != body.end();) {
      auto end = std::next(it);
      if (isa<memref::StoreOp>(*it))
        end = std::find_if_not(it, body.end(), llvm::IsaPred<memref::StoreOp>);
      for (IRMapping &mapping : mappings)
        for (Operation &inner : llvm::make_range(it, end))
          builder.clone(inner, mapping);
      it = end;
    }
    builder.setInsertionPointAfter(loop);
    return arith::AddIOp::create(builder, loc, end, range.begin);
  }

  LogicalResult
  matchAndRewrite(ThreadForOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    ThreadRange range(rewriter, op, context);
    Value begin = range.begin;
    IntegerAttr count;
    // Each thread has one number: all threads of a warp run the region at once.
    if (matchPattern(op.getCount(), m_Constant(&count)) &&
        count.getInt() == range.numThreads) {
      cloneBody(rewriter, op.getBody(), begin);
      rewriter.eraseOp(op);
      return success();
    }
    if (auto together = static_cast<int64_t>(op.getTogether()); together > 1)
      begin = emitTogether(rewriter, op, range, together);
    auto loop =
        scf::ForOp::create(rewriter, loc, begin, op.getCount(), range.step);
    rewriter.setInsertionPointToStart(loop.getBody());
    cloneBody(rewriter, op.getBody(), loop.getInductionVar());
    rewriter.eraseOp(op);
    return success();
  }
};

struct ReduceLowering : public KernelPattern<ReduceOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(ReduceOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    if (context.getPosition(rewriter, op).numThreads != attn_tile::warpThreads)
      return op.emitOpError("must be run by CTAs of one warp on a GPU");
    ThreadRange range(rewriter, op, context);
    SmallVector<Value> inits;
    for (unsigned i = 0; i < op.getNumResults(); ++i)
      inits.push_back(ReduceOp::emitNeutral(rewriter, loc, op.getKind(i),
                                            op.getResult(i).getType()));
    auto loop = scf::ForOp::create(
        rewriter, loc, range.begin, op.getCount(), range.step, inits,
        [&](OpBuilder &builder, Location loc, Value i, ValueRange values) {
          SmallVector<Value> next = cloneBody(builder, op.getBody(), i);
          for (auto [n, value] : llvm::enumerate(values))
            next[n] = vector::makeArithReduction(builder, loc, op.getKind(n),
                                                 value, next[n]);
          scf::YieldOp::create(builder, loc, next);
        });
    SmallVector<Value> results;
    for (auto [n, value] : llvm::enumerate(loop.getResults())) {
      Value result = value;
      if (result.getType().isIndex())
        result = arith::IndexCastOp::create(rewriter, loc,
                                            rewriter.getI32Type(), value);
      for (int64_t mask = attn_tile::warpThreads / 2; mask > 0; mask /= 2)
        result = vector::makeArithReduction(
            rewriter, loc, op.getKind(n), result,
            emitShuffle(rewriter, loc, result, mask));
      results.push_back(result);
    }
    rewriter.replaceOp(op, results);
    return success();
  }
};

/// Adds up f32 values of the threads of a warp that are in one cluster.
struct SubgroupReduceLowering : public KernelPattern<gpu::SubgroupReduceOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(gpu::SubgroupReduceOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (op.getOp() != gpu::AllReduceOperation::ADD || !op.getType().isF32())
      return rewriter.notifyMatchFailure(op, "does not add up f32 values");
    Location loc = op.getLoc();
    int64_t size = op.getClusterSize().value_or(attn_tile::warpThreads);
    int64_t stride = op.getClusterStride();
    if (size * stride > attn_tile::warpThreads)
      return rewriter.notifyMatchFailure(op, "cluster exceeds the warp");
    Value sum = adaptor.getValue().front();
    for (int64_t mask = size * stride / 2; mask >= stride; mask /= 2)
      sum = arith::AddFOp::create(rewriter, loc, sum,
                                  emitShuffle(rewriter, loc, sum, mask));
    rewriter.replaceOp(op, sum);
    return success();
  }
};

/// Each step tests as many numbers as a warp has threads; the rank of a number
/// is the count of chosen ones before it.
struct WarpCompactLowering : public KernelPattern<WarpCompactOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(WarpCompactOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    if (context.getPosition(rewriter, op).numThreads != attn_tile::warpThreads)
      return op.emitOpError("must be run by CTAs of one warp on a GPU");
    ThreadRange range(rewriter, op, context);
    Type i32 = rewriter.getI32Type(), index = rewriter.getIndexType();
    Value zero = arith::ConstantIndexOp::create(rewriter, loc, 0);
    Value lane = arith::IndexCastOp::create(rewriter, loc, i32, range.begin);
    Value one = createI32(rewriter, loc, 1);
    Value before = arith::SubIOp::create(
        rewriter, loc, arith::ShLIOp::create(rewriter, loc, one, lane), one);
    auto loop = scf::ForOp::create(
        rewriter, loc, zero, op.getCount(), range.step, zero,
        [&](OpBuilder &builder, Location loc, Value first, ValueRange chosen) {
          Value i = arith::AddIOp::create(builder, loc, first, range.begin);
          Value exists = arith::CmpIOp::create(
              builder, loc, arith::CmpIPredicate::slt, i, op.getCount());
          auto condition = scf::IfOp::create(
              builder, loc, exists,
              [&](OpBuilder &nested, Location loc) {
                scf::YieldOp::create(nested, loc,
                                     cloneBody(nested, op.getCondition(), i));
              },
              [&](OpBuilder &nested, Location loc) {
                Value no = arith::ConstantIntOp::create(nested, loc, 0, 1);
                scf::YieldOp::create(nested, loc, no);
              });
          Value isChosen = condition.getResult(0);
          Value votes = NVVM::VoteSyncOp::create(
              builder, loc, i32, createI32(builder, loc, -1), isChosen,
              NVVM::VoteSyncKind::ballot);
          auto count = [&](Value bits) -> Value {
            Value number = LLVM::CtPopOp::create(builder, loc, i32, bits);
            return arith::IndexCastOp::create(builder, loc, index, number);
          };
          Value lower = arith::AndIOp::create(builder, loc, votes, before);
          Value rank =
              arith::AddIOp::create(builder, loc, chosen.front(), count(lower));
          scf::IfOp::create(builder, loc, isChosen,
                            [&](OpBuilder &nested, Location loc) {
                              cloneBody(nested, op.getBody(), {i, rank});
                              scf::YieldOp::create(nested, loc);
                            });
          Value total =
              arith::AddIOp::create(builder, loc, chosen.front(), count(votes));
          scf::YieldOp::create(builder, loc, total);
        });
    rewriter.replaceOp(op, loop);
    return success();
  }
};

/// One lane fetches the ticket for its warp.
struct FetchWorkItemLowering : public KernelPattern<FetchWorkItemOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(FetchWorkItemOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Value zero = createI32(rewriter, loc, 0);
    Value isFirst =
        arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq,
                              context.getPosition(rewriter, op).thread, zero);
    auto ifOp = scf::IfOp::create(
        rewriter, loc, isFirst,
        [&](OpBuilder &nested, Location loc) {
          Value number = LLVM::AtomicRMWOp::create(
              nested, loc, LLVM::AtomicBinOp::add,
              emitTicketAddress(nested, loc, context),
              createI32(nested, loc, 1), LLVM::AtomicOrdering::monotonic);
          scf::YieldOp::create(nested, loc, number);
        },
        [&](OpBuilder &nested, Location loc) {
          scf::YieldOp::create(nested, loc, zero);
        });
    rewriter.replaceOpWithNewOp<NVVM::ShflOp>(
        op, rewriter.getI32Type(), createI32(rewriter, loc, -1),
        ifOp.getResult(0), zero,
        createI32(rewriter, loc, attn_tile::warpThreads - 1),
        NVVM::ShflKind::idx, UnitAttr());
    return success();
  }
};

/// The first `count` idle warps, and warps that have joined, are active.
struct IsActiveWarpLowering : public KernelPattern<IsActiveWarpOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(IsActiveWarpOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    IdleWarps warps = context.getIdleWarps(op);
    Value place = emitAdd(rewriter, loc, context.warp, -warps.first);
    Value isEarly =
        arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::ult, place,
                              adaptor.getCount().front());
    Value hasJoined =
        arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::uge, place,
                              createI32(rewriter, loc, warps.count));
    rewriter.replaceOpWithNewOp<arith::OrIOp>(op, isEarly, hasJoined);
    return success();
  }
};

/// Warp `w` has 16 rows from row `16 w` on.
struct HasRowsLowering : public KernelPattern<HasRowsOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(HasRowsOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!op->getParentOfType<RoleOp>())
      return rewriter.notifyMatchFailure(op, "not in a role");
    Location loc = op.getLoc();
    Value first = arith::MulIOp::create(rewriter, loc,
                                        context.getPosition(rewriter, op).warp,
                                        createI32(rewriter, loc, warpRows));
    rewriter.replaceOpWithNewOp<arith::CmpIOp>(op, arith::CmpIPredicate::slt,
                                               first, adaptor.getN().front());
    return success();
  }
};

struct AssumeUpperBoundLowering : public KernelPattern<AssumeUpperBoundOp> {
  using KernelPattern::KernelPattern;

  LogicalResult
  matchAndRewrite(AssumeUpperBoundOp op, OneToNOpAdaptor adaptor,
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
  patterns.add<AssumeUpperBoundLowering, WarpCompactLowering, ThreadForLowering,
               ReduceLowering, SubgroupReduceLowering, FetchWorkItemLowering,
               IsActiveWarpLowering, HasRowsLowering>(
      converter, patterns.getContext(), context);
}
