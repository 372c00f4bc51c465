//===- QuantizeOp.cpp - Tensors of 8 bits ---------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifier, effects and canonicalization of attn.quantize.
//
//===----------------------------------------------------------------------===//

#include "Destinations.h"
#include "OperandVerifiers.h"
#include "attn/Dialect/Attn/IR/AttnQuantizeOp.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnQuantizeOp.cpp.inc"

/// Sizes that a rotation may have.
static constexpr int64_t minRotated = 16, maxRotated = 1024;

MutableOperandRange QuantizeOp::getDpsInitsMutable() {
  return MutableOperandRange(*this, getOutMutable().getOperandNumber(),
                             1 + bool(getScale()) + bool(getAmax()));
}

void QuantizeOp::getEffects(EffectList &effects) {
  addOperandEffects(*this, effects);
}

Speculation::Speculatability QuantizeOp::getSpeculatability() {
  return isBufferized() ? Speculation::NotSpeculatable
                        : Speculation::Speculatable;
}

LogicalResult
QuantizeOp::reifyResultShapes(OpBuilder &builder,
                              ReifiedRankedShapedTypeDims &shapes) {
  return reifyDestinationShapes(builder, *this, shapes);
}

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

static ShapedType getShapedType(Value value) {
  return cast<ShapedType>(value.getType());
}

/// Checks that dimension `dim` of `operand` is `expected`, the size that
/// `reason` says.
static LogicalResult verifySize(QuantizeOp op, NamedOperand operand,
                                int64_t dim, int64_t expected,
                                StringRef reason) {
  int64_t actual = getDimSize(operand.value, dim);
  if (ShapedType::isDynamic(expected) || ShapedType::isDynamic(actual) ||
      expected == actual)
    return success();
  return op.emitOpError("dimension ")
         << dim << " of '" << operand.name << "' must be " << reason << ", "
         << expected << " (was " << actual << ")";
}

/// Checks the number of dimensions of scales, which states their granularity.
static LogicalResult verifyGranularity(QuantizeOp op, NamedOperand scales) {
  int64_t rank = getShapedType(scales.value).getRank();
  int64_t sourceRank = getShapedType(op.getIn()).getRank();
  if (rank != 0 && sourceRank != 4)
    return op.emitOpError("'")
           << scales.name << "' must have no dimensions, as 'in' has "
           << sourceRank << " and not 4 (has " << rank << ")";
  if (!llvm::is_contained({0, 2, 3}, rank))
    return op.emitOpError("'")
           << scales.name << "' must have 0, 2 or 3 dimensions (has " << rank
           << ")";
  std::optional<int64_t> blockSize = op.getBlockSize();
  if (blockSize && rank != 3)
    return op.emitOpError("'block_size' needs scales of 3 dimensions, but '")
           << scales.name << "' has " << rank;
  if (!blockSize && rank == 3)
    return op.emitOpError("scales of 3 dimensions, such as '")
           << scales.name << "', need 'block_size'";
  if (blockSize && *blockSize != 64 && *blockSize != 128)
    return op.emitOpError("'block_size' must be 64 or 128 (was ")
           << *blockSize << ")";
  return success();
}

static LogicalResult verifyScales(QuantizeOp op, NamedOperand scales,
                                  NamedOperand first) {
  int64_t rank = getShapedType(scales.value).getRank();
  int64_t firstRank = getShapedType(first.value).getRank();
  if (rank != firstRank)
    return op.emitOpError("'")
           << scales.name << "' must have as many dimensions as '" << first.name
           << "', " << firstRank << " (has " << rank << ")";
  for (int64_t dim : {0, 1})
    if (dim < rank &&
        failed(verifySize(op, scales, dim, getDimSize(op.getIn(), dim),
                          "that of 'in'")))
      return failure();
  if (rank < 3)
    return success();
  int64_t rows = getDimSize(op.getIn(), 2);
  int64_t blocks = ShapedType::isDynamic(rows)
                       ? rows
                       : llvm::divideCeil(rows, int64_t(*op.getBlockSize()));
  return verifySize(op, scales, 2, blocks, "the number of blocks");
}

