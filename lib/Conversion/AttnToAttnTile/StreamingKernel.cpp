//===- StreamingKernel.cpp - Kernels that stream keys ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A loop over work items, in it a loop over KV tiles. The operation emits the
// code of the reduction over keys, for attention the online softmax.
// docs/Architecture.md shows the program.
//
//===----------------------------------------------------------------------===//

#include "StreamingKernel.h"
#include "ClassifyTiles.h"
#include "HeadMaps.h"
#include "KernelDropout.h"
#include "WorkItemList.h"
#include "attn-runtime/attn_runtime.h"
#include "attn/Analysis/BoundedReads.h"
#include "attn/Analysis/ScoreFactor.h"
#include "attn/Dialect/Attn/IR/Float8.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <optional>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Writes the kernel of one operation.
class KernelWriter {
public:
  /// Each KV split, if there are any, is a work item of its own, which writes
  /// to the split buffers.
  KernelWriter(OpBuilder &builder, attn_tile::StreamingOpInterface streaming,
               attn_tile::KernelOp kernel, ValueRange captures,
               const KVSplits &splits);

  void write();

private:
  using RowsCols = std::pair<int64_t, int64_t>;

  void chooseScales();
  /// Names the arguments of the kernel, in the order of `lowerToKernel`.
  void takeArguments(ValueRange captures, const KVSplits &splits);
  /// Views the operands of the query heads of a GQA group as rows of one head.
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
    /// `firstKeyRow` is null where keys begin at row 0 of their batch entry.
    Value batch, keyBatch, firstQueryRow, firstKeyRow;
    KeyValueHeads heads;
    /// Its KV split, of how many; null without split-KV.
    Value split, numSplits;
    /// Of a listed work item: where the parts of the result of its tile begin.
    Value firstPart;
    /// Its first column of the values; null if it has all columns.
    Value firstColumn;
    /// The first query of its cluster, whose CTAs iterate over the same key
    /// tiles.
    Value firstOfCluster;
  };

  /// A step of the loop over KV tiles.
  struct Step {
    Value index, count, firstKey, keepMask, keys;
  };
  /// A work item as the code of the reduction sees it.
  class Tile;

  /// The work item for the induction variables of the loop over work items.
  WorkItem makeWorkItem(ValueRange ids);
  /// Reads rows and lengths of work item number `number` of the list.
  void readListedWorkItem(WorkItem &item, Value number);
  /// Finds the tile of a work item of the grid, by the numbers of its batch
  /// entry, head, and tile, and its rank in the cluster.
  void placeGridWorkItem(WorkItem &item, ValueRange ids);
  /// The key and the value head that the queries of `head` attend.
  KeyValueHeads emitKeyValueHeads(Value head);
  void writeWorkItem(const WorkItem &item);
  /// The factors of the scores of a work item. Returns a factor of the elements
  /// of its tiles, which is 1 unless the factor of scores is negative, close to
  /// zero or large.
  Value emitScoreFactors(const WorkItem &item,
                         attn_tile::ScoreFactors &factors);
  /// Stores the results of `tile`, or of its split of the keys if `arePartial`.
  void writeResults(Tile &tile, ValueRange state, bool arePartial);
  void writeListedResults(Tile &tile, ValueRange state);
  /// Reports an entry of the head map that is not a key head, and a number of
  /// keys that the cache has no room for.
  void checkInputs(const WorkItem &item);
  /// Reports `code` if `isWrong`.
  void report(Value isWrong, attnrt_fault code);
  void loadKeyRows(WorkItem &item);
  Value loadQueries(const WorkItem &item);
  Value emitKeepMask(const WorkItem &item, Value firstKey);
  SmallVector<Value> writeStep(Tile &tile, Value queryTile,
                               attn_tile::KVTileIteratorOp tiles, Value index,
                               ValueRange state);
  /// Masks by `bits` if not null, else by position.
  Value writeScores(const Tile &tile, Value scores, Value firstKey, Value bits);

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

  /// Loads a tile of the keys, or of the values if `isValue`. Rows of values
  /// after the end of the sequence are zero. Elements of 8 bits of wider
  /// queries are extended to `element`, or to the type of the queries.
  Value loadKeyTile(const WorkItem &item, Value firstKey, Value position,
                    Value length, bool isValue, Type element = nullptr);
  /// The same tile with the elements that memory has.
  Value loadStoredKeyTile(const WorkItem &item, Value firstKey, Value position,
                          Value length, bool isValue);
  /// The first column of the values that a work item, or a consumer, has.
  Value getFirstColumn(const WorkItem &item) {
    return item.firstColumn ? item.firstColumn : b.index(0);
  }
  void storeTile(const WorkItem &item, Value tile, Value dest,
                 ValueRange indices);

  TileProgramBuilder b;
  attn_tile::StreamingOpInterface streaming;
  AttentionOpInterface attention;
  KernelDropout dropout;
  attn_tile::KernelOp kernel;
  /// The arguments for captured values, and for operands of the reduction.
  IRMapping captured, reductionArguments;

  /// `vHeadDim` counts the columns of the values that a work item has, of
  /// `numHeadDimTiles` work items for each query tile.
  int64_t queryTileSize, keyTileSize, qkHeadDim, vHeadDim;
  int64_t numHeadDimTiles;
  /// Whether each consumer has `vHeadDim` columns of its own, and whether these
  /// are columns of the tile of keys.
  bool haveConsumersColumns, readsValuesFromKeys;
  /// Whether positions of values are contiguous (`transposeValues`).
  bool hasTransposedValues;
  /// Whether the query heads of a GQA group are rows of a tile.
  bool packsGqa;
  /// CTAs of a cluster, which iterate over key tiles together.
  int64_t clusterSize;
  Value query, key, value, out, headMap, fault;
  SmallVector<Value> rowResults;
  /// The output and the statistics of KV splits.
  Value splitOut;
  SmallVector<Value> splitStatistics;
  KVAddressingAttrInterface addressing;
  /// The number of keys of each batch entry, and its pages; null if the keys
  /// have no lengths, or are not in pages.
  Value keyLengths, pageTable;
  /// The query before packing. Hosts, which compute grids, know no packed
  /// views.
  Value storedQuery;
  /// Whether work items are KV splits, and whether these are listed.
  bool isSplit, listsItsSplits;
  /// Whether the keys of listed work items may begin at any row.
  bool addsKeyRows;
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
  /// Whether scores need an `attn_tile.map`; if not, `scoreFactor` includes the
  /// scale.
  bool mapsScores;
  /// The positive factor from a tile's elements to scores.
  double scoreFactor;
  /// The values by which the score_mod multiplies all scores of a work item, if
  /// it does nothing else.
  SmallVector<Value> scoreFactors;
};
} // namespace

