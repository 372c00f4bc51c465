//===- CheckRegions.cpp - Checks of regions at compile time ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reports reads of regions that are out of bounds for some pair, and masks
// whose tiles are not known at compile time where they have to be.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskAlgebra.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNCHECKREGIONSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// Any tile of queries: whether code is affine does not depend on it.
static constexpr int64_t anyTile = 64;

static MaskScope makeScope(AttentionOpInterface op) {
  auto [queryLength, keyLength] = op.getStaticLengths();
  return MaskScope(op->getContext(), queryLength, keyLength);
}

/// Checks that the mask is piecewise affine.
static LogicalResult checkStaticTiles(AttentionOpInterface op) {
  MaskScope scope = makeScope(op);
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
  MaskScope scope = makeScope(op);
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
      if (failed(checkReads(op, op.getScoreMod(), /*isMaskMod=*/false)) ||
          failed(checkReads(op, op.getMaskMod(), /*isMaskMod=*/true)))
        signalPassFailure();
    });
    markAllAnalysesPreserved();
  }
};
} // namespace
