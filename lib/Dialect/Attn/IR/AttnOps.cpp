//===- AttnOps.cpp - Operations of the attn dialect
//-------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers, effects and canonicalisations of the operations.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnOps.cpp.inc"

//===----------------------------------------------------------------------===//
// AttentionOp
//===----------------------------------------------------------------------===//

static int64_t getDim(Value value, unsigned dim) {
  return cast<ShapedType>(value.getType()).getDimSize(dim);
}

static float getDefaultScale(AttentionOp op) {
  return 1.0f / std::sqrt(static_cast<float>(op.getQueryHeadDim()));
}

float AttentionOp::getScaleOrDefault() {
  std::optional<APFloat> scale = getScale();
  return scale ? scale->convertToFloat() : getDefaultScale(*this);
}

int64_t AttentionOp::getNumQueryHeads() { return getDim(getQuery(), 1); }
int64_t AttentionOp::getNumKeyHeads() { return getDim(getKey(), 1); }
int64_t AttentionOp::getQueryHeadDim() { return getDim(getQuery(), 3); }
int64_t AttentionOp::getValueHeadDim() { return getDim(getValue(), 3); }

bool AttentionOp::isBufferized() {
  return isa<MemRefType>(getQuery().getType());
}

MutableOperandRange AttentionOp::getDpsInitsMutable() {
  return MutableOperandRange(*this, getOutMutable().getOperandNumber(),
                             getLse() ? 2 : 1);
}

void AttentionOp::getAsmBlockArgumentNames(Region &region,
                                           OpAsmSetValueNameFn setName) {
  static constexpr StringLiteral all[] = {"score", "b", "h", "i", "j"};
  ArrayRef<StringLiteral> names = all;
  if (&region == &getKeepRegion())
    names = names.drop_front();
  for (auto [argument, name] : llvm::zip(region.getArguments(), names))
    setName(argument, name);
}

void AttentionOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  for (OpOperand &operand : getOperation()->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    if (isDpsInit(&operand))
      effects.emplace_back(MemoryEffects::Write::get(), &operand,
                           SideEffects::DefaultResource::get());
    else
      effects.emplace_back(MemoryEffects::Read::get(), &operand,
                           SideEffects::DefaultResource::get());
  }
}

Speculation::Speculatability AttentionOp::getSpeculatability() {
  return isBufferized() ? Speculation::NotSpeculatable
                        : Speculation::RecursivelySpeculatable;
}

LogicalResult AttentionOp::reifyResultShapes(
    OpBuilder &builder, ReifiedRankedShapedTypeDims &reifiedReturnShapes) {
  if (getNumResults() == 0)
    return failure();
  for (Value init : getDpsInits())
    reifiedReturnShapes.push_back(
        tensor::getMixedSizes(builder, getLoc(), init));
  return success();
}

//===----------------------------------------------------------------------===//
// AttentionOp verification
//===----------------------------------------------------------------------===//

namespace {
/// A dimension of an operand, for diagnostics.
struct OperandDim {
  StringRef operand;
  Value value;
  unsigned dim;
};
} // namespace

/// Checks that `dim` is as large as `reference`, as far as both are static.
static LogicalResult verifySameSize(AttentionOp op, OperandDim reference,
                                    OperandDim dim) {
  int64_t expected = getDim(reference.value, reference.dim);
  int64_t actual = getDim(dim.value, dim.dim);
  if (ShapedType::isDynamic(expected) || ShapedType::isDynamic(actual) ||
      expected == actual)
    return success();
  return op.emitOpError() << "dimension " << dim.dim << " of '" << dim.operand
                          << "' must match dimension " << reference.dim
                          << " of '" << reference.operand << "', " << expected
                          << " (was " << actual << ")";
}

/// Checks that `dim`, a number of heads or channels, is static and positive.
static LogicalResult verifyStaticSize(AttentionOp op, OperandDim dim) {
  int64_t actual = getDim(dim.value, dim.dim);
  if (ShapedType::isDynamic(actual))
    return op.emitOpError() << "dimension " << dim.dim << " of '" << dim.operand
                            << "' must be static";
  if (actual < 1)
    return op.emitOpError() << "dimension " << dim.dim << " of '" << dim.operand
                            << "' must be at least 1 (was " << actual << ")";
  return success();
}