class KernelWriter::Tile : public attn_tile::StreamedTile {
public:
  Tile(KernelWriter &writer, const WorkItem &item);

  Value getArgument(Value operand) override {
    return writer.reductionArguments.lookup(operand);
  }
  Value loadOperand(Value operand) override;
  Value loadValues(Type element) override;
  Value emitDrop(Value tile, bool areBelowTwo) override;
  Value addValuesAtQueries(Value tile, Value factor) override;
  Value emitIsSplitEmpty() override {
    return attn_tile::IsSplitEmptyOp::create(b, tiles.getTiles());
  }
  Value emitIsOnlySplit() override {
    if (!writer.listsItsSplits)
      return {};
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, item.numSplits,
                                 b.index(1));
  }
  void storeOutput(Value tile) override;
  void storeRows(unsigned index, Value rows) override;

  /// Begins the code after the loop, which stores to the split buffers if
  /// `arePartial`.
  void beginResults(bool arePartial);

  KernelWriter &writer;
  const WorkItem item;
  /// A factor of the elements of tiles of scores; null for 1.
  Value elementFactor;
  attn_tile::KVTileIteratorOp tiles;
  /// The current step.
  Step step;

private:
  /// Whether the results belong to a KV split.
  bool arePartial = false;
  /// The batch entry and the first row of results, where each KV split has its
  /// own.
  Value resultBatch, resultRow;
};

