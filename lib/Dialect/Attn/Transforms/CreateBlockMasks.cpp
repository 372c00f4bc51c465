//===- CreateBlockMasks.cpp - Block masks of masks that read tensors ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parts of a mask that only the device can evaluate are evaluated once: for all
// attentions of a function that share the mask, or for all calls of a function
// until its caller creates another block mask.
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
#include "llvm/Support/DebugLog.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNCREATEBLOCKMASKSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

#define DEBUG_TYPE "attn-create-block-masks"

using namespace mlir;
using namespace mlir::attn;

/// The name of arguments and results that are block masks.
static constexpr StringLiteral blockMaskName = "block_mask";

static bool packsGqa(Attribute schedule) {
  if (auto choice = dyn_cast<ByQueryLengthAttr>(schedule))
    return packsGqa(choice.getBelow()) || packsGqa(choice.getFrom());
  return cast<ScheduleAttrInterface>(schedule).packsGqa();
}

/// Whether the kernel of `op` iterates over a list of tiles, for which `op` has
/// no block mask yet.
static bool needsBlockMask(AttentionOp op) {
  return !op.isBufferized() && !op.getBlockMask() && !op.readsKeyLengths() &&
         op.getMaskReads().empty() && op.getScheduleAttr() &&
         !packsGqa(op.getScheduleAttr()) && needsClassification(op);
}

/// Creates a block mask for `op`, before it.
static CreateBlockMaskOp createBlockMask(OpBuilder &builder, AttentionOp op) {
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
  auto [queryTile, keyTile] = CreateBlockMaskOp::getTiles(op.getScheduleAttr());
  Region &maskMod = op.getMaskMod();
  bool isByHead = !maskMod.getArgument(1).use_empty();
  Value out = tensor::EmptyOp::create(
      builder, loc,
      {batch, builder.getIndexAttr(isByHead ? op.getNumQueryHeads() : 1),
       countTiles(queries, queryTile, 0),
       countTiles(keys, keyTile, CreateBlockMaskOp::extraEntries)},
      builder.getI32Type());
  auto toValue = [&](OpFoldResult size) {
    return getValueOrCreateConstantIndexOp(builder, loc, size);
  };
  auto blockMask = CreateBlockMaskOp::create(
      builder, loc, out.getType(), toValue(batch), toValue(queries),
      toValue(keys), out, op.getMaskAttr(), op.getScheduleAttr());
  IRMapping mapping;
  maskMod.cloneInto(&blockMask.getMaskMod(), mapping);
  op.getBlockMaskMutable().assign(blockMask.getResult());
  return blockMask;
}

/// Creates block masks for `attentions`, one for all with the same mask.
/// Returns them in their order.
static SmallVector<CreateBlockMaskOp>
createBlockMasks(RewriterBase &rewriter, FunctionOpInterface func,
                 ArrayRef<AttentionOp> attentions) {
  for (AttentionOp attention : attentions)
    createBlockMask(rewriter, attention);
  DominanceInfo dominance(func);
  eliminateCommonSubExpressions(rewriter, dominance, func);
  SmallVector<CreateBlockMaskOp> blockMasks;
  for (AttentionOp attention : attentions) {
    auto blockMask =
        attention.getBlockMask().getDefiningOp<CreateBlockMaskOp>();
    if (!llvm::is_contained(blockMasks, blockMask))
      blockMasks.push_back(blockMask);
  }
  return blockMasks;
}

/// Leaves the creation of a block mask to attentions that do not share it.
static int64_t shareBlockMasks(RewriterBase &rewriter,
                               FunctionOpInterface func) {
  SmallVector<AttentionOp> attentions;
  func.walk([&](AttentionOp op) {
    if (needsBlockMask(op))
      attentions.push_back(op);
  });
  if (attentions.size() < 2)
    return 0;
  int64_t numShared = 0;
  for (CreateBlockMaskOp blockMask :
       createBlockMasks(rewriter, func, attentions)) {
    if (!blockMask.getResult().hasOneUse()) {
      ++numShared;
      continue;
    }
    auto attention = cast<AttentionOp>(*blockMask.getResult().user_begin());
    rewriter.modifyOpInPlace(attention,
                             [&] { attention.getBlockMaskMutable().clear(); });
    rewriter.eraseOp(blockMask);
  }
  return numShared;
}

