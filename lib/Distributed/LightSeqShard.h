//===- LightSeqShard.h - One rank of a balanced schedule --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the steps of the balanced schedule of DISTFLASHATTN, of attention and
// of its gradient.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_LIGHTSEQSHARD_H
#define ATTN_LIB_DISTRIBUTED_LIGHTSEQSHARD_H

#include "LightSeqSchedule.h"
#include "ShardEmitter.h"

namespace mlir::attn {

/// Emits the results of `steps`, by `shard`.
SmallVector<Value> emitLightSeq(ShardEmitter &shard,
                                ArrayRef<LightSeqStep> steps);

/// Reports the work and the communication of all ranks for `op` as a remark.
void reportLightSeq(AttentionOpInterface op, ArrayRef<LightSeqStep> steps);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_LIGHTSEQSHARD_H
