//===- Fuse.cpp - Fusion of operations with attention ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes operations before and after attention part of it.
//
//===----------------------------------------------------------------------===//

#include "FuseElements.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Fusion/Passes.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "attn/Interfaces/FusibleOpInterface.h"
#include "attn/Interfaces/Target.h"
#include "attn/PerfModel/Roofline.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/DebugLog.h"

#include <cmath>

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNFUSEPASS
#include "attn/Fusion/Passes.h.inc"
} // namespace mlir::attn

#define DEBUG_TYPE "attn-fuse"

using namespace mlir;
using namespace mlir::attn;

static Type getElementType(Value value) {
  return getElementTypeOrSelf(value.getType());
}

namespace {
/// Fuses operations around one attention.
class Fuser {
public:
  Fuser(const FusionContext &context, AttentionOp op)
      : context(context), rewriter(context.rewriter), op(op) {}

  /// Returns the number of operations that became part of the attention.
  unsigned run();

private:
  bool fuseScale(OpOperand &operand);
  bool fuseConversions();
  bool fuseLayout(OpOperand &operand);
  bool fuseResultConversion();
  bool fuseResultLayout();
  bool hasOnlyFusedUses(Value value);
  bool checkLayout(Operation *producer, const TensorMapping &mapping);
  void report(Operation *fused, const Twine &what);
  void reportMissed(Operation *missed, const Twine &why) {
    context.reportMissed(missed, why);
  }

  const FusionContext &context;
  RewriterBase &rewriter;
  AttentionOp op;
};
} // namespace

void Fuser::report(Operation *fused, const Twine &what) {
  auto cost = dyn_cast<CostOpInterface>(fused);
  context.report(
      fused, what,
      cost ? estimate(cost.getCost(context.assumptions), context.device).seconds
           : 0);
}

/// The operation that computes `value` and how, if that can be fused.
static std::optional<TensorMapping> getMapping(Value value) {
  auto fusible = value.getDefiningOp<FusibleOpInterface>();
  return fusible ? fusible.getMapping() : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Whether `number` can be the scale of an attention.
static bool isScale(double number) {
  return std::isfinite(float(number)) && float(number) != 0;
}

/// Makes constant factors of queries and keys a part of the scale.
bool Fuser::fuseScale(OpOperand &operand) {
  std::optional<TensorMapping> mapping = getMapping(operand.get());
  if (!mapping || mapping->factor == 1 ||
      !isIdentityPermutation(mapping->permutation) ||
      getElementType(mapping->source) != getElementType(operand.get()))
    return false;
  auto interface = cast<AttentionOpInterface>(op.getOperation());
  double scale = interface.getScaleOrDefault() * mapping->factor;
  if (!isScale(scale)) {
    reportMissed(operand.get().getDefiningOp(),
                 "the scale would not be a finite number other than zero");
    return false;
  }
  report(operand.get().getDefiningOp(), "part of the scale");
  rewriter.modifyOpInPlace(op, [&] {
    operand.set(mapping->source);
    interface.setScale(APFloat(float(scale)));
  });
  return true;
}

/// Lets attention read queries, keys and values in the narrower type that they
/// are converted from.
bool Fuser::fuseConversions() {
  OpOperand *operands[] = {&op.getQueryMutable(), &op.getKeyMutable(),
                           &op.getValueMutable()};
  SmallVector<TensorMapping> mappings;
  auto interface = cast<AttentionOpInterface>(op.getOperation());
  double scale = interface.getScaleOrDefault();
  for (OpOperand *operand : operands) {
    std::optional<TensorMapping> mapping = getMapping(operand->get());
    if (!mapping || !isIdentityPermutation(mapping->permutation) ||
        (operand == operands[2] && mapping->factor != 1))
      return false;
    scale *= mapping->factor;
    mappings.push_back(*mapping);
  }
  if (!isScale(scale))
    return false;
  Type type = getElementType(mappings.front().source);
  // Values that the conversion does not round stay the same, and the result may
  // have the wide type.
  if (!isa<BFloat16Type, Float16Type>(type) ||
      !getElementType(op.getQuery()).isF32() ||
      !llvm::all_equal(llvm::map_range(mappings, [](TensorMapping &mapping) {
        return getElementType(mapping.source);
      })))
    return false;
  rewriter.modifyOpInPlace(op, [&] {
    for (auto [operand, mapping] : llvm::zip_equal(operands, mappings)) {
      report(operand->get().getDefiningOp(), "a part of reading the operand");
      operand->set(mapping.source);
    }
    interface.setScale(APFloat(float(scale)));
  });
  return true;
}

/// Whether a tensor that is permuted by `mapping` can be read or written where
/// it is.
bool Fuser::checkLayout(Operation *producer, const TensorMapping &mapping) {
  auto type = cast<RankedTensorType>(mapping.source.getType());
  int64_t rank = type.getRank();
  if (rank == 0 || mapping.permutation.back() != rank - 1) {
    reportMissed(producer, "elements of the head dim would not be contiguous");
    return false;
  }
  int64_t bits = type.getElementTypeBitWidth() * type.getShape().back();
  if (type.isDynamicDim(rank - 1) || bits % (8 * blockCopyAlignment) != 0) {
    reportMissed(producer, "rows would not be aligned to 16 bytes");
    return false;
  }
  return true;
}

/// Whether `value` is only read by attention, also in another shape.
bool Fuser::hasOnlyFusedUses(Value value) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<tensor::DimOp>(user))
      return true;
    if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(user))
      return hasOnlyFusedUses(user->getResult(0));
    auto attention = dyn_cast<AttentionOp>(user);
    return attention && (&use == &attention.getQueryMutable() ||
                         &use == &attention.getKeyMutable() ||
                         &use == &attention.getValueMutable());
  });
}

