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
#include "PlanSequences.h"
#include "TileProgramBuilder.h"
#include "attn-runtime/attn_runtime.h"
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
/// weights stay below 2^8, far from the limits of f16 and of the f32 sums. Or
/// by how much a reference is raised above it.
static constexpr double maxExponentGrowth = 8;
/// The smallest factor, and the inverse of the largest one, that is taken out
/// of scores and left to the exponent.
static constexpr double minTileScale = 1e-9;

namespace {
/// Writes the kernel of one attention.
class KernelWriter {
public:
  /// Each of `parts` shares of the keys, if not null, has a work item of its
  /// own, which writes to the buffers of the shares.
  KernelWriter(OpBuilder &builder, AttentionOp attention,
               attn_tile::KernelOp kernel, ValueRange captures, Value parts);

  void write();

private:
  using RowsCols = std::pair<int64_t, int64_t>;

  /// Positions and operands of the work item that is being written.
  struct WorkItem {
    /// What masks and regions see: positions in the sequence and its lengths.
    Value sequence, head, firstQuery, queryLength, keyLength;
    /// Its row of the lists of key tiles, if there are any.
    SmallVector<Value, 3> listRow;
    /// What decisions of dropout are made of, if there is any.
    KernelDropout::Source dropout;
    /// Where the item is stored. Without sequences rows are positions.
    Value batch, keyHead, firstQueryRow, firstKeyRow;
    /// The weight of the identity, if it is mixed with the others.
    Value identity;
    /// Which share of the keys it has, if they are shared.
    Value part;
    /// The first query of those that walk over keys together.
    Value firstOfCluster;
  };

  /// What a step of the loop over key tiles carries on.
  struct State {
    Value rowMax, rowSums, acc;
  };

  /// The work item of the induction variables of the loop over them.
  WorkItem makeItem(ValueRange ids);
  void writeWorkItem(const WorkItem &item);
  /// Reports an entry of the map of heads that is no key head.
  void checkHeadMap(const WorkItem &item);
  Value loadQueries(const WorkItem &item);
  State writeStep(const WorkItem &item, Value queryTile, Value step,
                  attn_tile::KeyTilesOp tiles, State state);
  /// The state before the first step: that of a row without keys.
  State emitInitialState(const WorkItem &item);
  void writeResults(const WorkItem &item, attn_tile::KeyTilesOp tiles,
                    const State &state);
  /// Adds the values that the identity weighs to a tile of results.
  Value addIdentity(const WorkItem &item, Value tile);
  /// `bits`, if not null, have what is masked.
  Value writeScores(const WorkItem &item, Value scores, Value firstKey,
                    Value bits);

  /// Clones a region of the attention to the end of `target`, a region of an
  /// `attn_tile` operation whose block arguments stand for those of `source`.
  void cloneRegion(Region &source, Block *target, ValueRange arguments);

  /// Clones the keep region of the attention, if any, to `target`.
  void cloneKeepRegion(Region &target);

  /// Of a score region that yields the sum of the score and what does not
  /// depend on it: that summand. Null of all others.
  static Value findBias(Region &region);
  /// What the product of queries and keys is added to.
  Value writeBias(const WorkItem &item, Value firstKey);

  /// Of a score region that yields a product with a positive constant: the
  /// other factor and the constant. The yielded value and 1 of all others.
  static std::pair<Value, double> splitFactor(Region &region);

  /// Repeats a row vector along `columns` columns.
  Value broadcastRows(Value rows, int64_t columns) {
    return b.broadcast(rows, {queryTileSize, columns});
  }
  /// Loads a tile of keys or values. Of a tile with `clears`, rows after the
  /// end of the sequence are zero.
  Value loadKeyTile(const WorkItem &item, Value source, Value firstKey,
                    int64_t columns, Value position, Value length, bool clears);
  void storeTile(const WorkItem &item, Value tile, Value dest,
                 ValueRange indices);

  TileProgramBuilder b;
  AttentionOp attention;
  KernelDropout dropout;
  attn_tile::KernelOp kernel;
  IRMapping captured;

