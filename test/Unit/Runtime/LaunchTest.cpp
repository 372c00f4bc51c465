//===- LaunchTest.cpp - Tests of loading and launching kernels ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs kernels of the fake driver.
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "gtest/gtest.h"

#include <string>
#include <thread>

namespace {

const fake_image Image = {{'F', 'A', 'K', 'E', 'C', 'U', 'D', 'A'},
                          2,
                          {{"forward", nullptr}, {"backward", nullptr}}};

attnrt_kernel makeKernel(const char *name) {
  attnrt_kernel kernel = {};
  kernel.image = &Image;
  kernel.image_size = sizeof(Image);
  kernel.name = name;
  kernel.block_size = 384;
  kernel.shared_bytes = 100000;
  kernel.arch_major = 9;
  kernel.arch_specific = 1;
  return kernel;
}

class Launch : public ::testing::Test {
protected:
  void SetUp() override {
    getFakeDriver().reset();
    ASSERT_EQ(attnrtSetDevice(0), ATTN_OK) << attnGetLastError();
  }
  void TearDown() override {
    getFakeDriver().reset();
    EXPECT_EQ(attnrtUnloadKernel(&kernel), ATTN_OK);
  }

  int32_t launch(int64_t gx, int64_t gy, int64_t gz, int32_t perSm = 0) {
    return attnrtLaunchKernel(&kernel, gx, gy, gz, perSm, nullptr,
                              /*stream=*/nullptr);
  }

  attnrt_kernel kernel = makeKernel("forward");
};

} // namespace

TEST_F(Launch, PassesArguments) {
  int marker;
  ASSERT_EQ(attnrtLaunchKernel(&kernel, 7, 8, 9, 0, nullptr, &marker), ATTN_OK)
      << attnGetLastError();
  fake_launch last = getFakeDriver().lastLaunch();
  EXPECT_EQ(last.grid[0], 7u);
  EXPECT_EQ(last.grid[1], 8u);
  EXPECT_EQ(last.grid[2], 9u);
  EXPECT_EQ(last.block, 384u);
  EXPECT_EQ(last.shared, 100000u);
  EXPECT_EQ(last.cluster, 0u);
  EXPECT_EQ(last.stream, &marker);
  EXPECT_EQ(getFakeDriver().lastShared(), 100000);
}

TEST_F(Launch, LoadsOnceFromManyThreads) {
  std::vector<std::thread> threads;
  std::vector<int32_t> failures(8, 0);
  for (int32_t &failed : failures)
    threads.emplace_back([this, &failed] {
      attnrtSetDevice(0);
      for (int i = 0; i < 200; ++i)
        failed += launch(4, 1, 1) != ATTN_OK;
    });
  for (std::thread &thread : threads)
    thread.join();
  for (int32_t failed : failures)
    EXPECT_EQ(failed, 0);
  EXPECT_EQ(getFakeDriver().count("cuModuleLoadDataEx"), 1);
  EXPECT_EQ(getFakeDriver().count("cuModuleGetFunction"), 1);
  EXPECT_EQ(getFakeDriver().count("cuFuncSetAttribute"), 1);
  EXPECT_EQ(getFakeDriver().count("cuLaunchKernel"), 1600);
}

TEST_F(Launch, HotPathNeitherWaitsNorAllocates) {
  ASSERT_EQ(launch(4, 1, 1), ATTN_OK);
  getFakeDriver().reset();
  ASSERT_EQ(launch(4, 1, 1), ATTN_OK);
  for (const char *name :
       {"cuCtxSynchronize", "cuMemAlloc_v2", "cuMemAllocAsync",
        "cuMemAllocFromPoolAsync", "cuModuleLoadDataEx", "cuDeviceGetAttribute",
        "cuCtxSetCurrent"})
    EXPECT_EQ(getFakeDriver().count(name), 0) << name;
}

