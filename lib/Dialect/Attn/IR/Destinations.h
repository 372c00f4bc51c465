//===- Destinations.h - Operations in destination style ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What follows from destination style: operands that are not destinations are
// read, and results have the shapes of destinations.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_IR_DESTINATIONS_H
#define ATTN_LIB_DIALECT_ATTN_IR_DESTINATIONS_H

#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::attn {

using EffectList =
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

/// Adds the effects on the memrefs among the operands of `op`: inputs are read
/// and destinations written.
void addOperandEffects(DestinationStyleOpInterface op, EffectList &effects);

/// Adds the shapes of the results of `op`, which are those of its destinations.
/// Fails on memrefs, where there are no results.
LogicalResult reifyDestinationShapes(OpBuilder &builder,
                                     DestinationStyleOpInterface op,
                                     ReifiedRankedShapedTypeDims &shapes);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_IR_DESTINATIONS_H
