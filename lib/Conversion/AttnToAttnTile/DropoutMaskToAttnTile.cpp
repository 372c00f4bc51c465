//===- DropoutMaskToAttnTile.cpp - Kernels of decisions -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the kernel of a mask of decisions: work items are rows of words, whose
// threads make one word after another.
//
//===----------------------------------------------------------------------===//

#include "CreateKernel.h"
#include "KernelDropout.h"
#include "attn/Conversion/AttnToAttnTile/AttnToAttnTile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::attn;

/// Rows of words of a work item: all masks have a multiple of this.
static constexpr int64_t rowsOfItem = 4;

/// Writes the body of `kernel`, whose arguments are the mask and then `states`.
static void writeMask(OpBuilder &builder, DropoutMaskOp op,
                      attn_tile::KernelOp kernel, ValueRange states) {
  ImplicitLocOpBuilder b(op.getLoc(), builder);
  Block &entry = kernel.getBody().front();
  Value mask = entry.getArgument(0);
  IRMapping captured;
  captured.map(states, entry.getArguments().drop_front());
  b.setInsertionPointToEnd(&entry);
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, value);
  };
  auto size = [&](int64_t dim) -> Value {
    return memref::DimOp::create(b, mask, dim);
  };
  Value groups = arith::DivUIOp::create(b, size(2), index(rowsOfItem));
  auto forall =
      scf::ForallOp::create(b, ArrayRef<OpFoldResult>{size(0), size(1), groups},
                            ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());

  SmallVector<Value> ids = forall.getInductionVars();
  Value seed = emitRngState(b, op.getSeed(), captured);
  Value offset = emitRngState(b, op.getOffset(), captured);
  Value head = ids[1];
  if (op.getFirstHead() > 0)
    head = arith::AddIOp::create(b, head, index(op.getFirstHead()));
  RngBlock<Value> stream =
      op.getDropout().emitStream(b, b.getLoc(), seed, offset, ids[0], head);
  Value firstRow = arith::MulIOp::create(b, ids[2], index(rowsOfItem));
  auto rows = scf::ForOp::create(b, index(0), index(rowsOfItem), index(1),
                                 ValueRange());
  b.setInsertionPointToStart(rows.getBody());
  Value row = arith::AddIOp::create(b, firstRow, rows.getInductionVar());
  auto each = attn_tile::EachOp::create(b, size(3));
  Block *body =
      b.createBlock(&each.getBody(), {}, b.getIndexType(), b.getLoc());
  Value column = body->getArgument(0);
  auto toWord = [&](Value position) -> Value {
    return arith::IndexCastOp::create(b, b.getI32Type(), position);
  };
  Value queryWord = toWord(row), keyWord = toWord(column);
  if (op.getLayout() == MaskLayout::Columns)
    std::swap(queryWord, keyWord);
  Value word =
      op.getDropout().emitKeepWord(b, b.getLoc(), stream, queryWord, keyWord);
  memref::StoreOp::create(b, word, mask,
                          ValueRange{ids[0], ids[1], row, column});
  attn_tile::YieldOp::create(b, ValueRange());
}

LogicalResult attn::lowerDropoutMaskToKernel(RewriterBase &rewriter,
                                             DropoutMaskOp op,
                                             SymbolTable &symbols) {
  if (!isa<MemRefType>(op.getOut().getType()))
    return op.emitOpError("must be bufferised");
  if (!op.getScheduleAttr())
    return op.emitOpError("needs a schedule");
  SmallVector<Value> operands = {op.getOut()}, states;
  for (Value state : {op.getSeed(), op.getOffset()})
    if (!matchPattern(state, m_Constant()) &&
        !llvm::is_contained(states, state))
      states.push_back(state);
  llvm::append_range(operands, states);

  attn_tile::KernelOp kernel = createKernel(rewriter, op, op.getScheduleAttr(),
                                            symbols, "_dropout_mask", operands);
  OpBuilder::InsertionGuard guard(rewriter);
  writeMask(rewriter, op, kernel, states);
  rewriter.eraseOp(op);
  return success();
}
