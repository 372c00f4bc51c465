//===- ParallelForTest.cpp - Tests of the thread pool ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Coverage, nesting, callers side by side, and forks.
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include "gtest/gtest.h"

#include <atomic>
#include <mutex>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

using Counts = std::vector<std::atomic<int>>;

void countEach(int64_t begin, int64_t end, void *context) {
  for (int64_t i = begin; i < end; ++i)
    ++(*static_cast<Counts *>(context))[i];
}

bool coversOnce(int64_t count) {
  Counts counts(count);
  if (attnrtParallelFor(count, countEach, &counts) != ATTN_OK)
    return false;
  for (std::atomic<int> &value : counts)
    if (value != 1)
      return false;
  return true;
}

} // namespace

TEST(ParallelFor, CoversEachIndexOnce) {
  for (int64_t count : {0, 1, 2, 3, 4, 5, 63, 64, 65, 1000, 100003})
    EXPECT_TRUE(coversOnce(count)) << count;
}

TEST(ParallelFor, NegativeCount) {
  EXPECT_ERROR(attnrtParallelFor(-1, countEach, nullptr), ATTN_INVALID_ARGUMENT,
               "number of iterations must not be negative (was -1)");
}

TEST(ParallelFor, ThreadCountFromEnvironment) {
  EXPECT_EQ(attnrtGetNumThreads(), 4);
}

TEST(ParallelFor, SeveralThreadsTakePart) {
  struct State {
    std::mutex mutex;
    std::set<std::thread::id> threads;
  } state;
  // Threads that find nothing left to do are no failure: try again.
  for (int attempt = 0; attempt < 100 && state.threads.size() < 2; ++attempt)
    attnrtParallelFor(
        64,
        [](int64_t, int64_t, void *context) {
          auto *state = static_cast<State *>(context);
          {
            std::lock_guard<std::mutex> lock(state->mutex);
            state->threads.insert(std::this_thread::get_id());
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        },
        &state);
  EXPECT_GE(state.threads.size(), 2u);
  EXPECT_LE(state.threads.size(), 4u);
}

TEST(ParallelFor, NestedCallsRunSerially) {
  std::atomic<int> wrong{0};
  attnrtParallelFor(
      16,
      [](int64_t, int64_t, void *context) {
        std::thread::id outer = std::this_thread::get_id();
        struct Inner {
          std::thread::id outer;
          std::atomic<int> *wrong;
          int64_t calls;
        } inner = {outer, static_cast<std::atomic<int> *>(context), 0};
        attnrtParallelFor(
            100,
            [](int64_t begin, int64_t end, void *context) {
              auto *inner = static_cast<Inner *>(context);
              if (std::this_thread::get_id() != inner->outer || begin != 0 ||
                  end != 100)
                ++*inner->wrong;
              ++inner->calls;
            },
            &inner);
        if (inner.calls != 1)
          ++*inner.wrong;
      },
      &wrong);
  EXPECT_EQ(wrong, 0);
  // The outermost level is parallel again afterwards.
  EXPECT_TRUE(coversOnce(1000));
}

TEST(ParallelFor, SeveralCallers) {
  std::vector<std::thread> callers;
  std::atomic<int> failures{0};
  for (int i = 0; i < 6; ++i)
    callers.emplace_back([&failures, i] {
      for (int round = 0; round < 200; ++round)
        failures += !coversOnce(1 + (round * 37 + i * 11) % 300);
    });
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(failures, 0);
}

TEST(ParallelFor, WorksInForkedChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer forbids threads after a fork";
#endif
  ASSERT_TRUE(coversOnce(100));
  pid_t child = fork();
  if (child == 0)
    _exit(coversOnce(1000) && coversOnce(17) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
