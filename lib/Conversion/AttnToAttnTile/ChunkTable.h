//===- ChunkTable.h - Chunks of packed sequences ----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each packed sequence with states has chunks of its own, one at least, since
// each begins with a state of its own. Sequence `s` begins at chunk
// `sequences[s] / chunk + s`, so the number of chunks depends on the numbers of
// tokens and sequences alone. A chunk at the end of a sequence has fewer
// tokens, and there may be chunks between sequences without any.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CHUNKTABLE_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CHUNKTABLE_H

#include "ScalarKernelBuilder.h"
#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Where the chunks of packed sequences are in memory; null values without such
/// sequences.
struct ChunkTable {
  /// `[2, chunks]`, i32: the first token of each chunk, and its number of
  /// tokens.
  Value chunks;
  /// The boundaries of the sequences that have states: all of them, unless
  /// sizes of operands contradict one another.
  Value sequences;
};

/// The rows of `ChunkTable::chunks`.
enum ChunkTableRow { FirstTokens, TokenCounts };

/// Launches, before `op`, the kernel that finds its chunks and reports
/// boundaries that are not sorted, do not go from 0 to the number of tokens, or
/// do not belong to as many states. Nothing without `sequences`.
ChunkTable createChunkTable(RewriterBase &rewriter, LinearAttentionOp op,
                            SymbolTable &symbols);
ChunkTable createChunkTable(RewriterBase &rewriter, LinearAttentionGradOp op,
                            SymbolTable &symbols);

/// The token that a row of a buffer with room for whole chunks has, and the
/// number of tokens that its chunk has from there on, which may be below 1.
struct RowTokens {
  Value first, count;
};

/// Finds the token of `row`, in a kernel. `chunks` is the table, null if chunks
/// of `chunk` tokens follow one another; `length` is the number of tokens.
RowTokens findTokens(ScalarKernelBuilder &b, Value chunks, Value length,
                     Value row, int64_t chunk);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CHUNKTABLE_H
