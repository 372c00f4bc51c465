//===- InBoundsLoads.h - Loads that need no check ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A `memref.load` of a kernel reads zero if its memref has no elements. The
// attribute `attn_tile.in_bounds` states that the element exists wherever the
// load runs, so that targets need not check it.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_INBOUNDSLOADS_H
#define ATTN_DIALECT_ATTNTILE_IR_INBOUNDSLOADS_H

#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlir::attn_tile {

inline constexpr llvm::StringLiteral kInBoundsAttrName = "attn_tile.in_bounds";

inline void setKnownInBounds(memref::LoadOp load) {
  load->setAttr(kInBoundsAttrName, UnitAttr::get(load.getContext()));
}

inline bool isKnownInBounds(memref::LoadOp load) {
  return load->hasAttr(kInBoundsAttrName);
}

} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_IR_INBOUNDSLOADS_H
