//===- AttnAttrs.cpp - Attributes of the attn dialect
//----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Named masks: their predicates and their bounds.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn;

#include "attn/Dialect/Attn/IR/AttnEnums.cpp.inc"

#include "attn/Dialect/Attn/IR/AttnAttrInterfaces.cpp.inc"

QueryBounds attn::emitLoosestQueryRange(OpBuilder &builder, Location loc) {
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  return {/*begin=*/nullptr, /*fullBegin=*/zero, /*fullEnd=*/zero,
          /*end=*/nullptr};
}

#define GET_ATTRDEF_CLASSES
#include "attn/Dialect/Attn/IR/AttnAttrs.cpp.inc"

void AttnDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "attn/Dialect/Attn/IR/AttnAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Diagonal bands
//===----------------------------------------------------------------------===//

namespace {
/// The band `i + offset - left <= j <= i + offset + right` of (query i, key j)
/// pairs. Causal masks and sliding windows are bands.
struct Band {
  std::optional<int64_t> left;
  std::optional<int64_t> right;
  MaskAlignment alignment;
};
} // namespace

/// Emits `value + constant`; no operation for a constant of zero.
static Value addConstant(OpBuilder &builder, Location loc, Value value,
                         int64_t constant) {
  if (constant == 0)
    return value;
  Value c = arith::ConstantIndexOp::create(builder, loc, constant);
  return arith::AddIOp::create(builder, loc, value, c);
}

/// Emits `i + offset`, the key on the diagonal of query `i`.
static Value emitDiagonal(OpBuilder &builder, Location loc, const Band &band,
                          Value query, Value queryLength, Value keyLength) {
  if (band.alignment == MaskAlignment::TopLeft)
    return query;
  Value offset = arith::SubIOp::create(builder, loc, keyLength, queryLength);
  return arith::AddIOp::create(builder, loc, query, offset);
}

