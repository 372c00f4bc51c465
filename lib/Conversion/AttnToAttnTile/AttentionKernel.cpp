//===- AttentionKernel.cpp - The kernel of an attention -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A loop over work items, in it a loop over key tiles with the online softmax
// (Milakov and Gimelshein 2018; Dao et al. 2022). docs/Architecture.md shows
// the program.
//
//===----------------------------------------------------------------------===//

#include "AttentionKernel.h"
#include "ClassifyTiles.h"
#include "HeadMaps.h"
#include "KernelDropout.h"
#include "TileProgramBuilder.h"
#include "WorkItemList.h"
#include "attn-runtime/attn_runtime.h"
#include "attn/Analysis/ScoreRange.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

/// How far the maximum of a row may exceed its reference, as a power of two:
/// probabilities stay below 2^8, far from the limits of f16 and of f32 row
/// sums. Where exponent bits are cleared, the reference is raised this far
/// above the maximum.
static constexpr double maxExponentGrowth = 8;
/// The largest absolute exponent of two of a row maximum for which kernels with
/// unbounded scores use the fused multiply-subtract. Its rounding error is at
/// most 2^-11.
static constexpr double maxFusedExponent = 1 << 14;
/// Bounds of absolute scores: the largest input scores that kernels of 16-bit
/// inputs support without a score_mod, and the largest that a score_mod may
/// return (docs/Numerics.md). The exponents of two of such row maxima are off
/// by less than 4.
static constexpr double maxPlainScore = 1 << 24, maxBoundedScore = 1 << 26;
/// The smallest factor, and the inverse of the largest one, that moves from the
/// scores into `exponentScale`.
static constexpr double minTileScale = 1e-9;

namespace {
/// Writes the kernel of one attention.
class KernelWriter {
public:
  /// Each KV split, if there are any, is a work item of its own, which writes
  /// to the split buffers.
  KernelWriter(OpBuilder &builder, AttentionOp attention,
               attn_tile::KernelOp kernel, ValueRange captures,
               const KVSplits &splits);

  void write();

private:
  using RowsCols = std::pair<int64_t, int64_t>;

  /// Views the operands of several query heads as rows of their key heads.
  void chooseScales();
  void takeArguments(ValueRange captures, const KVSplits &splits);
  void packGqa();

  /// Positions and operands of the work item that is being written.
  struct WorkItem {
    /// The position as masks and regions see it: in the sequence of these
    /// lengths.
    Value sequence, head, firstQuery, queryLength, keyLength;
    /// Its row in the lists of key tiles, if there are lists.
    SmallVector<Value, 3> listRow;
    /// The source of its dropout keep mask, if there is dropout.
    KernelDropout::Source dropout;
    /// Where the work item is stored. Without sequences rows are positions.
    Value batch, keyBatch, keyHead, firstQueryRow, firstKeyRow;
    /// The factor of the identity, if it is mixed with P.
    Value identity;
    /// Its KV split, of how many; null without split-KV.
    Value split, numSplits;
    /// The number of a listed work item.
    Value number;
    /// Its first column of the values; null if it has all columns.
    Value firstColumn;
    /// The first query of its cluster, whose CTAs iterate over the same key
    /// tiles.
    Value firstOfCluster;
  };

  /// The values that the loop over key tiles carries.
  struct State {
    Value rowMax, rowSums, acc;
  };

  /// The work item for the induction variables of the loop over work items.
  WorkItem makeWorkItem(ValueRange ids);
  void writeWorkItem(const WorkItem &item);
  /// Reports an entry of the head map that is not a key head, and a number of
  /// keys that the cache has no room for.
  void checkInputs(const WorkItem &item);
  /// Reports `code` if `isWrong`.
  void report(Value isWrong, attnrt_fault code);
  /// Emits the number of keys of batch entry `batch`; 0 if it is not valid.
  Value loadKeyLength(Value batch);
  Value loadQueries(const WorkItem &item);
  State writeStep(const WorkItem &item, Value queryTile, Value step,
                  attn_tile::KVTileIteratorOp tiles, State state);
  /// The exponents of two of the probabilities of `scores`, and the rescale
  /// factor when row maxima grow from `oldMax` to `newMax`, which are finite.
  std::pair<Value, Value> emitExponents(Value scores, Value oldMax,
                                        Value newMax);
  /// The state before the first step, of a row without keys.
  State emitInitialState(const WorkItem &item);
  /// The same with a sink for each row, and the accumulator `acc`.
  State emitInitialStateOfRows(const WorkItem &item, Value acc);
  void writeResults(const WorkItem &item, attn_tile::KVTileIteratorOp tiles,
                    const State &state);
  /// Stores the scaled row maxima and the row sums of a KV split at `place`.
  void storeSplitStatistics(const WorkItem &item,
                            attn_tile::KVTileIteratorOp tiles, Value scaledMax,
                            Value sum, ValueRange place);
  /// Adds the values times the identity factor to a tile of results.
  Value addIdentity(const WorkItem &item, Value tile);
  /// Masks by `bits` if not null, else by position.
  Value writeScores(const WorkItem &item, Value scores, Value firstKey,
                    Value bits);

  /// Clones `source`, a region of the attention, to the end of `target`, the
  /// body of an `attn_tile` operation. `arguments` replace its block arguments.
  void cloneRegion(Region &source, Block *target, ValueRange arguments);

