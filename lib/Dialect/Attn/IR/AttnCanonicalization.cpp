//===- AttnCanonicalization.cpp - Canonicalisations of attn ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Patterns that simplify attention and its gradient.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Canonicalisation of all operations with AttentionOpInterface
//===----------------------------------------------------------------------===//

/// The value that `region` yields; null if there is no region.
static Value getYielded(Region &region) {
  if (region.empty())
    return nullptr;
  return cast<YieldOp>(region.front().getTerminator()).getValue();
}

static void eraseRegion(PatternRewriter &rewriter, AttentionOpInterface op,
                        Region &region) {
  rewriter.modifyOpInPlace(op, [&] { rewriter.eraseBlock(&region.front()); });
}

/// Removes the dropout, and the positions of a shard that are for it alone.
static void removeDropout(AttentionOpInterface op) {
  op.removeDropoutAttr();
  // Each range is looked up anew: removing operands before it moves it.
  op.getSeedMutable().clear();
  op.getOffsetMutable().clear();
  if (!op.getDropoutOnly())
    return;
  op.getPositionsMutable().clear();
  op.setDropoutOnly(false);
}

namespace {
/// Drops a scale that is the default one.
struct DropDefaultScale
    : public OpInterfaceRewritePattern<AttentionOpInterface> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOpInterface op,
                                PatternRewriter &rewriter) const override {
    std::optional<APFloat> scale = op.getScale();
    if (!scale)
      return rewriter.notifyMatchFailure(op, "no scale");
    if (scale->convertToFloat() != op.getDefaultScale())
      return rewriter.notifyMatchFailure(op, "not the default scale");
    rewriter.modifyOpInPlace(op, [&] { op.setScale(std::nullopt); });
    return success();
  }
};

/// Drops a score_mod region that yields the score as it is.
struct DropIdentityScore
    : public OpInterfaceRewritePattern<AttentionOpInterface> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOpInterface op,
                                PatternRewriter &rewriter) const override {
    Region &region = op.getScoreMod();
    Value yielded = getYielded(region);
    if (!yielded || yielded != region.getArgument(0))
      return rewriter.notifyMatchFailure(op,
                                         "score_mod region changes the score");
    eraseRegion(rewriter, op, region);
    return success();
  }
};

/// Merges a score_mod region that multiplies by a constant into the scale.
struct MergeScaleOfScore
    : public OpInterfaceRewritePattern<AttentionOpInterface> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOpInterface op,
                                PatternRewriter &rewriter) const override {
    if (op.statesScoreGrad())
      return rewriter.notifyMatchFailure(op, "has a gradient of the score");
    Region &region = op.getScoreMod();
    Value yielded = getYielded(region);
    auto product =
        yielded ? yielded.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
    if (!product)
      return rewriter.notifyMatchFailure(
          op, "score_mod region is not a multiplication");
    Value score = region.getArgument(0);
    Value other =
        product.getLhs() == score ? product.getRhs() : product.getLhs();
    FloatAttr factor;
    if ((product.getLhs() != score && product.getRhs() != score) ||
        !matchPattern(other, m_Constant(&factor)))
      return rewriter.notifyMatchFailure(
          op, "score_mod region is not a multiplication by a constant");
    float scale = op.getScaleOrDefault() * factor.getValue().convertToFloat();
    if (!std::isfinite(scale))
      return rewriter.notifyMatchFailure(op, "scale would not be finite");
    eraseRegion(rewriter, op, region);
    rewriter.modifyOpInPlace(op, [&] { op.setScale(APFloat(scale)); });
    return success();
  }
};

/// Drops a mask_mod region that keeps everything.
struct DropTrueMaskMod
    : public OpInterfaceRewritePattern<AttentionOpInterface> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOpInterface op,
                                PatternRewriter &rewriter) const override {
    Value yielded = getYielded(op.getMaskMod());
    if (!yielded || !matchPattern(yielded, m_One()))
      return rewriter.notifyMatchFailure(op,
                                         "mask_mod region is not always true");
    eraseRegion(rewriter, op, op.getMaskMod());
    return success();
  }
};

