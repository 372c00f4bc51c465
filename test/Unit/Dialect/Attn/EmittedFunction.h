//===- EmittedFunction.h - Evaluation of emitted code -----------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates code that attributes emit, by folding.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_DIALECT_ATTN_EMITTEDFUNCTION_H
#define ATTN_TEST_UNIT_DIALECT_ATTN_EMITTEDFUNCTION_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/DenseMap.h"

#include "gtest/gtest.h"

namespace mlir::attn {

/// A function of integers whose body an attribute emits.
class EmittedFunction {
public:
  explicit EmittedFunction(ArrayRef<Type> arguments)
      : loc(UnknownLoc::get(arguments.front().getContext())),
        builder(arguments.front().getContext()) {
    for (Type type : arguments)
      block.addArgument(type, loc);
    builder.setInsertionPointToStart(&block);
  }

  OpBuilder &getBuilder() { return builder; }
  Location getLoc() const { return loc; }
  Value getArgument(unsigned i) { return block.getArgument(i); }

  /// Evaluates the body for `arguments`.
  void run(ArrayRef<int64_t> arguments) {
    values.clear();
    for (auto [argument, value] :
         llvm::zip_equal(block.getArguments(), arguments))
      values[argument] = builder.getIntegerAttr(argument.getType(), value);
    for (Operation &op : block) {
      SmallVector<Attribute> operands;
      for (Value operand : op.getOperands())
        operands.push_back(values.lookup(operand));
      SmallVector<OpFoldResult> folded;
      ASSERT_TRUE(succeeded(op.fold(operands, folded)));
      ASSERT_EQ(folded.size(), op.getNumResults());
      for (auto [result, value] : llvm::zip_equal(op.getResults(), folded)) {
        auto attribute = dyn_cast<Attribute>(value);
        values[result] =
            attribute ? attribute : values.lookup(cast<Value>(value));
      }
    }
  }

  /// The value that `result` got in the last run.
  int64_t get(Value result) const {
    auto value = dyn_cast_or_null<IntegerAttr>(values.lookup(result));
    EXPECT_TRUE(value);
    return value ? value.getValue().getZExtValue() : -1;
  }

private:
  Location loc;
  OpBuilder builder;
  Block block;
  llvm::DenseMap<Value, Attribute> values;
};

} // namespace mlir::attn

#endif // ATTN_TEST_UNIT_DIALECT_ATTN_EMITTEDFUNCTION_H
