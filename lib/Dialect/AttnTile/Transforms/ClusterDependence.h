//===- ClusterDependence.h - What groups of a cluster share -----*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds out what is the same in all groups of a cluster, and what depends on a
// group's place in it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_CLUSTERDEPENDENCE_H
#define ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_CLUSTERDEPENDENCE_H

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::attn_tile {

/// What of a kernel depends on the place of a group in its cluster: values, and
/// whether code runs, and how often. Memory that kernels read is taken to be
/// the same for all groups.
class ClusterDependence {
public:
  explicit ClusterDependence(KernelOp kernel);

  /// Whether all groups of a cluster load the same tiles by `load`, at the same
  /// positions of its stream.
  bool isShared(LoadOp load) const;

private:
  bool depends(ValueRange values) const;
  bool add(ValueRange values);
  bool update(Operation *op);

  llvm::DenseSet<Value> values;
  /// Loops and conditionals that run differently.
  llvm::DenseSet<Operation *> controls;
};

} // namespace mlir::attn_tile

#endif // ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_CLUSTERDEPENDENCE_H
