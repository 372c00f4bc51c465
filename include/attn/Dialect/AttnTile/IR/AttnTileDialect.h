//===- AttnTileDialect.h - The attn_tile dialect --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declares the dialect class.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_ATTNTILEDIALECT_H
#define ATTN_DIALECT_ATTNTILE_IR_ATTNTILEDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Dialect.h"

#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h.inc"

#endif // ATTN_DIALECT_ATTNTILE_IR_ATTNTILEDIALECT_H
