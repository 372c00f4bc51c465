//===- Device.cpp - Devices, memory, events -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Thin wrappers over the driver for tools and tests, and the few that compiled
// host code needs besides launching.
//
//===----------------------------------------------------------------------===//

#include "CudaDriver.h"

#include <cstdio>
#include <mutex>

using namespace attnrt;

static CUdeviceptr toDevicePtr(const void *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

static int32_t checkBytes(int64_t bytes) {
  if (bytes < 0)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "number of bytes must not be negative (was %lld)",
                          static_cast<long long>(bytes));
  return ATTN_OK;
}

/// Looks `device` up among the driver's devices.
static int32_t getDevice(const CudaDriver &driver, int32_t device,
                         CUdevice *handle) {
  int count = 0;
  if (CUresult result = driver.deviceGetCount(&count))
    return setCudaError(driver, result, "cannot count CUDA devices");
  if (device < 0 || device >= count)
    return attnrtSetError(ATTN_NO_DEVICE,
                          "there is no CUDA device %d (the driver has %d)",
                          device, count);
  if (CUresult result = driver.deviceGet(handle, device))
    return setCudaError(driver, result, "cannot open the CUDA device");
  return ATTN_OK;
}

/// Runs `call(driver, context)` with the context of the calling thread;
/// `failure` says what a call could not do that returns an error of CUDA.
template <typename Call>
static int32_t callDriver(const char *failure, Call call) {
  const CudaDriver *driver;
  const ContextInfo *context;
  if (int32_t status = getDriverAndContext(&driver, &context))
    return status;
  if (CUresult result = call(*driver, *context))
    return setCudaError(*driver, result, failure);
  return ATTN_OK;
}

/// The same for an access to `bytes` bytes, of which there may be none.
template <typename Call>
static int32_t accessMemory(int64_t bytes, const char *failure, Call call) {
  if (int32_t status = checkBytes(bytes))
    return status;
  return callDriver(
      failure, [&](const CudaDriver &driver, const ContextInfo &) -> CUresult {
        return bytes == 0 ? CUresult() : call(driver);
      });
}

int32_t attnrtDeviceCount(int32_t *count) {
  *count = 0;
  const CudaDriver *driver;
  // No driver and a driver without devices are the same answer, not an error.
  if (getDriver(&driver))
    return ATTN_OK;
  int found = 0;
  if (CUresult result = driver->deviceGetCount(&found))
    return setCudaError(*driver, result, "cannot count CUDA devices");
  *count = found;
  return ATTN_OK;
}

int32_t attnrtDeviceName(int32_t device, char *name, int32_t size) {
  const CudaDriver *driver;
  CUdevice handle;
  if (int32_t status = getDriver(&driver))
    return status;
  if (int32_t status = getDevice(*driver, device, &handle))
    return status;
  if (CUresult result = driver->deviceGetName(name, size, handle))
    return setCudaError(*driver, result, "cannot get the CUDA device's name");
  return ATTN_OK;
}

int32_t attnrtDeviceArch(int32_t device, int32_t *major, int32_t *minor) {
  const CudaDriver *driver;
  CUdevice handle;
  if (int32_t status = getDriver(&driver))
    return status;
  if (int32_t status = getDevice(*driver, device, &handle))
    return status;
  CUresult result =
      driver->deviceGetAttribute(major, DeviceComputeMajor, handle);
  if (!result)
    result = driver->deviceGetAttribute(minor, DeviceComputeMinor, handle);
  if (result)
    return setCudaError(*driver, result,
                        "cannot get the CUDA device's architecture");
  return ATTN_OK;
}

int32_t attnrtDeviceCapacity(int32_t device, int32_t capacity, int64_t *value) {
  const CudaDriver *driver;
  CUdevice handle;
  if (int32_t status = getDriver(&driver))
    return status;
  if (int32_t status = getDevice(*driver, device, &handle))
    return status;
  if (capacity == ATTNRT_CAPACITY_MEMORY) {
    size_t total = 0;
    if (CUresult result = driver->deviceTotalMem(&total, handle))
      return setCudaError(*driver, result,
                          "cannot get the size of the CUDA device's memory");
    *value = static_cast<int64_t>(total);
    return ATTN_OK;
  }
  int attribute;
  switch (capacity) {
  case ATTNRT_CAPACITY_L2:
    attribute = DeviceL2Bytes;
    break;
  case ATTNRT_CAPACITY_SHARED:
    attribute = DeviceMaxSharedPerBlockOptin;
    break;
  case ATTNRT_CAPACITY_REGISTERS:
    attribute = DeviceRegistersPerMultiprocessor;
    break;
  default:
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "device capacity %d is not known", capacity);
  }
  int found = 0;
  if (CUresult result = driver->deviceGetAttribute(&found, attribute, handle))
    return setCudaError(*driver, result,
                        "cannot get a capacity of the CUDA device");
  *value = found;
  return ATTN_OK;
}

