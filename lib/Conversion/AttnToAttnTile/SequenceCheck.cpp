//===- SequenceCheck.cpp - Boundaries of padded sequences -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SequenceCheck.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"

using namespace mlir;
using namespace mlir::attn;
using arith::CmpIPredicate;

void attn::emitBoundaryReport(ImplicitLocOpBuilder &b, Value boundary,
                              Value fault) {
  Value zero = arith::ConstantIntOp::create(b, 0, 32);
  Value isWrong = arith::CmpIOp::create(b, CmpIPredicate::slt, boundary, zero);
  scf::IfOp::create(b, isWrong, [&](OpBuilder &then, Location loc) {
    ImplicitLocOpBuilder c(loc, then);
    Value code = arith::ConstantIntOp::create(c, ATTNRT_FAULT_LOG_DECAYS, 32);
    Value first = arith::ConstantIndexOp::create(c, 0);
    memref::StoreOp::create(c, code, fault, first);
    scf::YieldOp::create(c);
  });
}

/// A work item checks a boundary with each thread of a warp.
void attn::createSequenceCheck(RewriterBase &rewriter, Operation *op,
                               Value sequences, ScheduleAttrInterface schedule,
                               SymbolTable &symbols) {
  ScalarKernelBuilder b(op->getLoc(), rewriter);
  Value flag =
      attn_tile::ErrorFlagOp::create(b, MemRefType::get({1}, b.getI32Type()));
  attn_tile::KernelOp kernel =
      createKernel(rewriter, op, schedule.getPreparation(), symbols,
                   "_check_sequences", {sequences, flag});
  Block &entry = kernel.getBody().front();
  Value boundaries = entry.getArgument(0), fault = entry.getArgument(1);
  b.setInsertionPointToEnd(&entry);
  Value count = b.size(boundaries, 0);
  SmallVector<OpFoldResult> bounds = {b.tiles(count, attn_tile::warpThreads)};
  auto forall = scf::ForallOp::create(b, bounds, ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());
  Value threads = b.constant(attn_tile::warpThreads);
  Value first = b.mul(forall.getInductionVar(0), threads);
  Value ofItem = arith::MinUIOp::create(b, threads, b.sub(count, first));
  b.each(ofItem, [&](Value thread) {
    emitBoundaryReport(b, b.loadExisting(boundaries, b.add(first, thread)),
                       fault);
  });
  rewriter.setInsertionPoint(op);
}
