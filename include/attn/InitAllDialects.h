//===- InitAllDialects.h - Registration of dialects ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The call with which an embedder registers all dialects of the project.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INITALLDIALECTS_H
#define ATTN_INITALLDIALECTS_H

#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Dialect/AttnTile/Transforms/ScheduleInterfaceImpl.h"
#include "mlir/IR/DialectRegistry.h"

namespace mlir::attn {

/// Adds the dialects of the project, and what they promise, to `registry`.
inline void registerAllDialects(DialectRegistry &registry) {
  registry.insert<AttnDialect, attn_tile::AttnTileDialect>();
  attn_tile::registerScheduleInterfaceExternalModels(registry);
}

} // namespace mlir::attn

#endif // ATTN_INITALLDIALECTS_H
