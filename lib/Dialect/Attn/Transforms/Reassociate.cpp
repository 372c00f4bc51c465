//===- Reassociate.cpp - Products of values after attention ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces A (X W) by (A X) W where that takes less time.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/Roofline.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/ForwardSchedules.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/FormatVariadic.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNREASSOCIATEPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Moves the product that makes the values of one attention.
class Reassociator {
public:
  Reassociator(RewriterBase &rewriter, AttentionOp op, StringRef target,
               const DeviceFigures &device)
      : rewriter(rewriter), op(op), target(target), device(device) {}

  /// Returns whether it did.
  bool run();

private:
  /// Says why the product stays.
  bool miss(const Twine &why);
  double getSeconds(Operation *op);
  /// Attention to what values are computed from.
  AttentionOp createAttention(Value values);

  RewriterBase &rewriter;
  AttentionOp op;
  StringRef target;
  const DeviceFigures &device;
  CostAssumptions assumptions;
  tensor::ExpandShapeOp split;
  MatmulOp product;
};
} // namespace

static remark::RemarkOpts getRemarkOptions() {
  return remark::RemarkOpts::name("reassociate").category("attn-reassociate");
}

/// Batch and heads in one dimension, then rows and channels.
static SmallVector<ReassociationIndices> getHeadGroups() {
  return {{0, 1}, {2}, {3}};
}

bool Reassociator::miss(const Twine &why) {
  remark::missed(product.getLoc(), getRemarkOptions())
      << ("the product stays before attention: " + why).str();
  return false;
}

double Reassociator::getSeconds(Operation *operation) {
  std::optional<OpCost> cost = getOpCost(operation, assumptions);
  return cost ? estimate(*cost, device).seconds : 0;
}

AttentionOp Reassociator::createAttention(Value values) {
  Location loc = op.getLoc();
  SmallVector<OpFoldResult> sizes =
      tensor::getMixedSizes(rewriter, loc, op.getOut());
  sizes.back() = rewriter.getIndexAttr(getDimSize(values, 3));
  Value out = tensor::EmptyOp::create(rewriter, loc, sizes,
                                      getElementTypeOrSelf(product.getLhs()));
  auto result = cast<AttentionOp>(rewriter.clone(*op.getOperation()));
  rewriter.modifyOpInPlace(result, [&] {
    result.getValueMutable().assign(values);
    result.getOutMutable().assign(out);
    result->getResult(0).setType(cast<RankedTensorType>(out.getType()));
  });
  return result;
}

bool Reassociator::run() {
  split = op.getValue().getDefiningOp<tensor::ExpandShapeOp>();
  if (!split || split.getReassociationIndices() != getHeadGroups() ||
      op->getNumResults() == 0)
    return false;
  product = split.getSrc().getDefiningOp<MatmulOp>();
  if (!product || !MatmulOp::isBatched(product.getLhs()))
    return false;
  if (!product.getEpilogue().empty() || product.getTransposeLhs())
    return miss("it has an epilogue, or is not of rows");
  if (!split.getResult().hasOneUse() ||
      !llvm::all_of(split.getSrc().getUsers(), [&](Operation *user) {
        return user == split || isa<tensor::DimOp>(user);
      }))
    return miss("its result is used elsewhere, too");
  if (op.hasSequences() || !op.getEpilogue().empty())
    return miss("attention has sequences or an epilogue");
  if (getElementTypeOrSelf(product.getOut()) !=
      getElementTypeOrSelf(product.getLhs()))
    return miss("it is not of the type of its operands");
  bool sharesWeights = !MatmulOp::isBatched(product.getRhs());
  if (!sharesWeights &&
      (op.getHeadMap() || op.getNumQueryHeads() != op.getNumKeyHeads()))
    return miss("query heads share values, whose weights differ");

  // Both forms, of which one is erased.
  Location loc = product.getLoc();
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  int64_t depth = getDimSize(product.getLhs(), product.getLhsDepthDim());
  if (ShapedType::isDynamic(depth))
    return miss("the number of channels before it is not known");
  SmallVector<OpFoldResult> sizes =
      tensor::getMixedSizes(rewriter, loc, op.getKey());
  sizes.back() = rewriter.getIndexAttr(depth);
  auto valueType = cast<RankedTensorType>(op.getValue().getType());
  SmallVector<int64_t> shape(valueType.getShape());
  shape.back() = depth;
  auto values =
      tensor::ExpandShapeOp::create(rewriter, loc, valueType.clone(shape),
                                    product.getLhs(), getHeadGroups(), sizes);
  AttentionOp attention = createAttention(values);
  auto rows = tensor::CollapseShapeOp::create(
      rewriter, loc, attention->getResult(0), getHeadGroups());
  SmallVector<OpFoldResult> outSizes =
      tensor::getMixedSizes(rewriter, loc, rows);
  outSizes.back() = rewriter.getIndexAttr(op.getValueHeadDim());
  Value init = tensor::EmptyOp::create(rewriter, loc, outSizes,
                                       getElementTypeOrSelf(op.getOut()));
  auto moved = MatmulOp::create(
      rewriter, loc, init.getType(), rows, product.getRhs(), init,
      /*transpose_lhs=*/false, product.getTransposeRhs(), /*schedule=*/nullptr);
  auto result = tensor::ExpandShapeOp::create(
      rewriter, loc, op->getResult(0).getType(), moved.getResult(),
      getHeadGroups(), tensor::getMixedSizes(rewriter, loc, op.getOut()));

  double before = getSeconds(product) + getSeconds(op);
  double after = getSeconds(attention) + getSeconds(moved);
  bool fits = isSupportedHeadDim(depth, target) &&
              !getBestSchedules(attention, target, device, 1).empty();
  std::string times = llvm::formatv("it takes {0:f1} us with attention, and "
                                    "{1:f1} us after it",
                                    1e6 * before, 1e6 * after)
                          .str();
  if (!fits || after >= before) {
    Operation *ops[] = {result, moved, rows, attention, values};
    for (Operation *erased : ops)
      rewriter.eraseOp(erased);
    return miss(fits ? times : "its input has too many channels");
  }
  remark::passed(loc, getRemarkOptions())
      << "the product moved after attention: " + times;
  SmallVector<Value> results = {result.getResult()};
  llvm::append_range(results, attention->getResults().drop_front());
  rewriter.replaceOp(op, results);
  return true;
}

namespace {
struct AttnReassociatePass
    : attn::impl::AttnReassociatePassBase<AttnReassociatePass> {
  using Base::Base;

  void runOnOperation() override {
    DeviceAttr device = getDevice(getOperation(), target);
    if (!device) {
      getOperation()->emitError("unknown target '")
          << target << "' (expected host, sm_80 or sm_90a)";
      return signalPassFailure();
    }
    DeviceFigures figures = device.getFigures();
    IRRewriter rewriter(&getContext());
    SmallVector<AttentionOp> attentions;
    getOperation()->walk([&](AttentionOp op) { attentions.push_back(op); });
    for (AttentionOp op : attentions)
      numReassociated += Reassociator(rewriter, op, target, figures).run();
  }
};
} // namespace
