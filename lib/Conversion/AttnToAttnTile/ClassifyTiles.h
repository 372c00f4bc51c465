//===- ClassifyTiles.h - Tiles of masks that read tensors ----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists of the key tiles that query tiles need, for masks of which only the
// device knows what they keep.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CLASSIFYTILES_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CLASSIFYTILES_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Whether what `attention` masks is found out by kernels that run before it.
bool needsClassification(AttentionOp attention);

/// Whether what it masks depends on the head.
bool isMaskedByHead(AttentionOp attention);

/// What is known of the tiles of an attention: for each batch entry and head
/// (one, if masks do not depend on it)
struct ClassifiedTiles {
  /// a list for each query tile, as `attn_tile.key_tiles` takes it,
  Value lists;
  /// and the query tiles, those with short lists first.
  Value order;
};

/// Writes the kernels that classify the tiles of `attention`, and their
/// launches before the attention. The caller frees the results.
ClassifiedTiles classifyTiles(RewriterBase &rewriter, AttentionOp attention,
                              SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CLASSIFYTILES_H
