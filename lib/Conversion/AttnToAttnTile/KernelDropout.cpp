//===- KernelDropout.cpp - Dropout in tiled programs ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the Philox stream of a work item, and the dropout of a tile of P.
//
//===----------------------------------------------------------------------===//

#include "KernelDropout.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "attn-runtime/attn_runtime.h"
#include "attn/Dialect/Attn/IR/ShardPositions.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::attn;

LogicalResult KernelDropout::check(ScheduleAttrInterface schedule) const {
  if (!*this)
    return success();
  int64_t multiple = DropoutAttr::keysOfWord;
  int64_t queryTile = schedule.getQueryTile(), keyTile = schedule.getKeyTile();
  if (queryTile % multiple != 0 || keyTile % multiple != 0)
    return op->emitOpError("with dropout needs tiles of multiples of ")
           << multiple << " queries and keys (has " << queryTile << " and "
           << keyTile << ")";
  return success();
}

void attn::reportDropout(Location loc, DropoutAttr dropout) {
  remark::analysis(loc, remark::RemarkOpts::name("dropout").category(
                            "convert-attn-to-attn-tile"))
      << llvm::formatv("drops attention probabilities with probability "
                       "{0}/{1}, for p = {2:f8}",
                       dropout.getThreshold(), int64_t(1) << dropout.getBits(),
                       dropout.getP().convertToDouble())
             .str();
}

void KernelDropout::addOperands(SetVector<Value> &operands) const {
  for (Value operand : {op.getSeed(), op.getOffset(), op.getDropoutMask()})
    if (operand && !matchPattern(operand, m_Constant()))
      operands.insert(operand);
  if (Value positions = getPositions())
    operands.insert(positions);
}

