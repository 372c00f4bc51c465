//===- GuardedTensor.cpp - Tensors between guard pages --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Layouts, conversions of elements, and comparisons of whole buffers.
//
//===----------------------------------------------------------------------===//

#include "GuardedTensor.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

using namespace mlir::attn::fuzz;
using llvm::APFloat;
using llvm::ArrayRef;

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

int64_t DenseElements::size() const {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

int64_t DenseElements::getPosition(ArrayRef<int64_t> index) const {
  int64_t position = 0;
  for (auto [dim, at] : llvm::zip_equal(shape, index))
    position = position * dim + at;
  return position;
}

static const llvm::fltSemantics &getSemantics(attn_dtype dtype) {
  switch (dtype) {
  case ATTN_BF16:
    return APFloat::BFloat();
  case ATTN_F16:
    return APFloat::IEEEhalf();
  case ATTN_F32:
    return APFloat::IEEEsingle();
  case ATTN_F8E4M3FN:
    return APFloat::Float8E4M3FN();
  case ATTN_F8E5M2:
    return APFloat::Float8E5M2();
  default:
    return APFloat::IEEEdouble();
  }
}

/// The bits of `value`, rounded to `dtype`.
static uint64_t getBits(double value, attn_dtype dtype) {
  APFloat rounded(value);
  bool losesInfo;
  rounded.convert(getSemantics(dtype), APFloat::rmNearestTiesToEven,
                  &losesInfo);
  return rounded.bitcastToAPInt().getZExtValue();
}

static double getValue(uint64_t bits, attn_dtype dtype) {
  const llvm::fltSemantics &semantics = getSemantics(dtype);
  APFloat value(semantics,
                llvm::APInt(APFloat::getSizeInBits(semantics), bits));
  bool losesInfo;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.convertToDouble();
}

double mlir::attn::fuzz::getLargest(attn_dtype dtype) {
  APFloat largest = APFloat::getLargest(getSemantics(dtype));
  bool losesInfo;
  largest.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
  return largest.convertToDouble();
}

double mlir::attn::fuzz::roundToDType(double value, attn_dtype dtype) {
  return getValue(getBits(value, dtype), dtype);
}

static int64_t loadInteger(const char *at, int64_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, size);
  return llvm::SignExtend64(bits, 8 * size);
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Strides of a tensor, and the number of elements from its first to its last.
static int64_t chooseStrides(ArrayRef<int64_t> shape, bool mayRepeat,
                             RandomChoices &random,
                             llvm::SmallVectorImpl<int64_t> &strides) {
  strides.assign(shape.size(), 1);
  if (shape.empty())
    return 1;
  // Dimensions from the one that changes first.
  llvm::SmallVector<int64_t> order =
      llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(shape.size() - 1)));
  if (random.onceIn(2))
    for (size_t i = 1; i < order.size(); ++i)
      std::swap(order[i], order[random.below(i + 1)]);
  bool padded = random.onceIn(2);
  int64_t extent = shape.back();
  for (int64_t dim : order) {
    if (padded)
      extent += random.below(9);
    if (mayRepeat && random.onceIn(8)) {
      strides[dim] = 0;
      continue;
    }
    strides[dim] = std::max<int64_t>(extent, 1);
    extent = strides[dim] * std::max<int64_t>(shape[dim], 1);
  }
  int64_t span = 1;
  for (auto [size, stride] : llvm::zip_equal(shape, strides))
    span += (size - 1) * stride;
  // Strides of dimensions of one element have no meaning.
  for (size_t dim = 0; dim + 1 < shape.size(); ++dim)
    if (shape[dim] == 1 && random.onceIn(3))
      strides[dim] = random.pick<int64_t>({0, 1, int64_t(1) << 40});
  return llvm::is_contained(shape, 0) ? 0 : span;
}

