//===- CheckTensorsTest.cpp - Tests of the argument checks ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One case for each thing that can be wrong with a call, with its message.
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <set>
#include <thread>

namespace {

constexpr int64_t QueryDims[] = {-1, 2, -2, 64};
constexpr int64_t KeyDims[] = {-1, 2, -3, 64};
constexpr attn_tensor_spec Specs[] = {
    {"query", ATTN_BF16, 4, QueryDims, 16, ATTN_ACCESS_READ},
    {"key", ATTN_BF16, 4, KeyDims, 16, ATTN_ACCESS_READ},
    {"out", ATTN_BF16, 4, QueryDims, 16, ATTN_ACCESS_WRITE},
};

/// A valid call on three tensors, which each test spoils in one way.
class CheckTensors : public ::testing::Test {
protected:
  int32_t check(int32_t kind = ATTNRT_KIND_HOST) {
    const attn_tensor *args[] = {&query.view, &key.view, &out.view};
    return attnrtCheckTensors(Specs, 3, args, 3, kind, "f");
  }

  /// The text of an overlap of two of the arguments.
  static std::string getOverlapText(const char *output, const TestTensor &x,
                                    int64_t xSize, const char *other,
                                    const TestTensor &y, int64_t ySize) {
    char text[512];
    char *xData = static_cast<char *>(x.view.data);
    char *yData = static_cast<char *>(y.view.data);
    snprintf(text, sizeof(text),
             "f: output '%s' (bytes %p to %p) overlaps %s (bytes %p to %p), "
             "expected memory of its own",
             output, static_cast<void *>(xData),
             static_cast<void *>(xData + xSize), other,
             static_cast<void *>(yData), static_cast<void *>(yData + ySize));
    return text;
  }

  /// Bytes of memory for each tensor, more than it has.
  static constexpr size_t tensorBytes = 1 << 14;
  alignas(16) static char memory[3 * tensorBytes];
  TestTensor query{ATTN_BF16, {3, 2, 5, 64}, memory};
  TestTensor key{ATTN_BF16, {3, 2, 7, 64}, memory + tensorBytes};
  TestTensor out{ATTN_BF16, {3, 2, 5, 64}, memory + 2 * tensorBytes};
};

alignas(16) char CheckTensors::memory[3 * tensorBytes];

/// The same in the memory of a fake device.
class CheckCudaTensors : public CheckTensors {
protected:
  void SetUp() override {
    getFakeDriver().reset();
    ASSERT_EQ(attnrtSetDevice(0), ATTN_OK) << attnGetLastError();
    ASSERT_EQ(attnrtMalloc(&buffer, 1 << 20), ATTN_OK);
    auto *data = static_cast<char *>(buffer);
    for (TestTensor *tensor : {&query, &key, &out}) {
      tensor->view.data = data;
      tensor->view.device = 0;
      data += tensorBytes;
    }
  }
  void TearDown() override {
    attnrtSetDevice(0);
    attnrtFree(buffer);
  }

  void *buffer = nullptr;
};

} // namespace

TEST_F(CheckTensors, Valid) { EXPECT_EQ(check(), ATTN_OK); }

TEST_F(CheckTensors, Count) {
  const attn_tensor *args[] = {&query.view};
  EXPECT_ERROR(attnrtCheckTensors(Specs, 3, args, 1, ATTNRT_KIND_HOST, "f"),
               ATTN_INVALID_ARGUMENT, "f: got 1 arguments, expected 3");
}

TEST_F(CheckTensors, NullPointers) {
  EXPECT_ERROR(attnrtCheckTensors(Specs, 3, nullptr, 3, ATTNRT_KIND_HOST, "f"),
               ATTN_INVALID_ARGUMENT,
               "f: the array of arguments is a null pointer");
  const attn_tensor *args[] = {&query.view, nullptr, &out.view};
  EXPECT_ERROR(attnrtCheckTensors(Specs, 3, args, 3, ATTNRT_KIND_HOST, "f"),
               ATTN_INVALID_ARGUMENT,
               "f: argument 'key' is a null pointer, expected a tensor");
  key.view.shape = nullptr;
  EXPECT_ERROR(check(), ATTN_INVALID_ARGUMENT,
               "f: argument 'key' has no shape (null pointer)");
  key.view.shape = key.shape.data();
  key.view.strides = nullptr;
  EXPECT_ERROR(check(), ATTN_INVALID_ARGUMENT,
               "f: argument 'key' has no strides (null pointer)");
  key.view.strides = key.strides.data();
  key.view.data = nullptr;
  EXPECT_ERROR(check(), ATTN_INVALID_ARGUMENT,
               "f: argument 'key' has a null data pointer");
}

