//===- BandMasks.h - Bands of diagonals, and their parameters -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Common parts of masks that follow diagonals.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_IR_BANDMASKS_H
#define ATTN_LIB_DIALECT_ATTN_IR_BANDMASKS_H

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::attn {

/// The band `i + offset - left <= j <= i + offset + right` of (query i, key j)
/// pairs. Causal masks and sliding windows are bands.
struct Band {
  std::optional<int64_t> left;
  std::optional<int64_t> right;
  MaskAlignment alignment;
};

/// The largest parameter of masks, so that adding positions stays far from the
/// limits of 32 bits.
constexpr int64_t maxMaskParameter = (int64_t(1) << 30) - 1;

/// Checks that a parameter of a mask is at least `lowest`, and not too large.
LogicalResult verifyMaskParameter(function_ref<InFlightDiagnostic()> emitError,
                                  StringRef mask, StringRef name, int64_t value,
                                  int64_t lowest);

/// Emits `value + constant`; no operation for a constant of zero.
Value addConstant(OpBuilder &builder, Location loc, Value value,
                  int64_t constant);
/// Emits a comparison with a number.
Value emitCompare(OpBuilder &builder, Location loc,
                  arith::CmpIPredicate predicate, Value lhs, int64_t rhs);

/// Emits the key on the diagonal of the query of `at`.
Value emitDiagonal(OpBuilder &builder, Location loc, MaskAlignment alignment,
                   const MaskPosition &at);
/// The same for numbers.
int64_t getDiagonal(MaskAlignment alignment, int64_t query, int64_t queryLength,
                    int64_t keyLength);
/// The alignment to use where both may give the same diagonals.
MaskAlignment simplifyAlignment(MaskAlignment alignment, int64_t queryLength,
                                int64_t keyLength);
/// Position of the diagonal in row 0, if it is known.
std::optional<int64_t> getStaticOffset(MaskAlignment alignment,
                                       int64_t queryLength, int64_t keyLength);

Value emitBandPredicate(OpBuilder &builder, Location loc, const Band &band,
                        const MaskPosition &at);
bool isInBand(const Band &band, int64_t query, int64_t key, int64_t queryLength,
              int64_t keyLength);
/// Whether a band keeps all or no pairs of these lengths, if it is known.
std::optional<bool> getBandConstant(const Band &band, int64_t queryLength,
                                    int64_t keyLength);
/// The larger or smaller of two sides; an absent one is unbounded.
std::optional<int64_t> getWiderSide(std::optional<int64_t> lhs,
                                    std::optional<int64_t> rhs);
std::optional<int64_t> getNarrowerSide(std::optional<int64_t> lhs,
                                       std::optional<int64_t> rhs);
/// Whether a mask is known to be a band, and which one.
std::optional<Band> getAsBand(MaskAttrInterface mask);
/// The simplest mask that is `band`; null if it has no bound.
MaskAttrInterface getBandMask(MLIRContext *context, const Band &band);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_IR_BANDMASKS_H