/// Checks the operands that give the lengths of sequences.
static LogicalResult verifySequences(AttentionOp op) {
  Value queries = op.getQuerySequences(), keys = op.getKeySequences();
  if (op.hasSequences() != bool(queries) || bool(queries) != bool(keys))
    return op.emitOpError("needs all or none of 'sequence_layout', "
                          "'query_sequences' and 'key_sequences'");
  if (!queries)
    return success();
  OperandDim queryDim{"query_sequences", queries, 0};
  OperandDim keyDim{"key_sequences", keys, 0};
  for (OperandDim dim : {queryDim, keyDim})
    if (isa<MemRefType>(dim.value.getType()) != op.isBufferized())
      return op.emitOpError()
             << "operands must be all tensors or all memrefs, but 'query' is "
             << op.getQuery().getType() << " and '" << dim.operand << "' is "
             << dim.value.getType();
  if (failed(verifySameSize(op, queryDim, keyDim)))
    return failure();
  if (op.getSequenceLayout() == SequenceLayout::Padded)
    return verifySameSize(op, {"query", op.getQuery(), 0}, queryDim);
  if (getDim(op.getQuery(), 0) != 1)
    return op.emitOpError("dimension 0 of 'query' must be 1 where sequences "
                          "are packed (was ")
           << (ShapedType::isDynamic(getDim(op.getQuery(), 0))
                   ? "?"
                   : Twine(getDim(op.getQuery(), 0)).str())
           << ")";
  if (getDim(queries, 0) == 0)
    return op.emitOpError("'query_sequences' must have at least one entry "
                          "where sequences are packed");
  return success();
}

LogicalResult AttentionOp::verify() {
  SmallVector<std::pair<StringRef, Value>> operands = {{"query", getQuery()},
                                                       {"key", getKey()},
                                                       {"value", getValue()},
                                                       {"out", getOut()}};
  if (Value lse = getLse())
    operands.emplace_back("lse", lse);
  if (failed(verifySequences(*this)))
    return failure();

  Type queryElement = getElementTypeOrSelf(getQuery());
  for (auto [name, operand] : operands) {
    if (isa<MemRefType>(operand.getType()) != isBufferized())
      return emitOpError()
             << "operands must be all tensors or all memrefs, but "
                "'query' is "
             << getQuery().getType() << " and '" << name << "' is "
             << operand.getType();
    if (name == "lse")
      continue;
    Type element = getElementTypeOrSelf(operand);
    if (element == queryElement || (name == "out" && element.isF32()))
      continue;
    return emitOpError() << "element type of '" << name
                         << "' must be that of 'query', " << queryElement
                         << (name == "out" ? ", or f32" : "") << " (was "
                         << element << ")";
  }

  for (auto [name, operand] : operands) {
    if (failed(verifyStaticSize(*this, {name, operand, 1})))
      return failure();
    if (name != "lse" && failed(verifyStaticSize(*this, {name, operand, 3})))
      return failure();
  }

  auto same = [&](OperandDim reference, OperandDim dim) {
    return verifySameSize(*this, reference, dim);
  };
  for (auto [name, operand] : llvm::drop_begin(operands))
    if (failed(same({"query", getQuery(), 0}, {name, operand, 0})))
      return failure();
  if (failed(same({"key", getKey(), 1}, {"value", getValue(), 1})) ||
      failed(same({"key", getKey(), 2}, {"value", getValue(), 2})) ||
      failed(same({"query", getQuery(), 3}, {"key", getKey(), 3})) ||
      failed(same({"value", getValue(), 3}, {"out", getOut(), 3})))
    return failure();
  for (auto [name, operand] : llvm::drop_begin(operands, 3))
    if (failed(same({"query", getQuery(), 1}, {name, operand, 1})) ||
        failed(same({"query", getQuery(), 2}, {name, operand, 2})))
      return failure();

  if (getNumQueryHeads() % getNumKeyHeads() != 0)
    return emitOpError() << "number of heads of 'query' must be a multiple of "
                            "that of 'key', "
                         << getNumKeyHeads() << " (was " << getNumQueryHeads()
                         << ")";
  if (std::optional<APFloat> scale = getScale(); scale && !scale->isFinite()) {
    SmallString<16> text;
    scale->toString(text);
    return emitOpError() << "scale must be finite (was " << text << ")";
  }
  return success();
}

