//===- DkdvKernel.cpp - Gradients of keys and values ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dkdv and dv kernels, which have one kv tile for each work item.
//
//===----------------------------------------------------------------------===//

#include "GradKernelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::attn;

GradKernelWriter::QueryTiles
GradKernelWriter::emitQueryTiles(Value batch, Value group, Value firstKey) {
  // With one query head for each group, the group is the head.
  ScoreMask mask{
      op.getMaskAttr(), /*maskMod=*/nullptr, batch, group, queryLength,
      keyLength};
  // A mask_mod that depends on the head differs between the heads of a group.
  Region maskMod;
  bool knowsMaskMod =
      op.getMaskMod().empty() || op.getGroupSize() == 1 || !isMaskedByHead(op);
  if (!op.getMaskMod().empty() && knowsMaskMod) {
    cloneMaskMod(maskMod);
    mask.maskMod = &maskMod;
  }
  bool isLimited = false;
  TileRanges ranges = emitTileRanges(b, b.getLoc(), mask, MaskDim::Key,
                                     firstKey, keyTile, queryTile, &isLimited);
  if (isLimited)
    reportLimitedTiles(b.getLoc());
  QueryTiles tiles;
  tiles.iteration = TileIteration(/*isDescending=*/false);
  tiles.masked = tiles.iteration->add(b, ranges.masked, b.index(0));
  tiles.count = tiles.iteration->add(b, ranges.full, tiles.masked);
  tiles.fullIteration.add(b, ranges.full, b.index(0));
  tiles.areAllMasked = !knowsMaskMod || ranges.full.empty();
  if (addressing.isListed()) {
    // The mask ranges do not account for sequences without queries.
    Value none = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, queryLength,
                                       b.index(0));
    for (Value *steps : {&tiles.count, &tiles.masked})
      *steps = arith::SelectOp::create(b, none, b.index(0), *steps);
  }
  // A kv tile that exceeds the keys needs masking.
  Value endKey = arith::AddIOp::create(b, firstKey, b.index(keyTile));
  Value isPartial =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, endKey, keyLength);
  tiles.masked =
      arith::SelectOp::create(b, isPartial, tiles.count, tiles.masked);
  return tiles;
}

GradKernelWriter::QueryTiles
GradKernelWriter::emitListedTiles(Value list, ArrayRef<Value> row) {
  QueryTiles tiles;
  tiles.list = list;
  tiles.row.assign(row.begin(), row.end());
  auto load = [&](int64_t column) {
    return loadIndex(list, {row[0], row[1], row[2], b.index(column)});
  };
  tiles.masked = load(0);
  tiles.count = load(1);
  return tiles;
}

Value GradKernelWriter::emitTileAt(const QueryTiles &tiles, Value visitIndex,
                                   bool isFull) {
  if (!tiles.list)
    return (isFull ? tiles.fullIteration : *tiles.iteration)
        .emitTile(b, visitIndex);
  // Partial tiles follow the two counts, full tiles end the row. The last query
  // tile comes first, because many rows have it: their additions to its dQ then
  // come at about the same time.
  Value column;
  if (isFull)
    column = arith::AddIOp::create(
        b,
        arith::SubIOp::create(b, b.size(tiles.list, 3), tiles.count)
            .getResult(),
        arith::AddIOp::create(b, tiles.masked, visitIndex).getResult());
  else
    column = arith::AddIOp::create(b, visitIndex, b.index(2));
  SmallVector<Value> indices(tiles.row);
  indices.push_back(column);
  return loadIndex(tiles.list, indices);
}

Value GradKernelWriter::joinColumns(ArrayRef<Value> tiles) {
  if (tiles.size() == 1)
    return tiles.front();
  auto type = cast<VectorType>(tiles.front().getType());
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  auto joinedType =
      VectorType::get({rows, static_cast<int64_t>(tiles.size()) * columns},
                      type.getElementType());
  Value joined =
      arith::ConstantOp::create(b, b.getZeroAttr(joinedType)).getResult();
  for (auto [i, tile] : llvm::enumerate(tiles))
    joined = vector::InsertStridedSliceOp::create(
        b, tile, joined,
        ArrayRef<int64_t>{0, static_cast<int64_t>(i) * columns},
        ArrayRef<int64_t>{1, 1});
  return joined;
}

