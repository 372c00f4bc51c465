//===- ExpandMasks.cpp - Masks that read operands as regions --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns named masks that depend on data into code of the mask_mod region and
// operations that compute the tables it reads.
//
//===----------------------------------------------------------------------===//

#include "FunctionArguments.h"
#include "MaskMod.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Support/DeadOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNEXPANDMASKSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

#define DEBUG_TYPE "attn-expand-masks"

using namespace mlir;
using namespace mlir::attn;

/// The dimension of queries and keys that counts positions.
static constexpr int64_t lengthDim = 2;

/// Splits a conjunction into masks that read operands, and all others.
static void splitConjunction(MaskAttrInterface mask,
                             SmallVectorImpl<MaskAttrInterface> &named,
                             SmallVectorImpl<MaskAttrInterface> &read) {
  if (auto conjunction = dyn_cast<AndAttr>(mask)) {
    for (MaskAttrInterface part : conjunction.getMasks())
      splitConjunction(part, named, read);
    return;
  }
  (mask.getReads().empty() ? named : read).push_back(mask);
}

/// The schedule of the kernels that prepare the work of `op`, if it has one.
static Attribute getPreparation(AttentionOpInterface op) {
  ScheduleAttrInterface schedule = op.getChosenSchedule();
  return schedule ? schedule.getPreparation() : ScheduleAttrInterface();
}

/// Notes on function arguments which of their sizes the mask needs to be equal:
/// the code that replaces the mask does not tell.
static void noteSizesOfMask(RewriterBase &rewriter, AttentionOpInterface op,
                            const MaskReads &reads) {
  auto func = op->getParentOfType<FunctionOpInterface>();
  op.getMaskAttr().walk([&](MaskAttrInterface part) {
    for (const EqualSizes &sizes : part.getEqualSizes(reads)) {
      BlockArgument argument = getFunctionArgument(func, sizes.operand);
      BlockArgument other = getFunctionArgument(func, sizes.other);
      if (argument && other && argument != other)
        noteEqualSizes(rewriter, func, argument, sizes.dim, other,
                       sizes.otherDim);
    }
  });
}

/// The number of queries that are stored.
static Value emitQueryLength(RewriterBase &rewriter, AttentionOpInterface op) {
  Location loc = op.getLoc();
  if (op.isBufferized())
    return rewriter.createOrFold<memref::DimOp>(loc, op.getQuery(), lengthDim);
  return rewriter.createOrFold<tensor::DimOp>(loc, op.getQuery(), lengthDim);
}

using MaskTables = llvm::MapVector<Attribute, SmallVector<Value>>;

/// Emits the tables of each mask of `op` that reads operands. Buffers that are
/// allocated for them are freed after `op`.
static MaskTables emitTables(RewriterBase &rewriter, AttentionOpInterface op,
                             const MaskReads &reads) {
  Location loc = op.getLoc();
  MaskTables tables;
  op.getMaskAttr().walk([&](MaskAttrInterface part) {
    if (!part.getReads().empty() && !tables.contains(part))
      tables[part] = part.emitTables(rewriter, loc, reads);
  });
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPointAfter(op);
  for (auto &[mask, values] : tables)
    for (Value table : values)
      if (table.getDefiningOp<memref::AllocOp>() &&
          !llvm::is_contained(reads.operands, table))
        memref::DeallocOp::create(rewriter, loc, table);
  return tables;
}

static void expand(RewriterBase &rewriter, AttentionOpInterface op) {
  SmallVector<MaskAttrInterface> named, read;
  splitConjunction(op.getMaskAttr(), named, read);
  LDBG() << read.size() << " parts of " << op.getMaskAttr()
         << " read operands, " << named.size() << " keep their names";

  rewriter.setInsertionPoint(op);
  Value queryLength = emitQueryLength(rewriter, op);
  Value keyLength = op.getAddressing().emitMaxKeys(
      rewriter, op.getLoc(), op.getKey(), op.getPageTable());
  SmallVector<Value> operands(op.getMaskReads());
  MaskReads reads{operands,
                  op.getQuery(),
                  op.getPageTable() ? Value() : op.getKey(),
                  queryLength,
                  keyLength,
                  getPreparation(op),
                  op.hasPackedQueries()};
  noteSizesOfMask(rewriter, op, reads);
  MaskTables tables = emitTables(rewriter, op, reads);
  auto getTables = [&](Attribute mask) { return ValueRange(tables[mask]); };
  addToMaskMod(rewriter, op, read, [&](Block &block) -> MaskPosition {
    MaskPosition position =
        emitMaskPosition(rewriter, op.getLoc(), op, block.getArguments(),
                         queryLength, keyLength);
    position.getTables = getTables;
    return position;
  });
  rewriter.modifyOpInPlace(op, [&] {
    eraseDeadOps(op.getMaskMod().front());
    op.getMaskReadsMutable().clear();
    if (named.empty())
      op.removeMaskAttr();
    else if (named.size() == 1)
      op.setMaskAttr(named.front());
    else
      op.setMaskAttr(AndAttr::get(op->getContext(), named));
  });
}

namespace {
struct AttnExpandMasksPass
    : attn::impl::AttnExpandMasksPassBase<AttnExpandMasksPass> {
  using Base::Base;

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](AttentionOpInterface op) {
      if (!op.getMaskReads().empty())
        expand(rewriter, op);
    });
  }
};
} // namespace
