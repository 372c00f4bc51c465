//===- DispatchSchedules.cpp - Schedules by length at run time ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns schedules that depend on a length into conditionals.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::attn {
#define GEN_PASS_DEF_DISPATCHSCHEDULESPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// The dimension of `query` that counts queries.
static constexpr int64_t queryLengthDim = 2;

static Value emitSize(OpBuilder &builder, Location loc, Value shaped,
                      int64_t dim) {
  if (isa<TensorType>(shaped.getType()))
    return builder.createOrFold<tensor::DimOp>(loc, shaped, dim);
  return builder.createOrFold<memref::DimOp>(loc, shaped, dim);
}

/// The number of queries; of packed sequences their mean.
static Value emitQueryLength(OpBuilder &builder, AttentionOp attention) {
  Location loc = attention.getLoc();
  Value stored = emitSize(builder, loc, attention.getQuery(), queryLengthDim);
  if (attention.getSequenceLayout() != SequenceLayout::Packed)
    return stored;
  // One boundary more than sequences; without sequences any number will do.
  Value boundaries = emitSize(builder, loc, attention.getQuerySequences(), 0);
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  Value two = arith::ConstantIndexOp::create(builder, loc, 2);
  boundaries = arith::MaxUIOp::create(builder, loc, boundaries, two);
  Value sequences = arith::SubIOp::create(builder, loc, boundaries, one);
  return arith::DivUIOp::create(builder, loc, stored, sequences);
}

/// Replaces `attention` by a conditional with a copy for each schedule.
static void dispatchAtRunTime(AttentionOp attention, ByQueryLengthAttr choice) {
  OpBuilder builder(attention);
  Location loc = attention.getLoc();
  Value length = emitQueryLength(builder, attention);
  Value bound = arith::ConstantIndexOp::create(builder, loc, choice.getBound());
  Value isBelow = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                        length, bound);
  auto branch = [&](ScheduleAttrInterface schedule) {
    return [&, schedule](OpBuilder &body, Location) {
      auto copy = cast<AttentionOp>(body.clone(*attention));
      copy.setScheduleAttr(schedule);
      scf::YieldOp::create(body, loc, copy->getResults());
    };
  };
  auto conditional =
      scf::IfOp::create(builder, loc, isBelow, branch(choice.getBelow()),
                        branch(choice.getFrom()));
  attention->replaceAllUsesWith(conditional);
  attention->erase();
}

namespace {
struct DispatchSchedulesPass
    : attn::impl::DispatchSchedulesPassBase<DispatchSchedulesPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<AttentionOp> worklist;
    getOperation().walk([&](AttentionOp attention) {
      if (isa_and_nonnull<ByQueryLengthAttr>(attention.getScheduleAttr()))
        worklist.push_back(attention);
    });
    for (AttentionOp attention : worklist) {
      auto choice = cast<ByQueryLengthAttr>(attention.getScheduleAttr());
      auto query = cast<ShapedType>(attention.getQuery().getType());
      if (query.isDynamicDim(queryLengthDim) || attention.hasSequences()) {
        dispatchAtRunTime(attention, choice);
        continue;
      }
      bool isBelow = query.getDimSize(queryLengthDim) < choice.getBound();
      attention.setScheduleAttr(isBelow ? choice.getBelow() : choice.getFrom());
    }
  }
};
} // namespace