/// Drops a mask that keeps every pair for the static lengths.
struct DropTrueMask : public OpInterfaceRewritePattern<AttentionOpInterface> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOpInterface op,
                                PatternRewriter &rewriter) const override {
    MaskAttrInterface mask = op.getMaskAttr();
    if (!mask)
      return rewriter.notifyMatchFailure(op, "no mask");
    if (op.readsKeyLengths())
      return rewriter.notifyMatchFailure(op, "the device reads the lengths");
    if (op.isShard())
      return rewriter.notifyMatchFailure(op, "mask sees global positions");
    int64_t queryLength = getDimSize(op.getQuery(), 2);
    int64_t keyLength = getDimSize(op.getKey(), 2);
    if (ShapedType::isDynamic(queryLength) || queryLength == 0 ||
        ShapedType::isDynamic(keyLength) || keyLength == 0)
      return rewriter.notifyMatchFailure(op, "lengths are dynamic or zero");
    if (mask.getConstantValue(queryLength, keyLength) != true)
      return rewriter.notifyMatchFailure(op, "mask is not always true");
    rewriter.modifyOpInPlace(op, [&] { op.removeMaskAttr(); });
    return success();
  }
};

/// Removes a dropout that drops nothing.
struct DropEmptyDropout
    : public OpInterfaceRewritePattern<AttentionOpInterface> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOpInterface op,
                                PatternRewriter &rewriter) const override {
    DropoutAttr dropout = op.getDropoutAttr();
    if (!dropout)
      return rewriter.notifyMatchFailure(op, "no dropout");
    if (dropout.getThreshold() != 0)
      return rewriter.notifyMatchFailure(
          op, "some attention probabilities are dropped");
    rewriter.modifyOpInPlace(op, [&] { removeDropout(op); });
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Canonicalisation of all operations in destination style
//===----------------------------------------------------------------------===//

namespace {
/// Uses the source of a cast that only forgets static sizes. The tensor
/// dialect has a pattern for all operations in destination style, but it cannot
/// clone an operation with an empty region under a listener; the benefit of
/// this one is higher.
struct FoldTensorCasts
    : public OpInterfaceRewritePattern<DestinationStyleOpInterface> {
  FoldTensorCasts(MLIRContext *context)
      : OpInterfaceRewritePattern(context, /*benefit=*/2) {}

  LogicalResult matchAndRewrite(DestinationStyleOpInterface op,
                                PatternRewriter &rewriter) const override {
    if (!isa_and_present<AttnDialect>(op->getDialect()))
      return rewriter.notifyMatchFailure(op, "of another dialect");
    if (!tensor::hasFoldableTensorCastOperand(op))
      return rewriter.notifyMatchFailure(op, "no cast that can be folded");
    SmallVector<Type> oldTypes(op->getResultTypes());
    SmallVector<Type> resultTypes = oldTypes;
    SmallVector<Value> operands =
        tensor::getUpdatedOperandsAfterCastOpFolding(op, resultTypes);
    rewriter.modifyOpInPlace(op, [&] {
      op->setOperands(operands);
      for (auto [result, type] : llvm::zip_equal(op->getResults(), resultTypes))
        result.setType(type);
      auto attention = dyn_cast<AttentionOpInterface>(op.getOperation());
      if (!attention)
        return;
      for (const RegionDestination &entry : attention.getRegionDestinations())
        BlockArgument(entry.argument)
            .setType(entry.destination->get().getType());
    });
    rewriter.setInsertionPointAfter(op);
    for (auto [result, type] : llvm::zip_equal(op->getResults(), oldTypes)) {
      if (result.getType() == type)
        continue;
      auto cast = tensor::CastOp::create(rewriter, op.getLoc(), type, result);
      rewriter.replaceAllUsesExcept(result, cast, cast);
    }
    return success();
  }
};
} // namespace

void AttnDialect::getCanonicalizationPatterns(
    RewritePatternSet &patterns) const {
  patterns
      .add<FoldTensorCasts, DropDefaultScale, DropEmptyDropout,
           DropIdentityScore, DropTrueMaskMod, DropTrueMask, MergeScaleOfScore>(
          getContext());
}

//===----------------------------------------------------------------------===//
// Canonicalisation of AttentionOp
//===----------------------------------------------------------------------===//

/// Whether `identity` is the same known number for all heads.
static bool isIdentityOf(AttentionOp op, double number) {
  DenseElementsAttr weights;
  return op.getIdentity() &&
         matchPattern(op.getIdentity(), m_Constant(&weights)) &&
         weights.isSplat() &&
         weights.getSplatValue<APFloat>().isExactlyValue(number);
}

namespace {
/// Removes an `identity` that is zero.
struct DropZeroIdentity : public OpRewritePattern<AttentionOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    if (!isIdentityOf(op, 0))
      return rewriter.notifyMatchFailure(op, "identity is not known to be 0");
    rewriter.modifyOpInPlace(op, [&] { op.getIdentityMutable().clear(); });
    return success();
  }
};

