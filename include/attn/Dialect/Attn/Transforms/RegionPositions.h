//===- RegionPositions.h - Positions that masks and regions see -*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Masks and regions of a shard see the positions of the larger attention.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_TRANSFORMS_REGIONPOSITIONS_H
#define ATTN_DIALECT_ATTN_TRANSFORMS_REGIONPOSITIONS_H

#include "attn/Dialect/Attn/IR/AttnInterfaces.h"

namespace mlir {
class RewriterBase;
} // namespace mlir

namespace mlir::attn {

/// Makes the mask and the regions of `op` see other positions. `emitPosition`
/// gets the arguments (batch, head, query, key) of a region and emits the ones
/// that replace them. The named mask becomes part of the mask_mod region.
void replacePositions(
    RewriterBase &rewriter, AttentionOpInterface op,
    function_ref<MaskPosition(OpBuilder &, ValueRange)> emitPosition);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_REGIONPOSITIONS_H
