//===- HostTensor.cpp - Tensors that own host memory ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dense host tensors in a choice of memory orders.
//
//===----------------------------------------------------------------------===//

#include "HostTensor.h"
#include "FloatConvert.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <unistd.h>

using namespace attnrt;

bool attnrt::isFloatDType(int32_t dtype) {
  return dtype == ATTN_BF16 || dtype == ATTN_F16 || dtype == ATTN_F32 ||
         dtype == ATTN_F64 || dtype == ATTN_F8E4M3FN || dtype == ATTN_F8E5M2;
}

std::string attnrt::formatShape(const std::vector<int64_t> &shape) {
  if (shape.empty())
    return "scalar";
  std::string text;
  for (int64_t size : shape) {
    if (!text.empty())
      text += 'x';
    text += std::to_string(size);
  }
  return text;
}

void attnrt::parallelFor(int64_t count,
                         const std::function<void(int64_t, int64_t)> &body) {
  auto call = [](int64_t begin, int64_t end, void *context) {
    (*static_cast<const std::function<void(int64_t, int64_t)> *>(context))(
        begin, end);
  };
  void *context = const_cast<void *>(static_cast<const void *>(&body));
  // An invalid ATTN_NUM_THREADS must not keep the work from being done.
  if (attnrtParallelFor(count, call, context) != ATTN_OK)
    body(0, count);
}

int64_t attnrt::getMemoryLimit() {
  int64_t limit = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
                  static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  // Versions 2 and 1 of control groups. Where there is no limit the file says
  // "max" or an enormous number.
  for (const char *path : {"/sys/fs/cgroup/memory.max",
                           "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    if (FILE *file = fopen(path, "r")) {
      char text[32];
      char *end = text;
      if (fgets(text, sizeof(text), file)) {
        errno = 0;
        long long bytes = strtoll(text, &end, 10);
        if (end != text && errno == 0 && bytes < limit)
          limit = bytes;
      }
      fclose(file);
    }
  return limit;
}

int32_t HostTensor::create(int32_t dtype, const std::vector<int64_t> &shape,
                           Layout layout, HostTensor &result) {
  HostTensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.strides.assign(shape.size(), 1);

  // The dimensions from the outermost in memory to the innermost.
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  if (layout == Layout::BSHD && shape.size() == 4) {
    std::swap(order[1], order[2]);
    tensor.rowMajor = shape[1] <= 1 || shape[2] <= 1;
  }

  int64_t count = 1;
  int64_t bytes = 0;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0)
      return attnrtSetError(ATTN_SHAPE_MISMATCH,
                            "sizes must not be negative (shape %s)",
                            formatShape(shape).c_str());
    empty |= size == 0;
  }
  for (size_t i = order.size(); i-- > 0;) {
    tensor.strides[order[i]] = count;
    int64_t size = empty ? 1 : shape[order[i]];
    if (__builtin_mul_overflow(count, size, &count))
      return attnrtSetError(ATTN_OUT_OF_MEMORY, "shape %s is too large",
                            formatShape(shape).c_str());
  }
  tensor.numElements = empty ? 0 : count;

  constexpr int64_t alignment = 256;
  if (__builtin_mul_overflow(tensor.numElements,
                             static_cast<int64_t>(attnDTypeSize(dtype)),
                             &bytes) ||
      bytes > std::numeric_limits<int64_t>::max() - alignment)
    return attnrtSetError(ATTN_OUT_OF_MEMORY, "shape %s is too large",
                          formatShape(shape).c_str());
  if (bytes > 0) {
    int64_t padded = (bytes + alignment - 1) / alignment * alignment;
    tensor.data.reset(std::aligned_alloc(alignment, padded));
    if (!tensor.data)
      return attnrtSetError(
          ATTN_OUT_OF_MEMORY,
          "out of host memory: asked for %lld bytes (shape %s)",
          static_cast<long long>(bytes), formatShape(shape).c_str());
  }
  result = std::move(tensor);
  return ATTN_OK;
}