void GradKernelWriter::emitAdditions(Value grad, Value keys,
                                     Value dqAccumulator, ArrayRef<Value> place,
                                     Value ordinal, Value semaphores) {
  int64_t qkHeadDim = cast<VectorType>(keys.getType()).getDimSize(1);
  auto add = [&](Value sum, ArrayRef<Value> placeOfDq) {
    ArrayRef<Value> placeOfSemaphore =
        ordinal ? place.drop_back() : ArrayRef<Value>();
    attn_tile::BulkReduceAddOp::create(b, sum, dqAccumulator, placeOfDq,
                                       ordinal, semaphores, placeOfSemaphore);
  };
  if (!isDqTransposed(keyTile)) {
    Value sum = b.contract(grad, keys, b.splat({queryTile, qkHeadDim}, 0),
                           ContractForm::TransposedLhs);
    add(sum, place);
    return;
  }
  int64_t rows = getDqRows(qkHeadDim, schedule);
  forEachDqPart(
      qkHeadDim, place, rows,
      [&](int64_t firstHeadDimIndex, ArrayRef<Value> placeOfPart) {
        Value ofPart = keys;
        if (qkHeadDim != rows)
          ofPart = vector::ExtractStridedSliceOp::create(
              b, keys, ArrayRef<int64_t>{0, firstHeadDimIndex},
              ArrayRef<int64_t>{keyTile, rows}, ArrayRef<int64_t>{1, 1});
        Value sum = b.contract(ofPart, grad, b.splat({rows, queryTile}, 0),
                               ContractForm::TransposedLhs);
        add(sum, placeOfPart);
      });
}

Value GradKernelWriter::emitStepMask(const KeyStep &step, const ScoreTile &at,
                                     const QueryTiles &tiles, Value scores,
                                     bool isMasked) {
  if (step.masks == MaskedSteps::None || isMasked)
    return scores;
  if (step.masks == MaskedSteps::All)
    return emitMask(at, scores);
  Value isPartial = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                          step.visitIndex, tiles.masked);
  auto ifOp = scf::IfOp::create(b, scores.getType(), isPartial,
                                /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  scf::YieldOp::create(b, emitMask(at, scores));
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(b, scores);
  return ifOp.getResult(0);
}