static Value emitBandPredicate(OpBuilder &builder, Location loc,
                               const Band &band, const MaskPosition &at) {
  Value diagonal =
      emitDiagonal(builder, loc, band, at.query, at.queryLength, at.keyLength);
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

/// The queries whose keys `[diagonal - left, diagonal + right]` meet, and hold,
/// the keys of a tile.
static QueryBounds emitBandQueries(OpBuilder &builder, Location loc,
                                   const Band &band, const KeySpan &keys) {
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  // The query whose diagonal is `key`.
  auto emitQuery = [&](Value key) -> Value {
    if (band.alignment == MaskAlignment::TopLeft)
      return key;
    Value offset =
        arith::SubIOp::create(builder, loc, keys.keyLength, keys.queryLength);
    return arith::SubIOp::create(builder, loc, key, offset);
  };
  auto clamp = [&](Value query) -> Value {
    Value low = arith::MaxSIOp::create(builder, loc, query, zero);
    return arith::MinSIOp::create(builder, loc, low, keys.queryLength);
  };
  Value first = emitQuery(keys.first), last = emitQuery(keys.last);
  QueryBounds range;
  if (band.right) {
    range.begin = clamp(addConstant(builder, loc, first, -*band.right));
    range.fullBegin = clamp(addConstant(builder, loc, last, -*band.right));
  }
  if (band.left) {
    range.end = clamp(addConstant(builder, loc, last, *band.left + 1));
    range.fullEnd = clamp(addConstant(builder, loc, first, *band.left + 1));
  }
  return range;
}

static bool isInBand(const Band &band, int64_t query, int64_t key,
                     int64_t queryLength, int64_t keyLength) {
  int64_t diagonal = query;
  if (band.alignment == MaskAlignment::BottomRight)
    diagonal += keyLength - queryLength;
  if (band.right && key > diagonal + *band.right)
    return false;
  return !band.left || key >= diagonal - *band.left;
}

/// A band keeps all pairs if it keeps the corners that are furthest from its
/// diagonal, (0, keyLength - 1) and (queryLength - 1, 0); it keeps none if both
/// of the nearest corners lie outside of it on the same side.
static std::optional<bool>
getBandConstant(const Band &band, int64_t queryLength, int64_t keyLength) {
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

/// The larger or smaller one of two sides, of which an absent one is unbounded.
static std::optional<int64_t> getWiderSide(std::optional<int64_t> lhs,
                                           std::optional<int64_t> rhs) {
  return lhs && rhs ? std::max(lhs, rhs) : std::nullopt;
}

static std::optional<int64_t> getNarrowerSide(std::optional<int64_t> lhs,
                                              std::optional<int64_t> rhs) {
  return lhs && rhs ? std::min(lhs, rhs) : std::max(lhs, rhs);
}

/// The alignment to state where diagonals of both may be the same.
static MaskAlignment simplifyAlignment(MaskAlignment alignment,
                                       int64_t queryLength, int64_t keyLength) {
  bool isSquare = ShapedType::isStatic(queryLength) && queryLength == keyLength;
  return isSquare ? MaskAlignment::BottomRight : alignment;
}

/// Position of the diagonal in row 0, if it is known.
static std::optional<int64_t> getStaticOffset(MaskAlignment alignment,
                                              int64_t queryLength,
                                              int64_t keyLength) {
  if (alignment == MaskAlignment::TopLeft)
    return 0;
  if (ShapedType::isDynamic(queryLength) || ShapedType::isDynamic(keyLength))
    return std::nullopt;
  return keyLength - queryLength;
}

/// Whether a mask is known to be a band, and which one.
static std::optional<Band> getAsBand(MaskAttrInterface mask) {
  if (auto causal = dyn_cast<CausalAttr>(mask))
    return Band{std::nullopt, 0, causal.getAlignment()};
  if (auto window = dyn_cast<SlidingWindowAttr>(mask))
    return Band{window.getLeft(), window.getRight(), window.getAlignment()};
  return std::nullopt;
}

/// The simplest mask that is `band`; null if it has no bound.
static MaskAttrInterface getBandMask(MLIRContext *context, const Band &band) {
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

static MaskAttrInterface intersectBand(MaskAttrInterface mask,
                                       MaskAttrInterface other) {
  Band lhs = *getAsBand(mask);
  std::optional<Band> rhs = getAsBand(other);
  if (!rhs || lhs.alignment != rhs->alignment)
    return nullptr;
  return getBandMask(mask.getContext(),
                     {getNarrowerSide(lhs.left, rhs->left),
                      getNarrowerSide(lhs.right, rhs->right), lhs.alignment});
}

static MaskAttrInterface uniteBand(MaskAttrInterface mask,
                                   MaskAttrInterface other) {
  Band lhs = *getAsBand(mask);
  std::optional<Band> rhs = getAsBand(other);
  if (!rhs || lhs.alignment != rhs->alignment)
    return nullptr;
  return getBandMask(mask.getContext(),
                     {getWiderSide(lhs.left, rhs->left),
                      getWiderSide(lhs.right, rhs->right), lhs.alignment});
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
  return intersectBand(*this, other);
}

MaskAttrInterface CausalAttr::getUnion(MaskAttrInterface other) const {
  return uniteBand(*this, other);
}

Value CausalAttr::emitPredicate(OpBuilder &builder, Location loc,
                                const MaskPosition &at) const {
  return emitBandPredicate(builder, loc, getBand(*this), at);
}

QueryBounds CausalAttr::emitQueryRange(OpBuilder &builder, Location loc,
                                       const KeySpan &keys) const {
  return emitBandQueries(builder, loc, getBand(*this), keys);
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

/// Larger sides could overflow 32-bit position arithmetic.
static constexpr int64_t maxWindow = (int64_t(1) << 30) - 1;

LogicalResult
SlidingWindowAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                          std::optional<int64_t> left,
                          std::optional<int64_t> right, MaskAlignment) {
  if (!left && !right)
    return emitError() << "sliding window must bound at least one of 'left' "
                          "and 'right'";
  auto check = [&](StringRef name, std::optional<int64_t> side) {
    if (side && (*side < 0 || *side > maxWindow))
      return LogicalResult(emitError()
                           << "sliding window '" << name << "' must lie in [0, "
                           << maxWindow << "] (was " << *side << ")");
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

QueryBounds SlidingWindowAttr::emitQueryRange(OpBuilder &builder, Location loc,
                                              const KeySpan &keys) const {
  return emitBandQueries(builder, loc, getBand(*this), keys);
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
  return intersectBand(*this, other);
}

MaskAttrInterface SlidingWindowAttr::getUnion(MaskAttrInterface other) const {
  return uniteBand(*this, other);
}

//===----------------------------------------------------------------------===//
// What the other masks have in common
//===----------------------------------------------------------------------===//

static LogicalResult
verifyParameter(function_ref<InFlightDiagnostic()> emitError, StringRef mask,
                StringRef name, int64_t value, int64_t lowest) {
  if (value >= lowest && value <= maxWindow)
    return success();
  return emitError() << mask << " '" << name << "' must lie in [" << lowest
                     << ", " << maxWindow << "] (was " << value << ")";
}

/// The position of the diagonal in the row of `query`, as a number.
static int64_t getDiagonal(MaskAlignment alignment, int64_t query,
                           int64_t queryLength, int64_t keyLength) {
  return alignment == MaskAlignment::TopLeft ? query
                                             : query + keyLength - queryLength;
}

static Value emitDiagonal(OpBuilder &builder, Location loc,
                          MaskAlignment alignment, const MaskPosition &at) {
  return emitDiagonal(builder, loc, Band{{}, {}, alignment}, at.query,
                      at.queryLength, at.keyLength);
}

static Value emitCompare(OpBuilder &builder, Location loc,
                         arith::CmpIPredicate predicate, Value lhs,
                         int64_t rhs) {
  Value constant = arith::ConstantIndexOp::create(builder, loc, rhs);
  return arith::CmpIOp::create(builder, loc, predicate, lhs, constant);
}

//===----------------------------------------------------------------------===//
// NoneAttr
//===----------------------------------------------------------------------===//

Value NoneAttr::emitPredicate(OpBuilder &builder, Location loc,
                              const MaskPosition &at) const {
  return arith::ConstantIntOp::create(builder, loc, 0, 1);
}

bool NoneAttr::isAttended(int64_t, int64_t, int64_t, int64_t) const {
  return false;
}

std::optional<bool> NoneAttr::getConstantValue(int64_t, int64_t) const {
  return false;
}

//===----------------------------------------------------------------------===//
// PrefixLMAttr
//===----------------------------------------------------------------------===//

LogicalResult PrefixLMAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   int64_t length, MaskAlignment) {
  return verifyParameter(emitError, "prefix", "length", length, 0);
}

Value PrefixLMAttr::emitPredicate(OpBuilder &builder, Location loc,
                                  const MaskPosition &at) const {
  Value prefix =
      emitCompare(builder, loc, arith::CmpIPredicate::slt, at.key, getLength());
  Value causal =
      emitBandPredicate(builder, loc, {std::nullopt, 0, getAlignment()}, at);
  return arith::OrIOp::create(builder, loc, prefix, causal);
}

bool PrefixLMAttr::isAttended(int64_t query, int64_t key, int64_t queryLength,
                              int64_t keyLength) const {
  return key < getLength() ||
         key <= getDiagonal(getAlignment(), query, queryLength, keyLength);
}

std::optional<bool> PrefixLMAttr::getConstantValue(int64_t queryLength,
                                                   int64_t keyLength) const {
  if (getLength() >= keyLength)
    return true;
  std::optional<bool> causal = getBandConstant(
      {std::nullopt, 0, getAlignment()}, queryLength, keyLength);
  return causal == true || getLength() == 0 ? causal : std::nullopt;
}

MaskAttrInterface PrefixLMAttr::simplify(int64_t queryLength,
                                         int64_t keyLength) const {
  MaskAlignment alignment =
      simplifyAlignment(getAlignment(), queryLength, keyLength);
  if (getLength() == 0)
    return CausalAttr::get(getContext(), alignment);
  return PrefixLMAttr::get(getContext(), getLength(), alignment);
}

MaskAttrInterface PrefixLMAttr::getIntersection(MaskAttrInterface other) const {
  auto prefix = dyn_cast<PrefixLMAttr>(other);
  if (!prefix || prefix.getAlignment() != getAlignment())
    return nullptr;
  return PrefixLMAttr::get(
      getContext(), std::min(getLength(), prefix.getLength()), getAlignment());
}

MaskAttrInterface PrefixLMAttr::getUnion(MaskAttrInterface other) const {
  auto prefix = dyn_cast<PrefixLMAttr>(other);
  if (!prefix || prefix.getAlignment() != getAlignment())
    return nullptr;
  return PrefixLMAttr::get(
      getContext(), std::max(getLength(), prefix.getLength()), getAlignment());
}

//===----------------------------------------------------------------------===//
// DilatedWindowAttr
//===----------------------------------------------------------------------===//

LogicalResult
DilatedWindowAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                          int64_t left, int64_t right, int64_t dilation,
                          MaskAlignment) {
  if (failed(verifyParameter(emitError, "dilated window", "left", left, 0)) ||
      failed(verifyParameter(emitError, "dilated window", "right", right, 0)))
    return failure();
  return verifyParameter(emitError, "dilated window", "dilation", dilation, 1);
}

Value DilatedWindowAttr::emitPredicate(OpBuilder &builder, Location loc,
                                       const MaskPosition &at) const {
  Value window = emitBandPredicate(builder, loc,
                                   {getLeft(), getRight(), getAlignment()}, at);
  Value diagonal = emitDiagonal(builder, loc, getAlignment(), at);
  Value distance = arith::SubIOp::create(builder, loc, diagonal, at.key);
  Value dilation = arith::ConstantIndexOp::create(builder, loc, getDilation());
  Value rest = arith::RemSIOp::create(builder, loc, distance, dilation);
  Value isMultiple =
      emitCompare(builder, loc, arith::CmpIPredicate::eq, rest, 0);
  return arith::AndIOp::create(builder, loc, window, isMultiple);
}

bool DilatedWindowAttr::isAttended(int64_t query, int64_t key,
                                   int64_t queryLength,
                                   int64_t keyLength) const {
  int64_t distance =
      getDiagonal(getAlignment(), query, queryLength, keyLength) - key;
  return -getRight() <= distance && distance <= getLeft() &&
         distance % getDilation() == 0;
}

std::optional<bool>
DilatedWindowAttr::getConstantValue(int64_t queryLength,
                                    int64_t keyLength) const {
  std::optional<bool> window = getBandConstant(
      {getLeft(), getRight(), getAlignment()}, queryLength, keyLength);
  return window == false || getDilation() == 1 ? window : std::nullopt;
}

MaskAttrInterface DilatedWindowAttr::simplify(int64_t queryLength,
                                              int64_t keyLength) const {
  MaskAlignment alignment =
      simplifyAlignment(getAlignment(), queryLength, keyLength);
  int64_t left = getLeft(), right = getRight(), dilation = getDilation();
  if (dilation == 1)
    return SlidingWindowAttr::get(getContext(), left, right, alignment)
        .simplify(queryLength, keyLength);
  // The sides end at keys that are attended.
  left -= left % dilation;
  right -= right % dilation;
  if (left == 0 && right == 0)
    return SlidingWindowAttr::get(getContext(), 0, 0, alignment)
        .simplify(queryLength, keyLength);
  return DilatedWindowAttr::get(getContext(), left, right, dilation, alignment);
}

MaskAttrInterface
DilatedWindowAttr::getIntersection(MaskAttrInterface other) const {
  std::optional<Band> band = getAsBand(other);
  if (!band || band->alignment != getAlignment())
    return nullptr;
  return DilatedWindowAttr::get(
      getContext(), *getNarrowerSide(getLeft(), band->left),
      *getNarrowerSide(getRight(), band->right), getDilation(), getAlignment());
}

//===----------------------------------------------------------------------===//
// LocalBlocksAttr
//===----------------------------------------------------------------------===//

LogicalResult
LocalBlocksAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        int64_t size, std::optional<int64_t> before,
                        std::optional<int64_t> after, MaskAlignment) {
  if (!before && !after)
    return emitError() << "local blocks must bound at least one of 'before' "
                          "and 'after'";
  if (failed(verifyParameter(emitError, "local blocks", "size", size, 1)))
    return failure();
  if (after &&
      failed(verifyParameter(emitError, "local blocks", "after", *after, 0)))
    return failure();
  if (before)
    return verifyParameter(emitError, "local blocks", "before", *before, 0);
  return success();
}

Value LocalBlocksAttr::emitPredicate(OpBuilder &builder, Location loc,
                                     const MaskPosition &at) const {
  Value size = arith::ConstantIndexOp::create(builder, loc, getSize());
  Value diagonal = emitDiagonal(builder, loc, getAlignment(), at);
  // Only a diagonal from the bottom right corner may be negative.
  Value own =
      getAlignment() == MaskAlignment::TopLeft
          ? arith::DivUIOp::create(builder, loc, diagonal, size).getResult()
          : arith::FloorDivSIOp::create(builder, loc, diagonal, size)
                .getResult();
  Value block = arith::DivUIOp::create(builder, loc, at.key, size);
  Value keep;
  if (getAfter())
    keep = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, block,
                                 addConstant(builder, loc, own, *getAfter()));
  if (!getBefore())
    return keep;
  Value inside =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, block,
                            addConstant(builder, loc, own, -*getBefore()));
  if (!keep)
    return inside;
  return arith::AndIOp::create(builder, loc, keep, inside);
}

