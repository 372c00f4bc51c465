//===- ElementLoop.h - Long regions in a loop -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs a long scalar region in a loop over the registers of a thread, since the
// time to compile a copy of it for each register would be out of proportion.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTILETONVVM_ELEMENTLOOP_H
#define ATTN_LIB_CONVERSION_ATTNTILETONVVM_ELEMENTLOOP_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::attn {

/// A loop over the registers of a tile, of which each has a row and a column.
class ElementLoop {
public:
  /// The offsets are positions of row and column registers of a thread,
  /// relative to its first one.
  ElementLoop(OpBuilder &builder, Location loc, ArrayRef<int64_t> rowOffsets,
              ArrayRef<int64_t> columnOffsets)
      : builder(builder), loc(loc), rowOffsets(rowOffsets),
        columnOffsets(columnOffsets) {}

  /// Whether so many operations for each register are emitted in a loop, and
  /// the layout allows it.
  bool isWorthwhile(int64_t numOperations) const;

  /// What an iteration gets: i32 values.
  struct Element {
    Value number, row, rowOffset, columnOffset;
  };

  /// Emits the loop; `emit` returns an i1. Returns the one of each register.
  SmallVector<Value> emitBits(function_ref<Value(const Element &)> emit);

  /// Emits the loop; `emit` returns a value of `type`. Returns the one of each
  /// register.
  SmallVector<Value> emitValues(Type type,
                                function_ref<Value(const Element &)> emit);

  /// Keeps registers in memory of the thread, for `load` in the loop.
  Value store(ValueRange registers);
  Value load(Type type, Value memory, Value number);

private:
  int64_t getNumRegisters() const {
    return rowOffsets.size() * columnOffsets.size();
  }
  Value emitOffset(Value number, ArrayRef<int64_t> offsets);
  Element emitElement(Value number);
  Value createMemory(Type type, int64_t size);

  OpBuilder &builder;
  Location loc;
  ArrayRef<int64_t> rowOffsets, columnOffsets;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTILETONVVM_ELEMENTLOOP_H