  int64_t queryTileSize, keyTileSize, queryHeadDim, valueHeadDim;
  /// Work items that walk over keys together.
  int64_t clusterSize;
  Value query, key, value, out, lse, sinks, headMap, fault, identity;
  /// The list of work items, if sequences are given.
  Value plan;
  /// The lists of key tiles, if masks read tensors, and the order of query
  /// tiles by the lengths of these.
  Value lists, order;
  /// What the masked tiles of the lists keep, or null.
  Value pairBits;
  Value storedQueries, storedKeys;
  /// How many items share the keys of a tile of queries; null if none do.
  Value parts;
  /// What the score region adds to scores, if that is all it does.
  Value bias;
  /// Whether scores need an `attn_tile.map`; if not, `exponentScale` takes the
  /// scale in.
  bool mapsScores;
  bool isRescaleLazy;
  /// Whether weights are dropped by a bit of their exponents.
  bool clearsExponents;
  /// A score is this times what the tile holds, positive.
  double tileScale;
  /// exp(x) of a score is exp2(exponentScale * x) of what the tile holds.
  double exponentScale;
};
} // namespace

KernelWriter::KernelWriter(OpBuilder &builder, AttentionOp attention,
                           attn_tile::KernelOp kernel, ValueRange captures,
                           Value partCount)
    : b(attention.getLoc(), builder), attention(attention), dropout(attention),
      kernel(kernel) {
  ScheduleAttrInterface schedule = attention.getChosenSchedule();
  queryTileSize = schedule.getQueryTile();
  keyTileSize = schedule.getKeyTile();
  clusterSize = schedule.getClusterSize();
  isRescaleLazy = schedule.isRescaleLazy();
  // Weights of f16 would lose bits below the reference.
  clearsExponents =
      dropout && getElementTypeOrSelf(attention.getValue()).isBF16();
  queryHeadDim = llvm::alignTo(attention.getQueryHeadDim(), headDimMultiple);
  valueHeadDim = llvm::alignTo(attention.getValueHeadDim(), headDimMultiple);

  double scale = attention.getScaleOrDefault();
  Region &scoreRegion = attention.getScoreRegion();
  bool takesScale = scale >= minTileScale;
  // Sums of products that begin with a large bias lose what f32 inputs have.
  if (takesScale && !scoreRegion.empty() &&
      !getElementTypeOrSelf(attention.getQuery()).isF32())
    bias = findBias(scoreRegion);
  mapsScores = !takesScale || (!scoreRegion.empty() && !bias);
  tileScale = mapsScores ? 1 : scale;
  if (mapsScores && !scoreRegion.empty())
    tileScale = splitFactor(scoreRegion).second;
  exponentScale = tileScale * log2e;

  Block &entry = kernel.getBody().front();
  auto *next = entry.args_begin();
  query = *next++;
  key = *next++;
  value = *next++;
  out = *next++;
  if (attention.getLse() || partCount)
    lse = *next++;
  if (attention.getSinks())
    sinks = *next++;
  if (attention.getHeadMap()) {
    headMap = *next++;
    fault = *next++;
  }
  if (attention.getIdentity())
    identity = *next++;
  if (attention.hasSequences())
    plan = *next++;
  if (needsClassification(attention)) {
    lists = *next++;
    order = *next++;
    if (readsPairBits(attention, schedule))
      pairBits = *next++;
  }
  for (Value capture : captures)
    captured.map(capture, *next++);
  if (!partCount)
    return;
  b.setInsertionPointToEnd(&entry);
  parts = getConstantIntValue(partCount)
              ? b.index(*getConstantIntValue(partCount))
              : Value(*next++);
}

