//===- ScoreRange.h - How large scores can become ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Interval arithmetic on the scalar code of a score_mod: a bound on the scores
// that it yields, from a bound on its input scores.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_SCORERANGE_H
#define ATTN_ANALYSIS_SCORERANGE_H

#include "mlir/IR/Region.h"

namespace mlir::attn {

/// Whether `region` (a score_mod: f32 score, then four indices) yields scores
/// of at most `bound` in absolute value, or -inf, for scores of at most
/// `given`. Elements of tensors and values of unknown operations are assumed to
/// be unbounded.
bool isScoreBounded(Region &region, double given, double bound);

/// Whether `region` yields finite scores, or -inf, for queries after the last
/// one as well, if it does for the others: of what depends on the query or the
/// score, it reads nothing, divides by nothing, and takes no function that is
/// infinite somewhere. Overflow of sums and products is not considered.
bool isFiniteForPadding(Region &region);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_SCORERANGE_H
