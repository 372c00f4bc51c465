//===- GradKernelWriter.cpp - Kernels of gradients ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parts that the kernels of a gradient have in common: work items, score tiles.
//
//===----------------------------------------------------------------------===//

#include "GradKernelWriter.h"
#include "attn/Analysis/ScoreRange.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mlir::attn;

GradKernelWriter::GradKernelWriter(OpBuilder &builder,
                                   attn_tile::StreamingGradOpInterface gradient,
                                   ScheduleAttrInterface schedule,
                                   int64_t firstColumn)
    : b(gradient.getLoc(), builder),
      op(cast<AttentionOpInterface>(gradient.getOperation())), law(gradient),
      tensors(law.getGradOperands()), addressing(op.getAddressing()),
      schedule(schedule), dropout(op), queryTile(schedule.getQueryTile()),
      keyTile(schedule.getKeyTile()), queryParts(schedule.getQueryParts()),
      firstColumn(firstColumn),
      mapsScores(!op.getScoreMod().empty() || !(op.getScaleOrDefault() > 0)),
      mayPaddingBeInfinite(hasPadding() && !op.getScoreMod().empty() &&
                           !isFiniteForPadding(op.getScoreMod())) {}

bool GradKernelWriter::hasPadding() {
  int64_t queries = op.getStaticLengths().first;
  return addressing.isListed() || ShapedType::isDynamic(queries) ||
         queries % queryTile != 0;
}

void GradKernelWriter::addOperand(Value operand) {
  if (operand && !llvm::is_contained(operands, operand))
    operands.push_back(operand);
}

void GradKernelWriter::addCaptures(ValueRange captures) {
  for (Value capture : captures)
    addOperand(capture);
}

void GradKernelWriter::begin(attn_tile::KernelOp kernel) {
  Block &entry = kernel.getBody().front();
  captured.map(operands, entry.getArguments());
  b.setInsertionPointToEnd(&entry);
  // Clones the constants that the regions capture; all else is an argument.
  for (Region &region : op->getRegions())
    visitUsedValuesDefinedAbove(region, [&](OpOperand *use) {
      if (matchPattern(use->get(), m_Constant()) &&
          !captured.contains(use->get()))
        b.clone(*use->get().getDefiningOp(), captured);
    });
}

int64_t GradKernelWriter::padHeadDim(Value operand) {
  return llvm::alignTo(cast<MemRefType>(operand.getType()).getDimSize(3),
                       headDimMultiple);
}

int64_t GradKernelWriter::getResultColumns(int64_t headDim) const {
  int64_t tile = schedule.getHeadDimTile();
  return tile == 0 ? headDim : std::min(tile, headDim - firstColumn);
}

Value GradKernelWriter::extractResultColumns(Value tile) {
  auto type = cast<VectorType>(tile.getType());
  int64_t rows = type.getDimSize(0), all = type.getDimSize(1);
  int64_t columns = getResultColumns(all);
  if (haveConsumersColumns())
    return attn_tile::ConsumerColumnsOp::create(
        b, VectorType::get({rows, columns}, type.getElementType()), tile);
  if (columns == all)
    return tile;
  return vector::ExtractStridedSliceOp::create(
      b, tile, ArrayRef<int64_t>{0, firstColumn},
      ArrayRef<int64_t>{rows, columns}, ArrayRef<int64_t>{1, 1});
}

Value GradKernelWriter::emitFirstColumn() {
  if (!haveConsumersColumns())
    return b.index(firstColumn);
  return arith::MulIOp::create(b,
                               attn_tile::ConsumerIdOp::create(b).getResult(),
                               b.index(schedule.getHeadDimTile()));
}