  /// Clones the mask_mod region of the attention, if any, to `target`.
  void cloneMaskMod(Region &target);

  /// The summand `x` of a score_mod region that yields `score + x`, where `x`
  /// does not depend on the score; null for other regions.
  static Value findBias(Region &region);
  /// The initial accumulator of the QK^T MMA: the bias, or zero.
  Value writeBias(const WorkItem &item, Value firstKey);

  /// Splits the result of a score_mod region into a value and a positive
  /// constant factor, which is 1 if there is none.
  static std::pair<Value, double> splitFactor(Region &region);

  /// Repeats a row vector along `columns` columns.
  Value broadcastRows(Value rows, int64_t columns) {
    return b.broadcast(rows, {queryTileSize, columns});
  }
  /// Loads a tile of the keys, or of the values if `isValue`. Rows of values
  /// after the end of the sequence are zero.
  Value loadKeyTile(const WorkItem &item, Value firstKey, Value position,
                    Value length, bool isValue);
  /// The first column of the values that a work item has.
  Value getFirstColumn(const WorkItem &item) {
    return item.firstColumn ? item.firstColumn : b.index(0);
  }
  void storeTile(const WorkItem &item, Value tile, Value dest,
                 ValueRange indices);

  TileProgramBuilder b;
  AttentionOp attention;
  KernelDropout dropout;
  attn_tile::KernelOp kernel;
  IRMapping captured;

  /// `vHeadDim` counts the columns of the values that a work item has, of
  /// `numVHeadDimTiles` work items for each query tile.
  int64_t queryTileSize, keyTileSize, qkHeadDim, vHeadDim;
  int64_t numVHeadDimTiles;
  /// Whether the query heads of a key head are rows of a tile.
  bool packsGqa;
  /// CTAs of a cluster, which iterate over key tiles together.
  int64_t clusterSize;
  Value query, key, value, out, lse, sinks, headMap, fault, identity;
  KVAddressingAttrInterface addressing;
  /// The number of keys of each batch entry, and its pages; null if the keys
  /// have no lengths, or are not in pages.
  Value keyLengths, pageTable;
  /// The query before packing. Hosts, which compute grids, know no packed
  /// views.
  Value storedQuery;
  /// Whether work items are KV splits, and whether these are listed.
  bool isSplit, listsItsSplits;
  /// The row maxima and the row sums of probabilities of each KV split.
  Value splitMax, splitSum;
  /// The list of work items, if there are sequences.
  Value workItemList;
  /// The lists of key tiles, if masks read tensors, and the order of query
  /// tiles by the lengths of their lists.
  Value lists, order;
  /// The mask bits of the listed partial tiles, or null.
  Value maskBits;
  Value storedQueries, storedKeys;
  /// The number of KV splits of each query tile; null without split-KV, and
  /// where splits are listed.
  Value numSplits;
  /// The value that the score_mod adds to scores, if it does nothing else.
  Value bias;
  /// Whether scores need an `attn_tile.map`; if not, `exponentScale` includes
  /// the scale.
  bool mapsScores;
  bool isRescaleConditional;
  /// Whether inputs or a score_mod can make scores beyond `maxBoundedScore`.
  bool mayScoresBeLarge;
  /// Whether dropout clears bits of the exponents of probabilities.
  bool clearsExponents;
  /// The positive factor from a tile's elements to scores.
  double tileScale;
  /// exp(score) is exp2(exponentScale * x) of the tile's element x.
  double exponentScale;
};
} // namespace

KernelWriter::KernelWriter(OpBuilder &builder, AttentionOp attention,
                           attn_tile::KernelOp kernel, ValueRange captures,
                           const KVSplits &splits)
    : b(attention.getLoc(), builder), attention(attention), dropout(attention),
      kernel(kernel), addressing(getKVAddressing(attention)),
      isSplit(bool(splits)), listsItsSplits(splits.areListed()) {
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  queryTileSize = schedule.getQueryTile();
  keyTileSize = schedule.getKeyTile();
  packsGqa = schedule.packsGqa();
  clusterSize = schedule.getClusterSize();
  isRescaleConditional = schedule.isRescaleConditional();
  // f16 probabilities would lose bits below the reference.
  clearsExponents =
      dropout && getElementTypeOrSelf(attention.getValue()).isBF16();
  qkHeadDim = llvm::alignTo(attention.getQKHeadDim(), headDimMultiple);
  int64_t vHeadDimTile = schedule.getVHeadDimTile();
  numVHeadDimTiles = countVHeadDimTiles(attention.getVHeadDim(), vHeadDimTile);
  vHeadDim = numVHeadDimTiles > 1
                 ? vHeadDimTile
                 : llvm::alignTo(attention.getVHeadDim(), headDimMultiple);
  chooseScales();
  takeArguments(captures, splits);
}

