//===- DqPreprocessKernel.cpp - Preprocessing and conversion of dQ --------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels that read each query once: the preprocess kernel and the
// conversion of the dQ accumulator. Also the kernel that adds up the gradients
// of a head of keys or of values.
//
//===----------------------------------------------------------------------===//

#include "GradKernelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::attn;

GradKernelWriter::WorkItem
GradKernelWriter::beginRows(const GradWorkspace &workspace, Value workItemList,
                            Value &number) {
  Value out = get(tensors.output);
  if (workItemList) {
    WorkItem item = beginListedWorkItems(b.size(out, 1), get(workItemList),
                                         MaskDim::Query, workspace);
    number = item.first;
    return item;
  }
  queryLength = b.size(out, 2);
  SmallVector<Value> ids = beginWorkItems(
      b.size(out, 1), b.countTiles(b.size(get(workspace.delta), 2), queryTile));
  WorkItem item;
  item.sequence = item.batch = ids[0];
  item.head = ids[1];
  item.first = arith::MulIOp::create(b, ids[2], b.index(queryTile));
  number = ids[2];
  return item;
}

Value GradKernelWriter::removeIdentity(Value &output, const WorkItem &item) {
  // Lists of work items set the length.
  if (!keyLength)
    keyLength = b.size(get(op.getValue()), 2);
  Value weight = b.loadHeadScalar(get(tensors.identity), item.head);
  Value head = op.emitKeyValueHeads(b, b.getLoc(), item.head).value;
  Value shift = emitShift();
  output = b.addScaledRows(output, arith::NegFOp::create(b, weight),
                           {get(op.getValue()), item.batch, head, item.first,
                            queryLength, shift, shift ? keyLength : Value(),
                            item.keyBase});
  return vector::BroadcastOp::create(
      b, b.f32Vector(queryTile),
      arith::SubFOp::create(b, b.scalar(1), weight).getResult());
}

class GradKernelWriter::PreparedRows : public attn_tile::GradRows {
public:
  PreparedRows(GradKernelWriter &writer, const GradWorkspace &workspace,
               Value first, ArrayRef<Value> place)
      : GradRows(writer.b), writer(writer), workspace(workspace), first(first),
        place(place) {
    queryTile = writer.queryTile;
    additions = workspace.additions;
    scoreFactor = writer.getScoreFactor();
  }

  Value emitExists() override {
    Value left = arith::MaxSIOp::create(
        b, arith::SubIOp::create(b, writer.queryLength, first).getResult(),
        b.index(0));
    return vector::CreateMaskOp::create(
        b, VectorType::get(queryTile, b.getI1Type()), left);
  }
  void storeRowOfFactors(Value rows) override {
    store(rows, workspace.exponent);
  }
  void storeRowOfGrads(Value rows) override { store(rows, workspace.delta); }

private:
  void store(Value rows, Value dest) {
    attn_tile::StoreOp::create(b, rows, writer.get(dest), place);
  }

  GradKernelWriter &writer;
  const GradWorkspace &workspace;
  Value first;
  ArrayRef<Value> place;
};

void GradKernelWriter::clearDqTile(const WorkItem &item,
                                   const GradWorkspace &workspace,
                                   ArrayRef<Value> corner) {
  Value dqAccumulator = get(workspace.dqAccumulator);
  int64_t headDim = cast<MemRefType>(dqAccumulator.getType()).getShape().back();
  if (workspace.semaphores) {
    auto each = attn_tile::ThreadForOp::create(b, b.index(queryTile));
    OpBuilder::InsertionGuard guard(b);
    Block *body =
        b.createBlock(&each.getBody(), {}, b.getIndexType(), b.getLoc());
    Value ofRow = arith::AddIOp::create(b, item.first, body->getArgument(0));
    memref::StoreOp::create(
        b, arith::ConstantIntOp::create(b, 0, 32).getResult(),
        get(workspace.semaphores), ValueRange{item.batch, item.head, ofRow});
    attn_tile::YieldOp::create(b, ValueRange());
  }
  SmallVector<Value> place(corner);
  place.push_back(b.index(0));
  attn_tile::StoreFragmentsOp::create(b, b.splat({queryTile, headDim}, 0),
                                      dqAccumulator, place);
}

