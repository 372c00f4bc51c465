//===- AttentionKernel.h - The kernel of an attention -----------*- C++ -*-===//
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

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"

namespace mlir::attn {

/// Columns of the partial row sums, which divide a tile of keys.
constexpr int64_t numPartialSums = 8;

/// Writes the kernel of `attention`, whose arguments are, as far as there are
/// such operands: queries, keys, values, the output, log-sum-exps, sinks, the
/// head map, the identity, the plan of the sequences, lists of key tiles and
/// their order, `captures`, and `parts` unless that is a constant. Each of
/// `parts` shares of the keys, if not null, has a work item of its own, which
/// writes to the buffers of the shares.
void writeAttentionKernel(OpBuilder &builder, AttentionOp attention,
                          attn_tile::KernelOp kernel, ValueRange captures,
                          Value parts);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_ATTENTIONKERNEL_H
