//===- LightSeqTime.h - Times of a balanced schedule ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The model of the balanced schedule of DISTFLASHATTN.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_LIGHTSEQTIME_H
#define ATTN_LIB_DISTRIBUTED_LIGHTSEQTIME_H

#include "ProgramWriter.h"

namespace mlir::attn {

/// Writes the steps of one attention, as `emitLightSeq` emits them.
void writeLightSeq(ProgramWriter &writer, AttentionOpInterface op,
                   ShardKernels &kernels, const CostAssumptions &assumptions);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_LIGHTSEQTIME_H
