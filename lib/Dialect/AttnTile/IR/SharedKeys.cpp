//===- SharedKeys.cpp - Schedules that share keys -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Copies schedules but for one parameter.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/SharedKeys.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn_tile;

Attribute attn_tile::withSplitItems(Attribute schedule, int64_t items) {
  return llvm::TypeSwitch<Attribute, Attribute>(schedule)
      .Case([&](ByAlignmentAttr choice) -> Attribute {
        auto with = [&](Attribute part) {
          return cast_if_present<attn::ScheduleAttrInterface>(
              withSplitItems(part, items));
        };
        auto aligned = with(choice.getAligned());
        auto otherwise = with(choice.getOtherwise());
        if (!aligned || !otherwise)
          return {};
        return ByAlignmentAttr::get(choice.getContext(), aligned, otherwise);
      })
      .Case([&](WarpSpecializedAttr old) -> Attribute {
        return WarpSpecializedAttr::get(
            old.getContext(), old.getQueryTile(), old.getKeyTile(),
            old.getStages(), old.getConsumers(), old.getPingPong(),
            old.getTraversal(), old.getInterleave(), old.getLazyRescale(),
            old.getDelayRescale(), old.getQueryStages(), items,
            old.getPackHeads(), old.getScoreStages(), old.getL2Promotion(),
            old.getGroups(), old.getPolynomialExp2(), old.getCluster(),
            // Keys that are shared are masked by the region.
            items == 0 && old.getPairBits());
      })
      .Case([&](MultistageAttr old) -> Attribute {
        return MultistageAttr::get(old.getContext(), old.getQueryTile(),
                                   old.getKeyTile(), old.getStages(),
                                   old.getWarps(), items, old.getPackHeads());
      })
      .Case([&](SequentialAttr old) -> Attribute {
        return SequentialAttr::get(old.getContext(), old.getQueryTile(),
                                   old.getKeyTile(), items, old.getPackHeads());
      })
      .Default([](Attribute) { return Attribute(); });
}
