//===- Launch.cpp - Loading and launching kernels -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads a kernel's module once per context and launches it. A kernel keeps the
// list of contexts that it is loaded in; the list only grows at its head, so
// that a launch reads it without a lock.
//
//===----------------------------------------------------------------------===//

#include "CudaDriver.h"

#include <climits>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>

using namespace attnrt;

namespace {

/// A module in a context. Kernels of one image share it.
struct LoadedModule {
  const ContextInfo *context;
  uint64_t imageHash;
  uint64_t imageSize;
  CUmodule module;
  int users;
  LoadedModule *next;
};

/// A kernel in a context.
struct LoadedKernel {
  const ContextInfo *context;
  CUfunction function;
  LoadedModule *module;
  LoadedKernel *next;
};

} // namespace

/// Guards `loadedModules` and the insertion into any kernel's list.
static std::mutex loadMutex;
static LoadedModule *loadedModules = nullptr;

static LoadedKernel *findLoaded(const attnrt_kernel *kernel,
                                const ContextInfo *context) {
  void *head = __atomic_load_n(&kernel->cache, __ATOMIC_ACQUIRE);
  for (auto *loaded = static_cast<LoadedKernel *>(head); loaded;
       loaded = loaded->next)
    if (loaded->context == context)
      return loaded;
  return nullptr;
}

/// Images are told apart by contents: an address may come to hold another image
/// when the library that held the first is unloaded.
static uint64_t hashImage(const void *image, uint64_t size) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto *bytes = static_cast<const unsigned char *>(image);
  for (uint64_t i = 0; i < size; ++i)
    hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

static bool isElf(const attnrt_kernel &kernel) {
  return kernel.image_size >= 4 && memcmp(kernel.image, "\177ELF", 4) == 0;
}

/// Whether a kernel built for one architecture runs on another.
static int32_t checkArch(const attnrt_kernel &kernel,
                         const ContextInfo &context) {
  int major = kernel.arch_major, minor = kernel.arch_minor;
  bool same = context.major == major && context.minor == minor;
  bool later = context.major > major ||
               (context.major == major && context.minor >= minor);
  bool sameMajor = context.major == major;
  if (same || (!kernel.arch_specific && later && (sameMajor || !isElf(kernel))))
    return ATTN_OK;
  return attnrtSetError(ATTN_WRONG_ARCH,
                        "kernel '%s' is built for sm_%d%d%s, device %d is "
                        "sm_%d%d",
                        kernel.name, major, minor,
                        kernel.arch_specific ? "a" : "", context.device,
                        context.major, context.minor);
}

static int32_t getModule(const CudaDriver &driver, const attnrt_kernel &kernel,
                         const ContextInfo *context, LoadedModule **result) {
  uint64_t hash = hashImage(kernel.image, kernel.image_size);
  for (LoadedModule *loaded = loadedModules; loaded; loaded = loaded->next)
    if (loaded->context == context && loaded->imageHash == hash &&
        loaded->imageSize == kernel.image_size) {
      *result = loaded;
      return ATTN_OK;
    }

  char log[1024] = {};
  int options[] = {JitErrorLogBuffer, JitErrorLogBufferSize};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log) - 1)};
  CUmodule module = nullptr;
  if (CUresult failed =
          driver.moduleLoadDataEx(&module, kernel.image, 2, options, values)) {
    char action[1400];
    snprintf(action, sizeof(action),
             "cannot load the module of kernel '%s'%s%s%s", kernel.name,
             *log ? " (" : "", log, *log ? ")" : "");
    return setCudaError(driver, failed, action);
  }
  auto *loaded = new (std::nothrow) LoadedModule{
      context, hash, kernel.image_size, module, /*users=*/0, loadedModules};
  if (!loaded) {
    driver.moduleUnload(module);
    return attnrtSetError(ATTN_OUT_OF_MEMORY, "out of host memory");
  }
  loadedModules = loaded;
  *result = loaded;
  return ATTN_OK;
}

