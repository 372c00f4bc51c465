//===- Arrivals.h - When a read tile is in registers ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread runs ahead of its reads of shared memory. A stage may be released
// only when all data that threads read from it has arrived in registers. Passes
// that place releases ask here which operation waits for that.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ARRIVALS_H
#define ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ARRIVALS_H

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"

namespace mlir::attn_tile {

/// The first operation after `read`, in its block, that cannot issue before the
/// whole tile of `read` is in registers. Null if no operation of the block is
/// certain to wait for the whole tile.
Operation *getArrival(ReadOp read);

} // namespace mlir::attn_tile

#endif // ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ARRIVALS_H