TEST_F(Launch, KernelsOfOneImageShareAModule) {
  attnrt_kernel other = makeKernel("backward");
  ASSERT_EQ(launch(1, 1, 1), ATTN_OK);
  ASSERT_EQ(attnrtLaunchKernel(&other, 1, 1, 1, 0, nullptr, nullptr), ATTN_OK);
  EXPECT_EQ(getFakeDriver().count("cuModuleLoadDataEx"), 1);
  EXPECT_EQ(attnrtUnloadKernel(&other), ATTN_OK);
  EXPECT_EQ(getFakeDriver().count("cuModuleUnload"), 0);
  EXPECT_EQ(attnrtUnloadKernel(&kernel), ATTN_OK);
  EXPECT_EQ(getFakeDriver().count("cuModuleUnload"), 1);
  // An unloaded kernel can be launched again.
  ASSERT_EQ(launch(1, 1, 1), ATTN_OK);
  EXPECT_EQ(getFakeDriver().count("cuModuleLoadDataEx"), 2);
}

TEST_F(Launch, LoadsOncePerContext) {
  kernel.arch_major = 8;
  kernel.arch_specific = 0;
  for (int i = 0; i < 3; ++i)
    for (int32_t device : {0, 1}) {
      ASSERT_EQ(attnrtSetDevice(device), ATTN_OK);
      ASSERT_EQ(launch(1, 1, 1), ATTN_OK) << attnGetLastError();
    }
  EXPECT_EQ(getFakeDriver().count("cuModuleLoadDataEx"), 2);
  EXPECT_EQ(attnrtSetDevice(0), ATTN_OK);
}

TEST_F(Launch, WrongArchitecture) {
  ASSERT_EQ(attnrtSetDevice(1), ATTN_OK);
  EXPECT_ERROR(launch(1, 1, 1), ATTN_WRONG_ARCH,
               "kernel 'forward' is built for sm_90a, device 1 is sm_80");
  kernel.arch_specific = 0;
  EXPECT_ERROR(launch(1, 1, 1), ATTN_WRONG_ARCH,
               "kernel 'forward' is built for sm_90, device 1 is sm_80");
  // A cubin runs on its own major version only, anything else on later ones.
  ASSERT_EQ(attnrtSetDevice(0), ATTN_OK);
  char cubin[64] = "\177ELF";
  kernel.image = cubin;
  kernel.image_size = sizeof(cubin);
  kernel.arch_major = 8;
  EXPECT_ERROR(launch(1, 1, 1), ATTN_WRONG_ARCH,
               "kernel 'forward' is built for sm_80, device 0 is sm_90");
}

TEST_F(Launch, PersistentGrid) {
  ASSERT_EQ(launch(1000, 1, 1, 2), ATTN_OK);
  EXPECT_EQ(getFakeDriver().lastLaunch().grid[0], 264u);
  ASSERT_EQ(launch(100, 1, 1, 2), ATTN_OK);
  EXPECT_EQ(getFakeDriver().lastLaunch().grid[0], 100u);
  // Beyond the limits of a plain grid.
  ASSERT_EQ(launch(int64_t(1) << 40, 1, 1, 1), ATTN_OK);
  EXPECT_EQ(getFakeDriver().lastLaunch().grid[0], 132u);
}

TEST_F(Launch, Clusters) {
  kernel.cluster_size = 5;
  ASSERT_EQ(launch(1000, 1, 1, 1), ATTN_OK);
  EXPECT_EQ(getFakeDriver().lastLaunch().grid[0], 130u);
  EXPECT_EQ(getFakeDriver().lastLaunch().cluster, 5u);
  EXPECT_ERROR(launch(12, 1, 1), ATTN_INVALID_ARGUMENT,
               "kernel 'forward': dimension x of the grid is 12, expected a "
               "multiple of the cluster size 5");
}