/// Checks that the operations in `region` do nothing but compute and read.
static LogicalResult verifyRegionEffects(AttentionOp op, StringRef name,
                                         Region &region) {
  WalkResult result = region.walk([&](Operation *nested) -> WalkResult {
    auto fail = [&](StringRef what) {
      InFlightDiagnostic diag = op.emitOpError()
                                << name << " region must only compute and read";
      diag.attachNote(nested->getLoc())
          << "'" << nested->getName() << "' " << what;
      return WalkResult::interrupt();
    };
    if (isa<AttentionOp>(nested))
      return fail("is not allowed in a region of attention");
    auto interface = dyn_cast<MemoryEffectOpInterface>(nested);
    if (!interface) {
      if (nested->hasTrait<OpTrait::HasRecursiveMemoryEffects>())
        return WalkResult::advance();
      return fail("has unknown side effects");
    }
    SmallVector<MemoryEffects::EffectInstance> effects;
    interface.getEffects(effects);
    for (const MemoryEffects::EffectInstance &effect : effects) {
      if (!isa<MemoryEffects::Read>(effect.getEffect()))
        return fail("has side effects");
      if (effect.getValue() &&
          llvm::is_contained(op.getDpsInits(), effect.getValue()))
        return fail("reads a buffer that the operation writes");
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Checks one region: its arguments, its terminator and its effects.
static LogicalResult verifyRegion(AttentionOp op, StringRef name,
                                  Region &region, TypeRange argumentTypes,
                                  Type yieldType) {
  if (region.empty())
    return success();
  Block &block = region.front();
  if (block.getArgumentTypes() != argumentTypes)
    return op.emitOpError()
           << name << " region must have arguments " << argumentTypes
           << " (was " << TypeRange(block.getArgumentTypes()) << ")";
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield)
    return op.emitOpError()
           << name << " region must end with 'attn.yield' (was '"
           << block.back().getName() << "')";
  if (yield.getValue().getType() != yieldType)
    return op.emitOpError() << name << " region must yield " << yieldType
                            << " (was " << yield.getValue().getType() << ")";
  return verifyRegionEffects(op, name, region);
}

LogicalResult AttentionOp::verifyRegions() {
  Builder builder(getContext());
  Type f32 = builder.getF32Type();
  Type index = builder.getIndexType();
  SmallVector<Type> types = {f32, index, index, index, index};
  if (failed(verifyRegion(*this, "score", getScoreRegion(), types, f32)))
    return failure();
  return verifyRegion(*this, "keep", getKeepRegion(),
                      ArrayRef<Type>(types).drop_front(), builder.getI1Type());
}

//===----------------------------------------------------------------------===//
// AttentionOp canonicalisation
//===----------------------------------------------------------------------===//

/// The value that `region` yields; null if there is no region.
static Value getYielded(Region &region) {
  if (region.empty())
    return nullptr;
  return cast<YieldOp>(region.front().getTerminator()).getValue();
}

static void eraseRegion(PatternRewriter &rewriter, AttentionOp op,
                        Region &region) {
  rewriter.modifyOpInPlace(op, [&] { rewriter.eraseBlock(&region.front()); });
}

namespace {
/// Drops a scale that is the default one.
struct DropDefaultScale : public OpRewritePattern<AttentionOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    std::optional<APFloat> scale = op.getScale();
    if (!scale)
      return rewriter.notifyMatchFailure(op, "no scale");
    if (scale->convertToFloat() != getDefaultScale(op))
      return rewriter.notifyMatchFailure(op, "not the default scale");
    rewriter.modifyOpInPlace(op, [&] { op.removeScaleAttr(); });
    return success();
  }
};

/// Drops a score region that yields the score as it is.
struct DropIdentityScore : public OpRewritePattern<AttentionOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    Region &region = op.getScoreRegion();
    Value yielded = getYielded(region);
    if (!yielded || yielded != region.getArgument(0))
      return rewriter.notifyMatchFailure(op, "score region changes the score");
    eraseRegion(rewriter, op, region);
    return success();
  }
};

