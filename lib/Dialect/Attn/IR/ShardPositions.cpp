//===- ShardPositions.cpp - Global positions of a shard -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/ShardPositions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::attn;

Value attn::emitShardPosition(OpBuilder &builder, Location loc, Value positions,
                              ShardPosition entry) {
  Value at =
      arith::ConstantIndexOp::create(builder, loc, static_cast<int64_t>(entry));
  Value word;
  if (isa<MemRefType>(positions.getType()))
    word = memref::LoadOp::create(builder, loc, positions, at);
  else
    word = tensor::ExtractOp::create(builder, loc, positions, at);
  // Code for bounds relies on the largest entry. The unsigned minimum also
  // replaces negative entries.
  Value largest =
      arith::ConstantIntOp::create(builder, loc, kLargestShardPosition, 32);
  word = arith::MinUIOp::create(builder, loc, word, largest);
  return arith::IndexCastUIOp::create(builder, loc, builder.getIndexType(),
                                      word);
}

Value attn::emitGlobalPosition(OpBuilder &builder, Location loc,
                               Value positions, ShardPosition entry,
                               Value position) {
  Value offset = emitShardPosition(builder, loc, positions, entry);
  return arith::AddIOp::create(builder, loc, position, offset);
}
