//===- ParallelFor.cpp - Threads for host artifacts -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A small thread pool. It is not OpenMP because an artifact is to depend on
// this library alone: an OpenMP runtime would have to be on the machine that
// runs it, and a second one in a process (PyTorch brings its own) fights the
// first for the processors.
//
// The calling thread works too and waits only for workers that joined in, so
// that a call makes progress even if no worker ever comes: with none created,
// all busy for other callers, or gone because the process was forked.
//
//===----------------------------------------------------------------------===//

#include "attn-runtime/attn_runtime.h"

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

namespace {

constexpr int maxThreads = 1024;

/// Parts of the iterations per thread. Iterations may differ much in work (the
/// last rows of a causal mask see all keys, the first ones few), so that a
/// thread that is done early must find parts left.
constexpr int64_t partsPerThread = 16;

/// One call, on the stack of its caller.
struct Job {
  attnrt_body_fn body;
  void *context;
  int64_t count;
  int64_t chunk;
  std::atomic<int64_t> next{0};
  /// Workers inside, guarded by the pool's mutex.
  int active = 0;
  std::condition_variable done;
  Job *nextJob = nullptr;

  bool hasWork() const { return next.load(std::memory_order_relaxed) < count; }
  void work();
};

/// Workers and the calls they can help with. Never destroyed: its threads sleep
/// to the end of the process.
struct Pool {
  std::mutex mutex;
  std::condition_variable wake;
  Job *jobs = nullptr;
  int numWorkers = 0;

  void startWorkers(int wanted);
  void run(Job &job);
  [[noreturn]] void workerLoop();
};

} // namespace

static std::atomic<Pool *> thePool{nullptr};
static std::mutex poolMutex;

/// Whether the thread is inside a body: nested loops then run serially.
static thread_local bool insideBody = false;

void Job::work() {
  insideBody = true;
  while (true) {
    int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
    if (begin >= count)
      break;
    body(begin, count - begin < chunk ? count : begin + chunk, context);
  }
  insideBody = false;
}

void Pool::workerLoop() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    Job *job = jobs;
    while (job && !job->hasWork())
      job = job->nextJob;
    if (!job) {
      wake.wait(lock);
      continue;
    }
    ++job->active;
    lock.unlock();
    job->work();
    lock.lock();
    if (--job->active == 0)
      job->done.notify_one();
  }
}

void Pool::startWorkers(int wanted) {
  // Threads are created with pthreads because std::thread reports failure with
  // an exception. With fewer threads than wanted everything works all the same.
  while (numWorkers < wanted) {
    pthread_t thread;
    auto entry = [](void *pool) -> void * {
      static_cast<Pool *>(pool)->workerLoop();
    };
    if (pthread_create(&thread, nullptr, entry, this) != 0)
      return;
    pthread_detach(thread);
    ++numWorkers;
  }
}

void Pool::run(Job &job) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    job.nextJob = jobs;
    jobs = &job;
  }
  wake.notify_all();
  job.work();

  std::unique_lock<std::mutex> lock(mutex);
  Job **link = &jobs;
  while (*link != &job)
    link = &(*link)->nextJob;
  *link = job.nextJob;
  while (job.active > 0)
    job.done.wait(lock);
}

/// The processors the process may use.
static int countProcessors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    int count = CPU_COUNT(&set);
    if (count > 0)
      return count < maxThreads ? count : maxThreads;
  }
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  if (online < 1)
    return 1;
  return online < maxThreads ? static_cast<int>(online) : maxThreads;
}

namespace {
/// ATTN_NUM_THREADS at its first use. Later changes of the environment change
/// neither the number nor the message.
struct ThreadCount {
  /// 0 if the variable is invalid.
  int count;
  /// The beginning of the variable's value.
  char text[64] = {};

  ThreadCount();
};
} // namespace

ThreadCount::ThreadCount() {
  const char *value = getenv("ATTN_NUM_THREADS");
  if (!value || !*value) {
    count = countProcessors();
    return;
  }
  snprintf(text, sizeof(text), "%s", value);
  errno = 0;
  char *end;
  long number = strtol(value, &end, 10);
  bool isValid = errno == 0 && *end == 0 && number >= 1 && number <= maxThreads;
  count = isValid ? static_cast<int>(number) : 0;
}

static int32_t getNumThreads(int *count) {
  static const ThreadCount numThreads;
  if (numThreads.count == 0)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "ATTN_NUM_THREADS must be a number from 1 to %d (was "
                          "'%s')",
                          maxThreads, numThreads.text);
  *count = numThreads.count;
  return ATTN_OK;
}

/// In a forked child the workers are gone and locks may be held by threads that
/// no longer exist: start afresh.
static void forgetPoolAfterFork() {
  thePool.store(nullptr, std::memory_order_relaxed);
  new (&poolMutex) std::mutex;
}

static Pool *getPool(int numThreads) {
  if (Pool *pool = thePool.load(std::memory_order_acquire))
    return pool;
  std::lock_guard<std::mutex> lock(poolMutex);
  if (Pool *pool = thePool.load(std::memory_order_relaxed))
    return pool;
  static const int registered =
      pthread_atfork(nullptr, nullptr, forgetPoolAfterFork);
  (void)registered;
  auto *pool = new (std::nothrow) Pool;
  if (!pool)
    return nullptr;
  pool->startWorkers(numThreads - 1);
  thePool.store(pool, std::memory_order_release);
  return pool;
}

int32_t attnrtGetNumThreads(void) {
  int count = 1;
  return getNumThreads(&count) == ATTN_OK ? count : 1;
}

int32_t attnrtParallelFor(int64_t count, attnrt_body_fn body, void *context) {
  if (count < 0)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "number of iterations must not be negative (was "
                          "%lld)",
                          static_cast<long long>(count));
  int numThreads = 1;
  if (int32_t status = getNumThreads(&numThreads))
    return status;
  if (count == 0)
    return ATTN_OK;
  Pool *pool = nullptr;
  if (count > 1 && numThreads > 1 && !insideBody)
    pool = getPool(numThreads);
  if (!pool) {
    body(0, count, context);
    return ATTN_OK;
  }

  Job job;
  job.body = body;
  job.context = context;
  job.count = count;
  job.chunk = count / (numThreads * partsPerThread);
  if (job.chunk < 1)
    job.chunk = 1;
  pool->run(job);
  return ATTN_OK;
}