bool LocalBlocksAttr::isAttended(int64_t query, int64_t key,
                                 int64_t queryLength, int64_t keyLength) const {
  int64_t own = llvm::divideFloorSigned(
      getDiagonal(getAlignment(), query, queryLength, keyLength), getSize());
  int64_t block = key / getSize();
  return (!getAfter() || block <= own + *getAfter()) &&
         (!getBefore() || block >= own - *getBefore());
}

std::optional<bool> LocalBlocksAttr::getConstantValue(int64_t queryLength,
                                                      int64_t keyLength) const {
  // Blocks of rows are ordered, so that the corners decide.
  if (isAttended(0, keyLength - 1, queryLength, keyLength) &&
      isAttended(queryLength - 1, 0, queryLength, keyLength))
    return true;
  return std::nullopt;
}

MaskAttrInterface LocalBlocksAttr::simplify(int64_t queryLength,
                                            int64_t keyLength) const {
  MaskAlignment alignment =
      simplifyAlignment(getAlignment(), queryLength, keyLength);
  if (getSize() == 1)
    return SlidingWindowAttr::get(getContext(), getBefore(), getAfter(),
                                  alignment)
        .simplify(queryLength, keyLength);
  std::optional<int64_t> before = getBefore(), after = getAfter();
  if (std::optional<int64_t> offset =
          getStaticOffset(alignment, queryLength, keyLength)) {
    auto getBlock = [&](int64_t position) {
      return llvm::divideFloorSigned(position, getSize());
    };
    if (before && ShapedType::isStatic(queryLength) &&
        *before >= getBlock(queryLength - 1 + *offset))
      before = std::nullopt;
    if (after && ShapedType::isStatic(keyLength) &&
        *after >= getBlock(keyLength - 1) - getBlock(*offset))
      after = std::nullopt;
    // Without bounds they are no blocks.
    if (!before && !after) {
      before = getBefore();
      after = getAfter();
    }
  }
  return LocalBlocksAttr::get(getContext(), getSize(), before, after,
                              alignment);
}

