//===- AttnTileAttrs.h - Attributes of attn_tile ---------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Layouts of register tiles, roles, and schedules.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_ATTNTILEATTRS_H
#define ATTN_DIALECT_ATTNTILE_IR_ATTNTILEATTRS_H

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"

#include "attn/Dialect/AttnTile/IR/AttnTileEnums.h.inc"

#include "attn/Dialect/AttnTile/IR/AttnTileAttrInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h.inc"

namespace mlir::attn_tile {
/// Whether tensor maps may fetch blocks of `bytes` bytes to L2.
bool isL2Promotion(int64_t bytes);
} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_IR_ATTNTILEATTRS_H
