//===- ControlFlow.cpp - Loops over tiles on the host ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loops and conditions that carry tiles, and regions of scalars.
//
//===----------------------------------------------------------------------===//

#include "TileEmitter.h"
#include "attn/Analysis/BoundedReads.h"
#include "attn/Dialect/AttnTile/IR/InBoundsLoads.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::attn_tile;

SmallVector<Value> TileEmitter::makeCarriedBuffers(scf::ForOp op) {
  // If only this loop uses the result of another loop, it takes over its
  // buffer.
  SmallVector<Value> buffers(op.getNumRegionIterArgs());
  for (auto [i, init] : llvm::enumerate(op.getInitArgs())) {
    VectorType type = getTileType(init);
    if (!type)
      continue;
    auto before = init.getDefiningOp<scf::ForOp>();
    if (before && init.hasOneUse() && before->getBlock() == op->getBlock()) {
      buffers[i] = tiles.lookup(init).buffer;
      continue;
    }
    buffers[i] = makeBuffer(type.getShape(), getBufferElement(type));
    fill(buffers[i], tiles.lookup(init));
  }
  return buffers;
}

void TileEmitter::emitYield(scf::YieldOp op, ArrayRef<Value> buffers) {
  SmallVector<Value> yielded;
  SmallVector<std::pair<Value, Tile>> copies;
  for (auto [i, value] : llvm::enumerate(op.getOperands())) {
    if (!buffers[i]) {
      yielded.push_back(lookup(value));
      continue;
    }
    Tile tile = tiles.lookup(value);
    if (tile.buffer == buffers[i])
      continue;
    // Values are taken before any carried buffer is overwritten.
    if (!tile.buffer || llvm::is_contained(buffers, tile.buffer)) {
      VectorType type = getTileType(value);
      Value temporary = makeBuffer(type.getShape(), getBufferElement(type));
      fill(temporary, tile);
      setBuffer(value, temporary);
    }
    copies.emplace_back(buffers[i], tiles.lookup(value));
  }
  for (auto &[buffer, tile] : copies)
    fill(buffer, tile);
  if (!yielded.empty())
    scf::YieldOp::create(b, yielded);
}

LogicalResult TileEmitter::emitFor(scf::ForOp op) {
  SmallVector<Value> buffers = makeCarriedBuffers(op);
  SmallVector<Value> inits;
  for (auto [buffer, init] : llvm::zip(buffers, op.getInitArgs()))
    if (!buffer)
      inits.push_back(lookup(init));
  auto loop = scf::ForOp::create(b, lookup(op.getLowerBound()),
                                 lookup(op.getUpperBound()),
                                 lookup(op.getStep()), inits);
  mapping.map(op.getInductionVar(), loop.getInductionVar());
  unsigned next = 0;
  for (auto [i, argument] : llvm::enumerate(op.getRegionIterArgs())) {
    if (buffers[i]) {
      setBuffer(argument, buffers[i]);
      setBuffer(op.getResult(i), buffers[i]);
    } else {
      mapping.map(argument, loop.getRegionIterArg(next));
      mapping.map(op.getResult(i), loop.getResult(next));
      ++next;
    }
  }

  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  size_t mark = takenBuffers.size();
  if (failed(emitBlock(*op.getBody())))
    return failure();
  emitYield(cast<scf::YieldOp>(op.getBody()->getTerminator()), buffers);
  freeBuffersSince(mark);
  return success();
}

/// Bytes of buffers that a work item may have on the stack, of which threads
/// have 8 MiB by default.
static constexpr int64_t maxStackBytes = int64_t(2) << 20;

/// Allocates the buffers of a work item on the heap if they are too large for
/// the stack.
static void moveLargeBuffers(ImplicitLocOpBuilder &b, Block &block) {
  SmallVector<memref::AllocaOp> buffers(block.getOps<memref::AllocaOp>());
  int64_t bytes = 0;
  for (memref::AllocaOp buffer : buffers) {
    MemRefType type = buffer.getType();
    bytes += type.getNumElements() *
             std::max<int64_t>(type.getElementTypeBitWidth() / 8, 1);
  }
  if (bytes <= maxStackBytes)
    return;
  OpBuilder::InsertionGuard guard(b);
  for (memref::AllocaOp buffer : buffers) {
    b.setInsertionPoint(buffer);
    Value alloc =
        memref::AllocOp::create(b, buffer.getType(), buffer.getAlignmentAttr());
    buffer.replaceAllUsesWith(alloc);
    buffer.erase();
    b.setInsertionPoint(block.getTerminator());
    memref::DeallocOp::create(b, alloc);
  }
}

LogicalResult TileEmitter::emitForall(scf::ForallOp op) {
  if (op.getNumResults() != 0)
    return op.emitOpError("must have no results");
  auto map = [&](ArrayRef<OpFoldResult> bounds) {
    return llvm::map_to_vector(bounds, [&](OpFoldResult bound) {
      if (auto value = dyn_cast<Value>(bound))
        return OpFoldResult(lookup(value));
      return bound;
    });
  };
  auto forall = scf::ForallOp::create(
      b, map(op.getMixedLowerBound()), map(op.getMixedUpperBound()),
      map(op.getMixedStep()), ValueRange(), op.getMapping());
  mapping.map(op.getInductionVars(), forall.getInductionVars());
  OpBuilder::InsertionGuard guard(b);
  Block *outer = std::exchange(bufferBlock, forall.getBody());
  b.setInsertionPointToStart(forall.getBody());
  LogicalResult result = emitBlock(*op.getBody());
  moveLargeBuffers(b, *forall.getBody());
  bufferBlock = outer;
  freeBuffers.clear();
  takenBuffers.clear();
  return result;
}