TEST_F(CheckTensors, DType) {
  key.view.dtype = ATTN_F32;
  EXPECT_ERROR(check(), ATTN_DTYPE_MISMATCH,
               "f: argument 'key' is f32 (2), expected bf16");
}

TEST_F(CheckTensors, Rank) {
  key.view.rank = 3;
  EXPECT_ERROR(check(), ATTN_SHAPE_MISMATCH,
               "f: argument 'key' has rank 3, expected 4");
}

TEST_F(CheckTensors, StaticSize) {
  key.shape[3] = 32;
  EXPECT_ERROR(check(), ATTN_SHAPE_MISMATCH,
               "f: argument 'key': dimension 3 is 32, expected 64");
}

TEST_F(CheckTensors, DynamicSizesAgree) {
  key.shape[0] = 4;
  EXPECT_ERROR(check(), ATTN_SHAPE_MISMATCH,
               "f: argument 'key': dimension 0 is 4, expected 3 as dimension "
               "0 of 'query'");
}

TEST_F(CheckTensors, SizeRange) {
  key.shape[2] = -1;
  EXPECT_ERROR(check(), ATTN_SHAPE_MISMATCH,
               "f: argument 'key': dimension 2 is -1, expected 0 to "
               "2147483647");
  key.shape[2] = int64_t(1) << 31;
  EXPECT_ERROR(check(), ATTN_SHAPE_MISMATCH,
               "f: argument 'key': dimension 2 is 2147483648, expected 0 to "
               "2147483647");
}

TEST_F(CheckTensors, Strides) {
  key.strides[3] = 2;
  EXPECT_ERROR(check(), ATTN_BAD_STRIDES,
               "f: argument 'key': stride of the last dimension is 2, "
               "expected 1");
  key.strides[3] = 1;
  key.strides[2] = -64;
  EXPECT_ERROR(check(), ATTN_BAD_STRIDES,
               "f: argument 'key': stride of dimension 2 is -64, expected no "
               "negative one");
  key.strides[2] = 65;
  EXPECT_ERROR(check(), ATTN_MISALIGNED,
               "f: argument 'key': stride of dimension 2 is 65 elements (130 "
               "bytes), expected a multiple of 16 bytes");
  key.strides[2] = INT64_MAX / 4;
  EXPECT_EQ(check(), ATTN_BAD_STRIDES);
}

TEST_F(CheckTensors, BroadcastInputsOnly) {
  key.strides[1] = 0;
  EXPECT_EQ(check(), ATTN_OK);
  out.strides[1] = 0;
  EXPECT_ERROR(check(), ATTN_BAD_STRIDES,
               "f: output 'out': stride of dimension 1 is 0, so that its 2 "
               "entries would share memory");
}

TEST_F(CheckTensors, OutputsShareNoMemory) {
  // [3, 2, 5, 64] in the order of the rows, heads between them.
  out.strides = {640, 64, 128, 1};
  EXPECT_EQ(check(), ATTN_OK) << attnGetLastError();
  // Windows that overlap, as an input may have them.
  out.strides = {640, 320, 32, 1};
  EXPECT_ERROR(check(), ATTN_BAD_STRIDES,
               "f: output 'out': stride of dimension 2 is 32, expected at "
               "least 64, so that its entries share no memory");
  out.strides = {320, 320, 64, 1};
  EXPECT_ERROR(check(), ATTN_BAD_STRIDES,
               "f: output 'out': stride of dimension 0 is 320, expected at "
               "least 640, so that its entries share no memory");
  out.strides = {640, 320, 64, 1};
  query.strides = {640, 320, 32, 1};
  EXPECT_EQ(check(), ATTN_OK) << attnGetLastError();
}

