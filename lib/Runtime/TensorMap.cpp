//===- TensorMap.cpp - Descriptors for tensor memory copies ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Encodes the tensor maps of TMA copies. The driver answers a wrong argument
// with "invalid argument" and no more, so that all its requirements are checked
// here first.
//
//===----------------------------------------------------------------------===//

#include "CudaDriver.h"

#include <algorithm>

using namespace attnrt;

namespace {
constexpr int32_t maxRank = 5;
constexpr int64_t maxBox = 256;
constexpr int64_t strideUnit = 16;
constexpr int64_t strideLimit = int64_t(1) << 40;
constexpr int64_t sizeLimit = int64_t(1) << 32;
constexpr uintptr_t mapAlignment = 64;
} // namespace

/// CUtensorMapDataType of an attn_dtype, -1 if there is none.
static int getTensorMapDType(int32_t dtype) {
  switch (dtype) {
  case ATTN_I8:
  case ATTN_I1:
  case ATTN_F8E4M3FN:
  case ATTN_F8E5M2:
    return 0;
  case ATTN_I32:
    return 3;
  case ATTN_I64:
    return 5;
  case ATTN_F16:
    return 6;
  case ATTN_F32:
    return 7;
  case ATTN_F64:
    return 8;
  case ATTN_BF16:
    return 9;
  }
  return -1;
}

/// CUtensorMapSwizzle of a number of bytes, -1 if there is none.
static int getSwizzle(int32_t bytes) {
  switch (bytes) {
  case 0:
    return 0;
  case 32:
    return 1;
  case 64:
    return 2;
  case 128:
    return 3;
  }
  return -1;
}

/// CUtensorMapL2promotion of a number of bytes, -1 if there is none.
static int getL2Promotion(int32_t bytes) {
  switch (bytes) {
  case 0:
    return 0;
  case 64:
    return 1;
  case 128:
    return 2;
  case 256:
    return 3;
  }
  return -1;
}

/// Device memory of the context that holds zeros; allocated at its first use
/// and kept.
static int32_t getZeros(const CudaDriver &driver, const ContextInfo &context,
                        const void **zeros) {
  CUdeviceptr address = context.zeros.load(std::memory_order_acquire);
  if (!address) {
    constexpr size_t bytes = 256;
    if (CUresult result = driver.memAlloc(&address, bytes))
      return setCudaError(driver, result,
                          "cannot allocate the memory of an empty tensor map");
    if (CUresult result = driver.memsetD8Async(address, 0, bytes, nullptr)) {
      driver.memFree(address);
      return setCudaError(driver, result,
                          "cannot clear the memory of an empty tensor map");
    }
    CUdeviceptr expected = 0;
    if (!context.zeros.compare_exchange_strong(expected, address)) {
      driver.memFree(address);
      address = expected;
    }
  }
  *zeros = reinterpret_cast<const void *>(address);
  return ATTN_OK;
}

static long long asLong(int64_t value) { return value; }

namespace {
/// A view as the driver describes it: from the innermost dimension on, with
/// strides in bytes, except for the innermost dimension.
struct DriverView {
  uint64_t sizes[maxRank];
  uint64_t strides[maxRank] = {};
  uint32_t box[maxRank];
  uint32_t elementStrides[maxRank];
};
} // namespace

/// Checks the numbers that do not depend on the view.
static int32_t verifyForm(const void *map, int32_t dtype, int32_t rank,
                          int32_t swizzleBytes, int32_t l2PromotionBytes) {
  if (getTensorMapDType(dtype) < 0)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "tensor map: dtype %d is not supported", dtype);
  if (rank < 1 || rank > maxRank)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "tensor map: rank must be 1 to %d (was %d)", maxRank,
                          rank);
  if (getSwizzle(swizzleBytes) < 0)
    return attnrtSetError(
        ATTN_INVALID_ARGUMENT,
        "tensor map: swizzle must be 0, 32, 64 or 128 bytes (was %d)",
        swizzleBytes);
  if (getL2Promotion(l2PromotionBytes) < 0)
    return attnrtSetError(
        ATTN_INVALID_ARGUMENT,
        "tensor map: L2 promotion must be 0, 64, 128 or 256 bytes (was %d)",
        l2PromotionBytes);
  if (!map || reinterpret_cast<uintptr_t>(map) % mapAlignment != 0)
    return attnrtSetError(ATTN_MISALIGNED,
                          "tensor map: the map at %p must be aligned to 64 "
                          "bytes",
                          map);
  return ATTN_OK;
}

