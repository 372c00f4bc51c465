//===- MergeParts.h - Results of shares of the keys -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where there are few tiles of queries, several work items share the keys of
// one. What they compute is merged by a small kernel that runs after them.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_MERGEPARTS_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_MERGEPARTS_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Shares of the keys, and what each leaves for the merge.
struct KeyParts {
  /// How many there are, or null if keys are not shared.
  Value count;
  /// f32, of the shapes of `out` and `lse` of the attention, but with as many
  /// more batch entries: entry `b` of share `p` is entry `p * B + b`.
  Value out, lse;
  /// What holds both.
  Value buffer;

  explicit operator bool() const { return count != nullptr; }
};

/// Emits, before `attention`, how many shares its schedule wants, and buffers
/// for what they compute. `plan` lists the work items of sequences, if any.
KeyParts emitKeyParts(RewriterBase &rewriter, AttentionOp attention,
                      Value plan);

/// Writes the kernel that merges `parts`, and its launch before `place`.
void mergeParts(RewriterBase &rewriter, AttentionOp attention,
                const KeyParts &parts, Value plan, Operation *place,
                SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_MERGEPARTS_H
