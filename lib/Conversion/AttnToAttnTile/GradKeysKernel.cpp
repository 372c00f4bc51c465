//===- GradKeysKernel.cpp - Gradients of keys and values ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels with a tile of keys for each work item.
//
//===----------------------------------------------------------------------===//

#include "GradKernelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::attn;

GradKernelWriter::QueryTiles GradKernelWriter::emitQueryTiles(Value firstKey) {
  Value zero = b.index(0), one = b.index(1);
  Value endKey = arith::AddIOp::create(b, firstKey, b.index(keyTile));
  QueryTiles tiles;
  tiles.isPartial =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, endKey, keyLength);
  QueryBounds range{};
  if (MaskAttrInterface mask = op.getMaskAttr()) {
    Value end = arith::MinSIOp::create(b, endKey, keyLength);
    Value last = arith::SubIOp::create(b, end, one);
    range = mask.emitQueryRange(b, b.getLoc(),
                                {firstKey, last, queryLength, keyLength});
    // Bounds are only good for ranges that are not empty.
    for (Value *bound :
         {&range.begin, &range.fullBegin, &range.fullEnd, &range.end})
      if (*bound) {
        Value low = arith::MaxSIOp::create(b, *bound, zero);
        *bound = arith::MinSIOp::create(b, low, queryLength);
      }
  }
  auto floorTile = [&](Value query) -> Value {
    return arith::DivUIOp::create(b, query, b.index(queryTile));
  };
  Value endTile = b.countTiles(range.end ? range.end : queryLength, queryTile);
  tiles.first = range.begin ? floorTile(range.begin) : zero;
  tiles.count = endTile;
  if (range.begin)
    tiles.count = arith::MaxSIOp::create(
        b, arith::SubIOp::create(b, endTile, tiles.first).getResult(), zero);

  Value fullBegin = range.fullBegin ? range.fullBegin : range.begin;
  if (fullBegin)
    tiles.fullBegin = b.countTiles(fullBegin, queryTile);
  // Queries that do not exist have no weights, so a tile that the query length
  // cuts is full as well.
  Value fullEnd = range.fullEnd ? range.fullEnd : range.end;
  if (fullEnd) {
    Value isAll = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, fullEnd,
                                        queryLength);
    tiles.fullEnd = arith::SelectOp::create(
        b, isAll, b.countTiles(fullEnd, queryTile), floorTile(fullEnd));
  }
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

Value GradKernelWriter::emitTileAt(const QueryTiles &tiles, Value turn) {
  if (!tiles.list)
    return arith::AddIOp::create(b, tiles.first, turn);
  // The masked ones follow the two counts, the others end the row.
  Value isMasked =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, turn, tiles.masked);
  Value last = arith::SubIOp::create(b, b.size(tiles.list, 3), b.index(1));
  Value full = arith::SubIOp::create(b, turn, tiles.masked);
  Value column = arith::SelectOp::create(
      b, isMasked, arith::AddIOp::create(b, turn, b.index(2)).getResult(),
      arith::SubIOp::create(b, last, full).getResult());
  SmallVector<Value> indices(tiles.row);
  indices.push_back(column);
  return loadIndex(tiles.list, indices);
}

Value GradKernelWriter::emitIsCut(const QueryTiles &tiles,
                                  const KeyStep &step) {
  if (tiles.list)
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, step.turn,
                                 tiles.masked);
  Value cut = tiles.isPartial, tile = step.tileOfQueries;
  if (tiles.fullBegin)
    cut =
        arith::OrIOp::create(b, cut,
                             arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                                   tile, tiles.fullBegin));
  if (tiles.fullEnd)
    cut =
        arith::OrIOp::create(b, cut,
                             arith::CmpIOp::create(b, arith::CmpIPredicate::sge,
                                                   tile, tiles.fullEnd));
  return cut;
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

