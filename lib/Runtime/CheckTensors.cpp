//===- CheckTensors.cpp - Checks of a call's arguments --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks the tensors that a caller passes against the compiler's assumptions.
// Runs at every call, so that it neither allocates nor formats anything unless
// it fails.
//
//===----------------------------------------------------------------------===//

#include "CudaDriver.h"

#include <climits>

using namespace attnrt;

namespace {

/// Where the size of a dynamic dimension was first seen.
struct SymbolUse {
  int64_t size;
  int32_t arg;
  int32_t dim;
};

constexpr int32_t maxSymbols = ATTN_MAX_SYMBOLS;
/// Arguments whose memory is kept: of further ones it is computed again.
constexpr int32_t maxRanges = 32;

/// The bytes from the first one of a tensor to behind the last one.
struct ByteRange {
  uintptr_t begin, end;

  bool meets(const ByteRange &other) const {
    return begin < other.end && other.begin < end;
  }
};

/// The arguments of one call.
class ArgumentChecker {
public:
  ArgumentChecker(const attn_tensor_spec *specs, const attn_tensor *const *args,
                  int32_t deviceKind, const char *function)
      : specs(specs), args(args), deviceKind(deviceKind), function(function) {}

  int32_t checkShape(int32_t arg);
  int32_t checkLayout(int32_t arg) const;
  int32_t checkDevice(int32_t arg);
  /// Fails if an output overlaps another tensor: a kernel may write one before
  /// it has read, or while it writes, the other.
  int32_t checkSharing(int32_t numArgs);
  /// Fails if a kernel of an earlier call has reported a fault.
  int32_t checkFaults();

private:
  int32_t checkDevicePointer(int32_t arg) const;
  int32_t checkOverlap(int32_t arg) const;
  int32_t checkSymbol(int32_t arg, int32_t dim);
  int32_t checkPair(int32_t output, int32_t other) const;

  /// Whether the function accesses elements of an argument.
  bool isAccessed(int32_t arg) const {
    return specs[arg].access != ATTN_ACCESS_SIZES && !isEmpty(*args[arg]);
  }
  bool isOutput(int32_t arg) const { return ATTN_IS_OUTPUT(specs[arg]); }
  ByteRange getRange(int32_t arg) const {
    return arg < maxRanges ? ranges[arg] : computeRange(arg);
  }
  ByteRange computeRange(int32_t arg) const;

  static bool isEmpty(const attn_tensor &tensor) {
    for (int32_t i = 0; i < tensor.rank; ++i)
      if (tensor.shape[i] == 0)
        return true;
    return false;
  }

  const attn_tensor_spec *specs;
  const attn_tensor *const *args;
  int32_t deviceKind;
  const char *function;

  /// Size -1 for a symbol that has not been seen.
  SymbolUse symbols[maxSymbols];
  int32_t numSymbols = 0;

  ByteRange ranges[maxRanges];

  const CudaDriver *driver = nullptr;
  const ContextInfo *context = nullptr;
};

/// The distances between bytes of two tensors: integer combinations of steps.
class Distances {
public:
  Distances(const attn_tensor &from, const attn_tensor &to);

  /// Whether `target` certainly is one of the distances.
  bool contain(int64_t target) {
    remainingSteps = maxSteps;
    return isComplete && search(0, target);
  }

private:
  /// Multiples of `step`, from `low` to `high` times it.
  struct Term {
    int64_t step, low, high;
    /// The least and the greatest sum of the terms after this one.
    int64_t restLow, restHigh;
  };
  static constexpr int32_t maxTerms = 32;
  /// Layouts whose dimensions nest take a few steps for each term.
  static constexpr int32_t maxSteps = 1000;

  void add(int64_t step, int64_t low, int64_t high);
  void addSizes(const attn_tensor &tensor, bool isNegative);
  bool search(int32_t index, int64_t target);

  /// Sorted by step, the greatest first.
  Term terms[maxTerms];
  int32_t numTerms = 0;
  int32_t remainingSteps = 0;
  bool isComplete = true;
};

} // namespace

static int64_t divideDown(int64_t value, int64_t divisor) {
  return value / divisor - (value % divisor < 0 ? 1 : 0);
}

