//===- CombineSplits.h - Results of KV splits ------------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With few query tiles, several work items (KV splits) divide the keys of one
// query tile. A small kernel then combines their results.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_COMBINESPLITS_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_COMBINESPLITS_H

#include "WorkItemList.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// KV splits, and the buffers for their results.
struct KVSplits {
  /// The number of splits of each query tile; null without split-KV, and where
  /// splits are listed.
  Value count;
  /// Buffers of f32: `out` has the shape of the output, and each statistic that
  /// of a row result. They have more batch entries: entry `b` of split `s` is
  /// entry `s * B + b`. Of listed splits, each entry has the rows of a query
  /// tile, as the kernel sees them, for one split of a tile that has several
  /// (`ListedWorkItem::firstPart`).
  Value out;
  SmallVector<Value> statistics;
  /// The memory of all of them.
  Value buffer;

  explicit operator bool() const { return buffer != nullptr; }
  bool areListed() const { return buffer && !count; }
};

/// Emits, before `op`, the number of splits that its schedule wants, and
/// buffers for their results. `lists` has the splits, if they are balanced.
KVSplits emitKVSplits(RewriterBase &rewriter,
                      attn_tile::StreamingOpInterface op,
                      const SequenceLists &lists);

/// Writes the kernel that combines `splits` and maps elements of the output,
/// and its launch before `place`.
LogicalResult combineSplits(RewriterBase &rewriter,
                            attn_tile::StreamingOpInterface op,
                            const KVSplits &splits, const SequenceLists &lists,
                            Operation *place, SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_COMBINESPLITS_H
