//===- Passes.h - Passes on the attn_tile dialect ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Creation and registration of the kernel passes.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_TRANSFORMS_PASSES_H
#define ATTN_DIALECT_ATTNTILE_TRANSFORMS_PASSES_H

#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Support/PassOptions.h"

namespace mlir::attn_tile {

#define GEN_PASS_DECL
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"

} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_TRANSFORMS_PASSES_H
