//===- Streams.cpp - Work concurrent with the caller's stream -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Streams that fork from the caller's and join it again. A context keeps a list
// of them that only grows at its head and is read without a lock; each is in
// use by one fork at a time.
//
//===----------------------------------------------------------------------===//

#include "CudaDriver.h"

#include <initializer_list>
#include <memory>
#include <new>

using namespace attnrt;

/// A stream, and the events that order it after and before the caller's.
struct attnrt::SideStream {
  const CudaDriver &driver;
  CUstream stream = nullptr;
  CUevent forked = nullptr;
  CUevent joined = nullptr;
  std::atomic<bool> inUse{true};
  SideStream *next = nullptr;

  explicit SideStream(const CudaDriver &driver) : driver(driver) {}
  SideStream(const SideStream &) = delete;
  SideStream &operator=(const SideStream &) = delete;
  ~SideStream() {
    if (stream)
      driver.streamDestroy(stream);
    for (CUevent event : {forked, joined})
      if (event)
        driver.eventDestroy(event);
  }

  CUresult create() {
    if (CUresult failed = driver.streamCreate(&stream, StreamNonBlocking))
      return failed;
    if (CUresult failed = driver.eventCreate(&forked, EventDisableTiming))
      return failed;
    return driver.eventCreate(&joined, EventDisableTiming);
  }

  bool acquire() { return !inUse.exchange(true, std::memory_order_acquire); }
  void release() { inUse.store(false, std::memory_order_release); }
};

/// Takes a stream that is free, null if there is none. One that has joined a
/// graph which is still being captured belongs to that graph.
static SideStream *takeStream(const CudaDriver &driver,
                              const ContextInfo &context) {
  for (SideStream *side = context.sides.load(std::memory_order_acquire); side;
       side = side->next) {
    if (!side->acquire())
      continue;
    int capturing = StreamCaptureStatusNone;
    if (!driver.streamIsCapturing(side->stream, &capturing) &&
        capturing == StreamCaptureStatusNone)
      return side;
    side->release();
  }
  return nullptr;
}

/// Adds a stream, which is in use.
static int32_t addStream(const CudaDriver &driver, const ContextInfo &context,
                         SideStream **result) {
  std::unique_ptr<SideStream> side(new (std::nothrow) SideStream(driver));
  if (!side)
    return attnrtSetError(ATTN_OUT_OF_MEMORY, "out of host memory");
  // Creating a stream is no part of a graph that some thread captures.
  int mode = StreamCaptureModeRelaxed;
  bool isRelaxed = !driver.exchangeCaptureMode(&mode);
  CUresult failed = side->create();
  if (isRelaxed)
    driver.exchangeCaptureMode(&mode);
  if (failed)
    return setCudaError(driver, failed, "cannot create a stream");
  side->next = context.sides.load(std::memory_order_relaxed);
  while (!context.sides.compare_exchange_weak(side->next, side.get(),
                                              std::memory_order_release,
                                              std::memory_order_relaxed))
    ;
  *result = side.release();
  return ATTN_OK;
}

int32_t attnrtForkStream(void *stream, void **fork, void **side) {
  *fork = nullptr;
  *side = nullptr;
  const CudaDriver *driver;
  const ContextInfo *context;
  if (int32_t status = getDriverAndContext(&driver, &context))
    return status;
  if (!driver->streamCreate || !driver->streamDestroy ||
      !driver->streamWaitEvent || !driver->streamIsCapturing ||
      !driver->exchangeCaptureMode)
    return attnrtSetError(ATTN_UNSUPPORTED,
                          "the CUDA driver is too old for concurrent streams "
                          "(10.1 or later is needed)");
  SideStream *taken = takeStream(*driver, *context);
  if (!taken)
    if (int32_t status = addStream(*driver, *context, &taken))
      return status;
  CUresult failed =
      driver->eventRecord(taken->forked, static_cast<CUstream>(stream));
  if (!failed)
    failed = driver->streamWaitEvent(taken->stream, taken->forked, /*flags=*/0);
  if (failed) {
    taken->release();
    return setCudaError(*driver, failed, "cannot fork a stream");
  }
  *fork = taken;
  *side = taken->stream;
  return ATTN_OK;
}

int32_t attnrtJoinStream(void *fork, void *stream) {
  if (!fork)
    return ATTN_OK;
  auto *side = static_cast<SideStream *>(fork);
  const CudaDriver &driver = side->driver;
  CUresult failed = driver.eventRecord(side->joined, side->stream);
  if (!failed)
    failed = driver.streamWaitEvent(static_cast<CUstream>(stream), side->joined,
                                    /*flags=*/0);
  side->release();
  if (failed)
    return setCudaError(driver, failed, "cannot join a stream");
  return ATTN_OK;
}
