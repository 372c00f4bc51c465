//===- MatmulToAttnTile.cpp - Matmuls to tiled programs -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the plain tiled program of each matmul: a loop over tiles of the
// result, and in it a loop over the contracted dimension.
//
//===----------------------------------------------------------------------===//

#include "CreateKernel.h"
#include "FuseOverlap.h"
#include "KernelDropout.h"
#include "attn/Conversion/AttnToAttnTile/AttnToAttnTile.h"
#include "attn/Dialect/AttnTile/IR/TileProgramBuilder.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Writes the kernel of one matmul.
class MatmulWriter {
public:
  MatmulWriter(OpBuilder &builder, MatmulOp op, attn_tile::KernelOp kernel,
               ValueRange captures);

  void write();

private:
  void writeWorkItem(Value batch, Value row, Value column);
  /// Loads a tile of an input. With `depthFirst`, its rows run along the
  /// contracted dimension.
  Value loadTile(Value source, Value batch, Value depth, int64_t depthTile,
                 Value other, int64_t otherTile, bool depthFirst,
                 Value position, Value length);
  Value writeEpilogue(Value sums, Value batch, Value row, Value column);

  TileProgramBuilder b;
  MatmulOp op;
  attn_tile::KernelOp kernel;
  IRMapping captured;
  int64_t rowTile, columnTile, depthTile;
  Value lhs, rhs, out;
  Value rows, columns;
};
} // namespace

MatmulWriter::MatmulWriter(OpBuilder &builder, MatmulOp op,
                           attn_tile::KernelOp kernel, ValueRange captures)
    : b(op.getLoc(), builder), op(op), kernel(kernel) {
  ScheduleAttrInterface schedule = op.getScheduleAttr();
  rowTile = schedule.getQueryTile();
  columnTile = schedule.getKeyTile();
  depthTile = schedule.getDepthTile();
  Block &entry = kernel.getBody().front();
  lhs = entry.getArgument(0);
  rhs = entry.getArgument(1);
  out = entry.getArgument(2);
  captured.map(captures, entry.getArguments().slice(3, captures.size()));
}

void MatmulWriter::write() {
  b.setInsertionPointToEnd(&kernel.getBody().front());
  visitUsedValuesDefinedAbove(op.getEpilogue(), [&](OpOperand *use) {
    if (!captured.contains(use->get()))
      b.clone(*use->get().getDefiningOp(), captured);
  });
  bool isBatched = MatmulOp::isBatched(out);
  rows = b.size(out, isBatched);
  columns = b.size(out, isBatched + 1);
  SmallVector<OpFoldResult> bounds = {b.countTiles(rows, rowTile),
                                      b.countTiles(columns, columnTile)};
  if (isBatched)
    bounds.insert(bounds.begin(), b.size(out, 0));
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);

  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  Value batch = isBatched ? ids.front() : Value();
  ValueRange tile = ValueRange(ids).take_back(2);
  writeWorkItem(batch, arith::MulIOp::create(b, tile[0], b.index(rowTile)),
                arith::MulIOp::create(b, tile[1], b.index(columnTile)));
}

Value MatmulWriter::loadTile(Value source, Value batch, Value depth,
                             int64_t depthTile, Value other, int64_t otherTile,
                             bool depthFirst, Value position, Value length) {
  SmallVector<Value> indices = {depth, other};
  SmallVector<int64_t> shape = {depthTile, otherTile};
  if (!depthFirst) {
    std::swap(indices[0], indices[1]);
    std::swap(shape[0], shape[1]);
  }
  if (MatmulOp::isBatched(source))
    indices.insert(indices.begin(), batch);
  return b.load(shape, source, indices, position, length);
}

void MatmulWriter::writeWorkItem(Value batch, Value row, Value column) {
  Value zero = b.index(0), one = b.index(1);
  // A matmul of depth 0 takes one step, of zeros.
  Value count = arith::MaxUIOp::create(
      b, b.countTiles(b.size(lhs, op.getLhsDepthDim()), depthTile), one);
  bool transposeLhs = op.getTransposeLhs(), transposeRhs = op.getTransposeRhs();
  ContractForm form = transposeLhs && transposeRhs
                          ? ContractForm::TransposedBoth
                      : transposeLhs ? ContractForm::TransposedLhs
                      : transposeRhs ? ContractForm::TransposedRhs
                                     : ContractForm::Plain;
  auto loop = scf::ForOp::create(b, zero, count, one,
                                 b.splat({rowTile, columnTile}, 0));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value step = loop.getInductionVar();
    Value depth = arith::MulIOp::create(b, step, b.index(depthTile));
    Value lhsTile = loadTile(lhs, batch, depth, depthTile, row, rowTile,
                             /*depthFirst=*/transposeLhs, step, count);
    Value rhsTile = loadTile(rhs, batch, depth, depthTile, column, columnTile,
                             /*depthFirst=*/!transposeRhs, step, count);
    scf::YieldOp::create(
        b, b.contract(lhsTile, rhsTile, loop.getRegionIterArg(0), form));
  }
  Value tile = writeEpilogue(loop.getResult(0), batch, row, column);
  SmallVector<Value> indices = {row, column};
  if (batch)
    indices.insert(indices.begin(), batch);
  attn_tile::StoreOp::create(
      b, b.round(tile, getElementTypeOrSelf(out.getType())), out, indices);
}

