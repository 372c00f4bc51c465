//===- TensorMapTest.cpp - Tests of tensor map encoding -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arguments that reach the driver, and arguments that are refused before.
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "gtest/gtest.h"

namespace {

/// A valid [B, H, S, D] view of [B, S, H, D] memory.
class TensorMap : public ::testing::Test {
protected:
  void SetUp() override { getFakeDriver().reset(); }

  int32_t encode() {
    return attnrtEncodeTensorMap(map, data, dtype, rank, sizes, strides, box,
                                 swizzle, l2Promotion);
  }

  alignas(64) unsigned char map[128] = {};
  alignas(16) char data[16];
  int32_t dtype = ATTN_BF16;
  int32_t rank = 4;
  int64_t sizes[5] = {3, 8, 1000, 128, 0};
  int64_t strides[5] = {1000 * 8 * 128, 128, 8 * 128, 1, 0};
  int32_t box[5] = {1, 1, 176, 64, 0};
  int32_t swizzle = 128;
  int32_t l2Promotion = 256;
};

} // namespace

TEST_F(TensorMap, OrderIsReversed) {
  ASSERT_EQ(encode(), ATTN_OK) << attnGetLastError();
  fake_tensor_map last = getFakeDriver().lastTensorMap();
  EXPECT_EQ(last.dtype, 9);
  EXPECT_EQ(last.rank, 4u);
  EXPECT_EQ(last.address, data);
  const uint64_t expectedSizes[] = {128, 1000, 8, 3};
  const uint64_t expectedStrides[] = {8 * 128 * 2, 128 * 2, 1000 * 8 * 128 * 2};
  const uint32_t expectedBox[] = {64, 176, 1, 1};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(last.sizes[i], expectedSizes[i]) << i;
    EXPECT_EQ(last.box[i], expectedBox[i]) << i;
    EXPECT_EQ(last.element_strides[i], 1u) << i;
    if (i < 3) {
      EXPECT_EQ(last.strides[i], expectedStrides[i]) << i;
    }
  }
  EXPECT_EQ(last.interleave, 0);
  EXPECT_EQ(last.swizzle, 3);
  EXPECT_EQ(last.l2_promotion, 3);
  EXPECT_EQ(last.out_of_bounds_fill, 0);
  EXPECT_EQ(map[0], 0xab);
  EXPECT_EQ(map[127], 0xab);
}

TEST_F(TensorMap, DTypes) {
  const struct {
    int32_t dtype;
    int driver;
  } cases[] = {{ATTN_I8, 0},    {ATTN_I1, 0},   {ATTN_I32, 3},
               {ATTN_I64, 5},   {ATTN_F16, 6},  {ATTN_F32, 7},
               {ATTN_F64, 8},   {ATTN_BF16, 9}, {ATTN_F8E4M3FN, 0},
               {ATTN_F8E5M2, 0}};
  swizzle = 0;
  for (const auto &test : cases) {
    dtype = test.dtype;
    ASSERT_EQ(encode(), ATTN_OK) << attnGetLastError();
    EXPECT_EQ(getFakeDriver().lastTensorMap().dtype, test.driver);
  }
}

TEST_F(TensorMap, SwizzlesAndPromotions) {
  box[3] = 8;
  const int32_t swizzles[] = {0, 32, 64, 128};
  const int32_t promotions[] = {0, 64, 128, 256};
  for (int i = 0; i < 4; ++i) {
    swizzle = swizzles[i];
    l2Promotion = promotions[i];
    ASSERT_EQ(encode(), ATTN_OK);
    EXPECT_EQ(getFakeDriver().lastTensorMap().swizzle, i);
    EXPECT_EQ(getFakeDriver().lastTensorMap().l2_promotion, i);
  }
}

TEST_F(TensorMap, StridesOfSizeOneAreReplaced) {
  sizes[0] = 1;
  strides[0] = 3;
  sizes[1] = 1;
  strides[1] = -7;
  ASSERT_EQ(encode(), ATTN_OK) << attnGetLastError();
  fake_tensor_map last = getFakeDriver().lastTensorMap();
  EXPECT_EQ(last.strides[1], 256u);
  EXPECT_EQ(last.strides[2], 256u);
  sizes[3] = 1;
  strides[3] = 99;
  ASSERT_EQ(encode(), ATTN_OK) << attnGetLastError();
  EXPECT_EQ(getFakeDriver().lastTensorMap().strides[2], 16u);
}

