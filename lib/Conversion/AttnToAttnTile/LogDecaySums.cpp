//===- LogDecaySums.cpp - Cumulative log-decays ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LogDecaySums.h"
#include "ChunkTable.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "ThreadGroup.h"
#include "attn/Dialect/AttnTile/IR/TileProgramBuilder.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

/// Tokens that a thread has. They are in one chunk.
static constexpr int64_t tokensOfThread = 8;

namespace {
/// Writes the kernel that adds up log-decays in chunks, as binary logarithms.
class DecaySumWriter {
public:
  DecaySumWriter(OpBuilder &builder, Location loc, attn_tile::KernelOp kernel,
                 int64_t chunk)
      : b(loc, builder), chunk(chunk), entry(&kernel.getBody().front()),
        logDecay(entry->getArgument(0)), cumulative(entry->getArgument(1)),
        length(entry->getArgument(2)), fault(entry->getArgument(3)) {
    if (entry->getNumArguments() > 4)
      chunkTable = entry->getArgument(4);
  }

  void write();

private:
  void writeTokens(Value batch, Value head, Value thread, Value number);
  SmallVector<Value> loadLogDecays(Value batch, Value head, Value first);
  Value loadLogDecay(Value batch, Value head, Value token);
  SmallVector<Value> emitSumBefore(Value thread, ArrayRef<Value> decays);
  Value f32(double value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(float(value)));
  }

  ScalarKernelBuilder b;
  int64_t chunk;
  Block *entry;
  Value logDecay, cumulative, length, fault, chunkTable;
  /// The number of groups of tokens that threads have.
  Value numGroups;
};
} // namespace

/// Moves the integer part of the rest to the whole part.
static void carryRest(ImplicitLocOpBuilder &b, MutableArrayRef<Value> parts) {
  Value rest = parts[RestPart];
  Value carry = math::FloorOp::create(b, rest);
  parts[WholePart] = arith::AddFOp::create(b, parts[WholePart], carry);
  parts[RestPart] = arith::SubFOp::create(b, rest, carry);
}

void attn::addLogDecay(ImplicitLocOpBuilder &b, MutableArrayRef<Value> parts,
                       Value decay) {
  auto f32 = [&](double value) -> Value {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(float(value)));
  };
  decay = arith::MinimumFOp::create(b, decay, f32(0));
  decay = arith::MaximumFOp::create(b, decay, f32(minLogDecay));
  decay = arith::MulFOp::create(b, decay, f32(log2e));
  // The same number is added to each sum: added to the rest as a whole, it
  // would be rounded in another way for each.
  Value whole = math::FloorOp::create(b, decay);
  parts[WholePart] = arith::AddFOp::create(b, parts[WholePart], whole);
  Value rest = arith::SubFOp::create(b, decay, whole);
  parts[RestPart] = arith::AddFOp::create(b, parts[RestPart], rest);
  carryRest(b, parts);
}

Value DecaySumWriter::loadLogDecay(Value batch, Value head, Value token) {
  if (cast<MemRefType>(logDecay.getType()).getRank() == 1)
    return memref::LoadOp::create(b, logDecay, head);
  Value last = b.sub(length, b.constant(1));
  return b.loadExisting(logDecay,
                        {batch, head, arith::MinUIOp::create(b, token, last)});
}

/// Loads the log-decays that a thread has, of the rows from `first` on. Rows
/// without a token have a log-decay of zero.
SmallVector<Value> DecaySumWriter::loadLogDecays(Value batch, Value head,
                                                 Value first) {
  RowTokens tokens = findTokens(b, chunkTable, length, first, chunk);
  SmallVector<Value> decays;
  for (int64_t i = 0; i < tokensOfThread; ++i) {
    Value number = b.constant(i);
    Value decay = loadLogDecay(batch, head, b.add(tokens.first, number));
    decays.push_back(b.select(
        b.compare(CmpIPredicate::slt, number, tokens.count), decay, f32(0)));
  }
  return decays;
}

/// The sum of the log-decays of the chunk before the tokens of `thread`, which
/// have `decays`.
SmallVector<Value> DecaySumWriter::emitSumBefore(Value thread,
                                                 ArrayRef<Value> decays) {
  SmallVector<Value> parts(NumSumParts, f32(0));
  for (Value decay : decays)
    addLogDecay(b, parts, decay);
  ThreadGroup ofChunk(b, thread, chunk / tokensOfThread);
  for (Value &part : parts)
    part = ofChunk.sumBefore(part);
  carryRest(b, parts);
  return parts;
}