void GradKernelWriter::writePreprocess(attn_tile::KernelOp kernel,
                                       const GradWorkspace &workspace,
                                       Value workItemList) {
  begin(kernel);
  // Zero for the first tile of a sequence and head.
  Value number;
  WorkItem item = beginRows(workspace, workItemList, number);
  Value zero = b.index(0);
  SmallVector<Value> corner = item.at(b, item.head, item.queryBase, item.first);
  SmallVector<Value> place = item.at(b, item.head, item.workBase, item.first);

  int64_t headDim = padHeadDim(tensors.output);
  // The small loads come first, so that nothing waits for them later.
  auto loadRows = [&](Value source) {
    return b.load(queryTile, source, corner);
  };
  PreparedRows rows(*this, workspace, item.first, place);
  if (tensors.rowResult)
    rows.rowResult = loadRows(get(tensors.rowResult));
  if (tensors.rowResultGrad)
    rows.rowResultGrad = loadRows(get(tensors.rowResultGrad));
  auto loadWide = [&](Value source) {
    Value tile = b.load({queryTile, headDim}, source,
                        {corner[0], corner[1], corner[2], zero});
    // The rows of values that the identity adds are in order.
    tile.getDefiningOp<attn_tile::LoadOp>().setAnyOrder(!tensors.identity);
    return b.extend(tile);
  };
  // The output without the contribution of the identity.
  rows.output = loadWide(get(tensors.output));
  if (tensors.identity)
    rows.share = removeIdentity(rows.output, item);
  rows.outputGrad = loadWide(get(tensors.outputGrad));
  law.emitRowValues(rows);
  auto isFirst = [&]() -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, number, zero);
  };
  if (workspace.streams)
    dropout.emitStoreStream(b, captured, item.sequence, item.head, isFirst(),
                            get(workspace.streams));
  if (workspace.dqRingSemaphores)
    clearDqRing(item, workspace, isFirst());
  else if (workspace.dqAccumulator)
    clearDqTile(item, workspace, place);
}

//===----------------------------------------------------------------------===//
// dQ ring buffer
//===----------------------------------------------------------------------===//

GradKernelWriter::DqRingSlot
GradKernelWriter::emitDqRingSlot(Value dqAccumulator, Value number) {
  Value slots = b.size(dqAccumulator, 0);
  return {arith::RemUIOp::create(b, number, slots),
          arith::DivUIOp::create(b, number, slots)};
}

std::pair<Value, Value> GradKernelWriter::emitDqRingHeads(Value dqAccumulator,
                                                          Value batches,
                                                          Value groups) {
  // CTAs may be working on the heads of half of the slots when the kernel ends.
  Value half = arith::DivUIOp::create(b, b.size(dqAccumulator, 0), b.index(2));
  Value working = arith::AddIOp::create(b, half, b.index(1));
  Value heads = arith::MulIOp::create(b, batches, groups);
  return {heads, arith::MinUIOp::create(b, working, heads)};
}

void GradKernelWriter::forEachDqPart(
    int64_t headDim, ArrayRef<Value> place, int64_t rows,
    function_ref<void(int64_t, ArrayRef<Value>)> fn) {
  SmallVector<Value> placeOfPart(place);
  for (int64_t headDimIndex = 0; headDimIndex < headDim; headDimIndex += rows) {
    // The previous parts fill this many whole rows of the array.
    int64_t first = headDimIndex * queryTile / headDim;
    if (headDimIndex)
      placeOfPart[place.size() - 2] =
          arith::AddIOp::create(b, place[place.size() - 2], b.index(first));
    fn(headDimIndex, placeOfPart);
  }
}

Value GradKernelWriter::emitConvertedParts() {
  return arith::MulIOp::create(
      b, b.countTiles(queryLength, queryTile),
      b.index(op.getGroupSize() * getConvertedParts()));
}

void GradKernelWriter::clearDqRing(const WorkItem &item,
                                   const GradWorkspace &workspace,
                                   Value isFirst) {
  Value dqAccumulator = get(workspace.dqAccumulator),
        dqRingSemaphores = get(workspace.dqRingSemaphores);
  auto type = cast<MemRefType>(dqAccumulator.getType());
  Value zero = b.index(0), group = b.index(op.getGroupSize());
  // Only the first groups need cleared slots; later ones reuse these.
  Value groupOfHead = arith::DivUIOp::create(b, item.head, group);
  Value member = arith::RemUIOp::create(b, item.head, group);
  Value groups =
      arith::DivUIOp::create(b, b.size(get(tensors.output), 1), group);
  Value number = arith::AddIOp::create(
      b, arith::MulIOp::create(b, item.batch, groups).getResult(), groupOfHead);
  Value isInDqRing = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, number,
                                           b.size(dqAccumulator, 0));
  auto ifOp = scf::IfOp::create(b, isInDqRing, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  attn_tile::StoreFragmentsOp::create(
      b, b.splat({queryTile, type.getShape().back()}, 0), dqAccumulator,
      ValueRange{number, member, item.first, zero});
  Value isFirstMember =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, member, zero);
  Value clears = arith::AndIOp::create(b, isFirst, isFirstMember);
  auto each = attn_tile::ThreadForOp::create(
      b, arith::SelectOp::create(b, clears, b.size(dqRingSemaphores, 1), zero)
             .getResult());
  Block *body =
      b.createBlock(&each.getBody(), {}, b.getIndexType(), b.getLoc());
  memref::StoreOp::create(b, arith::ConstantIntOp::create(b, 0, 32).getResult(),
                          dqRingSemaphores,
                          ValueRange{number, body->getArgument(0)});
  attn_tile::YieldOp::create(b, ValueRange());
}

