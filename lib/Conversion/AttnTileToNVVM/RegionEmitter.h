//===- RegionEmitter.h - Scalar regions on registers --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the code by which a thread runs a scalar region for its elements of a
// tile.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_ATTNTILETONVVM_REGIONEMITTER_H
#define ATTN_LIB_CONVERSION_ATTNTILETONVVM_REGIONEMITTER_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::attn {

/// Emits a region for the elements of a tile that a thread holds. Values that
/// do not depend on the row or on the column are emitted once for all elements.
///
/// A position is a base, which differs between threads, plus an offset, a
/// constant of the register. Both are kept apart as long as the value is linear
/// in the offset: adding and subtracting positions, conversion to floats, and
/// adding or multiplying by a uniform value. So a distance is one subtraction
/// of bases for all elements, and `slope * (key - query)` is one fused
/// multiplication with a constant for each.
///
/// Float operations may be contracted.
class RegionEmitter {
public:
  RegionEmitter(OpBuilder &builder, Block &body, int64_t rows, int64_t columns)
      : builder(builder), body(body), rows(rows), columns(columns) {}

  /// Sets an argument that is the same for all elements.
  void setUniform(BlockArgument argument, Value value) {
    values[argument] = {Varies::Never, {Term{value}}};
  }
  /// Sets an argument with a value for each row or column register, or each
  /// register of the tile.
  void setRows(BlockArgument argument, ValueRange registers) {
    set(argument, Varies::ByRow, registers);
  }
  void setElements(BlockArgument argument, ValueRange registers) {
    set(argument, Varies::ByElement, registers);
  }
  /// Sets an argument to positions: a base and an offset for each register.
  void setRowPositions(BlockArgument argument, Value base,
                       ArrayRef<int64_t> offsets) {
    setPositions(argument, Varies::ByRow, base, offsets);
  }
  void setColumnPositions(BlockArgument argument, Value base,
                          ArrayRef<int64_t> offsets) {
    setPositions(argument, Varies::ByColumn, base, offsets);
  }

  /// Emits the values that are the same for several elements, at the insertion
  /// point. If values of a column read more than `maxLoads` tensors, they are
  /// left to `emitElements`: each would occupy a register in between.
  void emitShared(unsigned maxLoads);
  /// Emits the rest, perhaps at another insertion point. Returns the yielded
  /// value for each register of the tile.
  SmallVector<Value> emitElements();
  /// `base + offset * factor`; a null factor stands for one, also where a float
  /// has an offset.
  struct Term {
    Value base = nullptr;
    int64_t offset = 0;
    Value factor = nullptr;

    bool isPlain() const { return offset == 0; }
  };
  /// Whether the yielded value differs from row to row, or from column to
  /// column, once `emitShared` has been called.
  bool yieldsByRow() const { return getYieldVariation() & ByRow; }
  bool yieldsByColumn() const { return getYieldVariation() & ByColumn; }
  /// Emits the rest and calls `use` with the yielded value of each register. If
  /// the value is the same for all rows or columns, only registers of the first
  /// row or column are visited.
  void emitEach(
      function_ref<void(int64_t row, int64_t column, ArrayRef<Term> yielded)>
          use);
  /// Emits the region as a whole.
  SmallVector<Value> run() {
    emitShared(/*maxLoads=*/1);
    return emitElements();
  }

private:
  /// The axes that a value depends on, as a set of bits.
  enum Varies : unsigned { Never = 0, ByRow = 1, ByColumn = 2, ByElement = 3 };

  struct Terms {
    Varies varies;
    SmallVector<Term> terms;
  };
  /// An operation on bases, to emit it only once.
  using BaseKey = std::tuple<Operation *, Value, Value>;

  void set(BlockArgument argument, Varies varies, ValueRange registers);
  void setPositions(BlockArgument argument, Varies varies, Value base,
                    ArrayRef<int64_t> offsets);
  Varies getVariation(Operation *op) const;
  Varies getYieldVariation() const {
    return getVariation(body.getTerminator());
  }
  int64_t getNumTerms(Varies varies) const;
  Term &getTerm(Value value, int64_t row, int64_t column);
  void emit(Operation *op, int64_t row, int64_t column);
  std::optional<Term> emitLinear(Operation *op, ArrayRef<Term> operands);
  Value emitOnBases(Operation *op, Value lhs, Value rhs = Value());
  /// The value of a term.
  Value materialize(Location loc, const Term &term);
  /// Whether integer `value` cannot have wrapped around.
  bool isExact(Value value);
  void inferRanges();

  OpBuilder &builder;
  Block &body;
  int64_t rows, columns;
  /// Operations that are not emitted yet because their results differ from
  /// element to element, or from column to column.
  SmallVector<Operation *> elementOps, columnOps;
  DenseMap<Value, Terms> values;
  DenseMap<BaseKey, Value> bases;
  DenseMap<Value, ConstantIntRanges> ranges;
};

} // namespace mlir::attn

#endif // ATTN_LIB_CONVERSION_ATTNTILETONVVM_REGIONEMITTER_H
