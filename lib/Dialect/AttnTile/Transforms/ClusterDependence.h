//===- ClusterDependence.h - Values common to a cluster ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tells values that are the same in all CTAs of a cluster from values that
// depend on the rank of a CTA in its cluster.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_CLUSTERDEPENDENCE_H
#define ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_CLUSTERDEPENDENCE_H

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::attn_tile {

/// The values and the control flow of a kernel that depend on the rank of a CTA
/// in its cluster. Memory that kernels read is assumed to be the same for all
/// CTAs.
class ClusterDependence {
public:
  explicit ClusterDependence(KernelOp kernel);

  /// Whether all CTAs of a cluster load the same tiles by `load`, at the same
  /// positions of its stream.
  bool isShared(LoadOp load) const;

private:
  bool depends(ValueRange values) const;
  bool add(ValueRange values);
  bool update(Operation *op);

  llvm::DenseSet<Value> values;
  /// Loops and conditionals whose execution depends on the rank.
  llvm::DenseSet<Operation *> controls;
};

} // namespace mlir::attn_tile

#endif // ATTN_LIB_DIALECT_ATTNTILE_TRANSFORMS_CLUSTERDEPENDENCE_H
