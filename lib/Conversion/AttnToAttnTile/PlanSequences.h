//===- PlanSequences.h - Work items of sequences ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The list of tiles that sequences of different lengths have, of queries or of
// keys. A small kernel writes it, since the lengths are known on the device
// alone; the kernels of an attention or of its gradient walk over it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PLANSEQUENCES_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PLANSEQUENCES_H

#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// The tiles that a list names.
struct SequenceTiles {
  /// Whether they are of queries or of keys, and how many.
  MaskDim rows;
  int64_t size;
  /// How many rows behind those of a sequence its tiles reach, at least.
  int64_t extra;
  /// The schedule of the kernel that writes the list, and the end of its name.
  ScheduleAttrInterface preparation;
  StringRef suffix;
};

/// A tile in the list: where its sequence is stored and how long it is.
struct PlannedItem {
  Value sequence;
  /// The position of the first row of the tile.
  Value first;
  Value queryLength, keyLength;
  /// Where the tile is stored in the tensors that it is of, and where the first
  /// row of the sequence is in the others.
  Value queryRow, keyRow;
};

/// Writes the kernel that plans the sequences of `op`, and its launch before
/// it. Returns the list, to be freed by the caller.
Value planSequences(RewriterBase &rewriter, AttentionOpInterface op,
                    const SequenceTiles &tiles, SymbolTable &symbols);

/// Emits the number of items in a list.
Value emitPlannedItems(ImplicitLocOpBuilder &builder, Value plan);

/// Emits item number `number` of a list.
PlannedItem emitPlannedItem(ImplicitLocOpBuilder &builder, Value plan,
                            Value number);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PLANSEQUENCES_H