/// Gives up one use of a module, unless it was never used.
static CUresult releaseModule(const CudaDriver &driver, LoadedModule *module) {
  if (module->users > 0)
    --module->users;
  if (module->users > 0)
    return CudaSuccess;
  for (LoadedModule **link = &loadedModules; *link; link = &(*link)->next)
    if (*link == module) {
      *link = module->next;
      break;
    }
  CUcontext previous = nullptr;
  driver.ctxGetCurrent(&previous);
  CUresult result = driver.ctxSetCurrent(module->context->context);
  if (!result)
    result = driver.moduleUnload(module->module);
  driver.ctxSetCurrent(previous);
  delete module;
  return result;
}

/// Finds the kernel in its module and prepares it for its launches.
static int32_t prepareFunction(const CudaDriver &driver,
                               const attnrt_kernel &kernel, CUmodule module,
                               CUfunction *function) {
  char action[512];
  if (CUresult failed =
          driver.moduleGetFunction(function, module, kernel.name)) {
    snprintf(action, sizeof(action), "cannot find kernel '%s' in its module",
             kernel.name);
    return setCudaError(driver, failed, action);
  }
  if (kernel.shared_bytes > 0) {
    if (CUresult failed = driver.funcSetAttribute(
            *function, FunctionMaxDynamicShared, kernel.shared_bytes)) {
      snprintf(action, sizeof(action),
               "cannot give kernel '%s' %d bytes of shared memory", kernel.name,
               kernel.shared_bytes);
      return setCudaError(driver, failed, action);
    }
  }
  // More than 8 blocks per cluster work only where a kernel says it knows.
  if (kernel.cluster_size > 8) {
    if (CUresult failed =
            driver.funcSetAttribute(*function, FunctionNonPortableCluster, 1)) {
      snprintf(action, sizeof(action),
               "cannot give kernel '%s' clusters of %d blocks", kernel.name,
               kernel.cluster_size);
      return setCudaError(driver, failed, action);
    }
  }
  return ATTN_OK;
}

/// The slow path of a launch: the first one in a context.
static int32_t loadKernel(const CudaDriver &driver, attnrt_kernel *kernel,
                          const ContextInfo *context,
                          const LoadedKernel **result) {
  std::lock_guard<std::mutex> lock(loadMutex);
  if (LoadedKernel *loaded = findLoaded(kernel, context)) {
    *result = loaded;
    return ATTN_OK;
  }
  if (!kernel->image || kernel->image_size == 0 || !kernel->name)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "kernel '%s' has no image or no name",
                          kernel->name ? kernel->name : "");
  if (int32_t status = checkArch(*kernel, *context))
    return status;
  if (kernel->shared_bytes > context->maxSharedBytes)
    return attnrtSetError(ATTN_UNSUPPORTED,
                          "kernel '%s' needs %d bytes of shared memory, device "
                          "%d has %d per block",
                          kernel->name, kernel->shared_bytes, context->device,
                          context->maxSharedBytes);

  LoadedModule *module;
  if (int32_t status = getModule(driver, *kernel, context, &module))
    return status;
  CUfunction function = nullptr;
  int32_t status = prepareFunction(driver, *kernel, module->module, &function);
  LoadedKernel *loaded = nullptr;
  if (status == ATTN_OK) {
    loaded =
        new (std::nothrow) LoadedKernel{context, function, module, nullptr};
    if (!loaded)
      status = attnrtSetError(ATTN_OUT_OF_MEMORY, "out of host memory");
  }
  if (!loaded) {
    if (module->users == 0)
      releaseModule(driver, module);
    return status;
  }
  ++module->users;
  loaded->next = static_cast<LoadedKernel *>(kernel->cache);
  __atomic_store_n(&kernel->cache, static_cast<void *>(loaded),
                   __ATOMIC_RELEASE);
  *result = loaded;
  return ATTN_OK;
}

