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
#include "mlir/Dialect/SCF/IR/SCF.h"
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
  // Small loads come first, so that nothing waits for them later.
  auto loadRows = [&](Value source) {
    return b.load(queryTile, source, corner);
  };
  Value lse = loadRows(get(op.getLse())), dlse;
  if (op.getDlse())
    dlse = loadRows(get(op.getDlse()));
  auto loadWide = [&](Value source) {
    Value tile = b.load({queryTile, channels}, source,
                        {corner[0], corner[1], corner[2], zero});
    // Rows of values that are added have their order.
    tile.getDefiningOp<attn_tile::LoadOp>().setAnyOrder(!op.getIdentity());
    return b.extend(tile);
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
  Value products = arith::MulFOp::create(b, weighted, loadWide(dout));
  Value delta = vector::MultiDimReductionOp::create(
      b, products, b.splat(queryTile, 0), ArrayRef<bool>{false, true},
      vector::CombiningKind::ADD);
  if (dlse)
    delta = arith::SubFOp::create(b, delta, dlse);
  if (dropout)
    delta = arith::MulFOp::create(
        b, delta, b.splat(queryTile, dropout.getKeepProbability()));

  // Queries that do not exist have nothing to attend.
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
  if (workspace.counters)
    return clearRing(
        item, workspace,
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, number, zero));
  Value sums = get(workspace.sums);
  int64_t sumChannels = cast<MemRefType>(sums.getType()).getShape().back();
  if (workspace.turns) {
    auto each = attn_tile::EachOp::create(b, b.index(queryTile));
    OpBuilder::InsertionGuard guard(b);
    Block *body =
        b.createBlock(&each.getBody(), {}, b.getIndexType(), b.getLoc());
    Value ofRow = arith::AddIOp::create(b, row, body->getArgument(0));
    memref::StoreOp::create(
        b, arith::ConstantIntOp::create(b, 0, 32).getResult(),
        get(workspace.turns), ValueRange{item.batch, item.head, ofRow});
    attn_tile::YieldOp::create(b, ValueRange());
  }
  place.push_back(zero);
  attn_tile::StorePackedOp::create(b, b.splat({queryTile, sumChannels}, 0),
                                   sums, place);
}

//===----------------------------------------------------------------------===//
// Rings of sums
//===----------------------------------------------------------------------===//

GradKernelWriter::RingPlace GradKernelWriter::emitRingPlace(Value sums,
                                                            Value number) {
  Value slots = b.size(sums, 0);
  return {arith::RemUIOp::create(b, number, slots),
          arith::DivUIOp::create(b, number, slots)};
}

std::pair<Value, Value>
GradKernelWriter::emitRingHeads(Value sums, Value batches, Value keyHeads) {
  // Half of the ring is for heads that groups work on, which end together.
  Value half = arith::DivUIOp::create(b, b.size(sums, 0), b.index(2));
  Value working = arith::AddIOp::create(b, half, b.index(1));
  Value heads = arith::MulIOp::create(b, batches, keyHeads);
  return {heads, arith::MinUIOp::create(b, working, heads)};
}

void GradKernelWriter::forEachSumPart(
    int64_t channels, ArrayRef<Value> place, int64_t rows,
    function_ref<void(int64_t, ArrayRef<Value>)> fn) {
  SmallVector<Value> placeOfPart(place);
  for (int64_t channel = 0; channel < channels; channel += rows) {
    // As many whole rows of the array as the parts before have elements.
    int64_t first = channel * queryTile / channels;
    if (channel)
      placeOfPart[place.size() - 2] =
          arith::AddIOp::create(b, place[place.size() - 2], b.index(first));
    fn(channel, placeOfPart);
  }
}

Value GradKernelWriter::emitRoundedShares() {
  return arith::MulIOp::create(b, b.countTiles(queryLength, queryTile),
                               b.index(op.getGroupSize() * getRoundedParts()));
}

