//===- GradKernelWriter.h - Kernels of gradients ---------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the plain tiled programs of the attention gradient. P is recomputed
// tile by tile from the log-sum-exp (Dao et al. 2022).
//
// - The preprocess kernel computes two values for each query: the exponent
//   -log2(e) * lse, and delta = rowsum(dout * out) - dlse.
// - The dkdv kernel has one kv tile for each work item. dK and dV stay in
//   registers over the loop over the query tiles that attend the kv tile. Rows
//   of its score tiles are keys, so that P can be the left-hand side of the dV
//   MMA without a transpose. Query heads that share a key and a value head, a
//   GQA group, belong to one work item.
// - Where several groups have the same key head, or the same value head, the
//   dk_sum or dv_sum kernel adds up what the dkdv kernel computes of each
//   group, in f32.
// - The dq kernel has one query tile for each work item. Without it, the dkdv
//   kernel adds its dQ contributions to the f32 dQ accumulator, and the
//   dq_convert kernel scales and rounds the result.
//
// With packed or padded sequences, work items come from lists (see
// WorkItemList.h). The buffers with one row for each query then hold whole
// tiles of each sequence, so that no tile reaches into the rows of the next
// one.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_GRADKERNELWRITER_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_GRADKERNELWRITER_H

#include "ClassifyTiles.h"
#include "KernelDropout.h"
#include "WorkItemList.h"
#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::attn {

/// Buffers between the kernels, one row for each query, padded to whole tiles.
/// Each packed sequence begins at a multiple of `sequenceAlignment` rows and
/// has `sequencePadding` rows more than queries.
struct GradWorkspace {
  static constexpr int64_t sequenceAlignment = 16;
  int64_t sequencePadding;

  /// -log2(e) * lse, or -inf where there is nothing to attend. As an addition
  /// to tiles of scores, -lse divided by the factor of these.
  Value exponent;
  /// Subtracted from dP, the gradient of the attention probabilities. As an
  /// addition to dP, it has the other sign.
  Value delta;
  /// The dQ accumulator, as tiles in fragment order; null if a dq kernel
  /// computes dQ. As a dQ ring buffer, its first two dimensions are slots for
  /// GQA groups and the query heads of each group.
  Value dqAccumulator;
  /// For each slot of the dQ ring buffer, the number of kv tiles that have been
  /// added and of tile parts that have been converted; null without a ring.
  Value dqRingSemaphores;
  /// With ordered accumulation, how many additions each tile of the dQ
  /// accumulator has had, in the tile's first rows; else null.
  Value semaphores;
  /// The Philox streams of batch entries and heads; null if the kernels
  /// generate no keep mask.
  Value streams;
  /// To what the dkdv kernel adds `exponent` and `delta`.
  attn_tile::RowAdditions additions = {};
};

/// Prepares the `score_mod_grad` region of `op` for kernels that accumulate
/// gradients of captures: conditional additions become unconditional ones, of
/// zero where the condition is false. Fails if kernels cannot compute these
/// gradients.
LogicalResult prepareCaptureGrads(AttentionOpInterface op,
                                  const attn_tile::GradOperands &tensors);

/// The results of a kernel; null for the ones it does not compute.
struct Gradients {
  Value query, key, value;
};

/// Writes one of the kernels of a gradient.
class GradKernelWriter {
public:
  /// With a `head_dim_tile`, kernels of keys and of queries compute that many
  /// columns of their result, from `firstColumn` on.
  GradKernelWriter(OpBuilder &builder, attn_tile::StreamingGradOpInterface op,
                   ScheduleAttrInterface schedule, int64_t firstColumn = 0);

  /// Appends operands of the kernel, which become its arguments in this order.
  void addOperand(Value operand);
  void addCaptures(ValueRange captures);
  ArrayRef<Value> getOperands() const { return operands; }