void KernelWriter::write() {
  b.setInsertionPointToEnd(&kernel.getBody().front());
  // Constants that the regions capture; everything else is an argument.
  for (Region *region :
       {&attention.getScoreRegion(), &attention.getKeepRegion(),
        &attention.getQueryRegion(), &attention.getEpilogue()})
    visitUsedValuesDefinedAbove(*region, [&](OpOperand *use) {
      if (!captured.contains(use->get()))
        b.clone(*use->get().getDefiningOp(), captured);
    });

  SmallVector<OpFoldResult> bounds;
  Value heads = b.size(query, 1);
  if (parts)
    heads = b.createOrFold<arith::MulIOp>(heads, parts);
  if (plan) {
    bounds = {heads, emitPlannedItems(b, plan)};
  } else {
    Value batches = b.size(query, 0);
    storedQueries = b.size(query, 2);
    storedKeys = b.size(key, 2);
    bounds = {batches, heads,
              b.countTiles(storedQueries, clusterSize * queryTileSize)};
    if (clusterSize > 1)
      bounds.push_back(b.getIndexAttr(clusterSize));
  }
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);

  b.setInsertionPointToStart(forall.getBody());
  writeWorkItem(makeItem(forall.getInductionVars()));
}

KernelWriter::WorkItem KernelWriter::makeItem(ValueRange ids) {
  WorkItem item;
  item.head = plan ? ids[0] : ids[1];
  if (parts) {
    item.part = arith::RemUIOp::create(b, item.head, parts);
    item.head = arith::DivUIOp::create(b, item.head, parts);
  }
  if (plan) {
    PlannedItem planned = emitPlannedItem(b, plan, ids[1]);
    item.sequence = planned.sequence;
    item.firstQuery = item.firstOfCluster = planned.first;
    item.queryLength = planned.queryLength;
    item.keyLength = planned.keyLength;
    item.firstKeyRow = planned.keyRow;
    item.firstQueryRow = planned.queryRow;
    item.batch = attention.getSequenceLayout() == SequenceLayout::Packed
                     ? b.index(0)
                     : item.sequence;
  } else {
    item.batch = item.sequence = ids[0];
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
    // The last items of a cluster may have no queries, and store nothing.
    if (clusterSize > 1) {
      Value offset = arith::MulIOp::create(b, ids[3], b.index(queryTileSize));
      item.firstQuery = item.firstQueryRow =
          arith::AddIOp::create(b, item.firstOfCluster, offset);
    }
    item.queryLength = storedQueries;
    item.keyLength = storedKeys;
  }
  item.keyHead = item.head;
  if (headMap) {
    // Entries are unsigned here: no read leaves the keys, whatever they are.
    Value entry = memref::LoadOp::create(b, headMap, item.head);
    item.keyHead = arith::MinUIOp::create(
        b, arith::IndexCastOp::create(b, b.getIndexType(), entry).getResult(),
        b.index(attention.getNumKeyHeads() - 1));
  } else if (int64_t group = attention.getGroupSize(); group != 1)
    item.keyHead = arith::DivUIOp::create(b, item.head, b.index(group));
  item.dropout = dropout.emitSource(b, captured, item.sequence, item.head);
  if (identity)
    item.identity = b.loadHeadScalar(identity, item.head);
  return item;
}

void KernelWriter::writeWorkItem(const WorkItem &item) {
  Value zero = b.index(0), one = b.index(1);
  Value queryTile = loadQueries(item);
  // The identity alone needs no scores, unless their sum is asked for.
  Value needed;
  if (item.identity && !lse)
    needed = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, item.identity,
                                   b.scalar(1));
  auto tiles = attn_tile::KeyTilesOp::create(
      b, item.sequence, item.head, item.firstOfCluster,
      clusterSize * queryTileSize, keyTileSize, item.queryLength,
      item.keyLength, attention.getMaskAttr(), lists, item.listRow, needed,
      item.part, parts);
  cloneKeepRegion(tiles.getKeep());

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
  if (headMap)
    checkHeadMap(item);
}

void KernelWriter::checkHeadMap(const WorkItem &item) {
  // The first tile of queries looks for all of its head: each one would wait
  // for an entry that otherwise the producer alone needs.
  OpBuilder::InsertionGuard guard(b);
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                        item.firstQuery, b.index(0));
  b.setInsertionPointToStart(
      scf::IfOp::create(b, isFirst, /*withElseRegion=*/false).thenBlock());
  Value entry = memref::LoadOp::create(b, headMap, item.head);
  // A negative number is a large one.
  Value count = arith::ConstantIntOp::create(b, attention.getNumKeyHeads(), 32);
  Value isWrong =
      arith::CmpIOp::create(b, arith::CmpIPredicate::uge, entry, count);
  b.setInsertionPointToStart(
      scf::IfOp::create(b, isWrong, /*withElseRegion=*/false).thenBlock());
  Value code = arith::ConstantIntOp::create(b, ATTNRT_FAULT_HEADS, 32);
  memref::StoreOp::create(b, code, fault, b.index(0));
}

