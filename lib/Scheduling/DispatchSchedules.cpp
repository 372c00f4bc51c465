//===- DispatchSchedules.cpp - Choose among schedules at run time ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns schedules that depend on a length, or on where arrays begin in memory,
// into conditionals.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Dialect/AttnTile/IR/SplitKV.h"
#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"
#include "attn/Scheduling/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/DebugLog.h"

#include <array>
#include <type_traits>

namespace mlir::attn {
#define GEN_PASS_DEF_DISPATCHSCHEDULESPASS
#include "attn/Scheduling/Passes.h.inc"
} // namespace mlir::attn

#define DEBUG_TYPE "attn-dispatch-schedules"

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

static Value emitQueryLength(OpBuilder &, CreateBlockMaskOp blockMask) {
  return blockMask.getQueries();
}

/// The mean number of queries of the packed sequences with the boundaries
/// `sequences`.
static Value emitMeanLength(OpBuilder &builder, Location loc, Value query,
                            Value sequences) {
  Value stored = emitSize(builder, loc, query, queryLengthDim);
  // One boundary more than sequences; without sequences any number will do.
  Value boundaries = emitSize(builder, loc, sequences, 0);
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  Value two = arith::ConstantIndexOp::create(builder, loc, 2);
  boundaries = arith::MaxUIOp::create(builder, loc, boundaries, two);
  Value count = arith::SubIOp::create(builder, loc, boundaries, one);
  return arith::DivUIOp::create(builder, loc, stored, count);
}

/// The number of queries; for packed sequences their mean.
template <typename OpTy>
static Value emitQueryLength(OpBuilder &builder, OpTy op) {
  Location loc = op.getLoc();
  if constexpr (llvm::is_one_of<OpTy, LinearAttentionOp,
                                LinearAttentionGradOp>::value) {
    if (op.getSequences())
      return emitMeanLength(builder, loc, op.getQuery(), op.getSequences());
  } else if (op.getAddressing().packsQueries()) {
    return emitMeanLength(builder, loc, op.getQuery(), op.getQuerySequences());
  }
  return emitSize(builder, loc, op.getQuery(), queryLengthDim);
}

/// Combines by OR the byte addresses and row strides of the tensors that the
/// score_mod region reads at the query and the key: their low bits are 0 if all
/// are aligned. Null where a tensor is not known to have contiguous rows in
/// memory.
static Value emitPlaces(OpBuilder &builder, AttentionOp attention) {
  Location loc = attention.getLoc();
  Region &region = attention.getScoreMod();
  Value places = arith::ConstantIndexOp::create(builder, loc, 0);
  if (region.empty())
    return places;
  ValueRange position = region.getArguments().take_back(2);
  DenseSet<Value> seen;
  WalkResult walk = region.walk([&](Operation *op) -> WalkResult {
    if (isa<tensor::ExtractOp>(op))
      return failure();
    auto load = dyn_cast<memref::LoadOp>(op);
    if (!load || load.getIndices().size() < 2 ||
        load.getIndices().take_back(2) != position ||
        !seen.insert(load.getMemRef()).second)
      return success();
    SmallVector<int64_t> strides;
    int64_t offset;
    MemRefType type = load.getMemRefType();
    if (failed(type.getStridesAndOffset(strides, offset)) ||
        strides.back() != 1)
      return failure();
    auto add = [&](Value elements) {
      Value bytes = builder.createOrFold<arith::MulIOp>(
          loc, elements,
          arith::ConstantIndexOp::create(builder, loc,
                                         type.getElementTypeBitWidth() / 8));
      places = builder.createOrFold<arith::OrIOp>(loc, places, bytes);
    };
    auto metadata = memref::ExtractStridedMetadataOp::create(builder, loc,
                                                             load.getMemRef());
    places = builder.createOrFold<arith::OrIOp>(
        loc, places,
        memref::ExtractAlignedPointerAsIndexOp::create(builder, loc,
                                                       load.getMemRef()));
    add(getValueOrCreateConstantIndexOp(builder, loc,
                                        metadata.getConstifiedMixedOffset()));
    SmallVector<OpFoldResult> rows = metadata.getConstifiedMixedStrides();
    rows.pop_back();
    for (auto [dim, stride] : llvm::enumerate(rows))
      if (type.getDimSize(dim) != 1)
        add(getValueOrCreateConstantIndexOp(builder, loc, stride));
    return success();
  });
  return walk.wasInterrupted() ? Value() : places;
}

/// Whether bulk copies can stage the elements that the score_mod region reads
/// at the query and the key.
static Value emitIsAligned(OpBuilder &builder, AttentionOp attention) {
  constexpr int64_t copyAlignment = 16;
  Location loc = attention.getLoc();
  Value places = emitPlaces(builder, attention);
  if (!places)
    return arith::ConstantIntOp::create(builder, loc, 0, 1);
  Value mask = arith::ConstantIndexOp::create(builder, loc, copyAlignment - 1);
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  return builder.createOrFold<arith::CmpIOp>(
      loc, arith::CmpIPredicate::eq,
      builder.createOrFold<arith::AndIOp>(loc, places, mask), zero);
}