/// Chooses where scores are scaled: in the exponent, or by an `attn_tile.map`.
void KernelWriter::chooseScales() {
  double scale = attention.getScaleOrDefault();
  Region &scoreMod = attention.getScoreMod();
  mayScoresBeLarge =
      getElementTypeOrSelf(attention.getQuery()).isF32() ||
      (!scoreMod.empty() &&
       !isScoreBounded(scoreMod, maxPlainScore, maxBoundedScore));
  bool takesScale = scale >= minTileScale;
  // An f32 accumulator that starts with a large bias loses precision of f32
  // inputs.
  if (takesScale && !scoreMod.empty() &&
      !getElementTypeOrSelf(attention.getQuery()).isF32())
    bias = findBias(scoreMod);
  mapsScores = !takesScale || (!scoreMod.empty() && !bias);
  tileScale = mapsScores ? 1 : scale;
  if (mapsScores && !scoreMod.empty())
    tileScale = splitFactor(scoreMod).second;
  exponentScale = tileScale * log2e;
}

/// Names the arguments of the kernel, in the order of `lowerAttentionToKernel`.
void KernelWriter::takeArguments(ValueRange captures, const KVSplits &splits) {
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  Block &entry = kernel.getBody().front();
  auto *next = entry.args_begin();
  query = storedQuery = *next++;
  key = *next++;
  value = *next++;
  out = *next++;
  if (isSplit) {
    splitMax = *next++;
    splitSum = *next++;
  } else if (attention.getLse()) {
    lse = *next++;
  }
  if (attention.getSinks())
    sinks = *next++;
  if (attention.getHeadMap())
    headMap = *next++;
  if (attention.getKeyLengths())
    keyLengths = *next++;
  if (attention.getPageTable())
    pageTable = *next++;
  if (headMap || keyLengths || pageTable)
    fault = *next++;
  if (attention.getIdentity())
    identity = *next++;
  if (addressing.isListed() || listsItsSplits)
    workItemList = *next++;
  if (needsClassification(attention)) {
    lists = *next++;
    order = *next++;
    if (readsMaskBits(attention, schedule))
      maskBits = *next++;
  }
  for (Value capture : captures)
    captured.map(capture, *next++);
  b.setInsertionPointToEnd(&entry);
  if (packsGqa)
    packGqa();
  if (!splits.count)
    return;
  numSplits = getConstantIntValue(splits.count)
                  ? b.index(*getConstantIntValue(splits.count))
                  : Value(*next++);
}

void KernelWriter::packGqa() {
  constexpr int64_t rows = 2;
  int64_t numRows = getDimSize(query, rows);
  if (int64_t groupSize = attention.getGroupSize(); groupSize != 1) {
    SmallVector<Value *> memrefs = {&query, &lse};
    // Buffers of listed splits have the rows of tiles.
    if (!listsItsSplits)
      memrefs = {&query, &out, &lse, &splitMax, &splitSum};
    for (Value *memref : memrefs)
      if (*memref)
        *memref =
            attn_tile::PackGQAOp::create(b, *memref, rows, groupSize, numRows);
    numRows *= groupSize;
  }
  // The operands of one query have been reshaped, but not the sinks.
  if (sinks) {
    int64_t groupSize = getDimSize(sinks, 0) / attention.getNumKeyHeads();
    sinks = attn_tile::PackGQAOp::create(b, sinks, /*rows=*/1, groupSize,
                                         numRows / groupSize);
  }
}

void KernelWriter::write() {
  b.setInsertionPointToEnd(&kernel.getBody().front());
  // Clones the constants that the regions capture; all else is an argument.
  for (Region *region : {&attention.getScoreMod(), &attention.getMaskMod(),
                         &attention.getQueryRegion(), &attention.getEpilogue()})
    visitUsedValuesDefinedAbove(*region, [&](OpOperand *use) {
      if (!captured.contains(use->get()))
        b.clone(*use->get().getDefiningOp(), captured);
    });

  SmallVector<OpFoldResult> bounds;
  Value heads = b.size(query, 1);
  if (numSplits)
    heads = b.createOrFold<arith::MulIOp>(heads, numSplits);
  if (numVHeadDimTiles > 1)
    heads = b.createOrFold<arith::MulIOp>(heads, b.index(numVHeadDimTiles));
  if (workItemList) {
    bounds = {heads, emitNumListedWorkItems(b, workItemList)};
  } else {
    Value batches = b.size(storedQuery, 0);
    storedQueries = b.size(query, 2);
    storedKeys = addressing.emitMaxKeys(b, b.getLoc(), key, pageTable);
    bounds = {batches, heads,
              b.countTiles(storedQueries, clusterSize * queryTileSize)};
    if (clusterSize > 1)
      bounds.push_back(b.getIndexAttr(clusterSize));
  }
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);

  b.setInsertionPointToStart(forall.getBody());
  writeWorkItem(makeWorkItem(forall.getInductionVars()));
}

