//===- KVTileIterator.h - Expansion of key tile ranges ---------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns `attn_tile.kv_tile_iterator` into index arithmetic.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_TRANSFORMS_KVTILEITERATOR_H
#define ATTN_DIALECT_ATTNTILE_TRANSFORMS_KVTILEITERATOR_H

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::attn_tile {

/// Replaces `op` and its `attn_tile.kv_tile_at` operations by index arithmetic,
/// folded where operands are constants. `masked` and `count` become the same
/// value if no tile is known to be full.
void expandKVTileIterator(RewriterBase &rewriter, KVTileIteratorOp op);

} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_TRANSFORMS_KVTILEITERATOR_H