void Distances::add(int64_t step, int64_t low, int64_t high) {
  if (step == 0 || low == high)
    return;
  int32_t index = 0;
  while (index < numTerms && terms[index].step > step)
    ++index;
  if (index < numTerms && terms[index].step == step) {
    terms[index].low += low;
    terms[index].high += high;
    return;
  }
  if (numTerms == maxTerms) {
    isComplete = false;
    return;
  }
  for (int32_t i = numTerms++; i > index; --i)
    terms[i] = terms[i - 1];
  terms[index] = {step, low, high, 0, 0};
}

void Distances::addSizes(const attn_tensor &tensor, bool isNegative) {
  auto addSize = [&](int64_t step, int64_t size) {
    add(step, isNegative ? 1 - size : 0, isNegative ? 0 : size - 1);
  };
  int64_t elementSize = attnDTypeSize(tensor.dtype);
  for (int32_t dim = 0; dim < tensor.rank; ++dim)
    // The stride of a single element is never used.
    if (tensor.shape[dim] != 1)
      addSize(tensor.strides[dim] * elementSize, tensor.shape[dim]);
  addSize(1, elementSize);
}

Distances::Distances(const attn_tensor &from, const attn_tensor &to) {
  addSizes(from, /*isNegative=*/true);
  addSizes(to, /*isNegative=*/false);
  int64_t low = 0, high = 0;
  for (int32_t i = numTerms; i-- > 0;) {
    terms[i].restLow = low;
    terms[i].restHigh = high;
    low += terms[i].low * terms[i].step;
    high += terms[i].high * terms[i].step;
  }
}

bool Distances::search(int32_t index, int64_t target) {
  if (index == numTerms)
    return target == 0;
  const Term &term = terms[index];
  int64_t low = -divideDown(term.restHigh - target, term.step);
  int64_t high = divideDown(target - term.restLow, term.step);
  low = low > term.low ? low : term.low;
  high = high < term.high ? high : term.high;
  for (int64_t factor = low; factor <= high; ++factor) {
    if (--remainingSteps < 0)
      return false;
    if (search(index + 1, target - factor * term.step))
      return true;
  }
  return false;
}

static long long asLong(int64_t value) { return value; }

int32_t ArgumentChecker::checkSymbol(int32_t arg, int32_t dim) {
  int64_t symbol = ATTN_DIM_SYMBOL(specs[arg].dims[dim]);
  int64_t size = args[arg]->shape[dim];
  if (symbol >= maxSymbols)
    return attnrtSetError(ATTN_INTERNAL,
                          "%s: argument '%s': number %lld of a dynamic size "
                          "is too large (at most %d are supported)",
                          function, specs[arg].name, asLong(symbol),
                          maxSymbols);
  for (; numSymbols <= symbol; ++numSymbols)
    symbols[numSymbols].size = -1;
  SymbolUse &use = symbols[symbol];
  if (use.size < 0) {
    use = {size, arg, dim};
    return ATTN_OK;
  }
  if (use.size != size)
    return attnrtSetError(
        ATTN_SHAPE_MISMATCH,
        "%s: argument '%s': dimension %d is %lld, expected %lld as dimension "
        "%d of '%s'",
        function, specs[arg].name, dim, asLong(size), asLong(use.size), use.dim,
        specs[use.arg].name);
  return ATTN_OK;
}

int32_t ArgumentChecker::checkShape(int32_t arg) {
  const attn_tensor_spec &spec = specs[arg];
  const attn_tensor *tensor = args[arg];
  if (!tensor)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "%s: argument '%s' is a null pointer, expected a "
                          "tensor",
                          function, spec.name);
  if (tensor->reserved != 0)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "%s: argument '%s': field 'reserved' must be 0 (was "
                          "%d)",
                          function, spec.name, tensor->reserved);
  if (tensor->dtype != spec.dtype)
    return attnrtSetError(ATTN_DTYPE_MISMATCH,
                          "%s: argument '%s' is %s (%d), expected %s", function,
                          spec.name, attnDTypeName(tensor->dtype),
                          tensor->dtype, attnDTypeName(spec.dtype));
  if (tensor->rank != spec.rank)
    return attnrtSetError(ATTN_SHAPE_MISMATCH,
                          "%s: argument '%s' has rank %d, expected %d",
                          function, spec.name, tensor->rank, spec.rank);
  if (spec.rank > 0 && (!tensor->shape || !tensor->strides))
    return attnrtSetError(
        ATTN_INVALID_ARGUMENT, "%s: argument '%s' has no %s (null pointer)",
        function, spec.name, tensor->shape ? "strides" : "shape");

  for (int32_t dim = 0; dim < spec.rank; ++dim) {
    int64_t size = tensor->shape[dim];
    if (size < 0 || size > INT32_MAX)
      return attnrtSetError(ATTN_SHAPE_MISMATCH,
                            "%s: argument '%s': dimension %d is %lld, expected "
                            "0 to 2147483647",
                            function, spec.name, dim, asLong(size));
    if (spec.dims[dim] >= 0) {
      if (size != spec.dims[dim])
        return attnrtSetError(
            ATTN_SHAPE_MISMATCH,
            "%s: argument '%s': dimension %d is %lld, expected %lld", function,
            spec.name, dim, asLong(size), asLong(spec.dims[dim]));
      continue;
    }
    if (int32_t status = checkSymbol(arg, dim))
      return status;
  }
  return ATTN_OK;
}

