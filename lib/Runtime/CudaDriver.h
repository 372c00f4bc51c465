//===- CudaDriver.h - The CUDA driver, opened at run time ------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of the CUDA driver API that the runtime calls, declared here so that
// neither building nor starting the library needs CUDA. Private to the runtime.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_RUNTIME_CUDADRIVER_H
#define ATTN_LIB_RUNTIME_CUDADRIVER_H

#include "attn-runtime/attn_runtime.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace attnrt {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st *;
using CUmodule = struct CUmod_st *;
using CUfunction = struct CUfunc_st *;
using CUstream = struct CUstream_st *;
using CUmemoryPool = struct CUmemPoolHandle_st *;
using CUevent = struct CUevent_st *;

/// The values of the driver's enumerations that are used. Values of the
/// driver's ABI never change.
enum : int {
  CudaSuccess = 0,
  CudaErrorOutOfMemory = 2,
  CudaErrorNotInitialized = 3,
  CudaErrorDeinitialized = 4,
  CudaErrorNoDevice = 100,
  CudaErrorInvalidDevice = 101,
  CudaErrorNoBinaryForGpu = 209,
  CudaErrorUnsupportedPtxVersion = 222,
  CudaErrorNotReady = 600,

  DeviceMultiprocessorCount = 16,
  DeviceL2Bytes = 38,
  DeviceComputeMajor = 75,
  DeviceComputeMinor = 76,
  DeviceRegistersPerMultiprocessor = 82,
  DeviceMaxSharedPerBlockOptin = 97,

  PointerMemoryType = 2,
  PointerDeviceOrdinal = 9,
  MemoryTypeHost = 1,
  MemoryTypeDevice = 2,

  FunctionMaxDynamicShared = 8,
  FunctionNonPortableCluster = 14,

  JitErrorLogBuffer = 5,
  JitErrorLogBufferSize = 6,

  LaunchCooperative = 2,
  LaunchClusterDimension = 4,
  LaunchProgrammaticStreamSerialization = 6,

  MemAllocationPinned = 1,
  MemLocationDevice = 1,
  MemPoolReleaseThreshold = 4,

  HostAllocPortable = 1,
  HostAllocDeviceMap = 2,

  StreamNonBlocking = 1,
  StreamCaptureStatusNone = 0,
  StreamCaptureModeRelaxed = 2,
  EventDisableTiming = 2,
};

/// CUlaunchAttribute, as far as it is used.
struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int cooperative;
    int programmaticStreamSerializationAllowed;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72, "layout of CUlaunchAttribute");

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned gridX, gridY, gridZ;
  unsigned blockX, blockY, blockZ;
  unsigned sharedBytes;
  CUstream stream;
  LaunchAttribute *attributes;
  unsigned numAttributes;
};
static_assert(sizeof(LaunchConfig) == 56, "layout of CUlaunchConfig");

/// CUmemPoolProps.
struct MemPoolProperties {
  int allocationType;
  int handleTypes;
  int locationType;
  int locationId;
  void *securityAttributes;
  size_t maxSize;
  unsigned char reserved[56];
};
static_assert(sizeof(MemPoolProperties) == 88, "layout of CUmemPoolProps");