static LogicalResult verifyRotation(QuantizeOp op) {
  ShapedType in = getShapedType(op.getIn()),
             signs = getShapedType(op.getSigns());
  int64_t size = in.getDimSize(in.getRank() - 1);
  if (ShapedType::isDynamic(size) || !llvm::isPowerOf2_64(size) ||
      size < minRotated || size > maxRotated)
    return op.emitOpError("rotates a last dimension of a power of two from ")
           << minRotated << " to " << maxRotated << " (type of 'in' was " << in
           << ")";
  if (signs.getRank() != 1)
    return op.emitOpError("'signs' must have 1 dimension (has ")
           << signs.getRank() << ")";
  if (signs.isDynamicDim(0))
    return op.emitOpError("dimension 0 of 'signs' must be static, ") << size;
  return verifySize(op, {"signs", op.getSigns()}, 0, size,
                    "the last dimension of 'in'");
}

/// Checks that memrefs that the operation writes are no other operands. Tensors
/// may be: bufferization copies them.
static LogicalResult verifyDestinations(QuantizeOp op) {
  if (!op.isBufferized())
    return success();
  NamedOperand operands[] = {
      {"in", op.getIn()},       {"given_scale", op.getGivenScale()},
      {"signs", op.getSigns()}, {"out", op.getOut()},
      {"scale", op.getScale()}, {"amax", op.getAmax()}};
  constexpr size_t numInputs = 3;
  for (size_t i = numInputs; i < std::size(operands); ++i)
    for (const NamedOperand &other : ArrayRef(operands).take_front(i))
      if (operands[i].value && operands[i].value == other.value)
        return op.emitOpError("'")
               << operands[i].name << "' must not be the memref of '"
               << other.name << "'";
  return success();
}

LogicalResult QuantizeOp::verify() {
  if (failed(verifyContainers(*this, {"in", getIn()})))
    return failure();
  if (bool(getGivenScale()) == bool(getScale()))
    return emitOpError("needs either 'given_scale' or 'scale' (has ")
           << (getScale() ? "both" : "none") << ")";
  unsigned numResults =
      isBufferized() ? 0 : 1 + bool(getScale()) + bool(getAmax());
  if ((*this)->getNumResults() != numResults)
    return emitOpError("must have ")
           << numResults << " results (has " << (*this)->getNumResults() << ")";
  ShapedType in = getShapedType(getIn()), out = getShapedType(getOut());
  if (in.getRank() != out.getRank())
    return emitOpError("'out' must have as many dimensions as 'in', ")
           << in.getRank() << " (has " << out.getRank() << ")";
  for (int64_t dim = 0; dim < in.getRank(); ++dim)
    if (failed(verifySize(*this, {"out", getOut()}, dim, in.getDimSize(dim),
                          "that of 'in'")))
      return failure();
  NamedOperand first = {getScale() ? "scale" : "given_scale", getAnyScale()};
  if (failed(verifyGranularity(*this, first)) ||
      failed(verifyScales(*this, first, first)))
    return failure();
  if (getAmax() && failed(verifyScales(*this, {"amax", getAmax()}, first)))
    return failure();
  if (failed(verifyDestinations(*this)))
    return failure();
  return getSigns() ? verifyRotation(*this) : success();
}

//===----------------------------------------------------------------------===//
// Canonicalization
//===----------------------------------------------------------------------===//

namespace {
/// Without `amax`, a given scale needs no pass over the elements before they
/// are rounded.
struct DropUnusedAmax : public OpRewritePattern<QuantizeOp> {
  using Base::Base;

  LogicalResult matchAndRewrite(QuantizeOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getAmax() || op.isBufferized())
      return rewriter.notifyMatchFailure(op, "returns no 'amax'");
    if (!op->getResults().back().use_empty())
      return rewriter.notifyMatchFailure(op, "'amax' has uses");
    SmallVector<Type> types(op->getResultTypes());
    types.pop_back();
    auto smaller = QuantizeOp::create(
        rewriter, op.getLoc(), types, op.getIn(), op.getGivenScale(),
        op.getSigns(), op.getOut(), op.getScale(), /*amax=*/Value(),
        op.getBlockSizeAttr(), op.getSaturateAttr());
    SmallVector<Value> results(smaller->getResults());
    results.push_back(op.getAmax());
    rewriter.replaceOp(op, results);
    return success();
  }
};
} // namespace

void QuantizeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                             MLIRContext *context) {
  patterns.add<DropUnusedAmax>(context);
}