MaskAttrInterface
LocalBlocksAttr::getIntersection(MaskAttrInterface other) const {
  auto blocks = dyn_cast<LocalBlocksAttr>(other);
  if (!blocks || blocks.getSize() != getSize() ||
      blocks.getAlignment() != getAlignment())
    return nullptr;
  return LocalBlocksAttr::get(
      getContext(), getSize(), getNarrowerSide(getBefore(), blocks.getBefore()),
      getNarrowerSide(getAfter(), blocks.getAfter()), getAlignment());
}

MaskAttrInterface LocalBlocksAttr::getUnion(MaskAttrInterface other) const {
  auto blocks = dyn_cast<LocalBlocksAttr>(other);
  if (!blocks || blocks.getSize() != getSize() ||
      blocks.getAlignment() != getAlignment())
    return nullptr;
  std::optional<int64_t> before = getWiderSide(getBefore(), blocks.getBefore());
  std::optional<int64_t> after = getWiderSide(getAfter(), blocks.getAfter());
  if (!before && !after)
    return nullptr;
  return LocalBlocksAttr::get(getContext(), getSize(), before, after,
                              getAlignment());
}

//===----------------------------------------------------------------------===//
// GlobalTokensAttr
//===----------------------------------------------------------------------===//

LogicalResult
GlobalTokensAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         int64_t count) {
  return verifyParameter(emitError, "global tokens", "count", count, 0);
}

