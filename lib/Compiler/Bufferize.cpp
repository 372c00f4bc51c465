//===- Bufferize.cpp - Bufferization with unit inner strides --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Upstream's one-shot bufferization with the memref layout of the runtime's
// tensors at function boundaries.
//
//===----------------------------------------------------------------------===//

#include "Views.h"
#include "attn/Compiler/Passes.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNBUFFERIZEPASS
#include "attn/Compiler/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;

/// The memref of a tensor in a function's signature.
static bufferization::BufferLikeType
getBoundaryType(bufferization::TensorLikeType type, Attribute memorySpace,
                func::FuncOp, const bufferization::BufferizationOptions &) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return cast<bufferization::BufferLikeType>(
        bufferization::getMemRefTypeWithFullyDynamicLayout(
            cast<TensorType>(type), memorySpace));
  SmallVector<int64_t> strides(tensor.getRank(), ShapedType::kDynamic);
  if (!strides.empty())
    strides.back() = 1;
  auto layout =
      StridedLayoutAttr::get(type.getContext(), ShapedType::kDynamic, strides);
  return cast<bufferization::BufferLikeType>(MemRefType::get(
      tensor.getShape(), tensor.getElementType(), layout, memorySpace));
}

/// Removes the results of `func` that are its own arguments, or views of them.
static LogicalResult dropReturnedArguments(func::FuncOp func) {
  if (func.isExternal() || !func.getBody().hasOneBlock())
    return success();
  Operation *terminator = func.getBody().front().getTerminator();
  BitVector dropped(func.getNumResults());
  for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
    while (Value source = attn::getViewedMemRef(value))
      value = source;
    if (isa<BlockArgument>(value))
      dropped.set(index);
  }
  terminator->eraseOperands(dropped);
  return func.eraseResults(dropped);
}

/// Replaces results of conditions by the buffer that both branches yield.
static void forwardYieldedBuffers(ModuleOp module) {
  module.walk([](scf::IfOp branch) {
    for (OpResult result : branch.getResults()) {
      unsigned number = result.getResultNumber();
      Value yielded = branch.thenYield().getOperand(number);
      if (isa<BaseMemRefType>(yielded.getType()) &&
          yielded == branch.elseYield().getOperand(number))
        result.replaceAllUsesWith(yielded);
    }
  });
}

/// Gives each operation of the same block whose destination is an empty tensor
/// an empty tensor of its own. A shared buffer would live from its first value
/// to its last; `attn-tile-pack-allocations` finds room for separate ones one
/// by one.
static void splitEmptyTensors(ModuleOp module) {
  module.walk([&](tensor::EmptyOp op) {
    SmallVector<OpOperand *> uses;
    bool isUsedElsewhere = false;
    for (OpOperand &use : op->getUses()) {
      if (isa<DestinationStyleOpInterface>(use.getOwner()) &&
          use.getOwner()->getBlock() == op->getBlock())
        uses.push_back(&use);
      else
        isUsedElsewhere = true;
    }
    // Other uses, or the last one, keep the tensor.
    if (!uses.empty() && !isUsedElsewhere)
      uses.pop_back();
    OpBuilder builder(op);
    for (OpOperand *use : uses)
      use->set(builder.clone(*op)->getResult(0));
  });
}

/// Whether `buffer`, or a view of it, is passed to the end of `block`, which
/// allocates it.
static bool leavesBlock(Value buffer, Block *block) {
  for (Operation *user : buffer.getUsers()) {
    if (user->hasTrait<OpTrait::IsTerminator>()) {
      // A value that a nested region yields may be any result.
      if (user->getBlock() == block ||
          llvm::any_of(user->getParentOp()->getResults(), [&](Value result) {
            return isa<BaseMemRefType>(result.getType()) &&
                   leavesBlock(result, block);
          }))
        return true;
      continue;
    }
    if (user->getNumResults() == 1 &&
        attn::getViewedMemRef(user->getResult(0)) == buffer &&
        leavesBlock(user->getResult(0), block))
      return true;
  }
  return false;
}

/// Adds `op`, after the operations of its block that it needs, to `moved`.
/// Fails if one of these is not pure.
static LogicalResult collectNeeded(Operation *op,
                                   SetVector<Operation *> &moved) {
  Region *region = op->getParentRegion();
  for (Value operand : op->getOperands()) {
    if (!region->isAncestor(operand.getParentRegion()))
      continue;
    Operation *definition = operand.getDefiningOp();
    if (!definition || definition->getNumRegions() != 0 ||
        !isPure(definition) || failed(collectNeeded(definition, moved)))
      return failure();
  }
  moved.insert(op);
  return success();
}

/// Moves `alloc` out of the operation around it, with the sizes that it needs
/// if these can be computed there.
static bool moveOut(memref::AllocOp alloc) {
  SetVector<Operation *> moved;
  if (failed(collectNeeded(alloc, moved)))
    return false;
  Operation *parent = alloc->getParentOp();
  for (Operation *op : moved)
    op->moveBefore(parent);
  return true;
}

/// Moves `alloc` out of regions that run at most once, where that is possible:
/// such a region may yield the buffer.
static void moveOutOfRegions(memref::AllocOp alloc) {
  auto shouldMove = [&] {
    Operation *parent = alloc->getParentOp();
    return isa<attn::OverlapOp>(parent) ||
           (isa<scf::IfOp>(parent) && leavesBlock(alloc, alloc->getBlock()));
  };
  while (shouldMove() && moveOut(alloc))
    continue;
}

