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

#include <thread>

namespace {

constexpr int64_t QueryDims[] = {-1, 2, -2, 64};
constexpr int64_t KeyDims[] = {-1, 2, -3, 64};
constexpr attn_tensor_spec Specs[] = {
    {"query", ATTN_BF16, 4, QueryDims, 16, 0},
    {"key", ATTN_BF16, 4, KeyDims, 16, 0},
    {"out", ATTN_BF16, 4, QueryDims, 16, 1},
};

/// A valid call on three tensors, which each test spoils in one way.
class CheckTensors : public ::testing::Test {
protected:
  int32_t check(int32_t kind = ATTNRT_KIND_HOST) {
    const attn_tensor *args[] = {&query.view, &key.view, &out.view};
    return attnrtCheckTensors(Specs, 3, args, 3, kind, "f");
  }

  alignas(16) static char memory[64];
  TestTensor query{ATTN_BF16, {3, 2, 5, 64}, memory};
  TestTensor key{ATTN_BF16, {3, 2, 7, 64}, memory};
  TestTensor out{ATTN_BF16, {3, 2, 5, 64}, memory};
};

alignas(16) char CheckTensors::memory[64];

/// The same in the memory of a fake device.
class CheckCudaTensors : public CheckTensors {
protected:
  void SetUp() override {
    getFakeDriver().reset();
    ASSERT_EQ(attnrtSetDevice(0), ATTN_OK) << attnGetLastError();
    ASSERT_EQ(attnrtMalloc(&buffer, 1 << 20), ATTN_OK);
    for (TestTensor *tensor : {&query, &key, &out}) {
      tensor->view.data = buffer;
      tensor->view.device = 0;
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
  attn_tensor_spec scalar = {"seed", ATTN_I64, 0, nullptr, 8, 0};
  attn_tensor view = {};
  view.data = memory;
  view.dtype = ATTN_I64;
  view.device = ATTN_DEVICE_HOST;
  const attn_tensor *args[] = {&view};
  EXPECT_EQ(attnrtCheckTensors(&scalar, 1, args, 1, ATTNRT_KIND_HOST, "f"),
            ATTN_OK);

  const int64_t dims[] = {ATTN_SYMBOL_DIM(64)};
  attn_tensor_spec spec = {"x", ATTN_I64, 1, dims, 8, 0};
  TestTensor x(ATTN_I64, {3}, memory);
  args[0] = &x.view;
  EXPECT_EQ(attnrtCheckTensors(&spec, 1, args, 1, ATTNRT_KIND_HOST, "f"),
            ATTN_INTERNAL);
}

TEST_F(CheckTensors, TileCounts) {
  const int64_t queryDims[] = {ATTN_SYMBOL_DIM(0)};
  const int64_t blockMaskDims[] = {3, ATTN_SYMBOL_DIM(1)};
  attn_tensor_spec specs[] = {{"query", ATTN_F32, 1, queryDims, 4, 0},
                              {"block_mask", ATTN_I32, 2, blockMaskDims, 4, 0}};
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
  attn_tensor_spec specs[] = {{"query", ATTN_F32, 1, dims, 4, 0},
                              {"none", ATTN_F32, 1, dims, 4, 0},
                              {"mask", ATTN_I32, 2, maskDims, 4, 0}};
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
  for (int32_t dtype = ATTN_BF16; dtype <= ATTN_I1; ++dtype) {
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
