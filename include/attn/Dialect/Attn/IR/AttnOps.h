//===- AttnOps.h - Operations of the attn dialect --------------*- C++ -*--===//
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
#include "attn/Dialect/Attn/IR/VerifiedSegments.h"
#include "attn/Interfaces/DescribableOpInterface.h"
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

/// Whether `maskMod`, the mask_mod region of an attention or an empty one,
/// reads a tensor or memref at an index that depends on the query or the key.
/// Other reads, such as a length for each batch entry, give one value for a
/// tile.
bool readsByPosition(Region &maskMod);

/// Whether kernels that run before `attention` classify the tiles of its mask,
/// for lists over which it iterates: the mask reads tensors, or it has
/// `attn.classified_tiles`.
bool needsClassification(AttentionOpInterface attention);

/// Why the query heads of a GQA group of `attention` cannot be packed into the
/// rows of one query tile; `std::nullopt` if they can.
std::optional<std::string> whyNotPackGqa(AttentionOp attention);

/// The same where the operands must be reshaped: kernels of hosts have no
/// `attn_tile.pack_gqa`.
std::optional<std::string> whyNotReshapeGqa(AttentionOp attention);

/// Why kernels of GPUs cannot multiply 8-bit queries and keys of `attention`,
/// and 8-bit values in a transposed buffer; `std::nullopt` if they can.
std::optional<std::string> whyNotFloat8(AttentionOp attention);

/// Why the keys of a query tile of `attention` cannot be split among several
/// work items (`ScheduleAttrInterface::getSplitKvWorkItems`); `std::nullopt` if
/// they can.
std::optional<std::string> whyNotSplitKV(AttentionOp attention);

/// Why work items of neighbouring query tiles of `attention` cannot iterate
/// over keys together (`ScheduleAttrInterface::getClusterSize`); `std::nullopt`
/// if they can.
std::optional<std::string> whyNotCluster(AttentionOp attention);

/// The number of work items that compute the `headDim` columns of a result, if
/// one of them has `tile` columns, or all columns if `tile` is 0
/// (`ScheduleAttrInterface::getHeadDimTile`).
inline int64_t countHeadDimTiles(int64_t headDim, int64_t tile) {
  return tile == 0 ? 1 : (headDim + tile - 1) / tile;
}

/// The same for a schedule, whose work items may have several consumers with
/// columns of their own (`ScheduleAttrInterface::getColumnConsumers`).
inline int64_t countHeadDimTiles(int64_t headDim,
                                 ScheduleAttrInterface schedule) {
  return countHeadDimTiles(headDim, schedule.getHeadDimTile() *
                                        schedule.getColumnConsumers());
}

/// Whether the values of `attention` are the first elements of its keys, as in
/// multi-head latent attention: a slice of them, as a tensor or a memref.
bool hasValuesInKeys(AttentionOpInterface attention);

/// Checks that the sizes of a block mask suffice for the lengths and the
/// tiles of `schedule`, as far as these are known.
LogicalResult verifyBlockMaskSizes(Operation *op, Value blockMask,
                                   Attribute schedule, int64_t queries,
                                   int64_t keys);

/// Emits the pair that `at`, the arguments of a mask_mod region of `op`, stands
/// for: batch, head, query and key. `storedQueries` and `storedKeys` are the
/// numbers that are stored; the lengths of sequences and KV caches are read.
/// Leaves operations that nothing uses where these have other information, too.
MaskPosition emitMaskPosition(OpBuilder &builder, Location loc,
                              AttentionOpInterface op, ValueRange at,
                              Value storedQueries, Value storedKeys);

} // namespace mlir::attn

#endif // ATTN_DIALECT_ATTN_IR_ATTNOPS_H