TEST_F(CheckTensors, OutputSharesMemoryWithInput) {
  constexpr int64_t rowSize = 128, size = 3 * 2 * 5 * rowSize;
  auto getText = [&] {
    return getOverlapText("out", out, size, "argument 'query'", query, size);
  };
  out.view.data = query.view.data;
  EXPECT_ERROR(check(), ATTN_INVALID_ARGUMENT, getText().c_str());
  // The last row of the output is the first one of the input.
  query.view.data = memory + size - rowSize;
  out.view.data = memory;
  EXPECT_ERROR(check(), ATTN_INVALID_ARGUMENT, getText().c_str());
  query.view.data = memory + size;
  EXPECT_EQ(check(), ATTN_OK) << attnGetLastError();
  // Inputs may share memory.
  key.view.data = query.view.data;
  EXPECT_EQ(check(), ATTN_OK) << attnGetLastError();
}

TEST_F(CheckTensors, InterleavedTensors) {
  // Slices of a tensor [3, 5, 3, 2, 64], as of a joint projection.
  for (TestTensor *tensor : {&query, &key, &out}) {
    tensor->shape[2] = 5;
    tensor->strides = {1920, 64, 384, 1};
  }
  query.view.data = memory;
  key.view.data = memory + 2 * 128;
  out.view.data = memory + 2 * 256;
  EXPECT_EQ(check(), ATTN_OK) << attnGetLastError();
  // The first of the two heads is the last one of the keys.
  out.view.data = memory + 2 * 192;
  EXPECT_EQ(check(), ATTN_INVALID_ARGUMENT);
  std::string text = attnGetLastError();
  EXPECT_NE(text.find("overlaps argument 'key'"), std::string::npos) << text;
  // A broadcast input between the rows of the output.
  key.strides = {0, 0, 0, 1};
  out.view.data = memory + 2 * 256;
  EXPECT_EQ(check(), ATTN_OK) << attnGetLastError();
  key.view.data = memory + 2 * (256 + 384 * 4 + 1920 * 2 + 64);
  EXPECT_EQ(check(), ATTN_INVALID_ARGUMENT);
}

TEST_F(CheckTensors, OutputsShareMemoryWithEachOther) {
  const int64_t dims[] = {8, 8};
  const attn_tensor_spec specs[] = {
      {"x", ATTN_F32, 2, dims, 4, ATTN_ACCESS_WRITE},
      {"y", ATTN_F64, 2, dims, 8, ATTN_ACCESS_READ_WRITE}};
  TestTensor x(ATTN_F32, {8, 8}, memory);
  TestTensor y(ATTN_F64, {8, 8}, memory + 32);
  const attn_tensor *args[] = {&x.view, &y.view};
  auto check = [&] {
    return attnrtCheckTensors(specs, 2, args, 2, ATTNRT_KIND_HOST, "f");
  };
  EXPECT_ERROR(check(), ATTN_INVALID_ARGUMENT,
               getOverlapText("x", x, 256, "output 'y'", y, 512).c_str());
  // Rows of 32 and rows of 64 bytes alternate.
  x.strides[0] = 24;
  y.strides[0] = 12;
  EXPECT_EQ(check(), ATTN_OK) << attnGetLastError();
  // Row 1 of 'x' ends at byte 136, row 1 of 'y' begins at byte 128.
  x.strides[0] = 26;
  EXPECT_EQ(check(), ATTN_INVALID_ARGUMENT);
}