int32_t attnrtSetDevice(int32_t device) {
  const CudaDriver *driver;
  CUdevice handle;
  if (int32_t status = getDriver(&driver))
    return status;
  if (int32_t status = getDevice(*driver, device, &handle))
    return status;

  // Each device's primary context is retained once and kept to the end of the
  // process: others may have made it current through us.
  constexpr int maxDevices = 64;
  static std::mutex mutex;
  static CUcontext retained[maxDevices];
  if (device >= maxDevices)
    return attnrtSetError(ATTN_UNSUPPORTED,
                          "CUDA device %d: at most %d are supported", device,
                          maxDevices);
  std::lock_guard<std::mutex> lock(mutex);
  if (!retained[device])
    if (CUresult result = driver->primaryCtxRetain(&retained[device], handle))
      return setCudaError(*driver, result,
                          "cannot create the CUDA device's primary context");
  if (CUresult result = driver->ctxSetCurrent(retained[device]))
    return setCudaError(*driver, result, "cannot set the CUDA context");
  return ATTN_OK;
}

int32_t attnrtGetDevice(int32_t *device) {
  const CudaDriver *driver;
  const ContextInfo *context;
  if (int32_t status = getDriverAndContext(&driver, &context))
    return status;
  *device = context->device;
  return ATTN_OK;
}

int32_t attnrtGetSmCount(int32_t *count) {
  const CudaDriver *driver;
  const ContextInfo *context;
  if (int32_t status = getDriverAndContext(&driver, &context))
    return status;
  *count = context->sms;
  return ATTN_OK;
}

/// Reports how much memory there was, if the failure was for want of it.
static int32_t setAllocationError(const CudaDriver &driver, CUresult result,
                                  int64_t bytes, int device) {
  size_t free = 0, total = 0;
  if (result != CudaErrorOutOfMemory || driver.memGetInfo(&free, &total))
    return setCudaError(driver, result, "cannot allocate device memory");
  return attnrtSetError(
      ATTN_OUT_OF_MEMORY,
      "out of device memory: asked for %lld bytes, device %d has %zu of %zu "
      "free",
      static_cast<long long>(bytes), device, free, total);
}

int32_t attnrtMalloc(void **pointer, int64_t bytes) {
  *pointer = nullptr;
  const CudaDriver *driver;
  const ContextInfo *context;
  if (int32_t status = checkBytes(bytes))
    return status;
  if (int32_t status = getDriverAndContext(&driver, &context))
    return status;
  if (bytes == 0)
    return ATTN_OK;
  CUdeviceptr address = 0;
  if (CUresult result = driver->memAlloc(&address, bytes))
    return setAllocationError(*driver, result, bytes, context->device);
  *pointer = reinterpret_cast<void *>(address);
  return ATTN_OK;
}

int32_t attnrtFree(void *pointer) {
  if (!pointer)
    return ATTN_OK;
  return callDriver("cannot free device memory",
                    [&](const CudaDriver &driver, const ContextInfo &) {
                      return driver.memFree(toDevicePtr(pointer));
                    });
}

/// The fraction of the device's memory, as a divisor, that the pool of scratch
/// memory keeps when nothing is in use. A dropout keep mask may take as much by
/// default; see docs/Runtime.md.
static constexpr uint64_t keptPart = 8;

/// The context's pool of scratch memory, or null if there can be none. Unlike
/// the device's own it keeps memory when nothing is in use: to get a gigabyte
/// anew takes a millisecond.
static CUmemoryPool getPool(const CudaDriver &driver,
                            const ContextInfo &context) {
  if (!driver.memPoolCreate || !driver.memPoolSetAttribute ||
      !driver.memAllocFromPoolAsync)
    return nullptr;
  if (CUmemoryPool pool = context.pool.load(std::memory_order_acquire))
    return pool;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (CUmemoryPool pool = context.pool.load(std::memory_order_relaxed))
    return pool;
  MemPoolProperties properties = {};
  properties.allocationType = MemAllocationPinned;
  properties.locationType = MemLocationDevice;
  properties.locationId = context.device;
  CUmemoryPool pool = nullptr;
  if (driver.memPoolCreate(&pool, &properties))
    return nullptr;
  // A pool that keeps nothing serves as well as the device's own.
  size_t total = 0;
  (void)driver.deviceTotalMem(&total, context.device);
  uint64_t threshold = total / keptPart;
  (void)driver.memPoolSetAttribute(pool, MemPoolReleaseThreshold, &threshold);
  context.pool.store(pool, std::memory_order_release);
  return pool;
}

