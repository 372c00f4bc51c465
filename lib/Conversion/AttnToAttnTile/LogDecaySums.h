//===- LogDecaySums.h - Cumulative log-decays -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An earlier kernel adds up the log-decays of each chunk of linear attention. A
// sum has two parts, an integer and a rest from 0 to 1: their differences are
// exact or nearly so, and a large log-decay does not cancel the others.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LOGDECAYSUMS_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LOGDECAYSUMS_H

#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// The parts of a sum of log-decays, as indices of their buffer.
enum SumPart : unsigned { WholePart, RestPart, NumSumParts };

/// The smallest log-decay: its decay is the smallest normal f32.
constexpr double minLogDecay = -126;

/// Adds a natural log-decay, which is clamped to [minLogDecay, 0], to the parts
/// of a sum, which are binary logarithms.
void addLogDecay(ImplicitLocOpBuilder &b, MutableArrayRef<Value> parts,
                 Value decay);

/// Allocates the cumulative log-decays in chunks, `[NumSumParts, B, H, S]` f32,
/// and launches the kernel that fills them before `op`, linear attention or its
/// gradient. `logDecay` has one for each head, or for each token and head; null
/// if it is, or has one for each key element. `chunkTable` has the chunks of
/// packed sequences, see ChunkTable.h; null without.
Value createLogDecaySums(RewriterBase &rewriter, Operation *op, Value logDecay,
                         Value query, Value chunkTable,
                         ScheduleAttrInterface schedule, SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LOGDECAYSUMS_H
