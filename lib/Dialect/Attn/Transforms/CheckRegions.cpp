//===- CheckRegions.cpp - Checks of regions at compile time ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reports reads of regions that are out of bounds for some pair, masks whose
// tiles are not known at compile time where they have to be, and regions that
// would take minutes to compile.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskAlgebra.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNCHECKREGIONSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// Any tile of queries: whether code is affine does not depend on it.
static constexpr int64_t anyTile = 64;

/// Values of a region that are needed later at the same time, beyond which it
/// takes LLVM or the assembler more than 10 seconds to spill them.
static constexpr size_t maxLiveValues = 2500;

/// Operations of a region beyond which its kernels take more than 10 seconds.
static constexpr size_t maxOperations = 15'000;

/// Checks that the mask is piecewise affine.
static LogicalResult checkStaticTiles(AttentionOpInterface op) {
  MaskScope scope(op);
  MaskAnalysis analysis(scope.getPositions());
  if (MaskAttrInterface mask = op.getMaskAttr())
    analysis.restrict(scope.getPredicate(mask));
  if (!op.getMaskMod().empty())
    analysis.restrict(scope.clonePredicate(op.getMaskMod()));
  analysis.setTile(MaskDim::Query, anyTile);
  analysis.getAttended();
  analysis.getMasked();
  if (analysis.getNotAffine().empty())
    return success();
  InFlightDiagnostic diag = op->emitOpError()
                            << "with '" << AttnDialect::getStaticTilesAttrName()
                            << "' must have a mask that is piecewise affine in "
                               "the positions";
  for (const NotAffine &part : analysis.getNotAffine())
    diag.attachNote(isa<UnknownLoc>(part.loc) ? op.getLoc() : part.loc)
        << part.reason;
  return diag;
}

/// The value and the indices that an operation reads; null if it reads none.
static std::pair<Value, OperandRange> getRead(Operation *op) {
  if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    return {extract.getTensor(), extract.getIndices()};
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return {load.getMemRef(), load.getIndices()};
  return {Value(), op->getOperands().take_front(0)};
}

/// Checks the reads of `region` that happen for all pairs that the mask keeps.
static LogicalResult checkReads(AttentionOpInterface op, Region &region,
                                bool isMaskMod) {
  if (region.empty())
    return success();
  MaskScope scope(op);
  IRMapping mapping;
  scope.clone(region, mapping);
  LogicalResult result = success();
  for (Operation &nested : region.front()) {
    auto [source, indices] = getRead(&nested);
    if (!source)
      continue;
    for (auto [dim, index] : llvm::enumerate(indices)) {
      int64_t size = getDimSize(source, dim);
      if (ShapedType::isDynamic(size))
        continue;
      // Scores of pairs that are masked out do not matter.
      MaskAnalysis analysis(scope.getPositions());
      if (MaskAttrInterface mask = op.getMaskAttr())
        analysis.restrict(scope.getPredicate(mask));
      if (!isMaskMod && !op.getMaskMod().empty())
        analysis.restrict(scope.clonePredicate(op.getMaskMod()));
      std::optional<MaskAnalysis::OutOfBounds> found = analysis.findOutOfBounds(
          mapping.lookupOrDefault(index), size, getDimSize(op.getQuery(), 0),
          op.getNumQueryHeads());
      if (!found)
        continue;
      InFlightDiagnostic diag = nested.emitOpError()
                                << "reads out of bounds: index " << dim
                                << " is " << found->index << ", but dimension "
                                << dim << " has size " << size;
      diag.attachNote(op.getLoc())
          << "for batch " << found->batch << ", head " << found->head
          << ", query " << found->query << " and key " << found->key;
      result = diag;
    }
  }
  return result;
}

/// The most values of `block` that operations behind one of its operations use.
/// Constants are no such values.
static size_t countLiveValues(Block &block) {
  // For each value that is live, the last operation of the block that uses it.
  DenseMap<Value, Operation *> lastUses;
  for (Operation &op : block)
    op.walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (operand.getParentBlock() == &block &&
            !matchPattern(operand, m_Constant()))
          lastUses[operand] = &op;
    });
  DenseMap<Operation *, size_t> ends;
  for (auto [value, op] : lastUses)
    ++ends[op];
  auto countUsed = [&](ValueRange values) {
    return llvm::count_if(values,
                          [&](Value v) { return lastUses.contains(v); });
  };
  size_t live = countUsed(block.getArguments()), most = live;
  for (Operation &op : block) {
    live += countUsed(op.getResults());
    live -= ends.lookup(&op);
    most = std::max(most, live);
  }
  return most;
}

static size_t countOperations(Region &region) {
  size_t count = 0;
  region.walk([&](Operation *) { ++count; });
  return count;
}

/// Checks that the regions of `op` compile in reasonable time.
static LogicalResult checkWork(Operation *op) {
  for (Region &region : op->getRegions()) {
    if (size_t count = countOperations(region); count > maxOperations)
      return op->emitOpError()
             << "has a region of " << count
             << " operations, more than the limit of " << maxOperations;
    for (Block &block : region)
      if (size_t live = countLiveValues(block); live > maxLiveValues)
        return op->emitOpError()
               << "has a region that needs " << live
               << " values at the same time, more than the limit of "
               << maxLiveValues;
  }
  return success();
}

/// Checks that operations within `op` have one meaning.
static LogicalResult checkMeaning(Operation *op) {
  WalkResult walk = op->walk([](math::ClampFOp clamp) {
    clamp.emitOpError("is refused, as MLIR defines and lowers it with its "
                      "bounds in either order; use arith.maximumf of the value "
                      "and the lower bound, and arith.minimumf of that");
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

namespace {
struct AttnCheckRegionsPass
    : attn::impl::AttnCheckRegionsPassBase<AttnCheckRegionsPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(checkMeaning(getOperation())))
      return signalPassFailure();
    getOperation()->walk([&](AttentionOpInterface op) {
      if (op->hasAttr(AttnDialect::getStaticTilesAttrName()) &&
          failed(checkStaticTiles(op)))
        signalPassFailure();
      if (failed(checkWork(op)) ||
          failed(checkReads(op, op.getScoreMod(), /*isMaskMod=*/false)) ||
          failed(checkReads(op, op.getMaskMod(), /*isMaskMod=*/true)))
        signalPassFailure();
    });
    markAllAnalysesPreserved();
  }
};
} // namespace