Value GlobalTokensAttr::emitPredicate(OpBuilder &builder, Location loc,
                                      const MaskPosition &at) const {
  Value query = emitCompare(builder, loc, arith::CmpIPredicate::slt, at.query,
                            getCount());
  Value key =
      emitCompare(builder, loc, arith::CmpIPredicate::slt, at.key, getCount());
  return arith::OrIOp::create(builder, loc, query, key);
}

bool GlobalTokensAttr::isAttended(int64_t query, int64_t key, int64_t,
                                  int64_t) const {
  return query < getCount() || key < getCount();
}

std::optional<bool>
GlobalTokensAttr::getConstantValue(int64_t queryLength,
                                   int64_t keyLength) const {
  if (getCount() == 0)
    return false;
  if (getCount() >= std::min(queryLength, keyLength))
    return true;
  return std::nullopt;
}

MaskAttrInterface
GlobalTokensAttr::getIntersection(MaskAttrInterface other) const {
  auto tokens = dyn_cast<GlobalTokensAttr>(other);
  if (!tokens)
    return nullptr;
  return GlobalTokensAttr::get(getContext(),
                               std::min(getCount(), tokens.getCount()));
}

MaskAttrInterface GlobalTokensAttr::getUnion(MaskAttrInterface other) const {
  auto tokens = dyn_cast<GlobalTokensAttr>(other);
  if (!tokens)
    return nullptr;
  return GlobalTokensAttr::get(getContext(),
                               std::max(getCount(), tokens.getCount()));
}

