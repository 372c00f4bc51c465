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
  /// What may be left of a dropped probability in bf16. A GPU clears bit 12 or
  /// 13, a bit of the exponent that is worth a factor of 2^32 or 2^64. A
  /// probability p < 2, relative to a row's maximum or sum, that has the bit
  /// becomes p * 2^-32 at most, so less than 2^-31; one that lacks it is less
  /// than 2^-31 already. Neither becomes larger than p.
  double droppedProbability = 0;
  /// Whether a read by a query, or by a query and a key, of a score_mod is zero
  /// outside of its tensor, instead of the last element.
  bool readsZeroOutside = false;

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
    accuracy.droppedProbability = 0x1p-31;
    accuracy.readsZeroOutside = true;
    return accuracy;
  }
};

} // namespace mlir::attn::fuzz

#endif // ATTN_TEST_FUZZ_ACCURACY_H