// An exhaustive comparison of small tensors with the bytes that they cover.
TEST_F(CheckTensors, OverlapsOfSmallTensors) {
  const int64_t dims[] = {ATTN_SYMBOL_DIM(0), ATTN_SYMBOL_DIM(1), 2};
  const attn_tensor_spec specs[] = {
      {"x", ATTN_I8, 3, dims, 1, ATTN_ACCESS_WRITE},
      {"y", ATTN_BF16, 3, dims, 1, ATTN_ACCESS_READ}};
  auto getBytes = [](const TestTensor &tensor) {
    std::set<const char *> bytes;
    int64_t size = attnDTypeSize(tensor.view.dtype);
    auto *data = static_cast<const char *>(tensor.view.data);
    for (int64_t i = 0; i < tensor.shape[0]; ++i)
      for (int64_t j = 0; j < tensor.shape[1]; ++j)
        for (int64_t byte = 0; byte < 2 * size; ++byte)
          bytes.insert(data +
                       (i * tensor.strides[0] + j * tensor.strides[1]) * size +
                       byte);
    return bytes;
  };
  int64_t numOverlaps = 0, numSeparate = 0;
  for (int64_t code = 0; code < 5000; ++code) {
    int64_t number = code * 7919;
    auto take = [&](int64_t count) {
      int64_t digit = number % count;
      number /= count;
      return digit;
    };
    TestTensor x(ATTN_I8, {3, 2, 2}, memory + 100), y(ATTN_BF16, {3, 2, 2}, 0);
    x.strides[1] = 2 + take(4);
    x.strides[0] = 2 * x.strides[1] + take(9);
    y.strides[1] = take(7);
    y.strides[0] = take(11);
    y.view.data = memory + 70 + take(64);
    std::set<const char *> xBytes = getBytes(x), yBytes = getBytes(y);
    bool overlap =
        std::any_of(yBytes.begin(), yBytes.end(),
                    [&](const char *byte) { return xBytes.count(byte); });
    const attn_tensor *args[] = {&x.view, &y.view};
    EXPECT_EQ(attnrtCheckTensors(specs, 2, args, 2, ATTNRT_KIND_HOST, "f"),
              overlap ? ATTN_INVALID_ARGUMENT : ATTN_OK)
        << code;
    ++(overlap ? numOverlaps : numSeparate);
  }
  EXPECT_GT(numOverlaps, 1000);
  EXPECT_GT(numSeparate, 1000);
}

// Of some arguments the sizes alone are used, as in functions that make block
// masks: their pointers may be any.
TEST_F(CheckCudaTensors, SizesAlone) {
  attn_tensor_spec specs[] = {Specs[0], Specs[1], Specs[2]};
  specs[1].access = ATTN_ACCESS_SIZES;
  const attn_tensor *args[] = {&query.view, &key.view, &out.view};
  auto check = [&] {
    return attnrtCheckTensors(specs, 3, args, 3, ATTNRT_KIND_CUDA, "f");
  };
  for (void *data : {out.view.data, static_cast<void *>(memory),
                     static_cast<void *>(nullptr)}) {
    key.view.data = data;
    EXPECT_EQ(check(), ATTN_OK) << attnGetLastError();
  }
  key.shape[3] = 32;
  EXPECT_EQ(check(), ATTN_SHAPE_MISMATCH);
}

TEST_F(CheckTensors, Reserved) {
  key.view.reserved = 7;
  EXPECT_ERROR(check(), ATTN_INVALID_ARGUMENT,
               "f: argument 'key': field 'reserved' must be 0 (was 7)");
}

TEST_F(CheckTensors, StridesOfSizeOneAreIgnored) {
  for (TestTensor *tensor : {&query, &key, &out}) {
    tensor->shape[0] = 1;
    tensor->strides[0] = tensor == &out ? 0 : -3;
  }
  EXPECT_EQ(check(), ATTN_OK) << attnGetLastError();
}

TEST_F(CheckTensors, PointerAlignment) {
  key.view.data = memory + 8;
  EXPECT_EQ(check(), ATTN_MISALIGNED);
  std::string text = attnGetLastError();
  EXPECT_NE(text.find("f: argument 'key': data pointer 0x"), std::string::npos);
  EXPECT_NE(text.find("is not aligned to 16 bytes"), std::string::npos);
}

TEST_F(CheckTensors, Empty) {
  query.shape[2] = out.shape[2] = 0;
  query.view.data = out.view.data = nullptr;
  EXPECT_EQ(check(), ATTN_OK) << attnGetLastError();
}

TEST_F(CheckTensors, DeviceOfHostFunction) {
  key.view.device = 0;
  EXPECT_ERROR(check(), ATTN_WRONG_DEVICE,
               "f: argument 'key' is on device 0, expected host memory");
}

