//===- ShardEmitter.h - The computation of one rank -------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the communication and the computation of one rank: what attention and
// its gradient have in common.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_SHARDEMITTER_H
#define ATTN_LIB_DISTRIBUTED_SHARDEMITTER_H

#include "HaloRows.h"
#include "HeadExchange.h"
#include "SequenceShard.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::attn {

/// Emits the computation of one rank, in place of an operation whose operands
/// with positions have become chunks of that rank. Results go to the
/// destinations of the operation if they have contents, else to new ones.
class ShardEmitter {
public:
  virtual ~ShardEmitter() = default;

  /// The results with the keys and values of all ranks, `key` and `value`.
  virtual SmallVector<Value> emitWhole(Value key, Value value) = 0;

  /// The results with all positions of the heads of this rank, or, with
  /// `steps`, the ones of its group, which is a member of a ring.
  virtual SmallVector<Value> emitHeads(ArrayRef<RingStep> steps) = 0;

  /// The results of attention to the keys of all ranks, of which each has a
  /// segment, and all have the same queries.
  virtual SmallVector<Value> emitSegments() {
    llvm_unreachable("gradients have no segments of keys");
  }

  /// The results of a ring, in which `sent` of the rows of each rank's keys go
  /// from rank to rank, if that is not all.
  SmallVector<Value> emitRing(ArrayRef<RingStep> steps,
                              std::optional<ChunkRows> sent);

  /// The chunks `[B, H, S / ranks, D]` of all ranks as one `[B, H, S, D]`.
  Value emitAllGather(Value chunk);

protected:
  /// The keys and values of one rank.
  struct KeyValues {
    Value key, value;
  };
  using Values = SmallVector<Value>;

  /// `rank` is the number of the rank, or of the member of a ring whose ranks
  /// are `group`: the operation then has the heads of this rank and the
  /// positions of the group.
  ShardEmitter(OpBuilder &builder, AttentionOpInterface op,
               ChunkPlacement placement, Value rank, const HeadGroup &group);

  /// Emits the computation of `step` with `keys`, which some rank has in this
  /// step. It may run concurrently with the communication of the step.
  virtual Values emitComputation(const RingStep &step, bool isLast) = 0;
  /// Whether ranks exchange more than keys and values during `step`.
  virtual bool hasTransfer(const RingStep &) { return false; }
  /// Emits that exchange.
  virtual Values emitTransfer(const RingStep &) { return {}; }
  /// Takes the values that the computation of `step` and its further exchange
  /// gave, if it has them.
  virtual void finishStep(const RingStep &step, ValueRange computed,
                          ValueRange transferred) = 0;
  /// Emits the results after the last step.
  virtual Values emitRingResults(const RingStep &last) = 0;

  /// Values of a pair of chunks: of its queries, and of its keys.
  struct PairValues {
    Values ofQueries, ofKeys;
  };
  /// The tensors with rows of queries that any rank needs to compute with these
  /// queries. The queries are the first one.
  virtual Values getRows() = 0;
  /// New destinations for the f32 results of a pair.
  virtual PairValues emitPairDestinations() = 0;
  /// The contents of results of queries of a rank that has no keys; results of
  /// keys are 0.
  virtual SmallVector<APFloat> getNothing() = 0;
  /// Whether pairs go on from results of the same queries.
  virtual bool doPairsGoOn() const { return false; }
  /// The results of a pair, of queries and then of keys. They go to
  /// `destinations`. `isFirst` holds for one pair of each chunk of queries. If
  /// pairs go on, this one does from `before` unless that is empty.
  virtual Values emitPair(ValueRange rows, KeyValues keys,
                          const ShardPlace &place, bool isFirst,
                          ValueRange destinations, ValueRange before) = 0;
  /// The results of queries, or of keys, of several pairs from the results of
  /// each. These are used nowhere else.
  virtual Values emitTotal(ArrayRef<Values> terms) = 0;
  /// The results of the operation from results of the queries, and of the keys,
  /// of this rank.
  virtual Values emitResults(ArrayRef<Values> ofQueries,
                             ArrayRef<Values> ofKeys) = 0;

