//===- CarriedLoop.h - Loops that carry values ------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loops of kernels over chunks, tokens and other numbers.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CARRIEDLOOP_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CARRIEDLOOP_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::attn {

/// Emits a loop over each `step`-th number below `end`, from 0 on, that carries
/// values, first `inits`. `body` returns the next ones.
inline SmallVector<Value>
emitCarriedLoop(ImplicitLocOpBuilder &b, Value end, ValueRange inits,
                function_ref<SmallVector<Value>(Value number, ValueRange)> body,
                int64_t step = 1) {
  auto loop =
      scf::ForOp::create(b, arith::ConstantIndexOp::create(b, 0), end,
                         arith::ConstantIndexOp::create(b, step), inits);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> next =
      body(loop.getInductionVar(), loop.getRegionIterArgs());
  // A loop that carries nothing has a terminator.
  if (!inits.empty())
    scf::YieldOp::create(b, next);
  return SmallVector<Value>(loop.getResults());
}

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_CARRIEDLOOP_H
