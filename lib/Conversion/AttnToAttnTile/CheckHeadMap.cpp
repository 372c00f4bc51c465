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
#include "attn-runtime/attn_runtime.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::attn;

/// Writes the body of the kernel, whose arguments are the map and the fault
/// word.
static void writeCheck(OpBuilder &builder, AttentionOp attention,
                       attn_tile::KernelOp kernel) {
  ImplicitLocOpBuilder b(attention.getLoc(), builder);
  Block &entry = kernel.getBody().front();
  Value map = entry.getArgument(0), fault = entry.getArgument(1);
  b.setInsertionPointToEnd(&entry);
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, value);
  };
  Value zero = constant(0), one = constant(1);
  auto forall = scf::ForallOp::create(b, ArrayRef<OpFoldResult>{one},
                                      ValueRange(), std::nullopt);
  attn_tile::ReturnOp::create(b);
  b.setInsertionPointToStart(forall.getBody());

  auto sum = attn_tile::ReduceOp::create(
      b, constant(attention.getNumQueryHeads()), vector::CombiningKind::ADD);
  {
    OpBuilder::InsertionGuard guard(b);
    Block *body =
        b.createBlock(&sum.getBody(), {}, b.getIndexType(), b.getLoc());
    Value head = memref::LoadOp::create(b, map, body->getArgument(0));
    // A negative number is a large one.
    Value count = arith::ConstantIntOp::create(b, b.getI32Type(),
                                               attention.getNumKeyHeads());
    Value isBad =
        arith::CmpIOp::create(b, arith::CmpIPredicate::uge, head, count);
    Value number = arith::SelectOp::create(b, isBad, one, zero);
    attn_tile::YieldOp::create(b, number);
  }
  Value isBad = arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                                      sum.getResult(0), zero);
  Value times = arith::SelectOp::create(b, isBad, one, zero);
  auto each = attn_tile::EachOp::create(b, times);
  b.createBlock(&each.getBody(), {}, b.getIndexType(), b.getLoc());
  Value code =
      arith::ConstantIntOp::create(b, b.getI32Type(), ATTNRT_FAULT_HEADS);
  memref::StoreOp::create(b, code, fault, zero);
  attn_tile::YieldOp::create(b, ValueRange());
}

void attn::checkHeadMap(RewriterBase &rewriter, AttentionOp attention,
                        Operation *place, SymbolTable &symbols) {
  OpBuilder::InsertionGuard guard(rewriter);
  Location loc = attention.getLoc();
  rewriter.setInsertionPoint(attention);
  Value fault = attn_tile::FaultWordOp::create(
      rewriter, loc, MemRefType::get({1}, rewriter.getI32Type()));
  SmallVector<Value> operands = {attention.getHeadMap(), fault};

  std::string name = "attention_heads";
  if (auto function = attention->getParentOfType<FunctionOpInterface>())
    name = (function.getName() + "_heads").str();
  rewriter.setInsertionPoint(place);
  auto kernel = attn_tile::KernelOp::create(
      rewriter, loc, name,
      rewriter.getFunctionType(TypeRange(ValueRange(operands)), {}));
  kernel.setScheduleAttr(attention.getChosenSchedule().getPreparation());
  symbols.insert(kernel);
  writeCheck(rewriter, attention, kernel);

  rewriter.setInsertionPoint(attention);
  attn_tile::LaunchOp::create(rewriter, loc, SymbolRefAttr::get(kernel),
                              /*grid=*/ValueRange(), operands,
                              /*groups_per_multiprocessor=*/IntegerAttr());
}