Value MatmulWriter::writeEpilogue(Value sums, Value batch, Value row,
                                  Value column) {
  Region &region = op.getEpilogue();
  if (region.empty())
    return sums;
  Value zero = b.index(0);
  attn_tile::MapOp map = b.createMap(sums, batch ? batch : zero, /*head=*/zero,
                                     row, column, rows, columns);
  Block *body = &map.getBody().front();
  SmallVector<Value> at(body->getArguments());
  // A matmul has no head index.
  at.erase(at.begin() + 2);
  b.cloneRegion(region, body, at, captured);
  return map.getResult();
}

/// Registers of a warp that generates keep masks: as many as consumers with 216
/// leave. With more, the assembler moves Philox keys from uniform registers
/// into them, and the GEMM slows down.
static constexpr int64_t maskRegisters = 72;

/// Multiply-adds of the GEMM while an auxiliary warp runs one instruction of
/// a keep-mask word. From the concurrent suite of `benchmarks/dropout.py`,
/// H200, 2026-11-23.
static constexpr int64_t multiplyAddsPerIntegerOp = 240;
static constexpr int64_t multiplyAddsPerWideMultiply = 900;

/// Writes the program of `mask` into the kernel of `op`, on auxiliary warps.
/// The operands of the mask are the kernel's arguments from number `first` on.
static void writeMaskConcurrently(OpBuilder &builder, MatmulOp op,
                                  DropoutMaskOp mask, ValueRange arguments,
                                  size_t first) {
  auto auxiliary = attn_tile::AuxiliaryWarpsOp::create(
      builder, mask.getLoc(), maskRegisters, /*joined=*/true);
  builder.createBlock(&auxiliary.getBody());
  ValueRange operands = arguments.drop_front(first);
  ImplicitLocOpBuilder b(mask.getLoc(), builder);
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, value);
  };
  // Words that a warp generates in the time of a GEMM tile.
  ScheduleAttrInterface schedule = op.getScheduleAttr();
  int64_t depthTile = schedule.getDepthTile();
  RngWork work = mask.getDropout().countKeepWord();
  int64_t perWord =
      std::max<int64_t>(multiplyAddsPerIntegerOp * work.integer +
                            multiplyAddsPerWideMultiply * work.wideMultiply,
                        1);
  int64_t ofStep = schedule.getQueryTile() * schedule.getKeyTile() * depthTile;
  Value steps = arith::CeilDivUIOp::create(
      b, memref::DimOp::create(b, arguments[0], op.getLhsDepthDim()),
      index(depthTile));
  Value part = arith::MulIOp::create(b, steps, index(ofStep / perWord));
  Value whole = emitWordsOfWorkItem(b, mask, operands.front());
  attn_tile::ThroughputHintOp::create(b, part, whole);
  writeMaskProgram(b, mask, operands);
}

FailureOr<attn_tile::KernelOp>
mlir::attn::lowerMatmulToKernel(RewriterBase &rewriter, MatmulOp op,
                                SymbolTable &symbols) {
  return lowerMatmulToKernel(rewriter, op, /*mask=*/DropoutMaskOp(), symbols);
}

FailureOr<attn_tile::KernelOp>
mlir::attn::lowerMatmulToKernel(RewriterBase &rewriter, MatmulOp op,
                                DropoutMaskOp mask, SymbolTable &symbols) {
  if (!op.isBufferized())
    return op.emitOpError("must be bufferised");
  ScheduleAttrInterface schedule = op.getScheduleAttr();
  if (!schedule)
    return op.emitOpError("needs a schedule");

  SetVector<Value> used;
  getUsedValuesDefinedAbove(op->getRegions(), used);
  FailureOr<SmallVector<Value>> captures = getCaptures(op, used.getArrayRef());
  if (failed(captures))
    return failure();
  SmallVector<Value> operands = {op.getLhs(), op.getRhs(), op.getOut()};
  llvm::append_range(operands, *captures);
  size_t numOwn = operands.size();
  if (mask)
    llvm::append_range(operands, getMaskOperands(mask));
  if (mask && mask.getPositions())
    createPositionsCheck(rewriter, op, mask.getPositions(),
                         schedule.getPreparation(), symbols);
  attn_tile::KernelOp kernel = createKernel(
      rewriter, op, schedule, symbols,
      mask ? "_matmul_and_mask_kernel" : "_matmul_kernel", operands);
  OpBuilder::InsertionGuard guard(rewriter);
  if (mask) {
    rewriter.setInsertionPointToEnd(&kernel.getBody().front());
    writeMaskConcurrently(rewriter, op, mask, kernel.getArguments(), numOwn);
    rewriter.eraseOp(mask);
  }
  MatmulWriter(rewriter, op, kernel, *captures).write();
  rewriter.eraseOp(op);
  return kernel;
}
