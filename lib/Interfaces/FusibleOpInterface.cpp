//===- FusibleOpInterface.cpp - Fusion with attention ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The generated methods of the interface, and the scalar operations to fuse.
//
//===----------------------------------------------------------------------===//

#include "attn/Interfaces/FusibleOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "attn/Interfaces/FusibleOpInterface.cpp.inc"

using namespace mlir;
using namespace mlir::attn;

ElementSource::~ElementSource() = default;

bool attn::isScalarOperation(Operation *op) {
  // A bitcast depends on the float type; a copy may compute in another one.
  return op->getNumResults() == 1 && op->getNumRegions() == 0 &&
         isMemoryEffectFree(op) && !isa<arith::BitcastOp>(op) &&
         getElementTypeOrSelf(op->getResult(0)).isIntOrIndexOrFloat();
}
