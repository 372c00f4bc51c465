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

/// Writes the kernels that classify the tiles of `attention` before `place`,
/// and their launches before the attention. Returns the lists, as
/// `attn_tile.key_tiles` takes them, to be freed by the caller: a row for each
/// batch entry, head (one, if masks do not depend on it) and query tile.
Value classifyTiles(RewriterBase &rewriter, AttentionOp attention,
                    Operation *place, SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CLASSIFYTILES_H
