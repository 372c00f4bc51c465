//===- TileProgramBuilder.cpp - Pieces of tiled programs ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/TileProgramBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "mlir/IR/TypeUtilities.h"

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
  if (getElementTypeOrSelf(lhs) != getElementTypeOrSelf(rhs)) {
    lhs = extend(lhs);
    rhs = extend(rhs);
  }
  using vector::IteratorType;
  return vector::ContractionOp::create(
      *this, lhs, rhs, acc,
      ArrayRef<ArrayRef<AffineExpr>>{lhsMap, rhsMap, {m, n}},
      ArrayRef<IteratorType>{IteratorType::parallel, IteratorType::parallel,
                             IteratorType::reduction});
}

attn_tile::MapOp TileProgramBuilder::createMap(
    ValueRange tiles, Value batch, Value head, Value firstQuery, Value firstKey,
    Value queryLength, Value keyLength, bool transposed) {
  constexpr size_t numPositions = 4;
  auto map =
      attn_tile::MapOp::create(*this, tiles, batch, head, firstQuery, firstKey,
                               queryLength, keyLength, transposed);
  OpBuilder::InsertionGuard guard(*this);
  SmallVector<Type> types = llvm::map_to_vector(
      tiles, [](Value tile) { return getElementTypeOrSelf(tile); });
  types.append(numPositions, getIndexType());
  SmallVector<Location> locs(types.size(), getLoc());
  createBlock(&map.getBody(), {}, types, locs);
  return map;
}

void TileProgramBuilder::cloneRegion(Region &source, Block *target,
                                     ValueRange arguments,
                                     const IRMapping &captured) {
  OpBuilder::InsertionGuard guard(*this);
  IRMapping mapping(captured);
  mapping.map(source.getArguments(), arguments);
  setInsertionPointToEnd(target);
  for (Operation &op : source.front().without_terminator())
    if (!isa<AccumulateOp>(op))
      clone(op, mapping);
  auto yield = cast<YieldOp>(source.front().getTerminator());
  attn_tile::YieldOp::create(*this, mapping.lookupOrDefault(yield.getValue()));
}

Value TileProgramBuilder::loadHeadScalar(Value memref, Value head) {
  Value entry = memref::LoadOp::create(*this, memref, head);
  if (entry.getType().isF32())
    return entry;
  return arith::ExtFOp::create(*this, getF32Type(), entry);
}

Value TileProgramBuilder::addScaledRows(Value tile, Value factor,
                                        const MatchingRows &rows) {
  // The columns of a tile take the place of keys.
  auto source = cast<MemRefType>(rows.source.getType());
  attn_tile::MapOp map =
      createMap(tile, rows.batch, rows.head, rows.first,
                rows.firstColumn ? rows.firstColumn : index(0), rows.tileLength,
                index(source.getShape().back()));
  Block *body = &map.getBody().front();
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToEnd(body);
  Value position = body->getArgument(3), column = body->getArgument(4);
  Value exists;
  if (rows.shift) {
    position = arith::AddIOp::create(*this, position, rows.shift);
    // The unsigned comparison also catches negative positions.
    exists = arith::CmpIOp::create(*this, arith::CmpIPredicate::ult, position,
                                   rows.length);
  }
  if (rows.firstRow)
    position = arith::AddIOp::create(*this, rows.firstRow, position);
  Value element = memref::LoadOp::create(
      *this, rows.source, ValueRange{rows.batch, rows.head, position, column});
  if (!element.getType().isF32())
    element = arith::ExtFOp::create(*this, getF32Type(), element);
  if (exists)
    element = arith::SelectOp::create(*this, exists, element, scalar(0));
  attn_tile::YieldOp::create(
      *this, math::FmaOp::create(*this, factor, element, body->getArgument(0))
                 .getResult());
  return map;
}