TEST_F(Launch, Early) {
  auto launchEarly = [&] {
    return attnrtLaunchKernelEarly(&kernel, 7, 1, 1, 0, nullptr,
                                   /*stream=*/nullptr);
  };
  ASSERT_EQ(launchEarly(), ATTN_OK) << attnGetLastError();
  EXPECT_EQ(getFakeDriver().lastLaunch().grid[0], 7u);
  EXPECT_EQ(getFakeDriver().lastLaunch().early, 1u);
  EXPECT_EQ(getFakeDriver().lastLaunch().cluster, 0u);
  kernel.cluster_size = 7;
  ASSERT_EQ(launchEarly(), ATTN_OK) << attnGetLastError();
  EXPECT_EQ(getFakeDriver().lastLaunch().early, 1u);
  EXPECT_EQ(getFakeDriver().lastLaunch().cluster, 7u);
  ASSERT_EQ(launch(7, 1, 1), ATTN_OK);
  EXPECT_EQ(getFakeDriver().lastLaunch().early, 0u);
  // The other device cannot, and launches it all the same.
  EXPECT_EQ(attnrtUnloadKernel(&kernel), ATTN_OK);
  kernel = makeKernel("backward");
  kernel.arch_major = 8;
  kernel.arch_specific = 0;
  ASSERT_EQ(attnrtSetDevice(1), ATTN_OK);
  ASSERT_EQ(launchEarly(), ATTN_OK) << attnGetLastError();
  EXPECT_EQ(getFakeDriver().lastLaunch().early, 0u);
  EXPECT_EQ(attnrtSetDevice(0), ATTN_OK);
}

TEST_F(Launch, Together) {
  auto launchTogether = [&](int64_t groups) {
    return attnrtLaunchKernelTogether(&kernel, groups, 1, 1,
                                      /*ctas_per_sm=*/1, nullptr,
                                      /*stream=*/nullptr);
  };
  ASSERT_EQ(launchTogether(7), ATTN_OK) << attnGetLastError();
  EXPECT_EQ(getFakeDriver().lastLaunch().grid[0], 7u);
  EXPECT_EQ(getFakeDriver().lastLaunch().together, 1u);
  EXPECT_EQ(getFakeDriver().lastLaunch().early, 0u);
  EXPECT_EQ(getFakeDriver().lastLaunch().cluster, 0u);
  // No more than there is room for.
  ASSERT_EQ(launchTogether(1000), ATTN_OK) << attnGetLastError();
  EXPECT_EQ(getFakeDriver().lastLaunch().grid[0], 132u);
  EXPECT_EQ(getFakeDriver().lastLaunch().together, 1u);
  ASSERT_EQ(launch(7, 1, 1), ATTN_OK);
  EXPECT_EQ(getFakeDriver().lastLaunch().together, 0u);
}

TEST_F(Launch, EmptyGrid) {
  EXPECT_EQ(launch(0, 5, 5), ATTN_OK);
  EXPECT_EQ(launch(5, 0, 5), ATTN_OK);
  EXPECT_EQ(launch(5, 5, 0), ATTN_OK);
  EXPECT_EQ(getFakeDriver().count("cuLaunchKernel"), 0);
}

TEST_F(Launch, GridLimits) {
  EXPECT_ERROR(launch(int64_t(1) << 31, 1, 1), ATTN_INVALID_ARGUMENT,
               "kernel 'forward': dimension x of the grid is 2147483648, "
               "expected 0 to 2147483647");
  EXPECT_ERROR(launch(1, 65536, 1), ATTN_INVALID_ARGUMENT,
               "kernel 'forward': dimension y of the grid is 65536, expected "
               "0 to 65535");
  EXPECT_ERROR(launch(1, 1, -1), ATTN_INVALID_ARGUMENT,
               "kernel 'forward': dimension z of the grid is -1, expected 0 "
               "to 65535");
}

TEST_F(Launch, TooMuchSharedMemory) {
  kernel.shared_bytes = 240000;
  EXPECT_ERROR(launch(1, 1, 1), ATTN_UNSUPPORTED,
               "kernel 'forward' needs 240000 bytes of shared memory, device "
               "0 has 232448 per block");
}

