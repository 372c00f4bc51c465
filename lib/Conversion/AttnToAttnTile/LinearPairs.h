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
  /// The scores of keys and earlier keys with decays, f32; null if no gradient
  /// of beta needs them.
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

/// Launches a kernel that goes through the chunks first to last.
void createForwardChunks(RewriterBase &rewriter, const LinearKernelForm &form,
                         const PairMatrices &pairs, const KeptStates &kept,
                         Value isNarrow, SymbolTable &symbols, StringRef name);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARPAIRS_H
