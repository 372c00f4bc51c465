//===- SimplifyMasks.cpp - Simplification of masks ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Simplifies the masks of attention, and replaces predicates of mask_mod
// regions by named masks.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskAlgebra.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNSIMPLIFYMASKSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

#define DEBUG_TYPE "attn-simplify-masks"

using namespace mlir;
using namespace mlir::attn;

/// The dimension of queries and keys that counts positions.
static constexpr int64_t lengthDim = 2;

/// The value whose dimension of positions has the length `size`.
static Value getSizedBy(Value size) {
  auto getSource = [&](auto dim) -> Value {
    return dim && dim.getConstantIndex() == lengthDim ? dim.getSource()
                                                      : Value();
  };
  if (Value source = getSource(size.getDefiningOp<tensor::DimOp>()))
    return source;
  return getSource(size.getDefiningOp<memref::DimOp>());
}

/// Maps sizes of the queries and keys to their values in a copy of the mask_mod
/// region.
static IRMapping mapLengths(AttentionOpInterface op, MaskScope &scope) {
  IRMapping mapping;
  // Masks of a shard see the lengths of the larger attention.
  if (op.readsKeyLengths() || op.isShard())
    return mapping;
  op.getMaskMod().walk([&](Operation *nested) {
    auto mapSize = [&](Value size) {
      Value source = getSizedBy(size);
      if (source && source == op.getQuery())
        mapping.map(size, scope.getPositions().queryLength);
      else if (source && source == op.getKey())
        mapping.map(size, scope.getPositions().keyLength);
    };
    for (Value operand : nested->getOperands())
      if (operand.getParentRegion() != &op.getMaskMod())
        mapSize(operand);
  });
  return mapping;
}

/// The parts of a conjunction.
static void getConjuncts(Value predicate, SmallVectorImpl<Value> &conjuncts) {
  if (auto logic = predicate.getDefiningOp<arith::AndIOp>()) {
    getConjuncts(logic.getLhs(), conjuncts);
    getConjuncts(logic.getRhs(), conjuncts);
    return;
  }
  conjuncts.push_back(predicate);
}

static Value getYielded(Region &region) {
  return cast<YieldOp>(region.front().getTerminator()).getValue();
}

namespace {
/// Replaces a named mask by the simplest one that keeps the same pairs.
struct SimplifyNamedMask
    : public OpInterfaceRewritePattern<AttentionOpInterface> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOpInterface op,
                                PatternRewriter &rewriter) const override {
    MaskAttrInterface mask = op.getMaskAttr();
    if (!mask)
      return rewriter.notifyMatchFailure(op, "no named mask");
    MaskScope scope(op);
    MaskAttrInterface simplified = simplifyMask(scope, mask);
    if (scope.isExhausted())
      remark::missed(op->getLoc(), remark::RemarkOpts::name("mask").category(
                                       "attn-simplify-masks"))
          << "the mask takes too much work to simplify: it stays as it is";
    if (simplified == mask)
      return rewriter.notifyMatchFailure(op, "mask is in its simplest form");
    LDBG() << mask << " becomes " << simplified;
    rewriter.modifyOpInPlace(op, [&] {
      if (simplified)
        op.setMaskAttr(simplified);
      else
        op.removeMaskAttr();
    });
    return success();
  }
};

/// Drops a mask_mod region that keeps nothing, alone or together with a named
/// mask.
struct DropNeverMaskMod
    : public OpInterfaceRewritePattern<AttentionOpInterface> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOpInterface op,
                                PatternRewriter &rewriter) const override {
    Region &maskMod = op.getMaskMod();
    if (maskMod.empty())
      return rewriter.notifyMatchFailure(op, "no mask_mod region");
    MaskScope scope(op);
    SmallVector<MaskScope::Literal> literals = {
        {scope.clonePredicate(maskMod, mapLengths(op, scope))}};
    if (MaskAttrInterface mask = op.getMaskAttr())
      literals.push_back({scope.getPredicate(mask)});
    if (!scope.isNever(literals))
      return rewriter.notifyMatchFailure(op, "some pair may be kept");
    LDBG() << "the mask_mod keeps no pair: " << *op;
    rewriter.modifyOpInPlace(op, [&] {
      rewriter.eraseBlock(&maskMod.front());
      op.setMaskAttr(NoneAttr::get(op->getContext()));
    });
    return success();
  }
};

/// Drops predicates of a mask_mod region that are implied by the others.
struct DropRedundantMaskMod
    : public OpInterfaceRewritePattern<AttentionOpInterface> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOpInterface op,
                                PatternRewriter &rewriter) const override;
};

