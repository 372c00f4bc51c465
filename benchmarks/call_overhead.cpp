//===- call_overhead.cpp - Host time of one call --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Measures what a call of a compiled function costs on the host, on the shapes
// of an attention call: the argument checks, the tensor maps, the launch. Uses
// the driver that ATTN_CUDA_DRIVER names, which may be the fake one of the unit
// tests (that leaves the runtime's own time), or else the real one. Prints one
// JSON object; all times are medians over batches, in microseconds.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "attn-runtime/attn_runtime.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

// A kernel that does nothing, for a real driver and for the fake one.
static const char EmptyPtx[] = ".version 7.0\n"
                               ".target sm_80\n"
                               ".address_size 64\n"
                               ".visible .entry empty(.param .u64 out)\n"
                               "{ ret; }\n";
static const fake_image EmptyImage = {
    {'F', 'A', 'K', 'E', 'C', 'U', 'D', 'A'}, 1, {{"empty", nullptr}}};

static constexpr int64_t QueryDims[] = {-1, 32, -2, 128};
static constexpr int64_t KeyDims[] = {-1, 8, -3, 128};
static constexpr int64_t LseDims[] = {-1, 32, -2};
static constexpr attn_tensor_spec Specs[] = {
    {"query", ATTN_BF16, 4, QueryDims, 16, ATTN_ACCESS_READ},
    {"key", ATTN_BF16, 4, KeyDims, 16, ATTN_ACCESS_READ},
    {"value", ATTN_BF16, 4, KeyDims, 16, ATTN_ACCESS_READ},
    {"out", ATTN_BF16, 4, QueryDims, 16, ATTN_ACCESS_WRITE},
    {"lse", ATTN_F32, 3, LseDims, 4, ATTN_ACCESS_WRITE}};
static constexpr int NumArgs = 5;

static void check(int32_t status) {
  if (status == ATTN_OK)
    return;
  fprintf(stderr, "call_overhead: %s [%s]\n", attnGetLastError(),
          attnStatusName(status));
  exit(1);
}

namespace {

/// The arguments of a call with B = 1, S = 512.
struct Call {
  int64_t queryShape[4] = {1, 32, 512, 128};
  int64_t queryStrides[4] = {512 * 32 * 128, 128, 32 * 128, 1};
  int64_t keyShape[4] = {1, 8, 512, 128};
  int64_t keyStrides[4] = {512 * 8 * 128, 128, 8 * 128, 1};
  int64_t lseShape[3] = {1, 32, 512};
  int64_t lseStrides[3] = {32 * 512, 512, 1};
  attn_tensor tensors[NumArgs] = {
      {nullptr, queryShape, queryStrides, 4, ATTN_BF16, 0, 0},
      {nullptr, keyShape, keyStrides, 4, ATTN_BF16, 0, 0},
      {nullptr, keyShape, keyStrides, 4, ATTN_BF16, 0, 0},
      {nullptr, queryShape, queryStrides, 4, ATTN_BF16, 0, 0},
      {nullptr, lseShape, lseStrides, 3, ATTN_F32, 0, 0}};
  const attn_tensor *args[NumArgs];
  attnrt_kernel kernel = {};
  alignas(64) unsigned char maps[4][128];

  Call();

  void checkTensors() {
    check(attnrtCheckTensors(Specs, NumArgs, args, NumArgs, ATTNRT_KIND_CUDA,
                             "attention"));
  }
  void encodeMaps() {
    const int32_t box[] = {1, 1, 64, 64};
    for (int i = 0; i < 4; ++i)
      check(attnrtEncodeTensorMap(maps[i], tensors[i].data, ATTN_BF16, 4,
                                  tensors[i].shape, tensors[i].strides, box,
                                  128, 256));
  }
  void launch() {
    void *params[] = {&tensors[3].data};
    check(attnrtLaunchKernel(&kernel, 4, 32, 1, 0, params, nullptr));
  }
};

} // namespace

Call::Call() {
  check(attnrtSetDevice(0));
  char name[256];
  check(attnrtDeviceName(0, name, sizeof(name)));
  bool fake = strncmp(name, "Fake GPU", 8) == 0;
  kernel.image = fake ? static_cast<const void *>(&EmptyImage) : EmptyPtx;
  kernel.image_size = fake ? sizeof(EmptyImage) : sizeof(EmptyPtx);
  kernel.name = "empty";
  kernel.block_size = 128;
  kernel.arch_major = 8;
  for (int i = 0; i < NumArgs; ++i) {
    int64_t bytes = attnDTypeSize(tensors[i].dtype);
    for (int dim = 0; dim < tensors[i].rank; ++dim)
      bytes *= tensors[i].shape[dim];
    check(attnrtMalloc(&tensors[i].data, bytes));
    args[i] = &tensors[i];
  }
}

/// The time of one call of `body`: the median of many batches. The device is
/// let catch up between batches, so that a full queue does not count.
template <typename Body>
static double measure(Body body) {
  constexpr int NumBatches = 200, BatchSize = 50;
  std::vector<double> times;
  for (int batch = 0; batch < NumBatches; ++batch) {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < BatchSize; ++i)
      body();
    auto end = std::chrono::steady_clock::now();
    check(attnrtSynchronize());
    times.push_back(
        std::chrono::duration<double, std::micro>(end - begin).count() /
        BatchSize);
  }
  std::nth_element(times.begin(), times.begin() + NumBatches / 2, times.end());
  return times[NumBatches / 2];
}

int main() {
  Call call;
  char name[256];
  check(attnrtDeviceName(0, name, sizeof(name)));
  int32_t major = 0, minor = 0;
  check(attnrtDeviceArch(0, &major, &minor));
  // Tensor maps are for sm_90 and later.
  bool hasMaps = major >= 9;

  double checks = measure([&] { call.checkTensors(); });
  double maps = hasMaps ? measure([&] { call.encodeMaps(); }) : 0;
  double launch = measure([&] { call.launch(); });
  double whole = measure([&] {
    call.checkTensors();
    if (hasMaps)
      call.encodeMaps();
    call.launch();
  });
  printf("{\"device\": \"%s\", \"check_tensors_us\": %.3f, "
         "\"encode_4_tensor_maps_us\": %.3f, \"launch_us\": %.3f, "
         "\"call_us\": %.3f}\n",
         name, checks, maps, launch, whole);
  for (attn_tensor &tensor : call.tensors)
    check(attnrtFree(tensor.data));
  check(attnrtUnloadKernel(&call.kernel));
  return 0;
}