KernelWriter::Tile::Tile(KernelWriter &writer, const WorkItem &item)
    : StreamedTile(writer.b), writer(writer), item(item) {
  schedule = writer.attention.getChosenSchedule();
  queryTile = writer.queryTileSize;
  keyTile = writer.keyTileSize;
  if (writer.hasTransposedValues)
    valueForm = ContractForm::TransposedRhs;
  vHeadDim = writer.vHeadDim;
  scoreFactor = writer.scoreFactor;
  head = item.head;
  firstQueryRow = item.firstQueryRow;
  split = item.split;
  if (!writer.scoreFactors.empty())
    elementFactor = writer.emitScoreFactors(item, factors);
  prepared = writer.streaming.emitPrepared(*this);
}

/// Whether the KV addressing of attention without sequences has keys that begin
/// at another row than row 0 of their batch entry.
static bool mayBeginAtAnyRow(AttentionOpInterface attention) {
  Value lengths = attention.getKeyLengths();
  if (!lengths)
    return false;
  OpBuilder builder(attention.getContext());
  Location loc = attention.getLoc();
  Type index = builder.getIndexType();
  Region region;
  Block *block = builder.createBlock(
      &region, {}, {lengths.getType(), index, index}, {loc, loc, loc});
  SequenceRows rows = attention.getAddressing().emitRows(
      builder, loc, block->getArgument(0), block->getArgument(1),
      block->getArgument(2));
  return !isConstantIntValue(rows.first, 0);
}

KernelWriter::KernelWriter(OpBuilder &builder,
                           attn_tile::StreamingOpInterface streaming,
                           attn_tile::KernelOp kernel, ValueRange captures,
                           const KVSplits &splits)
    : b(streaming.getLoc(), builder), streaming(streaming),
      attention(cast<AttentionOpInterface>(streaming.getOperation())),
      dropout(attention), kernel(kernel), addressing(attention.getAddressing()),
      isSplit(bool(splits)), listsItsSplits(splits.areListed()),
      addsKeyRows(addressing.isListed()
                      ? !addressing.packsQueries() || !addressing.hasEntries()
                      : mayBeginAtAnyRow(attention)) {
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  queryTileSize = schedule.getQueryTile();
  keyTileSize = schedule.getKeyTile();
  hasTransposedValues = schedule.readsTransposedValues(
      getElementTypeOrSelf(attention.getQuery()));
  packsGqa = schedule.packsGqa();
  clusterSize = schedule.getClusterSize();
  qkHeadDim = llvm::alignTo(attention.getQKHeadDim(), headDimMultiple);
  numHeadDimTiles = countHeadDimTiles(attention.getVHeadDim(), schedule);
  haveConsumersColumns = schedule.getColumnConsumers() > 1;
  readsValuesFromKeys = haveConsumersColumns && hasValuesInKeys(attention);
  vHeadDim = numHeadDimTiles > 1 || haveConsumersColumns
                 ? schedule.getHeadDimTile()
                 : llvm::alignTo(attention.getVHeadDim(), headDimMultiple);
  chooseScales();
  takeArguments(captures, splits);
}

/// Chooses where scores are scaled: by the reduction, or by an `attn_tile.map`.
void KernelWriter::chooseScales() {
  double scale = attention.getScaleOrDefault();
  Region &scoreMod = attention.getScoreMod();
  bool takesScale = scale >= minTileScale;
  // An f32 accumulator that starts with a large bias loses precision of f32
  // inputs.
  if (takesScale && !scoreMod.empty() &&
      !getElementTypeOrSelf(attention.getQuery()).isF32())
    bias = findBias(scoreMod);
  if (takesScale && streaming.getMaxScoreFactor())
    scoreFactors = getScoreFactors(scoreMod);
  mapsScores =
      !takesScale || (!scoreMod.empty() && !bias && scoreFactors.empty());
  scoreFactor = mapsScores ? 1 : scale;
  if (mapsScores && !scoreMod.empty())
    scoreFactor = splitFactor(scoreMod).second;
}