KernelWriter::WorkItem KernelWriter::makeWorkItem(ValueRange ids) {
  WorkItem item;
  item.head = workItemList ? ids[0] : ids[1];
  if (numVHeadDimTiles > 1) {
    Value count = b.index(numVHeadDimTiles);
    Value tile = arith::RemUIOp::create(b, item.head, count);
    item.firstColumn = arith::MulIOp::create(b, tile, b.index(vHeadDim));
    item.head = arith::DivUIOp::create(b, item.head, count);
  }
  if (numSplits) {
    item.numSplits = numSplits;
    item.split = arith::RemUIOp::create(b, item.head, numSplits);
    item.head = arith::DivUIOp::create(b, item.head, numSplits);
  }
  if (workItemList) {
    item.number = ids[1];
    ListedWorkItem listed =
        emitListedWorkItem(b, workItemList, item.number, listsItsSplits);
    item.split = listed.split;
    item.numSplits = listed.numSplits;
    item.sequence = listed.sequence;
    item.firstQuery = item.firstOfCluster = listed.first;
    item.queryLength = listed.queryLength;
    item.keyLength = listed.keyLength;
    item.firstKeyRow = listed.keyRow;
    item.firstQueryRow = listed.queryRow;
    item.batch = addressing.packsQueries() ? b.index(0) : item.sequence;
    item.keyBatch = addressing.hasEntries() ? item.sequence : item.batch;
  } else {
    item.batch = item.keyBatch = item.sequence = ids[0];
    Value tile = ids[2];
    if (lists) {
      Value listHead = getDimSize(lists, 1) != 1 ? item.head : b.index(0);
      Value ordered = memref::LoadOp::create(
          b, order,
          getOrderPlace(b, b.getLoc(), order, {ids[0], listHead, ids[2]}));
      tile = arith::IndexCastOp::create(b, b.getIndexType(), ordered);
      item.listRow = {ids[0], listHead, tile};
    }
    item.firstOfCluster =
        arith::MulIOp::create(b, tile, b.index(clusterSize * queryTileSize));
    item.firstQuery = item.firstQueryRow = item.firstOfCluster;
    // The last CTAs of a cluster may have no queries; they store nothing.
    if (clusterSize > 1) {
      Value offset = arith::MulIOp::create(b, ids[3], b.index(queryTileSize));
      item.firstQuery = item.firstQueryRow =
          arith::AddIOp::create(b, item.firstOfCluster, offset);
    }
    item.queryLength = storedQueries;
    item.keyLength = keyLengths ? loadKeyLength(item.batch) : storedKeys;
  }
  item.keyHead = item.head;
  if (headMap) {
    // Entries are read as unsigned: no entry, even a wrong one, leaves the
    // keys.
    Value entry = memref::LoadOp::create(b, headMap, item.head);
    item.keyHead = arith::MinUIOp::create(
        b, arith::IndexCastOp::create(b, b.getIndexType(), entry).getResult(),
        b.index(attention.getNumKeyHeads() - 1));
  } else if (int64_t group = attention.getGroupSize(); group != 1 && !packsGqa)
    item.keyHead = arith::DivUIOp::create(b, item.head, b.index(group));
  item.dropout = dropout.emitSource(b, captured, item.sequence, item.head);
  if (identity)
    item.identity = b.loadHeadScalar(identity, item.head);
  return item;
}

void KernelWriter::writeWorkItem(const WorkItem &item) {
  Value zero = b.index(0), one = b.index(1);
  Value queryTile = loadQueries(item);
  // The identity alone needs no scores, except for lse or KV splits.
  Value needed;
  if (item.identity && !lse && !isSplit)
    needed = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, item.identity,
                                   b.scalar(1));
  auto tiles = attn_tile::KVTileIteratorOp::create(
      b, item.sequence, item.head, item.firstOfCluster,
      clusterSize * queryTileSize, keyTileSize, item.queryLength,
      item.keyLength, attention.getMaskAttr(), lists, item.listRow, needed,
      item.split, item.numSplits);
  cloneMaskMod(tiles.getMaskMod());

  State init = emitInitialState(item);
  auto loop =
      scf::ForOp::create(b, zero, tiles.getCount(), one,
                         ValueRange{init.rowMax, init.rowSums, init.acc});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    ValueRange args = loop.getRegionIterArgs();
    State state = writeStep(item, queryTile, loop.getInductionVar(), tiles,
                            {args[0], args[1], args[2]});
    scf::YieldOp::create(b, ValueRange{state.rowMax, state.rowSums, state.acc});
  }
  writeResults(item, tiles,
               {loop.getResult(0), loop.getResult(1), loop.getResult(2)});
  if (headMap || (keyLengths && !workItemList))
    checkInputs(item);
}

Value KernelWriter::loadKeyLength(Value batch) {
  SequenceRows rows =
      addressing.emitRows(b, b.getLoc(), keyLengths, storedKeys, batch);
  return arith::SelectOp::create(b, rows.isValid, rows.length, b.index(0));
}

void KernelWriter::report(Value isWrong, attnrt_fault code) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(
      scf::IfOp::create(b, isWrong, /*withElseRegion=*/false).thenBlock());
  Value word = arith::ConstantIntOp::create(b, code, 32);
  memref::StoreOp::create(b, word, fault, b.index(0));
}

void KernelWriter::checkInputs(const WorkItem &item) {
  // Only the first query tile of a head checks: otherwise every consumer would
  // wait for an entry that only the producer needs.
  OpBuilder::InsertionGuard guard(b);
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                        item.firstQuery, b.index(0));
  b.setInsertionPointToStart(
      scf::IfOp::create(b, isFirst, /*withElseRegion=*/false).thenBlock());
  if (headMap) {
    Value entry = memref::LoadOp::create(b, headMap, item.head);
    // The unsigned comparison also catches negative entries.
    Value count =
        arith::ConstantIntOp::create(b, attention.getNumKeyHeads(), 32);
    report(arith::CmpIOp::create(b, arith::CmpIPredicate::uge, entry, count),
           ATTNRT_FAULT_HEADS);
  }
  // The kernel that lists work items checks them itself.
  if (keyLengths && !workItemList) {
    Value isValid =
        addressing.emitRows(b, b.getLoc(), keyLengths, storedKeys, item.batch)
            .isValid;
    Value one = arith::ConstantIntOp::create(b, 1, 1);
    report(arith::XOrIOp::create(b, isValid, one), ATTNRT_FAULT_KEY_LENGTHS);
  }
}

