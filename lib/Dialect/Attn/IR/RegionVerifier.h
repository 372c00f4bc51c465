//===- RegionVerifier.h - Verification of regions ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verification that all regions of attn operations have in common.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DIALECT_ATTN_IR_REGIONVERIFIER_H
#define ATTN_LIB_DIALECT_ATTN_IR_REGIONVERIFIER_H

#include "attn/Dialect/Attn/IR/AttnOps.h"

namespace mlir::attn {

/// Checks a region of `op`, if it is not empty: its arguments, its terminator,
/// and that it does nothing but compute, read and add to the destinations.
/// `destinations` is called after the arguments have been verified.
LogicalResult
verifyRegion(DestinationStyleOpInterface op, StringRef name, Region &region,
             TypeRange argumentTypes, Type yieldType,
             function_ref<SmallVector<RegionDestination>()> destinations);

} // namespace mlir::attn

#endif // ATTN_LIB_DIALECT_ATTN_IR_REGIONVERIFIER_H
