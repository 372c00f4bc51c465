//===- DqKernel.cpp - Gradients of queries --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dq kernel, which has one query tile for each work item.
//
//===----------------------------------------------------------------------===//

#include "GradKernelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

GradKernelWriter::QueryWorkItem
GradKernelWriter::beginQueryTiles(const GradWorkspace &workspace,
                                  const ClassifiedTiles &listed,
                                  Value workItemList) {
  Value query = get(op.getQuery()), key = get(op.getKey());
  QueryWorkItem result;
  WorkItem &item = result.item;
  if (workItemList) {
    item = beginListedWorkItems(b.size(query, 1), get(workItemList),
                                MaskDim::Query, workspace);
    result.heads = op.emitKeyValueHeads(b, b.getLoc(), item.head);
    return result;
  }
  queryLength = b.size(query, 2);
  keyLength = b.size(key, 2);
  SmallVector<Value> ids =
      beginWorkItems(b.size(query, 1), b.countTiles(queryLength, queryTile));
  item.sequence = item.batch = ids[0];
  item.head = ids[1];
  result.heads = op.emitKeyValueHeads(b, b.getLoc(), item.head);
  Value tileOfQueries = ids[2];
  if (listed.lists) {
    result.listRow = {ids[0], isMaskedByHead(op) ? ids[1] : b.index(0), ids[2]};
    tileOfQueries = result.listRow[2] =
        loadIndex(get(listed.order), result.listRow);
  }
  item.first = arith::MulIOp::create(b, tileOfQueries, b.index(queryTile));
  return result;
}

Value GradKernelWriter::emitDqStep(const DqLoop &loop, Value step, Value sum) {
  const WorkItem &item = loop.workItem.item;
  attn_tile::KVTileIteratorOp tiles = loop.tiles;
  Value tile = attn_tile::KVTileAtOp::create(b, tiles.getTiles(), step);
  Value firstKey = arith::MulIOp::create(b, tile, b.index(keyTile));
  ScoreTile at{item.sequence,        item.head,           item.first, firstKey,
               /*transposed=*/false, {queryTile, keyTile}};
  // Rows of other sequences may not be finite, so the MMA must read zeros.
  const KeyValueHeads &heads = loop.workItem.heads;
  auto loadStaged = [&](Value source, Value head) {
    SmallVector<Value> indices = item.at(b, head, item.keyBase, firstKey);
    indices.push_back(b.index(0));
    return b.loadWithin({keyTile, padHeadDim(source)}, get(source), indices,
                        within(firstKey), within(keyLength), step,
                        tiles.getCount());
  };
  Value keys = loadStaged(op.getKey(), heads.key);
  Value none = b.splat(at.shape, 0);
  Value qk = b.contract(loop.queries, keys, none, ContractForm::TransposedRhs);
  Value values = loadStaged(op.getValue(), heads.value);
  Value factorGrad =
      b.contract(loop.outputGrads, matchElements(values, loop.outputGrads),
                 none, ContractForm::TransposedRhs);
  Value keepMask = emitKeepMask(at, loop.keepMask);
  Value raw = emitRawScores(qk);
  Value scores = emitMask(at, emitScores(at, raw));
  Value factors = law.emitFactors(getGradTile(at), scores, loop.exponent);
  Value kept = dropout.emitDrop(b, matchElements(factors, keys), keepMask,
                                /*areBelowTwo=*/true);
  Value grad = emitScoreGrad(at, raw, factors, kept, factorGrad, loop.delta,
                             /*addsCaptures=*/false);
  return b.contract(matchElements(grad, keys), extractResultColumns(keys), sum,
                    ContractForm::Plain);
}

void GradKernelWriter::writeDq(attn_tile::KernelOp kernel,
                               const GradWorkspace &workspace, Value result,
                               const ClassifiedTiles &listed,
                               Value workItemList) {
  begin(kernel);
  int64_t qkHeadDim = padHeadDim(op.getKey());
  int64_t vHeadDim = padHeadDim(op.getValue());
  DqLoop loop;
  loop.workItem = beginQueryTiles(workspace, listed, workItemList);
  const WorkItem &item = loop.workItem.item;
  Value zero = b.index(0), one = b.index(1);
  SmallVector<Value> corner = item.at(b, item.head, item.queryBase, item.first);
  corner.push_back(zero);
  loop.queries =
      b.load({queryTile, qkHeadDim}, get(op.getQuery()), corner, zero, one);
  loop.outputGrads =
      b.load({queryTile, vHeadDim}, get(tensors.outputGrad), corner, zero, one);
  SmallVector<Value> rows = item.at(b, item.head, item.workBase, item.first);
  loop.exponent = b.load(queryTile, get(workspace.exponent), rows, {}, {},
                         /*inBounds=*/true);
  loop.delta = b.load(queryTile, get(workspace.delta), rows, {}, {},
                      /*inBounds=*/true);
  loop.tiles = attn_tile::KVTileIteratorOp::create(
      b, item.sequence, item.head, item.first, queryTile, keyTile, queryLength,
      keyLength, op.getMaskAttr(), listed.lists ? get(listed.lists) : Value(),
      loop.workItem.listRow,
      /*needed=*/Value(), /*split=*/Value(), /*splits=*/Value());
  cloneMaskMod(loop.tiles.getMaskMod());
  loop.keepMask = dropout.emitSource(b, captured, item.sequence, item.head);
  Value init = b.splat({queryTile, getResultColumns(qkHeadDim)}, 0);
  auto steps = scf::ForOp::create(b, zero, loop.tiles.getCount(), one, init);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(steps.getBody());
    Value sum =
        emitDqStep(loop, steps.getInductionVar(), steps.getRegionIterArg(0));
    scf::YieldOp::create(b, sum);
  }
  corner.back() = emitFirstColumn();
  emitStore(steps.getResult(0), get(result), corner,
            op.getScaleOrDefault() / getGradFactor(), item.first, queryLength);
}
