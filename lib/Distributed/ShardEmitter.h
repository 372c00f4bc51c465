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
  ShardEmitter(OpBuilder &builder, AttentionOp op, int64_t ranks, Value rank);

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
  /// A chunk of keys and values.
  struct Chunk {
    Value key, value;
  };

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
  /// Whether this rank is in `set`; null if all are.
  Value emitContains(const llvm::BitVector &set);
  RankedTensorType getOutType(Type elementType);
  RankedTensorType getLseType();
  /// A new tensor with the dynamic sizes of `like`, by default the query.
  Value emitEmpty(RankedTensorType type, Value like = nullptr);
  /// A new destination for partial results.
  Partial emitDestination();
  /// The positions of this shard for keys from `firstKey` on.
  Value emitPositions(Value firstKey, Value key, int64_t chunksOfKey);
  /// Attention to the keys of `chunk`, which takes sinks into account if
  /// `hasSinks`.
  Partial emitAttention(Chunk chunk, Value positions, Partial destination,
                        bool hasSinks);
  Partial emitMerge(ArrayRef<Partial> partials, Partial destination);
  /// The results of one step.
  Partial emitPartial(const RingStep &step, Chunk chunk, Partial destination);
  /// The same, and the results of no keys on ranks that do not attend in the
  /// step.
  Partial emitPartialIfAttending(const RingStep &step, Chunk chunk);
  /// The results of the steps up to `step`, from those before. They go to
  /// `destination`.
  Partial emitStep(const RingStep &step, Chunk chunk, Partial before,
                   Partial destination);
  /// The results of the steps up to `step`, concurrently with the exchange that
  /// gives the chunk of `next`.
  std::pair<Partial, Chunk> emitOverlap(const RingStep &step,
                                        const RingStep &next, Chunk chunk,
                                        Partial before);
  /// Sends `chunk` to the next rank, and receives the chunk of `step`.
  Chunk emitExchange(const RingStep &step, Chunk chunk);

  ImplicitLocOpBuilder b;
  AttentionOp op;
  int64_t ranks;
  Value rank;
  /// The shape of the output of this rank.
  SmallVector<int64_t> outShape;
  /// Where the results go; there may be no log-sum-exp.
  Partial results;
};

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_SHARDEMITTER_H
