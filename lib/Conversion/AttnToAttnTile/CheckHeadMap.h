//===- CheckHeadMap.h - Checks of maps of heads -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel that reports maps of heads that leave the keys.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CHECKHEADMAP_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CHECKHEADMAP_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::attn {

/// Writes the kernel that checks the map of heads of `attention`, and its
/// launch before the attention.
void checkHeadMap(RewriterBase &rewriter, AttentionOp attention,
                  SymbolTable &symbols);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CHECKHEADMAP_H
