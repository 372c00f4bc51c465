//===- MaskMod.h - Named masks in the mask_mod region -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_TRANSFORMS_MASKMOD_H
#define ATTN_LIB_DIALECT_ATTN_TRANSFORMS_MASKMOD_H

#include "attn/Dialect/Attn/IR/AttnOps.h"

namespace mlir::attn {

/// Adds the predicates of `masks` to the mask_mod region of `op`, which keeps a
/// pair then only if they keep it, too. `emitPosition` gets the block of the
/// region, whose arguments are (batch, head, query, key), with the insertion
/// point at its end, and emits the position that the masks see.
void addToMaskMod(RewriterBase &rewriter, AttentionOpInterface op,
                  ArrayRef<MaskAttrInterface> masks,
                  function_ref<MaskPosition(Block &)> emitPosition);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_TRANSFORMS_MASKMOD_H