  Value index(int64_t value);
  /// The number of positions of `tensor`.
  Value emitLength(Value tensor);
  /// `rank + offset` modulo the number of ranks.
  Value emitRank(int64_t offset);
  /// Whether this rank is in `set`; null if all are.
  Value emitContains(const llvm::BitVector &set);

  /// The positions of `tensor`, of a rank, that are in `slot`.
  Value emitSlot(Value tensor, int64_t slot);
  /// `tensor` with `chunk` in `slot`.
  Value emitWithSlot(Value tensor, Value chunk, int64_t slot);
  KeyValues emitSlot(KeyValues keys, int64_t slot) {
    return {emitSlot(keys.key, slot), emitSlot(keys.value, slot)};
  }

  /// The rows of `chunk`, of keys, that go from rank to rank.
  Value emitSentRows(Value chunk);
  KeyValues emitSentRows(KeyValues chunks) {
    return {emitSentRows(chunks.key), emitSentRows(chunks.value)};
  }
  /// `chunk` with `rows` as the ones that go from rank to rank.
  Value emitWithSentRows(Value chunk, Value rows);

  /// `destination`, which has become a chunk of this rank, if it has contents,
  /// else a new one with the dynamic sizes of `like`.
  Value emitDestination(Value destination, Value like);

  /// The ranks that exchange heads, and this one of them.
  HeadGroup emitHeadGroup() {
    return HeadGroup::emit(b, placement.ulyssesDegree, placement.ranks, rank);
  }
  /// The first query head of this rank of `ranks`.
  Value emitFirstHead(const HeadGroup &ranks);
  /// The positions of all of `query` and `key` with heads of this rank of
  /// `ranks`; none if it makes no difference which heads these are.
  ShardPlace emitHeadPositions(const HeadGroup &ranks, Value query, Value key);
  /// The results of `ofHeads`, whose operands this rank of `ranks` has received
  /// for its heads, in a ring of such groups. Erases the operation.
  Values emitRingOfHeads(Operation *ofHeads, const HeadGroup &ranks,
                         ArrayRef<RingStep> steps);
  /// The positions of all queries and of this rank's keys.
  ShardPlace emitSegmentPositions();
  /// The positions of this rank's queries and of all keys.
  ShardPlace emitWholePositions(Value key);
  /// The positions of `query`, of this rank, and of `key`, in slots.
  ShardPlace emitPositions(const RingStep &step, Value query, int64_t querySlot,
                           Value key, int64_t keySlot);
  /// `value`, with rows of the queries in `slot` or of the keys, in the type of
  /// `destination`. It goes there, unless that is new. Rows of no sequence keep
  /// the contents of the destination.
  Value emitQueryRows(Value value, Value destination, int64_t slot = 0);
  Value emitKeyRows(Value value, Value destination);
  /// Whether `destination` is new, or a slice of a new tensor.
  static bool isNew(Value destination);
  /// A copy of the operation with other results. Its operands are to be
  /// changed.
  Operation *emitCopy(TypeRange results);
  /// The results of `emit` on ranks in `set`, and of `emitOther` on others.
  Values emitIfMember(const llvm::BitVector &set, TypeRange types,
                      function_ref<Values()> emit,
                      function_ref<Values()> emitOther);
  /// `destinations`, filled with `contents`.
  Values emitFilled(ValueRange destinations, ArrayRef<APFloat> contents);
  /// `values` in `destinations`, which have the same types.
  Values emitCopied(ValueRange values, ValueRange destinations);
  /// Sends `sent` from `senders` to ranks that are `distance` further, which
  /// are `receivers`. Others keep the contents of `destinations`; these are new
  /// if there are none.
  Values emitExchange(ValueRange sent, const llvm::BitVector &senders,
                      const llvm::BitVector &receivers, int64_t distance,
                      ValueRange destinations = {});

