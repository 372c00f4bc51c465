//===- Arrivals.h - When what was read is in registers ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread goes on while what it reads from workgroup memory is on its way to
// registers. A stage that threads read may only be released when all of it has
// arrived, so passes that place releases ask which operation waits for it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ARRIVALS_H
#define ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ARRIVALS_H

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"

namespace mlir::attn_tile {

/// The first operation behind `read`, in its block, that is not issued before
/// all that `read` reads is in registers, or null if no operation of the block
/// is certain to wait for all of it.
Operation *getArrival(ReadOp read);

} // namespace mlir::attn_tile

#endif // ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_ARRIVALS_H
