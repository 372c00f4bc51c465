//===- CheckHeadMap.cpp - Checks of maps of heads -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One work item counts the entries of a map that are no key head, and reports a
// fault if there are any.
//
//===----------------------------------------------------------------------===//

#include "CheckHeadMap.h"
#include "CreateKernel.h"
#include "ScalarKernelBuilder.h"

using namespace mlir;
using namespace mlir::attn;

/// Writes the body of the kernel, whose arguments are the map and the fault
/// word.
static void writeCheck(OpBuilder &builder, AttentionOp attention,
                       attn_tile::KernelOp kernel) {
  ScalarKernelBuilder b(attention.getLoc(), builder);
  Block &entry = kernel.getBody().front();
  Value map = entry.getArgument(0), fault = entry.getArgument(1);
  b.setInsertionPointToEnd(&entry);
  auto forall = scf::ForallOp::create(b, ArrayRef<OpFoldResult>{b.constant(1)},
                                      ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());

  Value heads = b.constant(attention.getNumQueryHeads());
  SmallVector<Value> bad = b.sum(heads, 1, [&](Value queryHead) {
    Value head = memref::LoadOp::create(b, map, queryHead);
    // A negative number is a large one.
    Value count = arith::ConstantIntOp::create(b, b.getI32Type(),
                                               attention.getNumKeyHeads());
    return SmallVector<Value>{
        b.toIndex(b.compare(arith::CmpIPredicate::uge, head, count))};
  });
  b.report(b.compare(arith::CmpIPredicate::ne, bad[0], b.constant(0)),
           ATTNRT_FAULT_HEADS, fault);
}

void attn::checkHeadMap(RewriterBase &rewriter, AttentionOp attention,
                        SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(attention);
  Value fault = attn_tile::FaultWordOp::create(
      rewriter, attention.getLoc(),
      MemRefType::get({1}, rewriter.getI32Type()));
  attn_tile::KernelOp kernel = createKernel(
      rewriter, attention, attention.getChosenSchedule().getPreparation(),
      symbols, "_heads", {attention.getHeadMap(), fault});
  writeCheck(rewriter, attention, kernel);
}
