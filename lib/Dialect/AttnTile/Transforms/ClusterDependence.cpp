//===- ClusterDependence.cpp - Values common to a cluster -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Propagates the dependence on a CTA's rank in its cluster through values and
// control flow, up to a fixed point.
//
//===----------------------------------------------------------------------===//

#include "ClusterDependence.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn_tile;

ClusterDependence::ClusterDependence(KernelOp kernel) {
  bool changed = true;
  while (changed) {
    changed = false;
    kernel.getBody().walk([&](Operation *op) { changed |= update(op); });
  }
}

bool ClusterDependence::isShared(LoadOp load) const {
  if (depends(load->getOperands()))
    return false;
  for (Operation *op = load->getParentOp(); !isa<KernelOp>(op);
       op = op->getParentOp())
    if (controls.contains(op))
      return false;
  return true;
}

bool ClusterDependence::depends(ValueRange range) const {
  return llvm::any_of(range,
                      [&](Value value) { return values.contains(value); });
}

bool ClusterDependence::add(ValueRange range) {
  bool changed = false;
  for (Value value : range)
    changed |= values.insert(value).second;
  return changed;
}

/// Adds the values and the control flow that depend on the rank because of
/// `op`; returns whether anything was added.
bool ClusterDependence::update(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    if (depends({loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})) {
      bool changed = controls.insert(op).second;
      changed |= add(loop.getBody()->getArguments());
      changed |= add(loop.getResults());
      return changed;
    }
    bool changed = false;
    for (auto [init, argument, yielded, result] :
         llvm::zip_equal(loop.getInitArgs(), loop.getRegionIterArgs(),
                         loop.getYieldedValues(), loop.getResults()))
      if (depends({init, yielded}))
        changed |= add({argument, result});
    return changed;
  }
  if (auto conditional = dyn_cast<scf::IfOp>(op)) {
    if (depends(conditional.getCondition())) {
      bool changed = controls.insert(op).second;
      changed |= add(conditional.getResults());
      return changed;
    }
    bool changed = false;
    for (auto [number, result] : llvm::enumerate(conditional.getResults()))
      if (depends({conditional.thenYield().getOperand(number),
                   conditional.elseYield().getOperand(number)}))
        changed |= add(result);
    return changed;
  }

  bool isDependent =
      isa<ClusterRankOp, ProgramIdOp>(op) || depends(op->getOperands());
  for (Region &region : op->getRegions())
    region.walk([&](Operation *nested) {
      isDependent |= depends(nested->getOperands());
    });
  if (!isDependent)
    return false;
  bool changed = add(op->getResults());
  for (Region &region : op->getRegions())
    changed |= add(region.getArguments());
  return changed;
}
