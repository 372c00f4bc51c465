//===- RingReport.h - Work and messages of a ring ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Says in a remark what the ranks of a ring compute and send.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_RINGREPORT_H
#define ATTN_LIB_DISTRIBUTED_RINGREPORT_H

#include "HaloRows.h"

namespace mlir::attn {

/// Reports the work and the communication of all ranks that take `steps` for
/// `op`, or of groups of them. `sent` are the rows of keys that they send, if
/// these are not all.
void reportRing(AttentionOpInterface op, ArrayRef<RingStep> steps,
                ChunkPlacement placement, std::optional<ChunkRows> sent);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_RINGREPORT_H
