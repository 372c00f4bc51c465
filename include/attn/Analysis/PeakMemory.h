//===- PeakMemory.h - Memory of the tensors of a block -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How much memory the tensors of a block take at a time.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_PEAKMEMORY_H
#define ATTN_ANALYSIS_PEAKMEMORY_H

#include "attn/Interfaces/CostOpInterface.h"

namespace mlir::attn {

/// Bytes beside the arguments of a block.
struct BlockMemory {
  /// The most that is there at a time.
  int64_t peak = 0;
  /// What the block returns.
  int64_t kept = 0;
};

/// Each tensor that an operation computes has memory of its own until the last
/// use of the tensor. Constants have none, and operations without cost make no
/// data: their results are views of the memory of their operands, and uses of a
/// view are uses of that memory. What is returned stays. It may stay in the
/// memory where it was computed, but is copied if it shares that with an
/// argument or another returned value.
BlockMemory getBlockMemory(Block &block, const CostAssumptions &assumptions);

/// Bytes of a tensor or a scalar.
int64_t getValueBytes(Type type, const CostAssumptions &assumptions);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_PEAKMEMORY_H
