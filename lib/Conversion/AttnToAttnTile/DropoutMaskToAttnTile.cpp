//===- DropoutMaskToAttnTile.cpp - Kernels of keep masks ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the program of a dropout keep mask. Work items are groups of rows of
// words; threads divide the words of each row.
//
//===----------------------------------------------------------------------===//

#include "CreateKernel.h"
#include "KernelDropout.h"
#include "attn/Conversion/AttnToAttnTile/AttnToAttnTile.h"
#include "attn/Dialect/Attn/IR/ShardPositions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

/// Rows of words of a work item, which share the stream of the head. Masks have
/// a multiple of this many rows.
static int64_t getRowsOfWorkItem(MaskLayout layout) {
  return layout == MaskLayout::Rows ? 16 : 4;
}

/// Words of a row that a thread generates together. Their counters differ in
/// one word, and their addresses by constants.
static constexpr int64_t wordsTogether = 4;

SmallVector<Value> attn::getMaskOperands(DropoutMaskOp op) {
  SmallVector<Value> operands = {op.getOut()};
  for (Value state : {op.getSeed(), op.getOffset()})
    if (!matchPattern(state, m_Constant()) &&
        !llvm::is_contained(operands, state))
      operands.push_back(state);
  if (Value positions = op.getPositions())
    operands.push_back(positions);
  return operands;
}

void attn::writeMaskProgram(OpBuilder &builder, DropoutMaskOp op,
                            ValueRange arguments) {
  reportDropout(op.getLoc(), op.getDropout());
  OpBuilder::InsertionGuard guard(builder);
  ImplicitLocOpBuilder b(op.getLoc(), builder);
  IRMapping captured;
  captured.map(getMaskOperands(op), arguments);
  Value mask = arguments.front();
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, value);
  };
  auto size = [&](int64_t dim) -> Value {
    return memref::DimOp::create(b, mask, dim);
  };
  Value seed = emitRngState(b, op.getSeed(), captured);
  Value offset = emitRngState(b, op.getOffset(), captured);
  int64_t rowsOfWorkItem = getRowsOfWorkItem(op.getLayout());
  Value groups = arith::DivUIOp::create(b, size(2), index(rowsOfWorkItem));
  auto forall =
      scf::ForallOp::create(b, ArrayRef<OpFoldResult>{size(0), size(1), groups},
                            ValueRange(), std::nullopt);
  b.setInsertionPointToStart(forall.getBody());

  SmallVector<Value> ids = forall.getInductionVars();
  Value batch = ids[0], head = ids[1];
  if (op.getFirstHead() > 0)
    head = arith::AddIOp::create(b, head, index(op.getFirstHead()));
  auto add = [&](Value value, ShardPosition entry, int64_t divisor) -> Value {
    if (!op.getPositions())
      return value;
    Value first = emitShardPosition(b, b.getLoc(),
                                    captured.lookup(op.getPositions()), entry);
    if (divisor != 1)
      first = arith::DivUIOp::create(b, first, index(divisor));
    return arith::AddIOp::create(b, value, first);
  };
  batch = add(batch, ShardPosition::FirstBatch, /*divisor=*/1);
  head = add(head, ShardPosition::FirstHead, /*divisor=*/1);
  RngBlock<Value> stream =
      op.getDropout().emitStream(b, b.getLoc(), seed, offset, batch, head);
  Value firstRow = arith::MulIOp::create(b, ids[2], index(rowsOfWorkItem));
  auto rows = scf::ForOp::create(b, index(0), index(rowsOfWorkItem), index(1));
  b.setInsertionPointToStart(rows.getBody());
  Value row = arith::AddIOp::create(b, firstRow, rows.getInductionVar());
  auto each = attn_tile::ThreadForOp::create(b, size(3), wordsTogether);
  Block *body =
      b.createBlock(&each.getBody(), {}, b.getIndexType(), b.getLoc());
  Value column = body->getArgument(0);
  auto toWord = [&](Value position) -> Value {
    return arith::IndexCastOp::create(b, b.getI32Type(), position);
  };
  Value queryWord = row, keyWord = column;
  if (op.getLayout() == MaskLayout::Columns)
    std::swap(queryWord, keyWord);
  // Words have pairs of queries, and several keys.
  constexpr int64_t queriesOfWord = 2;
  queryWord = toWord(add(queryWord, ShardPosition::FirstQuery, queriesOfWord));
  keyWord =
      toWord(add(keyWord, ShardPosition::FirstKey, DropoutAttr::keysOfWord));
  Value word =
      op.getDropout().emitKeepWord(b, b.getLoc(), stream, queryWord, keyWord);
  memref::StoreOp::create(b, word, mask,
                          ValueRange{ids[0], ids[1], row, column});
  attn_tile::YieldOp::create(b, ValueRange());
}

Value attn::emitWordsOfWorkItem(OpBuilder &builder, DropoutMaskOp op,
                                Value mask) {
  ImplicitLocOpBuilder b(op.getLoc(), builder);
  Value rows =
      arith::ConstantIndexOp::create(b, getRowsOfWorkItem(op.getLayout()));
  return arith::MulIOp::create(b, rows, memref::DimOp::create(b, mask, 3));
}

LogicalResult attn::lowerDropoutMaskToKernel(RewriterBase &rewriter,
                                             DropoutMaskOp op,
                                             SymbolTable &symbols) {
  if (!isa<MemRefType>(op.getOut().getType()))
    return op.emitOpError("must be bufferised");
  if (!op.getScheduleAttr())
    return op.emitOpError("needs a schedule");
  if (Value positions = op.getPositions())
    createPositionsCheck(rewriter, op, positions,
                         op.getScheduleAttr().getPreparation(), symbols);
  attn_tile::KernelOp kernel =
      createKernel(rewriter, op, op.getScheduleAttr(), symbols, "_dropout_mask",
                   getMaskOperands(op));
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPointToEnd(&kernel.getBody().front());
  writeMaskProgram(rewriter, op, kernel.getArguments());
  attn_tile::ReturnOp::create(rewriter, op.getLoc());
  rewriter.eraseOp(op);
  return success();
}
