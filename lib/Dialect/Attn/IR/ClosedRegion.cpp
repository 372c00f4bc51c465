//===- ClosedRegion.cpp - Syntax of regions -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/ClosedRegion.h"

using namespace mlir;

/// Whether `op` is in `region`. While text is parsed, blocks and regions around
/// an operation may have no parent yet.
static bool isInside(Operation *op, Region &region) {
  while (op) {
    Region *parent = op->getParentRegion();
    if (parent == &region)
      return true;
    op = parent ? parent->getParentOp() : nullptr;
  }
  return false;
}

/// Whether a value that `inner` or an operation in it defines is used outside
/// of `region`.
static bool isUsedOutside(Region &inner, Region &region) {
  auto hasUseOutside = [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return !isInside(user, region);
    });
  };
  for (Block &block : inner) {
    if (llvm::any_of(block.getArguments(), hasUseOutside))
      return true;
    for (Operation &op : block)
      if (llvm::any_of(op.getResults(), hasUseOutside) ||
          llvm::any_of(op.getRegions(), [&](Region &nested) {
            return isUsedOutside(nested, region);
          }))
        return true;
  }
  return false;
}

ParseResult attn::parseClosedRegion(OpAsmParser &parser, Region &region) {
  SMLoc loc = parser.getCurrentLocation();
  ParseResult result = parser.parseRegion(region);
  if (succeeded(result) && isUsedOutside(region, region))
    result =
        parser.emitError(loc, "defines a value that is used outside of it");
  if (failed(result)) {
    for (Block &block : region)
      block.dropAllDefinedValueUses();
    return result;
  }
  if (region.empty())
    region.emplaceBlock();
  return success();
}

void attn::printClosedRegion(OpAsmPrinter &printer, Operation *,
                             Region &region) {
  printer.printRegion(region);
}