void KernelWriter::takeArguments(ValueRange captures, const KVSplits &splits) {
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  Block &entry = kernel.getBody().front();
  auto *next = entry.args_begin();
  query = storedQuery = *next++;
  key = *next++;
  value = *next++;
  auto take = [&](Value &output, SmallVector<Value> &ofRows, int64_t number) {
    output = *next++;
    for (int64_t i = 0; i < number; ++i)
      ofRows.push_back(*next++);
  };
  if (!isSplit || listsItsSplits)
    take(out, rowResults, attention.getNumDpsInits() - 1);
  if (isSplit)
    take(splitOut, splitStatistics, streaming.getNumSplitStatistics());
  for (Value operand : streaming.getReductionOperands())
    reductionArguments.map(operand, *next++);
  if (attention.getHeadMap())
    headMap = *next++;
  if (attention.getKeyLengths())
    keyLengths = *next++;
  if (attention.getPageTable())
    pageTable = *next++;
  if (headMap || keyLengths || pageTable)
    fault = *next++;
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
    auto pack = [&](Value &memref) {
      memref =
          attn_tile::PackGQAOp::create(b, memref, rows, groupSize, numRows);
    };
    pack(query);
    // Buffers of listed splits have the rows of tiles.
    if (isSplit && !listsItsSplits) {
      pack(splitOut);
      llvm::for_each(splitStatistics, pack);
    } else {
      pack(out);
      llvm::for_each(rowResults, pack);
    }
    if (!ShapedType::isDynamic(numRows))
      numRows *= groupSize;
  }
  // Operands that have rows, as the results do.
  for (Value operand : streaming.getReductionOperands())
    if (cast<MemRefType>(operand.getType()).getRank() > rows &&
        attention.getGroupSize() != 1)
      reductionArguments.map(operand, attn_tile::PackGQAOp::create(
                                          b, reductionArguments.lookup(operand),
                                          rows, attention.getGroupSize(),
                                          getDimSize(storedQuery, rows))
                                          .getResult());
  // The operands of one query have been reshaped, but not those with an entry
  // for each head.
  for (const HeadOperand &operand : attention.getHeadOperands()) {
    Value entries = reductionArguments.lookupOrNull(operand.value);
    if (!entries)
      continue;
    int64_t groupSize = getDimSize(entries, 0) / attention.getNumGroups();
    int64_t numQueries =
        ShapedType::isDynamic(numRows) ? numRows : numRows / groupSize;
    reductionArguments.map(operand.value,
                           attn_tile::PackGQAOp::create(b, entries, /*rows=*/1,
                                                        groupSize, numQueries)
                               .getResult());
  }
}

