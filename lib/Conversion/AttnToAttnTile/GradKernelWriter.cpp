//===- GradKernelWriter.cpp - Kernels of gradients ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the kernels of a gradient share: work items, and tiles of scores.
//
//===----------------------------------------------------------------------===//

#include "GradKernelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

GradKernelWriter::GradKernelWriter(OpBuilder &builder, AttentionGradOp op,
                                   ScheduleAttrInterface schedule)
    : b(op.getLoc(), builder), op(op), schedule(schedule), dropout(op),
      queryTile(schedule.getQueryTile()), keyTile(schedule.getKeyTile()),
      queryParts(schedule.getQueryParts()),
      mapsScores(!op.getScoreRegion().empty() ||
                 !(op.getScaleOrDefault() > 0)) {}

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
  // Constants that the regions capture; everything else is an argument.
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

SmallVector<Value> GradKernelWriter::beginItems(Value heads, Value tiles) {
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
GradKernelWriter::beginPlannedItems(Value heads, Value plan, MaskDim rows,
                                    const GradWorkspace &workspace) {
  auto forall = scf::ForallOp::create(
      b, ArrayRef<OpFoldResult>{heads, emitPlannedItems(b, plan)}, ValueRange(),
      std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  PlannedItem planned = emitPlannedItem(b, plan, ids[1]);
  queryLength = planned.queryLength;
  keyLength = planned.keyLength;
  WorkItem item;
  item.sequence = item.batch = planned.sequence;
  item.head = ids[0];
  item.first = planned.first;
  if (op.getSequenceLayout() != SequenceLayout::Packed)
    return item;
  item.batch = b.index(0);
  item.queryBase = planned.queryRow;
  item.keyBase = planned.keyRow;
  Value &ofTile = rows == MaskDim::Key ? item.keyBase : item.queryBase;
  ofTile = arith::SubIOp::create(b, ofTile, item.first);
  // Rows up to the next multiple are those of the sequence before.
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

Value GradKernelWriter::emitRawScores(Value product) {
  if (!mapsScores)
    return product;
  auto type = cast<VectorType>(product.getType());
  return arith::MulFOp::create(
      b, product, b.splat(type.getShape(), op.getScaleOrDefault()));
}

Value GradKernelWriter::emitScores(const ScoreTile &tile, Value raw) {
  if (op.getScoreRegion().empty())
    return raw;
  attn_tile::MapOp map =
      b.createMap(raw, tile.batch, tile.head, tile.firstQuery, tile.firstKey,
                  queryLength, keyLength, tile.transposed);
  Block *body = &map.getBody().front();
  b.cloneRegion(op.getScoreRegion(), body, body->getArguments(), captured);
  return map;
}

Value GradKernelWriter::emitMask(const ScoreTile &tile, Value scores) {
  auto mask = attn_tile::MaskOp::create(
      b, scores, tile.batch, tile.head, tile.firstQuery, tile.firstKey,
      queryLength, keyLength, op.getMaskAttr(), tile.transposed);
  cloneKeepRegion(mask.getKeep());
  return mask;
}

void GradKernelWriter::cloneKeepRegion(Region &target) {
  if (op.getKeepRegion().empty())
    return;
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> types(4, b.getIndexType());
  SmallVector<Location> locs(types.size(), b.getLoc());
  Block *body = b.createBlock(&target, {}, types, locs);
  b.cloneRegion(op.getKeepRegion(), body, body->getArguments(), captured);
}

Value GradKernelWriter::emitWeights(const ScoreTile &tile, Value scores,
                                    Value exponent) {
  double factor = mapsScores ? log2e : op.getScaleOrDefault() * log2e;
  Value sum = math::FmaOp::create(b, scores, b.splat(tile.shape, factor),
                                  b.broadcast(exponent, tile.shape));
  return math::Exp2Op::create(b, sum);
}

Value GradKernelWriter::emitScoreGrad(const ScoreTile &tile, Value raw,
                                      Value weights, Value kept,
                                      Value weightGrad, Value delta,
                                      bool addsCaptures) {
  Value deltas = b.broadcast(delta, tile.shape);
  Value grad;
  if (dropout) {
    // kept * weightGrad - weights * delta: the second product need not wait for
    // the gradients of weights, and these are not cleared.
    Value common = arith::MulFOp::create(b, weights, deltas);
    grad = math::FmaOp::create(b, b.extend(kept), weightGrad,
                               arith::NegFOp::create(b, common));
  } else {
    Value centred = arith::SubFOp::create(b, weightGrad, deltas);
    grad = arith::MulFOp::create(b, weights, centred);
  }
  if (op.getScoreRegion().empty())
    return grad;
  if (dropout)
    grad = arith::MulFOp::create(
        b, grad, b.splat(tile.shape, 1 / dropout.getKeepProbability()));
  // Pairs without weight have no gradient, whatever the region makes of them.
  Value zero = b.splat(tile.shape, 0);
  Value counts =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, weights, zero);
  if (addsCaptures)
    emitCaptureGrads(tile, raw, grad, counts);
  attn_tile::MapOp map =
      b.createMap({raw, grad}, tile.batch, tile.head, tile.firstQuery,
                  tile.firstKey, queryLength, keyLength, tile.transposed);
  Block *body = &map.getBody().front();
  b.cloneRegion(op.getScoreGradRegion(), body, body->getArguments(), captured);
  return arith::SelectOp::create(b, counts, map, zero);
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