/// Writes the cumulative log-decays of the tokens of `thread`, group `number`
/// of the groups of all threads, and checks their log-decays.
void DecaySumWriter::writeTokens(Value batch, Value head, Value thread,
                                 Value number) {
  Value first = b.mul(number, b.constant(tokensOfThread));
  SmallVector<Value> decays = loadLogDecays(batch, head, first);
  SmallVector<Value> parts = emitSumBefore(thread, decays);
  Value isWrong = arith::ConstantIntOp::create(b, 0, 1);
  SmallVector<Value> wholes, rests;
  for (Value decay : decays) {
    isWrong =
        b.either(isWrong, arith::CmpFOp::create(b, arith::CmpFPredicate::UGT,
                                                decay, f32(0)));
    addLogDecay(b, parts, decay);
    wholes.push_back(parts[WholePart]);
    rests.push_back(parts[RestPart]);
  }
  Value exists = b.compare(CmpIPredicate::ult, number, numGroups);
  scf::IfOp::create(b, exists, [&](OpBuilder &inner, Location loc) {
    ScalarKernelBuilder c(loc, inner);
    for (auto [part, sums] :
         {std::pair(WholePart, wholes), std::pair(RestPart, rests)})
      c.storeNeighbours(sums, cumulative,
                        {c.constant(part), batch, head, first});
    scf::YieldOp::create(c);
  });
  scf::IfOp::create(b, isWrong, [&](OpBuilder &inner, Location loc) {
    ScalarKernelBuilder c(loc, inner);
    Value code = arith::ConstantIntOp::create(c, ATTNRT_FAULT_LOG_DECAYS, 32);
    memref::StoreOp::create(c, code, fault, c.constant(0));
    scf::YieldOp::create(c);
  });
}

/// Each thread of a warp has some tokens. Threads after the last chunk store
/// nothing: all threads exchange sums.
void DecaySumWriter::write() {
  b.setInsertionPointToEnd(entry);
  Value threads = b.constant(attn_tile::warpThreads);
  numGroups = arith::DivUIOp::create(b, b.size(cumulative, 3),
                                     b.constant(tokensOfThread));
  SmallVector<OpFoldResult> bounds = {
      b.size(cumulative, 1), b.size(cumulative, 2),
      b.tiles(numGroups, attn_tile::warpThreads)};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  Value first = b.mul(ids[2], threads);
  b.each(threads, [&](Value thread) {
    writeTokens(ids[0], ids[1], thread, b.add(first, thread));
  });
}

Value attn::createLogDecaySums(RewriterBase &rewriter, Operation *op,
                               Value logDecay, Value query, Value chunkTable,
                               ScheduleAttrInterface schedule,
                               SymbolTable &symbols) {
  if (!logDecay || cast<MemRefType>(logDecay.getType()).getRank() == 4)
    return {};
  ScalarKernelBuilder b(op->getLoc(), rewriter);
  int64_t chunk = schedule.getQueryTile();
  Value batch = b.size(query, 0), length = b.size(query, 2);
  // Rows that are copied exist: there is room for whole chunks.
  Value chunks = chunkTable ? b.size(chunkTable, 1) : b.tiles(length, chunk);
  Value tokens = b.mul(chunks, b.constant(chunk));
  auto type = MemRefType::get({NumSumParts, ShapedType::kDynamic,
                               getDimSize(query, 1), ShapedType::kDynamic},
                              b.getF32Type());
  Value cumulative =
      memref::AllocOp::create(b, type, ValueRange{batch, tokens});
  Value fault =
      attn_tile::ErrorFlagOp::create(b, MemRefType::get({1}, b.getI32Type()));
  SmallVector<Value> operands = {logDecay, cumulative, length, fault};
  if (chunkTable)
    operands.push_back(chunkTable);
  attn_tile::KernelOp kernel =
      createKernel(rewriter, op, schedule.getPreparation(), symbols,
                   "_log_decays", operands);
  DecaySumWriter(rewriter, op->getLoc(), kernel, chunk).write();
  rewriter.setInsertionPoint(op);
  return cumulative;
}