Value KernelWriter::loadQueries(const WorkItem &item) {
  Value zero = b.index(0);
  SmallVector<Value> corner = {item.batch, item.head, item.firstQueryRow, zero};
  Region &region = attention.getQueryRegion();
  if (region.empty())
    return b.load({queryTileSize, queryHeadDim}, query, corner, zero,
                  b.index(1));
  // Those that a region computes stay in registers, not in a pipe.
  Value tile = b.load({queryTileSize, queryHeadDim}, query, corner);
  Type element = getElementTypeOrSelf(tile.getType());
  tile = emitHeadMap(b, region,
                     {b.extend(tile), item.batch, item.head, item.firstQuery,
                      item.queryLength, attention.getQueryHeadDim()},
                     captured);
  return b.round(tile, element);
}

KernelWriter::State KernelWriter::emitInitialState(const WorkItem &item) {
  Value acc = b.splat({queryTileSize, valueHeadDim}, 0);
  if (!sinks)
    return {b.splat(queryTileSize, -std::numeric_limits<double>::infinity()),
            b.splat({queryTileSize, numPartialSums}, 0), acc};

  // A sink is a score of weight exp(0) whose value is zero.
  Value sink = b.loadHeadScalar(sinks, item.head);
  Value lowest = b.scalar(-std::numeric_limits<double>::infinity());
  Value exists =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, sink, lowest);
  if (item.part) {
    // It counts once.
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                          item.part, b.index(0));
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

