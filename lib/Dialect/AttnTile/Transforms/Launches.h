//===- Launches.h - Launches of kernels ------------------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the launches of each kernel.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_LAUNCHES_H
#define ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_LAUNCHES_H

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::attn_tile {

/// The kernels in `op`, in their order, with the launches of each.
llvm::MapVector<Operation *, SmallVector<LaunchOp>>
collectLaunches(Operation *op);

} // namespace mlir::attn_tile

#endif // ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_LAUNCHES_H
