//===- AttnTileParameters.h - Attributes from their parameters --*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For each attribute of attn_tile that has named parameters, such as a
// schedule, a struct of them: `SequentialParameters` for `SequentialAttr`. Code
// that makes an attribute sets the parameters that it chooses, and the other
// ones keep their defaults, new parameters as well. The struct also verifies
// the parameters.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_ATTNTILEPARAMETERS_H
#define ATTN_DIALECT_ATTNTILE_IR_ATTNTILEPARAMETERS_H

#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"

namespace mlir::attn_tile {

#include "attn/Dialect/AttnTile/IR/AttnTileParameters.h.inc"

} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_IR_ATTNTILEPARAMETERS_H
