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
                                    Value result,
                                    const ClassifiedTiles &listed) {
  begin(kernel);
  Value query = get(op.getQuery()), key = get(op.getKey());
  Value value = get(op.getValue());
  queryLength = b.size(query, 2);
  keyLength = b.size(key, 2);
  int64_t keyChannels = padHeadDim(op.getKey());
  int64_t valueChannels = padHeadDim(op.getValue());
  SmallVector<Value> ids =
      beginItems(b.size(query, 1), b.countTiles(queryLength, queryTile));
  Value zero = b.index(0), one = b.index(1);
  Value keyHead = ids[1];
  if (int64_t group = op.getGroupSize(); group != 1)
    keyHead = arith::DivUIOp::create(b, keyHead, b.index(group));
  Value tileOfQueries = ids[2];
  SmallVector<Value> row;
  if (listed.lists) {
    row = {ids[0], isMaskedByHead(op) ? ids[1] : zero, ids[2]};
    tileOfQueries = row[2] = loadIndex(get(listed.order), row);
  }
  Value firstQuery =
      arith::MulIOp::create(b, tileOfQueries, b.index(queryTile));

  SmallVector<Value> corner = {ids[0], ids[1], firstQuery, zero};
  Value queries = b.load({queryTile, keyChannels}, query, corner, zero, one);
  Value douts =
      b.load({queryTile, valueChannels}, get(op.getDout()), corner, zero, one);
  ArrayRef<Value> rows = ArrayRef(corner).drop_back();
  Value exponent = b.load(queryTile, get(workspace.exponent), rows, {}, {},
                          /*inBounds=*/true);
  Value delta = b.load(queryTile, get(workspace.delta), rows, {}, {},
                       /*inBounds=*/true);
  auto tiles = attn_tile::KeyTilesOp::create(
      b, ids[0], ids[1], firstQuery, queryTile, keyTile, queryLength, keyLength,
      op.getMaskAttr(), listed.lists ? get(listed.lists) : Value(), row,
      /*needed=*/Value(), /*part=*/Value(), /*parts=*/Value());
  cloneKeepRegion(tiles.getKeep());
  KernelDropout::Source source =
      dropout.emitSource(b, captured, ids[0], ids[1]);
  Value init = b.splat({queryTile, keyChannels}, 0);
  auto loop = scf::ForOp::create(b, zero, tiles.getCount(), one, init);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value step = loop.getInductionVar();
    Value tile = attn_tile::TileAtOp::create(b, tiles.getTiles(), step);
    Value firstKey = arith::MulIOp::create(b, tile, b.index(keyTile));
    ScoreTile at{ids[0],
                 ids[1],
                 firstQuery,
                 firstKey,
                 /*transposed=*/false,
                 {queryTile, keyTile}};
    auto loadStaged = [&](Value source, int64_t channels) {
      return b.load({keyTile, channels}, source,
                    {ids[0], keyHead, firstKey, zero}, step, tiles.getCount());
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
            op.getScaleOrDefault() / getGradFactor());
}
