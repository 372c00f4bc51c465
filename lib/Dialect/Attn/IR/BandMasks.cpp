//===- BandMasks.cpp - Masks that are bands of diagonals ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Causal masks and sliding windows, and the common parts of bands.
//
//===----------------------------------------------------------------------===//

#include "BandMasks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Bands
//===----------------------------------------------------------------------===//

Value attn::addConstant(OpBuilder &builder, Location loc, Value value,
                        int64_t constant) {
  if (constant == 0)
    return value;
  Value c = arith::ConstantIndexOp::create(builder, loc, constant);
  return arith::AddIOp::create(builder, loc, value, c);
}

Value attn::emitDiagonal(OpBuilder &builder, Location loc,
                         MaskAlignment alignment, const MaskPosition &at) {
  if (alignment == MaskAlignment::TopLeft)
    return at.query;
  Value offset =
      arith::SubIOp::create(builder, loc, at.keyLength, at.queryLength);
  return arith::AddIOp::create(builder, loc, at.query, offset);
}

int64_t attn::getDiagonal(MaskAlignment alignment, int64_t query,
                          int64_t queryLength, int64_t keyLength) {
  return alignment == MaskAlignment::TopLeft ? query
                                             : query + keyLength - queryLength;
}

Value attn::emitBandPredicate(OpBuilder &builder, Location loc,
                              const Band &band, const MaskPosition &at) {
  Value diagonal = emitDiagonal(builder, loc, band.alignment, at);
  Value keep;
  if (band.right) {
    Value limit = addConstant(builder, loc, diagonal, *band.right);
    keep = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle,
                                 at.key, limit);
  }
  if (band.left) {
    Value limit = addConstant(builder, loc, diagonal, -*band.left);
    Value inside = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::sge, at.key, limit);
    keep = keep ? arith::AndIOp::create(builder, loc, keep, inside).getResult()
                : inside;
  }
  if (!keep)
    keep = arith::ConstantIntOp::create(builder, loc, 1, 1);
  return keep;
}

bool attn::isInBand(const Band &band, int64_t query, int64_t key,
                    int64_t queryLength, int64_t keyLength) {
  int64_t diagonal = getDiagonal(band.alignment, query, queryLength, keyLength);
  if (band.right && key > diagonal + *band.right)
    return false;
  return !band.left || key >= diagonal - *band.left;
}

/// A band keeps all pairs if it keeps the corners that are furthest from its
/// diagonal, (0, keyLength - 1) and (queryLength - 1, 0); it keeps none if both
/// of the nearest corners lie outside of it on the same side.
std::optional<bool> attn::getBandConstant(const Band &band, int64_t queryLength,
                                          int64_t keyLength) {
  Band right{std::nullopt, band.right, band.alignment};
  Band left{band.left, std::nullopt, band.alignment};
  bool allRight = isInBand(right, 0, keyLength - 1, queryLength, keyLength);
  bool allLeft = isInBand(left, queryLength - 1, 0, queryLength, keyLength);
  if (allRight && allLeft)
    return true;
  if (!isInBand(right, queryLength - 1, 0, queryLength, keyLength) ||
      !isInBand(left, 0, keyLength - 1, queryLength, keyLength))
    return false;
  return std::nullopt;
}

std::optional<int64_t> attn::getWiderSide(std::optional<int64_t> lhs,
                                          std::optional<int64_t> rhs) {
  return lhs && rhs ? std::max(lhs, rhs) : std::nullopt;
}

std::optional<int64_t> attn::getNarrowerSide(std::optional<int64_t> lhs,
                                             std::optional<int64_t> rhs) {
  return lhs && rhs ? std::min(lhs, rhs) : std::max(lhs, rhs);
}

MaskAlignment attn::simplifyAlignment(MaskAlignment alignment,
                                      int64_t queryLength, int64_t keyLength) {
  bool isSquare = ShapedType::isStatic(queryLength) && queryLength == keyLength;
  return isSquare ? MaskAlignment::BottomRight : alignment;
}

std::optional<int64_t> attn::getStaticOffset(MaskAlignment alignment,
                                             int64_t queryLength,
                                             int64_t keyLength) {
  if (alignment == MaskAlignment::TopLeft)
    return 0;
  if (ShapedType::isDynamic(queryLength) || ShapedType::isDynamic(keyLength))
    return std::nullopt;
  return keyLength - queryLength;
}

std::optional<Band> attn::getAsBand(MaskAttrInterface mask) {
  if (auto causal = dyn_cast<CausalAttr>(mask))
    return Band{std::nullopt, 0, causal.getAlignment()};
  if (auto window = dyn_cast<SlidingWindowAttr>(mask))
    return Band{window.getLeft(), window.getRight(), window.getAlignment()};
  return std::nullopt;
}

MaskAttrInterface attn::getBandMask(MLIRContext *context, const Band &band) {
  if (!band.left && !band.right)
    return nullptr;
  if (!band.left && band.right == 0)
    return CausalAttr::get(context, band.alignment);
  return SlidingWindowAttr::get(context, band.left, band.right, band.alignment);
}

