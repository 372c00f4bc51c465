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

/// Which lists are wanted.
struct TileListing {
  int64_t queryTile, keyTile;
  /// Of the kernels that make them.
  ScheduleAttrInterface schedule;
  /// The dimension whose tiles have a list each.
  MaskDim rows;
  /// Added to the names of kernels.
  std::string suffix;
};

/// What is known of the tiles of an attention: for each batch entry and head
/// (one, if masks do not depend on it)
struct ClassifiedTiles {
  /// a list for each row of tiles, as `attn_tile.key_tiles` takes it,
  Value lists;
  /// and the rows, those with short lists first.
  Value order;
};

/// Writes the kernels that classify the tiles of `attention`, and their
/// launches before the attention. The caller frees the results.
///
/// Rows of keys have lists for each head of the keys: tile `t` of the queries
/// of head `n` of the group is `n * tiles + t` there.
ClassifiedTiles classifyTiles(RewriterBase &rewriter,
                              AttentionOpInterface attention,
                              const TileListing &listing, SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CLASSIFYTILES_H