void KernelWriter::write() {
  b.setInsertionPointToEnd(&kernel.getBody().front());
  // Clones the constants that the regions capture; all else is an argument.
  for (Region *region : {&attention.getScoreMod(), &attention.getMaskMod(),
                         streaming.getQueryMap(), streaming.getOutputMap()}) {
    if (!region)
      continue;
    visitUsedValuesDefinedAbove(*region, [&](OpOperand *use) {
      if (!captured.contains(use->get()))
        b.clone(*use->get().getDefiningOp(), captured);
    });
  }

  SmallVector<OpFoldResult> bounds;
  Value heads = b.size(query, 1);
  if (numSplits)
    heads = b.createOrFold<arith::MulIOp>(heads, numSplits);
  if (numHeadDimTiles > 1)
    heads = b.createOrFold<arith::MulIOp>(heads, b.index(numHeadDimTiles));
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

void KernelWriter::readListedWorkItem(WorkItem &item, Value number) {
  ListedWorkItem listed =
      emitListedWorkItem(b, workItemList, number, listsItsSplits);
  item.firstPart = listed.firstPart;
  item.split = listed.split;
  item.numSplits = listed.numSplits;
  item.sequence = listed.sequence;
  item.firstQuery = item.firstOfCluster = listed.first;
  item.queryLength = listed.queryLength;
  item.keyLength = listed.keyLength;
  if (addsKeyRows)
    item.firstKeyRow = listed.keyRow;
  item.firstQueryRow = listed.queryRow;
  item.batch = addressing.packsQueries() ? b.index(0) : item.sequence;
  item.keyBatch = addressing.hasEntries() ? item.sequence : item.batch;
}

void KernelWriter::placeGridWorkItem(WorkItem &item, ValueRange ids) {
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
  item.keyLength = storedKeys;
  if (keyLengths)
    loadKeyRows(item);
}

KeyValueHeads KernelWriter::emitKeyValueHeads(Value head) {
  if (headMap) {
    // Entries are read as unsigned: no entry, even a wrong one, leaves the
    // keys.
    Value entry = memref::LoadOp::create(b, headMap, head);
    Value shared = arith::MinUIOp::create(
        b, arith::IndexCastOp::create(b, b.getIndexType(), entry).getResult(),
        b.index(attention.getNumKeyHeads() - 1));
    return {shared, shared};
  }
  if (packsGqa)
    return attention.emitKeyValueHeadsOfGroup(b, b.getLoc(), head);
  return attention.emitKeyValueHeads(b, b.getLoc(), head);
}

KernelWriter::WorkItem KernelWriter::makeWorkItem(ValueRange ids) {
  WorkItem item;
  item.head = workItemList ? ids[0] : ids[1];
  if (numHeadDimTiles > 1) {
    Value count = b.index(numHeadDimTiles);
    Value tile = arith::RemUIOp::create(b, item.head, count);
    item.firstColumn = arith::MulIOp::create(b, tile, b.index(vHeadDim));
    item.head = arith::DivUIOp::create(b, item.head, count);
  }
  if (haveConsumersColumns)
    item.firstColumn = arith::MulIOp::create(
        b, attn_tile::ConsumerIdOp::create(b).getResult(), b.index(vHeadDim));
  if (numSplits) {
    item.numSplits = numSplits;
    item.split = arith::RemUIOp::create(b, item.head, numSplits);
    item.head = arith::DivUIOp::create(b, item.head, numSplits);
  }
  if (workItemList)
    readListedWorkItem(item, ids[1]);
  else
    placeGridWorkItem(item, ids);
  item.heads = emitKeyValueHeads(item.head);
  item.dropout = dropout.emitSource(b, captured, item.sequence, item.head);
  return item;
}

Value KernelWriter::emitScoreFactors(const WorkItem &item,
                                     attn_tile::ScoreFactors &factors) {
  Region &scoreMod = attention.getScoreMod();
  IRMapping mapping(captured);
  mapping.map(scoreMod.getArgument(1), item.sequence);
  mapping.map(scoreMod.getArgument(2), item.head);
  for (Operation &op : scoreMod.front().without_terminator()) {
    bool isUniform = llvm::all_of(op.getOperands(), [&](Value operand) {
      return operand.getParentRegion() != &scoreMod ||
             mapping.contains(operand);
    });
    if (isUniform && op.getNumRegions() == 0)
      boundReads(b, b.clone(op, mapping));
  }
  auto multiply = [&](Value lhs, Value rhs) -> Value {
    return arith::MulFOp::create(b, lhs, rhs);
  };
  Value factor = mapping.lookupOrDefault(scoreFactors.front());
  for (Value other : llvm::drop_begin(scoreFactors))
    factor = multiply(factor, mapping.lookupOrDefault(other));

  auto compare = [&](arith::CmpFPredicate predicate, double number) -> Value {
    return arith::CmpFOp::create(b, predicate, factor, b.scalar(number));
  };
  Value isRegular = arith::AndIOp::create(
      b, compare(arith::CmpFPredicate::OGE, minTileScale),
      compare(arith::CmpFPredicate::OLE, *streaming.getMaxScoreFactor()));
  auto select = [&](Value regular, double otherwise) -> Value {
    return arith::SelectOp::create(b, isRegular, regular, b.scalar(otherwise));
  };
  Value one = b.scalar(1);
  Value scaled = multiply(factor, b.scalar(scoreFactor));
  Value exponent = multiply(scaled, b.scalar(log2e));
  // Maxima of elements are maxima of scores for positive factors alone, and
  // masked elements times zero are NaN. Elements that are multiplied are
  // exponents of two: with a factor of 1 their differences are exact, however
  // large they are.
  factors.score = select(scaled, 1 / log2e);
  factors.exponent = select(exponent, 1);
  factors.scoreInverse = arith::DivFOp::create(b, one, factors.score);
  factors.exponentInverse = arith::DivFOp::create(b, one, factors.exponent);
  return arith::SelectOp::create(b, isRegular, one, exponent);
}

void KernelWriter::writeWorkItem(const WorkItem &item) {
  Tile tile(*this, item);
  Value zero = b.index(0), one = b.index(1);
  Value queryTile = loadQueries(item);
  Value needed = streaming.emitNeedsKeys(tile);
  auto tiles = tile.tiles = attn_tile::KVTileIteratorOp::create(
      b, item.sequence, item.head, item.firstOfCluster,
      clusterSize * queryTileSize, keyTileSize, item.queryLength,
      item.keyLength, attention.getMaskAttr(), lists, item.listRow, needed,
      item.split, item.numSplits);
  cloneMaskMod(tiles.getMaskMod());

  auto loop = scf::ForOp::create(b, zero, tiles.getCount(), one,
                                 streaming.emitInitState(tile));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    scf::YieldOp::create(b, writeStep(tile, queryTile, tiles,
                                      loop.getInductionVar(),
                                      loop.getRegionIterArgs()));
  }
  if (listsItsSplits)
    writeListedResults(tile, loop.getResults());
  else
    writeResults(tile, loop.getResults(), isSplit);
  if (headMap || (keyLengths && !workItemList))
    checkInputs(item);
}

