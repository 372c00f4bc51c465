//===- JoinAllocations.cpp - Allocate buffers together --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Buffers that are allocated together and freed together become parts of one
// allocation: each call of the driver takes microseconds of the host.
//
//===----------------------------------------------------------------------===//

#include "Allocations.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEJOINALLOCATIONSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

#define DEBUG_TYPE "attn-tile-join-allocations"

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
/// A buffer and the operation of the same block that frees it.
struct Buffer {
  memref::AllocOp alloc;
  memref::DeallocOp dealloc;
};
} // namespace

/// The operation of the same block that frees a buffer, if there is one.
static memref::DeallocOp findDealloc(memref::AllocOp alloc) {
  memref::DeallocOp found;
  for (Operation *user : alloc->getUsers()) {
    auto dealloc = dyn_cast<memref::DeallocOp>(user);
    if (!dealloc)
      continue;
    if (found || dealloc->getBlock() != alloc->getBlock())
      return nullptr;
    found = dealloc;
  }
  return found;
}

/// Numbers each `OpTy` of a block. Two of them have the same number if all
/// operations between them have no effects and, as `mayPass` says, may stay
/// before the last one.
template <typename OpTy>
static DenseMap<Operation *, unsigned>
numberRuns(Block &block, function_ref<bool(Operation &)> mayPass) {
  DenseMap<Operation *, unsigned> runs;
  unsigned run = 0;
  for (Operation &op : block) {
    if (isa<OpTy>(op))
      runs[&op] = run;
    else if (!isMemoryEffectFree(&op) || !mayPass(op))
      ++run;
  }
  return runs;
}

/// Groups of buffers that are allocated together and freed together, each in
/// the order of allocations.
static SmallVector<SmallVector<Buffer>> findGroups(Block &block) {
  auto usesBuffer = [](Operation &op) {
    return llvm::any_of(op.getOperands(), [](Value operand) {
      return operand.getDefiningOp<memref::AllocOp>();
    });
  };
  // The parts of an allocation exist from its last size on.
  DenseMap<Operation *, unsigned> allocs = numberRuns<memref::AllocOp>(
      block, [&](Operation &op) { return !usesBuffer(op); });
  DenseMap<Operation *, unsigned> deallocs =
      numberRuns<memref::DeallocOp>(block, [](Operation &) { return true; });
  llvm::MapVector<std::pair<unsigned, unsigned>, SmallVector<Buffer>> groups;
  for (auto alloc : block.getOps<memref::AllocOp>()) {
    memref::DeallocOp dealloc = findDealloc(alloc);
    if (dealloc && getPackedElementBytes(alloc))
      groups[{allocs.lookup(alloc), deallocs.lookup(dealloc)}].push_back(
          {alloc, dealloc});
  }
  SmallVector<SmallVector<Buffer>> several;
  for (auto &[runs, group] : groups)
    if (group.size() > 1)
      several.push_back(std::move(group));
  return several;
}

/// The bytes of a buffer, rounded up to the alignment of the next one.
static Value emitBytes(OpBuilder &builder, memref::AllocOp alloc) {
  Location loc = alloc.getLoc();
  int64_t known = *getPackedElementBytes(alloc);
  for (int64_t size : alloc.getType().getShape())
    if (!ShapedType::isDynamic(size))
      known *= size;
  if (alloc.getDynamicSizes().empty())
    return arith::ConstantIndexOp::create(builder, loc,
                                          llvm::alignTo(known, partAlignment));
  Value bytes = arith::ConstantIndexOp::create(builder, loc, known);
  for (Value size : alloc.getDynamicSizes())
    bytes = arith::MulIOp::create(builder, loc, bytes, size);
  if (known % partAlignment == 0)
    return bytes;
  Value rest = arith::ConstantIndexOp::create(builder, loc, partAlignment - 1);
  Value units = arith::ConstantIndexOp::create(builder, loc, -partAlignment);
  bytes = arith::AddIOp::create(builder, loc, bytes, rest);
  return arith::AndIOp::create(builder, loc, bytes, units);
}

/// Makes the buffers of a group parts of one allocation.
static void join(ArrayRef<Buffer> group) {
  memref::AllocOp last = Buffer(group.back()).alloc;
  OpBuilder builder(last);
  Location loc = last.getLoc();
  SmallVector<Value> offsets;
  Value total = arith::ConstantIndexOp::create(builder, loc, 0);
  for (const Buffer &buffer : group) {
    offsets.push_back(total);
    Value bytes = emitBytes(builder, buffer.alloc);
    total = arith::AddIOp::create(builder, loc, total, bytes);
  }
  auto type = MemRefType::get({ShapedType::kDynamic}, builder.getI8Type());
  auto all = memref::AllocOp::create(builder, loc, type, total,
                                     builder.getI64IntegerAttr(partAlignment));
  for (auto [buffer, offset] : llvm::zip_equal(group, offsets)) {
    memref::AllocOp alloc = buffer.alloc;
    auto view = memref::ViewOp::create(builder, alloc.getLoc(), alloc.getType(),
                                       all, offset, alloc.getDynamicSizes());
    memref::DeallocOp dealloc = buffer.dealloc;
    if (alloc == last) {
      OpBuilder atEnd(dealloc);
      memref::DeallocOp::create(atEnd, dealloc.getLoc(), all);
    }
    dealloc.erase();
    alloc.replaceAllUsesWith(view.getResult());
    alloc.erase();
  }
}

namespace {
struct AttnTileJoinAllocationsPass
    : public attn_tile::impl::AttnTileJoinAllocationsPassBase<
          AttnTileJoinAllocationsPass> {
  using Base::Base;

  void runOnOperation() override {
    getOperation().walk([&](Block *block) {
      for (const SmallVector<Buffer> &group : findGroups(*block)) {
        numJoined += group.size();
        LDBG() << group.size() << " buffers become parts of one allocation";
        join(group);
      }
    });
  }
};
} // namespace