void GradKernelWriter::writeDqConversion(attn_tile::KernelOp kernel,
                                         const GradWorkspace &workspace,
                                         Value result) {
  // As many registers as the producer thread has; the consumers need the rest.
  int64_t registers = queryParts > 1 ? 40 : 24;
  begin(kernel);
  OpBuilder::InsertionGuard guard(b);
  auto auxiliary = attn_tile::AuxiliaryWarpsOp::create(b, registers);
  b.createBlock(&auxiliary.getBody());
  Value dest = get(result), dqAccumulator = get(workspace.dqAccumulator);
  Value dqRingSemaphores = get(workspace.dqRingSemaphores),
        key = get(op.getKey());
  queryLength = b.size(dest, 2);
  Value tiles = b.countTiles(queryLength, queryTile);
  Value tilesOfKeys = b.countTiles(b.size(key, 2), keyTile);
  Value batches = b.size(dest, 0), groups = b.index(op.getNumGroups());
  auto [heads, late] = emitDqRingHeads(dqAccumulator, batches, groups);
  Value early = arith::SubIOp::create(b, heads, late);
  auto forall = scf::ForallOp::create(
      b, ArrayRef<OpFoldResult>{early, emitConvertedParts()}, ValueRange(),
      std::nullopt);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  DqRingSlot dqRing = emitDqRingSlot(dqAccumulator, ids[0]);
  Value next = arith::AddIOp::create(b, dqRing.numEarlierUses, b.index(1));
  attn_tile::SemaphoreWaitOp::create(
      b, dqRingSemaphores, ValueRange{dqRing.slot, b.index(Added)},
      arith::MulIOp::create(b, next, tilesOfKeys).getResult());
  Value parts = b.index(getConvertedParts());
  Value part = arith::RemUIOp::create(b, ids[1], parts);
  Value tile = arith::DivUIOp::create(b, ids[1], parts);
  Value batch = arith::DivUIOp::create(b, ids[0], groups);
  Value member = b.index(0), head = arith::RemUIOp::create(b, ids[0], groups);
  if (int64_t group = op.getGroupSize(); group != 1) {
    member = arith::DivUIOp::create(b, tile, tiles);
    tile = arith::RemUIOp::create(b, tile, tiles);
    head = arith::AddIOp::create(
        b, arith::MulIOp::create(b, head, b.index(group)).getResult(), member);
  }
  Value row = arith::MulIOp::create(b, tile, b.index(queryTile));
  Value zero = b.index(0);
  int64_t headDim = cast<MemRefType>(dqAccumulator.getType()).getShape().back();
  bool transposed = isDqTransposed(keyTile);
  int64_t rows = getDqRows(headDim, schedule);
  auto emitConversion = [&](int64_t firstHeadDimIndex,
                            ArrayRef<Value> placeOfPart) {
    SmallVector<int64_t> shape = {queryTile, headDim};
    if (transposed)
      shape = {rows, queryTile};
    attn_tile::ConvertDqOp::create(
        b, dqAccumulator, placeOfPart, dest,
        ValueRange{batch, head, row, b.index(firstHeadDimIndex)}, part,
        getConvertedParts(), APFloat(op.getScaleOrDefault() / getGradFactor()),
        b.f32Vector(shape), transposed);
  };
  SmallVector<Value> placeOfDqAccumulator = {dqRing.slot, member, row, zero};
  if (transposed)
    forEachDqPart(headDim, placeOfDqAccumulator, rows, emitConversion);
  else
    emitConversion(0, placeOfDqAccumulator);
  attn_tile::SemaphoreAddOp::create(
      b, dqRingSemaphores, ValueRange{dqRing.slot, b.index(Converted)});
}

