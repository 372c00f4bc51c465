//===- ClassifyTiles.h - Tiles of masks that read tensors ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists of the key tiles that query tiles need, and of the query tiles that key
// tiles need, for masks of which only the device knows what they keep.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CLASSIFYTILES_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CLASSIFYTILES_H

#include "attn/Analysis/MaskAnalysis.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

#include <string>

namespace mlir::attn {

/// Whether what `attention` masks is found out by kernels that run before it.
bool needsClassification(AttentionOpInterface attention);

/// Whether what it masks depends on the head.
bool isMaskedByHead(AttentionOpInterface attention);

/// What is known of the tiles of an attention: for each batch entry and head
/// (one, if masks do not depend on it)
struct ClassifiedTiles {
  /// a list for each row of tiles, as `attn_tile.key_tiles` takes it,
  Value lists;
  /// and the rows, those with short lists first. In a plan it has one more
  /// dimension, of size 1.
  Value order;
  /// Whether the order is that of the rows of all heads, which rows of keys
  /// have that have one list for all of them: row `r` of head `h` is `h * rows
  /// + r` there. The last one is meant to be worked on first.
  bool isOrderOfHeads = false;
  /// What `attn_tile.load_pair_bits` reads of the masked tiles of each list, or
  /// null.
  Value bits;
};

/// The place in `order` of the item at `indices`: batch entry, head and number.
SmallVector<Value> getOrderPlace(OpBuilder &builder, Location loc, Value order,
                                 ValueRange indices);

/// The lengths that a plan of a mask is for.
struct PlannedLengths {
  Value batches, queries, keys;
};

/// The parts of a plan that kernels with tiles of `tiles` queries and keys read
/// (see `attn.plan_mask`), as views of `plan`, a memref.
ClassifiedTiles getPlannedTiles(OpBuilder &builder, Location loc, Value plan,
                                const PlannedLengths &lengths,
                                std::pair<int64_t, int64_t> tiles);

/// Writes the kernels that make a plan, and their launches, in the place of
/// `op`.
LogicalResult lowerPlanMaskToKernels(RewriterBase &rewriter, PlanMaskOp op,
                                     SymbolTable &symbols);

/// Which lists are wanted.
struct TileListing {
  int64_t queryTile, keyTile;
  /// Of the kernels that make them.
  ScheduleAttrInterface schedule;
  /// The dimension whose tiles have a list each.
  MaskDim rows;
  /// Added to the names of kernels.
  std::string suffix;
  /// Rows of keys that are worked on at the same time, for their order: one on
  /// each multiprocessor, with kernels whose items they are.
  int64_t rowsAtOnce = 1;
};

/// Writes the kernels that classify the tiles of `attention`, and their
/// launches before the attention. The caller frees the results.
///
/// Rows of keys have lists for each head of the keys: tile `t` of the queries
/// of head `n` of the group is `n * tiles + t` there.
ClassifiedTiles classifyTiles(RewriterBase &rewriter,
                              AttentionOpInterface attention,
                              const TileListing &listing, SymbolTable &symbols);

/// Whether kernels of `attention` with `schedule` read bits.
bool readsPairBits(AttentionOpInterface attention,
                   ScheduleAttrInterface schedule);

/// Writes the kernel that evaluates the mask of `attention` for the pairs of
/// the tiles that `tiles` lists as masked, and its launch before the attention.
/// Returns the bits, which the caller frees.
Value evaluatePairs(RewriterBase &rewriter, AttentionOpInterface attention,
                    const TileListing &listing, const ClassifiedTiles &tiles,
                    SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CLASSIFYTILES_H
