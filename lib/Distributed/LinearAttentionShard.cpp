//===- LinearAttentionShard.cpp - The linear attention of one rank --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearShard.h"
#include "RingSchedule.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Emits the linear attention of one rank.
class LinearAttentionShard : public LinearShard {
public:
  LinearAttentionShard(OpBuilder &builder, LinearAttentionOp op,
                       RankOfGroup group, KnownStateMaps &known)
      : LinearShard(builder, op, group, known), op(op) {}

  SmallVector<Value> emit() override;

private:
  LinearAttentionOp op;
};
} // namespace

std::unique_ptr<LinearShard>
attn::createLinearAttentionShard(OpBuilder &builder, LinearAttentionOp op,
                                 RankOfGroup group, KnownStateMaps &known) {
  return std::make_unique<LinearAttentionShard>(builder, op, group, known);
}

SmallVector<Value> LinearAttentionShard::emit() {
  StateMaps maps = emitMaps();
  RankScan scan = makeScan(maps);
  Value first = emitGiven(inputs.initialState);
  Value seen = scan.emitSeen(first);
  Value out = emitDestination(op.getOut());
  auto shard = LinearAttentionOp::create(
      b, out.getType(), inputs.query, inputs.key, inputs.value, inputs.logDecay,
      inputs.beta, seen, out, /*final_state=*/nullptr, inputs.causal,
      inputs.scale, inputs.chunk, inputs.precision,
      /*schedule=*/ScheduleAttrInterface());
  if (Attribute schedule = op.getScheduleAttr())
    shard.setScheduleAttr(schedule);
  SmallVector<Value> results = {shard->getResult(0)};
  // All ranks have the state after the last token, with the same bits.
  if (Value destination = op.getFinalState())
    results.push_back(emitRounded(b, scan.emitTotal(first, seen), destination));
  return results;
}

//===----------------------------------------------------------------------===//
// Whole local blocks
//===----------------------------------------------------------------------===//

bool attn::hasWholeBlocks(LinearAttentionOp op, int64_t ranks) {
  std::optional<int64_t> block = op.getLocalBlockSize();
  int64_t length = getDimSize(op.getQuery(), sequenceDim);
  return block && !ShapedType::isDynamic(length) &&
         length % (ranks * *block) == 0;
}

/// The number of keys of each batch entry from the first one of this rank on;
/// numbers below 0 count as 0.
static Value emitLengthsOfRank(ImplicitLocOpBuilder &b, Value lengths,
                               Value first) {
  RankedTensorType type = getTensorType(lengths);
  first = arith::IndexCastOp::create(b, b.getI32Type(), first);
  SmallVector<AffineMap> maps(2, b.getMultiDimIdentityMap(1));
  auto ofRank = linalg::GenericOp::create(
      b, type, lengths, emitEmpty(b, type, lengths), maps,
      utils::IteratorType::parallel,
      [&](OpBuilder &body, Location loc, ValueRange arguments) {
        Value zero = arith::ConstantIntOp::create(body, loc, 0, 32);
        Value length = arith::MaxSIOp::create(body, loc, arguments[0], zero);
        Value rest = arith::SubIOp::create(body, loc, length, first);
        linalg::YieldOp::create(body, loc, rest);
      });
  return ofRank.getResult(0);
}

Value attn::emitWholeBlocks(OpBuilder &builder, LinearAttentionOp op,
                            RankOfGroup group) {
  ImplicitLocOpBuilder b(op.getLoc(), builder);
  b.setInsertionPoint(op);
  Value out = emitChunkDestination(b, op.getOut(), op.getQuery(), group.ranks);
  IRMapping mapping;
  mapping.map(op.getOut(), out);
  if (Value lengths = op.getKeyLengths()) {
    Value tokens = arith::ConstantIndexOp::create(
        b, getDimSize(op.getQuery(), sequenceDim));
    Value first = arith::MulIOp::create(b, group.rank, tokens);
    mapping.map(lengths, emitLengthsOfRank(b, lengths, first));
  }
  Operation *chunk = b.clone(*op, mapping);
  chunk->getResult(0).setType(out.getType());
  return chunk->getResult(0);
}
