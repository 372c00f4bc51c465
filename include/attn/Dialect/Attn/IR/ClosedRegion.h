//===- ClosedRegion.h - Syntax of regions -----------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The directive `custom<ClosedRegion>($region)` of assembly formats.
//
// A name that is used before it is defined may be defined in a region that
// follows, so that while text is parsed a value of a region may have uses
// outside of it. No verifier accepts that, but the parsers that are generated
// from formats hold regions in variables and destroy them at the first error,
// and what is left outside then writes to values that are no more. (MLIR 22.1;
// regions that are in an OperationState are taken care of.) This directive
// reports such uses, and leaves none behind.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_CLOSEDREGION_H
#define ATTN_DIALECT_ATTN_IR_CLOSEDREGION_H

#include "mlir/IR/OpImplementation.h"

namespace mlir::attn {

/// Parses a region whose values are used in it only. An empty one gets a block.
ParseResult parseClosedRegion(OpAsmParser &parser, Region &region);

void printClosedRegion(OpAsmPrinter &printer, Operation *op, Region &region);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_CLOSEDREGION_H
