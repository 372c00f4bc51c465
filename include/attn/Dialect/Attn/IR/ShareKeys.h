//===- ShareKeys.h - Whether work items can share keys ----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where queries are few, several work items may share the keys of one tile of
// queries (`ScheduleAttrInterface::getSplitItems`). Not all attention can be
// merged from what they compute.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_SHAREKEYS_H
#define ATTN_DIALECT_ATTN_IR_SHAREKEYS_H

#include "attn/Dialect/Attn/IR/AttnOps.h"

#include <optional>
#include <string>

namespace mlir::attn {

/// Why several work items cannot share the keys of one tile of queries of
/// `attention`; `std::nullopt` if they can.
std::optional<std::string> whyNotShareKeys(AttentionOp attention);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_SHAREKEYS_H