/// The attributes of block mask number `index` among results or arguments.
static DictionaryAttr getBlockMaskAttrs(MLIRContext *context, size_t index) {
  std::string name = blockMaskName.str();
  if (index > 0)
    name += std::to_string(index);
  Builder builder(context);
  return builder.getDictionaryAttr(
      builder.getNamedAttr(argNameAttrName, builder.getStringAttr(name)));
}

/// Copies `func` into a function that returns its block masks.
static void makeBlockMaskFunction(FunctionOpInterface func) {
  Block &body = func.getFunctionBody().front();
  SmallVector<Value> blockMasks;
  for (auto blockMask : body.getOps<CreateBlockMaskOp>())
    blockMasks.push_back(blockMask.getResult());
  body.getTerminator()->setOperands(blockMasks);
  SmallVector<Operation *> ops(
      llvm::make_pointer_range(body.without_terminator()));
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
  func.removeResAttrsAttr();
  func.setType(func.cloneTypeWith(func.getArgumentTypes(),
                                  TypeRange(ValueRange(blockMasks))));
  for (size_t i = 0, e = blockMasks.size(); i < e; ++i)
    func.setResultAttrs(i, getBlockMaskAttrs(func.getContext(), i));
}

/// Makes the block masks of `func` arguments of it and results of a new
/// function.
static FailureOr<int64_t> outlineBlockMasks(RewriterBase &rewriter,
                                            FunctionOpInterface func,
                                            SymbolTable &symbols) {
  if (func.isExternal() || !func.isPublic() ||
      !func.getFunctionBody().hasOneBlock())
    return 0;
  SmallVector<AttentionOp> attentions;
  for (auto op : func.getFunctionBody().front().getOps<AttentionOp>())
    if (needsBlockMask(op))
      attentions.push_back(op);
  if (attentions.empty())
    return 0;
  std::string name = (func.getName() + "_" + blockMaskName).str();
  if (symbols.lookup(name))
    return func.emitError("cannot make block masks: there is a symbol '")
           << name << "' already";
  SmallVector<CreateBlockMaskOp> blockMasks =
      createBlockMasks(rewriter, func, attentions);

  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPointAfter(func);
  auto blockMaskFunction = cast<FunctionOpInterface>(rewriter.clone(*func));
  blockMaskFunction.setName(name);
  symbols.insert(blockMaskFunction);
  makeBlockMaskFunction(blockMaskFunction);
  for (auto [index, blockMask] : llvm::enumerate(blockMasks)) {
    Value made = blockMask.getResult();
    unsigned number = func.getNumArguments();
    if (failed(func.insertArgument(number, made.getType(),
                                   getBlockMaskAttrs(func.getContext(), index),
                                   blockMask.getLoc())))
      return failure();
    rewriter.replaceOp(blockMask, func.getArgument(number));
  }
  return blockMasks.size();
}

namespace {
struct AttnCreateBlockMasksPass
    : attn::impl::AttnCreateBlockMasksPassBase<AttnCreateBlockMasksPass> {
  using Base::Base;

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SymbolTable symbols(getOperation());
    for (auto func : llvm::make_early_inc_range(
             getOperation().getOps<FunctionOpInterface>())) {
      if (outline) {
        FailureOr<int64_t> made = outlineBlockMasks(rewriter, func, symbols);
        if (failed(made))
          return signalPassFailure();
        numBlockMasks += *made;
      }
      if (func.isExternal())
        continue;
      int64_t shared = shareBlockMasks(rewriter, func);
      LDBG() << shared << " shared block masks in function " << func.getName();
      numBlockMasks += shared;
    }
  }
};
} // namespace
