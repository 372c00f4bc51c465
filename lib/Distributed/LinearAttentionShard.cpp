//===- LinearAttentionShard.cpp - The linear attention of one rank --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LinearShard.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Emits the linear attention of one rank.
class LinearAttentionShard : public LinearShard {
public:
  LinearAttentionShard(OpBuilder &builder, LinearAttentionOp op,
                       RankOfGroup group, StateMapsOfKeys &known)
      : LinearShard(builder, op, group, known), op(op) {}

  SmallVector<Value> emit() override;

private:
  LinearAttentionOp op;
};
} // namespace

std::unique_ptr<LinearShard>
attn::createLinearAttentionShard(OpBuilder &builder, LinearAttentionOp op,
                                 RankOfGroup group, StateMapsOfKeys &known) {
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
      inputs.scale, inputs.chunk, /*schedule=*/ScheduleAttrInterface());
  if (Attribute schedule = op.getScheduleAttr())
    shard.setScheduleAttr(schedule);
  SmallVector<Value> results = {shard->getResult(0)};
  // All ranks have the state after the last token, with the same bits.
  if (Value destination = op.getFinalState())
    results.push_back(emitRounded(b, scan.emitTotal(first, seen), destination));
  return results;
}