TEST_F(Launch, DriverFailures) {
  getFakeDriver().fail("cuLaunchKernel", 1);
  EXPECT_ERROR(launch(2, 3, 4), ATTN_DRIVER_ERROR,
               "cannot launch kernel 'forward' (grid 2 x 3 x 4, 384 threads, "
               "100000 bytes of shared memory): invalid argument "
               "(CUDA_ERROR_INVALID_VALUE)");
  getFakeDriver().fail("cuCtxSynchronize", 700);
  EXPECT_ERROR(attnrtSynchronize(), ATTN_DRIVER_ERROR,
               "work on the device failed: an illegal memory access was "
               "encountered (CUDA_ERROR_ILLEGAL_ADDRESS)");
}

TEST_F(Launch, LoadFailures) {
  char ptx[] = ".version 8.0";
  attnrt_kernel broken = kernel;
  broken.image = ptx;
  broken.image_size = sizeof(ptx);
  EXPECT_ERROR(attnrtLaunchKernel(&broken, 1, 1, 1, 0, nullptr, nullptr),
               ATTN_DRIVER_ERROR,
               "cannot load the module of kernel 'forward' (ptxas fatal: not "
               "an image): a PTX JIT compilation failed "
               "(CUDA_ERROR_INVALID_PTX)");
  attnrt_kernel unknown = makeKernel("sideways");
  EXPECT_ERROR(attnrtLaunchKernel(&unknown, 1, 1, 1, 0, nullptr, nullptr),
               ATTN_DRIVER_ERROR,
               "cannot find kernel 'sideways' in its module: named symbol not "
               "found (CUDA_ERROR_NOT_FOUND)");
  // Its module is of no use to anybody.
  EXPECT_EQ(getFakeDriver().count("cuModuleUnload"), 1);
  attnrt_kernel empty = {};
  empty.name = "empty";
  EXPECT_ERROR(attnrtLaunchKernel(&empty, 1, 1, 1, 0, nullptr, nullptr),
               ATTN_INVALID_ARGUMENT, "kernel 'empty' has no image or no name");
}

