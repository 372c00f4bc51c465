//===- KernelDropout.h - Dropout in tiled programs --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the writers of tiled programs share of dropout.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTOATTNTILE_KERNELDROPOUT_H
#define ATTN_LIB_CONVERSION_ATTNTOATTNTILE_KERNELDROPOUT_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {

/// The dropout of an operation, if it has any.
class KernelDropout {
public:
  explicit KernelDropout(AttentionOpInterface op) : op(op) {}

  explicit operator bool() const { return op.getDropoutAttr() != nullptr; }

  /// Fails if the tiles of `schedule` cut decision words.
  LogicalResult check(ScheduleAttrInterface schedule) const;

  /// Reports the effective p.
  void report() const;

  /// Adds the operands that kernels must be given: those that are no constants.
  void addOperands(SetVector<Value> &operands) const;

  /// Emits the random numbers of a batch entry and head, in a kernel whose
  /// operands `captured` maps.
  SmallVector<Value> emitStream(OpBuilder &builder, const IRMapping &captured,
                                Value batch, Value head) const;

  /// Emits the tile of weights with zeros where they are dropped; `weights` if
  /// there is no dropout. What is kept is left to be divided by
  /// `getKeepProbability`.
  Value emitDrop(OpBuilder &builder, Value weights, Value firstQuery,
                 Value firstKey, ValueRange stream,
                 bool transposed = false) const;

  /// One without dropout.
  double getKeepProbability() const {
    return *this ? op.getDropoutAttr().getKeepProbability() : 1;
  }

private:
  // Interfaces have no constant methods.
  mutable AttentionOpInterface op;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTOATTNTILE_KERNELDROPOUT_H