void GradKernelWriter::clearRing(const WorkItem &item,
                                 const GradWorkspace &workspace,
                                 Value isFirst) {
  Value sums = get(workspace.sums), counters = get(workspace.counters);
  auto type = cast<MemRefType>(sums.getType());
  Value zero = b.index(0), group = b.index(op.getGroupSize());
  // The first heads have all places.
  Value keyHead = arith::DivUIOp::create(b, item.head, group);
  Value member = arith::RemUIOp::create(b, item.head, group);
  Value keyHeads =
      arith::DivUIOp::create(b, b.size(get(op.getOut()), 1), group);
  Value number = arith::AddIOp::create(
      b, arith::MulIOp::create(b, item.batch, keyHeads).getResult(), keyHead);
  Value isInRing = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, number,
                                         b.size(sums, 0));
  auto ifOp = scf::IfOp::create(b, isInRing, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  attn_tile::StorePackedOp::create(
      b, b.splat({queryTile, type.getShape().back()}, 0), sums,
      ValueRange{number, member, item.first, zero});
  Value isFirstMember =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, member, zero);
  Value clears = arith::AndIOp::create(b, isFirst, isFirstMember);
  auto each = attn_tile::EachOp::create(
      b, arith::SelectOp::create(b, clears, b.size(counters, 1), zero)
             .getResult());
  Block *body =
      b.createBlock(&each.getBody(), {}, b.getIndexType(), b.getLoc());
  memref::StoreOp::create(b, arith::ConstantIntOp::create(b, 0, 32).getResult(),
                          counters, ValueRange{number, body->getArgument(0)});
  attn_tile::YieldOp::create(b, ValueRange());
}

void GradKernelWriter::writeRounding(attn_tile::KernelOp kernel,
                                     const GradWorkspace &workspace,
                                     Value result) {
  // No more than the thread that copies takes: consumers need the others.
  int64_t registers = queryParts > 1 ? 40 : 24;
  begin(kernel);
  OpBuilder::InsertionGuard guard(b);
  auto beside = attn_tile::BesideOp::create(b, registers);
  b.createBlock(&beside.getBody());
  Value dest = get(result), sums = get(workspace.sums);
  Value counters = get(workspace.counters), key = get(op.getKey());
  queryLength = b.size(dest, 2);
  Value tiles = b.countTiles(queryLength, queryTile);
  Value tilesOfKeys = b.countTiles(b.size(key, 2), keyTile);
  Value batches = b.size(dest, 0), keyHeads = b.size(key, 1);
  auto [heads, late] = emitRingHeads(sums, batches, keyHeads);
  Value early = arith::SubIOp::create(b, heads, late);
  auto forall = scf::ForallOp::create(
      b, ArrayRef<OpFoldResult>{early, emitRoundedShares()}, ValueRange(),
      std::nullopt);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  RingPlace place = emitRingPlace(sums, ids[0]);
  Value next = arith::AddIOp::create(b, place.turn, b.index(1));
  attn_tile::AwaitCountOp::create(
      b, counters, ValueRange{place.slot, b.index(Added)},
      arith::MulIOp::create(b, next, tilesOfKeys).getResult());
  Value parts = b.index(getRoundedParts());
  Value part = arith::RemUIOp::create(b, ids[1], parts);
  Value tile = arith::DivUIOp::create(b, ids[1], parts);
  Value batch = arith::DivUIOp::create(b, ids[0], keyHeads);
  Value member = b.index(0), head = arith::RemUIOp::create(b, ids[0], keyHeads);
  if (int64_t group = op.getGroupSize(); group != 1) {
    member = arith::DivUIOp::create(b, tile, tiles);
    tile = arith::RemUIOp::create(b, tile, tiles);
    head = arith::AddIOp::create(
        b, arith::MulIOp::create(b, head, b.index(group)).getResult(), member);
  }
  Value row = arith::MulIOp::create(b, tile, b.index(queryTile));
  Value zero = b.index(0);
  int64_t channels = cast<MemRefType>(sums.getType()).getShape().back();
  bool transposed = isSumTransposed(keyTile);
  int64_t rows = getSumRows(channels, schedule);
  auto emitRound = [&](int64_t firstChannel, ArrayRef<Value> placeOfPart) {
    SmallVector<int64_t> shape = {queryTile, channels};
    if (transposed)
      shape = {rows, queryTile};
    attn_tile::RoundPackedOp::create(
        b, sums, placeOfPart, dest,
        ValueRange{batch, head, row, b.index(firstChannel)}, part,
        getRoundedParts(), APFloat(op.getScaleOrDefault() / getGradFactor()),
        b.f32Vector(shape), transposed);
  };
  SmallVector<Value> placeOfSums = {place.slot, member, row, zero};
  if (transposed)
    forEachSumPart(channels, placeOfSums, rows, emitRound);
  else
    emitRound(0, placeOfSums);
  attn_tile::CountOp::create(b, counters,
                             ValueRange{place.slot, b.index(Rounded)});
}

