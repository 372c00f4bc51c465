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
#include "attn/Dialect/AttnTile/IR/AttnTileParameters.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn_tile;

Attribute attn_tile::withSplitKVWorkItems(Attribute schedule, int64_t workItems,
                                          bool balanceSplits) {
  auto split = [&](auto parameters) -> Attribute {
    parameters.splitKvWorkItems = workItems;
    parameters.balanceSplits = balanceSplits;
    return parameters.get(schedule.getContext());
  };
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
        WarpSpecializedParameters parameters(old);
        // Listed splits alone are sorted over all heads together.
        if (parameters.balanceSplits && !balanceSplits)
          parameters.interleave = 1;
        // With split-KV, keys are masked by the mask_mod region, not by mask
        // bits.
        if (workItems != 0)
          parameters.maskBits = false;
        return split(parameters);
      })
      .Case(
          [&](MultistageAttr old) { return split(MultistageParameters(old)); })
      .Case(
          [&](SequentialAttr old) { return split(SequentialParameters(old)); })
      .Default([](Attribute) { return Attribute(); });
}