void KernelWriter::writeResults(Tile &tile, ValueRange state, bool arePartial) {
  tile.beginResults(arePartial);
  if (arePartial)
    streaming.emitFinalizeSplit(tile, state);
  else
    streaming.emitFinalize(tile, state);
}

/// A tile with one split has its results at once.
void KernelWriter::writeListedResults(Tile &tile, ValueRange state) {
  auto ifOp =
      scf::IfOp::create(b, tile.emitIsOnlySplit(), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  writeResults(tile, state, /*arePartial=*/false);
  b.setInsertionPointToStart(ifOp.elseBlock());
  writeResults(tile, state, /*arePartial=*/true);
}

/// Loads which rows the keys of a batch entry have. A length that is not valid
/// counts as none, so that no row is out of bounds.
void KernelWriter::loadKeyRows(WorkItem &item) {
  SequenceRows rows =
      addressing.emitRows(b, b.getLoc(), keyLengths, storedKeys, item.batch);
  item.keyLength =
      arith::SelectOp::create(b, rows.isValid, rows.length, b.index(0));
  if (!isConstantIntValue(rows.first, 0))
    item.firstKeyRow =
        arith::SelectOp::create(b, rows.isValid, rows.first, b.index(0));
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
  Region *region = streaming.getQueryMap();
  if (!region)
    return b.load({queryTileSize, qkHeadDim}, query, corner, zero, b.index(1));
  // Queries that a region computes stay in registers, not in a pipe.
  Value tile = b.load({queryTileSize, qkHeadDim}, query, corner);
  Type element = getElementTypeOrSelf(tile.getType());
  tile = emitHeadMap(b, *region,
                     {b.extend(tile), item.batch, item.head, item.firstQuery,
                      item.queryLength, attention.getQKHeadDim(),
                      /*firstColumn=*/Value()},
                     captured);
  return b.round(tile, element);
}

SmallVector<Value> KernelWriter::writeStep(Tile &at, Value queryTile,
                                           attn_tile::KVTileIteratorOp tiles,
                                           Value index, ValueRange state) {
  const WorkItem &item = at.item;
  Step &step = at.step = Step();
  step.index = index;
  step.count = tiles.getCount();
  Value tile = attn_tile::KVTileAtOp::create(b, tiles.getTiles(), index);
  step.firstKey = arith::MulIOp::create(b, tile, b.index(keyTileSize));

  Value keyTile = step.keys =
      loadKeyTile(item, step.firstKey, index, step.count, /*isValue=*/false);
  Value bits;
  if (maskBits)
    bits = attn_tile::LoadMaskBitsOp::create(
        b,
        attn_tile::MaskBitsType::get(b.getContext(), queryTileSize,
                                     keyTileSize),
        maskBits, item.listRow[0], item.listRow[1], item.listRow[2], index);
  Value raw = b.contract(queryTile, keyTile, writeBias(item, step.firstKey),
                         ContractForm::TransposedRhs);
  // Loads of the keep mask overlap the reduction.
  if (item.dropout.mask)
    step.keepMask = emitKeepMask(item, step.firstKey);
  Value scores = writeScores(at, raw, step.firstKey, bits);
  return streaming.emitStep(at, scores, state);
}

Value KernelWriter::emitKeepMask(const WorkItem &item, Value firstKey) {
  return dropout.emitKeepMask(b, item.dropout, item.firstQuery, firstKey,
                              {queryTileSize, keyTileSize},
                              KernelDropout::WordPlacement::Whole);
}

Value KernelWriter::Tile::loadOperand(Value operand) {
  Value source = getArgument(operand), row = item.firstQueryRow;
  // Rows beyond the last one are zero.
  if (Value isOnly = emitIsOnlySplit())
    row = arith::SelectOp::create(b, isOnly, row, b.size(source, 2));
  SmallVector<Value> corner = {item.batch, item.head, row};
  SmallVector<int64_t> shape = {queryTile};
  if (cast<MemRefType>(source.getType()).getRank() == 4) {
    corner.push_back(writer.getFirstColumn(item));
    shape.push_back(vHeadDim);
  }
  return b.extend(b.load(shape, source, corner));
}

Value KernelWriter::Tile::loadValues(Type element) {
  Value values = step.keys;
  if (!writer.readsValuesFromKeys)
    values = writer.loadKeyTile(item, step.firstKey, step.index, step.count,
                                /*isValue=*/true, element);
  if (!writer.haveConsumersColumns)
    return values;
  auto type = cast<VectorType>(values.getType());
  return attn_tile::ConsumerColumnsOp::create(
      b, VectorType::get({type.getDimSize(0), vHeadDim}, type.getElementType()),
      values);
}

Value KernelWriter::Tile::emitDrop(Value tile, bool areBelowTwo) {
  if (!step.keepMask)
    step.keepMask = writer.emitKeepMask(item, step.firstKey);
  return writer.dropout.emitDrop(b, tile, step.keepMask, areBelowTwo);
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
  Value inverse = b.scalar(1 / scoreFactor);
  attn_tile::YieldOp::create(
      b, arith::MulFOp::create(b, mapping.lookupOrDefault(bias), inverse)
             .getResult());
  return map;
}

Value KernelWriter::writeScores(const Tile &tile, Value scores, Value firstKey,
                                Value bits) {
  const WorkItem &item = tile.item;
  if (tile.elementFactor)
    scores = attn_tile::RescaleOp::create(
        b, scores,
        vector::BroadcastOp::create(b, b.f32Vector(queryTileSize),
                                    tile.elementFactor));
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

void KernelWriter::Tile::beginResults(bool arePartial) {
  this->arePartial = arePartial;
  resultBatch = item.batch;
  resultRow = item.firstQueryRow;
  if (!arePartial)
    return;
  if (writer.listsItsSplits) {
    resultBatch = arith::AddIOp::create(b, item.firstPart, split);
    resultRow = b.index(0);
  } else {
    resultBatch = arith::AddIOp::create(
        b,
        arith::MulIOp::create(b, split, b.size(writer.storedQuery, 0))
            .getResult(),
        resultBatch);
  }
}

void KernelWriter::Tile::storeOutput(Value tile) {
  // The output of a KV split is mapped when splits are combined.
  Region *map = writer.streaming.getOutputMap();
  if (map && !arePartial)
    tile = emitEpilogue(b, *map,
                        {tile, item.batch, item.head, item.firstQuery,
                         item.queryLength, writer.attention.getVHeadDim(),
                         item.firstColumn},
                        writer.captured);
  Value dest = arePartial ? writer.splitOut : writer.out;
  Type element = getElementTypeOrSelf(dest.getType());
  if (isFloat8(element))
    tile = emitSaturated(b, b.getLoc(), tile, cast<FloatType>(element));
  tile = b.round(tile, element);
  writer.storeTile(
      item, tile, dest,
      {resultBatch, item.head, resultRow, writer.getFirstColumn(item)});
}

void KernelWriter::Tile::storeRows(unsigned index, Value rows) {
  ArrayRef<Value> results =
      arePartial ? writer.splitStatistics : writer.rowResults;
  writer.storeTile(item, rows, results[index],
                   {resultBatch, item.head, resultRow});
}

Value KernelWriter::Tile::addValuesAtQueries(Value tile, Value factor) {
  TileProgramBuilder::MatchingRows rows{
      writer.value,    item.keyBatch,    item.heads.value,
      item.firstQuery, item.queryLength, Value(),
      Value(),         item.firstKeyRow, item.firstColumn};
  auto [queries, keys] = writer.attention.getStaticLengths();
  if (ShapedType::isDynamic(queries) || queries != keys) {
    rows.shift = arith::SubIOp::create(b, item.keyLength, item.queryLength);
    rows.length = item.keyLength;
  }
  return b.addScaledRows(tile, factor, rows);
}

Value KernelWriter::loadKeyTile(const WorkItem &item, Value firstKey,
                                Value position, Value length, bool isValue,
                                Type element) {
  Value tile = loadStoredKeyTile(item, firstKey, position, length, isValue);
  // 8-bit keys and values are multiplied in the type of wider queries.
  auto type = cast<VectorType>(tile.getType());
  Type wide = getElementTypeOrSelf(query);
  if (type.getElementTypeBitWidth() >= wide.getIntOrFloatBitWidth())
    return tile;
  return arith::ExtFOp::create(b, type.clone(element ? element : wide), tile);
}

Value KernelWriter::loadStoredKeyTile(const WorkItem &item, Value firstKey,
                                      Value position, Value length,
                                      bool isValue) {
  Value source = isValue ? value : key;
  Value head = isValue ? item.heads.value : item.heads.key;
  int64_t columns = isValue ? vHeadDim : qkHeadDim;
  Value column = isValue ? getFirstColumn(item) : b.index(0);
  if (isValue && haveConsumersColumns) {
    columns = attention.getVHeadDim();
    column = b.index(0);
  }
  if (isValue && hasTransposedValues)
    return b.load({columns, keyTileSize}, source,
                  {item.keyBatch, head, column, firstKey}, position, length);
  if (!workItemList && !keyLengths)
    return b.load({keyTileSize, columns}, source,
                  {item.keyBatch, head, firstKey, column}, position, length);
  Value row = firstKey;
  TileProgramBuilder::StoredRows stored;
  if (pageTable) {
    stored.table = pageTable;
    stored.numKeys = item.keyLength;
    stored.numPages = b.size(key, 0);
    stored.fault = fault;
  } else if (addressing.getPageSize() != 0) {
    stored.addressing = addressing;
    stored.first = item.firstKeyRow ? item.firstKeyRow : b.index(0);
    stored.count = b.size(source, 2);
  } else if (item.firstKeyRow) {
    row = arith::AddIOp::create(b, item.firstKeyRow, firstKey);
  }
  bool areValues = isValue || readsValuesFromKeys;
  return b.loadWithin(
      {keyTileSize, columns}, source, {item.keyBatch, head, row, column},
      areValues ? firstKey : Value(), areValues ? item.keyLength : Value(),
      position, length, stored);
}

void KernelWriter::storeTile(const WorkItem &item, Value tile, Value dest,
                             ValueRange indices) {
  attn_tile::StoreOp::create(b, tile, dest, indices,
                             workItemList ? item.firstQuery : Value(),
                             workItemList ? item.queryLength : Value());
}

void attn::writeStreamingKernel(OpBuilder &builder,
                                attn_tile::StreamingOpInterface op,
                                attn_tile::KernelOp kernel, ValueRange captures,
                                const KVSplits &splits) {
  KernelWriter(builder, op, kernel, captures, splits).write();
}