void GradKernelWriter::writeDqConvert(attn_tile::KernelOp kernel,
                                      const GradWorkspace &workspace,
                                      Value result, ScheduleAttrInterface keys,
                                      Value workItemList) {
  begin(kernel);
  queryTile = keys.getQueryTile();
  Value dqAccumulator = get(workspace.dqAccumulator), dest = get(result);
  WorkItem item;
  SmallVector<Value> place;
  if (workItemList) {
    item = beginListedWorkItems(b.size(dest, 1), get(workItemList),
                                MaskDim::Query, workspace);
  } else if (workspace.dqRingSemaphores) {
    queryLength = b.size(dest, 2);
    Value group = b.index(op.getGroupSize());
    Value groups = arith::DivUIOp::create(b, b.size(dest, 1), group);
    auto [heads, late] =
        emitDqRingHeads(dqAccumulator, b.size(dest, 0), groups);
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
        b, arith::RemUIOp::create(b, number, groups).getResult(), group);
    item.sequence = item.batch = arith::DivUIOp::create(b, number, groups);
    item.head = arith::AddIOp::create(b, first, ids[1]);
    item.first = arith::MulIOp::create(b, ids[2], b.index(queryTile));
    place = {emitDqRingSlot(dqAccumulator, number).slot, ids[1], item.first};
  } else {
    SmallVector<Value> ids = beginWorkItems(
        b.size(dest, 1), b.countTiles(b.size(dest, 2), queryTile));
    item.sequence = item.batch = ids[0];
    item.head = ids[1];
    item.first = arith::MulIOp::create(b, ids[2], b.index(queryTile));
  }
  SmallVector<Value> corner = item.at(b, item.head, item.queryBase, item.first);
  if (place.empty())
    place = item.at(b, item.head, item.workBase, item.first);
  for (SmallVector<Value> *indices : {&corner, &place})
    indices->push_back(b.index(0));
  int64_t headDim = cast<MemRefType>(dqAccumulator.getType()).getShape().back();
  double factor = op.getScaleOrDefault() / getGradFactor();
  if (!isDqTransposed(keys.getKeyTile())) {
    Value sum = attn_tile::LoadFragmentsOp::create(
        b, b.f32Vector({queryTile, headDim}), dqAccumulator, place);
    emitStore(sum, dest, corner, factor, item.first, queryLength);
    return;
  }
  int64_t rows = getDqRows(headDim, keys);
  forEachDqPart(headDim, place, rows,
                [&](int64_t firstHeadDimIndex, ArrayRef<Value> placeOfPart) {
                  Value sum = attn_tile::LoadFragmentsOp::create(
                      b, b.f32Vector({rows, queryTile}), dqAccumulator,
                      placeOfPart);
                  corner.back() = b.index(firstHeadDimIndex);
                  emitStore(sum, dest, corner, factor, item.first, queryLength,
                            /*isTransposed=*/true);
                });
}

//===----------------------------------------------------------------------===//
// Sums over GQA groups
//===----------------------------------------------------------------------===//

void GradKernelWriter::writeGroupSums(attn_tile::KernelOp kernel,
                                      const GradWorkspace &workspace,
                                      Value ofGroups, Value result,
                                      Value workItemList) {
  begin(kernel);
  Value source = get(ofGroups), dest = get(result);
  Value heads = b.size(dest, 1);
  WorkItem item;
  if (workItemList) {
    item =
        beginListedWorkItems(heads, get(workItemList), MaskDim::Key, workspace);
  } else {
    keyLength = b.size(dest, 2);
    SmallVector<Value> ids =
        beginWorkItems(heads, b.countTiles(keyLength, queryTile));
    item.sequence = item.batch = ids[0];
    item.head = ids[1];
    item.first = arith::MulIOp::create(b, ids[2], b.index(queryTile));
  }
  // The sum and a tile that is added to it fit the registers.
  constexpr int64_t maxColumns = 128;
  int64_t groupsOfHead = op.getNumGroups() / getDimSize(result, 1);
  int64_t headDim = padHeadDim(result);
  for (int64_t column = 0; column < headDim; column += maxColumns) {
    int64_t columns = std::min(maxColumns, headDim - column);
    Value sum =
        emitGroupSum(source, item, groupsOfHead, {queryTile, columns}, column);
    SmallVector<Value> corner = item.at(b, item.head, item.keyBase, item.first);
    corner.push_back(b.index(column));
    emitStore(sum, dest, corner, /*factor=*/1, item.first, keyLength);
  }
}

Value GradKernelWriter::emitGroupSum(Value source, const WorkItem &item,
                                     int64_t groupsOfHead,
                                     ArrayRef<int64_t> shape, int64_t column) {
  Value size = b.index(groupsOfHead);
  Value first = arith::MulIOp::create(b, item.head, size);
  auto loop = scf::ForOp::create(b, b.index(0), size, b.index(1),
                                 ValueRange{b.splat(shape, 0)});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value group = arith::AddIOp::create(b, first, loop.getInductionVar());
  SmallVector<Value> corner = item.at(b, group, item.keyBase, item.first);
  corner.push_back(b.index(column));
  Value tile = b.load(shape, source, corner);
  Value sum = arith::AddFOp::create(b, loop.getRegionIterArg(0), tile);
  scf::YieldOp::create(b, sum);
  return loop.getResult(0);
}