Value GradKernelWriter::emitKeyPart(const KeyStep &step,
                                    const GradWorkspace &workspace,
                                    const Gradients &results, Value keys,
                                    Value values, const QueryTiles &tiles,
                                    SmallVectorImpl<Value> &carried) {
  int64_t rows = queryTile / queryParts;
  Value zero = b.index(0);
  Value firstQuery = step.firstQuery, position = step.step;
  if (queryParts != 1) {
    firstQuery =
        arith::AddIOp::create(b, firstQuery, b.index(step.part * rows));
    Value begin = arith::MulIOp::create(b, position, b.index(queryParts));
    position = arith::AddIOp::create(b, begin, b.index(step.part));
  }
  const WorkItem &item = step.item;
  ScoreTile at{item.sequence,       step.head,       firstQuery,
               step.firstKey,
               /*transposed=*/true, {keyTile, rows}, workspace.additions};
  // Rows of other sequences must be zero: the MMA would add them even where P
  // is zero, and they may not be finite.
  auto loadStaged = [&](Value source, int64_t headDim, Value column) {
    SmallVector<Value> indices =
        item.at(b, step.head, item.queryBase, firstQuery);
    indices.push_back(column);
    return b.loadWithin({rows, headDim}, source, indices, within(firstQuery),
                        within(queryLength), position, step.length);
  };
  auto loadRow = [&](Value source) {
    return b.load({1, rows}, get(source),
                  item.at(b, step.head, item.workBase, firstQuery), position,
                  step.length, /*inBounds=*/true);
  };
  Value exponent = loadRow(workspace.exponent);

  Value queries = loadStaged(
      get(op.getQuery()), cast<VectorType>(keys.getType()).getDimSize(1), zero);
  Value none = b.splat(at.shape, 0);
  // In masked loops the mask is the initial accumulator of the MMA, so that it
  // is evaluated before the MMA occupies registers.
  bool addsMask = step.masks == MaskedSteps::All && !mapsScores;
  Value firstScores =
      at.additions.scores ? b.broadcast(exponent, at.shape) : none;
  Value qk = b.contract(keys, queries,
                        addsMask ? emitMask(at, firstScores) : firstScores,
                        ContractForm::TransposedRhs);
  // Without dP, all that reads these rows is dV.
  int64_t vHeadDim = padHeadDim(op.getValue());
  bool loadsColumns = !results.key && !haveConsumersColumns();
  Value douts = loadStaged(get(tensors.outputGrad),
                           loadsColumns ? getResultColumns(vHeadDim) : vHeadDim,
                           loadsColumns ? b.index(firstColumn) : zero);
  Value factorGrad, delta;
  if (results.key) {
    Value firstGrads = none;
    if (at.additions.factorGrads) {
      delta = loadRow(workspace.delta);
      firstGrads = b.broadcast(delta, at.shape);
    }
    factorGrad = b.contract(matchElements(values, douts), douts, firstGrads,
                            ContractForm::TransposedRhs);
  }

  // Generating the keep mask overlaps the MMAs. Kept in registers, the stream
  // and the values derived from it would displace tiles.
  Value keepMask = emitKeepMask(
      at, workspace.streams
              ? dropout.emitLoadStream(b, captured, item.sequence, step.head,
                                       get(workspace.streams))
              : dropout.emitSource(b, captured, item.sequence, step.head));
  Value raw = emitRawScores(qk);
  Value scores =
      emitStepMask(step, at, tiles, emitScores(at, raw), /*isMasked=*/addsMask);
  Value factors = law.emitFactors(getGradTile(at), scores, exponent);

  Value kept = dropout.emitDrop(b, matchElements(factors, douts), keepMask,
                                /*areBelowTwo=*/true);
  if (results.value)
    carried.back() =
        b.contract(kept, loadsColumns ? douts : extractResultColumns(douts),
                   carried.back(), ContractForm::Plain);
  if (!results.key)
    return Value();
  if (!delta)
    delta = loadRow(workspace.delta);
  // The kernels of other columns compute the same gradients of scores.
  Value grad = emitScoreGrad(at, raw, factors, kept, factorGrad, delta,
                             /*addsCaptures=*/firstColumn == 0);
  grad = matchElements(grad, queries);
  // The MMAs on a warpgroup's own tiles come first: they run while it waits for
  // tiles of other warpgroups.
  carried.front() = b.contract(grad, extractResultColumns(queries),
                               carried.front(), ContractForm::Plain);
  return grad;
}

GradKernelWriter::KeyWorkItem
GradKernelWriter::beginKeyTiles(const GradWorkspace &workspace,
                                const ClassifiedTiles &listed,
                                Value workItemList, bool isOrdered) {
  Value key = get(op.getKey());
  KeyWorkItem result;
  WorkItem &item = result.item;
  if (workItemList) {
    item = beginListedWorkItems(b.index(op.getNumGroups()), get(workItemList),
                                MaskDim::Key, workspace);
    return result;
  }
  queryLength = b.size(get(op.getQuery()), 2);
  keyLength = b.size(key, 2);
  Value tileCount = b.countTiles(keyLength, keyTile), programs;
  if (isOrdered) {
    tileCount = countOrderedTiles(tileCount);
    programs = attn_tile::NumProgramsOp::create(b, /*dim=*/0);
  }
  Value heads = b.index(op.getNumGroups()), tiles = tileCount;
  if (listed.isOrderOfHeads) {
    tiles = arith::MulIOp::create(b, heads, tileCount);
    heads = b.index(1);
  }
  SmallVector<Value> ids = beginWorkItems(heads, tiles);
  item.sequence = item.batch = ids[0];
  item.head = ids[1];
  Value tileOfKeys;
  if (listed.lists) {
    Value listHead = isMaskedByHead(op) ? ids[1] : b.index(0);
    tileOfKeys = loadIndex(get(listed.order), {ids[0], listHead, ids[2]});
    if (listed.isOrderOfHeads) {
      item.head = arith::DivUIOp::create(b, tileOfKeys, tileCount);
      tileOfKeys = arith::RemUIOp::create(b, tileOfKeys, tileCount);
    }
    result.listRow = {ids[0], listHead, tileOfKeys};
  } else {
    // Under a causal mask the first keys have the most queries, and the last
    // work items are expected to be the longest ones.
    Value lastTile = arith::SubIOp::create(b, tileCount, b.index(1));
    tileOfKeys = arith::SubIOp::create(b, lastTile, ids[2]);
  }
  item.first = arith::MulIOp::create(b, tileOfKeys, b.index(keyTile));
  if (isOrdered)
    result.order = emitAccumulationOrder(tileOfKeys, tileCount, programs);
  return result;
}

