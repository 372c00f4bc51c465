//===- PackHeads.h - Query heads as rows of a tile --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention of one query for each head, as in decoding, fills one row of a
// tile. The query heads that share a key head may fill a row each.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PACKHEADS_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PACKHEADS_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::attn {

/// Replaces a bufferised attention with `canPackHeads` by one in which query
/// heads are queries of the key head that they share. The operands are views of
/// the former ones.
AttentionOp packHeads(RewriterBase &rewriter, AttentionOp attention);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PACKHEADS_H