Value KernelWriter::loadQueries(const WorkItem &item) {
  Value zero = b.index(0);
  SmallVector<Value> corner = {item.batch, item.head, item.firstQueryRow, zero};
  // Packed queries have no tensor map: their rows have two strides.
  if (packsGqa && attention.getGroupSize() != 1)
    return b.load({queryTileSize, qkHeadDim}, query, corner);
  Region &region = attention.getQueryRegion();
  if (region.empty())
    return b.load({queryTileSize, qkHeadDim}, query, corner, zero, b.index(1));
  // Queries that a region computes stay in registers, not in a pipe.
  Value tile = b.load({queryTileSize, qkHeadDim}, query, corner);
  Type element = getElementTypeOrSelf(tile.getType());
  tile = emitHeadMap(b, region,
                     {b.extend(tile), item.batch, item.head, item.firstQuery,
                      item.queryLength, attention.getQKHeadDim(),
                      /*firstColumn=*/Value()},
                     captured);
  return b.round(tile, element);
}

KernelWriter::State KernelWriter::emitInitialState(const WorkItem &item) {
  Value acc = b.splat({queryTileSize, vHeadDim}, 0);
  if (!sinks)
    return {b.splat(queryTileSize, -std::numeric_limits<double>::infinity()),
            b.splat({queryTileSize, numPartialSums}, 0), acc};

  if (packsGqa)
    return emitInitialStateOfRows(item, acc);

  // A sink contributes exp(0) to the row sum, relative to its own score, and
  // nothing to the output.
  Value sink = b.loadHeadScalar(sinks, item.head);
  Value lowest = b.scalar(-std::numeric_limits<double>::infinity());
  Value exists =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, sink, lowest);
  if (item.split) {
    // Only the first KV split counts it.
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                          item.split, b.index(0));
    sink = arith::SelectOp::create(b, isFirst, sink, lowest);
    exists = arith::AndIOp::create(b, exists, isFirst);
  }
  Value part = arith::SelectOp::create(
      b, exists, b.scalar(1.0 / numPartialSums), b.scalar(0));
  Value score = arith::MulFOp::create(b, sink, b.scalar(1 / tileScale));
  return {vector::BroadcastOp::create(b, b.f32Vector(queryTileSize), score),
          vector::BroadcastOp::create(
              b, b.f32Vector({queryTileSize, numPartialSums}), part),
          acc};
}

KernelWriter::State KernelWriter::emitInitialStateOfRows(const WorkItem &item,
                                                         Value acc) {
  double infinity = std::numeric_limits<double>::infinity();
  Value sink =
      b.extend(b.load(queryTileSize, sinks, {item.head, item.firstQueryRow}));
  Value lowest = b.splat(queryTileSize, -infinity);
  if (item.split) {
    // Only the first KV split counts it.
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                          item.split, b.index(0));
    sink = arith::SelectOp::create(b, isFirst, sink, lowest);
  }
  Value exists =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, sink, lowest);
  Value part = arith::SelectOp::create(
      b, exists, b.splat(queryTileSize, 1.0 / numPartialSums),
      b.splat(queryTileSize, 0));
  return {arith::MulFOp::create(b, sink, b.splat(queryTileSize, 1 / tileScale)),
          broadcastRows(part, numPartialSums), acc};
}

