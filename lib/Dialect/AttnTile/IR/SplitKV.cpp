//===- SplitKV.cpp - Schedules with split-KV ------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Copies schedules, with another number of split-KV work workItems.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/SplitKV.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn_tile;

Attribute attn_tile::withSplitKVWorkItems(Attribute schedule, int64_t workItems,
                                          bool balanceSplits) {
  return llvm::TypeSwitch<Attribute, Attribute>(schedule)
      .Case([&](ByAlignmentAttr choice) -> Attribute {
        auto with = [&](Attribute part) {
          return cast_if_present<attn::ScheduleAttrInterface>(
              withSplitKVWorkItems(part, workItems, balanceSplits));
        };
        auto aligned = with(choice.getAligned());
        auto otherwise = with(choice.getOtherwise());
        if (!aligned || !otherwise)
          return {};
        return ByAlignmentAttr::get(choice.getContext(), aligned, otherwise);
      })
      .Case([&](WarpSpecializedAttr old) -> Attribute {
        // Listed splits alone are sorted over all heads together.
        bool wasListed = old.getBalanceSplits() && !balanceSplits;
        return WarpSpecializedAttr::get(
            old.getContext(), old.getQueryTile(), old.getKeyTile(),
            old.getStages(), old.getConsumers(), old.getPingPong(),
            old.getTraversal(), wasListed ? 1 : old.getInterleave(),
            old.getConditionalRescale(), old.getDeferredRescale(),
            old.getQueryStages(), workItems, old.getPackGqa(),
            old.getScoreStages(), old.getL2Promotion(), old.getCtasPerSm(),
            old.getExp2Emulation(), old.getCluster(),
            // With split-KV, keys are masked by the mask_mod region, not by
            // mask bits.
            workItems == 0 && old.getMaskBits(), balanceSplits,
            old.getVHeadDimTile());
      })
      .Case([&](MultistageAttr old) -> Attribute {
        return MultistageAttr::get(old.getContext(), old.getQueryTile(),
                                   old.getKeyTile(), old.getStages(),
                                   old.getWarps(), workItems, old.getPackGqa(),
                                   balanceSplits, old.getVHeadDimTile());
      })
      .Case([&](SequentialAttr old) -> Attribute {
        return SequentialAttr::get(old.getContext(), old.getQueryTile(),
                                   old.getKeyTile(), workItems,
                                   old.getPackGqa(), balanceSplits);
      })
      .Default([](Attribute) { return Attribute(); });
}
