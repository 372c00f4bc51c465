//===- AttnTileTypes.h - Types of attn_tile ---------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pipes, staged tiles, MMAs in flight, masks, iterators and streams.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_ATTNTILETYPES_H
#define ATTN_DIALECT_ATTNTILE_IR_ATTNTILETYPES_H

#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "mlir/IR/BuiltinTypes.h"

#define GET_TYPEDEF_CLASSES
#include "attn/Dialect/AttnTile/IR/AttnTileTypes.h.inc"

#endif // ATTN_DIALECT_ATTNTILE_IR_ATTNTILETYPES_H
