//===- LinearDecayGradKernel.cpp - Gradient of log-decays -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds up the terms that other kernels leave. A work item has a chunk, and each
// of its threads tokens; a token adds up the terms of all of the chunk. If
// heads have a log-decay, another kernel adds up the gradients of chunks.
//
//===----------------------------------------------------------------------===//

#include "LinearDecayGradKernel.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

/// Adds up what `body` computes for the numbers below `count`.
static Value emitSum(ScalarKernelBuilder &b, Value count,
                     function_ref<Value(Value)> body) {
  auto op = attn_tile::ReduceOp::create(b, TypeRange{b.getF32Type()}, count,
                                        vector::CombiningKind::ADD);
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&op.getBody(), {}, b.getIndexType(), b.getLoc());
  attn_tile::YieldOp::create(b, body(block->getArgument(0)));
  return op.getResult(0);
}

namespace {
/// Writes the kernel of the gradient of each token, or of each chunk.
class DecayGradWriter {
public:
  DecayGradWriter(RewriterBase &rewriter, LinearAttentionGradOp op,
                  attn_tile::KernelOp kernel,
                  const DecayGradWorkspace &workspace)
      : b(op.getLoc(), rewriter), chunk(op.getScheduleAttr().getQueryTile()),
        entry(&kernel.getBody().front()), queryDots(entry->getArgument(0)),
        keyDots(entry->getArgument(1)), stateDots(entry->getArgument(2)),
        chunkTerms(entry->getArgument(3)), length(entry->getArgument(4)),
        dest(entry->getArgument(5)), stateRows(workspace.stateRows) {}

  void write(bool isOfChunks);

private:
  Value add(Value lhs, Value rhs) { return arith::AddFOp::create(b, lhs, rhs); }
  Value emitChunkTerms(Value batch, Value head, Value number);
  Value loadTerm(Value dots, Value batch, Value head, Value token);
  Value emitToken(Value batch, Value head, Value first, Value token);

  ScalarKernelBuilder b;
  int64_t chunk;
  Block *entry;
  Value queryDots, keyDots, stateDots, chunkTerms, length, dest;
  int64_t stateRows;
};
} // namespace

/// The terms of keys before and queries after a chunk.
Value DecayGradWriter::emitChunkTerms(Value batch, Value head, Value number) {
  Value rows = b.constant(stateRows), first = b.mul(number, rows);
  return emitSum(b, b.constant(stateRows), [&](Value row) {
    return loadTerm(chunkTerms, batch, head, b.add(first, row));
  });
}

Value DecayGradWriter::loadTerm(Value dots, Value batch, Value head,
                                Value token) {
  auto load = [&](Value tile) -> Value {
    return b.loadExisting(dots, {tile, batch, head, token});
  };
  int64_t tiles = getDimSize(dots, 0);
  if (tiles != ShapedType::kDynamic) {
    Value sum = load(b.constant(0));
    for (int64_t tile = 1; tile < tiles; ++tile)
      sum = add(sum, load(b.constant(tile)));
    return sum;
  }
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  auto loop = scf::ForOp::create(b, b.constant(0), b.size(dots, 0),
                                 b.constant(1), zero);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(
      b, add(loop.getRegionIterArg(0), load(loop.getInductionVar())));
  return loop.getResult(0);
}

/// The terms of a token with a query or a key in the chunk. Tokens after the
/// last one have terms of zero.
Value DecayGradWriter::emitToken(Value batch, Value head, Value first,
                                 Value token) {
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  auto loop = scf::ForOp::create(b, b.constant(0), b.constant(chunk),
                                 b.constant(1), zero);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value other = b.add(first, loop.getInductionVar());
  Value ofState = loadTerm(stateDots, batch, head, other);
  Value inChunk =
      arith::SubFOp::create(b, loadTerm(keyDots, batch, head, other), ofState);
  Value ofLater = arith::SubFOp::create(
      b, loadTerm(queryDots, batch, head, other), inChunk);
  Value isEarlier =
      b.compare(CmpIPredicate::ult, loop.getInductionVar(), token);
  Value term = b.select(isEarlier, ofState, ofLater);
  scf::YieldOp::create(b, ValueRange{add(loop.getRegionIterArg(0), term)});
  return loop.getResult(0);
}

void DecayGradWriter::write(bool isOfChunks) {
  b.setInsertionPointToEnd(entry);
  SmallVector<OpFoldResult> bounds = {
      b.size(queryDots, 1), b.size(queryDots, 2), b.tiles(length, chunk)};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  Value first = b.mul(ids[2], b.constant(chunk));
  Value count =
      arith::MinUIOp::create(b, b.constant(chunk), b.sub(length, first));
  Value ofStates = emitChunkTerms(ids[0], ids[1], ids[2]);
  auto emitGradient = [&](Value token) -> Value {
    return add(emitToken(ids[0], ids[1], first, token), ofStates);
  };
  if (!isOfChunks)
    return b.each(count, [&](Value token) {
      memref::StoreOp::create(b, emitGradient(token), dest,
                              ValueRange{ids[0], ids[1], b.add(first, token)});
    });
  Value sum = emitSum(b, count, emitGradient);
  b.each(b.constant(1), [&](Value) {
    memref::StoreOp::create(b, sum, dest, ValueRange(ids));
  });
}

