//===- StreamsTest.cpp - Tests of forked streams --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Forks and joins streams of the fake driver.
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "gtest/gtest.h"

#include <thread>

namespace {

class Streams : public ::testing::Test {
protected:
  void SetUp() override {
    getFakeDriver().reset();
    ASSERT_EQ(attnrtSetDevice(0), ATTN_OK) << attnGetLastError();
  }
  void TearDown() override { getFakeDriver().reset(); }

  /// A pair that is in use.
  struct Pair {
    void *fork = nullptr;
    void *side = nullptr;
  };
  Pair fork() {
    Pair pair;
    EXPECT_EQ(attnrtForkStream(nullptr, &pair.fork, &pair.side), ATTN_OK)
        << attnGetLastError();
    return pair;
  }
  void join(Pair pair) {
    EXPECT_EQ(attnrtJoinStream(pair.fork, nullptr), ATTN_OK)
        << attnGetLastError();
  }
};

} // namespace

TEST_F(Streams, HotPathNeitherWaitsNorCreates) {
  Pair first = fork();
  join(first);
  getFakeDriver().reset();
  Pair second = fork();
  EXPECT_EQ(second.side, first.side);
  join(second);
  for (const char *name :
       {"cuCtxSynchronize", "cuEventSynchronize", "cuMemAlloc_v2",
        "cuMemAllocAsync", "cuStreamCreate", "cuEventCreate"})
    EXPECT_EQ(getFakeDriver().count(name), 0) << name;
  EXPECT_EQ(getFakeDriver().count("cuEventRecord"), 2);
  EXPECT_EQ(getFakeDriver().count("cuStreamWaitEvent"), 2);
}

TEST_F(Streams, ForksInUseDiffer) {
  Pair first = fork(), second = fork();
  EXPECT_NE(first.side, second.side);
  join(first);
  Pair third = fork();
  EXPECT_EQ(third.side, first.side);
  join(second);
  join(third);
}

TEST_F(Streams, StreamsOfAGraphAreNotReused) {
  Pair first = fork();
  getFakeDriver().capture(first.side, 7);
  join(first);
  Pair second = fork();
  EXPECT_NE(second.side, first.side);
  join(second);
  getFakeDriver().capture(first.side, 0);
}

TEST_F(Streams, ManyThreads) {
  std::vector<std::thread> threads;
  std::vector<int32_t> failures(8, 0);
  for (int32_t &failed : failures)
    threads.emplace_back([&failed] {
      attnrtSetDevice(0);
      for (int i = 0; i < 200; ++i) {
        void *fork = nullptr, *side = nullptr;
        failed += attnrtForkStream(nullptr, &fork, &side) != ATTN_OK;
        failed += attnrtJoinStream(fork, nullptr) != ATTN_OK;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (int32_t failed : failures)
    EXPECT_EQ(failed, 0);
  EXPECT_LE(getFakeDriver().count("cuStreamCreate"), 8);
}

TEST_F(Streams, FailuresGiveStreamsBack) {
  join(fork());
  getFakeDriver().fail("cuStreamWaitEvent", 1);
  void *failed = nullptr, *side = nullptr;
  EXPECT_ERROR(attnrtForkStream(nullptr, &failed, &side), ATTN_DRIVER_ERROR,
               "cannot fork a stream: invalid argument "
               "(CUDA_ERROR_INVALID_VALUE)");
  EXPECT_EQ(failed, nullptr);
  getFakeDriver().reset();
  Pair pair = fork();
  EXPECT_EQ(getFakeDriver().count("cuStreamCreate"), 0);
  getFakeDriver().fail("cuEventRecord", 1);
  EXPECT_ERROR(attnrtJoinStream(pair.fork, nullptr), ATTN_DRIVER_ERROR,
               "cannot join a stream: invalid argument "
               "(CUDA_ERROR_INVALID_VALUE)");
  getFakeDriver().reset();
  join(fork());
  EXPECT_EQ(getFakeDriver().count("cuStreamCreate"), 0);
  EXPECT_EQ(attnrtJoinStream(nullptr, nullptr), ATTN_OK);
}
