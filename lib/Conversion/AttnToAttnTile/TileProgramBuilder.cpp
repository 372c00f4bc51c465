//===- TileProgramBuilder.cpp - Pieces of tiled programs ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileProgramBuilder.h"

using namespace mlir;
using namespace mlir::attn;

Value TileProgramBuilder::contract(Value lhs, Value rhs, Value acc,
                                   ContractForm form) {
  AffineExpr m, n, k;
  bindDims(getContext(), m, n, k);
  SmallVector<AffineExpr> lhsMap = {m, k}, rhsMap = {k, n};
  bool both = form == ContractForm::TransposedBoth;
  if (both || form == ContractForm::TransposedLhs)
    lhsMap = {k, m};
  if (both || form == ContractForm::TransposedRhs)
    rhsMap = {n, k};
  using vector::IteratorType;
  return vector::ContractionOp::create(
      *this, lhs, rhs, acc,
      ArrayRef<ArrayRef<AffineExpr>>{lhsMap, rhsMap, {m, n}},
      ArrayRef<IteratorType>{IteratorType::parallel, IteratorType::parallel,
                             IteratorType::reduction});
}

void TileProgramBuilder::cloneRegion(Region &source, Block *target,
                                     ValueRange arguments,
                                     const IRMapping &captured) {
  OpBuilder::InsertionGuard guard(*this);
  IRMapping mapping(captured);
  mapping.map(source.getArguments(), arguments);
  setInsertionPointToEnd(target);
  for (Operation &op : source.front().without_terminator())
    clone(op, mapping);
  auto yield = cast<YieldOp>(source.front().getTerminator());
  attn_tile::YieldOp::create(*this, mapping.lookupOrDefault(yield.getValue()));
}
