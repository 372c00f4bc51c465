//===- ClassifyMasks.cpp - Masks whose tiles have no closed form ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Marks attention whose mask the analysis does not solve, so that kernels
// classify its tiles.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNCLASSIFYMASKSPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

#define DEBUG_TYPE "attn-classify-masks"

using namespace mlir;
using namespace mlir::attn;

/// Queries for which the kernels that classify tiles, three launches, take less
/// time than the tiles that attention leaves out.
static constexpr int64_t minClassifiedQueries = 64;

/// Whether kernels may classify the tiles of `op`, and do not do so anyway.
static bool mayClassify(AttentionOpInterface op) {
  int64_t queries = getDimSize(op.getQuery(), 2);
  return !op.getMaskMod().empty() && !op.readsKeyLengths() &&
         !op->hasAttr(AttnDialect::getStaticTilesAttrName()) &&
         !needsClassification(op) &&
         (ShapedType::isDynamic(queries) || queries >= minClassifiedQueries);
}

namespace {
struct AttnClassifyMasksPass
    : attn::impl::AttnClassifyMasksPassBase<AttnClassifyMasksPass> {
  using Base::Base;

  void runOnOperation() override {
    StringRef name = AttnDialect::getClassifiedTilesAttrName();
    getOperation()->walk([&](AttentionOpInterface op) {
      if (!mayClassify(op) || hasClosedFormTiles(op)) {
        LDBG() << "the tiles of the mask have a closed form, or no region: "
               << *op;
        return;
      }
      remark::passed(op.getLoc(), remark::RemarkOpts::name("mask").category(
                                      "attn-classify-masks"))
          << "the tiles of the mask have no closed form: kernels classify them "
             "before the attention";
      op->setAttr(name, UnitAttr::get(&getContext()));
      ++numMasks;
    });
    markAllAnalysesPreserved();
  }
};
} // namespace