KernelWriter::State KernelWriter::writeStep(const WorkItem &item,
                                            Value queryTile, Value step,
                                            attn_tile::KVTileIteratorOp tiles,
                                            State state) {
  Value count = tiles.getCount();
  Value tile = attn_tile::KVTileAtOp::create(b, tiles.getTiles(), step);
  Value firstKey = arith::MulIOp::create(b, tile, b.index(keyTileSize));

  Value keyTile = loadKeyTile(item, firstKey, step, count, /*isValue=*/false);
  Value bits;
  if (maskBits)
    bits = attn_tile::LoadMaskBitsOp::create(
        b,
        attn_tile::MaskBitsType::get(b.getContext(), queryTileSize,
                                     keyTileSize),
        maskBits, item.listRow[0], item.listRow[1], item.listRow[2], step);
  Value raw = b.contract(queryTile, keyTile, writeBias(item, firstKey),
                         ContractForm::TransposedRhs);
  // Loads of the keep mask overlap the softmax.
  Value keepMask;
  if (item.dropout.mask)
    keepMask = dropout.emitKeepMask(b, item.dropout, item.firstQuery, firstKey,
                                    {queryTileSize, keyTileSize},
                                    KernelDropout::WordPlacement::Whole);
  Value scores = writeScores(item, raw, firstKey, bits);

  Value rowMax = vector::MultiDimReductionOp::create(
      b, scores, state.rowMax, ArrayRef<bool>{false, true},
      vector::CombiningKind::MAXNUMF);
  if (isRescaleConditional) {
    // Any reference that keeps exponents in range is as good as the maximum.
    // The old reference stays until the maximum has grown by more than a
    // threshold, so that most steps rescale by one. Clearing exponent bits
    // needs a reference that no score exceeds, so a new one is raised above the
    // maximum.
    Value most = b.splat(queryTileSize, maxExponentGrowth / exponentScale);
    Value limit = state.rowMax, next = rowMax;
    if (clearsExponents)
      next = arith::AddFOp::create(b, rowMax, most);
    else
      limit = arith::AddFOp::create(b, state.rowMax, most);
    Value grew =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, rowMax, limit);
    rowMax = arith::SelectOp::create(b, grew, next, state.rowMax);
  }

  // A row with nothing attended so far has a maximum of -inf; its exponents
  // are taken relative to 0 instead, so that no inf - inf arises.
  Value empty = arith::CmpFOp::create(
      b, arith::CmpFPredicate::OEQ, rowMax,
      b.splat(queryTileSize, -std::numeric_limits<double>::infinity()));
  Value finiteMax =
      arith::SelectOp::create(b, empty, b.splat(queryTileSize, 0), rowMax);
  auto [exponent, alpha] = emitExponents(scores, state.rowMax, finiteMax);
  Value probabilities = math::Exp2Op::create(b, exponent);

  Value oldSums = arith::MulFOp::create(b, state.rowSums,
                                        broadcastRows(alpha, numPartialSums));
  Value rowSums = attn_tile::PartialSumOp::create(b, probabilities, oldSums);

  Value oldAcc =
      arith::MulFOp::create(b, state.acc, broadcastRows(alpha, vHeadDim));
  // Rows after the sequence are cleared: P = 0 times a NaN or infinity is NaN.
  Value valueTile = loadKeyTile(item, firstKey, step, count, /*isValue=*/true);
  probabilities =
      b.round(probabilities, getElementTypeOrSelf(valueTile.getType()));
  if (!keepMask)
    keepMask = dropout.emitKeepMask(b, item.dropout, item.firstQuery, firstKey,
                                    {queryTileSize, keyTileSize},
                                    KernelDropout::WordPlacement::Whole);
  probabilities = dropout.emitDrop(b, probabilities, keepMask,
                                   /*areBelowTwo=*/!isRescaleConditional ||
                                       clearsExponents);
  Value acc = b.contract(probabilities, valueTile, oldAcc, ContractForm::Plain);
  return {rowMax, rowSums, acc};
}

std::pair<Value, Value> KernelWriter::emitExponents(Value scores, Value oldMax,
                                                    Value newMax) {
  Value factor = b.splat(queryTileSize, exponentScale);
  auto scale = [&](Value rows) {
    return arith::MulFOp::create(b, rows, factor).getResult();
  };
  // One fused multiply-subtract for each element.
  auto emitFused = [&](Value tile, Value scaledMax) -> Value {
    Value negated = arith::NegFOp::create(b, scaledMax);
    return math::FmaOp::create(
        b, tile, b.splat({queryTileSize, keyTileSize}, exponentScale),
        broadcastRows(negated, keyTileSize));
  };
  if (!mayScoresBeLarge) {
    Value scaledMax = scale(newMax);
    Value growth = arith::SubFOp::create(b, scale(oldMax), scaledMax);
    Value alpha = math::Exp2Op::create(b, growth);
    return {emitFused(scores, scaledMax), alpha};
  }

  // The scaled maximum is rounded, the fused scaled score is not. The exponent
  // of the maximum is their difference, which a large maximum would make
  // non-zero. Large maxima are therefore subtracted first.
  Value limit = b.splat(queryTileSize, maxFusedExponent / exponentScale);
  Value zero = b.splat(queryTileSize, 0);
  Value isLarge = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT,
                                        math::AbsFOp::create(b, newMax), limit);
  Value subtrahend = arith::SelectOp::create(b, isLarge, newMax, zero);
  Value shifted = attn_tile::SubtractRowsOp::create(b, subtrahend, scores);
  Value fusedMax = arith::SelectOp::create(b, isLarge, zero, newMax);
  Value growth = arith::SubFOp::create(b, oldMax, newMax);
  return {emitFused(shifted, scale(fusedMax)),
          math::Exp2Op::create(b, scale(growth))};
}

Value KernelWriter::findBias(Region &region) {
  Block &block = region.front();
  auto yield = cast<YieldOp>(block.getTerminator());
  auto sum = yield.getValue().getDefiningOp<arith::AddFOp>();
  if (!sum || sum->getBlock() != &block)
    return nullptr;
  Value score = block.getArgument(0);
  // The summand must not depend on the score, so the score has no other use.
  if (!score.hasOneUse() || *score.user_begin() != sum)
    return nullptr;
  // A bias that is read for each pair is better added late: until then it needs
  // half the registers.
  Value query = block.getArgument(3), key = block.getArgument(4);
  bool readsTiles = block
                        .walk([&](memref::LoadOp load) {
                          ValueRange indices = load.getIndices();
                          return WalkResult(failure(
                              indices.size() >= 2 && indices.back() == key &&
                              indices[indices.size() - 2] == query));
                        })
                        .wasInterrupted();
  if (readsTiles)
    return nullptr;
  return sum.getLhs() == score ? sum.getRhs() : sum.getLhs();
}

