//===- PlanMasks.cpp - Plans of masks that read tensors -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What only the device can find out about a mask is found out once: for all
// attentions of a function that share the mask, or for all calls of a function
// until its caller makes another plan.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNPLANMASKSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// The name of arguments and results that are plans.
static constexpr StringLiteral planName = "plan";

static bool packsHeads(Attribute schedule) {
  if (auto choice = dyn_cast<ByQueryLengthAttr>(schedule))
    return packsHeads(choice.getBelow()) || packsHeads(choice.getFrom());
  return cast<ScheduleAttrInterface>(schedule).packsHeads();
}

/// Whether the kernel of `op` walks over tiles that are found out before, and
/// `op` does not say yet who does so.
static bool needsPlan(AttentionOp op) {
  return !op.isBufferized() && !op.getPlan() && !op.hasSequences() &&
         op.getMaskReads().empty() && op.getScheduleAttr() &&
         !packsHeads(op.getScheduleAttr()) &&
         readsByPosition(op.getKeepRegion());
}

/// Makes a plan before `op`, for it.
static PlanMaskOp createPlan(OpBuilder &builder, AttentionOp op) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  Location loc = op.getLoc();
  auto countTiles = [&](OpFoldResult length, int64_t tile,
                        int64_t extra) -> OpFoldResult {
    if (std::optional<int64_t> size = getConstantIntValue(length))
      return builder.getIndexAttr(llvm::divideCeil(*size, tile) + extra);
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantIndexOp::create(builder, loc, value);
    };
    Value rounded = arith::AddIOp::create(builder, loc, cast<Value>(length),
                                          constant(tile - 1));
    Value tiles = arith::DivUIOp::create(builder, loc, rounded, constant(tile));
    if (extra == 0)
      return tiles;
    return arith::AddIOp::create(builder, loc, tiles, constant(extra))
        .getResult();
  };
  OpFoldResult batch = tensor::getMixedSize(builder, loc, op.getQuery(), 0);
  OpFoldResult queries = tensor::getMixedSize(builder, loc, op.getQuery(), 2);
  OpFoldResult keys = tensor::getMixedSize(builder, loc, op.getKey(), 2);
  auto [queryTile, keyTile] = PlanMaskOp::getTiles(op.getScheduleAttr());
  Region &keep = op.getKeepRegion();
  bool isByHead = !keep.getArgument(1).use_empty();
  Value out = tensor::EmptyOp::create(
      builder, loc,
      {batch, builder.getIndexAttr(isByHead ? op.getNumQueryHeads() : 1),
       countTiles(queries, queryTile, 0),
       countTiles(keys, keyTile, PlanMaskOp::extraEntries)},
      builder.getI32Type());
  auto toValue = [&](OpFoldResult size) {
    return getValueOrCreateConstantIndexOp(builder, loc, size);
  };
  auto plan = PlanMaskOp::create(builder, loc, out.getType(), toValue(batch),
                                 toValue(queries), toValue(keys), out,
                                 op.getMaskAttr(), op.getScheduleAttr());
  IRMapping mapping;
  keep.cloneInto(&plan.getKeepRegion(), mapping);
  op.getPlanMutable().assign(plan.getResult());
  return plan;
}

/// Makes plans for `attentions`, one for all that have the same. Returns them
/// in their order.
static SmallVector<PlanMaskOp> createPlans(RewriterBase &rewriter,
                                           FunctionOpInterface func,
                                           ArrayRef<AttentionOp> attentions) {
  for (AttentionOp attention : attentions)
    createPlan(rewriter, attention);
  DominanceInfo dominance(func);
  eliminateCommonSubExpressions(rewriter, dominance, func);
  SmallVector<PlanMaskOp> plans;
  for (AttentionOp attention : attentions) {
    auto plan = attention.getPlan().getDefiningOp<PlanMaskOp>();
    if (!llvm::is_contained(plans, plan))
      plans.push_back(plan);
  }
  return plans;
}

