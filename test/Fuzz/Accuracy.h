//===- Accuracy.h - Errors that a target may make ---------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The errors of docs/Numerics.md in which targets differ. The reference widens
// its intervals by them.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_FUZZ_ACCURACY_H
#define ATTN_TEST_FUZZ_ACCURACY_H

namespace mlir::attn::fuzz {

struct Accuracy {
  /// Relative error of `math.tanh`.
  double tanh = 0x1p-18;
  /// Roundings of a sum for each of its terms.
  double roundingsPerTerm = 2;
  /// Error of a product of two f32 in a matmul: relative to the product, and
  /// relative to each of the factors, whose rest may be subnormal.
  double product = 0, factor = 0;
  /// Error of the product of a converted integer and a float, relative to the
  /// float: integers are multiplied in parts that cancel.
  double position = 0;
  /// How large an exponential is at most, relative to the running maximum.
  double largestExponential = 1;

  static Accuracy ofHost() { return {}; }
  static Accuracy ofGPU() {
    Accuracy accuracy;
    accuracy.tanh = 0x1.2p-11;
    // Tensor cores truncate.
    accuracy.roundingsPerTerm = 4;
    accuracy.product = 0x1p-19;
    accuracy.factor = 0x1p-125;
    accuracy.position = 0x1p-16;
    accuracy.largestExponential = 256;
    return accuracy;
  }
};

} // namespace mlir::attn::fuzz

#endif // ATTN_TEST_FUZZ_ACCURACY_H
