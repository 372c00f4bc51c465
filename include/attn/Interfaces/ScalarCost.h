//===- ScalarCost.h - Work of one scalar operation -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The execution units that scalar operations of regions use.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERFACES_SCALARCOST_H
#define ATTN_INTERFACES_SCALARCOST_H

#include "attn/Interfaces/CostOpInterface.h"

namespace mlir::attn {

/// Adds `times` executions of a scalar operation.
void addScalarOpCost(Operation &op, double times, OpCost &cost);

} // namespace mlir::attn

#endif // ATTN_INTERFACES_SCALARCOST_H
