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
                                 const GradWorkspace &workspace) {
  begin(kernel);
  Value out = get(op.getOut()), dout = get(op.getDout());
  Value exponents = get(workspace.exponent), deltas = get(workspace.delta);
  queryLength = b.size(out, 2);
  SmallVector<Value> ids =
      beginItems(b.size(out, 1), b.countTiles(b.size(deltas, 2), queryTile));
  Value row = arith::MulIOp::create(b, ids[2], b.index(queryTile));
  Value zero = b.index(0);

  int64_t channels = padHeadDim(op.getOut());
  auto loadWide = [&](Value source) {
    return b.extend(
        b.load({queryTile, channels}, source, {ids[0], ids[1], row, zero}));
  };
  // The part of the output that does not depend on scores.
  Value weighted = loadWide(out), rest;
  if (op.getIdentity()) {
    keyLength = b.size(get(op.getValue()), 2);
    Value weight = b.loadHeadScalar(get(op.getIdentity()), ids[1]);
    Value keyHead = ids[1];
    if (int64_t group = op.getGroupSize(); group != 1)
      keyHead = arith::DivUIOp::create(b, keyHead, b.index(group));
    Value shift = emitShift();
    weighted = b.addScaledRows(weighted, arith::NegFOp::create(b, weight),
                               {get(op.getValue()), ids[0], keyHead, row,
                                queryLength, shift, shift ? keyLength : Value(),
                                /*firstRow=*/Value()});
    rest = vector::BroadcastOp::create(
        b, b.f32Vector(queryTile),
        arith::SubFOp::create(b, b.scalar(1), weight).getResult());
  }
  auto loadRows = [&](Value source) {
    return b.load(queryTile, source, {ids[0], ids[1], row});
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
    attn_tile::StoreOp::create(b, stored, dest,
                               ValueRange{ids[0], ids[1], row});
  };
  storeRows(exponent, lowest, exponents);
  storeRows(delta, b.splat(queryTile, 0), deltas);
  if (workspace.streams)
    dropout.emitStoreStream(
        b, captured, ids[0], ids[1],
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, ids[2], zero),
        get(workspace.streams));
  if (!workspace.sums)
    return;
  Value sums = get(workspace.sums);
  int64_t sumChannels = cast<MemRefType>(sums.getType()).getShape().back();
  attn_tile::StorePackedOp::create(b, b.splat({queryTile, sumChannels}, 0),
                                   sums, ValueRange{ids[0], ids[1], row, zero});
}

void GradKernelWriter::writeSums(attn_tile::KernelOp kernel,
                                 const GradWorkspace &workspace, Value result,
                                 ScheduleAttrInterface keys) {
  begin(kernel);
  queryTile = keys.getQueryTile();
  Value sums = get(workspace.sums), dest = get(result);
  SmallVector<Value> ids =
      beginItems(b.size(dest, 1), b.countTiles(b.size(dest, 2), queryTile));
  Value row = arith::MulIOp::create(b, ids[2], b.index(queryTile));
  SmallVector<Value> corner = {ids[0], ids[1], row, b.index(0)};
  int64_t channels = cast<MemRefType>(sums.getType()).getShape().back();
  bool transposed = isSumTransposed(keys.getKeyTile());
  SmallVector<int64_t> shape = {queryTile, channels};
  if (transposed)
    std::swap(shape[0], shape[1]);
  Value sum =
      attn_tile::LoadPackedOp::create(b, b.f32Vector(shape), sums, corner);
  emitStore(sum, dest, corner, op.getScaleOrDefault() / getGradFactor(),
            transposed);
}