  /// With sequences, each kernel iterates over the work-item list
  /// `workItemList`.
  void writePreprocess(attn_tile::KernelOp kernel,
                       const GradWorkspace &workspace, Value workItemList);
  void writeDkdv(attn_tile::KernelOp kernel, const GradWorkspace &workspace,
                 const Gradients &results, const ClassifiedTiles &listed,
                 Value workItemList);
  void writeDq(attn_tile::KernelOp kernel, const GradWorkspace &workspace,
               Value result, const ClassifiedTiles &listed, Value workItemList);
  /// Adds up `ofGroups`, the gradients of keys or of values that each GQA group
  /// has, in f32, to the gradients `result` of the heads.
  void writeGroupSums(attn_tile::KernelOp kernel,
                      const GradWorkspace &workspace, Value ofGroups,
                      Value result, Value workItemList);
  /// Converts finished tiles of the dQ ring buffer on auxiliary warps, while
  /// other tiles are still accumulated.
  void writeDqConversion(attn_tile::KernelOp kernel,
                         const GradWorkspace &workspace, Value result);
  /// Converts the dQ accumulator of a dkdv kernel with the schedule `keys`; of
  /// a dQ ring buffer, only the heads that no auxiliary warp converts.
  void writeDqConvert(attn_tile::KernelOp kernel,
                      const GradWorkspace &workspace, Value result,
                      ScheduleAttrInterface keys, Value workItemList);

private:
  /// A work item.
  struct WorkItem {
    /// The sequence, which is the batch entry unless sequences are packed, and
    /// the query head of its tile, or the GQA group of a tile of keys.
    Value sequence, head;
    /// The position of the first row of its tile.
    Value first;
    /// Where the sequence is stored: the batch entry, and the rows of position
    /// 0 in queries, in keys and in the workspace. Null where positions are
    /// rows.
    Value batch, queryBase, keyBase, workBase;

    SmallVector<Value> at(OpBuilder &builder, Value head, Value base,
                          Value position) const;
  };
  /// Where a tile of scores lies; rows are keys if `transposed`.
  struct ScoreTile {
    Value batch, head, firstQuery, firstKey;
    bool transposed;
    SmallVector<int64_t> shape;
    /// To what the values of rows have been added.
    attn_tile::RowAdditions additions = {};
  };
  /// The query tiles that a work item of the dkdv kernel visits.
  struct QueryTiles {
    /// The list that names them, and its row; null if the tiles follow from the
    /// mask.
    Value list;
    SmallVector<Value> row;
    std::optional<TileIteration> iteration;
    /// The iteration over the full tiles.
    TileIteration fullIteration{/*isDescending=*/false};
    /// The number of tiles, and of partial ones, which come first.
    Value count, masked;
    /// Whether no tile is known to be full.
    bool areAllMasked = false;
  };

  /// The position of a kv tile in the order of ordered accumulation (see
  /// OrderedAccumulation.cpp).
  struct AccumulationOrder {
    /// The kv tile, and the numbers of kv tiles and query tiles.
    Value tile, keyTiles, queryTiles;
    /// The range of kv tiles, or of pairs of kv tiles, of its wave.
    Value first, end;
    /// The first query tile that it visits, unless kv tiles are paired.
    Value start;
    /// Whether it is the second tile of a pair.
    Value isSecond;
  };
  /// Whether a CTA processes kv tiles in pairs: a long one, then a short one.
  bool isPaired();
  /// The number of kv tiles in the order, `keyTiles` or one more for pairs.
  Value countOrderedTiles(Value keyTiles);
  /// Emits the position of kv tile `tile` in a grid of `programs` CTAs.
  AccumulationOrder emitAccumulationOrder(Value tile, Value keyTiles,
                                          Value programs);
  /// The index into `tiles` of the query tile that is visited at `visitIndex`.
  Value emitOrderedStep(const AccumulationOrder &order, const QueryTiles &tiles,
                        Value visitIndex);
  /// How many kv tiles add to query tile `queries` before this one.
  Value emitOrdinal(const AccumulationOrder &order, Value queries);

