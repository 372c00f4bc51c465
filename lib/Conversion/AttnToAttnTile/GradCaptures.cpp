//===- GradCaptures.cpp - Gradients of captured arrays --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds up the gradients of tensors that score_mod regions read. Each
// `attn.accumulate` of a `score_mod_grad` region becomes a tile of the
// contributions of the pairs. `attn_tile.scatter_add` adds it where the region
// says.
//
//===----------------------------------------------------------------------===//

#include "GradKernelWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mlir::attn;

/// Arguments of a `score_mod_grad` region before the destinations: score,
/// gradient, and the position.
static constexpr unsigned numElements = 2, numPosition = 4;

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

/// Moves the body of `conditional` before it. Its reads are clamped, so they
/// are safe where the condition is false.
static void flatten(scf::IfOp conditional) {
  OpBuilder builder(conditional);
  Location loc = conditional.getLoc();
  Value condition = conditional.getCondition();
  for (Region *region :
       {&conditional.getThenRegion(), &conditional.getElseRegion()}) {
    if (region->empty())
      continue;
    bool isThen = region == &conditional.getThenRegion();
    for (Operation &op :
         llvm::make_early_inc_range(region->front().without_terminator())) {
      op.moveBefore(conditional);
      auto add = dyn_cast<AccumulateOp>(op);
      if (!add)
        continue;
      builder.setInsertionPoint(add);
      Value zero =
          arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
      Value value = add.getValue();
      add.getValueMutable().assign(
          arith::SelectOp::create(builder, loc, condition,
                                  isThen ? value : zero, isThen ? zero : value)
              .getResult());
    }
  }
  builder.setInsertionPoint(conditional);
  for (unsigned i = 0, e = conditional.getNumResults(); i < e; ++i) {
    Value selected = arith::SelectOp::create(
        builder, loc, condition, conditional.thenYield().getOperand(i),
        conditional.elseYield().getOperand(i));
    conditional.getResult(i).replaceAllUsesWith(selected);
  }
  conditional.erase();
}

/// The operations of `block` that `values` depend on.
static DenseSet<Operation *> collectSlice(Block &block, ValueRange values) {
  DenseSet<Operation *> slice;
  SmallVector<Value> work(values);
  while (!work.empty()) {
    Operation *def = work.pop_back_val().getDefiningOp();
    Operation *op = def ? block.findAncestorOpInBlock(*def) : nullptr;
    if (!op || !slice.insert(op).second)
      continue;
    op->walk([&](Operation *nested) {
      llvm::append_range(work, nested->getOperands());
    });
  }
  return slice;
}

/// Whether `values` depend on an argument of the block.
static bool dependOn(Block &block, ValueRange values, BlockArgument argument) {
  if (llvm::is_contained(values, argument))
    return true;
  return llvm::any_of(collectSlice(block, values), [&](Operation *op) {
    return op
        ->walk([&](Operation *nested) {
          return WalkResult(
              failure(llvm::is_contained(nested->getOperands(), argument)));
        })
        .wasInterrupted();
  });
}

/// Whether each element gets its additions from only one row of a kernel's kv
/// tiles, in order.
static bool hasOneOwner(AttentionOpInterface op,
                        const attn_tile::GradOperands &tensors,
                        AccumulateOp add) {
  Block &block = tensors.scoreModGrad->front();
  ValueRange position = block.getArguments().slice(numElements, numPosition);
  ValueRange indices = add.getIndices();
  auto query = cast<ShapedType>(op.getQuery().getType());
  // All packed sequences are in one batch entry.
  bool isOneEntry = !op.getAddressing().isListed() && query.getDimSize(0) == 1;
  auto isTold = [&](unsigned number, bool isOne) {
    return isOne || llvm::is_contained(indices, position[number]);
  };
  bool isQueryTold =
      llvm::is_contained(indices, position[2]) ||
      !dependOn(block, indices, cast<BlockArgument>(position[2]));
  return isTold(0, isOneEntry) && isTold(1, query.getDimSize(1) == 1) &&
         isQueryTold &&
         isTold(3, cast<ShapedType>(op.getKey().getType()).getDimSize(2) == 1);
}