void TileEmitter::emitReduce(ReduceOp op) {
  SmallVector<Value> inits;
  for (unsigned i = 0; i < op.getNumResults(); ++i)
    inits.push_back(ReduceOp::emitNeutral(b, op.getLoc(), op.getKind(i),
                                          op.getResult(i).getType()));
  auto loop =
      scf::ForOp::create(b, index(0), lookup(op.getCount()), index(1), inits);
  mapping.map(op.getBody().getArgument(0), loop.getInductionVar());
  mapping.map(op.getResults(), loop.getResults());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Block &body = op.getBody().front();
  emitScalars(body);
  SmallVector<Value> results;
  for (auto [n, result] : llvm::enumerate(loop.getRegionIterArgs()))
    results.push_back(vector::makeArithReduction(
        b, b.getLoc(), op.getKind(n), result,
        lookup(body.getTerminator()->getOperand(n))));
  scf::YieldOp::create(b, results);
}

void TileEmitter::emitWarpCompact(WarpCompactOp op) {
  auto loop = scf::ForOp::create(b, index(0), lookup(op.getCount()), index(1),
                                 index(0));
  mapping.map(op.getChosen(), loop.getResult(0));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value i = loop.getInductionVar(), rank = loop.getRegionIterArg(0);
  Block &condition = op.getCondition().front();
  mapping.map(condition.getArgument(0), i);
  emitScalars(condition);
  auto ifOp = scf::IfOp::create(
      b, b.getIndexType(), lookup(condition.getTerminator()->getOperand(0)),
      /*addThenBlock=*/true, /*addElseBlock=*/true);
  scf::YieldOp::create(b, ifOp.getResults());
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(b, rank);
  b.setInsertionPointToStart(ifOp.thenBlock());
  mapping.map(op.getBody().getArguments(), ValueRange{i, rank});
  emitScalars(op.getBody().front());
  Value next = arith::AddIOp::create(b, rank, index(1));
  scf::YieldOp::create(b, next);
}

void TileEmitter::emitEach(ThreadForOp op) {
  auto loop = scf::ForOp::create(b, index(0), lookup(op.getCount()), index(1));
  mapping.map(op.getBody().getArgument(0), loop.getInductionVar());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  emitScalars(op.getBody().front());
}

void TileEmitter::emitScalars(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (auto load = dyn_cast<memref::LoadOp>(op)) {
      emitRead(load);
      continue;
    }
    SmallVector<memref::LoadOp> nested;
    b.clone(op, mapping)->walk([&](memref::LoadOp load) {
      if (!isKnownInBounds(load))
        nested.push_back(load);
    });
    OpBuilder::InsertionGuard guard(b);
    for (memref::LoadOp load : nested) {
      b.setInsertionPoint(load);
      load.replaceAllUsesWith(attn::readElement(b, b.getLoc(), load.getMemRef(),
                                                load.getIndices()));
      load.erase();
    }
  }
}

void TileEmitter::emitRead(memref::LoadOp load) {
  if (isKnownInBounds(load)) {
    b.clone(*load, mapping);
    return;
  }
  auto indices = llvm::map_to_vector(
      load.getIndices(), [&](Value index) { return lookup(index); });
  mapping.map(
      load.getResult(),
      attn::readElement(b, b.getLoc(), lookup(load.getMemRef()), indices));
}

LogicalResult TileEmitter::emitIf(scf::IfOp op) {
  // Both branches put tiles into the buffers of the results.
  SmallVector<Value> buffers(op.getNumResults());
  SmallVector<Type> types;
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    if (VectorType type = getTileType(result)) {
      buffers[i] = makeBuffer(type.getShape(), getBufferElement(type));
      setBuffer(result, buffers[i]);
    } else {
      types.push_back(result.getType());
    }
  }
  auto ifOp = scf::IfOp::create(b, types, lookup(op.getCondition()),
                                /*addThenBlock=*/true,
                                /*addElseBlock=*/op.elseBlock() != nullptr);
  unsigned next = 0;
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    if (!buffers[i])
      mapping.map(result, ifOp.getResult(next++));

  OpBuilder::InsertionGuard guard(b);
  for (auto [source, target] :
       llvm::zip(op->getRegions(), ifOp->getRegions())) {
    if (source.empty())
      continue;
    b.setInsertionPointToStart(&target.front());
    size_t mark = takenBuffers.size();
    if (failed(emitBlock(source.front())))
      return failure();
    SmallVector<Value> yielded;
    for (auto [i, value] :
         llvm::enumerate(source.front().getTerminator()->getOperands())) {
      if (buffers[i])
        fill(buffers[i], tiles.lookup(value));
      else
        yielded.push_back(lookup(value));
    }
    scf::YieldOp::create(b, yielded);
    freeBuffersSince(mark);
  }
  return success();
}
