//===- AttnTileDialect.cpp - The attn_tile dialect -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registers the types, attributes and operations of the dialect.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Support/KnownNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::attn_tile;

#include "attn/Dialect/AttnTile/IR/AttnTileDialect.cpp.inc"

void AttnTileDialect::initialize() {
  registerTypes();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "attn/Dialect/AttnTile/IR/AttnTileOps.cpp.inc"
      >();
  declarePromisedInterfaces<attn::ScheduleAttrInterface, WarpSpecializedAttr,
                            MultistageAttr, SequentialAttr>();
}

std::optional<Dialect::ParseOpHook>
AttnTileDialect::getParseOperationHook(StringRef) const {
  return ParseOpHook(attn::suggestOperation);
}