GradKernelWriter::DqRingSlot
GradKernelWriter::waitForDqRing(const WorkItem &item,
                                const GradWorkspace &workspace) {
  Value before =
      arith::MulIOp::create(b, item.batch, b.index(op.getNumGroups()));
  DqRingSlot dqRing =
      emitDqRingSlot(get(workspace.dqAccumulator),
                     arith::AddIOp::create(b, before, item.head));
  attn_tile::SemaphoreWaitOp::create(
      b, get(workspace.dqRingSemaphores),
      ValueRange{dqRing.slot, b.index(Converted)},
      arith::MulIOp::create(b, dqRing.numEarlierUses, emitConvertedParts())
          .getResult());
  return dqRing;
}

GradKernelWriter::QueryTiles
GradKernelWriter::emitTilesOfKeys(const KeyWorkItem &workItem,
                                  const ClassifiedTiles &listed,
                                  bool isOrdered) {
  const WorkItem &item = workItem.item;
  QueryTiles tiles = listed.lists
                         ? emitListedTiles(get(listed.lists), workItem.listRow)
                         : emitQueryTiles(item.sequence, item.head, item.first);
  if (!isOrdered || !isPaired())
    return tiles;
  // The tile that completes the last pair has no keys, and adds nothing.
  Value zero = b.index(0);
  Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, item.first,
                                       keyLength);
  for (Value *steps : {&tiles.count, &tiles.masked})
    *steps = arith::SelectOp::create(b, exists, *steps, zero);
  return tiles;
}

GradKernelWriter::StepPlace GradKernelWriter::emitStepPlace(const KeyLoop &loop,
                                                            Value visitIndex,
                                                            Value count,
                                                            bool isFull) {
  int64_t group = op.getGroupSize();
  StepPlace place;
  place.head = loop.workItem.item.head;
  if (loop.isOncePerHead && loop.listed.lists) {
    // Heads are the inner loop over a listed tile: work items that run at the
    // same time then need fewer tiles.
    place.member = arith::RemUIOp::create(b, visitIndex, b.index(group));
    visitIndex = arith::DivUIOp::create(b, visitIndex, b.index(group));
  } else if (loop.isOncePerHead) {
    place.member = arith::DivUIOp::create(b, visitIndex, count);
    visitIndex = arith::SubIOp::create(
        b, visitIndex,
        arith::MulIOp::create(b, place.member, count).getResult());
  }
  place.visitIndex = visitIndex;
  if (loop.isOrdered)
    visitIndex = emitOrderedStep(loop.workItem.order, loop.tiles, visitIndex);
  place.tile = emitTileAt(loop.tiles, visitIndex, isFull);
  if (loop.isListedByHead && group != 1) {
    Value ofHead = b.countTiles(queryLength, queryTile);
    place.member = arith::DivUIOp::create(b, place.tile, ofHead);
    place.tile = arith::RemUIOp::create(b, place.tile, ofHead);
  }
  if (place.member)
    place.head = arith::AddIOp::create(
        b, arith::MulIOp::create(b, place.head, b.index(group)).getResult(),
        place.member);
  return place;
}

