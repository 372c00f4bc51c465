//===- HaloRows.h - Keys that go round a ring -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_HALOROWS_H
#define ATTN_LIB_DISTRIBUTED_HALOROWS_H

#include "RingSchedule.h"

namespace mlir::attn {

/// The same rows of each chunk of keys.
struct ChunkRows {
  int64_t first, size;
};

/// The rows of chunks of keys of `op`, of the whole, that queries of other
/// chunks may attend to, as one range for all `chunks` chunks, whose ends are
/// multiples of 64 rows or ends of a chunk: a window of keys before each query
/// reaches the last rows of the chunk before (halo exchange). Not known if
/// that is all rows, if lengths are dynamic, or of sequences.
std::optional<ChunkRows> findHaloRows(AttentionOpInterface op,
                                      const ReachableChunks &reachable,
                                      int64_t chunks);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_HALOROWS_H
