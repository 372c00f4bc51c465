//===- RegionInterpreter.h - Values of regions ------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates regions operation by operation, in intervals. It knows the
// definitions of docs/Numerics.md, and uses no code of the compiler.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_FUZZ_REGIONINTERPRETER_H
#define ATTN_TEST_FUZZ_REGIONINTERPRETER_H

#include "Accuracy.h"
#include "GuardedTensor.h"
#include "Interval.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::attn::fuzz {

/// The value of a scalar in a region.
struct Scalar {
  /// The float, and its derivative by the score.
  Interval real = Interval::unknown();
  Interval slope = 0;
  /// The integer, with its sign; true is -1. Unknown where a target may compute
  /// another one.
  int64_t integer = 0;
  bool isKnownInteger = false;
  /// Whether the float is a converted integer.
  bool isConverted = false;
  /// The largest derivative of the float by a value that it is computed of: a
  /// gradient is multiplied by each of them on its way to the score. Set for
  /// the result of a region.
  double largestSlope = 1;
  /// The sum of the derivatives by the score of all floats that the result is
  /// computed of. Where a gradient is subnormal on its way, its error is
  /// multiplied by one of them. Set for the result of a region.
  double sumOfSlopes = 0;

  static Scalar getInteger(int64_t value) {
    Scalar scalar;
    scalar.integer = value;
    scalar.isKnownInteger = true;
    return scalar;
  }
  /// A float that is not known, like its derivative.
  static Scalar unknownReal() {
    return getReal(Interval::unknown(), Interval::unknown());
  }
  static Scalar getReal(Interval value, Interval slope = 0) {
    Scalar scalar;
    scalar.real = value;
    scalar.slope = slope;
    return scalar;
  }
};

/// The tensors that a module reads, by its values.
using TensorMap = llvm::DenseMap<Value, DenseElements>;

class RegionInterpreter {
public:
  /// Sums may be rounded `roundings` times more than once, in proportion to
  /// their terms.
  RegionInterpreter(const TensorMap &tensors, double roundings,
                    const Accuracy &accuracy)
      : tensors(tensors), roundings(roundings), accuracy(accuracy) {}

  /// The scalar that the block yields for `arguments`.
  Scalar run(Block &block, ArrayRef<Scalar> arguments);

private:
  Scalar evaluate(Operation *op);
  Scalar evaluateInteger(Operation *op, unsigned width, bool isIndex);
  Scalar evaluateFloat(Operation *op);
  Scalar evaluateSelect(Operation *op);
  Scalar evaluateRead(Operation *op);
  Scalar compareFloats(Operation *op);
  Scalar addFloats(const Scalar &a, const Scalar &b);
  double getSlope(Operation *op, Value operand);
  /// Sets `largestSlope` and `sumOfSlopes` of the result of a region.
  void boundSlopes(Block &block, Scalar &result);

  Scalar get(Value value);

  const TensorMap &tensors;
  double roundings;
  const Accuracy &accuracy;
  llvm::DenseMap<Value, Scalar> values;
};

} // namespace mlir::attn::fuzz

#endif // ATTN_TEST_FUZZ_REGIONINTERPRETER_H