/// Reports that `alloc` leaves the block that it is in.
static LogicalResult emitLeavesBlock(memref::AllocOp alloc) {
  auto function = dyn_cast<func::FuncOp>(alloc->getParentOp());
  if (!function || !function.isPrivate())
    return alloc.emitError("temporary buffer must not leave the block that "
                           "allocates it");
  InFlightDiagnostic diagnostic =
      function.emitOpError("returns a tensor that it computes, so that its "
                           "calls must be inlined");
  diagnostic.attachNote() << "calls are not inlined if a function is recursive "
                             "or marked no_inline, or if it has several blocks "
                             "and is called in a region of one";
  return diagnostic;
}

/// Frees each temporary buffer at the end of the block that allocates it.
static LogicalResult freeBuffers(ModuleOp module) {
  SmallVector<memref::AllocOp> allocs;
  module.walk([&](memref::AllocOp alloc) { allocs.push_back(alloc); });
  for (memref::AllocOp alloc : allocs) {
    moveOutOfRegions(alloc);
    if (leavesBlock(alloc, alloc->getBlock()))
      return emitLeavesBlock(alloc);
    OpBuilder builder(alloc->getBlock()->getTerminator());
    memref::DeallocOp::create(builder, alloc.getLoc(), alloc);
  }
  return success();
}

static OpFoldResult multiplySizes(OpBuilder &builder, Location loc,
                                  OpFoldResult lhs, OpFoldResult rhs) {
  std::optional<int64_t> left = getConstantIntValue(lhs),
                         right = getConstantIntValue(rhs);
  if (left && right)
    return builder.getIndexAttr(*left * *right);
  return arith::MulIOp::create(
             builder, loc, getValueOrCreateConstantIndexOp(builder, loc, lhs),
             getValueOrCreateConstantIndexOp(builder, loc, rhs))
      .getResult();
}

/// The largest number of dimensions of dynamic size that `op` expands one to.
static int64_t countDynamicSizes(memref::ExpandShapeOp op) {
  int64_t largest = 0;
  for (const ReassociationIndices &group : op.getReassociationIndices())
    largest =
        std::max<int64_t>(largest, llvm::count_if(group, [&](int64_t dim) {
                            return op.getResultType().isDynamicDim(dim);
                          }));
  return largest;
}

/// Makes casts of expansions of whole buffers to several dimensions of dynamic
/// size: upstream's lowering of such views crashes.
static void castExpansions(ModuleOp module) {
  SmallVector<memref::ExpandShapeOp> expansions;
  module.walk([&](memref::ExpandShapeOp op) {
    if (countDynamicSizes(op) > 1 && op.getSrcType().getLayout().isIdentity() &&
        op.getResultType().getLayout().isIdentity())
      expansions.push_back(op);
  });
  IRRewriter rewriter(module.getContext());
  for (memref::ExpandShapeOp op : expansions) {
    rewriter.setInsertionPoint(op);
    SmallVector<OpFoldResult> sizes = op.getMixedOutputShape();
    SmallVector<OpFoldResult> strides(sizes.size(), rewriter.getIndexAttr(1));
    for (size_t dim = sizes.size() - 1; dim > 0; --dim)
      strides[dim - 1] =
          multiplySizes(rewriter, op.getLoc(), strides[dim], sizes[dim]);
    rewriter.replaceOpWithNewOp<memref::ReinterpretCastOp>(
        op, op.getResultType(), op.getSrc(), rewriter.getIndexAttr(0), sizes,
        strides);
  }
}

/// Checks that no dimension is expanded to several of dynamic size: upstream's
/// lowering of such views crashes.
static LogicalResult verifyExpansions(ModuleOp module) {
  WalkResult walk = module.walk([](memref::ExpandShapeOp op) -> WalkResult {
    MemRefType type = op.getResultType();
    for (auto [dim, group] : llvm::enumerate(op.getReassociationIndices())) {
      auto isDynamic = [&](int64_t expanded) {
        return type.isDynamicDim(expanded);
      };
      int64_t numDynamic = llvm::count_if(group, isDynamic);
      if (numDynamic > 1)
        return emitError(op.getLoc())
               << "dimension " << dim << " is expanded to " << numDynamic
               << " dimensions of dynamic size, and at most one may be; make "
                  "the other sizes static";
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

namespace {
struct AttnBufferizePass
    : public attn::impl::AttnBufferizePassBase<AttnBufferizePass> {
  using Base::Base;

  void runOnOperation() override {
    bufferization::OneShotBufferizationOptions options;
    options.bufferizeFunctionBoundaries = true;
    options.allowReturnAllocsFromLoops = true;
    options.functionArgTypeConverterFn = getBoundaryType;
    options.inferFunctionResultLayout = false;
    // Copies become loops as everything else does; memref.copy of strided
    // memrefs would need a library.
    options.memCpyFn = [](OpBuilder &builder, Location loc, Value from,
                          Value to) {
      linalg::CopyOp::create(builder, loc, from, to);
      return success();
    };
    splitEmptyTensors(getOperation());
    bufferization::BufferizationState state;
    if (failed(bufferization::runOneShotModuleBufferize(getOperation(), options,
                                                        state)))
      return signalPassFailure();
    forwardYieldedBuffers(getOperation());
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (func.isPublic() && failed(dropReturnedArguments(func)))
        return signalPassFailure();
    castExpansions(getOperation());
    if (failed(verifyExpansions(getOperation())) ||
        failed(freeBuffers(getOperation())))
      return signalPassFailure();
  }
};
} // namespace