attn_tensor HostTensor::getView() const {
  attn_tensor view = {};
  view.data = data.get();
  view.shape = shape.data();
  view.strides = strides.data();
  view.rank = static_cast<int32_t>(shape.size());
  view.dtype = dtype;
  view.device = ATTN_DEVICE_HOST;
  return view;
}

int64_t HostTensor::getOffset(int64_t index) const {
  if (rowMajor)
    return index;
  int64_t offset = 0;
  for (size_t dim = shape.size(); dim-- > 0;) {
    offset += index % shape[dim] * strides[dim];
    index /= shape[dim];
  }
  return offset;
}

template <typename T>
static T loadAs(const void *data, int64_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + offset * sizeof(T),
              sizeof(T));
  return value;
}

template <typename T>
static void storeAs(void *data, int64_t offset, T value) {
  std::memcpy(static_cast<char *>(data) + offset * sizeof(T), &value,
              sizeof(T));
}

/// Converts to an integer as a saturating cast does; NaN becomes 0.
template <typename T>
static T saturate(double value) {
  if (!(value == value))
    return 0;
  // The upper bound itself may not be a double: compare with the next power of
  // two.
  double limit = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (value >= limit)
    return std::numeric_limits<T>::max();
  if (value < -limit)
    return std::numeric_limits<T>::min();
  return static_cast<T>(value);
}

double HostTensor::load(int64_t offset) const {
  const void *memory = data.get();
  switch (dtype) {
  case ATTN_BF16:
    return bf16ToFloat(loadAs<uint16_t>(memory, offset));
  case ATTN_F16:
    return f16ToFloat(loadAs<uint16_t>(memory, offset));
  case ATTN_F32:
    return loadAs<float>(memory, offset);
  case ATTN_F64:
    return loadAs<double>(memory, offset);
  case ATTN_I32:
    return loadAs<int32_t>(memory, offset);
  case ATTN_I64:
    return static_cast<double>(loadAs<int64_t>(memory, offset));
  case ATTN_I8:
    return loadAs<int8_t>(memory, offset);
  case ATTN_I1:
    return loadAs<uint8_t>(memory, offset) != 0;
  case ATTN_F8E4M3FN:
    return f8ToFloat<Float8::E4M3>(loadAs<uint8_t>(memory, offset));
  case ATTN_F8E5M2:
    return f8ToFloat<Float8::E5M2>(loadAs<uint8_t>(memory, offset));
  }
  return 0;
}

void HostTensor::store(int64_t offset, double value) {
  void *memory = data.get();
  switch (dtype) {
  case ATTN_BF16:
    storeAs<uint16_t>(memory, offset, doubleToBf16(value));
    return;
  case ATTN_F16:
    storeAs<uint16_t>(memory, offset, doubleToF16(value));
    return;
  case ATTN_F32:
    storeAs<float>(memory, offset, static_cast<float>(value));
    return;
  case ATTN_F64:
    storeAs<double>(memory, offset, value);
    return;
  case ATTN_I32:
    storeAs<int32_t>(memory, offset, saturate<int32_t>(value));
    return;
  case ATTN_I64:
    storeAs<int64_t>(memory, offset, saturate<int64_t>(value));
    return;
  case ATTN_I8:
    storeAs<int8_t>(memory, offset, saturate<int8_t>(value));
    return;
  case ATTN_I1:
    storeAs<uint8_t>(memory, offset, value != 0);
    return;
  case ATTN_F8E4M3FN:
    storeAs<uint8_t>(memory, offset, doubleToF8<Float8::E4M3>(value));
    return;
  case ATTN_F8E5M2:
    storeAs<uint8_t>(memory, offset, doubleToF8<Float8::E5M2>(value));
    return;
  }
}

void HostTensor::fillBytes(unsigned char value) {
  if (numElements > 0)
    std::memset(data.get(), value, getNumBytes());
}

void HostTensor::poison() {
  // All bits set are a NaN in each floating point format.
  fillBytes(isFloatDType(dtype) ? 0xff : 0xa5);
}
