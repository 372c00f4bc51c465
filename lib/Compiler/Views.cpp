//===- Views.cpp - Views of memrefs ---------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Upstream's interface of views, and views without it.
//
//===----------------------------------------------------------------------===//

#include "Views.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace mlir::attn;

Value attn::getYieldedByOverlap(Value value) {
  auto overlap = value.getDefiningOp<OverlapOp>();
  if (!overlap)
    return {};
  unsigned region = 0, number = cast<OpResult>(value).getResultNumber();
  while (number >= overlap.getYielded(region).size())
    number -= overlap.getYielded(region++).size();
  return overlap.getYielded(region)[number];
}

Value attn::getViewedMemRef(Value memref) {
  if (auto view = memref.getDefiningOp<ViewLikeOpInterface>())
    return view.getViewSource();
  if (auto transpose = memref.getDefiningOp<memref::TransposeOp>())
    return transpose.getIn();
  return getYieldedByOverlap(memref);
}
