//===- TestSupport.cpp - What the runtime's unit tests share --------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Points the runtime to the fake driver before anything else runs.
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include <cstdio>
#include <dlfcn.h>

namespace {
struct Environment {
  Environment() {
    setenv("ATTN_CUDA_DRIVER", FAKE_CUDA_PATH, /*overwrite=*/1);
    setenv("ATTN_NUM_THREADS", "4", /*overwrite=*/1);
  }
};
} // namespace

static Environment environment;

const FakeDriver &getFakeDriver() {
  static const FakeDriver driver = [] {
    void *library = dlopen(FAKE_CUDA_PATH, RTLD_NOW);
    if (!library) {
      fprintf(stderr, "%s\n", dlerror());
      abort();
    }
    auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(
          dlsym(library, name));
      if (!function)
        abort();
    };
    FakeDriver result;
    find(result.reset, "fakeCudaReset");
    find(result.count, "fakeCudaCount");
    find(result.fail, "fakeCudaFail");
    find(result.lastLaunch, "fakeCudaLastLaunch");
    find(result.lastTensorMap, "fakeCudaLastTensorMap");
    find(result.lastShared, "fakeCudaLastShared");
    find(result.kept, "fakeCudaKept");
    find(result.capture, "fakeCudaCapture");
    return result;
  }();
  return driver;
}
