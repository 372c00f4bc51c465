//===- SharedKeys.h - Schedules that share keys --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Changes among how many work items a schedule of the dialect shares keys.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_SHAREDKEYS_H
#define ATTN_DIALECT_ATTNTILE_IR_SHAREDKEYS_H

#include "mlir/IR/Attributes.h"

namespace mlir::attn_tile {

/// `schedule` with keys that are shared until there are `items` work items, or
/// with none if that is 0. Null if it cannot share keys.
Attribute withSplitItems(Attribute schedule, int64_t items);

} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_IR_SHAREDKEYS_H