Value KernelWriter::writeBias(const WorkItem &item, Value firstKey) {
  Value zero = b.splat({queryTileSize, keyTileSize}, 0);
  if (!bias)
    return zero;
  attn_tile::MapOp map =
      b.createMap(zero, item.sequence, item.head, item.firstQuery, firstKey,
                  item.queryLength, item.keyLength);
  Block *body = &map.getBody().front();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(body);
  Block &source = attention.getScoreMod().front();
  IRMapping mapping(captured);
  mapping.map(source.getArguments(), body->getArguments());
  for (Operation &op : source.without_terminator())
    if (op.getResults() != source.getTerminator()->getOperands())
      b.clone(op, mapping);
  Value inverse = b.scalar(1 / tileScale);
  attn_tile::YieldOp::create(
      b, arith::MulFOp::create(b, mapping.lookupOrDefault(bias), inverse)
             .getResult());
  return map;
}

Value KernelWriter::writeScores(const WorkItem &item, Value scores,
                                Value firstKey, Value bits) {
  if (mapsScores) {
    attn_tile::MapOp map =
        b.createMap(scores, item.sequence, item.head, item.firstQuery, firstKey,
                    item.queryLength, item.keyLength);
    Block *body = &map.getBody().front();
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(body);
    Value scale = b.scalar(attention.getScaleOrDefault());
    Value scaled = arith::MulFOp::create(b, body->getArgument(0), scale);
    if (attention.getScoreMod().empty()) {
      attn_tile::YieldOp::create(b, scaled);
    } else {
      SmallVector<Value> arguments(body->getArguments());
      arguments[0] = scaled;
      cloneRegion(attention.getScoreMod(), body, arguments);
    }
    scores = map;
  }

  if (bits)
    return attn_tile::ApplyMaskBitsOp::create(b, scores, bits);
  auto mask = attn_tile::MaskOp::create(
      b, scores, item.sequence, item.head, item.firstQuery, firstKey,
      item.queryLength, item.keyLength, attention.getMaskAttr());
  cloneMaskMod(mask.getMaskMod());
  return mask;
}

void KernelWriter::cloneMaskMod(Region &target) {
  if (attention.getMaskMod().empty())
    return;
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> types(4, b.getIndexType());
  SmallVector<Location> locs(types.size(), b.getLoc());
  Block *body = b.createBlock(&target, {}, types, locs);
  cloneRegion(attention.getMaskMod(), body, body->getArguments());
}

std::pair<Value, double> KernelWriter::splitFactor(Region &region) {
  auto yield = cast<YieldOp>(region.front().getTerminator());
  auto product = yield.getValue().getDefiningOp<arith::MulFOp>();
  if (!product || product->getBlock() != &region.front())
    return {yield.getValue(), 1};
  for (auto [value, other] : {std::pair(product.getLhs(), product.getRhs()),
                              std::pair(product.getRhs(), product.getLhs())}) {
    FloatAttr factor;
    if (!matchPattern(other, m_Constant(&factor)))
      continue;
    // This range keeps scaled scores far from infinity and zero.
    double number = factor.getValueAsDouble();
    if (number >= minTileScale && number <= 1 / minTileScale)
      return {value, number};
  }
  return {yield.getValue(), 1};
}

void KernelWriter::cloneRegion(Region &source, Block *target,
                               ValueRange arguments) {
  IRMapping mapping(captured);
  mapping.map(source.getArguments(), arguments);
  b.setInsertionPointToEnd(target);
  for (Operation &op : source.front().without_terminator())
    b.clone(op, mapping);
  Value result = cast<YieldOp>(source.front().getTerminator()).getValue();
  if (&source == &attention.getScoreMod())
    result = splitFactor(source).first;
  attn_tile::YieldOp::create(b, mapping.lookupOrDefault(result));
}