int32_t attnrtUnloadKernel(attnrt_kernel *kernel) {
  std::lock_guard<std::mutex> lock(loadMutex);
  auto *loaded = static_cast<LoadedKernel *>(
      __atomic_exchange_n(&kernel->cache, nullptr, __ATOMIC_ACQ_REL));
  if (!loaded)
    return ATTN_OK;
  const CudaDriver *driver;
  if (int32_t status = getDriver(&driver))
    return status;
  CUresult firstFailure = CudaSuccess;
  while (loaded) {
    LoadedKernel *next = loaded->next;
    CUresult result = releaseModule(*driver, loaded->module);
    if (!firstFailure)
      firstFailure = result;
    delete loaded;
    loaded = next;
  }
  if (firstFailure)
    return setCudaError(*driver, firstFailure, "cannot unload a module");
  return ATTN_OK;
}

static int32_t setLaunchError(const CudaDriver &driver, CUresult result,
                              const attnrt_kernel &kernel, int64_t gx,
                              int64_t gy, int64_t gz) {
  char action[512];
  snprintf(action, sizeof(action),
           "cannot launch kernel '%s' (grid %lld x %lld x %lld, %d threads, %d "
           "bytes of shared memory)",
           kernel.name, static_cast<long long>(gx), static_cast<long long>(gy),
           static_cast<long long>(gz), kernel.block_size, kernel.shared_bytes);
  return setCudaError(driver, result, action);
}

namespace {
/// How a kernel begins: in stream order; early, without waiting for the work
/// before it in the stream, if device and driver support that; or with all CTAs
/// at the same time.
enum class LaunchMode { Ordered, Early, Together };
} // namespace

/// Checks that the driver can launch a grid.
static int32_t checkGrid(const attnrt_kernel &kernel, const int64_t (&grid)[3],
                         int64_t cluster) {
  const int64_t limits[] = {INT32_MAX, 65535, 65535};
  for (int i = 0; i < 3; ++i)
    if (grid[i] < 0 || grid[i] > limits[i])
      return attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "kernel '%s': dimension %c of the grid is %lld, "
                            "expected 0 to %lld",
                            kernel.name, "xyz"[i],
                            static_cast<long long>(grid[i]),
                            static_cast<long long>(limits[i]));
  if (grid[0] % cluster != 0)
    return attnrtSetError(ATTN_INVALID_ARGUMENT,
                          "kernel '%s': dimension x of the grid is %lld, "
                          "expected a multiple of the cluster size %lld",
                          kernel.name, static_cast<long long>(grid[0]),
                          static_cast<long long>(cluster));
  return ATTN_OK;
}

/// The CTAs along x, at most as many as are resident if `ctasPerSm` of them
/// share an SM. 0 is for no such limit.
static int64_t limitToResident(int64_t ctas, int32_t ctasPerSm,
                               const ContextInfo &context, int64_t cluster) {
  if (ctasPerSm <= 0)
    return ctas;
  int64_t resident = static_cast<int64_t>(ctasPerSm) * context.sms;
  resident -= resident % cluster;
  if (resident < cluster)
    resident = cluster;
  return ctas < resident ? ctas : resident;
}