KernelWriter::State KernelWriter::writeStep(const WorkItem &item,
                                            Value queryTile, Value step,
                                            attn_tile::KeyTilesOp tiles,
                                            State state) {
  Value count = tiles.getCount();
  Value tile = attn_tile::TileAtOp::create(b, tiles.getTiles(), step);
  Value firstKey = arith::MulIOp::create(b, tile, b.index(keyTileSize));

  Value keyTile = loadKeyTile(item, key, firstKey, queryHeadDim, step, count,
                              /*clears=*/false);
  Value bits;
  if (pairBits)
    bits = attn_tile::LoadPairBitsOp::create(
        b,
        attn_tile::PairBitsType::get(b.getContext(), queryTileSize,
                                     keyTileSize),
        pairBits, item.listRow[0], item.listRow[1], item.listRow[2], step);
  Value raw = b.contract(queryTile, keyTile, writeBias(item, firstKey),
                         ContractForm::TransposedRhs);
  // Reads are under way while the softmax is computed.
  Value decisions;
  if (item.dropout.mask)
    decisions = dropout.emitDecisions(b, item.dropout, item.firstQuery,
                                      firstKey, {queryTileSize, keyTileSize},
                                      KernelDropout::WordPlacement::Whole);
  Value scores = writeScores(item, raw, firstKey, bits);

  Value rowMax = vector::MultiDimReductionOp::create(
      b, scores, state.rowMax, ArrayRef<bool>{false, true},
      vector::CombiningKind::MAXNUMF);
  if (isRescaleLazy) {
    // Any reference that keeps exponents in range serves as well as the
    // maximum, so the old one stays until the maximum has grown by more than a
    // little: then most steps rescale by one. What clears weights by their
    // exponents needs a reference that none exceeds, which is as much above.
    Value growth = b.splat(queryTileSize, maxExponentGrowth / exponentScale);
    Value limit = state.rowMax, next = rowMax;
    if (clearsExponents)
      next = arith::AddFOp::create(b, rowMax, growth);
    else
      limit = arith::AddFOp::create(b, state.rowMax, growth);
    Value grew =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, rowMax, limit);
    rowMax = arith::SelectOp::create(b, grew, next, state.rowMax);
  }

  // A row with nothing attended so far has a maximum of -inf; its exponents
  // are taken relative to 0 instead, so that no inf - inf arises. So are those
  // of a maximum that scaling makes -inf, as the lowest number is that masks
  // add.
  double bound = -std::numeric_limits<double>::infinity();
  auto isEmpty = arith::CmpFPredicate::OEQ;
  if (exponentScale > 1) {
    // Rounded to f32, times the scale, it must not be -inf either.
    auto least = float(-std::numeric_limits<float>::max() / exponentScale);
    bound = std::nextafter(least, 0.0f);
    isEmpty = arith::CmpFPredicate::OLT;
  }
  Value factor = b.splat(queryTileSize, exponentScale);
  Value empty =
      arith::CmpFOp::create(b, isEmpty, rowMax, b.splat(queryTileSize, bound));
  Value finiteMax =
      arith::SelectOp::create(b, empty, b.splat(queryTileSize, 0), rowMax);
  Value scaledMax = arith::MulFOp::create(b, finiteMax, factor);
  Value oldMax = arith::MulFOp::create(b, state.rowMax, factor);
  Value alpha = math::Exp2Op::create(
      b, arith::SubFOp::create(b, oldMax, scaledMax).getResult());

  Value negated = arith::NegFOp::create(b, scaledMax);
  Value exponent = math::FmaOp::create(
      b, scores, b.splat({queryTileSize, keyTileSize}, exponentScale),
      broadcastRows(negated, keyTileSize));
  Value probabilities = math::Exp2Op::create(b, exponent);

  Value oldSums = arith::MulFOp::create(b, state.rowSums,
                                        broadcastRows(alpha, numPartialSums));
  Value rowSums = attn_tile::PartialSumOp::create(b, probabilities, oldSums);

  Value oldAcc =
      arith::MulFOp::create(b, state.acc, broadcastRows(alpha, valueHeadDim));
  // Weights of zero do not undo values that are not finite.
  Value valueTile =
      loadKeyTile(item, value, firstKey, valueHeadDim, step, count,
                  /*clears=*/true);
  probabilities =
      b.round(probabilities, getElementTypeOrSelf(valueTile.getType()));
  if (!decisions)
    decisions = dropout.emitDecisions(b, item.dropout, item.firstQuery,
                                      firstKey, {queryTileSize, keyTileSize},
                                      KernelDropout::WordPlacement::Whole);
  probabilities =
      dropout.emitDrop(b, probabilities, decisions,
                       /*areWeights=*/!isRescaleLazy || clearsExponents);
  Value acc = b.contract(probabilities, valueTile, oldAcc, ContractForm::Plain);
  return {rowMax, rowSums, acc};
}

Value KernelWriter::findBias(Region &region) {
  Block &block = region.front();
  auto yield = cast<YieldOp>(block.getTerminator());
  auto sum = yield.getValue().getDefiningOp<arith::AddFOp>();
  if (!sum || sum->getBlock() != &block)
    return nullptr;
  Value score = block.getArgument(0);
  // The score has no other use, so that nothing else depends on it.
  if (!score.hasOneUse() || *score.user_begin() != sum)
    return nullptr;
  // Tiles that are read by pairs are better added late: until then they need
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
  Block &source = attention.getScoreRegion().front();
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
    if (attention.getScoreRegion().empty()) {
      attn_tile::YieldOp::create(b, scaled);
    } else {
      SmallVector<Value> arguments(body->getArguments());
      arguments[0] = scaled;
      cloneRegion(attention.getScoreRegion(), body, arguments);
    }
    scores = map;
  }

  if (bits)
    return attn_tile::KeepPairsOp::create(b, scores, bits);
  auto mask = attn_tile::MaskOp::create(
      b, scores, item.sequence, item.head, item.firstQuery, firstKey,
      item.queryLength, item.keyLength, attention.getMaskAttr());
  cloneKeepRegion(mask.getKeep());
  return mask;
}

