//===- GradRowsKernel.cpp - Rows of gradients -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels which pass over the queries once: what the others need of each
// query, and the sums of its gradient.
//
//===----------------------------------------------------------------------===//

#include "GradKernelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

static constexpr double infinity = std::numeric_limits<double>::infinity();

void GradKernelWriter::writeRows(attn_tile::KernelOp kernel,
                                 const GradWorkspace &workspace, Value plan) {
  begin(kernel);
  Value out = get(op.getOut()), dout = get(op.getDout());
  Value exponents = get(workspace.exponent), deltas = get(workspace.delta);
  WorkItem item;
  // Zero for the first tile of a sequence and head.
  Value number;
  if (plan) {
    item =
        beginPlannedItems(b.size(out, 1), get(plan), MaskDim::Query, workspace);
    number = item.first;
  } else {
    queryLength = b.size(out, 2);
    SmallVector<Value> ids =
        beginItems(b.size(out, 1), b.countTiles(b.size(deltas, 2), queryTile));
    item.sequence = item.batch = ids[0];
    item.head = ids[1];
    item.first = arith::MulIOp::create(b, ids[2], b.index(queryTile));
    number = ids[2];
  }
  Value row = item.first, zero = b.index(0);
  SmallVector<Value> corner = item.at(b, item.head, item.queryBase, row);
  SmallVector<Value> place = item.at(b, item.head, item.workBase, row);

  int64_t channels = padHeadDim(op.getOut());
  auto loadWide = [&](Value source) {
    return b.extend(b.load({queryTile, channels}, source,
                           {corner[0], corner[1], corner[2], zero}));
  };
  // The part of the output that does not depend on scores.
  Value weighted = loadWide(out), rest;
  if (op.getIdentity()) {
    if (!plan)
      keyLength = b.size(get(op.getValue()), 2);
    Value weight = b.loadHeadScalar(get(op.getIdentity()), item.head);
    Value keyHead = item.head;
    if (int64_t group = op.getGroupSize(); group != 1)
      keyHead = arith::DivUIOp::create(b, keyHead, b.index(group));
    Value shift = emitShift();
    weighted = b.addScaledRows(weighted, arith::NegFOp::create(b, weight),
                               {get(op.getValue()), item.batch, keyHead, row,
                                queryLength, shift, shift ? keyLength : Value(),
                                item.keyBase});
    rest = vector::BroadcastOp::create(
        b, b.f32Vector(queryTile),
        arith::SubFOp::create(b, b.scalar(1), weight).getResult());
  }
  auto loadRows = [&](Value source) {
    return b.load(queryTile, source, corner);
  };
  Value products = arith::MulFOp::create(b, weighted, loadWide(dout));
  Value delta = vector::MultiDimReductionOp::create(
      b, products, b.splat(queryTile, 0), ArrayRef<bool>{false, true},
      vector::CombiningKind::ADD);
  if (op.getDlse())
    delta = arith::SubFOp::create(b, delta, loadRows(get(op.getDlse())));
  if (dropout)
    delta = arith::MulFOp::create(
        b, delta, b.splat(queryTile, dropout.getKeepProbability()));

  // Queries that do not exist have nothing to attend.
  Value lse = loadRows(get(op.getLse()));
  Value left = arith::MaxSIOp::create(
      b, arith::SubIOp::create(b, queryLength, row).getResult(), zero);
  Value exists = vector::CreateMaskOp::create(
      b, VectorType::get(queryTile, b.getI1Type()), left);
  Value lowest = b.splat(queryTile, -infinity);
  Value attends =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, lse, lowest);
  attends = arith::AndIOp::create(b, attends, exists);
  if (rest) {
    // Weights get the factor `1 - u` with their exponents, so that what is
    // subtracted from their gradients must not have it.
    lse = arith::SubFOp::create(b, lse, math::LogOp::create(b, rest));
    delta = arith::DivFOp::create(b, delta, rest);
    attends = arith::AndIOp::create(
        b, attends,
        arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, rest,
                              b.splat(queryTile, 0)));
  }
  Value exponent = arith::MulFOp::create(b, lse, b.splat(queryTile, -log2e));
  auto storeRows = [&](Value value, Value otherwise, Value dest) {
    Value stored = arith::SelectOp::create(b, attends, value, otherwise);
    attn_tile::StoreOp::create(b, stored, dest, place);
  };
  storeRows(exponent, lowest, exponents);
  storeRows(delta, b.splat(queryTile, 0), deltas);
  if (workspace.streams)
    dropout.emitStoreStream(
        b, captured, item.sequence, item.head,
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, number, zero),
        get(workspace.streams));
  if (!workspace.sums)
    return;
  Value sums = get(workspace.sums);
  int64_t sumChannels = cast<MemRefType>(sums.getType()).getShape().back();
  place.push_back(zero);
  attn_tile::StorePackedOp::create(b, b.splat({queryTile, sumChannels}, 0),
                                   sums, place);
}

void GradKernelWriter::writeSums(attn_tile::KernelOp kernel,
                                 const GradWorkspace &workspace, Value result,
                                 ScheduleAttrInterface keys, Value plan) {
  begin(kernel);
  queryTile = keys.getQueryTile();
  Value sums = get(workspace.sums), dest = get(result);
  WorkItem item;
  if (plan) {
    item = beginPlannedItems(b.size(dest, 1), get(plan), MaskDim::Query,
                             workspace);
  } else {
    SmallVector<Value> ids =
        beginItems(b.size(dest, 1), b.countTiles(b.size(dest, 2), queryTile));
    item.sequence = item.batch = ids[0];
    item.head = ids[1];
    item.first = arith::MulIOp::create(b, ids[2], b.index(queryTile));
  }
  SmallVector<Value> corner = item.at(b, item.head, item.queryBase, item.first);
  SmallVector<Value> place = item.at(b, item.head, item.workBase, item.first);
  for (SmallVector<Value> *indices : {&corner, &place})
    indices->push_back(b.index(0));
  int64_t channels = cast<MemRefType>(sums.getType()).getShape().back();
  bool transposed = isSumTransposed(keys.getKeyTile());
  SmallVector<int64_t> shape = {queryTile, channels};
  if (transposed)
    std::swap(shape[0], shape[1]);
  Value sum =
      attn_tile::LoadPackedOp::create(b, b.f32Vector(shape), sums, place);
  emitStore(sum, dest, corner, op.getScaleOrDefault() / getGradFactor(),
            item.first, queryLength, transposed);
}
