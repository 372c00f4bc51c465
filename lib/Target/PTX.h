//===- PTX.h - Pieces of inline PTX ---------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Helpers with which the targets write instructions that have no operation
// upstream.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_TARGET_PTX_H
#define ATTN_LIB_TARGET_PTX_H

#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

namespace mlir::attn::ptx {

/// Emits `code` with side effects and no result. Operands are `$0`, `$1`, ...
void emit(OpBuilder &builder, Location loc, StringRef code,
          StringRef constraints, ValueRange operands = {});

/// Emits `code` whose first operands are results of `types`; returns them.
SmallVector<Value> emitWithResults(OpBuilder &builder, Location loc,
                                   TypeRange types, StringRef code,
                                   StringRef constraints, ValueRange operands);

/// Emits `code` without side effects, whose first operand is the result.
Value emitPure(OpBuilder &builder, Location loc, Type type, StringRef code,
               StringRef constraints, ValueRange operands);

/// The text `{$first,$first+1,...}` of `count` operands.
std::string registerList(unsigned first, unsigned count);

/// `count` constraints of the same kind, joined by commas: "=f,=f,...".
std::string repeat(StringRef constraint, unsigned count);

/// Constraints that tie inputs to the outputs `0` to `count - 1`.
std::string tied(unsigned count);

/// Stores zeros to `[begin, end)` of shared memory, both `i32`, in chunks of 16
/// bytes that go round-robin to the threads numbered by `thread`.
void emitClear(OpBuilder &builder, Location loc, Value begin, Value end,
               Value thread, int64_t numThreads);

/// Where a row is stored: the first index of the source, and the last but one.
struct RowPlace {
  Value entry, row;
};

/// Emits the places of keys `positions` (`i32`), whose first index in `op` is
/// `entry`: in pages, or as an addressing stores them. Pages that are none are
/// reported. Keys from the number of keys on have page -1, and their entries
/// are not read.
SmallVector<RowPlace> emitRowPlaces(OpBuilder &builder, attn_tile::CopyOp op,
                                    const CopiedRows &rows, Value entry,
                                    ValueRange positions);

/// An `i32` constant.
Value constant(OpBuilder &builder, Location loc, int32_t value);

} // namespace mlir::attn::ptx

#endif // ATTN_LIB_TARGET_PTX_H
