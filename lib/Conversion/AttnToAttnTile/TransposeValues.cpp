//===- TransposeValues.cpp - Values with contiguous positions -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A work item has some positions of a head. A thread loads a few neighbouring
// columns of 16 positions, and stores 16 neighbouring positions of each column.
// Neighbouring threads have neighbouring positions, so that they store whole
// lines together.
//
// FlashAttention-3 (Shah et al. 2024) transposes values in the kernel of
// attention, once for each tile of queries. A kernel of its own does it once.
//
//===----------------------------------------------------------------------===//

#include "TransposeValues.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mlir::attn;

/// Positions of a work item, to whose multiples the buffer is padded, and of a
/// thread.
static constexpr int64_t positionsOfItem = 128, positionsOfThread = 16;
/// The most columns that a thread loads at a time.
static constexpr int64_t maxColumns = 8;

namespace {
/// Writes the kernel.
class TransposeWriter {
public:
  TransposeWriter(OpBuilder &builder, AttentionOpInterface op,
                  attn_tile::KernelOp kernel)
      : b(op.getLoc(), builder), entry(&kernel.getBody().front()),
        source(entry->getArgument(0)), dest(entry->getArgument(1)),
        columnsOfThread(std::gcd(maxColumns, op.getVHeadDim())),
        chunks(op.getVHeadDim() / columnsOfThread) {}

  void write();

private:
  void writeBlock(Value firstPosition, Value firstColumn);
  SmallVector<Value> loadRow(Value position, Value firstColumn);
  void storePosition(Value value, Value column, Value firstPosition,
                     int64_t number);

  ScalarKernelBuilder b;
  Block *entry;
  Value source, dest, batch, head, numPositions;
  int64_t columnsOfThread, chunks;
};
} // namespace

void TransposeWriter::write() {
  b.setInsertionPointToEnd(entry);
  numPositions = b.size(source, 2);
  SmallVector<OpFoldResult> bounds = {b.size(source, 0), b.size(source, 1),
                                      b.tiles(numPositions, positionsOfItem)};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  batch = forall.getInductionVar(0);
  head = forall.getInductionVar(1);
  Value first = b.mul(forall.getInductionVar(2), b.constant(positionsOfItem));
  constexpr int64_t blocks = positionsOfItem / positionsOfThread;
  b.each(b.constant(blocks * chunks), [&](Value number) {
    Value block = arith::RemUIOp::create(b, number, b.constant(blocks));
    Value chunk = arith::DivUIOp::create(b, number, b.constant(blocks));
    writeBlock(b.add(first, b.mul(block, b.constant(positionsOfThread))),
               b.mul(chunk, b.constant(columnsOfThread)));
  });
}

/// The bits of the columns of a thread at one position, 0 after the last one.
SmallVector<Value> TransposeWriter::loadRow(Value position, Value firstColumn) {
  Value last = b.sub(numPositions, b.constant(1));
  Value exists = b.compare(arith::CmpIPredicate::slt, position, numPositions);
  Value row = arith::MinSIOp::create(b, position, last);
  Value zero = arith::ConstantIntOp::create(b, 0, 8);
  SmallVector<Value> values;
  for (int64_t i : llvm::seq(columnsOfThread)) {
    memref::LoadOp load = b.loadExisting(
        source, {batch, head, row, b.add(firstColumn, b.constant(i))});
    if (std::optional<int64_t> alignment =
            getAlignmentOfNeighbour(source, i, columnsOfThread))
      load.setAlignment(*alignment);
    values.push_back(load);
  }
  for (Value &value : values)
    value = b.select(exists, arith::BitcastOp::create(b, b.getI8Type(), value),
                     zero);
  return values;
}

void TransposeWriter::storePosition(Value value, Value column,
                                    Value firstPosition, int64_t number) {
  Value element =
      arith::BitcastOp::create(b, getElementTypeOrSelf(dest), value);
  Value position = b.add(firstPosition, b.constant(number));
  auto store = memref::StoreOp::create(
      b, element, dest, ValueRange{batch, head, column, position});
  if (std::optional<int64_t> alignment =
          getAlignmentOfNeighbour(dest, number, positionsOfThread))
    store.setAlignment(*alignment);
}

void TransposeWriter::writeBlock(Value firstPosition, Value firstColumn) {
  SmallVector<SmallVector<Value>> rows;
  for (int64_t i : llvm::seq(positionsOfThread))
    rows.push_back(loadRow(b.add(firstPosition, b.constant(i)), firstColumn));
  for (int64_t i : llvm::seq(columnsOfThread)) {
    Value column = b.add(firstColumn, b.constant(i));
    for (int64_t number : llvm::seq(positionsOfThread))
      storePosition(rows[attn_tile::getElementOfIndex(number)][i], column,
                    firstPosition, number);
  }
}

Value attn::transposeValues(RewriterBase &rewriter, AttentionOpInterface op,
                            SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  ScalarKernelBuilder b(op.getLoc(), rewriter);
  Value values = op.getValue();
  auto type = cast<MemRefType>(values.getType());
  Value positions = b.createOrFold<arith::MulIOp>(
      b.tiles(b.size(values, 2), positionsOfItem), b.constant(positionsOfItem));
  SmallVector<OpFoldResult> sizes = getAsOpFoldResult(ValueRange{
      b.size(values, 0), b.size(values, 1), b.size(values, 3), positions});
  SmallVector<int64_t> shape;
  SmallVector<Value> dynamicSizes;
  dispatchIndexOpFoldResults(sizes, dynamicSizes, shape);
  Value buffer = memref::AllocOp::create(
      b, MemRefType::get(shape, type.getElementType()), dynamicSizes);
  attn_tile::KernelOp kernel =
      createKernel(rewriter, op, op.getChosenSchedule().getPreparation(),
                   symbols, "_transpose_values", {values, buffer});
  TransposeWriter(rewriter, op, kernel).write();
  return buffer;
}
