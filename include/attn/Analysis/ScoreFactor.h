//===- ScoreFactor.h - Factors of scores ------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A score_mod that multiplies scores by a number of the batch entry and the
// head, such as the scales of 8-bit tensors or a temperature. Kernels multiply
// the softmax scale by it instead of each score.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_SCOREFACTOR_H
#define ATTN_ANALYSIS_SCOREFACTOR_H

#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "mlir/IR/Region.h"
#include "llvm/ADT/SmallVector.h"

namespace mlir::attn {

/// The smallest factor, and the inverse of the largest one, that moves from the
/// scores into the scale of a tile of scores.
inline constexpr double minTileScale = 1e-9;

/// The values by which `scoreMod` (f32 score, then four indices) multiplies the
/// score, if it does nothing else and they depend neither on the score nor on
/// the query nor on the key; none otherwise, and none where all are constants.
/// The operations of the region that
/// they depend on are pure, or reads.
SmallVector<Value> getScoreFactors(Region &scoreMod);

/// Whether kernels of `op` change each score by the score_mod: it does more
/// than to multiply by `getScoreFactors`, or the scale is no scale of a tile.
bool changesSingleScores(AttentionOpInterface op);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_SCOREFACTOR_H
