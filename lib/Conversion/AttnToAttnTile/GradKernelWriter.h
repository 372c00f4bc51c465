//===- GradKernelWriter.h - Kernels of gradients ----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the plain tiled programs of the gradient of attention: weights are
// recomputed tile by tile from the log-sum-exp (Dao et al. 2022).
//
// - The rows kernel computes what there is once for each query: the exponent
//   -log2(e) * lse, and delta = rowsum(dout * out) - dlse.
// - Keys kernels have a tile of keys for each work item, whose gradients stay
//   in registers while the queries that attend it go by; rows of their tiles of
//   scores are keys, so that the weights are left-hand sides of the products as
//   they come. Heads that share keys belong to one work item.
// - The queries kernel has a tile of queries for each work item. Instead of it,
//   the keys kernel may add what each step contributes to f32 sums, which the
//   kernel of sums scales and rounds.
//
// Work items of sequences are those of lists (see PlanSequences.h). What there
// is once for each query has rows for whole tiles of each sequence, so that no
// tile reaches into the rows of another one.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_GRADKERNELWRITER_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_GRADKERNELWRITER_H

#include "ClassifyTiles.h"
#include "KernelDropout.h"
#include "PlanSequences.h"
#include "TileProgramBuilder.h"
#include "attn/Analysis/MaskTiles.h"

namespace mlir::attn {

/// Buffers beside the operands, one row for each query, padded to whole tiles.
/// Of packed sequences each begins at a multiple of `sequenceAlignment` rows,
/// and has `sequencePadding` rows more than queries.
struct GradWorkspace {
  static constexpr int64_t sequenceAlignment = 16;
  int64_t sequencePadding;

  /// -log2(e) * lse, or -inf where there is nothing to attend.
  Value exponent;
  /// What is subtracted from the gradient of a weight.
  Value delta;
  /// Sums of the gradients of queries, as packed tiles; null if these have a
  /// kernel of their own. In a ring, instead of batch entries and heads, it has
  /// places of key heads, and the heads that share each.
  Value sums;
  /// For each place in the ring, how many tiles of keys have been added, and
  /// how many shares of the sums have been rounded; null if there is no ring.
  Value counters;
  /// For each row of the sums, how many additions its tile has had, if they
  /// have turns; null if not. Those of a tile are in its first rows.
  Value turns;
  /// The random streams of batch entries and heads; null if no decisions are
  /// made.
  Value streams;
};

/// Prepares the `score_grad` region of `op` for kernels that add up gradients
/// of captures: additions in conditionals become unconditional ones of perhaps
/// zero. Fails if kernels cannot make these gradients.
LogicalResult prepareCaptureGrads(AttentionGradOp op);

/// What a kernel computes.
struct Gradients {
  Value query, key, value;
};

/// Writes one of the kernels of a gradient.
class GradKernelWriter {
public:
  GradKernelWriter(OpBuilder &builder, AttentionGradOp op,
                   ScheduleAttrInterface schedule);

  /// The operands of the kernel; `refer` makes one known and gives its number.
  void addOperand(Value operand);
  void addCaptures(ValueRange captures);
  ArrayRef<Value> getOperands() const { return operands; }

  /// Each kernel walks over the list `plan` if there are sequences.
  void writeRows(attn_tile::KernelOp kernel, const GradWorkspace &workspace,
                 Value plan);
  void writeKeys(attn_tile::KernelOp kernel, const GradWorkspace &workspace,
                 const Gradients &results, const ClassifiedTiles &listed,
                 Value plan);
  void writeQueries(attn_tile::KernelOp kernel, const GradWorkspace &workspace,
                    Value result, const ClassifiedTiles &listed, Value plan);
  /// Rounds sums of a ring while others are added up, on warps that are idle.
  void writeRounding(attn_tile::KernelOp kernel, const GradWorkspace &workspace,
                     Value result);
  /// Rounds the sums, which a kernel with the tiles of `keys` has made; of a
  /// ring, those that are left.
  void writeSums(attn_tile::KernelOp kernel, const GradWorkspace &workspace,
                 Value result, ScheduleAttrInterface keys, Value plan);

private:
  /// A work item.
  struct WorkItem {
    /// The sequence, which is the batch entry unless sequences are packed, and
    /// the head of the queries or keys that its tile is of.
    Value sequence, head;
    /// The position of the first row of its tile.
    Value first;
    /// Where the sequence is stored: the batch entry, and the rows of position
    /// 0 of queries and keys, and of what there is once for each query. Null
    /// where positions are rows.
    Value batch, queryBase, keyBase, workBase;