LogicalResult
mlir::attn::prepareCaptureGrads(AttentionOpInterface op,
                                const attn_tile::GradOperands &tensors) {
  if (tensors.captureGrads.empty())
    return success();
  Block &block = tensors.scoreModGrad->front();
  SmallVector<scf::IfOp> conditionals;
  WalkResult walk = block.walk([&](AccumulateOp add) {
    for (Operation *parent = add->getParentOp(); parent != op;
         parent = parent->getParentOp()) {
      auto conditional = dyn_cast<scf::IfOp>(parent);
      if (!conditional) {
        add.emitOpError("in '") << parent->getName() << "' has no kernel";
        return WalkResult::interrupt();
      }
      if (!llvm::is_contained(conditionals, conditional))
        conditionals.push_back(conditional);
    }
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  // Inner conditionals come first.
  auto getDepth = [&](scf::IfOp conditional) {
    int64_t depth = 0;
    for (Operation *parent = conditional; parent != op;
         parent = parent->getParentOp())
      ++depth;
    return depth;
  };
  llvm::sort(conditionals, [&](scf::IfOp a, scf::IfOp b) {
    return getDepth(a) > getDepth(b);
  });
  for (scf::IfOp conditional : conditionals)
    flatten(conditional);
  for (auto add : block.getOps<AccumulateOp>()) {
    for (unsigned i = 0; i < numElements; ++i)
      if (dependOn(block, add.getIndices(), block.getArgument(i)))
        return add.emitOpError("at indices that depend on the score has no "
                               "kernel");
    if (tensors.isDeterministic && !hasOneOwner(op, tensors, add))
      return add.emitOpError(
          "has no order of additions, but the operation must be "
          "deterministic: its indices must tell batch entry, head and key "
          "apart");
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Clones the operations that `values` depend on; returns the new values.
static SmallVector<Value> cloneSlice(OpBuilder &builder, Block &block,
                                     ValueRange values, IRMapping &mapping) {
  DenseSet<Operation *> slice = collectSlice(block, values);
  for (Operation &op : block.without_terminator())
    if (slice.contains(&op))
      builder.clone(op, mapping);
  return llvm::map_to_vector(
      values, [&](Value value) { return mapping.lookupOrDefault(value); });
}

void GradKernelWriter::emitCaptureGrads(const ScoreTile &tile, Value raw,
                                        Value grad, Value counts) {
  if (tensors.captureGrads.empty())
    return;
  Block &block = tensors.scoreModGrad->front();
  ValueRange arguments = block.getArguments();
  SmallVector<Type> indexTypes(numPosition, b.getIndexType());
  for (auto add : block.getOps<AccumulateOp>()) {
    // Most regions add the gradient as it is.
    Value terms = grad;
    if (add.getValue() != arguments[1]) {
      attn_tile::MapOp map =
          b.createMap({raw, grad}, tile.batch, tile.head, tile.firstQuery,
                      tile.firstKey, queryLength, keyLength, tile.transposed);
      Block *body = &map.getBody().front();
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(body);
      IRMapping mapping(captured);
      mapping.map(arguments.take_front(body->getNumArguments()),
                  body->getArguments());
      attn_tile::YieldOp::create(b,
                                 cloneSlice(b, block, add.getValue(), mapping));
      terms = map;
    }
    terms = arith::SelectOp::create(b, counts, terms, b.splat(tile.shape, 0));
    unsigned number = cast<BlockArgument>(add.getDestination()).getArgNumber() -
                      numElements - numPosition;
    auto scatter = attn_tile::ScatterAddOp::create(
        b, terms, get(tensors.captureGrads[number]), tile.batch, tile.head,
        tile.firstQuery, tile.firstKey, queryLength, keyLength,
        tile.transposed);
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Location> locs(numPosition, b.getLoc());
    Block *body = b.createBlock(&scatter.getBody(), {}, indexTypes, locs);
    IRMapping mapping(captured);
    mapping.map(arguments.slice(numElements, numPosition),
                body->getArguments());
    attn_tile::YieldOp::create(b,
                               cloneSlice(b, block, add.getIndices(), mapping));
  }
}