int32_t attnrtMallocAsync(void **pointer, int64_t bytes, void *stream) {
  *pointer = nullptr;
  const CudaDriver *driver;
  const ContextInfo *context;
  if (int32_t status = checkBytes(bytes))
    return status;
  if (int32_t status = getDriverAndContext(&driver, &context))
    return status;
  if (bytes == 0)
    return ATTN_OK;
  if (!driver->memAllocAsync || !driver->memFreeAsync)
    return attnrtSetError(ATTN_UNSUPPORTED,
                          "the CUDA driver has no stream-ordered allocation; "
                          "11.2 or later is needed");
  CUdeviceptr address = 0;
  auto *on = static_cast<CUstream>(stream);
  CUmemoryPool pool = getPool(*driver, *context);
  if (CUresult result =
          pool ? driver->memAllocFromPoolAsync(&address, bytes, pool, on)
               : driver->memAllocAsync(&address, bytes, on))
    return setAllocationError(*driver, result, bytes, context->device);
  *pointer = reinterpret_cast<void *>(address);
  return ATTN_OK;
}

int32_t attnrtFreeAsync(void *pointer, void *stream) {
  if (!pointer)
    return ATTN_OK;
  const CudaDriver *driver;
  const ContextInfo *context;
  if (int32_t status = getDriverAndContext(&driver, &context))
    return status;
  if (!driver->memFreeAsync)
    return attnrtSetError(ATTN_UNSUPPORTED,
                          "the CUDA driver has no stream-ordered allocation; "
                          "11.2 or later is needed");
  if (CUresult result = driver->memFreeAsync(toDevicePtr(pointer),
                                             static_cast<CUstream>(stream)))
    return setCudaError(*driver, result, "cannot free device memory");
  return ATTN_OK;
}

int32_t attnrtCopyToDevice(void *destination, const void *source,
                           int64_t bytes) {
  return accessMemory(
      bytes, "cannot copy to the device", [&](const CudaDriver &driver) {
        return driver.memcpyHtoD(toDevicePtr(destination), source, bytes);
      });
}

int32_t attnrtCopyFromDevice(void *destination, const void *source,
                             int64_t bytes) {
  return accessMemory(
      bytes, "cannot copy from the device", [&](const CudaDriver &driver) {
        return driver.memcpyDtoH(destination, toDevicePtr(source), bytes);
      });
}

int32_t attnrtMemsetAsync(void *pointer, int32_t value, int64_t bytes,
                          void *stream) {
  return accessMemory(
      bytes, "cannot set device memory", [&](const CudaDriver &driver) {
        return driver.memsetD8Async(toDevicePtr(pointer),
                                    static_cast<unsigned char>(value), bytes,
                                    static_cast<CUstream>(stream));
      });
}

int32_t attnrtMemset(void *pointer, int32_t value, int64_t bytes) {
  if (int32_t status =
          attnrtMemsetAsync(pointer, value, bytes, /*stream=*/nullptr))
    return status;
  return attnrtSynchronize();
}

int32_t attnrtSynchronize(void) {
  return callDriver("work on the device failed",
                    [](const CudaDriver &driver, const ContextInfo &) {
                      return driver.ctxSynchronize();
                    });
}

int32_t attnrtEventCreate(void **event) {
  *event = nullptr;
  CUevent created = nullptr;
  int32_t status =
      callDriver("cannot create an event",
                 [&](const CudaDriver &driver, const ContextInfo &) {
                   return driver.eventCreate(&created, /*flags=*/0);
                 });
  if (!status)
    *event = created;
  return status;
}

int32_t attnrtEventDestroy(void *event) {
  if (!event)
    return ATTN_OK;
  const CudaDriver *driver;
  if (int32_t status = getDriver(&driver))
    return status;
  if (CUresult result = driver->eventDestroy(static_cast<CUevent>(event)))
    return setCudaError(*driver, result, "cannot destroy an event");
  return ATTN_OK;
}

int32_t attnrtEventRecord(void *event, void *stream) {
  const CudaDriver *driver;
  if (int32_t status = getDriver(&driver))
    return status;
  if (CUresult result = driver->eventRecord(static_cast<CUevent>(event),
                                            static_cast<CUstream>(stream)))
    return setCudaError(*driver, result, "cannot record an event");
  return ATTN_OK;
}

int32_t attnrtEventElapsedMs(void *begin, void *end, double *milliseconds) {
  *milliseconds = 0;
  const CudaDriver *driver;
  if (int32_t status = getDriver(&driver))
    return status;
  if (CUresult result = driver->eventSynchronize(static_cast<CUevent>(end)))
    return setCudaError(*driver, result, "work on the device failed");
  float elapsed = 0;
  if (CUresult result = driver->eventElapsedTime(
          &elapsed, static_cast<CUevent>(begin), static_cast<CUevent>(end)))
    return setCudaError(*driver, result, "cannot read the time of events");
  *milliseconds = elapsed;
  return ATTN_OK;
}