SmallVector<Value> GradKernelWriter::beginWorkItems(Value heads, Value tiles) {
  Value batches = b.size(get(operands.front()), 0);
  auto forall =
      scf::ForallOp::create(b, ArrayRef<OpFoldResult>{batches, heads, tiles},
                            ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  return forall.getInductionVars();
}

SmallVector<Value> GradKernelWriter::WorkItem::at(OpBuilder &builder,
                                                  Value head, Value base,
                                                  Value position) const {
  if (base)
    position =
        arith::AddIOp::create(builder, position.getLoc(), base, position);
  return {batch, head, position};
}

GradKernelWriter::WorkItem
GradKernelWriter::beginListedWorkItems(Value heads, Value workItemList,
                                       MaskDim rows,
                                       const GradWorkspace &workspace) {
  auto forall = scf::ForallOp::create(
      b, ArrayRef<OpFoldResult>{heads, emitNumListedWorkItems(b, workItemList)},
      ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  ListedWorkItem listed = emitListedWorkItem(b, workItemList, ids[1]);
  queryLength = listed.queryLength;
  keyLength = listed.keyLength;
  WorkItem item;
  item.sequence = item.batch = listed.sequence;
  item.head = ids[0];
  item.first = listed.first;
  if (addressing.hasEntries())
    return item;
  item.batch = b.index(0);
  item.queryBase = listed.queryRow;
  item.keyBase = listed.keyRow;
  Value &ofTile = rows == MaskDim::Key ? item.keyBase : item.queryBase;
  ofTile = arith::SubIOp::create(b, ofTile, item.first);
  // Rows up to the next multiple belong to the previous sequence.
  constexpr int64_t unit = GradWorkspace::sequenceAlignment;
  Value aligned = arith::MulIOp::create(b, b.countTiles(item.queryBase, unit),
                                        b.index(unit));
  Value before = arith::MulIOp::create(b, item.sequence,
                                       b.index(workspace.sequencePadding));
  item.workBase = arith::AddIOp::create(b, aligned, before);
  return item;
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

Value GradKernelWriter::emitRawScores(Value qk) {
  if (!mapsScores)
    return qk;
  auto type = cast<VectorType>(qk.getType());
  return arith::MulFOp::create(
      b, qk, b.splat(type.getShape(), op.getScaleOrDefault()));
}

Value GradKernelWriter::emitScores(const ScoreTile &tile, Value raw) {
  if (op.getScoreMod().empty())
    return raw;
  attn_tile::MapOp map =
      b.createMap(raw, tile.batch, tile.head, tile.firstQuery, tile.firstKey,
                  queryLength, keyLength, tile.transposed);
  Block *body = &map.getBody().front();
  b.cloneRegion(op.getScoreMod(), body, body->getArguments(), captured);
  return map;
}

Value GradKernelWriter::emitMask(const ScoreTile &tile, Value scores) {
  auto mask = attn_tile::MaskOp::create(
      b, scores, tile.batch, tile.head, tile.firstQuery, tile.firstKey,
      queryLength, keyLength, op.getMaskAttr(), tile.transposed);
  cloneMaskMod(mask.getMaskMod());
  return mask;
}

void GradKernelWriter::cloneMaskMod(Region &target) {
  if (op.getMaskMod().empty())
    return;
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> types(4, b.getIndexType());
  SmallVector<Location> locs(types.size(), b.getLoc());
  Block *body = b.createBlock(&target, {}, types, locs);
  b.cloneRegion(op.getMaskMod(), body, body->getArguments(), captured);
}

Value GradKernelWriter::emitScoreGrad(const ScoreTile &tile, Value raw,
                                      Value factors, Value kept,
                                      Value factorGrad, Value row,
                                      bool addsCaptures) {
  attn_tile::GradTile gradTile = getGradTile(tile);
  Value grad = law.emitScoreGrad(gradTile, factors, kept, factorGrad, row);
  if (op.getScoreMod().empty())
    return grad;
  if (double factor = law.getScoreGradFactor(); factor != 1)
    grad = arith::MulFOp::create(b, grad, b.splat(tile.shape, 1 / factor));
  Value counts = law.emitHasScoreGrad(gradTile, factors);
  if (addsCaptures)
    emitCaptureGrads(tile, raw, grad, counts);
  attn_tile::MapOp map =
      b.createMap({raw, grad}, tile.batch, tile.head, tile.firstQuery,
                  tile.firstKey, queryLength, keyLength, tile.transposed);
  Block *body = &map.getBody().front();
  b.cloneRegion(*tensors.scoreModGrad, body, body->getArguments(), captured);
  return arith::SelectOp::create(b, counts, map, b.splat(tile.shape, 0));
}

void GradKernelWriter::emitStore(Value tile, Value dest, ValueRange indices,
                                 double factor, Value first, Value length,
                                 bool isTransposed) {
  auto type = cast<VectorType>(tile.getType());
  if (factor != 1)
    tile = arith::MulFOp::create(b, tile, b.splat(type.getShape(), factor));
  Type element = cast<MemRefType>(dest.getType()).getElementType();
  attn_tile::StoreOp::create(b, b.round(tile, element), dest, indices,
                             within(first), within(length), isTransposed);
}
