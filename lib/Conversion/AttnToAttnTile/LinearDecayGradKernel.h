//===- LinearDecayGradKernel.h - Gradient of log-decays --------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The gradient of the log-decay of token t is the sum of a term for each query
// from t on and each key before t: the score of the pair, decayed, times the
// dot product of the value and the gradient of the output. The initial state
// counts as a key and the final state as a query. In a chunk, the kernels of
// gradients of queries and keys add up
//
// - `queryDots`: terms of a query and all keys, a query times its gradient;
// - `keyDots`: terms of a key and all queries, a key times its gradient;
// - `stateDots`: terms of a key and all queries after the chunk;
// - `chunkTerms`: terms of keys before and queries after the chunk, the state
//   before it times the decayed gradient of the state after it.
//
// Pairs of the chunk that are both from t on are in the first two: their
// difference, without stateDots, is the sum of the pairs that t is between.
// Both have the same rounded scores in f32, so pairs cancel but for roundings
// of f32. With a decay of each key element, terms are elements times elements
// and have no sums along rows; there are two of them, `rowTerms`, queryDots
// less keyDots and with stateDots, and `stateTerms`. With the delta rule a key
// is also a query, of the value that the state holds for it, which adds terms
// to `queryDots`. A total over all of a sequence needs no states, but would
// leave roundings of 16-bit operands of each later chunk.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARDECAYGRADKERNEL_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARDECAYGRADKERNEL_H

#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// The terms of the gradient of log-decays that a computation in the form of
/// linear attention stores; null where it stores none.
struct DecayGradTerms {
  /// The rows that rows of the output are multiplied with, and the buffers of
  /// the dot products, of a whole row and of its part from the state.
  Value rows, dots, stateDots;
  /// The states before chunks, which a computation without chunk terms stores,
  /// and what each row of them adds to these terms.
  Value states, chunkTerms;
};

/// The buffers of the terms of a gradient.
struct DecayGradWorkspace {
  Value query, key;
  /// Tile of columns, batch entry, head, token.
  Value queryDots, keyDots, stateDots;
  /// Batch entry, head, token, key element, instead of the ones before.
  Value rowTerms, stateTerms;
  /// Chunk, batch entry, head, rows and columns; null with pair
  /// matrices, whose kernels keep states of their own.
  Value states;
  /// Tile of columns, batch entry, head, rows of the states of all chunks.
  Value chunkTerms;
  /// The rows of a state in `chunkTerms`.
  int64_t stateRows = 0;

  /// Allocates the terms of kernels whose states have `numRows` rows, with
  /// rows of whole tiles, and `numTiles` tiles of columns. `chunkTable` has the
  /// chunks of packed sequences, see ChunkTable.h; null without.
  static DecayGradWorkspace allocateTerms(OpBuilder &builder,
                                          LinearAttentionGradOp op,
                                          Value chunkTable, int64_t numRows,
                                          Value numTiles);
  /// The same for computations in the form of linear attention, with states.
  static DecayGradWorkspace
  allocate(OpBuilder &builder, LinearAttentionGradOp op, Value chunkTable);
  void deallocate(OpBuilder &builder, Location loc) const;

  DecayGradTerms getTermsOfQueries() const {
    return {query, queryDots, Value(), states, Value()};
  }
  DecayGradTerms getTermsOfKeys() const {
    return {key, keyDots, stateDots, states, chunkTerms};
  }
};

/// Launches the kernels that add up the gradient of log-decays, and deallocates
/// the workspace.
void createDecayGradKernels(RewriterBase &rewriter, LinearAttentionGradOp op,
                            const DecayGradWorkspace &workspace,
                            Value chunkTable, SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_LINEARDECAYGRADKERNEL_H