/// The number of columns that the kernels of linear attention divide among work
/// items: columns of values or, in some kernels of the gradient, of keys.
static int64_t getNumColumns(LinearAttentionOp op) {
  return op.getValueHeadDim();
}

static int64_t getNumColumns(LinearAttentionGradOp op) {
  return std::max(op.getKeyHeadDim(), op.getValueHeadDim());
}

/// The number of batch entries or, if they are packed in one, of sequences.
template <typename OpTy>
static Value emitNumStates(OpBuilder &builder, OpTy op) {
  Location loc = op.getLoc();
  if (!op.getSequences())
    return emitSize(builder, loc, op.getQuery(), 0);
  return builder.createOrFold<arith::SubIOp>(
      loc, emitSize(builder, loc, op.getSequences(), 0),
      arith::ConstantIndexOp::create(builder, loc, 1));
}

/// Whether the number of work items of `op` is within the bounds of `choice`.
template <typename OpTy>
static Value emitIsWithin(OpBuilder &builder, OpTy op,
                          attn_tile::ByWorkItemsAttr choice) {
  Location loc = op.getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  auto compare = [&](arith::CmpIPredicate predicate, Value items,
                     int64_t bound) {
    return builder.createOrFold<arith::CmpIOp>(loc, predicate, items,
                                               constant(bound));
  };
  int64_t tiles = llvm::divideCeil(getNumColumns(op),
                                   choice.getOtherwise().getHeadDimTile());
  Value states = emitNumStates(builder, op);
  Value items = builder.createOrFold<arith::MulIOp>(
      loc, states, constant(op.getNumHeads() * tiles));
  return builder.createOrFold<arith::AndIOp>(
      loc, compare(arith::CmpIPredicate::ugt, items, choice.getMoreThan()),
      compare(arith::CmpIPredicate::ule, items, choice.getAtMost()));
}

namespace {
/// A condition, and the schedules where it holds and where it does not.
struct Choice {
  Value condition;
  Attribute holds, fails;
};
} // namespace

/// The condition by which the schedule of `op` chooses, if it is a choice.
template <typename OpTy>
static std::optional<Choice> emitChoice(OpBuilder &builder, OpTy op) {
  Location loc = op.getLoc();
  Attribute schedule = op.getScheduleAttr();
  if (auto choice = dyn_cast_if_present<ByQueryLengthAttr>(schedule)) {
    Value length = emitQueryLength(builder, op);
    Value bound =
        arith::ConstantIndexOp::create(builder, loc, choice.getBound());
    return Choice{builder.createOrFold<arith::CmpIOp>(
                      loc, arith::CmpIPredicate::ult, length, bound),
                  choice.getBelow(), choice.getFrom()};
  }
  // A block mask is for one tile size, and reads nothing that could be aligned.
  if constexpr (std::is_same_v<OpTy, AttentionOp>)
    if (auto choice = dyn_cast_if_present<attn_tile::ByAlignmentAttr>(schedule))
      return Choice{emitIsAligned(builder, op), choice.getAligned(),
                    choice.getOtherwise()};
  if constexpr (llvm::is_one_of<OpTy, LinearAttentionOp,
                                LinearAttentionGradOp>::value)
    if (auto choice = dyn_cast_if_present<attn_tile::ByWorkItemsAttr>(schedule))
      return Choice{emitIsWithin(builder, op, choice), choice.getWithin(),
                    choice.getOtherwise()};
  return std::nullopt;
}

template <typename OpTy>
static void setSchedule(OpTy op, Attribute schedule) {
  op.setScheduleAttr(schedule);
}

static void setSchedule(LinearAttentionGradOp op, Attribute schedule) {
  op.setScheduleAttr(cast<ScheduleAttrInterface>(schedule));
}

/// Replaces `op` by a conditional with a copy for each schedule; returns the
/// copies.
template <typename OpTy>
static std::array<OpTy, 2> dispatchAtRunTime(OpBuilder &builder, OpTy op,
                                             const Choice &choice) {
  Location loc = op.getLoc();
  std::array<OpTy, 2> copies;
  auto branch = [&](Attribute schedule, OpTy &copy) {
    return [&, schedule](OpBuilder &body, Location) {
      copy = cast<OpTy>(body.clone(*op));
      setSchedule(copy, schedule);
      scf::YieldOp::create(body, loc, copy->getResults());
    };
  };
  auto conditional = scf::IfOp::create(builder, loc, choice.condition,
                                       branch(choice.holds, copies[0]),
                                       branch(choice.fails, copies[1]));
  op->replaceAllUsesWith(conditional);
  op->erase();
  return copies;
}

/// Replaces choices among the operations of type `OpTy` below `root`, until
/// none is left.
template <typename OpTy>
static void dispatchAll(Operation *root) {
  SmallVector<OpTy> worklist;
  root->walk([&](OpTy op) { worklist.push_back(op); });
  while (!worklist.empty()) {
    OpTy op = worklist.pop_back_val();
    OpBuilder builder(op);
    std::optional<Choice> choice = emitChoice(builder, op);
    if (!choice)
      continue;
    APInt holds;
    if (matchPattern(choice->condition, m_ConstantInt(&holds))) {
      setSchedule(op, holds.isOne() ? choice->holds : choice->fails);
      worklist.push_back(op);
      continue;
    }
    llvm::append_range(worklist, dispatchAtRunTime(builder, op, *choice));
  }
}