/// Leaves to attentions what one of them alone needs.
static int64_t sharePlans(RewriterBase &rewriter, FunctionOpInterface func) {
  SmallVector<AttentionOp> attentions;
  func.walk([&](AttentionOp op) {
    if (needsPlan(op))
      attentions.push_back(op);
  });
  if (attentions.size() < 2)
    return 0;
  int64_t numShared = 0;
  for (PlanMaskOp plan : createPlans(rewriter, func, attentions)) {
    if (!plan.getResult().hasOneUse()) {
      ++numShared;
      continue;
    }
    auto attention = cast<AttentionOp>(*plan.getResult().user_begin());
    rewriter.modifyOpInPlace(attention,
                             [&] { attention.getPlanMutable().clear(); });
    rewriter.eraseOp(plan);
  }
  return numShared;
}

/// The attributes of plan number `index` among results or arguments.
static DictionaryAttr getPlanAttrs(MLIRContext *context, size_t index) {
  std::string name = planName.str();
  if (index > 0)
    name += std::to_string(index);
  Builder builder(context);
  return builder.getDictionaryAttr(
      builder.getNamedAttr(argNameAttrName, builder.getStringAttr(name)));
}

/// Makes a copy of `func` into a function that returns the plans in it.
static void makePlanFunction(FunctionOpInterface func) {
  Block &body = func.getFunctionBody().front();
  SmallVector<Value> plans;
  for (auto plan : body.getOps<PlanMaskOp>())
    plans.push_back(plan.getResult());
  body.getTerminator()->setOperands(plans);
  SmallVector<Operation *> ops(
      llvm::make_pointer_range(body.without_terminator()));
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
  func.removeResAttrsAttr();
  func.setType(func.cloneTypeWith(func.getArgumentTypes(),
                                  TypeRange(ValueRange(plans))));
  for (size_t i = 0, e = plans.size(); i < e; ++i)
    func.setResultAttrs(i, getPlanAttrs(func.getContext(), i));
}

/// Makes plans of `func` arguments of it and results of a new function.
static FailureOr<int64_t> outlinePlans(RewriterBase &rewriter,
                                       FunctionOpInterface func,
                                       SymbolTable &symbols) {
  if (func.isExternal() || !func.isPublic() ||
      !func.getFunctionBody().hasOneBlock())
    return 0;
  SmallVector<AttentionOp> attentions;
  for (auto op : func.getFunctionBody().front().getOps<AttentionOp>())
    if (needsPlan(op))
      attentions.push_back(op);
  if (attentions.empty())
    return 0;
  std::string name = (func.getName() + "_" + planName).str();
  if (symbols.lookup(name))
    return func.emitError("cannot make plans of masks: there is a symbol '")
           << name << "' already";
  SmallVector<PlanMaskOp> plans = createPlans(rewriter, func, attentions);

  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPointAfter(func);
  auto planFunction = cast<FunctionOpInterface>(rewriter.clone(*func));
  planFunction.setName(name);
  symbols.insert(planFunction);
  makePlanFunction(planFunction);
  for (auto [index, plan] : llvm::enumerate(plans)) {
    Value made = plan.getResult();
    unsigned number = func.getNumArguments();
    if (failed(func.insertArgument(number, made.getType(),
                                   getPlanAttrs(func.getContext(), index),
                                   plan.getLoc())))
      return failure();
    rewriter.replaceOp(plan, func.getArgument(number));
  }
  return plans.size();
}

namespace {
struct AttnPlanMasksPass
    : attn::impl::AttnPlanMasksPassBase<AttnPlanMasksPass> {
  using Base::Base;

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SymbolTable symbols(getOperation());
    for (auto func : llvm::make_early_inc_range(
             getOperation().getOps<FunctionOpInterface>())) {
      if (outline) {
        FailureOr<int64_t> made = outlinePlans(rewriter, func, symbols);
        if (failed(made))
          return signalPassFailure();
        numPlans += *made;
      }
      if (!func.isExternal())
        numPlans += sharePlans(rewriter, func);
    }
  }
};
} // namespace