  ImplicitLocOpBuilder b;
  AttentionOpInterface op;
  ChunkPlacement placement;
  Value rank;
  HeadGroup group;
  /// The keys of the present step of a ring.
  KeyValues keys;
  /// The rows of keys that ranks have of other ranks; without, all.
  std::optional<ChunkRows> sentRows;

private:
  /// A chunk of queries and one of keys: one of them is of this rank, and the
  /// other one of the rank `distance` before it.
  struct ChunksOfRanks {
    int64_t distance;
    int64_t querySlot = 0, keySlot = 0;
    /// Whether the keys, and not the queries, are of this rank.
    bool helps = false;
  };
  /// The rows of the queries and of the keys of such chunks.
  struct RowsOfRanks {
    ShardRows queries, keys;
  };
  /// Boundaries within rows of a rank, and the position of the first row of
  /// each sequence; null until they are needed.
  struct SlotSequences {
    Value boundaries, firstPositions;
  };
  /// The boundaries of the sequences in `rows`, and if `seesRows` where they
  /// begin there.
  SlotSequences emitSequencesInRows(Value boundaries, const ShardRows &rows,
                                    bool seesRows);
  /// The rows of `tensor` in slot `slot` of rank `of`.
  ShardRows emitRowsOfSlot(Value tensor, Value of, int64_t slot);
  /// `emitPositions` of every n-th position.
  ShardPlace emitStripedPlace(const RingStep &step, Value query, Value key);
  /// `emitWholePositions`, `emitSegmentPositions` and `emitPositions` of packed
  /// sequences.
  ShardPlace emitWholeInSequences();
  ShardPlace emitSegmentInSequences();
  ShardPlace emitPlaceInSequences(const ChunksOfRanks &chunks,
                                  const llvm::BitVector &attending);
  /// Emits the places of all shards of `step`, before anything that runs
  /// concurrently or on some ranks alone.
  void emitPlacesInSequences(const RingStep &step);
  /// Where the rows of this rank in `slot` are, `length` rows of a tensor. With
  /// groups of ranks, a tensor has both slots of these.
  RowPlace emitRowPlace(Value length, int64_t slot);
  /// `value` in `destination`, with the rows of this rank in `slot`, where
  /// these belong to a sequence of `boundaries`.
  Value emitRows(Value value, Value destination, Value boundaries,
                 int64_t slot);
  /// Chooses a mask of distances for the shard at `place`, which has some
  /// `rows` of `chunks`, if the mask is one.
  void chooseMaskInSequences(const ChunksOfRanks &chunks,
                             const RowsOfRanks &rows, ShardPlace &place);
  /// Whether all ranks of `attending` keep all pairs of a sequence in `chunks`.
  bool isFull(const ChunksOfRanks &chunks, const llvm::BitVector &attending);
  friend class LightSeqEmitter;

  ShardPlace emitPositions(const FirstPositions &first, Value numQueries,
                           Value numKeys);
  /// The number of the chunk in `slot` of rank `of`.
  Value emitChunk(Value of, int64_t slot);
  SmallVector<OpFoldResult> getSlotSizes(Value tensor);
  SmallVector<OpFoldResult> getSlotOffsets(Value tensor, int64_t slot);
  /// `step`, concurrently with the exchange that gives the keys of `next`, if
  /// there is one.
  void emitStep(const RingStep &step, const RingStep *next);
  /// Runs `first` and `second` concurrently. Returns the values that each of
  /// them returns.
  std::pair<Values, Values> emitOverlap(function_ref<Values()> first,
                                        function_ref<Values()> second);

  /// The chunks of which queries attend to all keys of the same sequence.
  ReachableChunks fullChunks;
  /// Of the queries of each slot.
  SmallVector<SlotSequences, 2> querySequences;
  /// Where the shards of the present step are, by slots of queries and keys.
  SmallVector<ShardPlace> places;
};

/// Whether attention to a segment of the keys of `op` depends on where the
/// segment is. A query that is alone attends to all keys with a causal mask.
bool needsPositions(AttentionOpInterface op);

/// The emitter for `op`, attention or its gradient.
std::unique_ptr<ShardEmitter>
createShardEmitter(OpBuilder &builder, AttentionOpInterface op,
                   ChunkPlacement placement, Value rank,
                   const HeadGroup &group = HeadGroup());
std::unique_ptr<ShardEmitter> createAttentionShard(OpBuilder &builder,
                                                   AttentionOp op,
                                                   ChunkPlacement placement,
                                                   Value rank,
                                                   const HeadGroup &group);
std::unique_ptr<ShardEmitter> createGradientShard(OpBuilder &builder,
                                                  AttentionGradOp op,
                                                  ChunkPlacement placement,
                                                  Value rank,
                                                  const HeadGroup &group);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_SHARDEMITTER_H