/// Each stride of an output must lead beyond what dimensions with smaller ones
/// cover: threads that write two entries at one address race.
int32_t ArgumentChecker::checkOverlap(int32_t arg) const {
  const attn_tensor &tensor = *args[arg];
  for (int32_t dim = 0; dim < tensor.rank; ++dim) {
    if (tensor.shape[dim] == 1)
      continue;
    int64_t stride = tensor.strides[dim];
    // The sum over all dimensions has been found to fit.
    int64_t covered = 1;
    for (int32_t other = 0; other < tensor.rank; ++other) {
      int64_t otherStride = tensor.strides[other];
      bool isInner =
          otherStride < stride || (otherStride == stride && other > dim);
      if (isInner && tensor.shape[other] != 1)
        covered += (tensor.shape[other] - 1) * otherStride;
    }
    if (stride < covered)
      return attnrtSetError(
          ATTN_BAD_STRIDES,
          "%s: output '%s': stride of dimension %d is %lld, expected at least "
          "%lld, so that its entries share no memory",
          function, specs[arg].name, dim, asLong(stride), asLong(covered));
  }
  return ATTN_OK;
}

int32_t ArgumentChecker::checkLayout(int32_t arg) const {
  const attn_tensor_spec &spec = specs[arg];
  const attn_tensor &tensor = *args[arg];
  if (!isAccessed(arg))
    return ATTN_OK;

  int64_t alignment = spec.alignment > 1 ? spec.alignment : 1;
  int64_t elementSize = attnDTypeSize(spec.dtype);
  int64_t extent = 0;
  for (int32_t dim = 0; dim < spec.rank; ++dim) {
    int64_t size = tensor.shape[dim];
    int64_t stride = tensor.strides[dim];
    // The stride of a single element is never used.
    if (size == 1)
      continue;
    if (dim == spec.rank - 1 && stride != 1)
      return attnrtSetError(ATTN_BAD_STRIDES,
                            "%s: argument '%s': stride of the last dimension "
                            "is %lld, expected 1",
                            function, spec.name, asLong(stride));
    if (stride < 0)
      return attnrtSetError(ATTN_BAD_STRIDES,
                            "%s: argument '%s': stride of dimension %d is "
                            "%lld, expected no negative one",
                            function, spec.name, dim, asLong(stride));
    if (stride == 0 && ATTN_IS_OUTPUT(spec))
      return attnrtSetError(ATTN_BAD_STRIDES,
                            "%s: output '%s': stride of dimension %d is 0, so "
                            "that its %lld entries would share memory",
                            function, spec.name, dim, asLong(size));
    int64_t span;
    if (__builtin_mul_overflow(size - 1, stride, &span) ||
        __builtin_add_overflow(extent, span, &extent) ||
        extent > INT64_MAX / 8 - 1)
      return attnrtSetError(ATTN_BAD_STRIDES,
                            "%s: argument '%s': stride of dimension %d is "
                            "%lld, which leads beyond the address space",
                            function, spec.name, dim, asLong(stride));
    if (dim < spec.rank - 1 && stride * elementSize % alignment != 0)
      return attnrtSetError(
          ATTN_MISALIGNED,
          "%s: argument '%s': stride of dimension %d is %lld elements (%lld "
          "bytes), expected a multiple of %lld bytes",
          function, spec.name, dim, asLong(stride),
          asLong(stride * elementSize), asLong(alignment));
  }

  if (ATTN_IS_OUTPUT(spec))
    if (int32_t status = checkOverlap(arg))
      return status;
  if (!tensor.data)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "%s: argument '%s' has a null data pointer", function,
                          spec.name);
  auto address = reinterpret_cast<uintptr_t>(tensor.data);
  if (address % static_cast<uintptr_t>(alignment) != 0)
    return attnrtSetError(ATTN_MISALIGNED,
                          "%s: argument '%s': data pointer %p is not aligned "
                          "to %lld bytes",
                          function, spec.name, tensor.data, asLong(alignment));
  return ATTN_OK;
}