/// Where P is the identity, scores do not matter: the result is the values, if
/// they have its shape.
struct DropScoresOfIdentity : public OpRewritePattern<AttentionOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getLse() || !isIdentityOf(op, 1))
      return rewriter.notifyMatchFailure(op, "scores matter");
    Type type = op.getValue().getType();
    auto [queries, keys] = op.getStaticLengths();
    if (!op.isBufferized() && !op.getHeadMap() && queries == keys &&
        !ShapedType::isDynamic(queries) && type == op.getResult(0).getType()) {
      rewriter.replaceOp(op, op.getValue());
      return success();
    }
    bool changes = op.getMaskAttr() || op.hasDropout() || op.getSinks();
    for (Region *region : {&op.getScoreMod(), &op.getMaskMod()})
      if (!region->empty()) {
        eraseRegion(rewriter, op, *region);
        changes = true;
      }
    if (!changes)
      return rewriter.notifyMatchFailure(op, "nothing depends on scores");
    rewriter.modifyOpInPlace(op, [&] {
      op.removeMaskAttr();
      removeDropout(op);
      op.removeMaskLayoutAttr();
      op.removeDropProbabilityAttr();
      // Each range is looked up anew: removing operands before it moves it.
      op.getMaskReadsMutable().clear();
      op.getDropoutMaskMutable().clear();
      op.getSinksMutable().clear();
    });
    return success();
  }
};

/// Removes a state without keys.
struct DropEmptyState : public OpRewritePattern<AttentionOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    Value lse = op.getStateLse();
    if (!lse)
      return rewriter.notifyMatchFailure(op, "no state");
    DenseElementsAttr entries;
    FloatAttr entry;
    bool isKnown = matchPattern(lse, m_Constant(&entries)) && entries.isSplat();
    if (isKnown)
      entry = entries.getSplatValue<FloatAttr>();
    else if (auto splat = lse.getDefiningOp<tensor::SplatOp>())
      isKnown = matchPattern(splat.getInput(), m_Constant(&entry));
    if (!isKnown || !entry.getValue().isInfinity() ||
        !entry.getValue().isNegative())
      return rewriter.notifyMatchFailure(op, "state is not known to be empty");
    rewriter.modifyOpInPlace(op, [&] {
      // Each range is looked up anew: removing operands before it moves it.
      op.getStateOutMutable().clear();
      op.getStateLseMutable().clear();
    });
    return success();
  }
};

