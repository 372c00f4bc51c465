//===- CompositeMasks.cpp - Masks made of masks ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conjunctions, disjunctions and negations.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn;

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

/// The operands that the masks of a composite read.
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

/// The value of a composite that has the value `absorbing` as soon as one mask
/// has it.
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

namespace {
/// A mask at one pair.
struct MaskValue {
  bool isAttended;
  bool readsOperands;
};
} // namespace

/// Evaluates each part of `mask` once, however deeply negations are nested.
static MaskValue evaluate(MaskAttrInterface mask, int64_t query, int64_t key,
                          int64_t queryLength, int64_t keyLength) {
  auto evaluateAll = [&](ArrayRef<MaskAttrInterface> parts, bool isAnd) {
    MaskValue all = {isAnd, false};
    for (MaskAttrInterface part : parts) {
      MaskValue value = evaluate(part, query, key, queryLength, keyLength);
      if (value.isAttended != isAnd)
        all.isAttended = value.isAttended;
      all.readsOperands |= value.readsOperands;
    }
    return all;
  };
  return TypeSwitch<Attribute, MaskValue>(mask)
      .Case([&](AndAttr composite) {
        return evaluateAll(composite.getMasks(), /*isAnd=*/true);
      })
      .Case([&](OrAttr composite) {
        return evaluateAll(composite.getMasks(), /*isAnd=*/false);
      })
      .Case([&](NotAttr composite) -> MaskValue {
        MaskValue value =
            evaluate(composite.getMask(), query, key, queryLength, keyLength);
        // A mask that reads operands may keep none of the pairs that it may
        // keep.
        return {value.readsOperands || !value.isAttended, value.readsOperands};
      })
      .Default([&](Attribute) -> MaskValue {
        return {mask.isAttended(query, key, queryLength, keyLength),
                !mask.getReads().empty()};
      });
}

bool NotAttr::isAttended(int64_t query, int64_t key, int64_t queryLength,
                         int64_t keyLength) const {
  return evaluate(*this, query, key, queryLength, keyLength).isAttended;
}

std::optional<bool> NotAttr::getConstantValue(int64_t queryLength,
                                              int64_t keyLength) const {
  std::optional<bool> value =
      getMask().getConstantValue(queryLength, keyLength);
  if (value)
    return !*value;
  return std::nullopt;
}

/// De Morgan: the negation of both masks, or of one.
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