GuardedTensor::GuardedTensor(attn_dtype dtype, ArrayRef<int64_t> shape,
                             bool mayRepeat, RandomChoices &random)
    : dtype(dtype), elementSize(attnDTypeSize(dtype)), shape(shape) {
  dataSize = chooseStrides(shape, mayRepeat, random, strides) * elementSize;
  int64_t page = sysconf(_SC_PAGESIZE);
  int64_t room = llvm::alignTo(std::max<int64_t>(dataSize, 1), page);
  mappingSize = room + 2 * page;
  mapping =
      static_cast<char *>(mmap(nullptr, mappingSize, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (mapping == MAP_FAILED)
    llvm::report_fatal_error("no memory for a tensor");
  (void)mprotect(mapping, page, PROT_NONE);
  (void)mprotect(mapping + page + room, page, PROT_NONE);
  data = mapping + page + (random.onceIn(4) ? 0 : room - dataSize);
}

GuardedTensor::~GuardedTensor() { munmap(mapping, mappingSize); }

attn_tensor GuardedTensor::getDescriptor() const {
  attn_tensor tensor = {};
  tensor.data = data;
  tensor.shape = shape.data();
  tensor.strides = strides.data();
  tensor.rank = shape.size();
  tensor.dtype = dtype;
  tensor.device = ATTN_DEVICE_HOST;
  return tensor;
}

void GuardedTensor::forEachOffset(
    llvm::function_ref<void(int64_t)> visit) const {
  if (llvm::is_contained(shape, 0))
    return;
  llvm::SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    int64_t offset = 0;
    for (auto [size, at, stride] : llvm::zip_equal(shape, index, strides))
      offset += size == 1 ? 0 : at * stride;
    visit(offset * elementSize);
    int64_t dim = shape.size();
    while (--dim >= 0 && ++index[dim] == shape[dim])
      index[dim] = 0;
    if (dim < 0)
      return;
  }
}

void GuardedTensor::setReal(int64_t offset, double value) {
  uint64_t bits = getBits(value, dtype);
  std::memcpy(data + offset, &bits, elementSize);
}

void GuardedTensor::fillReals(llvm::function_ref<double()> next) {
  poison();
  forEachOffset([&](int64_t offset) { setReal(offset, next()); });
}

void GuardedTensor::fillIntegers(llvm::function_ref<int64_t()> next) {
  poison();
  forEachOffset([&](int64_t offset) {
    int64_t value = next();
    std::memcpy(data + offset, &value, elementSize);
  });
}

void GuardedTensor::poison() {
  if (dataSize > 0)
    std::memset(data, 0xFF, dataSize);
}

DenseElements GuardedTensor::getElements() const {
  DenseElements elements;
  elements.shape = shape;
  elements.isFloat = isFloat();
  forEachOffset([&](int64_t offset) {
    if (isFloat()) {
      uint64_t bits = 0;
      std::memcpy(&bits, data + offset, elementSize);
      elements.reals.push_back(getValue(bits, dtype));
    } else if (dtype == ATTN_I1) {
      elements.integers.push_back(data[offset] ? -1 : 0);
    } else {
      elements.integers.push_back(loadInteger(data + offset, elementSize));
    }
  });
  return elements;
}

std::vector<char> GuardedTensor::getBytes() const {
  std::vector<char> bytes;
  forEachOffset([&](int64_t offset) {
    bytes.insert(bytes.end(), data + offset, data + offset + elementSize);
  });
  return bytes;
}

void GuardedTensor::remember() { before.assign(data, data + dataSize); }

bool GuardedTensor::isUnchanged() const {
  return std::equal(before.begin(), before.end(), data);
}

bool GuardedTensor::isUnchangedBetweenElements() const {
  std::vector<char> now(data, data + dataSize), then = before;
  forEachOffset([&](int64_t offset) {
    std::memset(now.data() + offset, 0, elementSize);
    std::memset(then.data() + offset, 0, elementSize);
  });
  return now == then;
}

void GuardedTensor::perturb(int64_t position, double difference) {
  double value = getElements().reals[position];
  int64_t count = 0;
  forEachOffset([&](int64_t offset) {
    if (count++ == position)
      setReal(offset, value + difference);
  });
}

std::string GuardedTensor::describe() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << attnDTypeName(dtype) << "[";
  llvm::interleaveComma(shape, os);
  os << "] strides [";
  llvm::interleaveComma(strides, os);
  os << "]";
  return text;
}
