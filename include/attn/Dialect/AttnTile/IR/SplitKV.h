//===- SplitKV.h - Schedules with split-KV ---------------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Changes the number of split-KV work items of a schedule of the dialect.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_SPLITKV_H
#define ATTN_DIALECT_ATTNTILE_IR_SPLITKV_H

#include "mlir/IR/Attributes.h"

namespace mlir::attn_tile {

/// `schedule` with keys and values that are split until there are `workItems`
/// work items, or without splits if `workItems` is 0, and with `balanceSplits`.
/// Null if it does not support split-KV.
Attribute withSplitKVWorkItems(Attribute schedule, int64_t workItems,
                               bool balanceSplits = false);

} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_IR_SPLITKV_H