TEST_F(CheckTensors, ScalarsAndTooManySymbols) {
  attn_tensor_spec scalar = {"seed", ATTN_I64, 0, nullptr, 8, ATTN_ACCESS_READ};
  attn_tensor view = {};
  view.data = memory;
  view.dtype = ATTN_I64;
  view.device = ATTN_DEVICE_HOST;
  const attn_tensor *args[] = {&view};
  EXPECT_EQ(attnrtCheckTensors(&scalar, 1, args, 1, ATTNRT_KIND_HOST, "f"),
            ATTN_OK);

  const int64_t dims[] = {ATTN_SYMBOL_DIM(64)};
  attn_tensor_spec spec = {"x", ATTN_I64, 1, dims, 8, ATTN_ACCESS_READ};
  TestTensor x(ATTN_I64, {3}, memory);
  args[0] = &x.view;
  EXPECT_EQ(attnrtCheckTensors(&spec, 1, args, 1, ATTNRT_KIND_HOST, "f"),
            ATTN_INTERNAL);
}

TEST_F(CheckTensors, TileCounts) {
  const int64_t queryDims[] = {ATTN_SYMBOL_DIM(0)};
  const int64_t blockMaskDims[] = {3, ATTN_SYMBOL_DIM(1)};
  attn_tensor_spec specs[] = {
      {"query", ATTN_F32, 1, queryDims, 4, ATTN_ACCESS_READ},
      {"block_mask", ATTN_I32, 2, blockMaskDims, 4, ATTN_ACCESS_READ}};
  TestTensor query(ATTN_F32, {100}, memory), plan(ATTN_I32, {3, 8}, memory);
  const attn_tensor *args[] = {&query.view, &plan.view};
  auto checkCount = [&](int64_t tile, int64_t factor, int64_t extra) {
    return attnrtCheckTileCount(specs, args, 1, 1, 0, 0, tile, factor, extra,
                                "f");
  };
  EXPECT_EQ(checkCount(32, 1, 4), ATTN_OK);
  EXPECT_EQ(checkCount(13, 1, 0), ATTN_OK);
  EXPECT_EQ(checkCount(64, 4, 0), ATTN_OK);
  EXPECT_EQ(checkCount(1, 1, -92), ATTN_OK);
  EXPECT_ERROR(checkCount(16, 1, 4), ATTN_SHAPE_MISMATCH,
               "f: argument 'block_mask': dimension 1 is 8, expected 11 for "
               "dimension 0 of 'query', which is 100: it must be made for the "
               "lengths of the call");
}

TEST_F(CheckTensors, Multiples) {
  const int64_t dims[] = {ATTN_SYMBOL_DIM(0)};
  const int64_t maskDims[] = {ATTN_SYMBOL_DIM(1), ATTN_SYMBOL_DIM(2)};
  attn_tensor_spec specs[] = {
      {"query", ATTN_F32, 1, dims, 4, ATTN_ACCESS_READ},
      {"none", ATTN_F32, 1, dims, 4, ATTN_ACCESS_READ},
      {"mask", ATTN_I32, 2, maskDims, 4, ATTN_ACCESS_READ}};
  TestTensor query(ATTN_F32, {100}, memory), none(ATTN_F32, {0}, memory);
  TestTensor mask(ATTN_I32, {0, 12}, memory);
  const attn_tensor *args[] = {&query.view, &none.view, &mask.view};
  auto checkMultiple = [&](int32_t dim, int64_t factor, int32_t lengthArg) {
    return attnrtCheckMultiple(specs, args, 2, dim, lengthArg, 0, factor, "f");
  };
  EXPECT_EQ(checkMultiple(1, 4, 0), ATTN_OK);
  EXPECT_ERROR(checkMultiple(1, 8, -1), ATTN_SHAPE_MISMATCH,
               "f: argument 'mask': dimension 1 is 12, expected a multiple of "
               "8");
  EXPECT_EQ(checkMultiple(0, 4, -1), ATTN_OK);
  EXPECT_EQ(checkMultiple(0, 4, 1), ATTN_OK);
  EXPECT_ERROR(checkMultiple(0, 4, 0), ATTN_SHAPE_MISMATCH,
               "f: argument 'mask': dimension 0 is 0, expected a multiple of 4 "
               "above 0, as dimension 0 of 'query' is 100");
}