/// Merges a score region that multiplies by a constant into the scale.
struct MergeScaleOfScore : public OpRewritePattern<AttentionOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    Region &region = op.getScoreRegion();
    Value yielded = getYielded(region);
    auto product =
        yielded ? yielded.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
    if (!product)
      return rewriter.notifyMatchFailure(op, "score region is not a product");
    Value score = region.getArgument(0);
    Value other =
        product.getLhs() == score ? product.getRhs() : product.getLhs();
    FloatAttr factor;
    if ((product.getLhs() != score && product.getRhs() != score) ||
        !matchPattern(other, m_Constant(&factor)))
      return rewriter.notifyMatchFailure(
          op, "score region is not a product with a constant");
    float scale = op.getScaleOrDefault() * factor.getValue().convertToFloat();
    if (!std::isfinite(scale))
      return rewriter.notifyMatchFailure(op, "scale would not be finite");
    eraseRegion(rewriter, op, region);
    rewriter.modifyOpInPlace(op, [&] { op.setScale(APFloat(scale)); });
    return success();
  }
};

/// Drops a keep region that keeps everything.
struct DropTrueKeep : public OpRewritePattern<AttentionOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    Value yielded = getYielded(op.getKeepRegion());
    if (!yielded || !matchPattern(yielded, m_One()))
      return rewriter.notifyMatchFailure(op, "keep region is not always true");
    eraseRegion(rewriter, op, op.getKeepRegion());
    return success();
  }
};

/// Drops a mask that keeps every pair for the static lengths.
struct DropTrueMask : public OpRewritePattern<AttentionOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    MaskAttrInterface mask = op.getMaskAttr();
    if (!mask)
      return rewriter.notifyMatchFailure(op, "no mask");
    if (op.hasSequences())
      return rewriter.notifyMatchFailure(op, "lengths are those of sequences");
    int64_t queryLength = getDim(op.getQuery(), 2);
    int64_t keyLength = getDim(op.getKey(), 2);
    if (ShapedType::isDynamic(queryLength) || queryLength == 0 ||
        ShapedType::isDynamic(keyLength) || keyLength == 0)
      return rewriter.notifyMatchFailure(op, "lengths are dynamic or zero");
    if (mask.getConstantValue(queryLength, keyLength) != true)
      return rewriter.notifyMatchFailure(op, "mask is not always true");
    rewriter.modifyOpInPlace(op, [&] { op.removeMaskAttr(); });
    return success();
  }
};

/// Uses the source of a cast that only forgets static sizes. The tensor
/// dialect has a pattern for all operations in destination style, but it cannot
/// clone an operation with an empty region under a listener; the benefit of
/// this one is higher.
struct FoldTensorCasts : public OpRewritePattern<AttentionOp> {
  FoldTensorCasts(MLIRContext *context)
      : OpRewritePattern(context, /*benefit=*/2) {}

  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    if (!tensor::hasFoldableTensorCastOperand(op))
      return rewriter.notifyMatchFailure(op, "no cast that can be folded");
    SmallVector<Type> oldTypes(op.getResultTypes());
    SmallVector<Type> resultTypes = oldTypes;
    SmallVector<Value> operands =
        tensor::getUpdatedOperandsAfterCastOpFolding(op, resultTypes);
    rewriter.modifyOpInPlace(op, [&] {
      op->setOperands(operands);
      for (auto [result, type] : llvm::zip_equal(op.getResults(), resultTypes))
        result.setType(type);
    });
    rewriter.setInsertionPointAfter(op);
    for (auto [result, type] : llvm::zip_equal(op.getResults(), oldTypes)) {
      if (result.getType() == type)
        continue;
      auto cast = tensor::CastOp::create(rewriter, op.getLoc(), type, result);
      rewriter.replaceAllUsesExcept(result, cast, cast);
    }
    return success();
  }
};
} // namespace

void AttentionOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<FoldTensorCasts, DropDefaultScale, DropIdentityScore,
               DropTrueKeep, DropTrueMask, MergeScaleOfScore>(context);
}
