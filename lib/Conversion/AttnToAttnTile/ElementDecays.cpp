//===- ElementDecays.cpp - Decays of key elements by levels ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ElementDecays.h"
#include "CarriedLoop.h"
#include "LogDecaySums.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

/// Two parts of 8 bits each leave an error of 2^-17 of a log-decay. Decays
/// whose log-decay makes that much are nearly zero. Three parts are exact for
/// elements of f32.
ElementDecays::ElementDecays(TileProgramBuilder &b, Value logDecay,
                             ValueRange indices, ArrayRef<int64_t> shape,
                             Type element)
    : b(b), tokens(shape[0]), columns(shape[1]) {
  Value tile = b.load(shape, logDecay, indices);
  tile = arith::MinimumFOp::create(b, tile, b.splat(shape, 0));
  tile = arith::MaximumFOp::create(b, tile, b.splat(shape, minLogDecay));
  tile = arith::MulFOp::create(b, tile, b.splat(shape, log2e));
  parts.push_back(b.round(tile, b.getBF16Type()));
  for (size_t numParts = element.isF32() ? 3 : 2; parts.size() < numParts;) {
    tile = arith::SubFOp::create(b, tile, b.extend(parts.back()));
    parts.push_back(b.round(tile, b.getBF16Type()));
  }
}

SmallVector<Value> ElementDecays::forLevels(
    ValueRange inits,
    function_ref<SmallVector<Value>(Value level, ValueRange carried)> body) {
  return emitCarriedLoop(b, b.index(llvm::Log2_64(uint64_t(tokens))), inits,
                         body);
}

Value attn::selectPairs(TileProgramBuilder &b, Value tile, PairFn keeps) {
  auto type = cast<VectorType>(tile.getType());
  Value zero = b.index(0);
  attn_tile::MapOp map =
      b.createMap(tile, zero, zero, zero, zero, b.index(type.getDimSize(0)),
                  b.index(type.getDimSize(1)));
  Block *body = &map.getBody().front();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(body);
  Value element = body->getArgument(0);
  Value none = arith::ConstantOp::create(b, b.getZeroAttr(element.getType()));
  Value isKept = keeps(body->getArgument(3), body->getArgument(4));
  element = arith::SelectOp::create(b, isKept, element, none);
  attn_tile::YieldOp::create(b, element);
  return map;
}

Value attn::emitIsOfLevel(OpBuilder &builder, Location loc, Value level,
                          Value row, Value column) {
  ImplicitLocOpBuilder b(loc, builder);
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value rowHalf = arith::ShRUIOp::create(b, row, level);
  Value columnHalf = arith::ShRUIOp::create(b, column, level);
  // The halves of a block are an even number and the next one.
  Value next = arith::OrIOp::create(b, columnHalf, one);
  Value isNext = arith::CmpIOp::create(b, CmpIPredicate::eq, rowHalf, next);
  Value isOther =
      arith::CmpIOp::create(b, CmpIPredicate::ne, rowHalf, columnHalf);
  return arith::AndIOp::create(b, isNext, isOther);
}

Value attn::emitIsToMiddle(OpBuilder &builder, Location loc, Value level,
                           Value row, Value column) {
  ImplicitLocOpBuilder b(loc, builder);
  auto compare = [&](CmpIPredicate predicate, Value lhs, Value rhs) -> Value {
    return arith::CmpIOp::create(b, predicate, lhs, rhs);
  };
  auto isBoth = [&](Value lhs, Value rhs) -> Value {
    return arith::AndIOp::create(b, lhs, rhs);
  };
  Value half = arith::ShRUIOp::create(b, row, level);
  Value one = arith::ConstantIndexOp::create(b, 1);
  Value second = arith::OrIOp::create(b, half, one);
  Value middle = arith::ShLIOp::create(b, second, level);
  Value ofSecond = isBoth(compare(CmpIPredicate::sge, column, middle),
                          compare(CmpIPredicate::sle, column, row));
  Value ofFirst = isBoth(compare(CmpIPredicate::sgt, column, row),
                         compare(CmpIPredicate::slt, column, middle));
  return arith::SelectOp::create(b, compare(CmpIPredicate::sge, row, middle),
                                 ofSecond, ofFirst);
}

Value ElementDecays::selectLevel(Value level, Value pairs) {
  return selectPairs(b, pairs, [&](Value row, Value column) {
    return emitIsOfLevel(b, b.getLoc(), level, row, column);
  });
}

Value ElementDecays::selectDiagonal(Value pairs) {
  return selectPairs(b, pairs, [&](Value row, Value column) {
    return arith::CmpIOp::create(b, CmpIPredicate::eq, row, column);
  });
}

/// The matrix of zeros and ones that adds up the log-decays between each token
/// and the middle of its block.
Value ElementDecays::emitLevelMatrix(Value level) {
  auto type = VectorType::get({tokens, tokens}, b.getBF16Type());
  Value ones = arith::ConstantOp::create(
      b, DenseElementsAttr::get(type,
                                b.getFloatAttr(b.getBF16Type(), 1).getValue()));
  return selectPairs(b, ones, [&](Value row, Value column) {
    return emitIsToMiddle(b, b.getLoc(), level, row, column);
  });
}

Value ElementDecays::emitDecays(Value level) {
  Value matrix = emitLevelMatrix(level);
  Value sums = b.splat({tokens, columns}, 0);
  for (Value part : llvm::reverse(parts))
    sums = b.contract(matrix, part, sums, ContractForm::Plain);
  return math::Exp2Op::create(b, sums);
}