Value GradKernelWriter::emitKeyPart(const KeyStep &step,
                                    const GradWorkspace &workspace,
                                    const Gradients &results, Value keys,
                                    Value values, const QueryTiles &tiles,
                                    const KernelDropout::Source &source,
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
  ScoreTile at{step.batch,    step.head,           firstQuery,
               step.firstKey, /*transposed=*/true, {keyTile, rows}};
  auto loadStaged = [&](Value source, int64_t channels) {
    return b.load({rows, channels}, source,
                  {step.batch, step.head, firstQuery, zero}, position,
                  step.length);
  };
  auto loadRow = [&](Value source) {
    return b.load({1, rows}, get(source), {step.batch, step.head, firstQuery},
                  position, step.length, /*inBounds=*/true);
  };
  Value exponent = loadRow(workspace.exponent);

  Value queries = loadStaged(get(op.getQuery()),
                             cast<VectorType>(keys.getType()).getDimSize(1));
  Value none = b.splat(at.shape, 0);
  Value product = b.contract(keys, queries, none, ContractForm::TransposedRhs);
  Value douts = loadStaged(get(op.getDout()), padHeadDim(op.getValue()));
  Value weightGrad;
  if (results.key)
    weightGrad = b.contract(matchElements(values, douts), douts, none,
                            ContractForm::TransposedRhs);

  Value raw = emitRawScores(product);
  Value scores = emitScores(at, raw);
  if (op.getKeepRegion().empty() || tiles.list) {
    auto ifOp = scf::IfOp::create(b, scores.getType(), emitIsCut(tiles, step),
                                  /*withElseRegion=*/true);
    OpBuilder::InsertionGuard ifGuard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    scf::YieldOp::create(b, emitMask(at, scores));
    b.setInsertionPointToStart(ifOp.elseBlock());
    scf::YieldOp::create(b, scores);
    scores = ifOp.getResult(0);
  } else {
    scores = emitMask(at, scores);
  }
  Value decisions = emitDecisions(at, source);
  Value weights = emitWeights(at, scores, exponent);

  if (results.value) {
    Value kept = dropout.emitDrop(b, matchElements(weights, douts), decisions,
                                  /*areWeights=*/true);
    carried.back() =
        b.contract(kept, douts, carried.back(), ContractForm::Plain);
  }
  if (!results.key)
    return Value();
  Value delta = loadRow(workspace.delta);
  weightGrad = dropout.emitDrop(b, weightGrad, decisions,
                                /*areWeights=*/false);
  Value grad = emitScoreGrad(at, raw, weights, weightGrad, delta,
                             /*addsCaptures=*/true);
  grad = matchElements(grad, queries);
  // The products of a warpgroup's own tiles come first: they run while it waits
  // for what the others share.
  carried.front() =
      b.contract(grad, queries, carried.front(), ContractForm::Plain);
  return grad;
}

