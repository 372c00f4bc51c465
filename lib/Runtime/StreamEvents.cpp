//===- StreamEvents.cpp - Order among streams -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StreamEvents.h"
#include "attn-runtime/attn_runtime.h"

using namespace attnrt;

StreamEvent::~StreamEvent() {
  if (event)
    driver->eventDestroy(event);
}

int32_t StreamEvent::record(void *stream) {
  if (!event) {
    if (int32_t status = getDriver(&driver))
      return status;
    if (!driver->streamWaitEvent)
      return attnrtSetError(ATTN_UNSUPPORTED,
                            "the CUDA driver has no 'cuStreamWaitEvent'");
    if (CUresult failed = driver->eventCreate(&event, EventDisableTiming)) {
      event = nullptr;
      return setCudaError(*driver, failed, "cannot create an event");
    }
  }
  if (CUresult failed =
          driver->eventRecord(event, static_cast<CUstream>(stream)))
    return setCudaError(*driver, failed, "cannot record an event");
  return ATTN_OK;
}

int32_t StreamEvent::makeWait(void *stream) const {
  if (CUresult failed = driver->streamWaitEvent(static_cast<CUstream>(stream),
                                                event, /*flags=*/0))
    return setCudaError(*driver, failed, "cannot wait for an event");
  return ATTN_OK;
}

int32_t attnrt::copyOnStream(void *destination, const void *source,
                             int64_t bytes, void *stream) {
  const CudaDriver *driver;
  if (int32_t status = getDriver(&driver))
    return status;
  auto address = [](const void *pointer) {
    return static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(pointer));
  };
  if (bytes == 0)
    return ATTN_OK;
  if (CUresult failed = driver->memcpyAsync(
          address(destination), address(source), static_cast<size_t>(bytes),
          static_cast<CUstream>(stream)))
    return setCudaError(*driver, failed, "cannot copy memory of devices");
  return ATTN_OK;
}
