//===- SortedSearch.cpp - Search by halving -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/SortedSearch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

Value attn::emitLastAtMost(
    ImplicitLocOpBuilder &b, Value count, Value bound,
    function_ref<Value(ImplicitLocOpBuilder &, Value number)> emitElement) {
  Type index = b.getIndexType();
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  auto loop = scf::WhileOp::create(
      b, TypeRange{index, index}, ValueRange{zero, count},
      [&](OpBuilder &before, Location loc, ValueRange range) {
        Value size = arith::SubIOp::create(before, loc, range[1], range[0]);
        Value isOpen =
            arith::CmpIOp::create(before, loc, CmpIPredicate::ugt, size, one);
        scf::ConditionOp::create(before, loc, isOpen, range);
      },
      [&](OpBuilder &after, Location loc, ValueRange range) {
        ImplicitLocOpBuilder c(loc, after);
        Value middle = arith::ShRUIOp::create(
            c, arith::AddIOp::create(c, range[0], range[1]), one);
        Value isAtMost = arith::CmpIOp::create(c, CmpIPredicate::sle,
                                               emitElement(c, middle), bound);
        Value low = arith::SelectOp::create(c, isAtMost, middle, range[0]);
        Value high = arith::SelectOp::create(c, isAtMost, range[1], middle);
        scf::YieldOp::create(c, ValueRange{low, high});
      });
  return loop.getResult(0);
}