  void begin(attn_tile::KernelOp kernel);
  /// Semaphores of a slot of the dQ ring buffer.
  enum DqRingSemaphore : int64_t { Added, Converted };
  /// Parts of a tile in fragment order that different warps convert. Large
  /// parts wait less often, but with two query parts they do not fit.
  int64_t getConvertedParts() const { return queryParts > 1 ? 4 : 2; }
  /// The slot of a GQA group in the dQ ring buffer, and how many groups have
  /// used that slot before.
  struct DqRingSlot {
    Value slot, numEarlierUses;
  };
  DqRingSlot emitDqRingSlot(Value dqAccumulator, Value number);
  /// Emits the number of GQA groups over all batch entries, and how many of the
  /// last ones are left to the dq_convert kernel.
  std::pair<Value, Value> emitDqRingHeads(Value dqAccumulator, Value batches,
                                          Value groups);
  /// Emits the number of parts of a group's dQ that are converted separately.
  Value emitConvertedParts();
  /// Begins the work items of the preprocess kernel. `number` becomes zero for
  /// the first tile of a sequence and head.
  WorkItem beginRows(const GradWorkspace &workspace, Value workItemList,
                     Value &number);
  /// Subtracts the contribution of the identity from a tile of the output.
  /// Returns, for each row, the factor of the probabilities.
  Value removeIdentity(Value &output, const WorkItem &item);
  /// A query tile of the preprocess kernel as the law of the reduction sees it.
  class PreparedRows;
  /// Clears a query tile of the dQ accumulator, and its semaphores. `corner`
  /// holds the indices of the tile without its column.
  void clearDqTile(const WorkItem &item, const GradWorkspace &workspace,
                   ArrayRef<Value> corner);
  /// Clears a query tile's part of the dQ ring buffer, and the semaphores.
  void clearDqRing(const WorkItem &item, const GradWorkspace &workspace,
                   Value isFirst);
  /// Whether the dQ accumulator is transposed, with a row for each element of
  /// the head dim. Like all tiles of the kernel, its tiles need a multiple of
  /// `keyTile` rows.
  bool isDqTransposed(int64_t keyTile) const {
    return queryTile % keyTile != 0;
  }
  /// Rows of a tile in fragment order of the transposed dQ accumulator, for the
  /// schedule `keys`. One kv tile's rows where MMAs can overlap the reduction
  /// of each part, else all of `headDim`.
  int64_t getDqRows(int64_t headDim, ScheduleAttrInterface keys) const {
    int64_t keyTile = keys.getKeyTile();
    bool isInParts = keys.leavesWarps() && headDim % keyTile == 0 &&
                     keyTile * queryTile % headDim == 0;
    return isInParts ? keyTile : headDim;
  }
  /// Calls `fn` for each tile in fragment order of `rows` of the `headDim`
  /// rows, with its first row and its indices in the dQ accumulator. `place`
  /// holds the indices of the first tile.
  void forEachDqPart(int64_t headDim, ArrayRef<Value> place, int64_t rows,
                     function_ref<void(int64_t, ArrayRef<Value>)> fn);
  /// Emits the dQ contribution of the score gradients `grad` of a query tile,
  /// and adds it to `dqAccumulator`.
  void emitAdditions(Value grad, Value keys, Value dqAccumulator,
                     ArrayRef<Value> place, Value ordinal, Value semaphores);
  /// The argument of the kernel that stands for an operand.
  Value get(Value operand) { return captured.lookup(operand); }
  int64_t padHeadDim(Value operand);
  /// The columns of the result that the kernel computes, of `headDim`.
  int64_t getResultColumns(int64_t headDim) const;
  /// These columns of a tile with all of them.
  Value extractResultColumns(Value tile);
  /// The first of these columns.
  Value emitFirstColumn();
  /// Whether each consumer has columns of its own.
  bool haveConsumersColumns() const {
    return schedule.getColumnConsumers() > 1;
  }
  /// Emits the loop over work items (batch, head, tile).
  SmallVector<Value> beginWorkItems(Value heads, Value tiles);
  /// Emits the loop over a work-item list with tiles of dimension `rows`, and
  /// sets the lengths of the item's sequence.
  WorkItem beginListedWorkItems(Value heads, Value workItemList, MaskDim rows,
                                const GradWorkspace &workspace);
  /// The row position that a load or store needs to leave out rows of other
  /// sequences; null without sequences.
  Value within(Value value) { return addressing.isListed() ? value : Value(); }

  /// Converts `tile` to the element type of `other`: the gradient of the output
  /// may be f32 where queries, keys and values are not.
  Value matchElements(Value tile, Value other) {
    Type element = getElementTypeOrSelf(other.getType());
    return element.isF32() ? b.extend(tile) : b.round(tile, element);
  }
  /// Which steps of a loop are masked; `Some` means the first ones.
  enum class MaskedSteps { None, Some, All };
  /// A step of a dkdv work item, and a part of its query tile.
  struct KeyStep {
    const WorkItem &item;
    Value head, firstKey, firstQuery, step;
    /// The number of steps of the pipes that the loop reads.
    Value length;
    /// The index of the query tile among the visited ones.
    Value visitIndex;
    MaskedSteps masks;
    int64_t part;
  };

