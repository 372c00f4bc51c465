//===- Launches.cpp - Launches of kernels ---------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Looks up the kernel of each launch.
//
//===----------------------------------------------------------------------===//

#include "Launches.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace mlir::attn_tile;

llvm::MapVector<Operation *, SmallVector<LaunchOp>>
mlir::attn_tile::collectLaunches(Operation *op) {
  SymbolTableCollection symbols;
  llvm::MapVector<Operation *, SmallVector<LaunchOp>> launches;
  op->walk([&](KernelOp kernel) { launches[kernel]; });
  op->walk([&](LaunchOp launch) {
    Operation *kernel =
        symbols.lookupNearestSymbolFrom(launch, launch.getKernelAttr());
    if (isa_and_nonnull<KernelOp>(kernel))
      launches[kernel].push_back(launch);
  });
  return launches;
}