void attn::createPositionsCheck(RewriterBase &rewriter, Operation *user,
                                Value positions, ScheduleAttrInterface schedule,
                                SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(user);
  ScalarKernelBuilder b(user->getLoc(), rewriter);
  Value fault = attn_tile::ErrorFlagOp::create(
      rewriter, user->getLoc(), MemRefType::get({1}, rewriter.getI32Type()));
  attn_tile::KernelOp kernel =
      createKernel(rewriter, user, schedule, symbols, "_check_positions",
                   {positions, fault});
  Block &entry = kernel.getBody().front();
  b.setInsertionPointToEnd(&entry);
  auto forall = scf::ForallOp::create(
      b, ArrayRef<OpFoldResult>{b.getIndexAttr(1)}, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  auto load = [&](ShardPosition entryNumber) -> Value {
    return memref::LoadOp::create(
        b, entry.getArgument(0), b.constant(static_cast<int64_t>(entryNumber)));
  };
  Value bits =
      b.either(load(ShardPosition::FirstQuery), load(ShardPosition::FirstKey));
  Value rest = b.both(
      bits, arith::ConstantIntOp::create(b, DropoutAttr::keysOfWord - 1, 32));
  Value isCut = b.compare(arith::CmpIPredicate::ne, rest,
                          arith::ConstantIntOp::create(b, 0, 32));
  b.report(isCut, ATTNRT_FAULT_SHARD, entry.getArgument(1));
}

void KernelDropout::checkPositions(RewriterBase &rewriter,
                                   ScheduleAttrInterface schedule,
                                   SymbolTable &symbols) const {
  if (Value positions = getPositions())
    createPositionsCheck(rewriter, op, positions, schedule, symbols);
}

void KernelDropout::emitOffsets(OpBuilder &builder, const IRMapping &captured,
                                Source &source) const {
  Value positions = getPositions();
  if (!positions)
    return;
  positions = captured.lookup(positions);
  source.firstQuery = emitShardPosition(builder, op->getLoc(), positions,
                                        ShardPosition::FirstQuery);
  source.firstKey = emitShardPosition(builder, op->getLoc(), positions,
                                      ShardPosition::FirstKey);
}

KernelDropout::Source KernelDropout::emitSource(OpBuilder &builder,
                                                const IRMapping &captured,
                                                Value batch, Value head) const {
  Source source;
  if (Value mask = op.getDropoutMask()) {
    source.mask = captured.lookup(mask);
    source.batch = batch;
    source.head = head;
    return source;
  }
  DropoutAttr dropout = op.getDropoutAttr();
  if (!dropout)
    return source;
  Value seed = emitRngState(builder, op.getSeed(), captured);
  Value offset = emitRngState(builder, op.getOffset(), captured);
  if (Value positions = getPositions()) {
    positions = captured.lookup(positions);
    batch = emitGlobalPosition(builder, op->getLoc(), positions,
                               ShardPosition::FirstBatch, batch);
    head = emitGlobalPosition(builder, op->getLoc(), positions,
                              ShardPosition::FirstHead, head);
    emitOffsets(builder, captured, source);
  }
  llvm::append_range(
      source.stream,
      dropout.emitStream(builder, op->getLoc(), seed, offset, batch, head));
  return source;
}

void KernelDropout::emitStoreStream(OpBuilder &builder,
                                    const IRMapping &captured, Value batch,
                                    Value head, Value isFirst,
                                    Value streams) const {
  ImplicitLocOpBuilder b(op->getLoc(), builder);
  auto ifOp = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  b.setInsertionPointToStart(ifOp.thenBlock());
  Source source = emitSource(b, captured, batch, head);
  auto each = attn_tile::ThreadForOp::create(
      b, arith::ConstantIndexOp::create(b, 1).getResult());
  b.createBlock(&each.getBody(), {}, b.getIndexType(), b.getLoc());
  for (auto [i, word] : llvm::enumerate(source.stream)) {
    Value at = arith::ConstantIndexOp::create(b, i);
    memref::StoreOp::create(b, word, streams, ValueRange{batch, head, at});
  }
  attn_tile::YieldOp::create(b, ValueRange());
}

KernelDropout::Source KernelDropout::emitLoadStream(OpBuilder &builder,
                                                    const IRMapping &captured,
                                                    Value batch, Value head,
                                                    Value streams) const {
  ImplicitLocOpBuilder b(op->getLoc(), builder);
  Source source;
  emitOffsets(b, captured, source);
  auto type = cast<MemRefType>(streams.getType());
  for (int64_t i = 0; i < type.getDimSize(2); ++i) {
    Value at = arith::ConstantIndexOp::create(b, i);
    source.stream.push_back(
        memref::LoadOp::create(b, streams, ValueRange{batch, head, at}));
  }
  return source;
}

/// Whether rows of a mask begin at multiples of 16 bytes. Allocated buffers do,
/// and entry points check arguments.
static bool hasAlignedRows(Value mask) {
  constexpr int64_t words = 4;
  int64_t columns = cast<MemRefType>(mask.getType()).getShape().back();
  if (!ShapedType::isDynamic(columns) && columns % words != 0)
    return false;
  while (auto cast = mask.getDefiningOp<memref::CastOp>())
    mask = cast.getSource();
  if (mask.getDefiningOp<memref::AllocOp>())
    return true;
  auto argument = dyn_cast<BlockArgument>(mask);
  if (!argument)
    return false;
  auto func = dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return func && func.isPublic() &&
         SymbolTable::symbolKnownUseEmpty(func, func->getParentOp());
}

Value KernelDropout::emitKeepMask(OpBuilder &builder, const Source &source,
                                  Value firstQuery, Value firstKey,
                                  ArrayRef<int64_t> shape,
                                  WordPlacement placement) const {
  if (!*this)
    return Value();
  // Threads can load consecutive whole words of a row.
  bool isWhole = placement == WordPlacement::Whole && source.mask &&
                 op.getMaskLayout() == MaskLayout::Rows &&
                 hasAlignedRows(op.getDropoutMask());
  auto type = attn_tile::KeepMaskType::get(
      builder.getContext(), shape[0], shape[1],
      placement == WordPlacement::Transposed, isWhole);
  if (source.mask)
    return attn_tile::LoadKeepMaskOp::create(
        builder, op->getLoc(), type, source.mask, source.batch, source.head,
        *op.getMaskLayout(), firstQuery, firstKey);
  auto add = [&](Value offset, Value position) {
    return offset ? builder.createOrFold<arith::AddIOp>(op->getLoc(), offset,
                                                        position)
                  : position;
  };
  firstQuery = add(source.firstQuery, firstQuery);
  firstKey = add(source.firstKey, firstKey);
  return attn_tile::GenerateKeepMaskOp::create(
      builder, op->getLoc(), type, firstQuery, firstKey, source.stream,
      op.getDropoutAttr());
}

Value KernelDropout::emitDrop(OpBuilder &builder, Value tile, Value keepMask,
                              bool areBelowTwo) const {
  if (!keepMask)
    return tile;
  return attn_tile::DropoutOp::create(builder, op->getLoc(), tile, keepMask,
                                      areBelowTwo);
}

Value attn::emitRngState(OpBuilder &builder, Value state,
                         const IRMapping &captured) {
  if (matchPattern(state, m_Constant()))
    return builder.clone(*state.getDefiningOp())->getResult(0);
  state = captured.lookup(state);
  if (!isa<MemRefType>(state.getType()))
    return state;
  return memref::LoadOp::create(builder, state.getLoc(), state, ValueRange());
}
