//===- AttnOps.h - Operations of the attn dialect ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention, its gradient and the operations of their regions.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNOPS_H
#define ATTN_DIALECT_ATTN_IR_ATTNOPS_H

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>
#include <string>

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnOps.h.inc"

namespace mlir::attn {

/// Whether `keep`, the keep region of an attention or an empty one, reads a
/// tensor or memref at a place that depends on the query or the key. What it
/// reads elsewhere, such as a length for each batch entry, is one value for a
/// tile.
bool readsByPosition(Region &keep);

/// Why the query heads of `attention` that share a key head cannot be rows of
/// one tile of queries; `std::nullopt` if they can.
std::optional<std::string> whyNotPackHeads(AttentionOp attention);

/// Why several work items cannot share the keys of one tile of queries of
/// `attention` (`ScheduleAttrInterface::getSplitItems`); `std::nullopt` if they
/// can.
std::optional<std::string> whyNotShareKeys(AttentionOp attention);

/// Why work items of neighbouring tiles of queries of `attention` cannot walk
/// over keys together (`ScheduleAttrInterface::getClusterSize`); `std::nullopt`
/// if they can.
std::optional<std::string> whyNotCluster(AttentionOp attention);

/// Checks that the sizes of a plan of a mask suffice for the lengths and the
/// tiles of `schedule`, as far as these are known.
LogicalResult verifyPlanSizes(Operation *op, Value plan, Attribute schedule,
                              int64_t queries, int64_t keys);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_ATTNOPS_H