int32_t ArgumentChecker::checkDevicePointer(int32_t arg) const {
  // One query for both: it takes most of the time of a call's checks. For a
  // pointer the driver does not know it succeeds and gives a type of 0.
  int attributes[] = {PointerMemoryType, PointerDeviceOrdinal};
  unsigned memoryType = 0;
  int ordinal = -1;
  void *values[] = {&memoryType, &ordinal};
  const attn_tensor &tensor = *args[arg];
  CUresult result = driver->pointerGetAttributes(
      2, attributes, values, reinterpret_cast<CUdeviceptr>(tensor.data));
  if (result)
    return setCudaError(*driver, result, "cannot query a tensor's memory");
  if (memoryType != MemoryTypeDevice)
    return attnrtSetError(ATTN_WRONG_DEVICE,
                          "%s: argument '%s': data pointer %p is %s memory, "
                          "expected memory of CUDA device %d",
                          function, specs[arg].name, tensor.data,
                          memoryType == MemoryTypeHost ? "pinned host" : "host",
                          tensor.device);
  if (ordinal != tensor.device)
    return attnrtSetError(ATTN_WRONG_DEVICE,
                          "%s: argument '%s': data pointer %p is memory of "
                          "CUDA device %d, but the tensor names device %d",
                          function, specs[arg].name, tensor.data, ordinal,
                          tensor.device);
  return ATTN_OK;
}

int32_t ArgumentChecker::checkDevice(int32_t arg) {
  const attn_tensor_spec &spec = specs[arg];
  const attn_tensor &tensor = *args[arg];
  if (deviceKind == ATTNRT_KIND_HOST) {
    if (tensor.device != ATTN_DEVICE_HOST)
      return attnrtSetError(ATTN_WRONG_DEVICE,
                            "%s: argument '%s' is on device %d, expected host "
                            "memory",
                            function, spec.name, tensor.device);
    return ATTN_OK;
  }

  if (tensor.device < 0)
    return attnrtSetError(ATTN_WRONG_DEVICE,
                          "%s: argument '%s' is in host memory, expected a "
                          "CUDA device",
                          function, spec.name);
  if (tensor.device != args[0]->device)
    return attnrtSetError(ATTN_WRONG_DEVICE,
                          "%s: argument '%s' is on CUDA device %d, expected "
                          "device %d as '%s'",
                          function, spec.name, tensor.device, args[0]->device,
                          specs[0].name);
  if (!context) {
    if (int32_t status = getDriver(&driver))
      return status;
    if (int32_t status = getCurrentContext(*driver, tensor.device, &context))
      return status;
    if (context->device != tensor.device)
      return attnrtSetError(
          ATTN_WRONG_DEVICE,
          "%s: the tensors are on CUDA device %d, but device %d is current for "
          "the calling thread",
          function, tensor.device, context->device);
  }
  return isAccessed(arg) ? checkDevicePointer(arg)
                         : static_cast<int32_t>(ATTN_OK);
}

/// The memory of an argument, empty if the function does not access it.
ByteRange ArgumentChecker::computeRange(int32_t arg) const {
  if (!isAccessed(arg))
    return {0, 0};
  const attn_tensor &tensor = *args[arg];
  // The sum has been found to fit. No dimension is 0.
  int64_t last = 0;
  for (int32_t dim = 0; dim < tensor.rank; ++dim)
    if (tensor.shape[dim] != 1)
      last += (tensor.shape[dim] - 1) * tensor.strides[dim];
  auto begin = reinterpret_cast<uintptr_t>(tensor.data);
  auto size = static_cast<uintptr_t>(last + 1) *
              static_cast<uintptr_t>(attnDTypeSize(tensor.dtype));
  return {begin, begin + size};
}