/// Whether `convert-attn-to-attn-tile` gives each work item of `op` all keys,
/// without splits.
static Value emitIsUnsplit(OpBuilder &builder, AttentionOp op,
                           ScheduleAttrInterface schedule) {
  Location loc = op.getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  auto mul = [&](Value lhs, Value rhs) {
    return builder.createOrFold<arith::MulIOp>(loc, lhs, rhs);
  };
  auto tiles = [&](Value length, int64_t tile) {
    Value rounded =
        builder.createOrFold<arith::AddIOp>(loc, length, constant(tile - 1));
    return builder.createOrFold<arith::DivUIOp>(loc, rounded, constant(tile));
  };
  // With pack_gqa, the query heads of a GQA group are rows of one tile.
  Value query = op.getQuery();
  bool isPacked = schedule.packsGqa();
  Value heads = constant(isPacked ? op.getNumGroups() : op.getNumQueryHeads());
  Value rows = isPacked ? constant(op.getGroupSize())
                        : emitSize(builder, loc, query, queryLengthDim);
  Value items = mul(mul(emitSize(builder, loc, query, 0), heads),
                    tiles(rows, schedule.getQueryTile()));
  items = mul(items, constant(countHeadDimTiles(op.getVHeadDim(), schedule)));
  // Two splits take twice as many work items, and a key tile is not split.
  Value isBusy = builder.createOrFold<arith::CmpIOp>(
      loc, arith::CmpIPredicate::ugt, mul(items, constant(2)),
      constant(schedule.getSplitKvWorkItems()));
  Value keys = op.getAddressing().emitMaxKeys(builder, loc, op.getKey(),
                                              op.getPageTable());
  Value isShort = builder.createOrFold<arith::CmpIOp>(
      loc, arith::CmpIPredicate::ule, keys, constant(schedule.getKeyTile()));
  return builder.createOrFold<arith::OrIOp>(loc, isBusy, isShort);
}

/// The condition under which `op` has a schedule without splits, or without
/// balanced ones, instead of `split`.
static std::optional<Choice> emitSplitChoice(OpBuilder &builder, AttentionOp op,
                                             ScheduleAttrInterface split) {
  bool isBalanced = split.balancesSplits();
  auto simpler = dyn_cast_if_present<ScheduleAttrInterface>(
      attn_tile::withSplitKVWorkItems(
          split, isBalanced ? split.getSplitKvWorkItems() : 0));
  if (!simpler)
    return std::nullopt;
  if (!isBalanced)
    return Choice{emitIsUnsplit(builder, op, split), simpler, split};
  // Splits of a single entry are balanced without a list.
  Value batch = emitSize(builder, op.getLoc(), op.getQuery(), 0);
  Value one = arith::ConstantIndexOp::create(builder, op.getLoc(), 1);
  return Choice{builder.createOrFold<arith::CmpIOp>(
                    op.getLoc(), arith::CmpIPredicate::eq, batch, one),
                simpler, split};
}

/// Lets kernels store their output themselves, without combining splits, where
/// the keys have only one split, and list splits only where entries differ.
static void dispatchSplitKV(Operation *root) {
  SmallVector<AttentionOp> worklist;
  root->walk([&](AttentionOp op) {
    auto schedule = op.getChosenSchedule();
    // The work items of sequences are listed at run time.
    if (schedule && schedule.getSplitKvWorkItems() > 0 &&
        !op.getAddressing().isListed())
      worklist.push_back(op);
  });
  while (!worklist.empty()) {
    AttentionOp op = worklist.pop_back_val();
    OpBuilder builder(op);
    std::optional<Choice> choice =
        emitSplitChoice(builder, op, op.getChosenSchedule());
    if (!choice)
      continue;
    APInt holds;
    LDBG() << Attribute(choice->holds) << " instead of "
           << Attribute(op.getChosenSchedule()) << " where "
           << choice->condition;
    if (!matchPattern(choice->condition, m_ConstantInt(&holds)))
      op = dispatchAtRunTime(builder, op, *choice).front();
    else if (holds.isOne())
      op.setScheduleAttr(choice->holds);
    else
      continue;
    // Without balanced splits, there may be one split.
    if (op.getChosenSchedule().getSplitKvWorkItems() > 0)
      worklist.push_back(op);
  }
}

namespace {
struct DispatchSchedulesPass
    : attn::impl::DispatchSchedulesPassBase<DispatchSchedulesPass> {
  using Base::Base;

  void runOnOperation() override {
    dispatchAll<CreateBlockMaskOp>(getOperation());
    dispatchAll<AttentionOp>(getOperation());
    dispatchAll<attn_tile::StreamingGradOpInterface>(getOperation());
    dispatchAll<LinearAttentionOp>(getOperation());
    dispatchAll<LinearAttentionGradOp>(getOperation());
    dispatchSplitKV(getOperation());
  }
};
} // namespace
