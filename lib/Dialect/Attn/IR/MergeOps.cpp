//===- MergeOps.cpp - Partial results of attention ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers, effects and canonicalization of merges and their gradients.
//
//===----------------------------------------------------------------------===//

#include "Destinations.h"
#include "OperandVerifiers.h"
#include "attn/Dialect/Attn/IR/AttnMergeOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn;

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnMergeOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Common parts
//===----------------------------------------------------------------------===//

/// The operands with a head dim or without one, with their names in
/// diagnostics.
using NamedOperands = SmallVector<std::pair<std::string, Value>>;

static void addAll(NamedOperands &named, StringRef name, ValueRange values) {
  for (auto [number, value] : llvm::enumerate(values))
    named.emplace_back((name + "[" + Twine(number) + "]").str(), value);
}

template <typename OpTy>
static int64_t computeAccessWidth(OpTy op) {
  int64_t width = 0;
  for (Value operand : op->getOperands()) {
    auto type = cast<ShapedType>(operand.getType());
    if (type.getRank() == 4)
      width =
          std::max(width, maxAccessBytes * 8 / type.getElementTypeBitWidth());
  }
  return std::gcd(width, op.getHeadDim());
}

/// Checks the number of operands of `name`, of which each partial result has
/// one.
static LogicalResult verifyCount(Operation *op, StringRef name,
                                 ValueRange values, ValueRange partialOuts) {
  if (values.size() == partialOuts.size())
    return success();
  return op->emitOpError("needs as many '")
         << name << "' as 'partial_outs', " << partialOuts.size() << " (was "
         << values.size() << ")";
}

