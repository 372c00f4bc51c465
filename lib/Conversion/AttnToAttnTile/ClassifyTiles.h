//===- ClassifyTiles.h - Tiles of masks that read tensors ------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists of the key tiles that query tiles need, and of the query tiles that key
// tiles need, for masks that read tensors and are known on the device only.
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

/// Whether the mask of `attention` depends on the head.
bool isMaskedByHead(AttentionOpInterface attention);

/// The tile lists of an attention, for each batch entry and head (one, if the
/// mask does not depend on the head).
struct ClassifiedTiles {
  /// A list for each row of tiles, as `attn_tile.kv_tile_iterator` takes it.
  Value lists;
  /// The rows, sorted by list length, short lists first. A view of a block mask
  /// has one more dimension, of size 1.
  Value order;
  /// Whether `order` covers the rows of all heads, for key tiles whose list is
  /// the same for all heads. There row `r` of head `h` is `h * rows + r`. The
  /// last row is meant to be processed first.
  bool isOrderOfHeads = false;
  /// The mask bits of the partial tiles of each list, for
  /// `attn_tile.load_mask_bits`; or null.
  Value bits;
};

/// The indices into `order` for batch entry, head and number `indices`.
SmallVector<Value> getOrderPlace(OpBuilder &builder, Location loc, Value order,
                                 ValueRange indices);

/// The lengths that a block mask is for.
struct BlockMaskLengths {
  Value batches, queries, keys;
};

/// The lists and order of `blockMask` (see `attn.create_block_mask`) for
/// kernels with `tiles` queries and keys in a tile, as views.
ClassifiedTiles getTilesOfBlockMask(OpBuilder &builder, Location loc,
                                    Value blockMask,
                                    const BlockMaskLengths &lengths,
                                    std::pair<int64_t, int64_t> tiles);

/// Replaces `op` by the kernels that compute the block mask, and their
/// launches.
LogicalResult lowerCreateBlockMaskToKernels(RewriterBase &rewriter,
                                            CreateBlockMaskOp op,
                                            SymbolTable &symbols);

/// The lists to make.
struct TileListing {
  int64_t queryTile, keyTile;
  /// The schedule of the kernels that make them.
  ScheduleAttrInterface schedule;
  /// The dimension whose tiles get a list each.
  MaskDim rows;
  /// A suffix of the kernel names.
  std::string suffix;
  /// Rows of key tiles that are processed at the same time, for their order:
  /// one on each SM.
  int64_t rowsAtOnce = 1;
};

/// Writes the kernels that classify the tiles of `attention`, and their
/// launches before the attention. The caller frees the results.
///
/// For rows of keys, each key head has lists. In them, query tile `t` of the
/// `n`-th query head of the GQA group is entry `n * tiles + t`.
ClassifiedTiles classifyTiles(RewriterBase &rewriter,
                              AttentionOpInterface attention,
                              const TileListing &listing, SymbolTable &symbols);

/// Whether kernels of `attention` with `schedule` read mask bits.
bool readsMaskBits(AttentionOpInterface attention,
                   ScheduleAttrInterface schedule);

/// Writes the kernel that evaluates the mask of `attention` for the pairs of
/// the partial tiles in `tiles`, and its launch before the attention. Returns
/// the mask bits, which the caller frees.
Value evaluatePairs(RewriterBase &rewriter, AttentionOpInterface attention,
                    const TileListing &listing, const ClassifiedTiles &tiles,
                    SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CLASSIFYTILES_H
