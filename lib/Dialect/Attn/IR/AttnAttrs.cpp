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

//===----------------------------------------------------------------------===//
// CausalAttr
//===----------------------------------------------------------------------===//

static Band getBand(CausalAttr mask) {
  return {std::nullopt, 0, mask.getAlignment()};
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

//===----------------------------------------------------------------------===//
// LocalBlocksAttr
//===----------------------------------------------------------------------===//

LogicalResult
LocalBlocksAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        int64_t size, std::optional<int64_t> before,
                        int64_t after, MaskAlignment) {
  if (failed(verifyParameter(emitError, "local blocks", "size", size, 1)) ||
      failed(verifyParameter(emitError, "local blocks", "after", after, 0)))
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
  Value keep =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, block,
                            addConstant(builder, loc, own, getAfter()));
  if (!getBefore())
    return keep;
  Value inside =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, block,
                            addConstant(builder, loc, own, -*getBefore()));
  return arith::AndIOp::create(builder, loc, keep, inside);
}

bool LocalBlocksAttr::isAttended(int64_t query, int64_t key,
                                 int64_t queryLength, int64_t keyLength) const {
  int64_t own = llvm::divideFloorSigned(
      getDiagonal(getAlignment(), query, queryLength, keyLength), getSize());
  int64_t block = key / getSize();
  return block <= own + getAfter() &&
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

Value NotAttr::emitPredicate(OpBuilder &builder, Location loc,
                             const MaskPosition &at) const {
  Value kept = getMask().emitPredicate(builder, loc, at);
  Value one = arith::ConstantIntOp::create(builder, loc, 1, 1);
  return arith::XOrIOp::create(builder, loc, kept, one);
}

bool NotAttr::isAttended(int64_t query, int64_t key, int64_t queryLength,
                         int64_t keyLength) const {
  return !getMask().isAttended(query, key, queryLength, keyLength);
}

std::optional<bool> NotAttr::getConstantValue(int64_t queryLength,
                                              int64_t keyLength) const {
  std::optional<bool> value =
      getMask().getConstantValue(queryLength, keyLength);
  if (value)
    return !*value;
  return std::nullopt;
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
