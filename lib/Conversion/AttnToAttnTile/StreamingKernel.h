//===- StreamingKernel.h - Kernels that stream keys -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The plain tiled program of an operation with StreamingOpInterface.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_STREAMINGKERNEL_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_STREAMINGKERNEL_H

#include "CombineSplits.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"

namespace mlir::attn {

/// Writes the kernel of `op`. Its arguments, as far as these operands exist,
/// are: queries, keys, values (transposed ones if the schedule reads these),
/// the output, row results (for KV splits: statistics), operands of the
/// reduction, the head map, key lengths, the page table, the error flag, the
/// list of work items, lists of key tiles, their order and mask bits,
/// `captures`, and the number of `splits` unless it is a constant. Each KV
/// split, if there are any, is a work item of its own, which writes to the
/// split buffers.
void writeStreamingKernel(OpBuilder &builder,
                          attn_tile::StreamingOpInterface op,
                          attn_tile::KernelOp kernel, ValueRange captures,
                          const KVSplits &splits);

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_STREAMINGKERNEL_H
