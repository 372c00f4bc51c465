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
// follows, so that a value of a region may have uses outside of it while text
// is parsed. No verifier accepts such uses. But generated parsers hold regions
// in local variables and destroy them at the first error, and the uses outside
// then refer to freed values. (MLIR 22.1; regions in an OperationState are
// handled.) This directive reports such uses and removes them.
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
