//===- RandomTest.cpp - Tests of reproducible inputs ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The values are a promise: other programs make the same ones.
//
//===----------------------------------------------------------------------===//

#include "Random.h"
#include "TestSupport.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace attnrt;

TEST(Random, KnownValues) {
  RandomStream stream(/*seed=*/0, /*argument=*/0);
  EXPECT_EQ(stream.normal(0), (358306 - 393210) / 65536.0);
  EXPECT_EQ(stream.normal(1), (468847 - 393210) / 65536.0);
  EXPECT_EQ(RandomStream(7, 2).normal(123456789), (315954 - 393210) / 65536.0);
}

TEST(Random, Moments) {
  RandomStream stream(1, 2);
  constexpr int Count = 400000;
  double sum = 0, squares = 0, fourths = 0, products = 0;
  for (int i = 0; i < Count; ++i) {
    double value = stream.normal(i);
    sum += value;
    squares += value * value;
    fourths += value * value * value * value;
    products += value * stream.normal(i + 1);
  }
  EXPECT_NEAR(sum / Count, 0, 0.01);
  EXPECT_NEAR(squares / Count, 1, 0.01);
  // The sum of twelve uniform values has a kurtosis of 2.9.
  EXPECT_NEAR(fourths / Count, 2.9, 0.06);
  EXPECT_NEAR(products / Count, 0, 0.01);
}

TEST(Random, DependsOnSeedAndArgument) {
  EXPECT_NE(RandomStream(0, 0).normal(0), RandomStream(1, 0).normal(0));
  EXPECT_NE(RandomStream(0, 0).normal(0), RandomStream(0, 1).normal(0));
}

TEST(Random, IndependentOfLayoutAndDType) {
  HostTensor plain, swapped, narrow;
  std::vector<int64_t> shape = {2, 3, 4, 8};
  ASSERT_EQ(HostTensor::create(ATTN_F32, shape, Layout::BHSD, plain), ATTN_OK);
  ASSERT_EQ(HostTensor::create(ATTN_F32, shape, Layout::BSHD, swapped),
            ATTN_OK);
  ASSERT_EQ(HostTensor::create(ATTN_BF16, shape, Layout::BHSD, narrow),
            ATTN_OK);
  EXPECT_EQ(swapped.getStrides(), (std::vector<int64_t>{96, 8, 24, 1}));
  RandomStream stream(5, 1);
  for (HostTensor *tensor : {&plain, &swapped, &narrow})
    fillTensor(*tensor, getDefaultFill(tensor->getDType()), stream);
  for (int64_t i = 0; i < plain.getNumElements(); ++i) {
    EXPECT_EQ(plain.load(i), swapped.load(swapped.getOffset(i)));
    EXPECT_NEAR(plain.load(i), narrow.load(i), 0.02);
  }
}

TEST(Random, Fills) {
  HostTensor floats, integers, coins;
  ASSERT_EQ(HostTensor::create(ATTN_F32, {1000}, Layout::BHSD, floats),
            ATTN_OK);
  ASSERT_EQ(HostTensor::create(ATTN_I32, {1000}, Layout::BHSD, integers),
            ATTN_OK);
  ASSERT_EQ(HostTensor::create(ATTN_I1, {1000}, Layout::BHSD, coins), ATTN_OK);
  RandomStream stream(0, 0);
  Fill fill;
  ASSERT_EQ(parseFill("uniform:2:5", fill), ATTN_OK);
  fillTensor(floats, fill, stream);
  fillTensor(integers, fill, stream);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_GE(floats.load(i), 2);
    EXPECT_LE(floats.load(i), 5);
    EXPECT_GE(integers.load(i), 2);
    EXPECT_LE(integers.load(i), 4);
  }
  ASSERT_EQ(parseFill("const:-1.5", fill), ATTN_OK);
  fillTensor(floats, fill, stream);
  EXPECT_EQ(floats.load(999), -1.5);
  ASSERT_EQ(parseFill("iota", fill), ATTN_OK);
  fillTensor(integers, fill, stream);
  EXPECT_EQ(integers.load(999), 999);
  fillTensor(coins, getDefaultFill(ATTN_I1), stream);
  int heads = 0;
  for (int i = 0; i < 1000; ++i)
    heads += coins.load(i) != 0;
  EXPECT_NEAR(heads, 500, 80);
  EXPECT_ERROR(parseFill("normal:x", fill), ATTN_INVALID_ARGUMENT,
               "'normal:x' is not a way to fill a tensor (expected "
               "normal[:SCALE], uniform:LOW:HIGH, zeros, ones, const:VALUE or "
               "iota; scales and bounds are finite)");
}

TEST(HostTensor, SaturatesIntegers) {
  HostTensor tensor;
  ASSERT_EQ(HostTensor::create(ATTN_I8, {1}, Layout::BHSD, tensor), ATTN_OK);
  tensor.store(0, 1000);
  EXPECT_EQ(tensor.load(0), 127);
  tensor.store(0, -1000);
  EXPECT_EQ(tensor.load(0), -128);
  tensor.store(0, std::nan(""));
  EXPECT_EQ(tensor.load(0), 0);
  ASSERT_EQ(HostTensor::create(ATTN_I64, {1}, Layout::BHSD, tensor), ATTN_OK);
  tensor.store(0, 1e30);
  EXPECT_EQ(*static_cast<int64_t *>(tensor.getData()), INT64_MAX);
}

TEST(HostTensor, Poison) {
  for (int32_t dtype : {ATTN_BF16, ATTN_F16, ATTN_F32, ATTN_F64}) {
    HostTensor tensor;
    ASSERT_EQ(HostTensor::create(dtype, {3}, Layout::BHSD, tensor), ATTN_OK);
    tensor.poison();
    EXPECT_TRUE(std::isnan(tensor.load(2)));
  }
}

TEST(HostTensor, ImpossibleShapes) {
  HostTensor tensor;
  EXPECT_EQ(HostTensor::create(ATTN_F32, {2, -1}, Layout::BHSD, tensor),
            ATTN_SHAPE_MISMATCH);
  EXPECT_ERROR(
      HostTensor::create(ATTN_F32, {int64_t(1) << 40, int64_t(1) << 40},
                         Layout::BHSD, tensor),
      ATTN_OUT_OF_MEMORY, "shape 1099511627776x1099511627776 is too large");
}
