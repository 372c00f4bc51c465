//===- PackGQA.cpp - Query heads as rows of a tile ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With groups of `g` query heads, row `r` of group `h` is query `r / g` of
// query head `h * g + r % g`. A named mask becomes part of the mask_mod region,
// because it would treat these rows as different positions. The operands of a
// single query are reshaped; the kernel views operands of several queries, and
// of sequences, as rows (`attn_tile.pack_gqa`).
//
//===----------------------------------------------------------------------===//

#include "PackGQA.h"
#include "attn/Support/DeadOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace mlir::attn;

/// A view of `buffer`, `[B, Hq, 1, ...]`, as `[B, numGroups, g, ...]`.
static Value packBuffer(OpBuilder &builder, Location loc, Value buffer,
                        int64_t numGroups) {
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<ReassociationIndices> groups = {{0}, {1, 2}};
  for (int64_t dim = 3; dim < type.getRank(); ++dim)
    groups.push_back({dim});
  Value collapsed =
      memref::CollapseShapeOp::create(builder, loc, buffer, groups);
  SmallVector<int64_t> shape(type.getShape());
  shape[2] = shape[1] / numGroups;
  shape[1] = numGroups;
  SmallVector<OpFoldResult> sizes = memref::getMixedSizes(builder, loc, buffer);
  for (int64_t dim : {1, 2})
    sizes[dim] = builder.getIndexAttr(shape[dim]);
  return memref::ExpandShapeOp::create(builder, loc, shape, collapsed, groups,
                                       sizes);
}

/// Computes quotients of heads by multiples of the size of their group from the
/// number of the group, which takes the place of `head` and does not depend on
/// the row. Adds the operations that use it to `users`.
static void divideGroups(OpBuilder &builder, Value head, int64_t groupSize,
                         SmallPtrSetImpl<Operation *> &users) {
  for (Operation *user : llvm::make_early_inc_range(head.getUsers())) {
    IntegerAttr divisor;
    if (!isa<arith::FloorDivSIOp, arith::DivSIOp, arith::DivUIOp>(user) ||
        user->getOperand(0) != head ||
        !matchPattern(user->getOperand(1), m_Constant(&divisor)) ||
        divisor.getInt() <= 0 || divisor.getInt() % groupSize != 0)
      continue;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(user);
    Value size = arith::ConstantIndexOp::create(builder, user->getLoc(),
                                                divisor.getInt() / groupSize);
    auto quotient = arith::DivUIOp::create(builder, user->getLoc(), head, size);
    users.insert(quotient);
    user->getResult(0).replaceAllUsesWith(quotient);
    user->erase();
  }
}

/// Rewrites a region whose last arguments are head, query and key, or head,
/// query and index within the head: it sees the head and query that a row of a
/// packed tile stands for.
static void unpackPositions(OpBuilder &builder, Region &region,
                            int64_t groupSize, bool hasOneQuery) {
  if (region.empty())
    return;
  OpBuilder::InsertionGuard guard(builder);
  Block &block = region.front();
  auto positions = block.getArguments().take_back(3);
  SmallPtrSet<Operation *, 4> ofGroups;
  divideGroups(builder, positions[0], groupSize, ofGroups);
  builder.setInsertionPointToStart(&block);
  Location loc = region.getLoc();
  Value size = arith::ConstantIndexOp::create(builder, loc, groupSize);
  Value first = arith::MulIOp::create(builder, loc, positions[0], size);
  Value row = positions[1], query, inGroup = row;
  SmallPtrSet<Operation *, 2> unpacking;
  if (hasOneQuery) {
    query = arith::ConstantIndexOp::create(builder, loc, 0);
  } else {
    query = arith::DivUIOp::create(builder, loc, row, size);
    inGroup = arith::RemUIOp::create(builder, loc, row, size);
    unpacking = {query.getDefiningOp(), inGroup.getDefiningOp()};
  }
  Value head = arith::AddIOp::create(builder, loc, first, inGroup);
  if (hasOneQuery)
    unpacking = {head.getDefiningOp()};
  ofGroups.insert(first.getDefiningOp());
  positions[0].replaceAllUsesExcept(head, ofGroups);
  row.replaceAllUsesExcept(query, unpacking);
  // A region that uses the head only here does not depend on it.
  eraseDeadOps(block);
}

/// Moves the named mask of `op` to its mask_mod region.
static void moveMaskToRegion(OpBuilder &builder, AttentionOp op) {
  MaskAttrInterface mask = op.getMaskAttr();
  if (!mask)
    return;
  Location loc = op.getLoc();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  // How many are stored: the device reads how many a sequence has.
  Value numQueries = builder.createOrFold<memref::DimOp>(loc, op.getQuery(), 2);
  Value numKeys = op.getAddressing().emitMaxKeys(builder, loc, op.getKey(),
                                                 op.getPageTable());
  Region &region = op.getMaskMod();
  Value kept;
  if (region.empty()) {
    SmallVector<Type> types(4, builder.getIndexType());
    SmallVector<Location> locs(types.size(), loc);
    builder.createBlock(&region, {}, types, locs);
  } else {
    Operation *yield = region.front().getTerminator();
    kept = yield->getOperand(0);
    yield->erase();
    builder.setInsertionPointToEnd(&region.front());
  }
  Value isAttended = mask.emitPredicate(builder, loc,
                                        emitMaskPosition(builder, loc, op,
                                                         region.getArguments(),
                                                         numQueries, numKeys));
  if (kept)
    isAttended = arith::AndIOp::create(builder, loc, kept, isAttended);
  YieldOp::create(builder, loc, isAttended);
  // The numbers of stored rows, with which the lengths were compared, would be
  // captured.
  eraseDeadOps(region.front());
  op.removeMaskAttr();
}

AttentionOp attn::packGqa(RewriterBase &rewriter, AttentionOp attention) {
  Location loc = attention.getLoc();
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(attention);
  int64_t numGroups = attention.getNumGroups();
  int64_t groupSize = attention.getGroupSize();
  // The default depends on the head dimension alone, which stays.
  auto packed = cast<AttentionOp>(rewriter.clone(*attention));
  moveMaskToRegion(rewriter, packed);
  bool hasOneQuery = !attention.getAddressing().isListed() &&
                     getDimSize(attention.getQuery(), 2) == 1;
  for (Region *region :
       {&packed.getScoreMod(), &packed.getMaskMod(), &packed.getEpilogue()})
    unpackPositions(rewriter, *region, groupSize, hasOneQuery);
  if (!hasOneQuery) {
    rewriter.eraseOp(attention);
    return packed;
  }
  rewriter.setInsertionPoint(packed);
  auto pack = [&](OpOperand &operand) {
    operand.set(packBuffer(rewriter, loc, operand.get(), numGroups));
  };
  pack(packed.getQueryMutable());
  pack(packed.getOutMutable());
  for (MutableOperandRange range :
       {packed.getLseMutable(), packed.getStateOutMutable(),
        packed.getStateLseMutable()})
    for (OpOperand &operand : range)
      pack(operand);
  rewriter.eraseOp(attention);
  return packed;
}
