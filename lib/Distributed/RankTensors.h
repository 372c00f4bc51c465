//===- RankTensors.h - Tensors of ranks, and their total --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits tensors of all ranks, and additions in f32 whose order does not depend
// on the order in which ranks arrive.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_DISTRIBUTED_RANKTENSORS_H
#define ATTN_LIB_DISTRIBUTED_RANKTENSORS_H

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::attn {

/// An operand that has a chunk for each rank, and its name in diagnostics.
struct ShardedOperand {
  StringRef name;
  OpOperand *operand;
};

/// The rank that computes, of `ranks`.
struct RankOfGroup {
  int64_t ranks;
  Value rank;
};

inline RankedTensorType getTensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// The type of a chunk of each of `ranks` ranks of a tensor.
RankedTensorType getChunkType(RankedTensorType type, int64_t ranks);

/// Emits a new tensor with the dynamic sizes of `like`.
Value emitEmpty(ImplicitLocOpBuilder &b, RankedTensorType type, Value like);

/// The same, which CSE keeps apart from others: where a branch fills two
/// tensors of one type with zeros, they must not become one that it yields
/// twice, since the buffers would then live until the function returns.
Value emitAllocation(ImplicitLocOpBuilder &b, RankedTensorType type,
                     Value like);

/// Emits `destination` filled with zeros.
Value emitZeros(ImplicitLocOpBuilder &b, Value destination);

/// Emits `destination`, which has become a chunk of one of `ranks` ranks, if it
/// has contents, else a new chunk with the dynamic sizes of `like`.
Value emitChunkDestination(ImplicitLocOpBuilder &b, Value destination,
                           Value like, int64_t ranks);

/// Emits an empty chunk of one of `ranks` ranks in place of `empty`, whose
/// dynamic sizes have become the ones of a chunk, unless they are constants.
Value emitEmptyChunk(ImplicitLocOpBuilder &b, tensor::EmptyOp empty,
                     int64_t ranks);

/// Emits `part` of all of `ranks` ranks, `[ranks, ...]`.
Value emitGathered(ImplicitLocOpBuilder &b, int64_t ranks, Value part);

/// Emits part `number` of `parts`, `[ranks, ...]`.
Value emitPart(ImplicitLocOpBuilder &b, Value parts, OpFoldResult number);

/// Emits `value` with dimension `dim` as `parts` equal parts: dimension `dim`
/// counts the parts, and the next one is within a part.
Value emitSplit(ImplicitLocOpBuilder &b, Value value, int64_t dim,
                int64_t parts);

/// Emits `value` with dimensions `dim` and `dim + 1` as one.
Value emitMerged(ImplicitLocOpBuilder &b, Value value, int64_t dim);

/// Emits `value` with its dimensions in the order of `permutation`. It is not
/// copied if only dimensions of size 1 move.
Value emitTransposed(ImplicitLocOpBuilder &b, Value value,
                     ArrayRef<int64_t> permutation);

/// Emits the parts `[ranks, ...]` that the ranks send to this one, which sends
/// `parts[r, ...]` to rank `r`.
Value emitExchanged(ImplicitLocOpBuilder &b, Value parts);

/// Emits the sum of the f32 tensors `parts[r, ...]`, in the order of `r`.
Value emitSumOfParts(ImplicitLocOpBuilder &b, Value parts);

/// Emits the sum of `terms`, f32 tensors of one type, in their order.
Value emitSum(ImplicitLocOpBuilder &b, ValueRange terms);

/// Emits `value`, an f32 tensor, in the type of `destination`. It goes there,
/// unless that is new, or a slice of the type of `value`.
Value emitRounded(ImplicitLocOpBuilder &b, Value value, Value destination);

} // namespace mlir::attn

#endif // ATTN_LIB_DISTRIBUTED_RANKTENSORS_H
