//===- CudaDriver.cpp - The CUDA driver, opened at run time ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the driver's functions and keeps track of contexts.
//
//===----------------------------------------------------------------------===//

#include "CudaDriver.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <new>

using namespace attnrt;

namespace {

/// The outcome of opening the driver, kept for every later call.
struct DriverState {
  CudaDriver driver = {};
  int32_t status = ATTN_OK;
  char error[512] = {};

  DriverState();

private:
  void load();
};

} // namespace

DriverState::DriverState() {
  load();
  if (status != ATTN_OK)
    snprintf(error, sizeof(error), "%s", attnGetLastError());
}

void DriverState::load() {
  const char *chosen = getenv("ATTN_CUDA_DRIVER");
  bool isChosen = chosen && *chosen;
  const char *path = isChosen ? chosen : "libcuda.so.1";
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    status =
        isChosen
            ? attnrtSetError(ATTN_NO_DEVICE,
                             "ATTN_CUDA_DRIVER must name a CUDA driver (was "
                             "'%s'): %s",
                             path, dlerror())
            : attnrtSetError(ATTN_NO_DEVICE, "cannot open the CUDA driver: %s",
                             dlerror());
    return;
  }

  struct DriverFunction {
    /// The member of `driver` that points to the function.
    void *member;
    const char *symbol;
    bool isRequired;
  };
  const DriverFunction functions[] = {
#define ATTNRT_REQUIRED(member, symbol, parameters)                            \
  {static_cast<void *>(&driver.member), symbol, true},
#define ATTNRT_OPTIONAL(member, symbol, parameters)                            \
  {static_cast<void *>(&driver.member), symbol, false},
      ATTNRT_CUDA_FUNCTIONS(ATTNRT_REQUIRED)
          ATTNRT_CUDA_OPTIONAL_FUNCTIONS(ATTNRT_OPTIONAL)
#undef ATTNRT_REQUIRED
#undef ATTNRT_OPTIONAL
  };
  for (const DriverFunction &function : functions) {
    void *address = dlsym(library, function.symbol);
    if (!address && function.isRequired) {
      status = attnrtSetError(ATTN_NO_DEVICE,
                              "the CUDA driver '%s' has no function '%s'", path,
                              function.symbol);
      return;
    }
    memcpy(function.member, static_cast<const void *>(&address),
           sizeof(address));
  }

  if (CUresult result = driver.init(0))
    status = setCudaError(driver, result, "cannot initialise the CUDA driver");
}

int32_t attnrt::getDriver(const CudaDriver **driver) {
  static const DriverState state;
  if (state.status != ATTN_OK)
    return attnrtSetError(state.status, "%s", state.error);
  *driver = &state.driver;
  return ATTN_OK;
}

int32_t attnrt::setCudaError(const CudaDriver &driver, CUresult result,
                             const char *action) {
  const char *name = nullptr;
  const char *text = nullptr;
  if (driver.getErrorName(result, &name) || !name)
    name = "unknown error";
  if (driver.getErrorString(result, &text) || !text)
    text = "no description";

  int32_t status = ATTN_DRIVER_ERROR;
  switch (result) {
  case CudaErrorOutOfMemory:
    status = ATTN_OUT_OF_MEMORY;
    break;
  case CudaErrorNoDevice:
  case CudaErrorInvalidDevice:
    status = ATTN_NO_DEVICE;
    break;
  case CudaErrorNoBinaryForGpu:
  case CudaErrorUnsupportedPtxVersion:
    status = ATTN_WRONG_ARCH;
    break;
  }
  return attnrtSetError(status, "%s: %s (%s)", action, text, name);
}

/// All contexts seen so far. Grows at its head and never shrinks, so that it is
/// read without a lock.
static std::atomic<ContextInfo *> contexts{nullptr};
static std::mutex contextsMutex;

static ContextInfo *findContext(CUcontext context, unsigned long long id) {
  for (ContextInfo *info = contexts.load(std::memory_order_acquire); info;
       info = info->next)
    if (info->context == context && info->id == id)
      return info;
  return nullptr;
}

static int32_t addContext(const CudaDriver &driver, CUcontext context,
                          unsigned long long id, const ContextInfo **result) {
  std::lock_guard<std::mutex> lock(contextsMutex);
  if (ContextInfo *info = findContext(context, id)) {
    *result = info;
    return ATTN_OK;
  }

  std::unique_ptr<ContextInfo> found(new (std::nothrow) ContextInfo());
  if (!found)
    return attnrtSetError(ATTN_OUT_OF_MEMORY, "out of host memory");
  found->context = context;
  found->id = id;
  CUdevice device = 0;
  CUresult failed = driver.ctxGetDevice(&device);
  // A device's handle is its ordinal.
  found->device = device;
  const struct {
    int attribute;
    int *value;
  } queries[] = {{DeviceMultiprocessorCount, &found->sms},
                 {DeviceComputeMajor, &found->major},
                 {DeviceComputeMinor, &found->minor},
                 {DeviceMaxSharedPerBlockOptin, &found->maxSharedBytes}};
  for (const auto &query : queries)
    if (!failed)
      failed = driver.deviceGetAttribute(query.value, query.attribute, device);
  if (failed)
    return setCudaError(driver, failed,
                        "cannot query the current context's device");

  found->next = contexts.load(std::memory_order_relaxed);
  *result = found.get();
  contexts.store(found.release(), std::memory_order_release);
  return ATTN_OK;
}

int32_t attnrt::getCurrentContext(const CudaDriver &driver, int fallbackDevice,
                                  const ContextInfo **info) {
  CUcontext context = nullptr;
  if (CUresult result = driver.ctxGetCurrent(&context))
    return setCudaError(driver, result, "cannot get the current CUDA context");
  if (!context) {
    if (int32_t status = attnrtSetDevice(fallbackDevice))
      return status;
    if (CUresult result = driver.ctxGetCurrent(&context))
      return setCudaError(driver, result,
                          "cannot get the current CUDA context");
  }
  unsigned long long id = 0;
  if (driver.ctxGetId && driver.ctxGetId(context, &id))
    id = 0;

  if (ContextInfo *known = findContext(context, id)) {
    *info = known;
    return ATTN_OK;
  }
  return addContext(driver, context, id, info);
}

int32_t attnrt::getDriverAndContext(const CudaDriver **driver,
                                    const ContextInfo **info) {
  if (int32_t status = getDriver(driver))
    return status;
  return getCurrentContext(**driver, /*fallbackDevice=*/0, info);
}