/// Lets attention read an operand in the order of dimensions that it has before
/// it is transposed.
bool Fuser::fuseLayout(OpOperand &operand) {
  Value value = operand.get();
  while (isa_and_present<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(
      value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  std::optional<TensorMapping> mapping = getMapping(value);
  if (!mapping || mapping->factor != 1 ||
      isIdentityPermutation(mapping->permutation) ||
      getElementType(mapping->source) != getElementType(value))
    return false;
  Operation *producer = value.getDefiningOp();
  if (!hasOnlyFusedUses(value)) {
    reportMissed(producer, "its result is used elsewhere, too");
    return false;
  }
  if (!checkLayout(producer, *mapping))
    return false;
  report(producer, "the layout of an operand");
  rewriter.setInsertionPoint(producer);
  rewriter.replaceOpWithNewOp<PermuteOp>(producer, mapping->source,
                                         mapping->permutation);
  return true;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Multiplies two sizes.
static OpFoldResult mul(OpBuilder &builder, Location loc, OpFoldResult lhs,
                        OpFoldResult rhs) {
  std::optional<int64_t> left = getConstantIntValue(lhs);
  std::optional<int64_t> right = getConstantIntValue(rhs);
  if (left && right)
    return builder.getIndexAttr(*left * *right);
  if (left == 1)
    return rhs;
  if (right == 1)
    return lhs;
  return arith::MulIOp::create(
             builder, loc, getValueOrCreateConstantIndexOp(builder, loc, lhs),
             getValueOrCreateConstantIndexOp(builder, loc, rhs))
      .getResult();
}

/// The only user of `value`, and its mapping.
static std::optional<std::pair<Operation *, TensorMapping>>
getOnlyConsumer(Value value) {
  if (!value.hasOneUse())
    return std::nullopt;
  auto fusible = dyn_cast<FusibleOpInterface>(*value.user_begin());
  std::optional<TensorMapping> mapping =
      fusible ? fusible.getMapping() : std::nullopt;
  if (!mapping || mapping->source != value || mapping->factor != 1)
    return std::nullopt;
  return std::pair(fusible.getOperation(), *mapping);
}

/// Lets attention write its result in the type of its operands.
bool Fuser::fuseResultConversion() {
  Value result = op->getResult(0);
  auto consumer = getOnlyConsumer(result);
  auto empty = op.getOut().getDefiningOp<tensor::EmptyOp>();
  if (!consumer || !empty)
    return false;
  auto [user, mapping] = *consumer;
  Type type = getElementType(user->getResult(0));
  if (!isIdentityPermutation(mapping.permutation) ||
      !getElementType(result).isF32() || type != getElementType(op.getQuery()))
    return false;
  report(user, "a part of writing the result");
  rewriter.setInsertionPoint(op);
  Value init = tensor::EmptyOp::create(rewriter, empty.getLoc(),
                                       empty.getMixedSizes(), type);
  rewriter.modifyOpInPlace(op, [&] {
    op.getOutMutable().assign(init);
    result.setType(init.getType());
  });
  rewriter.replaceOp(user, result);
  return true;
}

/// The sizes of the result of `reshape` for the sizes of its operand.
static SmallVector<OpFoldResult>
getCollapsedSizes(OpBuilder &builder, Location loc,
                  tensor::CollapseShapeOp reshape,
                  ArrayRef<OpFoldResult> sizes) {
  SmallVector<OpFoldResult> result;
  for (const ReassociationIndices &group : reshape.getReassociationIndices()) {
    OpFoldResult product = sizes[group.front()];
    for (int64_t dim : ArrayRef(group).drop_front())
      product = mul(builder, loc, product, sizes[dim]);
    result.push_back(product);
  }
  return result;
}

/// Lets attention write its result in the order of dimensions that it is
/// transposed to.
bool Fuser::fuseResultLayout() {
  Value result = op->getResult(0);
  auto empty = op.getOut().getDefiningOp<tensor::EmptyOp>();
  if (!empty)
    return false;
  SmallVector<tensor::CollapseShapeOp> reshapes;
  while (result.hasOneUse()) {
    auto reshape = dyn_cast<tensor::CollapseShapeOp>(*result.user_begin());
    if (!reshape)
      break;
    reshapes.push_back(reshape);
    result = reshape.getResult();
  }
  auto consumer = getOnlyConsumer(result);
  if (!consumer)
    return false;
  auto [user, mapping] = *consumer;
  if (isIdentityPermutation(mapping.permutation) ||
      getElementType(user->getResult(0)) != getElementType(result) ||
      !checkLayout(user, mapping))
    return false;
  report(user, "the layout of the result");
  // The inverse operations, from a tensor in the wanted order.
  Location loc = user->getLoc();
  rewriter.setInsertionPoint(op);
  SmallVector<SmallVector<OpFoldResult>> sizes;
  sizes.push_back(empty.getMixedSizes());
  for (tensor::CollapseShapeOp reshape : reshapes)
    sizes.push_back(getCollapsedSizes(rewriter, loc, reshape, sizes.back()));
  Value init = tensor::EmptyOp::create(
      rewriter, loc, applyPermutation(sizes.back(), mapping.permutation),
      getElementType(result));
  init = PermuteOp::create(rewriter, loc, init,
                           invertPermutationVector(mapping.permutation));
  for (auto [index, reshape] : llvm::enumerate(llvm::reverse(reshapes))) {
    sizes.pop_back();
    init = tensor::ExpandShapeOp::create(
        rewriter, loc, reshape.getSrcType(), init,
        reshape.getReassociationIndices(), sizes.back());
  }
  rewriter.modifyOpInPlace(op, [&] { op.getOutMutable().assign(init); });
  rewriter.setInsertionPoint(user);
  rewriter.replaceOpWithNewOp<PermuteOp>(user, result, mapping.permutation);
  return true;
}

unsigned Fuser::run() {
  if (op->getNumResults() == 0)
    return 0;
  unsigned count = 0;
  bool changed = true;
  while (changed) {
    changed = fuseScale(op.getQueryMutable()) ||
              fuseScale(op.getKeyMutable()) || fuseConversions();
    count += changed;
  }
  // Neither regions nor maps compute elements of 8 bits: quantization is an
  // operation of linalg, which has a kernel.
  auto mayBeFused = [&](OpOperand &operand) {
    return context.elements && !isFloat8(getElementType(operand.get()));
  };
  if (mayBeFused(op.getQueryMutable()))
    count += fuseQueries(context, op);
  for (OpOperand *operand :
       {&op.getQueryMutable(), &op.getKeyMutable(), &op.getValueMutable()}) {
    if (mayBeFused(*operand))
      count += gatherIntoMap(context, op, *operand);
    count += fuseLayout(*operand);
  }
  // Rows that belong to no sequence keep their destination's elements.
  if (op.getQuerySequences())
    return count;
  changed = true;
  while (changed) {
    changed =
        fuseResultConversion() || (context.elements && !op.readsKeyLengths() &&
                                   fuseEpilogue(context, op));
    count += changed;
  }
  count += fuseResultLayout();
  return count;
}

namespace {
struct AttnFusePass : attn::impl::AttnFusePassBase<AttnFusePass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<const Target *> found = lookupTarget(getOperation(), target);
    if (failed(found))
      return signalPassFailure();
    FailureOr<DeviceModel> device = getDeviceModel(getOperation(), **found);
    if (failed(device))
      return signalPassFailure();
    IRRewriter rewriter(&getContext());
    FusionContext context{rewriter, **found, *device, elements};
    SmallVector<AttentionOp> attentions;
    getOperation()->walk([&](AttentionOp op) { attentions.push_back(op); });
    for (AttentionOp op : attentions) {
      Location loc = op.getLoc();
      int64_t fused = Fuser(context, op).run();
      LDBG() << fused << " operations become part of the attention at " << loc;
      numFused += fused;
    }
    expandHeadOps(rewriter, getOperation());
  }
};
} // namespace
