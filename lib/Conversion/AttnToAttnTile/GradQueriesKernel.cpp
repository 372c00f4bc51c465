//===- GradQueriesKernel.cpp - Gradients of queries -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel with a tile of queries for each work item.
//
//===----------------------------------------------------------------------===//

#include "GradKernelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::attn;

void GradKernelWriter::writeQueries(attn_tile::KernelOp kernel,
                                    const GradWorkspace &workspace,
                                    Value result, const ClassifiedTiles &listed,
                                    Value plan) {
  begin(kernel);
  Value query = get(op.getQuery()), key = get(op.getKey());
  Value value = get(op.getValue());
  int64_t keyChannels = padHeadDim(op.getKey());
  int64_t valueChannels = padHeadDim(op.getValue());
  WorkItem item;
  Value keyHead;
  auto emitKeyHead = [&]() {
    keyHead = item.head;
    if (int64_t group = op.getGroupSize(); group != 1)
      keyHead = arith::DivUIOp::create(b, keyHead, b.index(group));
  };
  SmallVector<Value> row;
  if (plan) {
    item = beginPlannedItems(b.size(query, 1), get(plan), MaskDim::Query,
                             workspace);
    emitKeyHead();
  } else {
    queryLength = b.size(query, 2);
    keyLength = b.size(key, 2);
    SmallVector<Value> ids =
        beginItems(b.size(query, 1), b.countTiles(queryLength, queryTile));
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
  Value queries = b.load({queryTile, keyChannels}, query, corner, zero, one);
  Value douts =
      b.load({queryTile, valueChannels}, get(op.getDout()), corner, zero, one);
  SmallVector<Value> rows = item.at(b, item.head, item.workBase, firstQuery);
  Value exponent = b.load(queryTile, get(workspace.exponent), rows, {}, {},
                          /*inBounds=*/true);
  Value delta = b.load(queryTile, get(workspace.delta), rows, {}, {},
                       /*inBounds=*/true);
  auto tiles = attn_tile::KeyTilesOp::create(
      b, item.sequence, item.head, firstQuery, queryTile, keyTile, queryLength,
      keyLength, op.getMaskAttr(), listed.lists ? get(listed.lists) : Value(),
      row,
      /*needed=*/Value(), /*part=*/Value(), /*parts=*/Value());
  cloneKeepRegion(tiles.getKeep());
  KernelDropout::Source source =
      dropout.emitSource(b, captured, item.sequence, item.head);
  Value init = b.splat({queryTile, keyChannels}, 0);
  auto loop = scf::ForOp::create(b, zero, tiles.getCount(), one, init);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value step = loop.getInductionVar();
    Value tile = attn_tile::TileAtOp::create(b, tiles.getTiles(), step);
    Value firstKey = arith::MulIOp::create(b, tile, b.index(keyTile));
    ScoreTile at{item.sequence,        item.head,
                 firstQuery,           firstKey,
                 /*transposed=*/false, {queryTile, keyTile}};
    // What is not of the sequence must not reach sums, if it is not finite.
    auto loadStaged = [&](Value source, int64_t channels) {
      SmallVector<Value> indices = item.at(b, keyHead, item.keyBase, firstKey);
      indices.push_back(zero);
      return b.loadWithin({keyTile, channels}, source, indices,
                          within(firstKey), within(keyLength), step,
                          tiles.getCount());
    };
    Value keys = loadStaged(key, keyChannels);
    Value none = b.splat(at.shape, 0);
    Value product =
        b.contract(queries, keys, none, ContractForm::TransposedRhs);
    Value values = loadStaged(value, valueChannels);
    Value weightGrad = b.contract(douts, matchElements(values, douts), none,
                                  ContractForm::TransposedRhs);
    Value decisions = emitDecisions(at, source);
    Value raw = emitRawScores(product);
    Value scores = emitMask(at, emitScores(at, raw));
    Value weights = emitWeights(at, scores, exponent);
    Value kept = dropout.emitDrop(b, matchElements(weights, keys), decisions,
                                  /*areWeights=*/true);
    Value grad = emitScoreGrad(at, raw, weights, kept, weightGrad, delta,
                               /*addsCaptures=*/false);
    Value sum = b.contract(matchElements(grad, keys), keys,
                           loop.getRegionIterArg(0), ContractForm::Plain);
    scf::YieldOp::create(b, sum);
  }
  emitStore(loop.getResult(0), get(result), corner,
            op.getScaleOrDefault() / getGradFactor(), firstQuery, queryLength);
}
