//===- ScheduleCandidates.cpp - What families of schedules share ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts work items and ranges of tiles, and splits keys among work items.
//
//===----------------------------------------------------------------------===//

#include "ScheduleCandidates.h"
#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/AttnTile/IR/SplitKV.h"
#include "attn/PerfModel/Derivation.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::attn;

std::optional<int64_t> attn::countWorkItems(AttentionOp op, OpChain &chain,
                                            ScheduleAttrInterface schedule) {
  return countWorkItems(op, chain, schedule.getQueryTile(),
                        countHeadDimTiles(op.getVHeadDim(), schedule));
}

std::optional<int64_t> attn::countWorkItems(AttentionOp op, OpChain &chain,
                                            int64_t queryTile,
                                            int64_t headDimTiles) {
  if (op.getAddressing().isListed())
    return std::nullopt;
  // Pieces of the axes that are distributed over CTAs: tiles of axes along
  // which inputs are shared, single indices of other axes.
  int64_t items = headDimTiles;
  for (auto [number, axis] : llvm::enumerate(chain.getAxes())) {
    if (chain.whyNotDistribute(number))
      continue;
    if (ShapedType::isDynamic(axis.size))
      return std::nullopt;
    int64_t tile = chain.isReused(number) ? queryTile : 1;
    items *= int64_t(llvm::divideCeil(axis.size, tile));
  }
  return items;
}

std::optional<ScheduleCandidate>
attn::findMostScores(AttentionOp op, ArrayRef<ScheduleCandidate> candidates) {
  auto rank = [&](const ScheduleCandidate &candidate) {
    ScheduleAttrInterface schedule = candidate.schedule;
    return std::pair(countHeadDimTiles(op.getVHeadDim(), schedule),
                     -schedule.getQueryTile() * candidate.keyTile);
  };
  const auto *best = llvm::min_element(
      candidates, [&](const ScheduleCandidate &a, const ScheduleCandidate &b) {
        return rank(a) < rank(b);
      });
  if (best == candidates.end())
    return std::nullopt;
  return *best;
}

std::string attn::describeGradientTime(attn_tile::StreamingGradOpInterface op,
                                       Attribute schedule,
                                       const DeviceModel &device) {
  constexpr CostAssumptions sizes{/*dynamicSize=*/4096, /*dynamicBatch=*/4};
  VisitedTiles tiles(op, sizes,
                     /*batch=*/0, /*head=*/0, VisitedTiles::createBudget());
  if (auto byLength = dyn_cast<ByQueryLengthAttr>(schedule))
    schedule = byLength.getFor(tiles.getNumQueries());
  SmallVector<KernelTime> kernels =
      cast<ScheduleAttrInterface>(schedule).estimateKernels(tiles, device);
  if (kernels.empty())
    return "";
  return llvm::formatv("; estimated {0:f0} us for {1} queries",
                       getSeconds(kernels) * 1e6, tiles.getNumQueries())
      .str();
}

bool attn::paysToBalanceSplits(AttentionOp op) {
  return op.readsKeyLengths() && getDimSize(op.getQuery(), 0) != 1;
}

ScheduleAttrInterface
attn::splitKV(AttentionOp op, ScheduleAttrInterface schedule, int64_t items) {
  return cast<ScheduleAttrInterface>(attn_tile::withSplitKVWorkItems(
      schedule, items, paysToBalanceSplits(op)));
}

size_t attn::countTileRanges(Operation *op, MaskAttrInterface mask, MaskDim dim,
                             int64_t rowTile, int64_t columnTile) {
  // The emitted code is thrown away, so its operands do not matter.
  Region region;
  OpBuilder builder(op->getContext());
  Block *block =
      builder.createBlock(&region, {}, builder.getIndexType(), op->getLoc());
  Value any = block->getArgument(0);
  ScoreMask scores = {mask,
                      /*maskMod=*/nullptr,
                      /*batch=*/any,
                      /*head=*/any,
                      /*queryLength=*/any,
                      /*keyLength=*/any};
  TileRanges ranges = emitTileRanges(builder, op->getLoc(), scores, dim, any,
                                     rowTile, columnTile);
  return ranges.masked.size() + ranges.full.size();
}