    SmallVector<Value> at(OpBuilder &builder, Value head, Value base,
                          Value position) const;
  };
  /// Where a tile of scores lies; rows are keys if `transposed`.
  struct ScoreTile {
    Value batch, head, firstQuery, firstKey;
    bool transposed;
    SmallVector<int64_t> shape;
  };
  /// The tiles of queries that a work item of keys visits.
  struct QueryTiles {
    /// The row of the list that names them, if there is one; else, what follows
    /// from the mask.
    Value list;
    SmallVector<Value> row;
    std::optional<TileWalk> walk;
    /// The walk over those that are not masked.
    TileWalk fullWalk{/*isDescending=*/false};
    /// How many there are, and how many of them are masked: the first ones.
    Value count, masked;
    /// Whether none is known to have no masked pair.
    bool areAllMasked = false;
  };

  /// The place of a tile of keys in the order in which tiles of queries are
  /// visited and added to (see GradTurns.cpp).
  struct TurnOrder {
    /// The tile, how many there are, and how many of queries.
    Value tile, keyTiles, queryTiles;
    /// The tiles of its wave, or the pairs of a first and a last one.
    Value first, end;
    /// The first tile of queries that it visits, unless there are pairs.
    Value start;
    /// Whether it is the second one of a pair.
    Value isSecond;
  };
  /// Whether groups work on a long tile of keys and then on a short one.
  bool isTurnedInPairs();
  /// How many tiles of keys have a place, of `keyTiles`.
  Value countTurnedTiles(Value keyTiles);
  /// Emits the place of `tile` of `keyTiles` where there are `programs` groups.
  TurnOrder emitTurnOrder(Value tile, Value keyTiles, Value programs);
  /// The number among `tiles` of what step `turn` visits.
  Value emitTurnedStep(const TurnOrder &order, const QueryTiles &tiles,
                       Value turn);
  /// How many tiles of keys add to the tile of queries number `queries` before.
  Value emitTurn(const TurnOrder &order, Value queries);

  void begin(attn_tile::KernelOp kernel);
  /// Counters of a place in the ring.
  enum RingCounter : int64_t { Added, Rounded };
  /// Parts of a packed tile that different warps round. Large ones have less
  /// to wait for; two parts of queries leave no room for them.
  int64_t getRoundedParts() const { return queryParts > 1 ? 4 : 2; }
  /// Where a key head has its sums in a ring, and how many others have had that
  /// place before.
  struct RingPlace {
    Value slot, turn;
  };
  RingPlace emitRingPlace(Value sums, Value number);
  /// Emits how many key heads there are, over all batch entries, and how many
  /// of them, the last ones, have sums that no idle warp rounds.
  std::pair<Value, Value> emitRingHeads(Value sums, Value batches,
                                        Value keyHeads);
  /// Emits how many shares of the sums of a key head are rounded one by one.
  Value emitRoundedShares();
  /// Clears what there is in the ring of a tile of queries, and the counters.
  void clearRing(const WorkItem &item, const GradWorkspace &workspace,
                 Value isFirst);
  /// Whether sums have a row for each channel instead of one for each query:
  /// like all tiles of their kernel, they are to have as many rows as a tile of
  /// keys, or a multiple.
  bool isSumTransposed(int64_t keyTile) const {
    return queryTile % keyTile != 0;
  }
  /// Rows of a packed tile of sums with a row for each of `channels`, made with
  /// the schedule `keys`: those of a tile of keys where products can be in
  /// flight behind the additions of each, else all.
  int64_t getSumRows(int64_t channels, ScheduleAttrInterface keys) const {
    int64_t keyTile = keys.getKeyTile();
    bool isInParts = keys.leavesWarps() && channels % keyTile == 0 &&
                     keyTile * queryTile % channels == 0;
    return isInParts ? keyTile : channels;
  }
  /// Calls `fn` with the first channel of each packed tile of `rows` rows, of
  /// `channels` in all, and with its place among the sums, of which `place` is
  /// that of the first one.
  void forEachSumPart(int64_t channels, ArrayRef<Value> place, int64_t rows,
                      function_ref<void(int64_t, ArrayRef<Value>)> fn);
  /// Emits what the gradients of scores of a tile of queries, `grad`,
  /// contribute to the gradients of these, and adds it to `sums`.
  void emitAdditions(Value grad, Value keys, Value sums, ArrayRef<Value> place,
                     Value turn, Value turns);
  /// The argument of the kernel that stands for an operand.
  Value get(Value operand) { return captured.lookup(operand); }
  int64_t padHeadDim(Value operand);
  /// Emits the loop over work items (batch, head, tile).
  SmallVector<Value> beginItems(Value heads, Value tiles);
  /// Emits that over the items of a list, whose tiles are `rows`. From there on
  /// lengths are those of the item's sequence.
  WorkItem beginPlannedItems(Value heads, Value plan, MaskDim rows,
                             const GradWorkspace &workspace);
  /// What of the position of a row a load or store has to know to leave out
  /// what belongs to no sequence, or to another one; null if there are none.
  Value within(Value value) { return op.hasSequences() ? value : Value(); }

