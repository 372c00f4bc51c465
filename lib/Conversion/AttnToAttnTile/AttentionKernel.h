//===- AttentionKernel.h - The kernel of an attention ----------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The plain tiled program of an attention.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_ATTENTIONKERNEL_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_ATTENTIONKERNEL_H

#include "CombineSplits.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"

namespace mlir::attn {

/// Columns of the partial row sums, a divisor of the columns of a key tile.
constexpr int64_t numPartialSums = 8;

/// Writes the kernel of `attention`. Its arguments, as far as these operands
/// exist, are: queries, keys, values, the output, log-sum-exps (for KV splits:
/// maxima and sums), sinks, the head map, the identity, the list of work items,
/// lists of key tiles and their order, `captures`, and the number of `splits`
/// unless it is a constant. Each KV split, if there are any, is a work item of
/// its own, which writes to the split buffers.
void writeAttentionKernel(OpBuilder &builder, AttentionOp attention,
                          attn_tile::KernelOp kernel, ValueRange captures,
                          const KVSplits &splits);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_ATTENTIONKERNEL_H