/// X(member, symbol, parameters): functions that every driver must have.
#define ATTNRT_CUDA_FUNCTIONS(X)                                               \
  X(init, "cuInit", (unsigned))                                                \
  X(getErrorName, "cuGetErrorName", (CUresult, const char **))                 \
  X(getErrorString, "cuGetErrorString", (CUresult, const char **))             \
  X(deviceGetCount, "cuDeviceGetCount", (int *))                               \
  X(deviceGet, "cuDeviceGet", (CUdevice *, int))                               \
  X(deviceGetName, "cuDeviceGetName", (char *, int, CUdevice))                 \
  X(deviceGetAttribute, "cuDeviceGetAttribute", (int *, int, CUdevice))        \
  X(deviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, CUdevice))               \
  X(primaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice))     \
  X(ctxGetCurrent, "cuCtxGetCurrent", (CUcontext *))                           \
  X(ctxSetCurrent, "cuCtxSetCurrent", (CUcontext))                             \
  X(ctxGetDevice, "cuCtxGetDevice", (CUdevice *))                              \
  X(ctxSynchronize, "cuCtxSynchronize", (void))                                \
  X(moduleLoadDataEx, "cuModuleLoadDataEx",                                    \
    (CUmodule *, const void *, unsigned, int *, void **))                      \
  X(moduleUnload, "cuModuleUnload", (CUmodule))                                \
  X(moduleGetFunction, "cuModuleGetFunction",                                  \
    (CUfunction *, CUmodule, const char *))                                    \
  X(funcSetAttribute, "cuFuncSetAttribute", (CUfunction, int, int))            \
  X(launchKernel, "cuLaunchKernel",                                            \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,   \
     unsigned, CUstream, void **, void **))                                    \
  X(memGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                       \
  X(memAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                        \
  X(memFree, "cuMemFree_v2", (CUdeviceptr))                                    \
  X(memcpyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr, const void *, size_t))        \
  X(memcpyDtoH, "cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t))              \
  X(memcpyAsync, "cuMemcpyAsync",                                              \
    (CUdeviceptr, CUdeviceptr, size_t, CUstream))                              \
  X(memsetD8Async, "cuMemsetD8Async",                                          \
    (CUdeviceptr, unsigned char, size_t, CUstream))                            \
  X(pointerGetAttributes, "cuPointerGetAttributes",                            \
    (unsigned, int *, void **, CUdeviceptr))                                   \
  X(eventCreate, "cuEventCreate", (CUevent *, unsigned))                       \
  X(eventDestroy, "cuEventDestroy_v2", (CUevent))                              \
  X(eventRecord, "cuEventRecord", (CUevent, CUstream))                         \
  X(eventQuery, "cuEventQuery", (CUevent))                                     \
  X(eventSynchronize, "cuEventSynchronize", (CUevent))                         \
  X(eventElapsedTime, "cuEventElapsedTime", (float *, CUevent, CUevent))

/// Functions that older drivers lack; null if absent.
#define ATTNRT_CUDA_OPTIONAL_FUNCTIONS(X)                                      \
  X(ctxGetId, "cuCtxGetId", (CUcontext, unsigned long long *))                 \
  X(launchKernelEx, "cuLaunchKernelEx",                                        \
    (const LaunchConfig *, CUfunction, void **, void **))                      \
  X(memHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned))               \
  X(streamCreate, "cuStreamCreate", (CUstream *, unsigned))                    \
  X(streamDestroy, "cuStreamDestroy_v2", (CUstream))                           \
  X(streamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))       \
  X(streamIsCapturing, "cuStreamIsCapturing", (CUstream, int *))               \
  X(exchangeCaptureMode, "cuThreadExchangeStreamCaptureMode", (int *))         \
  X(memAllocAsync, "cuMemAllocAsync", (CUdeviceptr *, size_t, CUstream))       \
  X(memFreeAsync, "cuMemFreeAsync", (CUdeviceptr, CUstream))                   \
  X(memPoolCreate, "cuMemPoolCreate",                                          \
    (CUmemoryPool *, const MemPoolProperties *))                               \
  X(memPoolSetAttribute, "cuMemPoolSetAttribute", (CUmemoryPool, int, void *)) \
  X(memAllocFromPoolAsync, "cuMemAllocFromPoolAsync",                          \
    (CUdeviceptr *, size_t, CUmemoryPool, CUstream))                           \
  X(tensorMapEncodeTiled, "cuTensorMapEncodeTiled",                            \
    (void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,        \
     const uint32_t *, const uint32_t *, int, int, int, int))

/// The driver's entry points.
struct CudaDriver {
// A list of parameters cannot be put into parentheses.
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define ATTNRT_MEMBER(member, symbol, parameters) CUresult(*member) parameters;
  ATTNRT_CUDA_FUNCTIONS(ATTNRT_MEMBER)
  ATTNRT_CUDA_OPTIONAL_FUNCTIONS(ATTNRT_MEMBER)
#undef ATTNRT_MEMBER
};

/// A stream that forks from a caller's stream.
struct SideStream;

/// Facts about a context. Never freed, so that a pointer to it may be kept.
struct ContextInfo {
  CUcontext context = nullptr;
  /// Tells a context from a later one at the same address; 0 if the driver
  /// cannot say.
  unsigned long long id = 0;
  int device = 0;
  int sms = 0;
  int major = 0;
  int minor = 0;
  int maxSharedBytes = 0;
  ContextInfo *next = nullptr;
  /// Device memory that empty tensor maps describe; 0 until one is needed.
  mutable std::atomic<CUdeviceptr> zeros{0};
  /// Where kernels report faults, in host memory; null until one may.
  mutable std::atomic<int32_t *> fault{nullptr};
  /// Streams that run concurrently with callers' streams; never freed.
  mutable std::atomic<SideStream *> sides{nullptr};
  /// The pool of scratch memory; null until some is needed.
  mutable std::atomic<CUmemoryPool> pool{nullptr};
};

/// Opens and initialises the driver once. On failure says why.
int32_t getDriver(const CudaDriver **driver);

/// The thread's current context. If there is none, the primary context of
/// `fallbackDevice` becomes current.
int32_t getCurrentContext(const CudaDriver &driver, int fallbackDevice,
                          const ContextInfo **info);

/// Both of the above, with device 0 to fall back on.
int32_t getDriverAndContext(const CudaDriver **driver,
                            const ContextInfo **info);

/// Fails if a kernel has reported a fault in that context, and clears it.
int32_t takeFault(const ContextInfo &context);

/// Turns a driver's result other than success into a status and an error text
/// "<action>: <driver's description> (<driver's name>)".
int32_t setCudaError(const CudaDriver &driver, CUresult result,
                     const char *action);

} // namespace attnrt

#endif // ATTN_LIB_RUNTIME_CUDADRIVER_H