TEST_F(TensorMap, EmptyViewIsOneZero) {
  sizes[2] = 0;
  ASSERT_EQ(encode(), ATTN_OK) << attnGetLastError();
  fake_tensor_map last = getFakeDriver().lastTensorMap();
  EXPECT_EQ(last.rank, 4u);
  for (int dim = 0; dim < 4; ++dim)
    EXPECT_EQ(last.sizes[dim], 1u);
  // The memory is allocated once.
  int allocations = getFakeDriver().count("cuMemAlloc_v2");
  ASSERT_EQ(encode(), ATTN_OK) << attnGetLastError();
  EXPECT_EQ(getFakeDriver().count("cuMemAlloc_v2"), allocations);
}

TEST_F(TensorMap, RankOne) {
  rank = 1;
  sizes[0] = 4096;
  strides[0] = 1;
  box[0] = 64;
  ASSERT_EQ(encode(), ATTN_OK) << attnGetLastError();
  EXPECT_EQ(getFakeDriver().lastTensorMap().rank, 1u);
}

TEST_F(TensorMap, BadStrides) {
  strides[2] = 1025;
  EXPECT_ERROR(encode(), ATTN_MISALIGNED,
               "tensor map: stride of dimension 2 is 1025 elements (2050 "
               "bytes), expected a multiple of 16 bytes");
  strides[2] = -1024;
  EXPECT_ERROR(encode(), ATTN_BAD_STRIDES,
               "tensor map: stride of dimension 2 is -1024 elements, expected "
               "0 to less than 2^40 bytes");
  strides[2] = int64_t(1) << 39;
  EXPECT_EQ(encode(), ATTN_BAD_STRIDES);
  strides[2] = 1024;
  strides[3] = 2;
  EXPECT_ERROR(encode(), ATTN_BAD_STRIDES,
               "tensor map: stride of the last dimension is 2, expected 1");
}

TEST_F(TensorMap, BadArguments) {
  box[2] = 257;
  EXPECT_ERROR(encode(), ATTN_INVALID_ARGUMENT,
               "tensor map: box dimension 2 must be 1 to 256 (was 257)");
  box[2] = 176;
  box[3] = 128;
  EXPECT_ERROR(encode(), ATTN_INVALID_ARGUMENT,
               "tensor map: innermost box dimension is 256 bytes, more than "
               "the swizzle of 128 bytes");
  box[3] = 4;
  EXPECT_ERROR(encode(), ATTN_INVALID_ARGUMENT,
               "tensor map: innermost box dimension must be a multiple of 16 "
               "bytes (was 8)");
  box[3] = 64;
  swizzle = 16;
  EXPECT_ERROR(encode(), ATTN_INVALID_ARGUMENT,
               "tensor map: swizzle must be 0, 32, 64 or 128 bytes (was 16)");
  swizzle = 128;
  l2Promotion = 32;
  EXPECT_ERROR(encode(), ATTN_INVALID_ARGUMENT,
               "tensor map: L2 promotion must be 0, 64, 128 or 256 bytes (was "
               "32)");
  l2Promotion = 128;
  rank = 6;
  EXPECT_ERROR(encode(), ATTN_INVALID_ARGUMENT,
               "tensor map: rank must be 1 to 5 (was 6)");
  rank = 4;
  dtype = 77;
  EXPECT_ERROR(encode(), ATTN_INVALID_ARGUMENT,
               "tensor map: dtype 77 is not supported");
  dtype = ATTN_BF16;
  sizes[1] = -1;
  EXPECT_ERROR(encode(), ATTN_SHAPE_MISMATCH,
               "tensor map: dimension 1 is -1, expected 0 to 2^32");
}

TEST_F(TensorMap, Misaligned) {
  EXPECT_EQ(attnrtEncodeTensorMap(map + 32, data, dtype, rank, sizes, strides,
                                  box, swizzle, l2Promotion),
            ATTN_MISALIGNED);
  EXPECT_EQ(attnrtEncodeTensorMap(map, data + 8, dtype, rank, sizes, strides,
                                  box, swizzle, l2Promotion),
            ATTN_MISALIGNED);
}

TEST_F(TensorMap, DriverFailure) {
  getFakeDriver().fail("cuTensorMapEncodeTiled", 1);
  EXPECT_ERROR(encode(), ATTN_DRIVER_ERROR,
               "cannot encode a tensor map: invalid argument "
               "(CUDA_ERROR_INVALID_VALUE)");
  getFakeDriver().reset();
}
