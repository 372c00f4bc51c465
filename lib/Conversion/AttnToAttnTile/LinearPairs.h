//===- LinearPairs.h - Parts of kernels with pair matrices ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the kernels of LinearPairKernels.h for outputs and for gradients share.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARPAIRS_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARPAIRS_H

#include "ChunkKernelWriter.h"

namespace mlir::attn {

/// What the kernel with all chunks at once computes for the ones that go
/// through chunks: matrices of the pairs of tokens of each chunk. Their rows
/// are all tokens of a head.
struct PairMatrices {
  /// `[B, H, S, chunk]`, with room for whole chunks: the scores of queries and
  /// keys with decays and, with beta, the inverse of the triangular matrix, in
  /// 16 bits.
  Value scores, inverse;
  /// The scores of keys and earlier keys with decays, in 16 bits; null if no
  /// gradient of beta needs them.
  Value keyScores;

  SmallVector<Value *> getBuffers() { return {&scores, &inverse, &keyScores}; }
};

/// What the gradient keeps of the states before chunks: the states `[chunks, B,
/// H, Dk, Dv]`, `U` and `R` `[B, H, S, Dv]`, in 16 bits. Null without a
/// gradient; without beta, `U` are the values, and there is no `R`.
struct KeptStates {
  Value states, updates, residuals;

  SmallVector<Value *> getBuffers() { return {&states, &updates, &residuals}; }
};

/// The schedules of the kernels of `op`, which is the operation of a form.
attn_tile::LinearPairsAttr getParts(Operation *op);

/// The schedule of the kernel of gradients of queries and keys.
inline ScheduleAttrInterface getOfGradients(attn_tile::LinearPairsAttr parts) {
  return parts.getGradients() ? parts.getGradients() : parts.getPairs();
}

/// Whether the kernel of gradients of queries and keys also has the terms of
/// chunks of the gradient of log-decays: a tile of rows of the state has as
/// many rows as a CTA. Otherwise the one of gradients of states has them.
inline bool hasChunkTerms(const LinearKernelForm &form) {
  attn_tile::LinearPairsAttr parts = getParts(form.op);
  return form.cumulative && getOfGradients(parts).getHeadDimTile() %
                                    parts.getPairs().getQueryTile() ==
                                0;
}

inline LinearKernelForm withSchedule(LinearKernelForm form,
                                     ScheduleAttrInterface schedule) {
  form.schedule = schedule;
  return form;
}

/// Allocates `[batch, heads, tokens, columns]`, with room for whole chunks.
Value allocateRows(OpBuilder &builder, const LinearKernelForm &form,
                   Type element, int64_t columns);

/// Whether heads are so few that kernels that go through their chunks have
/// narrow tiles, an `i1`; null if the schedule has none.
Value emitIsNarrow(OpBuilder &builder, const LinearKernelForm &form);

/// The number of tiles of columns of the kernels that go through chunks.
Value emitNumTiles(OpBuilder &builder, const LinearKernelForm &form,
                   Value isNarrow);

/// Creates a kernel that goes through chunks with `create`, which puts its
/// launch before the operation; two if the schedule has narrow tiles.
void createForHeads(
    RewriterBase &rewriter, const LinearKernelForm &form, Value isNarrow,
    function_ref<void(const LinearKernelForm &, StringRef suffix)> create);

/// Creates a kernel for each range of decays of a form with decayed rows with
/// `create`; otherwise one kernel. The one for all but factored decays has the
/// schedule for levels.
void createForRanges(
    LinearKernelForm form,
    function_ref<void(const LinearKernelForm &, StringRef suffix)> create);

/// Launches the kernel of the matrices of pairs, and returns these.
PairMatrices createPairMatrices(RewriterBase &rewriter, LinearKernelForm form,
                                bool hasKeyScores, SymbolTable &symbols);

/// Divides the chunks of heads, and allocates the transitions of splits; null
/// if the schedule has no splits.
ChunkSplits createPairSplits(OpBuilder &builder, const LinearKernelForm &form);

/// Launches the kernel of the states before splits, from their states and
/// transitions.
void createPairStarts(RewriterBase &rewriter, LinearKernelForm form,
                      const ChunkSplits &splits, SymbolTable &symbols,
                      StringRef name);

/// Launches a kernel that goes through the chunks first to last, after the ones
/// of states and transitions of splits.
void createForwardChunks(RewriterBase &rewriter, const LinearKernelForm &form,
                         const PairMatrices &pairs, const KeptStates &kept,
                         ChunkSplits splits, Value isNarrow,
                         SymbolTable &symbols, StringRef name);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARPAIRS_H