void GradKernelWriter::addToDq(const KeyLoop &loop, const StepPlace &place,
                               Value firstQuery, ArrayRef<Value> grads) {
  const GradWorkspace &workspace = loop.workspace;
  const WorkItem &item = loop.workItem.item;
  Value zero = b.index(0);
  SmallVector<Value> corner = item.at(b, place.head, item.workBase, firstQuery);
  if (loop.dqRing.slot)
    corner = {loop.dqRing.slot, place.member ? place.member : zero, firstQuery};
  corner.push_back(zero);
  Value ordinal, semaphores;
  if (loop.isOrdered) {
    ordinal = emitOrdinal(loop.workItem.order, place.tile);
    semaphores = get(workspace.semaphores);
  }
  emitAdditions(joinColumns(grads), loop.keys, get(workspace.dqAccumulator),
                corner, ordinal, semaphores);
}

scf::ForOp GradKernelWriter::emitKeySteps(const KeyLoop &loop,
                                          const KeySteps &steps,
                                          ValueRange inits) {
  auto forOp = scf::ForOp::create(b, steps.first ? steps.first : b.index(0),
                                  steps.end, b.index(1), inits);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  Value step = forOp.getInductionVar(), visitIndex = step;
  if (steps.first)
    visitIndex = arith::SubIOp::create(b, step, steps.first);
  StepPlace place = emitStepPlace(loop, visitIndex, steps.count,
                                  steps.masks == MaskedSteps::None);
  const WorkItem &item = loop.workItem.item;
  Value firstQuery = arith::MulIOp::create(b, place.tile, b.index(queryTile));
  ValueRange carried = forOp.getRegionIterArgs();
  SmallVector<Value> next(carried), grads;
  for (int64_t part = 0; part < queryParts; ++part) {
    Value grad = emitKeyPart({item, place.head, item.first, firstQuery, step,
                              loop.length, place.visitIndex, steps.masks, part},
                             loop.workspace, loop.results, loop.keys,
                             loop.values, loop.tiles, next);
    if (loop.results.key)
      grads.push_back(grad);
  }
  if (loop.results.key && loop.workspace.dqAccumulator)
    addToDq(loop, place, firstQuery, grads);
  scf::YieldOp::create(b, next);
  return forOp;
}

ValueRange GradKernelWriter::emitKeyLoops(KeyLoop &loop, ValueRange inits) {
  const QueryTiles &tiles = loop.tiles;
  auto countSteps = [&](Value tilesOfHead) -> Value {
    if (!loop.isOncePerHead)
      return tilesOfHead;
    return arith::MulIOp::create(b, tilesOfHead, b.index(op.getGroupSize()));
  };
  Value total = countSteps(tiles.count);
  loop.length = total;
  if (queryParts != 1)
    loop.length = arith::MulIOp::create(b, total, b.index(queryParts));
  // A mask_mod region, and each range of the mask, occupy registers. A loop of
  // full tiles does without them.
  constexpr size_t maxPartsOfLoop = 3;
  bool hasRegion = !op.getMaskMod().empty();
  bool isPeeled =
      !tiles.areAllMasked &&
      (hasRegion ||
       (tiles.iteration && tiles.iteration->getNumParts() > maxPartsOfLoop));
  if (!isPeeled) {
    bool isByRegion = tiles.areAllMasked && hasRegion;
    MaskedSteps masks = isByRegion ? MaskedSteps::All : MaskedSteps::Some;
    return emitKeySteps(loop, {Value(), total, tiles.count, masks}, inits)
        .getResults();
  }
  Value masked = countSteps(tiles.masked);
  Value full = arith::SubIOp::create(b, tiles.count, tiles.masked);
  scf::ForOp first = emitKeySteps(
      loop, {Value(), masked, tiles.masked, MaskedSteps::All}, inits);
  return emitKeySteps(loop, {masked, total, full, MaskedSteps::None},
                      first.getResults())
      .getResults();
}

