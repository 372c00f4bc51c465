//===- Arrivals.cpp - When a read tile is in registers --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Follows the values that are computed from a tile that threads read.
//
//===----------------------------------------------------------------------===//

#include "Arrivals.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::attn_tile;

/// Whether `op` consumes all of its registers at once: MMAs, stores to shared
/// memory, and reductions across threads. Arithmetic does not: the compiler may
/// move it behind a release, because nothing orders the two.
static bool takesRegisters(Operation *op) {
  if (auto reduction = dyn_cast<vector::MultiDimReductionOp>(op))
    return reduction.getSourceVectorType().getRank() == 2 &&
           isa<VectorType>(reduction.getType()) &&
           getElementTypeOrSelf(reduction.getType()).isF32();
  return isa<MmaStartOp, LocalStoreOp, StageFragmentsOp>(op);
}

/// Whether the result of `op` depends on every element of `operand`.
static bool usesWhole(Operation *op, Value operand) {
  if (op->getNumResults() != 1 ||
      (op->getNumRegions() != 0 && !isa<MapOp, MaskOp>(op)))
    return false;
  auto type = dyn_cast<VectorType>(operand.getType());
  auto result = dyn_cast<VectorType>(op->getResult(0).getType());
  return type && result && result.getNumElements() >= type.getNumElements();
}

Operation *attn_tile::getArrival(ReadOp read) {
  DenseSet<Value> computed = {read.getTile()};
  for (Operation *op = read->getNextNode(); op; op = op->getNextNode()) {
    for (Value operand : op->getOperands()) {
      if (!computed.contains(operand))
        continue;
      if (takesRegisters(op))
        return op;
      if (usesWhole(op, operand))
        computed.insert(op->getResult(0));
    }
  }
  return nullptr;
}
