//===- DecayedRows.h - Rows times decays of key elements --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With a decay of each key element, the decay between two tokens differs from
// element to element, and cannot be a factor of a score. An earlier kernel
// multiplies queries and keys by the decays from the beginning of their chunk
// to each token, keys by the decays from each token to the end and, for scores,
// keys by the inverse decays from the beginning (Yang et al. 2024,
// arXiv:2312.06635). The last ones are large where chunks forget much. There,
// scores are computed level by level, see ElementDecays.h.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_DECAYEDROWS_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_DECAYEDROWS_H

#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Queries and keys of all heads of the queries times decays of key elements,
/// and these decays. Null without them.
struct DecayedRows {
  /// `[B, H, S, Dk]` of the element type, with room for whole chunks. Keys
  /// times decays from the beginning are null unless they are asked for, and
  /// keys over them if the element type has too small a range.
  Value query, keyFromStart, keyToEnd, keyOverStart;
  /// The decay of each chunk, `[B, H, chunks, Dk]` f32.
  Value ofChunks;
  /// The least binary logarithm of a decay of each chunk, rounded down,
  /// `[B, H, chunks]` f32.
  Value leastSums;
  /// The binary logarithms of decays from the beginning of a chunk, `[B, H, S,
  /// Dk]` f32; null without a gradient.
  Value sums;

  SmallVector<Value *> getBuffers() {
    return {&query,    &keyFromStart, &keyToEnd, &keyOverStart,
            &ofChunks, &leastSums,    &sums};
  }
  explicit operator bool() const { return bool(query); }
};

/// Allocates the rows, and launches the kernel that fills them before `op`,
/// linear attention or its gradient. Null unless log-decays are of key
/// elements. `chunkTable` has the chunks of packed sequences, see ChunkTable.h;
/// null without.
DecayedRows createDecayedRows(RewriterBase &rewriter, LinearAttentionOp op,
                              Value chunkTable, SymbolTable &symbols);
DecayedRows createDecayedRows(RewriterBase &rewriter, LinearAttentionGradOp op,
                              Value chunkTable, SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_DECAYEDROWS_H