void KernelWriter::cloneKeepRegion(Region &target) {
  if (attention.getKeepRegion().empty())
    return;
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> types(4, b.getIndexType());
  SmallVector<Location> locs(types.size(), b.getLoc());
  Block *body = b.createBlock(&target, {}, types, locs);
  cloneRegion(attention.getKeepRegion(), body, body->getArguments());
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
    // Far from where products of it would not be numbers any more.
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
  if (&source == &attention.getScoreRegion())
    result = splitFactor(source).first;
  attn_tile::YieldOp::create(b, mapping.lookupOrDefault(result));
}

void KernelWriter::writeResults(const WorkItem &item,
                                attn_tile::KeyTilesOp tiles,
                                const State &state) {
  Value batch = item.batch;
  if (parts)
    batch = arith::AddIOp::create(
        b, arith::MulIOp::create(b, item.part, b.size(query, 0)).getResult(),
        batch);
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
      arith::MulFOp::create(b, state.acc, broadcastRows(inverse, valueHeadDim));
  if (item.identity)
    result = addIdentity(item, result);
  if (Region &epilogue = attention.getEpilogue(); !epilogue.empty()) {
    result = emitEpilogue(b, epilogue,
                          {result, item.batch, item.head, item.firstQuery,
                           item.queryLength, attention.getValueHeadDim()},
                          captured);
  }
  result = b.round(result, getElementTypeOrSelf(out.getType()));
  storeTile(item, result, out,
            {batch, item.head, item.firstQueryRow, b.index(0)});
  if (!lse)
    return;

  // The maximum is kept before scaling. A row with nothing attended has a
  // maximum of -inf and a sum of 0, which give -inf.
  Value scaledMax = state.rowMax;
  if (tileScale != 1)
    scaledMax =
        arith::MulFOp::create(b, scaledMax, b.splat(queryTileSize, tileScale));
  Value logSum = math::LogOp::create(b, sum);
  Value rowLse = arith::AddFOp::create(b, scaledMax, logSum);
  if (parts) {
    // What a share without steps has computed belongs to another one.
    Value isEmpty = attn_tile::WalkIsEmptyOp::create(b, tiles.getTiles());
    Value addend = arith::SelectOp::create(
        b, isEmpty, b.scalar(-std::numeric_limits<double>::infinity()),
        b.scalar(0));
    rowLse = arith::AddFOp::create(
        b, rowLse,
        vector::BroadcastOp::create(b, b.f32Vector(queryTileSize), addend)
            .getResult());
  }
  storeTile(item, rowLse, lse, {batch, item.head, item.firstQueryRow});
}

Value KernelWriter::addIdentity(const WorkItem &item, Value tile) {
  TileProgramBuilder::MatchingRows rows{value,
                                        item.batch,
                                        item.keyHead,
                                        item.firstQuery,
                                        item.queryLength,
                                        Value(),
                                        Value(),
                                        plan ? item.firstKeyRow : Value()};
  auto [queries, keys] = attention.getStaticLengths();
  if (ShapedType::isDynamic(queries) || queries != keys) {
    rows.shift = arith::SubIOp::create(b, item.keyLength, item.queryLength);
    rows.length = item.keyLength;
  }
  return b.addScaledRows(tile, item.identity, rows);
}

Value KernelWriter::loadKeyTile(const WorkItem &item, Value source,
                                Value firstKey, int64_t columns, Value position,
                                Value length, bool clears) {
  Value zero = b.index(0);
  if (!plan)
    return b.load({keyTileSize, columns}, source,
                  {item.batch, item.keyHead, firstKey, zero}, position, length);
  Value row = arith::AddIOp::create(b, item.firstKeyRow, firstKey);
  return b.loadWithin({keyTileSize, columns}, source,
                      {item.batch, item.keyHead, row, zero},
                      clears ? firstKey : Value(),
                      clears ? item.keyLength : Value(), position, length);
}

void KernelWriter::storeTile(const WorkItem &item, Value tile, Value dest,
                             ValueRange indices) {
  attn_tile::StoreOp::create(b, tile, dest, indices,
                             plan ? item.firstQuery : Value(),
                             plan ? item.queryLength : Value());
}

void attn::writeAttentionKernel(OpBuilder &builder, AttentionOp attention,
                                attn_tile::KernelOp kernel, ValueRange captures,
                                Value parts) {
  KernelWriter(builder, attention, kernel, captures, parts).write();
}
