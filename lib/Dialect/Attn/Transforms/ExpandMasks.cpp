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

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
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

/// The function argument that `value` is, apart from casts.
static BlockArgument getArgument(FunctionOpInterface func, Value value) {
  while (auto cast = value.getDefiningOp<tensor::CastOp>())
    value = cast.getSource();
  auto argument = dyn_cast<BlockArgument>(value);
  if (!func || !argument ||
      argument.getOwner() != &func.getFunctionBody().front())
    return {};
  return argument;
}

/// Notes on function arguments which of their sizes the mask needs to be equal:
/// the code that replaces the mask does not tell.
static void noteEqualSizes(RewriterBase &rewriter, AttentionOpInterface op,
                           const MaskReads &reads) {
  auto func = op->getParentOfType<FunctionOpInterface>();
  op.getMaskAttr().walk([&](MaskAttrInterface part) {
    for (const EqualSizes &sizes : part.getEqualSizes(reads)) {
      BlockArgument argument = getArgument(func, sizes.operand);
      BlockArgument other = getArgument(func, sizes.other);
      if (!argument || !other || argument == other)
        continue;
      SmallVector<int64_t> noted;
      if (auto attr = func.getArgAttrOfType<DenseI64ArrayAttr>(
              argument.getArgNumber(), equalSizesAttrName))
        noted.assign(attr.asArrayRef().begin(), attr.asArrayRef().end());
      noted.append({sizes.dim, int64_t(other.getArgNumber()), sizes.otherDim});
      rewriter.modifyOpInPlace(func, [&] {
        func.setArgAttr(argument.getArgNumber(), equalSizesAttrName,
                        rewriter.getDenseI64ArrayAttr(noted));
      });
    }
  });
}

static void expand(RewriterBase &rewriter, AttentionOpInterface op) {
  Location loc = op.getLoc();
  SmallVector<MaskAttrInterface> named, read;
  splitConjunction(op.getMaskAttr(), named, read);
  LDBG() << read.size() << " parts of " << op.getMaskAttr()
         << " read operands, " << named.size() << " keep their names";

  rewriter.setInsertionPoint(op);
  auto emitLength = [&](Value operand) -> Value {
    if (op.isBufferized())
      return rewriter.createOrFold<memref::DimOp>(loc, operand, lengthDim);
    return rewriter.createOrFold<tensor::DimOp>(loc, operand, lengthDim);
  };
  Value queryLength = emitLength(op.getQuery());
  Value keyLength = emitLength(op.getKey());
  SmallVector<Value> operands(op.getMaskReads());
  MaskReads reads{operands,    op.getQuery(), op.getKey(),
                  queryLength, keyLength,     getPreparation(op)};
  noteEqualSizes(rewriter, op, reads);
  llvm::MapVector<Attribute, SmallVector<Value>> tables;
  op.getMaskAttr().walk([&](MaskAttrInterface part) {
    if (!part.getReads().empty() && !tables.contains(part))
      tables[part] = part.emitTables(rewriter, loc, reads);
  });
  rewriter.setInsertionPointAfter(op);
  for (auto &[mask, values] : tables)
    for (Value table : values)
      if (table.getDefiningOp<memref::AllocOp>() &&
          !llvm::is_contained(operands, table))
        memref::DeallocOp::create(rewriter, loc, table);

  // The mask_mod predicate is combined with the predicates of the masks.
  Region &region = op.getMaskMod();
  Value predicate;
  if (region.empty()) {
    SmallVector<Type> types(4, rewriter.getIndexType());
    SmallVector<Location> locs(types.size(), loc);
    rewriter.createBlock(&region, {}, types, locs);
  } else {
    Operation *yield = region.front().getTerminator();
    predicate = yield->getOperand(0);
    rewriter.eraseOp(yield);
    rewriter.setInsertionPointToEnd(&region.front());
  }
  Block &maskMod = region.front();
  auto getTables = [&](Attribute mask) { return ValueRange(tables[mask]); };
  for (MaskAttrInterface mask : read) {
    Value kept = mask.emitPredicate(
        rewriter, loc,
        {maskMod.getArgument(0), maskMod.getArgument(1), maskMod.getArgument(2),
         maskMod.getArgument(3), queryLength, keyLength, getTables});
    predicate =
        predicate
            ? arith::AndIOp::create(rewriter, loc, predicate, kept).getResult()
            : kept;
  }
  YieldOp::create(rewriter, loc, predicate);
  rewriter.modifyOpInPlace(op, [&] {
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