//===----------------------------------------------------------------------===//
// AndAttr, OrAttr and NotAttr
//===----------------------------------------------------------------------===//

static LogicalResult
verifyComposite(function_ref<InFlightDiagnostic()> emitError,
                ArrayRef<MaskAttrInterface> masks) {
  if (masks.empty())
    return emitError() << "needs at least one mask";
  return success();
}

LogicalResult AndAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                              ArrayRef<MaskAttrInterface> masks) {
  return verifyComposite(emitError, masks);
}

LogicalResult OrAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                             ArrayRef<MaskAttrInterface> masks) {
  return verifyComposite(emitError, masks);
}

/// The operands that parts of a composite read.
static SmallVector<int64_t> getReadsOf(ArrayRef<MaskAttrInterface> masks) {
  SmallVector<int64_t> reads;
  for (MaskAttrInterface mask : masks)
    llvm::append_range(reads, mask.getReads());
  return reads;
}

static LogicalResult verifyReadsOf(ArrayRef<MaskAttrInterface> masks,
                                   function_ref<InFlightDiagnostic()> emitError,
                                   const MaskReads &reads) {
  return success(llvm::all_of(masks, [&](MaskAttrInterface mask) {
    return succeeded(mask.verifyReads(emitError, reads));
  }));
}

template <typename OpTy>
static Value emitComposite(OpBuilder &builder, Location loc,
                           const MaskPosition &at,
                           ArrayRef<MaskAttrInterface> masks) {
  Value result = masks.front().emitPredicate(builder, loc, at);
  for (MaskAttrInterface mask : masks.drop_front())
    result = OpTy::create(builder, loc, result,
                          mask.emitPredicate(builder, loc, at));
  return result;
}

/// The value of a composite of which `absorbing` is the value as soon as one
/// part has it.
static std::optional<bool>
getCompositeConstant(ArrayRef<MaskAttrInterface> masks, bool absorbing,
                     int64_t queryLength, int64_t keyLength) {
  std::optional<bool> result = !absorbing;
  for (MaskAttrInterface mask : masks) {
    std::optional<bool> value = mask.getConstantValue(queryLength, keyLength);
    if (value == absorbing)
      return absorbing;
    if (!value)
      result = std::nullopt;
  }
  return result;
}