void KernelWriter::writeResults(const WorkItem &item,
                                attn_tile::KVTileIteratorOp tiles,
                                const State &state) {
  Value batch = item.batch, firstRow = item.firstQueryRow;
  if (numSplits)
    batch = arith::AddIOp::create(
        b,
        arith::MulIOp::create(b, item.split, b.size(storedQuery, 0))
            .getResult(),
        batch);
  if (listsItsSplits) {
    batch = item.number;
    firstRow = b.index(0);
  }
  Value zero = b.splat(queryTileSize, 0);
  Value sum = vector::MultiDimReductionOp::create(b, state.rowSums, zero,
                                                  ArrayRef<bool>{false, true},
                                                  vector::CombiningKind::ADD);
  Value empty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, sum, zero);
  Value inverse = arith::DivFOp::create(
      b, b.splat(queryTileSize, 1 / dropout.getKeepProbability()), sum);
  inverse = arith::SelectOp::create(b, empty, zero, inverse);
  if (item.identity) {
    Value rest = arith::SubFOp::create(b, b.scalar(1), item.identity);
    inverse = arith::MulFOp::create(
        b, inverse,
        vector::BroadcastOp::create(b, b.f32Vector(queryTileSize), rest));
  }
  Value result =
      arith::MulFOp::create(b, state.acc, broadcastRows(inverse, vHeadDim));
  if (item.identity)
    result = addIdentity(item, result);
  if (Region &epilogue = attention.getEpilogue(); !epilogue.empty()) {
    result = emitEpilogue(b, epilogue,
                          {result, item.batch, item.head, item.firstQuery,
                           item.queryLength, attention.getVHeadDim(),
                           item.firstColumn},
                          captured);
  }
  if (sinks && isSplit) {
    // An empty split with a sink counts, but its output is zero.
    Value isEmpty = attn_tile::IsSplitEmptyOp::create(b, tiles.getTiles());
    result = arith::SelectOp::create(
        b, isEmpty, b.splat({queryTileSize, vHeadDim}, 0), result);
  }
  result = b.round(result, getElementTypeOrSelf(out.getType()));
  storeTile(item, result, out,
            {batch, item.head, firstRow, getFirstColumn(item)});
  if (!lse && !isSplit)
    return;

  // Maxima are stored scaled. A row without attended keys has a maximum of -inf
  // and a sum of 0, so its log-sum-exp is -inf.
  Value scaledMax = state.rowMax;
  if (tileScale != 1)
    scaledMax =
        arith::MulFOp::create(b, scaledMax, b.splat(queryTileSize, tileScale));
  SmallVector<Value> place = {batch, item.head, firstRow};
  if (lse) {
    Value logSum = math::LogOp::create(b, sum);
    storeTile(item, arith::AddFOp::create(b, scaledMax, logSum), lse, place);
    return;
  }
  storeSplitStatistics(item, tiles, scaledMax, sum, place);
}

void KernelWriter::storeSplitStatistics(const WorkItem &item,
                                        attn_tile::KVTileIteratorOp tiles,
                                        Value scaledMax, Value sum,
                                        ValueRange place) {
  // An empty split iterates over another split's tile. Its results are dropped:
  // a maximum of -inf does that, unless it counts a sink.
  Value isEmpty = attn_tile::IsSplitEmptyOp::create(b, tiles.getTiles());
  if (sinks) {
    State init = emitInitialState(item);
    Value initialMax = arith::MulFOp::create(b, init.rowMax,
                                             b.splat(queryTileSize, tileScale));
    Value initialSum = vector::MultiDimReductionOp::create(
        b, init.rowSums, b.splat(queryTileSize, 0), ArrayRef<bool>{false, true},
        vector::CombiningKind::ADD);
    scaledMax = arith::SelectOp::create(b, isEmpty, initialMax, scaledMax);
    sum = arith::SelectOp::create(b, isEmpty, initialSum, sum);
  } else {
    Value addend = arith::SelectOp::create(
        b, isEmpty, b.scalar(-std::numeric_limits<double>::infinity()),
        b.scalar(0));
    scaledMax = arith::AddFOp::create(
        b, scaledMax,
        vector::BroadcastOp::create(b, b.f32Vector(queryTileSize), addend)
            .getResult());
  }
  storeTile(item, scaledMax, splitMax, place);
  storeTile(item, sum, splitSum, place);
}

Value KernelWriter::addIdentity(const WorkItem &item, Value tile) {
  TileProgramBuilder::MatchingRows rows{value,
                                        item.keyBatch,
                                        item.keyHead,
                                        item.firstQuery,
                                        item.queryLength,
                                        Value(),
                                        Value(),
                                        workItemList ? item.firstKeyRow
                                                     : Value(),
                                        item.firstColumn};
  auto [queries, keys] = attention.getStaticLengths();
  if (ShapedType::isDynamic(queries) || queries != keys) {
    rows.shift = arith::SubIOp::create(b, item.keyLength, item.queryLength);
    rows.length = item.keyLength;
  }
  return b.addScaledRows(tile, item.identity, rows);
}

Value KernelWriter::loadKeyTile(const WorkItem &item, Value firstKey,
                                Value position, Value length, bool isValue) {
  Value source = isValue ? value : key;
  int64_t columns = isValue ? vHeadDim : qkHeadDim;
  Value column = isValue ? getFirstColumn(item) : b.index(0);
  if (!workItemList && !keyLengths)
    return b.load({keyTileSize, columns}, source,
                  {item.keyBatch, item.keyHead, firstKey, column}, position,
                  length);
  Value row = firstKey;
  if (attention.hasSequences() && !attention.hasPackedQueries())
    row = arith::AddIOp::create(b, item.firstKeyRow, firstKey);
  TileProgramBuilder::Pages pages;
  if (pageTable)
    pages = {pageTable, item.keyLength, b.size(key, 0), fault};
  return b.loadWithin(
      {keyTileSize, columns}, source,
      {item.keyBatch, item.keyHead, row, column}, isValue ? firstKey : Value(),
      isValue ? item.keyLength : Value(), position, length, pages);
}

void KernelWriter::storeTile(const WorkItem &item, Value tile, Value dest,
                             ValueRange indices) {
  attn_tile::StoreOp::create(b, tile, dest, indices,
                             workItemList ? item.firstQuery : Value(),
                             workItemList ? item.queryLength : Value());
}

void attn::writeAttentionKernel(OpBuilder &builder, AttentionOp attention,
                                attn_tile::KernelOp kernel, ValueRange captures,
                                const KVSplits &splits) {
  KernelWriter(builder, attention, kernel, captures, splits).write();
}
