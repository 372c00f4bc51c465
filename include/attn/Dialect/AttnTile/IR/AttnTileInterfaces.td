//===- AttnTileInterfaces.td - Interfaces of attn_tile -----*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How register tiles are spread over threads.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_ATTNTILEINTERFACES_TD
#define ATTN_DIALECT_ATTNTILE_IR_ATTNTILEINTERFACES_TD

include "mlir/IR/OpBase.td"

def AttnTile_ThreadLayoutAttrInterface
    : AttrInterface<"ThreadLayoutAttrInterface"> {
  let cppNamespace = "::mlir::attn_tile";
  let description = [{
    How the elements of a register tile are spread over the threads of a role:
    a map (thread, register) -> (row, column) for `vector<MxN>`. `vector<M>` and
    `vector<Mx1>` have one value per row, `vector<1xN>` one value per column.
    Every thread that owns an element of a row or column holds a copy of its
    value.

    The map is separable: the row depends on (thread, row register), the column
    on (thread, column register). Register `r * numColumnRegisters + c` holds
    row register `r` and column register `c`.
  }];
  let methods = [
    InterfaceMethod<"Number of threads that hold a tile together.",
      "int64_t", "getNumThreads", (ins)>,
    InterfaceMethod<"Whether tiles of this shape can be spread.",
      "bool", "supports", (ins "::llvm::ArrayRef<int64_t>":$shape)>,
    InterfaceMethod<"Rows that one thread holds of a tile with `rows` rows.",
      "int64_t", "getRowRegisters", (ins "int64_t":$rows)>,
    InterfaceMethod<"Columns that one thread holds of each of its rows.",
      "int64_t", "getColumnRegisters", (ins "int64_t":$columns)>,
    InterfaceMethod<[{
        The row of the thread's row register 0, as an `i32` computed from the
        `i32` index of the thread within its role.
      }],
      "::mlir::Value", "emitBaseRow",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "::mlir::Value":$thread)>,
    InterfaceMethod<"Row of row register `r`, counted from the base row.",
      "int64_t", "getRowOffset", (ins "int64_t":$r)>,
    InterfaceMethod<"The column of the thread's column register 0, an `i32`.",
      "::mlir::Value", "emitBaseColumn",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "::mlir::Value":$thread)>,
    InterfaceMethod<"Column of column register `c`, from the base column.",
      "int64_t", "getColumnOffset", (ins "int64_t":$c)>,
    InterfaceMethod<[{
        Lane masks of the butterfly shuffles that combine the partial results
        of the threads that own one row. All of these threads are in one warp.
      }],
      "::llvm::SmallVector<int64_t>", "getRowShuffles", (ins)>,
    InterfaceMethod<[{
        Lane masks of the butterfly shuffles that combine the partial results
        of the threads of a warp that own one column. Other warps may own it,
        too.
      }],
      "::llvm::SmallVector<int64_t>", "getColumnShuffles", (ins)>,
  ];
}

def AttnTile_MmaAttrInterface : AttrInterface<"MmaAttrInterface"> {
  let cppNamespace = "::mlir::attn_tile";
  let description = [{
    A matrix instruction, which multiplies a tile of `getRows()` rows and
    `getDepth()` columns by one of as many rows and up to `getMaxColumns()`
    columns. Its accumulator is f32 and has the layout of
    `#attn_tile.row_blocks`. The compiler asks this interface for the bytes of
    elements, the steps of the contracted dimension, the operands that may be
    transposed, and the time.
  }];
  let methods = [
    InterfaceMethod<"Type of the elements in memory and in registers.",
      "::mlir::Type", "getElementType", (ins)>,
    InterfaceMethod<[{
        Type to which elements are rounded before they are multiplied.
      }],
      "::mlir::Type", "getMultiplicandType", (ins)>,
    InterfaceMethod<"Type of the accumulator's elements.",
      "::mlir::Type", "getAccumulatorType", (ins)>,
    InterfaceMethod<"Rows of the result of one instruction.",
      "int64_t", "getRows", (ins)>,
    InterfaceMethod<"Columns of the result of one instruction, at most.",
      "int64_t", "getMaxColumns", (ins)>,
    InterfaceMethod<"Elements of the contracted dimension of one instruction.",
      "int64_t", "getDepth", (ins)>,
    InterfaceMethod<"Threads that execute one instruction together.",
      "int64_t", "getNumThreads", (ins)>,
    InterfaceMethod<[{
        Whether the instruction reads staged operands itself. Otherwise threads
        load them to registers first.
      }],
      "bool", "readsSharedMemory", (ins)>,
    InterfaceMethod<[{
        Whether a staged left-hand side of which columns are contiguous, and a
        right-hand side of which rows are, can be read. The other order always
        can.
      }],
      "bool", "supportsMNMajor", (ins)>,
    InterfaceMethod<[{
        The contracted indices, from 0 to `getDepth() - 1`, of a thread's
        elements of one row of the left-hand side in registers, in the order of
        the registers. `lane` is the thread's lane in its quad. Operands that
        threads load have the same order. It need not be the instruction's,
        whose sum does not depend on it.
      }],
      "::llvm::SmallVector<int64_t>", "getFragmentIndices",
      (ins "int64_t":$lane)>,
    InterfaceMethod<[{
        Instructions for each step of the contracted dimension: more than one if
        an element is split into several multiplicands.
      }],
      "int64_t", "getNumTerms", (ins)>,
    InterfaceMethod<[{
        FLOP per cycle of an SM of `device`, in which the terms of an element
        count once; 0 if they are not known.
      }],
      "double", "getFlopsPerCycle",
      (ins "const ::mlir::attn::DeviceFigures &":$device)>,
  ];
  let extraSharedClassDeclaration = [{
    /// Bytes of an element.
    int64_t getElementBytes() const {
      return $_attr.getElementType().getIntOrFloatBitWidth() / 8;
    }
  }];
}

#endif // ATTN_DIALECT_ATTNTILE_IR_ATTNTILEINTERFACES_TD
