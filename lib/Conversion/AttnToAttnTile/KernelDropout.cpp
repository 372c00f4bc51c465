//===- KernelDropout.cpp - Dropout in tiled programs ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the random numbers of a work item, and what drops the weights of a
// tile.
//
//===----------------------------------------------------------------------===//

#include "KernelDropout.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::attn;

LogicalResult KernelDropout::check(ScheduleAttrInterface schedule) const {
  if (!*this)
    return success();
  int64_t multiple = DropoutAttr::keysOfWord;
  int64_t queryTile = schedule.getQueryTile(), keyTile = schedule.getKeyTile();
  if (queryTile % multiple != 0 || keyTile % multiple != 0)
    return op->emitOpError("with dropout needs tiles of multiples of ")
           << multiple << " queries and keys (has " << queryTile << " and "
           << keyTile << ")";
  return success();
}

void KernelDropout::report() const {
  if (!*this)
    return;
  DropoutAttr dropout = op.getDropoutAttr();
  remark::analysis(op->getLoc(), remark::RemarkOpts::name("dropout").category(
                                     "convert-attn-to-attn-tile"))
      << llvm::formatv("drops weights with probability {0}/{1}, for p = {2:f8}",
                       dropout.getThreshold(), int64_t(1) << dropout.getBits(),
                       dropout.getP().convertToDouble())
             .str();
}

void KernelDropout::addOperands(SetVector<Value> &operands) const {
  if (!*this)
    return;
  for (Value state : {op.getSeed(), op.getOffset()})
    if (!matchPattern(state, m_Constant()))
      operands.insert(state);
}

SmallVector<Value> KernelDropout::emitStream(OpBuilder &builder,
                                             const IRMapping &captured,
                                             Value batch, Value head) const {
  if (!*this)
    return {};
  Location loc = op->getLoc();
  auto read = [&](Value state) -> Value {
    if (matchPattern(state, m_Constant()))
      return builder.clone(*state.getDefiningOp())->getResult(0);
    state = captured.lookup(state);
    if (!isa<MemRefType>(state.getType()))
      return state;
    return memref::LoadOp::create(builder, loc, state, ValueRange());
  };
  Value seed = read(op.getSeed());
  Value offset = read(op.getOffset());
  RngBlock<Value> stream =
      op.getDropoutAttr().emitStream(builder, loc, seed, offset, batch, head);
  return SmallVector<Value>(stream.begin(), stream.end());
}

Value KernelDropout::emitDrop(OpBuilder &builder, Value weights,
                              Value firstQuery, Value firstKey,
                              ValueRange stream, bool transposed) const {
  if (!*this)
    return weights;
  return attn_tile::DropoutOp::create(builder, op->getLoc(), weights,
                                      firstQuery, firstKey, stream,
                                      op.getDropoutAttr(), transposed);
}