/// Writes the kernel that adds up the chunks of each head.
static void writeSumsOfHeads(RewriterBase &rewriter, Location loc,
                             attn_tile::KernelOp kernel) {
  ScalarKernelBuilder b(loc, rewriter);
  Block *entry = &kernel.getBody().front();
  Value chunks = entry->getArgument(0), dest = entry->getArgument(1);
  b.setInsertionPointToEnd(entry);
  scf::ForallOp forall = b.forall(dest, 2);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  Value sum = emitSum(b, b.size(chunks, 2), [&](Value number) -> Value {
    return b.loadExisting(chunks, {ids[0], ids[1], number});
  });
  b.each(b.constant(1), [&](Value) {
    memref::StoreOp::create(b, sum, dest, ValueRange(ids));
  });
}

DecayGradWorkspace DecayGradWorkspace::allocateTerms(OpBuilder &builder,
                                                     LinearAttentionGradOp op,
                                                     int64_t numRows,
                                                     Value numTiles) {
  ScalarKernelBuilder b(op.getLoc(), builder);
  ScheduleAttrInterface schedule = op.getScheduleAttr();
  int64_t chunk = schedule.getQueryTile();
  Value batch = b.size(op.getQuery(), 0);
  Value chunks = b.tiles(b.size(op.getQuery(), 2), chunk);
  constexpr int64_t dynamic = ShapedType::kDynamic;
  int64_t tilesOfKeys =
      llvm::divideCeil(op.getKeyHeadDim(), schedule.getHeadDimTile());
  auto getType = [&](int64_t tiles) {
    return MemRefType::get({tiles, dynamic, op.getNumHeads(), dynamic},
                           b.getF32Type());
  };
  auto allocateTokens = [&]() -> Value {
    return memref::AllocOp::create(
        b, getType(tilesOfKeys),
        ValueRange{batch, b.mul(chunks, b.constant(chunk))});
  };
  DecayGradWorkspace workspace;
  workspace.query = op.getQuery();
  workspace.key = op.getKey();
  workspace.queryDots = allocateTokens();
  workspace.keyDots = allocateTokens();
  workspace.stateDots = allocateTokens();
  workspace.stateRows = int64_t(llvm::alignTo(numRows, chunk));
  Value rows = b.mul(chunks, b.constant(workspace.stateRows));
  workspace.chunkTerms = memref::AllocOp::create(
      b, getType(dynamic), ValueRange{numTiles, batch, rows});
  return workspace;
}

DecayGradWorkspace DecayGradWorkspace::allocate(OpBuilder &builder,
                                                LinearAttentionGradOp op) {
  ScalarKernelBuilder b(op.getLoc(), builder);
  Value tiles = b.constant(llvm::divideCeil(
      op.getKeyHeadDim(), op.getScheduleAttr().getHeadDimTile()));
  DecayGradWorkspace workspace =
      allocateTerms(builder, op, op.getValueHeadDim(), tiles);
  constexpr int64_t dynamic = ShapedType::kDynamic;
  auto ofStates = MemRefType::get({dynamic, dynamic, op.getNumHeads(),
                                   op.getValueHeadDim(), op.getKeyHeadDim()},
                                  getElementTypeOrSelf(op.getQuery()));
  Value chunks =
      b.tiles(b.size(op.getQuery(), 2), op.getScheduleAttr().getQueryTile());
  workspace.states = memref::AllocOp::create(
      b, ofStates, ValueRange{chunks, b.size(op.getQuery(), 0)});
  return workspace;
}

void DecayGradWorkspace::deallocate(OpBuilder &builder, Location loc) const {
  for (Value buffer : {queryDots, keyDots, stateDots, states, chunkTerms})
    if (buffer)
      memref::DeallocOp::create(builder, loc, buffer);
}

void attn::createDecayGradKernels(RewriterBase &rewriter,
                                  LinearAttentionGradOp op,
                                  const DecayGradWorkspace &workspace,
                                  SymbolTable &symbols) {
  ScalarKernelBuilder b(op.getLoc(), rewriter);
  ScheduleAttrInterface schedule = op.getScheduleAttr().getPreparation();
  Value length = b.size(op.getQuery(), 2), dest = op.getDlogDecay(), chunks;
  bool isOfHeads = cast<MemRefType>(dest.getType()).getRank() == 2;
  if (isOfHeads) {
    constexpr int64_t dynamic = ShapedType::kDynamic;
    auto type =
        MemRefType::get({dynamic, op.getNumHeads(), dynamic}, b.getF32Type());
    chunks = memref::AllocOp::create(
        b, type,
        ValueRange{b.size(op.getQuery(), 0),
                   b.tiles(length, op.getScheduleAttr().getQueryTile())});
  }
  attn_tile::KernelOp kernel =
      createKernel(rewriter, op, schedule, symbols, "_linear_dlog_decay",
                   {workspace.queryDots, workspace.keyDots, workspace.stateDots,
                    workspace.chunkTerms, length, isOfHeads ? chunks : dest});
  DecayGradWriter(rewriter, op, kernel, workspace).write(isOfHeads);
  rewriter.setInsertionPoint(op);
  if (isOfHeads) {
    attn_tile::KernelOp sums =
        createKernel(rewriter, op, schedule, symbols, "_linear_dlog_decay_sums",
                     {chunks, dest});
    writeSumsOfHeads(rewriter, op.getLoc(), sums);
    rewriter.setInsertionPoint(op);
    memref::DeallocOp::create(rewriter, op.getLoc(), chunks);
  }
  workspace.deallocate(rewriter, op.getLoc());
}