/// Launches a kernel with the attributes of clusters and of its mode.
static int32_t launchWithAttributes(const CudaDriver &driver,
                                    const attnrt_kernel &kernel,
                                    CUfunction function,
                                    const int64_t (&grid)[3], int64_t cluster,
                                    void **params, void *stream, bool isEarly,
                                    bool isTogether) {
  if (!driver.launchKernelEx)
    return attnrtSetError(
        ATTN_UNSUPPORTED,
        "kernel '%s' needs %s; the CUDA driver is too old for "
        "them (11.8 or later is needed)",
        kernel.name,
        cluster > 1 ? "clusters" : "thread blocks that run together");
  LaunchAttribute attributes[2] = {};
  unsigned numAttributes = 0;
  if (cluster > 1) {
    LaunchAttribute &attribute = attributes[numAttributes++];
    attribute.id = LaunchClusterDimension;
    attribute.value.cluster = {static_cast<unsigned>(cluster), 1, 1};
  }
  if (isEarly) {
    LaunchAttribute &attribute = attributes[numAttributes++];
    attribute.id = LaunchProgrammaticStreamSerialization;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  if (isTogether) {
    LaunchAttribute &attribute = attributes[numAttributes++];
    attribute.id = LaunchCooperative;
    attribute.value.cooperative = 1;
  }
  LaunchConfig config = {};
  config.gridX = grid[0];
  config.gridY = grid[1];
  config.gridZ = grid[2];
  config.blockX = kernel.block_size;
  config.blockY = 1;
  config.blockZ = 1;
  config.sharedBytes = kernel.shared_bytes;
  config.stream = static_cast<CUstream>(stream);
  config.attributes = attributes;
  config.numAttributes = numAttributes;
  if (CUresult result =
          driver.launchKernelEx(&config, function, params, nullptr))
    return setLaunchError(driver, result, kernel, grid[0], grid[1], grid[2]);
  return ATTN_OK;
}

static int32_t launchKernel(attnrt_kernel *kernel, int64_t gx, int64_t gy,
                            int64_t gz, int32_t ctas_per_sm, void **params,
                            void *stream, LaunchMode mode) {
  if (gx == 0 || gy == 0 || gz == 0)
    return ATTN_OK;

  const CudaDriver *driver;
  const ContextInfo *context;
  if (int32_t status = getDriverAndContext(&driver, &context))
    return status;

  int64_t cluster = kernel->cluster_size > 1 ? kernel->cluster_size : 1;
  gx = limitToResident(gx, ctas_per_sm, *context, cluster);
  const int64_t grid[] = {gx, gy, gz};
  if (int32_t status = checkGrid(*kernel, grid, cluster))
    return status;

  const LoadedKernel *loaded = findLoaded(kernel, context);
  if (!loaded)
    if (int32_t status = loadKernel(*driver, kernel, context, &loaded))
      return status;

  bool isEarly = mode == LaunchMode::Early && driver->launchKernelEx &&
                 context->major >= 9;
  bool isTogether = mode == LaunchMode::Together;
  if (cluster > 1 || isEarly || isTogether)
    return launchWithAttributes(*driver, *kernel, loaded->function, grid,
                                cluster, params, stream, isEarly, isTogether);
  if (CUresult result = driver->launchKernel(
          loaded->function, gx, gy, gz, kernel->block_size, 1, 1,
          kernel->shared_bytes, static_cast<CUstream>(stream), params, nullptr))
    return setLaunchError(*driver, result, *kernel, gx, gy, gz);
  return ATTN_OK;
}

int32_t attnrtLaunchKernel(attnrt_kernel *kernel, int64_t gx, int64_t gy,
                           int64_t gz, int32_t ctas_per_sm, void **params,
                           void *stream) {
  return launchKernel(kernel, gx, gy, gz, ctas_per_sm, params, stream,
                      LaunchMode::Ordered);
}

int32_t attnrtLaunchKernelEarly(attnrt_kernel *kernel, int64_t gx, int64_t gy,
                                int64_t gz, int32_t ctas_per_sm, void **params,
                                void *stream) {
  return launchKernel(kernel, gx, gy, gz, ctas_per_sm, params, stream,
                      LaunchMode::Early);
}

int32_t attnrtLaunchKernelTogether(attnrt_kernel *kernel, int64_t gx,
                                   int64_t gy, int64_t gz, int32_t ctas_per_sm,
                                   void **params, void *stream) {
  return launchKernel(kernel, gx, gy, gz, ctas_per_sm, params, stream,
                      LaunchMode::Together);
}
