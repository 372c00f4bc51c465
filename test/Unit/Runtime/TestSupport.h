//===- TestSupport.h - What the runtime's unit tests share ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fake driver's own functions, and tensors in few words.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_RUNTIME_TESTSUPPORT_H
#define ATTN_TEST_UNIT_RUNTIME_TESTSUPPORT_H

#include "FakeCuda.h"
#include "attn-runtime/attn_runtime.h"

#include <cstdlib>
#include <string>
#include <vector>

/// The fake driver, which the runtime opens too.
struct FakeDriver {
  decltype(&fakeCudaReset) reset;
  decltype(&fakeCudaCount) count;
  decltype(&fakeCudaFail) fail;
  decltype(&fakeCudaLastLaunch) lastLaunch;
  decltype(&fakeCudaLastTensorMap) lastTensorMap;
  decltype(&fakeCudaLastShared) lastShared;
  decltype(&fakeCudaKept) kept;
  decltype(&fakeCudaCapture) capture;
};
const FakeDriver &getFakeDriver();

/// A tensor of given shape, by default contiguous.
struct TestTensor {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  attn_tensor view = {};

  TestTensor(int32_t dtype, std::vector<int64_t> sizes, void *data,
             int32_t device = ATTN_DEVICE_HOST)
      : shape(std::move(sizes)), strides(shape.size(), 1) {
    for (size_t i = shape.size(); i-- > 1;)
      strides[i - 1] = strides[i] * shape[i];
    view.data = data;
    view.shape = shape.data();
    view.strides = strides.data();
    view.rank = static_cast<int32_t>(shape.size());
    view.dtype = dtype;
    view.device = device;
  }
  TestTensor(const TestTensor &) = delete;
  TestTensor &operator=(const TestTensor &) = delete;
};

/// Expects a status and a text of the calling thread's last error.
#define EXPECT_ERROR(expression, status, text)                                 \
  do {                                                                         \
    EXPECT_EQ(expression, status);                                             \
    EXPECT_STREQ(attnGetLastError(), text);                                    \
  } while (false)

#endif // ATTN_TEST_UNIT_RUNTIME_TESTSUPPORT_H
