//===- ShardEmitter.h - The attention of one rank ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the communication and the attention of one rank.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_SHARDEMITTER_H
#define ATTN_LIB_DISTRIBUTED_SHARDEMITTER_H

#include "RingSchedule.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::attn {

/// Emits the attention of one rank, in place of an attention whose query, key
/// and value have become chunks of that rank. Results go to the destinations of
/// the operation if they have contents, else to new ones.
class ShardEmitter {
public:
  /// `rank` is the number of the rank.
  ShardEmitter(OpBuilder &builder, AttentionOp op, ChunkPlacement placement,
               Value rank);

  /// The results of attention to the keys and values of all ranks, `key` and
  /// `value`.
  SmallVector<Value> emitWhole(Value key, Value value);

  /// The results of ring attention.
  SmallVector<Value> emitRing(ArrayRef<RingStep> steps);

  /// The chunks `[B, H, S / ranks, D]` of all ranks as one `[B, H, S, D]`.
  Value emitAllGather(Value chunk);

private:
  /// Results of attention to some keys.
  struct Partial {
    Value out, lse;
  };
  /// The keys and values of one rank.
  struct KeyValues {
    Value key, value;
  };
  /// Results with the queries of each slot.
  using State = SmallVector<Partial, 2>;

  static SmallVector<Value> getValues(Partial partial) {
    SmallVector<Value> values = {partial.out};
    if (partial.lse)
      values.push_back(partial.lse);
    return values;
  }

  Value index(int64_t value);
  /// The number of positions of `tensor`.
  Value emitLength(Value tensor);
  /// `rank + offset` modulo the number of ranks.
  Value emitRank(int64_t offset);
  /// The number of the chunk in `slot` of rank `of`.
  Value emitChunk(Value of, int64_t slot);
  /// Whether this rank is in `set`; null if all are.
  Value emitContains(const llvm::BitVector &set);

  /// The positions of `tensor`, of a rank, that are in `slot`.
  Value emitSlot(Value tensor, int64_t slot);
  /// `tensor` with `chunk` in `slot`.
  Value emitWithSlot(Value tensor, Value chunk, int64_t slot);
  SmallVector<OpFoldResult> getSlotSizes(Value tensor);
  SmallVector<OpFoldResult> getSlotOffsets(Value tensor, int64_t slot);

  RankedTensorType getOutType();
  RankedTensorType getLseType();
  /// A new tensor with the dynamic sizes of `like`.
  Value emitEmpty(RankedTensorType type, Value like);
  /// A new destination for partial results of one slot.
  Partial emitDestination();
  /// The destination of the results of `slot`.
  Partial emitResults(int64_t slot);

  /// The positions of a shard from `firstQuery` and `firstKey` on, of a larger
  /// attention with `numQueries` and `numKeys`.
  Value emitPositions(Value firstQuery, Value firstKey, Value numQueries,
                      Value numKeys);
  Partial emitAttention(Value query, KeyValues keys, Value positions,
                        Partial destination, bool hasSinks);
  Partial emitMerge(ArrayRef<Partial> partials, Partial destination);

  /// The results of `step` with the queries of one slot and the keys of one.
  Partial emitPartial(const RingStep &step, KeyValues keys, int64_t querySlot,
                      int64_t keySlot, Partial destination);
  /// The same, and the results of no keys on ranks that do not attend.
  Partial emitPartialIfAttending(const RingStep &step, KeyValues keys,
                                 int64_t querySlot, int64_t keySlot,
                                 Partial destination);
  /// The results of the steps up to `step` with the queries of `slot`, from the
  /// results before. They go to `destination`.
  Partial emitStep(const RingStep &step, KeyValues keys, int64_t slot,
                   Partial before, Partial destination);
  /// The results of the steps up to `step`, concurrently with the exchange that
  /// gives the keys of `next`.
  void emitOverlap(const RingStep &step, const RingStep &next, KeyValues &keys,
                   State &state);
  /// Sends `keys` to the next rank, and receives the keys of `step`.
  KeyValues emitExchange(const RingStep &step, KeyValues keys);

  ImplicitLocOpBuilder b;
  AttentionOp op;
  ChunkPlacement placement;
  Value rank;
  /// The shape of the output of one slot.
  SmallVector<int64_t> slotShape;
  /// Where the results go; there may be no log-sum-exp.
  Partial results;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_SHARDEMITTER_H