void GradKernelWriter::writeDkdv(attn_tile::KernelOp kernel,
                                 const GradWorkspace &workspace,
                                 const Gradients &results,
                                 const ClassifiedTiles &listed,
                                 Value workItemList) {
  begin(kernel);
  int64_t qkHeadDim = padHeadDim(op.getKey());
  if (workspace.dqAccumulator)
    qkHeadDim =
        cast<MemRefType>(workspace.dqAccumulator.getType()).getShape().back();
  int64_t vHeadDim = padHeadDim(op.getValue());
  KeyLoop loop{workspace, results, listed};
  loop.isOrdered = results.key && workspace.semaphores;
  loop.isListedByHead = listed.lists && isMaskedByHead(op);
  // Lists that depend on the head hold the tiles of the whole GQA group.
  loop.isOncePerHead = op.getGroupSize() != 1 && !loop.isListedByHead;
  loop.workItem =
      beginKeyTiles(workspace, listed, workItemList, loop.isOrdered);
  const WorkItem &item = loop.workItem.item;
  // This comes before any load, so that the producer waits.
  if (workspace.dqRingSemaphores && results.key)
    loop.dqRing = waitForDqRing(item, workspace);

  Value zero = b.index(0), one = b.index(1);
  KeyValueHeads heads = op.emitKeyValueHeadsOfGroup(b, b.getLoc(), item.head);
  auto loadStationary = [&](Value source, Value head, int64_t headDim) {
    SmallVector<Value> corner = item.at(b, head, item.keyBase, item.first);
    corner.push_back(zero);
    return b.loadWithin({keyTile, headDim}, source, corner, within(item.first),
                        within(keyLength), zero, one);
  };
  loop.keys = loadStationary(get(op.getKey()), heads.key, qkHeadDim);
  if (results.key)
    loop.values = loadStationary(get(op.getValue()), heads.value, vHeadDim);
  loop.tiles = emitTilesOfKeys(loop.workItem, listed, loop.isOrdered);
  SmallVector<Value> inits;
  if (results.key)
    inits.push_back(b.splat({keyTile, getResultColumns(qkHeadDim)}, 0));
  if (results.value)
    inits.push_back(b.splat({keyTile, getResultColumns(vHeadDim)}, 0));
  ValueRange sums = emitKeyLoops(loop, inits);
  SmallVector<Value> corner = item.at(b, item.head, item.keyBase, item.first);
  corner.push_back(emitFirstColumn());
  if (results.key)
    emitStore(sums.front(), get(results.key), corner,
              op.getScaleOrDefault() / getGradFactor(), item.first, keyLength);
  if (results.value)
    storeValueGrads(sums.back(), results.value, item, corner);
  // The bulk additions have completed by now, so nothing waits for them.
  if (loop.dqRing.slot)
    attn_tile::SemaphoreAddOp::create(
        b, get(workspace.dqRingSemaphores),
        ValueRange{loop.dqRing.slot, b.index(Added)}, /*additions=*/true);
}

void GradKernelWriter::storeValueGrads(Value tile, Value result,
                                       const WorkItem &item,
                                       ArrayRef<Value> corner) {
  double factor = 1 / dropout.getKeepProbability();
  if (tensors.identity) {
    if (factor != 1) {
      auto type = cast<VectorType>(tile.getType());
      tile = arith::MulFOp::create(b, tile, b.splat(type.getShape(), factor));
    }
    tile = addIdentityGrads(tile, item, item.first);
    factor = 1;
  }
  emitStore(tile, get(result), corner, factor, item.first, keyLength);
}

Value GradKernelWriter::addIdentityGrads(Value tile, const WorkItem &item,
                                         Value firstKey) {
  Value shift = emitShift();
  if (shift)
    shift = arith::SubIOp::create(b, b.index(0), shift);
  bool isWhole = schedule.getHeadDimTile() == 0;
  Value column = isWhole ? Value() : emitFirstColumn();
  auto add = [&](Value sum, Value head) {
    return b.addScaledRows(sum, b.loadHeadScalar(get(tensors.identity), head),
                           {get(tensors.outputGrad), item.batch, head, firstKey,
                            keyLength, shift, shift ? queryLength : Value(),
                            item.queryBase, column});
  };
  int64_t group = op.getGroupSize();
  if (group == 1)
    return add(tile, item.head);
  Value firstHead = arith::MulIOp::create(b, item.head, b.index(group));
  auto loop = scf::ForOp::create(b, b.index(0), b.index(group), b.index(1),
                                 ValueRange{tile});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value head = arith::AddIOp::create(b, firstHead, loop.getInductionVar());
  scf::YieldOp::create(b, add(loop.getRegionIterArg(0), head));
  return loop.getResult(0);
}
