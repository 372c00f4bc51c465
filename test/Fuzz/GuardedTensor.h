//===- GuardedTensor.h - Tensors between guard pages ------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Strided tensors whose memory ends, or begins, at a page that no one may
// access, so that an access out of bounds ends the process.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_FUZZ_GUARDEDTENSOR_H
#define ATTN_TEST_FUZZ_GUARDEDTENSOR_H

#include "RandomChoices.h"
#include "attn-runtime/attn_runtime.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlir::attn::fuzz {

/// The elements of a tensor without gaps, the last dimension first to change.
/// Integers are exact below 2^63, true is -1.
struct DenseElements {
  llvm::SmallVector<int64_t> shape;
  bool isFloat = false;
  std::vector<double> reals;
  std::vector<int64_t> integers;

  /// The position of an element; `index` is within the shape.
  int64_t getPosition(llvm::ArrayRef<int64_t> index) const;
  int64_t size() const;
};

/// The largest number of `dtype`.
double getLargest(attn_dtype dtype);

/// `value`, rounded to `dtype`.
double roundToDType(double value, attn_dtype dtype);

class GuardedTensor {
public:
  /// Allocates a tensor in a random layout. If `mayRepeat`, different elements
  /// may be in one place.
  GuardedTensor(attn_dtype dtype, llvm::ArrayRef<int64_t> shape, bool mayRepeat,
                RandomChoices &random);
  ~GuardedTensor();
  GuardedTensor(const GuardedTensor &) = delete;

  attn_dtype getDType() const { return dtype; }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  bool isFloat() const { return dtype <= ATTN_F64 || dtype >= ATTN_F8E4M3FN; }
  attn_tensor getDescriptor() const;

  /// Sets each element to what `next` returns, a float or an integer.
  void fillReals(llvm::function_ref<double()> next);
  void fillIntegers(llvm::function_ref<int64_t()> next);
  /// Fills all bytes with a pattern that is a NaN in all types of floats.
  void poison();

  DenseElements getElements() const;
  /// The bytes of the elements, in the same order.
  std::vector<char> getBytes() const;

  /// Remembers all bytes. Whether all bytes, or those outside of elements, are
  /// as they were then.
  void remember();
  bool isUnchanged() const;
  bool isUnchangedBetweenElements() const;

  /// Changes the float at `position` by `difference`.
  void perturb(int64_t position, double difference);

  /// "f32[2, 3] strides [3, 1]".
  std::string describe() const;

private:
  void forEachOffset(llvm::function_ref<void(int64_t)> visit) const;
  void setReal(int64_t offset, double value);

  attn_dtype dtype;
  int64_t elementSize;
  llvm::SmallVector<int64_t> shape, strides;
  char *mapping;
  int64_t mappingSize;
  char *data;
  int64_t dataSize;
  std::vector<char> before;
};

} // namespace mlir::attn::fuzz

#endif // ATTN_TEST_FUZZ_GUARDEDTENSOR_H