/// Checks the sizes of the view and of the box that one copy moves.
static int32_t verifyBox(int32_t rank, const int64_t *sizes, const int32_t *box,
                         int64_t elementSize, int32_t swizzleBytes) {
  for (int32_t dim = 0; dim < rank; ++dim) {
    if (sizes[dim] < 0 || sizes[dim] > sizeLimit)
      return attnrtSetError(ATTN_SHAPE_MISMATCH,
                            "tensor map: dimension %d is %lld, expected 0 to "
                            "2^32",
                            dim, asLong(sizes[dim]));
    if (box[dim] < 1 || box[dim] > maxBox)
      return attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "tensor map: box dimension %d must be 1 to 256 "
                            "(was %d)",
                            dim, box[dim]);
  }
  int64_t boxRow = box[rank - 1] * elementSize;
  if (boxRow % strideUnit != 0)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "tensor map: innermost box dimension must be a "
                          "multiple of 16 bytes (was %lld)",
                          asLong(boxRow));
  if (swizzleBytes && boxRow > swizzleBytes)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "tensor map: innermost box dimension is %lld bytes, "
                          "more than the swizzle of %d bytes",
                          asLong(boxRow), swizzleBytes);
  return ATTN_OK;
}

/// Checks the strides, and describes the view to the driver.
static int32_t describeView(int32_t rank, const int64_t *sizes,
                            const int64_t *strides, const int32_t *box,
                            int64_t elementSize, DriverView &view) {
  if (sizes[rank - 1] > 1 && strides[rank - 1] != 1)
    return attnrtSetError(ATTN_BAD_STRIDES,
                          "tensor map: stride of the last dimension is %lld, "
                          "expected 1",
                          asLong(strides[rank - 1]));
  int64_t row = sizes[rank - 1] * elementSize;
  int64_t legalStride = (row + strideUnit - 1) / strideUnit * strideUnit;
  for (int32_t dim = 0; dim < rank; ++dim) {
    int32_t mapDim = rank - 1 - dim;
    view.sizes[mapDim] = sizes[dim];
    view.box[mapDim] = box[dim];
    view.elementStrides[mapDim] = 1;
    if (mapDim == 0)
      continue;
    int64_t stride;
    if (sizes[dim] == 1) {
      // Any stride means the same here, also one the driver would refuse.
      stride = legalStride;
    } else if (__builtin_mul_overflow(strides[dim], elementSize, &stride) ||
               stride < 0 || stride >= strideLimit) {
      return attnrtSetError(ATTN_BAD_STRIDES,
                            "tensor map: stride of dimension %d is %lld "
                            "elements, expected 0 to less than 2^40 bytes",
                            dim, asLong(strides[dim]));
    } else if (stride % strideUnit != 0) {
      return attnrtSetError(ATTN_MISALIGNED,
                            "tensor map: stride of dimension %d is %lld "
                            "elements (%lld bytes), expected a multiple of 16 "
                            "bytes",
                            dim, asLong(strides[dim]), asLong(stride));
    }
    view.strides[mapDim - 1] = stride;
  }
  return ATTN_OK;
}

int32_t attnrtEncodeTensorMap(void *map, const void *data, int32_t dtype,
                              int32_t rank, const int64_t *sizes,
                              const int64_t *strides, const int32_t *box,
                              int32_t swizzle_bytes,
                              int32_t l2_promotion_bytes) {
  if (int32_t status =
          verifyForm(map, dtype, rank, swizzle_bytes, l2_promotion_bytes))
    return status;
  int64_t elementSize = attnDTypeSize(dtype);
  if (int32_t status = verifyBox(rank, sizes, box, elementSize, swizzle_bytes))
    return status;
  const CudaDriver *driver;
  const ContextInfo *context;
  if (int32_t status = getDriverAndContext(&driver, &context))
    return status;

  // The hardware has no notion of a view without elements; one zero stands for
  // it, as for all that is out of bounds.
  static constexpr int64_t ones[maxRank] = {1, 1, 1, 1, 1};
  if (std::find(sizes, sizes + rank, 0) != sizes + rank) {
    sizes = ones;
    if (int32_t status = getZeros(*driver, *context, &data))
      return status;
  }
  if (reinterpret_cast<uintptr_t>(data) % strideUnit != 0)
    return attnrtSetError(ATTN_MISALIGNED,
                          "tensor map: data pointer %p is not aligned to 16 "
                          "bytes",
                          data);
  DriverView view;
  if (int32_t status =
          describeView(rank, sizes, strides, box, elementSize, view))
    return status;
  if (!driver->tensorMapEncodeTiled)
    return attnrtSetError(ATTN_UNSUPPORTED,
                          "the CUDA driver has no tensor maps; 12.0 or later "
                          "is needed");
  CUresult result = driver->tensorMapEncodeTiled(
      map, getTensorMapDType(dtype), rank, const_cast<void *>(data), view.sizes,
      view.strides, view.box, view.elementStrides, /*interleave=*/0,
      getSwizzle(swizzle_bytes), getL2Promotion(l2_promotion_bytes),
      /*outOfBoundsFill=*/0);
  if (result)
    return setCudaError(*driver, result, "cannot encode a tensor map");
  return ATTN_OK;
}