  /// `tile` with elements of the type that those of `other` have: gradients of
  /// the output may be f32 where queries, keys and values are not.
  Value matchElements(Value tile, Value other) {
    Type element = getElementTypeOrSelf(other.getType());
    return element.isF32() ? b.extend(tile) : b.round(tile, element);
  }
  /// Which steps of a loop have pairs to mask: the first ones, for some.
  enum class MaskedSteps { None, Some, All };
  /// A step of a work item of keys, and a part of it.
  struct KeyStep {
    const WorkItem &item;
    Value head, firstKey, firstQuery, step;
    /// Of the streams of what the loop walks over.
    Value length;
    /// The place among the tiles.
    Value turn;
    MaskedSteps masks;
    int64_t part;
  };

  QueryTiles emitQueryTiles(Value batch, Value keyHead, Value firstKey);
  QueryTiles emitListedTiles(Value list, ArrayRef<Value> row);
  /// The tile of queries at a place among `tiles`, or among those that are not
  /// masked.
  Value emitTileAt(const QueryTiles &tiles, Value turn, bool isFull);
  Value loadIndex(Value memref, ValueRange indices) {
    Value entry = memref::LoadOp::create(b, memref, indices);
    return arith::IndexCastOp::create(b, b.getIndexType(), entry);
  }
  /// Emits what a part of a tile of queries adds to the gradients of keys and
  /// values, which are `carried`, and returns the gradients of its scores, if
  /// those of keys are wanted.
  Value emitKeyPart(const KeyStep &step, const GradWorkspace &workspace,
                    const Gradients &results, Value keys, Value values,
                    const QueryTiles &tiles, SmallVectorImpl<Value> &carried);
  /// The tile whose columns are those of `tiles`, in order.
  Value joinColumns(ArrayRef<Value> tiles);
  /// The scores before the score region, scaled if there is one.
  Value emitRawScores(Value product);
  Value emitScores(const ScoreTile &tile, Value raw);
  Value emitMask(const ScoreTile &tile, Value scores);
  /// Clones the keep region of the operation, if any, to `target`.
  void cloneKeepRegion(Region &target);
  /// exp(score - lse).
  Value emitWeights(const ScoreTile &tile, Value scores, Value exponent);
  /// The decisions of dropout for a tile, or null.
  Value emitDecisions(const ScoreTile &tile,
                      const KernelDropout::Source &source) {
    using Placement = KernelDropout::WordPlacement;
    return dropout.emitDecisions(
        b, source, tile.firstQuery, tile.firstKey, tile.shape,
        tile.transposed ? Placement::Transposed : Placement::Shared);
  }
  /// The gradient of what `emitRawScores` gives, times `getGradFactor`, where
  /// `kept` are the weights without those that dropout drops, as products have
  /// them. Gradients of captures are added up along with it if `addsCaptures`.
  Value emitScoreGrad(const ScoreTile &tile, Value raw, Value weights,
                      Value kept, Value weightGrad, Value delta,
                      bool addsCaptures);
  /// Adds what the pairs of a tile that `counts` contribute to the gradients of
  /// captures. `grad` is the gradient of what the score region yields.
  void emitCaptureGrads(const ScoreTile &tile, Value raw, Value grad,
                        Value counts);
  /// With dropout the gradient of a score is `p * (dp / keep - delta)`. It is
  /// computed as `p * (dp - keep * delta)`, where the rows have `keep * delta`
  /// already, and the factor is left to what is stored. Score regions want the
  /// gradient itself.
  double getGradFactor() {
    return op.getScoreRegion().empty() ? dropout.getKeepProbability() : 1;
  }
  /// Row `first` of `length` of a sequence is the first one that is stored, if
  /// there are sequences.
  void emitStore(Value tile, Value dest, ValueRange indices, double factor,
                 Value first, Value length, bool isTransposed = false);
  /// The number of keys more than queries; null if there are as many.
  Value emitShift() {
    auto [queries, keys] = op.getStaticLengths();
    if (!ShapedType::isDynamic(queries) && queries == keys)
      return Value();
    return arith::SubIOp::create(b, keyLength, queryLength);
  }
  /// Stores the gradients of a tile of values, given what products add up.
  void storeValueGrads(Value tile, Value result, const WorkItem &item,
                       ArrayRef<Value> corner);
  /// Adds the gradients that a tile of values has by the identity.
  Value addIdentityGrads(Value tile, const WorkItem &item, Value firstKey);

  TileProgramBuilder b;
  AttentionGradOp op;
  ScheduleAttrInterface schedule;
  KernelDropout dropout;
  int64_t queryTile, keyTile, queryParts;
  SmallVector<Value> operands;
  IRMapping captured;
  Value queryLength, keyLength;
  bool mapsScores;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_GRADKERNELWRITER_H