  /// Masks the scores of a step. With `isMasked`, the MMA has added the mask.
  Value emitStepMask(const KeyStep &step, const ScoreTile &at,
                     const QueryTiles &tiles, Value scores, bool isMasked);
  QueryTiles emitQueryTiles(Value batch, Value group, Value firstKey);
  QueryTiles emitListedTiles(Value list, ArrayRef<Value> row);
  /// The query tile at index `visitIndex` among `tiles`, or among the full
  /// ones if `isFull`.
  Value emitTileAt(const QueryTiles &tiles, Value visitIndex, bool isFull);
  Value loadIndex(Value memref, ValueRange indices) {
    Value entry = memref::LoadOp::create(b, memref, indices);
    return arith::IndexCastOp::create(b, b.getIndexType(), entry);
  }
  /// Adds the dK and dV contributions of a part of a query tile to `carried`.
  /// Returns the score gradients, or null if dK is not a result.
  Value emitKeyPart(const KeyStep &step, const GradWorkspace &workspace,
                    const Gradients &results, Value keys, Value values,
                    const QueryTiles &tiles, SmallVectorImpl<Value> &carried);
  /// A work item of the dkdv kernel, its position in the order of ordered
  /// accumulation, and the row of lists with its query tiles.
  struct KeyWorkItem {
    WorkItem item;
    AccumulationOrder order;
    SmallVector<Value> listRow;
  };
  /// What the steps of a work item of the dkdv kernel have in common.
  struct KeyLoop {
    const GradWorkspace &workspace;
    const Gradients &results;
    const ClassifiedTiles &listed;
    KeyWorkItem workItem = {};
    QueryTiles tiles = {};
    DqRingSlot dqRing = {};
    /// The tiles of keys and of values.
    Value keys = {}, values = {};
    /// The number of steps of the pipes that the loops read.
    Value length = {};
    /// Whether additions to dQ are ordered; whether the lists of tiles depend
    /// on the head; and whether each query head of a GQA group visits the
    /// tiles by itself.
    bool isOrdered = false, isListedByHead = false, isOncePerHead = false;
  };
  /// The steps of one loop, from `first` (null: 0) to `end`: `count` tiles of
  /// each head.
  struct KeySteps {
    Value first, end, count;
    MaskedSteps masks;
  };
  /// The query head of a step, as one of its GQA group too (null if the step
  /// does not choose one), the index of its query tile among the visited ones,
  /// and that tile.
  struct StepPlace {
    Value head, member, visitIndex, tile;
  };
  /// A work item of the dq kernel, its key and value head, and the row of lists
  /// with its kv tiles.
  struct QueryWorkItem {
    WorkItem item;
    KeyValueHeads heads;
    SmallVector<Value> listRow;
  };
  QueryWorkItem beginQueryTiles(const GradWorkspace &workspace,
                                const ClassifiedTiles &listed,
                                Value workItemList);
  /// The values that all steps of a work item of the dq kernel use.
  struct DqLoop {
    QueryWorkItem workItem = {};
    /// The tiles of queries and of the output's gradients, and the rows of the
    /// workspace.
    Value queries = {}, outputGrads = {}, exponent = {}, delta = {};
    attn_tile::KVTileIteratorOp tiles = {};
    KernelDropout::Source keepMask = {};
  };
  /// Adds the dQ contribution of the kv tile of a step to `sum`.
  Value emitDqStep(const DqLoop &loop, Value step, Value sum);
  KeyWorkItem beginKeyTiles(const GradWorkspace &workspace,
                            const ClassifiedTiles &listed, Value workItemList,
                            bool isOrdered);
  /// Waits until the slot of a GQA group in the dQ ring buffer is free.
  DqRingSlot waitForDqRing(const WorkItem &item,
                           const GradWorkspace &workspace);
  QueryTiles emitTilesOfKeys(const KeyWorkItem &workItem,
                             const ClassifiedTiles &listed, bool isOrdered);
  StepPlace emitStepPlace(const KeyLoop &loop, Value visitIndex, Value count,
                          bool isFull);
  /// Adds the dQ contributions of the score gradients `grads` of the parts of a
  /// query tile.
  void addToDq(const KeyLoop &loop, const StepPlace &place, Value firstQuery,
               ArrayRef<Value> grads);
  scf::ForOp emitKeySteps(const KeyLoop &loop, const KeySteps &steps,
                          ValueRange inits);
  /// Emits one loop over the query tiles, or one over the partial and one over
  /// the full ones. Returns the dK and dV accumulators.
  ValueRange emitKeyLoops(KeyLoop &loop, ValueRange inits);
  /// Concatenates `tiles` along their columns.
  Value joinColumns(ArrayRef<Value> tiles);
  /// The scores before the score_mod region, scaled if there is one.
  Value emitRawScores(Value qk);
  Value emitScores(const ScoreTile &tile, Value raw);
  Value emitMask(const ScoreTile &tile, Value scores);
  /// Clones the mask_mod region of the operation, if any, to `target`.
  void cloneMaskMod(Region &target);
  /// Whether tiles may have queries after the last one.
  bool hasPadding();
  double getScoreFactor() { return mapsScores ? 1 : op.getScaleOrDefault(); }
  attn_tile::GradTile getGradTile(const ScoreTile &tile) {
    return {b, tile.shape, getScoreFactor(),
            tile.transposed && mayPaddingBeInfinite, tile.additions};
  }
  /// The dropout keep mask of a tile, or null.
  Value emitKeepMask(const ScoreTile &tile,
                     const KernelDropout::Source &source) {
    using Placement = KernelDropout::WordPlacement;
    return dropout.emitKeepMask(
        b, source, tile.firstQuery, tile.firstKey, tile.shape,
        tile.transposed ? Placement::Transposed : Placement::Shared);
  }
  /// The gradient of the result of `emitRawScores`, times `getGradFactor`.
  /// `kept` has the factors after dropout, in the element type of the MMA
  /// operands. With `addsCaptures`, gradients of captures are accumulated as
  /// well.
  Value emitScoreGrad(const ScoreTile &tile, Value raw, Value factors,
                      Value kept, Value factorGrad, Value row,
                      bool addsCaptures);
  /// Adds the contributions of the pairs selected by `counts` to the gradients
  /// of captures. `grad` is the gradient of the value that the score_mod
  /// yields.
  void emitCaptureGrads(const ScoreTile &tile, Value raw, Value grad,
                        Value counts);
  /// The factor of score gradients, which the store of dQ or dK divides by. A
  /// score_mod region needs the gradient itself.
  double getGradFactor() {
    return op.getScoreMod().empty() ? law.getScoreGradFactor() : 1;
  }
  /// Stores a tile. With sequences, its first row has position `first` in a
  /// sequence of `length` rows.
  void emitStore(Value tile, Value dest, ValueRange indices, double factor,
                 Value first, Value length, bool isTransposed = false);
  /// The number of keys minus the number of queries; null if they are equal.
  Value emitShift() {
    auto [queries, keys] = op.getStaticLengths();
    if (!ShapedType::isDynamic(queries) && queries == keys)
      return Value();
    return arith::SubIOp::create(b, keyLength, queryLength);
  }
  /// Emits the sum of tiles of shape `shape`, from column `column` on, of the
  /// GQA groups in `source` that have the key or value head of `item`.
  Value emitGroupSum(Value source, const WorkItem &item, int64_t groupsOfHead,
                     ArrayRef<int64_t> shape, int64_t column);
  /// Stores the dV tile, given its accumulator.
  void storeValueGrads(Value tile, Value result, const WorkItem &item,
                       ArrayRef<Value> corner);
  /// Adds the contribution of the identity to a dV tile.
  Value addIdentityGrads(Value tile, const WorkItem &item, Value firstKey);

  TileProgramBuilder b;
  AttentionOpInterface op;
  /// The operation as the gradient of a reduction over keys.
  attn_tile::StreamingGradOpInterface law;
  attn_tile::GradOperands tensors;
  KVAddressingAttrInterface addressing;
  ScheduleAttrInterface schedule;
  KernelDropout dropout;
  int64_t queryTile, keyTile, queryParts, firstColumn;
  SmallVector<Value> operands;
  IRMapping captured;
  Value queryLength, keyLength;
  bool mapsScores;
  /// Whether the score_mod may yield infinity or NaN for a query after the last
  /// one, although it yields finite scores for the others.
  bool mayPaddingBeInfinite;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_GRADKERNELWRITER_H