TEST_F(CheckTensors, ErrorsBelongToThreads) {
  key.shape[3] = 32;
  ASSERT_NE(check(), ATTN_OK);
  std::string other = "unset";
  std::thread([&] { other = attnGetLastError(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_STRNE(attnGetLastError(), "");
}

TEST_F(CheckCudaTensors, Valid) {
  EXPECT_EQ(check(ATTNRT_KIND_CUDA), ATTN_OK) << attnGetLastError();
  // One query for each tensor is all the driver is asked for.
  EXPECT_EQ(getFakeDriver().count("cuPointerGetAttributes"), 3);
}

TEST_F(CheckCudaTensors, HostTensor) {
  key.view.device = ATTN_DEVICE_HOST;
  EXPECT_ERROR(check(ATTNRT_KIND_CUDA), ATTN_WRONG_DEVICE,
               "f: argument 'key' is in host memory, expected a CUDA device");
}

TEST_F(CheckCudaTensors, HostPointer) {
  key.view.data = memory;
  EXPECT_EQ(check(ATTNRT_KIND_CUDA), ATTN_WRONG_DEVICE);
  std::string text = attnGetLastError();
  EXPECT_NE(text.find("is host memory, expected memory of CUDA device 0"),
            std::string::npos)
      << text;
}

TEST_F(CheckCudaTensors, DifferentDevices) {
  key.view.device = 1;
  EXPECT_ERROR(check(ATTNRT_KIND_CUDA), ATTN_WRONG_DEVICE,
               "f: argument 'key' is on CUDA device 1, expected device 0 as "
               "'query'");
}

TEST_F(CheckCudaTensors, PointerOfAnotherDevice) {
  void *other = nullptr;
  ASSERT_EQ(attnrtSetDevice(1), ATTN_OK);
  ASSERT_EQ(attnrtMalloc(&other, 4096), ATTN_OK);
  ASSERT_EQ(attnrtSetDevice(0), ATTN_OK);
  key.view.data = other;
  EXPECT_EQ(check(ATTNRT_KIND_CUDA), ATTN_WRONG_DEVICE);
  std::string text = attnGetLastError();
  EXPECT_NE(text.find("is memory of CUDA device 1, but the tensor names device "
                      "0"),
            std::string::npos)
      << text;
  EXPECT_EQ(attnrtFree(other), ATTN_OK);
}

TEST_F(CheckCudaTensors, OtherDeviceIsCurrent) {
  ASSERT_EQ(attnrtSetDevice(1), ATTN_OK);
  EXPECT_ERROR(check(ATTNRT_KIND_CUDA), ATTN_WRONG_DEVICE,
               "f: the tensors are on CUDA device 0, but device 1 is current "
               "for the calling thread");
}

TEST_F(CheckCudaTensors, ThreadWithoutContext) {
  int32_t status = -1, device = -1;
  std::thread([&] {
    status = check(ATTNRT_KIND_CUDA);
    attnrtGetDevice(&device);
  }).join();
  EXPECT_EQ(status, ATTN_OK);
  EXPECT_EQ(device, 0);
}

TEST(Status, Names) {
  EXPECT_STREQ(attnStatusName(ATTN_OK), "ok");
  EXPECT_STREQ(attnStatusName(ATTN_WRONG_ARCH), "wrong_arch");
  EXPECT_STREQ(attnStatusName(-5), "unknown status");
  EXPECT_EQ(attnrtAbiVersion(), ATTN_RUNTIME_ABI_VERSION);
  for (int32_t dtype = ATTN_BF16; dtype <= ATTN_F8E5M2; ++dtype) {
    EXPECT_GT(attnDTypeSize(dtype), 0);
    EXPECT_STRNE(attnDTypeName(dtype), "unknown dtype");
  }
  EXPECT_EQ(attnDTypeSize(99), 0);
}

TEST(Status, TextMayQuoteTheLastText) {
  attnrtSetError(ATTN_INTERNAL, "inner");
  attnrtSetError(ATTN_INTERNAL, "outer: %s", attnGetLastError());
  EXPECT_STREQ(attnGetLastError(), "outer: inner");
  std::string longText(10000, 'x');
  attnrtSetError(ATTN_INTERNAL, "%s", longText.c_str());
  EXPECT_LT(std::string(attnGetLastError()).size(), longText.size());
}