/// Replaces predicates of a mask_mod region by a named mask.
struct NameMaskMod : public OpInterfaceRewritePattern<AttentionOpInterface> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOpInterface op,
                                PatternRewriter &rewriter) const override;
};
} // namespace

/// Makes a mask_mod region yield the conjunction of `kept`, a subset of its
/// predicates.
static void maskModConjuncts(PatternRewriter &rewriter, AttentionOpInterface op,
                             ArrayRef<Value> kept) {
  Region &maskMod = op.getMaskMod();
  if (kept.empty()) {
    rewriter.modifyOpInPlace(op,
                             [&] { rewriter.eraseBlock(&maskMod.front()); });
    return;
  }
  Operation *yield = maskMod.front().getTerminator();
  rewriter.setInsertionPoint(yield);
  Value predicate = kept.front();
  for (Value conjunct : kept.drop_front())
    predicate =
        arith::AndIOp::create(rewriter, yield->getLoc(), predicate, conjunct);
  rewriter.modifyOpInPlace(yield, [&] { yield->setOperand(0, predicate); });
}

LogicalResult
DropRedundantMaskMod::matchAndRewrite(AttentionOpInterface op,
                                      PatternRewriter &rewriter) const {
  Region &maskMod = op.getMaskMod();
  if (maskMod.empty())
    return rewriter.notifyMatchFailure(op, "no mask_mod region");
  MaskScope scope(op);
  SmallVector<Value> conjuncts, copies;
  getConjuncts(getYielded(maskMod), conjuncts);
  getConjuncts(scope.clonePredicate(maskMod, mapLengths(op, scope)), copies);
  size_t count = conjuncts.size();
  for (unsigned i = count; i-- > 0;) {
    SmallVector<MaskScope::Literal> literals;
    if (MaskAttrInterface mask = op.getMaskAttr())
      literals.push_back({scope.getPredicate(mask)});
    for (auto [index, copy] : llvm::enumerate(copies))
      literals.push_back({copy, /*isNegated=*/index == i});
    if (!scope.isNever(literals))
      continue;
    conjuncts.erase(conjuncts.begin() + i);
    copies.erase(copies.begin() + i);
  }
  if (conjuncts.size() == count)
    return rewriter.notifyMatchFailure(op, "no part is known to be redundant");
  maskModConjuncts(rewriter, op, conjuncts);
  return success();
}

LogicalResult NameMaskMod::matchAndRewrite(AttentionOpInterface op,
                                           PatternRewriter &rewriter) const {
  Region &maskMod = op.getMaskMod();
  if (maskMod.empty())
    return rewriter.notifyMatchFailure(op, "no mask_mod region");
  MaskScope scope(op);
  Value predicate = scope.clonePredicate(maskMod, mapLengths(op, scope));
  SmallVector<MaskAttrInterface> masks;
  SmallVector<Value> unnamed;
  // Predicates that have no name may have one together.
  if (MaskAttrInterface mask = scope.recognize(predicate)) {
    masks.push_back(mask);
  } else {
    SmallVector<Value> conjuncts, copies;
    getConjuncts(getYielded(maskMod), conjuncts);
    getConjuncts(predicate, copies);
    for (auto [conjunct, copy] : llvm::zip_equal(conjuncts, copies)) {
      if (MaskAttrInterface mask = scope.recognize(copy))
        masks.push_back(mask);
      else
        unnamed.push_back(conjunct);
    }
  }
  if (masks.empty())
    return rewriter.notifyMatchFailure(op, "no part has a name");
  if (MaskAttrInterface mask = op.getMaskAttr())
    masks.insert(masks.begin(), mask);
  rewriter.modifyOpInPlace(
      op, [&] { op.setMaskAttr(AndAttr::get(op->getContext(), masks)); });
  maskModConjuncts(rewriter, op, unnamed);
  return success();
}

namespace {
struct AttnSimplifyMasksPass
    : attn::impl::AttnSimplifyMasksPassBase<AttnSimplifyMasksPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    populateSimplifyMasksPatterns(set);
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    SmallVector<Operation *> attentions;
    getOperation()->walk(
        [&](AttentionOpInterface op) { attentions.push_back(op); });
    if (failed(applyOpPatternsGreedily(attentions, patterns)))
      signalPassFailure();
  }

private:
  FrozenRewritePatternSet patterns;
};
} // namespace

void attn::populateSimplifyMasksPatterns(RewritePatternSet &patterns) {
  patterns.add<DropNeverMaskMod, DropRedundantMaskMod, NameMaskMod,
               SimplifyNamedMask>(patterns.getContext());
}