/// Removes a head map that is known to give all key heads equal groups of
/// neighbouring query heads, as without a map.
struct DropGroupedHeadMap : public OpRewritePattern<AttentionOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    DenseIntElementsAttr entries;
    if (!op.getHeadMap() ||
        !matchPattern(op.getHeadMap(), m_Constant(&entries)))
      return rewriter.notifyMatchFailure(op, "no head map that is known");
    int64_t queryHeads = op.getNumQueryHeads(), keyHeads = op.getNumKeyHeads();
    if (queryHeads % keyHeads != 0)
      return rewriter.notifyMatchFailure(op, "groups cannot be equal");
    int64_t groupSize = queryHeads / keyHeads;
    for (auto [head, entry] : llvm::enumerate(entries.getValues<APInt>()))
      if (entry.getSExtValue() != static_cast<int64_t>(head) / groupSize)
        return rewriter.notifyMatchFailure(op, "groups differ or are mixed");
    rewriter.modifyOpInPlace(op, [&] { op.getHeadMapMutable().clear(); });
    return success();
  }
};
} // namespace

void AttentionOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<DropEmptyState, DropGroupedHeadMap, DropScoresOfIdentity,
               DropZeroIdentity>(context);
}

//===----------------------------------------------------------------------===//
// Canonicalisation of AttentionGradOp
//===----------------------------------------------------------------------===//

namespace {
/// Drops a gradient of the score that is the identity.
struct DropIdentityScoreGrad : public OpRewritePattern<AttentionGradOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionGradOp op,
                                PatternRewriter &rewriter) const override {
    Region &region = op.getScoreModGrad();
    if (!op.getScoreMod().empty() || !op.getDcaptures().empty())
      return rewriter.notifyMatchFailure(op, "scores or captures matter");
    Value yielded = getYielded(region);
    if (!yielded || yielded != region.getArgument(1))
      return rewriter.notifyMatchFailure(op, "score_grad is not the identity");
    eraseRegion(rewriter, op, region);
    return success();
  }
};

/// Forwards destinations of `dcaptures` that nothing is added to.
struct DropUnusedCaptures : public OpRewritePattern<AttentionGradOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionGradOp op,
                                PatternRewriter &rewriter) const override {
    SmallVector<RegionDestination> destinations = op.getRegionDestinations();
    BitVector unused(destinations.size());
    for (auto [index, entry] : llvm::enumerate(destinations))
      if (entry.argument.use_empty())
        unused.set(index);
    if (unused.none())
      return rewriter.notifyMatchFailure(op, "all captures are added to");
    constexpr unsigned numFixed = 3;
    SmallVector<Value> kept;
    SmallVector<Type> types(
        TypeRange(op->getResultTypes()).take_front(numFixed));
    for (auto [index, capture] : llvm::enumerate(op.getDcaptures())) {
      if (unused[index])
        continue;
      kept.push_back(capture);
      types.push_back(capture.getType());
    }
    bool isBufferized = op.isBufferized();
    auto replacement = AttentionGradOp::create(
        rewriter, op.getLoc(), isBufferized ? TypeRange() : TypeRange(types),
        op.getQuery(), op.getKey(), op.getValue(), op.getOut(), op.getLse(),
        op.getDout(), op.getDlse(), op.getDquery(), op.getDkey(),
        op.getDvalue(), kept, op.getIdentity(), op.getQuerySequences(),
        op.getKeySequences(), op.getPositions(), op.getMaskReads(),
        op.getSeed(), op.getOffset(), op.getDropoutMask(),
        op.getSequenceLayoutAttr(), op.getScaleAttr(), op.getMaskAttr(),
        op.getDropoutAttr(), op.getMaskLayoutAttr(),
        op.getDropProbabilityAttr(), op.getDropoutOnlyAttr(),
        op.getPrecisionAttr(), op.getScheduleAttr(), op.getDeterministicAttr());
    replacement->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    for (auto [from, to] :
         llvm::zip_equal(op->getRegions(), replacement->getRegions()))
      rewriter.inlineRegionBefore(from, to, to.end());
    Block &block = replacement.getScoreModGrad().front();
    for (const RegionDestination &entry : llvm::reverse(destinations))
      if (entry.argument.use_empty())
        rewriter.modifyOpInPlace(replacement, [&] {
          block.eraseArgument(entry.argument.getArgNumber());
        });
    SmallVector<Value> results;
    if (!isBufferized) {
      llvm::append_range(results,
                         replacement.getResults().take_front(numFixed));
      ValueRange others = replacement.getResults().drop_front(numFixed);
      for (auto [index, capture] : llvm::enumerate(op.getDcaptures())) {
        if (unused[index]) {
          results.push_back(capture);
          continue;
        }
        results.push_back(others.front());
        others = others.drop_front();
      }
    }
    rewriter.replaceOp(op, results);
    return success();
  }
};
} // namespace

void AttentionGradOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                                  MLIRContext *context) {
  patterns.add<DropIdentityScoreGrad, DropUnusedCaptures>(context);
}

//===----------------------------------------------------------------------===//
// Canonicalisation of OverlapOp
//===----------------------------------------------------------------------===//

namespace {
/// Drops results that are not used, or are defined outside of the operation.
struct DropOverlapResults : public OpRewritePattern<OverlapOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(OverlapOp op,
                                PatternRewriter &rewriter) const override {
    SmallVector<Value> replacements;
    SmallVector<Type> types;
    SmallVector<BitVector> dropped;
    bool changes = false;
    for (auto [number, body] : llvm::enumerate(op.getBodies())) {
      unsigned first = op.getFirstResult(number);
      OperandRange yielded = op.getYielded(number);
      BitVector &drops = dropped.emplace_back(yielded.size());
      for (auto [i, value] : llvm::enumerate(yielded)) {
        OpResult result = op->getResult(first + i);
        bool isOutside = !body.isAncestor(value.getParentRegion());
        if (isOutside || result.use_empty()) {
          drops.set(i);
          changes = true;
          replacements.push_back(isOutside ? value : Value());
          continue;
        }
        types.push_back(value.getType());
        replacements.push_back(Value());
      }
    }
    if (!changes)
      return rewriter.notifyMatchFailure(op, "all results are needed");
    OperationState state(op.getLoc(), op->getName(), ValueRange(), types,
                         op->getAttrs());
    for (Region &body : op.getBodies()) {
      Operation *yield = body.front().getTerminator();
      rewriter.modifyOpInPlace(yield, [&] {
        yield->eraseOperands(dropped[body.getRegionNumber()]);
      });
      state.addRegion()->takeBody(body);
    }
    auto replacement = cast<OverlapOp>(rewriter.create(state));
    unsigned next = 0;
    for (auto [value, result] : llvm::zip_equal(replacements, op.getResults()))
      if (!value && !result.use_empty())
        value = replacement->getResult(next++);
    rewriter.replaceOp(op, replacements);
    return success();
  }
};

/// Removes regions that compute nothing, and inlines a single one.
struct DropEmptyOverlap : public OpRewritePattern<OverlapOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(OverlapOp op,
                                PatternRewriter &rewriter) const override {
    SmallVector<Region *> full;
    for (Region &body : op.getBodies())
      if (!body.front().without_terminator().empty() ||
          !op.getYielded(body.getRegionNumber()).empty())
        full.push_back(&body);
    if (full.size() == op.getBodies().size())
      return rewriter.notifyMatchFailure(op, "all regions compute something");
    if (full.size() > 1) {
      OperationState state(op.getLoc(), op->getName(), ValueRange(),
                           op.getResultTypes(), op->getAttrs());
      for (Region *body : full)
        state.addRegion()->takeBody(*body);
      rewriter.replaceOp(op, rewriter.create(state));
      return success();
    }
    if (full.empty()) {
      rewriter.eraseOp(op);
      return success();
    }
    Block &block = full.front()->front();
    Operation *yield = block.getTerminator();
    SmallVector<Value> values(yield->getOperands());
    rewriter.eraseOp(yield);
    rewriter.inlineBlockBefore(&block, op);
    rewriter.replaceOp(op, values);
    return success();
  }
};
} // namespace

void OverlapOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                            MLIRContext *context) {
  patterns.add<DropOverlapResults, DropEmptyOverlap>(context);
}
