//===- HeadMaps.cpp - Functions of elements of heads ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Applies scalar regions to row tiles of a head, in attention and in kernels of
// their own.
//
//===----------------------------------------------------------------------===//

#include "HeadMaps.h"
#include "CreateKernel.h"
#include "attn/Conversion/AttnToAttnTile/AttnToAttnTile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

/// A map of the tile whose body is still empty.
static attn_tile::MapOp createMap(TileProgramBuilder &b, const RowTile &rows) {
  return b.createMap(rows.tile, rows.batch, rows.head, rows.firstRow,
                     /*firstKey=*/rows.firstColumn ? rows.firstColumn
                                                   : b.index(0),
                     rows.numRows, b.index(rows.headDim));
}

/// The mean of the squares of each row.
static Value emitMeanSquare(TileProgramBuilder &b, const RowTile &rows) {
  auto type = cast<VectorType>(rows.tile.getType());
  int64_t count = type.getDimSize(0);
  Value squares = arith::MulFOp::create(b, rows.tile, rows.tile);
  Value sums = vector::MultiDimReductionOp::create(
      b, squares, b.splat(count, 0), ArrayRef<bool>{false, true},
      vector::CombiningKind::ADD);
  return arith::MulFOp::create(b, sums,
                               b.splat(count, 1.0 / double(rows.headDim)));
}

Value attn::emitHeadMap(TileProgramBuilder &b, Region &region,
                        const RowTile &rows, const IRMapping &captured) {
  bool usesSquare = !region.getArgument(1).use_empty();
  Value square = usesSquare ? emitMeanSquare(b, rows) : Value();
  attn_tile::MapOp map = createMap(b, rows);
  Block *body = &map.getBody().front();
  SmallVector<Value> arguments(body->getArguments());
  if (usesSquare) {
    map.getOthersMutable().append(square);
    arguments.insert(arguments.begin() + 1,
                     body->addArgument(b.getF32Type(), b.getLoc()));
  } else {
    arguments.insert(arguments.begin() + 1, Value());
  }
  OpBuilder::InsertionGuard guard(b);
  b.cloneRegion(region, body, arguments, captured);
  return map.getResult();
}

Value attn::emitEpilogue(TileProgramBuilder &b, Region &region,
                         const RowTile &rows, const IRMapping &captured) {
  attn_tile::MapOp map = createMap(b, rows);
  Block *body = &map.getBody().front();
  OpBuilder::InsertionGuard guard(b);
  b.cloneRegion(region, body, body->getArguments(), captured);
  return map.getResult();
}

/// Writes the kernel of `op`, whose arguments after the first two are
/// `captures`.
static void writeKernel(OpBuilder &builder, MapHeadsOp op,
                        attn_tile::KernelOp kernel, ValueRange captures) {
  TileProgramBuilder b(op.getLoc(), builder);
  Block &entry = kernel.getBody().front();
  Value in = entry.getArgument(0), out = entry.getArgument(1);
  IRMapping captured;
  captured.map(captures, entry.getArguments().drop_front(2));
  b.setInsertionPointToEnd(&entry);
  visitUsedValuesDefinedAbove(op.getBody(), [&](OpOperand *use) {
    if (!captured.contains(use->get()))
      b.clone(*use->get().getDefiningOp(), captured);
  });
  int64_t rowTile = op.getScheduleAttr().getQueryTile();
  RowTile rows;
  rows.numRows = b.size(in, 2);
  auto forall = scf::ForallOp::create(
      b,
      ArrayRef<OpFoldResult>{b.size(in, 0), b.size(in, 1),
                             b.countTiles(rows.numRows, rowTile)},
      ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);

  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  rows.batch = ids[0];
  rows.head = ids[1];
  rows.firstRow = arith::MulIOp::create(b, ids[2], b.index(rowTile));
  rows.headDim = cast<MemRefType>(in.getType()).getShape().back();
  int64_t columns = llvm::alignTo(rows.headDim, headDimMultiple);
  SmallVector<Value> corner = {rows.batch, rows.head, rows.firstRow,
                               b.index(0)};
  rows.tile = b.extend(b.load({rowTile, columns}, in, corner));
  Value result = emitHeadMap(b, op.getBody(), rows, captured);
  attn_tile::StoreOp::create(
      b, b.round(result, getElementTypeOrSelf(out.getType())), out, corner);
}

LogicalResult attn::lowerMapHeadsToKernel(RewriterBase &rewriter, MapHeadsOp op,
                                          SymbolTable &symbols) {
  if (!op.isBufferized())
    return op.emitOpError("must be bufferised");
  ScheduleAttrInterface schedule = op.getScheduleAttr();
  if (!schedule)
    return op.emitOpError("needs a schedule");

  SetVector<Value> used;
  getUsedValuesDefinedAbove(op.getBody(), used);
  FailureOr<SmallVector<Value>> captures = getCaptures(op, used.getArrayRef());
  if (failed(captures))
    return failure();
  SmallVector<Value> operands = {op.getIn(), op.getOut()};
  llvm::append_range(operands, *captures);
  attn_tile::KernelOp kernel =
      createKernel(rewriter, op, schedule, symbols, "_map_heads", operands);
  OpBuilder::InsertionGuard guard(rewriter);
  writeKernel(rewriter, op, kernel, *captures);
  rewriter.eraseOp(op);
  return success();
}