SmallVector<int64_t> AndAttr::getReads() const {
  return getReadsOf(getMasks());
}

LogicalResult AndAttr::verifyReads(function_ref<InFlightDiagnostic()> emitError,
                                   const MaskReads &reads) const {
  return verifyReadsOf(getMasks(), emitError, reads);
}

Value AndAttr::emitPredicate(OpBuilder &builder, Location loc,
                             const MaskPosition &at) const {
  return emitComposite<arith::AndIOp>(builder, loc, at, getMasks());
}

bool AndAttr::isAttended(int64_t query, int64_t key, int64_t queryLength,
                         int64_t keyLength) const {
  return llvm::all_of(getMasks(), [&](MaskAttrInterface mask) {
    return mask.isAttended(query, key, queryLength, keyLength);
  });
}

std::optional<bool> AndAttr::getConstantValue(int64_t queryLength,
                                              int64_t keyLength) const {
  return getCompositeConstant(getMasks(), /*absorbing=*/false, queryLength,
                              keyLength);
}

SmallVector<int64_t> OrAttr::getReads() const { return getReadsOf(getMasks()); }

LogicalResult OrAttr::verifyReads(function_ref<InFlightDiagnostic()> emitError,
                                  const MaskReads &reads) const {
  return verifyReadsOf(getMasks(), emitError, reads);
}

Value OrAttr::emitPredicate(OpBuilder &builder, Location loc,
                            const MaskPosition &at) const {
  return emitComposite<arith::OrIOp>(builder, loc, at, getMasks());
}

bool OrAttr::isAttended(int64_t query, int64_t key, int64_t queryLength,
                        int64_t keyLength) const {
  return llvm::any_of(getMasks(), [&](MaskAttrInterface mask) {
    return mask.isAttended(query, key, queryLength, keyLength);
  });
}

std::optional<bool> OrAttr::getConstantValue(int64_t queryLength,
                                             int64_t keyLength) const {
  return getCompositeConstant(getMasks(), /*absorbing=*/true, queryLength,
                              keyLength);
}

SmallVector<int64_t> NotAttr::getReads() const { return getMask().getReads(); }

LogicalResult NotAttr::verifyReads(function_ref<InFlightDiagnostic()> emitError,
                                   const MaskReads &reads) const {
  return getMask().verifyReads(emitError, reads);
}

Value NotAttr::emitPredicate(OpBuilder &builder, Location loc,
                             const MaskPosition &at) const {
  Value kept = getMask().emitPredicate(builder, loc, at);
  Value one = arith::ConstantIntOp::create(builder, loc, 1, 1);
  return arith::XOrIOp::create(builder, loc, kept, one);
}

bool NotAttr::isAttended(int64_t query, int64_t key, int64_t queryLength,
                         int64_t keyLength) const {
  // Of pairs that a mask of operands may keep, it may keep none.
  return !getMask().getReads().empty() ||
         !getMask().isAttended(query, key, queryLength, keyLength);
}

std::optional<bool> NotAttr::getConstantValue(int64_t queryLength,
                                              int64_t keyLength) const {
  std::optional<bool> value =
      getMask().getConstantValue(queryLength, keyLength);
  if (value)
    return !*value;
  return std::nullopt;
}

/// De Morgan: what is left out by both, or by one, of two masks.
static MaskAttrInterface getNegated(MaskAttrInterface mask) {
  return mask ? MaskAttrInterface(NotAttr::get(mask.getContext(), mask))
              : nullptr;
}

MaskAttrInterface NotAttr::getIntersection(MaskAttrInterface other) const {
  auto negated = dyn_cast<NotAttr>(other);
  return negated ? getNegated(getMask().getUnion(negated.getMask())) : nullptr;
}

MaskAttrInterface NotAttr::getUnion(MaskAttrInterface other) const {
  auto negated = dyn_cast<NotAttr>(other);
  return negated ? getNegated(getMask().getIntersection(negated.getMask()))
                 : nullptr;
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

LogicalResult
ByQueryLengthAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                          int64_t bound, ScheduleAttrInterface below,
                          ScheduleAttrInterface from) {
  if (bound < 2)
    return emitError() << "bound must be at least 2 (was " << bound << ")";
  return success();
}