/// Checks two arguments whose ranges of bytes meet. They may be interleaved,
/// such as slices of one tensor.
int32_t ArgumentChecker::checkPair(int32_t output, int32_t other) const {
  ByteRange range = getRange(output), otherRange = getRange(other);
  // No memory is larger, and additions of such sizes do not overflow.
  constexpr uintptr_t maxSize = uintptr_t(1) << 60;
  if (range.end - range.begin > maxSize ||
      otherRange.end - otherRange.begin > maxSize)
    return ATTN_OK;
  if (!Distances(*args[output], *args[other])
           .contain(static_cast<int64_t>(range.begin - otherRange.begin)))
    return ATTN_OK;
  auto asPointer = [](uintptr_t address) {
    return reinterpret_cast<void *>(address);
  };
  return attnrtSetError(
      ATTN_INVALID_ARGUMENT,
      "%s: output '%s' (bytes %p to %p) overlaps %s '%s' (bytes %p to %p), "
      "expected memory of its own",
      function, specs[output].name, asPointer(range.begin),
      asPointer(range.end), isOutput(other) ? "output" : "argument",
      specs[other].name, asPointer(otherRange.begin),
      asPointer(otherRange.end));
}

int32_t ArgumentChecker::checkSharing(int32_t numArgs) {
  for (int32_t arg = 0; arg < numArgs && arg < maxRanges; ++arg)
    ranges[arg] = computeRange(arg);
  for (int32_t output = 0; output < numArgs; ++output) {
    if (!isOutput(output))
      continue;
    ByteRange range = getRange(output);
    for (int32_t other = 0; other < numArgs; ++other) {
      // A pair of outputs is compared once.
      if (other == output || (isOutput(other) && other < output) ||
          !range.meets(getRange(other)))
        continue;
      if (int32_t status = checkPair(output, other))
        return status;
    }
  }
  return ATTN_OK;
}

int32_t ArgumentChecker::checkFaults() {
  return context ? takeFault(*context) : static_cast<int32_t>(ATTN_OK);
}

int32_t attnrtCheckTensors(const attn_tensor_spec *specs, int32_t num_specs,
                           const attn_tensor *const *args, int32_t num_args,
                           int32_t device_kind, const char *function) {
  if (num_args != num_specs)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "%s: got %d arguments, expected %d", function,
                          num_args, num_specs);
  if (num_args > 0 && !args)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "%s: the array of arguments is a null pointer",
                          function);
  ArgumentChecker checker(specs, args, device_kind, function);
  for (int32_t arg = 0; arg < num_args; ++arg) {
    if (int32_t status = checker.checkShape(arg))
      return status;
    if (int32_t status = checker.checkLayout(arg))
      return status;
    if (int32_t status = checker.checkDevice(arg))
      return status;
  }
  if (int32_t status = checker.checkSharing(num_args))
    return status;
  return checker.checkFaults();
}

int32_t attnrtCheckTileCount(const attn_tensor_spec *specs,
                             const attn_tensor *const *args, int32_t arg,
                             int32_t dim, int32_t length_arg,
                             int32_t length_dim, int64_t tile, int64_t factor,
                             int64_t extra, const char *function) {
  int64_t length = args[length_arg]->shape[length_dim];
  int64_t expected = (length + tile - 1) / tile * factor + extra;
  int64_t size = args[arg]->shape[dim];
  if (size == expected)
    return ATTN_OK;
  return attnrtSetError(
      ATTN_SHAPE_MISMATCH,
      "%s: argument '%s': dimension %d is %lld, expected %lld for dimension %d "
      "of '%s', which is %lld: it must be made for the lengths of the call",
      function, specs[arg].name, dim, asLong(size), asLong(expected),
      length_dim, specs[length_arg].name, asLong(length));
}

int32_t attnrtCheckMultiple(const attn_tensor_spec *specs,
                            const attn_tensor *const *args, int32_t arg,
                            int32_t dim, int32_t length_arg, int32_t length_dim,
                            int64_t factor, const char *function) {
  int64_t size = args[arg]->shape[dim];
  if (size % factor != 0)
    return attnrtSetError(
        ATTN_SHAPE_MISMATCH,
        "%s: argument '%s': dimension %d is %lld, expected a multiple of %lld",
        function, specs[arg].name, dim, asLong(size), asLong(factor));
  if (size > 0 || length_arg < 0 || args[length_arg]->shape[length_dim] == 0)
    return ATTN_OK;
  return attnrtSetError(
      ATTN_SHAPE_MISMATCH,
      "%s: argument '%s': dimension %d is 0, expected a multiple of %lld above "
      "0, as dimension %d of '%s' is %lld",
      function, specs[arg].name, dim, asLong(factor), length_dim,
      specs[length_arg].name, asLong(args[length_arg]->shape[length_dim]));
}