static MaskAttrInterface simplifyBand(MaskAttrInterface mask,
                                      int64_t queryLength, int64_t keyLength) {
  Band band = *getAsBand(mask);
  band.alignment = simplifyAlignment(band.alignment, queryLength, keyLength);
  Band reached = band;
  if (std::optional<int64_t> offset =
          getStaticOffset(band.alignment, queryLength, keyLength)) {
    if (band.left && ShapedType::isStatic(queryLength) &&
        *band.left >= queryLength - 1 + *offset)
      reached.left = std::nullopt;
    if (band.right && ShapedType::isStatic(keyLength) &&
        *band.right >= keyLength - 1 - *offset)
      reached.right = std::nullopt;
  }
  // A band without bounds is no band.
  MaskAttrInterface result = getBandMask(mask.getContext(), reached);
  return result ? result : getBandMask(mask.getContext(), band);
}

/// The band whose sides `getSide` finds from two sides at a time; null where
/// `other` is no band of the same alignment.
static MaskAttrInterface
combineBands(MaskAttrInterface mask, MaskAttrInterface other,
             function_ref<std::optional<int64_t>(std::optional<int64_t>,
                                                 std::optional<int64_t>)>
                 getSide) {
  Band lhs = *getAsBand(mask);
  std::optional<Band> rhs = getAsBand(other);
  if (!rhs || lhs.alignment != rhs->alignment)
    return nullptr;
  return getBandMask(mask.getContext(),
                     {getSide(lhs.left, rhs->left),
                      getSide(lhs.right, rhs->right), lhs.alignment});
}

LogicalResult
attn::verifyMaskParameter(function_ref<InFlightDiagnostic()> emitError,
                          StringRef mask, StringRef name, int64_t value,
                          int64_t lowest) {
  if (value >= lowest && value <= maxMaskParameter)
    return success();
  return emitError() << mask << " '" << name << "' must lie in [" << lowest
                     << ", " << maxMaskParameter << "] (was " << value << ")";
}

Value attn::emitCompare(OpBuilder &builder, Location loc,
                        arith::CmpIPredicate predicate, Value lhs,
                        int64_t rhs) {
  Value constant = arith::ConstantIndexOp::create(builder, loc, rhs);
  return arith::CmpIOp::create(builder, loc, predicate, lhs, constant);
}

//===----------------------------------------------------------------------===//
// CausalAttr
//===----------------------------------------------------------------------===//

static Band getBand(CausalAttr mask) {
  return {std::nullopt, 0, mask.getAlignment()};
}

MaskAttrInterface CausalAttr::simplify(int64_t queryLength,
                                       int64_t keyLength) const {
  return simplifyBand(*this, queryLength, keyLength);
}

MaskAttrInterface CausalAttr::getIntersection(MaskAttrInterface other) const {
  return combineBands(*this, other, getNarrowerSide);
}

MaskAttrInterface CausalAttr::getUnion(MaskAttrInterface other) const {
  return combineBands(*this, other, getWiderSide);
}

Value CausalAttr::emitPredicate(OpBuilder &builder, Location loc,
                                const MaskPosition &at) const {
  return emitBandPredicate(builder, loc, getBand(*this), at);
}

bool CausalAttr::isAttended(int64_t query, int64_t key, int64_t queryLength,
                            int64_t keyLength) const {
  return isInBand(getBand(*this), query, key, queryLength, keyLength);
}

std::optional<bool> CausalAttr::getConstantValue(int64_t queryLength,
                                                 int64_t keyLength) const {
  return getBandConstant(getBand(*this), queryLength, keyLength);
}

//===----------------------------------------------------------------------===//
// SlidingWindowAttr
//===----------------------------------------------------------------------===//

static Band getBand(SlidingWindowAttr mask) {
  return {mask.getLeft(), mask.getRight(), mask.getAlignment()};
}

LogicalResult
SlidingWindowAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                          std::optional<int64_t> left,
                          std::optional<int64_t> right, MaskAlignment) {
  if (!left && !right)
    return emitError() << "sliding window must bound at least one of 'left' "
                          "and 'right'";
  auto check = [&](StringRef name, std::optional<int64_t> side) {
    if (side && (*side < 0 || *side > maxMaskParameter))
      return LogicalResult(emitError()
                           << "sliding window '" << name << "' must lie in [0, "
                           << maxMaskParameter << "] (was " << *side << ")");
    return success();
  };
  if (failed(check("left", left)))
    return failure();
  return check("right", right);
}

Value SlidingWindowAttr::emitPredicate(OpBuilder &builder, Location loc,
                                       const MaskPosition &at) const {
  return emitBandPredicate(builder, loc, getBand(*this), at);
}

bool SlidingWindowAttr::isAttended(int64_t query, int64_t key,
                                   int64_t queryLength,
                                   int64_t keyLength) const {
  return isInBand(getBand(*this), query, key, queryLength, keyLength);
}

std::optional<bool>
SlidingWindowAttr::getConstantValue(int64_t queryLength,
                                    int64_t keyLength) const {
  return getBandConstant(getBand(*this), queryLength, keyLength);
}

MaskAttrInterface SlidingWindowAttr::simplify(int64_t queryLength,
                                              int64_t keyLength) const {
  return simplifyBand(*this, queryLength, keyLength);
}

MaskAttrInterface
SlidingWindowAttr::getIntersection(MaskAttrInterface other) const {
  return combineBands(*this, other, getNarrowerSide);
}

MaskAttrInterface SlidingWindowAttr::getUnion(MaskAttrInterface other) const {
  return combineBands(*this, other, getWiderSide);
}
