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

static KeyRange emitBandRange(OpBuilder &builder, Location loc,
                              const Band &band, const QueryRange &queries) {
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  auto clamp = [&](Value key) -> Value {
    Value low = arith::MaxSIOp::create(builder, loc, key, zero);
    return arith::MinSIOp::create(builder, loc, low, queries.keyLength);
  };
  Value first = emitDiagonal(builder, loc, band, queries.first,
                             queries.queryLength, queries.keyLength);
  Value last = emitDiagonal(builder, loc, band, queries.last,
                            queries.queryLength, queries.keyLength);
  KeyRange range;
  if (band.right) {
    range.end = clamp(addConstant(builder, loc, last, *band.right + 1));
    range.fullEnd = clamp(addConstant(builder, loc, first, *band.right + 1));
  }
  if (band.left) {
    range.begin = clamp(addConstant(builder, loc, first, -*band.left));
    range.fullBegin = clamp(addConstant(builder, loc, last, -*band.left));
  }
  return range;
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

KeyRange CausalAttr::emitKeyRange(OpBuilder &builder, Location loc,
                                  const QueryRange &queries) const {
  return emitBandRange(builder, loc, getBand(*this), queries);
}

QueryBounds CausalAttr::emitQueryRange(OpBuilder &builder, Location loc,
                                       const KeySpan &keys) const {
  return emitBandQueries(builder, loc, getBand(*this), keys);
}

bool CausalAttr::isAttended(int64_t query, int64_t key, int64_t queryLength,
                            int64_t keyLength) const {
  return isInBand(getBand(*this), query, key, queryLength, keyLength);
}

bool CausalAttr::isInterval() const { return true; }

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

KeyRange SlidingWindowAttr::emitKeyRange(OpBuilder &builder, Location loc,
                                         const QueryRange &queries) const {
  return emitBandRange(builder, loc, getBand(*this), queries);
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

bool SlidingWindowAttr::isInterval() const { return true; }

std::optional<bool>
SlidingWindowAttr::getConstantValue(int64_t queryLength,
                                    int64_t keyLength) const {
  return getBandConstant(getBand(*this), queryLength, keyLength);
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