/// Checks that all operands are tensors or all are memrefs, that dimensions 1
/// and 3 are static, and that sizes match `partial_outs[0]`.
template <typename OpTy>
static LogicalResult verifyOperands(OpTy op, const NamedOperands &operands) {
  auto first = cast<ShapedType>(operands.front().second.getType());
  for (const auto &[name, value] : operands) {
    auto type = cast<ShapedType>(value.getType());
    if (isa<MemRefType>(type) != isa<MemRefType>(first))
      return op.emitOpError("operands must be all tensors or all memrefs, but "
                            "'partial_outs[0]' is ")
             << first << " and '" << name << "' is " << type;
    if (failed(verifyHeadSizes(op, {name, value})))
      return failure();
    for (int64_t dim = 0; dim < type.getRank(); ++dim) {
      int64_t expected = first.getDimSize(dim), actual = type.getDimSize(dim);
      if (!ShapedType::isDynamic(expected) && !ShapedType::isDynamic(actual) &&
          expected != actual)
        return op.emitOpError("dimension ")
               << dim << " of '" << name << "' must be that of "
               << "'partial_outs[0]', " << expected << " (was " << actual
               << ")";
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// MergeOp
//===----------------------------------------------------------------------===//

int64_t MergeOp::getAccessWidth() { return computeAccessWidth(*this); }

MutableOperandRange MergeOp::getDpsInitsMutable() {
  return MutableOperandRange(*this, getOutMutable().getOperandNumber(),
                             1 + bool(getLse()));
}

void MergeOp::getEffects(EffectList &effects) {
  addOperandEffects(*this, effects);
}

Speculation::Speculatability MergeOp::getSpeculatability() {
  return isBufferized() ? Speculation::NotSpeculatable
                        : Speculation::Speculatable;
}

LogicalResult MergeOp::reifyResultShapes(OpBuilder &builder,
                                         ReifiedRankedShapedTypeDims &shapes) {
  return reifyDestinationShapes(builder, *this, shapes);
}

LogicalResult MergeOp::verify() {
  if (getPartialOuts().empty())
    return emitOpError("needs at least one partial result");
  if (failed(verifyCount(*this, "partial_lses", getPartialLses(),
                         getPartialOuts())))
    return failure();
  NamedOperands operands;
  addAll(operands, "partial_outs", getPartialOuts());
  addAll(operands, "partial_lses", getPartialLses());
  operands.emplace_back("out", getOut());
  if (getLse())
    operands.emplace_back("lse", getLse());
  return verifyOperands(*this, operands);
}

/// The merge of one partial result is that result.
LogicalResult MergeOp::fold(FoldAdaptor,
                            SmallVectorImpl<OpFoldResult> &results) {
  if (isBufferized() || getPartialOuts().size() != 1)
    return failure();
  SmallVector<Value> values = {getPartialOuts().front()};
  if (getLse())
    values.push_back(getPartialLses().front());
  if (ValueRange(values).getTypes() != (*this)->getResultTypes())
    return failure();
  llvm::append_range(results, values);
  return success();
}

namespace {
/// Merges the partial results of a merge that is a partial result itself, and
/// has no other use.
struct FlattenMerges : public OpRewritePattern<MergeOp> {
  using Base::Base;

  static MergeOp getInner(Value out, Value lse) {
    auto inner = out.getDefiningOp<MergeOp>();
    bool isPartial = inner && inner.getLse() && inner->getNumResults() == 2 &&
                     out == inner->getResult(0) && lse == inner->getResult(1) &&
                     out.hasOneUse() && lse.hasOneUse();
    return isPartial ? inner : MergeOp();
  }

  LogicalResult matchAndRewrite(MergeOp op,
                                PatternRewriter &rewriter) const override {
    SmallVector<Value> outs, lses;
    for (auto [out, lse] :
         llvm::zip_equal(op.getPartialOuts(), op.getPartialLses())) {
      MergeOp inner = getInner(out, lse);
      llvm::append_range(outs, inner ? ValueRange(inner.getPartialOuts())
                                     : ValueRange(out));
      llvm::append_range(lses, inner ? ValueRange(inner.getPartialLses())
                                     : ValueRange(lse));
    }
    if (outs.size() == op.getPartialOuts().size())
      return rewriter.notifyMatchFailure(op, "no partial result is a merge");
    rewriter.modifyOpInPlace(op, [&] {
      op.getPartialOutsMutable().assign(outs);
      op.getPartialLsesMutable().assign(lses);
    });
    return success();
  }
};
} // namespace

void MergeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                          MLIRContext *context) {
  patterns.add<FlattenMerges>(context);
}

//===----------------------------------------------------------------------===//
// MergeGradOp
//===----------------------------------------------------------------------===//

int64_t MergeGradOp::getAccessWidth() { return computeAccessWidth(*this); }

MutableOperandRange MergeGradOp::getDpsInitsMutable() {
  unsigned count = getDpartialOuts().size() + getDpartialLses().size();
  return MutableOperandRange(*this, (*this)->getNumOperands() - count, count);
}

void MergeGradOp::getEffects(EffectList &effects) {
  addOperandEffects(*this, effects);
}

Speculation::Speculatability MergeGradOp::getSpeculatability() {
  return isBufferized() ? Speculation::NotSpeculatable
                        : Speculation::Speculatable;
}

LogicalResult
MergeGradOp::reifyResultShapes(OpBuilder &builder,
                               ReifiedRankedShapedTypeDims &shapes) {
  return reifyDestinationShapes(builder, *this, shapes);
}

LogicalResult MergeGradOp::verify() {
  if (getPartialOuts().empty())
    return emitOpError("needs at least one partial result");
  for (auto [name, values] :
       {std::pair<StringRef, ValueRange>{"partial_lses", getPartialLses()},
        {"dpartial_outs", getDpartialOuts()},
        {"dpartial_lses", getDpartialLses()}})
    if (failed(verifyCount(*this, name, values, getPartialOuts())))
      return failure();
  NamedOperands operands;
  addAll(operands, "partial_outs", getPartialOuts());
  addAll(operands, "partial_lses", getPartialLses());
  operands.emplace_back("dout", getDout());
  if (getDlse())
    operands.emplace_back("dlse", getDlse());
  addAll(operands, "dpartial_outs", getDpartialOuts());
  addAll(operands, "dpartial_lses", getDpartialLses());
  return verifyOperands(*this, operands);
}
