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

void GradKernelWriter::writeDq(attn_tile::KernelOp kernel,
                               const GradWorkspace &workspace, Value result,
                               const ClassifiedTiles &listed,
                               Value workItemList) {
  begin(kernel);
  Value query = get(op.getQuery()), key = get(op.getKey());
  Value value = get(op.getValue());
  int64_t qkHeadDim = padHeadDim(op.getKey());
  int64_t vHeadDim = padHeadDim(op.getValue());
  WorkItem item;
  Value keyHead;
  auto emitKeyHead = [&]() {
    keyHead = item.head;
    if (int64_t group = op.getGroupSize(); group != 1)
      keyHead = arith::DivUIOp::create(b, keyHead, b.index(group));
  };
  SmallVector<Value> row;
  if (workItemList) {
    item = beginListedWorkItems(b.size(query, 1), get(workItemList),
                                MaskDim::Query, workspace);
    emitKeyHead();
  } else {
    queryLength = b.size(query, 2);
    keyLength = b.size(key, 2);
    SmallVector<Value> ids =
        beginWorkItems(b.size(query, 1), b.countTiles(queryLength, queryTile));
    item.sequence = item.batch = ids[0];
    item.head = ids[1];
    emitKeyHead();
    Value tileOfQueries = ids[2];
    if (listed.lists) {
      row = {ids[0], isMaskedByHead(op) ? ids[1] : b.index(0), ids[2]};
      tileOfQueries = row[2] = loadIndex(get(listed.order), row);
    }
    item.first = arith::MulIOp::create(b, tileOfQueries, b.index(queryTile));
  }
  Value zero = b.index(0), one = b.index(1);
  Value firstQuery = item.first;

  SmallVector<Value> corner = item.at(b, item.head, item.queryBase, firstQuery);
  corner.push_back(zero);
  Value queries = b.load({queryTile, qkHeadDim}, query, corner, zero, one);
  Value douts =
      b.load({queryTile, vHeadDim}, get(tensors.outputGrad), corner, zero, one);
  SmallVector<Value> rows = item.at(b, item.head, item.workBase, firstQuery);
  Value exponent = b.load(queryTile, get(workspace.exponent), rows, {}, {},
                          /*inBounds=*/true);
  Value delta = b.load(queryTile, get(workspace.delta), rows, {}, {},
                       /*inBounds=*/true);
  auto tiles = attn_tile::KVTileIteratorOp::create(
      b, item.sequence, item.head, firstQuery, queryTile, keyTile, queryLength,
      keyLength, op.getMaskAttr(), listed.lists ? get(listed.lists) : Value(),
      row,
      /*needed=*/Value(), /*split=*/Value(), /*splits=*/Value());
  cloneMaskMod(tiles.getMaskMod());
  KernelDropout::Source source =
      dropout.emitSource(b, captured, item.sequence, item.head);
  Value init = b.splat({queryTile, qkHeadDim}, 0);
  auto loop = scf::ForOp::create(b, zero, tiles.getCount(), one, init);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value step = loop.getInductionVar();
    Value tile = attn_tile::KVTileAtOp::create(b, tiles.getTiles(), step);
    Value firstKey = arith::MulIOp::create(b, tile, b.index(keyTile));
    ScoreTile at{item.sequence,        item.head,
                 firstQuery,           firstKey,
                 /*transposed=*/false, {queryTile, keyTile}};
    // Rows of other sequences may not be finite, so the MMA must read zeros.
    auto loadStaged = [&](Value source, int64_t headDim) {
      SmallVector<Value> indices = item.at(b, keyHead, item.keyBase, firstKey);
      indices.push_back(zero);
      return b.loadWithin({keyTile, headDim}, source, indices, within(firstKey),
                          within(keyLength), step, tiles.getCount());
    };
    Value keys = loadStaged(key, qkHeadDim);
    Value none = b.splat(at.shape, 0);
    Value qk = b.contract(queries, keys, none, ContractForm::TransposedRhs);
    Value values = loadStaged(value, vHeadDim);
    Value factorGrad = b.contract(douts, matchElements(values, douts), none,
                                  ContractForm::TransposedRhs);
    Value keepMask = emitKeepMask(at, source);
    Value raw = emitRawScores(qk);
    Value scores = emitMask(at, emitScores(at, raw));
    Value factors = law.emitFactors(getGradTile(at), scores, exponent);
    Value kept = dropout.emitDrop(b, matchElements(factors, keys), keepMask,
                                  /*areBelowTwo=*/true);
    Value grad = emitScoreGrad(at, raw, factors, kept, factorGrad, delta,
                               /*addsCaptures=*/false);
    Value sum = b.contract(matchElements(grad, keys), keys,
                           loop.getRegionIterArg(0), ContractForm::Plain);
    scf::YieldOp::create(b, sum);
  }
  emitStore(loop.getResult(0), get(result), corner,
            op.getScaleOrDefault() / getGradFactor(), firstQuery, queryLength);
}
