//===- PeakMemory.h - Memory of the tensors of a block -------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Peak memory of the tensors of a block.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_ANALYSIS_PEAKMEMORY_H
#define ATTN_ANALYSIS_PEAKMEMORY_H

#include "attn/Interfaces/CostOpInterface.h"

namespace mlir::attn {

/// Bytes of the tensors of a block, arguments excluded.
struct BlockMemory {
  /// The peak.
  int64_t peak = 0;
  /// Bytes of returned tensors.
  int64_t kept = 0;
};

/// Each tensor that an operation computes has its own memory until its last
/// use. Constants take no memory. Results of operations without cost are views
/// of their operands, and uses of a view are uses of that memory. Returned
/// tensors live until the end. They stay where they were computed, but are
/// copied if an argument or another returned tensor has the same memory.
BlockMemory getBlockMemory(Block &block, const CostAssumptions &assumptions);

/// Bytes of a tensor or a scalar.
int64_t getValueBytes(Type type, const CostAssumptions &assumptions);

} // namespace mlir::attn

#endif // ATTN_ANALYSIS_PEAKMEMORY_H
