//===- AttnTile.td - Entry of attn_tile's TableGen -------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Umbrella of the dialect, its types, attributes and operations.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_ATTNTILE_TD
#define ATTN_DIALECT_ATTNTILE_IR_ATTNTILE_TD

include "attn/Dialect/AttnTile/IR/AttnTileDialect.td"
include "attn/Dialect/AttnTile/IR/AttnTileTypes.td"
include "attn/Dialect/AttnTile/IR/AttnTileAttrs.td"
include "attn/Dialect/AttnTile/IR/AttnTileOps.td"

#endif // ATTN_DIALECT_ATTNTILE_IR_ATTNTILE_TD