void GradKernelWriter::writeSums(attn_tile::KernelOp kernel,
                                 const GradWorkspace &workspace, Value result,
                                 ScheduleAttrInterface keys, Value plan) {
  begin(kernel);
  queryTile = keys.getQueryTile();
  Value sums = get(workspace.sums), dest = get(result);
  WorkItem item;
  SmallVector<Value> place;
  if (plan) {
    item = beginPlannedItems(b.size(dest, 1), get(plan), MaskDim::Query,
                             workspace);
  } else if (workspace.counters) {
    queryLength = b.size(dest, 2);
    Value group = b.index(op.getGroupSize());
    Value keyHeads = arith::DivUIOp::create(b, b.size(dest, 1), group);
    auto [heads, late] = emitRingHeads(sums, b.size(dest, 0), keyHeads);
    Value early = arith::SubIOp::create(b, heads, late);
    auto forall = scf::ForallOp::create(
        b,
        ArrayRef<OpFoldResult>{late, group,
                               b.countTiles(queryLength, queryTile)},
        ValueRange(), std::nullopt);
    attn_tile::ReturnOp::create(b);
    b.setInsertionPointToStart(forall.getBody());
    SmallVector<Value> ids = forall.getInductionVars();
    Value number = arith::AddIOp::create(b, early, ids[0]);
    Value first = arith::MulIOp::create(
        b, arith::RemUIOp::create(b, number, keyHeads).getResult(), group);
    item.sequence = item.batch = arith::DivUIOp::create(b, number, keyHeads);
    item.head = arith::AddIOp::create(b, first, ids[1]);
    item.first = arith::MulIOp::create(b, ids[2], b.index(queryTile));
    place = {emitRingPlace(sums, number).slot, ids[1], item.first};
  } else {
    SmallVector<Value> ids =
        beginItems(b.size(dest, 1), b.countTiles(b.size(dest, 2), queryTile));
    item.sequence = item.batch = ids[0];
    item.head = ids[1];
    item.first = arith::MulIOp::create(b, ids[2], b.index(queryTile));
  }
  SmallVector<Value> corner = item.at(b, item.head, item.queryBase, item.first);
  if (place.empty())
    place = item.at(b, item.head, item.workBase, item.first);
  for (SmallVector<Value> *indices : {&corner, &place})
    indices->push_back(b.index(0));
  int64_t channels = cast<MemRefType>(sums.getType()).getShape().back();
  double factor = op.getScaleOrDefault() / getGradFactor();
  if (!isSumTransposed(keys.getKeyTile())) {
    Value sum = attn_tile::LoadPackedOp::create(
        b, b.f32Vector({queryTile, channels}), sums, place);
    emitStore(sum, dest, corner, factor, item.first, queryLength);
    return;
  }
  int64_t rows = getSumRows(channels, keys);
  forEachSumPart(channels, place, rows,
                 [&](int64_t firstChannel, ArrayRef<Value> placeOfPart) {
                   Value sum = attn_tile::LoadPackedOp::create(
                       b, b.f32Vector({rows, queryTile}), sums, placeOfPart);
                   corner.back() = b.index(firstChannel);
                   emitStore(sum, dest, corner, factor, item.first, queryLength,
                             /*isTransposed=*/true);
                 });
}
