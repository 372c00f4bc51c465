//===- HostTensor.h - Tensors that own host memory --------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A dense tensor in host memory whose dimensions may lie in memory in another
// order than they are named, and access to its elements by value.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_RUNTIME_SUPPORT_HOSTTENSOR_H
#define ATTN_LIB_RUNTIME_SUPPORT_HOSTTENSOR_H

#include "attn-runtime/attn_runtime.h"

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace attnrt {

/// The memory order of rank-4 tensors. Others are always row-major.
enum class Layout { BHSD, BSHD };

/// A tensor and its memory. All memory is aligned to 256 bytes, as the CUDA
/// driver aligns its own.
class HostTensor {
public:
  HostTensor() = default;

  /// Allocates memory of unspecified contents. Fails if a size is negative or
  /// the memory cannot be had.
  static int32_t create(int32_t dtype, const std::vector<int64_t> &shape,
                        Layout layout, HostTensor &result);

  int32_t getDType() const { return dtype; }
  const std::vector<int64_t> &getShape() const { return shape; }
  const std::vector<int64_t> &getStrides() const { return strides; }
  int64_t getNumElements() const { return numElements; }
  int64_t getNumBytes() const { return numElements * attnDTypeSize(dtype); }
  void *getData() { return data.get(); }
  const void *getData() const { return data.get(); }

  /// A view that refers to this object's arrays.
  attn_tensor getView() const;

  /// The place in memory, in elements, of the element at a row-major index.
  int64_t getOffset(int64_t index) const;

  /// Whether memory order is row-major order.
  bool isRowMajor() const { return rowMajor; }

  /// The value at an offset in memory; i1 is 0 or 1.
  double load(int64_t offset) const;

  /// Stores a value at an offset, rounded to the dtype. Integers saturate.
  void store(int64_t offset, double value);

  /// Sets every byte of memory.
  void fillBytes(unsigned char value);

  /// Sets every element to NaN, or every byte to 0xa5 if the dtype has no NaN.
  void poison();

private:
  struct Deleter {
    void operator()(void *pointer) const { std::free(pointer); }
  };

  int32_t dtype = ATTN_F32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  int64_t numElements = 0;
  bool rowMajor = true;
  std::unique_ptr<void, Deleter> data;
};

bool isFloatDType(int32_t dtype);

/// "1x32x4096x128"; "scalar" for rank 0.
std::string formatShape(const std::vector<int64_t> &shape);

/// Bytes of memory the process may use: the machine's or its control group's.
int64_t getMemoryLimit();

/// Calls `body(begin, end)` on ranges that cover [0, count), on several
/// threads.
void parallelFor(int64_t count,
                 const std::function<void(int64_t, int64_t)> &body);

} // namespace attnrt

#endif // ATTN_LIB_RUNTIME_SUPPORT_HOSTTENSOR_H
