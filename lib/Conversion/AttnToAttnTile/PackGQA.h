//===- PackGQA.h - Query heads as rows of a tile ---------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention with one query for each head, as in decoding, fills one row of a
// tile. Packing fills a row for each query head of a GQA group.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PACKGQA_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PACKGQA_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::attn {

/// Replaces a bufferised attention with `canPackGqa` by one in which query
/// heads are queries of their GQA group. Its operands are views of the original
/// ones.
AttentionOp packGqa(RewriterBase &rewriter, AttentionOp attention);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_PACKGQA_H