TEST_F(Launch, OutOfMemory) {
  void *pointer = &pointer;
  EXPECT_ERROR(attnrtMalloc(&pointer, int64_t(1) << 40), ATTN_OUT_OF_MEMORY,
               "out of device memory: asked for 1099511627776 bytes, device 0 "
               "has 1073741824 of 1073741824 free");
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(attnrtMallocAsync(&pointer, int64_t(1) << 40, nullptr),
            ATTN_OUT_OF_MEMORY);
  EXPECT_EQ(attnrtMalloc(&pointer, -1), ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(attnrtMalloc(&pointer, 0), ATTN_OK);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(attnrtFree(nullptr), ATTN_OK);
}

TEST_F(Launch, MemoryRoundTrip) {
  void *pointer = nullptr;
  ASSERT_EQ(attnrtMallocAsync(&pointer, 16, nullptr), ATTN_OK);
  char bytes[16] = "fifteen letters";
  char back[16] = {};
  EXPECT_EQ(attnrtMemset(pointer, 0x41, 16), ATTN_OK);
  EXPECT_EQ(attnrtCopyFromDevice(back, pointer, 16), ATTN_OK);
  EXPECT_EQ(std::string(back, 16), std::string(16, 'A'));
  EXPECT_EQ(attnrtCopyToDevice(pointer, bytes, 16), ATTN_OK);
  EXPECT_EQ(attnrtCopyFromDevice(back, pointer, 16), ATTN_OK);
  EXPECT_STREQ(back, bytes);
  EXPECT_EQ(attnrtFreeAsync(pointer, nullptr), ATTN_OK);
}

TEST_F(Launch, ScratchIsKept) {
  void *pointer = nullptr;
  ASSERT_EQ(attnrtMallocAsync(&pointer, 16, nullptr), ATTN_OK);
  EXPECT_EQ(attnrtFreeAsync(pointer, nullptr), ATTN_OK);
  EXPECT_EQ(getFakeDriver().count("cuMemAllocFromPoolAsync"), 1);
  EXPECT_EQ(getFakeDriver().count("cuMemAllocAsync"), 0);
  EXPECT_EQ(getFakeDriver().kept(), (1u << 30) / 8);
}

TEST_F(Launch, Devices) {
  int32_t count = 0, major = 0, minor = -1, processors = 0;
  char name[64];
  EXPECT_EQ(attnrtDeviceCount(&count), ATTN_OK);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(attnrtDeviceName(1, name, sizeof(name)), ATTN_OK);
  EXPECT_STREQ(name, "Fake GPU 1");
  EXPECT_EQ(attnrtDeviceArch(1, &major, &minor), ATTN_OK);
  EXPECT_EQ(major * 10 + minor, 80);
  EXPECT_ERROR(attnrtDeviceName(2, name, sizeof(name)), ATTN_NO_DEVICE,
               "there is no CUDA device 2 (the driver has 2)");
  EXPECT_ERROR(attnrtSetDevice(-1), ATTN_NO_DEVICE,
               "there is no CUDA device -1 (the driver has 2)");
  EXPECT_EQ(attnrtGetSmCount(&processors), ATTN_OK);
  EXPECT_EQ(processors, 132);
}

TEST_F(Launch, CapacitiesNeedNoContext) {
  int64_t memory = 0, shared = 0;
  std::thread([&] {
    EXPECT_EQ(attnrtDeviceCapacity(1, ATTNRT_CAPACITY_MEMORY, &memory),
              ATTN_OK);
    EXPECT_EQ(attnrtDeviceCapacity(1, ATTNRT_CAPACITY_SHARED, &shared),
              ATTN_OK);
    EXPECT_ERROR(attnrtDeviceCapacity(1, 99, &shared), ATTN_INVALID_ARGUMENT,
                 "device capacity 99 is not known");
  }).join();
  EXPECT_EQ(memory, int64_t(1) << 30);
  EXPECT_EQ(shared, 166912);
}

TEST_F(Launch, ThreadWithoutContextUsesDeviceZero) {
  int32_t processors = 0, status = -1;
  std::thread([&] { status = attnrtGetSmCount(&processors); }).join();
  EXPECT_EQ(status, ATTN_OK);
  EXPECT_EQ(processors, 132);
}

TEST_F(Launch, Events) {
  void *begin = nullptr, *end = nullptr;
  double elapsed = -1;
  ASSERT_EQ(attnrtEventCreate(&begin), ATTN_OK);
  ASSERT_EQ(attnrtEventCreate(&end), ATTN_OK);
  EXPECT_EQ(attnrtEventRecord(begin, nullptr), ATTN_OK);
  EXPECT_EQ(attnrtEventRecord(end, nullptr), ATTN_OK);
  EXPECT_EQ(attnrtEventElapsedMs(begin, end, &elapsed), ATTN_OK);
  EXPECT_GE(elapsed, 0);
  EXPECT_EQ(attnrtEventDestroy(begin), ATTN_OK);
  EXPECT_EQ(attnrtEventDestroy(end), ATTN_OK);
}

TEST_F(Launch, FaultsOfTheDevice) {
  EXPECT_EQ(attnrtTakeFault(ATTNRT_KIND_CUDA), ATTN_OK);
  void *word = nullptr, *again = nullptr;
  ASSERT_EQ(attnrtGetErrorFlag(ATTNRT_KIND_CUDA, &word), ATTN_OK);
  ASSERT_EQ(attnrtGetErrorFlag(ATTNRT_KIND_CUDA, &again), ATTN_OK);
  EXPECT_EQ(word, again);
  EXPECT_EQ(attnrtTakeFault(ATTNRT_KIND_CUDA), ATTN_OK);

  // A fault is reported once: to an explicit query, or by the next call's
  // checks.
  *static_cast<int32_t *>(word) = ATTNRT_FAULT_SEQUENCES;
  EXPECT_ERROR(attnrtTakeFault(ATTNRT_KIND_CUDA), ATTN_INVALID_ARGUMENT,
               "a call was given lengths or boundaries of sequences that are "
               "not sorted or not within its tensors; it computed nothing");
  EXPECT_EQ(attnrtTakeFault(ATTNRT_KIND_CUDA), ATTN_OK);
  *static_cast<int32_t *>(word) = ATTNRT_FAULT_HEADS;
  EXPECT_ERROR(attnrtTakeFault(ATTNRT_KIND_CUDA), ATTN_INVALID_ARGUMENT,
               "a call was given a map of heads with an entry that is no key "
               "head");
  // Each fault of masks has numbers of its own.
  auto *words = static_cast<int32_t *>(word);
  for (int32_t code = ATTNRT_FAULT_BOUNDARY; code <= ATTNRT_FAULT_COLUMN_TWICE;
       ++code) {
    ASSERT_LT(2 * code + 1, ATTNRT_ERROR_FLAG_WORDS);
    words[2 * code] = -code;
    words[2 * code + 1] = 100 + code;
  }
  auto expectMask = [&](attnrt_fault code, const std::string &text) {
    words[0] = code;
    EXPECT_ERROR(
        attnrtTakeFault(ATTNRT_KIND_CUDA), ATTN_INVALID_ARGUMENT,
        ("a call was given a mask that is not valid: " + text).c_str());
    EXPECT_EQ(attnrtTakeFault(ATTNRT_KIND_CUDA), ATTN_OK);
  };
  expectMask(ATTNRT_FAULT_BOUNDARY,
             "boundaries of documents hold -3, expected 0 to 103");
  expectMask(
      ATTNRT_FAULT_BOUNDARY_ORDER,
      "boundaries of documents hold -4 after 104, expected no smaller one");
  expectMask(ATTNRT_FAULT_PARENTS,
             "'parents' has -5 entries, expected 105, one for each node");
  expectMask(ATTNRT_FAULT_PARENT,
             "'parents' holds -6 for node 106, expected -1 or a smaller "
             "number than the node's");
  expectMask(ATTNRT_FAULT_OFFSETS,
             "'offsets' has -7 entries, expected 107, one more than there are "
             "rows of blocks");
  expectMask(ATTNRT_FAULT_OFFSET,
             "'offsets' holds -8, expected 0 to 108, the size of 'indices'");
  expectMask(ATTNRT_FAULT_OFFSET_ORDER,
             "'offsets' holds -9 after 109, expected no smaller one");
  expectMask(ATTNRT_FAULT_COLUMN, "'indices' holds -10, expected 0 to 110");
  expectMask(ATTNRT_FAULT_COLUMN_TWICE,
             "'indices' holds -11 twice in row 111 of blocks, expected it "
             "once");
  *static_cast<int32_t *>(word) = 99;
  EXPECT_ERROR(attnrtTakeFault(ATTNRT_KIND_CUDA), ATTN_INTERNAL,
               "a kernel reported the unknown fault 99");
}

TEST_F(Launch, FaultsOfTheHost) {
  void *word = nullptr, *other = nullptr;
  ASSERT_EQ(attnrtGetErrorFlag(ATTNRT_KIND_HOST, &word), ATTN_OK);
  std::thread([&] { attnrtGetErrorFlag(ATTNRT_KIND_HOST, &other); }).join();
  EXPECT_NE(word, other);
  *static_cast<int32_t *>(word) = ATTNRT_FAULT_SEQUENCES;
  EXPECT_EQ(attnrtTakeFault(ATTNRT_KIND_HOST), ATTN_INVALID_ARGUMENT);
  EXPECT_EQ(attnrtTakeFault(ATTNRT_KIND_HOST), ATTN_OK);
  EXPECT_ERROR(attnrtGetErrorFlag(7, &word), ATTN_INVALID_ARGUMENT,
               "unknown kind of device 7");
}
