//===- PositionMasks.cpp - Named masks of positions -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Masks that depend on positions and are no bands: prefixes, dilated windows,
// blocks and global tokens.
//
//===----------------------------------------------------------------------===//

#include "BandMasks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::attn;

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
  return verifyMaskParameter(emitError, "prefix", "length", length, 0);
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
  if (failed(
          verifyMaskParameter(emitError, "dilated window", "left", left, 0)) ||
      failed(
          verifyMaskParameter(emitError, "dilated window", "right", right, 0)))
    return failure();
  return verifyMaskParameter(emitError, "dilated window", "dilation", dilation,
                             1);
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
  if (failed(verifyMaskParameter(emitError, "local blocks", "size", size, 1)))
    return failure();
  if (after && failed(verifyMaskParameter(emitError, "local blocks", "after",
                                          *after, 0)))
    return failure();
  if (before)
    return verifyMaskParameter(emitError, "local blocks", "before", *before, 0);
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
    // Without bounds, blocks would keep everything.
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
  return verifyMaskParameter(emitError, "global tokens", "count", count, 0);
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