void GradKernelWriter::writeKeys(attn_tile::KernelOp kernel,
                                 const GradWorkspace &workspace,
                                 const Gradients &results,
                                 const ClassifiedTiles &listed) {
  begin(kernel);
  Value query = get(op.getQuery()), key = get(op.getKey());
  queryLength = b.size(query, 2);
  keyLength = b.size(key, 2);
  int64_t keyChannels = padHeadDim(op.getKey());
  if (workspace.sums)
    keyChannels = cast<MemRefType>(workspace.sums.getType()).getShape().back();
  int64_t valueChannels = padHeadDim(op.getValue());
  int64_t group = op.getGroupSize();
  Value tileCount = b.countTiles(keyLength, keyTile);
  SmallVector<Value> ids = beginItems(b.size(key, 1), tileCount);
  Value zero = b.index(0), one = b.index(1);
  // The first keys have the most queries under a causal mask, and the last
  // work items are expected to be the longest ones.
  Value lastTile = arith::SubIOp::create(b, tileCount, one);
  Value tileOfKeys = arith::SubIOp::create(b, lastTile, ids[2]);
  bool isListedByHead = listed.lists && isMaskedByHead(op);
  Value listHead = isListedByHead ? ids[1] : zero;
  if (listed.lists)
    tileOfKeys = loadIndex(get(listed.order), {ids[0], listHead, ids[2]});
  Value firstKey = arith::MulIOp::create(b, tileOfKeys, b.index(keyTile));

  Value keys = b.load({keyTile, keyChannels}, key,
                      {ids[0], ids[1], firstKey, zero}, zero, one);
  Value values;
  if (results.key)
    values = b.load({keyTile, valueChannels}, get(op.getValue()),
                    {ids[0], ids[1], firstKey, zero}, zero, one);
  QueryTiles tiles =
      listed.lists
          ? emitListedTiles(get(listed.lists), {ids[0], listHead, tileOfKeys})
          : emitQueryTiles(firstKey);
  Value total = tiles.count;
  // Lists that depend on the head hold the tiles of the group.
  if (group != 1 && !isListedByHead)
    total = arith::MulIOp::create(b, tiles.count, b.index(group));
  Value length = total;
  if (queryParts != 1)
    length = arith::MulIOp::create(b, total, b.index(queryParts));

  KernelDropout::Source source;
  if (group == 1)
    source = dropout.emitSource(b, captured, ids[0], ids[1]);
  SmallVector<Value> inits;
  if (results.key)
    inits.push_back(b.splat({keyTile, keyChannels}, 0));
  if (results.value)
    inits.push_back(b.splat({keyTile, valueChannels}, 0));
  auto loop = scf::ForOp::create(b, zero, total, one, inits);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value step = loop.getInductionVar(), head = ids[1], turn = step;
    Value tileOfQueries, member;
    if (isListedByHead && group != 1) {
      Value entry = emitTileAt(tiles, turn);
      Value ofHead = b.countTiles(queryLength, queryTile);
      member = arith::DivUIOp::create(b, entry, ofHead);
      tileOfQueries = arith::RemUIOp::create(b, entry, ofHead);
    } else if (group != 1) {
      member = arith::DivUIOp::create(b, step, tiles.count);
      turn = arith::SubIOp::create(
          b, step, arith::MulIOp::create(b, member, tiles.count).getResult());
    }
    if (!tileOfQueries)
      tileOfQueries = emitTileAt(tiles, turn);
    if (member) {
      head = arith::AddIOp::create(
          b, arith::MulIOp::create(b, head, b.index(group)).getResult(),
          member);
      source = dropout.emitSource(b, captured, ids[0], head);
    }
    Value firstQuery =
        arith::MulIOp::create(b, tileOfQueries, b.index(queryTile));
    ValueRange carried = loop.getRegionIterArgs();
    SmallVector<Value> next(carried), grads;
    for (int64_t part = 0; part < queryParts; ++part) {
      Value grad =
          emitKeyPart({ids[0], head, firstKey, firstQuery, step, length, turn,
                       tileOfQueries, part},
                      workspace, results, keys, values, tiles, source, next);
      if (results.key)
        grads.push_back(grad);
    }
    if (results.key && workspace.sums) {
      Value grad = joinColumns(grads);
      Value sum =
          isSumTransposed(keyTile)
              ? b.contract(keys, grad, b.splat({keyChannels, queryTile}, 0),
                           ContractForm::TransposedLhs)
              : b.contract(grad, keys, b.splat({queryTile, keyChannels}, 0),
                           ContractForm::TransposedLhs);
      attn_tile::AddPackedOp::create(
          b, sum, get(workspace.sums),
          ValueRange{ids[0], head, firstQuery, zero});
    }
    scf::YieldOp::create(b, next);
  }
  SmallVector<Value> indices = {ids[0], ids[1], firstKey, zero};
  if (results.key)
    emitStore(loop.getResults().front(), get(results.key), indices,
              op.getScaleOrDefault() / getGradFactor());
  if (!results.value)
    return;
  Value valueGrads = loop.getResults().back();
  double factor = 1 / dropout.getKeepProbability();
  if (op.getIdentity()) {
    if (factor != 1)
      valueGrads = arith::MulFOp::create(
          b, valueGrads, b.splat({keyTile, valueChannels}, factor));
    valueGrads = addIdentityGrads(valueGrads, ids[0], ids[1], firstKey);
    factor = 1;
  }
  emitStore(valueGrads, get(results.value), indices, factor);
}

Value GradKernelWriter::addIdentityGrads(Value tile, Value batch, Value keyHead,
                                         Value firstKey) {
  Value shift = emitShift();
  if (shift)
    shift = arith::SubIOp::create(b, b.index(0), shift);
  auto add = [&](Value sum, Value head) {
    return b.addScaledRows(sum, b.loadHeadScalar(get(op.getIdentity()), head),
                           {get(op.getDout()), batch, head, firstKey, keyLength,
                            shift, shift ? queryLength : Value(),
                            /*firstRow=*/Value()});
  };
  int64_t group = op.getGroupSize();
  if (group == 1)
    return add(tile, keyHead);
  Value firstHead = arith::MulIOp::create(b, keyHead, b.index(group));
  auto loop = scf::ForOp::create(b, b.index(0), b.index(group), b.index(1),
                                 ValueRange{tile});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value head = arith::AddIOp::create(b, firstHead, loop.getInductionVar());
  scf::YieldOp::create(b, add(loop.getRegionIterArg(0), head));
  return loop.getResult(0);
}
