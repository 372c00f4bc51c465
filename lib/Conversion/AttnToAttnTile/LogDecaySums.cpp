//===- LogDecaySums.cpp - Cumulative log-decays ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LogDecaySums.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "attn/Dialect/AttnTile/IR/TileProgramBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

/// The smallest log-decay: its decay is the smallest normal f32.
static constexpr double minLogDecay = -126;

namespace {
/// Writes the kernel that adds up log-decays in chunks, as binary logarithms.
class DecaySumWriter {
public:
  DecaySumWriter(OpBuilder &builder, Location loc, attn_tile::KernelOp kernel,
                 int64_t chunk)
      : b(loc, builder), chunk(chunk), entry(&kernel.getBody().front()),
        logDecay(entry->getArgument(0)), cumulative(entry->getArgument(1)),
        length(entry->getArgument(2)), fault(entry->getArgument(3)) {}

  void write();

private:
  void writeChunk(Value batch, Value head, Value number);
  Value loadLogDecay(Value batch, Value head, Value token);
  void addLogDecay(SmallVectorImpl<Value> &parts, Value batch, Value head,
                   Value token, Value decay);
  Value f32(double value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(float(value)));
  }

  ScalarKernelBuilder b;
  int64_t chunk;
  Block *entry;
  Value logDecay, cumulative, length, fault;
};
} // namespace

Value DecaySumWriter::loadLogDecay(Value batch, Value head, Value token) {
  if (cast<MemRefType>(logDecay.getType()).getRank() == 1)
    return memref::LoadOp::create(b, logDecay, head);
  Value last = b.sub(length, b.constant(1));
  return b.loadExisting(logDecay,
                        {batch, head, arith::MinUIOp::create(b, token, last)});
}

/// Writes the cumulative log-decays of one chunk, one after the other. Several
/// are loaded at once. Tokens after the last one have a log-decay of zero.
void DecaySumWriter::writeChunk(Value batch, Value head, Value number) {
  constexpr int64_t unrolled = 8;
  Value first = b.mul(number, b.constant(chunk));
  Value isWrong = arith::ConstantIntOp::create(b, 0, 1);
  auto loop = scf::ForOp::create(b, b.constant(0), b.constant(chunk),
                                 b.constant(unrolled),
                                 ValueRange{f32(0), f32(0), isWrong});
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> parts(loop.getRegionIterArgs()), tokens, decays;
    Value ofLoop = b.add(first, loop.getInductionVar());
    for (int64_t i = 0; i < unrolled; ++i) {
      tokens.push_back(b.add(ofLoop, b.constant(i)));
      decays.push_back(loadLogDecay(batch, head, tokens.back()));
    }
    for (auto [token, decay] : llvm::zip_equal(tokens, decays))
      addLogDecay(parts, batch, head, token, decay);
    scf::YieldOp::create(b, parts);
  }
  scf::IfOp::create(b, loop.getResult(2), [&](OpBuilder &inner, Location loc) {
    ScalarKernelBuilder c(loc, inner);
    Value code = arith::ConstantIntOp::create(c, ATTNRT_FAULT_LOG_DECAYS, 32);
    memref::StoreOp::create(c, code, fault, c.constant(0));
    scf::YieldOp::create(c);
  });
}

/// Adds a log-decay to the parts of the sum, and stores them. The last one of
/// `parts` says whether a log-decay is positive or no number.
void DecaySumWriter::addLogDecay(SmallVectorImpl<Value> &parts, Value batch,
                                 Value head, Value token, Value decay) {
  decay = b.select(b.compare(CmpIPredicate::ult, token, length), decay, f32(0));
  Value isWrong =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UGT, decay, f32(0));
  parts[2] = b.either(parts[2], isWrong);
  decay = arith::MinimumFOp::create(b, decay, f32(0));
  decay = arith::MaximumFOp::create(b, decay, f32(minLogDecay));
  decay = arith::MulFOp::create(b, decay, f32(log2e));
  Value rest = arith::AddFOp::create(b, parts[1], decay);
  Value carry = math::FloorOp::create(b, rest);
  parts[0] = arith::AddFOp::create(b, parts[0], carry);
  parts[1] = arith::SubFOp::create(b, rest, carry);
  for (auto [part, sum] :
       {std::pair(WholePart, parts[0]), std::pair(RestPart, parts[1])})
    memref::StoreOp::create(b, sum, cumulative,
                            ValueRange{b.constant(part), batch, head, token});
}

/// Each thread of a warp has a chunk.
void DecaySumWriter::write() {
  constexpr int64_t chunksOfItem = 32;
  b.setInsertionPointToEnd(entry);
  Value chunks = b.tiles(length, chunk);
  SmallVector<OpFoldResult> bounds = {b.size(cumulative, 1),
                                      b.size(cumulative, 2),
                                      b.tiles(chunks, chunksOfItem)};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  SmallVector<Value> ids = forall.getInductionVars();
  Value first = b.mul(ids[2], b.constant(chunksOfItem));
  Value count =
      arith::MinUIOp::create(b, b.constant(chunksOfItem), b.sub(chunks, first));
  b.each(count, [&](Value number) {
    writeChunk(ids[0], ids[1], b.add(first, number));
  });
}

Value attn::createLogDecaySums(RewriterBase &rewriter, Operation *op,
                               Value logDecay, Value query,
                               ScheduleAttrInterface schedule,
                               SymbolTable &symbols) {
  if (!logDecay)
    return {};
  ScalarKernelBuilder b(op->getLoc(), rewriter);
  int64_t chunk = schedule.getQueryTile();
  Value batch = b.size(query, 0), length = b.size(query, 2);
  // Rows that are copied exist: there is room for whole chunks.
  Value tokens = b.mul(b.tiles(length, chunk), b.constant(chunk));
  auto type = MemRefType::get({NumSumParts, ShapedType::kDynamic,
                               getDimSize(query, 1), ShapedType::kDynamic},
                              b.getF32Type());
  Value cumulative =
      memref::AllocOp::create(b, type, ValueRange{batch, tokens});
  Value fault =
      attn_tile::ErrorFlagOp::create(b, MemRefType::get({1}, b.getI32Type()));
  attn_tile::KernelOp kernel =
      createKernel(rewriter, op, schedule.getPreparation(), symbols,
                   "_log_decays", {logDecay, cumulative, length, fault});
  DecaySumWriter(rewriter, op->getLoc(), kernel, chunk).write();
  rewriter.setInsertionPoint(op);
  return cumulative;
}
